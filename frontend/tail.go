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

// When all tasks of a job that may run have been given out, its end depends on the last of them. Those that are late, by what
// is known of others or because their workers say that their turn comes later than was expected, get copies at workers where they would be
// done sooner, as long as copies are few.

const (
	// worthCopy is how many times longer than its copy would take a task must have left.
	worthCopy = 1.25
	// enoughRuns is how many tasks must have been seen to run elsewhere before the longest of them says anything of others.
	enoughRuns = 8
	// hintsWithin is for how many times as long as its hint a task may run before that alone says that it is late.
	hintsWithin = 3
	// looksEach is how often in the time that a task is expected to run it is looked whether it is late. A job that has so
	// many tasks that this takes long is looked at less often: a hundredth of the time.
	looksEach = 8
	lookTakes = 100 * 2 * time.Nanosecond // for each task
	// mostDecided bounds the tasks for which it is estimated at a time where they would be done sooner.
	mostDecided = 32
)

// late is a task that may need a copy.
type late struct {
	task *task
	left time.Duration // until it is expected to be done
}

// lookAtTail makes copies of a job's last tasks, if some are late.
func (c *planner) lookAtTail(j *job, now time.Time, acts []Action) []Action {
	again := maxSleep
	var short, long []late
	for _, t := range j.tasks {
		switch {
		case t.long != nil && (t.runs() || t.queues()):
			if c.gauge(t.long); t.spec.Retryable {
				again = min(again, max(t.long.spec.Work.Mean/looksEach, worthSleep))
			}
			long = append(long, late{t, c.left(t, now)})
		case t.long == nil && len(t.spec.Files) == 0 && c.mayCopy(t): // where it is claimed it may have some, and a copy would not start at once
			due, every := c.shortLate(t, now)
			if due <= 0 {
				due = every
				short = append(short, late{t, now.Sub(t.attempt.since)})
			}
			again = min(again, due)
		}
	}
	acts = c.copyShort(short, now, acts)
	acts, asked := c.copyLong(long, now, acts)
	if asked {
		again = c.view.Trip()
	}
	c.tailed(j, now.Add(max(again, lookPause(j))))
	return acts
}

// lookPause is for how long it is not looked again at a job.
func lookPause(j *job) time.Duration { return max(breath, time.Duration(len(j.tasks))*lookTakes) }

// hurry has it looked soon whether a task is late of which its worker has just said that it will start later than it was to: another
// frontend may have chosen that worker, too.
func (c *planner) hurry(w *worker, m *probe.Queued, now time.Time) {
	a := w.enqueued[m.First]
	if m.Wait <= 0 || a == nil || !a.task.slips() {
		return
	}
	if j, at := a.job, now.Add(lookPause(a.job)); at.Before(j.tailAt) {
		c.tailed(j, at)
		c.settle(j, now)
	}
}

// longestFirst sorts tasks by what is left of them.
func longestFirst(ts []late) {
	slices.SortFunc(ts, func(a, b late) int {
		return cmp.Or(cmp.Compare(b.left, a.left), cmp.Compare(a.task.spec.Index, b.task.spec.Index))
	})
}

// shortLate is in how long a sampled task will be late, and how often it is worth to look after that: it is when it has run
// for twice as long as any of its function has lately run at other workers.
func (c *planner) shortLate(t *task, now time.Time) (in, every time.Duration) {
	a := t.attempt
	longest, seen := t.group.Runs.Stats().Longest(int32(a.w.Key))
	every = max(longest, c.view.Trip())
	if seen < enoughRuns {
		return max(every, firstLag), 0
	}
	return a.since.Add(2*longest + c.view.Trip()).Sub(now), every
}

// copyShort lets copies of late tasks ride to idle workers.
func (c *planner) copyShort(late []late, now time.Time, acts []Action) []Action {
	longestFirst(late)
	for _, l := range late {
		if !c.copiesLeft() {
			break
		}
		t := l.task
		if t.copy != nil {
			continue
		}
		w := c.idleFor(t)
		if w == nil {
			continue
		}
		run := t.group.Runs.Stats().Typical()
		if t.near != nil {
			run += c.view.Fleet().ReadTime(t.near.inputs, int32(w.Key))
		}
		acts = c.commitCopy(t, &estimate.Decision{
			Work:       estimate.Work{Mean: run, Source: estimate.FromFunction, Samples: t.group.Runs.Stats().N()},
			Candidates: []estimate.Candidate{{Worker: int32(w.Key), Name: w.Welcome().Worker, Kind: estimate.Light, R: run, E: run, C: run, Psucc: 1}},
			Seen:       1,
			Reason: fmt.Sprintf("a copy of %s, which has run at %s for %v, twice as long as any other lately: this worker is idle",
				t.attempt.id, t.attempt.w.Welcome().Worker, l.left.Round(time.Microsecond)),
		}, now, acts)
	}
	return acts
}

// idleFor is a worker that is believed to have room for a copy of a task, nil if there is none.
func (c *planner) idleFor(t *task) *view.Worker {
	idle := c.view.Idle()
	if len(idle) == 0 {
		return nil
	}
	first := c.rand.IntN(len(idle))
	for i := range min(len(idle), mostLooked) {
		w := idle[(first+i)%len(idle)]
		if w != t.attempt.w.Worker && w != t.shuns && t.group.Set.Contains(w) && w.Room(t.spec.Demand) > 0 {
			return w
		}
	}
	return nil
}

// left is in how long a long task is expected to be done. What its worker's pace was says little of one that says nothing itself: the
// machine may be slow no more.
func (c *planner) left(t *task, now time.Time) time.Duration {
	x, a := t.long, t.attempt
	switch {
	case !t.runs():
		return max(a.starts.Sub(now), 0) + x.run
	case a.progress.done > 0:
		return max(a.progress.left-now.Sub(a.progress.at), 0)
	}
	return c.remains(t, max(now.Sub(a.since)-x.read, 0))
}

// paceOf is the pace of a worker, that of others if it is not known.
func paceOf(w *view.Worker) float64 { return cmp.Or(w.Pace(), 1) }

func times(factor float64, d time.Duration) time.Duration {
	return time.Duration(min(factor*float64(d), float64(math.MaxInt64/2)))
}

// remains is how much longer a long task that ran for so long is expected to: as long as others of its stage, or of its function, that ran
// for longer went on. Of one with a hint the few that have ended say little, and those of other jobs, with other hints, nothing.
func (c *planner) remains(t *task, ran time.Duration) time.Duration {
	x, a := t.long, t.attempt
	stats, run := t.group.stage, x.spec.Work.Mean
	if row := c.view.Fleet().Get(int32(a.w.Key)); row != nil && row.Speed > 0 {
		run = times(1/row.Speed, run)
	}
	switch {
	case stats.N() >= enoughRuns:
	case t.spec.Estimate > 0 && ran <= hintsWithin*run:
		return max(run-ran, 0)
	case stats.N() == 0:
		stats = t.group.Runs.Stats()
	}
	if left, known := stats.TimeLeft(ran, t.spec.Estimate, x.bytes, int32(a.w.Key)); known {
		return left
	}
	return max(run-ran, ran)
}

// copyLong makes copies of tasks that would be done sooner elsewhere, and on which the end of their job depends: with or
// without copies, it comes no sooner than that of any other one. It reports whether workers were asked first how long one would wait there.
func (c *planner) copyLong(late []late, now time.Time, acts []Action) (_ []Action, asked bool) {
	longestFirst(late)
	end, decided := time.Duration(0), 0
	for _, l := range late {
		if l.left <= end || decided == mostDecided || !c.copiesLeft() {
			break
		}
		t := l.task
		if t.copy != nil {
			continue // its end is that of its copy, at the latest
		}
		if !c.mayCopy(t) {
			end = l.left
			continue
		}
		decided++
		t.long.spec.Set, t.long.spec.ExtraCandidates = 0, nil
		t.long.spec.Work = c.workOfCopy(t)
		choice := c.view.Fleet().Decide(&t.long.spec, now, c.rand)
		best := c.soonest(t, &choice)
		known := choice.Chosen >= 0
		if known {
			end = max(end, min(l.left, best))
		} else {
			end = max(end, l.left)
		}
		if !known || float64(l.left) <= worthCopy*float64(best) {
			if float64(l.left) > worthCopy*float64(t.long.spec.Work.Mean) {
				acts = c.askForCopy(t, now, acts)
			}
			continue
		}
		if n := len(acts); t.queues() {
			if acts = c.askSince(t.attempt, &choice, now, acts); len(acts) > n {
				asked = true
				continue
			}
		}
		choice.Reason = fmt.Sprintf("a copy of %s, %s", t.attempt.id, whyLate(t, l.left, now))
		acts = c.commitCopy(t, &choice, now, acts)
	}
	return acts, asked
}

// askSince asks the worker that was chosen for the copy of an attempt, and who else might be, for matrices of after that was sent: by what was
// known then it would not have to wait.
func (c *planner) askSince(a *attempt, choice *estimate.Decision, now time.Time, acts []Action) []Action {
	old := func(at *estimate.Candidate) bool { return at.Age >= now.Sub(a.sent) }
	if !old(choice.Choice()) {
		return acts
	}
	for i := range choice.Candidates {
		at := &choice.Candidates[i]
		if w := c.workers[at.Worker]; w != a.w && old(at) && w.mayAsk(now) {
			acts = c.askMatrix(w, now, acts)
		}
	}
	return acts
}

// askForCopy asks for matrices by which it is known next time where a copy of a task would be done sooner: where frontends do not gossip,
// they may be as old as its placing, when others were busy.
func (c *planner) askForCopy(t *task, now time.Time, acts []Action) []Action {
	for _, key := range c.doubtful(t.long, 1, now) {
		if w := c.workers[key]; w != t.attempt.w && w.mayAsk(now) {
			acts = c.askMatrix(w, now, acts)
		}
	}
	return acts
}

// workOfCopy is how long a task of which nothing is done yet would run. What one takes that runs and says how far it is may be due to its
// machine, by as much as that is slow, and the rest is its own.
func (c *planner) workOfCopy(t *task) estimate.Work {
	x, a := t.long, t.attempt
	p := &a.progress
	if !t.runs() || p.done == 0 || p.done >= 1 || a.w.Pace() == 0 {
		return x.spec.Work
	}
	whole := max(times(1/(1-p.done)/a.w.Pace(), p.left)-x.read, 0)
	if row := c.view.Fleet().Get(int32(a.w.Key)); row != nil && row.Speed > 0 {
		whole = times(row.Speed, whole)
	}
	return estimate.Work{Mean: whole, Dev: x.spec.Work.Dev, Source: estimate.FromProgress}
}

// soonest chooses the candidate for a copy that would be done first, by the paces of the workers, and returns in how long; none if there
// is no other worker.
func (c *planner) soonest(t *task, choice *estimate.Decision) (best time.Duration) {
	choice.Chosen = -1
	for i := range choice.Candidates {
		k := &choice.Candidates[i]
		w := c.workers[k.Worker].Worker
		if w == t.attempt.w.Worker || w == t.shuns || !w.Up() {
			continue
		}
		if in := k.C + times(paceOf(w)-1, k.R); choice.Chosen < 0 || in < best {
			choice.Chosen, best = i, in
		}
	}
	return best
}

// whyLate says why a long task is late.
func whyLate(t *task, left time.Duration, now time.Time) string {
	a := t.attempt
	at := a.w.Welcome().Worker
	if t.runs() {
		text := fmt.Sprintf("which has run at %s for %.3fs and is expected to go on for %.3fs", at, now.Sub(a.since).Seconds(), left.Seconds())
		if p := a.progress; p.done > 0 {
			text += fmt.Sprintf(", as %.0f %% is done", 100*p.done)
		}
		if pace := a.w.Pace(); pace > 0 {
			text += fmt.Sprintf("; long tasks take %.1f times as long as expected there", pace)
		}
		return text
	}
	return fmt.Sprintf("which was to wait at %s for %.3fs, has waited for %.3fs, and is expected to wait for %.3fs more",
		at, t.long.wait.Seconds(), now.Sub(a.sent).Seconds(), max(a.starts.Sub(now), 0).Seconds())
}
