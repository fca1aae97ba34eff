package frontend

import (
	"fmt"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// admit checks a job and makes its state, or says why it is refused.
func (c *Core) admit(spec *Job, now time.Time) (*job, *RefusedError) {
	n := len(spec.Tasks)
	switch {
	case c.leaving:
		return nil, &RefusedError{Reason: Leaving, Message: "this frontend is leaving: submit to another one", RetryAfter: startRetry}
	case n == 0:
		return nil, &RefusedError{Reason: Invalid, Message: "the job has no tasks: give it at least one"}
	case n > min(c.cfg.MaxTasksPerJob, c.cfg.MaxPending):
		return nil, &RefusedError{Reason: TooBigJob, Message: fmt.Sprintf("the job has %d tasks, the limit is %d: split it", n, min(c.cfg.MaxTasksPerJob, c.cfg.MaxPending))}
	case spec.ProbeRatio != 0 && !(spec.ProbeRatio >= 1 && spec.ProbeRatio <= MaxProbeRatio):
		return nil, &RefusedError{Reason: Invalid, Message: fmt.Sprintf("probe ratio %g: give 1 to %d, or 0 for this frontend's %g", spec.ProbeRatio, MaxProbeRatio, c.cfg.ProbeRatio)}
	case spec.Mode > estimate.Estimate:
		return nil, &RefusedError{Reason: Invalid, Message: fmt.Sprintf("mode %d is unknown", spec.Mode)}
	case spec.Mode == estimate.Estimate && spec.Policy.Binding != Late:
		return nil, &RefusedError{Reason: Invalid, Message: fmt.Sprintf("mode estimate and policy %s exclude each other: name one of them", spec.Policy.Name)}
	case spec.Deadline < 0:
		return nil, &RefusedError{Reason: Invalid, Message: fmt.Sprintf("deadline %v is negative: give the time from now, or 0 for none", spec.Deadline)}
	}
	if spec.ProbeRatio == 0 {
		spec.ProbeRatio = c.cfg.ProbeRatio
	}
	spec.usual = c.average(spec.Tasks)
	j := &job{Job: *spec, submitted: now, tasks: make([]task, n), left: n, lag: firstLag}
	if j.Deadline > 0 {
		j.deadline = now.Add(j.Deadline)
	}
	if err := c.checkStages(j); err != nil {
		return nil, err
	}
	if err := c.group(j); err != nil {
		return nil, err
	}
	if j.payloads > c.cfg.MaxPayloads {
		return nil, &RefusedError{Reason: TooBigJob, Message: fmt.Sprintf("the payloads of the job are %d bytes together, the limit is %d: split it, or pass references to the data", j.payloads, c.cfg.MaxPayloads)}
	}
	if err := c.overloaded(j, now); err != nil {
		return nil, err
	}
	c.enter(j)
	remember := sampled{job: j.ID}
	for _, g := range j.groups {
		if g.path == estimate.Estimation { // a long wait for it says nothing of how long others wait
			continue
		}
		if c.cfg.MaxWait >= 0 { // else nobody would look, and take out those that were served
			at := waiters{g.Set, j.tenant}
			c.unserved[at] = append(c.unserved[at], j)
		}
		remember.add(g)
	}
	if remember.tasks > 0 {
		c.long.log.sample(remember)
	}
	return j, nil
}

// overloaded says whether a job is too much now: too many tasks or payloads are held, or another one of its tenant that is
// eligible for the same workers and goes first has waited for too long for its first task. How long it has waited is
// known, how long the new one would have to is not: any estimate by rates would refuse the first jobs
// after a pause. That others wait is no reason: whose turn comes first is for the workers to say.
func (c *Core) overloaded(j *job, now time.Time) *RefusedError {
	t := c.tenants[j.Tenant]
	if t == nil {
		t = &tenant{}
	}
	for _, r := range []struct {
		what                  string
		held, of, more, limit int
	}{
		{"tasks", c.pending, t.pending, len(j.tasks), c.cfg.MaxPending},
		{"bytes of payloads", c.payloads, t.payloads, j.payloads, c.cfg.MaxPayloads},
	} {
		switch free := r.limit - r.held - r.more; {
		case free < 0:
			return &RefusedError{
				Reason:     Overloaded,
				Message:    fmt.Sprintf("%d %s are pending and the job has %d: the limit is %d; come back later", r.held, r.what, r.more, r.limit),
				RetryAfter: time.Second,
			}
		case r.of > 0 && (r.of+r.more)/maxHold > free:
			return &RefusedError{
				Reason:     Overloaded,
				Message:    fmt.Sprintf("%d %s of the tenant are pending and the job has %d: of the limit of %d, too little would be left to other tenants; come back later", r.of, r.what, r.more, r.limit),
				RetryAfter: time.Second,
			}
		}
	}
	limit := c.cfg.MaxWait
	if limit < 0 {
		return nil
	}
	for _, g := range j.groups {
		if g.path == estimate.Estimation {
			continue
		}
		limit := max(limit, maxWaitRuns*g.Runs.Longest())
		if j.Deadline > 0 {
			limit = min(limit, j.Deadline)
		}
		first := c.firstUnserved(waiters{g.Set, t}, j.Priority)
		if first == nil {
			continue
		}
		if waited := now.Sub(first.submitted); waited > limit {
			return &RefusedError{
				Reason:     Overloaded,
				Message:    fmt.Sprintf("a job of the tenant, submitted %v ago, still waits for its first task to start, the limit is %v; come back later", waited.Round(time.Millisecond), limit),
				RetryAfter: max(waited-limit/2, 10*time.Millisecond),
			}
		}
	}
	return nil
}

// maxHold is how many times more tasks, or bytes of payloads, a tenant may hold than it leaves room for: whoever comes later, however
// greedy the others are, finds some. A tenant that holds none may come with any job for which there is room.
const maxHold = 3

// waiters are the jobs of a tenant whose tasks may run at the same workers.
type waiters struct {
	set    *view.Set
	tenant *tenant
}

// firstUnserved is the oldest of the jobs that waits for its first task and is not of lower priority than given. It
// looks at some only: a long row of less important ones may hide it.
func (c *Core) firstUnserved(of waiters, priority int32) *job {
	c.forgetServed(of)
	jobs := c.unserved[of]
	for _, j := range jobs[:min(len(jobs), 64)] {
		if !j.served && j.Priority >= priority {
			return j
		}
	}
	return nil
}

// forgetServed lets go of the oldest jobs of unserved that no longer wait.
func (c *Core) forgetServed(of waiters) {
	jobs := c.unserved[of]
	for len(jobs) > 0 && jobs[0].served {
		jobs[0] = nil
		jobs = jobs[1:]
	}
	if len(jobs) > 0 {
		c.unserved[of] = jobs
	} else {
		delete(c.unserved, of)
	}
}

// noWorker says what the fleet lacks for a task.
func (c *Core) noWorker(t *Task, of Constraint) *RefusedError {
	linked, able, fitting, caching := 0, 0, 0, 0
	var most probe.Demand
	functions := map[string]bool{}
	for w := range c.view.Workers() {
		if !w.Up() {
			continue
		}
		linked++
		for _, f := range w.Welcome().Functions {
			functions[f] = true
		}
		most = probe.Demand{CPU: max(most.CPU, w.Welcome().Capacity.CPU), Mem: max(most.Mem, w.Welcome().Capacity.Mem)}
		if w.Knows(t.Function) {
			able++
			if t.Demand.Fits(w.Welcome().Capacity) {
				fitting++
				if w.Welcome().Cache != "" {
					caching++
				}
			}
		}
	}
	e := &RefusedError{Reason: NoSuchWorker}
	switch {
	case linked == 0:
		e.Message, e.RetryAfter = "no worker is linked to this frontend: start one, or check its list of workers", startRetry
	case able == 0:
		e.Message = fmt.Sprintf("task %d: no worker has a function %q; they have %q", t.Index, t.Function, sorted(functions))
	case fitting == 0:
		e.Message = fmt.Sprintf("task %d: demand of %v is more than any worker has that knows %q (largest: %v): demand less", t.Index, t.Demand, t.Function, most)
	case len(t.Files) > 0 && caching == 0:
		e.Message = fmt.Sprintf("task %d: it needs files, and none of the %d workers that could run %q has a cache for them: start workers with --cache-dir", t.Index, fitting, t.Function)
	default:
		e.Message = fmt.Sprintf("task %d: none of the %d workers that could run %q satisfies %s: change the constraint or label a worker", t.Index, fitting, t.Function, join(of, t.Constraint))
	}
	return e
}
