package worker

import (
	"fmt"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/phoebe-sched/phoebe/probe"
)

func TestParseOrder(t *testing.T) {
	for order := range Order(len(orderNames)) {
		if got, err := ParseOrder(order.String()); got != order || err != nil {
			t.Errorf("ParseOrder(%q) = %v, %v", order, got, err)
		}
	}
	if _, err := ParseOrder("lifo"); err == nil {
		t.Error("lifo is no order")
	}
}

// Names of tenants come from outside. A queue that is never empty must not remember all names. But a tenant in
// debt cannot get rid of its debt by letting other tenants pass.
func TestFairForgetsTenants(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	c := New(Config{Order: Fair, Functions: []string{"f"}})
	c.Step(now, LinkUp{Link: 1, Frontend: 1}, nil)
	ride := probe.Launch{Attempt: probe.AttemptID{Frontend: 1, Seq: 1}, Function: "f"}
	c.Step(now, Received{1, probe.Reserve{
		First: 1, Count: 1, Tenant: "debtor", Demand: probe.Slot, Launches: []probe.Launch{ride},
	}}, nil)
	for i := range probe.ResID(10_000) {
		c.Step(now, Received{1, probe.Reserve{First: i + 2, Count: 1, Tenant: fmt.Sprint(i), Demand: probe.Slot}},
			nil)
		switch {
		case i == 4:
			now = now.Add(time.Minute)
			c.Step(now, &Exited{Attempt: ride.Attempt, Run: time.Minute}, nil)
		case i > 4:
			c.Step(now, Received{1, probe.Decline{Res: i - 3}}, nil)
		}
	}
	if owes := c.queue.ensureTenant("debtor").AmountOwed(); owes < float64(time.Minute)*float64(probe.Slot.CPU) {
		t.Errorf("the debtor owes %v millicore nanoseconds", owes)
	}
	if n := len(c.queue.tenants); c.queue.len() != 4 || n > 2000 {
		t.Errorf("%d tenants are known, of which %d wait", n, c.queue.len())
	}
}

// Plans keep no pointer to a dropped place or its payload.
func TestPlansKeepNothing(t *testing.T) {
	for order := range Order(len(orderNames)) {
		now := time.Unix(1_000_000, 0)
		c := New(Config{Order: order, Capacity: size(4), Functions: []string{"f"}, StarvationBound: time.Minute})
		res, gone := probe.ResID(0), []weak.Pointer[place]{}
		queue := func(tenant string) {
			res++
			c.Step(now, Received{1, probe.Enqueue{Res: res, Tenant: tenant, Demand: size(2), Launch: probe.Launch{
				Attempt: probe.AttemptID{Frontend: 1, Seq: uint64(res)}, Function: "f", Estimate: time.Second,
			}}}, nil)
			gone = append(gone, weak.Make(c.linksByFrontend[1].places[res]))
		}
		c.Step(now, LinkUp{Link: 1, Frontend: 1}, nil)
		c.free = room{} // nothing starts
		for i := range 100 {
			now = now.Add(time.Second) // Shortest: plans begin with starving places
			queue("t")
			queue(fmt.Sprint(i))
			switch i {
			case 10: // a ride-along task looks for a gap
				c.free = c.capacity
				c.seekGap(roomFor(size(1), false), now)
				c.free = room{}
			case 60: // the heaps grow after the last plan
				c.Matrix(now)
			}
		}
		c.Step(now, Received{1, probe.Cancel{First: 1, Count: uint32(res)}}, nil)
		if len(gone) != 200 || c.queue.len() > 0 {
			t.Fatalf("%v: %d places, %d left", order, len(gone), c.queue.len())
		}
		runtime.GC()
		kept := 0
		for _, p := range gone {
			if p.Value() != nil {
				kept++
			}
		}
		if kept > 0 {
			t.Errorf("%v: %d of %d places that are gone are kept", order, kept, len(gone))
		}
		runtime.KeepAlive(c)
	}
}
