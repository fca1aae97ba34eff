package frontend

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/phoebe-sched/phoebe/frontend/tenants"
)

// With any number of names, few are kept. The kept names include the tenants with the most refused jobs, with
// exact counts.
func TestRefusedAreBounded(t *testing.T) {
	c := refusals{byTenant: map[string]*tenantRefusals{}}
	rng := rand.New(rand.NewPCG(1, 2))
	busy, busiest := 0, 0
	for i := range 200 * maxRefused {
		switch rng.IntN(100) {
		case 0:
			c.addRefusal("busy")
			busy++
		case 1, 2:
			c.addRefusal("busiest")
			busiest++
		default:
			c.addRefusal(fmt.Sprint("made up ", i))
		}
	}
	if len(c.byTenant) != maxRefused || c.fewest.Len() != maxRefused {
		t.Errorf("%d tenants are kept, and %d are ordered", len(c.byTenant), c.fewest.Len())
	}
	for name, n := range map[string]int{"busy": busy, "busiest": busiest} { // both names came while there was room
		if got := c.countFor(name); got != n {
			t.Errorf("%s: %d are counted, %d were refused", name, got, n)
		}
	}
	for i := range 400 { // without the inherited rank, "late" would lose its place to each new name
		c.addRefusal("late")
		c.addRefusal(fmt.Sprint("a ", i))
		c.addRefusal(fmt.Sprint("b ", i))
	}
	if got := c.countFor("late"); got != 400 {
		t.Errorf("late: %d are counted, want 400", got)
	}
	for name, r := range c.byTenant {
		if r.tenant != name || r.n < 1 {
			t.Errorf("%s is %+v", name, r)
		}
	}
}

// A tenant is listed even with all jobs refused, and even after the end of its last job.
func TestRefusedOutliveJobs(t *testing.T) {
	f := newFleet(t, 1, 1, Config{})
	f.step(Terms{tenants.New(1, nil, []tenants.Entry{{Path: "never", Queue: 1}, {Path: "once", Queue: 1}})})
	for _, name := range []string{"never", "never", "once"} {
		j := jobWith(name, Task{}, Task{})
		j.Tenant = name
		f.step(Submit{j})
	}
	j := jobWith("x", Task{})
	j.Tenant = "once"
	f.step(Submit{j})
	for _, underWay := range []bool{true, false} {
		got := fmt.Sprint()
		for _, s := range f.core.Tenants(9, f.now) {
			got += fmt.Sprintf("%s %d ", s.Path, s.Refused)
		}
		if want := map[bool]string{true: "once 1 never 2 ", false: "never 2 once 1 "}[underWay]; got != want {
			t.Errorf("with a job under way %v: %q, want %q", underWay, got, want)
		}
		f.step(Cancel{Job: j.ID})
	}
}
