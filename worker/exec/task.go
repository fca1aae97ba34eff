package exec

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// work is what a function can find out, and leaves behind, by its context.
type work struct {
	context.Context
	attempt Attempt
	began   time.Time

	progress progress

	mu      sync.Mutex
	over    bool
	outputs []*output
	rides   int // bytes of those that travel with the result
	held    []func()
}

type workKey struct{}

// Value implements context.Context.
func (w *work) Value(key any) any {
	if key == (workKey{}) {
		return w
	}
	return w.Context.Value(key)
}

// workOf is that of a function's context; without one, nothing is known.
func workOf(ctx context.Context) *work {
	if w, ok := ctx.Value(workKey{}).(*work); ok {
		return w
	}
	return &work{Context: context.Background()}
}

// conclude ends what the function left open, and adds what it leaves to its result.
func (w *work) conclude(res Result) Result {
	w.mu.Lock()
	w.over = true
	outputs, held := w.outputs, w.held
	w.mu.Unlock()
	for _, release := range held {
		release()
	}
	for _, o := range outputs {
		switch err := o.end(res.Status == Succeeded); {
		case err != nil:
			res.fail(err)
		case res.Status == Succeeded && o.isResult() && len(res.Output)+len(res.Passed) > 0:
			res.fail(errors.New("the function wrote its result, and returned another one"))
		}
	}
	if res.Status != Succeeded {
		return res
	}
	for _, o := range outputs {
		res.add(o)
	}
	slices.SortFunc(res.Passed, func(a, b probe.Output) int { return cmp.Compare(a.Partition, b.Partition) })
	return res
}

// Info is what a function may know of its task.
type Info struct {
	Job         string // its id
	Stage       string // "": the job has none
	Index       int    // in the job
	Partition   int    // in the stage
	Attempt     int    // from 1
	Tenant      string
	Worker      string    // where it runs
	CPU         int       // millicores that it may use: 1000 is one core
	Memory      int       // MiB that it may use
	Deadline    time.Time // of the job; zero: none
	Traceparent string    // of the job's span, as W3C's trace context has it; "": it is not traced
}

// Task tells a function of its task, from the context that it got.
func Task(ctx context.Context) Info {
	w := workOf(ctx)
	t := &w.attempt
	info := Info{
		Job: t.Job.String(), Index: int(t.Index), Attempt: 1, Tenant: t.Tenant, Worker: t.Worker,
		CPU: int(t.Demand.CPU), Memory: int(t.Demand.Mem),
	}
	if t.Deadline > 0 {
		info.Deadline = w.began.Add(t.Deadline)
	}
	if c := t.Context; c != nil {
		info.Stage, info.Partition, info.Traceparent = c.Stage, int(c.Partition), c.Trace
		info.Attempt = max(int(c.Attempt), 1)
	}
	return info
}

// Common is the payload that the tasks of a function's stage have in common. It is for reading only.
func Common(ctx context.Context) []byte { return workOf(ctx).attempt.Common }

// Files returns the absolute paths of the files that a task needs, in the order in which the task names them, from the
// context that its function got. They are for reading only, and there until the function returns; the slice is not to
// be changed.
func Files(ctx context.Context) []string { return workOf(ctx).attempt.Files }

// Progress says which share of its work a function has done, from 0 to 1: with the context that it got, as often as it likes. By that it
// is known how much longer the task takes, where others can count on its room, and whether it had better be started a second time
// elsewhere. What is less than was said before counts for nothing.
func Progress(ctx context.Context, done float64) { workOf(ctx).progress.say(done) }

// progress is what a task has said of how far it is.
type progress struct {
	mu   sync.Mutex
	done float64
	at   time.Duration // since began
}

func (p *progress) say(done float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if done > p.done {
		p.done, p.at = min(done, 1), time.Since(began)
	}
}

func (p *progress) last() (done float64, ago time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done, time.Since(began) - p.at
}
