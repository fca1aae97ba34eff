package frontend

import (
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/view"
)

// choosePath chooses the path of a task.
func (c *jobs) choosePath(j *Job, t *Task) (estimate.Path, estimate.Reason) {
	if j.Mode == estimate.Auto {
		switch {
		case !j.Policy.Route:
			return estimate.Sampling, estimate.Reason{Cause: estimate.ByPolicy}
		case j.Class == Spare && len(t.Files) == 0:
			return estimate.Sampling, estimate.Reason{Cause: estimate.ByClass}
		}
	}
	return estimate.Route(j.Mode, estimate.Needs{Reads: c.farReadTime(t), Files: len(t.Files) > 0}, c.expectRun(t), j.meanEstimate, c.cfg.LongTask)
}

// expectRun is how long a task will run, by what is known when its job is submitted.
func (c *jobs) expectRun(t *Task) estimate.Work {
	var learnt *estimate.Stats
	if runs := c.view.KnownRuns(t.runsKey()); runs != nil {
		learnt = runs.Stats()
	}
	return estimate.Expect(t.Estimate, t.inputBytes(), nil, learnt, c.cfg.Estimate.Unknown)
}

// hintKind is the kind of a hint: tasks of one job and function without needs go one path if theirs are of one kind.
func (c *jobs) hintKind(hint time.Duration) int {
	switch {
	case hint == 0:
		return 0
	case hint < c.cfg.LongTask:
		return 1
	case hint < estimate.Stray*c.cfg.LongTask:
		return 2
	}
	return 3
}

// meanEstimate is the mean of the estimates of tasks, of those that have one, as far as their functions' histories let them
// stand; 0 if none has.
func (c *jobs) meanEstimate(tasks []Task) time.Duration {
	sum, n := 0.0, 0
	var known *view.Runs
	for i := range tasks {
		if i == 0 || tasks[i].Function != tasks[i-1].Function || tasks[i].Class != tasks[i-1].Class {
			known = c.view.KnownRuns(tasks[i].runsKey())
		}
		if d := tasks[i].Estimate; d > 0 {
			if known != nil {
				d = known.Correct(d)
			}
			sum += float64(d)
			n++
		}
	}
	return time.Duration(sum / float64(max(n, 1)))
}

// worthNear is how long reading a task's inputs must take, at most, to care where they are: asking costs as much.
const worthNear = 200 * time.Microsecond

// isWorthNear reports whether a task is worth to be brought to its inputs, if it is sampled.
func (c *jobs) isWorthNear(j *Job, t *Task) bool {
	return len(t.Inputs) > 0 && j.Policy.Near && j.Policy.Binding == Late && c.farReadTime(t) >= worthNear
}

// farReadTime is how long reading the inputs of a task takes where none of them is near.
func (c *jobs) farReadTime(t *Task) time.Duration {
	return c.cfg.Estimate.Rates.FarReadTime(t.inputBytes())
}
