package sim

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
)

func meanOfStats(s *bench.Stats) float64 { return s.Mean }

var decisionFigure = Figure{
	Name: "decision", Title: "Long decisions",
	Claim: "If decisions about service jobs take longer, batch jobs wait with one path for all, with a path for each " +
		"kind, and with offers, but not with shared state (Omega, figures 5 to 7). " +
		"phoebe decides without a long decision: for nine jobs in ten of each kind the last task starts within " +
		"0.1 s. " +
		"With decisions as long as the rivals', and a frontend for each kind, phoebe's jobs wait no longer than with " +
		"shared state (p90 and mean), and the frontends are busy no longer, as phoebe makes no decision twice.",
	axis: bench.Axis{Label: "decision time of a service job, s", Scale: bench.Log}, seeds: [...]int{1, 3},
	views: []view{
		{title: "p90 until the last task of a batch job starts, s", scale: bench.Log,
			metric: lastStart("batch", p90OfStats)},
		{title: "p90 until the last task of a service job starts, s", scale: bench.Log,
			metric: lastStart("service", p90OfStats)},
		{title: "mean until the last task of a batch job starts, s", scale: bench.Log,
			metric: lastStart("batch", meanOfStats)},
		{title: "deciders of batch jobs busy, share of time", metric: busyOf("batch")},
		{title: "deciders of service jobs busy, share of time", metric: busyOf("service")},
		{title: "clashes for each service job", metric: clashesOf("service")},
	},
	parts: func(s FigureScale) []part {
		jobs := s.pickSize(1350, 4050) // 2 h and 6 h count
		times := []float64{0.1, 1, 10, 100}
		if s == FullScale {
			times = []float64{0.1, 0.3, 1, 3, 10, 30, 100}
		}
		var parts []part
		for _, x := range times {
			service := time.Duration(x * float64(time.Second))
			parts = append(parts, part{x: x, sweep: cellSweep(jobs, 1, 1, 100*time.Millisecond, service, "single-path",
				"multi-path", "two-level", "shared-state", "phoebe")})
		}
		free := cellSweep(jobs, 1, 1, 0, 0, "phoebe")
		free.Think = nil
		return append(parts, part{sweep: free, everywhere: true})
	},
	locate: locatePriced,
	check: func(d *figureData) []Check {
		first, last := d.xs[0], d.xs[len(d.xs)-1]
		batch, service := lastStart("batch", p90OfStats), lastStart("service", p90OfStats)
		var checks []Check
		for _, line := range []string{"single-path", "multi-path", "two-level", "shared-state"} {
			r := d.ratioOf(line, last, line, first, batch)
			ok := r >= 2
			if line == "shared-state" {
				ok = r <= 1.2
			}
			checks = append(checks, newCheck(ok, "%s: with decisions of %g s for service jobs, batch jobs wait "+
				"%.3g times "+
				"as long for their last task as with %g s (p90: %.3g and %.3g s)", line, last, r, first,
				d.meanOf(line, last, batch), d.meanOf(line, first, batch)))
		}
		b, s := d.meanOf("phoebe", first, batch), d.meanOf("phoebe", first, service)
		checks = append(checks, newCheck(b <= 0.1 && s <= 0.1, "phoebe without long decisions: p90 until the last "+
			"start "+
			"%.4f s for batch jobs, %.4f s for service jobs (bar 0.1 s); the mean for batch jobs is %.2f s, for "+
			"jobs of "+
			"shared-state at the first place %.2f s", b, s, d.meanOf("phoebe", first, lastStart("batch", meanOfStats)),
			d.meanOf("shared-state", first, lastStart("batch", meanOfStats))))
		for _, m := range []struct {
			name  string
			value metric
			most  float64 // service decisions, in s: beyond, service jobs come faster than they are decided
		}{
			{"p90 until the last start, batch jobs", batch, math.Inf(1)},
			{"p90 until the last start, service jobs", service, 15},
			{"mean until the last start, batch jobs", lastStart("batch", meanOfStats), math.Inf(1)},
			{"mean until the last start, service jobs", lastStart("service", meanOfStats), 15},
			{"busy share for batch jobs", busyOf("batch"), math.Inf(1)},
			{"busy share for service jobs", busyOf("service"), 15},
		} {
			var texts []string
			ok := true
			for _, x := range d.xs {
				if x > m.most {
					continue
				}
				c, within := d.changeOf(pricedPhoebe, "shared-state", x, m.value)
				text := fmt.Sprintf("%+.1f±%.1f at %g s", 100*c, 100*within, x)
				if math.IsInf(within, 1) {
					within, text = 0.02, fmt.Sprintf("%+.1f at %g s", 100*c, x)
				}
				ok = ok && !(c > max(within, 0.002))
				texts = append(texts, text)
			}
			checks = append(checks, newCheck(ok, "%s, phoebe at the same price against shared-state, in %%: %s", m.name,
				strings.Join(texts, ", ")))
		}
		const bound = 0.1 * (0.1 + 100*0.005)
		return append(checks, newCheck(true, "no scheduler at this price is busy for less than rate x mean decision, "+
			"%.3f for batch jobs: shared-state %.3f to %.3f, phoebe %.3f to %.3f", bound,
			d.meanOf("shared-state", first, busyOf("batch")), d.meanOf("shared-state", last, busyOf("batch")),
			d.meanOf(pricedPhoebe, first, busyOf("batch")), d.meanOf(pricedPhoebe, last, busyOf("batch"))))
	},
}
