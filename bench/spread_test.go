package bench

import (
	"math"
	"math/bits"
	"reflect"
	"strings"
	"testing"
)

// Each of n draws lies below the median or not: all 2^n cases are equally likely.
func TestMedianIntervalByCounting(t *testing.T) {
	confidence := func(n, rank int) float64 {
		holds := 0
		for draws := range uint(1) << n {
			if below := bits.OnesCount(draws); below >= rank && n-below >= rank {
				holds++
			}
		}
		return float64(holds) / math.Pow(2, float64(n))
	}
	for n := 1; n <= 18; n++ {
		rank, got := medianInterval(n)
		if want := confidence(n, rank); math.Abs(got-want) > 1e-12 {
			t.Errorf("%d repeats: no. %d holds the median with confidence %g, want %g", n, rank, got, want)
		}
		if rank > 1 && got < 0.95 || 2*(rank+1) <= n && confidence(n, rank+1) >= 0.95 {
			t.Errorf("%d repeats: no. %d is not the narrowest with 95 %%", n, rank)
		}
	}
}

func TestSpreadOf(t *testing.T) {
	figuresOf := func(v float64) Figures {
		return Figures{
			AchievedTasksPerS: v, ResponseMS: Stats{P50: 10 - v}, CPU: CPUUse{Own: v / 10},
			PhasesUS:  map[string]PhaseStats{"queued": {P99: 2 * v}, "ready": {Mean: v}},
			Simulated: &Simulated{Jobs: int(100 * v), Ratio: Stats{Mean: v}},
		}
	}
	repeats := []Figures{figuresOf(3), figuresOf(1), figuresOf(2), figuresOf(7)}
	if s := spreadOf(repeats); !reflect.DeepEqual(s.Median, figuresOf(2.5)) || s.Low.AchievedTasksPerS != 1 ||
		s.High.PhasesUS["queued"].P99 != 14 || s.Low.ResponseMS.P50 != 3 || s.Repeats != 4 {
		t.Errorf("%+v", s)
	}
	delete(repeats[2].PhasesUS, "ready")
	repeats[2].Simulated = nil
	s := spreadOf(repeats)
	if _, ok := s.Median.PhasesUS["ready"]; ok || s.Median.Simulated != nil {
		t.Errorf("what one repeat lacks has a median: %+v", s.Median)
	}
	nine := make([]float64, 9)
	for i := range nine {
		nine[i] = float64((i * 5) % 9)
	}
	if s := spreadOf(nine); s.Low != 1 || s.Median != 4 || s.High != 7 ||
		!strings.Contains(s.boundsNote(), "no. 2 and no. 8 of them by size, with 96.1 %") {
		t.Errorf("%+v: %s", s, s.boundsNote())
	}
	if s := spreadOf(nine[:1]); s.Low != nine[0] || s.Median != nine[0] || s.boundsNote() != "" {
		t.Errorf("%+v: %s", s, s.boundsNote())
	}
}
