package estimate

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
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
	return math.Round(f.Failures(key, now)*1000) / 1000
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
	if f.Failures(999, t0) != 0 {
		t.Error("an unknown worker has failed")
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
	near("an instant", f.survivalChance(row, t0, 0, 0, 0), 1)
	near("its mean lifetime", f.survivalChance(row, t0, time.Hour, time.Hour, 0), math.Exp(-1))
	near("a tenth of a second", f.survivalChance(row, t0, 100*time.Millisecond, time.Second, 0), 1)
	near("a long wait, and a short run", f.survivalChance(row, t0, time.Second, time.Hour, 0), 0.9997)

	f = NewFleet(Config{Lifetime: math.MaxInt64})
	f.Put(Server{Key: 0, Name: "w", Matrix: flatMatrix(0), Heard: t0, Maintenance: t0.Add(100 * time.Second)})
	row = f.rowOf(0)
	ends := func(after, spread time.Duration) float64 { return f.survivalChance(row, t0, after/2, after, spread) }
	near("long before the maintenance", ends(10*time.Second, 0), 1)
	near("until it", ends(100*time.Second, 0), 0.5)
	near("a standard deviation before", ends(80*time.Second, 0), 0.8413)
	near("a larger deviation before", ends(80*time.Second, 40*time.Second), 0.6915)
	near("long after", ends(time.Hour, 0), 0)
	near("in the maintenance", f.survivalChance(row, t0.Add(100*time.Second), 0, 0, 0), 0)
	near("nothing to run", ends(0, 0), 1)
	for until, due := range map[time.Duration]bool{60 * time.Second: false, 30 * time.Second: true, -time.Hour: true} {
		if f.IsDueAway(0, t0.Add(100*time.Second-until)) != due {
			t.Errorf("%v before the maintenance the worker is due: %t", until, !due)
		}
	}
}

// Four crashes within 15 s cost a worker most of its long tasks. The worker gets its share back as it survives: from
// then on, the cost falls all the time, to nearly nothing. Longer tasks keep away for longer.
func TestProbation(t *testing.T) {
	const s = time.Second
	f := NewFleet(Config{})
	f.Put(Server{Key: 0, Name: "w", Matrix: flatMatrix(0), Heard: t0})
	row := f.rowOf(0)
	cost := func(run, survived time.Duration) float64 {
		f.Put(Server{Key: 0, Name: "w", Matrix: flatMatrix(0), Heard: t0.Add(15*s + survived)})
		c := f.estimateAt(&Task{Demand: probe.Slot, Work: hintWork(run)}, row, t0.Add(15*s+survived))
		return float64(c.C)/float64(c.E) - 1
	}
	for i := range 4 {
		f.NoteLost(0, t0.Add(time.Duration(i)*5*s))
	}
	for _, test := range []struct {
		run, survived time.Duration
		least, most   float64
	}{
		{5 * s, 0, 0.3, 0.6}, {time.Minute, 0, 0.9, 1}, {5 * s, time.Minute, 0.1, 0.25},
		{5 * s, 10 * time.Minute, 0.01, 0.05},
		{5 * s, time.Hour, 0, 0.01}, {time.Hour, time.Hour, 0.4, 0.8}, {time.Hour, 12 * time.Hour, 0, 0.01},
	} {
		if got := cost(test.run, test.survived); got < test.least || got > test.most {
			t.Errorf("%v after four crashes, a task of %v costs %.3f of E more, want %v to %v", test.survived, test.run,
				got, test.least, test.most)
		}
	}
	for _, run := range []time.Duration{s, time.Minute, time.Hour} {
		last := 1.0
		for survived := s; survived < 100*time.Hour; survived += survived / 2 {
			now := cost(run, survived)
			if now > last || now < cost(run/2, survived) {
				t.Errorf("%v after four crashes, a task of %v costs %.3f more, before %.3f, and half the task %.3f",
					survived, run, now, last, cost(run/2, survived))
			}
			last = now
		}
	}
}

// A worker must survive the run of a task. A long wait before the run costs nothing, except before maintenance.
func TestSurvivalOfRun(t *testing.T) {
	for _, away := range []time.Duration{0, time.Minute} {
		f := NewFleet(Config{})
		s := Server{Key: 0, Name: "w", Matrix: flatMatrix(time.Hour), Heard: t0}
		if away > 0 {
			s.Maintenance = t0.Add(away)
		}
		f.Put(s)
		f.NoteLost(0, t0)
		c := f.estimateAt(&Task{Demand: probe.Slot, Work: hintWork(time.Second)}, f.rowOf(0), t0)
		want := 30.0 / 31
		if away > 0 {
			want = 0
		}
		if math.Abs(c.Psucc-want) > 1e-3 {
			t.Errorf("a run of a second after an hour, maintenance in %v: Psucc %.4f, want %.4f", away, c.Psucc, want)
		}
	}
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
