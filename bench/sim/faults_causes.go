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

// What becomes of a task must have a cause that the run can name: a fault that hit one of its attempts, in the time in
// which it may do so, at the worker or the frontend of that attempt, or on the connection between them.

// harm is what a fault does to the attempts at a worker, of a frontend, or between the two.
type harm struct {
	what  string
	f     *frontendNode // nil: of whichever
	w     *workerNode   // nil: at whichever
	from  time.Duration
	until time.Duration // when its effects are over
}

// unending is the end of a harm of which it is not known yet.
const unending = time.Duration(math.MaxInt64)

// notice is how long it takes at most until both ends of a connection have noticed that the other one is silent and
// have made another connection.
func (r *faultRun) notice() time.Duration {
	return r.net.lease + 2*r.net.ping + 2*redial + r.settles()
}

// settles is how long what was sent before may still be under way.
func (r *faultRun) settles() time.Duration {
	return 4*r.net.delay + 20*r.net.jitter + 2*r.net.reorder
}

// harms notes that a fault begins.
func (r *faultRun) harms(what string, f *frontendNode, w *workerNode, lasts time.Duration) {
	h := &harm{what: what, f: f, w: w, from: r.now, until: unending}
	if lasts < unending {
		h.until = r.now + lasts + r.notice()
	}
	r.harmed = append(r.harmed, h)
}

// mended notes that what a worker suffered from, which has begun another life, is over.
func (r *faultRun) mended(w *workerNode) {
	for _, h := range r.harmed {
		if h.w == w && h.until == unending {
			h.until = r.now + r.notice()
		}
	}
}

// hits reports whether the harm is one to what a frontend and a worker have between them at some time from since on.
func (h *harm) hits(f *frontendNode, w *workerNode, since time.Duration) bool {
	return (h.f == nil || h.f == f) && (h.w == nil || h.w == w) && h.until >= since
}

// try is an attempt at a task, from when it was sent.
type try struct {
	id      probe.AttemptID
	f       *frontendNode
	w       *workerNode
	sent    time.Duration
	session int // of the job's client, as its frontend knew it
	started bool
	copy    bool // its task has another one at that frontend
	spare   bool // it was sent as such
	over    bool // it has failed by itself, or was stopped, which had its cause
	goesOn  bool // though it was told to stop
}

// harm is the one that has hit an attempt, nil if there is none.
func (r *faultRun) harm(t *try) *harm { return r.between(t.f, t.w, t.sent) }

// between is a harm to what a frontend and a worker have between them at some time from since on, nil if there is none.
func (r *faultRun) between(f *frontendNode, w *workerNode, since time.Duration) *harm {
	for _, h := range r.harmed {
		if h.hits(f, w, since) {
			return h
		}
	}
	return nil
}

// cause is the harm that may have taken an attempt from its task, nil if there is none.
func (r *faultRun) cause(j *faultJob, t *try) *harm {
	if h := r.harm(t); h != nil {
		return h
	}
	if j.owner != t.f || j.since > t.sent {
		return &harm{what: "its client has left its frontend", from: j.since, until: unending}
	}
	return nil
}

// anyHarmed reports whether an attempt at a task may have been lost.
func (r *faultRun) anyHarmed(j *faultJob, t *faultTask) bool {
	return slices.ContainsFunc(t.tries, func(x *try) bool { return r.cause(j, x) != nil })
}

// deaths is how many attempts at a task may have been lost with a worker, as far as a frontend can tell.
func (r *faultRun) deaths(t *faultTask) int {
	n := 0
	for _, x := range t.tries {
		if slices.ContainsFunc(r.harmed, func(h *harm) bool {
			return h.w != nil && h.hits(x.f, x.w, x.sent) || h.f == x.f && h.hits(x.f, x.w, x.sent)
		}) {
			n++
		}
	}
	return n
}

// stranded reports whether all workers that may run a task may have been away from a frontend for a time.
func (r *faultRun) stranded(j *faultJob, t *faultTask, f *frontendNode, since time.Duration) bool {
	for _, w := range r.workers {
		if w.down || r.may(j, t, w) != nil || j.passes(t.spec.Stage) && w.welcome.Speaks.Features&probe.Passing == 0 {
			continue
		}
		if r.between(f, w, since) == nil {
			return false
		}
	}
	return true
}

// attempted notes the attempts that a frontend makes.
func (r *faultRun) attempted(f *frontendNode, _ frontend.Event) {
	for _, a := range f.acts {
		s, ok := a.(frontend.Send)
		if !ok {
			continue
		}
		switch m := s.Msg.(type) {
		case probe.Reserve:
			for i := range m.Count {
				r.placeOf[placeKey{f.index, int(s.Worker), m.First + probe.ResID(i)}] = r.jobs[jobOf(m.Job)-1]
			}
			r.tried(f, s.Worker, r.jobs[jobOf(m.Job)-1], m.Launches...)
		case probe.Bind:
			j := r.placeOf[placeKey{f.index, int(s.Worker), m.Res}]
			if m.Job != (probe.JobID{}) {
				j = r.jobs[jobOf(m.Job)-1]
			}
			r.tried(f, s.Worker, j, m.Launch)
			r.tried(f, s.Worker, j, m.Bundle...)
		case probe.Enqueue:
			j := r.jobs[jobOf(m.Job)-1]
			r.tried(f, s.Worker, j, m.Launch)
			x := r.tries[m.Launch.Attempt]
			x.copy = r.copies > 0 && j.tasks[m.Launch.Task].spec.Retryable
			x.spare = m.Standing.Class == probe.Spare
		case probe.Kill:
			r.dismissed(f, m.Attempt)
		case probe.Restamp:
			if r.workers[s.Worker].deaf {
				r.stats.Seen["restamps in vain"]++
			}
		}
	}
}

func (r *faultRun) tried(f *frontendNode, w frontend.Worker, j *faultJob, launches ...probe.Launch) {
	for i := range launches {
		x := &try{id: launches[i].Attempt, f: f, w: r.workers[w], sent: r.now}
		if v := r.visits[f.index][j.id]; v != nil {
			x.session = v.session
		}
		t := &j.tasks[launches[i].Task]
		t.tries = append(t.tries, x)
		r.tries[x.id] = x
	}
}

// dismissed notes that an attempt is over, and its result in vain, of whose task its frontend gives another outcome just now.
func (r *faultRun) dismissed(f *frontendNode, id probe.AttemptID) {
	x := r.tries[id]
	x.over = x.over || x.copy || slices.ContainsFunc(f.acts, func(a frontend.Action) bool {
		d, ok := a.(*frontend.Done)
		return ok && slices.Contains(r.jobs[jobOf(d.Job)-1].tasks[d.Outcome.Task].tries, x)
	})
}

// startsAgain checks that each earlier run of a task has failed or may have been lost.
func (r *faultRun) startsAgain(j *faultJob, t *faultTask, s *worker.Start) {
	now := r.tries[s.Launch.Attempt]
	now.started = true
	if r.harm(now) != nil {
		return // it was given up, and another one ran meanwhile
	}
	twice := false
	for _, x := range t.tries {
		if x == now || !x.started || x.over || r.harm(x) != nil {
			continue
		}
		if !twice && x.f == now.f && (x.copy || now.copy) { // one of them is a copy of the other
			twice = true
			continue
		}
		// Where its client has left its frontend, the next one may not reach the worker, or hear first that it has told all,
		// or that one had no room to keep the result for so long.
		if x.w.core.Stats.Forgotten == 0 && !r.reorders && r.between(now.f, x.w, j.since) == nil || r.cause(j, x) == nil {
			r.fail("task %d of job %d starts again, as attempt %s, without a cause: %s runs or ran at w%d", s.Launch.Task, j.n, s.Launch.Attempt, x.id, x.w.index)
		}
	}
}

// preempts reports whether a task may be stopped for what is regular, by its job.
func (r *faultRun) preempts(id probe.JobID, task probe.TaskIndex) bool {
	j := r.jobs[jobOf(id)-1]
	return j.spec.Class == frontend.Spare && j.tasks[task].spec.Retryable
}

// started is the start of an attempt that runs, or is about to, nil if it does not.
func (w *workerNode) started(id probe.AttemptID) *worker.Start {
	for _, x := range w.running {
		if x.start.Launch.Attempt == id {
			return &x.start
		}
	}
	for _, a := range w.acts { // it starts only now
		if s, ok := a.(*worker.Start); ok && s.Launch.Attempt == id {
			return s
		}
	}
	return nil
}

// heeds has a quarter of all tasks run on that are told to stop, as Go functions can: what comes of most of them interests nobody.
func (r *faultRun) heeds(s *worker.Start) bool {
	id := s.Launch.Attempt
	if id.Seq%4 > 0 {
		return true
	}
	r.stats.Seen["tasks that do not stop"]++
	x := r.tries[id]
	x.over, x.goesOn = true, true
	_, t := r.taskOf(s)
	t.running--
	return false
}

// stopped checks what a worker stops.
func (r *faultRun) stopped(w *workerNode, _ worker.Event) {
	r.noteIdle(w)
	for _, a := range w.acts {
		a, ok := a.(worker.Stop)
		if !ok {
			continue
		}
		i := slices.IndexFunc(w.running, func(x *execution) bool { return x.start.Launch.Attempt == a.Attempt })
		if i < 0 {
			continue // it has just ended
		}
		j, t := r.taskOf(&w.running[i].start)
		x := r.tries[a.Attempt]
		if x.spare || r.preempts(j.id, w.running[i].start.Launch.Task) {
			x.over = true
			continue
		}
		if j.cancels || j.deadline || t.reported > 0 || x.over || r.cause(j, x) != nil {
			continue
		}
		r.fail("w%d stops attempt %s at task %d of job %d without a cause", w.index, a.Attempt, w.running[i].start.Launch.Task, j.n)
	}
}

// idleSpan says since when a life of a worker has had room for any task.
type idleSpan struct {
	life  int32 // 0: it has no room
	since time.Duration
}

// largestDemand is the most that tasks of these runs demand. Larger workers may have room for it while other tasks run.
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

// checkRefusal fails the run if f refuses a job because others wait, although a worker has been idle that may run all tasks
// of the job, and f has had the time to hear of it.
func (r *faultRun) checkRefusal(f *frontendNode, j *faultJob, err *frontend.RefusedError) {
	if !strings.Contains(err.Message, "waits for its first task") || f.frontend().Quota(j.spec.Tenant).All != tenants.Unlimited {
		return // or the tenant may not use what is free
	}
	heard := r.now - r.net.ping - 50*time.Millisecond
	for _, w := range r.workers {
		idle := r.idle[w.index]
		if w.down || w.hung != nil || idle.life != w.life || idle.since > heard || r.leaving[w.index] == w.life || r.between(f, w, heard) != nil {
			continue
		}
		if !slices.ContainsFunc(j.tasks, func(t faultTask) bool { return r.may(j, &t, w) != nil }) {
			r.fail("f%d refuses job %d though w%d has been idle for %v: %v", f.index, j.n, w.index, r.now-idle.since, err)
		}
	}
}
