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

// Job is what a client submits. The core keeps the payloads until their tasks end.
type Job struct {
	ID         probe.JobID
	Tenant     string
	Priority   int32
	Deadline   time.Duration // from now; 0: none
	Policy     Policy
	Mode       estimate.Mode // auto lets the policy decide whether each task is routed or sampled
	ProbeRatio float64       // reservations per task; 0: the frontend's default
	Constraint Constraint
	Stages     []Stage // none: all tasks are of one
	Tasks      []Task
	// Generation counts the frontends to which the client has turned with the job before. If there were any, the attempts
	// of the earlier owner are claimed first, and a task that may start only once is started only if it is certain
	// that it never was.
	Generation probe.Generation
	Age        time.Duration // since its first submission, if this is not it; 0: not known
	Trace      string        // traceparent of its span; "": none
	Class      Class
	Open       bool          // tasks are to be added: it does not end before the last ones are, and may begin without any
	Large      bool          // a result that is too large to travel may stay at its worker, as a file
	Had        int           // how many tasks it has had in all, if it was submitted before; 0: as many as their indices tell
	Due        time.Duration // Spare: from when on, from now, what of it has not started is regular; 0: from its deadline, or never

	meanEstimate time.Duration // mean of its tasks' estimates, of those that have one; 0: none has
}

// TotalTasks is how many tasks the job has had.
func (j *Job) TotalTasks() int {
	n := j.Had
	for i := range j.Tasks {
		n = max(n, int(j.Tasks[i].Index)+1)
	}
	return n
}

// Stage is the tasks of a job that do the same work on different data, between two barriers: they start when all
// tasks of the stages in After have ended well. If a task of any stage fails for good, so does the job.
type Stage struct {
	Name  string
	After []string // names of other stages
	Along []string // of these, those of which a task waits only for its partitions, and gets what these have left
	// Ran: where tasks of it have ended well that a resubmitted job leaves out, by worker. The core keeps it.
	Ran map[string]int
	// Made: what such tasks have left for later stages. The core keeps it.
	Made   []Made
	Common []byte // that goes with the payload of each of its tasks
}

// Made is what a task has left for later stages.
type Made struct {
	Task        probe.TaskIndex
	Partition   int32  // of the task
	Worker      string // in whose cache those are that are files
	Outputs     []probe.Output
	Spec        *Task  // it, where it may run again for these; nil: it is not known
	incarnation uint64 // incarnation of that worker; 0: not known
	reportedAt  time.Time
}

// Class says what the tasks of a job may stand in the way of.
type Class uint8

const (
	Auto Class = iota // it is left to the frontend
	Regular
	// Spare: they start only where nothing regular can, and are stopped, and tried again, where they stand in its way. Those
	// that may start only once stay where they have started.
	Spare
)

// MaxStages bounds the stages of a job.
const MaxStages = 1000

// Task is one unit of a job.
type Task struct {
	Index      probe.TaskIndex
	Stage      int32   // its position in the job's Stages
	Partition  int32   // its number in the stage
	Along      []int32 // partitions that it waits for, where its stage goes along others; none: its own
	Function   string
	Class      string // of those of the function that run alike; "": all do
	Payload    []byte
	Demand     probe.Demand // a zero field takes that of probe.Slot
	Estimate   time.Duration
	Constraint Constraint
	Inputs     []Input
	Files      []probe.File // that must be at the worker before it starts
	Retryable  bool
	Timeout    time.Duration
	Retries    int           // of the task's own failures
	Backoff    time.Duration // before the first of these; before each further one twice as long, up to a minute
}

// Input is data that a task reads: of so many bytes, and where copies of it are, or the output of a stage before
// its own, which is where the tasks of that one have run.
type Input struct {
	Bytes     int64
	Copies    []estimate.Copy
	Stage     string
	Pass      Pass  // what the stage's tasks have left
	Partition int32 // in this partition
}

// Pass is how the outputs of a stage come to a task.
type Pass uint8

const (
	NotPassed Pass = iota // the task finds them itself
	Inline                // with it, if they are small
	File                  // as files of workers' caches, however small
)

// Limits of what one task may name.
const (
	MaxInputs     = 256
	MaxCopies     = 16 // of one input
	MaxFiles      = 64
	maxInputBytes = 1 << 50 // bytes
)

// Worker names a worker's link.
type Worker = view.Key

// Constraint says where a task may run.
type Constraint = view.Constraint

// alongPartitions are those that a task waits for, of a stage along which its own goes.
func (t *Task) alongPartitions() []int32 {
	if len(t.Along) > 0 {
		return t.Along
	}
	return []int32{t.Partition}
}

// runsKey is what the task's run time is remembered by.
func (t *Task) runsKey() string { return view.RunsOf(t.Function, t.Class) }

// countPassed is how many inputs of a task are passed to it.
func (t *Task) countPassed() int {
	n := 0
	for i := range t.Inputs {
		if t.Inputs[i].Pass != NotPassed {
			n++
		}
	}
	return n
}

// hasNeeds reports whether a task has needs that others of its job may not have.
func (t *Task) hasNeeds() bool {
	return len(t.Constraint.Labels)+len(t.Constraint.Hosts)+len(t.Inputs)+len(t.Files) > 0
}

func (t *Task) inputBytes() int64 {
	var sum int64
	for i := range t.Inputs {
		sum += t.Inputs[i].Bytes
	}
	return sum
}

// checkNeeds says what is wrong with the inputs and files of a task.
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
			return fmt.Errorf("input %d is nowhere to be found: name a host, worker or rack that has it, or the stage that makes it", i)
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

// FileID is what stands for a file's digest in the view.
func FileID(digest [32]byte) estimate.FileID {
	return estimate.FileID(binary.BigEndian.Uint64(digest[:]))
}

// OutcomeKind is how a task ended.
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
	Lost     // may start only once, and was lost: it may or may not have run
	Poison   // several workers died while they ran it
	NoWorker // every worker that could run it went away, and none came back in time
	TooLarge // the result is over the worker's limit
	Panic
	Infrastructure // it could not be launched, however often it was tried
	NoInput        // a file that it needs could not be fetched, or is not what its digest says
	StageFailed    // another task of its job, which has stages, has failed
)

// Outcome is the one end of a task.
type Outcome struct {
	Task         probe.TaskIndex
	Stage        int32
	Path         estimate.Path
	Kind         OutcomeKind
	Result       []byte
	Failure      Failure
	Message      string
	Worker       string // of the attempt that counted; "": there was none
	At           Worker // that is
	Attempts     int
	Earlier      []Earlier     // those that did not count, or all if none did; the last ones
	Run          time.Duration // of that attempt, measured by its executor
	Expected     time.Duration // what the worker was told of that run; 0: nothing
	ExpectedWait time.Duration // wait at the worker that was expected there, of a task placed by estimation
	Waited       time.Duration // what that was
	Waits        probe.Waits   // and for what
	Way          Way           // how the task came there
	Usage        probe.Usage   // of that attempt
	Code         string        // of the function's own error
	Detail       []byte
	Retry        probe.Retry
	Outputs      []probe.Output // that it has left for later stages
	File         *probe.Output  // that its result is, as it was too large to travel; nil: it is none
	Unwanted     bool           // by itself: its job goes on without it
	Phases       Phases
	Receipt      Receipt // of the worker's result; zero: there is none
}

// MaxEarlier is how many attempts of a task are remembered that did not give its outcome: the last ones.
const MaxEarlier = 4

// Earlier is an attempt that did not give the outcome of its task. Moments are since the job was submitted; 0: not known, or it never
// started. The way of the last message, half a round trip, counts as its own.
type Earlier struct {
	Worker               Worker
	Way                  Way
	End                  End
	Sent, Started, Ended time.Duration
}

// End is why an attempt ended that did not give the outcome of its task.
type End uint8

const (
	EndFailed    End = iota + 1 // and was to be tried again
	EndTimedOut                 // likewise
	EndPanicked                 // likewise
	EndNoInput                  // likewise
	EndKilled                   // by its worker, which drained, or had given this frontend up
	EndPreempted                // it was spare, and in the way
	EndLost                     // its worker went away, or knows nothing of it
	EndBeaten                   // another attempt has ended the task
	EndStopped                  // the task was not wanted any more
)

// Way is how a task came to its worker.
type Way uint8

const (
	WayUnknown Way = iota
	WayLate        // with a turn of a place
	WayRide        // with its reservation
	WayShared      // with a turn of another job's place
	WayBundle      // behind another task that a turn got
	WayAhead       // with a turn that the worker asked for before it had room
	WayEarly       // placed by estimation, or by a policy that binds early
	WayCopy        // as a second attempt, because the first one was late
)

// Receipt is for a result that its worker keeps until the client has it: see [Delivered].
type Receipt struct {
	Worker  Worker
	Attempt probe.AttemptID
}

// Phases are the moments of the attempt that counted, since the job was submitted. Moments at the worker
// are reckoned from the durations it reports, as if both directions of the link were equally slow. Those
// that were skipped (a task that rode along was never ready) repeat the one before. Released
// is when all stages before the task's had ended.
type Phases struct {
	Released, Sampled, Queued, Ready, Bound, Started, Finished time.Duration
}

// RefusedReason says why a job was not accepted.
type RefusedReason uint8

const (
	Invalid RefusedReason = iota + 1
	TooBigJob
	NoSuchWorker
	Overloaded
	Leaving
)

// RefusedError is a job's refusal; clients act on Reason and RetryAfter, never on text.
type RefusedError struct {
	Reason     RefusedReason
	Message    string
	RetryAfter time.Duration // 0: do not try again unchanged
}

func (e *RefusedError) Error() string { return e.Message }
