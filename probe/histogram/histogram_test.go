package histogram

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/phoebe-sched/phoebe/probe/purity"
)

func TestPure(t *testing.T) { purity.Check(t, ".") }

// durations are drawn evenly by their logarithms, plus some extreme values.
var durations = rapid.OneOf(
	rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(math.Exp2(rapid.Float64Range(0, 42.5).Draw(t, "log2 ns")))
	}),
	rapid.SampledFrom([]time.Duration{math.MinInt64, -1, 0, 1, 1023, 1024, 1 << 41, 1<<42 - 1, 1 << 42, math.MaxInt64}),
)

func TestCells(t *testing.T) {
	if cellIndex(time.Microsecond*102/100) != 0 || cellIndex(time.Hour) >= numCells-1 ||
		cellIndex(1<<42) != numCells-1 {
		t.Errorf("1 us is in cell %d, an hour in %d, 73 minutes in %d of %d",
			cellIndex(time.Microsecond), cellIndex(time.Hour), cellIndex(1<<42), numCells)
	}
	for i := range numCells {
		if from := cellFloor(i); cellIndex(from) != i || i > 0 && cellIndex(from-1) != i-1 {
			t.Errorf("cell %d starts at %v, which is counted in %d, and 1 ns less in %d", i, from,
				cellIndex(from), cellIndex(from-1))
		}
		if i > 0 && i < numCells-1 && float64(cellFloor(i+1)) > float64(cellFloor(i))*17/16+1 {
			t.Errorf("cell %d is from %v to %v", i, cellFloor(i), cellFloor(i+1))
		}
	}
}

// A quantile lies in the cell of the value with its rank. Counts, sums and merging agree with a list of values.
func TestHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(durations, 1, 300).Draw(t, "values")
		cut := rapid.IntRange(0, len(values)).Draw(t, "cut")
		var all, first, second Histogram
		sum := time.Duration(0)
		for i, v := range values {
			all.Add(v)
			sum = addCapped(sum, max(v, 0))
			if i < cut {
				first.Add(v)
			} else {
				second.Add(v)
			}
		}
		first.Merge(&second)
		if first != all {
			t.Fatal("two halves that are merged are not the whole")
		}
		if all.Count != uint64(len(values)) || all.Sum != sum {
			t.Fatalf("count %d, sum %v of %d values that make %v", all.Count, all.Sum, len(values), sum)
		}
		slices.Sort(values)
		for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 1} {
			want := values[max(int(math.Ceil(q*float64(len(values))))-1, 0)]
			if got := all.Quantile(q); cellIndex(got) != cellIndex(want) {
				t.Fatalf("quantile %v of %v is %v, want about %v", q, values, got, want)
			}
		}
		for than, n := range all.Cumulative {
			if i, _ := slices.BinarySearch(values, than); int(n) != i {
				t.Fatalf("%d of %v are shorter than %v", n, values, than)
			}
		}
		var decoded Histogram
		if rest, ok := decoded.MergeFrom(append(all.Append(nil), 7)); !ok || decoded != all || len(rest) != 1 {
			t.Fatal("what is encoded and decoded is another one")
		}
		n := uint64(0)
		for r, k := range all.All {
			if n += k; r.From >= r.To {
				t.Fatalf("a cell of %v", r)
			}
		}
		if n != all.Count {
			t.Fatalf("cells count %d of %d", n, all.Count)
		}
	})
	if new(Histogram).Quantile(0.5) != 0 {
		t.Error("an empty histogram has a median")
	}
}

func BenchmarkAdd(b *testing.B) {
	var h Histogram
	i := 0
	for b.Loop() {
		h.Add(time.Duration(i&1023) * 40 * time.Microsecond)
		i++
	}
}
