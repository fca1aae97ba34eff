package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
)

// rivalFigures are about other schedulers' own claims. Omega is Schwarzkopf et al. (EuroSys 2013); delay scheduling
// is Zaharia et al. (EuroSys 2010).
var rivalFigures = []Figure{decisionFigure, commitFigure, centreFigure, delayFigure}

// facebookSizes is the law of tasks per job in the evaluation of delay scheduling.
type facebookSizes struct{}

var facebookBins = []struct{ jobs, tasks int }{{38, 1}, {16, 2}, {14, 10}, {8, 50}, {6, 100}, {6, 200}, {4, 400}}

func (facebookSizes) Draw(rng *rand.Rand) int {
	n := rng.IntN(92)
	for _, b := range facebookBins {
		if n -= b.jobs; n < 0 {
			return b.tasks
		}
	}
	panic("sim: the bins have less than 92 jobs")
}

func (facebookSizes) Mean() float64 {
	sum := 0.0
	for _, b := range facebookBins {
		sum += float64(b.jobs*b.tasks) / 92
	}
	return sum
}

func (facebookSizes) String() string { return "1 to 400 (mean 43.6)" }

// delaySetting is a load and a unit: the time of a task near its data. Elsewhere the task takes two units.
type delaySetting struct {
	load float64
	unit time.Duration
}

var delaySettings = []delaySetting{
	{0.5, 100 * time.Millisecond}, {0.5, 10 * time.Second}, {0.9, 100 * time.Millisecond}, {0.9, 10 * time.Second},
}

func (s delaySetting) String() string { return fmt.Sprintf("load %g, unit %v", s.load, s.unit) }

// sweepRuns makes a sweep. A task only reads: from the disk of its own worker at 160 MB/s, from another at 80 MB/s.
func (s delaySetting) sweepRuns(jobs int, wait float64, names ...string) Sweep {
	w := newSweep(100, jobs, "1", "fixed:1us", 500*time.Microsecond, names...)
	every := facebookSizes{}.Mean() * s.unit.Seconds() / s.load / 400
	w.Workload = Kinds{{"", time.Duration(every * float64(time.Second)), Poisson{facebookSizes{},
		must(bench.ParseDurations("fixed:1us"))}}}
	w.Frontends, w.Loads, w.Copies, w.Input = 4, []float64{0}, 3, int64(160e6*s.unit.Seconds())
	w.LocalityWait = time.Duration(wait * float64(s.unit))
	w.Gossip = Gossip{Period: time.Second, Delay: w.Delay}
	return w
}

// unitOf returns the unit of a run: the time in which a task reads all from the disk of its worker.
func unitOf(r *bench.SimRun) float64 {
	if r.Read == nil {
		return r.IdealMS.Max
	}
	return (r.Read.Host + r.Read.Rack + r.Read.Across) / 160e3
}

// meanUnits is the mean response in units.
func meanUnits(r *bench.SimRun) float64 { return r.ResponseMS.Mean / unitOf(r) }

// p50Units is the median response in units. Most jobs have one or two tasks.
func p50Units(r *bench.SimRun) float64 { return r.ResponseMS.P50 / unitOf(r) }

// nearShare is the share of tasks that read all on their host, in %.
func nearShare(r *bench.SimRun) float64 {
	if r.Read == nil {
		return 100
	}
	return 100 * r.Read.Near
}

const delayBound = "bound"

var delayFigure = Figure{
	Name: "delay-scheduling", Title: "Waiting for a slot near the data",
	Claim: "With delay scheduling, 95 to 99 % of the tasks run near their data (section 6 of its paper). phoebe runs " +
		"95 % near their data, and its mean response is at most 1.1 times that of delay scheduling with the best " +
		"wait " +
		"in the same order, first come, first served.",
	axis: bench.Axis{Label: "wait for a slot near the data, units"}, seeds: [...]int{1, 5},
	views: []view{
		{title: "mean response, units", scale: bench.Log, metric: meanUnits},
		{title: "median response, units", scale: bench.Log, metric: p50Units},
		{title: "tasks near their data, %", metric: nearShare},
	},
	parts: func(s FigureScale) []part {
		waits := []float64{0, 0.1, 0.25, 0.5, 1, 2}
		jobs := s.pickSize(500, 2000)
		var parts []part
		for _, setting := range delaySettings {
			for _, wait := range waits {
				parts = append(parts, part{x: wait, sweep: setting.sweepRuns(jobs, wait, "delay-fifo", "delay-fair")})
			}
			parts = append(parts, part{sweep: setting.sweepRuns(jobs, 0, "phoebe", "strict-locality"), everywhere: true})
			bound := setting.sweepRuns(jobs, 0, "omniscient")
			bound.Input = 0
			bound.Workload.(Kinds)[0].Durations = must(bench.ParseDurations("fixed:" + setting.unit.String()))
			parts = append(parts, part{sweep: bound, everywhere: true})
		}
		return parts
	},
	locate: func(p *part, r *Result) (string, float64) {
		for _, s := range delaySettings {
			every := s.sweepRuns(1, 0, "phoebe").Workload.(Kinds)[0].Every
			if p.sweep.Workload.(Kinds)[0].Every != every {
				continue
			}
			name := r.Policy
			if name == "omniscient" {
				name = delayBound
			}
			return fmt.Sprintf("%s, %v", name, s), p.x
		}
		panic("sim: a part of delay-scheduling has no setting")
	},
	check: func(d *figureData) []Check {
		var checks []Check
		for _, s := range delaySettings {
			line := func(name string) string { return fmt.Sprintf("%s, %v", name, s) }
			best := map[string]float64{}
			for _, order := range []string{"delay-fifo", "delay-fair"} {
				for _, x := range d.xs {
					if d.meanOf(line(order), x, meanUnits) < d.meanOf(line(order), best[order], meanUnits) {
						best[order] = x
					}
				}
				x := best[order]
				near := d.meanOf(line(order), x, nearShare)
				checks = append(checks, newCheck(near >= 95, "%v, %s: the best wait is %g units, with %.1f %% of "+
					"the tasks near "+
					"their data, a mean of %.3g units and a median of %.3g (without a wait %.1f %%, %.3g and %.3g "+
					"units)", s,
					order, x, near, d.meanOf(line(order), x, meanUnits), d.meanOf(line(order), x, p50Units),
					d.meanOf(line(order), 0, nearShare), d.meanOf(line(order), 0, meanUnits),
					d.meanOf(line(order), 0, p50Units)))
			}
			x := best["delay-fifo"]
			near := d.meanOf(line("phoebe"), x, nearShare)
			r := d.ratioOf(line("phoebe"), x, line("delay-fifo"), x, meanUnits)
			checks = append(checks, newCheck(near >= 95 && r <= 1.1, "%v: phoebe runs %.1f %% near their data "+
				"(bar 95 %%), "+
				"with a mean of %.3g units: %.2f times the best delay-fifo (bar 1.1), %.2f times the best delay-fair; "+
				"strict-locality %.3g units, the bound %.3g", s, near, d.meanOf(line("phoebe"), x, meanUnits), r,
				d.meanOf(line("phoebe"), x, meanUnits)/d.meanOf(line("delay-fair"), best["delay-fair"], meanUnits),
				d.meanOf(line("strict-locality"), x, meanUnits), d.meanOf(line(delayBound), x, meanUnits)))
		}
		return checks
	},
}
