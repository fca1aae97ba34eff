package record

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/phoebe-sched/phoebe/probe/histogram"
	"github.com/phoebe-sched/phoebe/probe/purity"
)

func TestPure(t *testing.T) { purity.Check(t, ".") }

var start = time.Unix(1_000_000, 0)

// With four times as many tasks as there is room for, the attempts of a quarter of the jobs are remembered. With
// fewer tasks, all are.
func TestShareRemembered(t *testing.T) {
	for more, want := range map[int]float64{1: 1, 4: 0.25} {
		in, empty, whole := newIntake(), &Batch{}, 0
		const seconds, jobs = 200, 64
		for second := range seconds {
			if second == seconds/2 {
				whole = 0 // by now the rate is known
			}
			for range jobs {
				if in.NoteSubmitted("a", more*allRemembered/jobs) {
					whole++
				}
			}
			empty = in.Take(start.Add(time.Duration(second)*time.Second), empty)
		}
		if got := float64(whole) / (jobs * seconds / 2); math.Abs(got-want) > 0.02 {
			t.Errorf("with %d times as many tasks, a share of %.3f of the jobs is remembered whole, want %.3f", more,
				got, want)
		}
	}
}

// countOne counts a time of any measure.
func countOne(in *Intake, s Slot, m Measure, d time.Duration) {
	in.batch.series[s.index].addTime(m, d, 1)
}

func newIntake() *Intake { return NewIntake(start, rand.New(rand.NewPCG(1, 2))) }

// durations are drawn evenly by logarithm, with extreme values.
var durations = rapid.OneOf(
	rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(math.Exp2(rapid.Float64Range(0, 42.5).Draw(t, "log2 ns")))
	}),
	rapid.SampledFrom([]time.Duration{math.MinInt64, -1, 0, 1, 1023, 1024, 1 << 41, 1<<42 - 1, 1 << 42, math.MaxInt64}),
)

// countByKey sums a history's counts by key.
func countByKey(each func(func(Key, Measure, *histogram.Histogram))) map[Key]uint64 {
	got := map[Key]uint64{}
	each(func(k Key, _ Measure, h *histogram.Histogram) { got[k] += h.Count })
	return got
}

func sumOf(m map[Key]uint64) (n uint64) {
	for _, k := range m {
		n += k
	}
	return n
}

// Whatever the clock does, every count appears once in the totals, and once over all time as far as the history
// reaches. A series has the counts of its key.
func TestHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, h, now := newIntake(), NewHistory(), start
		var spare *Batch
		taken := 0
		want, each := map[Key]uint64{}, []uint64{} // by key; of each batch
		slots := map[Key]Slot{}
		n := uint64(0)
		take := func(now time.Time) {
			b := in.Take(now, spare)
			if b.to.Before(b.from) {
				t.Fatalf("a window from %v to %v", b.from, b.to)
			}
			h.Add(b)
			spare = b
			each, n = append(each, n), 0
			taken++
		}
		keys := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Key {
			return Key{rapid.SampledFrom([]string{"sampling", "estimation"}).Draw(t, "path"), "phoebe",
				rapid.StringMatching("[ab]?").Draw(t, "tenant")}
		}), 1, 6).Draw(t, "keys")
		for _, k := range keys {
			in.NoteSubmitted(k.Tenant, 1)
		}
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			for range rapid.IntRange(0, 3).Draw(t, "adds") {
				k := rapid.SampledFrom(keys).Draw(t, "key")
				if !in.IsCurrent(slots[k]) {
					slots[k] = in.Slot(k)
				}
				countOne(in, slots[k], Measure(rapid.IntRange(0, Measures-1).Draw(t, "measure")),
					durations.Draw(t, "d"))
				want[k]++
				n++
			}
			switch rapid.IntRange(0, 20).Draw(t, "clock") {
			case 0:
				now = now.Add(-time.Duration(rapid.IntRange(0, 1e6).Draw(t, "back")) * time.Second)
			case 1:
				now = now.Add(time.Duration(rapid.IntRange(0, 1e6).Draw(t, "on")) * time.Second)
			default:
				now = now.Add(time.Second)
			}
			take(now)
		}
		if got := countByKey(h.EachTotal); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("in total %v, want %v", got, want)
		}
		last := func(n int) (kept uint64) { // batches
			for _, k := range each[max(len(each)-n, 0):] {
				kept += k
			}
			return kept
		}
		for length, batches := range map[time.Duration]int{
			time.Second: 60, 10 * time.Second: 600, time.Hour: 72 * 300,
		} {
			if got := inWindows(t, h.Windows(length, time.Time{})); got != last(batches) {
				t.Fatalf("in windows of %v there are %d, want %d", length, got, last(batches))
			}
		}
		if h.Lost() != 0 {
			t.Fatalf("%d lost", h.Lost())
		}
	})
}

// inWindows sums the counts in windows, and fails unless the windows follow each other.
func inWindows(t rapid.TB, windows []Window) (n uint64) {
	for i, w := range windows {
		if i > 0 && !windows[i-1].At.Before(w.At) || !w.At.Equal(w.At.Truncate(w.Length)) {
			t.Fatalf("window %d of %v is at %v", i, w.Length, w.At)
		}
		for _, p := range w.Series {
			var s series
			if !s.mergePacked(p.Data) {
				t.Fatalf("window %d has a series that is none", i)
			}
			n += s.countAll()
		}
	}
	return n
}

// Windows have the requested length. The latest windows include counts that are not in a longer window yet.
func TestWindows(t *testing.T) {
	in, h, now := newIntake(), NewHistory(), start
	var spare *Batch
	for range 8*3600 + 7 {
		s := in.Slot(Key{"sampling", "phoebe", ""})
		countOne(in, s, Run, time.Millisecond)
		now = now.Add(time.Second)
		spare = in.Take(now, spare)
		spare.Tally = Tally{Accepted: 1, Refused: [8]uint64{3: 1}, Pending: 5}
		if now.Second()%2 == 0 {
			spare.Uses = NewUses(8000, nil, []SlotUse{{"f", 1000}})
		}
		h.Add(spare)
	}
	for _, c := range []struct {
		length        time.Duration
		last          time.Duration
		least, atMost uint64
	}{
		{time.Second, time.Hour, 60, 60}, {time.Second, 10 * time.Second, 10, 10},
		{2 * time.Second, time.Hour, 600, 610}, {10 * time.Second, time.Minute, 60, 70},
		{5 * time.Minute, time.Hour, 3600, 3900}, {time.Hour, 24 * time.Hour, 6 * 3600, 6*3600 + 300},
	} {
		windows := h.Windows(c.length, now.Add(-c.last).Truncate(c.length))
		got := inWindows(t, windows)
		if got < c.least || got > c.atMost {
			t.Errorf("in windows of %v of the last %v there are %d, want %d to %d", c.length, c.last, got, c.least,
				c.atMost)
		}
		sum := Tally{}
		for _, w := range windows {
			if m := w.Uses.Means(); w.Length > time.Second && fmt.Sprint(m) != "{1 8000 [] [{f 1000}]}" {
				t.Fatalf("in a window of %v the slots in use are %v", w.Length, m)
			}
			sum.Add(&w.Tally)
		}
		if sum != (Tally{Accepted: got, Refused: [8]uint64{3: got}, Pending: 5}) {
			t.Errorf("in windows of %v there are %d, and %+v", c.length, got, sum)
		}
	}
	if got := sumOf(countByKey(h.EachTotal)); got != 8*3600+7 {
		t.Errorf("in total %d", got)
	}
}

// Windows of several frontends add up, and bytes that are no histogram are left out.
func TestMerge(t *testing.T) {
	window := func(tenant string, n int) Window {
		var s series
		for range n {
			s.addTime(Run, time.Millisecond, 1)
		}
		return Window{At: start, Length: time.Second, Tally: Tally{Accepted: uint64(n)},
			Series: []Packed{{Key{"sampling", "phoebe", tenant}, s.appendPacked(nil)}}}
	}
	list := []Window{window("a", 1), window("b", 2), window("a", 4)}
	w, ok := Merge(list)
	if n := inWindows(t, []Window{w}); !ok || n != 7 || w.Accepted != 7 || len(w.Series) != 2 {
		t.Errorf("%d in %+v", n, w)
	}
	for i := range 2 * maxSeries {
		list = append(list, window(string(rune('A'+i)), 1))
	}
	if w, ok = Merge(list); !ok || inWindows(t, []Window{w}) != 7+2*maxSeries || len(w.Series) != maxSeries+1 {
		t.Errorf("%d series", len(w.Series))
	}
	for _, bad := range [][]byte{nil, {1}, {255}, {1, 0, 255, 255, 127, 1}} {
		if w, ok = Merge([]Window{list[0], {Series: []Packed{{list[0].Series[0].Key, bad}}}}); ok ||
			inWindows(t, []Window{w}) != 1 {
			t.Errorf("with %v: %t, %+v", bad, ok, w)
		}
	}
}

// The functions with most tasks have series of their own, beside the series of tenants. The tasks of all further
// functions count as other. A function that grows takes the place of a function that shrinks.
func TestFunctions(t *testing.T) {
	in, h, now := newIntake(), NewHistory(), start
	var spare *Batch
	a := Attempt{Released: time.Millisecond}
	a.Ends[Run], a.Ends[Delivery] = 5*time.Millisecond, 6*time.Millisecond
	take := func() (counts map[string][3]uint64) { // whole, run, failure
		spare = in.Take(now, spare)
		h.Add(spare)
		counts = map[string][3]uint64{}
		for _, w := range h.Windows(5*time.Minute, now.Add(-time.Minute).Truncate(5*time.Minute)) {
			for _, p := range w.Functions {
				name, _ := p.Function()
				n := counts[name]
				for i, m := range []Measure{Whole, Run, Failure} {
					var x histogram.Histogram
					p.Add(m, &x)
					n[i] += x.Count
				}
				counts[name] = n
			}
			if len(w.Series) != 1 {
				t.Errorf("%d series beside those of functions", len(w.Series))
			}
		}
		return counts
	}
	all := in.Slot(Key{"sampling", "phoebe", ""})
	for i := range 3 * maxFunctions {
		for range 2 {
			in.AddTask(all, fmt.Sprint("f", i), &a, 3)
		}
		in.AddFailure(fmt.Sprint("f", i), &a)
	}
	now = now.Add(time.Second)
	got := take()
	if len(got) != maxFunctions+1 || got["f0"] != [3]uint64{6, 6, 1} ||
		got[Other] != [3]uint64{6 * 2 * maxFunctions, 6 * 2 * maxFunctions, 2 * maxFunctions} {
		t.Errorf("the functions are %v", got)
	}
	in.AddTask(all, "grown", &a, 1000)
	now = now.Add(electEvery)
	take()
	in.AddTask(all, "grown", &a, 7)
	now = now.Add(time.Second)
	if got := take(); got["grown"] != [3]uint64{7, 7, 0} {
		t.Errorf("a function that has grown: %v", got)
	}
	var many []Window
	for i := range 3 * maxFunctions {
		var s series
		s.addTime(Whole, 1, 1)
		many = append(many, Window{At: start, Functions: []Packed{{FunctionKey(fmt.Sprint(i)), s.appendPacked(nil)}}})
	}
	if w, ok := Merge(many); !ok || len(w.Functions) != maxFunctions+1 || len(w.Series) != 0 {
		t.Errorf("%d functions, %d series together", len(w.Functions), len(w.Series))
	}
}

// The tenants with most tasks have names of their own. A growing tenant takes the place of a shrinking one.
func TestTenants(t *testing.T) {
	in, h, now := newIntake(), NewHistory(), start
	var spare *Batch
	add := func(tenant string, tasks int) {
		in.NoteSubmitted(tenant, tasks)
		s := in.Slot(Key{"sampling", "phoebe", tenant})
		countOne(in, s, Run, time.Millisecond)
	}
	for i := range 1000 {
		add(fmt.Sprintf("small-%d", i), 1)
	}
	take := func() map[Key]uint64 {
		now = now.Add(electEvery)
		spare = in.Take(now, spare)
		h.Add(spare)
		return countByKey(h.EachTotal)
	}
	got := take()
	if len(got) != maxTenants+1 || got[Key{"sampling", "phoebe", Other}] != 1000-maxTenants {
		t.Fatalf("%d series: %v", len(got), got)
	}
	for range 3 {
		add("large", 10_000)
		take()
	}
	add("large", 1)
	got = take()
	if got[Key{"sampling", "phoebe", "large"}] == 0 || len(got) > maxTenants+1 {
		t.Errorf("the largest tenant has no series of its own: %v", got)
	}
	if got[Key{"sampling", "phoebe", Other}] < 1000-maxTenants {
		t.Errorf("the count of the other tenants fell: %v", got)
	}
}

// After a slot has gone to another key, IsCurrent is false, and the caller asks for a new slot.
func TestEpoch(t *testing.T) {
	in, h, now := newIntake(), NewHistory(), start
	for i := range maxTenants {
		in.NoteSubmitted(fmt.Sprint(i), 1)
	}
	slots := map[string]Slot{}
	for i := range maxTenants {
		slots[fmt.Sprint(i)] = in.Slot(Key{"p", "q", fmt.Sprint(i)})
	}
	in.NoteSubmitted("new", 100)
	h.Add(in.Take(now.Add(electEvery), nil))
	for tenant, last := range slots {
		for range 7 {
			if !in.IsCurrent(last) {
				last = in.Slot(Key{"p", "q", tenant})
			}
			countOne(in, last, Run, 1)
		}
	}
	h.Add(in.Take(now.Add(electEvery+1), nil))
	got := countByKey(h.EachTotal)
	for k, n := range got {
		if n != 7 {
			t.Errorf("%v has %d, want 7 of its own", k, n)
		}
	}
	if len(got) != maxTenants {
		t.Errorf("%d series, want those of %d tenants and all others", len(got), maxTenants-1)
	}
}

// The counted tasks stand for all tasks, up to a few tasks that the next counted task stands for, even if it comes
// much later. Tasks of a key with few tasks are counted one by one beside a key with many. Quantiles match all
// tasks within a cell; the highest match within two cells.
func TestSampleTask(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	in, h := newIntake(), NewHistory()
	in.NoteSubmitted("many", 1)
	in.NoteSubmitted("few", 1)
	many, few := in.Slot(Key{"sampling", "phoebe", "many"}), in.Slot(Key{"sampling", "phoebe", "few"})
	var exact [2]histogram.Histogram
	var spare *Batch
	passed, at := [2]uint64{}, 0
	end := func(s Slot, run time.Duration) {
		a := Attempt{}
		a.Ends[Run], a.Ends[Delivery] = run, run
		which := 0
		if s == few {
			which = 1
		}
		exact[which].Add(run)
		passed[which]++
		if n := in.SampleTask(s); n > 0 {
			at++
			if s == few && n != 1 {
				t.Fatalf("a task of few stands for %d", n)
			}
			in.AddTask(s, "f", &a, n)
		}
	}
	for second := range 10 {
		for i := range 100_000 {
			// Each tenth task of a job is slow: a rhythm that must not match the counted tasks.
			mean := time.Millisecond
			if i%10 == 0 {
				mean *= 10
			}
			end(many, time.Duration(rng.ExpFloat64()*float64(mean)))
			if i%200 == 0 {
				end(few, time.Duration(rng.ExpFloat64()*float64(time.Second)))
			}
		}
		spare = in.Take(start.Add(time.Duration(second+1)*time.Second), spare)
		h.Add(spare)
	}
	if at > 10*(9*countedExactly+500) {
		t.Errorf("the phases of %d tasks were counted", at)
	}
	h.EachTotal(func(k Key, m Measure, got *histogram.Histogram) {
		if _, ofFunction := k.Function(); ofFunction || m != Run && m != Queue {
			return
		}
		which := 0
		if k.Tenant == "few" {
			which = 1
		}
		if missing := passed[which] - got.Count; missing >= 256 || which == 1 && missing != 0 {
			t.Errorf("of %d tasks of %s %d are counted", passed[which], k.Tenant, got.Count)
		}
		if m != Run {
			return
		}
		for _, q := range []float64{0.5, 0.9, 0.99, 0.999} {
			cells := 1.001 * 17 / 16
			if q > 0.99 { // of a few hundred
				cells *= 17. / 16
			}
			if a, b := float64(got.Quantile(q)),
				float64(exact[which].Quantile(q)); a > b*cells || b > a*cells || which == 1 && a != b {
				t.Errorf("quantile %v of %s is %v, want %v", q, k.Tenant, time.Duration(a), time.Duration(b))
			}
		}
	})
}

// At any number of tasks a second, the rank of the 0.99-quantile is off by at most 0.006 in nineteen of twenty
// seconds.
func TestRankOfQuantile(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	in := newIntake()
	s := in.Slot(Key{"sampling", "phoebe", ""})
	var spare *Batch
	for _, tasks := range []int{500, countedExactly + 20, 3 * countedExactly, 10_000, 300_000} {
		var off []float64
		for range 200 {
			beyond, all, slow := uint64(0), uint64(0), 0
			for range tasks {
				n, slowest := in.SampleTask(s), rng.Float64() > 0.99
				all += uint64(n)
				if slowest {
					beyond += uint64(n)
					slow++
				}
			}
			spare = in.Take(start, spare)
			off = append(off, math.Abs(float64(beyond)/float64(all)-float64(slow)/float64(tasks)))
		}
		slices.Sort(off)
		if got := off[len(off)*19/20]; got > 0.006 {
			t.Errorf("of %d tasks the rank is off by %.4f", tasks, got)
		} else {
			t.Logf("of %d tasks the rank is off by %.4f", tasks, got)
		}
	}
}

// Memory stays within its bound, however many keys there are and however widely times are spread. Missing counts
// are counted.
func TestMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	in, h, now := newIntake(), NewHistory(), start
	var spare *Batch
	total := uint64(0)
	paths, policies, tenants := []string{"sampling", "estimation"}, make([]string, 40), make([]string, 200)
	for i := range policies {
		policies[i] = fmt.Sprint("policy-", i)
	}
	for i := range tenants {
		tenants[i] = fmt.Sprintf("%0200d", i)[200-maxName-1:]
	}
	for step := range ringSizes[2].windows*ringSizes[2].merged*ringSizes[1].merged +
		2*ringSizes[1].windows*ringSizes[1].merged {
		many := 1
		// The longest windows are full of rare counts, too.
		if step >= ringSizes[2].windows*ringSizes[2].merged*ringSizes[1].merged {
			many = 64
		}
		for range many {
			tenant := tenants[rng.IntN(len(tenants))]
			in.NoteSubmitted(tenant, rng.IntN(1000))
			s := in.Slot(Key{paths[rng.IntN(2)], policies[rng.IntN(len(policies))], tenant})
			for m := range Measure(Measures) {
				countOne(in, s, m, time.Duration(math.Exp2(rng.Float64()*43)))
				total++
			}
			a := Attempt{}
			for m := range Phases {
				a.Ends[m] = time.Duration(math.Exp2(43 * float64(m+1+rng.IntN(2)) / float64(Phases+1)))
			}
			in.AddTask(s, tenant, &a, 1)
			in.AddFailure(tenant, &a)
			total += uint64(Phases) + 2
		}
		if now = now.Add(time.Second); step%1000 == 999 {
			now = now.Add(-time.Minute)
		}
		spare = in.Take(now, spare)
		h.Add(spare)
		if len(h.totals) > maxSeries+maxFunctions+1 {
			t.Fatalf("%d series", len(h.totals))
		}
	}
	last := h.Lost()
	for i, r := range h.rings {
		if len(r.windows) != ringSizes[i].windows {
			t.Errorf("ring %d has %d windows", i, len(r.windows))
		}
	}
	if last == 0 || last > 3*total {
		t.Errorf("%d of %d are lost: the bound was to be reached", last, total)
	}
	if used := int64(heap()) - int64(before); used > MaxBytes {
		t.Errorf("%d bytes are used, at most %d may be", used, MaxBytes)
	} else {
		t.Logf("%d of %d bytes, %d of %d lost", used, MaxBytes, last, total)
	}
	runtime.KeepAlive(in)
	runtime.KeepAlive(spare)
	runtime.KeepAlive(h)
}

// BenchmarkAdd measures the cost of counting a duration.
func BenchmarkAdd(b *testing.B) {
	in := newIntake()
	rng := rand.New(rand.NewPCG(1, 2))
	var ds [1024]time.Duration
	for i := range ds {
		ds[i] = time.Duration(rng.ExpFloat64() * float64(10*time.Millisecond))
	}
	in.NoteSubmitted("t", 1)
	s := in.Slot(Key{"sampling", "phoebe", "t"})
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		countOne(in, s, Run, ds[i&1023])
		i++
	}
}

// BenchmarkSecond measures the cost of adding a second to the history: four series whose measures have 60 cells
// each.
func BenchmarkSecond(b *testing.B) {
	in, h, now := newIntake(), NewHistory(), start
	var spare *Batch
	b.ReportAllocs()
	for b.Loop() {
		for k := range 4 {
			in.NoteSubmitted(fmt.Sprint(k), 1)
			s := in.Slot(Key{"sampling", "phoebe", fmt.Sprint(k)})
			for m := range Measure(Measures) {
				for i := range 60 {
					countOne(in, s, m, time.Millisecond<<(i/16)+time.Duration(i)*65*time.Microsecond)
				}
			}
		}
		now = now.Add(time.Second)
		spare = in.Take(now, spare)
		h.Add(spare)
	}
}
