package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/bench/tpch/data"
	"github.com/phoebe-sched/phoebe/bench/tpch/engine"
	"github.com/phoebe-sched/phoebe/frontend/client"
)

// interactive are the numbers of the queries with waiting users.
var interactive = []int{1, 3, 4, 5, 6, 7, 10, 12, 14, 18, 19, 21}

// etl are the numbers of the queries of a tenant that transforms tables: the largest joins and exchanges.
var etl = []int{8, 9, 13, 20}

type benchCmd struct {
	fleet
	SF       float64       `name:"sf" default:"1" placeholder:"X" help:"Scale factor of the data. Default ${default}."`
	Load     float64       `default:"0.8" help:"Share of the CPUs that queries keep busy, by the CPU time of each query alone; with --connect, share of the slots. Default ${default}."`
	For      time.Duration `default:"30s" help:"How long queries arrive; 0: only measure the cost of each query. Default ${default}."`
	Policies []string      `default:"phoebe,blind,late-binding,random" placeholder:"NAME,..." help:"Policies to measure in turn; blind is phoebe without the places of files. Default ${default}."`
	ETL      bool          `name:"etl" help:"Also measure each policy beside a second tenant with large joins. Each tenant has half of the load. Under phoebe, the large joins are placed by estimation."`
	Alone    bool          `default:"true" negatable:"" help:"Also measure DuckDB alone. Default: yes."`
	Seed     uint64        `default:"1" help:"Seed of the arrivals. Default ${default}."`

	pids []int // process IDs of the workers, if this program started the workers
}

// arrival is a query due at a time after the start of the run.
type arrival struct {
	at  time.Duration
	n   int
	etl bool
}

// sample says how a query went. err is set if the query failed.
type sample struct {
	arrival
	response time.Duration
	stats    engine.Stats
	err      error
}

// rounds is the number of runs of each query alone, to measure the cost.
const rounds = 5

// cost is the cost of a query: each time is the median of the rounds.
type cost struct {
	tasks time.Duration // sum of the run times of the tasks
	cpu   time.Duration // CPU time of all processes
	alone time.Duration // CPU time of a DuckDB of one thread

	local, remote int // number of tasks in all rounds, by the place of their data
}

// runFunc runs a query and returns the query's statistics.
type one func(arrival) (engine.Stats, error)

func (b *benchCmd) Run(ctx context.Context, c *cli) error {
	m, err := data.Read(c.Data, b.SF)
	if err != nil {
		return err
	}
	var own *nodes
	if len(b.Connect) == 0 {
		if own, err = startNodes(c.Data, m.Nodes); err != nil {
			return err
		}
		defer own.close()
		b.Connect, b.pids = []string{own.frontend.Addr()}, own.pids()
	}
	e, _, close, err := b.open(c, b.SF)
	if err != nil {
		return err
	}
	defer close()
	if own != nil {
		if err := await(ctx, e, len(m.Nodes)); err != nil {
			return err
		}
	}
	slots, err := e.Slots(ctx)
	if err != nil {
		return err
	}
	phoebe := func(policy string) one {
		return func(a arrival) (engine.Stats, error) {
			opt := b.options()
			opt.Mode = client.SampleMode // the tasks are short, even if phoebe expects long tasks from the size of the inputs
			if opt.Policy = client.Policy(policy); policy == "blind" {
				opt.Policy, opt.Blind = client.PhoebePolicy, true
			}
			if a.etl {
				opt.Tenant, opt.Class = "etl", client.Spare
				if policy == "phoebe" { // sampled tasks then meet estimated tasks
					opt.Mode = client.EstimateMode
				}
			}
			r, err := e.Query(ctx, m.Queries[a.n-1], opt)
			if err != nil {
				return engine.Stats{}, err
			}
			defer r.Close()
			return r.Stats, nil
		}
	}
	fmt.Printf("scale factor %g, %d workers, %d slots, %d CPUs\n", b.SF, len(m.Nodes), slots, runtime.NumCPU())
	costs, err := b.each(ctx, m, b.pids, phoebe("phoebe"))
	if err != nil {
		return err
	}
	if own != nil {
		compare(costs)
	}
	if b.For == 0 {
		return nil
	}
	due, beside := b.workload(costs, slots)
	fmt.Printf("%-34s %9s %9s  %-15s %s\n", "", "p50", "p99", "over the ideal", "local")
	for _, p := range b.Policies {
		b.measure(ctx, p, due, beside, slots, phoebe(p))
	}
	if b.Alone {
		return b.best(ctx, m, due, beside)
	}
	return nil
}

// measureCosts runs each query alone: in turns on the cluster, and in a DuckDB of one thread. The processes
// workerPIDs are the workers, if this program started the workers.
func (b *benchCmd) each(ctx context.Context, m *data.Manifest, own []int, run one) (map[int]cost, error) {
	single, stop, err := b.alone(ctx, m, 1, 1)
	if err != nil {
		return nil, err
	}
	defer stop()
	all := slices.Concat(interactive, etl)
	for range 3 { // until all files are in the workers' memory and have been compared with their digests
		for _, n := range all {
			if _, err := run(arrival{n: n}); err != nil {
				return nil, fmt.Errorf("Q%d: %w", n, err)
			}
		}
	}
	costs := map[int]cost{}
	for _, n := range all {
		var took [3][]time.Duration
		var c cost
		for range rounds {
			meter := bench.NewCPUMeter(own...)
			stats, err := run(arrival{n: n})
			if err != nil {
				return nil, fmt.Errorf("Q%d: %w", n, err)
			}
			took[0], took[1] = append(took[0], tasks(&stats)), append(took[1], used(meter))
			c.local, c.remote = c.local+stats.Local, c.remote+stats.Remote
			meter = bench.NewCPUMeter()
			if _, err := single(arrival{n: n}); err != nil {
				return nil, fmt.Errorf("Q%d: %w", n, err)
			}
			took[2] = append(took[2], used(meter))
		}
		c.tasks, c.cpu, c.alone = quantile(took[0], 0.5), quantile(took[1], 0.5), quantile(took[2], 0.5)
		costs[n] = c
	}
	return costs, nil
}

// printCosts prints the cost of each query on the cluster beside the cost in DuckDB alone.
func compare(costs map[int]cost) {
	fmt.Println("CPU time of a query, of workers, frontend and client together, over that of a DuckDB of one thread, and its local tasks:")
	var sum cost
	for _, n := range slices.Concat(interactive, etl) {
		c := costs[n]
		sum.cpu, sum.alone, sum.local, sum.remote = sum.cpu+c.cpu, sum.alone+c.alone, sum.local+c.local, sum.remote+c.remote
		c.print(fmt.Sprintf("Q%d", n))
	}
	sum.print("all")
}

// printLine prints the cost on a line.
func (c *cost) print(of string) {
	fmt.Printf("  %-3s %5d ms over %5d ms: %.2f  %5.1f%%\n", of, c.cpu.Milliseconds(), c.alone.Milliseconds(), float64(c.cpu)/float64(c.alone), share(c.local, c.remote))
}

// cpuTime returns the CPU time of a meter's processes.
func used(m *bench.CPUMeter) time.Duration {
	u := m.Use()
	return time.Duration(u.Own * u.Seconds * float64(time.Second))
}

// taskTime returns the sum of the run times of all tasks.
func tasks(s *engine.Stats) time.Duration {
	var sum time.Duration
	for _, st := range s.Stages {
		for _, t := range st.Tasks {
			sum += t.Run
		}
	}
	return sum
}

// planArrivals returns the arrivals of the interactive queries alone. With ETL, it also returns the same
// arrivals mixed with the arrivals of the ETL tenant.
func (b *benchCmd) workload(costs map[int]cost, slots int) (due, beside []arrival) {
	r := rand.New(rand.NewPCG(b.Seed, 0))
	width, of := slots, "the slots' time"
	if b.pids != nil {
		width, of = runtime.NumCPU(), "the CPUs' time"
	}
	come := func(numbers []int, load float64, etl bool) (due []arrival) {
		mean := time.Duration(0)
		for _, n := range numbers {
			took := costs[n].tasks
			if b.pids != nil {
				took = costs[n].cpu
			}
			mean += took / time.Duration(len(numbers))
		}
		gap := float64(mean) / (load * float64(width))
		for at := time.Duration(0); at < b.For; at += time.Duration(r.ExpFloat64() * gap) {
			due = append(due, arrival{at, numbers[r.IntN(len(numbers))], etl})
		}
		fmt.Printf("queries %v: %d in %v, one each %v, which takes %v alone: %g of %s\n",
			numbers, len(due), b.For, time.Duration(gap).Round(time.Millisecond), mean.Round(time.Millisecond), load, of)
		return due
	}
	if !b.ETL {
		return come(interactive, b.Load, false), nil
	}
	due = come(interactive, b.Load/2, false)
	beside = append(slices.Clone(due), come(etl, b.Load/2, true)...)
	slices.SortStableFunc(beside, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	return due, beside
}

// measurePolicy prints how the queries go alone. With ETL, it also prints how the queries go beside the ETL
// tenant.
func (b *benchCmd) measure(ctx context.Context, name string, due, beside []arrival, slots int, run one) {
	p99 := b.report(ctx, name, due, slots, run)
	if beside != nil {
		fmt.Printf("  p99 is %.2f times that of without it\n", float64(b.report(ctx, name+", beside ETL", beside, slots, run))/float64(p99))
	}
}

// runArrivals runs queries when they are due, however many are under way, and returns when all have ended. A
// response counts from the time when the query was due.
func drive(ctx context.Context, due []arrival, run one) []sample {
	out := make([]sample, len(due))
	var wg sync.WaitGroup
	begin := time.Now()
	for i, a := range due {
		time.Sleep(time.Until(begin.Add(a.at)))
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			s, err := run(a)
			out[i] = sample{a, time.Since(begin) - a.at, s, err}
		})
	}
	wg.Wait()
	return out
}

// runAndReport runs queries, prints a line about the interactive queries, and returns their p99. If slots is
// not 0, the line compares the responses with the ideal on this number of slots, and a second line has the
// parts of the responses.
func (b *benchCmd) report(ctx context.Context, name string, due []arrival, slots int, run one) (p99 time.Duration) {
	meter := bench.NewCPUMeter(b.pids...)
	l := drive(ctx, due, run)
	if busy := meter.Use().Busy(runtime.NumCPU()); busy != "" {
		fmt.Printf("  (meanwhile %s)\n", busy)
	}
	failed := len(l)
	l = slices.DeleteFunc(l, func(s sample) bool { return s.err != nil || s.response == 0 })
	failed -= len(l)
	best := make([]time.Duration, len(l))
	if slots > 0 {
		best = ideal(l, slots)
	}
	var got, ideals, others []time.Duration
	var parts [parts]time.Duration
	local, remote, otherLocal, otherRemote := 0, 0, 0, 0
	for i, s := range l {
		if s.etl {
			others = append(others, s.response)
			otherLocal, otherRemote = otherLocal+s.stats.Local, otherRemote+s.stats.Remote
			continue
		}
		got, ideals = append(got, s.response), append(ideals, best[i])
		local, remote = local+s.stats.Local, remote+s.stats.Remote
		if slots > 0 {
			for k, d := range blame(&s) {
				parts[k] += d
			}
		}
	}
	p50, p99 := quantile(got, 0.5), quantile(got, 0.99)
	line := fmt.Sprintf("%-34s %9v %9v", name, p50, p99)
	if slots > 0 {
		line += fmt.Sprintf("  x %.2f, x %.2f  %5.1f%%", float64(p50)/float64(quantile(ideals, 0.5)), float64(p99)/float64(quantile(ideals, 0.99)), share(local, remote))
	}
	if failed > 0 {
		line += fmt.Sprintf("  %d of %d failed", failed, len(due))
	}
	fmt.Println(line)
	if slots > 0 {
		var words []string
		for k, d := range parts {
			words = append(words, fmt.Sprintf("%v %.1f", part(k), d.Seconds()*1000/float64(len(got))))
		}
		fmt.Printf("  mean %v, the ideal's %v: %s ms\n", mean(got), mean(ideals), strings.Join(words, ", "))
	}
	if len(others) > 0 {
		line := fmt.Sprintf("  of the other tenant's queries p50 %v, p99 %v", quantile(others, 0.5), quantile(others, 0.99))
		if slots > 0 {
			line += fmt.Sprintf(", %.1f%% local", share(otherLocal, otherRemote))
		}
		fmt.Println(line)
	}
	return p99
}

// percentOf returns part in percent of the sum of part and others.
func share(part, rest int) float64 { return 100 * float64(part) / float64(max(1, part+rest)) }

// meanOf returns the mean, rounded to 100 µs.
func mean(l []time.Duration) (m time.Duration) {
	for _, d := range l {
		m += d / time.Duration(len(l))
	}
	return m.Round(100 * time.Microsecond)
}

// quantileOf returns the quantile q (0 to 1), rounded to 100 µs; 0 for an empty list.
func quantile(l []time.Duration, q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	l = slices.Sorted(slices.Values(l))
	return l[min(len(l)-1, int(q*float64(len(l))))].Round(100 * time.Microsecond)
}

// measureBestDuckDB measures DuckDB alone. A trial with a third of the queries finds the best number of DuckDBs
// and threads.
func (b *benchCmd) best(ctx context.Context, m *data.Manifest, due, beside []arrival) error {
	trial := due
	if beside != nil {
		trial = beside
	}
	trial = trial[:len(trial)/3]
	least := time.Duration(0)
	var queries, threads int
	for _, q := range []int{1, 2, 4} {
		for _, t := range []int{1, 2} {
			run, stop, err := b.alone(ctx, m, q, t)
			if err != nil {
				return err
			}
			p99 := b.report(ctx, fmt.Sprintf("DuckDB, %d queries x %d, a third", q, t), trial, 0, run)
			if stop(); least == 0 || p99 < least {
				least, queries, threads = p99, q, t
			}
		}
	}
	run, stop, err := b.alone(ctx, m, queries, threads)
	if err != nil {
		return err
	}
	defer stop()
	b.measure(ctx, fmt.Sprintf("DuckDB at its best, %d x %d", queries, threads), due, beside, 0, run)
	return nil
}

// startDuckDBs starts DuckDBs for this number of queries at a time; further queries wait. All DuckDBs are warm,
// as the workers are.
func (b *benchCmd) alone(ctx context.Context, m *data.Manifest, queries, threads int) (run one, stop func(), err error) {
	temp, err := os.MkdirTemp("", "phoebe-tpch")
	if err != nil {
		return nil, nil, err
	}
	free := make(chan *engine.Reference, queries)
	stop = func() {
		for range len(free) {
			(<-free).Close()
		}
		os.RemoveAll(temp)
	}
	for range queries {
		r, err := engine.NewReference(m, threads, 4096/int64(queries), temp)
		if err == nil {
			free <- r
			err = errors.Join(r.Run(ctx, m.Queries[5-1]), r.Run(ctx, m.Queries[9-1])) // Q5 and Q9 together read all tables
		}
		if err != nil {
			stop()
			return nil, nil, err
		}
	}
	run = func(a arrival) (engine.Stats, error) {
		r := <-free
		defer func() { free <- r }()
		return engine.Stats{}, r.Run(ctx, m.Queries[a.n-1])
	}
	return run, stop, nil
}
