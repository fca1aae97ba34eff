package bench

import (
	"math"
	"testing"
	"time"
)

// Every part of the harness takes the same value of a sample as its quantile, however small the sample is.
func TestOneDefinitionOfQuantiles(t *testing.T) {
	for n := 1; n <= 250; n++ {
		opts := RunOptions{For: time.Hour}
		h, sample, a, b := NewHistogram(), []time.Duration{}, NewRecorder(opts), NewRecorder(opts)
		for i := range n {
			d := time.Duration(i+1) * ms
			h.Record(d)
			sample = append(sample, d)
			a.Job(JobOutcome{Index: 2 * i, Response: d})
			b.Job(JobOutcome{Index: 2*i + 1, Response: d})
		}
		// The smallest value that at least 99 of 100 do not exceed, and likewise half.
		p50, p99 := float64((n+1)/2), float64((99*n+99)/100)
		exact, recorded, compared := SampleStats(sample), h.Quantiles(ms), Compare(a, b).AMS
		for name, got := range map[string]Quantiles{
			"sample": {exact.P50, exact.P99}, "histogram": recorded, "comparison": compared,
		} {
			if math.Abs(got.P50/p50-1) > 1e-3 || math.Abs(got.P99/p99-1) > 1e-3 {
				t.Fatalf("%s of 1 to %d: p50 %v, p99 %v, want %v and %v", name, n, got.P50, got.P99, p50, p99)
			}
		}
	}
}
