package record

import (
	"cmp"
	"time"
)

// Kind is one that time is blamed on.
type Kind uint8

// Those before are the phases of tasks.
const (
	Barrier      = Kind(Phases) + iota // from the end of the last task of the stages before until the next stage started
	Fetch                              // of the queue, while the task's files were not there
	Excess                             // of the run, what was more than expected
	Outside                            // of a task of which it is not known what became of it where
	OwnTenant                          // of the queue, behind short tasks of its own tenant; Queue has what went to other tasks of its job, or is not known
	OtherTenants                       // behind short tasks of others
	LongTasks                          // behind long tasks
	ClosedShare                        // while there was room, but closed to it
	IdleSlot                           // while room was held for a frontend to say what to run
	kindsEnd
	Kinds = int(kindsEnd)
)

// waitKinds is how many kinds a wait in a queue may be for.
const waitKinds = int(kindsEnd - OwnTenant)

func (k Kind) String() string {
	if int(k) < Phases {
		return Measure(k).String()
	}
	return [...]string{"barrier", "fetch", "excess", "outside", "own tenant", "other tenants", "long tasks", "closed share", "idle slot"}[int(k)-Phases]
}

// Blame is what a response went on. It adds up to the response.
type Blame [Kinds]time.Duration

// NewBlame splits the response of a job, of which each stage comes after the stages so numbered, along its critical path: the task
// that ended last, before it the one that ended last of the stages that its own had waited for, and so on.
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
	explainUntil, cause := response, Kind(Delivery) // until when it is to be explained, and what came after a task's end
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

// endedLater reports whether an attempt ended after another one: of two whose ends were heard of at once, the one that ran for longer.
func (a *Attempt) endedLater(b *Attempt) bool {
	return cmp.Or(cmp.Compare(a.Ends[Delivery], b.Ends[Delivery]), cmp.Compare(a.Ends[Run], b.Ends[Run])) > 0
}

// lastBefore is the task that ended last of the stages that a stage waited for; of one of which no task is known, those before it.
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

// addTask blames the time of a task from when it could start to its end.
func (b *Blame) addTask(a *Attempt, released, done time.Duration) {
	if a.Ends[Run] == 0 {
		b[Outside] += done - released
		return
	}
	phases := a.splitPhases(released, done)
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

// addWaits blames a task's time in the queue on what its worker says that the last wait was for, and returns how much that is. Before
// that, the places of its job were taken by other tasks of it.
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
