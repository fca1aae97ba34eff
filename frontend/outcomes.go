package frontend

import (
	"fmt"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/place"
	"github.com/phoebe-sched/phoebe/probe"
)

// handleFinished takes the result of an attempt.
func (c *ledger) handleFinished(w *worker, m *probe.Finished, now time.Time, acts []Action) []Action {
	a := w.attempts[m.Attempt]
	if a == nil {
		return c.handleFinishedElsewhere(w, m, now, acts)
	}
	t := a.task
	t.group.job.noteServed()
	t.group.job.confirmedAt = now
	if t.state == riding && a == t.attempt {
		c.Stats.RidesStarted++
		if r := w.places[a.res]; r != nil {
			c.dropPlace(w, a.res, r, place.Started)
		}
	}
	// If the copy was stopped, or the task may be retried, the copy gives no outcome, and the first attempt runs on.
	if a == t.copy && m.Status != probe.Killed && m.Status != probe.Preempted && !c.mayRetry(t, m, now) {
		acts = c.letCopyWin(a, now, acts)
	}
	if d := c.noteOutcome(a, m.Status.String()); d != nil {
		d.Waited, d.Ran, d.Usage = m.Waited, m.Run, m.Usage
	}
	c.dropAttempt(a)
	return c.endAttempt(a, m, now, acts)
}

// maxDiskFailures is the number of failed disks that do not count as failures of the task. After that, probably the
// disks fail everywhere, or the task fills them. The number was chosen, and not measured.
const maxDiskFailures = 5

// endAttempt handles the end of an attempt, which the caller has dropped. If the worker stopped the attempt, the task
// has not failed: the worker needed the room for regular work, drains, or gave up this frontend. Then the task goes on
// with another attempt; but if it may start only once, the task is lost. If the disk of the worker failed, the task is
// tried again elsewhere. A task that may start only once is tried again only if it has not run.
func (c *ledger) endAttempt(a *attempt, m *probe.Finished, now time.Time, acts []Action) []Action {
	t, w := a.task, a.w
	switch {
	case m.Status == probe.Killed && !t.spec.Retryable:
		o := Outcome{
			Kind: Failed, Failure: Lost,
			Message: "it was killed by worker " + w.Welcome().Worker + ", and may start only once",
			Worker:  w.Welcome().Worker, At: w.Key,
		}
		o.Receipt, acts = c.issueReceipt(t, w, m.Attempt, now, acts)
		return c.endTask(t, &o, now, acts)
	case m.Status == probe.Killed:
		return c.retryTask(a, m, 0, now, acts)
	case m.Status == probe.Preempted: // only spare work is preempted, and all spare tasks are retryable
		c.Stats.Preempted++
		return c.retryTask(a, m, 0, now, acts)
	case m.DiskFailed && t.diskFailures < maxDiskFailures && (t.spec.Retryable || m.Run == 0):
		t.diskFailures++
		t.shunned = w.Worker
		return c.retryTask(a, m, 0, now, acts)
	case m.Status == probe.NoInput && a.sentAt.IsZero() && t.spec.Retryable:
		// The attempt was sent before a claim, so this frontend cannot tell whether an input had been lost. A lost input
		// is no failure of the task.
		return c.retryTask(a, m, 0, now, acts)
	}
	return c.endOrRetryTask(a, m, now, acts)
}

// handleFinishedElsewhere takes the result of an attempt that this frontend does not list. Another frontend launched
// the attempt, or this frontend gave the attempt up.
func (c *ledger) handleFinishedElsewhere(w *worker, m *probe.Finished, now time.Time, acts []Action) []Action {
	t := c.findTask(m.Job, m.Task)
	switch {
	case t == nil: // if the job is at another frontend, that frontend will claim the result
		return disownResult(w, m.Attempt, acts)
	// The frontend has taken this result already. The worker sends it again after a claim, because the Ack may have
	// been lost.
	case t.lastEnded == m.Attempt || t.group.job.failedAttempts[m.Attempt]:
		return disownResult(w, m.Attempt, acts)
	case t.state == claiming:
		t.attempts++
		t.group.job.noteServed()
		return c.endAttempt(&attempt{job: t.group.job, task: t, w: w}, m, now, acts)
	case c.isEarlierCopy(t, m.Attempt):
		c.adoptCopy(t, w, m.Attempt, m.Run, now)
		return c.handleFinished(w, m, now, acts)
	}
	// Another attempt gives the outcome. The Kill lets the worker forget the result.
	return append(acts, Send{Worker: w.Key, Msg: probe.Kill{Attempt: m.Attempt}})
}

// endOrRetryTask ends the task with the outcome reported by an attempt, or retries the task.
func (c *ledger) endOrRetryTask(a *attempt, m *probe.Finished, now time.Time, acts []Action) []Action {
	t, w := a.task, a.w
	o := Outcome{
		Kind: Failed, Message: m.Error, Worker: w.Welcome().Worker, At: w.Key, Run: m.Run, Usage: m.Usage,
		Phases: c.reckonPhases(a, m, now), Expected: t.attemptRun, Waited: m.Waited,
		Waits: m.Waits, Way: t.way,
		Code: m.Code, Detail: m.Detail, Retry: m.Retry,
	}
	if t.long != nil {
		o.ExpectedWait = t.long.wait
	}
	c.view.NoteEnded(w.Worker, t.spec.Function, m.Status, now)
	switch m.Status {
	case probe.Succeeded:
		o.Kind, o.Result = Result, m.Result
		o.Outputs = m.Outputs
		if n := len(o.Outputs); n > 0 && o.Outputs[n-1].Partition == probe.ResultPartition {
			o.Outputs, o.File = o.Outputs[:n-1], &o.Outputs[n-1]
		}
		if len(o.Outputs) > 0 || t.remakes > 0 {
			c.recordOutputs(t, w, o.Outputs, now)
		}
		c.learnRun(t, w, m)
		// If other workers had some of the files, the time says nothing about either source.
		if a.fetch != fetchUnknown {
			c.view.NoteFetch(w.Worker, a.fetch == fetchPeers, &m.Usage)
		}
		if !a.sentAt.IsZero() {
			c.view.NoteTrip(c.roundTrip(a, m, now))
		}
	case probe.TooLarge:
		o.Failure = TooLarge
	case probe.Panicked:
		o.Failure = Panic
	case probe.TimedOut:
		if j := t.group.job; !j.deadline.IsZero() && !now.Before(j.deadline) {
			acts = c.ackResult(w, m.Attempt, now, acts)
			return c.endOverdue(j, now, acts) // the worker knew the deadline, too
		}
		o.Failure = Timeout
		if o.Message == "" {
			o.Message = fmt.Sprintf("ran longer than its timeout of %v", t.spec.Timeout)
		}
	case probe.NoInput:
		o.Failure = NoInput
		retry, restFor, why := c.handleMissingInputs(a, m.Outputs, now)
		if retry {
			return c.retryTask(a, m, restFor, now, acts)
		}
		if why != "" && o.Message != "" {
			why = "; " + why
		}
		o.Message += why
	default:
		o.Failure = TaskError
	}
	if c.mayRetry(t, m, now) {
		if t.failures++; m.Retry == probe.Elsewhere {
			t.shunned = w.Worker
		}
		return c.retryTask(a, m, t.backoffTime(), now, acts)
	}
	o.Receipt, acts = c.issueReceipt(t, w, m.Attempt, now, acts)
	return c.endTask(t, &o, now, acts)
}

// mayRetry reports whether t is tried again after an attempt ended as in m.
func (c *ledger) mayRetry(t *task, m *probe.Finished, now time.Time) bool {
	switch m.Status {
	case probe.Succeeded, probe.TooLarge:
		return false
	case probe.TimedOut:
		if j := t.group.job; !j.deadline.IsZero() && !now.Before(j.deadline) {
			return false
		}
	}
	return t.failures < t.spec.Retries && t.spec.Retryable && m.Retry != probe.Never
}

// retryTask notes the end of an attempt, and acknowledges the result. If the task has a second attempt under way, the
// task goes on with that attempt. Otherwise the task rests for restFor, and then waits for another attempt.
func (c *ledger) retryTask(
	a *attempt, m *probe.Finished, restFor time.Duration, now time.Time, acts []Action,
) []Action {
	t := a.task
	ago, _ := c.reckonEnd(a, m, now)
	ended := now.Add(-ago)
	started := time.Time{}
	if m.Run > 0 {
		started = ended.Add(-m.Run)
	}
	c.noteEarlier(a, endForStatus(m.Status), started, ended)
	acts = c.ackResult(a.w, m.Attempt, now, acts)
	isClaiming := t.state == claiming // another attempt may run at a worker that has not answered the claim yet
	if j := t.group.job; isClaiming || m.Attempt.Frontend != c.cfg.ID {
		if j.failedAttempts == nil {
			j.failedAttempts = map[probe.AttemptID]bool{}
		}
		j.failedAttempts[m.Attempt] = true // after another claim, the worker may report the result again
	}
	if c.continueWithOther(t) {
		return acts
	}
	if m.Status != probe.Preempted {
		c.Stats.Retries++
	}
	if isClaiming {
		return acts
	}
	if restFor > 0 {
		c.restTask(t, now.Add(restFor))
	} else {
		c.awaitNextAgain(t, now)
	}
	c.wantPlaces(t.group) // if t rests, another task may use a place
	return acts
}

// releasedAt returns the moment when t could go to a worker for the first time.
func (t *task) releasedAt() time.Time {
	j, at := t.group.job, t.group.addedAt
	if at.IsZero() {
		at = j.submitted
	}
	if len(j.stages) > 0 {
		for _, freed := range [...]time.Time{j.stages[t.spec.Stage].readyAt, t.freedAt} {
			if freed.After(at) {
				at = freed
			}
		}
	}
	return at
}

// reckonPhases returns the phases of an attempt just reported as finished, as times since the job was submitted. A
// message in either direction is taken to need half a round trip.
func (c *ledger) reckonPhases(a *attempt, m *probe.Finished, now time.Time) (p Phases) {
	t := a.task
	since := func(x time.Time) time.Duration { return x.Sub(t.group.job.submitted) }
	p.Released, p.Held = since(t.releasedAt()), t.heldFor
	if !t.againAt.IsZero() {
		if again := since(t.againAt); again > p.Released {
			p.Again = again
		}
	}
	ago, oneWay := c.reckonEnd(a, m, now)
	p.Finished = since(now) - ago
	p.Started = p.Finished - m.Run
	arrived := p.Started - m.Launch // when the task came to the worker
	switch {
	case a.sentAt.IsZero(): // another frontend sent the attempt, before the job came here
		p.Ready = max(p.Started, p.Released)
		p.Sampled, p.Queued, p.Bound = p.Ready, p.Ready, p.Ready
	case t.way == WayEarly || t.way == WayCopy: // sampled when sent; the turn came after the wait in the queue
		p.Sampled, p.Queued = since(a.sentAt), arrived
		if x := t.long; t.way == WayEarly && x != nil && !x.movedSince.IsZero() {
			p.Sampled, p.Queued = since(x.movedSince), since(x.movedSince)+oneWay
		}
		p.Ready = arrived + min(m.Waited, m.Launch)
		p.Bound = p.Ready
	case t.way == WayRide: // the turn came when the ride arrived
		p.Sampled, p.Queued = since(t.sampledAt), since(t.placesAskedAt)+oneWay
		p.Ready = max(p.Queued, arrived)
		p.Bound = p.Ready
	default:
		p.Sampled, p.Bound = since(t.sampledAt), since(a.sentAt)
		p.Queued = min(since(t.placesAskedAt)+oneWay, p.Bound) // a shared turn may come before the task's own places
		p.Ready = min(max(p.Queued, arrived-m.Held), p.Bound)
	}
	// The places may have been in queues, and may have had their turns, before the task could be placed.
	p.Queued = max(p.Queued, p.Sampled)
	p.Ready = max(p.Ready, p.Queued)
	return p
}

// reckonEnd returns how long ago the run of an attempt ended that is just reported as finished, and how long the
// message with the attempt was on its way.
func (c *ledger) reckonEnd(a *attempt, m *probe.Finished, now time.Time) (ago, oneWay time.Duration) {
	trip := c.roundTrip(a, m, now)
	oneWay = trip / 2
	if m.Held > 0 && !a.sentAt.IsZero() {
		oneWay = min(oneWay, m.Held) // the worker's Ready and the Bind took m.Held together, so the Bind took less
	}
	return m.Kept + trip - oneWay, oneWay
}

// roundTrip returns the time for two messages over the link: the time since a was sent, less the times that the worker
// reports in m. If another frontend sent a, the usual round trip counts.
func (c *ledger) roundTrip(a *attempt, m *probe.Finished, now time.Time) time.Duration {
	if a.sentAt.IsZero() {
		return c.view.Trip()
	}
	return max(0, now.Sub(a.sentAt)-m.Kept-m.Launch-m.Run)
}

// nearlyLong returns the run time from which all runs reach the statistics, and this frontend makes lessons of the
// function for other frontends. The quarter was chosen.
func (c *ledger) nearlyLong() time.Duration { return c.cfg.LongTask / 4 }

// learnRun takes a run of t into account. Of many short runs, only some reach the statistics, to save time. But the
// statistics decide whether later tasks count as long. So all runs that are not far below LongTask reach the
// statistics.
func (c *ledger) learnRun(t *task, w *worker, m *probe.Finished) {
	if more := t.group.Runs.NoteRun(m.Run); more || t.long != nil || m.Run >= c.nearlyLong() {
		c.addToStats(t, w, m)
	}
}

// addToStats adds a run to the statistics behind later estimates.
func (c *ledger) addToStats(t *task, w *worker, m *probe.Finished) {
	run := estimate.Finished{Run: m.Run, Worker: int32(w.Key), Hint: t.spec.Estimate, Used: m.Usage.Demand(m.Run)}
	if row := c.view.Fleet().Get(int32(w.Key)); row != nil {
		run.Speed = row.Speed
	}
	if x := t.near; x != nil {
		run.Read, run.Bytes = x.read, t.spec.inputBytes()
	}
	if x := t.long; x != nil {
		run.Read, run.Bytes = x.read, x.inputBytes
		c.Waits.Add(x.wait, m.Waited)
		c.Runs.Add(x.run, m.Run)
		t.group.stageStats.Add(run)
	}
	switch {
	case t.near != nil:
		c.view.NoteRead(t.group.Runs, t.near.inputs, w.Worker, m.Run)
	case t.long != nil:
		c.view.NoteRead(t.group.Runs, t.long.spec.Inputs, w.Worker, m.Run)
	}
	t.group.Runs.Learn(run)
}

// loseAttempt counts an attempt as lost: the attempt may have run, may still run, or never started. died says that the
// worker is lost, too. If the task may start only once, the task fails. If PoisonAfter workers died while they ran the
// task, the task may be the cause, and fails. Otherwise the task is tried again.
func (c *ledger) loseAttempt(a *attempt, died bool, why string, now time.Time, acts []Action) []Action {
	t := a.task
	c.endRide(a, place.Gone)
	c.noteOutcome(a, "lost: "+why)
	c.noteEarlierStopped(a, EndLost, now)
	c.dropAttempt(a)
	c.wantPlaces(a.task.group)
	c.Stats.Losses++
	if !t.spec.Retryable {
		c.Stats.Lost++
		return c.endTask(t, &Outcome{
			Kind: Failed, Failure: Lost, Message: why + "; the task may start only once, and may or may not have run",
			Worker: a.w.Welcome().Worker, At: a.w.Key,
		}, now, acts)
	}
	if died && a.hasStarted {
		if t.losses++; t.losses >= c.cfg.PoisonAfter {
			c.Stats.Poisons++
			return c.endTask(t, &Outcome{
				Kind: Failed, Failure: Poison,
				Message: fmt.Sprintf(
					"%d workers went away while they ran it, the last was %s: it is taken for the cause",
					t.losses, a.w.Welcome().Worker),
				Worker: a.w.Welcome().Worker, At: a.w.Key,
			}, now, acts)
		}
	}
	if c.continueWithOther(t) {
		return acts
	}
	c.Stats.Retries++
	c.awaitNextAgain(t, now)
	return acts
}

// handleStarted notes the start of an attempt. If another frontend launched the attempt, handleStarted adopts it. If no
// task needs the attempt, the worker is told to stop it.
func (c *ledger) handleStarted(w *worker, m *probe.Started, now time.Time, acts []Action) []Action {
	if a := w.attempts[m.Attempt]; a != nil {
		hasWaited := !a.hasStarted // an attempt that ran already, and was claimed, keeps its copy
		if hasWaited {
			c.runningAttempts++
		}
		c.endMove(a)
		a.hasStarted, a.runsSince = true, now.Add(-m.Ran)
		a.job.noteServed()
		switch {
		case a == a.task.copy:
			c.noteOutcome(a, "started")
		case a.task.state != bound:
			c.endRide(a, place.Started)
			a.task.move(bound)
			c.noteOutcome(a, "started")
		}
		if hasWaited {
			acts = c.withdrawOtherAttempt(a, now, acts)
		}
		return acts
	}
	switch t := c.findTask(m.Job, m.Task); {
	// If the job has moved, another frontend will claim the attempt. If the job has ended, a Kill is on its way, or the
	// next Sync stops the attempt.
	case c.byID[m.Job] == nil:
		return acts
	case t == nil: // a resubmission left the task out
	// A worker with much to send that is asked twice sends the result at first. Then it holds the repeated result back,
	// and tells the start.
	case t.group.job.failedAttempts[m.Attempt]:
		return acts
	case t.state == claiming:
		c.Stats.Adopted++
		t.move(bound)
		t.attempt = c.adoptAttempt(t, w, m.Attempt, m.Ran, now)
		return acts
	case c.isEarlierCopy(t, m.Attempt):
		c.adoptCopy(t, w, m.Attempt, m.Ran, now)
		return acts
	}
	return append(acts, Send{Worker: w.Key, Msg: probe.Kill{Attempt: m.Attempt}}) // no task here needs the attempt
}

// handleRefused takes back places and attempts refused by a worker.
func (c *ledger) handleRefused(w *worker, m *probe.Refused, now time.Time, acts []Action) []Action {
	regular := true
	if r := w.places[m.First]; m.Count > 0 && r != nil {
		regular = r.group.class == probe.Regular
	}
	if a := w.attempts[m.Attempt]; a != nil {
		regular = a.class == probe.Regular
		c.wantPlaces(a.task.group)
		c.endRide(a, place.Gone)
		c.noteOutcome(a, "refused: "+m.Reason.String())
		switch m.Reason {
		case probe.Unknown:
			if m.Knows > now.Sub(a.sentAt) { // the attempt never started: the message was lost with the link
				c.takeBackTask(a, now)
				break
			}
			acts = c.loseAttempt(a, false, "worker "+w.Welcome().Worker+" no longer knows of it", now, acts)
		case probe.NoFunction, probe.Oversized, probe.TooBig, probe.NeedsFiles, probe.NoCommon:
			acts = c.failLaunch(a, m.Reason, now, acts)
		default:
			c.takeBackTask(a, now)
			// While another queue may have room, estimation tries that queue. If all queues are full, a window bounds
			// the group's tasks at workers. The policies that bind early do not look at other queues.
			if g := a.task.group; m.Reason == probe.QueueFull && (g.Policy.Binding != Late ||
				regular && g.path == estimate.Estimation && c.allQueuesFull(g, w, now)) {
				g.narrowWindow()
			}
			// After Late, the worker has put the place back into its queue.
			if m.Reason == probe.Late && a.placeSpent && w.Up() && w.places[a.res] == nil {
				c.restorePlace(a)
				if a.job.waiting == 0 && a.job.Policy.Cancel { // the task goes on with its copy, and needs no place
					acts = c.cancelPlaces(a.job, now, acts)
				}
			}
		}
	}
	for i := m.Count; i > 0; i-- { // backward, because each task goes to the front of the queue
		c.losePlace(w, m.First+probe.ResID(i-1), now)
	}
	switch m.Reason {
	case probe.NoCommon:
		c.markCommonUnsent(w)
	case probe.Leaving:
		c.noteDraining(w) // the refusal overtook the Drain
	case probe.Moved:
		return c.dropWantingJobs(now, acts)
	case probe.QueueFull:
		if regular { // a queue full of spare work may have room for regular work
			c.noteQueueFull(w, m.RetryAfter, now)
		}
		if m.RetryAfter > 0 { // the jobs just refused are the jobs with wants (see dropWantingJobs)
			for _, j := range c.takeWantingJobs() {
				j.takeWanting() // drops the wants: retryJob makes them anew
				c.putOffJob(j, now.Add(m.RetryAfter), now)
			}
		}
	}
	return acts
}

// maxFailedLaunches is the number of failed launches after which a task fails. Otherwise a task that every worker
// refuses would be launched for ever. The number was chosen, and not measured. With a lower number, a task may fail
// that some workers would run. With a higher number, the client of a hopeless task hears of the cause later.
const maxFailedLaunches = 100

// failLaunch takes back a task that a worker refused to run, although its Welcome said that the worker could. After
// maxFailedLaunches such launches the task fails. If a long task is too big for the part open to long tasks, the task
// may use all of a worker from now on.
func (c *ledger) failLaunch(a *attempt, why probe.Reason, now time.Time, acts []Action) []Action {
	t := a.task
	if t.failedLaunches++; t.failedLaunches < maxFailedLaunches {
		c.takeBackTask(a, now)
		if t.long != nil && why == probe.TooBig {
			t.long.mayUseAll = true
		}
		return acts
	}
	c.dropAttempt(a)
	if c.continueWithOther(t) {
		return acts
	}
	return c.endTask(t, &Outcome{
		Kind: Failed, Failure: Infrastructure,
		Message: fmt.Sprintf("launched %d times and always refused, at last by %s: %v",
			t.failedLaunches, a.w.Welcome().Worker, why),
	}, now, acts)
}

// losePlace forgets a place that the worker dropped, or never took. If a task rides with the place, or is bound early
// to the place, losePlace takes the task back.
func (c *ledger) losePlace(w *worker, id probe.ResID, now time.Time) {
	if r := w.places[id]; r != nil {
		c.wantPlaces(r.group)
		a := r.rideAt(id)
		c.dropPlace(w, id, r, place.Gone)
		if a != nil {
			c.takeBackTask(a, now)
		}
		return
	}
	if a := w.enqueued[id]; a != nil && !a.hasStarted {
		c.wantPlaces(a.task.group)
		c.noteOutcome(a, "evicted from its queue")
		c.takeBackTask(a, now)
	}
}

// handleQueued takes back rides that did not start. Their places are in the queue. If a copy was sent to an idle
// worker, and is queued, the worker had no room, and the copy is withdrawn. For other early-bound attempts
// handleQueued notes the expected start.
func (c *ledger) handleQueued(w *worker, m *probe.Queued, now time.Time, acts []Action) []Action {
	var j *job                     // the job of the rides taken back
	for i := m.Count; i > 0; i-- { // backward, because each task goes to the front of the queue
		id := m.First + probe.ResID(i-1)
		if r := w.places[id]; r != nil {
			if a := r.rideAt(id); a != nil {
				c.takeBackRide(a, r, now)
				j = r.group.job
			}
		} else if a := w.enqueued[id]; a != nil && a == a.task.copy && a.task.long == nil {
			a.task.attempts--
			acts = c.stopAttempt(a, "withdrawn: there was no room", now, acts)
		} else if a != nil && m.Wait > 0 {
			c.noteExpectedStart(a, now.Add(m.Wait))
		}
	}
	if j != nil && j.waiting == 0 && j.Policy.Cancel { // the tasks go on with their copies, and need no places
		acts = c.cancelPlaces(j, now, acts)
	}
	return acts
}

// handleEvicted takes back places that the worker had accepted.
func (c *ledger) handleEvicted(w *worker, m *probe.Evicted, now time.Time, acts []Action) []Action {
	if m.Reason == probe.Withdrawn {
		c.takeBackMoved(w, m, now)
		return acts
	}
	for i := m.Count; i > 0; i-- { // backward, because each task goes to the front of the queue
		c.losePlace(w, m.First+probe.ResID(i-1), now)
	}
	switch m.Reason {
	case probe.Leaving:
		c.noteDraining(w)
	case probe.Moved:
		return c.dropWantingJobs(now, acts)
	}
	return acts
}

// takeBackMoved takes back tasks that w has withdrawn from its queue. They did not start, so their attempts do not
// count. If a task has a copy, it goes on with the copy. Otherwise it is placed anew, and its wait in queues goes on.
func (c *ledger) takeBackMoved(w *worker, m *probe.Evicted, now time.Time) {
	for i := m.Count; i > 0; i-- {
		a := w.enqueued[m.First+probe.ResID(i-1)]
		if a == nil || a.hasStarted || a.move == nil {
			continue // the answer came twice
		}
		t, how := a.task, a.move
		c.wantPlaces(t.group)
		c.noteOutcome(a, fmt.Sprintf("withdrawn, because %s has room: here the task would have waited for %.3fs more",
			how.to.Welcome().Worker, how.wait.Seconds()))
		c.noteEarlierStopped(a, EndMoved, now)
		c.dropAttempt(a)
		t.attempts--
		c.Stats.Moves++
		t.long.moves++
		if c.continueWithOther(t) {
			continue
		}
		t.long.move = how
		if t.long.movedSince.IsZero() {
			t.long.movedSince = a.sentAt
		}
		c.awaitNext(t, now)
	}
}

// handleGone forgets places and attempts unknown to the worker, as the answer to a Sync says.
func (c *ledger) handleGone(w *worker, m *probe.Gone, now time.Time, acts []Action) []Action {
	for _, p := range m.Places {
		for i := range p.Count {
			if r := w.places[p.First+probe.ResID(i)]; r != nil {
				c.wantPlaces(r.group)
				c.dropPlace(w, p.First+probe.ResID(i), r, place.Gone)
			}
		}
	}
	for _, id := range m.Attempts { // a younger message about the attempt may have been under way when w answered
		if a := w.attempts[id]; a != nil && now.Sub(a.lastSentAt()) >= probe.SyncAge {
			acts = c.loseAttempt(a, false, "worker "+w.Welcome().Worker+" knows nothing of it", now, acts)
		}
	}
	return acts
}

// dropWantingJobs drops all jobs with wants. A worker has just refused their tasks or places, because the jobs moved to
// another frontend. No other job has wants: receiveMsgs plans the wants of other jobs before the refusal.
func (c *ledger) dropWantingJobs(now time.Time, acts []Action) []Action {
	for _, j := range c.takeWantingJobs() {
		acts = c.dropMovedJob(j, now, acts)
	}
	return acts
}

// dropMovedJob drops a job whose client moved to another frontend. Attempts of the job run on, to be claimed by
// that frontend.
func (c *ledger) dropMovedJob(j *job, now time.Time, acts []Action) []Action {
	if j.ended {
		return acts
	}
	c.subtractPending(j, j.unfinished)
	for _, t := range j.tasks {
		for _, a := range t.liveAttempts() {
			c.withdrawAttempt(a)
		}
		c.stopWaiting(t)
		if t.state != done {
			t.move(done)
		}
	}
	acts = c.forgetJob(j, now, acts)
	return append(acts, Moved{j.ID})
}

// forgetJob drops a job without unfinished tasks, cancels its places, and lets workers forget common payloads.
func (c *ledger) forgetJob(j *job, now time.Time, acts []Action) []Action {
	j.ended = true
	c.log.noteEndedJob(j)
	j.leaveUnserved()
	c.presumeStarted(now) // takes j off the list sentJobs, unless a job further ahead has to stay
	acts = c.cancelPlaces(j, now, acts)
	acts = c.forgetCommon(j, acts)
	c.removeJob(j)
	return acts
}

// endTask gives t an outcome. The last outcome ends the job, unless more tasks may be added.
func (c *ledger) endTask(t *task, o *Outcome, now time.Time, acts []Action) []Action {
	j := t.group.job
	c.stopWaiting(t)
	acts = c.stopAttempts(t, now, acts)
	switch since := j.submitted; {
	case o.Phases.Finished > 0: // reckoned from a result
	case t.state == blocked && !j.paused: // the task could never start
		if o.Phases.Released = now.Sub(since); t.attempts == 0 {
			j.noteUnbegun(t)
		}
	default:
		o.Phases.Released = t.releasedAt().Sub(since)
		if n := len(t.earlier); n > 0 && o.Kind != Result && t.earlier[n-1].Started > 0 &&
			t.earlier[n-1].Ended > o.Phases.Released {
			o.Phases.Again = t.earlier[n-1].Ended // the time of the attempts was in vain
		}
	}
	if t.move(done); t.group.window > 0 {
		c.widenWindow(t.group)
	}
	o.Task, o.Stage, o.Path, o.Attempts, o.Earlier = t.spec.Index, t.spec.Stage, t.group.path, t.attempts, t.earlier
	o.Function = t.spec.Function
	// The payload of a task with output files is kept, because the task runs again if the files are lost.
	if !slices.ContainsFunc(o.Outputs, func(o probe.Output) bool { return o.File }) {
		c.releasePayloads(j, len(t.spec.Payload))
		t.spec.Payload = nil
	}
	c.subtractPending(j, 1)
	if t.remakes > 0 {
		acts = c.resumeReaders(t, o, now, acts)
	} else {
		c.Stats.Outcomes[o.Kind]++
		d := c.lent.done.New()
		d.Job, d.Outcome = j.ID, *o
		acts = append(acts, d)
		if len(j.stages) > 0 {
			c.noteStageOutcome(t, o)
		}
	}
	if j.ended { // t's outcome failed the tasks that read from t, and the job had no further tasks
		return acts
	}
	if j.unfinished == 0 && (!j.Open || j.ending) {
		acts = c.endJob(j, now, acts)
	} else if j.waiting == 0 && j.Policy.Cancel && !j.ending {
		acts = c.cancelPlaces(j, now, acts)
	}
	if !j.ended && j.unfinished == 0 {
		c.refreshJob(j, now) // no task is late any more: the timer for late tasks stops
		j.removeUnserved()
	}
	return acts
}

// resumeReaders lets the readers of p go on: these tasks waited until p had run again. If p failed, they fail, too.
func (c *ledger) resumeReaders(p *task, o *Outcome, now time.Time, acts []Action) []Action {
	readers := p.readers
	p.readers = nil
	acts = c.ackDelivered([]Receipt{o.Receipt}, now, acts) // no client asks for the result
	for _, t := range readers {
		switch {
		case t.state == done || t.group.job.ending:
		case o.Kind != Result:
			acts = c.stopTask(t, Outcome{
				Kind: Failed, Failure: NoInput,
				Message: fmt.Sprintf("the outputs of task %d are lost, and the task failed when it ran again: %s",
					p.spec.Index, o.Message),
			}, now, acts)
		default:
			if t.awaitedInputs--; t.awaitedInputs == 0 {
				c.freedTasks = append(c.freedTasks, t)
			}
		}
	}
	return acts
}

// endJob ends a job after the last outcome.
func (c *ledger) endJob(j *job, now time.Time, acts []Action) []Action {
	return append(c.forgetJob(j, now, acts), Ended{j.ID})
}

// endAllTasks gives every unfinished task of a job the outcome o, wherever the task is, and so ends the job.
func (c *ledger) endAllTasks(j *job, o Outcome, now time.Time, acts []Action) []Action {
	if j.ending = true; j.unfinished == 0 {
		return c.endJob(j, now, acts)
	}
	for _, t := range j.tasks {
		if t.state != done {
			acts = c.stopTask(t, o, now, acts)
		}
	}
	return acts
}

// stopTask ends an unfinished task with the outcome o, and stops the attempts.
func (c *ledger) stopTask(t *task, o Outcome, now time.Time, acts []Action) []Action {
	for _, a := range t.liveAttempts() {
		c.noteEarlierStopped(a, EndStopped, now)
		acts = c.stopAttempt(a, "stopped: "+o.Message, now, acts)
	}
	return c.endTask(t, &o, now, acts)
}

// endStranded fails the stranded tasks of a job. For the time StrandedFor, no worker that may run them has been up.
func (c *ledger) endStranded(j *job, now time.Time, acts []Action) []Action {
	j.strandedSince = time.Time{}
	for _, t := range j.tasks {
		if (t.state == waiting || t.state == matching) && t.group.Set.Len() == 0 {
			why := "every worker that could run it has been away"
			if len(t.spec.Files) > 0 {
				why += ", or its cache has taken no files,"
			}
			acts = c.endTask(t, &Outcome{
				Kind: Failed, Failure: NoWorker, Message: fmt.Sprintf("%s for %v", why, c.cfg.StrandedFor),
			}, now, acts)
		}
	}
	return acts
}

// endOverdue ends a job at the deadline.
func (c *ledger) endOverdue(j *job, now time.Time, acts []Action) []Action {
	why := fmt.Sprintf("not finished within %v", j.Deadline)
	if !j.strandedSince.IsZero() {
		why += fmt.Sprintf(", as every worker that could run it has been away for %v",
			now.Sub(j.strandedSince).Round(time.Millisecond))
	}
	return c.endAllTasks(j, Outcome{Kind: DeadlineExceeded, Message: why}, now, acts)
}

// advanceStages ends the jobs with a failed stage. In the other jobs, it starts the stages and tasks whose predecessors
// have all ended.
func (c *ledger) advanceStages(now time.Time, acts []Action) []Action {
	for len(c.jobsToAdvance) > 0 {
		j := c.jobsToAdvance[0]
		c.jobsToAdvance = slices.Delete(c.jobsToAdvance, 0, 1)
		switch {
		case j.ended:
		case j.cause != "":
			acts = c.endAllTasks(j, Outcome{Kind: Failed, Failure: StageFailed, Message: j.cause}, now, acts)
		default:
			c.startStages(j, now)
		}
	}
	c.resumeFreed(now)
	return acts
}
