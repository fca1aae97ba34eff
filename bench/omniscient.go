package bench

import (
	"cmp"
	"slices"
	"time"
)

// Omniscient returns what each job's response would have been under one central queue that knows every slot
// and needs no time to act: tasks start first come, first served, in the order of arrivals (ties: of the
// arguments) and within a job in the order of its durations, each the moment a slot is free. arrivals[i] (from
// the start of the run, when all slots are free) and durations[i] belong to job i, and so does the i-th
// result; arrivals need not be sorted. A job without tasks is answered at once. There is at least one slot.
//
// The response beyond it is the scheduler's own doing; up to it, it is the queueing that the load makes.
func Omniscient(arrivals []time.Duration, durations [][]time.Duration, slots int) []time.Duration {
	order := make([]int, len(arrivals))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(arrivals[a], arrivals[b]) })

	free := make(freeTimes, slots) // all free at 0, which is a heap
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

// freeTimes is a binary heap of the moments at which the slots fall free, the earliest first.
type freeTimes []time.Duration

// runTask puts a task of length d that arrived at the given moment onto the slot that is free first, and returns
// when the task ends.
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
