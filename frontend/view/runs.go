package view

import (
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// Runs holds recent run times of a tenant's tasks of a function, or of a class of the function's tasks, over all jobs.
// While this frontend has seen few runs of the tenant, the lesson of another frontend counts. Without any lesson about
// the tenant, the runs of other tenants count. Estimates of other tenants never count: a tenant with bad estimates
// says nothing about the estimates of others.
type Runs struct {
	key    runsKey
	node   list.Node[*Runs]
	holder *holder      // nil: not in the table
	own    history      // of runs that this frontend has seen
	lesson *Lesson      // the last lesson made of own; nil: none yet
	heard  *heardLesson // the best lesson of other frontends; nil: none
	others *Runs        // the runs of all tenants; nil: the entry itself holds them
	users  int          // number of Runs in the table with these others
}

// history holds the lessons of recent runs.
type history struct {
	count             int
	longest, shortest time.Duration // about the longest and shortest of the last few dozen
	stats             estimate.Stats
	reads             estimate.Reads
}

// RunsName returns the name under which the runs of a function's tasks are remembered. class is the class of the
// tasks; "" means no class.
func RunsName(function, class string) string {
	if class == "" {
		return function
	}
	return function + "\x00" + class
}

// Links makes Runs an item of lists.
func (r *Runs) Links() *list.Node[*Runs] { return &r.node }

// history returns the tenant's history, or the history of other tenants if the tenant has none.
func (r *Runs) history() *history {
	if h := r.tenantHistory(); h.count > 0 || r.others == nil {
		return h
	}
	return r.others.tenantHistory()
}

// tenantHistory returns the tenant's history. The runs at this frontend count, unless a lesson of another frontend has
// more samples. A lesson has at most estimate.MaxSamples samples, so the lesson no longer counts after as many runs.
func (r *Runs) tenantHistory() *history {
	if r.heard != nil && r.own.stats.N() < len(r.heard.lesson.Samples) {
		return &r.heard.history
	}
	return &r.own
}

// NoteRun notes a run. sample reports whether the caller should call Learn, too: for the first 8 runs, then for every
// 16th. For short runs a few samples are enough.
func (r *Runs) NoteRun(run time.Duration) (sample bool) {
	if r.others != nil {
		r.others.own.noteRun(run)
	}
	return r.own.noteRun(run)
}

func (h *history) noteRun(run time.Duration) (sample bool) {
	const firstRuns, sampleEvery = 8, 16
	run = max(run, 1)
	if h.count++; h.count == 1 {
		h.longest, h.shortest = run, run
	}
	h.longest = max(run, h.longest-h.longest/32)
	h.shortest = min(run, h.shortest+h.shortest/32+1)
	return h.count <= firstRuns || h.count%sampleEvery == 0
}

// Learn adds a run to the samples for estimates.
func (r *Runs) Learn(run estimate.Finished) {
	r.own.stats.Add(run)
	if r.others != nil {
		run.Hint = 0
		r.others.own.stats.Add(run)
	}
}

// Any reports whether any run is known.
func (r *Runs) Any() bool { return r.history().count > 0 }

// Longest returns about the longest of the last few dozen runs; 0: no run is known.
func (r *Runs) Longest() time.Duration { return r.history().longest }

// Shortest returns about the shortest of the last few dozen runs.
func (r *Runs) Shortest() time.Duration { return r.history().shortest }

// Correct corrects a task's estimate by the errors of the tenant's earlier estimates.
func (r *Runs) Correct(hint time.Duration) time.Duration {
	return r.tenantHistory().stats.Correct(hint)
}

// Stats returns the samples for estimates. Add further samples by Learn.
func (r *Runs) Stats() *estimate.Stats { return &r.history().stats }

// Steady returns the expected run time of a task without an estimate. It is 0 unless the function has at least 8
// runs, and all take nearly the same or differ by less than a round trip.
func (r *Runs) Steady(trip time.Duration) time.Duration {
	h := r.history()
	if h.count < 8 || h.longest-h.shortest > max(h.shortest/8, trip) {
		return 0
	}
	return h.shortest
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
