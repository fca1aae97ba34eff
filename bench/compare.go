package bench

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/phoebe-sched/phoebe/probe/histogram"
)

// The fleets of a comparison: two sets of frontends on the same workers.
const (
	FleetA = "A"
	FleetB = "B"
)

// Comparison compares the responses of two fleets of frontends to the same jobs. Arrivals come in pairs with the
// same tasks, one job to each fleet. The fleets take turns at being first in a pair.
type Comparison struct {
	Policy   string    `json:"policy"`
	Workload string    `json:"workload"`
	Load     float64   `json:"load"` // of both fleets together
	Repeat   int       `json:"repeat"`
	Pairs    int       `json:"pairs"` // of jobs answered in full by both fleets
	AMS      Quantiles `json:"a_ms"`  // responses of A in the pairs
	BMS      Quantiles `json:"b_ms"`
	Pair     Ratio     `json:"pair"` // B's response over A's: the median over the pairs
	P50      Ratio     `json:"p50"`  // B's median over A's
	P99      Ratio     `json:"p99"`
}

// Ratio is a ratio with its bounds of 95 % confidence.
type Ratio struct {
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// resamples is the number of samples drawn for the bounds of ratios of quantiles. Each sample draws as many pairs
// as there are, with replacement.
const resamples = 400

// Compare compares the pairs in two recorders: arrivals 0 and 1, 2 and 3, and so on.
func Compare(a, b *Recorder) Comparison {
	c := Comparison{Policy: a.opts.Policy, Workload: a.opts.Workload, Load: a.opts.Load, Repeat: a.opts.Repeat}
	responsesB := map[int]time.Duration{}
	for _, j := range b.jobs {
		if !j.Failed && b.isCounted(j.At) {
			responsesB[j.Index] = j.Response
		}
	}
	var pairs [][2]float64
	var ratios []float64
	for _, j := range a.jobs {
		if took, ok := responsesB[j.Index^1]; ok && !j.Failed && a.isCounted(j.At) {
			p := [2]float64{toMillis(j.Response), toMillis(took)}
			pairs, ratios = append(pairs, p), append(ratios, p[1]/p[0])
		}
	}
	if c.Pairs = len(pairs); c.Pairs == 0 {
		return c
	}
	slices.Sort(ratios)
	rank, _ := medianInterval(c.Pairs)
	c.Pair = Ratio{(ratios[(c.Pairs-1)/2] + ratios[c.Pairs/2]) / 2, ratios[rank-1], ratios[c.Pairs-rank]}
	quantilesOf := func(pick func() [2]float64) (qs [2]Quantiles) {
		var sorted [2][]float64
		for range pairs {
			p := pick()
			sorted[0], sorted[1] = append(sorted[0], p[0]), append(sorted[1], p[1])
		}
		for i, s := range sorted {
			slices.Sort(s)
			at := func(q float64) float64 { return s[histogram.QuantileRank(q, len(s))-1] }
			qs[i] = Quantiles{P50: at(0.5), P99: at(0.99)}
		}
		return qs
	}
	next := 0
	all := quantilesOf(func() [2]float64 { next++; return pairs[next-1] })
	c.AMS, c.BMS = all[0], all[1]
	random := rand.New(rand.NewPCG(a.opts.Seed, uint64(c.Pairs)))
	var p50s, p99s []float64
	for range resamples {
		qs := quantilesOf(func() [2]float64 { return pairs[random.IntN(len(pairs))] })
		p50s, p99s = append(p50s, qs[1].P50/qs[0].P50), append(p99s, qs[1].P99/qs[0].P99)
	}
	bounds := func(ratio float64, drawn []float64) Ratio {
		slices.Sort(drawn)
		return Ratio{ratio, drawn[resamples/40], drawn[resamples-1-resamples/40]}
	}
	c.P50, c.P99 = bounds(c.BMS.P50/c.AMS.P50, p50s), bounds(c.BMS.P99/c.AMS.P99, p99s)
	return c
}

func toMillis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

const comparisonNote = "A and B, the same jobs by turns on the same workers. Response in ms; ratios are B's " +
	"over A's, with their 95 % intervals: in the median pair, and of the quantiles"

// comparisonGrid has a row for each comparison.
func comparisonGrid(all []Comparison) grid {
	if len(all) == 0 {
		return nil
	}
	g := grid{{"policy", "load", "repeat", "pairs", "A p50", "B p50", "A p99", "B p99", "pair by pair", "", "p50",
		"", "p99", ""}}
	for _, c := range all {
		row := []string{c.Policy, formatNumber(c.Load), strconv.Itoa(c.Repeat), strconv.Itoa(c.Pairs),
			formatNumber(c.AMS.P50), formatNumber(c.BMS.P50), formatNumber(c.AMS.P99), formatNumber(c.BMS.P99)}
		for _, r := range []Ratio{c.Pair, c.P50, c.P99} {
			row = append(row, formatNumber(r.Ratio), fmt.Sprintf("%s to %s", formatNumber(r.Low), formatNumber(r.High)))
		}
		g = append(g, row)
	}
	return g
}
