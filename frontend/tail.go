package frontend

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// When all runnable tasks of a job are at workers, the end of the job depends on the last tasks. Late tasks get
// copies at workers with an earlier expected end, while copies are few. A task is late if it runs longer than earlier
// runs, or if its worker reports a later start than expected.

// The values trade the gain of copies against their cost. No measurement of them is on record.
const (
	// A copy is made only if the time left is more than worthCopy times the time that the copy needs until its end.
	// Both times are estimates. A lower value makes more copies for a small or a wrong gain; with a higher value, more
	// late tasks get no copy.
	worthCopy = 1.25
	// enoughRuns is the number of known runs needed before a task is compared with the longest run, or with the runs
	// of its stage. With fewer runs, a task that is only a little longer often looks late. With more runs, small jobs
	// get no copies.
	enoughRuns = 8
	// hintsWithin is the multiple of the hinted run up to which a task is not late by its run time, while fewer than
	// enoughRuns tasks of its stage have ended. A lower value blames tasks for rough hints; with a higher value, a slow
	// worker is noticed later.
	hintsWithin = 3
	// looksPerRun is the number of checks of a long task for lateness during the expected run time: lateness is
	// noticed within about an eighth of a run. More checks notice earlier, and take more CPU time.
	looksPerRun = 8
	// lookPausePerTask bounds the CPU time of checks in jobs with many tasks. Before each check, lookAtTail pauses for
	// this time for each task of the job, so the checks take at most a hundredth of the time.
	lookPausePerTask = 100 * 2 * time.Nanosecond // a task is checked in 2 ns
	// maxEstimated bounds the estimates for copies in a check. The bound keeps a check short. Late tasks beyond the
	// bound wait for the next check; tasks with the most time left go first.
	maxEstimated = 32
)

// tailTask is a task at the tail of its job, and a candidate for a copy.
type tailTask struct {
	task     *task
	timeLeft time.Duration // until the expected end; of a short task, the run so far
}

// lookAtTail makes copies of late tasks at the tail of a job, and sets the time of the next check.
func (c *planner) lookAtTail(j *job, now time.Time, acts []Action) []Action {
	nextLook := maxSleep
	var short, long []tailTask
	for _, t := range j.tasks {
		switch {
		case t.long != nil && (t.isRunning() || t.isQueued()):
			if c.updateWork(t.long); t.spec.Retryable {
				nextLook = min(nextLook, max(t.long.spec.Work.Mean/looksPerRun, minSleep))
			}
			long = append(long, tailTask{t, c.timeLeft(t, now)})
		// If a task was found by a claim, long is nil, and the task counts as short. Such a task may need files. Then
		// a copy would not start at once, because the worker would first fetch the files.
		case t.long == nil && len(t.spec.Files) == 0 && c.mayCopy(t):
			due, every := c.whenShortLate(t, now)
			if due <= 0 {
				due = every
				short = append(short, tailTask{t, now.Sub(t.attempt.runsSince)})
			}
			nextLook = min(nextLook, due)
		}
	}
	acts = c.copyShort(short, now, acts)
	acts, asked := c.copyLong(long, now, acts)
	if asked {
		nextLook = c.view.Trip()
	}
	c.setTailAt(j, now.Add(max(nextLook, lookPause(j))))
	return acts
}

// lookPause returns the shortest time from one check of a job to the next.
func lookPause(j *job) time.Duration {
	return max(batchPause, time.Duration(len(j.tasks))*lookPausePerTask)
}

// recheckSoon moves up the next check of a job if w reports a later start of a task than expected. Then another
// frontend may have chosen the same worker at the same time.
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

// sortLongestFirst sorts tasks by timeLeft, longest first. For short tasks, timeLeft is the run so far.
func sortLongestFirst(ts []tailTask) {
	slices.SortFunc(ts, func(a, b tailTask) int {
		return cmp.Or(cmp.Compare(b.timeLeft, a.timeLeft), cmp.Compare(a.task.spec.Index, b.task.spec.Index))
	})
}

// whenShortLate returns the time until a sampled task is late, and the time between checks from then on. A task is late
// after twice the longest recent run of the function at other workers, plus a round trip. With fewer than enoughRuns
// known runs no task is late, and lateIn is the time until the next check.
func (c *planner) whenShortLate(t *task, now time.Time) (lateIn, every time.Duration) {
	a := t.attempt
	longest, seen := t.group.Runs.Stats().Longest(int32(a.w.Key))
	every = max(longest, c.view.Trip())
	if seen < enoughRuns {
		return max(every, firstLag), 0
	}
	return a.runsSince.Add(2*longest + c.view.Trip()).Sub(now), every
}

// copyShort sends copies of late short tasks to idle workers.
func (c *planner) copyShort(candidates []tailTask, now time.Time, acts []Action) []Action {
	sortLongestFirst(candidates)
	for _, l := range candidates {
		if !c.mayAddCopy() {
			break
		}
		t := l.task
		if t.copy != nil {
			continue
		}
		w := c.idleWorkerFor(t)
		if w == nil {
			continue
		}
		run := t.group.Runs.Stats().Typical()
		if t.near != nil {
			run += c.view.Fleet().ReadTime(t.near.inputs, int32(w.Key))
		}
		acts = c.commitCopy(t, &estimate.Decision{
			Work: estimate.Work{Mean: run, Source: estimate.FromFunction, Samples: t.group.Runs.Stats().N()},
			Candidates: []estimate.Candidate{{
				Worker: int32(w.Key), Name: w.Welcome().Worker, Kind: estimate.Light, R: run, E: run, C: run, Psucc: 1,
			}},
			Seen: 1,
			Reason: fmt.Sprintf(
				"it is idle, and gets a copy of attempt %s, which has run at %s for %v, twice as long as any other task lately",
				t.attempt.id, t.attempt.w.Welcome().Worker, l.timeLeft.Round(time.Microsecond)),
		}, now, acts)
	}
	return acts
}

// idleWorkerFor returns a worker believed to have room for a copy of t, or nil.
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

// timeLeft returns the time until the expected end of a long task. If the task reports progress, the worker's report
// counts. Otherwise the pace of the worker is left out, because a slow machine may be fast again.
func (c *planner) timeLeft(t *task, now time.Time) time.Duration {
	x, a := t.long, t.attempt
	switch {
	case !t.isRunning():
		return max(a.expectedStart.Sub(now), 0) + x.run
	case a.progress.doneShare > 0:
		return max(a.progress.timeLeft-now.Sub(a.progress.reportedAt), 0)
	}
	return c.remainingRun(t, max(now.Sub(a.runsSince)-x.read, 0))
}

// paceOf returns the pace of a worker, or 1 if unknown.
func paceOf(w *view.Worker) float64 { return cmp.Or(w.Pace(), 1) }

// scaleTime multiplies a time, and avoids an overflow.
func scaleTime(factor float64, d time.Duration) time.Duration {
	return time.Duration(min(factor*float64(d), float64(math.MaxInt64/2)))
}

// remainingRun returns how much longer t will run, if t has run for ran so far. The estimate goes by ended tasks that
// ran longer: tasks of the stage, or of the function if no task of the stage has ended. The hint of t counts instead
// while fewer than enoughRuns tasks of the stage have ended, and ran is at most hintsWithin times the hinted run. The
// runs of the function may be of tasks with other hints. If nothing is known of longer runs, remainingRun takes the
// rest of the expected run, or ran once more if that is longer.
func (c *planner) remainingRun(t *task, ran time.Duration) time.Duration {
	x, a := t.long, t.attempt
	stats, run := t.group.stageStats, x.spec.Work.Mean
	if row := c.view.Fleet().Get(int32(a.w.Key)); row != nil && row.Speed > 0 {
		run = scaleTime(1/row.Speed, run)
	}
	switch {
	case stats.N() >= enoughRuns:
	case t.spec.Estimate > 0 && ran <= hintsWithin*run:
		return max(run-ran, 0)
	case stats.N() == 0:
		stats = t.group.Runs.Stats()
	}
	if timeLeft, known := stats.TimeLeft(ran, t.spec.Estimate, x.inputBytes, int32(a.w.Key)); known {
		return timeLeft
	}
	return max(run-ran, ran)
}

// copyLong makes copies of late long tasks, if the copy would end sooner and the job's end depends on the task. The
// end of the job does not depend on a task that ends before another task without a possible copy. The result asked
// says whether copyLong asked workers for newer matrices, and so put off a copy.
func (c *planner) copyLong(candidates []tailTask, now time.Time, acts []Action) (_ []Action, asked bool) {
	sortLongestFirst(candidates)
	end, decided := time.Duration(0), 0
	for _, l := range candidates {
		if l.timeLeft <= end || decided == maxEstimated || !c.mayAddCopy() {
			break
		}
		t := l.task
		if t.copy != nil {
			continue // t ends with its copy, at the latest
		}
		if !c.mayCopy(t) {
			end = l.timeLeft
			continue
		}
		decided++
		t.long.spec.Set, t.long.spec.ExtraCandidates = 0, nil
		t.long.spec.Work = c.copyWork(t)
		choice := c.view.Fleet().Decide(&t.long.spec, now, c.rand)
		best := c.chooseSoonest(t, &choice)
		known := choice.Chosen >= 0
		if known {
			end = max(end, min(l.timeLeft, best))
		} else {
			end = max(end, l.timeLeft)
		}
		if !known || float64(l.timeLeft) <= worthCopy*float64(best) {
			if float64(l.timeLeft) > worthCopy*float64(t.long.spec.Work.Mean) {
				acts = c.askMatricesForCopy(t, now, acts)
			}
			continue
		}
		if n := len(acts); t.isQueued() {
			if acts = c.askFresher(t.attempt, &choice, now, acts); len(acts) > n {
				asked = true
				continue
			}
		}
		choice.Reason = fmt.Sprintf("it gets a copy of attempt %s, %s", t.attempt.id, whyLate(t, l.timeLeft, now))
		acts = c.commitCopy(t, &choice, now, acts)
	}
	return acts, asked
}

// askFresher asks for newer matrices, if the matrix of the worker chosen for the copy is no newer than attempt a. Then
// askFresher asks all candidates with such old matrices. The matrix by which a was placed promised an earlier start
// than a got, and matrices of that age may be wrong likewise.
func (c *planner) askFresher(a *attempt, choice *estimate.Decision, now time.Time, acts []Action) []Action {
	isOld := func(candidate *estimate.Candidate) bool { return candidate.Age >= now.Sub(a.sentAt) }
	if !isOld(choice.Choice()) {
		return acts
	}
	for i := range choice.Candidates {
		candidate := &choice.Candidates[i]
		if w := c.workers[candidate.Worker]; w != a.w && isOld(candidate) && w.mayAskMatrix(now) {
			acts = c.askMatrix(w, now, acts)
		}
	}
	return acts
}

// askMatricesForCopy asks for matrices, so that the next check knows where a copy would end sooner. Without gossip,
// matrices may be as old as attempt t.attempt, and show workers as busy as they were then.
func (c *planner) askMatricesForCopy(t *task, now time.Time, acts []Action) []Action {
	for _, key := range c.doubtfulWorkers(t.long, 1, now) {
		if w := c.workers[key]; w != t.attempt.w && w.mayAskMatrix(now) {
			acts = c.askMatrix(w, now, acts)
		}
	}
	return acts
}

// copyWork returns the work of a copy of t, which runs from the start. If t runs and reports progress, copyWork
// computes the whole run from the progress. Then copyWork divides the run by the pace of the present worker, because
// a copy elsewhere does not suffer from a slow worker.
func (c *planner) copyWork(t *task) estimate.Work {
	x, a := t.long, t.attempt
	p := &a.progress
	if !t.isRunning() || p.doneShare == 0 || p.doneShare >= 1 || a.w.Pace() == 0 {
		return x.spec.Work
	}
	whole := max(scaleTime(1/(1-p.doneShare)/a.w.Pace(), p.timeLeft)-x.read, 0)
	if row := c.view.Fleet().Get(int32(a.w.Key)); row != nil && row.Speed > 0 {
		whole = scaleTime(row.Speed, whole)
	}
	return estimate.Work{Mean: whole, Dev: x.spec.Work.Dev, Source: estimate.FromProgress}
}

// chooseSoonest sets choice.Chosen to the candidate where a copy of t would end first, and returns the time until that
// end. The paces of the workers count. If no worker but the present one can take the copy, Chosen is -1.
func (c *planner) chooseSoonest(t *task, choice *estimate.Decision) (best time.Duration) {
	choice.Chosen = -1
	for i := range choice.Candidates {
		candidate := &choice.Candidates[i]
		w := c.workers[candidate.Worker].Worker
		if w == t.attempt.w.Worker || w == t.shunned || !w.Up() {
			continue
		}
		if doneIn := candidate.C + scaleTime(paceOf(w)-1, candidate.R); choice.Chosen < 0 || doneIn < best {
			choice.Chosen, best = i, doneIn
		}
	}
	return best
}

// whyLate says why a long task is late.
func whyLate(t *task, timeLeft time.Duration, now time.Time) string {
	a := t.attempt
	name := a.w.Welcome().Worker
	if t.isRunning() {
		text := fmt.Sprintf("which has run at %s for %.3fs and is expected to run for %.3fs more",
			name, now.Sub(a.runsSince).Seconds(), timeLeft.Seconds())
		if p := a.progress; p.doneShare > 0 {
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
