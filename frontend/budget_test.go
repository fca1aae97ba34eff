package frontend

import (
	"math/rand/v2"
	"strings"
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

// A job whose tasks take turns in their tenant's maximum waits for the maximum, not for the sampling. Beside another
// frontend without jobs of the tenant, the first task starts at once.
func TestWaitForTheMaximum(t *testing.T) {
	const run = 300 * time.Millisecond
	f := newFleet(t, 1, 4, Config{})
	f.step(Terms{tenants.New(1, nil, []tenants.Entry{{Path: "a", Tokens: 1, Max: 1}})})
	for _, other := range []string{"f1", "f9"} { // before and behind this frontend in the rotation
		f.step(Others{Self: "f5", Members: []string{other}})
		begin := f.now
		j := jobWith(other, make([]Task, 3)...)
		j.Tenant = "a"
		acts := f.step(Submit{j})
		for n := range 3 {
			ride := probe.AttemptID{}
			for _, a := range acts {
				if s, ok := a.(Send); ok {
					if m, ok := s.Msg.(probe.Reserve); ok && len(m.Launches) > 0 {
						ride = m.Launches[0].Attempt
					}
				}
			}
			if ride == (probe.AttemptID{}) {
				t.Fatalf("beside %s: task %d does not start after %v: %v", other, n, f.now.Sub(begin), acts)
			}
			f.now = f.now.Add(run)
			acts = f.step(frameFrom(0, &probe.Finished{Attempt: ride, Status: probe.Succeeded, Run: run,
				Load: probe.Load{Free: f.size}}))
			if p := doneIn(acts).Outcome.Phases; p.Held != time.Duration(n)*run || p.Sampled != p.Held {
				t.Errorf("beside %s: task %d, held for %v, has the phases %+v", other, n, time.Duration(n)*run, p)
			}
		}
		if ds := f.core.Explain(j.ID, 2, f.now); len(ds) != 1 ||
			!strings.Contains(ds[0].String(), "held for up to 600ms") {
			t.Errorf("beside %s: after the end of the job, its wait is explained as %v", other, ds)
		}
	}
}

// A look at the status of a tenant without jobs takes nothing from a tenant that comes before the next report.
func TestStatusGivesNoQuota(t *testing.T) {
	f := newFleet(t, 1, 4, Config{})
	f.step(Terms{tenants.New(1, nil, []tenants.Entry{{Path: "a", Tokens: 1, Max: 3}})})
	if list := f.core.Tenants(9, f.now, "a/old"); len(list) != 1 || list[0].Quota != (tenants.Quota{}) {
		t.Errorf("without jobs: %+v", list)
	}
	j := jobWith("x", make([]Task, 4)...)
	j.Tenant = "a/new"
	f.step(Submit{j})
	if got := f.core.tenants["a/new"].used.atLevel[levelAllowed]; got != 3*tenants.Slot {
		t.Errorf("%d thousandths of a slot may run after a look, want the maximum", got)
	}
	for _, s := range f.core.Tenants(9, f.now) {
		if s.Path == "a/new" && s.Quota.All != 3*tenants.Slot {
			t.Errorf("with a job: %+v", s)
		}
	}
}
