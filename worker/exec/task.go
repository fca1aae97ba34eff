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

// taskContext is what a function can find out, and leaves behind, by its context.
type taskContext struct {
	context.Context
	attempt   Attempt
	startedAt time.Time

	progress progress

	mu          sync.Mutex
	ended       bool
	outputs     []*output
	inlineBytes int // bytes of those that travel with the result
	releases    []func()
}

type taskContextKey struct{}

// Value implements context.Context.
func (w *taskContext) Value(key any) any {
	if key == (taskContextKey{}) {
		return w
	}
	return w.Context.Value(key)
}

// taskContextOf is that of a function's context; without one, nothing is known.
func taskContextOf(ctx context.Context) *taskContext {
	if w, ok := ctx.Value(taskContextKey{}).(*taskContext); ok {
		return w
	}
	return &taskContext{Context: context.Background()}
}

// concludeTask ends what the function left open, and adds what it leaves to its result.
func (w *taskContext) concludeTask(res Result) Result {
	w.mu.Lock()
	w.ended = true
	outputs, releases := w.outputs, w.releases
	w.mu.Unlock()
	for _, release := range releases {
		release()
	}
	for _, o := range outputs {
		switch err := o.endOutput(res.Status == Succeeded); {
		case err != nil:
			res.setFailure(err)
		case res.Status == Succeeded && o.isResult() && len(res.Output)+len(res.Passed) > 0:
			res.setFailure(errors.New("the function wrote its result, and returned another one"))
		}
	}
	if res.Status != Succeeded {
		return res
	}
	for _, o := range outputs {
		res.addOutput(o)
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
	w := taskContextOf(ctx)
	t := &w.attempt
	info := Info{
		Job: t.Job.String(), Index: int(t.Index), Attempt: 1, Tenant: t.Tenant, Worker: t.Worker,
		CPU: int(t.Demand.CPU), Memory: int(t.Demand.Mem),
	}
	if t.Deadline > 0 {
		info.Deadline = w.startedAt.Add(t.Deadline)
	}
	if c := t.Context; c != nil {
		info.Stage, info.Partition, info.Traceparent = c.Stage, int(c.Partition), c.Trace
		info.Attempt = max(int(c.Attempt), 1)
	}
	return info
}

// Common is the payload that the tasks of a function's stage have in common. It is for reading only.
func Common(ctx context.Context) []byte { return taskContextOf(ctx).attempt.Common }

// Files returns the absolute paths of the files that a task needs, in the order in which the task names them, from the
// context that its function got. They are for reading only, and there until the function returns; the slice is not to
// be changed.
func Files(ctx context.Context) []string { return taskContextOf(ctx).attempt.Files }

// Progress says which share of its work a function has done, from 0 to 1: with the context that it got, as often as it likes. By that it
// is known how much longer the task takes, where others can count on its room, and whether it had better be started a second time
// elsewhere. What is less than was said before counts for nothing.
func Progress(ctx context.Context, done float64) { taskContextOf(ctx).progress.noteDone(done) }

// progress is what a task has said of how far it is.
type progress struct {
	mu         sync.Mutex
	done       float64
	reportedAt time.Duration // since began
}

func (p *progress) noteDone(done float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if done > p.done {
		p.done, p.reportedAt = min(done, 1), time.Since(clockStart)
	}
}

func (p *progress) lastReport() (done float64, ago time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done, time.Since(clockStart) - p.reportedAt
}
