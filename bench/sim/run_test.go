package sim

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
)

// mustPolicy parses a policy.
func mustPolicy(t testing.TB, name string) Policy {
	t.Helper()
	p, err := ParsePolicy(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustDurations(t testing.TB, text string) bench.Spec {
	t.Helper()
	spec, err := bench.ParseDurations(text)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// mustRun runs cfg, and clears the wall time of the result, so results can be compared.
func mustRun(t testing.TB, cfg Config) *Result {
	t.Helper()
	r, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.WallS = 0
	return r
}

func mustPoisson(t testing.TB, tasks, law string) Poisson {
	t.Helper()
	counts, err := bench.ParseCounts(tasks)
	if err != nil {
		t.Fatal(err)
	}
	return Poisson{counts, mustDurations(t, law)}
}

// smallConfig is a cluster for quick tests.
func smallConfig(t testing.TB) Config {
	return Config{
		Policy: mustPolicy(t, "phoebe"), Load: 0.8, Frontends: 2, Workers: 10, Slots: 4,
		Workload: mustPoisson(t, "10", "mix:90%5ms,10%200ms"), Jobs: 3000, WarmupJobs: 500, Seed: 1,
		Delay: 30 * time.Microsecond,
	}
}

// erlangC returns the mean wait of an M/M/k queue, in mean service times.
func erlangC(k int, load float64) float64 {
	a := load * float64(k)
	sum, term := 0.0, 1.0
	for i := range k {
		sum += term
		term *= a / float64(i+1)
	}
	wait := term / (1 - load)
	return wait / (sum + wait) / (float64(k) * (1 - load))
}

// twoChoices returns the mean wait at the fixed point of the power of two choices (Mitzenmacher 2001): each
// arrival joins the shorter of two sampled queues, among many queues with one server.
func twoChoices(load float64) float64 {
	sum := 0.0
	for i := 1.0; i < 12; i++ {
		sum += math.Pow(load, math.Pow(2, i)-2)
	}
	return sum - 1
}

// leastWork returns the mean wait if each arrival joins the queue with the least work of two sampled queues. Late
// binding does so if messages take no time. The wait is the integral of F(w)^2, where F(w) = 1/(load +
// (1/load-load)*e^w) is the share of queues with more work than w (Hellemans and Van Houdt 2018).
func leastWork(load float64) float64 { return math.Log(1/(1-load*load))/(load*load) - 1 }

// If a policy reduces to a queue with a known solution, mean waits are within 2 % of the theory.
func TestTheory(t *testing.T) {
	for _, test := range []struct {
		name, policy   string
		workers, slots int
		law            string // of mean 10 ms
		load           float64
		jobs           int
		want           float64 // mean wait, in mean task durations
	}{
		{"M/M/1", "random", 1, 1, "task-exp:10ms", 0.5, 250_000, erlangC(1, 0.5)},
		{"M/M/1 of many", "random", 20, 1, "task-exp:10ms", 0.7, 250_000, erlangC(1, 0.7)},
		{"M/G/1 of many", "random", 20, 1, "mix:80%5ms,20%30ms", 0.7, 250_000, 0.7 / 0.3},
		// E[S^2] = 2*E[S]^2, as of an exponential
		{"M/D/1 of many", "random", 20, 1, "fixed:10ms", 0.7, 250_000, 0.7 / 0.3 / 2},
		{"M/M/4, bound early", "random", 1, 4, "task-exp:10ms", 0.6, 400_000, erlangC(4, 0.6)},
		{"M/M/4, bound late", "late-binding", 1, 4, "task-exp:10ms", 0.6, 400_000, erlangC(4, 0.6)},
		{"M/M/4, phoebe", "phoebe", 1, 4, "task-exp:10ms", 0.6, 400_000, erlangC(4, 0.6)},
		{"M/M/20, omniscient", "omniscient", 5, 4, "task-exp:10ms", 0.8, 400_000, erlangC(20, 0.8)},
		{"M/M/20, centralized", "centralized", 5, 4, "task-exp:10ms", 0.8, 400_000, erlangC(20, 0.8)},
		{"two choices", "per-task", 300, 1, "task-exp:10ms", 0.7, 250_000, twoChoices(0.7)},
		{"two choices, batch", "batch", 300, 1, "task-exp:10ms", 0.9, 400_000, twoChoices(0.9)},
		{"least work of two", "late-binding", 300, 1, "task-exp:10ms", 0.7, 400_000, leastWork(0.7)},
		{"least work of two, high load", "late-binding", 300, 1, "task-exp:10ms", 0.9, 400_000, leastWork(0.9)},
		{"least work of two, no cancel", "late-binding-no-cancel", 300, 1, "task-exp:10ms", 0.8, 400_000,
			leastWork(0.8)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			const limit = 0.02
			r := mustRun(t, Config{
				Policy: mustPolicy(t, test.policy), Load: test.load, Frontends: 1, Workers: test.workers,
				Slots:    test.slots,
				Workload: mustPoisson(t, "1", test.law), Jobs: test.jobs, WarmupJobs: test.jobs / 10, Seed: 1,
				Estimates: Estimates{Absent: true},
			})
			got := r.WaitMS.Mean / 10
			if off := got/test.want - 1; math.Abs(off) > limit {
				t.Errorf("mean wait of %.4f tasks, theory says %.4f: %+.1f %%", got, test.want, 100*off)
			}
			if off := r.Utilisation/test.load - 1; math.Abs(off) > limit {
				t.Errorf("utilisation %.4f at load %.2f", r.Utilisation, test.load)
			}
			t.Logf("wait %.4f, theory %.4f", got, test.want)
		})
	}
}

// A seed gives one result. The codec changes nothing. Another seed gives another result.
func TestRepeat(t *testing.T) {
	for _, p := range Policies() {
		cfg := smallConfig(t)
		cfg.Policy, cfg.Jobs, cfg.WarmupJobs, cfg.Jitter = p, 300, 50, 20*time.Microsecond
		cfg.DecisionCost = 50 * time.Microsecond
		first := mustRun(t, cfg)
		if again := mustRun(t, cfg); !reflect.DeepEqual(first, again) {
			t.Errorf("%s: %+v, then %+v", p.Name, first, again)
		}
		cfg.Codec = true
		if coded := mustRun(t, cfg); !reflect.DeepEqual(first, coded) {
			t.Errorf("%s: %+v, with codec %+v", p.Name, first, coded)
		}
		cfg.Seed++
		if other := mustRun(t, cfg); reflect.DeepEqual(first, other) {
			t.Errorf("%s: two seeds, one result", p.Name)
		}
	}
}

// The policies are in the order of the paper (Sparrow, figure 8), and phoebe is not behind late binding. In the
// figure, random is worst, then per-task, then batch sampling, and late binding is best. Tasks of mixed lengths
// show the order: equal tasks flatter any policy that serves in turn.
func TestPoliciesInOrder(t *testing.T) {
	var before *Result
	for _, name := range []string{"phoebe", "late-binding", "batch", "per-task", "random"} {
		cfg := smallConfig(t)
		cfg.Policy = mustPolicy(t, name)
		r := mustRun(t, cfg)
		p50, p99 := r.RatioOmniscient.P50, r.RatioOmniscient.P99
		t.Logf("%-12s p50 %.3f, p99 %.3f times omniscient, %.1f messages per task", name, p50, p99, r.MessagesPerTask)
		if before != nil && (r.ResponseMS.Mean < before.ResponseMS.Mean || r.ResponseMS.P99 < before.ResponseMS.P99) {
			t.Errorf("%s responds in %.1f ms on average and %.1f at p99, %s in %.1f and %.1f", name,
				r.ResponseMS.Mean, r.ResponseMS.P99,
				before.Policy, before.ResponseMS.Mean, before.ResponseMS.P99)
		}
		if name == "phoebe" && (p50 > 1.05 || p99 > 1.10) {
			t.Errorf("phoebe: p50 %.3f, p99 %.3f times omniscient", p50, p99)
		}
		before = r
	}
}

// Payloads and results take time on the network. Each process sends in sequence.
func TestBandwidth(t *testing.T) {
	cfg := Config{
		Policy: mustPolicy(t, "late-binding"), Load: 0.0001, Frontends: 1, Workers: 4, Slots: 1,
		Workload: mustPoisson(t, "4", "fixed:1ms"),
		Jobs:     20, Seed: 1, Delay: time.Millisecond, Codec: true, Bandwidth: 1 << 20, Payload: 1 << 16,
		Result: 1 << 17,
	}
	// Reserve and Ready, then the frontend sends four payloads of 62.5 ms each. Each worker runs a task, and
	// sends its result in 125 ms.
	want := 3 + 4*62.5 + 1 + 125 + 1
	if got := mustRun(t, cfg).ResponseMS.P50; math.Abs(got-want) > 0.1 {
		t.Errorf("a job takes %v ms, want %v", got, want)
	}
	cfg.Bandwidth = 0
	if got := mustRun(t, cfg).ResponseMS.P50; math.Abs(got-5) > 0.1 {
		t.Errorf("without a limit, a job takes %v ms, want 5", got)
	}
}

// A job with stages waits once for earlier jobs, not again at each stage for later jobs.
func TestSeniority(t *testing.T) {
	mean := func(name string) float64 {
		cfg := smallConfig(t)
		cfg.Policy, cfg.Workload, cfg.Stages, cfg.Workers, cfg.Slots = mustPolicy(t, name),
			mustPoisson(t, "10", "task-exp:20ms"), 3, 2, 1
		return mustRun(t, cfg).ResponseMS.Mean
	}
	with, without := mean("phoebe"), mean("phoebe-seniority")
	t.Logf("the mean response is %.1f ms with it, %.1f without", with, without)
	if with > 0.9*without {
		t.Error("it brings nothing")
	}
}
