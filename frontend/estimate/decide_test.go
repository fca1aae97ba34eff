package estimate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

var (
	t0   = time.Unix(1_700_000_000, 0)
	room = scaleDemand(probe.Slot, 8)
)

const (
	mb = 1_000_000
	gb = 1_000_000_000
)

// flatMatrix returns a matrix with the same wait for every size.
func flatMatrix(wait time.Duration) *probe.WaitMatrix {
	m := &probe.WaitMatrix{Capacity: room}
	for i := range m.Cells {
		for j := range m.Cells[i] {
			m.Cells[i][j] = probe.WaitOf(wait)
		}
	}
	for i := range m.Short {
		m.Short[i] = probe.WaitOf(wait)
	}
	return m
}

// risingMatrix returns a matrix in which a task of n eighths of the worker waits n times step.
func risingMatrix(step time.Duration) *probe.WaitMatrix {
	m := &probe.WaitMatrix{Capacity: room}
	for i := range m.Cells {
		for j := range m.Cells[i] {
			m.Cells[i][j] = probe.WaitOf(step * time.Duration(slotsOf(max(i, j))))
		}
	}
	return m
}

// slotsOf returns how many slots of eight a step of a matrix takes, rounded up.
func slotsOf(i int) int {
	return int((probe.MatrixStep(room.CPU, i) + probe.Slot.CPU - 1) / probe.Slot.CPU)
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func hintWork(d time.Duration) Work { return Work{Run: d, Source: FromHint} }

// The example of Apollo, section 3.3 and figure 4. Tasks read from local disks at 160 MB/s, within the rack at 100
// MB/s, and from another rack at 80 MB/s. The task reads 100 MB from A and 5 GB from C, and is bound by I/O. A and
// B share a rack and are idle. C and D share the other rack, with waits of 40 s and 5 s. C has the data and A has
// room, but D is best.
func TestSection33(t *testing.T) {
	f := NewFleet(Config{Jitter: -1})
	for key, s := range []struct {
		name, rack string
		wait       time.Duration
	}{{"A", "1", 0}, {"B", "1", 0}, {"C", "2", 40 * time.Second}, {"D", "2", 5 * time.Second}} {
		f.Put(Server{Key: int32(key), Name: s.name, Rack: s.rack, Matrix: flatMatrix(s.wait), Heard: t0})
	}
	task := Task{Demand: probe.Slot, Inputs: []Input{
		{Bytes: 100 * mb, Copies: []Copy{{At: "A"}}},
		{Bytes: 5 * gb, Copies: []Copy{{At: "C"}}},
	}}
	d := f.Decide(&task, t0, newRand(1))
	if d.Choice() == nil || d.Choice().Name != "D" {
		t.Fatalf("want D: %s", &d)
	}
	want := map[string]struct {
		c    string
		from []Tier
	}{
		"A": {"63.13", []Tier{Disk, Across}},
		"B": {"63.50", []Tier{Rack, Across}},
		"C": {"72.50", []Tier{Across, Disk}},
		"D": {"56.25", []Tier{Across, Rack}},
	}
	if len(d.Candidates) != len(want) {
		t.Errorf("%d candidates, want %d: %s", len(d.Candidates), len(want), &d)
	}
	for i := range d.Candidates {
		c := &d.Candidates[i]
		// Half up, as the paper rounds 63.125. Failures cost next to nothing here: some 25 in a million.
		if got := fmt.Sprintf("%.2f", math.Floor(c.E.Seconds()*100+0.5)/100); got != want[c.Name].c {
			t.Errorf("%s: E is %s s, the paper has %s", c.Name, got, want[c.Name].c)
		}
		if off := (c.C - c.E).Seconds(); off < 0 || off > 0.005 {
			t.Errorf("%s: C is %v more than E", c.Name, off)
		}
		if !slices.Equal(c.From, want[c.Name].from) {
			t.Errorf("%s: reads from %v, want %v", c.Name, c.From, want[c.Name].from)
		}
	}
	if s := d.String(); !strings.HasPrefix(s, "D was chosen: it has the least C of 4") ||
		!strings.Contains(s, "\n* D (same rack): C 56.25") ||
		!strings.Contains(s,
			"W 5.000s + run R 51.250s, of which reading 51.250s (5000000000 bytes from its rack, 100000000 bytes from "+
				"other racks)") {
		t.Errorf("String:\n%s", s)
	}
}

// Each term by itself, on a single worker.
func TestTerms(t *testing.T) {
	small := Config{Jitter: -1,
		Rates: Rates{Memory: 1000 * mb, Disk: 100 * mb, Rack: 50 * mb, Across: 10 * mb, Origin: 5 * mb}}
	base := Server{Key: 0, Name: "w", Host: "h", Rack: "r", Matrix: flatMatrix(0), Heard: t0}
	on := func(change func(*Server)) Server { s := base; change(&s); return s }
	read := func(bytes int64, copies ...Copy) Task {
		return Task{Demand: probe.Slot, Inputs: []Input{{bytes, copies}}}
	}
	s := time.Second
	for _, test := range []struct {
		name    string
		server  Server
		task    Task
		i, w, r time.Duration
	}{
		{"nothing", base, Task{Demand: probe.Slot}, 0, 0, 0},
		{"work", base, Task{Work: hintWork(3 * s)}, 0, 0, 3 * s},
		{"work on a fast worker", on(func(s *Server) { s.Speed = 2 }), Task{Work: hintWork(3 * s)}, 0, 0,
			1500 * time.Millisecond},
		{"a speed that nobody believes", on(func(s *Server) { s.Speed = 1e9 }), Task{Work: hintWork(16 * s)}, 0, 0, s},
		{"no number for a speed", on(func(s *Server) { s.Speed = math.NaN() }), Task{Work: hintWork(3 * s)}, 0, 0,
			3 * s},
		{"a negative speed", on(func(s *Server) { s.Speed = -3 }), Task{Work: hintWork(3 * s)}, 0, 0, 3 * s},
		{"wait", on(func(s *Server) { s.Matrix = risingMatrix(time.Second) }),
			Task{Demand: scaleDemand(probe.Slot, 3)}, 0,
			3 * s, 0},
		{"wait, heard 2 s ago",
			on(func(s *Server) {
				s.Matrix, s.Heard = risingMatrix(time.Second),
					t0.Add(-2*time.Second)
			}), Task{Demand: probe.Slot}, 0, s, 0},
		{"wait, heard 3 s ago",
			on(func(s *Server) {
				s.Matrix, s.Heard = risingMatrix(time.Second),
					t0.Add(-3*time.Second)
			}), Task{Demand: probe.Slot}, 0, 2 * s, 0},
		{"wait, heard 1 h ago",
			on(func(s *Server) { s.Matrix, s.Heard = risingMatrix(time.Second), t0.Add(-time.Hour) }),
			Task{Demand: probe.Slot}, 0, 8 * s, 0},
		{"wait, heard tomorrow",
			on(func(s *Server) {
				s.Matrix, s.Heard = risingMatrix(time.Second),
					t0.Add(24*time.Hour)
			}), Task{Demand: probe.Slot}, 0, s, 0},
		{"from memory", base, read(100*mb, Copy{At: "h", Memory: true}), 0, 0, s / 10},
		{"from disk", base, read(100*mb, Copy{At: "h"}), 0, 0, s},
		{"by the worker's name", base, read(100*mb, Copy{At: "w"}), 0, 0, s},
		{"from the rack", base, read(100*mb, Copy{At: "store", Rack: "r"}), 0, 0, 2 * s},
		{"from another rack", base, read(100*mb, Copy{At: "store", Rack: "q"}), 0, 0, 10 * s},
		{"from nobody knows where", base, read(100 * mb), 0, 0, 10 * s},
		{"from no rack to no rack", on(func(s *Server) { s.Rack = "" }), read(100*mb, Copy{At: "store"}), 0, 0, 10 * s},
		{"from the nearest copy", base,
			read(100*mb, Copy{At: "store", Rack: "q"}, Copy{At: "h"}, Copy{At: "store", Rack: "r"}), 0, 0, s},
		{"negative bytes", base, read(-100 * mb), 0, 0, 0},
		{"a file", base, Task{Files: []File{{7, 10 * mb}}}, 2 * s, 0, 0},
		{"a file that is cached", on(func(s *Server) { s.Files = []FileID{3, 7} }), Task{Files: []File{{7, 10 * mb}}},
			0, 0, 0},
		{"a file that another has", on(func(s *Server) { s.Files = []FileID{3} }), Task{Files: []File{{9, 10 * mb}}},
			s, 0, 0},
		{"absurd", on(func(s *Server) { s.Matrix = flatMatrix(math.MaxInt64) }),
			Task{Work: hintWork(math.MaxInt64), Inputs: []Input{{Bytes: math.MaxInt64}},
				Files: []File{{1, math.MaxInt64},
					{2, math.MaxInt64}}}, maxTerm, (probe.NeverFits - 1).Duration(), maxTerm},
	} {
		f := NewFleet(small)
		f.Put(test.server)
		if strings.Contains(test.name, "another") {
			f.Put(Server{Key: 1, Name: "other", Rack: "q", Draining: true, Files: []FileID{9}})
		}
		d := f.Decide(&test.task, t0, newRand(1))
		c := d.Choice()
		if c == nil || c.I != test.i || c.W != test.w || c.R != test.r || c.E != min(c.I+c.W+c.R, maxTerm) {
			t.Errorf("%s: want I %v, W %v, R %v: %s", test.name, test.i, test.w, test.r, &d)
		}
		if c != nil && (c.C < c.E || c.C > 2*c.E) {
			t.Errorf("%s: C %v of E %v", test.name, c.C, c.E)
		}
	}
}

func TestFailuresCost(t *testing.T) {
	f := NewFleet(Config{Jitter: -1, KFail: 3, Lifetime: math.MaxInt64})
	f.Put(Server{Key: 0, Name: "safe", Matrix: flatMatrix(10 * time.Second), Heard: t0})
	f.Put(Server{Key: 1, Name: "leaves", Matrix: flatMatrix(0), Heard: t0, Maintenance: t0.Add(10 * time.Second)})
	d := f.Decide(&Task{Work: hintWork(10 * time.Second)}, t0, newRand(1))
	// The worker leaves just when the task should be done: one chance in two. C = 10/2 + 3*10/2, as much as E at
	// the safe worker.
	leaves := d.Candidates[slices.IndexFunc(d.Candidates, func(c Candidate) bool { return c.Name == "leaves" })]
	if math.Abs(leaves.Psucc-0.5) > 1e-9 || (leaves.C-20*time.Second).Abs() > time.Millisecond {
		t.Errorf("Psucc %v, C %v, want a half and 20 s", leaves.Psucc, leaves.C)
	}
	for _, test := range []struct {
		run  time.Duration
		want string
	}{{5 * time.Second, "leaves"}, {20 * time.Second, "safe"}} {
		if d := f.Decide(&Task{Work: hintWork(test.run)}, t0, newRand(1)); d.Choice().Name != test.want {
			t.Errorf("a task of %v: want %s: %s", test.run, test.want, &d)
		}
	}
}

func TestNoCandidates(t *testing.T) {
	f := NewFleet(Config{})
	f.Put(Server{Key: 0, Name: "draining", Matrix: flatMatrix(0), Heard: t0, Draining: true})
	f.Put(Server{Key: 1, Name: "unheard"})
	f.Put(Server{Key: 2, Name: "small", Matrix: &probe.WaitMatrix{Capacity: probe.Slot}, Heard: t0})
	checkFleet(t, f)
	d := f.Decide(&Task{Demand: scaleDemand(probe.Slot, 2),
		Inputs: []Input{{mb, []Copy{{At: "draining"}, {At: "unheard"}, {At: "nowhere"}}}}}, t0, newRand(1))
	if d.Choice() != nil ||
		!strings.HasPrefix(d.String(),
			"no candidate was chosen: none of the 3 workers may run the task and has room for 2000m CPU, 512 MiB") {
		t.Errorf("%s", &d)
	}
}

// poolSet is a Pool.
type poolSet []int32

func (s poolSet) Has(key int32) bool { return slices.Contains(s, key) }
func (s poolSet) Len() int           { return len(s) }
func (s poolSet) At(i int) int32     { return s[i] }

// Candidates are the workers with significant inputs, the workers of their racks, workers with files, and two light
// workers.
func TestCandidates(t *testing.T) {
	f := NewFleet(Config{})
	for key := range int32(1000) {
		s := Server{Key: key, Name: fmt.Sprintf("w%d", key), Rack: fmt.Sprintf("r%d", key/20),
			Matrix: flatMatrix(time.Hour), Heard: t0}
		if key >= 900 {
			s.Matrix = flatMatrix(0)
		}
		if key == 333 {
			s.Files = []FileID{5}
		}
		f.Put(s)
	}
	checkFleet(t, f)
	kinds := func(task *Task) map[Kind][]int32 {
		f.locateInputs(task.Inputs)
		f.collectCandidates(task, 1, newRand(2))
		m := map[Kind][]int32{}
		for _, at := range f.candidates {
			m[at.kind] = append(m[at.kind], at.row.Key)
		}
		for _, keys := range m {
			slices.Sort(keys)
			if len(slices.Compact(slices.Clone(keys))) != len(keys) {
				t.Errorf("a worker twice in %v", keys)
			}
		}
		return m
	}
	m := kinds(&Task{Demand: probe.Slot, Inputs: []Input{{90 * mb, []Copy{{At: "w100"}}},
		{2 * mb, []Copy{{At: "w200"}}}}, Files: []File{{5, 20 * mb}}})
	rack := []int32{}
	for key := int32(101); key < 120; key++ {
		rack = append(rack, key)
	}
	if !slices.Equal(m[HasInput], []int32{100}) || !slices.Equal(m[HasFile], []int32{333}) ||
		!slices.Equal(m[SameRack], rack) || len(m[Light]) != 2 {
		t.Errorf("candidates: %v", m)
	}
	for _, key := range m[Light] {
		if key < 900 {
			t.Errorf("worker %d is no light one", key)
		}
	}

	few := poolSet{1, 2, 3}
	if m := kinds(&Task{Demand: probe.Slot, Pool: few}); !slices.Equal(m[InPool], few) || len(m) != 1 {
		t.Errorf("of a small pool: %v", m)
	}
	for _, c := range []struct{ avoided, want []int32 }{{[]int32{2}, []int32{1, 3}}, {few, few}} {
		m := kinds(&Task{Demand: probe.Slot, Pool: few, Avoided: c.avoided})
		if slices.Sort(m[InPool]); !slices.Equal(m[InPool], c.want) {
			t.Errorf("without %v of a small pool: %v", c.avoided, m)
		}
	}
	busy := poolSet{}
	for key := range int32(50) {
		busy = append(busy, key)
	}
	m = kinds(&Task{Demand: probe.Slot, Pool: busy})
	if found := append(m[Light], m[InPool]...); len(found) != 2 || !busy.Has(found[0]) || !busy.Has(found[1]) {
		t.Errorf("of a pool without light workers: %v", m)
	}
	if m := kinds(&Task{Demand: probe.Slot, Pool: busy,
		Inputs: []Input{{mb, []Copy{{At: "w45"}, {At: "w100"}}}}}); !slices.Equal(m[HasInput], []int32{45}) ||
		!slices.Equal(m[SameRack], []int32{40, 41, 42, 43, 44, 46, 47, 48, 49}) {
		t.Errorf("inputs partly out of the pool: %v", m)
	}
}

// Of many candidates the best are kept, in order, and the reason counts all.
func TestKept(t *testing.T) {
	for seed := range uint64(20) {
		rng := newRand(seed)
		f := NewFleet(Config{Jitter: -1})
		var waits []time.Duration
		for key := range int32(40) {
			waits = append(waits, time.Duration(rng.IntN(30))*time.Second)
			f.Put(Server{Key: key, Name: fmt.Sprint(key), Rack: "r", Matrix: flatMatrix(waits[key]), Heard: t0})
		}
		slices.Sort(waits)
		d := f.Decide(&Task{Inputs: []Input{{mb, []Copy{{At: "store", Rack: "r"}}}}}, t0, rng)
		if d.Seen != 40 || len(d.Candidates) != MaxKept || d.Chosen != 0 {
			t.Fatalf("seed %d: %s", seed, &d)
		}
		for i := range d.Candidates {
			if d.Candidates[i].W != waits[i] || i > 0 && !isBetter(&d.Candidates[i-1], &d.Candidates[i]) {
				t.Fatalf("seed %d: candidate %d should wait %v: %s", seed, i, waits[i], &d)
			}
		}
	}
}

// Frontends with the same view choose between two equal workers at random, and a seed has a single outcome.
func TestJitter(t *testing.T) {
	f := NewFleet(Config{})
	for key := range int32(2) {
		f.Put(Server{Key: key, Name: fmt.Sprint(key), Matrix: flatMatrix(0), Heard: t0.Add(-time.Second)})
	}
	task := Task{Work: hintWork(time.Second)}
	var count [2]int
	for seed := range uint64(100) {
		d, again := f.Decide(&task, t0, newRand(seed)), f.Decide(&task, t0, newRand(seed))
		if d.String() != again.String() {
			t.Fatalf("seed %d: %s\nand then\n%s", seed, &d, &again)
		}
		count[d.Choice().Worker]++
		if c := d.Choice(); c.Noise < 0 || c.Noise > c.C/50 {
			t.Fatalf("seed %d: noise %v of %v", seed, c.Noise, c.C)
		}
	}
	if min(count[0], count[1]) < 30 {
		t.Errorf("chosen %v times", count)
	}
}

// Of equal workers heard just now, frontends choose different workers, alone and in a batch.
func TestTies(t *testing.T) {
	f := NewFleet(Config{})
	for key := range int32(8) {
		f.Put(Server{Key: key, Name: fmt.Sprint(key), Matrix: flatMatrix(0), Heard: t0})
	}
	task := Task{Work: hintWork(time.Second)}
	var alone, batch [8]int
	for seed := range uint64(400) {
		d := f.Decide(&task, t0, newRand(seed))
		alone[d.Choice().Worker]++
		ds, _ := f.Batch([]Task{task, task}, Stable, t0, newRand(seed))
		batch[ds[0].Choice().Worker]++
	}
	if slices.Min(alone[:]) < 25 || slices.Min(batch[:]) < 25 {
		t.Errorf("each of 8 equal workers was chosen %v times, and in a batch %v", alone, batch)
	}
}

// A fresh matrix gets no Noise, and Noise is at most the age of the matrix.
func TestJitterIsNoMoreThanAge(t *testing.T) {
	f := NewFleet(Config{})
	for key, age := range []time.Duration{0, time.Millisecond, time.Hour} {
		f.Put(Server{Key: int32(key), Name: fmt.Sprint(key), Matrix: flatMatrix(0), Heard: t0.Add(-age)})
	}
	most := map[int32]time.Duration{}
	for seed := range uint64(50) {
		d := f.Decide(&Task{Work: hintWork(100 * time.Second)}, t0, newRand(seed))
		for _, c := range d.Candidates {
			most[c.Worker] = max(most[c.Worker], c.Noise)
		}
	}
	if most[0] != 0 || most[1] == 0 || most[1] > time.Millisecond || most[2] < time.Second || most[2] > 2*time.Second {
		t.Errorf("a Noise of %v was added", most)
	}
}

// A batch never gives two tasks to a worker, and dispatches short waits first. With enough batches, and waits noted
// in between, every task is placed.
func TestBatch(t *testing.T) {
	for _, m := range []Matcher{Stable, Greedy, Optimal} {
		f := NewFleet(Config{})
		for key := range int32(20) {
			f.Put(Server{Key: key, Name: fmt.Sprintf("w%d", key), Rack: fmt.Sprint(key / 5),
				Matrix: flatMatrix(time.Duration(key) * time.Second), Heard: t0})
		}
		tasks := make([]Task, 60)
		for i := range tasks {
			tasks[i] = Task{Demand: probe.Slot, Work: hintWork(time.Second * time.Duration(1+i%7)),
				Inputs: []Input{{gb, []Copy{{At: fmt.Sprintf("w%d", i%4)}}}}}
		}
		rng := newRand(3)
		batches := 0
		for len(tasks) > 0 {
			if batches++; batches > 60 {
				t.Fatalf("%s: %d tasks left after %d batches", m, len(tasks), batches)
			}
			decisions, order := f.Batch(tasks, m, t0, rng)
			taken := map[int32]bool{}
			wait := time.Duration(0)
			for _, i := range order {
				c := decisions[i].Choice()
				if taken[c.Worker] {
					t.Fatalf("%s: worker %d has two tasks", m, c.Worker)
				}
				taken[c.Worker] = true
				if c.W < wait {
					t.Fatalf("%s: a wait of %v is dispatched after one of %v", m, c.W, wait)
				}
				wait = c.W
				s := *f.Get(c.Worker)
				after := Occupied(*s.Matrix, tasks[i].Demand, false, c.R, 0)
				s.Matrix = &after
				f.Put(s)
			}
			var unplaced []Task
			for i := range tasks {
				d := &decisions[i]
				if (d.Choice() != nil) != slices.Contains(order, i) || d.Reason == "" {
					t.Fatalf("%s: task %d chosen %d, reason %q, order %v", m, i, d.Chosen, d.Reason, order)
				}
				if d.Choice() == nil {
					unplaced = append(unplaced, tasks[i])
				}
			}
			tasks = unplaced
			checkFleet(t, f)
		}
	}
}

func checkFleet(t *testing.T, f *Fleet) {
	t.Helper()
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
}

// Doubtful returns the candidates without a matrix, or with an old matrix.
func TestDoubtful(t *testing.T) {
	f := NewFleet(Config{})
	now := t0.Add(time.Minute)
	for i, heard := range []time.Time{now, t0, now, t0} {
		s := Server{Key: int32(i), Name: fmt.Sprint("w", i), Host: fmt.Sprint("h", i), Heard: heard,
			Matrix: flatMatrix(0)}
		if i == 2 {
			s.Matrix = nil
		}
		s.Draining = i == 3
		f.Put(s)
	}
	task := Task{Work: hintWork(time.Second), Demand: probe.Slot, Pool: poolSet{0, 1, 2, 3}}
	if got := f.Doubtful(&task, 1, time.Second, now, newRand(1), nil); !slices.Equal(got, []int32{1, 2}) {
		t.Errorf("to be asked: %v, want the worker with the old matrix and the worker without", got)
	}
	if d := f.Decide(&task, now, newRand(1)); d.Seen != 2 {
		t.Errorf("%d candidates, want the two with matrices", d.Seen)
	}
}

// ExtraCandidates are candidates besides the light workers.
func TestExtraCandidates(t *testing.T) {
	f := NewFleet(Config{})
	for i := range int32(200) {
		f.Put(Server{Key: i, Name: fmt.Sprint("w", i), Heard: t0, Matrix: flatMatrix(time.Duration(i) * time.Second)})
	}
	d := f.Decide(&Task{Work: hintWork(time.Second), Demand: probe.Slot, ExtraCandidates: []int32{198, 199}}, t0,
		newRand(1))
	kinds := map[Kind]int{}
	for _, c := range d.Candidates {
		kinds[c.Kind]++
	}
	if kinds[Named] != 2 || kinds[Light] != 2 {
		t.Errorf("candidates: %v", kinds)
	}
}

// The indexes agree with the rows after any changes, and nothing is left of removed workers.
func TestFleetIndexes(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 9))
		f := NewFleet(Config{})
		known := map[int32]bool{}
		for range 400 {
			key := int32(rng.IntN(25))
			switch rng.IntN(5) {
			case 0:
				f.Remove(key)
				delete(known, key)
			case 1:
				f.NoteLost(key, t0)
			default:
				s := Server{Key: key, Name: fmt.Sprintf("w%d", rng.IntN(30)), Host: fmt.Sprintf("h%d", rng.IntN(10)),
					Draining: rng.IntN(5) == 0, Heard: t0}
				if r := rng.IntN(4); r > 0 {
					s.Rack = fmt.Sprint(r)
				}
				if rng.IntN(6) > 0 {
					s.Matrix = flatMatrix(time.Duration(rng.IntN(5)) * time.Second)
				}
				for id := range FileID(5) {
					if rng.IntN(3) == 0 {
						s.Files = append(s.Files, id)
					}
				}
				f.Put(s)
				known[key] = true
			}
			checkFleet(t, f)
			if f.Len() != len(known) {
				t.Fatalf("seed %d: %d workers, want %d", seed, f.Len(), len(known))
			}
		}
		for key := range int32(25) {
			if (f.Get(key) != nil) != known[key] {
				t.Fatalf("seed %d: worker %d is there: %t", seed, key, !known[key])
			}
			f.Remove(key)
		}
		checkFleet(t, f)
		if len(f.names)+len(f.hosts)+len(f.racks)+len(f.files) > 0 {
			t.Fatalf("seed %d: left behind: %d names, %d hosts, %d racks, %d files", seed, len(f.names), len(f.hosts),
				len(f.racks), len(f.files))
		}
	}
}

func TestConfig(t *testing.T) {
	if err := (Config{}).Defaults().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	err := Config{Rates: Rates{Memory: -1, Disk: math.NaN()}, KFail: 0.5, Fresh: -1, Jitter: 1, Lights: 17,
		Significant: 2, Grudge: -1}.Defaults().Validate()
	for _, part := range []string{"rate memory", "rate disk", "kfail", "fresh", "jitter", "lights", "significant",
		"grudge"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("no error about %s: %v", part, err)
		}
	}
}

// bigFleet returns 20,000 workers in racks of 40, mostly busy.
func bigFleet() *Fleet {
	rng := newRand(5)
	f := NewFleet(Config{})
	for key := range int32(20_000) {
		var files []FileID
		for id := range FileID(20) {
			if rng.IntN(10) == 0 {
				files = append(files, id)
			}
		}
		f.Put(Server{
			Key: key, Name: fmt.Sprintf("worker-%d", key), Host: fmt.Sprintf("host-%d", key),
			Rack:   fmt.Sprintf("rack-%d", key/40),
			Matrix: risingMatrix(time.Duration(rng.ExpFloat64() * 1e9)), Heard: t0.Add(-time.Duration(rng.IntN(1e9))),
			Files: files,
		})
	}
	return f
}

func bigTasks(n int) []Task {
	rng := newRand(6)
	tasks := make([]Task, n)
	for i := range tasks {
		tasks[i] = Task{Demand: probe.Slot, Work: hintWork(5 * time.Second),
			Files: []File{{FileID(rng.IntN(20)), 10 * mb}}}
		for range 2 {
			in := Input{Bytes: 256 * mb}
			for range 3 {
				in.Copies = append(in.Copies, Copy{At: fmt.Sprintf("host-%d", rng.IntN(20_000))})
			}
			tasks[i].Inputs = append(tasks[i].Inputs, in)
		}
	}
	return tasks
}

// A decision among 20,000 workers should take at most 50 us: two inputs of three copies each, in six racks of 40.
func BenchmarkDecide(b *testing.B) {
	f, tasks, rng := bigFleet(), bigTasks(1000), newRand(7)
	plain := Task{Demand: probe.Slot, Work: hintWork(5 * time.Second)}
	b.Run("inputs", func(b *testing.B) {
		b.ReportAllocs()
		seen, n := 0, 0
		for b.Loop() {
			d := f.Decide(&tasks[n%len(tasks)], t0, rng)
			seen += d.Seen
			n++
		}
		b.ReportMetric(float64(seen)/float64(n), "candidates")
	})
	b.Run("light", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f.Decide(&plain, t0, rng)
		}
	})
	b.Run("batch/1000", func(b *testing.B) {
		b.ReportAllocs()
		placed := 0
		for b.Loop() {
			_, order := f.Batch(tasks, Stable, t0, rng)
			placed = len(order)
		}
		b.ReportMetric(float64(placed), "placed")
	})
}

// BenchmarkPut measures merging a row into the fleet, and the fleet's own part of the view's memory.
func BenchmarkPut(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f := bigFleet()
	runtime.GC()
	runtime.ReadMemStats(&after)
	rng := newRand(8)
	matrices := make([]*probe.WaitMatrix, 1000)
	for i := range matrices {
		matrices[i] = risingMatrix(time.Duration(rng.ExpFloat64() * 1e9))
	}
	for b.Loop() {
		s := *f.Get(int32(rng.IntN(20_000)))
		s.Matrix, s.Heard = matrices[rng.IntN(len(matrices))], t0
		f.Put(s)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
}

// A task delays a second task of its demand by the difference of two waits: of both tasks together, and of a single
// task. If the worker never has room for both, the second task waits for the whole run.
func TestDelayOfASecondTask(t *testing.T) {
	const run = 10 * time.Second
	f := NewFleet(Config{Jitter: -1})
	f.Put(Server{Key: 0, Name: "idle", Matrix: flatMatrix(0), Heard: t0})
	f.Put(Server{Key: 1, Name: "busy", Matrix: risingMatrix(time.Second), Heard: t0})
	for _, test := range []struct {
		worker int32
		slots  int32
		want   time.Duration
	}{{0, 1, 0}, {0, 4, 0}, {0, 5, run}, {0, 8, run}, {1, 2, 2 * time.Second}, {1, 8, run}} {
		task := Task{Demand: scaleDemand(probe.Slot, test.slots), Work: hintWork(run)}
		c := f.estimateAt(&task, f.rowOf(test.worker), t0)
		got := f.delayOfSecond(&task, &c)
		if diff := (got - test.want).Abs(); diff > test.want/8 {
			t.Errorf("worker %d, %d slots: the delay is %v, want %v", test.worker, test.slots, got, test.want)
		}
	}
}

// A short task that would queue at a worker waits for the next batch, if a worker at which a long task starts has room
// for both.
func TestShortTaskLeavesForRoom(t *testing.T) {
	f := NewFleet(Config{Jitter: -1})
	f.Put(Server{Key: 0, Name: "idle", Matrix: flatMatrix(0), Heard: t0})
	f.Put(Server{Key: 1, Name: "busy", Matrix: flatMatrix(50 * time.Millisecond), Heard: t0})
	tasks := []Task{
		{Demand: probe.Slot, Work: hintWork(10 * time.Second)}, {Demand: probe.Slot, Work: hintWork(2 * time.Second)},
	}
	decisions := make([]Decision, len(tasks))
	for i := range tasks {
		for key := range int32(2) {
			decisions[i].Candidates = append(decisions[i].Candidates, f.estimateAt(&tasks[i], f.rowOf(key), t0))
		}
	}
	chosen := []int{0, 1}
	if f.leaveForRoom(tasks, decisions, chosen); !slices.Equal(chosen, []int{0, Postponed}) {
		t.Errorf("chosen are %v", chosen)
	}
}

// A task waits as tasks of its tenant do: with the most work behind all others, else for the tenant's own part.
func TestWaitOfTenant(t *testing.T) {
	m := flatMatrix(17 * time.Second)
	m.Shares.Others = probe.ShareOf(probe.WaitOf(time.Second), probe.WaitOf(17*time.Second))
	m.Shares.Set(2, 0)
	f := NewFleet(Config{Jitter: -1})
	f.Put(Server{Key: 0, Name: "w", Matrix: m, Heard: t0})
	for tenant, want := range map[probe.TenantCode]time.Duration{
		0: 17 * time.Second, 1: time.Second, 2: 17 * time.Second,
	} {
		task := Task{Demand: probe.Slot, Tenant: tenant}
		if c := f.estimateAt(&task, f.rowOf(0), t0); c.W < want || c.W > want+want/10 {
			t.Errorf("a task of tenant %d waits for %v, want %v", tenant, c.W, want)
		}
	}
}
