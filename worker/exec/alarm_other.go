//go:build !linux

package exec

import "time"

// Alarm calls functions at given moments. On Linux the alarm is more precise; here it is as precise as Go's timers.
type Alarm struct{}

// OpenAlarm returns the alarm of this process. Each call needs a Close.
func OpenAlarm() (*Alarm, error) { return &Alarm{}, nil }

// Close gives up the alarm.
func (a *Alarm) Close() error { return nil }

// At calls f once, on its own goroutine, at t, or soon if t has passed.
func (a *Alarm) At(t time.Time, f func()) *Timer { return &Timer{time.AfterFunc(time.Until(t), f)} }

// About is At.
func (a *Alarm) About(t time.Time, f func()) *Timer { return a.At(t, f) }

// Timer is a pending call of an Alarm.
type Timer struct{ t *time.Timer }

// Stop cancels the call, and reports whether it prevented the call.
func (t *Timer) Stop() bool { return t.t.Stop() }
