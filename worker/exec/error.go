package exec

import (
	"errors"
	"io/fs"

	"github.com/phoebe-sched/phoebe/probe"
)

// Retry is where a task that failed may be tried again, as often as it allows.
type Retry = probe.Retry

const (
	Anywhere  = probe.Anywhere
	Elsewhere = probe.Elsewhere // not at this worker, if another one may run it
	Never     = probe.Never
)

// Error is a function's error for programs to act on: the client's TaskError has the same code, detail and retry.
type Error struct {
	Code   string // a word that client and function have agreed on; at most 128 bytes
	Detail []byte // whatever else the client is to know; at most 8 KiB
	Retry  Retry
	Err    error // for people; nil: the code says enough
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

// Permanent is err of a task that would only fail again.
func Permanent(err error) error { return &Error{Retry: Never, Err: err} }

const maxCode = 128

// copyErrorDetails takes from the error of a function what programs are to know.
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
