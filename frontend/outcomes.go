package frontend

import (
	"fmt"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/place"
	"github.com/phoebe-sched/phoebe/probe"
)

// finished takes an attempt's result.
func (c *ledger) finished(w *worker, m *probe.Finished, now time.Time, acts []Action) []Action {
	a := w.attempts[m.Attempt]
	if a == nil {
		return c.finishedElsewhere(w, m, now, acts)
	}
	t := a.task
	t.group.job.serve()
	t.group.job.vouchedAt = now
	if t.state == riding && a == t.attempt {
		c.Stats.RidesStarted++
		if r := w.places[a.res]; r != nil {
			c.dropPlace(w, a.res, r, place.Started)
		}
	}
	if a == t.copy && m.Status != probe.Killed && m.Status != probe.Preempted && !c.triesAgain(t, m, now) {
		acts = c.prefer(a, now, acts)
	}
	if d := c.note(a, m.Status.String()); d != nil {
		d.Waited, d.Ran, d.Usage = m.Waited, m.Run, m.Usage
	}
	c.dropAttempt(a)
	return c.over(a, m, now, acts)
}

// over takes how an attempt ended. That it was stopped is no failure of anybody's: for what is regular, or because its worker drains, or
// gave us up.
func (c *ledger) over(a *attempt, m *probe.Finished, now time.Time, acts []Action) []Action {
	t, w := a.task, a.w
	switch {
	case m.Status == probe.Killed && !t.spec.Retryable:
		o := Outcome{Kind: Failed, Failure: Lost, Message: "it was killed by worker " + w.Welcome().Worker + ", and may start only once", Worker: w.Welcome().Worker, At: w.Key}
		o.Receipt, acts = c.receipt(t, w, m.Attempt, now, acts)
		return c.end(t, &o, now, acts)
	case m.Status == probe.Killed:
		return c.again(a, m, 0, now, acts)
	case m.Status == probe.Preempted:
		c.Stats.Preempted++
		return c.again(a, m, 0, now, acts)
	}
	return c.conclude(a, m, now, acts)
}

// finishedElsewhere takes the result of an attempt that is not under way here: another frontend launched it, or the one
// that is gone.
func (c *ledger) finishedElsewhere(w *worker, m *probe.Finished, now time.Time, acts []Action) []Action {
	t := c.task(m.Job, m.Task)
	switch {
	case t == nil: // whoever has the job now will claim it
		return disown(w, m.Attempt, acts)
	case t.last == m.Attempt || t.group.job.failed[m.Attempt]: // it is told again, to a claim: what acknowledged it may have been lost
		return disown(w, m.Attempt, acts)
	case t.state == claiming:
		t.attempts++
		t.group.job.serve()
		return c.over(&attempt{job: t.group.job, task: t, w: w}, m, now, acts)
	case c.adoptsCopy(t, m.Attempt):
		c.adoptCopy(t, w, m.Attempt, m.Run, now)
		return c.finished(w, m, now, acts)
	}
	return append(acts, Send{Worker: w.Key, Msg: probe.Kill{Attempt: m.Attempt}}) // another attempt has given, or will give, the outcome
}

// conclude ends a task with what an attempt reported, or tries again.
func (c *ledger) conclude(a *attempt, m *probe.Finished, now time.Time, acts []Action) []Action {
	t, w := a.task, a.w
	o := Outcome{
		Kind: Failed, Message: m.Error, Worker: w.Welcome().Worker, At: w.Key, Run: m.Run, Usage: m.Usage,
		Phases: t.phases(m, now), Expected: t.expected, Waited: m.Waited,
		Waits: m.Waits, Way: t.way,
		Code: m.Code, Detail: m.Detail, Retry: m.Retry,
	}
	if t.long != nil {
		o.Promised = t.long.wait
	}
	c.view.NoteEnded(w.Worker, t.spec.Function, m.Status, now)
	switch m.Status {
	case probe.Succeeded:
		o.Kind, o.Result = Result, m.Result
		o.Outputs = m.Outputs
		if n := len(o.Outputs); n > 0 && o.Outputs[n-1].Partition == probe.ResultPartition {
			o.Outputs, o.File = o.Outputs[:n-1], &o.Outputs[n-1]
		}
		if len(o.Outputs) > 0 || t.remade > 0 {
			c.leaves(t, w, o.Outputs, now)
		}
		c.learn(t, w, m)
		if !t.boundAt.IsZero() {
			c.view.NoteTrip(t.trip(m, now))
		}
	case probe.TooLarge:
		o.Failure = TooLarge
	case probe.Panicked:
		o.Failure = Panic
	case probe.TimedOut:
		if j := t.group.job; !j.deadline.IsZero() && !now.Before(j.deadline) {
			acts = c.ack(w, m.Attempt, now, acts)
			return c.overdue(j, now, acts) // it knew of the deadline, too
		}
		o.Failure = Timeout
		if o.Message == "" {
			o.Message = fmt.Sprintf("ran longer than its timeout of %v", t.spec.Timeout)
		}
	case probe.NoInput:
		o.Failure = NoInput
		again, rests, why := c.missing(a, m.Outputs, now)
		if again {
			return c.again(a, m, rests, now, acts)
		}
		if why != "" {
			o.Message += "; " + why
		}
	default:
		o.Failure = TaskError
	}
	if c.triesAgain(t, m, now) {
		if t.failures++; m.Retry == probe.Elsewhere {
			t.shuns = w.Worker
		}
		return c.again(a, m, t.backoff(), now, acts)
	}
	o.Receipt, acts = c.receipt(t, w, m.Attempt, now, acts)
	return c.end(t, &o, now, acts)
}

// triesAgain reports whether a task is tried again after an attempt has ended with that.
func (c *ledger) triesAgain(t *task, m *probe.Finished, now time.Time) bool {
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

// again lets a task rest, and then wait for another attempt than the one that has ended, if there is none.
func (c *ledger) again(a *attempt, m *probe.Finished, rests time.Duration, now time.Time, acts []Action) []Action {
	t := a.task
	started, ended := time.Time{}, now.Add(-m.Kept)
	if m.Run > 0 {
		started = ended.Add(-m.Run)
	}
	c.tried(a, endOf(m.Status), started, ended)
	acts = c.ack(a.w, m.Attempt, now, acts)
	claims := t.state == claiming // there may be another one already, of which it has not been told yet
	if j := t.group.job; claims || m.Attempt.Frontend != c.cfg.ID {
		if j.failed == nil {
			j.failed = map[probe.AttemptID]bool{}
		}
		j.failed[m.Attempt] = true // a worker that is asked again tells it again
	}
	if c.goesOn(t) {
		return acts
	}
	if m.Status != probe.Preempted {
		c.Stats.Retries++
	}
	if claims {
		return acts
	}
	if rests > 0 {
		c.rest(t, now.Add(rests))
	} else {
		c.await(t)
	}
	c.want(t.group) // for another task, if this one rests
	return acts
}

// phases reckons the moments of an attempt that has just been heard to be finished.
func (t *task) phases(m *probe.Finished, now time.Time) Phases {
	since := t.group.job.submitted
	at := func(x time.Time) time.Duration {
		if x.IsZero() {
			return 0
		}
		return x.Sub(since)
	}
	end := now.Sub(since) - m.Kept
	p := Phases{Released: at(t.group.came), Sampled: at(t.sampledAt), Ready: at(t.readyAt), Bound: at(t.boundAt)}
	if stages := t.group.job.stages; len(stages) > 0 {
		p.Released = max(p.Released, at(stages[t.spec.Stage].readyAt), at(t.freedAt))
	}
	way := t.trip(m, now) / 2
	p.Finished = end - way
	p.Started = p.Finished - m.Run
	p.Queued = p.Sampled + way // with the places of its job, which it waits for together with the other tasks
	if m.Held == 0 {
		p.Ready = max(p.Queued, p.Started-m.Launch)
		p.Bound = p.Ready
	}
	return p
}

// trip is two ways over the link: what is left of the time since the attempt's task was sent, after what the worker
// accounts for.
func (t *task) trip(m *probe.Finished, now time.Time) time.Duration {
	sent := t.boundAt
	if sent.IsZero() {
		sent = t.group.job.submitted
	}
	return max(0, now.Sub(sent)-m.Kept-m.Launch-m.Run)
}

// learn takes a run of a task into account.
func (c *ledger) learn(t *task, w *worker, m *probe.Finished) {
	if more := t.group.Runs.Ran(m.Run); more || t.long != nil || m.Run >= c.cfg.LongTask/4 {
		c.remember(t, w, m)
	}
}

// remember takes a run into account for the estimates of later ones.
func (c *ledger) remember(t *task, w *worker, m *probe.Finished) {
	run := estimate.Finished{Run: m.Run, Worker: int32(w.Key), Hint: t.spec.Estimate, Used: m.Usage.Demand(m.Run)}
	if row := c.view.Fleet().Get(int32(w.Key)); row != nil {
		run.Speed = row.Speed
	}
	if x := t.near; x != nil {
		run.Read, run.Bytes = x.read, t.spec.inputBytes()
	}
	if x := t.long; x != nil {
		run.Read, run.Bytes = x.read, x.bytes
		c.Waits.Add(x.wait, m.Waited)
		c.Runs.Add(x.run, m.Run)
		t.group.stage.Add(run)
	}
	t.group.Runs.Stats().Add(run)
}

// lose counts an attempt as lost: it may have run, may still run, or never did.
func (c *ledger) lose(a *attempt, died bool, why string, now time.Time, acts []Action) []Action {
	t := a.task
	c.settleRide(a, place.Gone)
	c.note(a, "lost: "+why)
	c.stopped(a, EndLost, now)
	c.dropAttempt(a)
	c.want(a.task.group)
	c.Stats.Losses++
	if !t.spec.Retryable {
		c.Stats.Lost++
		return c.end(t, &Outcome{Kind: Failed, Failure: Lost, Message: why + "; the task may start only once, and may or may not have run", Worker: a.w.Welcome().Worker, At: a.w.Key}, now, acts)
	}
	if died && a.ran {
		if t.losses++; t.losses >= c.cfg.PoisonAfter {
			c.Stats.Poisons++
			return c.end(t, &Outcome{Kind: Failed, Failure: Poison, Message: fmt.Sprintf("%d workers went away while they ran it, the last was %s: it is taken for the cause", t.losses, a.w.Welcome().Worker), Worker: a.w.Welcome().Worker, At: a.w.Key}, now, acts)
		}
	}
	if c.goesOn(t) {
		return acts
	}
	c.Stats.Retries++
	c.await(t)
	return acts
}

// started notes that an attempt runs.
func (c *ledger) started(w *worker, m *probe.Started, now time.Time, acts []Action) []Action {
	if a := w.attempts[m.Attempt]; a != nil {
		waited := !a.ran
		a.ran, a.since = true, now.Add(-m.Ran)
		a.job.serve()
		switch {
		case a == a.task.copy:
			c.note(a, "started")
		case a.task.state != bound:
			c.settleRide(a, place.Started)
			a.task.move(bound)
			c.note(a, "started")
		}
		if waited {
			acts = c.begun(a, now, acts)
		}
		return acts
	}
	switch t := c.task(m.Job, m.Task); {
	case t == nil:
	case t.state == claiming:
		c.Stats.Adopted++
		t.move(bound)
		t.attempt = c.adopt(t, w, m.Attempt, m.Ran, now)
		return acts
	case c.adoptsCopy(t, m.Attempt):
		c.adoptCopy(t, w, m.Attempt, m.Ran, now)
		return acts
	}
	return append(acts, Send{Worker: w.Key, Msg: probe.Kill{Attempt: m.Attempt}}) // its task has its outcome
}

// refused takes back what a worker did not accept.
func (c *ledger) refused(w *worker, m *probe.Refused, now time.Time, acts []Action) []Action {
	regular := true
	if r := w.places[m.First]; m.Count > 0 && r != nil {
		regular = r.group.class == probe.Regular
	}
	if a := w.attempts[m.Attempt]; a != nil {
		regular = a.class == probe.Regular
		c.want(a.task.group)
		c.settleRide(a, place.Gone)
		c.note(a, "refused: "+m.Reason.String())
		switch m.Reason {
		case probe.Unknown:
			if m.Knows > now.Sub(a.sent) { // it went down with the link before it started
				c.takeBack(a)
				break
			}
			acts = c.lose(a, false, "worker "+w.Welcome().Worker+" no longer knows of it", now, acts)
		case probe.NoFunction, probe.Oversized, probe.TooBig, probe.NeedsFiles, probe.NoCommon:
			acts = c.hitch(a, m.Reason, now, acts)
		default:
			c.takeBack(a)
			if g := a.task.group; m.Reason == probe.QueueFull && (g.Policy.Binding != Late || regular && g.path == estimate.Estimation && c.allFull(g, w, now)) {
				g.narrow()
			}
			if m.Reason == probe.Late && a.spent && w.Up() && w.places[a.res] == nil {
				c.restore(a)
				if a.job.waiting == 0 && a.job.Policy.Cancel { // its copy goes on
					acts = c.cancelPlaces(a.job, now, acts)
				}
			}
		}
	}
	for i := m.Count; i > 0; i-- { // the task of the first one goes to the front last
		c.placeGone(w, m.First+probe.ResID(i-1))
	}
	switch m.Reason {
	case probe.NoCommon:
		c.tellAgain(w)
	case probe.Leaving:
		c.drain(w) // its Drain was overtaken
	case probe.Moved:
		return c.allMoved(now, acts)
	case probe.QueueFull:
		if regular {
			c.full(w, m.RetryAfter, now)
		}
		if m.RetryAfter > 0 {
			for _, j := range c.wanting() {
				j.taken()
				c.putOff(j, now.Add(m.RetryAfter), now)
			}
		}
	}
	return acts
}

// maxHitches is how often a task's launch may come to nothing before it fails.
const maxHitches = 100

// hitch takes back a task that a worker cannot run although it said it could.
func (c *ledger) hitch(a *attempt, why probe.Reason, now time.Time, acts []Action) []Action {
	t := a.task
	if t.hitches++; t.hitches < maxHitches {
		c.takeBack(a)
		if t.long != nil && why == probe.TooBig {
			t.long.whole = true
		}
		return acts
	}
	c.dropAttempt(a)
	if c.goesOn(t) {
		return acts
	}
	return c.end(t, &Outcome{Kind: Failed, Failure: Infrastructure, Message: fmt.Sprintf("launched %d times and always refused, at last by %s: %v", t.hitches, a.w.Welcome().Worker, why)}, now, acts)
}

// placeGone forgets a place that the worker dropped or never took, and takes its task back if one rode along
// or was bound to it early.
func (c *ledger) placeGone(w *worker, id probe.ResID) {
	if r := w.places[id]; r != nil {
		c.want(r.group)
		a := r.ride(id)
		c.dropPlace(w, id, r, place.Gone)
		if a != nil {
			c.takeBack(a)
		}
		return
	}
	if a := w.enqueued[id]; a != nil && !a.ran {
		c.want(a.task.group)
		c.note(a, "evicted from its queue")
		c.takeBack(a)
	}
}

// queued takes back the rides that did not start.
func (c *ledger) queued(w *worker, m *probe.Queued, now time.Time, acts []Action) []Action {
	var of *job                    // whose rides were taken back
	for i := m.Count; i > 0; i-- { // the first one goes to the front last
		id := m.First + probe.ResID(i-1)
		if r := w.places[id]; r != nil {
			if a := r.ride(id); a != nil {
				c.unride(a, r)
				c.want(r.group)
				of = r.group.job
			}
		} else if a := w.enqueued[id]; a != nil && a == a.task.copy && a.task.long == nil {
			a.task.attempts--
			acts = c.halt(a, "withdrawn: there was no room", now, acts)
		} else if a != nil && m.Wait > 0 {
			a.starts = now.Add(m.Wait)
		}
	}
	if of != nil && of.waiting == 0 && of.Policy.Cancel { // their copies go on
		acts = c.cancelPlaces(of, now, acts)
	}
	return acts
}

// evicted takes back places that a worker had accepted.
func (c *ledger) evicted(w *worker, m *probe.Evicted, now time.Time, acts []Action) []Action {
	for i := m.Count; i > 0; i-- { // the task of the first one goes to the front last
		c.placeGone(w, m.First+probe.ResID(i-1))
	}
	switch m.Reason {
	case probe.Leaving:
		c.drain(w)
	case probe.Moved:
		return c.allMoved(now, acts)
	}
	return acts
}

// gone corrects what a Sync found to be believed in vain.
func (c *ledger) gone(w *worker, m *probe.Gone, now time.Time, acts []Action) []Action {
	for _, p := range m.Places {
		for i := range p.Count {
			if r := w.places[p.First+probe.ResID(i)]; r != nil {
				c.want(r.group)
				c.dropPlace(w, p.First+probe.ResID(i), r, place.Gone)
			}
		}
	}
	for _, id := range m.Attempts {
		if a := w.attempts[id]; a != nil && now.Sub(a.sent) >= probe.SyncAge {
			acts = c.lose(a, false, "worker "+w.Welcome().Worker+" knows nothing of it", now, acts)
		}
	}
	return acts
}

// allMoved forgets those of the jobs that want something whose clients have gone to another frontend: all.
func (c *ledger) allMoved(now time.Time, acts []Action) []Action {
	for _, j := range c.wanting() {
		acts = c.moved(j, now, acts)
	}
	return acts
}

// moved forgets a job whose client has gone to another frontend.
func (c *ledger) moved(j *job, now time.Time, acts []Action) []Action {
	if j.ended {
		return acts
	}
	c.settled(j, j.left)
	for _, t := range j.tasks {
		for _, a := range t.underWay() {
			c.withdraw(a)
		}
		c.unwait(t)
		if t.state != done {
			t.move(done)
		}
	}
	acts = c.forget(j, now, acts)
	return append(acts, Moved{j.ID})
}

// forget drops a job that has no task left to care for.
func (c *ledger) forget(j *job, now time.Time, acts []Action) []Action {
	j.ended = true
	j.leave()
	c.presumeStarted(now) // lets go of j
	acts = c.cancelPlaces(j, now, acts)
	acts = c.retract(j, acts)
	c.depart(j)
	return acts
}

// end gives a task its outcome; the last one ends the job.
func (c *ledger) end(t *task, o *Outcome, now time.Time, acts []Action) []Action {
	j := t.group.job
	c.unwait(t)
	acts = c.stopRest(t, now, acts)
	if t.move(done); t.group.window > 0 {
		c.widen(t.group)
	}
	o.Task, o.Stage, o.Path, o.Attempts, o.Earlier = t.spec.Index, t.spec.Stage, t.group.path, t.attempts, t.earlier
	if !slices.ContainsFunc(o.Outputs, func(o probe.Output) bool { return o.File }) { // else it may have to run again
		c.unload(j, len(t.spec.Payload))
		t.spec.Payload = nil
	}
	c.settled(j, 1)
	if t.remade > 0 {
		acts = c.remadeEnded(t, o, now, acts)
	} else {
		c.Stats.Outcomes[o.Kind]++
		d := c.lent.done.New()
		d.Job, d.Outcome = j.ID, *o
		acts = append(acts, d)
		if len(j.stages) > 0 {
			c.stageEnded(t, o)
		}
	}
	if j.ended { // with the last of those that waited for this one
		return acts
	}
	if j.left == 0 && (!j.Open || j.ending) {
		acts = c.endJob(j, now, acts)
	} else if j.waiting == 0 && j.Policy.Cancel && !j.ending {
		acts = c.cancelPlaces(j, now, acts)
	}
	if !j.ended && j.left == 0 {
		c.settle(j, now) // nothing of it is late any more
	}
	return acts
}

// remadeEnded lets those go on that have waited for a task to run again, or fails them.
func (c *ledger) remadeEnded(p *task, o *Outcome, now time.Time, acts []Action) []Action {
	readers := p.readers
	p.readers = nil
	acts = c.delivered([]Receipt{o.Receipt}, now, acts) // nobody else asks for it
	for _, t := range readers {
		switch {
		case t.state == done || t.group.job.ending:
		case o.Kind != Result:
			acts = c.stop(t, Outcome{Kind: Failed, Failure: NoInput, Message: fmt.Sprintf("what task %d had left is lost, and it failed when it ran again: %s", p.spec.Index, o.Message)}, now, acts)
		default:
			if t.awaits--; t.awaits == 0 {
				c.freed = append(c.freed, t)
			}
		}
	}
	return acts
}

// endJob ends a job all of whose tasks have outcomes.
func (c *ledger) endJob(j *job, now time.Time, acts []Action) []Action {
	return append(c.forget(j, now, acts), Ended{j.ID})
}

// endAll ends every task of a job that has no outcome yet, wherever it is, and so the job.
func (c *ledger) endAll(j *job, o Outcome, now time.Time, acts []Action) []Action {
	if j.ending = true; j.left == 0 {
		return c.endJob(j, now, acts)
	}
	for _, t := range j.tasks {
		if t.state != done {
			acts = c.stop(t, o, now, acts)
		}
	}
	return acts
}

// stop ends a task that has no outcome yet, wherever it is.
func (c *ledger) stop(t *task, o Outcome, now time.Time, acts []Action) []Action {
	for _, a := range t.underWay() {
		c.stopped(a, EndStopped, now)
		acts = c.halt(a, "stopped: "+o.Message, now, acts)
	}
	return c.end(t, &o, now, acts)
}

// endStranded ends the tasks of a job for which no worker has come back in time.
func (c *ledger) endStranded(j *job, now time.Time, acts []Action) []Action {
	j.stranded = time.Time{}
	for _, t := range j.tasks {
		if (t.state == waiting || t.state == matching) && t.group.Set.Len() == 0 {
			acts = c.end(t, &Outcome{Kind: Failed, Failure: NoWorker, Message: fmt.Sprintf("every worker that could run it has been away for %v", c.cfg.StrandedFor)}, now, acts)
		}
	}
	return acts
}

// overdue ends a job at its deadline.
func (c *ledger) overdue(j *job, now time.Time, acts []Action) []Action {
	why := fmt.Sprintf("not finished within %v", j.Deadline)
	if !j.stranded.IsZero() {
		why += fmt.Sprintf(", as every worker that could run it has been away for %v", now.Sub(j.stranded).Round(time.Millisecond))
	}
	return c.endAll(j, Outcome{Kind: DeadlineExceeded, Message: why}, now, acts)
}

// advance fails the jobs of which a stage has failed, and starts the stages, and the tasks, of the others for which those
// before them have ended.
func (c *ledger) advance(now time.Time, acts []Action) []Action {
	for len(c.staging) > 0 {
		j := c.staging[0]
		c.staging = slices.Delete(c.staging, 0, 1)
		switch {
		case j.ended:
		case j.cause != "":
			acts = c.endAll(j, Outcome{Kind: Failed, Failure: StageFailed, Message: j.cause}, now, acts)
		default:
			c.startStages(j, now)
		}
	}
	c.free(now)
	return acts
}
