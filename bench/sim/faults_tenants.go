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

// told is what frontends have heard of each other's needs of tenants, and how the first of them stands with the others.
type told struct {
	by  [][][]tenants.Need // by who heard it, and of whom
	cut int                // for how many times nothing has passed between it and them; 0: all is well
}

// untilSilent and untilGone are how often one has told nothing when that is noticed, and when gossip gives it up.
const untilSilent, untilGone = 3, 6

// share lets frontends tell each other what they need of tenants, ten times a second. Some of that gets lost, and for a while
// the first is cut off from the others.
func (r *faultRun) share(told *told, d *rand.Rand) {
	name := func(i int) string { return fmt.Sprint("f", i) }
	switch {
	case r.now >= r.horizon, told.cut > 0 && chance(d, 0.1):
		told.cut = 0
	case told.cut > 0, chance(d, 0.05):
		told.cut++
	}
	for i, f := range r.frontends {
		if f.down || f.hung != nil {
			continue
		}
		ev := frontend.Others{Self: name(i), Needs: map[string][]tenants.Need{}}
		for k, g := range r.frontends {
			apart := i == 0 || k == 0
			if k == i || g.down || apart && told.cut >= untilGone {
				continue
			}
			ev.Members = append(ev.Members, name(k))
			ev.Needs[name(k)] = told.by[i][k]
			if apart && told.cut >= untilSilent {
				ev.Silent = append(ev.Silent, name(k))
			}
		}
		if err := r.stepFrontend(f, ev); err != nil {
			r.fail("%w", err)
			return
		}
		needs := f.core.(*frontend.Core).Needs()
		for k := range r.frontends {
			if cut := told.cut > 0 && (i == 0 || k == 0); !cut && (r.now > r.horizon || chance(d, 0.9)) {
				told.by[k][i] = needs
			}
		}
	}
	r.later(r.now+100*time.Millisecond, func() { r.share(told, d) })
}
