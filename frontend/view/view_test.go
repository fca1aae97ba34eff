package view

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/purity"
)

func TestPure(t *testing.T) { purity.Check(t, ".") }

// A sample is the beginning of a shuffle: distinct workers, all equally likely.
func TestDraw(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	ws := make([]*Worker, 5)
	for i := range ws {
		ws[i] = &Worker{Key: Key(i)}
	}
	const n = 50_000
	hits := make([]int, len(ws))
	for range n {
		seen := map[Key]bool{}
		for i := range 2 {
			w := drawWorker(ws, i, rng)
			if ws[i] != w || seen[w.Key] {
				t.Fatalf("drew %d, seen %v", w.Key, seen)
			}
			seen[w.Key] = true
			hits[w.Key]++
		}
	}
	for key, h := range hits {
		if share := float64(h) / n / 2 * float64(len(ws)); share < 0.97 || share > 1.03 {
			t.Errorf("worker %d was drawn %.3f times as often as the mean", key, share)
		}
	}
}

func TestConstraint(t *testing.T) {
	labels := []string{"zone=a", "gpu", "rack=7=b"}
	for _, test := range []struct {
		constraint Constraint
		valid, met bool
	}{
		{Constraint{}, true, true},
		{Constraint{Labels: []string{"zone=a"}}, true, true},
		{Constraint{Labels: []string{"zone=b"}}, true, false},
		{Constraint{Labels: []string{"zone"}}, true, true},
		{Constraint{Labels: []string{"gpu"}}, true, true},
		{Constraint{Labels: []string{"gp"}}, true, false},
		{Constraint{Labels: []string{"gpu=1"}}, true, false},
		{Constraint{Labels: []string{"zone!=a"}}, true, false},
		{Constraint{Labels: []string{"zone!=b"}}, true, true},
		{Constraint{Labels: []string{"disk!=ssd"}}, true, true},
		{Constraint{Labels: []string{"!zone"}}, true, false},
		{Constraint{Labels: []string{"!gpu"}}, true, false},
		{Constraint{Labels: []string{"!disk"}}, true, true},
		{Constraint{Labels: []string{"rack=7=b"}}, true, true},
		{Constraint{Labels: []string{"zone=a", "!gpu"}}, true, false},
		{Constraint{Labels: []string{"zone=a", "gpu", "!disk"}}, true, true},
		{Constraint{Hosts: []string{"h1"}}, true, true},
		{Constraint{Hosts: []string{"h2", "w1"}}, true, true},
		{Constraint{Hosts: []string{"h2"}}, true, false},
		{Constraint{Labels: []string{"zone=b"}, Hosts: []string{"h1"}}, true, false},
		{Constraint{Labels: []string{""}}, false, false},
		{Constraint{Labels: []string{"!"}}, false, false},
		{Constraint{Labels: []string{"=a"}}, false, false},
		{Constraint{Labels: []string{"!=a"}}, false, false},
		{Constraint{Labels: []string{"!zone=a"}}, false, false},
	} {
		if err := test.constraint.Validate(); (err == nil) != test.valid {
			t.Errorf("%v: valid is %t: %v", test.constraint, err == nil, err)
		}
		if !test.valid {
			continue
		}
		if met := test.constraint.Matches(labels, "h1", "w1"); met != test.met {
			t.Errorf("%v: met is %t", test.constraint, met)
		}
	}
}

// Runs are steady if they differ by at most an eighth, or by less than a round trip.
func TestSteady(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct{ run, other, trip, want time.Duration }{
		{run: 100 * ms, other: 100 * ms, want: 100 * ms},
		{run: 100 * ms, other: 110 * ms, want: 100 * ms},
		{run: 100 * ms, other: 120 * ms},
		{run: 1 * ms, other: 3 * ms, trip: 1 * ms},
		{run: 1 * ms, other: 3 * ms, trip: 3 * ms, want: 1 * ms},
	} {
		var r Runs
		for range 8 {
			r.NoteRun(test.other)
			r.NoteRun(test.run)
		}
		if got := r.Steady(test.trip); (got > 0) != (test.want > 0) || got < test.want {
			t.Errorf("%v and %v, a round trip takes %v: %v, want %v", test.run, test.other, test.trip, got, test.want)
		}
	}
}

// A message costs more on a busier machine, up to the limit of the measurement.
func TestPrice(t *testing.T) {
	v := New(estimate.Config{}.Defaults(), rand.New(rand.NewPCG(1, 1)))
	for share, want := range map[float64]time.Duration{0: 10, 0.5: 20, 0.75: 40, 1: 200, 1.5: 200} {
		v.NoteMessageCost(10*time.Microsecond, share)
		if got := v.Price().Round(time.Microsecond); got != want*time.Microsecond {
			t.Errorf("%v of the CPUs in use: %v, want %v", share, got, want*time.Microsecond)
		}
	}
}

// A worker that leaves counts as failed only if the leave is for announced maintenance.
func TestPastMaintenanceCounts(t *testing.T) {
	now := time.Unix(1000, 0)
	for away, want := range map[time.Duration]float64{0: 0, time.Hour: 0, 10 * time.Second: 1} {
		v := New(estimate.Config{}, nil)
		w := v.EnsureWorker(0)
		welcome := probe.Welcome{Worker: "w", Capacity: probe.Slot}
		v.NoteLinked(w, welcome, now)
		row := *v.fleet.Get(0)
		if away > 0 {
			row.Maintenance = now.Add(away)
		}
		v.fleet.Put(row)
		v.NoteDraining(w)
		v.NoteLinkLost(w, now)
		v.NoteGone(w, now)
		v.NoteLinked(w, welcome, now)
		if got := v.fleet.Failures(0, now); got != want {
			t.Errorf("a worker that left %v before its maintenance has %v failures, want %v", away, got, want)
		}
	}
}
