package files

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"

	"github.com/phoebe-sched/phoebe/probe"
)

// ErrClosed: the cache was closed before or during the call.
var ErrClosed = errors.New("the file cache is closed")

// Reason says why a file cannot be had.
type Reason uint8

const (
	BadURL      Reason = iota + 1 // not a URL, or of an unsupported scheme
	Refused                       // this worker may not read there, by its options
	TooLarge                      // larger than the whole cache
	NoSpace                       // what tasks of this worker hold leaves no room now
	Missing                       // not at its source, or not for us
	WrongSize                     // longer or shorter than announced
	WrongDigest                   // of the announced size, but not of the announced content
	Unreachable                   // the source does not answer, is too slow or fails
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

// Error is a file that cannot be had. Callers act on Reason; the text tells the user what to do. It has neither
// passwords nor query of the URL, for those of signed URLs are secrets.
type Error struct {
	File   probe.File
	Reason Reason
	Err    error // about the last source, normally the file's URL, and what the others before it said
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", describeFile(e.File), e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Is makes what no source has an fs.ErrNotExist.
func (e *Error) Is(target error) bool { return target == fs.ErrNotExist && e.Reason == Missing }

// describeFile names f for a message.
func describeFile(f probe.File) string {
	short := hex.EncodeToString(f.Digest[:6])
	if u, err := url.Parse(f.URL); err == nil && f.URL != "" {
		return fmt.Sprintf("file %s (sha256 %s…)", displayURL(u), short)
	}
	return fmt.Sprintf("file with sha256 %s…", short)
}

// displayURL is u without what may be secret in it.
func displayURL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Opaque: u.Opaque, Host: u.Host, Path: u.Path}).String()
}

// failure is a reason on its way up to an Error.
type failure struct {
	reason    Reason
	err       error
	hint      string // what the user can do, if it is about the origin
	transient bool   // perhaps, by itself
}

func (f *failure) Error() string {
	if f.hint == "" {
		return f.err.Error()
	}
	return f.err.Error() + ": " + f.hint
}

func (f *failure) Unwrap() error { return f.err }

func newFailure(reason Reason, hint, format string, args ...any) error {
	return &failure{reason: reason, err: fmt.Errorf(format, args...), hint: hint}
}

const isUpHint = "is it up, and the network between us?"

// newTransient is a source that is Unreachable now, and perhaps not for long.
func newTransient(hint, format string, args ...any) error {
	return &failure{Unreachable, fmt.Errorf(format, args...), hint, true}
}

// withoutHint is err without its hint.
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

func reasonOf(err error) Reason {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.reason
	}
	return Unreachable
}
