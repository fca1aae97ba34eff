package main

import (
	"context"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/bench/live"
	"github.com/phoebe-sched/phoebe/bench/sim"
)

// simulateRuns runs the jobs of each measured run again in the simulator, with the measured delay of messages. Both
// draw the same jobs from the same seed.
func simulateRuns(ctx context.Context, o *live.Options, runs []bench.Run) error {
	for i := range runs {
		r := &runs[i]
		policy, err := sim.ParsePolicy(r.Policy)
		if err != nil {
			return err
		}
		jobs, err := bench.Poisson(r.Seed, r.Load, r.Slots, o.TasksPerJob, o.Durations, o.Warmup+o.For)
		if err != nil {
			return err
		}
		all, warmup := 0, 0
		for job := range jobs {
			all++
			if job.At < o.Warmup {
				warmup++
			}
		}
		delay := r.Delay().Round(time.Microsecond)
		result, err := sim.Run(ctx, sim.Config{
			Policy: policy, ProbeRatio: o.ProbeRatio, Load: r.Load, Frontends: o.Frontends, Workers: o.Workers,
			Slots:    o.Slots,
			Workload: sim.Poisson{TasksPerJob: bench.TasksPerJob(o.TasksPerJob), Durations: o.Durations},
			Jobs:     all, WarmupJobs: warmup, Estimates: sim.Estimates{Absent: !o.Estimates}, Seed: r.Seed,
			Delay: delay,
		})
		if err != nil {
			return err
		}
		r.Simulate(result.Jobs, delay, result.ResponseMS)
	}
	return nil
}
