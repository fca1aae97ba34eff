package worker

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/phoebe-sched/phoebe/probe"
)

// errand is a task bound early that runs exactly as long as estimated.
type errand struct {
	arrivesAt time.Duration // arrival
	slots     int
	long      bool
	runTime   time.Duration
	fetchTime time.Duration // time until its files arrive, as expected; 0: no files
	priority  int32
}

// anyErrands draws errands with distinct ends and distinct arrivals of files, whatever their starts. With equal
// times the core would hear of the first event alone, and take the second for late.
func anyErrands(t *rapid.T, order Order) (es []errand) {
	at := time.Duration(0)
	for i := range rapid.IntRange(1, 14).Draw(t, "errands") {
		at += time.Duration(rapid.IntRange(0, 4).Draw(t, "pause")) * time.Second
		e := errand{
			arrivesAt: at, long: rapid.Bool().Draw(t, "long"),
			runTime: time.Duration(rapid.IntRange(1, 12).Draw(t, "takes"))*time.Second + 1<<(2*i),
		}
		if fetch := rapid.IntRange(-10, 10).Draw(t, "fetch"); fetch > 0 {
			e.fetchTime = time.Duration(fetch)*time.Second + 2<<(2*i)
		}
		e.slots = rapid.IntRange(1, 8).Draw(t, "slots")
		if e.long {
			e.slots = min(e.slots, 6)
		}
		if order == Priority {
			e.priority = int32(rapid.IntRange(0, 2).Draw(t, "priority"))
		}
		es = append(es, e)
	}
	return es
}

// runErrands has a core run the errands, on eight slots with two closed to long tasks. It returns the start of
// each errand, and the wait in the matrix just before the errand came.
func runErrands(t *rapid.T, order Order, es []errand) (started, matrixWaits []time.Duration) {
	began := time.Unix(1_000_000, 0)
	c := New(Config{Capacity: size(8), Functions: []string{"f"}, Order: order, ShortShare: 0.25})
	c.averages.fetchRate = 1e9 // a byte takes 1 ns
	started, matrixWaits = make([]time.Duration, len(es)), make([]time.Duration, len(es))
	for i := range started {
		started[i] = -1
	}
	now, next := time.Duration(0), 0
	fetched, ends := map[int]time.Duration{}, map[int]time.Duration{}
	c.setOpenPart(c.alwaysOpen)
	c.lastShortAt = began
	step := func(ev Event) {
		c.averages.longRunTime = horizon // so the short part stays closed
		for _, a := range c.Step(began.Add(now), ev, nil) {
			switch a := a.(type) {
			case Fetch:
				i := int(a.Attempt.Seq) - 1
				fetched[i] = c.fetches[a.Attempt].files.expectedAt.Sub(began) // exactly when expected
			case *Start:
				i := int(a.Launch.Attempt.Seq) - 1
				if es[i].fetchTime > 0 && fetched[i] >= 0 {
					t.Fatalf("errand %d started without its files", i)
				}
				started[i], ends[i] = now, now+es[i].runTime
			}
		}
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
	}
	step(LinkUp{Link: 1, Frontend: 1})
	for {
		for i, e := range es {
			if at, ok := fetched[i]; ok && at == now {
				fetched[i] = -1
				step(Fetched{Attempt: errandID(i), Took: e.fetchTime})
			}
		}
		for i, e := range es {
			if at, ok := ends[i]; ok && at == now {
				delete(ends, i)
				step(&Exited{Attempt: errandID(i), Status: probe.Succeeded, Run: e.runTime})
			}
		}
		for ; next < len(es) && es[next].arrivesAt == now; next++ {
			e := es[next]
			m := c.Matrix(began.Add(now))
			matrixWaits[next] = m.Wait(size(e.slots)).Duration()
			launch := probe.Launch{Attempt: errandID(next), Function: "f", Estimate: e.runTime}
			if e.fetchTime > 0 {
				launch.Files = []probe.File{{Bytes: uint64(e.fetchTime)}}
			}
			step(Received{1, probe.Enqueue{
				Res: probe.ResID(next + 1), Demand: size(e.slots), Long: e.long, Priority: e.priority, Launch: launch,
			}})
		}
		if at := c.NextWake(); !at.IsZero() && !at.After(began.Add(now)) {
			step(Wake{})
		}
		later := horizon
		for _, at := range ends {
			later = min(later, at)
		}
		for _, at := range fetched {
			if at > now {
				later = min(later, at)
			}
		}
		if next < len(es) {
			later = min(later, es[next].arrivesAt)
		}
		if at := c.NextWake(); !at.IsZero() {
			later = min(later, at.Sub(began))
		}
		if later == horizon {
			break
		}
		now = later
	}
	if slices.Contains(started, -1) {
		t.Fatalf("%+v\nstarted at %v", es, started)
	}
	return started, matrixWaits
}

func errandID(i int) probe.AttemptID { return probe.AttemptID{Frontend: 1, Seq: uint64(i + 1)} }

// A later task fills a gap only if no task ahead is expected to start later. With exact estimates, each task
// starts as if no task came later. And a long task starts no later than its matrix said.
func TestBackfillDelaysNobody(t *testing.T) {
	overtook := 0
	rapid.Check(t, func(t *rapid.T) {
		es := anyErrands(t, FIFO)
		all, matrixWaits := runErrands(t, FIFO, es)
		for i, e := range es {
			alone, _ := runErrands(t, FIFO, es[:i+1])
			if !slices.Equal(alone, all[:i+1]) {
				t.Fatalf("%+v\nwith all of them, the first %d start at %v,\nwithout the later ones at %v", es, i+1,
					all[:i+1], alone)
			}
			if e.long && e.fetchTime == 0 && all[i] > e.arrivesAt+matrixWaits[i] {
				t.Fatalf("%+v\nerrand %d came at %v, the matrix had a wait of %v, and it starts at %v", es, i, e.arrivesAt,
					matrixWaits[i], all[i])
			}
			if i > 0 && all[i] < all[i-1] {
				overtook++
			}
		}
	})
	if overtook == 0 {
		t.Error("nobody ever overtook another")
	}
}

// Under order Priority, the last and least important task delays no other task. This holds only for short tasks
// without files. A task that waits for files may start later because of a task behind it. So may a task behind a
// late long task, because only the short part is left for it.
func TestBackfillByPriority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		es := anyErrands(t, Priority)
		for i := range es {
			es[i].fetchTime, es[i].long = 0, false
		}
		last := len(es) - 1
		es[last].priority = 0
		all, _ := runErrands(t, Priority, es)
		without, _ := runErrands(t, Priority, es[:last])
		if !slices.Equal(all[:last], without) {
			t.Fatalf("%+v\nstart at %v,\nwithout the last one at %v", es, all, without)
		}
	})
}

// Behind any number of long tasks, short tasks start in the short part, but not before earlier short tasks.
func TestShortBehindMany(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	c := New(Config{Capacity: size(8), Functions: []string{"f"}, ShortShare: 0.25})
	step := func(ev Event) (ready int) {
		for _, a := range c.Step(now, ev, nil) {
			if s, ok := a.(*Send); ok {
				if _, ok := s.Msg.(probe.Ready); ok {
					ready++
				}
			}
		}
		return ready
	}
	step(LinkUp{Link: 1, Frontend: 1})
	res := probe.ResID(0)
	for range 2 * gapDepth {
		res++
		step(Received{1, probe.Enqueue{Res: res, Demand: size(5), Long: true, Launch: probe.Launch{
			Attempt: probe.AttemptID{Seq: uint64(res)}, Function: "f", Estimate: time.Second,
		}}})
	}
	reserve := func(slots int) int {
		res++
		return step(Received{1, probe.Reserve{First: res, Count: 1, Demand: size(slots)}})
	}
	if got := reserve(1); got != 1 {
		t.Errorf("%d turns for a short task, with three slots free", got)
	}
	step(Received{1, probe.Reserve{First: res + 1, Count: 1, Demand: size(1), Launches: []probe.Launch{{
		Attempt: probe.AttemptID{Seq: 1 << 20}, Function: "f", Estimate: time.Hour,
	}}}})
	if c.Stats.RidesStarted != 1 {
		t.Error("a short task that rides along was not started, with two slots free")
	}
	res++
	// The third slot is open to long tasks.
	if got := reserve(1); got != 0 {
		t.Errorf("%d turns for a short task, beside two others in two slots", got)
	}
	step(Received{1, probe.Cancel{First: res, Count: 1}})
	step(Received{1, probe.Cancel{First: 2*gapDepth + 1, Count: 1}})
	if got := reserve(2); got != 0 {
		t.Errorf("%d turns for a short task of two slots, beside another", got)
	}
	if got := reserve(1); got != 0 {
		t.Errorf("%d turns for a short task behind another one", got)
	}
}

// Any number of tasks that wait for late files hide no other task.
func TestBehindLateFiles(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	c := New(Config{Capacity: size(1), Functions: []string{"f"}})
	step := func(ev Event) []Action { return c.Step(now, ev, nil) }
	step(LinkUp{Link: 1, Frontend: 1})
	enqueue := func(res probe.ResID, files ...probe.File) (started bool) {
		acts := step(Received{1, probe.Enqueue{Res: res, Demand: size(1), Long: true, Launch: probe.Launch{
			Attempt: probe.AttemptID{Seq: uint64(res)}, Function: "f", Files: files,
		}}})
		return slices.ContainsFunc(acts, func(a Action) bool { _, ok := a.(*Start); return ok })
	}
	for i := range 3 * gapDepth {
		enqueue(probe.ResID(1+i), probe.File{Bytes: 1})
	}
	now = now.Add(time.Second) // all files are late
	step(Wake{})
	if !enqueue(3*gapDepth + 1) {
		t.Error("a task behind tasks with late files does not start")
	}
}

// Long tasks may use the short part while no short tasks come. Then short tasks that come later cannot use that
// room either.
func TestShortBehindManyInUsedShortPart(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	c := New(Config{Capacity: size(8), Functions: []string{"f"}, ShortShare: 3.0 / 8})
	step := func(ev Event) {
		c.Step(now, ev, nil)
		now = now.Add(time.Millisecond)
	}
	step(LinkUp{Link: 1, Frontend: 1})
	res := probe.ResID(0)
	long := func(slots int) {
		res++
		step(Received{1, probe.Enqueue{Res: res, Demand: size(slots), Long: true, Launch: probe.Launch{
			Attempt: probe.AttemptID{Seq: uint64(res)}, Function: "f", Estimate: time.Minute,
		}}})
	}
	for range 7 {
		long(1)
	}
	if got := c.Load().Free; got != size(1) {
		t.Fatalf("%v is free, want one slot", got)
	}
	for range gapDepth + 1 {
		long(5)
	}
	step(Received{1, probe.Reserve{First: res + 1, Count: 1, Demand: size(3)}})
	step(Received{1, probe.Reserve{First: res + 2, Count: 1, Demand: size(1)}})
	if got := c.Load().Free; got != size(1) {
		t.Errorf("%v is free, want one slot, because the first short task needs three", got)
	}
	step(Received{1, probe.Cancel{First: res + 1, Count: 1}})
	if got := c.Load().Free; got != size(0) {
		t.Errorf("%v is free, want none: the slot is closed to long tasks", got)
	}
}

// The queue foresees its own order.
func TestInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t}
		now := time.Unix(1_000_000, 0)
		order := Order(w.draw("order", len(orderNames)))
		c := New(Config{Order: order, Weights: map[string]float64{"t": 3, "u": 0.5},
			StarvationBound: 50 * time.Millisecond})
		l := &link{places: map[probe.ResID]*place{}}
		for i := range 1 + w.draw("places", 40) {
			now = now.Add(time.Duration(w.draw("pause", 4)) * time.Millisecond)
			c.queuePlace(&place{
				link: l, res: probe.ResID(i + 1), tenant: pick(w, "tenant", "t", "u", "v"),
				priority: int32(w.draw("priority", 3)),
				demand:   probe.Slot, estimate: time.Duration(w.draw("estimate", 5)) * time.Millisecond,
			}, now)
			if w.draw("take", 3) == 0 {
				c.queue.takeForTurn(c.queue.nextPlace(now))
			}
		}
		var foreseen []probe.ResID
		for p := range c.queue.inOrder(now) {
			foreseen = append(foreseen, p.res)
		}
		for i, res := range foreseen {
			p := c.queue.nextPlace(now)
			if p.res != res {
				t.Fatalf("%v: place %d is the %d. one, of %v", order, p.res, i+1, foreseen)
			}
			c.queue.takeForTurn(p)
		}
		if c.queue.len() > 0 {
			t.Fatalf("%v: %d places more than %v", order, c.queue.len(), foreseen)
		}
	})
}

// The averages follow the chance that a reservation gets a task, and the run times.
func TestAverages(t *testing.T) {
	l := averages{runTime: initialRun, bindChance: initialBindChance}
	for i := range 2000 {
		l.noteTurn(i%4 == 0)
		l.noteRun(time.Duration(i%2+1) * time.Second)
	}
	if l.bindChance < 0.2 || l.bindChance > 0.3 || l.runTime < 1400*time.Millisecond ||
		l.runTime > 1600*time.Millisecond {
		t.Errorf("learned %+v", l)
	}
	l.noteRun(0)
	if l.runTime == 0 {
		t.Error("a run time of 0 changed the average")
	}
}

func TestAlwaysOpen(t *testing.T) {
	for _, c := range []struct {
		share    float64
		capacity probe.Demand
		want     probe.Demand
	}{
		{0, size(8), size(7)}, {0, probe.Slot, probe.Slot}, {0, size(2), size(2)}, {0.3, size(4), size(3)},
		{-1, size(8), size(8)},
		{0.5, size(8), size(4)}, {2, size(8), size(1)},
		{0.5, probe.Demand{CPU: 500, Mem: 4096}, probe.Demand{CPU: 500, Mem: 2048}},
	} {
		if got := (Config{Capacity: c.capacity, ShortShare: c.share}).AlwaysOpen(); got != c.want {
			t.Errorf("with %v closed, %v of %v is open, want %v", c.share, got, c.capacity, c.want)
		}
	}
}

// newCrowdedCore is a core of 64 slots. A task with half of the worker runs, and as many small tasks as have
// room. Further tasks wait. The first waiting task needs all of the worker.
func newCrowdedCore(order Order, waiting int) (*Core, time.Time) {
	now := time.Unix(1_000_000, 0)
	c := New(Config{Capacity: size(64), Functions: []string{"f"}, Order: order, ShortShare: -1})
	c.Step(now, LinkUp{Link: 1, Frontend: 1}, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	res := probe.ResID(0)
	enqueue := func(slots int, takes time.Duration) {
		res++
		c.Step(now, Received{1, probe.Enqueue{
			Res: res, Demand: size(slots),
			Launch: probe.Launch{Attempt: probe.AttemptID{Seq: uint64(res)}, Function: "f", Estimate: takes},
		}}, nil)
	}
	enqueue(32, time.Minute)
	for range 31 {
		enqueue(1, time.Duration(1+rng.IntN(1000))*time.Millisecond)
	}
	enqueue(64, time.Minute)
	for range waiting {
		enqueue(1+rng.IntN(8), 2*time.Minute+time.Duration(rng.IntN(1000))*time.Millisecond)
	}
	return c, now
}

// BenchmarkBackfill measures a reservation that finds a gap and is cancelled, and a reservation that finds no
// gap.
func BenchmarkBackfill(b *testing.B) {
	for _, waiting := range []int{10, 100, 1000} {
		c, now := newCrowdedCore(FIFO, waiting)
		res := probe.ResID(1 << 20)
		for name, estimate := range map[string]time.Duration{"gap": time.Millisecond, "no-gap": time.Hour} {
			b.Run(name+"/"+strconv.Itoa(waiting), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					now = now.Add(time.Nanosecond)
					c.Step(now, Received{1,
						probe.Reserve{First: res, Count: 1, Demand: probe.Slot, Estimate: estimate}}, nil)
					c.Step(now, Received{1, probe.Cancel{First: res, Count: 1}}, nil)
					res++
				}
			})
		}
	}
}

// BenchmarkCoreMatrix measures the matrix of a core, for each order of the queue.
func BenchmarkCoreMatrix(b *testing.B) {
	for order := range Order(len(orderNames)) {
		for _, waiting := range []int{100, 1000} {
			c, now := newCrowdedCore(order, waiting)
			b.Run(order.String()+"/"+strconv.Itoa(waiting), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					c.Matrix(now)
				}
			})
		}
	}
}
