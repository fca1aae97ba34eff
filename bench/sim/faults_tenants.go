package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
)

// limitTenants draws what tenants may have, in half of the runs: no less than the largest task takes.
func (r *faultRun) limitTenants() {
	d := rand.New(rand.NewPCG(r.seed, 't'))
	if chance(d, 0.5) {
		return
	}
	r.stats.Seen["runs with a tenants file"]++
	r.terms = tenants.New(1, nil, []tenants.Entry{
		{Path: "a", Tokens: 1 + d.IntN(4), Max: among(d, 0, 2, 5)}, {Path: "b", Tokens: 1 + d.IntN(4), Max: among(d, 0, 3, 9)},
		{Path: "b/c", Tokens: 1 + d.IntN(3), Max: among(d, 0, 2)},
	})
}

// share lets frontends tell each other what they need of tenants, ten times a second. Some of that gets lost, and for a while
// some of them are cut off from the others.
func (r *faultRun) share(told [][]tenants.Need, d *rand.Rand) {
	name := func(i int) string { return fmt.Sprint("f", i) }
	cut := r.now < r.horizon && chance(d, 0.2)
	for i, f := range r.frontends {
		if f.down || f.hung != nil {
			continue
		}
		ev := frontend.Others{Self: name(i), Needs: map[string][]tenants.Need{}}
		for k, g := range r.frontends {
			if k != i && !g.down && !(cut && (i == 0 || k == 0)) {
				ev.Members = append(ev.Members, name(k))
				ev.Needs[name(k)] = told[k]
			}
		}
		if err := r.stepFrontend(f, ev); err != nil {
			r.fail("%w", err)
			return
		}
		if r.now > r.horizon || chance(d, 0.9) {
			told[i] = f.core.(*frontend.Core).Needs()
		}
	}
	r.later(r.now+100*time.Millisecond, func() { r.share(told, d) })
}
