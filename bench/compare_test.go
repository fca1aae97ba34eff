package bench

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// One fleet is slower by a known share, and jobs differ much more than the fleets. A job is in no pair if a fleet
// did not answer the job, or if the job does not count.
func TestCompare(t *testing.T) {
	const jobs, slower = 4000, 1.1
	random := rand.New(rand.NewPCG(1, 2))
	opts := RunOptions{Policy: "phoebe", Workload: "w", Load: 0.5, Slots: 1, Repeat: 1, Warmup: time.Second,
		For: jobs * ms}
	a, b := NewRecorder(opts), NewRecorder(opts)
	for i := 0; i < jobs; i += 2 {
		base := 5 * ms * time.Duration(1+random.IntN(100))
		noise := func() float64 { return 0.95 + random.Float64()/10 }
		at := time.Duration(i) * ms
		first := JobOutcome{Index: i, At: at, Tasks: 1, Response: time.Duration(float64(base) * noise())}
		second := JobOutcome{Index: i + 1, At: at, Tasks: 1, Response: time.Duration(float64(base) * slower * noise())}
		if i%4 == 2 { // the fleets take turns
			first.Index, second.Index = second.Index, first.Index
		}
		first.Failed = i == 2000
		a.Job(first)
		b.Job(second)
	}
	c := Compare(a, b)
	if c.Pairs != (jobs-1000)/2-1 {
		t.Errorf("%d pairs", c.Pairs)
	}
	for name, r := range map[string]Ratio{"pair": c.Pair, "p50": c.P50, "p99": c.P99} {
		if math.Abs(r.Ratio-slower) > 0.05 || !(r.Low <= slower && slower <= r.High) || r.Low > r.Ratio ||
			r.High < r.Ratio {
			t.Errorf("%s: %+v, want %v", name, r, slower)
		}
	}
	if wide, close := c.P50.High-c.P50.Low, c.Pair.High-c.Pair.Low; close > 0.02 || wide < 2*close {
		t.Errorf("pair by pair %+v, of medians %+v: pairs tell more", c.Pair, c.P50)
	}
	doc := &Document{Comparisons: []Comparison{c}}
	var text, page, json strings.Builder
	if err := WriteTable(&text, doc); err != nil {
		t.Fatal(err)
	}
	if err := WriteHTML(&page, doc); err != nil {
		t.Fatal(err)
	}
	if err := WriteJSON(&json, doc); err != nil {
		t.Fatal(err)
	}
	for form, out := range map[string]string{"table": text.String(), "page": page.String(), "JSON": json.String()} {
		want := "pair by pair"
		if form == "JSON" {
			want = `"comparisons"`
		}
		if !strings.Contains(out, want) {
			t.Errorf("no comparison in the %s:\n%s", form, out)
		}
	}
	if none := Compare(NewRecorder(opts), b); none.Pairs != 0 || none.Pair.Ratio != 0 {
		t.Errorf("%+v", none)
	}
}
