package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/bench/live"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

type benchCmd struct {
	What  string   `arg:"" optional:"" enum:"load,noop,compare" default:"load" help:"load: latency of sleeping tasks under an open loop of jobs. noop: round trip and throughput of jobs without work. compare: by how much two files of --json differ, figure by figure. Default ${default}."`
	Files []string `arg:"" optional:"" help:"For compare: the earlier and the later file."`

	Connect   []string `placeholder:"HOST:PORT" help:"Frontends of a running cluster to measure. Default: none, each run starts a cluster."`
	Against   []string `placeholder:"A,B" group:"load" help:"Compare two fleets of frontends on the same workers: the fleets get the same jobs in turns. A fleet is HOST:PORT; join several frontends with a plus. Default: none."`
	Embedded  bool     `default:"true" negatable:"" help:"Measure a cluster within this process. Default: yes."`
	Processes bool     `help:"Also measure a cluster of processes, in turns with the embedded cluster; --no-embedded leaves the embedded cluster out. Default: no."`
	TLS       bool     `name:"tls" help:"Also measure each cluster with TLS, in turns with the plain cluster; with --tls-dir only with TLS. Default: no."`
	Frontends int      `default:"2" placeholder:"N" help:"Frontends of a started cluster. Default ${default}."`
	Workers   int      `default:"10" placeholder:"N" help:"Workers of a started cluster. Default ${default}."`
	Slots     int      `default:"4" placeholder:"N" help:"Slots of each worker. Default ${default}."`

	Repeat *int           `placeholder:"N" help:"Measure everything N times, in turns, with another seed each time, and print medians with confidence intervals. Default: 1, noop 5."`
	Warmup *time.Duration `placeholder:"D" help:"Time at the start of each run, and of each figure of noop, that does not count. Default: 5s, noop 500ms."`
	For    *time.Duration `placeholder:"D" help:"Time after the warm-up that counts. Default: 30s, noop 3s."`

	Policy       []string  `default:"${policy}" placeholder:"NAME" help:"Policies to compare, one run each: ${policies}. In started clusters, suffixes turn parts of a late-binding policy off (phoebe-overlap) or on (late-binding+ridealong). Default ${default}."`
	ProbeRatio   float64   `default:"2" placeholder:"N" help:"Reservations (places in workers' queues) for each task, 1 to 10. Default ${default}."`
	Load         []float64 `default:"0.8" placeholder:"N" group:"load" help:"Shares of the slots that the jobs keep busy, one run each. Above 1 is overload. 0, with --trace only, is the load of the trace. Default ${default}."`
	TasksPerJob  int       `default:"10" placeholder:"N" group:"load" help:"Tasks of each job. Default ${default}."`
	TaskDuration string    `default:"fixed:10ms" placeholder:"LAW" group:"load" help:"How long tasks sleep: fixed:D, job-exp:D (one exponential draw for each job), task-exp:D (for each task), mix:90%5ms,10%200ms, pareto:ALPHA,D or lognormal:SIGMA,D (D is the mean). Default ${default}."`
	Estimates    bool      `group:"load" help:"Jobs tell how long their tasks will run. Default: no."`
	Again        bool      `group:"load" help:"Submit jobs refused as overload again, as clients do by default. Their response counts from the first intended send time. Default: a refused job is an error."`
	Seed         uint64    `default:"1" placeholder:"N" group:"load" help:"Seed of arrivals and durations in the first repeat; further repeats take the seeds that follow. Every policy meets the same jobs. Default ${default}."`

	Simulate bool `group:"load" help:"Also simulate the same jobs, with the measured delay of messages, and print how far the simulator is off. Default: no."`

	Trace          string        `placeholder:"FILE" group:"load" help:"Replay jobs of this CSV file, plain or gzipped, instead. Its columns: trace, job, submit_ms, input_bytes, shuffle_bytes, output_bytes, input_path. Default: none."`
	TraceName      string        `default:"fb2010-0" placeholder:"NAME" group:"load" help:"Which trace of the file. Default ${default}."`
	From           time.Duration `default:"10h" placeholder:"D" group:"load" help:"Where in the trace the replay begins. Default ${default}."`
	Span           time.Duration `default:"1h" placeholder:"D" group:"load" help:"How much of the trace to replay. Default ${default}."`
	Speedup        float64       `default:"60" placeholder:"N" group:"load" help:"Divide submit times and durations by N. Default ${default}."`
	TraceSetting   string        `default:"hadoop" enum:"hadoop,in-memory" group:"load" help:"How bytes become tasks: ${enum}. Default ${default}."`
	TraceMaxTasks  int           `default:"100" placeholder:"N" group:"load" help:"Most maps, and most reduces, of a job; the rest are left out. Default ${default}."`
	TraceVariation float64       `placeholder:"N" group:"load" help:"Spread of durations within a job: sigma of a log-normal factor, 0 to 5. Default 0."`

	JSON jsonFile `name:"json" placeholder:"FILE" help:"Write all measurements as JSON to this file. ${jsonFile}"`
	HTML string   `name:"html" placeholder:"FILE" help:"Write a report with plots to this file. Default: none."`

	secretFlags
}

// Help returns the text below the usage line.
func (c *benchCmd) Help() string {
	return `Jobs arrive as a Poisson process or as in a trace, and do not wait for earlier jobs.
Response times count from the intended send time. For comparison the table has the ideal (a job's
longest task on an empty cluster) and the omniscient response (one queue with exact knowledge and no
delay, for the same jobs).

With --repeat, the table has the median of each figure. "from" and "to" bound its confidence
interval, computed from order statistics without an assumed distribution. A warning names runs
during which other programs used the machine.

  phoebe bench --load 0.5,0.8 --policy phoebe,late-binding --task-duration mix:90%5ms,10%200ms
  phoebe bench --trace jobs.csv.gz --speedup 60 --load 0.8
  phoebe bench --against 10.0.0.1:7410,10.0.0.2:7410 --load 0.6
  phoebe bench --repeat 9 --for 10s --html report.html
  phoebe bench noop --processes
  phoebe bench --repeat 5 --json a.json; phoebe bench compare a.json b.json

compare divides each figure of the second file by the same figure of the first, with bounds of 95 %
confidence from Mann and Whitney's test. Each file needs four repeats.

In the JSON, names end in their units: _ms, _us, _s, _per_s; _cpus are CPUs, _share is from 0 to 1.
All names: go doc github.com/phoebe-sched/phoebe/bench

Exit codes: 0 measured, 1 failed, 2 wrong usage, 3 the running cluster does not answer or has no
worker, 130 interrupted.`
}

// Run measures, and prints a table.
func (c *benchCmd) Run(ctx context.Context, line *kong.Context, out *streams) error {
	if c.What == "compare" {
		return c.compareFiles(line, out.out)
	}
	o, err := c.parseOptions(line)
	if err != nil {
		return usageError(err)
	}
	secrets, err := c.openSecrets()
	if err != nil {
		return err
	}
	o.Secret = secrets.Tell()
	if o.TLSDir = c.TLSDir; c.TLS {
		dir, err := os.MkdirTemp("", "phoebe-bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		keys, err := makeKeys(dir, 24*time.Hour, "frontend+worker+operator")
		if err != nil {
			return err
		}
		o.TLSDir, o.Plain = keys[0], true
	}
	// Fail before the run, which takes minutes, if a report cannot be written.
	write, text, err := createReports(out.out, jsonReport(c.JSON, bench.WriteJSON),
		report[*bench.Document]{"html", c.HTML, bench.WriteHTML})
	if err != nil {
		return err
	}
	wserve.RaiseFileLimit(65_536)
	meta := bench.NewMeta(append([]string{"phoebe"}, line.Args...), o.Seed, time.Now())
	meta.Watch(ctx)
	if load := meta.CPUBefore.Busy(meta.Machine.CPUs); load != "" && len(c.Connect)+len(c.Against) == 0 {
		fmt.Fprintf(out.err, "phoebe: warning: just now %s: figures will be worse\n", load)
	}
	measure := live.Run
	if c.What == "noop" {
		measure = live.Noop
	}
	doc, err := measure(ctx, o, bench.NewProgress(os.Stderr))
	if err == nil && c.Simulate {
		err = simulateRuns(ctx, &o, doc.Runs)
	}
	if err != nil {
		if wrong := (*local.ConfigError)(nil); errors.As(err, &wrong) {
			return usageError(wrong.Err)
		}
		if errors.As(err, new(*live.UnreachableError)) {
			return &exitError{exitUnavailable, err}
		}
		if exit := interruptionExit(ctx); exit != nil {
			err = exit
		}
		if doc == nil || len(doc.Runs)+len(doc.NoopRuns) == 0 {
			return err
		}
		doc.CutShort = err.Error()
	}
	meta.Settings, meta.LoadAfter = doc.Meta.Settings, bench.LoadAverage()
	doc.Meta = meta
	return errors.Join(bench.WriteTable(text, doc), write(doc), err)
}

// compareFiles prints how the later of two files of --json differs from the earlier.
func (c *benchCmd) compareFiles(line *kong.Context, w io.Writer) error {
	for _, p := range line.Path {
		if p.Flag != nil && !p.Resolved && slices.Contains(line.Selected().Flags, p.Flag) {
			return usageError(fmt.Errorf("--%s has no meaning for phoebe bench compare", p.Flag.Name))
		}
	}
	if len(c.Files) != 2 {
		return usageError(fmt.Errorf("%d files: name the earlier and the later file of --json, in this order",
			len(c.Files)))
	}
	var docs [2]bench.Document
	for i, name := range c.Files {
		text, err := os.ReadFile(name)
		if err != nil {
			return usageError(err)
		}
		if err := json.Unmarshal(text, &docs[i]); err != nil {
			return usageError(fmt.Errorf("%s: %w: give a file of phoebe bench --json", name, err))
		}
	}
	changes, unpaired := bench.CompareDocuments(&docs[0], &docs[1])
	return bench.WriteChanges(w, &docs[0], &docs[1], changes, unpaired)
}

// Flags for jobs of a trace only, and for drawn jobs only.
var (
	traceFlags = []string{"trace-name", "from", "span", "speedup", "trace-setting", "trace-max-tasks",
		"trace-variation"}
	drawnFlags = []string{"for", "tasks-per-job", "task-duration", "seed"}
)

// parseOptions returns the options of the measurement. Unset flags get the defaults of load or noop. line tells
// which flags were given.
func (c *benchCmd) parseOptions(line *kong.Context) (live.Options, error) {
	if len(c.Files) > 0 {
		return live.Options{}, fmt.Errorf("%q: only phoebe bench compare takes files", c.Files)
	}
	o := live.Options{
		Connect: c.Connect, Frontends: c.Frontends, Workers: c.Workers, Slots: c.Slots, Policies: c.Policy,
		Loads:      c.Load,
		ProbeRatio: c.ProbeRatio, TasksPerJob: c.TasksPerJob, Estimates: c.Estimates, Again: c.Again,
		Warmup: 5 * time.Second, For: 30 * time.Second,
		Embedded: c.Embedded, Repeat: 1, Seed: c.Seed,
	}
	if c.What == "noop" {
		o.Warmup, o.For, o.Repeat = 500*time.Millisecond, 3*time.Second, 5
	}
	if c.Warmup != nil {
		o.Warmup = *c.Warmup
	}
	if c.For != nil {
		o.For = *c.For
	}
	if c.Repeat != nil {
		o.Repeat = *c.Repeat
	}
	var err error
	if c.Processes {
		if o.Processes, err = os.Executable(); err != nil {
			return o, err
		}
	}
	if o.Durations, err = bench.ParseDurations(c.TaskDuration); err != nil {
		return o, fmt.Errorf("--task-duration: %w", err)
	}
	for _, p := range line.Path {
		if p.Flag == nil || p.Resolved {
			continue
		}
		name := p.Flag.Name
		switch {
		case p.Flag.Group != nil && p.Flag.Group.Key == "load" && c.What != "load":
			return o, fmt.Errorf("--%s has no meaning for phoebe bench %s", name, c.What)
		case c.Trace != "" && slices.Contains(drawnFlags, name):
			return o, fmt.Errorf("--%s has no meaning for --trace: --span and --speedup choose the jobs", name)
		case c.Trace == "" && slices.Contains(traceFlags, name):
			return o, fmt.Errorf("--%s has no meaning without --trace", name)
		}
	}
	if c.What == "noop" && len(c.Policy) > 1 {
		return o, fmt.Errorf("--policy %s: noop measures one policy", strings.Join(c.Policy, ","))
	}
	if c.Frontends < 1 || c.Workers < 1 || c.Slots < 1 {
		return o, errors.New("--frontends, --workers and --slots must be 1 or more")
	}
	if c.TLS && (c.TLSDir != "" || len(c.Connect) > 0) {
		return o, errors.New("--tls starts a cluster with new certificates: leave out --tls-dir and --connect")
	}
	if len(c.Against) > 0 {
		if len(c.Against) != 2 {
			return o, fmt.Errorf("--against %s: want two fleets, such as 10.0.0.1:7410+10.0.0.2:7410,10.0.0.3:7410",
				strings.Join(c.Against, ","))
		}
		if len(c.Connect) > 0 || c.Processes || c.TLS || c.Simulate {
			return o, errors.New(
				"--against measures two running fleets: leave out --connect, --processes, --tls and --simulate")
		}
		for _, fleet := range c.Against {
			o.Against = append(o.Against, strings.Split(fleet, "+"))
		}
	}
	if len(c.Connect) > 0 && c.Processes {
		return o, errors.New(
			"--connect measures a running cluster, --processes starts a cluster: leave out --connect or --processes")
	}
	if c.Simulate && (c.Trace != "" || len(c.Connect) > 0) {
		return o, errors.New("--simulate needs a started cluster and drawn jobs: leave out --connect and --trace")
	}
	if c.Trace != "" {
		setting, err := bench.ParseTraceSetting(c.TraceSetting)
		if err != nil {
			return o, err
		}
		o.Trace = &bench.TraceOptions{
			Path: c.Trace, Name: c.TraceName, Setting: setting, From: c.From, Span: c.Span, Speedup: c.Speedup,
			MaxTasks: c.TraceMaxTasks, Variation: c.TraceVariation,
		}
	}
	return o, errors.Join(o.Validate(), c.checkOptions(&o))
}

// checkOptions reports problems before anything starts: addresses, the trace and the load.
func (c *benchCmd) checkOptions(o *live.Options) error {
	var errs []error
	for _, addr := range slices.Concat(append(o.Against, c.Connect)...) {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			errs = append(errs, fmt.Errorf("--connect or --against %q: want host:port", addr))
		}
	}
	slots := o.Workers * o.Slots
	if len(o.Connect)+len(o.Against) > 0 {
		slots = 1 // more, as the run finds out
	}
	for _, load := range o.Loads {
		_, _, _, _, err := o.MakeJobs(load, o.Seed, slots)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
