package client

import (
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// ErrClosed ends what was under way when the client was closed, and all that is asked of it afterwards.
var ErrClosed = errors.New("phoebe client is closed")

// RefusedReason is why a frontend declined a call.
type RefusedReason int

// The reasons that callers meet; the client itself sees to those that another frontend or a second try
// can mend.
const (
	Invalid      = RefusedReason(v1.RefusedReason_INVALID)      // the message names the field and the remedy
	TooLarge     = RefusedReason(v1.RefusedReason_TOO_LARGE)    // the message names the limit
	NoWorker     = RefusedReason(v1.RefusedReason_NO_WORKER)    // none has the function, the labels, the host or the room
	Overloaded   = RefusedReason(v1.RefusedReason_OVERLOADED)   // come back after RetryAfter
	Draining     = RefusedReason(v1.RefusedReason_DRAINING)     // the frontend is leaving
	UnknownJob   = RefusedReason(v1.RefusedReason_UNKNOWN_JOB)  // it never was, or it has ended
	Unauthorized = RefusedReason(v1.RefusedReason_UNAUTHORIZED) // the secret is missing or wrong
	OwnerLost    = RefusedReason(v1.RefusedReason_OWNER_LOST)   // the job's frontend does not answer
	Forbidden    = RefusedReason(v1.RefusedReason_FORBIDDEN)    // the job is of another tenant
	NoFile       = RefusedReason(v1.RefusedReason_NO_FILE)      // no worker has it any more
)

func (r RefusedReason) String() string { return enumWords(v1.RefusedReason(r).String()) }

// RefusedError is a frontend declining a call. Nothing was started, unless Run's results are TooLarge. Act
// on Reason, not on the text.
type RefusedError struct {
	Reason     RefusedReason
	Message    string
	RetryAfter time.Duration // zero: not again unchanged
}

func (e *RefusedError) Error() string { return fmt.Sprintf("refused (%s): %s", e.Reason, e.Message) }

// TaskReason is why a task ended without a result.
type TaskReason int

// Cancelled and DeadlineExceeded are no failures of the task. A newer frontend may give other reasons.
const (
	Failed           = TaskReason(v1.FailureReason_TASK_ERROR)       // the function's own error, or a non-zero exit code
	Timeout          = TaskReason(v1.FailureReason_TIMEOUT)          // an attempt ran longer than Task.Timeout
	Lost             = TaskReason(v1.FailureReason_LOST)             // a task with Once may or may not have run
	Poison           = TaskReason(v1.FailureReason_POISON)           // several workers died while they ran it
	WorkersGone      = TaskReason(v1.FailureReason_NO_WORKER)        // all that could run it left, and none came back
	ResultTooLarge   = TaskReason(v1.FailureReason_RESULT_TOO_LARGE) // over the limit of the worker or the job
	Panic            = TaskReason(v1.FailureReason_PANIC)            // or the process was killed by a signal
	Infrastructure   = TaskReason(v1.FailureReason_INFRASTRUCTURE)   // it could not be launched, however often it was tried
	NoInput          = TaskReason(v1.FailureReason_NO_INPUT)         // a file could not be fetched, or is not what its digest says
	StageFailed      = TaskReason(v1.FailureReason_STAGE_FAILED)     // another task of its job, which has stages, failed: Message says which
	Cancelled        = TaskReason(100)                               // by Running.Cancel or Client.Cancel
	DeadlineExceeded = TaskReason(101)                               // Job.Deadline
	ResultLost       = TaskReason(102)                               // it had a result, which was too large to travel, and is gone: see Client.Open
)

func (r TaskReason) String() string {
	switch r {
	case Cancelled:
		return "cancelled"
	case DeadlineExceeded:
		return "deadline exceeded"
	case ResultLost:
		return "result lost"
	default:
		return enumWords(v1.FailureReason(r).String())
	}
}

// Retry is what a function says of its error: where the task may be tried again.
type Retry int

const (
	RetryAnywhere  = Retry(v1.Retry_ANYWHERE)
	RetryElsewhere = Retry(v1.Retry_ELSEWHERE) // not at that worker, if another one may run it
	RetryNever     = Retry(v1.Retry_NEVER)
)

func (r Retry) String() string { return enumWords(v1.Retry(r).String()) }

// TaskError is a task that ended without a result. Code, Detail and Retry are those of the function's exec.Error, if it
// failed with one: Task.Retries were made as Retry allowed.
type TaskError struct {
	Task     int // its index in the job
	Reason   TaskReason
	Message  string
	Worker   string // of the last attempt; empty if there was none
	Attempts int
	Code     string
	Detail   []byte
	Retry    Retry
}

func (e *TaskError) Error() string {
	s := fmt.Sprintf("task %d: %s", e.Task, e.Reason)
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.Worker != "" {
		s += fmt.Sprintf(" (attempt %d, on %s)", e.Attempts, e.Worker)
	}
	return s
}

// UnfinishedError says that the client gave up: it does not know what became of these tasks, which may or
// may not have run. Err is why: the context's error, ErrClosed, or the last thing that went wrong.
type UnfinishedError struct {
	Job   string
	Tasks []int
	Err   error
}

func (e *UnfinishedError) Error() string {
	const most = 10
	named := fmt.Sprint(e.Tasks[:min(len(e.Tasks), most)])
	if len(e.Tasks) > most {
		named = strings.TrimSuffix(named, "]") + " ...]"
	}
	return fmt.Sprintf("job %s: %d unfinished tasks %s: %v", e.Job, len(e.Tasks), named, e.Err)
}

func (e *UnfinishedError) Unwrap() error { return e.Err }

// enumWords turns an enum's name into words.
func enumWords(name string) string {
	return strings.ToLower(strings.ReplaceAll(name, "_", " "))
}
