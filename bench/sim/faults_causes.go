package sim

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// A bad fate of a task must have a cause known to the run: a fault that may have hit an attempt of the task. The
// fault was at the worker or frontend of the attempt or on the connection, at the right time.

// harm is the effect of a fault on the attempts at a worker, of a frontend, or between the two.
type harm struct {
	fault  string
	f      *frontendNode // nil: any
	w      *workerNode   // nil: any
	begins time.Duration
	ends   time.Duration // the end of its effects
}

// noEndYet is the end of a harm without a known end.
const noEndYet = time.Duration(math.MaxInt64)

// noticeTime returns the longest time until the two ends of a connection have noticed the silence, and have made
// another connection.
func (r *faultRun) noticeTime() time.Duration {
	return r.net.lease + 2*r.net.ping + 2*redialAfter + r.settleTime()
}

// settleTime returns the longest time of a message under way.
func (r *faultRun) settleTime() time.Duration {
	return 4*r.net.delay + 20*r.net.jitter + 2*r.net.reorder
}

// noteHarm notes that a fault begins now, and lasts for some time; noEndYet: until endHarms. The effects last until the
// ends of a connection have noticed the fault.
func (r *faultRun) noteHarm(fault string, f *frontendNode, w *workerNode, lasts time.Duration) {
	h := &harm{fault: fault, f: f, w: w, begins: r.now, ends: noEndYet}
	if lasts < noEndYet {
		h.ends = r.now + lasts + r.noticeTime()
	}
	r.harms = append(r.harms, h)
}

// endHarms notes the end of a worker's harms without an end, because the worker has begun another life.
func (r *faultRun) endHarms(w *workerNode) {
	for _, h := range r.harms {
		if h.w == w && h.ends == noEndYet {
			h.ends = r.now + r.noticeTime()
		}
	}
}

// mayHit reports whether the harm may affect a frontend and a worker together at some time from since on.
func (h *harm) mayHit(f *frontendNode, w *workerNode, since time.Duration) bool {
	return (h.f == nil || h.f == f) && (h.w == nil || h.w == w) && h.ends >= since
}

// faultAttempt is an attempt at a task, known since the frontend sent the attempt.
type faultAttempt struct {
	id      probe.AttemptID
	f       *frontendNode
	w       *workerNode
	sent    time.Duration
	session int // of the job's client, as known to the frontend
	started bool
	isCopy  bool          // the frontend may have another attempt at the task
	adopter *frontendNode // the last frontend that claimed the attempt and heard of its run; nil: none
	isSpare bool          // sent as spare
	ended   bool          // failed by itself, or was stopped with a cause

	arrivedAt, startedAt time.Duration // at the worker; 0: not yet
	hasEnded             bool          // the run
	ran                  time.Duration
	ignoresStop          bool // runs on after it was told to stop
}

// harmOf returns a harm that may have hit t, or nil.
func (r *faultRun) harmOf(t *faultAttempt) *harm { return r.harmBetween(t.f, t.w, t.sent) }

// harmBetween returns a harm that may affect f and w together at some time from since on, or nil.
func (r *faultRun) harmBetween(f *frontendNode, w *workerNode, since time.Duration) *harm {
	for _, h := range r.harms {
		if h.mayHit(f, w, since) {
			return h
		}
	}
	return nil
}

// causeOf returns the harm that may have taken t from its task, or nil.
func (r *faultRun) causeOf(j *faultJob, t *faultAttempt) *harm {
	if h := r.harmOf(t); h != nil {
		return h
	}
	if j.owner != t.f || j.ownedSince > t.sent {
		return &harm{fault: "its client has left its frontend", begins: j.ownedSince, ends: noEndYet}
	}
	return nil
}

// mayBeLost reports whether an attempt at the task may have been lost.
func (r *faultRun) mayBeLost(j *faultJob, t *faultTask) bool {
	return slices.ContainsFunc(t.attempts, func(x *faultAttempt) bool { return r.causeOf(j, x) != nil })
}

// countDeaths returns how many attempts at a task may have been lost with a worker, as far as a frontend can
// tell.
func (r *faultRun) countDeaths(t *faultTask) int {
	n := 0
	for _, x := range t.attempts {
		if slices.ContainsFunc(r.harms, func(h *harm) bool {
			return h.w != nil && h.mayHit(x.f, x.w, x.sent) || h.f == x.f && h.mayHit(x.f, x.w, x.sent)
		}) {
			n++
		}
	}
	return n
}

// isStranded reports whether all workers that may run a task may have been away from f since a time.
func (r *faultRun) isStranded(j *faultJob, t *faultTask, f *frontendNode, since time.Duration) bool {
	for _, w := range r.workers {
		if w.down || r.whyCannotRun(j, t, w) != nil || j.passesOutputs(t.spec.Stage) &&
			w.welcome.Speaks.Features&probe.Passing == 0 {
			continue
		}
		if r.harmBetween(f, w, since) == nil {
			return false
		}
	}
	return true
}

// noteAttempts notes the attempts, kills and restamps of a frontend's step.
func (r *faultRun) noteAttempts(f *frontendNode, ev frontend.Event) {
	r.noteAdoptions(f, ev)
	for _, a := range f.acts {
		s, ok := a.(frontend.Send)
		if !ok {
			continue
		}
		switch m := s.Msg.(type) {
		case probe.Reserve:
			for i := range m.Count {
				r.jobOfPlace[placeKey{f.index, int(s.Worker), m.First + probe.ResID(i)}] = r.jobs[jobOf(m.Job)-1]
			}
			r.noteLaunches(f, s.Worker, r.jobs[jobOf(m.Job)-1], m.Launches...)
		case probe.Bind:
			j := r.jobOfPlace[placeKey{f.index, int(s.Worker), m.Res}]
			if m.Job != (probe.JobID{}) {
				j = r.jobs[jobOf(m.Job)-1]
			}
			r.noteLaunches(f, s.Worker, j, m.Launch)
			r.noteLaunches(f, s.Worker, j, m.Bundle...)
		case probe.Enqueue:
			j := r.jobs[jobOf(m.Job)-1]
			r.noteLaunches(f, s.Worker, j, m.Launch)
			x := r.attempts[m.Launch.Attempt]
			x.isCopy = r.copies > 0 && j.tasks[m.Launch.Task].spec.Retryable
			x.isSpare = m.Standing.Class == probe.Spare
		case probe.Kill:
			r.noteKill(f, m.Attempt)
		case probe.Restamp:
			if r.workers[s.Worker].ignoresRestamp {
				r.stats.Seen["restamps in vain"]++
			}
		}
	}
}

// noteAdoptions notes attempts of other frontends that f has claimed and that are said to run. f may copy such an
// attempt, as f copies its own late attempts.
func (r *faultRun) noteAdoptions(f *frontendNode, ev frontend.Event) {
	frame, ok := ev.(frontend.Frame)
	if !ok {
		return
	}
	for _, m := range frame.Msgs {
		if m, ok := m.(probe.Started); ok {
			if x := r.attempts[m.Attempt]; x != nil && x.f != f {
				x.adopter = f
			}
		}
	}
}

// noteLaunches notes attempts sent to a worker.
func (r *faultRun) noteLaunches(f *frontendNode, w frontend.Worker, j *faultJob, launches ...probe.Launch) {
	for i := range launches {
		x := &faultAttempt{id: launches[i].Attempt, f: f, w: r.workers[w], sent: r.now}
		if v := r.visits[f.index][j.id]; v != nil {
			x.session = v.session
		}
		t := &j.tasks[launches[i].Task]
		t.attempts = append(t.attempts, x)
		r.attempts[x.id] = x
	}
}

// noteKill marks a killed attempt as ended, if its result counts no more: the attempt is perhaps a copy, or the
// frontend reports an outcome of its task in the same step.
func (r *faultRun) noteKill(f *frontendNode, id probe.AttemptID) {
	x := r.attempts[id]
	x.ended = x.ended || x.isCopy || slices.ContainsFunc(f.acts, func(a frontend.Action) bool {
		d, ok := a.(*frontend.Done)
		return ok && slices.Contains(r.jobs[jobOf(d.Job)-1].tasks[d.Outcome.Task].attempts, x)
	})
}

// checkRestart checks that each earlier run of a task has failed or may have been lost.
func (r *faultRun) checkRestart(j *faultJob, t *faultTask, s *worker.Start) {
	current := r.attempts[s.Launch.Attempt]
	current.started = true
	if r.harmOf(current) != nil {
		return // the frontend gave this attempt up, and another attempt ran meanwhile
	}
	twice := false
	for _, x := range t.attempts {
		if x == current || !x.started || x.ended || r.harmOf(x) != nil {
			continue
		}
		isPair := x.isCopy || current.isCopy // a task and its copy
		if !twice && isPair && (x.f == current.f || x.adopter == current.f) {
			twice = true
			continue
		}
		// If the client has left its frontend, the next frontend may not reach the worker, or may hear the end of
		// the claim first. Or the worker had no room to keep the result until now.
		if x.w.core.Stats.Forgotten == 0 && !r.reorders && r.harmBetween(current.f, x.w, j.ownedSince) == nil ||
			r.causeOf(j, x) == nil {
			r.failRun("task %d of job %d starts again, as attempt %s, without a cause: %s runs or ran at w%d",
				s.Launch.Task, j.n, s.Launch.Attempt, x.id, x.w.index)
		}
	}
}

// mayPreempt reports whether a task may be stopped for regular work, by its job.
func (r *faultRun) mayPreempt(id probe.JobID, task probe.TaskIndex) bool {
	j := r.jobs[jobOf(id)-1]
	return j.spec.Class == frontend.Spare && j.tasks[task].spec.Retryable
}

// startOf returns the start of an attempt that runs or starts in this step, or nil.
func (w *workerNode) startOf(id probe.AttemptID) *worker.Start {
	for _, x := range w.running {
		if x.start.Launch.Attempt == id {
			return &x.start
		}
	}
	for _, a := range w.acts { // starts in this step
		if s, ok := a.(*worker.Start); ok && s.Launch.Attempt == id {
			return s
		}
	}
	return nil
}

// decideStop decides whether a task stops when told to, and returns true if so. A quarter of the tasks runs on, as Go
// functions may. decideStop counts such a task as ended, because most results of such tasks count no more.
func (r *faultRun) decideStop(s *worker.Start) bool {
	id := s.Launch.Attempt
	if id.Seq%4 > 0 {
		return true
	}
	r.stats.Seen["tasks that do not stop"]++
	x := r.attempts[id]
	x.ended, x.ignoresStop = true, true
	_, t := r.taskOf(s)
	t.running--
	return false
}

// checkStops checks the causes of a worker's stops, after a step of the worker. It also notes whether w is idle.
func (r *faultRun) checkStops(w *workerNode, ev worker.Event) {
	r.noteIdle(w)
	r.noteArrivals(ev)
	for _, a := range w.acts {
		a, ok := a.(worker.Stop)
		if !ok {
			continue
		}
		i := slices.IndexFunc(w.running, func(x *execution) bool { return x.start.Launch.Attempt == a.Attempt })
		if i < 0 {
			continue // the attempt has just ended
		}
		j, t := r.taskOf(&w.running[i].start)
		x := r.attempts[a.Attempt]
		if x.isSpare || r.mayPreempt(j.id, w.running[i].start.Launch.Task) {
			x.ended = true
			continue
		}
		if j.isCancelled || j.hasDeadline || t.reported > 0 || x.ended || r.causeOf(j, x) != nil {
			continue
		}
		r.failRun("w%d stops attempt %s at task %d of job %d without a cause", w.index, a.Attempt,
			w.running[i].start.Launch.Task, j.n)
	}
}

// noteArrivals notes when attempts come to a worker. Messages may come twice.
func (r *faultRun) noteArrivals(ev worker.Event) {
	received, ok := ev.(worker.Received)
	if !ok {
		return
	}
	var launches []probe.Launch
	switch m := received.Msg.(type) {
	case probe.Reserve:
		launches = m.Launches
	case probe.Bind:
		launches = append([]probe.Launch{m.Launch}, m.Bundle...)
	case probe.Enqueue:
		launches = []probe.Launch{m.Launch}
	}
	for i := range launches {
		if x := r.attempts[launches[i].Attempt]; x != nil && x.arrivedAt == 0 {
			x.arrivedAt = r.now
		}
	}
}

// idleSpan says since when a life of a worker has had room for any task.
type idleSpan struct {
	life  int32 // 0: the worker has no room
	since time.Duration
}

// largestDemand is the largest demand of tasks in these runs. Larger workers may have this room while other tasks
// run.
var largestDemand = slotsOf(3)

// noteIdle notes after a step of w whether w has room for any task, and no queue.
func (r *faultRun) noteIdle(w *workerNode) {
	idle := &r.idle[w.index]
	switch load := w.core.Load(); {
	case load.Queued > 0 || load.Free != w.cfg.Capacity && !largestDemand.Fits(load.Free):
		*idle = idleSpan{}
	case idle.life != w.life:
		*idle = idleSpan{w.life, r.now}
	}
}

// checkRefusal fails the run if f refuses a job for waiting jobs, although an idle worker could run all tasks of
// the job, and f has had the time to hear of the worker.
func (r *faultRun) checkRefusal(f *frontendNode, j *faultJob, err *frontend.RefusedError) {
	if !strings.Contains(err.Message, "for its first task to start") ||
		f.frontendCore().Quota(j.spec.Tenant).All != tenants.Unlimited {
		return // or the tenant may not use the free room
	}
	if slices.ContainsFunc(r.jobs, func(o *faultJob) bool {
		return o.owner == f && !o.ended && o.spec.Tenant == j.spec.Tenant && !o.spec.Policy.Resample
	}) {
		return // a job of such a policy waits for the workers that the job asked first, beside any idle worker
	}
	heard := r.now - r.net.ping - 50*time.Millisecond
	for _, w := range r.workers {
		idle := r.idle[w.index]
		if w.down || w.hung != nil || idle.life != w.life || idle.since > heard ||
			r.drainingLife[w.index] == w.life || r.harmBetween(f, w, heard) != nil {
			continue
		}
		if !slices.ContainsFunc(j.tasks, func(t faultTask) bool { return r.whyCannotRun(j, &t, w) != nil }) {
			r.failRun("f%d refuses job %d though w%d has been idle for %v: %v", f.index, j.n, w.index,
				r.now-idle.since, err)
		}
	}
}
