package sim

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
)

// centreCosts are the times of a decision: Dask's own number, and a tenth and a hundredth.
var centreCosts = []time.Duration{time.Millisecond, 100 * time.Microsecond, 10 * time.Microsecond}

// deciderOf returns the deciders of a kind, or of all kinds.
func deciderOf(r *bench.SimRun, kind string) bench.SimDecider {
	if d, ok := r.Deciders[kind]; ok {
		return d
	}
	return r.Deciders[""]
}

func busyOf(kind string) metric {
	return func(r *bench.SimRun) float64 { return deciderOf(r, kind).Busy }
}

var centreFigure = Figure{
	Name: "centre", Title: "The central scheduler of an engine",
	Claim: "A centre breaks at duration / (load x cost of a decision) slots, within 5 %. phoebe takes at most " +
		"1.05 times as long as an omniscient scheduler at every size.",
	axis: bench.Axis{Label: "slots", Scale: bench.Log}, seeds: [...]int{1, 2},
	views: []view{
		{title: "mean response over omniscient", scale: bench.Log, metric: overOmniscient},
		{title: "p99 response over omniscient", scale: bench.Log, metric: p99OverOmniscient},
		{title: "decider busy, share of time", metric: busyOf("")},
		{title: "slots in use", metric: slotUtilisation},
	},
	parts: func(s FigureScale) []part {
		sizes := []int{10, 25, 38, 250, 380}
		if s == FullScale {
			sizes = []int{10, 25, 38, 250, 380, 2500, 3800, 20_000}
		}
		var parts []part
		for _, workers := range sizes {
			setup := func(cost time.Duration, names ...string) {
				w := newSweep(workers, min(max(4*workers, 2000), 32_000), "10", "task-exp:100ms", 500*time.Microsecond,
					names...)
				w.DecisionCost = cost
				parts = append(parts, part{x: float64(4 * workers), sweep: w})
			}
			setup(0, "phoebe")
			for _, cost := range centreCosts {
				setup(cost, "centralized")
			}
			setup(100*time.Microsecond, "centralized-ahead")
			setup(10*time.Microsecond, "centralized-heartbeat")
		}
		return parts
	},
	locate: func(p *part, r *Result) (string, float64) {
		if r.Policy == "phoebe" {
			return r.Policy, p.x
		}
		return fmt.Sprintf("%s, %v", r.Policy, p.sweep.DecisionCost), p.x
	},
	check: func(d *figureData) []Check {
		const load, duration = 0.8, 0.1
		var checks []Check
		for _, cost := range centreCosts {
			line, breaks := fmt.Sprint("centralized, ", cost), duration/load/cost.Seconds()
			below, above := 0.0, 0.0
			for _, x := range d.xs {
				if x < breaks {
					below = x
				} else if above == 0 {
					above = x
				}
			}
			if above == 0 { // only smaller clusters were run
				continue
			}
			implied := below / d.meanOf(line, below, busyOf(""))
			used := d.meanOf(line, above, slotUtilisation)
			checks = append(checks, newCheck(math.Abs(implied/breaks-1) <= 0.05 && math.Abs(used*above/load/breaks-1) <= 0.05,
				"%s: by the formula %.0f slots; with %g slots the centre is busy for %.3f of the time, so at %.0f "+
					"slots it "+
					"would be busy always; with %g slots its tasks keep %.3f in use, by the formula %.3f", line, breaks,
				below, below/implied, implied, above, used, load*breaks/above))
		}
		for _, x := range d.xs {
			r := d.meanOf("phoebe", x, overOmniscient)
			var ahead []string
			for _, line := range d.lines {
				if c := d.meanOf(line, x, overOmniscient); c < r {
					ahead = append(ahead, fmt.Sprintf("%s by %.1f %%", line, 100*(r/c-1)))
				}
			}
			text := "ahead of phoebe: nobody"
			if len(ahead) > 0 {
				text = "ahead of phoebe: " + strings.Join(ahead, ", ")
			}
			checks = append(checks, newCheck(r <= 1.05, "%g slots: phoebe takes %.3f times as long as omniscient (bar "+
				"1.05); %s", x, r, text))
		}
		return checks
	},
}
