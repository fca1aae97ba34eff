package frontend

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// When all runnable tasks of a job are at workers, the end of the job depends on the last tasks. Late tasks get
// copies at workers with an earlier expected end, while copies are few. A task is late if it runs longer than earlier
// runs, or if its worker reports a later start than expected.

const (
	// minCopyGain is a ratio: a copy is made only if the time left is more than minCopyGain times the time that the
	// copy needs until its end. Both times are estimates, and a copy for a small gain is often in vain. With 1.5, p99
	// of long jobs was higher (figure corrections).
	minCopyGain = 1.25
	// enoughRuns is the number of known runs needed before a task is compared with the longest run, or with the runs
	// of its stage. With fewer runs, a task that is only a little longer often looks late. With more runs, small jobs
	// get no copies. The number was chosen, and not measured.
	enoughRuns = 8
	// While fewer than enoughRuns tasks of its stage have ended, a task that has run for at most maxHintedRuns times
	// its hinted run is not late. Hints may be rough. With 2 and with 4, the results were the same (figure
	// corrections).
	maxHintedRuns = 3
	// looksPerRun is the number of checks of a long task for lateness during its expected run. So lateness is noticed
	// within about an eighth of a run. The number was chosen: more checks notice earlier, and take more CPU time.
	looksPerRun = 8
	// standingRuns is the least time left of a process that stands still, in runs of a copy. Nobody knows that time.
	// With 1, a copy never gains minCopyGain. The number was chosen.
	standingRuns = 2
	// lookPausePerTask is the least time from one check of a job to the next, for each task of the job. A check takes
	// some 2 ns for each task, so checks take at most a hundredth of the time. The hundredth was chosen.
	lookPausePerTask = 100 * 2 * time.Nanosecond
	// maxEstimated bounds the late tasks of a check for which a worker is sought, so that a check is short. Tasks with
	// the most time left go first, and later tasks wait for the next check. The number was chosen, and not measured.
	maxEstimated = 32
)

// tailTask is a long task at the tail of its job.
type tailTask struct {
	task     *task
	timeLeft time.Duration // until the expected end
}

// lookAtTail makes copies of late tasks at the tail of a job, and sets the time of the next check.
func (c *planner) lookAtTail(j *job, now time.Time, acts []Action) []Action {
	nextLook := maxSleep
	var lateShort []*task
	var long []tailTask
	for _, t := range j.tasks {
		switch {
		// long also gets tasks that may have no copy, because the end of the job may depend on them.
		case t.long != nil && (t.isRunning() || t.isQueued()):
			if c.updateWork(t.long); t.spec.Retryable {
				nextLook = min(nextLook, max(t.long.spec.Work.Run/looksPerRun, minSleep))
			}
			timeLeft := c.timeLeft(t, now)
			if t.copy != nil {
				acts = c.stopSlowerCopy(t, timeLeft, now, acts)
			}
			long = append(long, tailTask{t, timeLeft})
		// t.long is nil if t is short, or if a claim found t at a worker. Tasks with files
		// get no copy here. The copy would not start at once, because its worker would first fetch the files.
		case t.long == nil && len(t.spec.Files) == 0 && c.mayCopy(t):
			lateIn, every := c.whenShortLate(t, now)
			if lateIn <= 0 {
				lateShort = append(lateShort, t)
				lateIn = every // without an idle worker, the task is tried again
			}
			nextLook = min(nextLook, lateIn)
		}
	}
	acts = c.copyShort(lateShort, now, acts)
	acts, asked := c.copyLong(long, now, acts)
	if asked {
		nextLook = c.view.Trip() // then the answers are here
	}
	c.setTailAt(j, now.Add(max(nextLook, lookPause(j))))
	return acts
}

// lookPause returns the shortest time from one check of a job to the next.
func lookPause(j *job) time.Duration {
	return max(batchPause, time.Duration(len(j.tasks))*lookPausePerTask)
}

// recheckSoon moves up the next check of a job if w reports a later start of a task than expected. The reason may be
// that another frontend chose the same worker at the same time.
func (c *planner) recheckSoon(w *worker, m *probe.Queued, now time.Time) {
	a := w.enqueued[m.First]
	if m.Wait <= 0 || a == nil || !a.task.isSlipping() {
		return
	}
	if j, lookAt := a.job, now.Add(lookPause(a.job)); lookAt.Before(j.tailAt) {
		c.setTailAt(j, lookAt)
		c.refreshJob(j, now)
	}
}

// whenShortLate returns the time until a sampled task is late, and the time between checks from then on. A task is late
// after twice the longest recent run of the function at other workers, plus a round trip. The factor was chosen: runs
// vary. With fewer than enoughRuns known runs no task is late, and lateIn is the time until the next check.
func (c *planner) whenShortLate(t *task, now time.Time) (lateIn, every time.Duration) {
	a := t.attempt
	longest, seen := t.group.Runs.Stats().Longest(int32(a.w.Key))
	every = max(longest, c.view.Trip())
	if seen < enoughRuns {
		return max(every, firstLag), 0
	}
	return a.runsSince.Add(2*longest + c.view.Trip()).Sub(now), every
}

// copyShort sends copies of late short tasks to idle workers. The tasks that have run the longest come first.
func (c *planner) copyShort(late []*task, now time.Time, acts []Action) []Action {
	slices.SortFunc(late, func(t, u *task) int {
		return cmp.Or(t.attempt.runsSince.Compare(u.attempt.runsSince), cmp.Compare(t.spec.Index, u.spec.Index))
	})
	for _, t := range late {
		if !c.mayAddCopy() {
			break
		}
		if t.copy != nil {
			continue
		}
		w := c.idleWorkerFor(t)
		if w == nil {
			continue
		}
		stats, ran, bytes := t.group.Runs.Stats(), now.Sub(t.attempt.runsSince), int64(0)
		if t.near != nil {
			bytes = t.spec.inputBytes()
		}
		run, dev, _ := stats.TimeLeft(0, 0, bytes, int32(t.attempt.w.Key))
		if t.near != nil {
			run += c.view.Fleet().ReadTime(t.near.inputs, int32(w.Key))
		}
		if ran < run { // see copyLong
			continue
		}
		acts = c.commitCopy(t, &estimate.Decision{
			Work: estimate.Work{Run: run, Dev: dev, Source: stats.FunctionSource(), Samples: stats.N()},
			Candidates: []estimate.Candidate{{
				Worker: int32(w.Key), Name: w.Welcome().Worker, Kind: estimate.Light, R: run, E: run, C: run, Psucc: 1,
			}},
			Seen: 1,
			Reason: fmt.Sprintf(
				"it is idle, and gets a copy of attempt %s, which has run at %s for %v, twice as long as any other task lately",
				t.attempt.id, t.attempt.w.Welcome().Worker, ran.Round(time.Microsecond)),
		}, now, acts)
	}
	return acts
}

// idleWorkerFor returns a worker believed to have room for a copy of t, or nil. It looks at maxLooked idle workers,
// from a random one on, so that frontends choose different workers.
func (c *planner) idleWorkerFor(t *task) *view.Worker {
	idle := c.view.Idle()
	if len(idle) == 0 {
		return nil
	}
	first := c.rand.IntN(len(idle))
	for i := range min(len(idle), maxLooked) {
		w := idle[(first+i)%len(idle)]
		if w != t.attempt.w.Worker && w != t.shunned && t.group.Set.Contains(w) && w.Room(t.spec.Demand) > 0 {
			return w
		}
	}
	return nil
}

// timeLeft returns the time until the expected end of the first attempt of a long task. If the attempt reports
// progress, the worker's report counts, which goes by the recent speed. Without progress, the time is estimated as for
// a worker of normal pace, because a slow machine may be fast again.
func (c *planner) timeLeft(t *task, now time.Time) time.Duration {
	x := t.long
	return c.attemptTimeLeft(t.attempt, x.wait, x.read, now)
}

// copyTimeLeft is timeLeft for the copy of t. While the copy reports no progress, the run that was expected as the copy
// was made counts: the progress of the first attempt told how long t runs on a sound machine.
func (c *planner) copyTimeLeft(t *task, now time.Time) time.Duration {
	a := t.copy
	run, ran := a.asCopy.run, now.Sub(a.runsSince)
	if a.progress().doneShare == 0 && !a.runsSince.IsZero() && ran < run {
		return run - ran
	}
	return c.attemptTimeLeft(a, a.asCopy.wait, a.asCopy.read, now)
}

// attemptTimeLeft returns the time until the expected end of an attempt of a long task. wait and read are the wait and
// the time to read inputs that were expected as the attempt was sent.
func (c *planner) attemptTimeLeft(a *attempt, wait, read time.Duration, now time.Time) time.Duration {
	forecast, speed, reported := c.chooseForecast(a.task, now), c.speedOf(a.w), a.progress()
	switch {
	case a.runsSince.IsZero():
		starts := a.expectedStart
		if starts.IsZero() {
			starts = a.sentAt.Add(wait)
		}
		return max(starts.Sub(now), 0) + read + scaleTime(1/speed, forecast.workLeft(0).Run)
	case reported.doneShare > 0:
		return max(reported.timeLeft-now.Sub(reported.reportedAt), 0)
	}
	ran := now.Sub(a.runsSince)
	worked := scaleTime(speed, max(ran-read, 0))
	timeLeft := max(read-ran, 0) + scaleTime(1/speed, forecast.workLeft(worked).Run)
	if reported.standsFor > 0 {
		timeLeft = max(timeLeft, scaleTime(standingRuns, read+scaleTime(1/speed, forecast.workLeft(0).Run)))
	}
	return timeLeft
}

// paceOf returns the pace of a worker, or 1 if the pace is not known.
func paceOf(w *view.Worker) float64 { return cmp.Or(w.Pace(), 1) }

// forecast says how long a task works on. The first attempt and a copy share a forecast. Otherwise a copy would look
// shorter than its task although the copy does the same work.
type forecast struct {
	task   *task
	source estimate.Source
	stats  *estimate.Stats // runs of tasks that have ended; nil: the task's expected run counts
}

// chooseForecast returns the forecast for the attempts of t: ended tasks of the stage, or of the function if no task of
// the stage has ended.
//
// While fewer than enoughRuns tasks of the stage have ended, the hint of t counts instead, until the first attempt has
// run for maxHintedRuns times the hinted run. Other runs of the function say little then, because their hints may
// differ.
func (c *planner) chooseForecast(t *task, now time.Time) forecast {
	x, stats := t.long, t.group.stageStats
	switch {
	case stats.N() >= enoughRuns:
	case t.spec.Estimate > 0 && c.workedFor(t, now) <= maxHintedRuns*x.spec.Work.Run:
		return forecast{task: t}
	case stats.N() == 0:
		runs := t.group.Runs.Stats()
		return forecast{t, runs.FunctionSource(), runs}
	}
	return forecast{t, estimate.FromStage, stats}
}

// workedFor returns how long the first attempt of t has run, as on a worker of speed 1, without the reading of inputs.
func (c *planner) workedFor(t *task, now time.Time) time.Duration {
	if !t.isRunning() {
		return 0
	}
	return scaleTime(c.speedOf(t.attempt.w), max(now.Sub(t.attempt.runsSince)-t.long.read, 0))
}

// workLeft returns the work left of an attempt that has worked for worked. If no longer run is known, workLeft returns
// the rest of the expected run, but at least worked: a task that has run for long is likely to go on for as long again.
// By the hint alone, an attempt is never late.
func (f forecast) workLeft(worked time.Duration) estimate.Work {
	x, work := f.task.long, f.task.long.spec.Work
	if f.stats == nil {
		work.Run = max(work.Run-worked, 0)
		return work
	}
	mean, dev, known := f.stats.TimeLeft(worked, f.task.spec.Estimate, x.inputBytes, int32(f.task.attempt.w.Key))
	if !known {
		work.Run = max(work.Run-worked, worked)
		return work
	}
	return estimate.Work{Run: mean, Dev: dev, Source: f.source, Samples: f.stats.N()}
}

// copyLong makes copies of late long tasks, if the copy would end sooner and the job's end depends on the task. The
// tasks with the most time left come first. If a task can have no copy, the job ends no sooner than the task. So
// copies of tasks that end before it would gain nothing. A process that stands still does not count so, because its
// time left is a guess. A task gets no copy before it has run for as long as its copy would run: until then it does as
// well as a copy. Tasks that report progress need not wait, because the progress tells whether they are late. If they
// waited, p99 of long jobs was up to 11 % higher (figure corrections).
//
// The result asked says whether copyLong asked workers for newer matrices, and so put off a copy.
func (c *planner) copyLong(candidates []tailTask, now time.Time, acts []Action) (_ []Action, asked bool) {
	slices.SortFunc(candidates, func(a, b tailTask) int {
		return cmp.Or(cmp.Compare(b.timeLeft, a.timeLeft), cmp.Compare(a.task.spec.Index, b.task.spec.Index))
	})
	jobEnd := time.Duration(0) // from now: the tasks seen so far keep the job from ending earlier
	estimated := 0
	for _, candidate := range candidates {
		t, timeLeft := candidate.task, candidate.timeLeft
		if timeLeft <= jobEnd || estimated == maxEstimated || !c.mayAddCopy() {
			break
		}
		if t.copy != nil {
			continue // t may end sooner, with its copy, so jobEnd stays
		}
		if !c.mayCopy(t) {
			if t.attempt.progress().standsFor == 0 {
				jobEnd = timeLeft
			}
			continue
		}
		estimated++
		t.long.spec.Set, t.long.spec.ExtraCandidates = 0, nil // from the last batch; a copy is placed alone
		t.long.spec.Work = c.copyWork(t, now)
		choice := c.view.Fleet().Decide(&t.long.spec, now, c.rand)
		copyEnd, copyRun := c.chooseSoonest(t, &choice)
		found := choice.Chosen >= 0
		if found {
			jobEnd = max(jobEnd, min(timeLeft, copyEnd))
		} else {
			jobEnd = max(jobEnd, timeLeft)
		}
		isYoung := t.isRunning() && t.attempt.progress().doneShare == 0 && now.Sub(t.attempt.runsSince) < copyRun
		if !found || isYoung || float64(timeLeft) <= minCopyGain*float64(copyEnd) {
			// Without a wait, a copy may pay.
			if !isYoung && float64(timeLeft) > minCopyGain*float64(t.long.spec.Work.Run) {
				acts = c.askMatricesForCopy(t, now, acts)
			}
			continue
		}
		if n := len(acts); t.isQueued() {
			if acts = c.askNewerMatrices(t.attempt, &choice, now, acts); len(acts) > n {
				asked = true
				continue
			}
		}
		choice.Reason = fmt.Sprintf("it gets a copy of attempt %s, %s", t.attempt.id, whyLate(t, timeLeft, now))
		acts = c.commitCopy(t, &choice, now, acts)
	}
	return acts, asked
}

// askNewerMatrices asks nobody if the matrix of the worker chosen for the copy is newer than attempt a. Otherwise it
// asks all candidates with matrices no newer than a. The matrix by which a was placed promised an earlier start
// than a got, and matrices of that age may be just as wrong.
func (c *planner) askNewerMatrices(a *attempt, choice *estimate.Decision, now time.Time, acts []Action) []Action {
	isOld := func(candidate *estimate.Candidate) bool { return candidate.Age >= now.Sub(a.sentAt) }
	if !isOld(choice.Choice()) {
		return acts
	}
	for i := range choice.Candidates {
		candidate := &choice.Candidates[i]
		if w := c.workers[candidate.Worker]; w != a.w && isOld(candidate) && w.mayAskMatrix(now) {
			acts = c.askMatrix(w, a.task, now, acts)
		}
	}
	return acts
}

// askMatricesForCopy asks workers with a missing or old matrix, so that the next check knows where a copy would end
// sooner. Without gossip, matrices may be as old as t.attempt, and show workers as busy as they were then.
func (c *planner) askMatricesForCopy(t *task, now time.Time, acts []Action) []Action {
	for _, key := range c.doubtfulWorkers(t.long, 1, now) { // 1: a copy is placed alone, not in a batch
		if w := c.workers[key]; w != t.attempt.w && w.mayAskMatrix(now) {
			acts = c.askMatrix(w, t, now, acts)
		}
	}
	return acts
}

// copyWork returns the work of a copy of t: the whole run, because a copy starts anew. If t runs and reports progress,
// copyWork computes the whole run from the progress. The run is divided by the pace of the present worker, because a
// copy elsewhere does not suffer from a slow worker.
func (c *planner) copyWork(t *task, now time.Time) estimate.Work {
	x, a := t.long, t.attempt
	p := a.progress()
	if !t.isRunning() || p.doneShare == 0 || p.doneShare >= 1 || a.w.Pace() == 0 {
		return c.chooseForecast(t, now).workLeft(0)
	}
	// A Work counts neither the reading of inputs nor the speed of the machine.
	whole := max(scaleTime(1/(1-p.doneShare)/a.w.Pace(), p.timeLeft)-x.read, 0)
	return estimate.Work{Run: scaleTime(c.speedOf(a.w), whole), Dev: x.spec.Work.Dev, Source: estimate.FromProgress}
}

// chooseSoonest sets choice.Chosen to the candidate where a copy of t would end first, and returns the time until that
// end, and how long the copy would run. The paces of the workers count. If no other worker can take the copy, Chosen is
// -1, and the times are 0.
func (c *planner) chooseSoonest(t *task, choice *estimate.Decision) (copyEnd, copyRun time.Duration) {
	choice.Chosen = -1
	for i := range choice.Candidates {
		candidate := &choice.Candidates[i]
		w := c.workers[candidate.Worker].Worker
		if w == t.attempt.w.Worker || w == t.shunned || !w.Up() {
			continue
		}
		slower := scaleTime(paceOf(w)-1, candidate.R)
		if end := candidate.C + slower; choice.Chosen < 0 || end < copyEnd {
			choice.Chosen, copyEnd, copyRun = i, end, candidate.R+slower
		}
	}
	return copyEnd, copyRun
}

// stopSlowerCopy stops the copy of t if the first attempt, with timeLeft to go, has caught up: by its progress the
// attempt ends no later than the copy. The machine may be fast again, and the copy would only take a slot. Without
// progress, nobody knows whether the attempt has caught up. If copies stopped on a guess, p99 of long jobs was up to
// 15 % higher (figure corrections).
func (c *planner) stopSlowerCopy(t *task, timeLeft time.Duration, now time.Time, acts []Action) []Action {
	if !t.isRunning() || t.attempt.progress().doneShare == 0 ||
		!t.copy.w.Linked() || timeLeft > c.copyTimeLeft(t, now) {
		return acts
	}
	return c.stopCopy(t, now, acts)
}

// whyLate tells people why a long task is late.
func whyLate(t *task, timeLeft time.Duration, now time.Time) string {
	a := t.attempt
	name := a.w.Welcome().Worker
	if t.isRunning() {
		text := fmt.Sprintf("which has run at %s for %.3fs and is expected to run for %.3fs more",
			name, now.Sub(a.runsSince).Seconds(), timeLeft.Seconds())
		if p := a.progress(); p.standsFor > 0 {
			text += fmt.Sprintf(", because it has hardly used CPU time for %.1fs, unlike the tasks of its stage",
				p.standsFor.Seconds())
		} else if p.doneShare > 0 {
			text += fmt.Sprintf(", because %.0f %% is done", 100*p.doneShare)
		}
		if pace := a.w.Pace(); pace > 0 {
			text += fmt.Sprintf("; long tasks take %.1f times as long there as expected", pace)
		}
		return text
	}
	return fmt.Sprintf(
		"which was expected to wait at %s for %.3fs, has waited for %.3fs, and is expected to wait for %.3fs more",
		name, t.long.wait.Seconds(), now.Sub(a.sentAt).Seconds(), max(a.expectedStart.Sub(now), 0).Seconds())
}
