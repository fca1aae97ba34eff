package sim

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
)

// The policy omniscient, over the real workers, equals the central queue computed by bench.Omniscient.
func TestOmniscientIsTheOmniscient(t *testing.T) {
	for _, test := range []struct {
		workers, slots int
		load           float64
		tasks, law     string
	}{
		{1, 1, 0.7, "1", "task-exp:10ms"},
		{10, 4, 0.8, "10", "mix:90%5ms,10%200ms"},
		{3, 7, 1.5, "geometric:5", "pareto:1.5,20ms"},
		{40, 1, 0.95, "uniform:1-100", "job-exp:10ms"},
		{5, 2, 0.9, "4", "fixed:10ms"},
	} {
		cfg := smallConfig(t)
		cfg.Policy, cfg.Workers, cfg.Slots, cfg.Load = mustPolicy(t, "omniscient"), test.workers, test.slots, test.load
		cfg.Workload, cfg.Jobs, cfg.WarmupJobs, cfg.Codec = mustPoisson(t, test.tasks, test.law), 2000, 100, true
		r := mustRun(t, cfg)
		if !reflect.DeepEqual(r.ResponseMS, *r.OmniscientMS) || r.RatioOmniscient.P99 != 1 || r.MessagesPerTask != 0 {
			t.Errorf("%+v: responses of %+v ms, want %+v", test, r.ResponseMS, *r.OmniscientMS)
		}
	}
}

// With workers of two speeds, the policy omniscient uses the faster workers first.
func TestOmniscientKnowsSpeeds(t *testing.T) {
	cfg := smallConfig(t)
	cfg.Policy, cfg.Load, cfg.Jobs, cfg.WarmupJobs = mustPolicy(t, "omniscient"), 0, 0, 0
	cfg.Workers, cfg.Slots, cfg.Speeds = 4, 1, mustSpeeds(t, "mix:75%0.1,25%2")
	cfg.Workload = jobsFile(t, "0 1 1 1\n10 2 1 1 1\n", false)
	if r := mustRun(t, cfg); r.ResponseMS.P50 != 500 || r.ResponseMS.Max != 10_000 {
		t.Errorf("%+v", r.ResponseMS)
	}
}

// A centralized scheduler is the omniscient scheduler with costs of messages and decisions. The scheduler
// saturates if a decision takes as long as a task's share of the cluster.
func TestCentralizedSaturates(t *testing.T) {
	cfg := smallConfig(t)
	cfg.Workload = mustPoisson(t, "10", "task-exp:10ms") // at load 0.8: 3200 tasks a second
	cfg.Policy = mustPolicy(t, "omniscient")
	ideal := mustRun(t, cfg)

	cfg.Policy, cfg.Delay = mustPolicy(t, "centralized"), 0
	if free := mustRun(t, cfg); free.ResponseMS != ideal.ResponseMS {
		t.Errorf("without cost or delay: responses of %+v ms, want %+v", free.ResponseMS, ideal.ResponseMS)
	}
	cfg.DecisionCost = 10 * time.Microsecond
	quick := mustRun(t, cfg)
	cfg.Delay = 500 * time.Microsecond
	far := mustRun(t, cfg)
	cfg.DecisionCost = time.Second / 3000
	slow := mustRun(t, cfg)
	cfg.Jobs = 2 * cfg.Jobs
	slower := mustRun(t, cfg)
	if !(ideal.ResponseMS.Mean < quick.ResponseMS.Mean && quick.ResponseMS.Mean < far.ResponseMS.Mean &&
		far.ResponseMS.Mean < 2*ideal.ResponseMS.Mean) {
		t.Errorf("responses of %.2f ms, with a cost %.2f, with a delay %.2f", ideal.ResponseMS.Mean,
			quick.ResponseMS.Mean, far.ResponseMS.Mean)
	}
	if slow.ResponseMS.Mean < 10*far.ResponseMS.Mean || slower.ResponseMS.Mean < 1.5*slow.ResponseMS.Mean {
		t.Errorf("3000 decisions a second for 3200 tasks: responses of %.2f ms, of twice as many jobs %.2f",
			slow.ResponseMS.Mean, slower.ResponseMS.Mean)
	}
	// One task at a time: a task waits for its own decision and a message.
	cfg = smallConfig(t)
	cfg.Policy, cfg.Load, cfg.Jobs, cfg.WarmupJobs = mustPolicy(t, "centralized"), 0, 0, 0
	cfg.Delay, cfg.DecisionCost = time.Millisecond, 3*time.Millisecond
	cfg.Workload = jobsFile(t, "0 2 1 1 1\n10 1 1 1\n", false)
	if r := mustRun(t, cfg); r.ResponseMS.P50 != 1005 || r.ResponseMS.Max != 1008 || r.WaitMS.Max != 7 {
		t.Errorf("%+v, waits %+v", r.ResponseMS, r.WaitMS)
	}
}

// Without cancellation every place gets a turn, and costs its slot a round trip.
func TestWithoutCancellation(t *testing.T) {
	cfg := smallConfig(t)
	cfg.Delay = time.Millisecond
	cfg.Policy = mustPolicy(t, "late-binding")
	with := mustRun(t, cfg)
	cfg.Policy = mustPolicy(t, "late-binding-no-cancel")
	without := mustRun(t, cfg)
	if a, b := with.FrontendSum, without.FrontendSum; b.Cancels > a.Cancels/4 || b.Declines < 8*b.Tasks/10 ||
		a.Declines > b.Declines/4 {
		t.Errorf("%d cancels, %d declines; without cancellation %d and %d", a.Cancels, a.Declines, b.Cancels,
			b.Declines)
	}
	if with.ResponseMS.Mean >= without.ResponseMS.Mean {
		t.Errorf("responses of %.2f ms, without cancellation %.2f", with.ResponseMS.Mean, without.ResponseMS.Mean)
	}
}

// One task of 100 ms runs on an idle cluster. Late binding takes three messages before the start and one after
// the end. A second job of the same size does not wait.
func TestLateBindingStepByStep(t *testing.T) {
	cfg := smallConfig(t)
	cfg.Policy, cfg.Load, cfg.Jobs, cfg.WarmupJobs, cfg.Delay = mustPolicy(t, "late-binding"), 0, 0, 0, time.Millisecond
	cfg.Workload = jobsFile(t, "0 1 0.1 0.1\n10 5 0.1 0.1 0.1 0.1 0.1 0.1\n", false)
	r := mustRun(t, cfg)
	if r.ResponseMS.P50 != 104 || r.ResponseMS.Max != 104 || r.WaitMS.Max != 3 || r.FrontendSum.Places != 12 ||
		r.FrontendSum.Binds != 6 {
		t.Errorf("responses %+v, waits %+v, %+v", r.ResponseMS, r.WaitMS, r.FrontendSum)
	}
	cfg.Policy = mustPolicy(t, "random")
	if r := mustRun(t, cfg); r.ResponseMS.P50 != 102 || r.WaitMS.P50 != 1 {
		t.Errorf("random: responses %+v, waits %+v", r.ResponseMS, r.WaitMS)
	}
	cfg.Policy = mustPolicy(t, "per-task")
	if r := mustRun(t, cfg); r.ResponseMS.P50 != 104 || r.WaitMS.P50 != 3 {
		t.Errorf("per-task: responses %+v, waits %+v", r.ResponseMS, r.WaitMS)
	}
	// Slow workers take longer, and so do messages with jitter.
	cfg.Speeds = mustSpeeds(t, "fixed:0.5")
	if r := mustRun(t, cfg); r.ResponseMS.P50 != 204 || r.IdealMS.P50 != 100 {
		t.Errorf("half as fast: responses %+v", r.ResponseMS)
	}
	cfg.Jitter = time.Millisecond
	if r := mustRun(t, cfg); r.ResponseMS.P50 <= 204 {
		t.Errorf("with jitter: responses %+v", r.ResponseMS)
	}
}

// The tasks of a job go to different workers. If tasks stacked on idle workers, or were placed by chance, these
// policies would be 5.7, 2.1 and 1.74 times as slow as the omniscient scheduler.
func TestBaselinesSpreadTasks(t *testing.T) {
	cfg := smallConfig(t)
	cfg.Frontends, cfg.Workers, cfg.Delay, cfg.Workload, cfg.Jobs, cfg.WarmupJobs = 4, 100, 500*time.Microsecond,
		mustPoisson(t, "20", "job-exp:100ms"), 1000, 200
	for _, test := range []struct {
		policy string
		most   float64
	}{{"random", 5.2}, {"per-task", 1.95}, {"batch", 1.67}} {
		cfg.Policy = mustPolicy(t, test.policy)
		if r := mustRun(t, cfg); r.RatioOmniscient.Mean > test.most {
			t.Errorf("%s is %.3f times as slow as omniscient, want at most %g", test.policy, r.RatioOmniscient.Mean,
				test.most)
		}
	}
}

// Estimates change only decisions based on estimates.
func TestEstimates(t *testing.T) {
	cfg := smallConfig(t)
	cfg.Workload = mustPoisson(t, "10", "job-exp:10ms")
	exact := mustRun(t, cfg)
	cfg.Estimates = Estimates{Noise: 4}
	noisy := mustRun(t, cfg)
	cfg.Estimates = Estimates{Absent: true}
	absent := mustRun(t, cfg)
	if exact.WorkerSum.EarlyAsks == 0 || noisy.WorkerSum.EarlyAsks == 0 ||
		absent.WorkerSum.EarlyAsks >= exact.WorkerSum.EarlyAsks/2 {
		t.Errorf("early asks: exact %d, noisy %d, none %d", exact.WorkerSum.EarlyAsks, noisy.WorkerSum.EarlyAsks,
			absent.WorkerSum.EarlyAsks)
	}
	if exact.WorkerSum.Late > noisy.WorkerSum.Late {
		t.Errorf("late: exact %d, noisy %d", exact.WorkerSum.Late, noisy.WorkerSum.Late)
	}
	for _, r := range []*Result{noisy, absent} {
		if r.IdealMS != exact.IdealMS || math.Abs(r.ResponseMS.Mean/exact.ResponseMS.Mean-1) > 0.2 {
			t.Errorf("%+v", r.SimRun)
		}
	}
	cfg.Policy = mustPolicy(t, "random")
	withNone := mustRun(t, cfg)
	cfg.Estimates = Estimates{}
	if with := mustRun(t, cfg); with.ResponseMS != withNone.ResponseMS {
		t.Error("random placement looks at estimates")
	}
}

// A run ends when its context ends.
func TestCancelled(t *testing.T) {
	ctx, cancel := contextWithCause(t)
	cfg := smallConfig(t)
	cfg.Jobs = 1 << 40
	cfg.Progress = func(float64) { cancel(errStop) }
	if _, err := Run(ctx, cfg); err != errStop {
		t.Error(err)
	}
	s := Sweep{Config: cfg, Policies: []Policy{cfg.Policy, cfg.Policy, cfg.Policy}, Loads: []float64{0.5},
		ProbeRatios: []float64{2}}
	ctx, cancel = contextWithCause(t)
	if _, err := s.Run(ctx, func(float64) { cancel(errStop) }); err != errStop {
		t.Error(err)
	}
	s.Workload = File{&bench.JobsFile{Jobs: []bench.Job{{Tasks: []time.Duration{1}}}, Means: []time.Duration{1}}, "f"}
	if _, err := s.Run(t.Context(), nil); err == nil ||
		!strings.Contains(err.Error(), "phoebe at load 0.5: f: all jobs are submitted at the same time") {
		t.Error(err)
	}
}
