package frontend

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// Job is a client's submission. The core keeps the payloads until the tasks end.
type Job struct {
	ID         probe.JobID
	Tenant     string
	Priority   int32
	Deadline   time.Duration // from now; 0: none
	Policy     Policy
	Mode       estimate.Mode // auto: long tasks go by estimation if the policy allows, and the rest are sampled
	ProbeRatio float64       // reservations per task; 0: the frontend's default
	Constraint Constraint
	Stages     []Stage // empty: the tasks form a single stage
	Tasks      []Task
	// Generation is the number of frontends to which the client submitted the job before this frontend. If it is not 0,
	// the frontend first claims the attempts of the earlier owner. A task that may start only once is then started
	// only if no earlier attempt can have started.
	Generation probe.Generation
	Age        time.Duration // time since the first submission, for a resubmitted job; 0: not known
	Trace      string        // traceparent of the job's span; "": no trace
	Class      Class
	Open       bool // more tasks will be added: the job may begin empty, and does not end yet
	Large      bool // a result too large to travel may stay at the worker, as a file
	Had        int  // number of tasks so far, of a resubmitted job; 0: the highest index tells
	// Due, of a Spare job: time from now until tasks that have not started count as regular. 0: half of Deadline;
	// without Deadline never.
	Due time.Duration
	// Guarded: clients of other tenants may know the job's id, but not touch the job. So a worker gives attempts of the
	// job only to frontends that claim the job for its Tenant.
	Guarded bool

	meanEstimate time.Duration // mean of the tasks' estimates; 0: no task has an estimate
}

// TotalTasks returns the number of tasks that the job has had, the tasks left out by a resubmission included.
func (j *Job) TotalTasks() int {
	n := j.Had
	for i := range j.Tasks {
		n = max(n, int(j.Tasks[i].Index)+1)
	}
	return n
}

// Stage is the tasks of a job that do the same work on different data, between two barriers. The tasks of a stage
// start when all tasks of the stages in After have ended well. If a task of any stage fails for good, the job fails.
type Stage struct {
	Name  string
	After []string // names of stages that must end first
	Along []string // stages in After whose outputs a task awaits, and gets, by partition only
	// Ran counts, by worker, the stage's tasks that ended well and that a resubmission left out. The core keeps the
	// map.
	Ran map[string]int
	// Made lists the outputs, for later stages, of the tasks left out. The core keeps the slice.
	Made   []Made
	Common []byte // given to each task of the stage beside its payload; sent to a worker once
}

// Made is the outputs of a task for later stages.
type Made struct {
	Task        probe.TaskIndex
	Partition   int32  // of the task
	Worker      string // whose cache has the outputs that are files
	Outputs     []probe.Output
	Spec        *Task     // the task, to run again if outputs are lost; nil: not known
	incarnation uint64    // incarnation of Worker; 0: not known
	reportedAt  time.Time // when this frontend heard of the outputs; zero: another frontend heard
}

// Class says which other work the tasks of a job may delay.
type Class uint8

const (
	Auto Class = iota // regular, but spare for tasks placed by estimation beyond the tenant's tokens
	Regular
	// Spare tasks start only where no regular task can. If a regular task needs the room, a spare task is stopped
	// and retried. A spare task that may start only once is not stopped.
	Spare
)

// MaxStages bounds the stages of a job.
const MaxStages = 1000

// Task is one unit of a job.
type Task struct {
	Index      probe.TaskIndex
	Stage      int32   // position in the job's Stages
	Partition  int32   // number in the stage
	Along      []int32 // partitions to wait for, if the stage goes along others; empty: the task's own Partition
	Function   string
	Class      string // name for tasks of the function that run alike; "": no class
	Payload    []byte
	Demand     probe.Demand // a zero field takes the value of probe.Slot
	Estimate   time.Duration
	Constraint Constraint
	Inputs     []Input
	Files      []probe.File // fetched to the worker before the task starts
	Retryable  bool
	Timeout    time.Duration
	Retries    int           // of the task's own failures
	Backoff    time.Duration // rest before the first retry; doubled for each further retry, up to a minute
}

// Input is data that a task reads: data with known Copies, or the output of an earlier Stage. The output lies at the
// workers that ran the stage's tasks.
type Input struct {
	Bytes     int64
	Copies    []estimate.Copy
	Stage     string
	Pass      Pass  // how the outputs of Stage come to the task
	Partition int32 // of the passed outputs
}

// Pass is the way in which outputs of a stage come to a task.
type Pass uint8

const (
	NotPassed Pass = iota // the task finds them itself
	Inline                // small outputs travel with the task
	File                  // as files of workers' caches, however small
)

// Limits of a task's lists.
const (
	MaxInputs     = 256
	MaxCopies     = 16 // of an input
	MaxFiles      = 64
	maxInputBytes = 1 << 50 // bytes
)

// Worker names a worker's link.
type Worker = view.Key

// Constraint says where a task may run.
type Constraint = view.Constraint

// alongPartitions returns the partitions that the task awaits, of each stage along which the task's stage goes.
func (t *Task) alongPartitions() []int32 {
	if len(t.Along) > 0 {
		return t.Along
	}
	return []int32{t.Partition}
}

// runsKey returns the name under which run times of a tenant's tasks like t are remembered.
func (t *Task) runsKey() string { return view.RunsName(t.Function, t.Class) }

// countPassed counts the inputs that are passed to the task.
func (t *Task) countPassed() int {
	n := 0
	for i := range t.Inputs {
		if t.Inputs[i].Pass != NotPassed {
			n++
		}
	}
	return n
}

// hasOwnNeeds reports whether a task has its own constraints, inputs or files. For such a task, admitTasks looks the
// group up, even if the task before is alike.
func (t *Task) hasOwnNeeds() bool {
	return len(t.Constraint.Labels)+len(t.Constraint.Hosts)+len(t.Inputs)+len(t.Files) > 0
}

// inputBytes sums up the bytes of the task's inputs.
func (t *Task) inputBytes() int64 {
	var sum int64
	for i := range t.Inputs {
		sum += t.Inputs[i].Bytes
	}
	return sum
}

// checkNeeds returns an error if the inputs or files of a task are invalid.
func (t *Task) checkNeeds() error {
	if len(t.Inputs) > MaxInputs {
		return fmt.Errorf("%d inputs, the limit is %d: name the large ones", len(t.Inputs), MaxInputs)
	}
	for i := range t.Inputs {
		in := &t.Inputs[i]
		switch {
		case in.Bytes < 0:
			return fmt.Errorf("input %d has %d bytes: give 0 or more", i, in.Bytes)
		case in.Bytes > maxInputBytes:
			return fmt.Errorf("input %d has %d bytes, the limit is %d", i, in.Bytes, int64(maxInputBytes))
		case in.Pass > File:
			return fmt.Errorf("input %d: way %d to pass it is unknown", i, in.Pass)
		case in.Pass != NotPassed && (in.Stage == "" || in.Partition < 0):
			return fmt.Errorf("input %d is passed: name the stage that makes it, and a partition from 0 on", i)
		case in.Stage != "" && len(in.Copies) > 0:
			return fmt.Errorf("input %d is the output of stage %q and has copies: give one of them", i, in.Stage)
		case len(in.Copies) == 0 && in.Stage == "":
			return fmt.Errorf(
				"input %d is nowhere to be found: name a host, worker or rack that has it, or the stage that makes it",
				i)
		case len(in.Copies) > MaxCopies:
			return fmt.Errorf("input %d has %d copies, the limit is %d: name some", i, len(in.Copies), MaxCopies)
		}
		for _, at := range in.Copies {
			if at.At == "" && at.Rack == "" {
				return fmt.Errorf("input %d has a copy nowhere: name its host, worker or rack", i)
			}
		}
	}
	if len(t.Files) > MaxFiles {
		return fmt.Errorf("%d files, the limit is %d: pack them together", len(t.Files), MaxFiles)
	}
	for i := range t.Files {
		f := &t.Files[i]
		switch scheme, _, _ := strings.Cut(f.URL, "://"); {
		case scheme != "http" && scheme != "https" && scheme != "file":
			return fmt.Errorf("file %d: URL %q: use http, https or file", i, f.URL)
		case f.Digest == [32]byte{}:
			return fmt.Errorf("file %s has no digest: give its SHA-256", f.URL)
		case f.Bytes > 1<<62:
			return fmt.Errorf("file %s has %d bytes: give its size, or 0 if it is not known", f.URL, f.Bytes)
		}
		for k := range i {
			if t.Files[k].Digest == f.Digest {
				return fmt.Errorf("files %s and %s have one digest: name it once", t.Files[k].URL, f.URL)
			}
		}
	}
	return nil
}

// FileID returns the first 8 bytes of a file's digest, which stand for the file in the view.
func FileID(digest [32]byte) estimate.FileID {
	return estimate.FileID(binary.BigEndian.Uint64(digest[:]))
}

// OutcomeKind is a kind of end of a task.
type OutcomeKind uint8

const (
	Result OutcomeKind = iota + 1
	Failed
	Cancelled
	DeadlineExceeded
)

// Failure says why a task failed.
type Failure uint8

const (
	TaskError Failure = iota + 1
	Timeout
	Lost     // the task may start only once, and its attempt was lost: it may or may not have run
	Poison   // several workers died while they ran the task
	NoWorker // every worker able to run the task went away, and no worker came back in time
	TooLarge // the result is over the worker's limit
	Panic
	Infrastructure // workers refused the launch, time and again
	NoInput        // a needed file could not be fetched, or does not match the digest
	StageFailed    // another task of the job, a job with stages, has failed
)

// Outcome is the end of a task. Each task has exactly one Outcome.
type Outcome struct {
	Task         probe.TaskIndex
	Function     string // of the task
	Stage        int32
	Path         estimate.Path
	Kind         OutcomeKind
	Result       []byte
	Failure      Failure
	Message      string
	Worker       string // of the attempt that counted; "": no attempt did
	At           Worker // key of the same worker
	Attempts     int
	Earlier      []Earlier     // the last attempts that did not count
	Run          time.Duration // of the attempt that counted, measured by the executor
	Expected     time.Duration // run time that the worker was told to expect; 0: not told
	ExpectedWait time.Duration // expected wait at the worker, of a task placed by estimation
	Waited       time.Duration // actual wait at the worker
	Waits        probe.Waits   // parts of the wait, by cause
	Way          Way           // how the task came to the worker
	Usage        probe.Usage   // of the attempt that counted
	Code         string        // of the function's own error
	Detail       []byte
	Retry        probe.Retry
	Outputs      []probe.Output // for later stages
	File         *probe.Output  // the file with a result too large to travel; nil: no file
	Unwanted     bool           // cancelled by CancelTasks: the job goes on without the task
	Phases       Phases
	Receipt      Receipt // for the worker's result; zero: no result
}

// MaxEarlier bounds the attempts in Outcome.Earlier. Of more attempts, the oldest are forgotten.
const MaxEarlier = 4

// Earlier is an attempt that did not give the outcome of the task. Sent, Started and Ended count from the job's
// submission. 0 means not known, or never started. The way of the worker's last message, half a round trip, counts
// as a part of the attempt.
type Earlier struct {
	Worker               Worker
	Name                 string // of the worker; the key Worker may be another worker's by now
	Way                  Way
	End                  End
	Sent, Started, Ended time.Duration
}

// End is the reason for the end of an attempt that gave no outcome.
type End uint8

const (
	EndFailed    End = iota + 1 // failed; the task was to be tried again
	EndTimedOut                 // likewise
	EndPanicked                 // likewise
	EndNoInput                  // likewise
	EndKilled                   // killed by a worker that drained, or had given this frontend up
	EndPreempted                // spare, and in the way of regular work
	EndLost                     // the worker went away, or does not know the attempt
	EndBeaten                   // another attempt has ended the task
	EndStopped                  // the task was no longer wanted, or its first attempt had caught up with the copy
	EndMoved                    // withdrawn from the worker's queue, because another worker could start the task sooner
)

// Way is the way in which a task came to a worker.
type Way uint8

const (
	WayUnknown Way = iota
	WayLate        // with a turn of a place
	WayRide        // with a reservation
	WayShared      // with a turn of another job's place
	WayBundle      // behind another task, with the same turn
	WayAhead       // with a turn that the worker asked for ahead of having room
	WayEarly       // placed by estimation, or by a policy that binds early
	WayCopy        // as a second attempt, because the first attempt was late
)

// Receipt names a result that the worker keeps until the client has the result: see [Delivered].
type Receipt struct {
	Worker  Worker
	Attempt probe.AttemptID
}

// Phases are the moments of the attempt that counted, since the job was submitted. Moments at the worker are
// reckoned from the durations that the worker reports, as if both directions of the link were equally slow. A
// skipped moment (a task that rode along was never ready) repeats the moment before. Released is the moment when the
// task was added and all stages and partitions that it awaits had ended.
//
// An attempt in vain delays the attempt that counted. Again is then the moment when the task could go to a worker
// again: after the end of the earlier attempt and the rest, or when a copy was sent. Without an earlier attempt, Again
// is 0. If no attempt counted, Again is the end of the last attempt that had started. Held is the time before Sampled
// in which the tenant's maximum was used.
type Phases struct {
	Released, Again, Sampled, Queued, Ready, Bound, Started, Finished time.Duration

	Held time.Duration
}

// RefusedReason is the reason why a job was not accepted.
type RefusedReason uint8

const (
	Invalid RefusedReason = iota + 1
	TooBigJob
	NoSuchWorker
	Overloaded
	Leaving
)

// RefusedError is a job's refusal. Clients act on Reason and RetryAfter, never on the text.
type RefusedError struct {
	Reason     RefusedReason
	Message    string
	RetryAfter time.Duration // 0: do not try again unchanged
}

func (e *RefusedError) Error() string { return e.Message }
