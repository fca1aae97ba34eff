package view

import (
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// Runs is how long the tasks of a function, or of one class of them, have lately run, over all jobs.
type Runs struct {
	name              string
	node              list.Node[*Runs]
	count             int
	longest, shortest time.Duration // near those of some dozens
	stats             estimate.Stats
}

// maxRuns bounds the functions and classes that are remembered: those go that were asked for the longest time ago.
const maxRuns = 4096

// RunsOf is what the runs of a function's tasks of one class are remembered by; "" is no class.
func RunsOf(function, class string) string {
	if class == "" {
		return function
	}
	return function + "\x00" + class
}

// Runs are those that are remembered by a name, which they now are if they were not.
func (v *View) Runs(name string) *Runs {
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

// KnownRuns are those that are remembered by a name, or nil.
func (v *View) KnownRuns(name string) *Runs { return v.runs[name] }

// Links makes it an item of lists.
func (r *Runs) Links() *list.Node[*Runs] { return &r.node }

// Ran takes a run into account. It reports whether more should be told of it to Stats: of short ones a few will do.
func (r *Runs) Ran(run time.Duration) (more bool) {
	const some, few = 8, 16
	run = max(run, 1)
	if r.count++; r.count == 1 {
		r.longest, r.shortest = run, run
	}
	r.longest = max(run, r.longest-r.longest/32)
	r.shortest = min(run, r.shortest+r.shortest/32+1)
	return r.count <= some || r.count%few == 0
}

// Any reports whether any run is known.
func (r *Runs) Any() bool { return r.count > 0 }

// Longest is near the longest of the last some dozens; 0 if none is known.
func (r *Runs) Longest() time.Duration { return r.longest }

// Shortest is near the shortest of those.
func (r *Runs) Shortest() time.Duration { return r.shortest }

// Correct is a task's estimate as far as what became of earlier ones lets it stand.
func (r *Runs) Correct(hint time.Duration) time.Duration { return r.stats.Correct(hint) }

// Stats is what estimates are made from.
func (r *Runs) Stats() *estimate.Stats { return &r.stats }

// Steady is how long a task will run, if the function's tasks all take nearly the same, or differ by less than a round trip;
// 0 if not. It is for tasks without an estimate of their own.
func (r *Runs) Steady(trip time.Duration) time.Duration {
	if r.count < 8 || r.longest-r.shortest > max(r.shortest/8, trip) {
		return 0
	}
	return r.shortest
}

// Trip is how long two messages over a link take, each with what it waits for at both ends; 0 if nothing is known.
func (v *View) Trip() time.Duration { return v.trip }

// NoteTrip takes a round trip into account.
func (v *View) NoteTrip(trip time.Duration) {
	if v.trip == 0 {
		v.trip = trip
	}
	v.trip += (trip - v.trip) / 64
}

// Price is what it costs to send a message or to take one in: the CPU for it, and what that makes other work wait; 0 if
// nothing is known.
func (v *View) Price() time.Duration { return v.price }

// maxBusy bounds how busy a machine is taken to be: it is not measured so exactly that more could be told apart.
const maxBusy = 0.95

// NoteMessageCost notes how much CPU a message needs, and which share of the machine's CPUs is in use: what has to wait behind so much
// other work takes 1/(1-share) times as long.
func (v *View) NoteMessageCost(message time.Duration, share float64) {
	v.price = time.Duration(float64(message) / (1 - min(share, maxBusy)))
}
