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
	maxInline        = 256 << 10
	maxPassed        = 4 << 20
	maxPassedToAdded = 2 * maxPassed
)

// checkPassing says what stages need of workers, and how much of what they leave goes by way of the frontend. Tasks are
// counted, and the names of stages known to be right. What stages before the first one may leave is settled.
func (c *jobs) checkPassing(j *job, numbers map[string]int, firstNew int) *RefusedError {
	budget := make([]int, len(j.stages)) // bytes of all outputs in a partition
	for i := firstNew; i < len(budget); i++ {
		if n := len(j.Stages[i].Common); n > c.cfg.MaxPayload {
			return &RefusedError{Reason: TooBigJob, Message: fmt.Sprintf("stage %q: common payload of %d bytes, the limit is %d: pass a reference to the data instead", j.Stages[i].Name, n, c.cfg.MaxPayload)}
		}
		budget[i] = maxPassed
		j.stages[i].needsPassing = len(j.Stages[i].Common) > 0
	}
	read := func(t *Task) (passed, mayPass int) {
		n := t.countPassed()
		for k := range t.Inputs {
			in := &t.Inputs[k]
			if in.Pass == NotPassed {
				continue
			}
			from := numbers[in.Stage]
			j.stages[from].needsPassing, j.stages[t.Stage].needsPassing = true, true
			if from < firstNew {
				stagePassed, stageMayPass := j.stages[from].passedBytes(in.Partition)
				passed, mayPass = passed+stagePassed, mayPass+stageMayPass
				continue
			}
			if budget[from] = min(budget[from], maxPassed/n); in.Pass == File {
				budget[from] = 0
			}
		}
		return passed, mayPass
	}
	for i := firstNew; i < len(j.stages); i++ {
		for k := range j.Stages[i].Made {
			if m := &j.Stages[i].Made[k]; m.Spec != nil {
				read(m.Spec)
			}
		}
	}
	for i := range j.Tasks {
		t := &j.Tasks[i]
		passed, mayPass := read(t)
		switch {
		case passed > maxPassedToAdded:
			return &RefusedError{Reason: Invalid, Message: fmt.Sprintf("task %d: earlier stages have left %d bytes that would go with it, the limit is %d: have it read fewer of them", t.Index, passed, maxPassedToAdded)}
		case mayPass > maxPassedToAdded:
			return &RefusedError{Reason: Overloaded, Message: fmt.Sprintf("task %d: earlier stages may leave %d bytes that go with it, the limit is %d; come back when they have ended", t.Index, mayPass, maxPassedToAdded), RetryAfter: 100 * time.Millisecond}
		}
	}
	for i := firstNew; i < len(j.stages); i++ {
		s := &j.stages[i]
		s.inlineBytes = min(maxInline, budget[i]/max(s.unfinished+len(j.Stages[i].Made), 1))
		for k := range j.Stages[i].Made {
			m := &j.Stages[i].Made[k]
			if j.rememberOutputs(s, m); m.Spec != nil {
				j.stageBytes += len(m.Spec.Payload)
			}
		}
		j.stageBytes += len(j.Stages[i].Common)
	}
	j.payloadBytes += j.stageBytes
	return nil
}

// passedBytes is how many bytes of what the tasks of a stage have left in a partition go with a task, and how many may do at the end.
func (s *stage) passedBytes(partition int32) (now, most int) {
	for _, m := range s.outputs[partition] {
		now += len(m.output.Data)
	}
	return now, now + s.inlineBytes*s.unfinished
}

// rememberOutputs remembers what a task of a stage has left.
func (j *job) rememberOutputs(s *stage, entry *Made) {
	if s.outputs == nil {
		s.outputs = map[int32][]stageOutput{}
	}
	for i := range entry.Outputs {
		o := &entry.Outputs[i]
		list := s.outputs[int32(o.Partition)]
		at, _ := slices.BinarySearchFunc(list, entry.Task, func(m stageOutput, task probe.TaskIndex) int { return cmp.Compare(m.task, task) })
		s.outputs[int32(o.Partition)] = slices.Insert(list, at, stageOutput{entry.Task, entry.Partition, entry.Worker, entry.incarnation, o, entry.reportedAt})
		j.stageBytes += len(o.Data)
	}
}

// recordOutputs remembers what a task that has ended well leaves for later stages.
func (c *jobs) recordOutputs(t *task, w *worker, outputs []probe.Output, now time.Time) {
	j := t.group.job
	if len(j.stages) == 0 {
		return
	}
	s, before := &j.stages[t.group.stageIndex], j.stageBytes
	if t.remakes > 0 {
		j.forgetOutputs(s, t.spec.Index)
	}
	j.rememberOutputs(s, &Made{Task: t.spec.Index, Partition: t.spec.Partition, Worker: w.Welcome().Worker, Outputs: outputs, incarnation: w.Welcome().Incarnation, reportedAt: now})
	c.releasePayloads(j, before-j.stageBytes)
}

// forgetOutputs forgets what a task of a stage had left before it ran again.
func (j *job) forgetOutputs(s *stage, task probe.TaskIndex) {
	for partition, list := range s.outputs {
		s.outputs[partition] = slices.DeleteFunc(list, func(m stageOutput) bool {
			if m.task != task {
				return false
			}
			j.stageBytes -= len(m.output.Data)
			return true
		})
	}
}

// outputsFor is what was left for an input of a task that is passed.
func (t *task) outputsFor(in *Input) []stageOutput {
	j := t.group.job
	from := j.stageNumber(in.Stage)
	list := j.stages[from].outputs[in.Partition]
	if !slices.Contains(j.stages[t.group.stageIndex].along, from) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(m stageOutput) bool { return !slices.Contains(t.spec.alongPartitions(), m.partition) })
}

// stageNumber is the position of a stage.
func (j *job) stageNumber(name string) int {
	return slices.IndexFunc(j.Stages, func(s Stage) bool { return s.Name == name })
}

// updatePassedBytes notes what is passed with a task that waits no more for the stages before its own.
func (t *task) updatePassedBytes() {
	t.passedBytes = 0
	for i := range t.spec.Inputs {
		if in := &t.spec.Inputs[i]; in.Pass != NotPassed {
			for _, m := range t.outputsFor(in) {
				t.passedBytes += len(m.output.Data)
			}
		}
	}
	if t.passedBytes > 0 {
		t.group.NotePayload(t.bytesToSend())
	}
}

// bytesToSend is how many bytes go with a task to its worker.
func (t *task) bytesToSend() int { return len(t.spec.Payload) + t.passedBytes }

// locatePassed is where an input is that is passed.
func (t *task) locatePassed(in *Input) []estimate.Input {
	var ins []estimate.Input
	indexOf := map[string]int{}
	for _, m := range t.outputsFor(in) {
		i, known := indexOf[m.worker]
		switch {
		case !m.output.File:
		case !known && len(ins) < MaxInputs:
			indexOf[m.worker] = len(ins)
			ins = append(ins, estimate.Input{Bytes: int64(m.output.Bytes), Copies: []estimate.Copy{{At: m.worker}}})
		case known:
			ins[i].Bytes += int64(m.output.Bytes)
		}
	}
	return ins
}

// explainNoPassing says that no worker knows what a stage needs, for people.
func explainNoPassing(t *Task) string {
	return fmt.Sprintf("task %d: its stage has a common payload, or outputs are passed, and no worker that could run %q knows of that: upgrade the workers", t.Index, t.Function)
}
