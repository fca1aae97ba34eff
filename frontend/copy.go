package frontend

import (
	"cmp"
	"fmt"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/place"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// A task with a late attempt may have a second attempt, the copy, and never a third. The first attempt to
// finish gives the outcome. The frontend kills the other attempt, and ignores later reports of the killed attempt.
// If both attempts wait in queues, the first to start is kept and the other is withdrawn. If an attempt is lost,
// comes back, or fails and the task may be tried again, the task goes on with the other attempt.

// liveAttempts returns the attempts of a task that have not ended: at most two.
func (t *task) liveAttempts() []*attempt {
	as := make([]*attempt, 0, 2)
	for _, a := range [...]*attempt{t.attempt, t.copy} {
		if a != nil {
			as = append(as, a)
		}
	}
	return as
}

// mayCopy reports whether a task may have a copy. The result is true even if the task has a copy already.
func (c *ledger) mayCopy(t *task) bool { return c.whyNoCopy(t) == "" }

// whyNoCopy returns why a task may have no copy, or "". A task may have a copy if it runs, or if it waits in a
// worker's queue and is expected to start later than when it was placed (isSlipping). The task must be retryable, and
// not suspect of having taken a worker down. If the first attempt has caught up with a copy, there is no further copy.
// A tenant's maximum is for first attempts, so a tenant with a maximum has no copies.
func (c *ledger) whyNoCopy(t *task) string {
	switch {
	case !t.spec.Retryable:
		return "the task may start only once"
	case t.losses > 0:
		return "the task has lost a worker before, and may be the cause"
	case t.caughtUp:
		return "it has caught up with an earlier copy"
	case !t.isRunning() && !t.isSlipping():
		return "the task has not started, and is expected to start no later than planned when it was placed"
	case c.quotas.QuotaOf(t.group.job.tenant.name).All != tenants.Unlimited:
		return "its tenant has a maximum"
	}
	return ""
}

// explainCopy tells people where the copy of a task at a worker is, or why there is no copy.
func (c *ledger) explainCopy(t *task) string {
	if t.copy != nil {
		return "its copy is at " + t.copy.w.Welcome().Worker
	}
	why := cmp.Or(c.whyJobNoCopy(t.group.job), c.whyNoCopy(t))
	switch {
	case why != "":
	case !c.mayAddCopy():
		why = fmt.Sprintf("the limit is reached, as %d of %d tasks have had a copy", c.Stats.Copies, c.Stats.Tasks)
	default:
		why = "the task is not known to be late, or no other worker would finish it sooner"
	}
	return "no copy: " + why
}

// isRunning reports whether a task runs, as far as the frontend knows.
func (t *task) isRunning() bool {
	return (t.state == bound || t.state == riding) && !t.attempt.runsSince.IsZero()
}

// isQueued reports whether a task waits in a worker's queue, and the worker has said for how long.
func (t *task) isQueued() bool {
	return t.state == enqueued && t.long != nil && !t.attempt.expectedStart.IsZero()
}

// isSlipping reports whether a queued task will start later than expected at its placing.
func (t *task) isSlipping() bool {
	return t.isQueued() && t.attempt.expectedStart.After(t.attempt.sentAt.Add(t.long.wait))
}

// mayAddCopy reports whether another copy keeps within Config.Copies, the share of tasks with copies. The first
// always does.
func (c *ledger) mayAddCopy() bool {
	return c.Stats.Copies < max(1, uint64(c.cfg.Copies*float64(c.Stats.Tasks)))
}

// commitCopy sends a copy of t to the worker of a decision, and records the decision.
func (c *ledger) commitCopy(t *task, choice *estimate.Decision, now time.Time, acts []Action) []Action {
	at := choice.Choice()
	w := c.workers[at.Worker]
	a := new(attempt)
	c.makeAttempt(a, t, w, w.nextRes, now)
	a.asCopy = &copyTerms{wait: max(at.I, at.W), run: at.R, read: at.Read, attemptRun: at.R}
	t.copy = a
	c.addAttempt(a)
	c.Stats.Copies++
	if x := t.long; x != nil {
		short := at.R < x.spec.LongFrom
		p := view.Promise{
			Attempt: a.id, Res: a.res, Demand: t.spec.Demand, Short: short, Run: at.R, Tenant: t.group.job.tenant.code,
		}
		c.view.NotePromise(w.Worker, p)
		c.view.OccupyMatrix(w.Worker, p)
	} else {
		c.view.Occupy(w.Worker, t.spec.Demand, 1)
	}
	d := c.noteCopy(a, now)
	d.Choice, d.Tries, d.Outcome, d.CopyOf = *choice, 1, "sent", t.attempt.id
	return c.sendEnqueue(a, t.launchExpecting(a, at.R), now, acts)
}

// noteCopy adds a copy to the recorded decisions, and returns the entry to be filled in.
func (c *ledger) noteCopy(a *attempt, now time.Time) *Decision {
	t := a.task
	d := c.log.copies.add()
	a.asCopy.decision = c.log.copies.n
	*d = Decision{
		Job: a.job.ID, Task: t.spec.Index, Path: t.group.path, Why: t.group.pathReason,
		Choice: estimate.Decision{Chosen: -1}, At: now.Sub(a.job.submitted),
		Attempt: a.id, Worker: a.w.Welcome().Worker, Class: t.explainClass(), Demand: t.group.explainDemand(),
	}
	return d
}

// isEarlierCopy reports whether an attempt, found at a worker, is a second attempt of t that an earlier owner of the job
// made. This frontend may be the earlier owner: a job that has ended here can come back. A later attempt with this
// frontend's id is no copy, but an attempt that this frontend has given up.
func (c *ledger) isEarlierCopy(t *task, id probe.AttemptID) bool {
	return t.attempt != nil && t.copy == nil && t.spec.Retryable && t.group.job.Generation > 0 &&
		(id.Frontend != c.cfg.ID || id.Seq <= t.group.job.attemptsBefore)
}

// adoptCopy makes an earlier copy the copy of t.
func (c *ledger) adoptCopy(t *task, w *worker, id probe.AttemptID, ran time.Duration, now time.Time) {
	c.Stats.Adopted++
	t.copy = c.adoptAttempt(t, w, id, ran, now)
	t.copy.asCopy = &copyTerms{}
	c.noteCopy(t.copy, now).Outcome = "started, as a second attempt that an earlier frontend made"
}

// letCopyWin stops the first attempt of a task, because the copy a has finished first and gives the outcome.
func (c *ledger) letCopyWin(a *attempt, now time.Time, acts []Action) []Action {
	c.Stats.CopiesWon++
	c.noteEarlierStopped(a.task.attempt, EndBeaten, now)
	acts = c.stopAttempt(a.task.attempt, "stopped: its copy was done first", now, acts)
	a.task.promoteCopy()
	return acts
}

// withdrawOtherAttempt withdraws the task's other attempt, if a has just started and the other attempt still waits
// in a queue. The withdrawn attempt does not count among the task's attempts, because it never started.
func (c *ledger) withdrawOtherAttempt(a *attempt, now time.Time, acts []Action) []Action {
	t := a.task
	switch {
	case a == t.copy && !t.attempt.hasStarted:
		c.Stats.CopiesWon++
		t.attempts--
		acts = c.stopAttempt(t.attempt, "withdrawn: its copy has started first", now, acts)
		t.promoteCopy()
	case a == t.attempt && t.copy != nil && !t.copy.hasStarted:
		t.attempts--
		acts = c.stopAttempt(t.copy, "withdrawn: the first attempt has started", now, acts)
	}
	return acts
}

// stopCopy stops the copy of a task, because the first attempt is expected to end no later. A copy that waits in a
// queue does not count among the task's attempts, because it never started.
func (c *ledger) stopCopy(t *task, now time.Time, acts []Action) []Action {
	if t.copy.hasStarted {
		c.noteEarlierStopped(t.copy, EndStopped, now)
	} else {
		t.attempts--
	}
	t.caughtUp = true
	return c.stopAttempt(t.copy, "stopped: the first attempt has caught up", now, acts)
}

// stopAttempts stops all attempts of a task that has an outcome.
func (c *ledger) stopAttempts(t *task, now time.Time, acts []Action) []Action {
	if t.attempt == nil && t.copy == nil {
		return acts
	}
	for _, a := range t.liveAttempts() {
		c.noteEarlierStopped(a, EndBeaten, now)
		acts = c.stopAttempt(a, "stopped: another attempt has ended its task", now, acts)
	}
	return acts
}

// stopAttempt tells the worker of an attempt to stop, and forgets the attempt.
func (c *ledger) stopAttempt(a *attempt, why string, now time.Time, acts []Action) []Action {
	if t := a.task; t.copy != nil && !a.runsSince.IsZero() {
		c.Stats.InVain += uint64(now.Sub(a.runsSince))
	}
	c.noteOutcome(a, why)
	c.withdrawAttempt(a)
	return append(acts, Send{Worker: a.w.Key, Msg: probe.Kill{Attempt: a.id, Res: a.res, Turn: a.turn}})
}

// withdrawAttempt forgets an attempt, and the place of a ride.
func (c *ledger) withdrawAttempt(a *attempt) {
	c.endRide(a, place.Withdrawn)
	c.dropAttempt(a)
}
