package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
)

// cellSweep has 600 workers, and batch and service jobs. Batch jobs come k times as often as every 10 s, and are k
// times as short as 100 s. A decision takes the given time for each job of a kind, and 5 ms for each task.
func cellSweep(jobs, k, batchDeciders int, batch, service time.Duration, names ...string) Sweep {
	w := newSweep(600, jobs*(2*k+1)/3, "1", "fixed:1ms", 500*time.Microsecond, names...)
	short := (100 * time.Second / time.Duration(k)).Round(time.Microsecond)
	w.Workload = Kinds{
		must(ParseKind(fmt.Sprintf("batch %v geometric:100 job-exp:%v", 10*time.Second/time.Duration(k), short))),
		must(ParseKind("service 20s geometric:10 job-exp:500s")),
	}
	w.Frontends, w.Loads = batchDeciders+1, []float64{0}
	w.Gossip = Gossip{Period: time.Minute, Delay: w.Delay}
	const perTask = 5 * time.Millisecond
	w.Think = []Think{{"batch", batch, perTask, batchDeciders}, {"service", service, perTask, 1}}
	return w
}

// lastStart returns a measure of the time until the last task of a job of a kind starts, in s.
func lastStart(kind string, value func(s *bench.Stats) float64) metric {
	return func(r *bench.SimRun) float64 {
		if k := r.Kinds[kind]; k != nil {
			return max(value(&k.LastStartMS)/1000, 1e-4)
		}
		return 1e-4
	}
}

func p90OfStats(s *bench.Stats) float64 { return s.P90 }

func clashesOf(kind string) metric {
	return func(r *bench.SimRun) float64 { return deciderOf(r, kind).Clashes }
}

const pricedPhoebe = "phoebe, at the same price"

// locatePriced locates a run on the line of its policy; runs of phoebe with decisions that take time have a line of
// their own.
func locatePriced(p *part, r *Result) (string, float64) {
	if r.Policy == "phoebe" && len(p.sweep.Think) > 0 {
		return pricedPhoebe, p.x
	}
	return r.Policy, p.x
}

var commitFigure = Figure{
	Name: "commit", Title: "Commits that clash",
	Claim: "With shared state, coarse conflicts make schedulers two to three times as busy as fine conflicts, and " +
		"gangs " +
		"clash more often than tasks committed one by one; more schedulers clash more often (Omega, figures 8, 9 and " +
		"14). phoebe decides at most 0.1 % of its tasks twice. With k batch schedulers, batch jobs come k times as " +
		"often, and are k times as short.",
	axis: bench.Axis{Label: "batch schedulers", Scale: bench.Log},
	views: []view{
		{title: "clashes for each service job", metric: clashesOf("service")},
		{title: "clashes for each batch job", metric: clashesOf("batch")},
		{title: "deciders of service jobs busy, share of time", metric: busyOf("service")},
		{title: "deciders of batch jobs busy, share of time", metric: busyOf("batch")},
		{title: "decisions of service jobs made anew, %", metric: redoneOf("service")},
		{title: "decisions of batch jobs made anew, %", metric: redoneOf("batch")},
		{title: "p90 until the last task of a service job starts, s", scale: bench.Log,
			metric: lastStart("service", p90OfStats)},
	},
	seeds: [...]int{1, 3},
	parts: func(s FigureScale) []part {
		counts := []int{1, 4, 16}
		if s == FullScale {
			counts = []int{1, 2, 4, 8, 16, 32}
		}
		var parts []part
		for _, n := range counts {
			parts = append(parts, part{x: float64(n), sweep: cellSweep(s.pickSize(150, 400), n, n, 100*time.Millisecond,
				time.Second, "shared-state", "shared-state-coarse", "shared-state-gang", "shared-state-coarse-gang",
				"phoebe")})
		}
		return parts
	},
	locate: locatePriced,
	check: func(d *figureData) []Check {
		var checks []Check
		last := d.xs[len(d.xs)-1]
		clashes, busy := clashesOf("service"), busyOf("service")
		const fine, coarse, gang, coarseGang = "shared-state", "shared-state-coarse", "shared-state-gang",
			"shared-state-coarse-gang"
		for _, pair := range []struct{ name, line, other string }{
			{"coarse conflicts clash more often than fine", coarse, fine},
			{"gangs clash more often than tasks one by one, with fine conflicts", gang, fine},
			{"gangs clash more often than tasks one by one, with coarse conflicts", coarseGang, coarse},
		} {
			var texts []string
			ok := true
			for _, x := range d.xs {
				a, b := d.meanOf(pair.line, x, clashes), d.meanOf(pair.other, x, clashes)
				ok = ok && a >= b
				texts = append(texts, fmt.Sprintf("%.3f and %.3f with %g", a, b, x))
			}
			checks = append(checks, newCheck(ok, "%s: clashes for each service job, by batch schedulers: %s", pair.name,
				strings.Join(texts, ", ")))
		}
		for _, line := range []string{fine, coarse} {
			a, b := d.meanOf(line, d.xs[0], clashes), d.meanOf(line, last, clashes)
			checks = append(checks, newCheck(a <= b, "%s: %.3f clashes for each service job with %g batch schedulers, "+
				"%.3f with %g", line, a, d.xs[0], b, last))
		}
		var ratios []string
		met := false
		for _, x := range d.xs {
			r := d.meanOf(coarse, x, busy) / max(d.meanOf(fine, x, busy), 1e-9) // some runs have no service job
			met = met || r >= 2 && r <= 3
			ratios = append(ratios, fmt.Sprintf("%.2f with %g", r, x))
		}
		checks = append(checks, newCheck(met, "schedulers of service jobs with coarse conflicts are as many times "+
			"as busy "+
			"as with fine conflicts, by batch schedulers: %s (the paper: 2 to 3)", strings.Join(ratios, ", ")))
		worst := 0.0
		for _, x := range d.xs {
			worst = max(worst, d.meanOf(pricedPhoebe, x, redoneOf("service")), d.meanOf(pricedPhoebe, x, redoneOf("batch")))
		}
		return append(checks, newCheck(worst <= 0.1, "phoebe decides at most %.3f %% of its tasks twice (bar 0.1 %%); "+
			"shared-state with %g batch schedulers redoes %.1f %% of its decisions about service jobs", worst, last,
			d.meanOf(fine, last, redoneOf("service"))))
	},
}

// redoneOf is the share of decision time spent again, in %.
func redoneOf(kind string) metric {
	return func(r *bench.SimRun) float64 { return 100 * deciderOf(r, kind).Redone }
}
