package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// All orders of two samples of one distribution are equally likely: uChances counts them.
func TestUByCounting(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for m := 1; m <= 5; m++ {
			counts, all := make([]float64, n*m+1), 0.0
			var place func(own, other, u int)
			place = func(own, other, u int) { // own and other numbers are left, and come in rising order
				if own == 0 && other == 0 {
					counts[u]++
					all++
					return
				}
				if own > 0 {
					place(own-1, other, u+m-other) // above all other numbers that came
				}
				if other > 0 {
					place(own, other-1, u)
				}
			}
			place(n, m, 0)
			got := uChances(n, m)
			for u := range counts {
				if math.Abs(got[u]-counts[u]/all) > 1e-12 {
					t.Fatalf("%d and %d numbers: U is %d with chance %g, want %g", n, m, u, got[u], counts[u]/all)
				}
			}
		}
	}
}

// The bounds hold the true ratio as often as they say, for any distribution.
func TestBoundsOfRatioHold(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, sizes := range [][2]int{{3, 3}, {5, 5}, {4, 9}} {
		const draws, ratio = 4000, 1.1
		holds, confidence := 0, 0.0
		for range draws {
			draw := func(n int, times float64) (all []float64) {
				for range n {
					all = append(all, times*(1+random.ExpFloat64()))
				}
				return all
			}
			r, c := ratioOfSamples(draw(sizes[0], 1), draw(sizes[1], ratio))
			if r.Low <= ratio && ratio <= r.High {
				holds++
			}
			confidence = c
		}
		share := float64(holds) / draws
		if spread := 4 * math.Sqrt(confidence*(1-confidence)/draws); math.Abs(share-confidence) > spread {
			t.Errorf("%v repeats: the bounds hold the ratio in %.3f of all draws, and say %.3f",
				sizes, share, confidence)
		}
	}
}

// documentOf returns a document with a run and a no-op run for each number.
func documentOf(load float64, times ...float64) *Document {
	d := &Document{Meta: Meta{Commit: "1234567", Command: "phoebe bench"}}
	for i, v := range times {
		d.Runs = append(d.Runs, Run{Cluster: Embedded, Policy: "phoebe", Workload: "fixed:10ms", Load: load, Slots: 40,
			Repeat: i + 1, Figures: Figures{ResponseMS: Stats{P50: v, P99: 2 * v}, AchievedTasksPerS: 1000}})
		d.NoopRuns = append(d.NoopRuns, NoopRun{Cluster: Embedded, Noop: Noop{RTTUS: Quantiles{P50: v}}})
	}
	return d
}

func TestCompareDocuments(t *testing.T) {
	before := documentOf(0.8, 10, 10.2, 10.1, 9.9, 10.3)
	for name, c := range map[string]struct {
		after     *Document
		different []string // figures
		says      string
	}{
		"the same figures": {documentOf(0.8, 10.1, 10, 10.3, 9.9, 10.2), nil, "no difference\n"},
		"a tenth slower": {documentOf(0.8, 11, 11.2, 11.1, 10.9, 11.3),
			[]string{"response p50, ms", "response p99, ms", "round trip p50, us"}, "3 of 4 figures differ\n"},
		"two repeats":   {documentOf(0.8, 20, 21), nil, "too few repeats for 95 % confidence"},
		"another load":  {documentOf(0.5, 10, 10.2, 10.1, 9.9, 10.3), nil, "only in one file: fixed:10ms, load 0.5,"},
		"nothing alike": {&Document{}, nil, "nothing to compare"},
	} {
		changes, unpaired := CompareDocuments(before, c.after)
		var different []string
		for _, change := range changes {
			if change.IsDifferent() {
				different = append(different, change.Figure)
			}
		}
		var b strings.Builder
		if err := WriteChanges(&b, before, c.after, changes, unpaired); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(different, c.different) || !strings.Contains(b.String(), c.says) {
			t.Errorf("%s: %q differ, want %q:\n%s", name, different, c.different, b.String())
		}
	}
	unstamped := documentOf(0.8, 10)
	unstamped.Meta.Commit = ""
	var b strings.Builder
	if err := WriteChanges(&b, unstamped, before, nil, nil); err != nil ||
		!strings.HasPrefix(b.String(), "before  commit not stamped, phoebe bench,") {
		t.Errorf("a file without a commit: %v:\n%s", err, b.String())
	}
	changes, _ := CompareDocuments(before, documentOf(0.8, 11, 11.22, 11.11, 10.89, 11.33))
	if r := changes[0].Ratio; math.Abs(r.Ratio-1.1) > 1e-9 || r.Low >= 1.1 || r.High <= 1.1 || r.Low < 1.05 {
		t.Errorf("all numbers times 1.1: %+v", r)
	}
}
