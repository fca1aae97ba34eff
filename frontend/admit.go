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

// admitJob checks a job and makes its state, or returns why the frontend refuses the job.
func (c *jobs) admitJob(spec *Job, now time.Time) (*job, *RefusedError) {
	n := len(spec.Tasks)
	switch {
	case c.leaving:
		return nil, &RefusedError{
			Reason: Leaving, Message: "this frontend is leaving: submit to another one", RetryAfter: shortRetryAfter,
		}
	case n == 0 && !spec.Open:
		return nil, &RefusedError{Reason: Invalid, Message: "the job has no tasks: give it at least one"}
	case n > min(c.cfg.MaxTasksPerJob, c.cfg.MaxPending):
		return nil, &RefusedError{Reason: TooBigJob, Message: fmt.Sprintf(
			"the job has %d tasks, the limit is %d: split it", n, min(c.cfg.MaxTasksPerJob, c.cfg.MaxPending))}
	case spec.ProbeRatio != 0 && !(spec.ProbeRatio >= 1 && spec.ProbeRatio <= MaxProbeRatio):
		return nil, &RefusedError{Reason: Invalid, Message: fmt.Sprintf(
			"probe ratio %g: give 1 to %d, or 0 for this frontend's %g",
			spec.ProbeRatio, MaxProbeRatio, c.cfg.ProbeRatio)}
	case spec.Mode > estimate.Estimate:
		return nil, &RefusedError{Reason: Invalid, Message: fmt.Sprintf("mode %d is unknown", spec.Mode)}
	case spec.Mode == estimate.Estimate && spec.Policy.Binding != Late:
		return nil, &RefusedError{Reason: Invalid, Message: fmt.Sprintf(
			"mode estimate and policy %s exclude each other: name one of them", spec.Policy.Name)}
	case spec.Class > Spare:
		return nil, &RefusedError{Reason: Invalid, Message: fmt.Sprintf("class %d is unknown", spec.Class)}
	case spec.Due < 0 || spec.Due > 0 && spec.Class != Spare:
		return nil, &RefusedError{Reason: Invalid, Message: fmt.Sprintf(
			"due %v: give the time from now, or 0, to a job of class spare", spec.Due)}
	case spec.Deadline < 0:
		return nil, &RefusedError{Reason: Invalid, Message: fmt.Sprintf(
			"deadline %v is negative: give the time from now, or 0 for none", spec.Deadline)}
	}
	if spec.ProbeRatio == 0 {
		spec.ProbeRatio = c.cfg.ProbeRatio
	}
	spec.meanEstimate = c.meanEstimate(spec.Tenant, spec.Tasks)
	j := &job{Job: *spec, submitted: now, confirmedAt: now, unfinished: n, totalTasks: spec.TotalTasks(), lag: firstLag}
	if j.Deadline > 0 {
		j.deadline = now.Add(j.Deadline)
	}
	if j.setDue(now); j.Class == Spare {
		j.limitPolicy()
	}
	if err := c.buildStages(j); err != nil {
		return nil, err
	}
	if err := c.admitTasks(j); err != nil {
		return nil, err
	}
	if j.payloadBytes > c.cfg.MaxPayloads {
		return nil, &RefusedError{Reason: TooBigJob, Message: fmt.Sprintf(
			"the payloads of the job are %d bytes together, the limit is %d: split it, or pass references to the data",
			j.payloadBytes, c.cfg.MaxPayloads)}
	}
	if err := c.refuseBusy(j, now); err != nil {
		return nil, err
	}
	c.countAgainstRate(j.Tenant, now)
	j.makeSeats()
	j.awaitPartitions(j.tasks)
	c.addJob(j)
	return j, nil
}

// addJob files an admitted job, with its tenant.
func (c *jobs) addJob(j *job) {
	j.tenant = c.ensureTenant(j.Tenant)
	for t := j.tenant; t != nil; t = t.parent {
		t.jobs++
	}
	c.byID[j.ID] = j
	c.addTasks(j.tenant, j)
}

// addTasks counts the tasks of x, an admitted job or an addition to a job, for a tenant and the tenants above. It also
// files the groups of x by their sets, and records the sampled tasks for explanations.
func (c *jobs) addTasks(tenant *tenant, x *job) {
	for t := tenant; t != nil; t = t.parent {
		t.pending += len(x.tasks)
		t.payloadBytes += x.payloadBytes
	}
	c.pending += len(x.tasks)
	c.payloadBytes += x.payloadBytes
	for _, t := range x.tasks {
		tenant.used.addTask(t)
	}
	summary := sampledJob{job: x.ID}
	for _, g := range x.groups {
		c.useSet(g)
		if g.near != nil {
			c.nearGroups.Push(g.near)
		}
		if g.path == estimate.Sampling {
			summary.addGroup(g)
		}
	}
	if summary.tasks > 0 {
		c.log.recordSampledJob(summary)
	}
}

// removeJob forgets an ended job. If this was the last job of its tenant, or of a tenant above, that tenant is
// forgotten, too.
func (c *jobs) removeJob(j *job) {
	for _, g := range j.groups {
		c.releaseSet(g)
		if g.near != nil {
			c.nearGroups.Remove(g.near)
		}
	}
	delete(c.byID, j.ID)
	c.jobTimers.Remove(j)
	c.hungry.updateJob(j)
	c.releasePayloads(j, j.payloadBytes)
	for t := j.tenant; t != nil; t = t.parent {
		if t.jobs--; t.jobs == 0 {
			c.batchQueue.closeAccount(t)
			c.roomSleepers.closeAccount(t)
			delete(c.tenants, t.name)
		}
	}
}

// refuseBusy refuses j if the frontend or the tenant has too much to do at present, for one of three reasons:
//   - the tenant submits too fast (refuseRate);
//   - too many tasks or payloads are pending (refuseNoRoom);
//   - an older job of the tenant, for the same workers and not of lower priority, has waited too long for a first task
//     (refuseOverload).
//
// The third reason goes by the wait of the older job, because the wait of j is not known yet. The rate of service could
// predict the wait of j, but after a pause the rate is too low, and the first jobs would be refused. So the rate never
// refuses a job. The rate only admits a job when the older job has waited too long, and few jobs wait. Waiting jobs of
// other tenants are no reason to refuse j: workers decide the order of turns.
func (c *jobs) refuseBusy(j *job, now time.Time) *RefusedError {
	if err := c.refuseRate(j.Tenant, now); err != nil {
		return err
	}
	if err := c.refuseNoRoom(j); err != nil {
		return err
	}
	return c.refuseOverload(j, now)
}

// refuseNoRoom refuses j if the frontend has no room for j's tasks or payloads, or if the tenants file gives its tenant
// no room for the tasks (refuseFullQueue). Enough room must stay free for other tenants, too (maxPendingPerFree).
func (c *jobs) refuseNoRoom(j *job) *RefusedError {
	if err := c.refuseFullQueue(j.Tenant, len(j.tasks)); err != nil {
		return err
	}
	for _, r := range []struct {
		unit                 string
		pending, more, limit int
		amountOf             func(*tenant) int
	}{
		{"tasks", c.pending, len(j.tasks), c.cfg.MaxPending, func(t *tenant) int { return t.pending }},
		{
			"bytes of payloads", c.payloadBytes, j.payloadBytes, c.cfg.MaxPayloads,
			func(t *tenant) int { return t.payloadBytes },
		},
	} {
		free := r.limit - r.pending - r.more
		if free < 0 {
			return &RefusedError{
				Reason: Overloaded,
				Message: fmt.Sprintf("%d %s are pending and the job has %d: the limit is %d; come back later",
					r.pending, r.unit, r.more, r.limit),
				RetryAfter: time.Second,
			}
		}
		for t := c.nearestTenant(j.Tenant); t != nil; t = t.parent {
			if tenantPending := r.amountOf(t); tenantPending > 0 && (tenantPending+r.more)/maxPendingPerFree > free {
				return &RefusedError{
					Reason: Overloaded,
					Message: fmt.Sprintf(
						"%d %s of the tenant are pending and the job has %d: of the limit of %d, too little would be left to other tenants; come back later",
						tenantPending, r.unit, r.more, r.limit),
					RetryAfter: time.Second,
				}
			}
		}
	}
	return nil
}

// maxPendingPerFree bounds the ratio of a tenant's pending tasks, or bytes of payloads, to the free rest, so that a
// greedy tenant leaves room for later tenants. A tenant without pending tasks may use all the room that is free. The
// number was chosen: with 3, a tenant alone may use three quarters.
const maxPendingPerFree = 3

// noWorkerRefusal returns the refusal of a job because no worker that is up can run t, and names what the fleet lacks.
// If passes is set, t needs a worker that can pass outputs.
func (c *jobs) noWorkerRefusal(t *Task, jobConstraint Constraint, passes bool) *RefusedError {
	linked, able, fitting, caching, broken, passing := 0, 0, 0, 0, 0, 0
	var largest probe.Demand
	functions := map[string]bool{}
	for w := range c.view.Workers() {
		if !w.Up() {
			continue
		}
		linked++
		for _, f := range w.Welcome().Functions {
			functions[f] = true
		}
		largest = probe.Demand{
			CPU: max(largest.CPU, w.Welcome().Capacity.CPU), Mem: max(largest.Mem, w.Welcome().Capacity.Mem),
		}
		if w.Knows(t.Function) {
			able++
			if w.Has(probe.Passing) {
				passing++
			}
			if t.Demand.Fits(w.Welcome().Capacity) {
				fitting++
				if w.HasCache() {
					caching++
				} else if w.CacheProblem() != "" {
					broken++
				}
			}
		}
	}
	e := &RefusedError{Reason: NoSuchWorker}
	switch {
	case linked == 0:
		e.Message, e.RetryAfter =
			"no worker is linked to this frontend: start one, or check its list of workers", shortRetryAfter
	case able == 0:
		e.Message = fmt.Sprintf("task %d: no worker has a function %q; they have %q",
			t.Index, t.Function, sortedNames(functions))
	case passes && passing == 0:
		e.Message = explainNoPassing(t)
	case fitting == 0:
		e.Message = fmt.Sprintf(
			"task %d: demand of %v is more than any worker has that knows %q (largest: %v): demand less",
			t.Index, t.Demand, t.Function, largest)
	case len(t.Files) > 0 && caching == 0 && broken > 0:
		e.Message, e.RetryAfter = fmt.Sprintf(
			"task %d: it needs files, and the caches of %d workers that could run %q take no files now: "+
				"phoebe doctor says why; try again later",
			t.Index, broken, t.Function), time.Second
	case len(t.Files) > 0 && caching == 0:
		e.Message = fmt.Sprintf(
			"task %d: it needs files, and none of the %d workers that could run %q has a cache for them: start workers with --cache-dir",
			t.Index, fitting, t.Function)
	default:
		e.Message = fmt.Sprintf(
			"task %d: none of the %d workers that could run %q satisfies %s: change the constraint or label a worker",
			t.Index, fitting, t.Function, joinConstraints(jobConstraint, t.Constraint))
	}
	return e
}

// shortRetryAfter is the retry-after while no worker is linked yet, or the frontend leaves.
const shortRetryAfter = 100 * time.Millisecond

// admitTasks checks the tasks of j, and sorts them into groups of equal demands. A task like the task before joins its
// group without lookups, because a job may have 100,000 equal tasks.
func (c *jobs) admitTasks(j *job) *RefusedError {
	invalid := func(i int, format string, args ...any) *RefusedError {
		return &RefusedError{
			Reason: Invalid, Message: fmt.Sprintf("task %d: ", j.Tasks[i].Index) + fmt.Sprintf(format, args...),
		}
	}
	if err := j.Constraint.Validate(); err != nil {
		return &RefusedError{Reason: Invalid, Message: "job constraint: " + err.Error()}
	}
	var lastGroup *group
	var lastSpec *Task
	type kind struct {
		set   string
		asked probe.Demand
		path  estimate.Path
		stage int32
		near  bool
		runs  string // Class of the task, which selects its run times
		class probe.Class
	}
	groups := map[kind]*group{}
	maximum := c.terms.TaskMaximum(j.Tenant)
	tasks := make([]task, len(j.Tasks))
	j.tasks = make([]*task, len(j.Tasks))
	for i := range j.Tasks {
		t := &j.Tasks[i]
		statedDemand := t.Demand
		t.Demand = withSlotDefaults(statedDemand)
		if j.byIndex == nil && t.Index != probe.TaskIndex(i) { // usually indexes are positions, and no map is needed
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
			return &RefusedError{Reason: TooBigJob, Message: fmt.Sprintf(
				"task %d: payload of %d bytes, the limit is %d: pass a reference to the data instead",
				t.Index, len(t.Payload), c.cfg.MaxPayload)}
		case t.Demand.CPU < 0 || t.Demand.Mem < 0:
			return invalid(i, "demand of %v: give positive numbers", t.Demand)
		case int64(t.Demand.CPU) > maximum:
			return &RefusedError{Reason: TooBigJob, Message: fmt.Sprintf(
				"task %d: demand of %v, and tenant %q uses at most %s slots at a time: demand less",
				t.Index, t.Demand, j.Tenant, formatSlots(maximum))}
		case t.Estimate < 0 || t.Timeout < 0 || t.Backoff < 0:
			return invalid(i, "estimate %v, timeout %v, backoff %v: none may be negative",
				t.Estimate, t.Timeout, t.Backoff)
		case t.Retries < 0:
			return invalid(i, "%d retries: give 0 or more", t.Retries)
		}
		j.payloadBytes += len(t.Payload)
		if len(t.Inputs)+len(t.Files) > 0 {
			if err := t.checkNeeds(); err != nil {
				return invalid(i, "%v", err)
			}
		}
		same := lastGroup != nil &&
			t.Stage == lastSpec.Stage && t.Function == lastSpec.Function && t.Class == lastSpec.Class &&
			j.Job.classOf(t) == lastGroup.class && statedDemand == lastGroup.statedDemand &&
			!t.hasOwnNeeds() && !lastSpec.hasOwnNeeds() &&
			(t.Estimate == lastSpec.Estimate ||
				c.hintKind(lastGroup.Runs.Correct(t.Estimate)) == c.hintKind(lastGroup.Runs.Correct(lastSpec.Estimate)))
		if j.byIndex != nil {
			j.byIndex[t.Index] = &tasks[i]
		}
		if !same {
			if err := t.Constraint.Validate(); err != nil {
				return invalid(i, "%v", err)
			}
			path, why := c.choosePath(&j.Job, t)
			if path == estimate.Sampling && len(t.Files) > 0 && j.Policy.Binding == Late {
				return invalid(i,
					"it needs files, which are fetched only for tasks that are bound early: leave out mode sample and policy %s",
					j.Policy.Name)
			}
			need := view.Need{
				Function: t.Function, Demand: t.Demand, Files: len(t.Files) > 0,
				JobConstraint: j.Constraint, TaskConstraint: t.Constraint,
			}
			if len(j.stages) > 0 && j.stages[t.Stage].needsPassing {
				need.Features = probe.Passing
			}
			key := need.Key()
			near := path == estimate.Sampling && c.isWorthNear(&j.Job, t)
			lastGroup = groups[kind{key, statedDemand, path, t.Stage, near, t.Class, j.Job.classOf(t)}]
			if lastGroup == nil {
				set := c.view.Set(key)
				if set == nil {
					set = c.view.MakeSet(key, need, c.setsInUse(j))
				}
				if set.Len() == 0 {
					return c.noWorkerRefusal(t, j.Constraint, need.Features != 0)
				}
				lastGroup = &group{
					job: j, index: len(j.groups), path: path, class: j.Job.classOf(t), stageIndex: int(t.Stage),
					pathReason: why, statedDemand: statedDemand,
					Kind: place.Kind{
						Policy: &j.Policy, Set: set, Demand: t.Demand, Runs: c.view.EnsureRuns(j.Tenant, t.runsKey()),
						Ratio: j.ProbeRatio, JobTasks: len(j.Tasks),
					},
				}
				lastGroup.refineDemand(t, maximum)
				if path == estimate.Estimation {
					lastGroup.stageStats = &estimate.Stats{}
				}
				if near {
					c.makeNear(lastGroup)
				}
				groups[kind{key, statedDemand, path, t.Stage, near, t.Class, j.Job.classOf(t)}] = lastGroup
				j.groups = append(j.groups, lastGroup)
			}
			lastSpec = t
		}
		t.Demand = lastGroup.Demand
		if lastGroup.near == nil {
			lastGroup.Add(t.Estimate, 0, len(t.Payload))
		} else {
			lastGroup.Add(t.Estimate, c.farReadTime(t), len(t.Payload))
			lastGroup.near.addUnshelved(&tasks[i])
		}
		tasks[i] = task{spec: t, group: lastGroup}
		j.tasks[i] = &tasks[i]
		lastGroup.queue.Push(&tasks[i])
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

// sortedNames returns the names in a set, sorted.
func sortedNames(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

// joinConstraints describes a and b for people, without the empty parts.
func joinConstraints(a, b Constraint) string {
	switch {
	case a.String() == "":
		return b.String()
	case b.String() == "":
		return a.String()
	}
	return a.String() + " and " + b.String()
}
