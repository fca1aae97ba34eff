package frontend

import (
	"fmt"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// Output files are lost together with the workers caching the files. If a task misses such files, the task waits until
// the makers of the files have run again. The client has the outcomes of the makers already, and hears nothing.

// maxRemade bounds how often a task runs again to make lost outputs. The number was chosen: a task whose outputs are
// lost more often may be the cause.
const maxRemade = 3

// missRest is the first rest of a task whose passed inputs were not found in the expected caches. Each further
// rest is twice as long, and there are maxMissed rests. The worker with the outputs may be too busy to send, or
// may be gone and not yet be missed. The rests were chosen, and last longer than AdriftFor (1 s) together.
const (
	missRest  = 500 * time.Millisecond
	maxMissed = 3
)

// handleMissingInputs decides how a task goes on after attempt a missed inputs, and has lost inputs made again. The
// worker of a reports the files in lostFiles as lost. If retry is set, the task is tried again: after rest, or when
// the lost inputs have been made again. If inputs were made again since the attempt was sent, they are elsewhere now,
// and the task is retried at once. The result why is the reason if lost inputs cannot be made again, else "".
func (c *ledger) handleMissingInputs(
	a *attempt, lostFiles []probe.Output, now time.Time,
) (retry bool, rest time.Duration, why string) {
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
			gone := slices.ContainsFunc(lostFiles, func(o probe.Output) bool {
				return o.File && o.Digest == m.output.Digest
			})
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

// isMakerLinked reports whether the maker of m is linked, and has not restarted since.
func (c *ledger) isMakerLinked(m *stageOutput) bool {
	return slices.ContainsFunc(c.view.Fleet().WorkersNamed(m.worker), func(key int32) bool {
		w := c.workers[key]
		return w.Linked() &&
			w.Welcome().Worker == m.worker && (m.incarnation == 0 || m.incarnation == w.Welcome().Incarnation)
	})
}

// remakeTasks has tasks run again to make lost outputs, and makes t wait for these tasks. If a task may not run
// again, no task does, and the reason is returned.
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
			c.awaitNextAgain(p, now)
			c.wantPlaces(p.group)
		}
		if !slices.Contains(p.readers, t) {
			p.readers = append(p.readers, t)
			t.awaitedInputs++
		}
	}
	return ""
}

// findMade returns the outputs made by a task for another frontend, or nil.
func (j *job) findMade(index probe.TaskIndex) *Made {
	for i := range j.Stages {
		list := j.Stages[i].Made
		if k := slices.IndexFunc(list, func(m Made) bool { return m.Task == index }); k >= 0 {
			return &list[k]
		}
	}
	return nil
}

// recallTask makes a task that ended for another frontend a part of j again. If the task cannot run again, the
// reason is returned.
func (c *ledger) recallTask(j *job, index probe.TaskIndex, now time.Time) (_ *task, why string) {
	entry := j.findMade(index)
	if entry == nil || entry.Spec == nil {
		return nil, "submit the job again"
	}
	x := &job{Job: j.Job, stages: j.stages}
	x.Tasks = []Task{*entry.Spec}
	if err := c.admitTasks(x); err != nil {
		return nil, err.Message
	}
	entry.Spec = nil // mergeTasks counts the payload again, as a task's
	c.releasePayloads(j, x.payloadBytes)
	j.stageBytes -= x.payloadBytes
	c.mergeTasks(j, x, now)
	t := x.tasks[0]
	t.move(done)
	c.subtractPending(j, 1)
	return t, ""
}
