package sim

import (
	"math"
	"testing"
	"time"
)

// A centre breaks at duration / (load x cost) slots. Below, its decisions keep it busy for slots / that number of the
// time. Above, it starts 1 / cost tasks a second, so the slots are in use for duration / (cost x slots) of the time.
func TestCentreBreaks(t *testing.T) {
	const load, duration, cost = 0.8, 100 * time.Millisecond, time.Millisecond
	breaks := duration.Seconds() / load / cost.Seconds() // 125
	for _, policy := range []string{"centralized", "centralized-ahead", "centralized-heartbeat"} {
		for _, workers := range []int{20, 28, 40, 60} {
			cfg := smallConfig(t)
			cfg.Policy, cfg.Workload, cfg.Load, cfg.Workers = mustPolicy(t, policy), mustPoisson(t, "10", "task-exp:100ms"),
				load, workers
			cfg.DecisionCost, cfg.Jobs, cfg.WarmupJobs = cost, 4000, 800
			r := mustRun(t, cfg)
			slots := float64(4 * workers)
			busy, used := min(slots/breaks, 1), min(load, load*breaks/slots)
			if policy == "centralized-heartbeat" {
				// Slots get tasks at heartbeats, which are a second apart, so nearly all slots run one task a second.
				used = duration.Seconds()
				busy = used / load * slots / breaks
			}
			t.Logf("%s, %g slots: busy %.3f, by the formula %.3f; slots in use %.3f, by the formula %.3f", policy, slots,
				r.Deciders[""].Busy, busy, r.Utilisation, used)
			if math.Abs(r.Deciders[""].Busy/busy-1) > 0.05 || math.Abs(r.Utilisation/used-1) > 0.05 {
				t.Errorf("%s, %g slots: busy %.3f, by the formula %.3f; slots in use %.3f, by the formula %.3f", policy,
					slots, r.Deciders[""].Busy, busy, r.Utilisation, used)
			}
		}
	}
}

// A task ahead hides the way of the messages. Heartbeats cost half of their period.
func TestCentreVariants(t *testing.T) {
	cfg := smallConfig(t)
	cfg.Workers, cfg.Slots, cfg.Load, cfg.Jobs, cfg.WarmupJobs, cfg.Delay = 1, 1, 0, 0, 0, 10*time.Millisecond
	cfg.Workload = jobsFile(t, "0 4 0.1 0.1 0.1 0.1 0.1\n", false)
	for policy, want := range map[string]float64{
		"centralized":       4*100 + 8*10,
		"centralized-ahead": 4*100 + 2*10,
	} {
		cfg.Policy = mustPolicy(t, policy)
		if r := mustRun(t, cfg); r.ResponseMS.Max != want {
			t.Errorf("%s: %g ms, want %g", policy, r.ResponseMS.Max, want)
		}
	}
	// The tasks start at the heartbeats after the first.
	cfg.Policy = mustPolicy(t, "centralized-heartbeat")
	if r := mustRun(t, cfg); r.ResponseMS.Max < 3000 || r.ResponseMS.Max > 3200 {
		t.Errorf("centralized-heartbeat: %g ms, want 3 heartbeats", r.ResponseMS.Max)
	}
	// A free slot goes before a place behind a running task.
	cfg.Workers, cfg.Delay, cfg.Policy = 2, 0, mustPolicy(t, "centralized-ahead")
	cfg.Workload = jobsFile(t, "0 4 1 1 1 1 1\n", false)
	if r := mustRun(t, cfg); r.WaitMS.P50 != 0 || r.WaitMS.Max != 1000 || r.ResponseMS.Max != 2000 {
		t.Errorf("centralized-ahead: waits %+v", r.WaitMS)
	}
}
