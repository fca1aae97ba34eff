package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
)

// longFigures are about tasks placed by estimation. Sections in claims are sections of Apollo (Boutin et al.,
// OSDI 2014).
var longFigures = []Figure{
	{
		Name: "matching", Title: "Matching tasks with workers",
		Claim: "Stable matching is no further from the optimum than placing the tasks one by one (2 % is no " +
			"difference). In the mean completion stable matching is nearer from 100 tasks on, in the last " +
			"completion from 300 tasks on (section 5.5). " +
			fmt.Sprintf("The limits of production, %d tasks a batch and %d servers a task, cost less than 1 %% of "+
				"the mean and less than 10 %% of the last completion.", estimate.MaxBatch, estimate.MaxKept),
		axis: bench.Axis{Label: "tasks", Scale: bench.Log}, seeds: [...]int{10, 30},
		views: []view{{title: "mean completion, mean run times", metric: meanDone},
			{title: "last completion, mean run times", metric: lastDone}},
		playSeed: func(o FigureOptions, seed uint64, add func(line string, x float64, r *bench.SimRun)) {
			const servers = 100
			speedups := []float64{4}
			if o.Scale == FullScale {
				speedups = []float64{2, 4, 10}
			}
			for _, speedup := range speedups {
				for _, tasks := range []int{10, 30, 100, 300, 1000} {
					q := estimate.MatchQuality(rand.New(rand.NewPCG(seed, uint64(tasks))), servers, tasks, speedup)
					for _, m := range []struct {
						name string
						q    estimate.Completion
					}{{"greedy", q.Greedy}, {"stable", q.Stable}, {"stable within limits", q.Limited},
						{"optimal", q.Optimal}} {
						add(fmt.Sprintf("%s, %gx faster where preferred", m.name, speedup), float64(tasks),
							&bench.SimRun{
								Policy: m.name, Workers: servers, Slots: 1,
								Completion: &bench.SimMatching{Mean: m.q.Mean,
									Last: m.q.Last},
							})
					}
				}
			}
		},
		setup: "100 servers of one slot with exponential waits of mean 1, tasks with exponential run times of mean " +
			"1, each with a preferred server; for the last completion, optimal is a bound",
		check: func(d *figureData) []Check {
			var checks []Check
			for _, x := range d.xs {
				const speedup = ", 4x faster where preferred"
				ratio := func(line string, m metric) float64 {
					return d.ratioOf(line+speedup, x, "optimal"+speedup, x, m)
				}
				greedy, stable := ratio("greedy", meanDone), ratio("stable", meanDone)
				greedyLast, stableLast := ratio("greedy", lastDone), ratio("stable", lastDone)
				limited, limitedLast := ratio("stable within limits", meanDone), ratio("stable within limits", lastDone)
				ok := stable <= greedy*1.01 && stableLast <= greedyLast*1.02
				if x >= 100 {
					ok = stable < greedy && stableLast < greedyLast*1.02
				}
				if x >= 300 {
					ok = stable < greedy && stableLast < greedyLast
				}
				checks = append(checks,
					newCheck(ok, "%g tasks, 4 times faster: mean %.2f times the optimum (greedy %.2f), last %.2f "+
						"times the bound (greedy %.2f)", x, stable, greedy, stableLast, greedyLast),
					newCheck(limited < stable*1.01 && limitedLast < stableLast*1.1,
						"within limits: mean %.2f times the optimum, last %.2f times the bound", limited, limitedLast))
			}
			return checks
		},
	},
	{
		Name: "estimation", Title: "With estimation and without",
		Claim: "With placement by estimated completion time, waits differ between workers less than half as much as " +
			"with placement by the queue lengths of two workers, and less than a quarter as much as with random " +
			"placement (section 5.3).",
		axis: bench.Axis{Label: "load"}, seeds: [...]int{2, 3}, locate: byLoad,
		views: []view{
			{title: "deviation of mean waits over workers, ms", scale: bench.Log, metric: workerSpread},
			{title: "p99 wait, ms", scale: bench.Log, metric: func(r *bench.SimRun) float64 { return r.WaitMS.P99 }},
			{title: "mean response, ms", scale: bench.Log, metric: meanResponse},
		},
		parts: func(s FigureScale) []part {
			w := longSweep(s.pickSize(50, 200), s.pickSize(8000, 60_000), "phoebe", "per-task", "random")
			// one task a job: in a larger job, some tasks had better wait
			w.Workload = Poisson{must(bench.ParseCounts("1")), must(bench.ParseDurations("lognormal:0.5,10s"))}
			w.Loads = []float64{0.7, 0.8, 0.9}
			return []part{{sweep: w}}
		},
		check: func(d *figureData) []Check {
			var checks []Check
			for _, x := range d.xs {
				sampled, anywhere := d.ratioOf("phoebe", x, "per-task", x, workerSpread),
					d.ratioOf("phoebe", x, "random", x, workerSpread)
				checks = append(checks, newCheck(sampled < 0.5 && anywhere < 0.25, "at load %g the spread of waits "+
					"is %.2f times that by queue lengths, and %.3f times that of random placement", x, sampled,
					anywhere))
			}
			return checks
		},
	},
	{
		Name: "staleness", Title: "Old wait matrices",
		Claim: "By gossip alone, tasks wait longer the older the gossip is. If frontends ask the few workers that " +
			"matter, the mean response stays within 2 % of the response with heartbeats ten times a second, however " +
			"rare the gossip.",
		axis: bench.Axis{Label: "heartbeat period, s", Scale: bench.Log}, seeds: [...]int{2, 3},
		views: []view{
			{title: "mean response, ms", metric: meanResponse},
			{title: "mean wait, ms", scale: bench.Log,
				metric: func(r *bench.SimRun) float64 { return max(r.WaitMS.Mean, 1) }},
			{title: "wait estimates within 10 % or 1 s, %", metric: waitsWithin},
		},
		parts: func(s FigureScale) []part {
			var parts []part
			for _, sure := range []time.Duration{0, -1} {
				for _, period := range []time.Duration{100, 300, 1000, 3000, 10_000, 30_000} {
					w := longSweep(s.pickSize(40, 150), s.pickSize(500, 3000), "phoebe")
					w.Gossip = Gossip{Period: period * time.Millisecond, Delay: w.Delay}
					w.SureFor = sure
					parts = append(parts, part{x: w.Gossip.Period.Seconds(), sweep: w})
				}
			}
			return parts
		},
		locate: func(p *part, _ *Result) (string, float64) {
			if p.sweep.SureFor < 0 {
				return "gossip alone", p.x
			}
			return "phoebe, which asks", p.x
		},
		check: func(d *figureData) []Check {
			first, last := d.xs[0], d.xs[len(d.xs)-1]
			worst := 0.0
			for _, x := range d.xs {
				worst = max(worst, d.ratioOf("phoebe, which asks", x, "phoebe, which asks", first, meanResponse))
			}
			wait := func(r *bench.SimRun) float64 { return r.WaitMS.Mean }
			grows := d.meanOf("gossip alone", last, wait) > d.meanOf("gossip alone", first, wait)
			return []Check{
				newCheck(grows, "by gossip alone a task waits %.0f ms on average with heartbeats every %g s and "+
					"%.0f ms with heartbeats every %g s; %.1f and %.1f %% of the wait estimates are within "+
					"10 %% or 1 s",
					d.meanOf("gossip alone", first, wait), first, d.meanOf("gossip alone", last, wait), last,
					d.meanOf("gossip alone", first, waitsWithin), d.meanOf("gossip alone", last, waitsWithin)),
				newCheck(worst <= 1.02, "if frontends ask, the mean response is at most %.3f times that of the "+
					"shortest period; a task waits %.0f and %.0f ms", worst,
					d.meanOf("phoebe, which asks", first, wait), d.meanOf("phoebe, which asks", last, wait)),
			}
		},
	},
	{
		Name: "locality", Title: "Data and where it is",
		Claim: "Weighing the time to read against the time to wait is faster than random placement, and faster than " +
			"waiting for a worker with the data, at every size. Less than a third as much is read across racks as " +
			"with random placement.",
		axis: bench.Axis{Label: "input of each task, MB", Scale: bench.Log}, seeds: [...]int{2, 3}, locate: byPart,
		views: []view{
			{title: "mean response, ms", metric: meanResponse}, {title: "p99 response, ms", metric: p99Response},
			{title: "MB read across racks by a task",
				metric: func(r *bench.SimRun) float64 { return r.Read.Across / 1e6 }},
			{title: "MB read from another host by a task",
				metric: func(r *bench.SimRun) float64 { return (r.Read.Across + r.Read.Rack) / 1e6 }},
		},
		parts: func(s FigureScale) []part {
			var parts []part
			for _, mb := range []int64{64, 256, 1024} {
				w := longSweep(s.pickSize(40, 200), s.pickSize(400, 3000), "phoebe", "random", "strict-locality")
				w.Racks, w.Copies, w.Input = s.pickSize(5, 10), 3, mb*1e6
				// Reading takes slots, too: the load of 0.75 counts the runs and the reading from disk.
				w.Loads = []float64{0.75 * 10 / (10 + float64(mb)/160)}
				parts = append(parts, part{x: float64(mb), sweep: w})
			}
			return parts
		},
		check: func(d *figureData) []Check {
			var checks []Check
			for _, x := range d.xs {
				anywhere, strict := d.ratioOf("phoebe", x, "random", x, meanResponse),
					d.ratioOf("phoebe", x, "strict-locality", x, meanResponse)
				across := func(line string) float64 {
					return d.meanOf(line, x, func(r *bench.SimRun) float64 { return r.Read.Across / 1e6 })
				}
				checks = append(checks, newCheck(anywhere < 1 && strict < 1 && across("phoebe") < across("random")/3,
					"with %g MB the mean response is %.2f times that of random placement and %.3f times that of "+
						"strict locality; a task reads %.1f MB across racks, with the other policies %.1f and %.1f MB",
					x, anywhere, strict, across("phoebe"), across("random"), across("strict-locality")))
			}
			return checks
		},
	},
	waitsFigure,
	oracleFigure,
	stragglersFigure,
	correctionsFigure,
	elasticFigure,
	spareFigure,
	tenantsFigure,
	mixedFigure("mixed", Estimates{}, "with exact estimates of each task's run time"),
	mixedFigure("mixed-noisy", Estimates{Noise: 2}, "with estimates up to twice too long or too short, by job"),
	mixedFigure("mixed-mean", Estimates{Mean: true}, "with the mean run time of the job as each task's estimate"),
}

// longSweep has jobs of 20 tasks that run for 10 s on average, workers of 4 slots, and gossip every second.
func longSweep(workers, jobs int, names ...string) Sweep {
	w := newSweep(workers, jobs, "20", "lognormal:0.5,10s", 500*time.Microsecond, names...)
	w.Frontends = 4
	w.Gossip = Gossip{Period: time.Second, Delay: w.Delay}
	return w
}

var nan = math.NaN()

func meanDone(r *bench.SimRun) float64     { return r.Completion.Mean }
func lastDone(r *bench.SimRun) float64     { return r.Completion.Last }
func workerSpread(r *bench.SimRun) float64 { return max(r.WorkerSpread, 1e-3) }

// waitsWithin and runsWithin are shares of good estimates, in %; NaN without estimates.
func waitsWithin(r *bench.SimRun) float64 {
	if r.Estimates == nil {
		return nan
	}
	return 100 * r.Estimates.WaitWithin
}

func runsWithin(r *bench.SimRun) float64 {
	if r.Estimates == nil {
		return nan
	}
	return 100 * r.Estimates.RunWithin
}

// mixedFigure makes the most important figure: short and long tasks together.
func mixedFigure(name string, e Estimates, setting string) Figure {
	type measure struct {
		name  string
		value metric
	}
	var measures []measure
	for _, q := range []struct {
		name  string
		value func(s *bench.Stats) float64
	}{
		{"p50", func(s *bench.Stats) float64 { return s.P50 }},
		{"p90", func(s *bench.Stats) float64 { return s.P90 }},
		{"p99", func(s *bench.Stats) float64 { return s.P99 }},
	} {
		measures = append(measures,
			measure{"short " + q.name, func(r *bench.SimRun) float64 { return q.value(&r.Short.ResponseMS) }},
			measure{"long " + q.name, func(r *bench.SimRun) float64 { return q.value(&r.Long.ResponseMS) }})
	}
	slices.SortStableFunc(measures, func(a, b measure) int { return strings.Compare(b.name[:1], a.name[:1]) })
	f := Figure{
		Name: name, Title: "Short and long tasks together, " + setting,
		Claim: "In p50, p90 and p99 of short and of long jobs, phoebe is ahead of late binding for all tasks and of " +
			"estimation for all tasks, and not behind the rival eagle " +
			"(less than 0.2 % or the 95 % confidence interval is no difference). Of phoebe's wait estimates, " +
			"95 % are within 10 % or 1 s of the truth.",
		axis: bench.Axis{Label: "load"}, seeds: [...]int{3, 10},
		parts: func(s FigureScale) []part {
			var parts []part
			for _, n := range [][]int{{10}, {10, 50}}[s] {
				w := newSweep(n, s.pickSize(6000, 10_000), "1", "fixed:1ms", 500*time.Microsecond, "phoebe",
					"late-binding", "estimation", "eagle")
				w.Frontends, w.Slots, w.Estimates = 4, 8, e
				w.Gossip, w.Reserved = Gossip{Period: time.Second, Delay: w.Delay}, 0.1
				w.Workload = mixedJobs()
				w.Loads = []float64{0.8, 0.95}
				parts = append(parts, part{x: float64(n), sweep: w})
			}
			return parts
		},
		locate: func(p *part, r *Result) (string, float64) {
			return fmt.Sprintf("%s, %g workers", r.Policy, p.x), r.Load
		},
	}
	for _, m := range measures {
		f.views = append(f.views, view{title: m.name + " response, ms", metric: m.value})
	}
	f.views = append(f.views, view{title: "utilisation", metric: slotUtilisation})
	f.check = func(d *figureData) []Check {
		var checks []Check
		for _, line := range d.lines {
			other, on, _ := strings.Cut(line, ", ")
			if other == "phoebe" {
				continue
			}
			var less, at []string
			last := d.xs[len(d.xs)-1]
			for _, x := range d.xs {
				for _, m := range measures {
					if d.meanOf(line, x, m.value) == 0 {
						continue // no such jobs
					}
					c, within := d.changeOf("phoebe, "+on, line, x, m.value)
					text := fmt.Sprintf("%s %+.1f±%.1f", m.name, 100*c, 100*within)
					if c > max(within, 0.002) {
						less = append(less, fmt.Sprintf("%s at load %g", text, x))
					}
					if x == last {
						at = append(at, text)
					}
				}
			}
			text := "behind nowhere"
			if len(less) > 0 {
				text = "behind in " + strings.Join(less, ", ")
			}
			checks = append(checks, newCheck(len(less) == 0, "%s: in %% against %s: %s; at load %g, with slots busy "+
				"for %.3f of the time: %s", on, other, text, last, d.meanOf("phoebe, "+on, last, slotUtilisation),
				strings.Join(at, ", ")))
		}
		for _, line := range d.lines {
			if !strings.HasPrefix(line, "phoebe,") {
				continue
			}
			least, at := 100.0, 0.0
			for _, x := range d.xs {
				if share := d.meanOf(line, x, waitsWithin); share < least {
					least, at = share, x
				}
			}
			if at == 0 {
				checks = append(checks,
					newCheck(true, "%s: no task was placed by estimation, or all estimates were good", line))
				continue
			}
			checks = append(checks, newCheck(least >= 95, "%s: %.1f %% of the wait estimates are within 10 %% or 1 "+
				"s at the worst load (%g), and %.1f %% of the run time estimates", line, least, at,
				d.meanOf(line, at, runsWithin)))
		}
		return checks
	}
	return f
}

// mixedJobs has nine short jobs in ten, and nine tenths of the work in long jobs.
func mixedJobs() Mixed {
	return Mixed{
		Short:    Poisson{must(bench.ParseCounts("geometric:10")), must(bench.ParseDurations("task-exp:200ms"))},
		Long:     Poisson{must(bench.ParseCounts("20")), must(bench.ParseDurations("task-exp:10s"))},
		LongJobs: 0.1,
	}
}
