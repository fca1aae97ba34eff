package frontend

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
)

// Tasks pass outputs to tasks of later stages. Small outputs travel by way of the frontend. Large outputs stay as
// files in the caches of their makers.

const (
	// Limits in bytes. maxInline bounds an output travelling by way of the frontend, and maxPassed all passed
	// outputs of a task. For a task added later maxPassedToAdded holds: earlier stages did not know the task, so
	// their outputs may be larger.
	maxInline        = 256 << 10
	maxPassed        = 4 << 20
	maxPassedToAdded = 2 * maxPassed
)

// setPassingLimits decides which stages need workers with data passing, and how large an output of each stage may be
// to travel by way of the frontend. The caller has counted the tasks and checked the stages' names. The limits of
// stages before firstNew stay. A job with too large payloads, or too much to pass, is refused.
func (c *jobs) setPassingLimits(j *job, numbers map[string]int, firstNew int) *RefusedError {
	budget := make([]int, len(j.stages)) // bytes of all outputs in a partition, by stage
	for i := firstNew; i < len(budget); i++ {
		if n := len(j.Stages[i].Common); n > c.cfg.MaxPayload {
			return &RefusedError{Reason: TooBigJob, Message: fmt.Sprintf(
				"stage %q: common payload of %d bytes, the limit is %d: pass a reference to the data instead",
				j.Stages[i].Name, n, c.cfg.MaxPayload)}
		}
		budget[i] = maxPassed
		j.stages[i].needsPassing = len(j.Stages[i].Common) > 0
	}
	noteReads := func(t *Task) (passed, mayPass int) {
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
				noteReads(m.Spec)
			}
		}
	}
	for i := range j.Tasks {
		t := &j.Tasks[i]
		passed, mayPass := noteReads(t)
		switch {
		case passed > maxPassedToAdded:
			return &RefusedError{Reason: Invalid, Message: fmt.Sprintf(
				"task %d: gets %d bytes from earlier stages, the limit is %d: have it read fewer outputs",
				t.Index, passed, maxPassedToAdded)}
		case mayPass > maxPassedToAdded:
			return &RefusedError{Reason: Overloaded, Message: fmt.Sprintf(
				"task %d: may get %d bytes from earlier stages, the limit is %d; come back when they have ended",
				t.Index, mayPass, maxPassedToAdded), RetryAfter: 100 * time.Millisecond}
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

// passedBytes returns how many bytes of outputs a reader of the partition gets by way of the frontend: at present, and
// at most when the stage has ended.
func (s *stage) passedBytes(partition int32) (present, most int) {
	for _, m := range s.outputs[partition] {
		present += len(m.output.Data)
	}
	return present, present + s.inlineBytes*s.unfinished
}

// rememberOutputs files the outputs of a task of stage s by partition, in the order of tasks, and counts inline
// outputs in j.stageBytes.
func (j *job) rememberOutputs(s *stage, entry *Made) {
	if s.outputs == nil {
		s.outputs = map[int32][]stageOutput{}
	}
	for i := range entry.Outputs {
		o := &entry.Outputs[i]
		list := s.outputs[int32(o.Partition)]
		at, _ := slices.BinarySearchFunc(list, entry.Task, func(m stageOutput, task probe.TaskIndex) int {
			return cmp.Compare(m.task, task)
		})
		s.outputs[int32(o.Partition)] = slices.Insert(list, at, stageOutput{entry.Task, entry.Partition, entry.Worker,
			entry.incarnation, o, entry.reportedAt})
		j.stageBytes += len(o.Data)
	}
}

// recordOutputs files the outputs of t, which ended well, if its job has stages. The outputs of an earlier run
// are replaced.
func (c *jobs) recordOutputs(t *task, w *worker, outputs []probe.Output, now time.Time) {
	j := t.group.job
	if len(j.stages) == 0 {
		return
	}
	s, before := &j.stages[t.group.stageIndex], j.stageBytes
	if t.remakes > 0 {
		j.forgetOutputs(s, t.spec.Index)
	}
	j.rememberOutputs(s, &Made{
		Task: t.spec.Index, Partition: t.spec.Partition, Worker: w.Welcome().Worker, Outputs: outputs,
		incarnation: w.Welcome().Incarnation, reportedAt: now,
	})
	c.releasePayloads(j, before-j.stageBytes)
}

// forgetOutputs forgets the outputs of the earlier run of a task, and subtracts inline outputs from j.stageBytes.
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

// outputsFor returns the outputs for a passed input of t. If t's stage goes along the stage that makes them, only
// outputs of tasks in t's partitions count.
func (t *task) outputsFor(in *Input) []stageOutput {
	j := t.group.job
	from := j.stageNumber(in.Stage)
	list := j.stages[from].outputs[in.Partition]
	if !slices.Contains(j.stages[t.group.stageIndex].along, from) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(m stageOutput) bool {
		return !slices.Contains(t.spec.alongPartitions(), m.partition)
	})
}

// stageNumber returns the position of a stage in the job, or -1.
func (j *job) stageNumber(name string) int {
	return slices.IndexFunc(j.Stages, func(s Stage) bool { return s.Name == name })
}

// updatePassedBytes counts the bytes passed with t. Call it when t no longer waits for earlier stages or partitions.
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

// bytesToSend returns the bytes sent to the worker with t: payload and passed outputs.
func (t *task) bytesToSend() int { return len(t.spec.Payload) + t.passedBytes }

// locatePassed returns where a passed input of t is: an estimate.Input for each worker with output files. Outputs
// sent by way of the frontend do not count.
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

// explainNoPassing returns a message for people: no worker can pass the data that the stage of t needs.
func explainNoPassing(t *Task) string {
	return fmt.Sprintf(
		"task %d: its stage has a common payload, or outputs are passed, and no worker that could run %q knows of that: upgrade the workers",
		t.Index, t.Function)
}
