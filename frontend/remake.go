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

// decideMissingInputs decides what follows where a task did not find all its inputs, and which files are nowhere, as its worker says: it is tried
// again after a rest, or when what it needs has been made again. Or why it is not; "" if nothing is passed to it.
// What was made again since its attempt was sent is somewhere else now.
func (c *ledger) decideMissingInputs(a *attempt, nowhere []probe.Output, now time.Time) (retry bool, rest time.Duration, why string) {
	t := a.task
	var lost []probe.TaskIndex
	files, remadeSince := 0, false
	for i := range t.spec.Inputs {
		in := &t.spec.Inputs[i]
		if in.Pass == NotPassed {
			continue
		}
		for _, m := range t.outputsFor(in) {
			if !m.output.File {
				continue
			}
			files++
			gone := slices.ContainsFunc(nowhere, func(o probe.Output) bool { return o.File && o.Digest == m.output.Digest })
			if gone && m.reportedAt.After(a.sentAt) {
				gone, remadeSince = false, true
			}
			if gone = gone || !c.isMakerLinked(&m); gone && !slices.Contains(lost, m.task) {
				lost = append(lost, m.task)
			}
		}
	}
	switch {
	case files == 0 || !t.spec.Retryable:
	case len(lost) > 0:
		why = c.remakeTasks(t, lost, now)
		return why == "", 0, why
	case remadeSince:
		return true, 0, ""
	case t.misses < maxMissed:
		t.misses++
		return true, missRest << (t.misses - 1), ""
	}
	return false, 0, ""
}

// isMakerLinked reports whether the run of a worker is there that has made something.
func (c *ledger) isMakerLinked(m *stageOutput) bool {
	return slices.ContainsFunc(c.view.Fleet().WorkersNamed(m.worker), func(key int32) bool {
		w := c.workers[key]
		return w.Linked() && w.Welcome().Worker == m.worker && (m.incarnation == 0 || m.incarnation == w.Welcome().Incarnation)
	})
}

// remakeTasks has tasks run again for what they have left, and lets t wait for that; or it says why they may not.
func (c *ledger) remakeTasks(t *task, lost []probe.TaskIndex, now time.Time) (why string) {
	j := t.group.job
	for _, index := range lost {
		p := c.findTask(j.ID, index)
		if p == nil {
			if p, why = c.recallTask(j, index, now); why != "" {
				return fmt.Sprintf("what task %d has left is lost, and it ran for another frontend: %s", index, why)
			}
		}
		switch {
		case !p.spec.Retryable:
			return fmt.Sprintf("what task %d has left is lost, and it may start only once", index)
		case p.state == done && p.remakes == maxRemade:
			return fmt.Sprintf("what task %d has left is lost, and it has run again %d times already", index, maxRemade)
		}
	}
	for _, index := range lost {
		p := c.findTask(j.ID, index)
		if p.state == done {
			p.remakes++
			c.Stats.Remade++
			c.subtractPending(j, -1)
			c.awaitNext(p)
			c.wantPlaces(p.group)
		}
		if !slices.Contains(p.readers, t) {
			p.readers = append(p.readers, t)
			t.awaitedInputs++
		}
	}
	return ""
}

// findMade is what a task has left for another frontend, or nil.
func (j *job) findMade(index probe.TaskIndex) *Made {
	for i := range j.Stages {
		list := j.Stages[i].Made
		if k := slices.IndexFunc(list, func(m Made) bool { return m.Task == index }); k >= 0 {
			return &list[k]
		}
	}
	return nil
}

// recallTask makes a task a part of its job again that has ended for another frontend; or it says why it cannot run again.
func (c *ledger) recallTask(j *job, index probe.TaskIndex, now time.Time) (_ *task, why string) {
	entry := j.findMade(index)
	if entry == nil || entry.Spec == nil {
		return nil, "submit the job again"
	}
	x := &job{Job: j.Job, stages: j.stages}
	x.Tasks = []Task{*entry.Spec}
	if err := c.groupTasks(x); err != nil {
		return nil, err.Message
	}
	entry.Spec = nil
	c.releasePayloads(j, x.payloadBytes)
	j.stageBytes -= x.payloadBytes
	c.mergeTasks(j, x, now)
	t := x.tasks[0]
	t.move(done)
	c.subtractPending(j, 1)
	return t, ""
}
