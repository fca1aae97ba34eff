package exec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The examples' clusters leave goroutines: some begin with the program, and fastrpc's clients never end.
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(),
		goleak.IgnoreAnyFunction("github.com/valyala/fastrpc.(*Client).worker"),
		goleak.IgnoreAnyFunction("github.com/valyala/fastrpc.(*Client).init.func1"))
}

// runTask runs one task to its end.
func runTask(tb testing.TB, p *Pool, t Attempt) Result {
	tb.Helper()
	_, end := startTask(tb, p, t)
	return <-end
}

// startTask starts a task and returns a channel with the only Result, from Start or from done.
func startTask(tb testing.TB, p *Pool, t Attempt) (Running, <-chan Result) {
	tb.Helper()
	end := make(chan Result, 1)
	var calls atomic.Int32
	r, res, ended := p.Start(t, func(r Result) {
		if calls.Add(1) > 1 {
			tb.Errorf("%s: done was called twice", t.Function)
		}
		end <- r
	})
	if ended {
		end <- res
	}
	if ended != (r == nil) {
		tb.Errorf("%s: ended is %v, but the Running is %v", t.Function, ended, r)
	}
	return r, end
}

// testRegistry returns a registry of the built-in functions and more.
func testRegistry(tb testing.TB, more map[string]Func) *Registry {
	r := NewRegistry()
	for name, f := range more {
		if err := r.Register(name, f); err != nil {
			tb.Fatal(err)
		}
	}
	return r
}

func explode(_ context.Context, b []byte) ([]byte, error) { return b[len(b)+1:], nil }

func untilEnded(ctx context.Context, _ []byte) ([]byte, error) {
	<-ctx.Done()
	return []byte("too late"), nil
}

func TestFunctions(t *testing.T) {
	reg := testRegistry(t, map[string]Func{
		"reverse": func(_ context.Context, b []byte) ([]byte, error) { slices.Reverse(b); return b, nil },
		"explode": explode,
		"goexit":  func(context.Context, []byte) ([]byte, error) { runtime.Goexit(); return nil, nil },
		"wait":    untilEnded,
		"mute":    func(context.Context, []byte) ([]byte, error) { return nil, errors.New("") },
		"nilpanic": func(context.Context, []byte) ([]byte, error) {
			panic(nil)
		},
	})
	if err := reg.Register("explode-inline", explode, Inline()); err != nil {
		t.Fatal(err)
	}
	files := func(ctx context.Context, _ []byte) ([]byte, error) { return fmt.Append(nil, Files(ctx)), nil }
	if err := errors.Join(reg.Register("files", files), reg.Register("files-inline", files, Inline())); err != nil {
		t.Fatal(err)
	}
	p := newPool(t, reg)
	for _, tc := range []struct {
		name   string
		task   Attempt
		status Status
		output string
		err    []string // all must occur in Err
	}{
		{"echo", Attempt{Function: "echo", Payload: []byte("hi")}, Succeeded, "hi", nil},
		{"no files", Attempt{Function: "files"}, Succeeded, "[]", nil},
		{"files", Attempt{Function: "files", Files: []string{"/c/a", "/c/b"}, Timeout: time.Minute}, Succeeded,
			"[/c/a /c/b]", nil},
		{"files of an inline function", Attempt{Function: "files-inline", Files: []string{"/c/a"}}, Succeeded,
			"[/c/a]", nil},
		{"echo at the limit", Attempt{Function: "echo", Payload: []byte("four"), MaxResult: 4}, Succeeded, "four", nil},
		{"echo over the limit", Attempt{Function: "echo", Payload: []byte("12345"), MaxResult: 4}, TooLarge, "",
			[]string{"5 bytes", "limit of 4 bytes", "LargeResults"}},
		{"sleep", Attempt{Function: "sleep", Payload: []byte("1ms")}, Succeeded, "", nil},
		{"sleep not at all", Attempt{Function: "sleep", Payload: []byte("0s")}, Succeeded, "", nil},
		{"sleep without payload", Attempt{Function: "sleep"}, Failed, "", []string{`""`, "10ms"}},
		{"sleep backwards", Attempt{Function: "sleep", Payload: []byte("-1s")}, Failed, "", []string{`"-1s"`, "10ms"}},
		{"sleep for ever", Attempt{Function: "sleep", Payload: []byte("100000h")}, Failed, "", []string{"10 years"}},
		{"sleep on nonsense", Attempt{Function: "sleep", Payload: bytes.Repeat([]byte("x"), 1e6)}, Failed, "",
			[]string{`xxx..."`}},
		{"sleep into the timeout", Attempt{Function: "sleep", Payload: []byte("1h"), Timeout: time.Millisecond},
			TimedOut, "", []string{"timeout of 1ms"}},
		{"sleep past the deadline", Attempt{Function: "sleep", Payload: []byte("1h"), Timeout: time.Minute,
			Deadline: time.Millisecond}, TimedOut, "", []string{"deadline"}},
		{"spin", Attempt{Function: "spin", Payload: []byte("1ms")}, Succeeded, "", nil},
		{"spin on nonsense", Attempt{Function: "spin", Payload: []byte("1")}, Failed, "", []string{"spin", `"1"`}},
		{"spin into the timeout", Attempt{Function: "spin", Payload: []byte("1h"), Timeout: time.Millisecond},
			TimedOut, "", []string{"timeout of 1ms"}},
		{"fail", Attempt{Function: "fail", Payload: []byte("no luck")}, Failed, "", []string{"no luck"}},
		{"fail silently", Attempt{Function: "fail"}, Failed, "", []string{"failed as asked"}},
		{"fail at length", Attempt{Function: "fail", Payload: bytes.Repeat([]byte("\xff\u00e9"), 1e5)}, Failed, "",
			[]string{"?\u00e9?\u00e9", "..."}},
		{"own function", Attempt{Function: "reverse", Payload: []byte("abc")}, Succeeded, "cba", nil},
		{"own function over the limit", Attempt{Function: "reverse", Payload: []byte("abc"), MaxResult: 2}, TooLarge,
			"", []string{"3 bytes"}},
		{"panic", Attempt{Function: "explode"}, Panicked, "", []string{"out of range", "exec_test.go", "exec.explode"}},
		{"panic inline", Attempt{Function: "explode-inline"}, Panicked, "", []string{"out of range", "exec.explode"}},
		{"fail with nothing to say", Attempt{Function: "mute"}, Failed, "", []string{"no text"}},
		{"panic(nil)", Attempt{Function: "nilpanic"}, Panicked, "", []string{"panic called with nil"}},
		{"goexit", Attempt{Function: "goexit"}, Panicked, "", []string{"runtime.Goexit"}},
		{"wait for the deadline", Attempt{Function: "wait", Timeout: time.Hour, Deadline: time.Millisecond}, TimedOut,
			"", []string{"deadline has passed"}},
		{"timeout before the deadline", Attempt{Function: "wait", Timeout: time.Millisecond, Deadline: time.Hour},
			TimedOut, "", []string{"timeout of 1ms"}},
		{"timeout outranks a late result", Attempt{Function: "wait", Timeout: time.Millisecond}, TimedOut, "",
			[]string{"timeout of 1ms"}},
		{"unknown", Attempt{Function: "ecoh"}, Failed, "", []string{`"ecoh"`, "register"}},
		{"processes are off", Attempt{Function: "exec", Payload: []byte(`{"argv":["true"]}`)}, Failed, "",
			[]string{`"exec"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res := runTask(t, p, tc.task)
			if res.Status != tc.status || string(res.Output) != tc.output {
				t.Errorf("got %v %q (%s), want %v %q", res.Status, res.Output, res.Err, tc.status, tc.output)
			}
			for _, want := range tc.err {
				if !strings.Contains(res.Err, want) {
					t.Errorf("the error does not say %q: %s", want, res.Err)
				}
			}
			if (res.Err == "") != (res.Status == Succeeded) || len(res.Err) > maxErr {
				t.Errorf("%v with an error of %d bytes", res.Status, len(res.Err))
			}
			if res.Status == Panicked &&
				(strings.Contains(res.Err, "exec.call(") || strings.Contains(res.Err, "debug.Stack")) {
				t.Errorf("the stack is not trimmed:\n%s", res.Err)
			}
		})
	}
}

func TestSleepIsNeverShort(t *testing.T) {
	p := newPool(t, NewRegistry())
	for _, d := range []time.Duration{time.Microsecond, 50 * time.Microsecond, 3 * time.Millisecond} {
		if res := runTask(t, p, Attempt{Function: "sleep", Payload: []byte(d.String())}); res.Run < d {
			t.Errorf("a sleep of %v took %v", d, res.Run)
		}
	}
}

func TestKill(t *testing.T) {
	p := newPool(t, testRegistry(t, map[string]Func{"wait": untilEnded}))
	for _, task := range []Attempt{
		{Function: "sleep", Payload: []byte("1h")},
		{Function: "sleep", Payload: []byte("2h"), Timeout: time.Hour},
		{Function: "spin", Payload: []byte("1h")},
		{Function: "wait"},
		{Function: "wait", Timeout: time.Hour},
	} {
		r, end := startTask(t, p, task)
		r.Kill("the job was cancelled")
		r.Kill("again")
		if res := <-end; res.Status != Killed || res.Err != "the job was cancelled" {
			t.Errorf("%s: got %v (%s)", task.Function, res.Status, res.Err)
		}
		r.Kill("after the end")
	}
}

// A function's progress only grows, up to 1. A sleep knows its progress.
func TestProgress(t *testing.T) {
	reported, goOn := make(chan struct{}), make(chan struct{})
	p := newPool(t, testRegistry(t, map[string]Func{"tells": func(ctx context.Context, _ []byte) ([]byte, error) {
		for _, done := range []float64{-1, 0.3, 0.2, math.NaN()} {
			Progress(ctx, done)
		}
		reported <- struct{}{}
		<-goOn
		Progress(ctx, 7)
		reported <- struct{}{}
		<-goOn
		return nil, nil
	}, "mute": untilEnded}))
	r, end := startTask(t, p, Attempt{Function: "tells"})
	for _, want := range []float64{0.3, 1} {
		<-reported
		if done, ago := r.Progress(); done != want || ago < 0 || ago > time.Minute {
			t.Errorf("%v is done, as reported %v ago, want %v", done, ago, want)
		}
		goOn <- struct{}{}
	}
	<-end
	for function, most := range map[string]float64{"mute": 0, "sleep": 0.5} {
		r, end := startTask(t, p, Attempt{Function: function, Payload: []byte("1h"), Timeout: 30 * time.Minute})
		if done, _ := r.Progress(); done < 0 || done > most || function == "sleep" && done == 0 {
			t.Errorf("%s has done %v of its work at once", function, done)
		}
		r.Kill("enough")
		<-end
	}
	Progress(t.Context(), 0.5) // without a task
}

// Kill and the natural end race; startTask checks for a single result.
func TestKillAtTheEnd(t *testing.T) {
	p := newPool(t, NewRegistry())
	seen := map[Status]int{}
	for i := range 400 {
		r, end := startTask(t, p, Attempt{Function: "sleep", Payload: []byte("300us")})
		for start := time.Now(); time.Since(start) < time.Duration(i)*2*time.Microsecond; {
		}
		r.Kill("enough")
		seen[(<-end).Status]++
	}
	if seen[Killed] == 0 || seen[Succeeded] == 0 || len(seen) != 2 {
		t.Errorf("got %v, want some of each", seen)
	}
}

// done may take a lock held by the callers of Start and Kill.
func TestDoneIsNeverCalledWithinStartOrKill(t *testing.T) {
	p := newPool(t, testRegistry(t, map[string]Func{"wait": untilEnded}))
	lock := make(chan struct{}, 1)
	for _, f := range []string{"sleep", "wait", "echo"} {
		end := make(chan struct{})
		lock <- struct{}{}
		r, _, ended := p.Start(Attempt{Function: f, Payload: []byte("1h")}, func(Result) {
			lock <- struct{}{}
			<-lock
			close(end)
		})
		if !ended {
			r.Kill("enough")
		}
		<-lock
		if !ended {
			<-end
		}
	}
}

func TestSleepsNeedNoGoroutine(t *testing.T) {
	p := newPool(t, NewRegistry())
	before := runtime.NumGoroutine()
	const n = 5000
	end := make(chan Result, n)
	var sleeps []Running
	for i := range n {
		r, _, ended := p.Start(Attempt{Function: "sleep", Payload: fmt.Appendf(nil, "%ds", 3600+i)},
			func(r Result) { end <- r })
		if ended {
			t.Fatal("a sleep ends at once")
		}
		sleeps = append(sleeps, r)
	}
	if p.Running() != n {
		t.Errorf("%d of %d sleep", p.Running(), n)
	}
	if now := runtime.NumGoroutine(); now > before {
		t.Errorf("%d goroutines became %d", before, now)
	}
	for _, r := range sleeps {
		r.Kill("enough")
	}
	for range n {
		if r := <-end; r.Status != Killed {
			t.Fatal(r)
		}
	}
}

func TestClose(t *testing.T) {
	release := make(chan struct{})
	reg := testRegistry(t, map[string]Func{
		"wait": untilEnded,
		"deaf": func(ctx context.Context, _ []byte) ([]byte, error) {
			<-ctx.Done()
			<-release
			<-time.After(ignoredKillAfter)
			return nil, nil
		},
	})
	p, err := NewPool(reg)
	if err != nil {
		t.Fatal(err)
	}
	_, asleep := startTask(t, p, Attempt{Function: "sleep", Payload: []byte("1h")})
	_, waiting := startTask(t, p, Attempt{Function: "wait"})
	_, deaf := startTask(t, p, Attempt{Function: "deaf"})

	patience := errors.New("no more patience")
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		for _, end := range []<-chan Result{asleep, waiting} {
			if res := <-end; res.Status != Killed || res.Err != closingReason {
				t.Errorf("got %v (%s)", res.Status, res.Err)
			}
		}
		cancel(patience)
	}()
	if err := p.Close(ctx); !errors.Is(err, patience) {
		t.Errorf("Close did not report the deaf function: %v", err)
	}
	close(release)
	if err := p.Close(context.Background()); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	if res := <-deaf; res.Status != Succeeded {
		t.Errorf("got %v", res.Status)
	}
	for _, f := range []string{"sleep", "wait"} {
		if res := runTask(t, p, Attempt{Function: f, Payload: []byte("1h")}); res.Status != Killed {
			t.Errorf("%s started after Close: %v", f, res.Status)
		}
	}
}

func TestRegister(t *testing.T) {
	r := NewRegistry()
	for name, f := range map[string]Func{"echo": echoPayload, "": echoPayload, "a b": echoPayload, "nil": nil,
		strings.Repeat("x", 129): echoPayload} {
		if err := r.Register(name, f); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := r.Register("query.scan/v1", echoPayload); err != nil {
		t.Error(err)
	}
	if got, want := r.Names(), []string{"echo", "fail", "query.scan/v1", "sleep", "spin"}; !slices.Equal(got, want) {
		t.Errorf("names are %v, want %v", got, want)
	}
}

func TestAlarmOrder(t *testing.T) {
	t.Parallel() // mostly waits
	a, err := OpenAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	start := time.Now()
	order := make(chan int, 100)
	for _, i := range []int{7, 3, 9, 1, 8, 0, 2, 6, 5, 4} {
		a.At(start.Add(2*time.Second+time.Duration(i)*time.Microsecond), func() { order <- i })
	}
	stopped := a.At(start.Add(2*time.Second), func() { order <- -1 })
	if !stopped.Stop() || stopped.Stop() {
		t.Error("Stop is true the first time only")
	}
	past := a.At(start.Add(-time.Hour), func() { order <- -2 })
	if i := <-order; i != -2 {
		t.Errorf("the past came after %d", i)
	}
	if past.Stop() {
		t.Error("a timer that fired was stopped")
	}
	for want := range 10 {
		if got := <-order; got != want {
			t.Errorf("%d came in place of %d", got, want)
		}
	}
}

func TestStatusString(t *testing.T) {
	for s, want := range map[Status]string{Succeeded: "succeeded", TimedOut: "timed out", 77: "status 77"} {
		if s.String() != want {
			t.Errorf("%d is %q, want %q", s, s, want)
		}
	}
}
