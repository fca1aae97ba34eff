package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/worker"
)

func inSeconds(all ...int) (list []time.Duration) {
	for _, s := range all {
		list = append(list, time.Duration(s)*time.Second)
	}
	return list
}

// The oracle starts the task with the longest way to the end of the job, and waits for whole stages.
func TestOraclePlansByHand(t *testing.T) {
	for _, test := range []struct {
		name   string
		stages []arrivalStage
		runs   []time.Duration
		slots  int
		known  bool
		want   int
	}{
		{"the longest first", []arrivalStage{{tasks: 3}, {tasks: 1, after: []int{0}}},
			inSeconds(2, 2, 4, 3), 2, true, 7},
		{"in order, if run times are not known", []arrivalStage{{tasks: 3}, {tasks: 1, after: []int{0}}},
			inSeconds(2, 2, 4, 3), 2, false, 9},
		{"without a limit", []arrivalStage{{tasks: 3}, {tasks: 1, after: []int{0}}}, inSeconds(2, 2, 4, 3), 0, true, 7},
		{"on one slot", []arrivalStage{{tasks: 3}, {tasks: 1, after: []int{0}}}, inSeconds(2, 2, 4, 3), 1, true, 11},
		// The short task of the second stage leads to a long one: it goes before the tasks of the first
		// stage.
		{"the critical path first", []arrivalStage{{tasks: 2}, {tasks: 1}, {tasks: 1, after: []int{1}}},
			inSeconds(3, 3, 2, 6), 2, true, 8},
		{"the critical path by the means of stages", []arrivalStage{{tasks: 2}, {tasks: 1}, {tasks: 1, after: []int{1}}},
			inSeconds(3, 3, 2, 6), 2, false, 8},
		{"a join waits for both", []arrivalStage{{tasks: 1}, {tasks: 1}, {tasks: 1, after: []int{0, 1}}},
			inSeconds(1, 5, 2), 0, true, 7},
	} {
		p := oraclePlan{stages: test.stages, runs: test.runs}
		if got := p.timeToEnd(test.slots, test.known); got != time.Duration(test.want)*time.Second {
			t.Errorf("%s: %v, want %ds", test.name, got, test.want)
		}
	}
}

// smallRecurring makes runs of a small recurring job, by a policy, on 4 workers of 2 slots.
func smallRecurring(policy Policy, load float64) Sweep {
	w := recurringSweep(load, 100, policy, Estimates{Absent: true})
	w.Workers, w.Slots, w.Racks, w.Input, w.WarmupJobs, w.Seed = 4, 2, 2, 160e6, 0, 3
	r := w.Workload.(*recurring)
	r.every, r.own.slots, r.disks = 2*time.Minute, 3, w.Config
	r.stages = []recurringStage{{tasks: 8, run: 2 * time.Second},
		{tasks: 6, run: 3 * time.Second, after: []int{0}, stragglers: 0.5, longest: 9 * time.Second}}
	r.others[0].Durations = must(bench.ParseDurations("fixed:4s"))
	r.others = r.others[:1]
	w.tenants = tenants.New(1, nil, []tenants.Entry{{Path: tenants.Default, Tokens: 1000},
		{Path: recurringName, Tokens: 1000, Max: 3}})
	return w
}

// Recurring jobs come at even times among the jobs of other tenants.
func TestRecurringWorkload(t *testing.T) {
	w := smallRecurring(nearAtRandom, 0.5)
	a, err := w.Workload.newArrivals(3, 0.5, 8)
	if err != nil {
		t.Fatal(err)
	}
	var times []time.Duration
	last := time.Duration(0)
	for job := range a.jobs {
		if job.At < last || (job.own != nil) != (job.tenant == recurringName) ||
			(job.stages != nil) != (job.own != nil) {
			t.Fatalf("%+v after %v", job, last)
		}
		last = job.At
		if job.own != nil {
			times = append(times, job.At)
			if len(job.Tasks) != 14 || len(job.stages[0].at) != 8 || len(job.stages[0].at[0]) != 3 ||
				job.stages[1].at != nil || slices.Max(job.Tasks) > 9*time.Second {
				t.Fatalf("%+v", job)
			}
		}
		if len(times) == 3 {
			break
		}
	}
	if want := inSeconds(12, 132, 252); !slices.Equal(times, want) {
		t.Errorf("recurring jobs come at %v, want %v", times, want)
	}
}

// A recurring job uses at most its slots. The baseline reads inputs with copies on the host only. No job is
// faster than the oracle without a limit, which is not slower than the oracle of the same capacity.
func TestRecurringJob(t *testing.T) {
	for _, policy := range []Policy{mustPolicy(t, "phoebe"), nearAtRandom} {
		w := smallRecurring(policy, 0.3)
		cfg := w.Config
		cfg.Policy, cfg.Load, cfg.checkState = w.Policies[0], w.Loads[0], true
		var seen []*workerNode
		most := 0
		cfg.onTaskStart = func(n *workerNode, s *worker.Start) {
			if s.Tenant != recurringName {
				return
			}
			if !slices.Contains(seen, n) {
				seen = append(seen, n)
			}
			running := 1
			for _, n := range seen {
				for _, x := range n.running {
					if x.start.Tenant == recurringName {
						running++
					}
				}
			}
			most = max(most, running)
		}
		r := mustRun(t, cfg)
		g, o := r.Kinds[recurringName], r.Oracle
		if g == nil || o == nil {
			t.Fatalf("%s: no recurring job: %+v", policy.Name, r.Kinds)
		}
		if most != 3 {
			t.Errorf("%s: the job used up to %d slots, want 3", policy.Name, most)
		}
		if o.Free.Mean > o.Same.Mean || o.Same.Mean > o.Blind.Mean*1.001 || g.ResponseMS.Mean < o.Same.Mean {
			t.Errorf("%s: mean response %.1f s, oracles %.1f, %.1f and %.1f", policy.Name, g.ResponseMS.Mean/1e3,
				o.Same.Mean/1e3, o.Blind.Mean/1e3, o.Free.Mean/1e3)
		}
		if near := r.Read.Near; policy.strictLocality && near < 8./14 {
			t.Errorf("%.2f of the tasks read on their host", near)
		}
	}
}

// An oracle reads inputs with copies from a disk, and outputs of other stages evenly from all workers.
func TestOracleReads(t *testing.T) {
	w := smallRecurring(nearAtRandom, 0.3)
	r := &runner{cfg: w.Config}
	j := &jobRun{tasks: inSeconds(1, 2), needs: &needs{stages: []arrivalStage{{tasks: 1}, {tasks: 1, after: []int{0}}},
		stage: []int{0, 1}, at: [][]int{{0}, nil}}}
	// Of 4 workers in 2 racks, a quarter is on the host, a quarter in the rack, and the rest in another rack.
	want := []time.Duration{2 * time.Second, 2*time.Second + 250*time.Millisecond + 400*time.Millisecond + time.Second}
	if got := r.addReads(j); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// The verdicts of the figure follow from its numbers.
func TestOracleIsChecked(t *testing.T) {
	for _, test := range []struct {
		phoebe, baseline float64 // over the oracle of the same capacity
		want             string
	}{{1.04, 1.4, "yy"}, {1.05, 1.4, "ny"}, {1.04, 1.3, "yn"}} {
		d := &figureData{runs: map[figurePoint][]*bench.SimRun{}}
		for line, v := range map[string]float64{learnedLine: test.phoebe, knownLine: 1, baselineLine: test.baseline,
			sameOracle: 1, blindOracle: 1.1, freeOracle: 0.9} {
			for range 2 {
				d.addRun(line, 0.8, fakeRun(v))
			}
		}
		if got := listVerdicts(checkOracle(d)); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}
