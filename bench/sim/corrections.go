package sim

import (
	"fmt"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
)

// minuteSpells slow a worker for a twentieth of its time to a fifth of its speed. A spell lasts a minute on
// average.
var minuteSpells = Spells{Share: 0.05, Times: 5, Length: time.Minute}

const (
	calmSetting      = "calm"
	disturbedSetting = "disturbed"
)

// correctionsFigure is about second attempts of tasks that wait or run longer than expected.
var correctionsFigure = Figure{
	Name: "corrections", Title: "Corrections after wrong estimates",
	Claim: "If all goes as expected, at most 0.5 % of the tasks have a second attempt. If estimates are up to twice " +
		"too long or too short, and 5 % of the workers, " +
		"for a minute each, run at a fifth of their speed, the p99 of long jobs is at most 0.8 times the p99 " +
		"without second attempts. Three quarters of the second attempts win.",
	axis: bench.Axis{Label: "load"}, seeds: [...]int{3, 5},
	views: []view{
		{title: "p99 response of long jobs, ms", metric: longP99},
		{title: "mean response of long jobs, ms", metric: longMean},
		{title: "p99 response of short jobs, ms", metric: shortP99},
		{title: "second attempts, % of the tasks", metric: copiesShare},
		{title: "second attempts that won, %", metric: copiesWon},
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
			{0, minuteSpells, 2, false, []string{"phoebe", "late-binding", "estimation", "eagle"}},
			{0.03, minuteSpells, 2, false, []string{"phoebe", "late-binding", "estimation"}},
			{0.03, minuteSpells, 2, true, []string{"phoebe"}},
			{0, Spells{}, 2, false, []string{"phoebe"}},
		} {
			w := newSweep(s.pickSize(40, 100), s.pickSize(6000, 15_000), "1", "fixed:1ms", 500*time.Microsecond,
				how.who...)
			w.Frontends, w.Slots, w.Ping = 4, 8, time.Second
			w.Gossip, w.Reserved = Gossip{Period: time.Second, Delay: w.Delay}, 0.1
			w.Workload = mixedJobs()
			w.Loads = []float64{0.6, 0.8}
			w.SecondAttempts, w.Spells, w.ReportsProgress, w.Estimates =
				how.second, how.spells, how.tells, Estimates{Noise: how.noise}
			parts = append(parts, part{sweep: w})
		}
		return parts
	},
	locate: func(p *part, r *Result) (string, float64) {
		return lineOfSweep(r.Policy, &p.sweep), r.Load
	},
	check: func(d *figureData) []Check {
		calm, with := correctionsLineName("phoebe", calmSetting, 0.03, false),
			correctionsLineName("phoebe", disturbedSetting, 0.03, false)
		without, reporting := correctionsLineName("phoebe", disturbedSetting, 0, false),
			correctionsLineName("phoebe", disturbedSetting, 0.03, true)
		var checks []Check
		for _, x := range d.xs {
			if d.meanOf(without, x, longP99) == 0 {
				checks = append(checks, newCheck(true, "the run had no long jobs"))
				continue
			}
			share, won := d.meanOf(calm, x, copiesShare), d.meanOf(calm, x, copiesWon)
			checks = append(checks, newCheck(share <= 0.5, "at load %g, if all goes as expected, %.2f %% of the "+
				"tasks have a second attempt, and %.0f %% of the second attempts win", x, share, won))
			for _, line := range []string{with, reporting} {
				p99, won := d.ratioOf(line, x, without, x, longP99), d.meanOf(line, x, copiesWon)
				checks = append(checks, newCheck(p99 <= 0.8 && won >= 75, "%s: the p99 of long jobs is %.2f times "+
					"that without second attempts (if no machine were slow %.2f times), the mean %.2f times, the "+
					"p99 of short jobs %.2f times; %.2f %% of the tasks have a second attempt, and %.0f %% of "+
					"the second attempts win",
					line, p99, d.ratioOf(noneSlowLine, x, without, x, longP99),
					d.ratioOf(line, x, without, x, longMean), d.ratioOf(line, x, without, x, shortP99),
					d.meanOf(line, x, copiesShare), won))
			}
		}
		return checks
	},
}

// noneSlowLine is the line with the same errors of estimates, but no slow machine: copies of late tasks can
// hardly do better.
const noneSlowLine = "phoebe, as far off, no machine is slow"

// lineOfSweep returns the name of the line of a policy in a sweep.
func lineOfSweep(policy string, s *Sweep) string {
	if s.Spells == (Spells{}) && s.Estimates.Noise > 0 {
		return noneSlowLine
	}
	setting := calmSetting
	if s.Spells != (Spells{}) {
		setting = disturbedSetting
	}
	return correctionsLineName(policy, setting, s.SecondAttempts, s.ReportsProgress)
}

// correctionsLineName returns the name of the line of a policy: calm or disturbed, with or without second attempts,
// with or without progress reports.
func correctionsLineName(policy, setting string, second float64, tells bool) string {
	line := fmt.Sprintf("%s, %s", policy, setting)
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

func copiesShare(r *bench.SimRun) float64 { return 100 * r.Copies.Share }
func copiesWon(r *bench.SimRun) float64   { return 100 * r.Copies.Won }
