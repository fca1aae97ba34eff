package frontend

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/probe"
)

// This frontend's part of a tenant's maximum stays too small for any task. After patience the tenant's tasks run
// nevertheless, one at a time.
func TestHeldTaskRunsInTheEnd(t *testing.T) {
	c := New(Config{ID: 1}, rand.New(rand.NewPCG(1, 2)))
	now := time.Unix(1000, 0)
	step := func(ev Event) {
		t.Helper()
		c.Step(now, ev, nil)
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
	}
	step(WorkerUp{0, probe.Welcome{
		Worker: "w", Host: "h", Incarnation: 1, Functions: []string{"f"},
		Capacity: probe.Demand{CPU: 9 * probe.Slot.CPU, Mem: 9 * probe.Slot.Mem},
	}})
	step(Terms{tenants.New(1, nil, []tenants.Entry{{Path: "a", Tokens: 1, Max: 1}})})
	taken := Others{Self: "f0", Members: []string{"f1"}, Needs: map[string][]tenants.Need{
		"f1": {{
			Path: "a", Use: tenants.Slot, Want: 9 * tenants.Slot, Most: tenants.Slot,
			Quota: tenants.Quota{Regular: tenants.Slot, All: tenants.Slot},
		}},
	}}
	step(taken)
	j := jobWith("x", make([]Task, 3)...)
	j.Tenant = "a"
	step(Submit{j})
	for seconds := 0; c.tenants["a"].used.atLevel[levelAllowed] == 0; seconds++ {
		if now = now.Add(time.Second); seconds > 60 {
			t.Fatal("held for more than a minute")
		}
		step(taken)
		step(Wake{})
	}
	for range 100 {
		now = now.Add(time.Second)
		step(taken)
	}
	if got := c.tenants["a"].used.atLevel[levelAllowed]; got != tenants.Slot {
		t.Errorf("%d thousandths of a slot may run, want the cost of one task", got)
	}
}
