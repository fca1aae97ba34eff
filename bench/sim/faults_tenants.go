package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	workers "github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
)

// limitTenants draws limits of tenants in half of the runs. A limit is no less than the demand of the largest
// task.
func (r *faultRun) limitTenants() {
	d := rand.New(rand.NewPCG(r.seed, 't'))
	if drawChance(d, 0.5) {
		return
	}
	r.stats.Seen["runs with a tenants file"]++
	r.tenantsFile = tenants.New(1, nil, []tenants.Entry{
		{Path: "a", Tokens: 1 + d.IntN(4), Max: drawOne(d, 0, 2, 5)},
		{Path: "b", Tokens: 1 + d.IntN(4), Max: drawOne(d, 0, 3, 9)},
		{Path: "b/c", Tokens: 1 + d.IntN(3), Max: drawOne(d, 0, 2)},
	})
}

// strangerGeneration exceeds the generation of any job. A client of another tenant may send any number.
const strangerGeneration = 1 << 20

// claimAsStranger lets f claim a job at w for a client of another tenant, who knows the job's id. The claim takes
// nothing. An older frontend names no tenant in its claims: then only a guarded job is safe.
func (r *faultRun) claimAsStranger(f *frontendNode, w *workerNode, d *rand.Rand) {
	cn, j := connOf(f, w), drawOne(d, r.jobs...)
	if cn == nil || j.ended || !drawChance(d, 0.5) {
		return
	}
	m := probe.Claim{Job: j.id, Generation: strangerGeneration}
	if m.HasTenant = !j.spec.Guarded || drawChance(d, 0.5); m.HasTenant {
		m.Tenant = "stranger"
		r.stats.Faults["stranger claims a job"]++
	} else {
		r.stats.Faults["stranger claims a job at an older frontend"]++
	}
	if r.log != nil {
		r.log("a stranger lets f%d claim job %d at w%d: %+v", f.index, j.n, w.index, m)
	}
	r.sendToWorker(cn, m)
}

// heardNeeds holds the needs of tenants as heard by each frontend, and the connection of the first frontend with
// the others.
type heardNeeds struct {
	needs  [][][]tenants.Need // by hearing frontend, then by the frontend heard
	cutFor int                // exchanges missed between the first frontend and the others; 0: connected
}

// silentAfter and goneAfter are the missed exchanges until the silence is noticed, and until gossip gives a
// frontend up.
const silentAfter, goneAfter = 3, 6

// exchangeNeeds lets frontends exchange their needs of tenants ten times a second. Some messages get lost, and
// for a while the first frontend is cut off from the others.
func (r *faultRun) exchangeNeeds(heard *heardNeeds, d *rand.Rand) {
	name := func(i int) string { return fmt.Sprint("f", i) }
	switch {
	case r.now >= r.faultsEnd, heard.cutFor > 0 && drawChance(d, 0.1):
		heard.cutFor = 0
	case heard.cutFor > 0, drawChance(d, 0.05):
		heard.cutFor++
	}
	for i, f := range r.frontends {
		if f.down || f.hung != nil {
			continue
		}
		ev := frontend.Others{Self: name(i), Needs: map[string][]tenants.Need{}}
		for k, g := range r.frontends {
			apart := i == 0 || k == 0
			if k == i || g.down {
				continue
			}
			if apart && heard.cutFor >= silentAfter {
				ev.Silent = append(ev.Silent, name(k))
			}
			if apart && heard.cutFor >= goneAfter {
				continue
			}
			ev.Members = append(ev.Members, name(k))
			ev.Needs[name(k)] = heard.needs[i][k]
		}
		if err := r.stepFrontend(f, ev); err != nil {
			r.failRun("%w", err)
			return
		}
		needs := f.core.(*frontend.Core).Needs()
		for k := range r.frontends {
			if cut := heard.cutFor > 0 && (i == 0 || k == 0); !cut && (r.now > r.faultsEnd || drawChance(d, 0.9)) {
				heard.needs[k][i] = needs
			}
		}
	}
	r.callAt(r.now+100*time.Millisecond, func() { r.exchangeNeeds(heard, d) })
}

// teachFrontend lets a frontend take what another frontend knows of run times.
func (c *cluster) teachFrontend(from, to *frontendNode) error {
	if from.down || to.down || from == to {
		return nil
	}
	return c.passLessons(to, workers.EncodeLessons(from.frontendCore().Lessons(c.timeNow()), rows.MaxLessons))
}

// passLessons gives a frontend the encoded lessons of another frontend.
func (c *cluster) passLessons(to *frontendNode, encoded []byte) error {
	lessons, err := workers.DecodeLessons(encoded)
	if err != nil {
		return err
	}
	return c.stepFrontend(to, frontend.Lessons{List: lessons})
}

// exchangeLessons lets frontends teach each other now and then.
func (r *faultRun) exchangeLessons(d *rand.Rand) {
	if from, to := drawOne(d, r.frontends...), drawOne(d, r.frontends...); from.hung == nil && to.hung == nil {
		if err := r.teachFrontend(from, to); err != nil {
			r.failRun("%w", err)
			return
		}
	}
	r.callAt(r.now+300*time.Millisecond, func() { r.exchangeLessons(d) })
}
