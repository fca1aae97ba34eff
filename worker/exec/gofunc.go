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

func (g *goRun) Kill(reason string) { g.cancel(killedError(reason)) }

// startFunc uses a new goroutine for each task: handing it to one that waits on a channel was measured
// slower.
func (p *Pool) startFunc(f Func, t *Attempt, done func(Result)) (Running, Result, bool) {
	w := newTaskContext(t)
	ctx, cancel := withTimeLimit(w, t)
	g := &goRun{taskCtx: w, cancel: cancel}
	run := func() {
		res := Result{Status: Panicked, Err: "the function called runtime.Goexit"}
		defer func() { // deferred for that case
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

// clockStart is what run times are measured from: time.Now would read the wall clock, too.
var clockStart = time.Now()

// ignoredKillAfter is after how long a function that was killed is taken to go on: some that end at once say that all is well.
const ignoredKillAfter = 100 * time.Millisecond

// runGuarded runs f and makes a Result of whatever it does. The end of ctx before f returned outranks what f returned, unless it was
// killed, went on, and came to a good end: if it was stopped for others only, it would else run for as long again and again, in vain.
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
	case t.MaxResult > 0 && len(out) > t.MaxResult && !t.mayReturnFile():
		res.Status, res.Err = TooLarge, tooLarge(fmt.Sprintf("%d bytes", len(out)), t.MaxResult)
	case t.MaxResult > 0 && len(out) > t.MaxResult:
		o := newResult(t)
		o.Write(out) // what goes wrong, its end says
		o.Close()
		res.setResult(o)
	default:
		res.Output = out
	}
	return res
}

// call also returns what f panicked with, and where.
func call(ctx context.Context, f Func, payload []byte) (out []byte, panicked string, err error) {
	defer func() {
		if v := recover(); v != nil {
			panicked = fmt.Sprintf("panic: %v\n%s", v, trimStack(debug.Stack()))
		}
	}()
	out, err = f(ctx, payload)
	return out, "", err
}

// maxStack keeps a panic's report small enough to read.
const maxStack = 4 << 10

// trimStack cuts what debug.Stack says in a deferred call down to the frames of the function: below
// the call of panic, above our own call.
func trimStack(s []byte) []byte {
	if i := bytes.Index(s, []byte("\npanic(")); i >= 0 {
		s = s[i+1:]
		for range 2 { // panic(...) and its position
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
