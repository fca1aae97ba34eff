package files

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"

	"github.com/phoebe-sched/phoebe/probe"
)

// ErrClosed means: the cache was closed before or during the call.
var ErrClosed = errors.New("the file cache is closed")

// Reason says why a file cannot be had.
type Reason uint8

const (
	BadURL      Reason = iota + 1 // not a URL, or of an unsupported scheme
	Refused                       // the worker's options forbid the source
	TooLarge                      // larger than the whole cache
	NoSpace                       // files held by this worker's tasks leave no room now
	Missing                       // the source lacks the file, or refuses it to this worker
	WrongSize                     // longer or shorter than announced
	WrongDigest                   // the announced size, but other content
	Unreachable                   // the source does not answer, is too slow, or fails
	Disk                          // the cache's own folder fails, or its disk is full
)

var reasonNames = [...]string{
	BadURL: "bad URL", Refused: "refused", TooLarge: "too large", NoSpace: "no space", Missing: "missing",
	WrongSize: "wrong size", WrongDigest: "wrong digest", Unreachable: "unreachable", Disk: "disk",
}

func (r Reason) String() string {
	if int(r) < len(reasonNames) && reasonNames[r] != "" {
		return reasonNames[r]
	}
	return fmt.Sprintf("Reason(%d)", r)
}

// Error says why a file cannot be had. Callers act on Reason; the text tells the user what to do. The text omits
// the password and the query of the URL, because the query of a signed URL is a secret.
type Error struct {
	File   probe.File
	Reason Reason
	Err    error // the failure of the last source, normally the file's URL, then of earlier sources
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", describeFile(e.File), e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Is makes an Error with Reason Missing an fs.ErrNotExist.
func (e *Error) Is(target error) bool { return target == fs.ErrNotExist && e.Reason == Missing }

// describeFile names f for a message.
func describeFile(f probe.File) string {
	short := hex.EncodeToString(f.Digest[:6])
	if u, err := url.Parse(f.URL); err == nil && f.URL != "" {
		return fmt.Sprintf("file %s (sha256 %s…)", displayURL(u), short)
	}
	return fmt.Sprintf("file with sha256 %s…", short)
}

// displayURL returns u without its possible secrets.
func displayURL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Opaque: u.Opaque, Host: u.Host, Path: u.Path}).String()
}

// failure carries a reason up to an Error.
type failure struct {
	reason    Reason
	err       error
	hint      string // a remedy for the user, if the origin failed
	transient bool   // a retry may help
}

func (f *failure) Error() string {
	if f.hint == "" {
		return f.err.Error()
	}
	return f.err.Error() + ": " + f.hint
}

func (f *failure) Unwrap() error { return f.err }

// IsDiskFailure reports whether err comes from the cache's own folder, and would come for any file.
func IsDiskFailure(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && f.reason == Disk
}

func newFailure(reason Reason, hint, format string, args ...any) error {
	return &failure{reason: reason, err: fmt.Errorf(format, args...), hint: hint}
}

const isUpHint = "is it up and reachable?"

// newTransient returns a failure of a source that is Unreachable, perhaps not for long.
func newTransient(hint, format string, args ...any) error {
	return &failure{Unreachable, fmt.Errorf(format, args...), hint, true}
}

// withoutHint returns err without its hint.
func withoutHint(err error) error {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.err
	}
	return err
}

func isTransient(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && f.transient
}

// reasonOf returns the reason of a failure; Unreachable for any other error.
func reasonOf(err error) Reason {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.reason
	}
	return Unreachable
}
