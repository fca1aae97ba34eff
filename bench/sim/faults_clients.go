package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/record"
	"github.com/phoebe-sched/phoebe/probe"
)

// visit is a job at one frontend, as the frontend's shell knows the job.
type visit struct {
	job      *faultJob
	session  int // of the listening client
	outcomes []frontend.Outcome
	came     time.Duration
	after    [][]int // of each stage: the stages before
	attempts []record.Attempt
	told     map[probe.TaskIndex]bool
	left     bool // the client has gone
	refused  bool
	open     bool // the client may add more tasks
	step     int  // the growth step just sent to the core
	again    bool // the job may have been at a frontend before
}

// clientDelay is the time of a message between a client and a frontend.
const clientDelay = 200 * time.Microsecond

// turnTo lets the client submit the unfinished tasks of j to f.
func (r *faultRun) turnTo(j *faultJob, f *frontendNode) {
	if j.ended || j.owner != nil {
		return
	}
	j.owner, j.life, j.since = f, f.life, r.now
	j.session++
	session := j.session
	r.later(r.now+clientDelay, func() { r.submitTo(j, f, session) })
}

// hasLeft reports whether the client has left its session with f.
func (j *faultJob) gone(f *frontendNode, session int) bool {
	return j.ended || j.session != session || j.owner != f
}

func (r *faultRun) submitTo(j *faultJob, f *frontendNode, session int) {
	gone := func() bool { return j.gone(f, session) }
	spec := j.spec
	if j.tried {
		spec.Generation, spec.Age = probe.Generation(session-1), r.now-j.first
	} else {
		j.first = r.now
	}
	j.takeIn()
	if !gone() && j.left == 0 && !j.open() {
		r.ends(j)
		return
	}
	had := j.had()
	spec.Had, spec.Open, spec.Stages = had, j.open(), j.known(had)
	if len(j.made) > 0 {
		spec.Stages = slices.Clone(spec.Stages)
		for i := range spec.Stages {
			spec.Stages[i].Made = j.made[i]
		}
	}
	for i := range j.tasks[:had] {
		if j.tasks[i].outcomes == 0 {
			spec.Tasks = append(spec.Tasks, j.tasks[i].spec)
		}
	}
	switch {
	case gone():
		return
	case f.down || f.life != j.life:
		r.leave(j)
		return
	case f.hung != nil:
		// The submission stays in the frontend's socket. The client gives up after a while, but the submission
		// does not come back.
		f.hung.events = append(f.hung.events, event{kind: call, what: func() { r.receiveSubmit(j, f, session, spec) }})
		j.tried = true
		r.later(r.now+r.net.lease, func() {
			if !gone() && f.hung != nil {
				r.leave(j)
			}
		})
		return
	}
	r.receiveSubmit(j, f, session, spec)
}

// receiveSubmit is the part of a frontend's shell that recognises a job under way.
func (r *faultRun) receiveSubmit(j *faultJob, f *frontendNode, session int, spec frontend.Job) {
	if f.down || spec.Generation > 0 && j.gone(f, session) { // the shell does not listen to a client that has hung up
		return
	}
	if v := r.visits[f.index][j.id]; v != nil && spec.Generation > 0 && !f.frontend().Knows(&spec) {
		r.stats.Seen["jobs outdated"]++
		if err := r.stepFrontend(f, frontend.Outdated{Job: j.id}); err != nil {
			r.fail("%w", err)
		}
	}
	if v := r.visits[f.index][j.id]; v != nil {
		v.session, v.left = session, false
		for _, o := range v.outcomes {
			r.deliver(j, f, session, o)
		}
		return
	}
	v := &visit{job: j, session: session, again: spec.Generation > 0, told: map[probe.TaskIndex]bool{}, came: r.now, open: spec.Open}
	_, v.after = record.Stages(&spec)
	r.visits[f.index][j.id] = v
	if r.log != nil {
		r.log("client: job %d to f%d, %d tasks, generation %d, mode %v, policy %+v, %s, stages %+v", j.n, f.index, len(spec.Tasks), spec.Generation, spec.Mode, spec.Policy, spec.Constraint, spec.Stages)
	}
	if err := r.stepFrontend(f, frontend.Submit{Job: &spec}); err != nil {
		r.fail("%w", err)
	}
	if v.refused {
		return
	}
	j.tried = true // the frontend has admitted the job
	if j.gone(f, session) && v.open {
		r.miss(f, v)
	}
}

// leaveFrontend lets a client give up its frontend, and go to another frontend soon.
func (r *faultRun) leave(j *faultJob) {
	if j.ended || j.owner == nil {
		return
	}
	f, session := j.owner, j.session
	j.owner = nil
	r.stats.Failovers++
	if v := r.visits[f.index][j.id]; v != nil && v.session == session && !f.down {
		r.miss(f, v)
	}
	r.later(r.now+between(j.dice, 0, 50*time.Millisecond), func() { r.turnTo(j, among(j.dice, r.frontends...)) })
}

// cancelIfGone lets a frontend cancel the job of a client that does not come back within r.grace.
func (r *faultRun) miss(f *frontendNode, v *visit) {
	v.left = true
	id, life := v.job.id, f.life
	r.later(r.now+r.grace, func() {
		still := func() bool { return f.life == life && v.left && r.visits[f.index][id] == v }
		r.tellFrontend(f, frontend.Cancel{Job: id, Reason: "its client is gone"}, still)
	})
}

// tellFrontend steps a frontend, if isCurrent still holds. A hung frontend steps when it goes on.
func (r *faultRun) tellFrontend(f *frontendNode, ev frontend.Event, still func() bool) {
	switch {
	case f.down || !still():
	case f.hung != nil:
		f.hung.events = append(f.hung.events, event{kind: call, what: func() { r.tellFrontend(f, ev, still) }})
	default:
		if err := r.stepFrontend(f, ev); err != nil {
			r.fail("%w", err)
		}
	}
}

// readSlowly lets a job's frontend have too many unread results now and then, until the client has fetched some.
func (r *faultRun) readSlowly(j *faultJob, d *rand.Rand) {
	if j.ended {
		return
	}
	f, fetched := j.owner, r.now+between(d, time.Millisecond, 300*time.Millisecond)
	if f != nil && r.now < r.horizon {
		r.stats.Seen["full jobs"]++
		life, v := f.life, r.visits[f.index][j.id]
		here := func() bool { return v != nil && f.life == life && r.visits[f.index][j.id] == v }
		r.tellFrontend(f, frontend.Unread{Job: j.id, Full: true}, here)
		r.later(fetched, func() { r.tellFrontend(f, frontend.Unread{Job: j.id}, here) })
	}
	if r.now < r.horizon {
		r.later(fetched+between(d, 0, 100*time.Millisecond), func() { r.readSlowly(j, d) })
	}
}

// wanderOff lets a client lose the connection to a healthy frontend.
func (r *faultRun) wander(j *faultJob) {
	r.stats.Faults["client wanders"]++
	r.leave(j)
}

func (r *faultRun) cancelJob(j *faultJob) {
	if j.ended {
		return
	}
	r.stats.Faults["client cancels"]++
	j.cancels = true
	if f := j.owner; f != nil {
		r.tellFrontend(f, frontend.Cancel{Job: j.id, Reason: "the client cancelled it"}, func() bool { return true })
	}
}

// handleAnswer is the part of a frontend's shell for the core's actions on jobs.
func (r *faultRun) told(f *frontendNode, a frontend.Action) {
	visits := r.visits[f.index]
	switch a := a.(type) {
	case frontend.Refused:
		v := visits[a.Job]
		v.refused = true
		delete(visits, a.Job)
		r.stats.Refusals++
		j := v.job
		switch a.Err.Reason {
		case frontend.Invalid, frontend.TooBigJob:
			r.fail("job %d refused: %v", j.n, a.Err)
		case frontend.Overloaded:
			r.checkRefusal(f, j, a.Err)
		}
		if session := v.session; j.session == session && j.owner == f {
			j.owner = nil
			wait := max(a.Err.RetryAfter, 10*time.Millisecond) // the client tries again even without hope
			r.later(r.now+wait, func() { r.turnTo(j, among(j.dice, r.frontends...)) })
		}
	case *frontend.Done:
		v := visits[a.Job]
		if v == nil {
			r.fail("f%d reports task %d of job %v, which is not under way", f.index, a.Outcome.Task, a.Job)
			return
		}
		if v.told[a.Outcome.Task] {
			r.fail("f%d reports task %d of job %d twice", f.index, a.Outcome.Task, v.job.n)
		}
		v.told[a.Outcome.Task] = true
		v.outcomes = append(v.outcomes, a.Outcome)
		if o := &a.Outcome; o.Receipt != (frontend.Receipt{}) {
			f.receipts = append(f.receipts, o.Receipt)
		}
		v.attempts = append(v.attempts, record.Attempt{})
		v.attempts[len(v.attempts)-1].Set(&a.Outcome, 0, r.now-v.came)
		r.plausible(f, v, &a.Outcome)
		r.deliver(v.job, f, v.session, a.Outcome)
	case frontend.Extended:
		r.extended(f, visits[a.Job], a)
	case frontend.Ended:
		v := visits[a.Job]
		r.blame(v)
		delete(visits, a.Job)
		r.endsOpen(f, v)
	case frontend.Collect:
		life := f.life
		for _, o := range f.receipts {
			if o.Worker == a.Worker {
				r.later(r.now, func() { r.receipts(f, o, true, func() bool { return f.life == life }) })
			}
		}
	case frontend.Moved:
		v := visits[a.Job]
		delete(visits, a.Job)
		if j := v.job; j.owner == f && j.session == v.session {
			if j.session == 1 {
				r.fail("job %d moved away from its first owner, f%d", j.n, f.index)
			}
			session, life := j.session, f.life
			r.later(r.now+clientDelay, func() {
				if j.owner == f && j.session == session && f.life == life {
					r.leave(j)
				}
			})
		}
	}
}

// deliverOutcome brings an outcome to the client, unless the frontend or the client is gone by then.
func (r *faultRun) deliver(j *faultJob, f *frontendNode, session int, o frontend.Outcome) {
	life := f.life
	here := func() bool { return f.life == life }
	r.later(r.now+clientDelay, func() {
		if f.life != life || f.down {
			return
		}
		if j.gone(f, session) {
			r.later(r.now+r.grace, func() { r.receipts(f, o.Receipt, false, here) })
			return
		}
		r.later(r.now+clientDelay, func() { r.receipts(f, o.Receipt, true, here) })
		t := &j.tasks[o.Task]
		if t.outcomes++; t.outcomes > 1 {
			return // the client came back to a former frontend, and had the outcome from another frontend
		}
		if len(o.Outputs) > 0 {
			if j.made == nil {
				j.made = make([][]frontend.Made, len(j.spec.Stages))
			}
			spec := t.spec
			j.made[o.Stage] = append(j.made[o.Stage], frontend.Made{Task: o.Task, Partition: t.spec.Partition, Worker: o.Worker, Outputs: o.Outputs, Spec: &spec})
		}
		r.stats.Outcomes[o.Kind]++
		if o.Kind == frontend.Failed {
			r.stats.Failures[o.Failure]++
		}
		if j.left--; j.left == 0 && !j.open() {
			r.ends(j)
		}
	})
}

// sendReceipt tells a frontend that the client has an outcome, or that the shell has dropped the outcome.
func (r *faultRun) receipts(f *frontendNode, receipt frontend.Receipt, arrived bool, here func() bool) {
	list := []frontend.Receipt{receipt}
	n := len(f.receipts)
	f.receipts = slices.DeleteFunc(f.receipts, func(o frontend.Receipt) bool { return o == receipt })
	switch {
	case len(f.receipts) == n: // no receipt, or a repetition
	case arrived:
		r.tellFrontend(f, frontend.Delivered{Receipts: list}, here)
	default:
		r.tellFrontend(f, frontend.Dropped{Receipts: list}, here)
	}
}
