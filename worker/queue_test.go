package worker

import (
	"fmt"
	"testing"
	"time"

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

// Names of tenants come from outside: a queue that never runs empty must not remember them all.
func TestFairForgetsTenants(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	c := New(Config{Order: Fair})
	c.Step(now, LinkUp{Link: 1, Frontend: 1}, nil)
	for i := range probe.ResID(10_000) {
		c.Step(now, Received{1, probe.Reserve{First: i + 1, Count: 1, Tenant: fmt.Sprint(i), Demand: probe.Slot}}, nil)
		if i >= 5 {
			c.Step(now, Received{1, probe.Decline{Res: i - 4}}, nil)
		}
	}
	if n := len(c.queue.known); c.queue.len() != 4 || n > 2000 {
		t.Errorf("%d tenants are known, of which %d wait", n, c.queue.len())
	}
}
