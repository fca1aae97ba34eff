package record

import (
	"math"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
)

// maxAttempts bounds the remembered attempts.
const maxAttempts = 1 << 18

// MaxAttemptsBytes bounds the memory of the remembered attempts, in bytes.
const MaxAttemptsBytes = 40 << 20

// NoWorker is the worker of a task that came to no worker.
const NoWorker = math.MaxUint32

// Attempt is the attempt that gave a task its outcome.
type Attempt struct {
	Task         probe.TaskIndex
	Stage        int32
	Worker       uint32 // number in WorkerNames, or NoWorker
	Tries        uint16 // number of attempts at the task, this one included
	Path         uint8
	Outcome      uint8
	Failure      uint8
	Binding      uint8
	Fetched      time.Duration // time until the task's files were there
	Expected     time.Duration // run; 0: not known
	ExpectedWait time.Duration // expected wait at the worker, of a task placed by estimation
	Waited       time.Duration // the wait at the worker
	// What the task waited for at the worker, in units of tick, by Kind from OwnTenant on. All 0: not known.
	Waits    [waitKinds]uint32
	Held     uint32        // before sampling, while the tenant's maximum was used, in units of tick
	Released time.Duration // when the task could start, since the job's arrival
	Again    time.Duration // when the task could go to a worker again, after attempts in vain; 0: there was none
	// Ends of the phases, since the job's arrival. If no run is known, all but the last are 0.
	Ends [Phases]time.Duration

	Previous uint64 // number of the job's previous attempt; 0: this is the first
}

// Set sets a from an outcome. lead is the time from the job's arrival until the core had the job, and came the time
// from the job's arrival until the outcome came. The caller sets Worker, if the task came to a worker, and Outcome and
// Failure, which hold numbers of the API.
func (a *Attempt) Set(o *frontend.Outcome, lead, came time.Duration) {
	*a = Attempt{} // in place, and field by field, because each task pays for it
	a.Task, a.Stage, a.Worker = o.Task, o.Stage, NoWorker
	a.Tries, a.Path, a.Binding = uint16(min(o.Attempts, math.MaxUint16)), uint8(o.Path), uint8(o.Way)
	a.Fetched, a.Expected, a.ExpectedWait, a.Waited = o.Usage.Fetch, o.Expected, o.ExpectedWait, o.Waited
	w := &o.Waits
	a.Waits = [...]uint32{toTicks(w.Own), toTicks(w.Others), toTicks(w.Long), toTicks(w.Closed), toTicks(w.Idle)}
	a.SetPhases(o, lead, came)
}

// SetPhases sets the fields of a that Phases reads.
func (a *Attempt) SetPhases(o *frontend.Outcome, lead, came time.Duration) {
	p := &o.Phases
	a.Released, a.Again, a.Held, a.Ends = 0, 0, toTicks(p.Held), [Phases]time.Duration{}
	if p.Released > 0 {
		a.Released = lead + p.Released
	}
	if p.Again > 0 {
		a.Again = lead + p.Again
	}
	if p.Finished > 0 {
		a.Ends = [...]time.Duration{lead + p.Sampled, lead + p.Queued, lead + p.Ready, lead + p.Bound, lead + p.Started,
			lead + p.Finished, 0}
	}
	a.Ends[Delivery] = came
}

func toTicks(d time.Duration) uint32 { return uint32(min(max(d, 0)>>tickBits, math.MaxUint32)) }

// Phases returns the length of each phase. Time in vain, before Again, is part of no phase.
func (a *Attempt) Phases() [Phases]time.Duration {
	return a.splitPhases(max(a.Released, a.Again), a.Ends[Delivery])
}

// splitPhases makes lengths from the ends of phases, between released and end. No length is negative, and the
// lengths add up. An end before the previous phase's end, or after end, is moved to that moment.
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

// Attempts remembers the latest attempts. Memory grows with the attempts, up to MaxAttemptsBytes.
type Attempts struct {
	chunks [][]Attempt
	total  uint64 // attempts ever; numbers start at 1
}

const attemptsPerChunk = 1 << 12

// tick is about a microsecond. A division by a microsecond would take longer than all other work for a task.
const (
	tickBits = 10
	tick     = 1 << tickBits * time.Nanosecond
)

// NewAttempt returns room for another attempt, and the number of the attempt. An old attempt may be in the room, so
// the caller must set all fields.
func (r *Attempts) NewAttempt() (*Attempt, uint64) {
	at := r.total % maxAttempts
	if int(at/attemptsPerChunk) == len(r.chunks) {
		r.chunks = append(r.chunks, make([]Attempt, attemptsPerChunk))
	}
	r.total++
	return &r.chunks[at/attemptsPerChunk][at%attemptsPerChunk], r.total
}

// Count returns the number of attempts ever.
func (r *Attempts) Count() uint64 { return r.total }

// Copy copies the attempts after number after into the slice to. skipped counts attempts that are forgotten already.
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

// Remembers reports whether attempt n is not forgotten. Then all later attempts are remembered, too.
func (r *Attempts) Remembers(n uint64) bool { return r.findAttempt(n) != nil }

// findAttempt returns attempt n, or nil if the attempt is forgotten.
func (r *Attempts) findAttempt(n uint64) *Attempt {
	if n == 0 || n+maxAttempts <= r.total {
		return nil
	}
	at := (n - 1) % maxAttempts
	return &r.chunks[at/attemptsPerChunk][at%attemptsPerChunk]
}

// Collect fills the slice to, from its end, with attempts of a job: attempt last, and the attempts before. The result
// next is the number to go on with, or 0. If an attempt is forgotten, ok is false.
func (r *Attempts) Collect(to []Attempt, last uint64) (next uint64, ok bool) {
	for i := len(to) - 1; i >= 0; i-- {
		a := r.findAttempt(last)
		if a == nil {
			return 0, false
		}
		to[i], last = *a, a.Previous
	}
	return last, true
}
