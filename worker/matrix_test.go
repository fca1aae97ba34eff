package worker

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/phoebe-sched/phoebe/probe"
)

// ledger is a simple forecast for comparison: a list of bookings of room, each from a start to an end.
type ledger struct {
	capacity room
	bookings []booking
}

type booking struct {
	needs    room
	from, to time.Duration
}

// moments returns now and the ends of bookings. Room can only come at these moments.
func (l *ledger) moments() []time.Duration {
	at := []time.Duration{0}
	for _, b := range l.bookings {
		at = append(at, b.to)
	}
	slices.Sort(at)
	return at
}

// nextChange returns the first moment after now with the start or the end of a booking.
func (l *ledger) nextChange() time.Duration {
	next := time.Duration(math.MaxInt64)
	for _, b := range l.bookings {
		for _, at := range []time.Duration{b.from, b.to} {
			if at > 0 {
				next = min(next, at)
			}
		}
	}
	return next
}

// hasRoom reports whether there is room at each moment from from until to. The room changes only at the start or
// the end of a booking.
func (l *ledger) hasRoom(needs room, from, to time.Duration) bool {
	at := []time.Duration{from}
	for _, b := range l.bookings {
		at = append(at, b.from, b.to)
	}
	for _, t := range at {
		free := l.capacity
		for _, b := range l.bookings {
			if b.from <= t && t < b.to {
				free = free.sub(b.needs)
			}
		}
		if from <= t && t < to && !needs.fitsIn(free) {
			return false
		}
	}
	return true
}

// firstStart returns the first moment, not before notBefore, with room for runTime.
func (l *ledger) firstStart(needs room, notBefore, runTime time.Duration) time.Duration {
	for _, t := range l.moments() {
		if t = max(t, notBefore); l.hasRoom(needs, t, t+runTime) {
			return t
		}
	}
	return -1
}

func (l *ledger) book(needs room, from, runTime time.Duration) {
	l.bookings = append(l.bookings, booking{needs, from, from + runTime})
}

// anyScene draws a small worker with some running entries. An eighth of the capacity need not be whole.
func anyScene(t *rapid.T) *scene {
	s := &scene{capacity: probe.Demand{
		CPU: probe.Millicores(rapid.IntRange(1, 20).Draw(t, "cpus")),
		Mem: probe.MiB(rapid.IntRange(1, 20).Draw(t, "mem")),
	}}
	s.open = probe.Demand{
		CPU: probe.Millicores(rapid.IntRange(1, int(s.capacity.CPU)).Draw(t, "open cpus")),
		Mem: probe.MiB(rapid.IntRange(1, int(s.capacity.Mem)).Draw(t, "open mem")),
	}
	free := s.room()
	for range rapid.IntRange(0, 6).Draw(t, "runs") {
		if e := anyEntry(t, s.room()); e.neededRoom().fitsIn(free) {
			free = free.sub(e.neededRoom())
			s.runs = append(s.runs, e)
		}
	}
	for range rapid.IntRange(0, 12).Draw(t, "waits") {
		s.waits = append(s.waits, anyEntry(t, s.room()))
	}
	return s
}

func anyEntry(t *rapid.T, capacity room) entry {
	e := entry{
		long: rapid.Bool().Draw(t, "long"),
		cost: time.Duration(rapid.IntRange(1, 12).Draw(t, "cost")) * time.Millisecond,
	}
	bound := capacity.all
	if e.long {
		bound = capacity.open
	}
	e.demand.CPU = probe.Millicores(rapid.IntRange(0, int(bound.CPU)).Draw(t, "cpu"))
	e.demand.Mem = probe.MiB(rapid.IntRange(0, int(bound.Mem)).Draw(t, "memory"))
	return e
}

// cell is a cell of a matrix, with the largest demand of a long task looked up there. If never is set, no demand
// of the cell ever fits.
type cell struct {
	i, j   int
	demand probe.Demand
	never  bool
}

func (s *scene) cells() (all []cell) {
	for i := range probe.MatrixSide {
		for j := range probe.MatrixSide {
			step := func(i, j int) probe.Demand {
				return probe.Demand{
					CPU: probe.MatrixStep(s.capacity.CPU, i), Mem: probe.MatrixStep(s.capacity.Mem, j),
				}
			}
			c := cell{i: i, j: j, demand: step(i, j)}
			c.demand.CPU, c.demand.Mem = min(c.demand.CPU, s.open.CPU), min(c.demand.Mem, s.open.Mem)
			least := probe.Demand{} // smallest demand of the cell
			if i > 0 {
				least.CPU = step(i-1, j).CPU + 1
			}
			if j > 0 {
				least.Mem = step(i, j-1).Mem + 1
			}
			c.never = !least.Fits(s.open) && least.Fits(s.capacity)
			all = append(all, c)
		}
	}
	return all
}

func TestForecastAgainstLedger(t *testing.T) {
	gaps := 0 // filled
	rapid.Check(t, func(t *rapid.T) {
		s := anyScene(t)
		l := ledger{capacity: s.room()}
		var f forecast
		f.reset(s.room())
		for _, r := range s.runs {
			f.addRunning(r.neededRoom(), r.cost)
			l.book(r.neededRoom(), 0, r.cost)
		}
		last := time.Duration(0)
		for i, w := range s.waits {
			notBefore := time.Duration(max(0, rapid.IntRange(-10, 10).Draw(t, "before"))) * time.Millisecond
			want := l.firstStart(w.neededRoom(), notBefore, w.cost)
			if may := f.mayStart(w.neededRoom(), w.cost); may != (l.firstStart(w.neededRoom(), 0, w.cost) == 0) {
				t.Fatalf("entry %d may start now: %t", i, may)
			}
			if got := f.planEntry(w.neededRoom(), notBefore, w.cost); got != want {
				t.Fatalf("entry %d starts at %v, want %v", i, got, want)
			}
			l.book(w.neededRoom(), want, w.cost)
			if want < last {
				gaps++
			}
			last = max(last, want)
		}
		var m probe.WaitMatrix
		f.writeMatrix(&m, f.capacity.open)
		for _, c := range s.cells() {
			i, j, d := c.i, c.j, c.demand
			if c.never != (m.Cells[i][j] == probe.NeverFits) {
				t.Fatalf("cell %d, %d of %v never fits: %t\n%v", i, j, s.room(), c.never, m.Cells)
			}
			if c.never {
				continue
			}
			if got, want := m.Cells[i][j], probe.WaitOf(l.firstStart(room{d, d}, 0, time.Hour)); got != want {
				t.Fatalf("cell %d, %d for %v waits %d steps, want %d\n%v", i, j, d, got, want, m.Cells)
			}
			if m.Wait(d) > m.Cells[i][j] {
				t.Fatalf("%v is looked up as %d steps, and its cell has %d", d, m.Wait(d), m.Cells[i][j])
			}
		}
	})
	if gaps == 0 {
		t.Error("no entry ever filled a gap")
	}
}

// With exact estimates, an entry starts as if no entry came later: later entries fill only gaps without a use for
// entries ahead. And an entry starts no later than forecast when it came.
func TestNoEntryDelaysThoseAhead(t *testing.T) {
	overtook := 0
	rapid.Check(t, func(t *rapid.T) {
		capacity := room{probe.Demand{CPU: 8, Mem: 8}, probe.Demand{CPU: 6, Mem: 6}}
		var arrivals []arrivingEntry
		at := time.Duration(0)
		for range rapid.IntRange(1, 16).Draw(t, "entries") {
			at += time.Duration(rapid.IntRange(0, 4).Draw(t, "pause")) * time.Millisecond
			arrivals = append(arrivals, arrivingEntry{anyEntry(t, capacity), at})
		}
		all, expectedStarts := runWorker(t, capacity, arrivals)
		for i := range arrivals {
			alone, _ := runWorker(t, capacity, arrivals[:i+1])
			if !slices.Equal(alone, all[:i+1]) {
				t.Fatalf("%v\nwith all of them, the first %d start at %v,\nwithout the later ones at %v", arrivals,
					i+1, all[:i+1], alone)
			}
			if all[i] > expectedStarts[i] {
				t.Fatalf("%v\nentry %d starts at %v, and %v was forecast", arrivals, i, all[i], expectedStarts[i])
			}
			if i > 0 && all[i] < all[i-1] {
				overtook++
			}
		}
	})
	if overtook == 0 {
		t.Error("no entry ever overtook another")
	}
}

type arrivingEntry struct {
	entry
	at time.Duration
}

// runWorker runs a worker that makes a new forecast whenever an entry comes or ends, and starts entries
// accordingly. It returns the start of each entry, and the expected start when the entry came.
func runWorker(t *rapid.T, capacity room, arrivals []arrivingEntry) (started, expectedStarts []time.Duration) {
	var f forecast
	started, expectedStarts = make([]time.Duration, len(arrivals)), make([]time.Duration, len(arrivals))
	for i := range started {
		started[i], expectedStarts[i] = -1, -1
	}
	for now, waiting := time.Duration(0), len(arrivals); waiting > 0; {
		f.reset(capacity)
		used, next := room{}, time.Duration(math.MaxInt64)
		for i, a := range arrivals {
			if end := started[i] + a.cost; started[i] >= 0 && end > now {
				f.addRunning(a.neededRoom(), remainingTime(a.cost, now-started[i]))
				used = used.add(a.neededRoom())
				next = min(next, end)
			}
		}
		for i, a := range arrivals {
			if a.at > now {
				next = min(next, a.at)
				continue
			}
			if started[i] >= 0 {
				continue
			}
			start := now + f.planEntry(a.neededRoom(), 0, a.cost)
			if expectedStarts[i] < 0 {
				expectedStarts[i] = start
			}
			if start == now {
				started[i] = now
				used = used.add(a.neededRoom())
				next = min(next, now+a.cost)
				waiting--
			}
		}
		if !used.fitsIn(capacity) {
			t.Fatalf("%v used of %v", used, capacity)
		}
		now = next
	}
	return started, expectedStarts
}

func TestMatrixInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyScene(t)
		var f forecast
		var m, longer probe.WaitMatrix
		last := s.buildForecast(&f)
		f.writeMatrix(&m, f.capacity.open)
		if m.Capacity != s.capacity {
			t.Fatalf("matrix of %v for a worker of %v", m.Capacity, s.capacity)
		}
		free := s.room()
		for _, r := range s.runs {
			free = free.sub(r.neededRoom())
		}
		for _, c := range s.cells() {
			i, j, d := c.i, c.j, c.demand
			w := m.Cells[i][j]
			if w == probe.NeverFits {
				continue
			}
			switch {
			case i > 0 && w < m.Cells[i-1][j], j > 0 && w < m.Cells[i][j-1]:
				t.Fatalf("the wait falls at %d, %d: %v", i, j, m.Cells)
			}
			// Zero if the task fits now and delays no entry, however long the task runs.
			long := entry{demand: d, cost: time.Hour, long: true}
			harmless := long.neededRoom().fitsIn(free) &&
				slices.Equal(startTimes(s, long), startTimes(s, entry{cost: time.Hour}))
			if (w == 0) != harmless {
				t.Fatalf("%v waits %d steps; fits now and delays nobody: %t", d, w, harmless)
			}
		}
		if full := m.Cells[probe.MatrixSide-1][probe.MatrixSide-1]; s.open == s.capacity && len(s.waits) > 0 &&
			s.waits[len(s.waits)-1].demand != (probe.Demand{}) && full < probe.WaitOf(last) {
			t.Fatalf("the whole worker is free after %d steps, and an entry starts after %d", full,
				probe.WaitOf(last))
		}
		// A further entry in the queue shortens no wait. Nor do further entries in the rest.
		e := anyEntry(t, s.room())
		f.planEntry(e.neededRoom(), 0, e.cost)
		f.writeMatrix(&longer, f.capacity.open)
		checkNotShorter(t, &m, &longer)
		m = longer
		var w work
		w.addEntry(e.demand, e.cost, rapid.IntRange(0, 5).Draw(t, "more"))
		f.planRest(w)
		f.writeMatrix(&longer, f.capacity.open)
		checkNotShorter(t, &m, &longer)
	})
}

func checkNotShorter(t *rapid.T, m, longer *probe.WaitMatrix) {
	for i, row := range m.Cells {
		for j, w := range row {
			if longer.Cells[i][j] < w {
				t.Fatalf("with one more entry, the wait at %d, %d is %d steps instead of %d", i, j,
					longer.Cells[i][j], w)
			}
		}
	}
}

// startTimes returns the start of each entry if first runs as well.
func startTimes(s *scene, first entry) []time.Duration {
	var f forecast
	var at []time.Duration
	f.reset(s.room())
	f.addRunning(first.neededRoom(), first.cost)
	for _, r := range s.runs {
		f.addRunning(r.neededRoom(), r.cost)
	}
	for _, w := range s.waits {
		at = append(at, f.planEntry(w.neededRoom(), 0, w.cost))
	}
	return at
}

// If only the front of a deep queue is planned singly, the waits are nearly the waits of a full plan.
func TestPlanRest(t *testing.T) {
	for _, load := range []string{"slots", "mixed", "wild"} {
		s := newCrowd(40, 4*planDepth, draws[load])
		var f forecast
		var full, front probe.WaitMatrix
		s.buildForecast(&f)
		f.writeMatrix(&full, f.capacity.open)
		cut := *s
		cut.waits = s.waits[:planDepth]
		for _, w := range s.waits[planDepth:] {
			cut.rest.addEntry(w.demand, w.cost, 1)
		}
		cut.buildForecast(&f)
		f.writeMatrix(&front, f.capacity.open)
		for i, row := range full.Cells {
			for j, w := range row {
				if off := math.Abs(float64(front.Cells[i][j])/float64(w) - 1); off > 0.25 {
					t.Errorf("%s: at %d, %d the wait is %v, in full %v", load, i, j, front.Cells[i][j].Duration(),
						w.Duration())
				}
			}
		}
	}

	// Six of ten cores are free for the first 100 ms, then all. So 200 ms of the whole worker are used up after
	// 240 ms.
	var f forecast
	var m probe.WaitMatrix
	f.reset(roomFor(probe.Demand{CPU: 10, Mem: 10}, true))
	f.addRunning(roomFor(probe.Demand{CPU: 4}, true), 100*time.Millisecond)
	var w work
	w.addEntry(probe.Demand{CPU: 4, Mem: 1}, 40*time.Millisecond, 15)
	w.addEntry(probe.Demand{CPU: 8}, 25*time.Millisecond, 1)
	w.addEntry(probe.Demand{CPU: 10}, 60*time.Millisecond, -1)
	f.planRest(w)
	f.writeMatrix(&m, f.capacity.open)
	if got := m.Wait(probe.Demand{CPU: 1}).Duration(); got < 240*time.Millisecond || got > 241*time.Millisecond {
		t.Errorf("the rest is done after %v", got)
	}
}

func TestForecastOfAnyCost(t *testing.T) {
	capacity := probe.Demand{CPU: math.MaxInt32, Mem: math.MaxInt32}
	for _, cost := range []time.Duration{math.MinInt64, -1, 0, 1, math.MaxInt64} {
		var f forecast
		f.reset(roomFor(capacity, true))
		f.addRunning(roomFor(capacity, true), time.Second)
		f.addRunning(room{}, cost)
		last := time.Second
		for i := range 3 * planDepth {
			start := f.planEntry(roomFor(capacity, true), cost, cost)
			if start < last || start > horizon {
				t.Fatalf("cost %d: entry %d starts at %d after one at %d", cost, i, start, last)
			}
			last = start
		}
		var w work
		w.addEntry(capacity, cost, math.MaxInt32)
		f.planRest(w)
		var m probe.WaitMatrix
		f.writeMatrix(&m, f.capacity.open)
		if w := m.Wait(capacity); w == 0 || w == probe.NeverFits {
			t.Errorf("cost %d: the last entry waits %d steps", cost, w)
		}
	}
}

// A worker may have no memory to give, or less than eight units of a resource.
func TestForecastOfNoRoom(t *testing.T) {
	var f forecast
	var m probe.WaitMatrix
	f.reset(roomFor(probe.Demand{CPU: 2}, true))
	f.addRunning(roomFor(probe.Demand{CPU: 1}, false), time.Millisecond)
	f.planEntry(roomFor(probe.Demand{CPU: 1}, true), 0, 2*time.Millisecond)
	var w work
	w.addEntry(probe.Demand{CPU: 2}, time.Millisecond, 1)
	f.planRest(w)
	f.writeMatrix(&m, f.capacity.open)
	for cpu, want := range []time.Duration{0, 2500 * time.Microsecond, 2500 * time.Microsecond} {
		if got := m.Wait(probe.Demand{CPU: probe.Millicores(cpu)}).Duration(); got != want {
			t.Errorf("a task of %d waits %v, want %v", cpu, got, want)
		}
	}
}

func TestRemaining(t *testing.T) {
	for _, c := range []struct{ estimate, ran, want time.Duration }{
		{10 * time.Second, 0, 10 * time.Second},
		{10 * time.Second, 9 * time.Second, time.Second},
		{10 * time.Second, 10*time.Second - 1, 1},
		{10 * time.Second, 10 * time.Second, probe.WaitStep},
		{10 * time.Second, 13 * time.Second, 3 * time.Second},
	} {
		if got := remainingTime(c.estimate, c.ran); got != c.want {
			t.Errorf("after %v of %v, %v remain, want %v", c.ran, c.estimate, got, c.want)
		}
	}
	// For an overdue attempt, the forecast of the end is no further off than the estimate was.
	rng := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		estimate, late := time.Duration(rng.Int64N(1e10)), time.Duration(rng.Int64N(1e10)+int64(probe.WaitStep))
		overrun := time.Duration(rng.Int64N(int64(late)))
		if deviation := (overrun + remainingTime(estimate, estimate+overrun) - late).Abs(); deviation > late {
			t.Fatalf("overrun %v of %v in all: the forecast is %v off", overrun, late, deviation)
		}
	}
}

func TestExpectedCost(t *testing.T) {
	for _, c := range []struct {
		estimate time.Duration
		chance   float64
		want     time.Duration
	}{
		{time.Second, 1, time.Second}, {time.Second, 0.5, 500 * time.Millisecond}, {time.Second, 0, 0},
		{0, 0.5, 5 * time.Millisecond}, {-1, 1, 10 * time.Millisecond},
	} {
		if got := expectedCost(c.estimate, 10*time.Millisecond, c.chance); got != c.want {
			t.Errorf("an entry of %v with chance %v costs %v, want %v", c.estimate, c.chance, got, c.want)
		}
	}
}

func TestForecastAllocatesNothing(t *testing.T) {
	s := newCrowd(40, 100, draws["mixed"])
	s.rest.addEntry(probe.Slot, time.Second, 100)
	var f forecast
	var m probe.WaitMatrix
	if n := testing.AllocsPerRun(10, func() {
		s.buildForecast(&f)
		f.writeMatrix(&m, f.capacity.open)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
