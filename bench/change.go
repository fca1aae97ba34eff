package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Change compares a figure of two documents: Ratio is the later document's figure over the earlier document's.
//
// Ratio.Ratio is the median of all ratios between a later and an earlier repeat (Hodges and Lehmann, 1963). The
// bounds are two of the sorted ratios, chosen by the distribution of Mann and Whitney's U. The comparison assumes that
// a change multiplies all repeats alike.
type Change struct {
	What       string // the measurement: workload, load, policy and cluster
	Figure     string // with its unit
	Before     Spread[float64]
	After      Spread[float64]
	Ratio      Ratio
	Confidence float64 // that the ratio of endless repeats lies from Ratio.Low to Ratio.High, 0 to 1
}

// IsDifferent reports whether the figure has changed: the bounds do not hold 1, with 95 % confidence or more.
func (c *Change) IsDifferent() bool {
	return c.Confidence >= 0.95 && (c.Ratio.Low > 1 || c.Ratio.High < 1)
}

// figure is a number of a measurement.
type figure[T any] struct {
	name  string
	value func(*T) float64
}

var (
	runFigures = []figure[Run]{
		{"response p50, ms", func(r *Run) float64 { return r.ResponseMS.P50 }},
		{"response p99, ms", func(r *Run) float64 { return r.ResponseMS.P99 }},
		{"response p50, times omniscient", func(r *Run) float64 { return r.RatioOmniscient.P50 }},
		{"response p99, times omniscient", func(r *Run) float64 { return r.RatioOmniscient.P99 }},
		{"tasks/s", func(r *Run) float64 { return r.AchievedTasksPerS }},
	}
	noopFigures = []figure[NoopRun]{
		{"round trip p50, us", func(r *NoopRun) float64 { return r.RTTUS.P50 }},
		{"round trip p99, us", func(r *NoopRun) float64 { return r.RTTUS.P99 }},
		{"floor p50, us", func(r *NoopRun) float64 { return r.FloorUS.P50 }},
		{"round trip p50, times the floor", func(r *NoopRun) float64 { return r.OverFloor.P50 }},
		{"tasks/s, 1 job in flight", func(r *NoopRun) float64 { return r.TasksPerS1 }},
		{"tasks/s, 16 jobs in flight", func(r *NoopRun) float64 { return r.TasksPerS16 }},
		{"CPU per task, us", func(r *NoopRun) float64 { return r.CPUUSPerTask }},
	}
)

// CompareDocuments compares the figures of the measurements that both documents have. unpaired names the measurements
// that only one document has.
func CompareDocuments(before, after *Document) (changes []Change, unpaired []string) {
	runChanges, missing := compareRepeats(before.Runs, after.Runs, runFigures, func(r *Run) string {
		return fmt.Sprintf("%s, load %s, %d slots, %s, %s", r.Workload, formatNumber(r.Load), r.Slots, r.Policy, r.Cluster)
	})
	noopChanges, missingNoop := compareRepeats(before.NoopRuns, after.NoopRuns, noopFigures, func(r *NoopRun) string {
		return "no-op, " + r.Cluster
	})
	return append(runChanges, noopChanges...), append(missing, missingNoop...)
}

// compareRepeats groups repeats by the measurement that whatOf names, and compares the groups figure by figure.
func compareRepeats[T any](before, after []T, figures []figure[T], whatOf func(*T) string) (changes []Change,
	unpaired []string) {
	var order []string
	groups := map[string]*[2][]*T{}
	for i, repeats := range [][]T{before, after} {
		for k := range repeats {
			what := whatOf(&repeats[k])
			if groups[what] == nil {
				groups[what] = &[2][]*T{}
				order = append(order, what)
			}
			groups[what][i] = append(groups[what][i], &repeats[k])
		}
	}
	for _, what := range order {
		group := groups[what]
		if group[0] == nil || group[1] == nil {
			unpaired = append(unpaired, what)
			continue
		}
		for _, f := range figures {
			var values [2][]float64
			for i := range group {
				for _, r := range group[i] {
					values[i] = append(values[i], f.value(r))
				}
			}
			if slices.Min(values[0]) <= 0 || slices.Min(values[1]) <= 0 {
				continue // the figure was not measured
			}
			c := Change{What: what, Figure: f.name, Before: spreadOf(values[0]), After: spreadOf(values[1])}
			c.Ratio, c.Confidence = ratioOfSamples(values[0], values[1])
			changes = append(changes, c)
		}
	}
	return changes, unpaired
}

// ratioOfSamples returns the ratio of after to before, two samples of positive numbers, with the closest bounds that
// have 95 % confidence. If the numbers are too few, the bounds are the least and the greatest ratio.
func ratioOfSamples(before, after []float64) (r Ratio, confidence float64) {
	var ratios []float64
	for _, a := range after {
		for _, b := range before {
			ratios = append(ratios, a/b)
		}
	}
	slices.Sort(ratios)
	n := len(ratios)
	// If the true ratio is 1, the number of ratios below 1 is Mann and Whitney's U.
	rank, confidence := closestBounds(n, uChances(len(before), len(after)))
	return Ratio{math.Sqrt(ratios[(n-1)/2] * ratios[n/2]), ratios[rank-1], ratios[n-rank]}, confidence
}

// uChances returns the chance of each value of Mann and Whitney's U, from 0 to n*m, for samples of n and m numbers with
// the same distribution.
func uChances(n, m int) []float64 {
	// After round j, chances[k][u] is the chance that U is u for samples of k and j numbers. The greatest of all k+j
	// numbers is in the sample of k with chance k/(k+j). That number then adds j pairs to U.
	chances := make([][]float64, n+1)
	for k := range chances {
		chances[k] = make([]float64, n*m+1)
		chances[k][0] = 1
	}
	for j := 1; j <= m; j++ {
		for k := 1; k <= n; k++ {
			next, own := make([]float64, n*m+1), float64(k)/float64(k+j)
			for u := range next {
				next[u] = (1 - own) * chances[k][u]
				if u >= j {
					next[u] += own * chances[k-1][u-j]
				}
			}
			chances[k] = next
		}
	}
	return chances[n]
}

// WriteChanges writes a table of the changes, and what the table shows.
func WriteChanges(w io.Writer, before, after *Document, changes []Change, unpaired []string) error {
	var b strings.Builder
	for _, d := range []struct {
		name string
		doc  *Document
	}{{"before", before}, {"after", after}} {
		fmt.Fprintf(&b, "%-7s %s, %s, load average %s to %s\n", d.name, d.doc.Meta.nameCommit(), d.doc.Meta.Command,
			formatNumber(d.doc.Meta.LoadBefore), formatNumber(d.doc.Meta.LoadAfter))
	}
	different, isSure := 0, true
	for i, c := range changes {
		if i == 0 || c.What != changes[i-1].What {
			end := i
			for end < len(changes) && changes[end].What == c.What {
				end++
			}
			fmt.Fprintf(&b, "\n%s: medians of %d and %d repeats\n", c.What, c.Before.Repeats, c.After.Repeats)
			changeGrid(changes[i:end]).writeText(&b)
		}
		if c.IsDifferent() {
			different++
		}
		isSure = isSure && c.Confidence >= 0.95
	}
	b.WriteByte('\n')
	for _, what := range unpaired {
		fmt.Fprintf(&b, "only in one file: %s\n", what)
	}
	switch {
	case len(changes) == 0:
		b.WriteString("nothing to compare: the files have no measurement in common\n")
	case !isSure:
		b.WriteString("too few repeats for 95 % confidence: give --repeat 4 or more to both runs\n")
	case different == 0:
		b.WriteString("no difference\n")
	default:
		fmt.Fprintf(&b, "%d of %d figures differ\n", different, len(changes))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// changeGrid has a row for each change of a measurement.
func changeGrid(changes []Change) grid {
	g := grid{{"figure", "before", "after", "ratio", "from", "to", "confidence", ""}}
	for i := range changes {
		c := &changes[i]
		verdict := ""
		if c.IsDifferent() {
			verdict = fmt.Sprintf("%+.1f %%", 100*(c.Ratio.Ratio-1))
		}
		g = append(g, []string{c.Figure, formatNumber(c.Before.Median), formatNumber(c.After.Median),
			fmt.Sprintf("%.3f", c.Ratio.Ratio), fmt.Sprintf("%.3f", c.Ratio.Low), fmt.Sprintf("%.3f", c.Ratio.High),
			fmt.Sprintf("%.1f %%", 100*c.Confidence), verdict})
	}
	return g
}
