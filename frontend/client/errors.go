package client

import (
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// ErrClosed is the error of calls that were under way when the client was closed, and of all later calls.
var ErrClosed = errors.New("phoebe client is closed")

// ErrLeft is the cause of the end of a Running after Running.Leave.
var ErrLeft = errors.New("the job was left to other processes")

var errNilContext = errors.New("the context is nil: use context.Background()")

// RefusedReason says why a frontend refused a call.
type RefusedReason int

// Reasons for a refusal. If another frontend or a later try can help, the client retries by itself, and you see the
// refusal only when the client gives up.
const (
	Invalid      = RefusedReason(v1.RefusedReason_INVALID)      // the message names the field and the remedy
	TooLarge     = RefusedReason(v1.RefusedReason_TOO_LARGE)    // the message names the limit
	NoWorker     = RefusedReason(v1.RefusedReason_NO_WORKER)    // no worker has function, labels, host or room
	Overloaded   = RefusedReason(v1.RefusedReason_OVERLOADED)   // try again after RetryAfter
	Draining     = RefusedReason(v1.RefusedReason_DRAINING)     // the frontend is about to leave
	UnknownJob   = RefusedReason(v1.RefusedReason_UNKNOWN_JOB)  // the job never existed, or has ended
	Unauthorized = RefusedReason(v1.RefusedReason_UNAUTHORIZED) // the secret is missing or wrong
	OwnerLost    = RefusedReason(v1.RefusedReason_OWNER_LOST)   // the job's frontend does not answer
	Forbidden    = RefusedReason(v1.RefusedReason_FORBIDDEN)    // the job belongs to another tenant
	NoFile       = RefusedReason(v1.RefusedReason_NO_FILE)      // no reachable worker has the file
)

func (r RefusedReason) String() string { return enumWords(v1.RefusedReason(r).String()) }

// RefusedError says that a frontend refused a call, and nothing was started. Act on Reason, not on the text.
type RefusedError struct {
	Reason     RefusedReason
	Message    string
	RetryAfter time.Duration // when to try again; zero: do not try the same call again
}

func (e *RefusedError) Error() string { return fmt.Sprintf("refused (%s): %s", e.Reason, e.Message) }

// LateRefusalError says that a frontend refused a job whose tasks have run, or may have run. The job was at another
// frontend before, or its results are TooLarge for a Run. Often the error is the Err of an UnfinishedError.
type LateRefusalError struct {
	Reason     RefusedReason
	Message    string
	RetryAfter time.Duration // when to try again; zero: do not try the same call again
}

func (e *LateRefusalError) Error() string {
	return (*RefusedError)(e).Error() + ", after the job's start"
}

// hideRefusal returns err. If err is a RefusedError, the result is a LateRefusalError instead.
func hideRefusal(err error) error {
	if refused, is := err.(*RefusedError); is {
		return (*LateRefusalError)(refused)
	}
	return err
}

// TaskReason says why a task ended without a result.
type TaskReason int

// Reasons of a TaskError. Cancelled and DeadlineExceeded are no failures of the task. After WorkersGone, all workers
// that could run the task left, and none came back in time. A newer frontend may send further reasons.
const (
	Failed           = TaskReason(v1.FailureReason_TASK_ERROR)       // the function's error, or a non-zero exit code
	Timeout          = TaskReason(v1.FailureReason_TIMEOUT)          // an attempt ran longer than Task.Timeout
	Lost             = TaskReason(v1.FailureReason_LOST)             // a task with Once may or may not have run
	Poison           = TaskReason(v1.FailureReason_POISON)           // several workers died while they ran the task
	WorkersGone      = TaskReason(v1.FailureReason_NO_WORKER)        // all workers that could run the task left
	ResultTooLarge   = TaskReason(v1.FailureReason_RESULT_TOO_LARGE) // over the limit of the worker or the job
	Panic            = TaskReason(v1.FailureReason_PANIC)            // or the process was killed by a signal
	Infrastructure   = TaskReason(v1.FailureReason_INFRASTRUCTURE)   // could not be launched, after several tries
	NoInput          = TaskReason(v1.FailureReason_NO_INPUT)         // a file cannot be fetched, or its digest is wrong
	StageFailed      = TaskReason(v1.FailureReason_STAGE_FAILED)     // another task of the job failed: see Message
	Cancelled        = TaskReason(100)                               // by Running.Cancel or Client.Cancel
	DeadlineExceeded = TaskReason(101)                               // Job.Deadline
	ResultLost       = TaskReason(102)                               // the large result is gone: see Client.Open
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

// Retry says where a task may be tried again after its function's error. The function decides.
type Retry int

const (
	RetryAnywhere  = Retry(v1.Retry_ANYWHERE)
	RetryElsewhere = Retry(v1.Retry_ELSEWHERE) // at another worker, if another worker may run the task
	RetryNever     = Retry(v1.Retry_NEVER)
)

func (r Retry) String() string { return enumWords(v1.Retry(r).String()) }

// TaskError says that a task ended without a result. If the function failed with an exec.Error, Code, Detail and Retry
// come from the exec.Error, and the retries of Task.Retries went only where Retry allowed.
type TaskError struct {
	Task     int // index in Job.Tasks
	Reason   TaskReason
	Message  string
	Worker   string // of the last attempt; empty: there was no attempt
	Attempts int
	Code     string
	Detail   []byte
	Retry    Retry
	Cause    error // the function's own error, for errors.As; nil unless Call, Map or Stream knows its type
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

func (e *TaskError) Unwrap() error { return e.Cause }

// UnfinishedError says that the client gave up on a job. The listed tasks may or may not have run.
type UnfinishedError struct {
	Job   string // id
	Tasks []int  // tasks without a known outcome, by index in Job.Tasks
	Err   error  // why: the context's error, ErrClosed, or the last failure
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

// StoreError says that the function of WithStore failed. It is the Err of an UnfinishedError.
type StoreError struct{ Err error }

func (e *StoreError) Error() string { return "store outcomes: " + e.Err.Error() }
func (e *StoreError) Unwrap() error { return e.Err }

// AbandonedError says why a job that a process followed has ended (see Client.Attach): the job's frontend is gone, and
// so is the process that submitted the job, because nobody took the job to another frontend. It is the Err of an
// UnfinishedError.
type AbandonedError struct {
	Owner  string        // address of the frontend that had the job
	Waited time.Duration // for another process
	Err    error         // the last failure to reach the job
}

func (e *AbandonedError) Error() string {
	return fmt.Sprintf("frontend %s lost the job (%v), and no process took the job to another frontend within %v",
		e.Owner, e.Err, e.Waited)
}

func (e *AbandonedError) Unwrap() error { return hideRefusal(e.Err) }

// enumWords turns the name of an enum value, such as NO_WORKER, into words, such as "no worker".
func enumWords(name string) string {
	return strings.ToLower(strings.ReplaceAll(name, "_", " "))
}
