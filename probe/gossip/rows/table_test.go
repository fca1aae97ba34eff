package rows

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/phoebe-sched/phoebe/probe"
)

var epoch = time.Unix(1000, 0)

func newTestTable() *Table { return NewTable(DefaultLimits, epoch) }

// drawHistory draws whole rows of some workers, some with several runs under one name.
func drawHistory(t *rapid.T) []Row {
	var rows []Row
	for w := range rapid.IntRange(1, 4).Draw(t, "workers") {
		name := fmt.Sprintf("w%d", w)
		for inc := range rapid.IntRange(1, 3).Draw(t, "runs") {
			r := fullRow(name, uint64(inc+1), 0)
			for range rapid.IntRange(1, 4).Draw(t, "versions") {
				r.Seq++
				r.Matrix.Cells[7][7] = probe.Wait(r.Seq)
				if rapid.Bool().Draw(t, "moved") {
					r.ProfileRev++
					p := *r.Profile
					p.Rack = fmt.Sprintf("r%d", r.ProfileRev)
					r.Profile = &p
				}
				if rapid.Bool().Draw(t, "fetched") {
					r.FilesRev++
					r.Files = &Files{FileID(r.FilesRev)}
				}
				rows = append(rows, r)
			}
			if rapid.Bool().Draw(t, "leaves") {
				r.Seq++
				r.State = Left
				rows = append(rows, r)
			}
		}
	}
	return rows
}

// dump prints the content of a table, without ages and versions.
func dump(t *Table) string {
	t.checkInvariants()
	var lines []string
	for _, r := range t.Since(epoch, 0) {
		lines = append(lines, fmt.Sprintf("%s %d/%d %v rev %d %d rack %s files %v wait %v", r.Profile.Name,
			r.Incarnation, r.Seq,
			r.State, r.ProfileRev, r.FilesRev, r.Profile.Rack, r.Files, r.Matrix.Cells[7][7]))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func mergedTable(rows ...Row) *Table {
	t := newTestTable()
	for _, r := range rows {
		t.Merge(epoch, r)
	}
	return t
}

func rowsOf(t *Table) (rows []Row) {
	for _, r := range t.Since(epoch, 0) {
		rows = append(rows, r)
	}
	return rows
}

// Any order, any repetition and any grouping of the same rows end in the same table.
func TestMergeIsAJoin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := drawHistory(t)
		want := dump(mergedTable(rows...))
		shuffled := rapid.Permutation(rows).Draw(t, "order")
		cut := rapid.IntRange(0, len(rows)).Draw(t, "cut")
		if got := dump(mergedTable(append(shuffled, shuffled[:cut]...)...)); got != want {
			t.Fatalf("in another order:\n%s\nwant\n%s", got, want)
		}
		left, right := mergedTable(shuffled[:cut]...), mergedTable(shuffled[cut:]...)
		if got := dump(mergedTable(append(rowsOf(right), rowsOf(left)...)...)); got != want {
			t.Fatalf("in two groups:\n%s\nwant\n%s", got, want)
		}
	})
}

// Tables get different parts of a history, with short rows in between. When each table has asked all tables for
// changes, the tables agree.
func TestTablesConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := drawHistory(t)
		tables := []*Table{newTestTable(), newTestTable(), newTestTable()}
		var asked [3][3]uint64
		ask := func(i, j int) {
			for v, r := range tables[j].Since(epoch, asked[i][j]) {
				tables[i].Merge(epoch, r)
				asked[i][j] = v
			}
		}
		for range 3 * len(rows) {
			r := rapid.SampledFrom(rows).Draw(t, "row")
			if rapid.Bool().Draw(t, "short") {
				r = shortRow(r)
			}
			i, j := rapid.IntRange(0, 2).Draw(t, "at"), rapid.IntRange(0, 2).Draw(t, "from")
			tables[i].Merge(epoch, r)
			if i != j {
				ask(i, j)
			}
		}
		for range 2 {
			for i := range tables {
				for j := range tables {
					if i != j {
						ask(i, j)
					}
				}
			}
		}
		for i := range tables[1:] {
			if a, b := dump(tables[0]), dump(tables[i+1]); a != b {
				t.Fatalf("table 0:\n%s\ntable %d:\n%s", a, i+1, b)
			}
			if tables[0].sums != tables[i+1].sums {
				t.Fatal("the tables agree, their sums do not")
			}
		}
	})
}

func TestOutcomes(t *testing.T) {
	tab := NewTable(Limits{Rows: 2, Expire: 30 * time.Second, Forget: time.Minute}, epoch)
	a := fullRow("a", 5, 3)
	aged := func(r Row, age time.Duration) Row { r.Age = age; return r }
	again := shortRow(a)
	again.Seq = 4
	moved := a
	moved.ProfileRev, moved.Profile = 2, &Profile{Name: "a", Rack: "other", Capacity: a.Profile.Capacity}
	withoutFiles := fullRow("b", 5, 1)
	withoutFiles.FilesRev = 1
	itsFiles := shortRow(withoutFiles)
	itsFiles.Files = &Files{7}
	restarted := fullRow("a", 6, 1)
	for i, c := range []struct {
		row  Row
		want Outcome
	}{
		{shortRow(a), Unknown},
		{a, Started},
		{a, Old},
		{shortRow(a), Old},
		{again, Newer},
		{a, Old},
		{moved, Newer}, // old load, new profile
		{aged(fullRow("a", 5, 9), time.Hour), Expired},
		{withoutFiles, Started},
		{itsFiles, Newer}, // the table had none of the worker's files
		{itsFiles, Old},
		{fullRow("c", 1, 1), Full},
		{restarted, Started},
		{again, Unknown},
		{a, Ended},
		{Row{Key: 4}, Invalid},
		{Row{Key: 4, Seq: 1, Profile: &Profile{Name: "d"}}, Invalid},
	} {
		if got := tab.Merge(epoch, c.row); got != c.want {
			t.Errorf("row %d: %v, want %v", i, got, c.want)
		}
		tab.checkInvariants()
	}
	if r, _ := tab.Get(epoch, "a"); r.Incarnation != 6 || r.Matrix.Capacity != r.Profile.Capacity {
		t.Errorf("a is %+v", r)
	}
}

// A silent worker is lost, only news revives it, and at last the table forgets it.
func TestExpiry(t *testing.T) {
	tab := newTestTable()
	at := func(s float64) time.Time { return epoch.Add(time.Duration(s * float64(time.Second))) }
	state := func(s float64) string {
		tab.Expire(at(s))
		tab.checkInvariants()
		r, ok := tab.Get(at(s), "a")
		if !ok {
			return "forgotten"
		}
		return r.State.String()
	}
	r := fullRow("a", 1, 1)
	r.Age = 5 * time.Second
	tab.Merge(epoch, r)
	if got, _ := tab.Get(at(3), "a"); got.Age != 8*time.Second {
		t.Errorf("age %v after 3 s, want 8 s", got.Age)
	}
	if s := state(24); s != "up" {
		t.Errorf("%s at an age of 29 s", s)
	}
	if s := state(25.1); s != "lost" || tab.Len() != 0 {
		t.Errorf("%s at an age of 30.1 s, %d live", s, tab.Len())
	}
	late := r
	late.Age = 0 // the copy lay in a socket while the receiver was frozen
	if o := tab.Merge(at(26), late); o != Old || state(26) != "lost" {
		t.Errorf("a late copy revives it: %v, %s", o, state(26))
	}
	late.Seq = 2
	if o := tab.Merge(at(27), late); o != Started || state(27) != "up" || tab.Len() != 1 {
		t.Errorf("news do not revive it: %v, %s", o, state(27))
	}
	if s := state(58); s != "lost" {
		t.Errorf("%s at an age of 31 s", s)
	}
	if s := state(200); s != "forgotten" || len(tab.byKey) != 0 {
		t.Errorf("%s at last", s)
	}
	tab.Merge(at(100), fullRow("b", 1, 1)) // the clock goes back
	if r, _ := tab.Get(at(200), "b"); tab.ClockBack != 1 || r.Age != 0 {
		t.Errorf("clock back %d times, age %v", tab.ClockBack, r.Age)
	}
}

// Whatever a worker sends, the kept row is bounded and flagged.
func TestAbsurdRows(t *testing.T) {
	for flaw, spoil := range map[Flaws]func(*Row){
		BadMatrix: func(r *Row) { r.Matrix.Cells[0][0] = 5 },
		BadSpeed:  func(r *Row) { r.Speed = math.NaN() },
		BadOutage: func(r *Row) { r.Maintenance = Maintenance{In: 1e6 * time.Hour, Lasts: 1} },
		BadCounts: func(r *Row) { r.Finished, r.Failed = 1, 2 },
		BadCapacity: func(r *Row) {
			r.Profile.Capacity.CPU = math.MaxInt32
		},
		BadLabels: func(r *Row) {
			r.Profile.Labels = append(make([]string, MaxLabels), strings.Repeat("x", 4000), "last")
		},
	} {
		tab := newTestTable()
		r := fullRow("a", 1, 1)
		spoil(&r)
		if o := tab.Merge(epoch, r); o != Started {
			t.Fatalf("%v: %v", flaw.Names(), o)
		}
		got, _ := tab.Get(epoch, "a")
		if got.Flaws|got.Profile.Flaws != flaw || tab.Flawed != 1 {
			t.Errorf("%v: flaws %v and %v, counted %d", flaw.Names(), got.Flaws.Names(), got.Profile.Flaws.Names(),
				tab.Flawed)
		}
		switch flaw {
		case BadMatrix, BadCapacity:
			if w := got.Matrix.Wait(probe.Slot); w != probe.NeverFits {
				t.Errorf("%v: a wait of %v is believed", flaw.Names(), w)
			}
		case BadLabels:
			if n := len(got.Profile.Labels); n != MaxLabels {
				t.Errorf("%d labels", n)
			}
		}
		var again Row // flaws travel, so that all frontends flag the worker
		if _, err := ReadRow(AppendRow(nil, &got), &again); err != nil || again.Flaws != got.Flaws ||
			again.Profile.Flaws != got.Profile.Flaws {
			t.Errorf("%v: %v, flaws %v and %v", flaw.Names(), err, again.Flaws, again.Profile.Flaws)
		}
	}
}

func TestOutage(t *testing.T) {
	r := Row{Maintenance: Maintenance{In: 10 * time.Second, Lasts: 5 * time.Second}}
	for age, want := range map[time.Duration]string{0: "10s 5s true", 4e9: "6s 5s true", 12e9: "0s 3s true",
		15e9: "0s 0s false"} {
		r.Age = age
		in, lasts, ok := r.Outage()
		if got := fmt.Sprint(in, lasts, ok); got != want {
			t.Errorf("at the age %v: %s, want %s", age, got, want)
		}
	}
}

// busyRow makes a row of a busy worker: some 20 different waits, four labels, 16 files.
func busyRow(i int, seq uint64) Row {
	rng := rand.New(rand.NewPCG(uint64(i), 1))
	r := fullRow(fmt.Sprintf("worker-%05d.eu-central-1", i), 1<<60, seq)
	r.Profile.Host = fmt.Sprintf("host-%05d", i)
	r.Profile.Rack = fmt.Sprintf("rack-%03d", i/40)
	r.Profile.Labels = []string{"zone=" + string(rune('a'+i%3)), fmt.Sprintf("disk=ssd%d", i%2), "arch=amd64",
		fmt.Sprintf("gen=%d", i%5)}
	r.Speed, r.Finished, r.Failed = 1.07, 123_456, 78
	f := make(Files, 16)
	for j := range f {
		f[j] = FileID(rng.Uint64())
	}
	slices.Sort(f)
	r.Files, r.FilesRev = &f, 1
	touch(&r, rng, seq)
	return r
}

// touch changes the waits of r.
func touch(r *Row, rng *rand.Rand, seq uint64) {
	r.Seq = seq
	var prev [8]probe.Wait
	for i := range r.Matrix.Cells {
		rest := probe.Wait(0)
		for j := range prev {
			w := max(rest, prev[j])
			if i+j > 4 && rng.IntN(3) == 0 {
				w += probe.Wait(rng.IntN(3000))
			}
			r.Matrix.Cells[i][j], prev[j], rest = w, w, w
		}
	}
}

const fleet = 20_000

func TestViewOf20000Workers(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	tab := newTestTable()
	bytes, shorts := 0, 0
	for i := range fleet {
		r := busyRow(i, 1)
		b := AppendRow(nil, &r)
		s := shortRow(r)
		bytes, shorts = bytes+len(b), shorts+len(AppendRow(nil, &s))
		var got Row
		if _, err := ReadRow(b, &got); err != nil {
			t.Fatal(err)
		}
		tab.Merge(epoch, got)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	heap := after.HeapAlloc - before.HeapAlloc
	t.Logf("%d rows: %.1f MB of heap; on the wire %d bytes a full row, %d a short one", tab.Len(),
		float64(heap)/1e6, bytes/fleet, shorts/fleet)
	if heap > 40e6 {
		t.Errorf("a view of %d workers takes %d bytes", fleet, heap)
	}
	runtime.KeepAlive(tab)
}

// BenchmarkMerge reads and merges the short rows of a fleet, in the form of a push.
func BenchmarkMerge(b *testing.B) {
	tab := newTestTable()
	var wire []byte
	var seqs []Row
	for i := range fleet {
		r := busyRow(i, 1)
		tab.Merge(epoch, r)
		seqs = append(seqs, shortRow(r))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	rng.Shuffle(len(seqs), func(i, j int) { seqs[i], seqs[j] = seqs[j], seqs[i] })
	seq := uint64(1)
	var rd reader
	var r Row
	b.ReportAllocs()
	for b.Loop() {
		if len(rd.buf) == 0 {
			b.StopTimer()
			seq++
			wire = wire[:0]
			for i := range seqs {
				seqs[i].Seq = seq
				wire = AppendRow(wire, &seqs[i])
			}
			rd.buf = wire
			b.StartTimer()
		}
		rd.readRow(&r)
		if _, o := tab.mergeRow(&r); o != Newer {
			b.Fatal(o)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
