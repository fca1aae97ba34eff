package frontend

import (
	"fmt"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// An addition to a job is checked like another job with the same stages. If nothing is wrong, the addition becomes a
// part of the job. The new tasks have groups of their own.

// makeAddition makes a job of the stages and tasks to be added to j, or returns why the frontend refuses the addition.
func (c *jobs) makeAddition(j *job, ev *Extend) (*job, *RefusedError) {
	invalid := func(format string, args ...any) (*job, *RefusedError) {
		return nil, &RefusedError{Reason: Invalid, Message: fmt.Sprintf(format, args...)}
	}
	n := len(ev.Tasks)
	switch limit := c.cfg.MaxTasksPerJob; {
	case !j.Open:
		return invalid("the job is not open, or its last tasks have been added: submit another one")
	case ev.From != j.totalTasks:
		return invalid("the job has had %d tasks so far, the first new one cannot have index %d", j.totalTasks, ev.From)
	case len(j.stages) == 0 && j.totalTasks > 0 && len(ev.Stages) > 0:
		return invalid("the job has tasks and no stages: submit it with the first ones")
	case j.totalTasks+n > limit:
		return nil, &RefusedError{Reason: TooBigJob, Message: fmt.Sprintf(
			"the job has had %d tasks, with %d more it would have %d, the limit is %d: submit another one",
			j.totalTasks, n, j.totalTasks+n, limit)}
	}
	x := &job{Job: j.Job, submitted: j.submitted, deadline: j.deadline, due: j.due, stages: slices.Clone(j.stages)}
	x.Stages, x.Tasks = slices.Concat(j.Stages, ev.Stages), ev.Tasks
	x.meanEstimate = c.meanEstimate(x.Tenant, x.Tasks)
	for i := range x.Tasks {
		x.Tasks[i].Index = probe.TaskIndex(ev.From + i)
	}
	if err := c.buildStages(x); err != nil {
		return nil, err
	}
	if err := c.admitTasks(x); err != nil {
		return nil, err
	}
	if sum := j.payloadBytes + x.payloadBytes; sum > c.cfg.MaxPayloads {
		return nil, &RefusedError{Reason: TooBigJob, Message: fmt.Sprintf(
			"the payloads of the job would be %d bytes together, the limit is %d: pass references to the data",
			sum, c.cfg.MaxPayloads)}
	}
	if err := c.refuseNoRoom(x); err != nil {
		return nil, err
	}
	return x, nil
}

// applyAddition adds x, a checked addition, to j.
func (c *jobs) applyAddition(j, x *job, now time.Time) {
	for i := len(j.stages); i < len(x.stages); i++ {
		if s := &x.stages[i]; s.ready {
			s.readyAt = now
		}
	}
	hasSamePath := func(s, t stage) bool { return s.criticalPath == t.criticalPath }
	isSameOrder := slices.EqualFunc(j.stages, x.stages[:len(j.stages)], hasSamePath)
	if j.Stages, j.stages = x.Stages, x.stages; !isSameOrder {
		c.reorderTasks(j.tenant)
	}
	j.stageBytes += x.stageBytes
	c.mergeTasks(j, x, now)
	j.totalTasks += len(x.tasks)
}

// mergeTasks makes the tasks and groups of x a part of j. The groups of x keep their queues.
func (c *jobs) mergeTasks(j, x *job, now time.Time) {
	if j.byIndex == nil && j.totalTasks > len(j.tasks) { // a resubmission left tasks out: tasks[i] has not index i
		j.byIndex = make(map[probe.TaskIndex]*task, len(j.tasks)+len(x.tasks))
		for _, t := range j.tasks {
			j.byIndex[t.spec.Index] = t
		}
	}
	for _, t := range x.tasks {
		if j.byIndex != nil {
			j.byIndex[t.spec.Index] = t
		}
	}
	j.tasks = append(j.tasks, x.tasks...)
	j.unfinished += len(x.tasks)
	j.waiting += x.waiting
	j.payloadBytes += x.payloadBytes
	for i, g := range x.groups {
		g.job, g.Policy, g.JobTasks, g.index, g.addedAt = j, &j.Policy, j.totalTasks+len(x.tasks), len(j.groups)+i, now
	}
	j.groups = append(j.groups, x.groups...)
	j.makeSeats()
	j.awaitPartitions(x.tasks)
	for _, t := range x.tasks {
		if len(j.stages) > 0 && j.stages[t.group.stageIndex].needsPassing {
			t.updatePassedBytes() // outputs may exist already
		}
	}
	c.addTasks(j.tenant, x)
}

// endAdditions notes that nothing more will be added to a job.
func (j *job) endAdditions() { j.Open = false }
