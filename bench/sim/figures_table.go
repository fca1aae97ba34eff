package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend"
)

// Figures are all figures. Sections in claims are sections of Sparrow (Ousterhout et al., SOSP 2013).
var Figures = slices.Concat([]Figure{
	{
		Name: "load", Title: "Response by load",
		Claim: "Per-task sampling beats random placement, batch sampling beats per-task sampling, and late binding " +
			"beats batch sampling (sections 3.2 to 3.5). " +
			"phoebe is no worse than late binding. A centralized scheduler saturates at a load at which none of " +
			"these does.",
		axis: bench.Axis{Label: "load"}, views: responseViews, seeds: [...]int{1, 1}, locate: byLoad,
		parts: func(s FigureScale) []part {
			w := sparrowSweep(s.pickSize(200, 2000), s.pickSize(400, 2000), "random", "per-task", "batch",
				"late-binding", "phoebe", "centralized", "omniscient")
			w.Loads = []float64{0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95}
			// So the centralized scheduler can start 85 % of the tasks that the slots can run.
			w.DecisionCost = time.Duration(float64(100*time.Millisecond) / (0.85 * float64(w.Workers*w.Slots)))
			return []part{{sweep: w}}
		},
		check: func(d *figureData) []Check {
			var checks []Check
			for _, c := range [][2]string{{"per-task", "random"}, {"batch", "per-task"}, {"late-binding", "batch"}} {
				r := d.ratioOf(c[0], 0.8, c[1], 0.8, meanResponse)
				checks = append(checks,
					newCheck(r < 1, "at load 0.8 the mean response of %s is %.2f times that of %s", c[0], r, c[1]))
			}
			worst, at := d.worstRatio("phoebe", "late-binding", meanResponse)
			checks = append(checks, newCheck(worst <= 1.01, "the mean response of phoebe is at most %.3f times that "+
				"of late-binding (at load %g)", worst, at))
			central, late := d.ratioOf("centralized", 0.95, "omniscient", 0.95, meanResponse),
				d.ratioOf("late-binding", 0.95, "omniscient", 0.95, meanResponse)
			return append(checks, newCheck(central > 2*late, "at load 0.95 the mean response of centralized is %.2f "+
				"times omniscient, that of late-binding %.2f times", central, late))
		},
	},
	{
		Name: "late-binding", Title: "Late binding against batch sampling",
		Claim: "At load 0.8 late binding takes 0.55 times as long as batch sampling, and is within 5 % of an " +
			"omniscient scheduler (section 3.5). " +
			"Proactive cancellation does not make late binding slower (section 3.6).",
		axis: bench.Axis{Label: "load"}, views: responseViews, seeds: [...]int{1, 1}, locate: byLoad,
		parts: func(s FigureScale) []part {
			w := sparrowSweep(s.pickSize(1000, 10_000), s.pickSize(600, 4000), "batch", "late-binding-no-cancel",
				"late-binding", "phoebe", "omniscient")
			w.Loads = []float64{0.5, 0.8, 0.9}
			return []part{{sweep: w}}
		},
		check: func(d *figureData) []Check {
			batch, best := d.ratioOf("late-binding", 0.8, "batch", 0.8, meanResponse),
				d.ratioOf("late-binding", 0.8, "omniscient", 0.8, meanResponse)
			worst, at := d.worstRatio("late-binding", "late-binding-no-cancel", meanResponse)
			return []Check{
				newCheck(batch <= 0.6, "at load 0.8 the mean response of late-binding is %.2f times that of batch "+
					"(bar 0.6: the paper has 0.55)", batch),
				newCheck(best <= 1.05, "at load 0.8 the mean response of late-binding is %.3f times omniscient "+
					"(bar 1.05: the paper's simulation; the paper's cluster has 1.12 to 1.14 times the ideal)", best),
				newCheck(worst <= 1.01, "the mean response of late-binding is at most %.3f times that of "+
					"late-binding-no-cancel (at load %g; this project's own bar: 1.01)", worst, at),
			}
		},
	},
	{
		Name: "baselines", Title: "The baselines of other implementations",
		Claim: "At load 0.8 the mean response, divided by the response of an omniscient scheduler to the same jobs, " +
			"agrees with independent implementations of Sparrow's policies: " +
			"6.2 with random placement (10 % more or less), 2.04 with per-task sampling, 1.56 with batch sampling " +
			"and 1.11 with late binding (3 % more or less).",
		axis: bench.Axis{Label: "load"}, seeds: [...]int{3, 5}, locate: byLoad,
		views: []view{responseViews[0], {title: "mean response over the mean of the jobs' longest tasks",
			metric: func(r *bench.SimRun) float64 { return r.Ratio.Mean }},
			{title: "utilisation", metric: slotUtilisation}},
		parts: func(s FigureScale) []part {
			return []part{{sweep: sparrowSweep(1000, s.pickSize(5000, 8000), "random", "per-task", "batch",
				"late-binding")}}
		},
		check: func(d *figureData) []Check {
			var checks []Check
			for _, ref := range []struct {
				policy     string
				mean, most float64
			}{{"random", 6.2, 0.1}, {"per-task", 2.04, 0.03}, {"batch", 1.56, 0.03}, {"late-binding", 1.11, 0.03}} {
				r := d.meanOf(ref.policy, 0.8, overOmniscient)
				checks = append(checks, newCheck(math.Abs(r/ref.mean-1) <= ref.most, "%s: %.3f times omniscient, "+
					"elsewhere %.2f; the slots were busy for %.3f of the time",
					ref.policy, r, ref.mean, d.meanOf(ref.policy, 0.8, slotUtilisation)))
			}
			return checks
		},
	},
	{
		Name: "probe-ratio", Title: "Probe ratio",
		Claim: "Two probes a task are much better than one, and a third improves little (section 7).",
		axis:  bench.Axis{Label: "probe ratio"},
		views: append(slices.Clone(responseViews), view{title: "messages per task", metric: messagesPerTask}),
		seeds: [...]int{1, 2},
		parts: func(s FigureScale) []part {
			w := sparrowSweep(s.pickSize(200, 1000), s.pickSize(500, 2000), "late-binding", "phoebe")
			w.Loads, w.ProbeRatios = []float64{0.8, 0.9}, []float64{1, 1.1, 1.2, 1.5, 2, 2.5, 3}
			return []part{{sweep: w}}
		},
		locate: func(_ *part, r *Result) (string, float64) {
			return fmt.Sprintf("%s at load %g", r.Policy, r.Load), r.ProbeRatio
		},
		check: func(d *figureData) []Check {
			var checks []Check
			for _, line := range d.lines {
				two, three := d.ratioOf(line, 1, line, 2, meanResponse), d.ratioOf(line, 3, line, 2, meanResponse)
				checks = append(checks, newCheck(two >= 1.05 && three >= 0.97, "%s: mean response with 1 probe %.2f "+
					"times that with 2, with 3 probes %.3f times; messages per task %.1f, %.1f, %.1f",
					line, two, three, d.meanOf(line, 1, messagesPerTask), d.meanOf(line, 2, messagesPerTask),
					d.meanOf(line, 3, messagesPerTask)))
			}
			return checks
		},
	},
	{
		Name: "frontends", Title: "Number of frontends",
		Claim: "Frontends without knowledge of each other place tasks as well as a single frontend.",
		axis:  bench.Axis{Label: "frontends", Scale: bench.Log},
		views: append(slices.Clone(responseViews), view{title: "messages per task", metric: messagesPerTask}),
		seeds: [...]int{2, 3},
		parts: func(s FigureScale) []part {
			var parts []part
			for _, n := range []int{1, 2, 5, 10, 20, 50} {
				w := sparrowSweep(s.pickSize(200, 1000), s.pickSize(500, 2000), "late-binding", "phoebe")
				w.Frontends, w.Loads = n, []float64{0.8, 0.95}
				parts = append(parts, part{x: float64(n), sweep: w})
			}
			return parts
		},
		locate: byPartAndLoad,
		check: func(d *figureData) []Check {
			var checks []Check
			for _, line := range d.lines {
				worst, at := 0.0, 0.0
				for _, x := range d.xs {
					if r := d.ratioOf(line, x, line, d.xs[0], meanResponse); r > worst {
						worst, at = r, x
					}
				}
				checks = append(checks, newCheck(worst <= 1.02, "%s: the mean response is at most %.3f times that "+
					"with one frontend (with %g)", line, worst, at))
			}
			return checks
		},
	},
	{
		Name: "cluster-size", Title: "Size of the cluster",
		Claim: "A large cluster needs no more probes than a small cluster: divided by the response of an omniscient " +
			"scheduler, response does not grow with the number of workers (section 7).",
		axis: bench.Axis{Label: "workers", Scale: bench.Log}, views: responseViews, seeds: [...]int{1, 1},
		parts: func(s FigureScale) []part {
			var parts []part
			sizes := []int{100, 200, 500, 1000, 2000}
			if s == FullScale {
				sizes = []int{100, 300, 1000, 3000, 10_000, 20_000}
			}
			for _, n := range sizes {
				w := sparrowSweep(n, max(s.pickSize(1000, 4000), n*s.pickSize(40, 36)/100), "late-binding", "phoebe")
				parts = append(parts, part{x: float64(n), sweep: w})
			}
			return parts
		},
		locate: byPart,
		check: func(d *figureData) []Check {
			var checks []Check
			first, last := d.xs[0], d.xs[len(d.xs)-1]
			for _, line := range d.lines {
				a, b := d.meanOf(line, first, overOmniscient), d.meanOf(line, last, overOmniscient)
				c, e := d.meanOf(line, first, p99OverOmniscient), d.meanOf(line, last, p99OverOmniscient)
				checks = append(checks, newCheck(b <= a*1.01 && e <= c*1.02, "%s: mean response %.3f times "+
					"omniscient with %g workers, %.3f with %g; p99 %.3f and %.3f", line, a, first, b, last, c, e))
			}
			return checks
		},
	},
	{
		Name: "speeds", Title: "Workers of different speed",
		Claim: "If workers differ in speed, late binding stays ahead of batch sampling: late binding uses the first " +
			"free worker, and batch sampling counts tasks, not their time.",
		axis: bench.Axis{Label: "sigma of log-normal worker speeds"}, seeds: [...]int{1, 2}, locate: byPart,
		views: []view{{title: "mean response, ms", scale: bench.Log, metric: meanResponse},
			{title: "p99 response, ms", scale: bench.Log, metric: p99Response}},
		parts: func(s FigureScale) []part {
			var parts []part
			for _, sigma := range []float64{0, 0.1, 0.2, 0.3, 0.5} {
				w := sparrowSweep(s.pickSize(200, 1000), s.pickSize(600, 2000), "batch", "late-binding", "phoebe",
					"omniscient")
				if sigma > 0 {
					w.Speeds = must(ParseSpeeds(fmt.Sprintf("lognormal:%g", sigma)))
				}
				parts = append(parts, part{x: sigma, sweep: w})
			}
			return parts
		},
		check: func(d *figureData) []Check {
			var checks []Check
			last := d.xs[len(d.xs)-1]
			for _, line := range []string{"late-binding", "phoebe"} {
				worst, at := d.worstRatio(line, "batch", meanResponse)
				checks = append(checks, newCheck(worst < 1, "the mean response of %s is %.2f times that of batch "+
					"with equal workers, and at most %.2f times (at sigma %g); at sigma %g the response is %.2f "+
					"times omniscient, that of batch %.2f times",
					line, d.ratioOf(line, 0, "batch", 0, meanResponse), worst, at, last,
					d.ratioOf(line, last, "omniscient", last, meanResponse),
					d.ratioOf("batch", last, "omniscient", last, meanResponse)))
			}
			return checks
		},
	},
	{
		Name: "delay", Title: "Network delay",
		Claim: "Late binding leaves a slot empty for a round trip before each task (section 3.5). phoebe asks " +
			"ahead, and loses less than half as much.",
		axis: bench.Axis{Label: "one-way delay, ms", Scale: bench.Log}, views: responseViews, seeds: [...]int{1, 2},
		locate: byPart,
		parts: func(s FigureScale) []part {
			var parts []part
			for _, delay := range []time.Duration{50, 100, 200, 500, 1000, 2000, 5000} {
				w := sparrowSweep(s.pickSize(200, 1000), s.pickSize(500, 2000), "batch", "late-binding", "phoebe")
				w.Delay = delay * time.Microsecond
				parts = append(parts, part{x: float64(delay) / 1000, sweep: w})
			}
			return parts
		},
		check: func(d *figureData) []Check {
			var checks []Check
			for _, x := range d.xs[len(d.xs)-4:] {
				late, phoebe := d.meanOf("late-binding", x, overOmniscient)-1, d.meanOf("phoebe", x, overOmniscient)-1
				checks = append(checks, newCheck(phoebe < late/2, "at %g ms the mean response of late-binding is "+
					"%.1f %% over omniscient, that of phoebe %.1f %%", x, 100*late, 100*phoebe))
			}
			return checks
		},
	},
	{
		Name: "task-duration", Title: "Task durations",
		Claim: "With messages that take 100 us, phoebe stays within 10 % of an omniscient scheduler at load 0.8 for " +
			"tasks of 10 ms and more, and does not saturate with tasks of 1 ms.",
		axis: bench.Axis{Label: "task duration, ms", Scale: bench.Log}, views: responseViews, seeds: [...]int{1, 2},
		locate: byPart,
		parts: func(s FigureScale) []part {
			var parts []part
			for _, ms := range []int{1, 2, 3, 5, 10, 20, 50, 100} {
				w := newSweep(s.pickSize(100, 500), s.pickSize(3000, 20_000), "10", fmt.Sprintf("fixed:%dms", ms),
					100*time.Microsecond, "batch", "late-binding", "phoebe")
				parts = append(parts, part{x: float64(ms), sweep: w})
			}
			return parts
		},
		check: func(d *figureData) []Check {
			var checks []Check
			worst, at := 0.0, 0.0
			for _, x := range d.xs {
				if r := d.meanOf("phoebe", x, overOmniscient); x >= 10 && r > worst {
					worst, at = r, x
				}
			}
			checks = append(checks, newCheck(worst <= 1.1, "for tasks of 10 ms and more the mean response of phoebe "+
				"is at most %.3f times omniscient (with tasks of %g ms; p99 there %.3f times)", worst, at,
				d.meanOf("phoebe", at, p99OverOmniscient)))
			phoebe, late := d.meanOf("phoebe", 1, overOmniscient), d.meanOf("late-binding", 1, overOmniscient)
			return append(checks, newCheck(phoebe <= 2, "for tasks of 1 ms the mean response of phoebe is %.2f "+
				"times omniscient (p99 %.2f times), that of late-binding %.2f times (p99 %.2f times)",
				phoebe, d.meanOf("phoebe", 1, p99OverOmniscient), late, d.meanOf("late-binding", 1, p99OverOmniscient)))
		},
	},
}, []Figure{
	additionsFigure("100ms", "jobs of 100 tasks of 100 ms", [...]int{3, 5}, usualLoads, func(s FigureScale) Sweep {
		return sparrowSweep(s.pickSize(100, 200), s.pickSize(150, 500))
	}),
	additionsFigure("10ms", "jobs of 10 tasks of 10 ms", [...]int{3, 5}, usualLoads, func(s FigureScale) Sweep {
		return newSweep(50, s.pickSize(1500, 5000), "10", "task-exp:10ms", 500*time.Microsecond)
	}),
	additionsFigure("1ms", "jobs of 10 tasks of 1 ms", [...]int{3, 5}, usualLoads, func(s FigureScale) Sweep {
		w := newSweep(20, s.pickSize(1500, 5000), "10", "task-exp:1ms", 50*time.Microsecond)
		w.Frontends = 2
		return w
	}),
	additionsFigure("uneven", "short and long tasks mixed, no estimates, a tenth of the workers at half speed",
		[...]int{3, 5}, usualLoads, func(s FigureScale) Sweep {
			w := newSweep(50, s.pickSize(1500, 5000), "10", "mix:90%5ms,10%200ms", 500*time.Microsecond)
			w.Speeds, w.Estimates = must(ParseSpeeds("mix:90%1,10%0.5")), Estimates{Absent: true}
			return w
		}),
	additionsFigure("noop", "jobs of 100 tasks of 10 us", [...]int{3, 5}, []float64{0.02, 0.05, 0.1, 0.15, 0.2},
		func(s FigureScale) Sweep {
			w := newSweep(20, s.pickSize(200, 500), "100", "fixed:10us", 50*time.Microsecond)
			w.Frontends = 2
			return w
		}),
}, longFigures, rivalFigures)

var usualLoads = []float64{0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95}

// responseViews compare with an omniscient scheduler of the same jobs.
var responseViews = []view{
	{title: "mean response over omniscient", scale: bench.Log, metric: overOmniscient},
	{title: "p99 response over omniscient", scale: bench.Log, metric: p99OverOmniscient},
}

// additionsFigure makes the figure on the benefit of each part of phoebe absent from Sparrow, in one setting.
func additionsFigure(name, setting string, seeds [FullScale + 1]int, loads []float64,
	setup func(s FigureScale) Sweep) Figure {
	const all = "phoebe"
	measures := []struct {
		name  string
		value metric
		most  float64 // most cost of an addition, as a share
	}{{"mean response", meanResponse, 0.01}, {"p99 response", p99Response, 0.01},
		{"messages per task", messagesPerTask, math.Inf(1)}}
	f := Figure{
		Name: "additions-" + name, Title: "What phoebe adds, " + setting,
		Claim: "No addition of phoebe to late binding costs more than 1 %, in the mean or at p99, at any load.",
		axis:  bench.Axis{Label: "load"}, seeds: seeds, locate: byLoad,
		parts: func(s FigureScale) []part {
			w := setup(s)
			w.Policies, w.Loads = mustPolicies(all), loads
			for _, name := range additionNames() {
				w.Policies = append(w.Policies, mustPolicies(all+"-"+name)...)
			}
			return []part{{sweep: w}}
		},
	}
	for _, m := range measures {
		f.views = append(f.views, view{title: m.name + " without it, %", metric: m.value, base: all})
	}
	f.check = func(d *figureData) []Check {
		var checks []Check
		for _, line := range d.lines[1:] {
			var pays, costs []string
			ok := true
			for _, m := range measures {
				var more, less []string
				for _, x := range d.xs {
					c, within := d.changeOf(line, all, x, m.value)
					text := fmt.Sprintf("%+.1f±%.1f at %g", 100*c, 100*within, x)
					switch {
					case c > max(within, 0.002):
						more = append(more, text)
					case c < -max(within, 0.002):
						less = append(less, text)
						ok = ok && c >= -m.most
					}
				}
				if len(more) > 0 {
					pays = append(pays, m.name+" "+strings.Join(more, ", "))
				}
				if len(less) > 0 {
					costs = append(costs, m.name+" "+strings.Join(less, ", "))
				}
			}
			text := strings.TrimPrefix(line, all+"-") + ", in % without it:"
			if len(pays) > 0 {
				text += " pays in " + strings.Join(pays, "; ") + "."
			}
			if len(costs) > 0 {
				text += " costs in " + strings.Join(costs, "; ") + "."
			}
			if len(pays)+len(costs) == 0 {
				text += " no difference."
			}
			checks = append(checks, Check{ok, text})
		}
		return checks
	}
	return f
}

// additionNames returns phoebe's additions to late binding, except additions without effect on jobs of one stage,
// without inputs or long tasks.
func additionNames() []string {
	return slices.DeleteFunc(slices.Clone(frontend.PolicyParts), func(part string) bool {
		return slices.Contains([]string{"cancel", "seniority", "near", "route"}, part)
	})
}

// pickSize returns small or full, by the scale.
func (s FigureScale) pickSize(small, full int) int {
	if s == FullScale {
		return full
	}
	return small
}

// sparrowSweep has the setting of section 3: jobs of 100 tasks of the same length, 100 ms on average. Workers
// have 4 slots, and a round trip takes 1 ms.
func sparrowSweep(workers, jobs int, names ...string) Sweep {
	return newSweep(workers, jobs, "100", "job-exp:100ms", 500*time.Microsecond, names...)
}

// newSweep makes a sweep at load 0.8 and the default probe ratio.
func newSweep(workers, jobs int, tasks, durations string, delay time.Duration, names ...string) Sweep {
	return Sweep{
		Config: Config{
			Frontends: 10, Workers: workers, Slots: 4, Jobs: jobs, Delay: delay,
			Workload: Poisson{must(bench.ParseCounts(tasks)), must(bench.ParseDurations(durations))},
		},
		Policies: mustPolicies(names...), Loads: []float64{0.8}, ProbeRatios: []float64{2},
	}
}

// mustPolicies parses policies by name.
func mustPolicies(names ...string) []Policy {
	var all []Policy
	for _, name := range names {
		all = append(all, must(ParsePolicy(name)))
	}
	return all
}

// must returns v. Errors in the table of figures are bugs, so must panics on err.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// byLoad locates a run on the line of its policy, at its load.
func byLoad(_ *part, r *Result) (string, float64) { return r.Policy, r.Load }

// byPart locates a run on the line of its policy, at the place of its part.
func byPart(p *part, r *Result) (string, float64) { return r.Policy, p.x }

// byPartAndLoad locates a run on a line of its policy and load, at the place of its part.
func byPartAndLoad(p *part, r *Result) (string, float64) {
	return fmt.Sprintf("%s at load %g", r.Policy, r.Load), p.x
}

// worstRatio returns the largest ratio of a metric on one line to the metric on another line, and the place on
// the axis.
func (d *figureData) worstRatio(line, other string, m metric) (ratio, at float64) {
	for _, x := range d.xs {
		if r := d.ratioOf(line, x, other, x, m); r > ratio {
			ratio, at = r, x
		}
	}
	return ratio, at
}
