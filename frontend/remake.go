package frontend

import (
	"fmt"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// What tasks have left as files is lost with the workers in whose caches it is. A task that finds that out waits until those that made
// it have run again. Of that their clients hear nothing: they have had the outcomes.

// maxRemade is how often a task runs again for what it has left.
const maxRemade = 3

// missRest is how long a task rests that did not find what is passed to it where it should be, at first; then twice as long each
// time: the worker may be too busy to send it, or gone without anybody having noticed yet.
const (
	missRest  = 500 * time.Millisecond
	maxMissed = 3
)

// missing decides what follows where a task did not find all its inputs, and which files are nowhere, as its worker says: it is tried
// again after a rest, or when what it needs has been made again. Or why it is not; "" if nothing is passed to it.
// What was made again since its attempt was sent is somewhere else now.
func (c *ledger) missing(a *attempt, nowhere []probe.Output, now time.Time) (again bool, rests time.Duration, why string) {
	t := a.task
	var lost []probe.TaskIndex
	files, since := 0, false
	for i := range t.spec.Inputs {
		in := &t.spec.Inputs[i]
		if in.Pass == NotPassed {
			continue
		}
		for _, m := range t.madeFor(in) {
			if !m.output.File {
				continue
			}
			files++
			gone := slices.ContainsFunc(nowhere, func(o probe.Output) bool { return o.File && o.Digest == m.output.Digest })
			if gone && m.at.After(a.sent) {
				gone, since = false, true
			}
			if gone = gone || !c.stays(&m); gone && !slices.Contains(lost, m.task) {
				lost = append(lost, m.task)
			}
		}
	}
	switch {
	case files == 0 || !t.spec.Retryable:
	case len(lost) > 0:
		why = c.remake(t, lost, now)
		return why == "", 0, why
	case since:
		return true, 0, ""
	case t.missed < maxMissed:
		t.missed++
		return true, missRest << (t.missed - 1), ""
	}
	return false, 0, ""
}

// stays reports whether the run of a worker is there that has made something.
func (c *ledger) stays(m *made) bool {
	return slices.ContainsFunc(c.view.Fleet().WorkersNamed(m.worker), func(key int32) bool {
		w := c.workers[key]
		return w.Linked() && w.Welcome().Worker == m.worker && (m.run == 0 || m.run == w.Welcome().Incarnation)
	})
}

// remake has tasks run again for what they have left, and lets t wait for that; or it says why they may not.
func (c *ledger) remake(t *task, lost []probe.TaskIndex, now time.Time) (why string) {
	j := t.group.job
	for _, index := range lost {
		p := c.task(j.ID, index)
		if p == nil {
			if p, why = c.recall(j, index, now); why != "" {
				return fmt.Sprintf("what task %d has left is lost, and it ran for another frontend: %s", index, why)
			}
		}
		switch {
		case !p.spec.Retryable:
			return fmt.Sprintf("what task %d has left is lost, and it may start only once", index)
		case p.state == done && p.remade == maxRemade:
			return fmt.Sprintf("what task %d has left is lost, and it has run again %d times already", index, maxRemade)
		}
	}
	for _, index := range lost {
		p := c.task(j.ID, index)
		if p.state == done {
			p.remade++
			c.Stats.Remade++
			c.settled(j, -1)
			c.await(p)
			c.want(p.group)
		}
		if !slices.Contains(p.readers, t) {
			p.readers = append(p.readers, t)
			t.awaits++
		}
	}
	return ""
}

// madeBy is what a task has left for another frontend, or nil.
func (j *job) madeBy(index probe.TaskIndex) *Made {
	for i := range j.Stages {
		list := j.Stages[i].Made
		if k := slices.IndexFunc(list, func(m Made) bool { return m.Task == index }); k >= 0 {
			return &list[k]
		}
	}
	return nil
}

// recall makes a task a part of its job again that has ended for another frontend; or it says why it cannot run again.
func (c *ledger) recall(j *job, index probe.TaskIndex, now time.Time) (_ *task, why string) {
	by := j.madeBy(index)
	if by == nil || by.Spec == nil {
		return nil, "submit the job again"
	}
	x := &job{Job: j.Job, stages: j.stages}
	x.Tasks = []Task{*by.Spec}
	if err := c.group(x); err != nil {
		return nil, err.Message
	}
	by.Spec = nil
	c.unload(j, x.payloads)
	j.kept -= x.payloads
	c.join(j, x, now)
	t := x.tasks[0]
	t.move(done)
	c.settled(j, 1)
	return t, ""
}
