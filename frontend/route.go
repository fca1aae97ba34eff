package frontend

import (
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/view"
)

// choosePath returns the path of a task, and why.
func (c *jobs) choosePath(j *Job, t *Task) (estimate.Path, estimate.Reason) {
	if j.Mode == estimate.Auto {
		switch {
		case !j.Policy.Route:
			return estimate.Sampling, estimate.Reason{Cause: estimate.ByPolicy}
		case j.Class == Spare && len(t.Files) == 0:
			return estimate.Sampling, estimate.Reason{Cause: estimate.ByClass}
		}
	}
	return estimate.Route(j.Mode, estimate.Needs{
		Reads: c.farReadTime(t), Files: len(t.Files) > 0,
	}, c.expectRun(j.Tenant, t), j.meanEstimate, c.cfg.LongTask)
}

// expectRun returns how long a tenant's task will run, as far as known at submission.
func (c *jobs) expectRun(tenant string, t *Task) estimate.Work {
	var learnt *estimate.Stats
	if runs := c.view.KnownRuns(tenant, t.runsKey()); runs != nil {
		learnt = runs.Stats()
	}
	return estimate.Expect(t.Estimate, t.inputBytes(), nil, learnt, c.cfg.Estimate.Unknown)
}

// hintKind sorts hints into four kinds: no hint, short, long, and very long. Two tasks of a job go the same path if
// they have the same function, no needs, and hints of the same kind.
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

// meanEstimate returns the mean of the tasks' estimates, corrected by the tenant's histories of the functions. Tasks
// without an estimate do not count; 0: no task has an estimate.
func (c *jobs) meanEstimate(tenant string, tasks []Task) time.Duration {
	sum, n := 0.0, 0
	var known *view.Runs
	for i := range tasks {
		if i == 0 || tasks[i].Function != tasks[i-1].Function || tasks[i].Class != tasks[i-1].Class {
			known = c.view.KnownRuns(tenant, tasks[i].runsKey())
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

// If reading a task's inputs from afar takes worthNear or longer, the task is sampled near the inputs. The search for a
// near worker costs about as much time.
const worthNear = 200 * time.Microsecond

// isWorthNear reports whether a sampled task should be brought to the inputs.
func (c *jobs) isWorthNear(j *Job, t *Task) bool {
	return len(t.Inputs) > 0 && j.Policy.Near && j.Policy.Binding == Late && c.farReadTime(t) >= worthNear
}

// farReadTime returns how long reading the inputs of a task takes if no input is near.
func (c *jobs) farReadTime(t *Task) time.Duration {
	return c.view.Fleet().Rates().FarReadTime(t.inputBytes())
}
