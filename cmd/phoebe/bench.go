package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/bench/live"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

type benchCmd struct {
	What string `arg:"" optional:"" enum:"load,noop" default:"load" help:"load: latency of sleeping tasks under an open loop of jobs. noop: round trip and throughput of jobs that do nothing. Default ${default}."`

	Connect   []string `placeholder:"HOST:PORT" help:"Frontends of a running cluster. Default: none, a cluster is embedded."`
	Frontends int      `default:"2" placeholder:"N" help:"Frontends of the embedded cluster. Default ${default}."`
	Workers   int      `default:"10" placeholder:"N" help:"Its workers. Default ${default}."`
	Slots     int      `default:"4" placeholder:"N" help:"Slots of each of them. Default ${default}."`

	Policy       []string      `default:"${policy}" placeholder:"NAME" help:"Policies to compare, one run each: ${policies}. Default ${default}."`
	ProbeRatio   float64       `default:"2" placeholder:"N" help:"Reservations sent for each task, 1 to 10. Default ${default}."`
	Load         []float64     `default:"0.8" placeholder:"N" group:"load" help:"Shares of the slots that the jobs keep busy, one run each; above 1 is overload, 0 a trace's own. Default ${default}."`
	TasksPerJob  int           `default:"10" placeholder:"N" group:"load" help:"Tasks of each job. Default ${default}."`
	TaskDuration string        `default:"fixed:10ms" placeholder:"LAW" group:"load" help:"How long tasks sleep: fixed:D, job-exp:D (one exponential draw for each job), task-exp:D (for each task), mix:90%5ms,10%200ms, pareto:ALPHA,D or lognormal:SIGMA,D (D is the mean). Default ${default}."`
	Estimates    bool          `group:"load" help:"Jobs tell how long their tasks will run. Default: no."`
	Warmup       time.Duration `default:"5s" placeholder:"D" group:"load" help:"Time at the start of each run whose jobs do not count. Default ${default}."`
	For          time.Duration `default:"30s" placeholder:"D" group:"load" help:"Time after it whose jobs count. Default ${default}."`
	Seed         uint64        `default:"1" placeholder:"N" group:"load" help:"Seed of arrivals and durations: every policy meets the same jobs. Default ${default}."`

	Simulate bool `group:"load" help:"Simulate the same jobs, too, with messages that take as long as they did, and print how far the simulator is off. Default: no."`

	Trace          string        `placeholder:"FILE" group:"load" help:"Replay jobs of this CSV file, plain or gzipped, instead. Its columns: trace, job, submit_ms, input_bytes, shuffle_bytes, output_bytes. Default: none."`
	TraceName      string        `default:"fb2010-0" placeholder:"NAME" group:"load" help:"Which trace of the file. Default ${default}."`
	From           time.Duration `default:"10h" placeholder:"D" group:"load" help:"Where in the trace the replay begins. Default ${default}."`
	Span           time.Duration `default:"1h" placeholder:"D" group:"load" help:"How much of it is replayed. Default ${default}."`
	Speedup        float64       `default:"60" placeholder:"N" group:"load" help:"How much faster: submit times and durations are divided by it. Default ${default}."`
	TraceSetting   string        `default:"hadoop" enum:"hadoop,in-memory" group:"load" help:"How bytes become tasks: ${enum}. Default ${default}."`
	TraceMaxTasks  int           `default:"100" placeholder:"N" group:"load" help:"Most maps, and most reduces, of a job; the rest are left out. Default ${default}."`
	TraceVariation float64       `placeholder:"N" group:"load" help:"Spread of durations within a job: sigma of a log-normal factor, 0 to 5. Default 0."`

	JSON string `name:"json" env:"PHOEBE_JSON_FILE" placeholder:"FILE" help:"Write all that was measured to this file. Default: none."`
	HTML string `name:"html" env:"PHOEBE_HTML_FILE" placeholder:"FILE" help:"Write a report with plots to this file. Default: none."`

	secretFlags
}

// Help says what is measured.
func (c *benchCmd) Help() string {
	return `Jobs arrive as a Poisson process or as in a trace, whatever becomes of those before; response times count from
the intended send time. Beside them stand the ideal, a job's longest task on an empty cluster, and the
omniscient response, that of one queue with exact knowledge and no delay for the very same jobs.

  phoebe bench --load 0.5,0.8 --policy phoebe,late-binding --task-duration mix:90%5ms,10%200ms
  phoebe bench --trace jobs.csv.gz --speedup 60 --load 0.8
  phoebe bench noop`
}

// Run measures, and prints a table.
func (c *benchCmd) Run(ctx context.Context, line *kong.Context, out *streams) error {
	o, err := c.options(line)
	if err != nil {
		return usage(err)
	}
	if o.Secret, err = c.secret(); err != nil {
		return err
	}
	// Before the minutes that a run takes.
	write, err := createReports([]report[*bench.Document]{{"json", c.JSON, bench.WriteJSON}, {"html", c.HTML, bench.WriteHTML}})
	if err != nil {
		return err
	}
	wserve.RaiseFileLimit(65_536)
	measure := live.Run
	if c.What == "noop" {
		measure = live.Noop
	}
	doc, err := measure(ctx, o, bench.NewProgress(os.Stderr))
	if err == nil && c.Simulate {
		err = simulate(ctx, &o, doc.Runs)
	}
	if err != nil {
		exit := interruption(ctx)
		if exit == nil {
			return err
		}
		if doc == nil || len(doc.Runs) == 0 && doc.Noop == nil {
			return exit
		}
		doc.CutShort, err = exit.Error(), exit
	}
	settings := doc.Meta.Settings
	doc.Meta = bench.NewMeta(append([]string{"phoebe"}, line.Args...), o.Seed, time.Now())
	doc.Meta.Settings = settings
	return errors.Join(bench.WriteTable(out.out, doc), write(doc), err)
}

func (c *benchCmd) options(line *kong.Context) (live.Options, error) {
	o := live.Options{
		Connect: c.Connect, Frontends: c.Frontends, Workers: c.Workers, Slots: c.Slots, Policies: c.Policy, Loads: c.Load,
		ProbeRatio: c.ProbeRatio, TasksPerJob: c.TasksPerJob, Estimates: c.Estimates, Warmup: c.Warmup, For: c.For, Seed: c.Seed,
	}
	var err error
	if o.Durations, err = bench.ParseDurations(c.TaskDuration); err != nil {
		return o, fmt.Errorf("--task-duration: %w", err)
	}
	for _, p := range line.Path {
		if p.Flag != nil && !p.Resolved && p.Flag.Group != nil && p.Flag.Group.Key == "load" && c.What != "load" {
			return o, fmt.Errorf("--%s means nothing to phoebe bench %s", p.Flag.Name, c.What)
		}
	}
	if c.Frontends < 1 || c.Workers < 1 || c.Slots < 1 {
		return o, errors.New("--frontends, --workers and --slots must be 1 or more")
	}
	if c.Simulate && (c.Trace != "" || len(c.Connect) > 0) {
		return o, errors.New("--simulate needs an embedded cluster and jobs that are drawn: leave out --connect and --trace")
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
	return o, o.Validate()
}
