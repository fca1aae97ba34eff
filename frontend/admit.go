package frontend

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/place"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// admit checks a job and makes its state, or says why it is refused.
func (c *jobs) admit(spec *Job, now time.Time) (*job, *RefusedError) {
	n := len(spec.Tasks)
	switch {
	case c.leaving:
		return nil, &RefusedError{Reason: Leaving, Message: "this frontend is leaving: submit to another one", RetryAfter: startRetry}
	case n == 0 && !spec.Open:
		return nil, &RefusedError{Reason: Invalid, Message: "the job has no tasks: give it at least one"}
	case n > min(c.cfg.MaxTasksPerJob, c.cfg.MaxPending):
		return nil, &RefusedError{Reason: TooBigJob, Message: fmt.Sprintf("the job has %d tasks, the limit is %d: split it", n, min(c.cfg.MaxTasksPerJob, c.cfg.MaxPending))}
	case spec.ProbeRatio != 0 && !(spec.ProbeRatio >= 1 && spec.ProbeRatio <= MaxProbeRatio):
		return nil, &RefusedError{Reason: Invalid, Message: fmt.Sprintf("probe ratio %g: give 1 to %d, or 0 for this frontend's %g", spec.ProbeRatio, MaxProbeRatio, c.cfg.ProbeRatio)}
	case spec.Mode > estimate.Estimate:
		return nil, &RefusedError{Reason: Invalid, Message: fmt.Sprintf("mode %d is unknown", spec.Mode)}
	case spec.Mode == estimate.Estimate && spec.Policy.Binding != Late:
		return nil, &RefusedError{Reason: Invalid, Message: fmt.Sprintf("mode estimate and policy %s exclude each other: name one of them", spec.Policy.Name)}
	case spec.Class > Spare:
		return nil, &RefusedError{Reason: Invalid, Message: fmt.Sprintf("class %d is unknown", spec.Class)}
	case spec.Due < 0 || spec.Due > 0 && spec.Class != Spare:
		return nil, &RefusedError{Reason: Invalid, Message: fmt.Sprintf("due %v: give the time from now, or 0, to a job of class spare", spec.Due)}
	case spec.Deadline < 0:
		return nil, &RefusedError{Reason: Invalid, Message: fmt.Sprintf("deadline %v is negative: give the time from now, or 0 for none", spec.Deadline)}
	}
	if spec.ProbeRatio == 0 {
		spec.ProbeRatio = c.cfg.ProbeRatio
	}
	spec.usual = c.average(spec.Tasks)
	j := &job{Job: *spec, submitted: now, vouchedAt: now, left: n, had: spec.InAll(), lag: firstLag}
	if j.Deadline > 0 {
		j.deadline = now.Add(j.Deadline)
	}
	if j.ageFrom(now); j.Class == Spare {
		j.spare()
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
	c.pace(j.Tenant, now)
	j.seatAll()
	j.align(j.tasks)
	c.enter(j)
	c.waits(j, now)
	return j, nil
}

// enter files a job that was admitted.
func (c *jobs) enter(j *job) {
	j.tenant = c.tenant(j.Tenant)
	for t := j.tenant; t != nil; t = t.above {
		t.jobs++
	}
	c.byID[j.ID] = j
	c.load(j.tenant, j)
}

// load files the tasks of x for a tenant: of a job that was admitted, or of what is added to one.
func (c *jobs) load(of *tenant, x *job) {
	for t := of; t != nil; t = t.above {
		t.pending += len(x.tasks)
		t.payloads += x.payloads
	}
	c.pending += len(x.tasks)
	c.payloads += x.payloads
	for _, t := range x.tasks {
		of.used.enters(t)
	}
	remember := sampled{job: x.ID}
	for _, g := range x.groups {
		c.use(g)
		if g.near != nil {
			c.nears.Push(g.near)
		}
		if g.path == estimate.Sampling {
			remember.add(g)
		}
	}
	if remember.tasks > 0 {
		c.log.sample(remember)
	}
}

// depart forgets a job that has ended, and its tenant, and those above that, each with the last one.
func (c *jobs) depart(j *job) {
	for _, g := range j.groups {
		c.unuse(g)
		if g.near != nil {
			c.nears.Remove(g.near)
		}
	}
	delete(c.byID, j.ID)
	c.byWake.Remove(j)
	c.hungry.update(j)
	c.unload(j, j.payloads)
	for t := j.tenant; t != nil; t = t.above {
		if t.jobs--; t.jobs == 0 {
			delete(c.tenants, t.name)
		}
	}
}

// overloaded says whether a job is too much now: too many tasks or payloads are held, or another one of its tenant that is
// eligible for the same workers and goes first has waited for too long for its first task. How long it has waited is
// known, how long the new one would have to is not: any estimate by rates would refuse the first jobs
// after a pause, so that a rate only lets more in. That others wait is no reason: whose turn comes first is for the workers to say.
func (c *jobs) overloaded(j *job, now time.Time) *RefusedError {
	if err := c.tooFast(j.Tenant, now); err != nil {
		return err
	}
	if err := c.tooMuch(j); err != nil {
		return err
	}
	return c.waitsTooLong(j, now)
}

// tooMuch says whether there is no room for the tasks of a job, or for their payloads.
func (c *jobs) tooMuch(j *job) *RefusedError {
	if err := c.overfull(j.Tenant, len(j.tasks)); err != nil {
		return err
	}
	for _, r := range []struct {
		what              string
		held, more, limit int
		of                func(*tenant) int
	}{
		{"tasks", c.pending, len(j.tasks), c.cfg.MaxPending, func(t *tenant) int { return t.pending }},
		{"bytes of payloads", c.payloads, j.payloads, c.cfg.MaxPayloads, func(t *tenant) int { return t.payloads }},
	} {
		free := r.limit - r.held - r.more
		if free < 0 {
			return &RefusedError{
				Reason:     Overloaded,
				Message:    fmt.Sprintf("%d %s are pending and the job has %d: the limit is %d; come back later", r.held, r.what, r.more, r.limit),
				RetryAfter: time.Second,
			}
		}
		for t := c.nearest(j.Tenant); t != nil; t = t.above {
			if of := r.of(t); of > 0 && (of+r.more)/maxHold > free {
				return &RefusedError{
					Reason:     Overloaded,
					Message:    fmt.Sprintf("%d %s of the tenant are pending and the job has %d: of the limit of %d, too little would be left to other tenants; come back later", of, r.what, r.more, r.limit),
					RetryAfter: time.Second,
				}
			}
		}
	}
	return nil
}

// maxHold is how many times more tasks, or bytes of payloads, a tenant may hold than it leaves room for: whoever comes later, however
// greedy the others are, finds some. A tenant that holds none may come with any job for which there is room.
const maxHold = 3

// noWorker says what the fleet lacks for a task.
func (c *jobs) noWorker(t *Task, of Constraint, passes bool) *RefusedError {
	linked, able, fitting, caching, passing := 0, 0, 0, 0, 0
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
			if w.Has(probe.Passing) {
				passing++
			}
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
	case passes && passing == 0:
		e.Message = lacks(t)
	case fitting == 0:
		e.Message = fmt.Sprintf("task %d: demand of %v is more than any worker has that knows %q (largest: %v): demand less", t.Index, t.Demand, t.Function, most)
	case len(t.Files) > 0 && caching == 0:
		e.Message = fmt.Sprintf("task %d: it needs files, and none of the %d workers that could run %q has a cache for them: start workers with --cache-dir", t.Index, fitting, t.Function)
	default:
		e.Message = fmt.Sprintf("task %d: none of the %d workers that could run %q satisfies %s: change the constraint or label a worker", t.Index, fitting, t.Function, join(of, t.Constraint))
	}
	return e
}

// startRetry is the retry-after while no worker is linked yet.
const startRetry = 100 * time.Millisecond

// group checks the tasks and sorts them by what they demand of a worker.
func (c *jobs) group(j *job) *RefusedError {
	invalid := func(i int, format string, args ...any) *RefusedError {
		return &RefusedError{Reason: Invalid, Message: fmt.Sprintf("task %d: ", j.Tasks[i].Index) + fmt.Sprintf(format, args...)}
	}
	if err := j.Constraint.Validate(); err != nil {
		return &RefusedError{Reason: Invalid, Message: "job constraint: " + err.Error()}
	}
	var last *group
	var lastSpec *Task
	type kind struct {
		set   string
		asked probe.Demand
		path  estimate.Path
		stage int32
		near  bool
		runs  string
		class probe.Class
	}
	groups := map[kind]*group{}
	bound := c.terms.TaskMaximum(j.Tenant)
	tasks := make([]task, len(j.Tasks))
	j.tasks = make([]*task, len(j.Tasks))
	for i := range j.Tasks {
		t := &j.Tasks[i]
		asked := t.Demand
		t.Demand = orSlot(asked)
		if j.byIndex == nil && t.Index != probe.TaskIndex(i) {
			j.byIndex = make(map[probe.TaskIndex]*task, len(j.Tasks))
			for k := range i {
				j.byIndex[j.Tasks[k].Index] = j.tasks[k]
			}
		}
		switch {
		case j.byIndex[t.Index] != nil:
			return invalid(i, "two tasks have this index: give each its own")
		case t.Function == "":
			return invalid(i, "no function is named")
		case len(t.Payload) > c.cfg.MaxPayload:
			return &RefusedError{Reason: TooBigJob, Message: fmt.Sprintf("task %d: payload of %d bytes, the limit is %d: pass a reference to the data instead", t.Index, len(t.Payload), c.cfg.MaxPayload)}
		case t.Demand.CPU < 0 || t.Demand.Mem < 0:
			return invalid(i, "demand of %v: give positive numbers", t.Demand)
		case int64(t.Demand.CPU) > bound:
			return &RefusedError{Reason: TooBigJob, Message: fmt.Sprintf("task %d: demand of %v, and tenant %q uses at most %s slots at a time: demand less", t.Index, t.Demand, j.Tenant, slots(bound))}
		case t.Estimate < 0 || t.Timeout < 0 || t.Backoff < 0:
			return invalid(i, "estimate %v, timeout %v, backoff %v: none may be negative", t.Estimate, t.Timeout, t.Backoff)
		case t.Retries < 0:
			return invalid(i, "%d retries: give 0 or more", t.Retries)
		}
		j.payloads += len(t.Payload)
		if len(t.Inputs)+len(t.Files) > 0 {
			if err := t.checkNeeds(); err != nil {
				return invalid(i, "%v", err)
			}
		}
		same := last != nil && t.Stage == lastSpec.Stage && t.Function == lastSpec.Function && t.Class == lastSpec.Class && j.Job.class(t) == last.class && asked == last.asked && !t.needy() && !lastSpec.needy() &&
			c.class(last.Runs.Correct(t.Estimate)) == c.class(last.Runs.Correct(lastSpec.Estimate))
		if j.byIndex != nil {
			j.byIndex[t.Index] = &tasks[i]
		}
		if !same {
			if err := t.Constraint.Validate(); err != nil {
				return invalid(i, "%v", err)
			}
			path, why := c.route(&j.Job, t)
			if path == estimate.Sampling && len(t.Files) > 0 && j.Policy.Binding == Late {
				return invalid(i, "it needs files, which are fetched only for tasks that are bound early: leave out mode sample and policy %s", j.Policy.Name)
			}
			need := view.Need{Function: t.Function, Demand: t.Demand, Files: len(t.Files) > 0, JobConstraint: j.Constraint, TaskConstraint: t.Constraint}
			if len(j.stages) > 0 && j.stages[t.Stage].passes {
				need.Features = probe.Passing
			}
			key := need.Key()
			near := path == estimate.Sampling && c.cares(&j.Job, t)
			last = groups[kind{key, asked, path, t.Stage, near, t.Class, j.Job.class(t)}]
			if last == nil {
				set := c.view.Set(key)
				if set == nil {
					set = c.view.MakeSet(key, need, c.inUse(j))
				}
				if set.Len() == 0 {
					return c.noWorker(t, j.Constraint, need.Features != 0)
				}
				last = &group{job: j, index: len(j.groups), path: path, class: j.Job.class(t), number: int(t.Stage), why: why, asked: asked, Kind: place.Kind{
					Policy: &j.Policy, Set: set, Demand: t.Demand, Runs: c.view.Runs(t.runs()), Ratio: j.ProbeRatio, JobTasks: len(j.Tasks),
				}}
				last.refine(t, bound)
				if path == estimate.Estimation {
					last.stage = &estimate.Stats{}
				}
				if near {
					c.makeNear(last)
				}
				groups[kind{key, asked, path, t.Stage, near, t.Class, j.Job.class(t)}] = last
				j.groups = append(j.groups, last)
			}
			lastSpec = t
		}
		t.Demand = last.Demand
		if last.near == nil {
			last.Add(t.Estimate, 0, len(t.Payload))
		} else {
			last.Add(t.Estimate, c.farReads(t), len(t.Payload))
			last.near.came(&tasks[i])
		}
		tasks[i] = task{spec: t, group: last}
		j.tasks[i] = &tasks[i]
		last.queue.Push(&tasks[i])
		j.waiting++
	}
	for _, g := range j.groups {
		g.estimate = g.Estimate()
	}
	if len(j.stages) > 0 {
		j.sortGroups()
	}
	return nil
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

func join(a, b Constraint) string {
	switch {
	case a.String() == "":
		return b.String()
	case b.String() == "":
		return a.String()
	}
	return a.String() + " and " + b.String()
}
