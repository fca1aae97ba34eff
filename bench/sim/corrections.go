package sim

import (
	"fmt"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
)

// minuteSpells slow a worker for a twentieth of its time to a fifth of its speed. A spell lasts a minute on
// average.
var spelled = Spells{Share: 0.05, Times: 5, Last: time.Minute}

const (
	calmly    = "calm"
	disturbed = "disturbed"
)

// correctionsFigure is about second attempts of tasks that wait or run longer than expected.
var correctionsFigure = Figure{
	Name: "corrections", Title: "Corrections after wrong estimates",
	Claim: "If all goes as expected, at most 0.5 % of the tasks have a second attempt. If estimates are up to twice too long or too short, and 5 % of the workers, " +
		"for a minute each, run at a fifth of their speed, the p99 of long jobs is at most 0.8 times the p99 without second attempts. Three quarters of the second attempts win.",
	x: bench.Axis{Label: "load"}, seeds: [...]int{3, 5},
	views: []view{
		{title: "p99 response of long jobs, ms", of: longP99}, {title: "mean response of long jobs, ms", of: longMean},
		{title: "p99 response of short jobs, ms", of: shortP99},
		{title: "second attempts, % of the tasks", of: corrected}, {title: "second attempts that won, %", of: correctedWell},
	},
	parts: func(s FigureScale) []part {
		var parts []part
		for _, how := range []struct {
			second float64
			spells Spells
			noise  float64
			tells  bool
			who    []string
		}{
			{0, Spells{}, 0, false, []string{"phoebe"}},
			{0.03, Spells{}, 0, false, []string{"phoebe"}},
			{0, spelled, 2, false, []string{"phoebe", "late-binding", "estimation", "eagle"}},
			{0.03, spelled, 2, false, []string{"phoebe", "late-binding", "estimation"}},
			{0.03, spelled, 2, true, []string{"phoebe"}},
			{0, Spells{}, 2, false, []string{"phoebe"}},
		} {
			w := sweep(s.pick(40, 100), s.pick(6000, 15_000), "1", "fixed:1ms", 500*time.Microsecond, how.who...)
			w.Frontends, w.Slots, w.Ping = 4, 8, time.Second
			w.Gossip, w.Reserved = Gossip{Period: time.Second, Delay: w.Delay}, 0.1
			w.Workload = mixedJobs()
			w.Loads = []float64{0.6, 0.8}
			w.Second, w.Spells, w.Tells, w.Estimates = how.second, how.spells, how.tells, Estimates{Noise: how.noise}
			parts = append(parts, part{sweep: w})
		}
		return parts
	},
	at: func(p *part, r *Result) (string, float64) {
		return correctionsLine(r.Policy, &p.sweep), r.Load
	},
	check: func(d *figureData) []Check {
		calm, with := correctionsOf("phoebe", calmly, 0.03, false), correctionsOf("phoebe", disturbed, 0.03, false)
		without, told := correctionsOf("phoebe", disturbed, 0, false), correctionsOf("phoebe", disturbed, 0.03, true)
		var checks []Check
		for _, x := range d.xs {
			if d.mean(without, x, longP99) == 0 {
				checks = append(checks, check(true, "the run had no long jobs"))
				continue
			}
			share, won := d.mean(calm, x, corrected), d.mean(calm, x, correctedWell)
			checks = append(checks, check(share <= 0.5, "at load %g, if all goes as expected, %.2f %% of the tasks have a second attempt, and %.0f %% of the second attempts win", x, share, won))
			for _, line := range []string{with, told} {
				p99, won := d.over(line, x, without, x, longP99), d.mean(line, x, correctedWell)
				checks = append(checks, check(p99 <= 0.8 && won >= 75, "%s: the p99 of long jobs is %.2f times that without second attempts (if no machine were slow %.2f times), the mean %.2f times, the p99 of short jobs %.2f times; %.2f %% of the tasks have a second attempt, and %.0f %% of the second attempts win",
					line, p99, d.over(noneSlow, x, without, x, longP99), d.over(line, x, without, x, longMean), d.over(line, x, without, x, shortP99), d.mean(line, x, corrected), won))
			}
		}
		return checks
	},
}

// noneSlowLine is the line with the same errors of estimates, but no slow machine: copies of late tasks can
// hardly do better.
const noneSlow = "phoebe, as far off, no machine is slow"

func correctionsLine(policy string, s *Sweep) string {
	if s.Spells == (Spells{}) && s.Estimates.Noise > 0 {
		return noneSlow
	}
	how := calmly
	if s.Spells != (Spells{}) {
		how = disturbed
	}
	return correctionsOf(policy, how, s.Second, s.Tells)
}

func correctionsOf(policy, how string, second float64, tells bool) string {
	line := fmt.Sprintf("%s, %s", policy, how)
	if second == 0 {
		return line + ", without"
	}
	if tells {
		return line + ", tasks tell how far they are"
	}
	return line
}

func longP99(r *bench.SimRun) float64  { return r.Long.ResponseMS.P99 }
func longMean(r *bench.SimRun) float64 { return r.Long.ResponseMS.Mean }
func shortP99(r *bench.SimRun) float64 { return r.Short.ResponseMS.P99 }

func corrected(r *bench.SimRun) float64     { return 100 * r.Copies.Share }
func correctedWell(r *bench.SimRun) float64 { return 100 * r.Copies.Won }
