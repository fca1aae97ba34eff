package record

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// A fleet remembers ten minutes of each worker. A worker that left keeps its row, and is named with the time when the
// worker was up last.
func TestFleet(t *testing.T) {
	var f Fleet
	up := func(cpu byte) Figure { return Figure{stateUp, cpu, 1, 2, 3} }
	for n := range fleetSamples + 50 {
		workers := []WorkerFigure{{"a:1", "a", "r", up(byte(n))}}
		if n < 100 {
			workers = append(workers, WorkerFigure{"b:1", "b", "r", up(7)})
		}
		if n >= 60 {
			state := byte(stateUp)
			if n >= 200 {
				state = 4
			}
			workers = append(workers, WorkerFigure{"c:1", "c", "", Figure{state, 9, 1, 2, 3}})
		}
		f.AddSample(start.Add(time.Duration(n)*FleetEvery), workers)
	}
	h := f.History()
	if len(h.At) != fleetSamples || !h.At[0].Equal(start.Add(50*FleetEvery)) {
		t.Fatalf("%d samples from %v on", len(h.At), h.At[0])
	}
	rows := map[string][]Figure{}
	for _, r := range h.Rows {
		rows[r.Address] = r.Figures
	}
	last := fleetSamples - 1
	for _, x := range []struct {
		address string
		sample  int
		want    Figure
	}{
		{"a:1", 0, up(50)}, {"a:1", last, up(byte((fleetSamples + 49) % 256))},
		{"b:1", 49, up(7)}, {"b:1", 50, figureOffList}, {"b:1", last, figureOffList},
		{"c:1", 9, figureOffList}, {"c:1", 10, up(9)}, {"c:1", last, Figure{4, 9, 1, 2, 3}},
	} {
		if got := rows[x.address][x.sample]; got != x.want {
			t.Errorf("sample %d of %s is %v, want %v", x.sample, x.address, got, x.want)
		}
	}
	want := fmt.Sprint([]GoneWorker{{"c:1", "c", "", start.Add(199 * FleetEvery), false},
		{"b:1", "b", "r", start.Add(99 * FleetEvery), true}})
	if got := fmt.Sprint(h.Gone); got != want {
		t.Errorf("left are %v, want %v", got, want)
	}
	for n := range 60 { // b's samples are all forgotten
		f.AddSample(start.Add(time.Duration(fleetSamples+50+n)*FleetEvery), []WorkerFigure{{"a:1", "a", "r", up(1)}})
	}
	if h := f.History(); len(h.Rows) != 2 || len(h.Gone) != 1 {
		t.Errorf("%d rows and %v remain", len(h.Rows), h.Gone)
	}
}

// With very many workers the rows are percents, and the memory stays bounded although all workers come and go.
func TestFleetOfMany(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var f Fleet
	workers := make([]WorkerFigure, 20_000)
	before := heap()
	for n := range 20 {
		for i := range workers {
			workers[i] = WorkerFigure{Address: fmt.Sprint(n/5, "-", i), Figure: Figure{stateUp, byte(i / 100), 0, 0, 0}}
			if i >= 19_000 {
				workers[i].Figure[0] = 4
			}
		}
		f.AddSample(start.Add(time.Duration(n)*FleetEvery), workers)
	}
	h := f.History()
	if len(h.Rows) != FleetPercents || len(h.Gone) != maxGone {
		t.Fatalf("%d rows, %d left", len(h.Rows), len(h.Gone))
	}
	for k, want := range map[int]Figure{0: {stateUp, 1}, 50: {stateUp, 101}, 94: {stateUp, 189}, 95: {offList, 255}} {
		if got := h.Rows[k].Figures[len(h.At)-1]; got != want {
			t.Errorf("at %d %% the figures are %v, want %v", k, got, want)
		}
	}
	workers = nil
	if used := heap() - before; used > 8<<20 {
		t.Errorf("%d bytes are used", used)
	}
	runtime.KeepAlive(&f)
}

// Slots in use add up over time and over frontends, and names beyond maxUses count as Other.
func TestUses(t *testing.T) {
	var many []SlotUse
	for i := range 40 {
		many = append(many, SlotUse{fmt.Sprint("t", i), int64(1000 + i)})
	}
	u := NewUses(8000, many, []SlotUse{{"f", 3000}})
	if n := len(u.Tenants); n != maxUses+1 || u.Tenants[0].Name != "t39" || u.Tenants[n-1].Name != Other {
		t.Fatalf("the tenants are %v", u.Tenants)
	}
	sum := func(list []SlotUse) (n int64) {
		for _, x := range list {
			n += x.Slots
		}
		return n
	}
	if got := sum(u.Tenants); got != 40*1000+39*20 {
		t.Errorf("together %d", got)
	}
	var w Uses
	w.Add(&u)
	idle := NewUses(8000, nil, []SlotUse{{"g", 1000}})
	w.Add(&idle)
	if m := w.Means(); m.Capacity != 8000 || sum(m.Tenants) < 20_300 ||
		fmt.Sprint(m.Functions) != "[{f 1500} {g 500}]" {
		t.Errorf("the means are %+v", m)
	}
	both := MergeUses([]Uses{NewUses(8000, nil, []SlotUse{{"f", 1000}}), {}, NewUses(7000, nil, []SlotUse{{"f", 500}})})
	if both.Samples != 1 || both.Capacity != 8000 || fmt.Sprint(both.Functions) != "[{f 1500}]" {
		t.Errorf("of two frontends %+v", both)
	}
}
