package record

import "time"

// Kind is one that time is blamed on.
type Kind uint8

// Those before are the phases of tasks.
const (
	Barrier = Kind(Phases) + iota // from the end of the last task of the stages before until the next stage started
	Fetch                         // of the queue, while the task's files were not there
	Excess                        // of the run, what was more than expected
	Outside                       // of a task of which it is not known what became of it where
	kindsEnd
	Kinds = int(kindsEnd)
)

func (k Kind) String() string {
	if int(k) < Phases {
		return Measure(k).String()
	}
	return [...]string{"barrier", "fetch", "excess", "outside"}[int(k)-Phases]
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
		if x := last[int(a.Stage)]; x == nil || a.Ends[Delivery] > x.Ends[Delivery] {
			last[int(a.Stage)] = a
		}
		if end == nil || a.Ends[Delivery] > end.Ends[Delivery] {
			end = a
		}
	}
	left, then := response, Kind(Delivery) // until when it is to be explained, and what came after a task's end
	for a := end; a != nil; a = before(after, int(a.Stage), last) {
		done := min(max(a.Ends[Delivery], 0), left)
		released := min(max(a.Released, 0), done)
		b[then] += left - done
		b.add(a, released, done)
		left, then = released, Barrier
	}
	b[then] += left
	return b
}

// before is the task that ended last of the stages that a stage waited for; of one of which no task is known, those before it.
func before(after [][]int, stage int, last map[int]*Attempt) (found *Attempt) {
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
			} else if found == nil || a.Ends[Delivery] > found.Ends[Delivery] {
				found = a
			}
		}
	}
	return found
}

// add blames the time of a task from when it could start to its end.
func (b *Blame) add(a *Attempt, released, done time.Duration) {
	if a.Ends[Run] == 0 {
		b[Outside] += done - released
		return
	}
	phases := a.split(released, done)
	fetch := min(max(a.Fetched, 0), phases[Queue])
	phases[Queue] -= fetch
	b[Fetch] += fetch
	if a.Expected > 0 {
		excess := max(phases[Run]-a.Expected, 0)
		phases[Run] -= excess
		b[Excess] += excess
	}
	for i, d := range phases {
		b[i] += d
	}
}
