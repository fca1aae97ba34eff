package worker

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// enqueueLong returns a long task of a tenant, bound early.
func enqueueLong(n uint64, tenant string, priority int32, run time.Duration) Received {
	return Received{1, probe.Enqueue{
		Res: probe.ResID(n), Tenant: tenant, Priority: priority, Demand: probe.Slot, Long: true,
		Launch: probe.Launch{Attempt: probe.AttemptID{Frontend: 1, Seq: n}, Function: "f", Estimate: run},
	}}
}

// A worker knows the turn of a task before the task comes: a newcomer comes next in the order of the queue exactly when
// the place of the task does.
func TestNewcomersTurn(t *testing.T) {
	tenants := []string{"", "a", "a/x", "a/y", "b", "b/x/y", "c"}
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 11))
		order := []Order{Fair, Fair, FIFO, Priority}[seed%4]
		now := time.Unix(1_000_000, 0)
		c := New(Config{Order: order, Capacity: size(1 + rng.IntN(3)), Functions: []string{"f"},
			Weights: map[string]float64{"a": 2, "b": 3, "a/x": 2}})
		c.Step(now, LinkUp{Link: 1, Frontend: 1}, nil)
		var running []probe.AttemptID
		n := uint64(0)
		for range rng.IntN(40) {
			n++
			now = now.Add(time.Duration(rng.IntN(3000)) * time.Millisecond)
			for _, a := range c.Step(now, enqueueLong(n, tenants[rng.IntN(len(tenants))], int32(rng.IntN(3)),
				time.Duration(1+rng.IntN(9))*time.Second), nil) {
				if start, ok := a.(*Start); ok {
					running = append(running, start.Launch.Attempt)
				}
			}
			if len(running) > 0 && rng.IntN(3) == 0 {
				acts := c.Step(now, &Exited{Attempt: running[0], Run: time.Second}, nil)
				running = running[1:]
				for _, a := range acts {
					if start, ok := a.(*Start); ok {
						running = append(running, start.Launch.Attempt)
					}
				}
			}
		}
		tenant, priority := tenants[rng.IntN(len(tenants))], int32(rng.IntN(3))
		c.free = room{} // nothing starts
		now = now.Add(time.Second)
		c.Step(now, Received{1, probe.Ping{}}, nil)
		x := c.newForeseenTurn(tenant, priority, probe.Slot, true, 0)
		ahead, known := 0, false
		for p := range c.queue.inOrder(now) {
			if known = c.queue.comesNext(&x.newcomer, p); known {
				break
			}
			ahead++
		}
		c.Step(now, enqueueLong(n+1, tenant, priority, 5*time.Second), nil)
		want := 0
		for p := range c.queue.inOrder(now) {
			if p.res == probe.ResID(n+1) {
				break
			}
			want++
		}
		if ahead != want {
			t.Errorf("seed %d, %v: %d places are ahead of a newcomer of %q, and of its task %d", seed, order, ahead,
				tenant, want)
		}
	}
}

// A tenant that uses less than its part waits for a running task, not behind the queue of another tenant. The worker
// answers exactly for the task of a Probe.
func TestSharesOfWaits(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	c := New(Config{Capacity: size(2), Functions: []string{"f"}})
	c.Step(now, LinkUp{Link: 1, Frontend: 1}, nil)
	for n := range uint64(20) {
		c.Step(now, enqueueLong(n+1, "bully", 0, 2*time.Second), nil)
	}
	now = now.Add(time.Second)
	c.Step(now, Received{1, probe.Ping{}}, nil)
	waitFor := func(m probe.WaitMatrix, tenant string) time.Duration {
		return m.Shares.For(probe.CodeOf(tenant)).PartOf(m.Wait(probe.Slot)).Duration()
	}
	near := func(got, want time.Duration) bool { return got >= want && got <= want+want/20 }
	m := c.Matrix(now)
	if got := waitFor(m, "polite"); !near(got, time.Second) {
		t.Errorf("a polite tenant waits for %v, and the running tasks end in 1s", got)
	}
	if got := waitFor(m, "bully"); !near(got, 19*time.Second) {
		t.Errorf("the bully waits for %v, behind 18 tasks of 2s on 2 slots", got)
	}
	for i := range uint64(4) {
		c.Step(now, enqueueLong(100+i, "polite", 0, 2*time.Second), nil)
	}
	asker := &probe.Asker{Tenant: "polite", Demand: probe.Slot, Long: true}
	ask := func() probe.WaitMatrix {
		for _, a := range c.Step(now, Received{1, probe.Probe{Seq: 7, Matrix: true, Asker: asker}}, nil) {
			if s, ok := a.(*Send); ok {
				return *s.Msg.(probe.Load).Matrix
			}
		}
		return probe.WaitMatrix{}
	}
	late := waitFor(ask(), "polite")
	if asker.Priority = 1; late < 4*time.Second || late > 10*time.Second {
		t.Errorf("behind four own tasks a task waits for %v", late)
	}
	if got := waitFor(ask(), "polite"); !near(got, time.Second) {
		t.Errorf("a task of high priority waits for %v behind four own tasks", got)
	}
	if got := waitFor(c.Matrix(now), "another"); !near(got, time.Second) {
		t.Errorf("a third tenant waits for %v", got)
	}
}
