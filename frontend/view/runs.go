package view

import (
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// Runs holds recent run times of the tasks of a function, or of a class of its tasks, over all jobs.
type Runs struct {
	name              string
	node              list.Node[*Runs]
	count             int
	longest, shortest time.Duration // about the longest and shortest of the last few dozen
	stats             estimate.Stats
}

// maxRuns bounds the functions and classes remembered. The least recently requested go first.
const maxRuns = 4096

// RunsName returns the name under which the runs of a function's tasks are remembered. class is the class of the
// tasks; "" means no class.
func RunsName(function, class string) string {
	if class == "" {
		return function
	}
	return function + "\x00" + class
}

// EnsureRuns returns the runs remembered by a name, and creates an empty entry if there is none. A new entry may push
// out the least recently requested entry.
func (v *View) EnsureRuns(name string) *Runs {
	r := v.runs[name]
	if r == nil {
		if len(v.runs) >= maxRuns {
			delete(v.runs, v.recent.Pop().name)
		}
		r = &Runs{name: name}
		v.runs[name] = r
	} else {
		v.recent.Remove(r)
	}
	v.recent.Push(r)
	return r
}

// KnownRuns returns the runs remembered by a name, or nil.
func (v *View) KnownRuns(name string) *Runs { return v.runs[name] }

// Links makes Runs an item of lists.
func (r *Runs) Links() *list.Node[*Runs] { return &r.node }

// NoteRun notes a run. sample reports whether the caller should add the run to Stats, too: the first 8 runs, then every
// 16th. For short runs a few samples are enough.
func (r *Runs) NoteRun(run time.Duration) (sample bool) {
	const firstRuns, sampleEvery = 8, 16
	run = max(run, 1)
	if r.count++; r.count == 1 {
		r.longest, r.shortest = run, run
	}
	r.longest = max(run, r.longest-r.longest/32)
	r.shortest = min(run, r.shortest+r.shortest/32+1)
	return r.count <= firstRuns || r.count%sampleEvery == 0
}

// Any reports whether any run is known.
func (r *Runs) Any() bool { return r.count > 0 }

// Longest returns about the longest of the last few dozen runs; 0: no run is known.
func (r *Runs) Longest() time.Duration { return r.longest }

// Shortest returns about the shortest of the last few dozen runs.
func (r *Runs) Shortest() time.Duration { return r.shortest }

// Correct corrects a task's estimate by the errors of earlier estimates.
func (r *Runs) Correct(hint time.Duration) time.Duration { return r.stats.Correct(hint) }

// Stats returns the samples for estimates.
func (r *Runs) Stats() *estimate.Stats { return &r.stats }

// Steady returns the expected run time of a task without an estimate. It is 0 unless the function has at least 8
// runs, and all take nearly the same or differ by less than a round trip.
func (r *Runs) Steady(trip time.Duration) time.Duration {
	if r.count < 8 || r.longest-r.shortest > max(r.shortest/8, trip) {
		return 0
	}
	return r.shortest
}

// Trip returns the time of two messages over a link, there and back, with the waits at both ends; 0: unknown.
func (v *View) Trip() time.Duration { return v.trip }

// NoteTrip notes a round trip. Trip is a moving average, in which a new trip counts for 1/64.
func (v *View) NoteTrip(trip time.Duration) {
	if v.trip == 0 {
		v.trip = trip
	}
	v.trip += (trip - v.trip) / 64
}

// Price returns the cost of sending or receiving a message: the CPU time of the message, plus the delay for other
// work; 0: unknown.
func (v *View) Price() time.Duration { return v.price }

// maxBusy bounds the measured use of a machine, as a share: the measurement is too coarse to distinguish higher
// values.
const maxBusy = 0.95

// NoteMessageCost notes the CPU time of a message, and the share of the machine's CPUs in use. Work that waits
// behind a load of share takes 1/(1-share) times as long, so Price is message/(1-share).
func (v *View) NoteMessageCost(message time.Duration, share float64) {
	v.price = time.Duration(float64(message) / (1 - min(share, maxBusy)))
}
