package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/bench/sim"
	"github.com/phoebe-sched/phoebe/probe/whole"
	"github.com/phoebe-sched/phoebe/worker"
)

type simCmd struct {
	Run    simRunCmd    `cmd:"" default:"withargs" help:"Simulate clusters under load; the default."`
	Faults simFaultsCmd `cmd:"" help:"Simulate crashes, broken connections and other faults, and check all promises."`
	Figure simFigureCmd `cmd:"" help:"Make a figure again: a claim, its runs, and whether the claim holds."`
	Grid   simGridCmd   `cmd:"" help:"Compare policies over lengths of tasks, loads and prices of a message, in one table."`
}

// Help returns the text below the usage line.
func (c *simCmd) Help() string {
	return `Runs frontends and workers in virtual time. Their decisions are made by the real code;
clocks and connections are simulated. The same flags give the same results. Jobs arrive as in phoebe
bench, and all combinations of --policy, --load and --probe-ratio meet the same jobs.

  phoebe sim --policy phoebe,late-binding,omniscient --load 0.5,0.8,0.95 --html sim.html
  phoebe sim --policy late-binding,phoebe-overlap --probe-ratio 1,2,3     (phoebe without overlap)
  phoebe sim --jobs-file jobs.txt --cutoff 90s --workers 10000 --slots 1
  phoebe sim --long-jobs 0.1 --tasks-per-job 10 --task-duration task-exp:200ms \
      --policy phoebe,late-binding,estimation,eagle
  phoebe sim --workers 10 --frontends 2 --tasks-per-job 10 --task-duration fixed:1ms \
      --message-cpu 5us --cores 2 --one-machine
  phoebe sim --kind 'batch 10s geometric:100 job-exp:100s' --kind 'service 20s geometric:10 job-exp:500s' \
      --think batch=100ms+5ms --think service=10s+5ms --policy phoebe,shared-state,two-level --workers 600
  phoebe sim faults --seeds 1000

For flags see phoebe sim run --help, faults --help, figure --help and grid --help. The word run may
be left out.`
}

type simRunCmd struct {
	Workers   int    `default:"1000" placeholder:"N" help:"Workers. Default ${default}."`
	Slots     int    `default:"4" placeholder:"N" help:"Slots of each worker. Default ${default}."`
	Frontends int    `default:"10" placeholder:"N" help:"Frontends. Each job goes to a random frontend. Default ${default}."`
	Speeds    string `default:"fixed:1" placeholder:"LAW" help:"Speeds of workers: fixed:S, lognormal:SIGMA (of mean 1) or mix:90%1,10%0.5. A load is a share of the capacity at these speeds. Default ${default}."`
	Order     string `default:"fair" enum:"fair,fifo,shortest" help:"Whose turn comes first at a worker: ${enum}. Default ${default}."`

	ShortShare float64 `default:"0.125" placeholder:"N" help:"Share of each worker, in whole slots, closed to long tasks placed by estimation while short tasks would wait for long tasks. 0: none. Default ${default}."`

	Policy       []string       `default:"${policy}" placeholder:"NAME" help:"Policies that place tasks, one run each: ${simPolicies}. Suffixes turn parts of a late-binding policy off (phoebe-overlap) or on (late-binding+ridealong). Default ${default}."`
	ProbeRatio   []float64      `default:"2" placeholder:"N" help:"Reservations sent for each task, 1 to 10, one run each. Default ${default}."`
	Load         []float64      `placeholder:"N" help:"Shares of the slots that the jobs keep busy, one run each; 0 is the own load of a file, a trace or kinds. Default 0.8, or the own load of a file, a trace or kinds."`
	Delay        time.Duration  `default:"500us" placeholder:"D" help:"Delay of a message, one way. Default ${default}."`
	Jitter       time.Duration  `default:"0s" placeholder:"D" help:"Mean of an exponential addition to --delay. Default ${default}."`
	Bandwidth    size           `default:"0" placeholder:"SIZE" help:"Bytes of payloads and results that a process sends in a second; 0: no limit. Default ${default}."`
	Payload      size           `default:"0" placeholder:"SIZE" help:"Payload of each task, up to 1MiB. Default ${default}."`
	Result       size           `default:"0" placeholder:"SIZE" help:"Result of each task, up to 1MiB. Default ${default}."`
	Ping         time.Duration  `default:"0s" placeholder:"D" help:"Time between two pings of a frontend to a worker; syncs come half as often. 0: every second, or less often if tasks come less often on a connection. Default ${default}."`
	GossipPeriod *time.Duration `placeholder:"D" help:"Time between two reports of a worker's wait matrix to two frontends, which pass the matrix on. Only for policies that place by estimation. 0: never. Default: the same as --ping."`
	GossipDelay  time.Duration  `default:"500us" placeholder:"D" help:"Delay of a gossip message, one way. Default ${default}."`
	GossipLoss   float64        `default:"0" placeholder:"N" help:"Share of the gossip between frontends that is lost, below 1. Default ${default}."`
	Reserved     float64        `default:"0.1" placeholder:"N" help:"Share of the workers closed to long jobs by the policies eagle and eagle-fifo, below 1. Default ${default}."`
	DecisionCost time.Duration  `default:"100us" placeholder:"D" help:"Time that the policies centralized, centralized-ahead and centralized-heartbeat take to decide about a task. Default ${default}."`
	LocalityWait time.Duration  `default:"0s" placeholder:"D" help:"How long the policies delay-fifo and delay-fair let a job wait for a slot near its data. Default ${default}."`
	Think        []string       `sep:"none" placeholder:"[KIND=]D+D[*N]" help:"Decision time for each job and for each task, of the policies single-path, multi-path, two-level and shared-state. With other policies the job's frontend is first busy for as long. KIND limits the flag to jobs of a kind, with an own frontend or N own schedulers. Repeatable. Default: none."`
	MessageCPU   time.Duration  `name:"message-cpu" default:"0s" placeholder:"D" help:"CPU for each end of a message, and for the start and the end of a task. A message that travels along with another message needs a tenth. On a machine of two busy cores it is 10us. Default ${default}."`
	Cores        int            `default:"1" placeholder:"N" help:"Cores of each process for --message-cpu, or of all processes with --one-machine. Default ${default}."`
	OneMachine   bool           `help:"All frontends and workers share the cores of --cores. Default: no."`
	Codec        bool           `default:"true" negatable:"" help:"Encode and decode messages on their way. Default: yes."`

	TasksPerJob  string `default:"100" placeholder:"LAW" help:"Tasks of each job: N, uniform:1-20 or geometric:10. Default ${default}."`
	TaskDuration string `default:"job-exp:100ms" placeholder:"LAW" help:"How long tasks run: fixed:D, job-exp:D (one exponential draw for each job), task-exp:D (for each task), mix:90%5ms,10%200ms, pareto:ALPHA,D or lognormal:SIGMA,D (D is the mean). Default ${default}."`
	Estimates    string `default:"exact" placeholder:"KIND" help:"Estimates of run times in jobs: exact, none, mean (of the job's tasks) or noisy:FACTOR (off by up to FACTOR either way). Default ${default}."`
	Jobs         int    `placeholder:"N" help:"Jobs to run, with the warm-up. Default 10000, or all jobs of a file or trace."`
	WarmupJobs   *int   `placeholder:"N" help:"Jobs at the start that do not count. Default a fifth, or none with a file or trace."`
	Seed         uint64 `default:"1" placeholder:"N" help:"Seed of all random draws, such as arrivals and durations. Default ${default}."`

	LongJobs         float64 `default:"0" placeholder:"N" help:"Share of the jobs that are long, below 1. The next two flags describe their tasks. Short and long jobs are reported in two groups. Default: none."`
	LongTasksPerJob  string  `default:"20" placeholder:"LAW" help:"Tasks of each long job, as --tasks-per-job. Default ${default}."`
	LongTaskDuration string  `default:"task-exp:10s" placeholder:"LAW" help:"How long tasks of long jobs run, as --task-duration. Default ${default}."`

	Kind []string `sep:"none" placeholder:"LIST" help:"A kind of jobs by name, time between two jobs, tasks per job and task duration, such as 'batch 10s geometric:100 job-exp:100s'. Repeatable; instead of the flags on tasks. Default: none."`

	Racks  int  `default:"0" placeholder:"N" help:"Racks of the workers; 0: none. Default ${default}."`
	Stages int  `default:"1" placeholder:"N" help:"Stages of a long job, one after the other; of each job if there are no groups. Default ${default}."`
	Input  size `default:"0" placeholder:"SIZE" help:"Input of each task in jobs with --stages: disks of workers for the first stage, the output of the stage before for later stages. Default ${default}."`
	Copies int  `default:"3" placeholder:"N" help:"Copies of an input on disks: the first at a worker, all further copies in a second rack. Default ${default}."`

	JobsFile     string        `placeholder:"FILE" help:"Take jobs from this file, plain or gzipped: lines of --jobs-out, or lines submit_s n_tasks mean_task_s d1 ... dn, in seconds. Default: none."`
	JobsOut      string        `placeholder:"FILE" help:"Draw jobs, write the jobs to this file as lines of JSON, and run exactly these jobs. With the same flags for the cluster, --jobs-file then gives the same run. Default: none."`
	WholeSeconds bool          `help:"Cut the durations of a jobs file to whole seconds, as other simulators do. Default: no."`
	Cutoff       time.Duration `placeholder:"D" help:"Also report jobs in two groups: short jobs, with a mean task duration up to D (as stated in a jobs file), and long jobs. Default: no groups."`

	Trace          string        `placeholder:"FILE" help:"Derive jobs from this trace: a CSV file, plain or gzipped, as for phoebe bench. Default: none."`
	TraceName      string        `default:"fb2010-0" placeholder:"NAME" help:"Which trace of the file. Default ${default}."`
	From           time.Duration `default:"0s" placeholder:"D" help:"Where in the trace the replay begins. Default ${default}."`
	Span           time.Duration `default:"24h" placeholder:"D" help:"How much of the trace to replay. Default ${default}."`
	Speedup        float64       `default:"1" placeholder:"N" help:"Divide submit times and durations by N. Default ${default}."`
	TraceSetting   string        `default:"hadoop" enum:"hadoop,in-memory" help:"How bytes become tasks: ${enum}. Default ${default}."`
	TraceMaxTasks  int           `default:"1000" placeholder:"N" help:"Most maps, and most reduces, of a job; the rest are left out. Default ${default}."`
	TraceVariation float64       `placeholder:"N" help:"Spread of durations within a job: sigma of a log-normal factor, 0 to 5. Default 0."`

	JSON jsonFile `name:"json" placeholder:"FILE" help:"Write all measurements as JSON to this file. ${jsonFile}"`
	HTML string   `name:"html" placeholder:"FILE" help:"Write a report with plots to this file. Default: none."`
}

// Run simulates, and prints a table.
func (c *simRunCmd) Run(ctx context.Context, line *kong.Context, out *streams) error {
	sweep, err := c.makeSweep(line)
	if err != nil {
		return usageError(err)
	}
	write, text, err := createReports(out.out, jsonReport(c.JSON, bench.WriteSimJSON),
		report[*bench.SimDocument]{"html", c.HTML, bench.WriteSimHTML})
	if err != nil {
		return err
	}
	progress, began := bench.NewProgress(os.Stderr), time.Now()
	results, err := sweep.Run(ctx, func(share float64) {
		progress.Set("runs: %d, jobs: %.0f %%, %s", len(sweep.Policies)*len(sweep.Loads)*len(sweep.ProbeRatios),
			100*share, time.Since(began).Round(time.Second))
	})
	progress.Clear()
	doc := &bench.SimDocument{Seed: c.Seed}
	if err != nil {
		exit := interruptionExit(ctx)
		if exit == nil {
			return err
		}
		if len(results) == 0 {
			return exit
		}
		doc.CutShort, err = exit.Error(), exit
	}
	doc.Settings = slices.Clone(results[0].Settings)
	doc.Settings = append(doc.Settings,
		fmt.Sprintf("%d frontends, worker speeds %s, messages take %v + exp(%v), estimates %s, queues by %s, seed %d",
			c.Frontends, sweep.Speeds, c.Delay, c.Jitter, sweep.Estimates, c.Order, c.Seed))
	if c.MessageCPU > 0 {
		doc.Settings = append(doc.Settings, sweep.CPU.String())
	}
	if slices.ContainsFunc(c.Policy, func(name string) bool { return strings.HasPrefix(name, "centralized") }) {
		doc.Settings = append(doc.Settings, fmt.Sprintf("centralized: one scheduler that takes %v for each task",
			c.DecisionCost))
	}
	if slices.Contains(c.Policy, "eagle") || slices.Contains(c.Policy, "eagle-fifo") {
		doc.Settings = append(doc.Settings, fmt.Sprintf("eagle: %g of the workers are closed to long jobs", c.Reserved))
	}
	if c.LocalityWait > 0 {
		doc.Settings = append(doc.Settings, fmt.Sprintf("delay scheduling waits for %v", c.LocalityWait))
	}
	for _, think := range c.Think {
		doc.Settings = append(doc.Settings, "decisions take "+think)
	}
	for _, r := range results {
		doc.Runs = append(doc.Runs, r.SimRun)
	}
	return errors.Join(bench.WriteSimTable(text, doc), write(doc), err)
}

// makeSweep returns the sweep that the flags describe. line tells which flags were given.
func (c *simRunCmd) makeSweep(line *kong.Context) (*sim.Sweep, error) {
	s := &sim.Sweep{Loads: c.Load, ProbeRatios: c.ProbeRatio, Config: sim.Config{
		Frontends: c.Frontends, Workers: c.Workers, Slots: c.Slots, Jobs: c.Jobs, Cutoff: c.Cutoff, Seed: c.Seed,
		ShortShare: cmp.Or(c.ShortShare, -1), Racks: c.Racks, Stages: c.Stages, Input: int64(c.Input), Copies: c.Copies,
		Gossip: sim.Gossip{Period: sim.AsPing, Delay: c.GossipDelay, Loss: c.GossipLoss},
		Delay:  c.Delay, Jitter: c.Jitter, Bandwidth: float64(c.Bandwidth), Payload: int(c.Payload),
		Result: int(c.Result), Codec: c.Codec, Ping: c.Ping, DecisionCost: c.DecisionCost, Reserved: c.Reserved,
		LocalityWait: c.LocalityWait,
		CPU:          sim.CPU{Message: c.MessageCPU, Cores: c.Cores, Shared: c.OneMachine},
	}}
	if c.GossipPeriod != nil {
		s.Gossip.Period = *c.GossipPeriod
	}
	var errs []error
	flag := func(name string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", name, err))
		}
	}
	for _, name := range c.Policy {
		p, err := sim.ParsePolicy(name)
		flag("policy", err)
		s.Policies = append(s.Policies, p)
	}
	var err error
	s.Speeds, err = sim.ParseSpeeds(c.Speeds)
	flag("speeds", err)
	s.Estimates, err = sim.ParseEstimates(c.Estimates)
	flag("estimates", err)
	s.Order, err = worker.ParseOrder(c.Order)
	flag("order", err)
	for _, text := range c.Think {
		think, err := sim.ParseThink(text)
		flag("think", err)
		s.Think = append(s.Think, think)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if s.Workload, err = c.makeWorkload(line); err != nil {
		return nil, err
	}
	if c.JobsFile == "" && c.Trace == "" {
		if s.Jobs == 0 {
			s.Jobs = 10_000
		}
		s.WarmupJobs = s.Jobs / 5
		if len(s.Loads) == 0 && len(c.Kind) == 0 {
			s.Loads = []float64{0.8}
		}
	}
	if len(s.Loads) == 0 {
		s.Loads = []float64{0}
	}
	if c.JobsOut != "" {
		if err := c.writeJobs(s); err != nil {
			return nil, fmt.Errorf("--jobs-out: %w", err)
		}
	}
	if l, ok := s.Workload.(*sim.Listed); ok {
		s.WarmupJobs = min(cmp.Or(s.Jobs, l.Len()), l.Len()) / 5
	}
	if c.WarmupJobs != nil {
		s.WarmupJobs = *c.WarmupJobs
	}
	return s, s.Validate()
}

// writeJobs draws the jobs of s, and writes the jobs to a file. The list is then the workload of s.
func (c *simRunCmd) writeJobs(s *sim.Sweep) error {
	if len(s.Loads) != 1 {
		return fmt.Errorf("%d loads have different jobs: give a single --load", len(s.Loads))
	}
	s.Policy, s.Load = s.Policies[0], s.Loads[0]
	if err := s.Config.Validate(); err != nil {
		return err
	}
	jobs, err := sim.DrawJobs(&s.Config, s.Loads[0], filepath.Base(c.JobsOut))
	if err != nil {
		return err
	}
	s.Workload, s.Loads, s.Stages = jobs, []float64{0}, 1
	return whole.Write(c.JobsOut, 0o666, func(w io.Writer) error { return sim.WriteJobs(w, jobs) })
}

// makeWorkload returns the source of the jobs, and refuses flags of other sources.
func (c *simRunCmd) makeWorkload(line *kong.Context) (sim.Workload, error) {
	given := func(source string, flags ...string) error {
		for _, p := range line.Path {
			if p.Flag != nil && !p.Resolved && slices.Contains(flags, p.Flag.Name) {
				return fmt.Errorf("--%s has no meaning for %s", p.Flag.Name, source)
			}
		}
		return nil
	}
	ofFile, generated := []string{"whole-seconds"}, []string{"tasks-per-job", "task-duration", "long-jobs",
		"long-tasks-per-job", "long-task-duration", "kind"}
	switch {
	case c.JobsFile != "" && c.Trace != "":
		return nil, errors.New("--jobs-file and --trace: leave one out")
	case c.JobsFile != "" && c.JobsOut != "":
		return nil, errors.New("--jobs-file and --jobs-out: leave one out; the jobs are in a file already")
	case c.JobsFile != "":
		if err := given("--jobs-file", slices.Concat(traceFlags, generated)...); err != nil {
			return nil, err
		}
		return sim.LoadJobs(c.JobsFile, c.WholeSeconds)
	case c.Trace != "":
		if _, err := os.Stat(c.Trace); err != nil {
			return nil, fmt.Errorf("--trace: %w", err)
		}
		if err := given("--trace", slices.Concat(ofFile, generated)...); err != nil {
			return nil, err
		}
		setting, err := bench.ParseTraceSetting(c.TraceSetting)
		return sim.Trace{
			Path: c.Trace, Name: c.TraceName, Setting: setting, From: c.From, Span: c.Span, Speedup: c.Speedup,
			MaxTasks: c.TraceMaxTasks, Variation: c.TraceVariation,
		}, err
	}
	if err := given("jobs without --jobs-file or --trace", slices.Concat(traceFlags, ofFile)...); err != nil {
		return nil, err
	}
	if len(c.Kind) > 0 {
		var kinds sim.Kinds
		err := given("--kind", generated[:len(generated)-1]...)
		for _, text := range c.Kind {
			kind, parsing := sim.ParseKind(text)
			kinds, err = append(kinds, kind), errors.Join(err, parsing)
		}
		if err != nil {
			return nil, fmt.Errorf("--kind: %w", err)
		}
		return kinds, nil
	}
	if !(c.LongJobs >= 0 && c.LongJobs < 1) {
		return nil, fmt.Errorf("--long-jobs is %g: it must be a share from 0 to below 1", c.LongJobs)
	}
	jobs, err := parsePoisson("", c.TasksPerJob, c.TaskDuration)
	if c.LongJobs == 0 {
		return jobs, errors.Join(err, given("jobs without --long-jobs", "long-tasks-per-job", "long-task-duration"))
	}
	long, longErr := parsePoisson("long-", c.LongTasksPerJob, c.LongTaskDuration)
	return sim.Mixed{Short: jobs, Long: long, LongJobs: c.LongJobs}, errors.Join(err, longErr)
}

// parsePoisson parses the number of tasks and the durations of a kind of jobs. In errors, the flags have the
// prefix.
func parsePoisson(prefix, counts, durations string) (p sim.Poisson, err error) {
	var errs [2]error
	if p.TasksPerJob, errs[0] = bench.ParseCounts(counts); errs[0] != nil {
		errs[0] = fmt.Errorf("--%stasks-per-job: %w", prefix, errs[0])
	}
	if p.Durations, errs[1] = bench.ParseDurations(durations); errs[1] != nil {
		errs[1] = fmt.Errorf("--%stask-duration: %w", prefix, errs[1])
	}
	return p, errors.Join(errs[:]...)
}

type simFaultsCmd struct {
	Seeds   uint64 `default:"400" placeholder:"N" help:"Number of schedules of faults to run. Default ${default}."`
	From    uint64 `default:"1" placeholder:"SEED" help:"Seed of the first schedule; further schedules take the seeds that follow. Default ${default}."`
	Without string `placeholder:"LIST" help:"Jobs and faults of a single seed to leave out, such as j0-j3,f7. Default: none."`
	Log     string `placeholder:"FILE" help:"Write the events before a failure to this file; - is stderr. Default: none."`
}

// Help returns the text below the usage line.
func (c *simFaultsCmd) Help() string {
	return `Each seed gives a small cluster, a few dozen jobs, and a random schedule of crashes,
restarts, hung processes, slow workers, broken and half-open connections, lost, repeated and
reordered messages, drains, cancels and failovers. After every step the cores check their state.
Every task must end in one outcome. Tasks that may start only once must not start again. If a task
is lost, stopped or runs again, a fault must have hit it. In the end nothing may be left behind.
Every fourth seed is calm: nothing goes wrong, tasks take up to a minute, and no task may be lost,
dropped from a queue or tried again. A fifth of the calm seeds is plain use: a few jobs of tasks from
1 ms to 30 s on a small fleet. While slots are free, no job may be refused, and no task may wait for
more than two round trips, beside a central queue with the same slots. A failing seed is reduced to
the smallest run that still fails, and printed with the command to repeat the run.`
}

// Run runs all seeds, or stops at the first seed that fails.
func (c *simFaultsCmd) Run(ctx context.Context, out *streams) error {
	without, err := sim.ParseOmission(c.Without)
	switch {
	case err != nil:
		return usageError(fmt.Errorf("--without: %w", err))
	case c.Seeds < 1:
		return usageError(errors.New("--seeds must be 1 or more"))
	case without.Len() > 0 && c.Seeds != 1:
		return usageError(errors.New("--without needs a single seed: add --seeds 1"))
	}
	var log io.Writer
	if c.Log == "-" {
		log = out.err
	} else if c.Log != "" {
		f, err := os.Create(c.Log)
		if err != nil {
			return usageError(fmt.Errorf("--log: %w", err))
		}
		defer f.Close()
		log = f
	}

	progress, began := bench.NewProgress(os.Stderr), time.Now()
	var stats *sim.FaultStats
	done := c.Seeds
	if without.Len() > 0 {
		stats, err = sim.Faults(c.From, without)
	} else {
		stats, err = sim.FaultSweep(ctx, c.From, c.Seeds, func(n uint64) {
			done = n
			progress.Set("%d of %d seeds, %s", n, c.Seeds, time.Since(began).Round(time.Second))
		})
	}
	progress.Clear()
	var failed *sim.FaultError
	switch {
	case errors.As(err, &failed):
	case err != nil && interruptionExit(ctx) == nil:
		return err
	default:
		if err != nil {
			err = interruptionExit(ctx)
		}
		_, printing := fmt.Fprintf(out.out, "%d seeds from %d: %s\nno promise was broken\n", done, c.From, stats)
		return errors.Join(printing, err)
	}
	fmt.Fprintf(out.out, "%v\n\nreplay: %s\n", failed, failed.Replay())
	if without.Len() == 0 {
		progress.Set("leaving out what the failure does not need")
		failed = sim.Minimize(ctx, failed)
		progress.Clear()
		fmt.Fprintf(out.out, "\nthe smallest run that still fails: %v\nreplay: %s --log -\n", failed.Err,
			failed.Replay())
	}
	if log != nil {
		if _, err := io.WriteString(log, strings.Join(failed.Log, "\n")+"\n"); err != nil {
			return fmt.Errorf("--log: %w", err)
		}
	}
	return &exitError{code: exitFailed}
}
