package client

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

// Policy says how a job's tasks are placed. Use PhoebePolicy; the other policies exist for comparisons.
type Policy string

const (
	DefaultPolicy Policy = ""             // the frontend's default (phoebe frontend --policy), normally PhoebePolicy
	PhoebePolicy  Policy = "phoebe"       // late binding with ride-along, informed sampling, sticky places, overlap
	LateBinding   Policy = "late-binding" // plain Sparrow: batch sampling, late binding, proactive cancellation
	Batch         Policy = "batch"        // batch sampling by probed queue length, bound at once
	PerTask       Policy = "per-task"     // each task to the shortest of its own sampled queues
	Random        Policy = "random"       // each task to a random worker
)

// toWire returns the policy's enum value for a request, or a RefusedError for an unknown policy.
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

// Mode says which of two paths places a job's tasks: sampling or estimation.
type Mode string

const (
	AutoMode     Mode = ""         // the frontend picks the path for each task
	SampleMode   Mode = "sample"   // sampling and late binding for all tasks; suits short tasks
	EstimateMode Mode = "estimate" // each task to the worker that is expected to finish it first; suits long tasks
)

// toWire returns the mode's enum value for a request, or a RefusedError for an unknown mode.
func (m Mode) toWire() (v1.Mode, error) {
	switch m {
	case AutoMode, "auto":
		return v1.Mode_AUTO, nil
	case SampleMode:
		return v1.Mode_SAMPLE, nil
	case EstimateMode:
		return v1.Mode_ESTIMATE, nil
	}
	return 0, &RefusedError{Reason: Invalid, Message: fmt.Sprintf(
		"job.mode %q: use auto, sample, estimate, or leave it empty", string(m))}
}

// Class says whether the tasks of a job may delay other tasks.
type Class string

const (
	Auto    Class = "auto" // or "": the frontend decides
	Regular Class = "regular"
	// A Spare task starts only where no regular task can. If a regular task needs the room, the spare task is stopped
	// and tried again. A Once task is not stopped after its start.
	Spare Class = "spare"
)

// toWire returns the class's enum value for a request (nil: auto), or a RefusedError for an unknown class.
func (c Class) toWire() (*v1.JobClass, error) {
	switch c {
	case "", Auto:
		return nil, nil
	case Regular:
		return v1.JobClassPtr(v1.JobClass_REGULAR), nil
	case Spare:
		return v1.JobClassPtr(v1.JobClass_SPARE), nil
	}
	return nil, &RefusedError{Reason: Invalid, Message: fmt.Sprintf(
		"job.class %q: use auto, regular, spare, or leave it empty", string(c))}
}

// Job is a set of tasks that are placed together. Do not change a Job, or the slices in it, before the job has ended,
// because the client may still read them.
type Job struct {
	// ID is a ULID. Empty: the client makes an id. Two jobs with the same ID are one job: the second job gets the
	// results of the first, whatever tasks the second has.
	ID string
	// Key is the caller's own name of the job, instead of ID: an idempotency key, such as the number of an order. Jobs
	// with the same Key and Tenant are one job, at whichever frontends several processes submit them. The first Submit
	// decides what runs. Each process gets all outcomes, as far as the frontend's memory allows. A Cancel ends the job
	// for all. Payloads of later jobs are ignored. If a later job has more tasks, the later job ends with a
	// LateRefusalError in an UnfinishedError, and the first job goes on. A frontend remembers the key until 30 s after
	// all outcomes were fetched, or until Grace is over. A job that is submitted later runs again.
	//
	// If a token or a certificate names the client's tenant, the job must name the tenant, too. The same key of another
	// tenant is another job, and frontends refuse a tenant that submits a job under the id of another tenant's key.
	//
	// A Key costs a message to each frontend and to each worker, so a Key suits jobs that are worth their messages. A
	// Once task of the job starts 3 s later, after all workers have said that they never started the task. If a
	// worker cannot know, the task ends as Lost.
	Key      string
	Tenant   string // for whom the job runs; empty: the tenant without a name
	Priority int32  // higher goes first among the tenant's jobs; with workers of --order priority, among all
	// Deadline is the time from the submission after which the frontend ends the job. If the frontend hangs, the client
	// ends the job a second later. Zero: none.
	Deadline time.Duration
	Class    Class
	// Due is the time from the submission after which the tasks of a Spare job that have not started become regular.
	// Zero: half of the deadline, or never if there is no deadline.
	Due        time.Duration
	Mode       Mode
	Policy     Policy
	ProbeRatio float64    // reservations for each task, 1 to 10; zero: the frontend's default
	Constraint Constraint // for all tasks
	Stages     []Stage    // none: the job has a single stage
	Tasks      []Task
	// Stored lists tasks, by index, whose outcomes an earlier run of the program has stored (WithStore). These tasks do
	// not run again, and get no outcome. Only for jobs with Key or ID, and without stages.
	Stored []int
	// Open lets Running.Extend add tasks. An open job may begin without tasks, and ends only after Running.Seal.
	Open   bool
	Phases bool // report the phases of each outcome
	// LargeResults allows results above the workers' limit (--max-result, 1 MiB by default). The outcome of a larger
	// result has a File instead of a Result, and Client.Open reads the file. Without LargeResults, a task with a larger
	// result fails as ResultTooLarge.
	LargeResults bool
	// If no process asks for outcomes, the job goes on at its frontend for Grace, for instance between Running.Leave
	// and Client.Attach. Frontends limit Grace (phoebe frontend --max-grace, 10 min by default). Zero: 30 s
	// (--client-grace). With Grace or Key, the frontend keeps outcomes that a process has fetched for other processes.
	Grace time.Duration
	// Window bounds the bytes of results that the client holds before Next or Results have read them. The client may
	// exceed the window by 4 MiB. Further results stay at the frontend. Zero: no bound.
	Window int64
}

// isShared reports whether several processes may have the job.
func (j *Job) isShared() bool { return j.Key != "" || j.Grace > 0 }

// Stage is a set of tasks of a job that do the same work on different data. The tasks start when all tasks of the
// stages in After have results. If any task of a job with stages ends without a result, except by CancelTasks, the
// whole job fails: tasks that had not ended yet end as [StageFailed].
//
// Put data that all tasks of the stage need into Common. Common reaches each worker once for the job, and functions
// read it with exec.Common.
//
// Along lists stages of After for which a task need not wait as a whole. The task starts when its own partition there
// has results, or the partitions listed in [Task].Along. A task's partition is its number in its stage. The task gets
// only the outputs of the awaited tasks. If partitions depend on each other one to one, the slowest task of the first
// stage then delays a single task of the second stage.
type Stage struct {
	Name   string
	After  []string // names of stages
	Along  []string // names of stages, each also in After
	Common []byte
}

// Task is one unit of a job.
type Task struct {
	Stage    string // name of the task's stage; empty in a job without stages
	Function string // the name under which workers have registered the function
	// Class splits the tasks of a function for learning. For each class, phoebe learns run times, and the resources
	// used by tasks without a Demand. Example: a query's fingerprint with its stage. Empty: the function's common
	// class.
	Class      string
	Payload    []byte        // input of the function
	Demand     Demand        // room that the task takes on its worker; zero fields take defaults
	Estimate   time.Duration // expected run time; zero: unknown
	Constraint Constraint    // for the task, in addition to the job's constraint
	Inputs     []Input
	Files      []File
	Along      []int         // existing partitions to wait for in the stages of Stage.Along; none: the task's own
	Once       bool          // start the task at most once, ever; a lost attempt is an error, and not retried
	Timeout    time.Duration // longest run time of an attempt; zero: none
	Retries    int           // number of retries after the function's failure, unless its exec.Error says otherwise
	Backoff    time.Duration // wait before the first retry, doubled for each further retry, up to a minute; zero: none
}

// Input is data that a task reads: data with known Copies, or the output of an earlier stage. A stage's output lies
// at the workers that ran the tasks. Tasks are placed near their inputs.
//
// With Pass, the task gets the data that the stage's tasks have written into Partition with exec.Output. The function
// reads the data with exec.Inputs: one input for each task of the stage, in task order. An output may be lost with its
// worker, or dropped from the worker's cache to make room. Then the task that wrote the output runs again, up to three
// times. If the writing task is Once, the reading tasks fail as NoInput instead.
type Input struct {
	Bytes     int64  // size of the data
	Copies    []Copy // at most 16
	Stage     string // instead of Copies: a stage that comes before the task's own stage
	Pass      Pass   // how the stage's output comes to the task
	Partition int    // of the output to pass
}

// Pass says how the output of a stage comes to a task. A function reads inline data and files in the same way.
type Pass string

const (
	NotPassed Pass = ""       // not at all: the task finds the data itself
	Inline    Pass = "inline" // small data with the task, by way of the frontend; larger data as files
	AsFile    Pass = "file"   // as files, fetched from the caches of other workers: for much data
)

// toWire returns the enum value for a request, or a RefusedError for an unknown word.
func (p Pass) toWire() (v1.Pass, error) {
	switch p {
	case NotPassed:
		return v1.Pass_NONE, nil
	case Inline:
		return v1.Pass_INLINE, nil
	case AsFile:
		return v1.Pass_FILE, nil
	}
	return 0, &RefusedError{Reason: Invalid, Message: fmt.Sprintf(
		"pass %q: use inline, file, or leave it empty", string(p))}
}

// Copy names the place of a copy of an input. At least one of At and Rack must be set.
type Copy struct {
	At     string // a host, or the name of a worker
	Rack   string // of At; needed if no worker at the host reports its rack
	Memory bool   // in memory, not on disk
}

// File must be on the worker's disk before a task starts. If the worker does not have the file, the worker fetches the
// file while the task waits.
type File struct {
	URL    string // http, https or file
	SHA256 string // of the content, as 64 hexadecimal digits
	Bytes  int64  // zero: not known
}

// Usage counts the resources that an attempt used, as far as the worker can tell. Zero means nothing, or not known.
type Usage struct {
	CPU     time.Duration // of all cores together
	Memory  int32         // peak, in MiB
	Fetched int64         // bytes of files that were not at the worker
	Fetch   time.Duration // time until all files were there, while the task waited
}

// Demand is the room that a task takes on a worker while it runs. A zero field takes its default. The two defaults
// make one slot.
type Demand struct {
	CPU    int32 // millicores: 1000 is one core; default 1000
	Memory int32 // MiB; default 256
}

// Constraint says where tasks may run. Every label selector must hold. If there are hosts, the worker's host or name
// must be among them. The zero value allows every worker.
type Constraint struct {
	Labels []string // selectors: "key=value", "key!=value", "key" (has the label), "!key" (does not have the label)
	Hosts  []string
}

// Outcome is the end of a task. Each task has a single outcome. If Err is nil, Result is the function's result.
// Otherwise Err is a *TaskError, or the job's *UnfinishedError if the client does not know how the task ended. You
// own the outcome and its Result.
type Outcome struct {
	Task     int // index in Job.Tasks
	Result   []byte
	File     File // with Job.LargeResults, a result too large to travel: SHA256 and Bytes, no URL; else zero
	Err      error
	Worker   string // of the attempt that counted
	Attempts int
	Run      time.Duration // run time of the attempt that counted, measured by its executor
	Usage    Usage         // of the attempt that counted
	Phases   *Phases       // of the attempt that counted; nil unless Job.Phases

	// Copies and Retried are zero unless Job.Phases. Copies counts the attempts that were copies of a late attempt.
	// Retried says how attempts ended before the task was tried again, as in EarlierAttempt.End. The frontend
	// remembers four attempts without an outcome.
	Copies  int
	Retried []string
}

// Phases are the moments of the attempt that counted, since the frontend received the job. Moments at the worker are
// estimates: both directions of the link are assumed to be equally slow. A skipped phase repeats the phase before.
type Phases struct {
	Sampled, Queued, Ready, Bound, Started, Finished, Delivered time.Duration
}

// NewJobID returns a new ULID of the present time.
func NewJobID() string {
	return probe.NewJobID(time.Now().UnixMilli(), rand.Uint64(), rand.Uint64()).String()
}

// toMicros converts d to microseconds. It rounds away from zero, because zero would mean that there is no time limit.
func toMicros(d time.Duration) int64 {
	us := d.Microseconds()
	switch rest := d % time.Microsecond; {
	case rest > 0:
		us++
	case rest < 0:
		us--
	}
	return us
}

// fromMicros converts microseconds to a Duration.
func fromMicros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// toWire converts c for a request; nil: every worker.
func (c Constraint) toWire() *v1.Constraint {
	if len(c.Labels) == 0 && len(c.Hosts) == 0 {
		return nil
	}
	return &v1.Constraint{Labels: c.Labels, Hosts: c.Hosts}
}

// fillWire writes t into w. Both share the payload.
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
	for k, in := range t.Inputs {
		if in.Partition < 0 || in.Partition > math.MaxInt32 {
			return &RefusedError{Reason: Invalid, Message: fmt.Sprintf(
				"input %d of a task of function %q has partition %d: partitions go from 0 to %d",
				k, t.Function, in.Partition, math.MaxInt32)}
		}
		pass, err := in.Pass.toWire()
		if err != nil {
			return err
		}
		input := &v1.Input{
			Bytes: in.Bytes, Stage: in.Stage, Passing: pass, Partition: int32(in.Partition),
			Copies: make([]*v1.Copy, len(in.Copies)),
		}
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

// fillFrom writes w into o. Both share the result.
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
	o.Copies = int(w.Copies)
	for _, end := range w.Retried {
		o.Retried = append(o.Retried, enumWords(end.String()))
	}
}

// fromUsage converts an answer's usage; nil gives zero.
func fromUsage(u *v1.Usage) Usage {
	if u == nil {
		return Usage{}
	}
	return Usage{CPU: fromMicros(u.CpuUs), Memory: u.MemoryMib, Fetched: u.FetchedBytes, Fetch: fromMicros(u.FetchUs)}
}

// taskError converts an outcome without a result.
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
