package exec

import (
	"errors"
	"io/fs"

	"github.com/phoebe-sched/phoebe/probe"
)

// Retry says where a failed task may be retried, as often as its Retries allow.
type Retry = probe.Retry

const (
	Anywhere  = probe.Anywhere
	Elsewhere = probe.Elsewhere // not at this worker, if another worker may run the task
	Never     = probe.Never
)

// Error is a function's error for programs: the client's TaskError has the same code, detail and retry.
type Error struct {
	Code   string // a word agreed between client and function; at most 128 bytes
	Detail []byte // more data for the client; at most 8 KiB
	Retry  Retry
	Err    error // for people; nil: the code is enough
}

func (e *Error) Error() string {
	switch {
	case e.Err == nil:
		return e.Code
	case e.Code == "":
		return e.Err.Error()
	}
	return e.Code + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Permanent wraps err: the task would only fail again, so it is not retried.
func Permanent(err error) error { return &Error{Retry: Never, Err: err} }

const maxCode = 128 // bytes of a code

// copyErrorDetails copies code, detail and retry from a function's error, and sets the status of input and size
// errors.
func (r *Result) copyErrorDetails(err error) {
	if e, ok := errors.AsType[*Error](err); ok {
		r.Code, r.Detail, r.Retry = e.Code[:min(len(e.Code), maxCode)], e.Detail[:min(len(e.Detail), maxErr)], e.Retry
	}
	if e, ok := errors.AsType[*InputError](err); ok {
		r.Status = NoInput
		if errors.Is(e, fs.ErrNotExist) {
			r.Passed = []probe.Output{e.file}
		}
	}
	if _, ok := errors.AsType[*sizeError](err); ok {
		r.Status = TooLarge
	}
}
