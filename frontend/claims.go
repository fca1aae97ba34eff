package frontend

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// claimJob asks every worker for the attempts of a resubmitted job. Where its client last saw each task would
// not do instead: what the client knows lags behind what its lost frontend did.
func (c *ledger) claimJob(j *job, now time.Time, acts []Action) []Action {
	for _, g := range j.groups {
		for g.queue.Len() > 0 {
			g.queue.First().move(claiming)
		}
	}
	j.claimUntil = now.Add(c.cfg.ClaimFor)
	j.claimsDue, j.uninformed = map[*worker]bool{}, map[*worker]bool{}
	for _, w := range c.workers {
		if w == nil {
			continue
		}
		j.uninformed[w] = true
		if w.State() != view.Down || w.Awaited() {
			acts = c.claimFromWorker(j, w, acts)
		}
	}
	if len(j.claimsDue) == 0 {
		acts = c.placeUnclaimed(j, now, acts)
	}
	return acts
}

// claimFromWorker asks a worker for the attempts of a resubmitted job. If there is no claim to be decided any more, the worker is
// only told whose the job is.
func (c *ledger) claimFromWorker(j *job, w *worker, acts []Action) []Action {
	if !j.claimUntil.IsZero() {
		j.claimsDue[w] = true
	}
	j.uninformed[w] = true
	c.Stats.Claims++
	if w.State() == view.Adrift || w.State() == view.Down { // it is asked when there is a link
		return acts
	}
	return append(acts, Send{Worker: w.Key, Msg: probe.Claim{Job: j.ID, Generation: j.Generation}})
}

// handleClaimed is a worker's answer to a claim.
func (c *ledger) handleClaimed(w *worker, m *probe.Claimed, now time.Time, acts []Action) []Action {
	j := c.byID[m.Job]
	switch {
	case j == nil || j.Generation != m.Generation: // of an earlier stay of the job here
		return acts
	case m.Moved:
		return c.dropMovedJob(j, now, acts)
	}
	j.noteConfirmed(j.answersDue-1, now)
	delete(j.uninformed, w)
	if j.claimsDue[w] && (j.Age == 0 || m.Knows < j.ageAt(now)+c.maxSubmitTime()) {
		j.doubts = append(j.doubts, fmt.Sprintf("%s has started since, or forgot what had", w.Name()))
	}
	return c.noteAnswer(j, w, now, acts)
}

// confirmedFor is how long a job is known to be here after a worker has shown it.
const confirmedFor = time.Second

// askToConfirm asks workers whether a job is still here. Of a job that has nothing at any worker, as all its tasks are held, none
// tells when the client has gone with it to another frontend, and a worker that has started since would run a task again.
// If there are none to ask, whichever comes first knows as much.
func (c *ledger) askToConfirm(j *job, ws []*worker, now time.Time, acts []Action) []Action {
	for _, w := range ws {
		c.Stats.Claims++
		acts = append(acts, Send{Worker: w.Key, Msg: probe.Claim{Job: j.ID, Generation: j.Generation}})
	}
	j.answersDue, j.confirmUntil = len(ws), now.Add(c.cfg.ClaimFor)
	c.setJobTimer(j, now)
	return acts
}

// noteConfirmed notes that all but so many of those that were asked take a job for one of this frontend, or are not waited for.
func (j *job) noteConfirmed(answersDue int, now time.Time) {
	if j.answersDue = max(answersDue, 0); j.answersDue == 0 {
		j.confirmedAt = now
	}
}

// maxSubmitTime is longer than a submission can be under way: a client waits for no longer, and one that has hung up is not
// listened to.
func (c *ledger) maxSubmitTime() time.Duration { return 3 * c.cfg.ClaimFor }

// noteAnswer notes that w will tell of no more attempts of a resubmitted job.
func (c *ledger) noteAnswer(j *job, w *worker, now time.Time, acts []Action) []Action {
	if !j.claimsDue[w] {
		return acts
	}
	if delete(j.claimsDue, w); len(j.claimsDue) == 0 {
		acts = c.placeUnclaimed(j, now, acts)
	}
	return acts
}

// placeUnclaimed places the tasks of a resubmitted job of which no worker has an attempt. Those that may start only once
// wait until the time for claims is over, as a worker may turn up meanwhile. Then it is certain that they never started
// if every worker that there is has answered and has forgotten nothing: what their earlier owner may still send, each
// of them refuses. If not, they are lost.
func (c *ledger) placeUnclaimed(j *job, now time.Time, acts []Action) []Action {
	timeUp := !now.Before(j.claimUntil)
	why := ""
	if timeUp {
		why = c.whyMayHaveStarted(j)
		j.claimUntil = time.Time{}
		clear(j.claimsDue)
	}
	anyWaits := false
	for _, t := range j.tasks {
		switch {
		case t.state != claiming:
		case !t.spec.Retryable && !timeUp:
			anyWaits = true
		case !t.spec.Retryable && why != "":
			c.Stats.Lost++
			acts = c.endTask(t, &Outcome{Kind: Failed, Failure: Lost, Message: "its frontend was lost, and " + why + "; the task may start only once, and may or may not have run"}, now, acts)
		default:
			if !t.spec.Retryable {
				c.Stats.NeverStarted++
			}
			c.awaitNext(t)
		}
	}
	if !anyWaits {
		j.claimUntil = time.Time{}
	}
	c.wantAllPlaces(j)
	return acts
}

// whyMayHaveStarted is why an attempt of the job may have started of which no worker tells; "" if none can have.
func (c *ledger) whyMayHaveStarted(j *job) string {
	doubts := slices.Clone(j.doubts)
	for _, w := range c.workers {
		switch {
		case w == nil:
		case w.Listed() && w.State() == view.Down:
			doubts = append(doubts, w.Name()+" cannot be reached")
		case j.claimsDue[w]:
			doubts = append(doubts, w.Name()+" did not answer")
		}
	}
	if departure := c.view.LastDeparture(); departure != (view.Departure{}) && (j.Age == 0 || j.submitted.Sub(departure.At) < j.Age+c.maxSubmitTime()) {
		doubts = append(doubts, departure.Name+" has left")
	}
	if n := len(doubts); n > 3 {
		doubts = append(doubts[:2], fmt.Sprintf("and so it is with %d more", n-2))
	}
	return strings.Join(doubts, ", ")
}

// linkWorker notes that there is a link to w, over which it is told whose the attempts and the jobs are that it may have, and asked
// for them.
func (c *ledger) linkWorker(w *worker, m probe.Welcome, sync, now time.Time, acts []Action) []Action {
	isNewRun := w.Welcome().Incarnation != m.Incarnation
	if isNewRun {
		w.firstLinkAt = now
	}
	c.view.NoteLinked(w.Worker, m, now)
	c.updateStranded()
	w.noteMatrix()
	w.syncAt = sync
	for _, a := range w.attemptsInOrder() {
		c.Stats.Claims++
		acts = append(acts, Send{Worker: w.Key, Msg: probe.Claim{Job: a.job.ID, Attempt: a.id, Generation: a.job.Generation}})
	}
	for _, j := range c.jobsWhere(func(j *job) bool { return j.uninformed[w] || isNewRun && j.Generation > 0 }) {
		acts = c.claimFromWorker(j, w, acts)
	}
	if w.Up() {
		c.reshelveSiteless()
		c.widenWindows(w.Worker)
		c.allWanting = true
	}
	c.setTimer(w)
	return acts
}

// unlinkWorker forgets the places at w, which it has dropped or will, and leaves its attempts adrift.
func (c *ledger) unlinkWorker(w *worker, now time.Time) {
	c.view.NoteLinkLost(w.Worker, now)
	c.noteNotUp(w)
	w.acks = w.acks[:0]
	c.clearCommonSent(w)
	c.dropPlaces(w)
	for _, a := range w.attemptsInOrder() {
		if a.task.copy != a && a.task.state != adrift { // else it was being claimed when the link broke again
			a.task.move(adrift)
		}
	}
	c.setTimer(w)
}
