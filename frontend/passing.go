package frontend

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
)

// What tasks leave is passed to those of later stages: what is small by way of the frontend, what is large as files of the
// workers that made it.

const (
	// maxInline is the largest output that goes by way of the frontend, and maxCarried bounds all of them that one task gets;
	// maxSettled those of stages that could not know of it.
	maxInline  = 256 << 10
	maxCarried = 4 << 20
	maxSettled = 2 * maxCarried
)

// checkPassing says what stages need of workers, and how much of what they leave goes by way of the frontend. Tasks are
// counted, and the names of stages known to be right. What stages before the first one may leave is settled.
func (c *jobs) checkPassing(j *job, numbers map[string]int, first int) *RefusedError {
	budget := make([]int, len(j.stages)) // bytes of all outputs in a partition
	for i := first; i < len(budget); i++ {
		if n := len(j.Stages[i].Common); n > c.cfg.MaxPayload {
			return &RefusedError{Reason: TooBigJob, Message: fmt.Sprintf("stage %q: common payload of %d bytes, the limit is %d: pass a reference to the data instead", j.Stages[i].Name, n, c.cfg.MaxPayload)}
		}
		budget[i] = maxCarried
		j.stages[i].passes = len(j.Stages[i].Common) > 0
	}
	read := func(t *Task) (left, most int) {
		n := t.passed()
		for k := range t.Inputs {
			in := &t.Inputs[k]
			if in.Pass == NotPassed {
				continue
			}
			from := numbers[in.Stage]
			j.stages[from].passes, j.stages[t.Stage].passes = true, true
			if from < first {
				has, may := j.stages[from].carries(in.Partition)
				left, most = left+has, most+may
				continue
			}
			if budget[from] = min(budget[from], maxCarried/n); in.Pass == File {
				budget[from] = 0
			}
		}
		return left, most
	}
	for i := first; i < len(j.stages); i++ {
		for k := range j.Stages[i].Made {
			if m := &j.Stages[i].Made[k]; m.Spec != nil {
				read(m.Spec)
			}
		}
	}
	for i := range j.Tasks {
		t := &j.Tasks[i]
		left, most := read(t)
		switch {
		case left > maxSettled:
			return &RefusedError{Reason: Invalid, Message: fmt.Sprintf("task %d: earlier stages have left %d bytes that would go with it, the limit is %d: have it read fewer of them", t.Index, left, maxSettled)}
		case most > maxSettled:
			return &RefusedError{Reason: Overloaded, Message: fmt.Sprintf("task %d: earlier stages may leave %d bytes that go with it, the limit is %d; come back when they have ended", t.Index, most, maxSettled), RetryAfter: 100 * time.Millisecond}
		}
	}
	for i := first; i < len(j.stages); i++ {
		s := &j.stages[i]
		s.inline = min(maxInline, budget[i]/max(s.left+len(j.Stages[i].Made), 1))
		for k := range j.Stages[i].Made {
			m := &j.Stages[i].Made[k]
			if j.keep(s, m); m.Spec != nil {
				j.kept += len(m.Spec.Payload)
			}
		}
		j.kept += len(j.Stages[i].Common)
	}
	j.payloads += j.kept
	return nil
}

// carries is how many bytes of what the tasks of a stage have left in a partition go with a task, and how many may do at the end.
func (s *stage) carries(partition int32) (now, most int) {
	for _, m := range s.made[partition] {
		now += len(m.output.Data)
	}
	return now, now + s.inline*s.left
}

// keep remembers what a task of a stage has left.
func (j *job) keep(s *stage, by *Made) {
	if s.made == nil {
		s.made = map[int32][]made{}
	}
	for i := range by.Outputs {
		o := &by.Outputs[i]
		list := s.made[int32(o.Partition)]
		at, _ := slices.BinarySearchFunc(list, by.Task, func(m made, task probe.TaskIndex) int { return cmp.Compare(m.task, task) })
		s.made[int32(o.Partition)] = slices.Insert(list, at, made{by.Task, by.Partition, by.Worker, by.run, o, by.at})
		j.kept += len(o.Data)
	}
}

// leaves remembers what a task that has ended well leaves for later stages.
func (c *jobs) leaves(t *task, w *worker, outputs []probe.Output, now time.Time) {
	j := t.group.job
	if len(j.stages) == 0 {
		return
	}
	s, before := &j.stages[t.group.number], j.kept
	if t.remade > 0 {
		j.replaced(s, t.spec.Index)
	}
	j.keep(s, &Made{Task: t.spec.Index, Partition: t.spec.Partition, Worker: w.Welcome().Worker, Outputs: outputs, run: w.Welcome().Incarnation, at: now})
	c.unload(j, before-j.kept)
}

// replaced forgets what a task of a stage had left before it ran again.
func (j *job) replaced(s *stage, task probe.TaskIndex) {
	for partition, list := range s.made {
		s.made[partition] = slices.DeleteFunc(list, func(m made) bool {
			if m.task != task {
				return false
			}
			j.kept -= len(m.output.Data)
			return true
		})
	}
}

// madeFor is what was left for an input of a task that is passed.
func (t *task) madeFor(in *Input) []made {
	j := t.group.job
	from := j.number(in.Stage)
	list := j.stages[from].made[in.Partition]
	if !slices.Contains(j.stages[t.group.number].along, from) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(m made) bool { return !slices.Contains(t.spec.partitions(), m.partition) })
}

// number is the position of a stage.
func (j *job) number(name string) int {
	return slices.IndexFunc(j.Stages, func(s Stage) bool { return s.Name == name })
}

// weigh notes what is passed with a task that waits no more for the stages before its own.
func (t *task) weigh() {
	t.carries = 0
	for i := range t.spec.Inputs {
		if in := &t.spec.Inputs[i]; in.Pass != NotPassed {
			for _, m := range t.madeFor(in) {
				t.carries += len(m.output.Data)
			}
		}
	}
	if t.carries > 0 {
		t.group.NotePayload(t.weight())
	}
}

// weight is how many bytes go with a task to its worker.
func (t *task) weight() int { return len(t.spec.Payload) + t.carries }

// passedFrom is where an input is that is passed.
func (t *task) passedFrom(in *Input) []estimate.Input {
	var ins []estimate.Input
	at := map[string]int{}
	for _, m := range t.madeFor(in) {
		i, known := at[m.worker]
		switch {
		case !m.output.File:
		case !known && len(ins) < MaxInputs:
			at[m.worker] = len(ins)
			ins = append(ins, estimate.Input{Bytes: int64(m.output.Bytes), Copies: []estimate.Copy{{At: m.worker}}})
		case known:
			ins[i].Bytes += int64(m.output.Bytes)
		}
	}
	return ins
}

// lacks says that no worker knows what a stage needs, for people.
func lacks(t *Task) string {
	return fmt.Sprintf("task %d: its stage has a common payload, or outputs are passed, and no worker that could run %q knows of that: upgrade the workers", t.Index, t.Function)
}
