package record

import (
	"cmp"
	"time"
)

// Kind is a cause that time is blamed on.
type Kind uint8

// The kinds below Barrier are the phases of tasks.
const (
	// from the end of the last task of the earlier stages until the next stage started
	Barrier = Kind(Phases) + iota
	Fetch   // of the queue, while the task's files were not there
	Excess  // of the run, the part beyond the expected time
	Outside // the time of a task with no known run, without InVain
	// Of the queue, behind short tasks of the same tenant. Queue keeps the rest: behind tasks of the same job, or
	// not known.
	OwnTenant
	OtherTenants // behind short tasks of other tenants
	LongTasks    // behind long tasks
	ClosedShare  // while there was room, closed to the task
	IdleSlot     // while room was held for a frontend's answer
	InVain       // earlier attempts at the task, which gave no outcome, and the rests after them
	Maximum      // of the sampling, while the tenant's maximum was used
	kindsEnd
	Kinds = int(kindsEnd)
)

// waitKinds is the number of kinds for waits in a queue.
const waitKinds = int(InVain - OwnTenant)

// String returns the name of a phase or of a cause.
func (k Kind) String() string {
	if int(k) < Phases {
		return Measure(k).String()
	}
	return [...]string{"barrier", "fetch", "excess", "outside", "own tenant", "other tenants", "long tasks",
		"closed share", "idle slot", "in vain", "maximum"}[int(k)-Phases]
}

// Blame splits a response by kind. The parts add up to the response.
type Blame [Kinds]time.Duration

// NewBlame splits the response of a job along its critical path. The path goes back from the last task of all to
// the last task of the earlier stages, and so on. Each element of after lists the numbers of the stages before a
// stage.
func NewBlame(after [][]int, response time.Duration, attempts []Attempt) (b Blame) {
	last := make(map[int]*Attempt, len(after)) // of each stage
	var end *Attempt
	for i := range attempts {
		a := &attempts[i]
		if x := last[int(a.Stage)]; x == nil || a.endedLater(x) {
			last[int(a.Stage)] = a
		}
		if end == nil || a.endedLater(end) {
			end = a
		}
	}
	// The time still to be explained, and the kind of the time between a task's end and then.
	explainUntil, cause := response, Kind(Delivery)
	for a := end; a != nil; a = lastBefore(after, int(a.Stage), last) {
		done := min(max(a.Ends[Delivery], 0), explainUntil)
		released := min(max(a.Released, 0), done)
		b[cause] += explainUntil - done
		b.addTask(a, released, done)
		explainUntil, cause = released, Barrier
	}
	b[cause] += explainUntil
	return b
}

// endedLater reports whether a ended after b. If both outcomes came at once, the end of the run counts.
func (a *Attempt) endedLater(b *Attempt) bool {
	return cmp.Or(cmp.Compare(a.Ends[Delivery], b.Ends[Delivery]), cmp.Compare(a.Ends[Run], b.Ends[Run])) > 0
}

// lastBefore returns the task that ended last of the stages before a stage, or nil. If no task of such a stage is
// known, the stages before that stage are searched instead.
func lastBefore(after [][]int, stage int, last map[int]*Attempt) (found *Attempt) {
	seen := map[int]bool{stage: true}
	for look := []int{stage}; len(look) > 0; look = look[1:] {
		if look[0] >= len(after) {
			continue
		}
		for _, k := range after[look[0]] {
			if seen[k] {
				continue
			}
			seen[k] = true
			if a := last[k]; a == nil {
				look = append(look, k)
			} else if found == nil || a.endedLater(found) {
				found = a
			}
		}
	}
	return found
}

// addTask blames the time of a task from its release to its end.
func (b *Blame) addTask(a *Attempt, released, done time.Duration) {
	again := min(max(a.Again, released), done)
	b[InVain] += again - released
	if a.Ends[Run] == 0 {
		b[Outside] += done - again
		return
	}
	phases := a.splitPhases(again, done)
	held := min(time.Duration(a.Held)*tick, phases[Sampling])
	phases[Sampling] -= held
	b[Maximum] += held
	fetch := min(max(a.Fetched, 0), phases[Queue])
	phases[Queue] -= fetch
	b[Fetch] += fetch
	phases[Queue] -= b.addWaits(a, phases[Queue])
	if a.Expected > 0 {
		excess := max(phases[Run]-a.Expected, 0)
		phases[Run] -= excess
		b[Excess] += excess
	}
	for i, d := range phases {
		b[i] += d
	}
}

// addWaits blames a task's time in the queue on the causes that the worker reports, and returns the blamed time. The
// worker reports only the last wait of the place. The time before went to other tasks of the job that took the job's
// places, and is not blamed here.
func (b *Blame) addWaits(a *Attempt, queue time.Duration) time.Duration {
	all, sum, given := uint64(0), uint64(0), time.Duration(0)
	for _, ticks := range a.Waits {
		all += uint64(ticks)
	}
	if all == 0 {
		return 0
	}
	queue = min(queue, time.Duration(all)*tick)
	for i, ticks := range a.Waits {
		sum += uint64(ticks)
		until := time.Duration(float64(queue) * (float64(sum) / float64(all)))
		if sum == all {
			until = queue
		}
		b[OwnTenant+Kind(i)] += until - given
		given = until
	}
	return queue
}
