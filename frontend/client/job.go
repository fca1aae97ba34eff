package client

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

// Policy is how a job's tasks are placed. All but PhoebePolicy exist to be compared with it.
type Policy string

const (
	DefaultPolicy Policy = ""             // what the frontend was started with; phoebe unless told otherwise
	PhoebePolicy  Policy = "phoebe"       // late binding with ride-along, informed sampling, sticky places, overlap
	LateBinding   Policy = "late-binding" // plain Sparrow: batch sampling, late binding, proactive cancellation
	Batch         Policy = "batch"        // batch sampling by probed queue length, bound at once
	PerTask       Policy = "per-task"     // each task to the shortest of its own sampled queues
	Random        Policy = "random"       // each task to a random worker
)

func (p Policy) toWire() (v1.Policy, error) {
	switch p {
	case DefaultPolicy:
		return v1.Policy_DEFAULT, nil
	case PhoebePolicy:
		return v1.Policy_PHOEBE, nil
	case LateBinding:
		return v1.Policy_LATE_BINDING, nil
	case Batch:
		return v1.Policy_BATCH, nil
	case PerTask:
		return v1.Policy_PER_TASK, nil
	case Random:
		return v1.Policy_RANDOM, nil
	}
	return 0, &RefusedError{Reason: Invalid, Message: fmt.Sprintf(
		"job.policy %q: use phoebe, late-binding, batch, per-task, random, or leave it empty", string(p))}
}

// Mode is which path places a job's tasks.
type Mode string

const (
	AutoMode     Mode = ""         // each task by the path that suits it
	SampleMode   Mode = "sample"   // all by sampling and late binding, which suits short tasks
	EstimateMode Mode = "estimate" // all where they are expected to be done first, which suits long ones
)

func (m Mode) toWire() (v1.Mode, error) {
	switch m {
	case AutoMode, "auto":
		return v1.Mode_AUTO, nil
	case SampleMode:
		return v1.Mode_SAMPLE, nil
	case EstimateMode:
		return v1.Mode_ESTIMATE, nil
	}
	return 0, &RefusedError{Reason: Invalid, Message: fmt.Sprintf("job.mode %q: use auto, sample, estimate, or leave it empty", string(m))}
}

// Class says what the tasks of a job may stand in the way of.
type Class string

const (
	Auto    Class = "auto" // or "": it is left to the frontend
	Regular Class = "regular"
	// Spare: they start only where nothing regular can, and are stopped, and tried again, where they stand in its way. Those
	// that are Once stay where they have started.
	Spare Class = "spare"
)

func (c Class) toWire() (*v1.JobClass, error) {
	switch c {
	case "", Auto:
		return nil, nil
	case Regular:
		return v1.JobClassPtr(v1.JobClass_REGULAR), nil
	case Spare:
		return v1.JobClassPtr(v1.JobClass_SPARE), nil
	}
	return nil, &RefusedError{Reason: Invalid, Message: fmt.Sprintf("job.class %q: use auto, regular, spare, or leave it empty", string(c))}
}

// Job is a set of tasks that are placed together. The client reads it, and what it refers to, until the job
// has ended: do not change it before.
type Job struct {
	ID         string // a ULID; empty: the client makes one
	Tenant     string
	Priority   int32         // higher goes first, where workers queue by priority
	Deadline   time.Duration // from the submission; zero: none
	Class      Class
	Due        time.Duration // of a job that is Spare: from when on what of it has not started is regular; zero: from half of its deadline, or never
	Mode       Mode
	Policy     Policy
	ProbeRatio float64 // reservations per task, 1 to 10; zero: the frontend's
	Constraint Constraint
	Stages     []Stage // none: the tasks are all of one
	Tasks      []Task
	Open       bool // Running.Extend is to add tasks: the job does not end before Running.Seal, and may begin without any
	Phases     bool // report each outcome's phases
	// LargeResults lets results be larger than what travels, which is 1 MiB unless the workers say otherwise (--max-result): such an
	// outcome has no Result but a File, and Client.Open reads it. Without it, such a task fails as ResultTooLarge.
	LargeResults bool
	// Window is how many bytes of results the client takes that have not been read, by Next or Results, and 4 MiB more: the rest
	// stays at the frontend. Zero: all of them.
	Window int64
}

// Stage is tasks of a job that do the same work on different data. They start when all tasks of the stages in After
// have results. If a task of any stage ends without one, so does the whole job: tasks that had not ended yet are
// [StageFailed].
//
// What its tasks have in common is best said once, in Common: it reaches each worker once for the job, and the functions
// by exec.Common.
//
// Along names those of After of which a task need not wait for the whole stage: it starts when the tasks of its own partition there have
// results, which are those of its number in the stage, or those that its Along lists. What it is passed is theirs alone. Where the partitions
// of two stages depend on each other one to one, the slowest task of the first one holds up a single task of the second.
type Stage struct {
	Name   string
	After  []string
	Along  []string
	Common []byte
}

// Task is one unit of a job.
type Task struct {
	Stage      string // the name of its stage, in a job with stages
	Function   string
	Class      string // run times are learnt for each class of a function, such as a query's fingerprint with its stage, and what tasks use whose Demand is left open; empty: they are all alike
	Payload    []byte
	Demand     Demand
	Estimate   time.Duration // expected run time; zero: unknown
	Constraint Constraint
	Inputs     []Input
	Files      []File
	Along      []int         // partitions to wait for, where its stage goes along others; none: its own
	Once       bool          // start it at most once, ever; a lost attempt is an error, not a retry
	Timeout    time.Duration // longest run time of one attempt; zero: none
	Retries    int           // how often the task's own failure is retried, unless the function's exec.Error says otherwise
	Backoff    time.Duration // before the first retry; before each further one twice as long, up to a minute; zero: at once
}

// Input is data that a task reads: where copies of it are, or the output of a stage, which lies where the tasks of
// that one have run. Tasks are placed near their inputs.
//
// With Pass, what the stage's tasks have written by exec.Output in a partition is passed to the task, which reads it by
// exec.Inputs: one input for each of those tasks, in their order. What is lost with a worker, or was thrown away in its cache for others,
// is made again, up to three times, by the tasks that made it, unless they are Once: then its readers fail as NoInput.
type Input struct {
	Bytes     int64
	Copies    []Copy
	Stage     string // instead of Copies: one that the task's own comes after
	Pass      Pass
	Partition int // that is passed
}

// Pass is how outputs of a stage come to a task. A function reads them alike.
type Pass string

const (
	NotPassed Pass = ""       // the task finds them itself
	Inline    Pass = "inline" // with the task if they are small, by way of the frontend; else as files
	AsFile    Pass = "file"   // as files of the workers' caches, which are fetched from there: for much data
)

func (p Pass) toWire() (v1.Pass, error) {
	switch p {
	case NotPassed:
		return v1.Pass_NONE, nil
	case Inline:
		return v1.Pass_INLINE, nil
	case AsFile:
		return v1.Pass_FILE, nil
	}
	return 0, &RefusedError{Reason: Invalid, Message: fmt.Sprintf("pass %q: use inline, file, or leave it empty", string(p))}
}

// Copy is where an input is: At or Rack, at least.
type Copy struct {
	At     string // a host, or the name of a worker
	Rack   string // of At, if no worker is there that would tell
	Memory bool   // in memory, not on disk
}

// File is one that must be on the worker's disk before a task starts. It is fetched while the task waits, unless the
// worker has it.
type File struct {
	URL    string // http, https or file
	SHA256 string // of its content, as 64 hexadecimal digits
	Bytes  int64  // zero: not known
}

// Usage is what an attempt used, as far as its worker can tell: zero is nothing, or not known.
type Usage struct {
	CPU     time.Duration // of all its cores
	Memory  int32         // MiB, at its peak
	Fetched int64         // bytes of files that were not at the worker
	Fetch   time.Duration // until all its files were there, while it waited
}

// Demand is what a task occupies on a worker while it runs. Zero fields take the default, one slot.
type Demand struct {
	CPU    int32 // millicores: 1000 is one core; default 1000
	Memory int32 // MiB; default 256
}

// Constraint says where tasks may run: every label selector must hold, and, if there are hosts, the worker's
// host or name must be among them. The zero value allows every worker.
type Constraint struct {
	Labels []string // "key=value", "key!=value", "key" (has it), "!key" (has it not)
	Hosts  []string
}

// Outcome is the one end of a task. Result is the function's if Err is nil; else Err is a *TaskError, or
// the job's *UnfinishedError if the client does not know how the task ended. The receiver owns it.
type Outcome struct {
	Task     int // index in Job.Tasks
	Result   []byte
	File     File // of a job with LargeResults: the result, where it was too large to travel; it has no URL. Else zero
	Err      error
	Worker   string // of the attempt that counted
	Attempts int
	Run      time.Duration // of that attempt, measured by its executor
	Usage    Usage         // of that attempt
	Phases   *Phases       // if Job.Phases
}

// Phases are the moments of the attempt that counted, since the frontend received the job. The worker's are
// reckoned as if both directions of the link were equally slow; a phase that was skipped repeats the one before.
type Phases struct {
	Sampled, Queued, Ready, Bound, Started, Finished, Delivered time.Duration
}

// NewJobID returns a ULID of the present time.
func NewJobID() string {
	return probe.NewJobID(time.Now().UnixMilli(), rand.Uint64(), rand.Uint64()).String()
}

// toMicros rounds up, so that a short time does not become zero, which means none.
func toMicros(d time.Duration) int64 {
	if d <= 0 {
		return d.Microseconds()
	}
	return (int64(d)-1)/int64(time.Microsecond) + 1
}

func fromMicros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

func (c Constraint) toWire() *v1.Constraint {
	if len(c.Labels) == 0 && len(c.Hosts) == 0 {
		return nil
	}
	return &v1.Constraint{Labels: c.Labels, Hosts: c.Hosts}
}

// fillWire writes t into w, sharing the payload.
func (t *Task) fillWire(w *v1.Task) error {
	w.FunctionName, w.RunClass = t.Function, t.Class
	w.Payload = t.Payload
	if t.Demand != (Demand{}) {
		w.Demand = &v1.Demand{CpuMillicores: t.Demand.CPU, MemoryMib: t.Demand.Memory}
	}
	w.EstimateUs = toMicros(t.Estimate)
	w.Constraint = t.Constraint.toWire()
	w.Retryable = !t.Once
	w.TimeoutUs = toMicros(t.Timeout)
	w.Retries = int32(min(max(t.Retries, math.MinInt32), math.MaxInt32))
	w.Index = -1
	w.BackoffUs = toMicros(t.Backoff)
	w.Stage, w.Partition = t.Stage, -1
	for _, p := range t.Along {
		w.Along = append(w.Along, int32(p))
	}
	for _, in := range t.Inputs {
		pass, err := in.Pass.toWire()
		if err != nil {
			return err
		}
		input := &v1.Input{Bytes: in.Bytes, Stage: in.Stage, Passing: pass, Partition: int32(in.Partition), Copies: make([]*v1.Copy, len(in.Copies))}
		for i, c := range in.Copies {
			input.Copies[i] = &v1.Copy{At: c.At, Rack: c.Rack}
			if c.Memory {
				input.Copies[i].Tier = v1.Tier_MEMORY
			}
		}
		w.Inputs = append(w.Inputs, input)
	}
	for _, f := range t.Files {
		w.Files = append(w.Files, &v1.File{Url: f.URL, Sha256: f.SHA256, Bytes: f.Bytes})
	}
	return nil
}

// fillFrom writes w into o, sharing the result.
func (o *Outcome) fillFrom(w *v1.Outcome) {
	*o = Outcome{
		Task:     int(w.Task),
		Worker:   w.Worker,
		Attempts: int(w.Attempts),
		Run:      fromMicros(w.RunUs),
		Usage:    fromUsage(w.Usage),
	}
	if w.Kind == v1.OutcomeKind_RESULT {
		o.Result = w.Result_
		if f := w.ResultFile; f != nil && f.Sha256 != nil {
			o.File = File{SHA256: *f.Sha256, Bytes: f.Bytes}
		}
	} else {
		o.Err = taskError(w)
	}
	if p := w.Phases; p != nil {
		o.Phases = &Phases{
			Sampled: fromMicros(p.SampledUs), Queued: fromMicros(p.QueuedUs), Ready: fromMicros(p.ReadyUs),
			Bound: fromMicros(p.BoundUs), Started: fromMicros(p.StartedUs), Finished: fromMicros(p.FinishedUs),
			Delivered: fromMicros(p.DeliveredUs),
		}
	}
}

func fromUsage(u *v1.Usage) Usage {
	if u == nil {
		return Usage{}
	}
	return Usage{CPU: fromMicros(u.CpuUs), Memory: u.MemoryMib, Fetched: u.FetchedBytes, Fetch: fromMicros(u.FetchUs)}
}

func taskError(w *v1.Outcome) *TaskError {
	e := &TaskError{Task: int(w.Task), Worker: w.Worker, Attempts: int(w.Attempts)}
	switch w.Kind {
	case v1.OutcomeKind_CANCELLED:
		e.Reason = Cancelled
	case v1.OutcomeKind_DEADLINE_EXCEEDED:
		e.Reason = DeadlineExceeded
	}
	if f := w.Failure; f != nil {
		e.Message, e.Detail, e.Retry = f.Message, f.Detail, Retry(f.RetryWhere)
		if f.Code != nil {
			e.Code = *f.Code
		}
		if e.Reason == 0 {
			e.Reason = TaskReason(f.Reason)
		}
	}
	return e
}
