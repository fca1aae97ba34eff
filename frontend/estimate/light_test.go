package estimate

import (
	"fmt"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// The drawn workers are among the lightest for the size of the task, each about as often.
func TestLight(t *testing.T) {
	f := NewFleet(Config{})
	for key := range int32(500) {
		m := flatMatrix(time.Duration(1+key) * time.Second)
		if key >= 480 { // room for one slot, but not for four
			m = flatMatrix(time.Hour)
			for i := range m.Cells {
				for j := range m.Cells {
					if probe.MatrixStep(room.CPU, max(i, j)) <= probe.Slot.CPU {
						m.Cells[i][j] = 0
					}
				}
			}
		}
		f.Put(Server{Key: key, Name: fmt.Sprint(key), Matrix: m, Heard: t0})
	}
	rng := newRand(1)
	count := map[int32]int{}
	for range 2000 {
		count[f.lights[lightSize(probe.Slot)].drawWorker(20, rng)]++
	}
	if len(count) != 20 {
		t.Errorf("%d workers were drawn, want 20", len(count))
	}
	for key, n := range count {
		if key < 480 || n < 50 || n > 200 {
			t.Errorf("worker %d was drawn %d times of 2000", key, n)
		}
	}
	// The 20th lightest waits for 20 s, the last of its bucket for 22.9 s.
	for range 2000 {
		if key := f.lights[lightSize(scaleDemand(probe.Slot, 4))].drawWorker(20, rng); key > 22 {
			t.Fatalf("worker %d was drawn for four slots", key)
		}
	}
	for _, test := range []struct {
		slots int32
		want  int
	}{{0, 0}, {1, 0}, {2, 1}, {4, 1}, {5, 2}, {64, 3}, {1000, 3}} {
		if got := lightSize(scaleDemand(probe.Slot, test.slots)); got != test.want {
			t.Errorf("%d slots: size %d, want %d", test.slots, got, test.want)
		}
	}
}

// Short tasks find the workers with room closed to long tasks.
func TestLightForShort(t *testing.T) {
	f := NewFleet(Config{})
	for key := range int32(500) {
		m := flatMatrix(time.Duration(1+key) * time.Second)
		if key >= 480 {
			m.Short = [probe.MatrixSide]probe.Wait{}
		}
		f.Put(Server{Key: key, Name: fmt.Sprint(key), Matrix: m, Heard: t0})
	}
	for _, test := range []struct {
		work  time.Duration
		short bool
	}{{time.Millisecond, true}, {time.Minute, false}} {
		d := f.Decide(&Task{Demand: probe.Slot, Work: Work{Run: test.work}, LongFrom: time.Second}, t0, newRand(1))
		if c := d.Choice(); c == nil || (c.W == 0) != test.short || (c.Worker >= 480) != test.short {
			t.Errorf("a task of %v: %v", test.work, &d)
		}
	}
}

// Buckets ascend with the wait, and no bucket is wider than a quarter.
func TestBuckets(t *testing.T) {
	first := probe.Wait(0)
	for w := probe.Wait(1); w < 1<<20; w++ {
		switch a, b := bucketOf(w-1), bucketOf(w); {
		case b < a:
			t.Fatalf("wait %d in bucket %d, %d in %d", w-1, a, w, b)
		case b > a:
			first = w
		case float64(w) > 1.25*float64(first):
			t.Fatalf("waits %d and %d in one bucket", first, w)
		}
	}
	if b := bucketOf(probe.NeverFits); b != 131 {
		t.Errorf("the longest wait is in bucket %d", b)
	}
}

// For more tasks at a time, workers are drawn from a larger set. If the lightest workers are too small, all are
// considered.
func TestLightWidth(t *testing.T) {
	f := NewFleet(Config{})
	wait := 0.01
	for key := range int32(100) {
		f.Put(Server{Key: key, Name: fmt.Sprint(key), Matrix: flatMatrix(toDuration(wait)), Heard: t0})
		wait *= 1.25 // at most two workers share a bucket
	}
	drawn := func(batch int) int {
		keys := map[int32]bool{}
		rng := newRand(1)
		for range 500 {
			f.collectCandidates(&Task{Demand: probe.Slot}, batch, rng)
			for _, at := range f.candidates {
				keys[at.row.Key] = true
			}
		}
		return len(keys)
	}
	if one, many := drawn(1), drawn(50); one > lightWidth+3 || many < 100 {
		t.Errorf("%d workers were drawn for one task at a time, %d for 50", one, many)
	}

	big := *flatMatrix(100 * time.Hour)
	big.Capacity = scaleDemand(room, 2)
	f.Put(Server{Key: 100, Name: "big", Matrix: &big, Heard: t0})
	f.collectCandidates(&Task{Demand: big.Capacity}, 1, newRand(1))
	if len(f.candidates) != 1 || f.candidates[0].row.Key != 100 {
		t.Errorf("for a task that fits one worker only, %d were found", len(f.candidates))
	}
}
