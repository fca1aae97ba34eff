package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
)

// The lines of the figure oracle.
const (
	learnedLine  = "phoebe"
	knownLine    = "phoebe, run times known"
	baselineLine = "near the data at random"
	sameOracle   = "oracle, same capacity"
	blindOracle  = "oracle, same capacity, run times not known"
	freeOracle   = "oracle without a limit"
)

const (
	oracleWorkers = 64 // of 8 slots
	// recurringSlots is the most slots that the recurring job may use: a tenth of the fleet.
	recurringSlots = 51
)

// recurringSweep makes runs with a recurring job, by the given terms, beside other tenants.
func recurringSweep(load float64, jobs int, policy Policy, e Estimates) Sweep {
	w := newSweep(oracleWorkers, 0, "1", "fixed:1s", 500*time.Microsecond, "phoebe")
	w.Frontends, w.Slots, w.Racks, w.Copies, w.Input = 2, 8, 8, 3, 512e6
	w.Gossip = Gossip{Period: 2 * time.Second, Delay: w.Delay}
	w.Loads = []float64{load}
	// All tenants have plenty of tokens, so no task is spare. Only the maximum of the recurring job counts.
	const plenty = 1_000_000
	w.tenants = tenants.New(1, nil, []tenants.Entry{{Path: tenants.Default, Tokens: plenty},
		{Path: recurringName, Tokens: plenty, Max: recurringSlots}})
	r := &recurring{
		every: 40 * time.Minute, own: ownTerms{policy, e, recurringSlots}, disks: w.Config,
		stages: []recurringStage{
			{tasks: 312, run: time.Minute},
			{tasks: 150, run: 2 * time.Minute, after: []int{0}, stragglers: 0.05, longest: 10 * time.Minute},
			{tasks: 150, run: 30 * time.Second, after: []int{0}},
			{tasks: 150, run: time.Minute, after: []int{1, 2}},
			{tasks: 10, run: time.Minute, after: []int{3}},
		},
	}
	for _, name := range []string{"a", "b", "c"} {
		r.others = append(r.others, Kind{name, time.Minute, Poisson{must(bench.ParseCounts("geometric:10")),
			must(bench.ParseDurations("lognormal:0.5,120s"))}})
	}
	w.Workload = r
	if w.Jobs = jobs; jobs == 0 {
		const times = 4 // recurring jobs, of which the first is to warm up
		perSecond := load * oracleWorkers * 8 / 10 / 120
		w.Jobs = int(times * (r.every.Seconds()*perSecond + 1))
	}
	w.WarmupJobs = w.Jobs / 5
	return w
}

// nearAtRandom places each task at a random worker with the task's input, or at any worker if the task has
// none.
var nearAtRandom = Policy{Name: "near-at-random", frontend: mustPolicies("random")[0].frontend, strictLocality: true}

// oracleFigure is about a recurring job, after figure 9 of Apollo.
var oracleFigure = Figure{
	Name: "oracle", Title: "A recurring job and an oracle",
	Claim: "A recurring job beside other tenants takes at most 1.045 times as long as with an oracle of the same " +
		"capacity, and at most 0.78 times as long as if its tasks go near their data at random (Apollo, figure 9).",
	axis: bench.Axis{Label: "load of the other tenants"}, seeds: [...]int{1, 5},
	views: []view{
		{title: "mean response of the recurring job, s",
			metric: func(r *bench.SimRun) float64 { return r.ResponseMS.Mean / 1000 }},
		{title: "longest response of the recurring job, s",
			metric: func(r *bench.SimRun) float64 { return r.ResponseMS.Max / 1000 }},
		{title: "mean response against the oracle of the same capacity, %", metric: meanResponse, base: sameOracle},
	},
	setup: "64 workers of 8 slots in 8 racks, 2 frontends, messages take 500us. Three other tenants: jobs of 10 " +
		"tasks on average, of 2 min, with known run times. Every 40 minutes the recurring job, on at most 51 " +
		"slots: 312 tasks of 1 min with inputs of 512 MB in 3 copies; behind them 150 of 2 min, 1 in 20 of up to " +
		"10 min, and 150 of 30 s; then 150 of 1 min, and at last 10 of 1 min. The job comes to one frontend " +
		"without estimates. The first fifth of the run is to warm up",
	playSeed: func(o FigureOptions, seed uint64, add func(line string, x float64, r *bench.SimRun)) {
		for _, load := range []float64{0.8, 0.9} {
			for _, way := range []struct {
				line   string
				policy Policy
				e      Estimates
			}{
				{learnedLine, mustPolicies("phoebe")[0], Estimates{Absent: true}},
				{knownLine, mustPolicies("phoebe")[0], Estimates{}},
				{baselineLine, nearAtRandom, Estimates{Absent: true}},
			} {
				w := recurringSweep(load, o.Jobs, way.policy, way.e)
				w.Seed = seed
				whole := must(w.Run(context.Background(), nil))[0]
				run := whole.SimRun
				run.SimGroup = bench.SimGroup{}
				if g := whole.Kinds[recurringName]; g != nil {
					run.SimGroup = *g
				}
				add(way.line, load, &run)
				if way.line != learnedLine {
					continue
				}
				var oracle bench.SimOracle
				if whole.Oracle != nil {
					oracle = *whole.Oracle
				}
				for _, x := range []struct {
					line     string
					response bench.Stats
				}{{sameOracle, oracle.Same}, {blindOracle, oracle.Blind}, {freeOracle, oracle.Free}} {
					planned := bench.SimRun{Policy: x.line, Load: run.Load, Workers: run.Workers, Slots: run.Slots}
					planned.Jobs, planned.ResponseMS = run.Jobs, x.response
					add(x.line, load, &planned)
				}
			}
		}
	},
	check: checkOracle,
}

// checkOracle checks the figure oracle.
func checkOracle(d *figureData) []Check {
	var checks []Check
	for _, x := range d.xs {
		if d.meanOf(sameOracle, x, meanResponse) == 0 {
			checks = append(checks, newCheck(true, "the run had no recurring job"))
			continue
		}
		change := func(line, base string) string {
			c, within := d.changeOf(line, base, x, meanResponse)
			return fmt.Sprintf("%.3f±%.3f", 1+c, within)
		}
		ratio := d.ratioOf(learnedLine, x, sameOracle, x, meanResponse)
		less := d.ratioOf(learnedLine, x, baselineLine, x, meanResponse)
		checks = append(checks,
			newCheck(ratio <= 1.045, "load %g: phoebe takes %s times as long as the oracle of the same capacity "+
				"(bar 1.045), with known run times %s times; the oracle takes %s times as long if it does not know "+
				"run times, and %s times without a limit", x, change(learnedLine, sameOracle),
				change(knownLine, sameOracle), change(blindOracle, sameOracle), change(freeOracle, sameOracle)),
			newCheck(less <= 0.78, "load %g: phoebe takes %s times as long as near the data at random (bar 0.78), "+
				"with known run times %s times; the oracle of the same capacity takes %s times as long, and %s times "+
				"if it does not know run times", x, change(learnedLine, baselineLine),
				change(knownLine, baselineLine), change(sameOracle, baselineLine),
				change(blindOracle, baselineLine)))
	}
	return checks
}
