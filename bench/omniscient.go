package bench

import (
	"cmp"
	"slices"
	"time"
)

// Omniscient returns the response of each job under a central queue that knows every slot and needs no time to act.
// Tasks start first come, first served, in the order of arrivals. Equal arrivals keep the order of the arguments,
// the tasks of a job the order of its durations. Each task starts the moment a slot is free.
//
// arrivals[i], durations[i] and the i-th result belong to job i. Arrivals count from the start of the run, when all
// slots are free, and need not be sorted. A job without tasks is answered at once. slots is at least 1.
//
// The omniscient response is the queueing caused by the load. Only the time above it is due to the scheduler.
func Omniscient(arrivals []time.Duration, durations [][]time.Duration, slots int) []time.Duration {
	order := make([]int, len(arrivals))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(arrivals[a], arrivals[b]) })

	free := make(freeTimes, slots) // all slots are free at 0: a valid heap
	responses := make([]time.Duration, len(arrivals))
	for _, i := range order {
		end := arrivals[i]
		for _, d := range durations[i] {
			end = max(end, free.runTask(arrivals[i], d))
		}
		responses[i] = end - arrivals[i]
	}
	return responses
}

// freeTimes is a binary heap of the moments at which slots fall free, earliest first.
type freeTimes []time.Duration

// runTask puts a task of length d that arrived at arrival onto the slot that is free first. runTask returns the end
// of the task.
func (h freeTimes) runTask(arrival, d time.Duration) time.Duration {
	end := max(h[0], arrival) + d
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if right := child + 1; right < len(h) && h[right] < h[child] {
			child = right
		}
		if h[child] >= end {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = end
	return end
}
