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

// A task whose attempt is late may have a second one, its copy, never more. The first that finishes gives the outcome, and the
// other is killed: nothing that becomes of it afterwards is counted. Where both wait in queues, the first that starts is the only
// one from then on. Where one of them is lost, or comes back, or fails and the task is to be tried again, the task goes on with the other.

// underWay is the attempts of a task that have not ended.
func (t *task) underWay() []*attempt {
	as := make([]*attempt, 0, 2)
	for _, a := range [...]*attempt{t.attempt, t.copy} {
		if a != nil {
			as = append(as, a)
		}
	}
	return as
}

// mayCopy reports whether a task may have a copy, or has one.
func (c *ledger) mayCopy(t *task) bool { return c.whyNoCopy(t) == "" }

// whyNoCopy says why a task may have no copy, "" if it may: it runs or is taken to, or its turn comes later than it was to when it
// was placed; it may start more than once, and is under no suspicion to be what took a worker away. What a tenant has a maximum of is
// only for first attempts.
func (c *ledger) whyNoCopy(t *task) string {
	switch {
	case !t.spec.Retryable:
		return "it may start only once"
	case t.losses > 0:
		return "it may be what took its worker away"
	case !t.runs() && !t.slips():
		return "it does not run, nor wait for longer than it was to"
	case c.shares.Of(t.group.job.tenant.name).All != tenants.Unlimited:
		return "its tenant has a maximum"
	}
	return ""
}

// tellCopy says where a task that is at a worker has a copy, or why it has none.
func (c *ledger) tellCopy(t *task) string {
	if t.copy != nil {
		return "its copy is at " + t.copy.w.Welcome().Worker
	}
	why := cmp.Or(c.whyNotLast(t.group.job), c.whyNoCopy(t))
	switch {
	case why != "":
	case !c.copiesLeft():
		why = fmt.Sprintf("%d of %d tasks have had one", c.Stats.Copies, c.Stats.Tasks)
	default:
		why = "it is not late by what is known, or would be done no sooner elsewhere"
	}
	return "no copy: " + why
}

// runs reports whether a task runs, as far as we know.
func (t *task) runs() bool {
	return (t.state == bound || t.state == riding) && !t.attempt.since.IsZero()
}

// queues reports whether a task waits in a queue, and its worker has said for how long.
func (t *task) queues() bool {
	return t.state == enqueued && t.long != nil && !t.attempt.starts.IsZero()
}

// slips reports whether such a task is to start later than it was to when it was placed.
func (t *task) slips() bool {
	return t.queues() && t.attempt.starts.After(t.attempt.sent.Add(t.long.wait))
}

// copiesLeft reports whether another copy is within the share of tasks that may have one. The first one always is.
func (c *ledger) copiesLeft() bool {
	return c.Stats.Copies < max(1, uint64(c.cfg.Copies*float64(c.Stats.Tasks)))
}

// commitCopy gives a task a copy where it was decided to.
func (c *ledger) commitCopy(t *task, choice *estimate.Decision, now time.Time, acts []Action) []Action {
	at := choice.Choice()
	w := c.workers[at.Worker]
	a := new(attempt)
	c.make(a, t, w, w.nextRes, now)
	a.as = &copied{wait: max(at.I, at.W), run: at.R, read: at.Read, expected: at.R}
	t.copy = a
	c.put(a)
	c.Stats.Copies++
	if x := t.long; x != nil {
		short := at.R < x.spec.LongFrom
		c.view.NotePromise(w.Worker, view.Promise{Attempt: a.id, Res: a.res, Demand: t.spec.Demand, Short: short, Run: at.R})
		c.view.OccupyMatrix(w.Worker, t.spec.Demand, short, at.R)
	} else {
		c.view.Occupy(w.Worker, t.spec.Demand, 1)
	}
	d := c.noteCopy(a, now)
	d.Choice, d.Tries, d.Outcome, d.CopyOf = *choice, 1, "sent", t.attempt.id
	return c.sendEarly(a, t.launchAs(a, at.R), now, acts)
}

// noteCopy remembers that there is a copy.
func (c *ledger) noteCopy(a *attempt, now time.Time) *Decision {
	t := a.task
	d := c.log.copies.add()
	a.as.decision = c.log.copies.n
	*d = Decision{
		Job: a.job.ID, Task: t.spec.Index, Path: t.group.path, Why: t.group.why, Choice: estimate.Decision{Chosen: -1}, At: now.Sub(a.job.submitted),
		Attempt: a.id, Worker: a.w.Welcome().Worker, Class: t.told(), Demand: t.group.takesWhy(),
	}
	return d
}

// adoptsCopy reports whether an attempt that was found to run is the second one of a task, and not one that was given up here.
func (c *ledger) adoptsCopy(t *task, id probe.AttemptID) bool {
	return t.attempt != nil && t.copy == nil && t.spec.Retryable && t.group.job.Generation > 0 && id.Frontend != c.cfg.ID
}

// adoptCopy makes such an attempt the copy of its task.
func (c *ledger) adoptCopy(t *task, w *worker, id probe.AttemptID, ran time.Duration, now time.Time) {
	c.Stats.Adopted++
	t.copy = c.adopt(t, w, id, ran, now)
	t.copy.as = &copied{}
	c.noteCopy(t.copy, now).Outcome = "started, as a second attempt that an earlier frontend made"
}

// prefer lets a copy give the outcome that has finished first.
func (c *ledger) prefer(a *attempt, now time.Time, acts []Action) []Action {
	c.Stats.CopiesWon++
	c.stopped(a.task.attempt, EndBeaten, now)
	acts = c.halt(a.task.attempt, "stopped: its copy was done first", now, acts)
	a.task.promote()
	return acts
}

// begun withdraws the other attempt of a task of which one has just started, if that waits in a queue.
func (c *ledger) begun(a *attempt, now time.Time, acts []Action) []Action {
	t := a.task
	switch {
	case a == t.copy && !t.attempt.ran:
		c.Stats.CopiesWon++
		t.attempts--
		acts = c.halt(t.attempt, "withdrawn: its copy has started first", now, acts)
		t.promote()
	case a == t.attempt && t.copy != nil && !t.copy.ran:
		t.attempts--
		acts = c.halt(t.copy, "withdrawn: the first attempt has started", now, acts)
	}
	return acts
}

// stopRest stops what is still under way of a task that has its outcome.
func (c *ledger) stopRest(t *task, now time.Time, acts []Action) []Action {
	if t.attempt == nil && t.copy == nil {
		return acts
	}
	for _, a := range t.underWay() {
		c.stopped(a, EndBeaten, now)
		acts = c.halt(a, "stopped: another attempt has ended its task", now, acts)
	}
	return acts
}

// halt stops an attempt, wherever it is.
func (c *ledger) halt(a *attempt, why string, now time.Time, acts []Action) []Action {
	if t := a.task; t.copy != nil && !a.since.IsZero() {
		c.Stats.InVain += uint64(now.Sub(a.since))
	}
	c.note(a, why)
	c.withdraw(a)
	return append(acts, Send{Worker: a.w.Key, Msg: probe.Kill{Attempt: a.id, Res: a.res, Turn: a.turn}})
}

// withdraw forgets an attempt, wherever it is.
func (c *ledger) withdraw(a *attempt) {
	c.settleRide(a, place.Withdrawn)
	c.dropAttempt(a)
}
