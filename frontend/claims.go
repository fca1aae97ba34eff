package frontend

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// claimJob asks every worker for the attempts of a resubmitted job. To ask only where the client last saw the tasks
// would not do, because the lost frontend may have sent tasks to other workers since.
func (c *ledger) claimJob(j *job, now time.Time, acts []Action) []Action {
	for _, g := range j.groups {
		for g.queue.Len() > 0 {
			g.queue.First().move(claiming)
		}
	}
	j.claimUntil, j.attemptsBefore = now.Add(c.cfg.ClaimFor), c.attemptsMade
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
		acts = c.settleUnclaimed(j, now, acts)
	}
	return acts
}

// claimFromWorker asks w for the attempts of a resubmitted job. If no task is claiming any more, the message only
// tells w the job's owner. Without a link to w, linkWorker sends the message when the link is made.
func (c *ledger) claimFromWorker(j *job, w *worker, acts []Action) []Action {
	if !j.claimUntil.IsZero() {
		j.claimsDue[w] = true
	}
	j.uninformed[w] = true
	c.Stats.Claims++
	if w.State() == view.Adrift || w.State() == view.Down { // linkWorker asks
		return acts
	}
	return append(acts, Send{Worker: w.Key, Msg: j.makeClaim(probe.AttemptID{})})
}

// makeClaim makes the claim of an attempt, or of the whole job for a zero attempt.
func (j *job) makeClaim(attempt probe.AttemptID) probe.Claim {
	return probe.Claim{Job: j.ID, Attempt: attempt, Generation: j.Generation, Tenant: j.Tenant, HasTenant: true}
}

// handleClaimed takes a worker's answer to the claim of a whole job: w has reported all attempts, or the job has
// moved.
func (c *ledger) handleClaimed(w *worker, m *probe.Claimed, now time.Time, acts []Action) []Action {
	j := c.byID[m.Job]
	switch {
	case j == nil || j.Generation != m.Generation: // the answer is to an earlier stay of the job here
		return acts
	case m.Moved:
		return c.dropMovedJob(j, now, acts)
	}
	j.noteConfirmed(w, now)
	delete(j.uninformed, w)
	// w must know all attempts since the first submission. ageAt lacks the time that the submission was under way.
	if j.claimsDue[w] && (j.Age == 0 || m.Knows < j.ageAt(now)+c.maxSubmitTime()) {
		j.doubts = append(j.doubts, fmt.Sprintf("%s has started since, or forgot what had", w.Name()))
	}
	return c.noteAnswer(j, w, now, acts)
}

// confirmedFor is the time for which a worker's confirmation of a job holds. The time was chosen: a shorter one costs
// more messages while tasks are held, and a longer one lets more tasks of a moved job run twice.
const confirmedFor = time.Second

// askToConfirm asks workers whether a job is still here. While all tasks of a job are held, no worker has anything
// of the job. Then no worker reports that the client moved the job to another frontend. A worker that started after
// the move does not know of the move, and would run a task a second time. If ws is empty, held tasks go on without an
// answer: the first worker to come up will know no more of the job.
func (c *ledger) askToConfirm(j *job, ws []*worker, now time.Time, acts []Action) []Action {
	for _, w := range ws {
		c.Stats.Claims++
		acts = append(acts, Send{Worker: w.Key, Msg: j.makeClaim(probe.AttemptID{})})
	}
	j.confirmers, j.confirmUntil = slices.Clone(ws), now.Add(c.cfg.ClaimFor)
	c.refreshJob(j, now)
	return acts
}

// noteConfirmed notes that w says that the job is still here. When all asked workers have said so, the job is
// confirmed. Answers of other workers, which come to claims, do not count: a worker that has just come up has not heard
// of a move.
func (j *job) noteConfirmed(w *worker, now time.Time) {
	if i := slices.Index(j.confirmers, w); i >= 0 {
		if j.confirmers = slices.Delete(j.confirmers, i, i+1); len(j.confirmers) == 0 {
			j.endConfirming(now)
		}
	}
}

// endConfirming takes a job as confirmed. Workers that were asked and have not answered are gone, or frozen.
func (j *job) endConfirming(now time.Time) { j.confirmers, j.confirmedAt = nil, now }

// maxSubmitTime bounds how long a submission can be under way. A client gives up earlier, and a frontend drops the
// submission of a client that has hung up.
func (c *ledger) maxSubmitTime() time.Duration { return 3 * c.cfg.ClaimFor }

// noteAnswer notes that w will report no more attempts of a resubmitted job. After the last answer the unclaimed
// tasks are placed.
func (c *ledger) noteAnswer(j *job, w *worker, now time.Time, acts []Action) []Action {
	if !j.claimsDue[w] {
		return acts
	}
	if delete(j.claimsDue, w); len(j.claimsDue) == 0 {
		acts = c.settleUnclaimed(j, now, acts)
	}
	return acts
}

// settleUnclaimed places the tasks of a resubmitted job that no worker has claimed, or ends them as lost. A task that
// may start only once waits until the time for claims is over, because a worker may turn up meanwhile. If by then
// every worker has answered and has forgotten nothing, the task never started, and never will: each worker refuses
// late messages of the job's earlier owner. If not, the task is lost.
func (c *ledger) settleUnclaimed(j *job, now time.Time, acts []Action) []Action {
	timeUp := !now.Before(j.claimUntil)
	j.endConfirming(now) // all workers have answered that the job is here, or are gone, or frozen
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
			acts = c.endTask(t, &Outcome{
				Kind: Failed, Failure: Lost,
				Message: "its frontend was lost, and " + why +
					"; the task may start only once, and may or may not have run",
			}, now, acts)
		default:
			if !t.spec.Retryable {
				c.Stats.NeverStarted++
			}
			c.awaitNextAgain(t, now)
		}
	}
	if !anyWaits {
		j.claimUntil = time.Time{}
	}
	c.wantAllPlaces(j)
	return acts
}

// whyMayHaveStarted returns why an attempt may have started, although no worker reports the attempt, or "" if that
// is impossible.
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
	if departure := c.view.LastDeparture(); departure != (view.Departure{}) &&
		(j.Age == 0 || j.submitted.Sub(departure.At) < j.Age+c.maxSubmitTime()) {
		doubts = append(doubts, departure.Name+" has left")
	}
	if n := len(doubts); n > 3 {
		doubts = append(doubts[:2], fmt.Sprintf("and so it is with %d more", n-2))
	}
	return strings.Join(doubts, ", ")
}

// linkWorker notes a new link to w. It sends w a claim for each attempt and each job that w may have. The claim tells w
// the owner, and asks for the attempts. If w is up, waiting tasks may get places at w.
func (c *ledger) linkWorker(w *worker, m probe.Welcome, syncAt, now time.Time, acts []Action) []Action {
	isNewRun := w.Welcome().Incarnation != m.Incarnation
	if isNewRun {
		w.firstLinkAt = now
	}
	c.view.NoteLinked(w.Worker, m, now)
	c.updateStranded()
	w.noteMatrix()
	w.syncAt = syncAt
	for _, a := range w.attemptsInOrder() {
		c.Stats.Claims++
		acts = append(acts, Send{Worker: w.Key, Msg: a.job.makeClaim(a.id)})
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

// unlinkWorker forgets the places at w, because w drops them with the link, and leaves the attempts adrift.
func (c *ledger) unlinkWorker(w *worker, now time.Time) {
	c.view.NoteLinkLost(w.Worker, now)
	c.noteNotUp(w)
	w.acks = w.acks[:0]
	c.clearCommonSent(w)
	c.dropPlaces(w)
	for _, a := range w.attemptsInOrder() {
		c.endMove(a)
		// A task's state follows the first attempt, not the copy. The state is adrift already if the link breaks again
		// before w has answered the claim.
		if a.task.copy != a && a.task.state != adrift {
			a.task.move(adrift)
		}
	}
	c.setTimer(w)
}
