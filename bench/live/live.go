// Package live drives a real cluster, embedded or running elsewhere, with an open loop of jobs, and records the
// outcomes.
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

// Options choose clusters, workloads and policies. Every policy meets the same jobs at each load.
type Options struct {
	// Connect are the frontends of a running cluster. Without Connect, each measurement starts a cluster of its
	// own, with the numbers of parts below.
	Connect []string
	// Against are two fleets of frontends, each by its addresses, on the same workers. The fleets get the same jobs
	// by turns.
	Against                   [][]string
	Secret                    string
	TLSDir                    string // keys of all parts; "": no TLS
	Plain                     bool   // with TLSDir: measure started clusters also without TLS, in turns
	Frontends, Workers, Slots int    // Slots per worker

	Embedded  bool   // measure a cluster within this process
	Processes string // the program phoebe, to measure frontends and workers in processes of their own; "": do not

	Policies    []string
	Loads       []float64
	ProbeRatio  float64
	TasksPerJob int
	Durations   bench.Spec
	Estimates   bool                // jobs tell the run times of their tasks
	Again       bool                // the client resubmits refused jobs as told; otherwise overload is an error
	Trace       *bench.TraceOptions // instead of TasksPerJob and Durations; Run fills in its Slots

	Warmup, For time.Duration
	Repeat      int    // number of times that everything is measured
	Seed        uint64 // of the first repeat; each further repeat adds 1
}

// Validate returns all problems of o, or nil.
func (o *Options) Validate() error {
	var errs []error
	for _, p := range o.Policies {
		if _, err := frontend.ParsePolicy(p); err != nil {
			errs = append(errs, err)
		}
	}
	if len(o.Connect) == 0 && !o.Embedded && o.Processes == "" {
		errs = append(errs,
			errors.New("nothing to measure: choose an embedded cluster, processes or a running cluster"))
	}
	if o.Repeat < 1 {
		errs = append(errs, fmt.Errorf("%d repeats: give 1 or more", o.Repeat))
	}
	if len(o.Policies) == 0 || len(o.Loads) == 0 && o.Trace == nil {
		errs = append(errs, errors.New("name at least one policy and one load"))
	}
	if !(o.ProbeRatio >= 1 && o.ProbeRatio <= frontend.MaxProbeRatio) {
		errs = append(errs, fmt.Errorf("probe ratio %g: give 1 to %d reservations per task", o.ProbeRatio,
			frontend.MaxProbeRatio))
	}
	if o.For <= 0 && o.Trace == nil || o.Warmup < 0 {
		errs = append(errs,
			fmt.Errorf("warm-up %v: must not be negative; measured time %v: must be above 0", o.Warmup, o.For))
	}
	return errors.Join(errs...)
}

// clusterNames returns the names of the clusters to measure.
func (o *Options) clusterNames() []string {
	if len(o.Against) > 0 {
		return []string{bench.FleetA}
	}
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

// UnreachableError says that a running cluster does not answer, or has no worker.
type UnreachableError struct{ Err error }

func (e *UnreachableError) Error() string { return e.Err.Error() }
func (e *UnreachableError) Unwrap() error { return e.Err }

// target is a driven cluster.
type target struct {
	client    *client.Client
	workers   []string   // of a running cluster: the workers linked to its frontends
	processes *processes // nil: no started processes
	slots     int
	policy    client.Policy // named by its jobs; "": the cluster was started with the policy
	closeFunc func() error
}

// openTarget starts a cluster with a policy, or connects to a running cluster, and waits until the cluster is
// ready.
func (o *Options) openTarget(ctx context.Context, cluster, policy string) (*target, error) {
	t := &target{slots: o.Workers * o.Slots, closeFunc: func() error { return nil }}
	addrs := o.Connect
	kind, sealed := strings.CutSuffix(cluster, bench.ByTLS)
	tlsDir := ""
	isRunning := len(o.Connect)+len(o.Against) > 0
	if sealed || isRunning {
		tlsDir = o.TLSDir
	}
	if isRunning {
		t.policy = client.Policy(policy)
	}
	switch kind {
	case bench.FleetA, bench.FleetB:
		addrs = o.Against[slices.Index(fleets, kind)]
	case bench.Embedded:
		c, err := local.Start(local.Config{Frontends: o.Frontends, Workers: o.Workers, Slots: o.Slots,
			Policy: policy, Secret: o.Secret, TLSDir: tlsDir})
		if err != nil {
			return nil, err
		}
		t.closeFunc = c.Close
		addrs = c.Frontends()
	case bench.Processes:
		p, err := startProcesses(ctx, o, policy, tlsDir)
		if err != nil {
			return nil, err
		}
		addrs, t.processes, t.closeFunc = p.frontends, p, p.close
	}
	var err error
	options := []client.Option{client.WithSecret(o.Secret), client.WithTLS(tlsDir), client.WithName("bench"),
		client.WithRefusalHook(noteRefusal)}
	if !o.Again {
		options = append(options, client.WithRefusalsFinal())
	}
	t.client, err = client.New(addrs, options...)
	if err != nil {
		return nil, errors.Join(err, t.closeFunc())
	}
	if isRunning {
		workers, err := t.client.Workers(ctx)
		if err != nil {
			return nil, &UnreachableError{errors.Join(err, t.close())}
		}
		t.slots = 0
		for _, w := range workers {
			if w.State == "up" {
				t.slots += int(w.Capacity.CPU) / 1000
				t.workers = append(t.workers, w.Name)
			}
		}
		if t.slots == 0 {
			return nil, &UnreachableError{errors.Join(
				fmt.Errorf("no worker is linked to %s: start a worker, or check the frontend's list of workers",
					strings.Join(addrs, ", ")), t.close())}
		}
	}
	return t, nil
}

var fleets = []string{bench.FleetA, bench.FleetB}

// openAll opens all targets of a run: a cluster, or two fleets of frontends.
func (o *Options) openAll(ctx context.Context, cluster, policy string) (all []*target, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(all))
		}
	}()
	names := []string{cluster}
	if len(o.Against) > 0 {
		names = fleets
	}
	for _, name := range names {
		t, err := o.openTarget(ctx, name, policy)
		if err != nil {
			return all, err
		}
		all = append(all, t)
		slices.Sort(t.workers)
		if first := all[0]; !slices.Equal(t.workers, first.workers) {
			return all, fmt.Errorf("%s is linked to the workers %v, %s to %v: they must be the same", fleets[0],
				first.workers, name, t.workers)
		}
	}
	return all, nil
}

func closeAll(all []*target) error {
	var errs []error
	for _, t := range all {
		errs = append(errs, t.close())
	}
	return errors.Join(errs...)
}

func (t *target) close() error { return errors.Join(t.client.Close(), t.closeFunc()) }

// describeClusters describes the clusters, a line each.
func (o *Options) describeClusters() []string {
	var lines []string
	for i, addrs := range o.Against {
		lines = append(lines, fmt.Sprintf("%s: frontends at %s", fleets[i], strings.Join(addrs, ", ")))
	}
	if len(lines) > 0 {
		return append(lines, "each has half of the jobs, and so have its ideal and omniscient")
	}
	for _, cluster := range o.clusterNames() {
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
			lines = append(lines,
				fmt.Sprintf("running cluster at %s: on this machine, its CPU time counts as used by others",
					strings.Join(o.Connect, ", ")))
		}
	}
	return lines
}

// rotatedBy returns all with a different first element in each repeat.
func rotatedBy[T any](all []T, repeat int) []T {
	k := repeat % len(all)
	return slices.Concat(all[k:], all[:k])
}

// Run measures every policy at every load on every cluster, one after another, and repeats all. After an error, Run
// also returns the measurements so far.
func Run(ctx context.Context, o Options, progress *bench.Progress) (*bench.Document, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	doc := &bench.Document{}
	doc.Meta.Settings = append(o.describeClusters(),
		fmt.Sprintf("probe ratio %g; estimates %s; refused jobs %s; warm-up %v", o.ProbeRatio,
			map[bool]string{true: "exact", false: "none"}[o.Estimates],
			map[bool]string{true: "come again", false: "are errors"}[o.Again], o.Warmup))
	if o.Trace != nil && len(o.Loads) == 0 {
		o.Loads = []float64{0} // the trace's own load
	}
	defer progress.Clear()
	begin := time.Now()
	for repeat := range o.Repeat {
		for _, load := range o.Loads {
			for _, policy := range rotatedBy(o.Policies, repeat) {
				for _, cluster := range o.clusterNames() {
					opts := bench.RunOptions{
						Cluster: cluster, Policy: policy, Load: load, Repeat: repeat + 1,
						Seed: o.Seed + uint64(repeat), Started: time.Since(begin),
					}
					recs, use, settings, err := o.runOnce(ctx, opts, progress)
					for _, rec := range recs {
						if run := rec.Run(); run.Jobs+run.Errors > 0 || err == nil {
							run.CPU = use
							doc.Runs = append(doc.Runs, run)
						}
					}
					if len(recs) > 1 {
						doc.Comparisons = append(doc.Comparisons, bench.Compare(recs[0], recs[1]))
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
	if o.checksIdle() {
		progress.Set("check: a short job beside a long task")
		line, err := o.checkIdle(ctx, o.clusterNames()[0], o.Policies[0])
		if err != nil {
			return doc, err
		}
		doc.Checks = append(doc.Checks, line)
	}
	return doc, nil
}

// runOnce makes a run on a cluster of its own. The result has a recorder for each target.
func (o *Options) runOnce(ctx context.Context, opts bench.RunOptions,
	progress *bench.Progress) (recs []*bench.Recorder, use bench.CPUUse, settings []string, err error) {
	all, err := o.openAll(ctx, opts.Cluster, opts.Policy)
	if err != nil {
		return nil, use, nil, err
	}
	defer func() { err = errors.Join(err, closeAll(all)) }()
	t := all[0]
	var jobs []bench.Job
	var span time.Duration
	if opts.Workload, jobs, span, settings, err = o.MakeJobs(opts.Load, opts.Seed, t.slots); err != nil {
		return nil, use, nil, err
	}
	if len(all) > 1 {
		for i := 1; i < len(jobs); i += 2 {
			jobs[i].Tasks = jobs[i-1].Tasks
		}
	}
	if opts.Load == 0 {
		opts.Load = bench.Offered(jobs, t.slots, span)
	}
	opts.Slots, opts.Warmup, opts.For = t.slots, o.Warmup, span-o.Warmup
	meter := bench.NewCPUMeter(t.processes.processIDs()...)
	recs, err = o.driveJobs(ctx, all, opts, jobs, progress)
	return recs, meter.Use(), settings, err
}

// targetIndex returns the target for job i. Of two targets, each gets a job of every pair, and they take turns at
// being first.
func targetIndex(i, targets int) int { return (i + i/2) % targets }

// maxTasks bounds the tasks of a run, because the outcomes of all tasks stay in memory.
const maxTasks = 10_000_000

// MakeJobs makes the jobs for a load on a number of slots. span is the time in which the jobs arrive.
func (o *Options) MakeJobs(load float64, seed uint64, slots int) (name string, jobs []bench.Job, span time.Duration,
	settings []string, err error) {
	if o.Trace != nil {
		trace := *o.Trace
		trace.Slots, trace.Load = slots, load
		tr, err := bench.LoadTrace(trace)
		if err != nil {
			return "", nil, 0, nil, err
		}
		if tr.Span <= o.Warmup {
			return "", nil, 0, nil, fmt.Errorf("a warm-up of %v leaves nothing of the replay of %v: "+
				"give a shorter warm-up, a longer span or a smaller speedup", o.Warmup, tr.Span.Round(time.Millisecond))
		}
		return trace.Name, tr.Jobs, tr.Span, tr.Settings, nil
	}
	span = o.Warmup + o.For
	if tasks := load * float64(slots) * float64(span) / float64(o.Durations.Mean()); tasks > maxTasks {
		return "", nil, 0, nil, fmt.Errorf("a load of %g for %v gives %.3g tasks, and a run has at most %d: "+
			"give a lower load, longer tasks or a shorter time", load, span, tasks, maxTasks)
	}
	seq, err := bench.Poisson(seed, load, slots, o.TasksPerJob, o.Durations, span)
	if err != nil {
		return "", nil, 0, nil, err
	}
	return fmt.Sprintf("%d x %s", o.TasksPerJob, o.Durations), slices.Collect(seq), span, nil, nil
}

// straggle is the time after the measured time in which jobs may still end.
const straggle = time.Minute

// driveJobs sends the jobs at their times, whatever happens to earlier jobs. Several targets take turns. If
// interrupted ends, driveJobs returns the recordings so far.
func (o *Options) driveJobs(interrupted context.Context, targets []*target, opts bench.RunOptions, jobs []bench.Job,
	progress *bench.Progress) (recs []*bench.Recorder, err error) {
	alarm, err := exec.OpenAlarm()
	if err != nil {
		return nil, err
	}
	defer alarm.Close()
	runtime.GC()

	ctx, cancel := context.WithCancel(interrupted)
	defer cancel()
	begin := time.Now().Add(20 * time.Millisecond)
	for i := range targets {
		if len(targets) > 1 {
			opts.Cluster = fleets[i]
		}
		recs = append(recs, bench.NewRecorder(opts))
	}
	cutAll := func() {
		for _, rec := range recs {
			rec.Cut(time.Since(begin))
		}
	}
	var running sync.WaitGroup
	var sent, done atomic.Int64
	allSent := make(chan struct{})
	endSending := sync.OnceFunc(func() { close(allSent) })
	var sending sync.Mutex // held while a job is sent; when ctx has ended and sending is free, no more jobs are sent
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
				k := targetIndex(i, len(targets))
				rec := recs[k]
				ended := targets[k].runJob(ctx, o, begin, &jobs[i], rec)
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
			cutAll()
		case <-finished:
			progress.Clear()
			if cut != nil && interrupted.Err() != nil {
				cutAll()
			}
			return recs, interrupted.Err()
		case <-tick.C:
			progress.Set("%d of %d: %s, %s, %s, load %.2f: %v of %v, %d jobs sent, %d under way", opts.Repeat,
				o.Repeat, opts.Cluster, opts.Policy, opts.Workload, opts.Load,
				time.Since(begin).Round(time.Second), opts.Warmup+opts.For, sent.Load(), sent.Load()-done.Load())
		case <-deadline.C:
			cancel() // unfinished jobs count as errors
		}
	}
}

// refusalKey is the key of a function in the context of a job. The function notes the reason of a refusal.
type refusalKey struct{}

// noteRefusal notes a refusal of a job that the client submits again.
func noteRefusal(ctx context.Context, refused *client.RefusedError) {
	if note, ok := ctx.Value(refusalKey{}).(func(reason string)); ok {
		note(refused.Reason.String())
	}
}

// runJob runs a job, records its tasks and returns the outcome.
func (t *target) runJob(ctx context.Context, o *Options, begin time.Time, j *bench.Job,
	rec *bench.Recorder) bench.JobOutcome {
	tasks := make([]client.Task, len(j.Tasks))
	for i, d := range j.Tasks {
		tasks[i] = client.Task{Function: "sleep", Payload: []byte(d.String())}
		if o.Estimates {
			tasks[i].Estimate = d
		}
	}
	ctx = context.WithValue(ctx, refusalKey{}, func(reason string) { rec.Refused(j.At, reason) })
	outs, err := t.client.Run(ctx, client.Job{Policy: t.policy, ProbeRatio: o.ProbeRatio, Tasks: tasks, Phases: true})
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
		recordAttempts(rec, j.At, out)
		if p := out.Phases; err == nil && p != nil {
			rec.Task(j.At, bench.PhaseTimesOf(bench.PhaseTimes{p.Sampled, p.Queued, p.Ready, p.Bound, p.Started,
				p.Finished, p.Delivered}))
		}
	}
	return ended
}

// recordAttempts records a task's copies and retries. at is the intended send time of the job.
func recordAttempts(rec *bench.Recorder, at time.Duration, out *client.Outcome) {
	rec.Copied(at, out.Copies)
	for _, cause := range out.Retried {
		rec.Retried(at, cause)
	}
	for range out.Attempts - 1 - out.Copies - len(out.Retried) {
		rec.Retried(at, "not told")
	}
}
