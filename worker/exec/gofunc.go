package exec

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// goRun is a Go function on its own goroutine.
type goRun struct {
	taskCtx *taskContext
	cancel  context.CancelCauseFunc
}

func (g *goRun) Progress() (float64, time.Duration) { return g.taskCtx.progress.lastReport() }

func (g *goRun) Use() Use { return Use{} }

func (g *goRun) Kill(reason string) { g.cancel(killedError(reason)) }

// startFunc starts f on a new goroutine. A new goroutine for each task was measured faster than a pool of
// goroutines that wait on a channel.
func (p *Pool) startFunc(f Func, t *Attempt, done func(Result)) (Running, Result, bool) {
	w := newTaskContext(t)
	ctx, cancel := withTimeLimit(w, t)
	g := &goRun{taskCtx: w, cancel: cancel}
	run := func() {
		res := Result{Status: Panicked, Err: "the function called runtime.Goexit"}
		defer func() { // deferred, because Goexit runs deferred calls only
			cancel(nil)
			done(w.concludeTask(res))
			p.removeLive(g)
		}()
		res = runGuarded(ctx, f, &w.attempt)
	}
	if !p.addLive(g, func() { go run() }) {
		cancel(nil)
		return nil, closedResult(), true
	}
	return g, Result{}, false
}

// clockStart is the zero of all run times. Durations since clockStart are cheaper than time.Now, which also reads
// the wall clock.
var clockStart = time.Now()

// ignoredKillAfter is the time a function must run after its kill for its result to count. Some functions end at
// once when killed and return no error, though their work is unfinished.
const ignoredKillAfter = 100 * time.Millisecond

// runGuarded runs f and turns its return, error or panic into a Result. If ctx ended before f returned, the end of
// ctx decides the status. Exception: f was killed, ran on for ignoredKillAfter and returned no error; then its
// result counts. Without this exception a task stopped only to make room for other tasks would run as long again on
// every retry, in vain.
func runGuarded(ctx context.Context, f Func, t *Attempt) (res Result) {
	start := time.Since(clockStart)
	out, panicked, err := call(ctx, f, t.Payload)
	res.Run = time.Since(clockStart) - start
	ended, isEnded := context.Cause(ctx).(*endedError)
	switch {
	case panicked != "":
		res.Status, res.Err = Panicked, clipText(panicked)
	case isEnded && (err != nil || ended.status != Killed || time.Since(ended.killedAt) < ignoredKillAfter):
		res.Status, res.Err = ended.status, ended.reason
	case err != nil:
		res.Status, res.Err = Failed, clipText(cmp.Or(err.Error(), "the function returned an error with no text"))
		res.copyErrorDetails(err)
		res.noteDisk(t, err)
	case t.MaxResult > 0 && len(out) > t.MaxResult && !t.mayReturnFile():
		res.Status, res.Err = TooLarge, tooLargeText(fmt.Sprintf("%d bytes", len(out)), t.MaxResult)
	case t.MaxResult > 0 && len(out) > t.MaxResult:
		o := newResultOutput(t)
		o.Write(out) // setResult reports a failed write
		o.Close()
		res.setResult(o)
	default:
		res.Output = out
	}
	return res
}

// call runs f. If f panics, call returns the panic's value and stack as text. trimStack finds the frame of call by
// its name.
func call(ctx context.Context, f Func, payload []byte) (out []byte, panicked string, err error) {
	defer func() {
		if v := recover(); v != nil {
			panicked = fmt.Sprintf("panic: %v\n%s", v, trimStack(debug.Stack()))
		}
	}()
	out, err = f(ctx, payload)
	return out, "", err
}

// maxStack keeps a panic's report small enough to read, in bytes.
const maxStack = 4 << 10

// trimStack cuts a stack of debug.Stack, taken in a deferred call, down to the frames of the function: below the
// call of panic, above the frame of call.
func trimStack(s []byte) []byte {
	if i := bytes.Index(s, []byte("\npanic(")); i >= 0 {
		s = s[i+1:]
		for range 2 { // the lines of panic(...) and its position
			if j := bytes.IndexByte(s, '\n'); j >= 0 {
				s = s[j+1:]
			}
		}
	}
	if i := bytes.Index(s, []byte("worker/exec.call(")); i >= 0 {
		s = s[:bytes.LastIndexByte(s[:i], '\n')+1]
	}
	if len(s) > maxStack {
		s = append(s[:maxStack:maxStack], "..."...)
	}
	return bytes.TrimRight(s, "\n")
}
