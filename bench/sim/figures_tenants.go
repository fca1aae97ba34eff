package sim

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/worker"
)

// spareFigure is about work without urgency.
var spareFigure = Figure{
	Name: "spare", Title: "Spare work",
	Claim: "Endless spare work fills the slots left by regular work: at least 95 % of all slots are in use, and the " +
		"p99 of regular jobs is at most 1.05 times the p99 without spare work. " +
		"Spare tenants share by their tokens, 10 % more or less. At most 3 % of their work is lost.",
	axis: bench.Axis{Label: "mean run time of spare tasks, s", Scale: bench.Log}, seeds: [...]int{1, 3},
	views: []view{
		{title: "p99 of regular jobs, ms", metric: p99Response},
		{title: "mean of regular jobs, ms", metric: meanResponse}, {title: "utilisation", metric: slotUtilisation},
		{title: "lost spare work, %", metric: lostWork}, {title: "share of the first spare tenant in spare work, %",
			metric: firstSpare},
	},
	setup: "regular jobs of 10 tasks of 100 ms, load 0.3 and 0.9 by turns of 5 s; two spare tenants with tokens " +
		"1:3, each always with six tasks for each slot; workers of 4 slots, 4 frontends, messages take 250us",
	playSeed: func(o FigureOptions, seed uint64, add func(line string, x float64, r *bench.SimRun)) {
		for _, run := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, time.Second} {
			for _, plan := range sparePlans {
				f := sharing{
					workers: o.Scale.pickSize(10, 50), frontends: 4,
					tenants: []tenantLoad{{name: "regular", tokens: 1000, tasks: 10, run: 100 * time.Millisecond,
						loads: []float64{0.3, 0.9}}},
				}
				for i, name := range []string{"first", "second"} {
					f.tenants = append(f.tenants, tenantLoad{name: name, tokens: 1 + 2*i, class: frontend.Spare,
						tasks: 20, run: run, jobs: f.workers * sharedSlots * 6 / 20})
				}
				f.setDuration(o, 1200)
				plan.change(&f)
				r := must(f.playSeed(seed))
				add(plan.name, run.Seconds(), r.makeRun(0.6))
				if plan.name == "without" {
					known := r.makeRun(0.6)
					known.Utilisation += r.bestFill(run)
					add(foreseenLine, run.Seconds(), known)
				}
			}
		}
	},
	check: func(d *figureData) []Check {
		var checks []Check
		for _, x := range d.xs {
			p99, mean := d.ratioOf("phoebe", x, "without", x, p99Response),
				d.ratioOf("phoebe", x, "without", x, meanResponse)
			used, lost, first := d.meanOf("phoebe", x, slotUtilisation), d.meanOf("phoebe", x, lostWork),
				d.meanOf("phoebe", x, firstSpare)
			var others []string
			for _, line := range d.lines {
				if line != "phoebe" && line != "without" {
					others = append(others,
						fmt.Sprintf("%s %.2f and %.3f", line, d.ratioOf(line, x, "without", x, p99Response),
							d.meanOf(line, x, slotUtilisation)))
				}
			}
			checks = append(checks,
				newCheck(p99 <= 1.05 && used >= 0.95, "spare tasks of %g s: p99 of regular jobs %.3f times the p99 "+
					"without spare work (mean %.3f times), utilisation %.3f; %s", x, p99, mean, used,
					strings.Join(others, ", ")),
				newCheck(lost <= 3 && math.Abs(first/25-1) <= 0.1,
					"%.1f %% of the spare work is lost; the first spare tenant got %.1f %% of the spare work", lost,
					first))
		}
		return checks
	},
}

// foreseenLine is the line of an oracle: a spare task, of fixed length, starts only where no regular task will
// stop it.
const foreseenLine = "as if foreseen"

// sparePlans are ways to run spare work, each a change of phoebe's way.
var sparePlans = []struct {
	name   string
	change func(f *sharing)
}{
	{"without", func(f *sharing) { f.tenants = f.tenants[:1] }},
	{"phoebe", func(*sharing) {}},
	{"never stopped", func(f *sharing) { f.worker.PreemptAfter = -1 }},
	{"by weight alone", func(f *sharing) {
		for i := range f.tenants {
			f.tenants[i].class = frontend.Regular
		}
	}},
	{"on a third of the workers", func(f *sharing) {
		f.labels = func(w int) []string {
			return []string{fmt.Sprint("for=", map[bool]string{true: "spare", false: "regular"}[w%3 == 0])}
		}
		for i := range f.tenants {
			f.tenants[i].label = "for=" + map[bool]string{true: "spare", false: "regular"}[i > 0]
			f.tenants[i].class = frontend.Regular
		}
	}},
}

func lostWork(r *bench.SimRun) float64 { return 100 * r.Sharing.Lost }

// firstSpare is the share in % of the first spare tenant in the slots of both spare tenants; 0 without spare
// tenants.
func firstSpare(r *bench.SimRun) float64 {
	got := r.Sharing.Got
	return 100 * got["first"] / max(got["first"]+got["second"], 1e-9)
}

// tenantsFigure is about tenants that want more than the fleet has.
var tenantsFigure = Figure{
	Name: "tenants", Title: "Tenants that want more than there is",
	Claim: "Beside a tenant at one and a half times the capacity, an interactive tenant has at most 1.15 times its " +
		"p50 and 1.3 times its p99 alone. Two greedy tenants share by their tokens, within 3 points. " +
		"Tasks of ten gossip periods exceed their tokens by at most 2 %, even if a tenth of the news is lost and a " +
		"frontend crashes.",
	axis: bench.Axis{Label: "load of the greedy tenant"}, seeds: [...]int{1, 3},
	views: []view{
		{title: "p50 of the first tenant's jobs, ms", scale: bench.Log,
			metric: func(r *bench.SimRun) float64 { return r.ResponseMS.P50 }},
		{title: "p99 of the first tenant's jobs, ms", scale: bench.Log, metric: p99Response},
		{title: "share of the first tenant in the slots in use, %", metric: firstPart},
		{title: "regular beyond tokens, %", metric: beyondTokens},
		{title: "tokens idle while tasks wait, %", metric: idleTokens},
		{title: "utilisation", metric: slotUtilisation},
	},
	setup: "workers of 4 slots, 4 frontends, messages take 250us. Interactive: jobs of 10 tasks of 100 ms at load " +
		"0.2, and equal jobs of the greedy tenant. 30:70: two such greedy tenants. " +
		"Long: two tenants with 30 and 70 % of the slots as tokens, tasks of 10 s, and the load in the same shares",
	playSeed: func(o FigureOptions, seed uint64, add func(line string, x float64, r *bench.SimRun)) {
		for _, load := range []float64{0.8, 1.5, 3} {
			for _, plan := range tenantPlans {
				f := sharing{workers: o.Scale.pickSize(10, 50), frontends: 4}
				plan.set(&f, load)
				f.setDuration(o, 1000)
				add(plan.name, load, must(f.playSeed(seed)).makeRun(load))
			}
		}
	},
	check: func(d *figureData) []Check {
		var checks []Check
		p50 := func(r *bench.SimRun) float64 { return r.ResponseMS.P50 }
		for _, x := range d.xs[1:] {
			half, tail := d.ratioOf("interactive, phoebe", x, "interactive, alone", x, p50),
				d.ratioOf("interactive, phoebe", x, "interactive, alone", x, p99Response)
			checks = append(checks, newCheck((half <= 1.15 || x > 1.5) && tail <= 1.3,
				"beside a tenant at load %g: p50 %.2f times that alone, p99 %.2f times; by arrival %.2f and %.2f, "+
					"with half of the workers each %.2f and %.2f", x, half, tail,
				d.ratioOf("interactive, by arrival", x, "interactive, alone", x, p50),
				d.ratioOf("interactive, by arrival", x, "interactive, alone", x, p99Response),
				d.ratioOf("interactive, half of the workers each", x, "interactive, alone", x, p50),
				d.ratioOf("interactive, half of the workers each", x, "interactive, alone", x, p99Response)))
			part := d.meanOf("30:70, phoebe", x, firstPart)
			checks = append(checks, newCheck(math.Abs(part-30) <= 3, "of two tenants at load %g the first gets "+
				"%.1f %%; by arrival %.1f %%", x, part, d.meanOf("30:70, by arrival", x, firstPart)))
		}
		for _, x := range d.xs {
			beyond, idle := d.meanOf("long, phoebe", x, beyondTokens), d.meanOf("long, phoebe", x, idleTokens)
			checks = append(checks, newCheck(beyond <= 2 && idle < d.meanOf("long, tokens split", x, idleTokens),
				"long tasks at load %g: %.1f %% beyond tokens, and %.1f %% of the tokens idle; with tokens split "+
					"between frontends %.1f and %.1f %%, without news %.1f and %.1f %%", x, beyond, idle,
				d.meanOf("long, tokens split", x, beyondTokens), d.meanOf("long, tokens split", x, idleTokens),
				d.meanOf("long, no news", x, beyondTokens), d.meanOf("long, no news", x, idleTokens)))
		}
		return checks
	},
}

// tenantPlans are the loads of tenants, each under a plan for sharing.
var tenantPlans = []struct {
	name string
	set  func(f *sharing, load float64)
}{
	{"interactive, alone", func(f *sharing, load float64) {
		setInteractive(f, load)
		f.tenants = f.tenants[:1]
	}},
	{"interactive, phoebe", setInteractive},
	{"interactive, by arrival", func(f *sharing, load float64) {
		setInteractive(f, load)
		f.worker.Order = worker.FIFO
	}},
	{"interactive, half of the workers each", func(f *sharing, load float64) {
		setInteractive(f, load)
		f.labels = func(w int) []string { return []string{fmt.Sprint("half=", w%2)} }
		for i := range f.tenants {
			f.tenants[i].label = fmt.Sprint("half=", i)
		}
	}},
	{"30:70, phoebe", setGreedy},
	{"30:70, by arrival", func(f *sharing, load float64) {
		setGreedy(f, load)
		f.worker.Order = worker.FIFO
	}},
	{"long, phoebe", setLongTenants},
	{"long, tokens split", func(f *sharing, load float64) {
		setLongTenants(f, load)
		f.split = true
	}},
	{"long, no news", func(f *sharing, load float64) {
		setLongTenants(f, load)
		f.noNews = true
	}},
}

// setDuration sets when the run ends. Until then the given number of jobs of the first tenant (or o.Jobs) would
// keep all slots busy. The first fifth is to warm up.
func (f *sharing) setDuration(o FigureOptions, jobs int) {
	first := f.tenants[0]
	if o.Jobs > 0 {
		jobs = o.Jobs
	}
	f.end = time.Duration(jobs*first.tasks) * first.run / time.Duration(f.workers*sharedSlots)
	f.warmup = f.end / 5
}

// setInteractive sets an interactive tenant at load 0.2, and a greedy tenant.
func setInteractive(f *sharing, load float64) {
	f.tenants = []tenantLoad{
		{name: "interactive", tokens: 1, tasks: 10, run: 100 * time.Millisecond, loads: []float64{0.2}},
		{name: "greedy", tokens: 1, tasks: 10, run: 100 * time.Millisecond, loads: []float64{load}},
	}
}

// setGreedy sets two greedy tenants with tokens 3:7.
func setGreedy(f *sharing, load float64) {
	f.tenants = []tenantLoad{
		{name: "a", tokens: 3, tasks: 10, run: 100 * time.Millisecond, loads: []float64{load}},
		{name: "b", tokens: 7, tasks: 10, run: 100 * time.Millisecond, loads: []float64{load}},
	}
}

// setLongTenants sets two tenants with tasks of 10 s, lost news and a crash of a frontend.
func setLongTenants(f *sharing, load float64) {
	f.loss, f.crash = 0.1, true
	slots := f.workers * sharedSlots
	f.tenants = []tenantLoad{
		{name: "a", tokens: slots * 3 / 10, tasks: 10, run: 10 * time.Second, hints: true,
			loads: []float64{0.3 * load}},
		{name: "b", tokens: slots * 7 / 10, tasks: 10, run: 10 * time.Second, hints: true,
			loads: []float64{0.7 * load}},
	}
}

// firstPart is the share in % of the first of two tenants in the slots in use; 0 without such tenants.
func firstPart(r *bench.SimRun) float64 {
	got := r.Sharing.Got
	return 100 * (got["a"] + got["interactive"]) / r.Utilisation
}

func beyondTokens(r *bench.SimRun) float64 { return 100 * r.Sharing.Over }
func idleTokens(r *bench.SimRun) float64   { return 100 * r.Sharing.Idle }
