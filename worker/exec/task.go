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

// taskContext is the context of a function: it answers the function's questions, and collects its outputs.
type taskContext struct {
	context.Context
	attempt   Attempt
	startedAt time.Time

	progress progress

	mu          sync.Mutex
	ended       bool
	outputs     []*output
	inlineBytes int // bytes of the outputs that travel with the result
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

// taskContextOf returns the taskContext inside ctx, or an empty taskContext if ctx belongs to no task.
func taskContextOf(ctx context.Context) *taskContext {
	if w, ok := ctx.Value(taskContextKey{}).(*taskContext); ok {
		return w
	}
	return &taskContext{Context: context.Background()}
}

// concludeTask releases the input files of the task, ends its outputs, and adds the outputs to res. An output that
// failed or stayed open makes the task fail.
func (w *taskContext) concludeTask(res Result) Result {
	w.mu.Lock()
	w.ended = true
	outputs, releases := w.outputs, w.releases
	w.mu.Unlock()
	for _, release := range releases {
		release()
	}
	for _, o := range outputs {
		if res.Status == Failed { // probably because of o, whatever error the function returned
			res.noteDisk(&w.attempt, o.err)
		}
		switch err := o.endOutput(res.Status == Succeeded); {
		case err != nil:
			res.setFailure(err)
			res.noteDisk(&w.attempt, err)
		case res.Status == Succeeded && o.isResult() && len(res.Output)+len(res.Passed) > 0:
			res.setFailure(errors.New("the function wrote its result, and returned another result"))
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

// Info describes a task to its function.
type Info struct {
	Job         string // its id
	Stage       string // "": the job has no stages
	Index       int    // in the job
	Partition   int    // in the stage
	Attempt     int    // from 1
	Tenant      string
	Worker      string    // name of the worker that runs the task
	CPU         int       // millicores available to the task: 1000 is one core
	Memory      int       // MiB available to the task
	Deadline    time.Time // of the job; zero: none
	Traceparent string    // of the job's span, in the form of W3C Trace Context; "": no trace
}

// Task returns the Info of the task that ctx belongs to.
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

// Common returns the payload common to all tasks of the stage. Read-only.
func Common(ctx context.Context) []byte { return taskContextOf(ctx).attempt.Common }

// Files returns the absolute paths of the task's files, in the order of the task's list. The files are read-only
// and stay until the function returns. The caller must not change the slice.
func Files(ctx context.Context) []string { return taskContextOf(ctx).attempt.Files }

// Progress reports the share of the work done so far, from 0 to 1. A function may call Progress as often as it
// likes, with its own context. From the reports the scheduler predicts how much longer the task runs, when its room
// becomes free, and whether a second attempt elsewhere would pay. A share below an earlier report is ignored.
//
// The worker also watches the CPU time of processes. A Go function shares the worker's process, and nobody can tell the
// CPU time of the function. So only Progress shows that a Go function stands still.
func Progress(ctx context.Context, done float64) { taskContextOf(ctx).progress.noteDone(done) }

// progress is the last progress report of a task.
type progress struct {
	mu         sync.Mutex
	done       float64
	reportedAt time.Duration // since clockStart
}

// noteDone notes a progress report, unless an earlier report was as high. More than 1 counts as 1.
func (p *progress) noteDone(done float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if done > p.done {
		p.done, p.reportedAt = min(done, 1), time.Since(clockStart)
	}
}

// lastReport returns the last report and its age.
func (p *progress) lastReport() (done float64, ago time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done, time.Since(clockStart) - p.reportedAt
}
