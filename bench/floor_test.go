package bench

import (
	"testing"

	"go.uber.org/goleak"
)

func TestFloor(t *testing.T) {
	defer goleak.VerifyNone(t)
	f, err := StartFloor()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 200 {
		took, err := f.RoundTrip()
		if err != nil || took <= 0 {
			t.Fatalf("round trip %d: %s, %v", i, took, err)
		}
	}
	f.Close()
	if _, err := f.RoundTrip(); err == nil {
		t.Error("a closed floor still answers")
	}
}

func BenchmarkFloor(b *testing.B) {
	f, err := StartFloor()
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	h := NewHistogram()
	for b.Loop() {
		took, err := f.RoundTrip()
		if err != nil {
			b.Fatal(err)
		}
		h.Record(took)
	}
	s := h.Stats(1000)
	b.ReportMetric(s.P50, "p50-us")
	b.ReportMetric(s.P99, "p99-us")
}
