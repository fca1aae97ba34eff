// Package live drives a real cluster, embedded or running elsewhere, with an open loop of jobs, and records
// what comes of it.
package live

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// Options choose what is run where. Every policy meets the same jobs at each load.
type Options struct {
	// Connect are the frontends of a running cluster. If there are none, one is embedded, of so many parts.
	Connect                   []string
	Secret                    string
	Frontends, Workers, Slots int // Slots are those of each worker

	Policies    []string
	Loads       []float64
	ProbeRatio  float64
	TasksPerJob int
	Durations   bench.Spec
	Estimates   bool                // jobs tell how long their tasks will run
	Trace       *bench.TraceOptions // instead of TasksPerJob and Durations; its Slots are filled in

	Warmup, For time.Duration
	Seed        uint64
}

// Validate says all that is wrong with o.
func (o *Options) Validate() error {
	var errs []error
	for _, p := range o.Policies {
		if _, err := frontend.ParsePolicy(p); err != nil {
			errs = append(errs, err)
		}
	}
	if len(o.Policies) == 0 || len(o.Loads) == 0 && o.Trace == nil {
		errs = append(errs, errors.New("name at least one policy and one load"))
	}
	if !(o.ProbeRatio >= 1 && o.ProbeRatio <= frontend.MaxProbeRatio) {
		errs = append(errs, fmt.Errorf("probe ratio %g: give 1 to %d reservations per task", o.ProbeRatio, frontend.MaxProbeRatio))
	}
	if o.For <= 0 && o.Trace == nil || o.Warmup < 0 {
		errs = append(errs, fmt.Errorf("a warm-up of %v and %v that count: the first may not be negative, the second must be above 0", o.Warmup, o.For))
	}
	return errors.Join(errs...)
}

// target is the cluster that is driven.
type target struct {
	client    *client.Client
	slots     int
	settings  []string
	closeFunc func() error
}

// open starts or connects to the cluster and waits until it is ready.
func (o *Options) open(ctx context.Context) (*target, error) {
	t := &target{closeFunc: func() error { return nil }}
	addrs := o.Connect
	if len(addrs) == 0 {
		c, err := local.Start(local.Config{Frontends: o.Frontends, Workers: o.Workers, Slots: o.Slots, Secret: o.Secret})
		if err != nil {
			return nil, err
		}
		t.closeFunc = c.Close
		if err := c.Await(ctx); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		addrs = c.Frontends()
		t.slots = o.Workers * o.Slots
		t.settings = append(t.settings, fmt.Sprintf("embedded cluster: %d frontends, %d workers of %d slots, one process with the load generator, GOMAXPROCS %d", o.Frontends, o.Workers, o.Slots, runtime.GOMAXPROCS(0)))
	}
	var err error
	t.client, err = client.New(addrs, client.WithSecret(o.Secret), client.WithName("bench"), client.WithRefusalsFinal())
	if err != nil {
		return nil, errors.Join(err, t.closeFunc())
	}
	if t.slots == 0 {
		st, err := t.client.Cluster(ctx)
		if err != nil {
			return nil, errors.Join(err, t.close())
		}
		for _, w := range st.Workers {
			if w.State == "up" {
				t.slots += int(w.Capacity.CPU) / 1000
			}
		}
		if t.slots == 0 {
			return nil, errors.Join(fmt.Errorf("no worker is linked to %s: start one, or check that frontend's list of workers", st.Address), t.close())
		}
		t.settings = append(t.settings, fmt.Sprintf("running cluster at %v: %d slots", addrs, t.slots))
	}
	return t, nil
}

func (t *target) close() error { return errors.Join(t.client.Close(), t.closeFunc()) }

// Run runs every policy at every load, one after the other, and returns what was measured. If ctx ends before, that
// is what was measured until then.
func Run(ctx context.Context, o Options, progress *bench.Progress) (*bench.Document, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	defer t.close()
	doc := &bench.Document{}
	doc.Meta.Settings = append(t.settings, fmt.Sprintf("probe ratio %g; estimates %s; warm-up %v", o.ProbeRatio, map[bool]string{true: "exact", false: "none"}[o.Estimates], o.Warmup))
	if o.Trace != nil && len(o.Loads) == 0 {
		o.Loads = []float64{0} // as the trace has it
	}
	for _, load := range o.Loads {
		workload, jobs, span, settings, err := o.workload(load, t.slots)
		if err != nil {
			return nil, err
		}
		doc.Meta.Settings = append(doc.Meta.Settings, settings...)
		if load == 0 {
			load = bench.Offered(jobs, t.slots, span)
		}
		for _, policy := range o.Policies {
			opts := bench.RunOptions{Policy: policy, Workload: workload, Load: load, Slots: t.slots, Warmup: o.Warmup, For: span - o.Warmup}
			run, err := t.drive(ctx, &o, opts, jobs, progress)
			if run.Jobs+run.Errors > 0 || err == nil {
				doc.Runs = append(doc.Runs, run)
			}
			if err != nil {
				return doc, err
			}
		}
	}
	return doc, nil
}

// workload makes the jobs of one load.
func (o *Options) workload(load float64, slots int) (name string, jobs []bench.Job, span time.Duration, settings []string, err error) {
	if o.Trace != nil {
		trace := *o.Trace
		trace.Slots, trace.Load = slots, load
		tr, err := bench.LoadTrace(trace)
		if err != nil {
			return "", nil, 0, nil, err
		}
		return trace.Name, tr.Jobs, tr.Span, tr.Settings, nil
	}
	span = o.Warmup + o.For
	seq, err := bench.Poisson(o.Seed, load, slots, o.TasksPerJob, o.Durations, span)
	if err != nil {
		return "", nil, 0, nil, err
	}
	return fmt.Sprintf("%d x %s", o.TasksPerJob, o.Durations), slices.Collect(seq), span, nil, nil
}

// straggle is how long after the last arrival jobs may still end.
const straggle = time.Minute

// drive sends the jobs at their times, whatever becomes of those before. If interrupted ends, it returns what was
// recorded until then.
func (t *target) drive(interrupted context.Context, o *Options, opts bench.RunOptions, jobs []bench.Job, progress *bench.Progress) (bench.Run, error) {
	alarm, err := exec.OpenAlarm()
	if err != nil {
		return bench.Run{}, err
	}
	defer alarm.Close()
	runtime.GC()

	ctx, cancel := context.WithCancel(interrupted)
	defer cancel()
	rec := bench.NewRecorder(opts)
	var running sync.WaitGroup
	var sent, done atomic.Int64
	begin := time.Now().Add(20 * time.Millisecond)
	allSent := make(chan struct{})
	endSending := sync.OnceFunc(func() { close(allSent) })
	var sending sync.Mutex // when it is free and ctx has ended, no more jobs are sent
	context.AfterFunc(ctx, func() {
		sending.Lock()
		defer sending.Unlock()
		endSending()
	})
	var arm func(i int)
	arm = func(i int) {
		if i == len(jobs) {
			endSending()
			return
		}
		alarm.At(begin.Add(jobs[i].At), func() {
			sending.Lock()
			defer sending.Unlock()
			if ctx.Err() != nil {
				return
			}
			sent.Add(1)
			running.Go(func() {
				defer done.Add(1)
				ended := t.one(ctx, o, opts.Policy, begin, &jobs[i], rec)
				if !ended.Failed || interrupted.Err() == nil {
					rec.Job(ended)
				}
			})
			arm(i + 1)
		})
	}
	arm(0)

	finished := make(chan struct{})
	go func() {
		<-allSent
		running.Wait()
		close(finished)
	}()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(opts.Warmup + opts.For + straggle)
	defer deadline.Stop()
	cut := interrupted.Done()
	for {
		select {
		case <-cut:
			cut = nil
			rec.Cut(time.Since(begin))
		case <-finished:
			progress.Clear()
			if cut != nil && interrupted.Err() != nil {
				rec.Cut(time.Since(begin))
			}
			return rec.Run(), interrupted.Err()
		case <-tick.C:
			progress.Set("%s, %s, load %.2f: %v of %v, %d jobs sent, %d under way", opts.Policy, opts.Workload, opts.Load,
				time.Since(begin).Round(time.Second), opts.Warmup+opts.For, sent.Load(), sent.Load()-done.Load())
		case <-deadline.C:
			cancel() // what is left counts as an error
		}
	}
}

// one runs one job, records its tasks and returns what became of it.
func (t *target) one(ctx context.Context, o *Options, policy string, begin time.Time, j *bench.Job, rec *bench.Recorder) bench.JobOutcome {
	tasks := make([]client.Task, len(j.Tasks))
	for i, d := range j.Tasks {
		tasks[i] = client.Task{Function: "sleep", Payload: []byte(d.String())}
		if o.Estimates {
			tasks[i].Estimate = d
		}
	}
	outs, err := t.client.Run(ctx, client.Job{Policy: client.Policy(policy), ProbeRatio: o.ProbeRatio, Tasks: tasks, Phases: true})
	response := time.Since(begin.Add(j.At))

	var refused *client.RefusedError
	if errors.As(err, &refused) {
		rec.Refused(j.At, refused.Reason.String())
	}
	ended := bench.JobOutcome{Index: j.Index, At: j.At, Tasks: len(tasks), Response: response, Failed: err != nil}
	for i := range outs {
		out := &outs[i]
		if out.Attempts > 0 {
			ended.Durations = append(ended.Durations, out.Run)
		}
		for range out.Attempts - 1 {
			rec.Retried(j.At)
		}
		if p := out.Phases; err == nil && p != nil {
			rec.Task(j.At, bench.PhaseTimesOf(bench.PhaseTimes{p.Sampled, p.Queued, p.Ready, p.Bound, p.Started, p.Finished, p.Delivered}))
		}
	}
	return ended
}
