package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/worker"
)

// waitsRun is the mean run time of the tasks in the figure waits.
const waitsRun = 30 * time.Second

// waitsLine is a line of the figure waits: the order of queues, the number of tenants, and the estimates.
type waitsLine struct {
	order   worker.Order
	tenants int
	mean    bool // each task's estimate is waitsRun; false: the task's own run time
}

func (l waitsLine) String() string {
	tenants, estimates := "1 tenant", "run times known"
	if l.tenants > 1 {
		tenants = fmt.Sprint(l.tenants, " tenants")
	}
	if l.mean {
		estimates = "mean known"
	}
	return fmt.Sprintf("%s, %s, %s", l.order, tenants, estimates)
}

// waitsLines returns the lines with promises to judge.
func waitsLines() (all []waitsLine) {
	for _, tenants := range []int{1, 4} {
		for _, order := range []worker.Order{worker.FIFO, worker.Fair, worker.Priority} {
			all = append(all, waitsLine{order, tenants, false})
		}
		for _, order := range []worker.Order{worker.FIFO, worker.Fair} {
			all = append(all, waitsLine{order, tenants, true})
		}
	}
	return all
}

const (
	besideLine = "polite, beside the bully"
	aloneLine  = "polite, alone with its share"
)

// waitsSweep is a fleet with jobs of 10 tasks on average, placed by estimation.
func waitsSweep(workers, jobs int) Sweep {
	w := longSweep(workers, jobs, "estimation")
	w.JudgeWaits = waitsRun
	return w
}

// waitsKind is a tenant whose jobs come this often.
func waitsKind(name string, every time.Duration) Kind {
	return Kind{name, every, Poisson{must(bench.ParseCounts("geometric:10")),
		must(bench.ParseDurations("task-exp:30s"))}}
}

// sweepRuns returns the runs of a line.
func (l waitsLine) sweepRuns(workers, jobs int, loads []float64) Sweep {
	w := waitsSweep(workers, jobs)
	w.Loads, w.Order = loads, l.order
	if l.order == worker.Priority {
		w.Priorities = 4
	}
	if l.mean {
		w.Estimates = Estimates{Fixed: waitsRun}
	}
	var kinds Kinds
	for i := range l.tenants { // each has half of the demand of the one before
		kinds = append(kinds, waitsKind(string(rune('a'+i)), time.Second<<i))
	}
	w.Workload = kinds
	return w
}

// offeredBeside is the load that a polite tenant and the bully offer together. The bully always has tasks waiting.
const offeredBeside = 1.1

// timesBeside returns the number of jobs beside the bully for each job of a polite tenant with this load of its
// share.
func timesBeside(load float64) float64 { return offeredBeside / (load / 2) }

// politeRuns returns the runs of a polite tenant that offers this load to half of the workers: its share of all
// workers.
func politeRuns(workers, jobs int, load float64) (beside, alone Sweep) {
	every := func(load float64, workers int) time.Duration {
		return time.Duration(10 * float64(waitsRun) / load / float64(4*workers))
	}
	polite := waitsKind("polite", every(load, workers/2))
	beside, alone = waitsSweep(workers, int(float64(jobs)*timesBeside(load))), waitsSweep(workers/2, jobs)
	beside.Workload = Kinds{polite, waitsKind("bully", every(offeredBeside-load/2, workers))}
	alone.Workload = Kinds{polite}
	beside.Loads, alone.Loads = []float64{0}, []float64{0}
	return beside, alone
}

// ofPolite returns a statistic of the polite tenant's jobs, or of all jobs if there is no such tenant.
func ofPolite(value func(g *bench.SimGroup) float64) metric {
	return func(r *bench.SimRun) float64 {
		if g := r.Kinds["polite"]; g != nil {
			return value(g)
		}
		return value(&r.SimGroup)
	}
}

var (
	politeP99  = ofPolite(func(g *bench.SimGroup) float64 { return g.ResponseMS.P99 / 1000 })
	politeWait = ofPolite(func(g *bench.SimGroup) float64 { return g.WaitMS.P99 / 1000 })
)

func keptPromises(r *bench.SimRun) float64 { return 100 * r.Promises.Kept }
func keptQueued(r *bench.SimRun) float64   { return 100 * r.Promises.KeptQueued }
func keptAlone(r *bench.SimRun) float64    { return 100 * r.Promises.KeptAlone }
func queuedTasks(r *bench.SimRun) float64  { return 100 * r.Promises.Queued }
func foreseen(r *bench.SimRun) float64     { return 100 * r.Promises.Foreseen }
func bestBlind(r *bench.SimRun) float64    { return 100 * r.Promises.BestBlind }
func promisesOff(r *bench.SimRun) float64  { return r.Promises.OffS }

// waitsFigure is about the waits that frontends promise.
var waitsFigure = Figure{
	Name: "waits", Title: "Promised waits and real waits",
	Claim: "At least 95 % of the promised waits of long tasks are within 10 % or 1 s of the real waits (Apollo's " +
		"number), in the orders fifo and fair, up to load 0.8. In the order priority, and above load 0.8, at least " +
		"95 % would be if nothing had come later. The p99 of a polite tenant beside a bully is at most its p99 alone " +
		"with its share, plus one task of the bully.",
	axis: bench.Axis{Label: "load (polite: of its share)"}, seeds: [...]int{1, 5},
	views: []view{
		{title: "promises within 10 % or 1 s, %", metric: keptPromises},
		{title: "the same, of tasks that wait or should, %", metric: keptQueued},
		{title: "promises within 10 % or 1 s, if nothing had come later, %", metric: keptAlone},
		{title: "bound with run times, without later arrivals, %", metric: foreseen},
		{title: "bound with the mean, without later arrivals, %", metric: bestBlind},
		{title: "tasks that wait, %", metric: queuedTasks},
		{title: "mean error of promises, s", metric: promisesOff},
		{title: "p99 response of jobs, s", metric: politeP99},
		{title: "p99 wait of tasks, s", metric: politeWait},
	},
	parts: func(s FigureScale) []part {
		loads := []float64{0.5, 0.8, 0.95}
		if s == FullScale {
			loads = []float64{0.5, 0.7, 0.8, 0.9, 0.95}
		}
		workers, jobs := 20, s.pickSize(200, 500)
		var parts []part
		for _, l := range waitsLines() {
			parts = append(parts, part{sweep: l.sweepRuns(workers, jobs, loads)})
		}
		for _, load := range loads {
			beside, alone := politeRuns(workers, jobs, load)
			parts = append(parts, part{x: load, sweep: beside, times: timesBeside(load)}, part{x: load, sweep: alone})
		}
		return parts
	},
	locate: func(p *part, r *Result) (string, float64) {
		kinds := p.sweep.Workload.(Kinds)
		switch {
		case len(kinds) == 2:
			return besideLine, p.x
		case kinds[0].Name == "polite":
			return aloneLine, p.x
		}
		return waitsLine{p.sweep.Order, len(kinds), p.sweep.Estimates != Estimates{}}.String(), r.Load
	},
	check: checkWaits,
}

// checkWaits checks the figure waits.
func checkWaits(d *figureData) []Check {
	var checks []Check
	for _, l := range waitsLines() {
		line, bound, boundText := l.String(), foreseen, "if all but later arrivals were known"
		if l.mean {
			bound, boundText = bestBlind, "for any promise that knows the mean and no later arrivals"
		}
		holds := true
		var parts []string
		for _, x := range d.xs {
			kept, alone := d.meanOf(line, x, keptPromises), d.meanOf(line, x, keptAlone)
			counts := kept
			if l.order == worker.Priority || x > 0.8 {
				counts = alone
			}
			holds = holds && counts >= 95
			parts = append(parts, fmt.Sprintf("%.1f %% at %g (%.1f; bound %.1f)", kept, x, alone,
				d.meanOf(line, x, bound)))
		}
		checks = append(checks, newCheck(holds, "%s: within 10 %% or 1 s by load: %s; in brackets if nothing had "+
			"come later, and the bound %s", line, strings.Join(parts, ", "), boundText))
	}
	for _, x := range d.xs {
		beside, alone := d.meanOf(besideLine, x, politeP99), d.meanOf(aloneLine, x, politeP99)
		checks = append(checks, newCheck(beside <= alone+waitsRun.Seconds(), "polite tenant at %g of its share: "+
			"p99 of its jobs %.0f s beside the bully, %.0f s alone with its share, one task of the bully takes %.0f "+
			"s; p99 wait of its tasks %.1f and %.1f s", x, beside, alone, waitsRun.Seconds(),
			d.meanOf(besideLine, x, politeWait), d.meanOf(aloneLine, x, politeWait)))
	}
	return checks
}
