//go:build !linux

package exec

import "time"

// Alarm calls functions at given moments. Here it is no more precise than Go's timers; on Linux it is.
type Alarm struct{}

// OpenAlarm returns the alarm of this process. Each call needs a Close.
func OpenAlarm() (*Alarm, error) { return &Alarm{}, nil }

// Close gives up the alarm.
func (a *Alarm) Close() error { return nil }

// At calls f once, on its own goroutine, when t comes, or soon if it has passed.
func (a *Alarm) At(t time.Time, f func()) *Timer { return &Timer{time.AfterFunc(time.Until(t), f)} }

// About is At.
func (a *Alarm) About(t time.Time, f func()) *Timer { return a.At(t, f) }

// Timer is one call that an Alarm owes.
type Timer struct{ t *time.Timer }

// Stop says whether it prevented the call of f.
func (t *Timer) Stop() bool { return t.t.Stop() }
