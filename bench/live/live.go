// Package live drives a real cluster, embedded or running elsewhere, with an open loop of jobs, and records
// what comes of it.
package live

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
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
	// Connect are the frontends of a running cluster. If there are none, clusters of so many parts are started: each
	// measurement has one of its own.
	Connect                   []string
	Secret                    string
	TLSDir                    string // keys of all parts; "": in plain
	Plain                     bool   // with TLSDir, clusters that are started are measured without it, too, in turns
	Frontends, Workers, Slots int    // Slots are those of each worker

	Embedded  bool   // measure a cluster within this process
	Processes string // the program phoebe, to measure frontends and workers that are processes of it, too; "": do not

	Policies    []string
	Loads       []float64
	ProbeRatio  float64
	TasksPerJob int
	Durations   bench.Spec
	Estimates   bool                // jobs tell how long their tasks will run
	Trace       *bench.TraceOptions // instead of TasksPerJob and Durations; its Slots are filled in

	Warmup, For time.Duration
	Repeat      int    // how often everything is measured
	Seed        uint64 // of the first repeat; the others have the ones that follow
}

// Validate says all that is wrong with o.
func (o *Options) Validate() error {
	var errs []error
	for _, p := range o.Policies {
		if _, err := frontend.ParsePolicy(p); err != nil {
			errs = append(errs, err)
		}
	}
	if len(o.Connect) == 0 && !o.Embedded && o.Processes == "" {
		errs = append(errs, errors.New("nothing to measure: neither an embedded cluster nor processes"))
	}
	if o.Repeat < 1 {
		errs = append(errs, fmt.Errorf("%d repeats: give 1 or more", o.Repeat))
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

// clusters are those that are measured.
func (o *Options) clusters() []string {
	if len(o.Connect) > 0 {
		return []string{bench.Running}
	}
	var kinds, names []string
	if o.Embedded {
		kinds = append(kinds, bench.Embedded)
	}
	if o.Processes != "" {
		kinds = append(kinds, bench.Processes)
	}
	for _, kind := range kinds {
		if o.TLSDir == "" || o.Plain {
			names = append(names, kind)
		}
		if o.TLSDir != "" {
			names = append(names, kind+bench.ByTLS)
		}
	}
	return names
}

// target is the cluster that is driven.
type target struct {
	client    *client.Client
	parts     *processes // nil: none that this process has started
	slots     int
	closeFunc func() error
}

// open starts or connects to a cluster and waits until it is ready.
func (o *Options) open(ctx context.Context, cluster string) (*target, error) {
	t := &target{slots: o.Workers * o.Slots, closeFunc: func() error { return nil }}
	addrs := o.Connect
	kind, sealed := strings.CutSuffix(cluster, bench.ByTLS)
	tlsDir := ""
	if sealed || kind == bench.Running {
		tlsDir = o.TLSDir
	}
	switch kind {
	case bench.Embedded:
		c, err := local.Start(local.Config{Frontends: o.Frontends, Workers: o.Workers, Slots: o.Slots, Secret: o.Secret, TLSDir: tlsDir})
		if err != nil {
			return nil, err
		}
		t.closeFunc = c.Close
		addrs = c.Frontends()
	case bench.Processes:
		p, err := startProcesses(ctx, o, tlsDir)
		if err != nil {
			return nil, err
		}
		addrs, t.parts, t.closeFunc = p.frontends, p, p.close
	}
	var err error
	t.client, err = client.New(addrs, client.WithSecret(o.Secret), client.WithTLS(tlsDir), client.WithName("bench"), client.WithRefusalsFinal())
	if err != nil {
		return nil, errors.Join(err, t.closeFunc())
	}
	if cluster == bench.Running {
		st, err := t.client.Cluster(ctx)
		if err != nil {
			return nil, errors.Join(err, t.close())
		}
		t.slots = 0
		for _, w := range st.Workers {
			if w.State == "up" {
				t.slots += int(w.Capacity.CPU) / 1000
			}
		}
		if t.slots == 0 {
			return nil, errors.Join(fmt.Errorf("no worker is linked to %s: start one, or check that frontend's list of workers", st.Address), t.close())
		}
	}
	return t, nil
}

func (t *target) close() error { return errors.Join(t.client.Close(), t.closeFunc()) }

// settings describe the clusters.
func (o *Options) settings() []string {
	var lines []string
	for _, cluster := range o.clusters() {
		parts := fmt.Sprintf("%d frontends, %d workers of %d slots", o.Frontends, o.Workers, o.Slots)
		kind, sealed := strings.CutSuffix(cluster, bench.ByTLS)
		if sealed {
			parts += ", by mutual TLS"
		}
		switch kind {
		case bench.Embedded:
			lines = append(lines, "embedded: "+parts+", in one process with the load generator")
		case bench.Processes:
			lines = append(lines, "processes: "+parts+", each a process, beside the load generator's")
		default:
			lines = append(lines, fmt.Sprintf("running cluster at %s, whose CPU time counts as used by others if it is on this machine", strings.Join(o.Connect, ", ")))
		}
	}
	return lines
}

// rotated starts with another one in each repeat, so that none is always the first.
func rotated[T any](all []T, repeat int) []T {
	k := repeat % len(all)
	return slices.Concat(all[k:], all[:k])
}

// Run runs, in each repeat, every policy at every load on every cluster, one after the other, and returns what was
// measured until then if there is an error.
func Run(ctx context.Context, o Options, progress *bench.Progress) (*bench.Document, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	doc := &bench.Document{}
	doc.Meta.Settings = append(o.settings(), fmt.Sprintf("probe ratio %g; estimates %s; warm-up %v", o.ProbeRatio, map[bool]string{true: "exact", false: "none"}[o.Estimates], o.Warmup))
	if o.Trace != nil && len(o.Loads) == 0 {
		o.Loads = []float64{0} // as the trace has it
	}
	defer progress.Clear()
	begin := time.Now()
	for repeat := range o.Repeat {
		for _, load := range o.Loads {
			for _, policy := range rotated(o.Policies, repeat) {
				for _, cluster := range o.clusters() {
					opts := bench.RunOptions{
						Cluster: cluster, Policy: policy, Load: load, Repeat: repeat + 1, Seed: o.Seed + uint64(repeat), Started: time.Since(begin),
					}
					run, settings, err := o.once(ctx, opts, progress)
					if run.Jobs+run.Errors > 0 || err == nil {
						doc.Runs = append(doc.Runs, run)
					}
					if err != nil {
						return doc, err
					}
					for _, line := range settings {
						if !slices.Contains(doc.Meta.Settings, line) {
							doc.Meta.Settings = append(doc.Meta.Settings, line)
						}
					}
				}
			}
		}
	}
	return doc, nil
}

// once makes one run on a cluster of its own.
func (o *Options) once(ctx context.Context, opts bench.RunOptions, progress *bench.Progress) (run bench.Run, settings []string, err error) {
	t, err := o.open(ctx, opts.Cluster)
	if err != nil {
		return run, nil, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	var jobs []bench.Job
	var span time.Duration
	if opts.Workload, jobs, span, settings, err = o.workload(opts.Load, opts.Seed, t.slots); err != nil {
		return run, nil, err
	}
	if opts.Load == 0 {
		opts.Load = bench.Offered(jobs, t.slots, span)
	}
	opts.Slots, opts.Warmup, opts.For = t.slots, o.Warmup, span-o.Warmup
	meter := bench.NewCPUMeter(t.parts.pids()...)
	run, err = t.drive(ctx, o, opts, jobs, progress)
	run.CPU = meter.Use()
	return run, settings, err
}

// workload makes the jobs of one load.
func (o *Options) workload(load float64, seed uint64, slots int) (name string, jobs []bench.Job, span time.Duration, settings []string, err error) {
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
	seq, err := bench.Poisson(seed, load, slots, o.TasksPerJob, o.Durations, span)
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
			progress.Set("%d of %d: %s, %s, %s, load %.2f: %v of %v, %d jobs sent, %d under way", opts.Repeat, o.Repeat, opts.Cluster, opts.Policy, opts.Workload, opts.Load,
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
