package serve

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

// parseOrRefuse makes a job of the core from a job of the API. It refuses jobs that the core's types cannot hold. The
// core refuses all further flaws.
func (h *handler) parseOrRefuse(in *v1.Job) (*frontend.Job, error) {
	job, err := h.parseJob(in)
	if err != nil {
		return nil, newRefused(v1.RefusedReason_INVALID, "%v", err)
	}
	return job, nil
}

// parseJob makes a job of the core from a job of the API. Errors name the field and the remedy.
func (h *handler) parseJob(in *v1.Job) (*frontend.Job, error) {
	id, err := probe.ParseJobID(in.Id)
	if err != nil {
		return nil, err
	}
	if len(in.Tenant) > probe.MaxString {
		return nil, fmt.Errorf("the tenant's name has %d bytes: at most %d are allowed", len(in.Tenant),
			probe.MaxString)
	}
	job := &frontend.Job{
		ID: id, Tenant: in.Tenant, Priority: in.Priority, Deadline: fromMicros(in.DeadlineUs), Policy: h.cfg.Policy,
		ProbeRatio: in.ProbeRatio, Constraint: constraintFromAPI(in.Constraint), Open: in.Open, Large: in.LargeResults,
	}
	if r := in.Resubmission; r != nil {
		if r.Count > maxResubmissions {
			return nil, fmt.Errorf("resubmission: count is %d: at most %d are allowed: count the job's resubmissions from 1",
				r.Count, maxResubmissions)
		}
		job.Generation, job.Age = probe.Generation(max(r.Count, 1)), fromMicros(max(r.AgeUs, 0))
	}
	if in.Policy != v1.Policy_DEFAULT {
		if job.Policy, err = policyFromAPI(in.Policy); err != nil {
			return nil, err
		}
	}
	if job.Mode, err = modeFromAPI(in.Mode); err != nil {
		return nil, err
	}
	if in.JobClass != nil {
		if job.Class = frontend.Class(*in.JobClass); *in.JobClass < v1.JobClass_AUTO ||
			*in.JobClass > v1.JobClass_SPARE {
			return nil, fmt.Errorf("job_class %d is unknown here: use a value of the enumeration JobClass",
				*in.JobClass)
		}
	}
	if in.DueUs != nil {
		job.Due = fromMicros(*in.DueUs)
	}
	if in.Traceparent != nil {
		if job.Trace = *in.Traceparent; len(job.Trace) > maxTrace {
			return nil, fmt.Errorf("traceparent has %d bytes: at most %d are allowed", len(job.Trace), maxTrace)
		}
	}
	stages, err := parseStages(in, job, h.cfg.Core.MaxTasksPerJob)
	if err != nil {
		return nil, err
	}
	if job.Tasks, err = parseTasks(in.Tasks, 0, stages, 0); err != nil {
		return nil, err
	}
	return job, nil
}

// parseExtend makes an Extend of the core from the API's. existing are the stages that the job has.
func parseExtend(in *v1.ExtendRequest, id probe.JobID, existing []frontend.Stage) (ev frontend.Extend, err error) {
	if in.FromTask < 0 || int(in.FromTask)+len(in.Tasks) > math.MaxInt32 {
		return ev, fmt.Errorf("from_task %d: say how many tasks the job has had so far", in.FromTask)
	}
	ev = frontend.Extend{Job: id, From: int(in.FromTask), Last: in.Last}
	positions := make(map[string]int32, len(existing)+len(in.Stages))
	for i := range existing {
		positions[existing[i].Name] = int32(i)
	}
	if ev.Stages, err = nameStages(in.Stages, positions); err == nil {
		ev.Tasks, err = parseTasks(in.Tasks, ev.From, positions, int32(len(existing)))
	}
	return ev, err
}

// parseTasks makes tasks of the core from the API's tasks. first is the index of the first task. Stages before
// number firstNew may have tasks already, so a task added to such a stage must name a partition.
func parseTasks(in []*v1.Task, first int, stages map[string]int32, firstNew int32) (tasks []frontend.Task, err error) {
	tasks = make([]frontend.Task, len(in))
	listed := make([]int32, len(stages)) // tasks of each stage
	for i, t := range in {
		if tasks[i], err = parseTask(t, first+i, stages); err != nil {
			return nil, err
		}
		if len(listed) == 0 {
			continue
		}
		if stage := tasks[i].Stage; t.Partition < 0 {
			if stage < firstNew {
				return nil, fmt.Errorf("task %d joins stage %q, which has tasks already: give its partition",
					tasks[i].Index, t.Stage)
			}
			tasks[i].Partition = listed[stage]
		}
		listed[tasks[i].Stage]++
	}
	return tasks, nil
}

// maxResubmissions bounds the count of a resubmission. A job that comes back from a frontend with the highest count
// could go to no other frontend.
const maxResubmissions = 1_000_000

// maxTrace exceeds the length of any valid traceparent, in bytes.
const maxTrace = 128

// parseStages sets a job's stages, and returns the positions of stages by name. maxEntries bounds the lists of a
// resubmission. The core checks the rest of the stages.
func parseStages(in *v1.Job, job *frontend.Job, maxEntries int) (map[string]int32, error) {
	stages := make(map[string]int32, len(in.Stages))
	var err error
	if job.Stages, err = nameStages(in.Stages, stages); err != nil || in.Resubmission == nil {
		return stages, err
	}
	job.Had = int(in.Resubmission.Tasks)
	if n := len(in.Resubmission.Ran); n > maxEntries {
		return nil, fmt.Errorf(
			"resubmission: ran has %d entries: at most %d are allowed, an entry for each stage and worker", n,
			maxEntries)
	}
	for i, r := range in.Resubmission.Ran {
		at, known := stages[r.Stage]
		switch {
		case !known:
			return nil, fmt.Errorf("resubmission: ran[%d] names stage %q, unknown to the job: list all stages again", i,
				r.Stage)
		case r.Tasks < 1 || r.Worker == "":
			return nil, fmt.Errorf(
				"resubmission: ran[%d] is %d tasks at worker %q: name the worker of each outcome, and count 1 or more",
				i, r.Tasks, r.Worker)
		}
		if job.Stages[at].Ran == nil {
			job.Stages[at].Ran = map[string]int{}
		}
		job.Stages[at].Ran[r.Worker] += int(r.Tasks)
	}
	if n := len(in.Resubmission.Made); n > maxEntries {
		return nil, fmt.Errorf("resubmission: made has %d entries: at most %d are allowed, an entry for each task", n,
			maxEntries)
	}
	for i, m := range in.Resubmission.Made {
		at, known := stages[m.Stage]
		if !known {
			return nil, fmt.Errorf("resubmission: made[%d] names stage %q, unknown to the job: list all stages again",
				i, m.Stage)
		}
		outputs, err := parseOutputs(m.Outputs)
		if err != nil {
			return nil, fmt.Errorf("resubmission: made[%d]: %w", i, err)
		}
		made := frontend.Made{Task: probe.TaskIndex(m.Task), Partition: m.Partition, Worker: m.Worker, Outputs: outputs}
		if m.Spec != nil {
			spec, err := parseTask(m.Spec, int(m.Task), stages)
			if err != nil {
				return nil, fmt.Errorf("resubmission: made[%d]: %w", i, err)
			}
			made.Spec = &spec
		}
		job.Stages[at].Made = append(job.Stages[at].Made, made)
	}
	return stages, nil
}

// nameStages makes stages of the core from the API's stages, and adds their positions to positions.
func nameStages(in []*v1.Stage, positions map[string]int32) (stages []frontend.Stage, err error) {
	for i, s := range in {
		switch _, repeated := positions[s.Name]; { // the core checks this, too, but tasks are counted by stage first
		case s.Name == "":
			return nil, fmt.Errorf("stage %d has no name", i)
		case repeated:
			return nil, fmt.Errorf("two stages are called %q: give each its own name", s.Name)
		case len(s.Name) > probe.MaxString:
			return nil, fmt.Errorf("stage %d: its name has %d bytes: at most %d are allowed", i, len(s.Name),
				probe.MaxString)
		}
		positions[s.Name] = int32(len(positions))
		stages = append(stages, frontend.Stage{Name: s.Name, After: s.After, Along: s.Along, Common: s.Common})
	}
	return stages, nil
}

func parseOutputs(in []*v1.Output) ([]probe.Output, error) {
	outputs := make([]probe.Output, len(in))
	for i, o := range in {
		outputs[i] = probe.Output{Partition: uint32(o.Partition), Bytes: uint64(o.Bytes), Data: o.Data}
		if o.Sha256 == nil {
			continue
		}
		if outputs[i].Digest, outputs[i].File = parseDigest(*o.Sha256); !outputs[i].File {
			return nil, fmt.Errorf("outputs[%d]: sha256 %q: copy the value from the outcome", i, clipText(*o.Sha256))
		}
	}
	return outputs, nil
}

// parseTask makes a task of the core from the i-th task of a job.
func parseTask(in *v1.Task, i int, stages map[string]int32) (frontend.Task, error) {
	index := probe.TaskIndex(i)
	if in.Index >= 0 {
		index = probe.TaskIndex(in.Index)
	}
	t := frontend.Task{
		Index: index, Function: in.FunctionName, Payload: in.Payload, Estimate: fromMicros(in.EstimateUs),
		Constraint: constraintFromAPI(in.Constraint), Retryable: in.Retryable, Timeout: fromMicros(in.TimeoutUs),
		Retries: int(in.Retries), Backoff: fromMicros(in.BackoffUs),
		Partition: max(in.Partition, 0), Along: in.Along, Class: in.RunClass,
	}
	if len(t.Class) > probe.MaxString {
		return t, fmt.Errorf("task %d: the class has %d bytes: at most %d are allowed", index, len(t.Class),
			probe.MaxString)
	}
	if len(in.FunctionName) > probe.MaxString {
		return t, fmt.Errorf("task %d: the function's name has %d bytes: at most %d are allowed", index,
			len(in.FunctionName), probe.MaxString)
	}
	if d := in.Demand; d != nil {
		t.Demand = probe.Demand{CPU: probe.Millicores(d.CpuMillicores), Mem: probe.MiB(d.MemoryMib)}
	}
	if in.Stage != "" || len(stages) > 0 {
		at, known := stages[in.Stage]
		switch {
		case !known && len(stages) == 0:
			return t, fmt.Errorf("task %d names stage %q, and the job has no stages: list the stage", index, in.Stage)
		case !known && in.Stage == "":
			return t, fmt.Errorf("task %d names no stage, and the job has stages: name its own", index)
		case !known:
			return t, fmt.Errorf("task %d names stage %q, unknown to the job: list the stage, or name a listed stage",
				index, in.Stage)
		}
		t.Stage = at
	}
	for k, in := range in.Inputs {
		input, err := parseInput(in)
		if err != nil {
			return t, fmt.Errorf("task %d: inputs[%d]: %w", index, k, err)
		}
		t.Inputs = append(t.Inputs, input)
	}
	for k, in := range in.Files {
		file, err := parseFile(in)
		if err != nil {
			return t, fmt.Errorf("task %d: files[%d]: %w", index, k, err)
		}
		t.Files = append(t.Files, file)
	}
	return t, nil
}

func parseInput(in *v1.Input) (frontend.Input, error) {
	input := frontend.Input{Bytes: in.Bytes, Stage: in.Stage, Pass: frontend.Pass(in.Passing), Partition: in.Partition}
	if in.Passing < v1.Pass_NONE || in.Passing > v1.Pass_FILE {
		return input, fmt.Errorf("passing %d is unknown here: use a value of the enumeration Pass", in.Passing)
	}
	for k, c := range in.Copies {
		if c.Tier != v1.Tier_DISK && c.Tier != v1.Tier_MEMORY {
			return input, fmt.Errorf("copies[%d]: tier number %d is unknown here: use a value of the enumeration Tier",
				k, c.Tier)
		}
		input.Copies = append(input.Copies, estimate.Copy{At: c.At, Rack: c.Rack, Memory: c.Tier == v1.Tier_MEMORY})
	}
	return input, nil
}

func parseFile(in *v1.File) (probe.File, error) {
	f := probe.File{URL: in.Url, Bytes: uint64(max(in.Bytes, 0))}
	digest, ok := parseDigest(in.Sha256)
	switch {
	case !ok:
		return f, fmt.Errorf("sha256 %q of %s: give 64 hexadecimal digits, as sha256sum prints them",
			clipText(in.Sha256), clipText(in.Url))
	case len(in.Url) > probe.MaxString:
		return f, fmt.Errorf("the URL has %d bytes: at most %d are allowed", len(in.Url), probe.MaxString)
	case in.Bytes < 0:
		return f, fmt.Errorf("%s has %d bytes: give the size, or 0 if it is not known", in.Url, in.Bytes)
	}
	f.Digest = digest
	return f, nil
}

func parseDigest(text string) (digest [32]byte, ok bool) {
	b, err := hex.DecodeString(text)
	copy(digest[:], b)
	return digest, err == nil && len(b) == len(digest)
}

// clipText returns s, or the beginning of s if s is too long for a message.
func clipText(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// fromMicros converts a duration of the API. A value that would overflow becomes the longest duration.
func fromMicros(us int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Microsecond)
	return time.Duration(max(-most, min(us, most))) * time.Microsecond
}

func modeFromAPI(m v1.Mode) (estimate.Mode, error) {
	switch m {
	case v1.Mode_AUTO:
		return estimate.Auto, nil
	case v1.Mode_SAMPLE:
		return estimate.Sample, nil
	case v1.Mode_ESTIMATE:
		return estimate.Estimate, nil
	}
	return 0, fmt.Errorf("mode number %d is unknown here: use a value of the enumeration Mode", m)
}

var policyNames = map[v1.Policy]string{
	v1.Policy_PHOEBE: "phoebe", v1.Policy_LATE_BINDING: "late-binding", v1.Policy_BATCH: "batch",
	v1.Policy_PER_TASK: "per-task", v1.Policy_RANDOM: "random",
}

func policyFromAPI(p v1.Policy) (frontend.Policy, error) {
	name, ok := policyNames[p]
	if !ok {
		return frontend.Policy{}, fmt.Errorf("policy number %d is unknown here: use a value of the enumeration Policy",
			p)
	}
	return frontend.ParsePolicy(name)
}

func constraintFromAPI(c *v1.Constraint) frontend.Constraint {
	if c == nil {
		return frontend.Constraint{}
	}
	return frontend.Constraint{Labels: c.Labels, Hosts: c.Hosts}
}
