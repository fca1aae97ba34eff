package estimate

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// failureFleet returns 200 workers in 10 racks. Without NoteLost no worker ever fails.
func failureFleet() *Fleet {
	f := NewFleet(Config{Lifetime: math.MaxInt64, Grudge: time.Hour, Outage: 30 * time.Second})
	for key := range int32(200) {
		f.Put(Server{Key: key, Name: fmt.Sprintf("w%d", key), Rack: fmt.Sprint(key / 20), Matrix: flatMatrix(0),
			Heard: t0})
	}
	return f
}

// chargedFailures returns the number of failures charged to a worker at now.
func chargedFailures(f *Fleet, key int32, now time.Time) float64 {
	return math.Round(f.FailureRate(key, now)*1000) / 1000 // with a grudge of an hour, one failure is one an hour
}

func TestFailureModel(t *testing.T) {
	const s = time.Second
	type event struct {
		after    time.Duration
		key      int32
		function string // function that failed; "": the worker was lost; "ok": a task succeeded
	}
	lost := func(after time.Duration, keys ...int32) []event {
		var evs []event
		for _, key := range keys {
			evs = append(evs, event{after: after, key: key})
		}
		return evs
	}
	span := func(from, to int32) (keys []int32) {
		for key := from; key < to; key++ {
			keys = append(keys, key)
		}
		return keys
	}
	for _, test := range []struct {
		name string
		evs  []event
		want map[int32]float64
	}{
		{"nothing", nil, map[int32]float64{0: 0}},
		{"a crash", lost(0, 3), map[int32]float64{3: 1, 4: 0}},
		{"crashes again and again", lost(0, 3, 3, 3), map[int32]float64{3: 3}},
		{"two of a rack may be chance", lost(0, 3, 4), map[int32]float64{3: 1, 4: 1}},
		{"three of a rack are one event", lost(0, 3, 4, 5), map[int32]float64{3: 0.333, 4: 0.333, 5: 0.333, 6: 0}},
		{"a whole rack restarts", append(lost(0, span(20, 30)...), lost(20*s, span(30, 40)...)...),
			map[int32]float64{20: 0.05, 39: 0.05, 40: 0}},
		{"three of a rack, but not together", append(lost(0, 3, 4), lost(31*s, 5)...),
			map[int32]float64{3: 0.991, 4: 0.991, 5: 1}},
		{"nine here and there may be chance", lost(0, 0, 20, 40, 60, 80, 100, 120, 140, 160),
			map[int32]float64{0: 1, 160: 1}},
		{"ten here and there are one event", lost(0, 0, 20, 40, 60, 80, 100, 120, 140, 160, 180),
			map[int32]float64{0: 0.1, 180: 0.1, 1: 0}},
		{"one of an outage then crashes by itself", append(lost(0, 3, 4, 5), lost(10*s, 3)...),
			map[int32]float64{3: 1.332, 4: 0.332}},
		{"a task's errors", []event{{0, 3, "f"}, {0, 3, "f"}, {0, 3, "f"}, {0, 3, "g"}, {0, 3, "f"}},
			map[int32]float64{3: 0}},
		{"everything fails there", []event{{0, 3, "f"}, {0, 3, "g"}, {0, 3, "h"}}, map[int32]float64{3: 1}},
		{"much fails there, but not all", []event{{0, 3, "f"}, {0, 3, "g"}, {0, 3, "ok"}, {0, 3, "h"}, {0, 3, "f"}},
			map[int32]float64{3: 0}},
		{"everything fails there, twice", []event{{0, 3, "f"}, {0, 3, "g"}, {0, 3, "h"}, {0, 3, "f"}, {0, 3, "g"},
			{0, 3, "h"}}, map[int32]float64{3: 2}},
		{"a failing worker is not an outage", append([]event{{0, 3, "f"}, {0, 3, "g"}, {0, 3, "h"}},
			lost(0, 3, 4, 5)...), map[int32]float64{3: 1.333, 4: 0.333}},
	} {
		f := failureFleet()
		now := t0
		for _, ev := range test.evs {
			now = t0.Add(ev.after)
			switch ev.function {
			case "":
				f.NoteLost(ev.key, now)
			default:
				f.NoteEnded(ev.key, ev.function, ev.function == "ok", now)
			}
		}
		for key, want := range test.want {
			if got := chargedFailures(f, key, now); math.Abs(got-want) > 0.002 {
				t.Errorf("%s: worker %d counts with %v failures, want %v", test.name, key, got, want)
			}
		}
	}
}

// A rack of two is an outage when both workers are lost. Two of a rack of three are not an outage. Workers without
// a rack are never an outage by rack.
func TestSmallRacks(t *testing.T) {
	f := NewFleet(Config{Lifetime: math.MaxInt64})
	racks := []string{"a", "a", "b", "", "", "", "c", "c", "c"}
	put := func() {
		for key, rack := range racks {
			f.Put(Server{Key: int32(key), Name: fmt.Sprint(key), Rack: rack, Matrix: flatMatrix(0), Heard: t0})
		}
	}
	put()
	for key := range int32(8) {
		f.NoteLost(key, t0)
		f.Remove(key) // the rack gets smaller all the time
	}
	put()
	for key, want := range []float64{0.5, 0.5, 1, 1, 1, 1, 1, 1, 0} {
		if got := chargedFailures(f, int32(key), t0); got != want {
			t.Errorf("worker %d counts with %v failures after it came back, want %v", key, got, want)
		}
	}
}

func TestFailuresFade(t *testing.T) {
	f := failureFleet()
	f.NoteLost(7, t0)
	for _, test := range []struct {
		after time.Duration
		want  float64
	}{{-time.Hour, 1}, {0, 1}, {time.Hour, 0.368}, {24 * time.Hour, 0}} {
		if got := chargedFailures(f, 7, t0.Add(test.after)); got != test.want {
			t.Errorf("%v after: %v failures, want %v", test.after, got, test.want)
		}
	}
	if f.FailureRate(999, t0) != 0 {
		t.Error("an unknown worker has a failure rate")
	}
}

func TestSurvives(t *testing.T) {
	f := NewFleet(Config{Lifetime: time.Hour, Grudge: time.Hour})
	f.Put(Server{Key: 0, Name: "w", Matrix: flatMatrix(0), Heard: t0})
	row := f.rowOf(0)
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-4 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	near("an instant", f.survivalChance(row, t0, 0, 0), 1)
	near("its mean lifetime", f.survivalChance(row, t0, time.Hour, 0), math.Exp(-1))
	near("a tenth of a second", f.survivalChance(row, t0, 100*time.Millisecond, 0), 1)
	f.NoteLost(0, t0)
	near("its mean lifetime after a crash", f.survivalChance(row, t0, time.Hour, 0), math.Exp(-2))

	f = NewFleet(Config{Lifetime: math.MaxInt64})
	f.Put(Server{Key: 0, Name: "w", Matrix: flatMatrix(0), Heard: t0, Maintenance: t0.Add(100 * time.Second)})
	row = f.rowOf(0)
	near("long before the maintenance", f.survivalChance(row, t0, 10*time.Second, 0), 1)
	near("until it", f.survivalChance(row, t0, 100*time.Second, 0), 0.5)
	near("a standard deviation before", f.survivalChance(row, t0, 80*time.Second, 0), 0.8413)
	near("a larger deviation before", f.survivalChance(row, t0, 80*time.Second, 40*time.Second), 0.6915)
	near("long after", f.survivalChance(row, t0, time.Hour, 0), 0)
	near("in the maintenance", f.survivalChance(row, t0.Add(100*time.Second), 0, 0), 0)
	near("nothing to run", f.survivalChance(row, t0, 0, 0), 1)
}

// The memory for removed workers is bounded.
func TestFailureHistoriesAreBounded(t *testing.T) {
	f := NewFleet(Config{})
	for i := range maxHistories + 100 {
		f.Put(Server{Key: 0, Name: fmt.Sprint(i), Rack: fmt.Sprint(i), Matrix: flatMatrix(0), Heard: t0})
		f.NoteLost(0, t0.Add(time.Duration(i)*time.Second))
		f.Remove(0)
	}
	if n := len(f.failures.byName); n > maxHistories+1 {
		t.Errorf("%d records", n)
	}
	if n := len(f.failures.racks); n > maxHistories+1 {
		t.Errorf("outages of %d racks", n)
	}
}
