package sim

import (
	"testing"
	"time"
)

// BenchmarkTenThousandWorkers runs a million tasks by the default policy, for the profiler: use -benchtime 1x.
func BenchmarkTenThousandWorkers(b *testing.B) {
	cfg := Config{
		Policy: mustPolicy(b, "phoebe"), ProbeRatio: 2, Load: 0.8, Frontends: 10, Workers: 10_000, Slots: 4,
		Workload: mustPoisson(b, "100", "job-exp:100ms"), Jobs: 10_000, WarmupJobs: 2_000, Seed: 1,
		Delay: 500 * time.Microsecond,
	}
	for b.Loop() {
		r := mustRun(b, cfg)
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(r.Events)/float64(b.N), "ns/event")
	}
}
