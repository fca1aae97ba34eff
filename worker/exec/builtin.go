package exec

import (
	"context"
	"errors"
	"fmt"
	"time"
)

func echoPayload(_ context.Context, payload []byte) ([]byte, error) { return payload, nil }

func failAsAsked(_ context.Context, payload []byte) ([]byte, error) {
	if len(payload) == 0 {
		return nil, errors.New("failed as asked: the payload of fail would be the text of its error")
	}
	return nil, errors.New(string(payload))
}

// spinFor burns a core for the duration in payload, or until ctx ends.
func spinFor(ctx context.Context, payload []byte) ([]byte, error) {
	d, err := parseDuration("spin", payload)
	if err != nil {
		return nil, err
	}
	for start := time.Now(); time.Since(start) < d; {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return nil, nil
}

// maxDuration bounds a sleep: far beyond any task, and small enough to add to any clock.
const maxDuration = 10 * 365 * 24 * time.Hour

// parseDuration parses the payload of sleep or spin; function names the function in errors.
func parseDuration(function string, payload []byte) (time.Duration, error) {
	const shown = 64
	d, err := time.ParseDuration(string(payload))
	if err == nil && d >= 0 && d <= maxDuration {
		return d, nil
	}
	text := string(payload)
	if len(text) > shown {
		text = text[:shown] + "..."
	}
	return 0, fmt.Errorf(
		"%s: the payload is %q, not a Go duration from 0s to 10 years such as 10ms or 1.5s", function, text)
}

// sleeping is a task of the sleep function: a timer of the alarm, without a goroutine.
type sleeping struct {
	pool     *Pool
	start    time.Time
	duration time.Duration
	timer    *Timer // set within addLive, before Close can see the task
	done     func(Result)
	result   Result // reported when the timer fires
}

// startSleep starts a sleep as a timer of the alarm. A timeout or deadline before the end of the sleep ends the task as
// TimedOut.
func (p *Pool) startSleep(t *Attempt, done func(Result)) (Running, Result, bool) {
	start := time.Now()
	d, err := parseDuration("sleep", t.Payload)
	if err != nil {
		return nil, Result{Status: Failed, Err: err.Error()}, true
	}
	s := &sleeping{pool: p, start: start, duration: d, done: done}
	if limit, reason := timeLimit(t); limit > 0 && limit < d {
		d = limit
		s.result = Result{Status: TimedOut, Err: reason.Error()}
	}
	at := start.Add(d)
	if !p.addLive(s, func() { s.timer = p.alarm.At(at, s.wakeUp) }) {
		return nil, closedResult(), true
	}
	return s, Result{}, false
}

func (s *sleeping) wakeUp() { s.reportEnd(s.result) }

// reportEnd passes the result to done, and removes the task from the pool.
func (s *sleeping) reportEnd(r Result) {
	r.Run = time.Since(s.start)
	s.done(r)
	s.pool.removeLive(s)
}

// Progress is exact: nothing slows down a sleep.
func (s *sleeping) Progress() (float64, time.Duration) {
	return time.Since(s.start).Seconds() / s.duration.Seconds(), 0
}

// Use is zero: a sleep takes no CPU time.
func (s *sleeping) Use() Use { return Use{} }

func (s *sleeping) Kill(reason string) {
	if s.timer.Stop() {
		go s.reportEnd(Result{Status: Killed, Err: clipText(reason)})
	}
}
