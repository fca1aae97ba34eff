package frontend

import (
	"cmp"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/place"
)

// planWants turns the wants left by an event into decisions. The order is: held tasks are released, free tokens
// go to debts, and jobs with wants get the places that their waiting tasks are worth.
func (c *planner) planWants(now time.Time, acts []Action) []Action {
	if len(c.tenantsHolding) > 0 {
		acts = c.releaseHeld(now, acts)
	}
	if len(c.debtors) > 0 {
		acts = c.settleDebts(now, acts)
	}
	if len(c.wantingJobs) > 0 {
		for _, j := range c.takeWantingJobs() {
			acts = c.planJob(j, j.takeWanting(), now, acts)
		}
	}
	if c.allWanting {
		c.allWanting = false
		for t := range c.hungry.tenants.All() {
			for j := range t.hungry.All() {
				acts = c.planJob(j, j.groups, now, acts)
			}
		}
	}
	return acts
}

// releaseHeld sends held tasks on to placement, as far as their tenants' maxima allow. While all tasks of a job are
// held, no worker reports that the client moved the job to another frontend, and the tasks could run twice. So
// workers confirm the job first, unless a worker did within confirmedFor (1 s). Until the workers answer, or
// ClaimFor (3 s) passes, the tenant's held tasks wait.
func (c *planner) releaseHeld(now time.Time, acts []Action) []Action {
	for _, tenant := range c.tenantsHolding {
		for tenant.held.Len() > 0 && c.fitsMaximum(tenant.held.Min()) {
			t := tenant.held.Min()
			if j := t.group.job; now.Sub(j.confirmedAt) >= confirmedFor {
				if len(j.confirmers) == 0 {
					acts = c.askToConfirm(j, c.pickOldWorkers(), now, acts)
				}
				if len(j.confirmers) > 0 { // there may be no worker to ask
					break
				}
			}
			c.startPlacing(t, now)
			c.wantPlaces(t.group)
		}
	}
	c.dropTenantsHoldingNone()
	return acts
}

// To confirm a job, the frontend asks at most maxOldWorkers of oldWorkerDraws workers drawn at random: the workers
// with the longest memory. A single worker could be lost. Both numbers were chosen, and not measured.
const oldWorkerDraws, maxOldWorkers = 16, 2

// pickOldWorkers returns the longest-linked of some workers drawn at random, at most maxOldWorkers.
func (c *planner) pickOldWorkers() []*worker {
	var ws []*worker
	for i := 0; i < oldWorkerDraws && len(c.workers) > 0; i++ {
		if w := c.workers[c.rand.IntN(len(c.workers))]; w != nil && w.Up() && !slices.Contains(ws, w) {
			ws = append(ws, w)
		}
	}
	slices.SortFunc(ws, func(a, b *worker) int {
		return cmp.Or(a.firstLinkAt.Compare(b.firstLinkAt), cmp.Compare(a.Key, b.Key))
	})
	return ws[:min(len(ws), maxOldWorkers)]
}

// planJob plans places for groups of a job.
func (c *planner) planJob(j *job, groups []*group, now time.Time, acts []Action) []Action {
	if j.ended {
		return acts
	}
	for _, g := range groups {
		acts = c.planGroup(g, now, acts)
	}
	c.refreshJob(j, now)
	return acts
}

// planGroup reserves the places that a group's waiting tasks are worth and that the group lacks. A group lacks
// places if it is new, lost places, or got tasks back. Policies that bind early ask for queue lengths, or draw
// workers, instead.
func (c *planner) planGroup(g *group, now time.Time, acts []Action) []Action {
	p := g.Policy
	switch {
	case g.queue.Len() == 0 || g.Set.Len() == 0:
		return acts
	case p.Binding == place.EarlyPerTask || p.Binding == place.EarlyBatch:
		return c.measureQueues(g, g.earlyRoom(), now, acts)
	case g.near != nil:
		return c.planNear(g.near, now, acts)
	}
	missing := g.renewProbeBudget()
	if p.Binding == EarlyRandom {
		missing = g.earlyRoom()
	}
	if missing > 0 {
		acts = c.commitPlaces(g, nil, c.sampler.PlacerFor(p).Place(c.makeWant(g, missing), now), now, acts)
	}
	if p.Binding == EarlyRandom && g.earlyRoom() > 0 {
		c.putOffJob(g.job, now, now) // the rest follows with the next Wake, which is due at once
	}
	return acts
}
