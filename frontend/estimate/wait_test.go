package estimate

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// Apollo, section 3.4, confidence: for an older matrix, the wait of a larger task is looked up.
func TestAgeSteps(t *testing.T) {
	const s = time.Second
	for _, test := range []struct {
		age  time.Duration
		want int
	}{{0, 0}, {2 * s, 0}, {2*s + 1, 1}, {4 * s, 1}, {4*s + 1, 2}, {8 * s, 2}, {8*s + 1, 3}, {30 * s, 4}, {time.Hour,
		7}, {1 << 62, 7}} {
		if got := ageSteps(test.age, 2*s); got != test.want {
			t.Errorf("age %v: %d steps, want %d", test.age, got, test.want)
		}
	}
}

func TestPessimistic(t *testing.T) {
	m := risingMatrix(time.Second)
	for _, test := range []struct {
		demand probe.Demand
		steps  int
		want   probe.Wait
	}{
		{probe.Slot, 0, probe.WaitOf(time.Second)},
		{probe.Slot, 2, probe.WaitOf(3 * time.Second)},
		{scaleDemand(probe.Slot, 7), 7, probe.WaitOf(8 * time.Second)},
		{scaleDemand(probe.Slot, 8), 1, probe.WaitOf(8 * time.Second)},
		{scaleDemand(probe.Slot, 9), 0, probe.NeverFits},
		{scaleDemand(probe.Slot, 9), 7, probe.NeverFits},
		{probe.Demand{CPU: 2000}, 1, probe.WaitOf(3 * time.Second)},
	} {
		if got := pessimisticWait(m, test.demand, false, test.steps); got != test.want {
			t.Errorf("%s, %d steps: %v, want %v", test.demand, test.steps, got, test.want)
		}
	}
}

func TestOccupied(t *testing.T) {
	idle := probe.WaitMatrix{Capacity: room}
	after := Occupied(idle, scaleDemand(probe.Slot, 3), false, 10*time.Second, 0)
	for n, want := range map[int32]time.Duration{1: 0, 4: 0, 6: 10 * time.Second, 8: 10 * time.Second} {
		if got := after.Wait(scaleDemand(probe.Slot, n)); got.Duration() != want {
			t.Errorf("beside three of eight slots, %d slots wait %v, want %v", n, got.Duration(), want)
		}
	}
	// On a worker with a single slot, the next task waits for both.
	one := probe.WaitMatrix{Capacity: probe.Slot}
	for i := range one.Cells {
		for j := range one.Cells[i] {
			one.Cells[i][j] = probe.WaitOf(5 * time.Second)
		}
	}
	after = Occupied(one, probe.Slot, false, 10*time.Second, 0)
	if got := after.Wait(probe.Slot); got.Duration() != 15*time.Second {
		t.Errorf("behind 5 s and 10 s: %v", got.Duration())
	}
	if after := Occupied(one, scaleDemand(probe.Slot, 2), false, time.Second, 0); after != one {
		t.Error("a task that never fits changed the matrix")
	}
}

// Room is freed by tasks of random sizes at random times. Three things hold for each matrix made by Occupied: no
// wait falls with size, no wait fell, and no wait is too short.
func TestOccupiedIsSafe(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var running []busySlots
		freeSlots := 8
		for freeSlots > 0 {
			n := 1 + rng.IntN(freeSlots)
			running = append(running, busySlots{n, time.Duration(rng.IntN(20)) * time.Second})
			freeSlots -= n
		}
		m := matrixOf(running)
		for range 3 {
			n := 1 + rng.IntN(8)
			d, run := scaleDemand(probe.Slot, int32(n)), time.Duration(1+rng.IntN(20))*time.Second
			start := m.Wait(d).Duration()
			after := Occupied(m, d, false, run, 0)
			for i := range probe.MatrixSide {
				for j := range probe.MatrixSide {
					if after.Cells[i][j] < m.Cells[i][j] || i > 0 && after.Cells[i][j] < after.Cells[i-1][j] ||
						j > 0 && after.Cells[i][j] < after.Cells[i][j-1] {
						t.Fatalf("seed %d: cell %d,%d of\n%v\nafter\n%v", seed, i, j, after.Cells, m.Cells)
					}
				}
			}
			m = after
			// From start on the task itself holds n slots; room before start is as before.
			for size := 1; size <= 8; size++ {
				at := m.Wait(scaleDemand(probe.Slot, int32(size))).Duration()
				used := size
				if at >= start && at < start+run {
					used += n
				}
				for _, b := range running {
					if b.until > at {
						used += b.slots
					}
				}
				if used > 8 {
					t.Fatalf("seed %d: a task of %d slots is promised %v, with %d in use; %d more from %v for %v; %v",
						seed, size, at, used, n, start, run, running)
				}
			}
			if start == 0 {
				running = append(running, busySlots{n, run})
			} else {
				break // the model of the test has no gaps
			}
		}
	}
}

// busySlots is a number of slots, of eight, taken for a while.
type busySlots struct {
	slots int
	until time.Duration
}

func matrixOf(running []busySlots) probe.WaitMatrix {
	m := probe.WaitMatrix{Capacity: room}
	for step := range probe.MatrixSide {
		at := time.Duration(0)
		for ; ; at += time.Second {
			used := slotsOf(step)
			for _, b := range running {
				if b.until > at {
					used += b.slots
				}
			}
			if used <= 8 {
				break
			}
		}
		for i := range step + 1 {
			m.Cells[step][i], m.Cells[i][step] = probe.WaitOf(at), probe.WaitOf(at)
		}
	}
	return m
}

// A task that is placed makes the next task of its tenant wait longer, and lets other tenants wait as before.
func TestOccupiedByTenant(t *testing.T) {
	room := scaleDemand(probe.Slot, 2)
	m := probe.WaitMatrix{Capacity: room}
	for i := range m.Cells {
		for j := range m.Cells[i] {
			m.Cells[i][j] = probe.WaitOf(17 * time.Second)
		}
	}
	m.Shares.Others = probe.ShareOf(probe.WaitOf(time.Second), probe.WaitOf(17*time.Second))
	m.Shares.Set(2, 0)
	wait := func(tenant probe.TenantCode) time.Duration {
		return tenantWait(&m, probe.Slot, false, tenant).Duration()
	}
	near := func(got, want time.Duration) bool { return got >= want && got <= want+want/10 }
	for n := range 3 {
		if want := time.Second + time.Duration(n)*2*time.Second; !near(wait(1), want) {
			t.Errorf("after %d tasks of 4s on 2 slots the tenant waits for %v, want %v", n, wait(1), want)
		}
		if other := wait(3); !near(other, time.Second) {
			t.Errorf("after %d tasks another tenant waits for %v", n, other)
		}
		m = Occupied(m, probe.Slot, false, 4*time.Second, 1)
	}
	if wait(2) < 17*time.Second {
		t.Errorf("the tenant with the most work waits for %v", wait(2))
	}
}
