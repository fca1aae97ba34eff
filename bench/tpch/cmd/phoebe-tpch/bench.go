package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/bench/tpch/data"
	"github.com/phoebe-sched/phoebe/bench/tpch/engine"
	"github.com/phoebe-sched/phoebe/frontend/client"
)

// interactive are the queries that users wait for.
var interactive = []int{1, 3, 4, 5, 6, 7, 10, 12, 14, 18, 19, 21}

// etl are queries as of a tenant that turns tables around: the largest joins and exchanges.
var etl = []int{8, 9, 13, 20}

type benchCmd struct {
	fleet
	SF       float64       `name:"sf" default:"1" placeholder:"X" help:"Scale factor of the data. Default ${default}."`
	Load     float64       `default:"0.8" help:"Of the slots' time, what the queries' tasks take when they run alone. Default ${default}."`
	For      time.Duration `default:"30s" help:"How long queries arrive. Default ${default}."`
	Policies []string      `default:"phoebe,late-binding,random" placeholder:"NAME,..." help:"Policies that are measured, one after the other. Default ${default}."`
	ETL      bool          `name:"etl" help:"Measure each also with half of the load from another tenant, whose queries are large joins, beside the interactive ones."`
	Alone    bool          `default:"true" negatable:"" help:"Measure a DuckDB on its own as well. Default: yes."`
	Seed     uint64        `default:"1" help:"Of arrivals. Default ${default}."`
}

// arrival is a query that is due at a time.
type arrival struct {
	at  time.Duration
	n   int
	etl bool
}

// sample is how a query went. For one that failed, there is an error.
type sample struct {
	arrival
	response time.Duration
	stats    engine.Stats
	err      error
}

func (b *benchCmd) Run(ctx context.Context, c *cli) error {
	e, m, close, err := b.open(c, b.SF)
	if err != nil {
		return err
	}
	defer close()
	slots, err := e.Slots(ctx)
	if err != nil {
		return err
	}
	// Each query alone, the second time: what its tasks take.
	work := map[int]time.Duration{}
	for _, n := range slices.Concat(interactive, etl) {
		for range 2 {
			r, err := e.Query(ctx, m.Queries[n-1], b.options())
			if err != nil {
				return fmt.Errorf("Q%d: %w", n, err)
			}
			r.Close()
			work[n] = tasks(&r.Stats)
		}
	}
	r := rand.New(rand.NewPCG(b.Seed, 0))
	// come has queries arrive whose tasks take this share of the slots' time.
	come := func(numbers []int, load float64, etl bool) (due []arrival) {
		mean := time.Duration(0)
		for _, n := range numbers {
			mean += work[n] / time.Duration(len(numbers))
		}
		gap := time.Duration(float64(mean) / (load * float64(slots)))
		for at := time.Duration(0); at < b.For; at += time.Duration(r.ExpFloat64() * float64(gap)) {
			due = append(due, arrival{at, numbers[r.IntN(len(numbers))], etl})
		}
		fmt.Printf("queries %v: %d in %v, one each %v, whose tasks take %v: load %g of %d slots\n", numbers, len(due), b.For, gap.Round(time.Millisecond), mean.Round(time.Millisecond), load, slots)
		return due
	}
	fmt.Printf("scale factor %g\n", b.SF)
	load := b.Load
	if b.ETL {
		load /= 2
	}
	due := come(interactive, load, false)
	mixed := due
	if b.ETL {
		mixed = slices.SortedStableFunc(slices.Values(slices.Concat(due, come(etl, load, true))), func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	}
	fmt.Printf("%-34s %10s %10s %19s %7s %7s %7s\n", "", "p50", "p99", "omniscient p50, p99", "x p50", "x p99", "local")
	// measure measures without and, if that is asked for, with the other tenant.
	measure := func(name string, slots int, run func(arrival) (engine.Stats, error)) {
		p99 := b.report(name, drive(ctx, due, run), slots)
		if b.ETL {
			beside := b.report(name+", ETL", drive(ctx, mixed, run), slots)
			fmt.Printf("  with the ETL tenant beside it, p99 is %.2f times what it is without\n", float64(beside)/float64(p99))
		}
	}
	for _, p := range b.Policies {
		measure(p, slots, func(a arrival) (engine.Stats, error) {
			opt := b.options()
			opt.Policy = client.Policy(p)
			if a.etl {
				opt.Tenant = "etl"
			}
			r, err := e.Query(ctx, m.Queries[a.n-1], opt)
			if err != nil {
				return engine.Stats{}, err
			}
			r.Close()
			return r.Stats, nil
		})
	}
	if !b.Alone {
		return nil
	}
	one := map[int]time.Duration{}
	for _, queries := range []int{1, 2, 4} {
		for _, threads := range []int{1, 2} {
			run, stop, err := alone(m, queries, threads)
			if err != nil {
				return err
			}
			for _, n := range interactive { // warm, as the workers are
				begin := time.Now()
				if err := run(ctx, n); err != nil {
					stop()
					return err
				}
				if begin = time.Now(); queries == 1 && threads == 1 {
					if err := run(ctx, n); err != nil {
						stop()
						return err
					}
					one[n] = time.Since(begin)
				}
			}
			measure(fmt.Sprintf("DuckDB, %d queries x %d thr.", queries, threads), 0, func(a arrival) (engine.Stats, error) { return engine.Stats{}, run(ctx, a.n) })
			stop()
		}
	}
	fmt.Println("time of a query's tasks over that of one thread of DuckDB on its own:")
	for _, n := range interactive {
		fmt.Printf("  Q%d %.2f (%v over %v)\n", n, float64(work[n])/float64(one[n]), work[n].Round(time.Millisecond), one[n].Round(time.Millisecond))
	}
	return nil
}

func tasks(s *engine.Stats) time.Duration {
	var sum time.Duration
	for _, st := range s.Stages {
		for _, t := range st.Tasks {
			sum += t.Run
		}
	}
	return sum
}

// drive runs queries when they are due, however many are under way, and returns when all have ended. Responses count from when
// they were due.
func drive(ctx context.Context, due []arrival, run func(arrival) (engine.Stats, error)) []sample {
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

// alone is DuckDBs on their own, for so many queries at a time; the others wait.
func alone(m *data.Manifest, queries, threads int) (run func(context.Context, int) error, stop func(), err error) {
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
		if err != nil {
			stop()
			return nil, nil, err
		}
		free <- r
	}
	return func(ctx context.Context, n int) error {
		r := <-free
		defer func() { free <- r }()
		return r.Run(ctx, m.Queries[n-1])
	}, stop, nil
}

// report prints a line about the interactive queries, and returns their p99; with slots, it compares with what is ideal on so many.
func (b *benchCmd) report(name string, l []sample, slots int) (p99 time.Duration) {
	var got []time.Duration
	failed, local, remote := 0, 0, 0
	for _, s := range l {
		if s.err != nil {
			failed++
			continue
		}
		if s.etl {
			continue
		}
		got = append(got, s.response)
		local, remote = local+s.stats.Local, remote+s.stats.Remote
	}
	p50 := quantile(got, 0.5)
	p99 = quantile(got, 0.99)
	line := fmt.Sprintf("%-34s %10v %10v", name, p50, p99)
	if slots > 0 {
		ideal := omniscient(l, slots)
		i50, i99 := quantile(ideal, 0.5), quantile(ideal, 0.99)
		line += fmt.Sprintf(" %10v %8v %7.2f %7.2f %6.1f%%", i50, i99, float64(p50)/float64(i50), float64(p99)/float64(i99), 100*float64(local)/float64(max(1, local+remote)))
	}
	if failed > 0 {
		line += fmt.Sprintf(" (%d failed)", failed)
	}
	fmt.Println(strings.TrimRight(line, " "))
	return p99
}

func quantile(l []time.Duration, q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	l = slices.Sorted(slices.Values(l))
	return l[min(len(l)-1, int(q*float64(len(l))))].Round(100 * time.Microsecond)
}

// omniscient is how long the interactive queries would have taken from one central queue without any delay: tasks with the run times that
// were measured, those of the query that came first before others, and a stage when the one before it is done.
func omniscient(l []sample, slots int) []time.Duration {
	type job struct {
		sample
		stage, next, running int
	}
	type run struct {
		end time.Duration
		j   *job
	}
	var jobs []*job
	for _, s := range l {
		if s.err == nil {
			jobs = append(jobs, &job{sample: s})
		}
	}
	var out []time.Duration
	var running []run
	for now := time.Duration(0); len(jobs) > 0; {
		for _, j := range jobs {
			for j.at <= now && j.stage < len(j.stats.Stages) && j.next < len(j.stats.Stages[j.stage].Tasks) && len(running) < slots {
				running = append(running, run{now + j.stats.Stages[j.stage].Tasks[j.next].Run, j})
				j.next, j.running = j.next+1, j.running+1
			}
		}
		soonest := time.Duration(1<<63 - 1)
		for _, j := range jobs {
			if j.at > now {
				soonest = min(soonest, j.at)
			}
		}
		for _, r := range running {
			soonest = min(soonest, r.end)
		}
		now = soonest
		running = slices.DeleteFunc(running, func(r run) bool {
			if r.end > now {
				return false
			}
			r.j.running--
			return true
		})
		jobs = slices.DeleteFunc(jobs, func(j *job) bool {
			for j.stage < len(j.stats.Stages) && j.next == len(j.stats.Stages[j.stage].Tasks) && j.running == 0 {
				j.stage, j.next = j.stage+1, 0
			}
			if j.at > now || j.stage < len(j.stats.Stages) {
				return false
			}
			if !j.etl {
				out = append(out, now-j.at)
			}
			return true
		})
	}
	return out
}
