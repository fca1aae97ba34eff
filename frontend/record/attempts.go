package record

import (
	"math"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
)

// maxAttempts is how many attempts are remembered.
const maxAttempts = 1 << 18

// MaxAttemptsBytes is how many bytes they take.
const MaxAttemptsBytes = 38 << 20

// NoWorker is the worker of a task that came to none.
const NoWorker = math.MaxUint32

// Attempt is the one that gave a task its outcome.
type Attempt struct {
	Task         probe.TaskIndex
	Stage        int32
	Worker       uint32 // its key at the frontend, or NoWorker
	Tries        uint16 // it is the last one of so many
	Path         uint8
	Outcome      uint8
	Failure      uint8
	Binding      uint8
	Fetched      time.Duration         // that it took until its files were there
	Expected     time.Duration         // run; 0: not known
	ExpectedWait time.Duration         // wait at the worker, of a task placed by estimation
	Waited       time.Duration         // what that was
	Waits        [waitKinds]uint32     // for what it waited there, in units of tick, by Kind from OwnTenant on; all 0: it is not known
	Released     time.Duration         // when the task could start, since its job came
	Ends         [Phases]time.Duration // of its phases, likewise; all but the last are 0 if it is not known that it ran

	Before uint64 // the number of the one of its job before this; 0: it is the first
}

// Set makes a that of an outcome which came at a moment, of a job that came so long before the core had it. What the API numbers in its
// own way is left to whoever knows that.
func (a *Attempt) Set(o *frontend.Outcome, lead, came time.Duration) {
	*a = Attempt{} // in place, and field by field: this is done for each task
	a.Task, a.Stage, a.Worker = o.Task, o.Stage, NoWorker
	if o.Worker != "" {
		a.Worker = uint32(o.At)
	}
	a.Tries, a.Path, a.Binding = uint16(min(o.Attempts, math.MaxUint16)), uint8(o.Path), uint8(o.Way)
	a.Fetched, a.Expected, a.ExpectedWait, a.Waited = o.Usage.Fetch, o.Expected, o.ExpectedWait, o.Waited
	w := &o.Waits
	a.Waits = [...]uint32{toTicks(w.Own), toTicks(w.Others), toTicks(w.Long), toTicks(w.Closed), toTicks(w.Idle)}
	a.SetPhases(o, lead, came)
}

// SetPhases is that part of Set from which Phases are known.
func (a *Attempt) SetPhases(o *frontend.Outcome, lead, came time.Duration) {
	p := &o.Phases
	a.Released, a.Ends = 0, [Phases]time.Duration{}
	if p.Released > 0 {
		a.Released = lead + p.Released
	}
	if p.Finished > 0 {
		a.Ends = [...]time.Duration{lead + p.Sampled, lead + p.Queued, lead + p.Ready, lead + p.Bound, lead + p.Started, lead + p.Finished, 0}
	}
	a.Ends[Delivery] = came
}

func toTicks(d time.Duration) uint32 { return uint32(min(max(d, 0)>>tickBits, math.MaxUint32)) }

// Phases are how long its phases took.
func (a *Attempt) Phases() [Phases]time.Duration {
	return a.splitPhases(a.Released, a.Ends[Delivery])
}

// splitPhases makes phases of the moments at which they ended, from when the task could start to its end. None is negative, and they add
// up: one that seems to have ended before the one before it, or after the end, is taken to have ended then.
func (a *Attempt) splitPhases(released, end time.Duration) (phases [Phases]time.Duration) {
	at, end := released, max(released, end)
	for i, done := range a.Ends {
		if i == int(Delivery) {
			done = end
		}
		done = min(max(done, at), end)
		phases[i], at = done-at, done
	}
	return phases
}

// Attempts remembers the last ones. It grows with what there is to remember.
type Attempts struct {
	chunks [][]Attempt
	total  uint64 // ever; they are numbered from 1 on
}

const attemptsPerChunk = 1 << 12

// tick is about a microsecond: to divide by that takes longer than all the rest that is done for a task.
const (
	tickBits = 10
	tick     = 1 << tickBits * time.Nanosecond
)

// Next is room for one more, all of which is to be set, and its number.
func (r *Attempts) Next() (*Attempt, uint64) {
	at := r.total % maxAttempts
	if int(at/attemptsPerChunk) == len(r.chunks) {
		r.chunks = append(r.chunks, make([]Attempt, attemptsPerChunk))
	}
	r.total++
	return &r.chunks[at/attemptsPerChunk][at%attemptsPerChunk], r.total
}

// Count is how many there ever were.
func (r *Attempts) Count() uint64 { return r.total }

// Copy fills in the attempts that come after the one of a number, as far as there are any, and tells how many of those before them are
// forgotten.
func (r *Attempts) Copy(to []Attempt, after uint64) (n, skipped int) {
	if r.total > maxAttempts && after < r.total-maxAttempts {
		skipped = int(r.total - maxAttempts - after)
		after = r.total - maxAttempts
	}
	for ; n < len(to) && after < r.total; n++ {
		after++
		to[n] = *r.findAttempt(after)
	}
	return n, skipped
}

// findAttempt is the one of a number, or nil if it is forgotten.
func (r *Attempts) findAttempt(n uint64) *Attempt {
	if n == 0 || n+maxAttempts <= r.total {
		return nil
	}
	at := (n - 1) % maxAttempts
	return &r.chunks[at/attemptsPerChunk][at%attemptsPerChunk]
}

// Collect fills in the attempts of a job, the last ones first: the one of a number, and those before it. It returns the number of the
// next one, which is 0 if there is none; not ok if one of them is forgotten.
func (r *Attempts) Collect(to []Attempt, last uint64) (next uint64, ok bool) {
	for i := len(to) - 1; i >= 0; i-- {
		a := r.findAttempt(last)
		if a == nil {
			return 0, false
		}
		to[i], last = *a, a.Before
	}
	return last, true
}
