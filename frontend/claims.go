package frontend

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// claim asks every worker for the attempts of a resubmitted job. Where its client last saw each task would
// not do instead: what the client knows lags behind what its lost frontend did.
func (c *ledger) claim(j *job, now time.Time, acts []Action) []Action {
	for _, g := range j.groups {
		for g.queue.Len() > 0 {
			g.queue.First().move(claiming)
		}
	}
	j.claimUntil = now.Add(c.cfg.ClaimFor)
	j.asked, j.untold = map[*worker]bool{}, map[*worker]bool{}
	for _, w := range c.workers {
		if w == nil {
			continue
		}
		j.untold[w] = true
		if w.State() != view.Down || w.Awaited() {
			acts = c.askFor(j, w, acts)
		}
	}
	if len(j.asked) == 0 {
		acts = c.unclaimed(j, now, acts)
	}
	return acts
}

// askFor asks a worker for the attempts of a resubmitted job. If there is no claim to be decided any more, the worker is
// only told whose the job is.
func (c *ledger) askFor(j *job, w *worker, acts []Action) []Action {
	if !j.claimUntil.IsZero() {
		j.asked[w] = true
	}
	j.untold[w] = true
	c.Stats.Claims++
	if w.State() == view.Adrift || w.State() == view.Down { // it is asked when there is a link
		return acts
	}
	return append(acts, Send{Worker: w.Key, Msg: probe.Claim{Job: j.ID, Generation: j.Generation}})
}

// claimed is a worker's answer to a claim.
func (c *ledger) claimed(w *worker, m *probe.Claimed, now time.Time, acts []Action) []Action {
	j := c.byID[m.Job]
	switch {
	case j == nil || j.Generation != m.Generation: // of an earlier stay of the job here
		return acts
	case m.Moved:
		return c.moved(j, now, acts)
	}
	j.vouched(j.vouchers-1, now)
	delete(j.untold, w)
	if j.asked[w] && (j.Age == 0 || m.Knows < j.age(now)+c.sureFor()) {
		j.unsure = append(j.unsure, fmt.Sprintf("%s has started since, or forgot what had", w.Name()))
	}
	return c.answered(j, w, now, acts)
}

// vouchFor is how long a job is known to be here after a worker has shown it.
const vouchFor = time.Second

// vouch asks workers whether a job is still here. Of a job that has nothing at any worker, as all its tasks are held, none
// tells when the client has gone with it to another frontend, and a worker that has started since would run a task again.
// If there are none to ask, whichever comes first knows as much.
func (c *ledger) vouch(j *job, ws []*worker, now time.Time, acts []Action) []Action {
	for _, w := range ws {
		c.Stats.Claims++
		acts = append(acts, Send{Worker: w.Key, Msg: probe.Claim{Job: j.ID, Generation: j.Generation}})
	}
	j.vouchers, j.vouchUntil = len(ws), now.Add(c.cfg.ClaimFor)
	c.settle(j, now)
	return acts
}

// vouched notes that all but so many of those that were asked take a job for one of this frontend, or are not waited for.
func (j *job) vouched(left int, now time.Time) {
	if j.vouchers = max(left, 0); j.vouchers == 0 {
		j.vouchedAt = now
	}
}

// sureFor is longer than a submission can be under way: a client waits for no longer, and one that has hung up is not
// listened to.
func (c *ledger) sureFor() time.Duration { return 3 * c.cfg.ClaimFor }

// answered notes that w will tell of no more attempts of a resubmitted job.
func (c *ledger) answered(j *job, w *worker, now time.Time, acts []Action) []Action {
	if !j.asked[w] {
		return acts
	}
	if delete(j.asked, w); len(j.asked) == 0 {
		acts = c.unclaimed(j, now, acts)
	}
	return acts
}

// unclaimed places the tasks of a resubmitted job of which no worker has an attempt. Those that may start only once
// wait until the time for claims is over, as a worker may turn up meanwhile. Then it is certain that they never started
// if every worker that there is has answered and has forgotten nothing: what their earlier owner may still send, each
// of them refuses. If not, they are lost.
func (c *ledger) unclaimed(j *job, now time.Time, acts []Action) []Action {
	over := !now.Before(j.claimUntil)
	doubt := ""
	if over {
		doubt = c.doubt(j)
		j.claimUntil = time.Time{}
		clear(j.asked)
	}
	left := false
	for _, t := range j.tasks {
		switch {
		case t.state != claiming:
		case !t.spec.Retryable && !over:
			left = true
		case !t.spec.Retryable && doubt != "":
			c.Stats.Lost++
			acts = c.end(t, &Outcome{Kind: Failed, Failure: Lost, Message: "its frontend was lost, and " + doubt + "; the task may start only once, and may or may not have run"}, now, acts)
		default:
			if !t.spec.Retryable {
				c.Stats.NeverStarted++
			}
			c.await(t)
		}
	}
	if !left {
		j.claimUntil = time.Time{}
	}
	c.wantAllOf(j)
	return acts
}

// doubt is why an attempt of the job may have started of which no worker tells; "" if none can have.
func (c *ledger) doubt(j *job) string {
	doubts := slices.Clone(j.unsure)
	for _, w := range c.workers {
		switch {
		case w == nil:
		case w.Listed() && w.State() == view.Down:
			doubts = append(doubts, w.Name()+" cannot be reached")
		case j.asked[w]:
			doubts = append(doubts, w.Name()+" did not answer")
		}
	}
	if left := c.view.LastDeparture(); left != (view.Departure{}) && (j.Age == 0 || j.submitted.Sub(left.At) < j.Age+c.sureFor()) {
		doubts = append(doubts, left.Name+" has left")
	}
	if n := len(doubts); n > 3 {
		doubts = append(doubts[:2], fmt.Sprintf("and so it is with %d more", n-2))
	}
	return strings.Join(doubts, ", ")
}

// link notes that there is a link to w, over which it is told whose the attempts and the jobs are that it may have, and asked
// for them.
func (c *ledger) link(w *worker, m probe.Welcome, sync, now time.Time, acts []Action) []Action {
	fresh := w.Welcome().Incarnation != m.Incarnation
	if fresh {
		w.since = now
	}
	c.view.NoteLinked(w.Worker, m, now)
	c.turn()
	w.told()
	w.syncAt = sync
	for _, a := range w.attemptsInOrder() {
		c.Stats.Claims++
		acts = append(acts, Send{Worker: w.Key, Msg: probe.Claim{Job: a.job.ID, Attempt: a.id, Generation: a.job.Generation}})
	}
	for _, j := range c.jobsWhere(func(j *job) bool { return j.untold[w] || fresh && j.Generation > 0 }) {
		acts = c.askFor(j, w, acts)
	}
	if w.Up() {
		c.nearUp()
		c.widenBy(w.Worker)
		c.wantAll = true
	}
	c.setTimer(w)
	return acts
}

// unlink forgets the places at w, which it has dropped or will, and leaves its attempts adrift.
func (c *ledger) unlink(w *worker, now time.Time) {
	c.view.NoteLinkLost(w.Worker, now)
	c.away(w)
	w.acks = w.acks[:0]
	c.untell(w)
	c.dropPlaces(w)
	for _, a := range w.attemptsInOrder() {
		if a.task.copy != a && a.task.state != adrift { // else it was being claimed when the link broke again
			a.task.move(adrift)
		}
	}
	c.setTimer(w)
}
