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
	"github.com/phoebe-sched/phoebe/probe/histogram"
)

// interactive are the numbers of the queries with waiting users.
var interactive = []int{1, 3, 4, 5, 6, 7, 10, 12, 14, 18, 19, 21}

// etl are the numbers of the queries of a tenant that transforms tables: the largest joins and exchanges.
var etl = []int{8, 9, 13, 20}

type benchCmd struct {
	clusterFlags
	SF       float64       `name:"sf" default:"1" placeholder:"X" help:"Scale factor of the data. Default ${default}."`
	Load     float64       `default:"0.8" help:"Share of the CPUs that queries keep busy, by the CPU time of each query alone; with --connect, share of the slots. Default ${default}."`
	For      time.Duration `default:"30s" help:"How long queries arrive; 0: only measure the cost of each query. Default ${default}."`
	Policies []string      `default:"phoebe,blind,late-binding,random" placeholder:"NAME,..." help:"Policies to measure in turn; blind is phoebe without the places of files. Default ${default}."`
	ETL      bool          `name:"etl" help:"Also measure each policy beside a second tenant with large joins. Each tenant has half of the load. Under phoebe, the large joins are placed by estimation."`
	Alone    bool          `default:"true" negatable:"" help:"Also measure DuckDB alone. Default: yes."`
	Seed     uint64        `default:"1" help:"Seed of the arrivals. Default ${default}."`

	workerPIDs []int // process IDs of the workers, if this program started the workers
}

// arrival is a query due at a time after the start of the run.
type arrival struct {
	dueAt time.Duration
	query int
	etl   bool
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
	taskTime time.Duration // sum of the run times of the tasks
	cpu      time.Duration // CPU time of all processes
	duckdb   time.Duration // CPU time of single-threaded DuckDB

	local, remote int // number of tasks in all rounds, by the place of their data
}

// runFunc runs a query and returns the query's statistics.
type runFunc func(arrival) (engine.Stats, error)

func (b *benchCmd) Run(ctx context.Context, c *cli) error {
	m, err := data.Read(c.Data, b.SF)
	if err != nil {
		return err
	}
	var own *workerNodes
	if len(b.Connect) == 0 {
		if own, err = startNodes(c.Data, m.Nodes); err != nil {
			return err
		}
		defer own.close()
		b.Connect, b.workerPIDs = []string{own.frontend.Addr()}, own.workerPIDs()
	}
	e, _, close, err := b.openEngine(c, b.SF)
	if err != nil {
		return err
	}
	defer close()
	if own != nil {
		if err := awaitSlots(ctx, e, len(m.Nodes)); err != nil {
			return err
		}
	}
	slots, err := e.Slots(ctx)
	if err != nil {
		return err
	}
	phoebe := func(policy string) runFunc {
		return func(a arrival) (engine.Stats, error) {
			opt := b.queryOptions()
			// the tasks are short, even if phoebe expects long tasks from the size of the inputs
			opt.Mode = client.SampleMode
			if opt.Policy = client.Policy(policy); policy == "blind" {
				opt.Policy, opt.Blind = client.PhoebePolicy, true
			}
			if a.etl {
				opt.Tenant, opt.Class = "etl", client.Spare
				if policy == "phoebe" { // sampled tasks then meet estimated tasks
					opt.Mode = client.EstimateMode
				}
			}
			r, err := e.Query(ctx, m.Queries[a.query-1], opt)
			if err != nil {
				return engine.Stats{}, err
			}
			defer r.Close()
			return r.Stats, nil
		}
	}
	fmt.Printf("scale factor %g, %d workers, %d slots, %d CPUs\n", b.SF, len(m.Nodes), slots, runtime.NumCPU())
	costs, err := b.measureCosts(ctx, m, b.workerPIDs, phoebe("phoebe"))
	if err != nil {
		return err
	}
	if own != nil {
		printCosts(costs)
	}
	if b.For == 0 {
		return nil
	}
	due, withETL := b.drawArrivals(costs, slots)
	fmt.Printf("%-34s %9s %9s  %-15s %s\n", "", "p50", "p99", "over the ideal", "local")
	for _, p := range b.Policies {
		b.measurePolicy(ctx, p, due, withETL, slots, phoebe(p))
	}
	if b.Alone {
		return b.measureBestDuckDB(ctx, m, due, withETL)
	}
	return nil
}

// measureCosts runs each query alone: in turns on the cluster and in single-threaded DuckDB. The processes
// workerPIDs are the workers, if this program started the workers.
func (b *benchCmd) measureCosts(ctx context.Context, m *data.Manifest, workerPIDs []int,
	run runFunc) (map[int]cost, error) {
	single, stop, err := b.startDuckDBs(ctx, m, 1, 1)
	if err != nil {
		return nil, err
	}
	defer stop()
	all := slices.Concat(interactive, etl)
	for range 3 { // until all files are in the workers' memory and have been compared with their digests
		for _, n := range all {
			if _, err := run(arrival{query: n}); err != nil {
				return nil, fmt.Errorf("Q%d: %w", n, err)
			}
		}
	}
	costs := map[int]cost{}
	for _, n := range all {
		var times [3][]time.Duration
		var c cost
		for range rounds {
			meter := bench.NewCPUMeter(workerPIDs...)
			stats, err := run(arrival{query: n})
			if err != nil {
				return nil, fmt.Errorf("Q%d: %w", n, err)
			}
			times[0], times[1] = append(times[0], taskTime(&stats)), append(times[1], cpuTime(meter))
			c.local, c.remote = c.local+stats.Local, c.remote+stats.Remote
			meter = bench.NewCPUMeter()
			if _, err := single(arrival{query: n}); err != nil {
				return nil, fmt.Errorf("Q%d: %w", n, err)
			}
			times[2] = append(times[2], cpuTime(meter))
		}
		c.taskTime, c.cpu, c.duckdb = quantileOf(times[0], 0.5), quantileOf(times[1], 0.5), quantileOf(times[2], 0.5)
		costs[n] = c
	}
	return costs, nil
}

// printCosts prints the cost of each query on the cluster beside the cost in DuckDB alone.
func printCosts(costs map[int]cost) {
	fmt.Println("CPU time of a query (workers, frontend and client) over single-threaded DuckDB, and its share of " +
		"local tasks:")
	var sum cost
	for _, n := range slices.Concat(interactive, etl) {
		c := costs[n]
		sum.cpu, sum.duckdb, sum.local, sum.remote = sum.cpu+c.cpu, sum.duckdb+c.duckdb, sum.local+c.local,
			sum.remote+c.remote
		c.printLine(fmt.Sprintf("Q%d", n))
	}
	sum.printLine("all")
}

// printLine prints the cost on a line.
func (c *cost) printLine(label string) {
	fmt.Printf("  %-3s %5d ms over %5d ms: %.2f  %5.1f%%\n", label, c.cpu.Milliseconds(), c.duckdb.Milliseconds(),
		float64(c.cpu)/float64(c.duckdb), percentOf(c.local, c.remote))
}

// cpuTime returns the CPU time of a meter's processes.
func cpuTime(m *bench.CPUMeter) time.Duration {
	u := m.Use()
	return time.Duration(u.Own * u.Seconds * float64(time.Second))
}

// taskTime returns the sum of the run times of all tasks.
func taskTime(s *engine.Stats) time.Duration {
	var sum time.Duration
	for _, st := range s.Stages {
		for _, t := range st.Tasks {
			sum += t.Run
		}
	}
	return sum
}

// drawArrivals returns the arrivals of the interactive queries alone. With ETL, it also returns the same
// arrivals mixed with the arrivals of the ETL tenant.
func (b *benchCmd) drawArrivals(costs map[int]cost, slots int) (due, withETL []arrival) {
	r := rand.New(rand.NewPCG(b.Seed, 0))
	width, capacity := slots, "the slots' time"
	if b.workerPIDs != nil {
		width, capacity = runtime.NumCPU(), "the CPUs' time"
	}
	makeArrivals := func(numbers []int, load float64, etl bool) (due []arrival) {
		mean := time.Duration(0)
		for _, n := range numbers {
			took := costs[n].taskTime
			if b.workerPIDs != nil {
				took = costs[n].cpu
			}
			mean += took / time.Duration(len(numbers))
		}
		gap := float64(mean) / (load * float64(width))
		for at := time.Duration(0); at < b.For; at += time.Duration(r.ExpFloat64() * gap) {
			due = append(due, arrival{at, numbers[r.IntN(len(numbers))], etl})
		}
		fmt.Printf("queries %v: %d in %v, one each %v, which takes %v alone: %g of %s\n",
			numbers, len(due), b.For, time.Duration(gap).Round(time.Millisecond), mean.Round(time.Millisecond), load,
			capacity)
		return due
	}
	if !b.ETL {
		return makeArrivals(interactive, b.Load, false), nil
	}
	due = makeArrivals(interactive, b.Load/2, false)
	withETL = append(slices.Clone(due), makeArrivals(etl, b.Load/2, true)...)
	slices.SortStableFunc(withETL, func(a, b arrival) int { return cmp.Compare(a.dueAt, b.dueAt) })
	return due, withETL
}

// measurePolicy prints how the queries go alone. With ETL, it also prints how the queries go beside the ETL
// tenant.
func (b *benchCmd) measurePolicy(ctx context.Context, name string, due, withETL []arrival, slots int, run runFunc) {
	p99 := b.runAndReport(ctx, name, due, slots, run)
	if withETL != nil {
		fmt.Printf("  p99 is %.2f times that of without it\n",
			float64(b.runAndReport(ctx, name+", beside ETL", withETL, slots, run))/float64(p99))
	}
}

// runArrivals runs queries when they are due, however many are under way, and returns when all have ended. A
// response counts from the time when the query was due.
func runArrivals(ctx context.Context, due []arrival, run runFunc) []sample {
	out := make([]sample, len(due))
	var wg sync.WaitGroup
	begin := time.Now()
	for i, a := range due {
		time.Sleep(time.Until(begin.Add(a.dueAt)))
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			s, err := run(a)
			out[i] = sample{a, time.Since(begin) - a.dueAt, s, err}
		})
	}
	wg.Wait()
	return out
}

// runAndReport runs queries, prints a line about the interactive queries, and returns their p99. If slots is
// not 0, the line compares the responses with the ideal on this number of slots, and a second line has the
// parts of the responses.
func (b *benchCmd) runAndReport(ctx context.Context, name string, due []arrival, slots int,
	run runFunc) (p99 time.Duration) {
	meter := bench.NewCPUMeter(b.workerPIDs...)
	l := runArrivals(ctx, due, run)
	if busy := meter.Use().Busy(runtime.NumCPU()); busy != "" {
		fmt.Printf("  (meanwhile %s)\n", busy)
	}
	failed := len(l)
	l = slices.DeleteFunc(l, func(s sample) bool { return s.err != nil || s.response == 0 })
	failed -= len(l)
	allIdeals := make([]time.Duration, len(l))
	if slots > 0 {
		allIdeals = idealResponses(l, slots)
	}
	var responses, ideals, others []time.Duration
	var sums [numParts]time.Duration
	local, remote, otherLocal, otherRemote := 0, 0, 0, 0
	for i, s := range l {
		if s.etl {
			others = append(others, s.response)
			otherLocal, otherRemote = otherLocal+s.stats.Local, otherRemote+s.stats.Remote
			continue
		}
		responses, ideals = append(responses, s.response), append(ideals, allIdeals[i])
		local, remote = local+s.stats.Local, remote+s.stats.Remote
		if slots > 0 {
			for k, d := range splitResponse(&s) {
				sums[k] += d
			}
		}
	}
	p50, p99 := quantileOf(responses, 0.5), quantileOf(responses, 0.99)
	line := fmt.Sprintf("%-34s %9v %9v", name, p50, p99)
	if slots > 0 {
		line += fmt.Sprintf("  x %.2f, x %.2f  %5.1f%%", float64(p50)/float64(quantileOf(ideals, 0.5)),
			float64(p99)/float64(quantileOf(ideals, 0.99)), percentOf(local, remote))
	}
	if failed > 0 {
		line += fmt.Sprintf("  %d of %d failed", failed, len(due))
	}
	fmt.Println(line)
	if slots > 0 {
		var words []string
		for k, d := range sums {
			words = append(words, fmt.Sprintf("%v %.1f", responsePart(k), d.Seconds()*1000/float64(len(responses))))
		}
		fmt.Printf("  mean %v, the ideal's %v: %s ms\n", meanOf(responses), meanOf(ideals), strings.Join(words, ", "))
	}
	if len(others) > 0 {
		line := fmt.Sprintf("  of the other tenant's queries p50 %v, p99 %v", quantileOf(others, 0.5),
			quantileOf(others, 0.99))
		if slots > 0 {
			line += fmt.Sprintf(", %.1f%% local", percentOf(otherLocal, otherRemote))
		}
		fmt.Println(line)
	}
	return p99
}

// percentOf returns part in percent of the sum of part and others.
func percentOf(part, others int) float64 { return 100 * float64(part) / float64(max(1, part+others)) }

// meanOf returns the mean, rounded to 100 µs.
func meanOf(l []time.Duration) (m time.Duration) {
	for _, d := range l {
		m += d / time.Duration(len(l))
	}
	return m.Round(100 * time.Microsecond)
}

// quantileOf returns the quantile q (0 to 1), rounded to 100 µs; 0 for an empty list.
func quantileOf(l []time.Duration, q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	l = slices.Sorted(slices.Values(l))
	return l[histogram.QuantileRank(q, len(l))-1].Round(100 * time.Microsecond)
}

// measureBestDuckDB measures DuckDB alone. A trial with a third of the queries finds the best number of DuckDBs
// and threads.
func (b *benchCmd) measureBestDuckDB(ctx context.Context, m *data.Manifest, due, withETL []arrival) error {
	trial := due
	if withETL != nil {
		trial = withETL
	}
	trial = trial[:len(trial)/3]
	least := time.Duration(0)
	var queries, threads int
	for _, q := range []int{1, 2, 4} {
		for _, t := range []int{1, 2} {
			run, stop, err := b.startDuckDBs(ctx, m, q, t)
			if err != nil {
				return err
			}
			p99 := b.runAndReport(ctx, fmt.Sprintf("DuckDB, %d queries x %d, a third", q, t), trial, 0, run)
			if stop(); least == 0 || p99 < least {
				least, queries, threads = p99, q, t
			}
		}
	}
	run, stop, err := b.startDuckDBs(ctx, m, queries, threads)
	if err != nil {
		return err
	}
	defer stop()
	b.measurePolicy(ctx, fmt.Sprintf("DuckDB at its best, %d x %d", queries, threads), due, withETL, 0, run)
	return nil
}

// startDuckDBs starts DuckDBs for this number of queries at a time; further queries wait. All DuckDBs are warm,
// as the workers are.
func (b *benchCmd) startDuckDBs(ctx context.Context, m *data.Manifest, queries,
	threads int) (run runFunc, stop func(), err error) {
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
			// Q5 and Q9 together read all tables
			err = errors.Join(r.Run(ctx, m.Queries[5-1]), r.Run(ctx, m.Queries[9-1]))
		}
		if err != nil {
			stop()
			return nil, nil, err
		}
	}
	run = func(a arrival) (engine.Stats, error) {
		r := <-free
		defer func() { free <- r }()
		return engine.Stats{}, r.Run(ctx, m.Queries[a.query-1])
	}
	return run, stop, nil
}
