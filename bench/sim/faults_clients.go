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
	job           *faultJob
	session       int // of the listening client
	outcomes      []frontend.Outcome
	cameAt        time.Duration
	stagesBefore  [][]int // of each stage: the stages before
	attempts      []record.Attempt
	reported      map[probe.TaskIndex]bool
	clientGone    bool // until the client comes back
	refused       bool
	isOpen        bool // the client may add more tasks
	growthStep    int  // the growth step just sent to the core
	isResubmitted bool // the job may have been at a frontend before
}

// clientDelay is the time of a message between a client and a frontend.
const clientDelay = 200 * time.Microsecond

// visitFrontend lets the client of j go to f, and submit its unfinished tasks there.
func (r *faultRun) visitFrontend(j *faultJob, f *frontendNode) {
	if j.ended || j.owner != nil {
		return
	}
	j.owner, j.ownerLife, j.ownedSince = f, f.life, r.now
	j.session++
	session := j.session
	r.callAt(r.now+clientDelay, func() { r.submitTo(j, f, session) })
}

// hasLeft reports whether the client has left its session with f.
func (j *faultJob) hasLeft(f *frontendNode, session int) bool {
	return j.ended || j.session != session || j.owner != f
}

// submitTo is the arrival of a submission at f. session is the client's session at its sending.
func (r *faultRun) submitTo(j *faultJob, f *frontendNode, session int) {
	hasLeft := func() bool { return j.hasLeft(f, session) }
	spec := j.spec
	if j.mayBeKnown {
		spec.Generation, spec.Age = probe.Generation(session-1), r.now-j.firstSent
	} else {
		j.firstSent = r.now
	}
	j.noteTaken()
	if !hasLeft() && j.unfinished == 0 && !j.mayGrow() {
		r.endJob(j)
		return
	}
	had := j.submittedTasks()
	spec.Had, spec.Open, spec.Stages = had, j.mayGrow(), j.knownStages(had)
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
	case hasLeft():
		return
	case f.down || f.life != j.ownerLife:
		r.leaveFrontend(j)
		return
	case f.hung != nil:
		// The submission stays in the frontend's socket. The client gives up after a while, but the submission
		// does not come back.
		f.hung.events = append(f.hung.events,
			event{kind: funcCall, content: func() { r.receiveSubmit(j, f, session, spec) }})
		j.mayBeKnown = true
		r.callAt(r.now+r.net.lease, func() {
			if !hasLeft() && f.hung != nil {
				r.leaveFrontend(j)
			}
		})
		return
	}
	r.receiveSubmit(j, f, session, spec)
}

// receiveSubmit is the part of a frontend's shell that recognises a job under way.
func (r *faultRun) receiveSubmit(j *faultJob, f *frontendNode, session int, spec frontend.Job) {
	if f.down || spec.Generation > 0 &&
		j.hasLeft(f, session) { // the shell does not listen to a client that has hung up
		return
	}
	if v := r.visits[f.index][j.id]; v != nil && spec.Generation > 0 && !f.frontendCore().IsUpToDate(&spec) {
		r.stats.Seen["jobs outdated"]++
		if err := r.stepFrontend(f, frontend.Outdated{Job: j.id}); err != nil {
			r.failRun("%w", err)
		}
	}
	if v := r.visits[f.index][j.id]; v != nil {
		v.session, v.clientGone = session, false
		for _, o := range v.outcomes {
			r.deliverOutcome(j, f, session, o)
		}
		return
	}
	v := &visit{job: j, session: session, isResubmitted: spec.Generation > 0, reported: map[probe.TaskIndex]bool{},
		cameAt: r.now, isOpen: spec.Open}
	_, v.stagesBefore = record.Stages(&spec)
	r.visits[f.index][j.id] = v
	if r.log != nil {
		r.log("client: job %d to f%d, %d tasks, generation %d, mode %v, policy %+v, %s, stages %+v", j.n, f.index,
			len(spec.Tasks), spec.Generation, spec.Mode, spec.Policy, spec.Constraint, spec.Stages)
	}
	if r.plain != nil {
		r.notePlainArrival(j)
	}
	if err := r.stepFrontend(f, frontend.Submit{Job: &spec}); err != nil {
		r.failRun("%w", err)
	}
	if v.refused {
		return
	}
	j.mayBeKnown = true // the frontend has admitted the job
	if j.hasLeft(f, session) && v.isOpen {
		r.noteClientGone(f, v)
	}
}

// leaveFrontend lets a client give up its frontend, and go to another frontend soon.
func (r *faultRun) leaveFrontend(j *faultJob) {
	if j.ended || j.owner == nil {
		return
	}
	f, session := j.owner, j.session
	j.owner = nil
	r.stats.Failovers++
	if v := r.visits[f.index][j.id]; v != nil && v.session == session && !f.down {
		r.noteClientGone(f, v)
	}
	r.callAt(r.now+drawBetween(j.dice, 0, 50*time.Millisecond),
		func() { r.visitFrontend(j, drawOne(j.dice, r.frontends...)) })
}

// noteClientGone notes that the client of v has left f. If the client does not come back within r.grace, f cancels the
// job.
func (r *faultRun) noteClientGone(f *frontendNode, v *visit) {
	v.clientGone = true
	id, life := v.job.id, f.life
	r.callAt(r.now+r.grace, func() {
		isCurrent := func() bool { return f.life == life && v.clientGone && r.visits[f.index][id] == v }
		r.tellFrontend(f, frontend.Cancel{Job: id, Reason: "its client is gone"}, isCurrent)
	})
}

// tellFrontend steps a frontend, if isCurrent still holds. A hung frontend steps when it goes on.
func (r *faultRun) tellFrontend(f *frontendNode, ev frontend.Event, isCurrent func() bool) {
	switch {
	case f.down || !isCurrent():
	case f.hung != nil:
		f.hung.events = append(f.hung.events,
			event{kind: funcCall, content: func() { r.tellFrontend(f, ev, isCurrent) }})
	default:
		if err := r.stepFrontend(f, ev); err != nil {
			r.failRun("%w", err)
		}
	}
}

// readSlowly lets a job's frontend have too many unread results now and then, until the client has fetched some.
func (r *faultRun) readSlowly(j *faultJob, d *rand.Rand) {
	if j.ended {
		return
	}
	f, fetched := j.owner, r.now+drawBetween(d, time.Millisecond, 300*time.Millisecond)
	if f != nil && r.now < r.faultsEnd {
		r.stats.Seen["full jobs"]++
		life, v := f.life, r.visits[f.index][j.id]
		isCurrent := func() bool { return v != nil && f.life == life && r.visits[f.index][j.id] == v }
		r.tellFrontend(f, frontend.Unread{Job: j.id, Full: true}, isCurrent)
		r.callAt(fetched, func() { r.tellFrontend(f, frontend.Unread{Job: j.id}, isCurrent) })
	}
	if r.now < r.faultsEnd {
		r.callAt(fetched+drawBetween(d, 0, 100*time.Millisecond), func() { r.readSlowly(j, d) })
	}
}

// wanderOff lets a client lose the connection to a healthy frontend.
func (r *faultRun) wanderOff(j *faultJob) {
	r.stats.Faults["client wanders"]++
	r.leaveFrontend(j)
}

// cancelJob lets the client cancel j at its present frontend.
func (r *faultRun) cancelJob(j *faultJob) {
	if j.ended {
		return
	}
	r.stats.Faults["client cancels"]++
	j.isCancelled = true
	if f := j.owner; f != nil {
		r.tellFrontend(f, frontend.Cancel{Job: j.id, Reason: "the client cancelled it"}, func() bool { return true })
	}
}

// handleAnswer is the part of a frontend's shell for the core's actions on jobs.
func (r *faultRun) handleAnswer(f *frontendNode, a frontend.Action) {
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
			r.failRun("job %d refused: %v", j.n, a.Err)
		case frontend.Overloaded:
			r.checkRefusal(f, j, a.Err)
		}
		if session := v.session; j.session == session && j.owner == f {
			j.owner = nil
			wait := max(a.Err.RetryAfter, 10*time.Millisecond) // the client tries again even without hope
			r.callAt(r.now+wait, func() { r.visitFrontend(j, drawOne(j.dice, r.frontends...)) })
		}
	case *frontend.Done:
		v := visits[a.Job]
		if v == nil {
			r.failRun("f%d reports task %d of job %v, which is not under way", f.index, a.Outcome.Task, a.Job)
			return
		}
		if v.reported[a.Outcome.Task] {
			r.failRun("f%d reports task %d of job %d twice", f.index, a.Outcome.Task, v.job.n)
		}
		v.reported[a.Outcome.Task] = true
		v.outcomes = append(v.outcomes, a.Outcome)
		if o := &a.Outcome; o.Receipt != (frontend.Receipt{}) {
			f.receipts = append(f.receipts, o.Receipt)
		}
		v.attempts = append(v.attempts, record.Attempt{})
		v.attempts[len(v.attempts)-1].Set(&a.Outcome, 0, r.now-v.cameAt)
		r.checkOutcome(f, v, &a.Outcome)
		r.checkPhases(f, v, &a.Outcome)
		r.deliverOutcome(v.job, f, v.session, a.Outcome)
	case frontend.Extended:
		r.handleExtended(f, visits[a.Job], a)
	case frontend.Ended:
		v := visits[a.Job]
		r.checkBlame(v)
		delete(visits, a.Job)
		r.endOpenJob(f, v)
	case frontend.Collect:
		life := f.life
		for _, o := range f.receipts {
			if o.Worker == a.Worker {
				r.callAt(r.now, func() { r.sendReceipt(f, o, true, func() bool { return f.life == life }) })
			}
		}
	case frontend.Moved:
		v := visits[a.Job]
		delete(visits, a.Job)
		if j := v.job; j.owner == f && j.session == v.session {
			if j.session == 1 {
				r.failRun("job %d moved away from its first owner, f%d", j.n, f.index)
			}
			session, life := j.session, f.life
			r.callAt(r.now+clientDelay, func() {
				if j.owner == f && j.session == session && f.life == life {
					r.leaveFrontend(j)
				}
			})
		}
	}
}

// deliverOutcome brings an outcome to the client, unless the frontend or the client is gone by then.
func (r *faultRun) deliverOutcome(j *faultJob, f *frontendNode, session int, o frontend.Outcome) {
	life := f.life
	isCurrent := func() bool { return f.life == life }
	r.callAt(r.now+clientDelay, func() {
		if f.life != life || f.down {
			return
		}
		if j.hasLeft(f, session) {
			r.callAt(r.now+r.grace, func() { r.sendReceipt(f, o.Receipt, false, isCurrent) })
			return
		}
		r.callAt(r.now+clientDelay, func() { r.sendReceipt(f, o.Receipt, true, isCurrent) })
		t := &j.tasks[o.Task]
		if t.outcomes++; t.outcomes > 1 {
			return // the client came back to a former frontend, and had the outcome from another frontend
		}
		if len(o.Outputs) > 0 {
			if j.made == nil {
				j.made = make([][]frontend.Made, len(j.spec.Stages))
			}
			spec := t.spec
			j.made[o.Stage] = append(j.made[o.Stage], frontend.Made{Task: o.Task, Partition: t.spec.Partition,
				Worker: o.Worker, Outputs: o.Outputs, Spec: &spec})
		}
		r.stats.Outcomes[o.Kind]++
		if o.Kind == frontend.Failed {
			r.stats.Failures[o.Failure]++
		}
		if j.unfinished--; j.unfinished == 0 && !j.mayGrow() {
			r.endJob(j)
		}
	})
}

// sendReceipt tells a frontend that the client has an outcome, or that the shell has dropped the outcome.
func (r *faultRun) sendReceipt(f *frontendNode, receipt frontend.Receipt, arrived bool, isCurrent func() bool) {
	list := []frontend.Receipt{receipt}
	n := len(f.receipts)
	f.receipts = slices.DeleteFunc(f.receipts, func(o frontend.Receipt) bool { return o == receipt })
	switch {
	case len(f.receipts) == n: // no receipt, or a repetition
	case arrived:
		r.tellFrontend(f, frontend.Delivered{Receipts: list}, isCurrent)
	default:
		r.tellFrontend(f, frontend.Dropped{Receipts: list}, isCurrent)
	}
}
