package frontend

import (
	"cmp"
	"slices"
	"time"
)

// planWants gives the jobs that want something the places that their waiting tasks are worth.
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

// releaseHeld lets held tasks run, as far as their tenants may use what they take.
func (c *planner) releaseHeld(now time.Time, acts []Action) []Action {
	for _, tenant := range c.tenantsHolding {
		for tenant.held.Len() > 0 && c.fitsMaximum(tenant.held.Min()) {
			t := tenant.held.Min()
			if j := t.group.job; now.Sub(j.confirmedAt) >= confirmedFor {
				if j.answersDue == 0 {
					acts = c.askToConfirm(j, c.pickOldWorkers(), now, acts)
				}
				if j.answersDue > 0 {
					break
				}
			}
			c.startPlacing(t)
			c.wantPlaces(t.group)
		}
	}
	c.dropTenantsHoldingNone()
	return acts
}

// Of so many workers so many are asked whether a job is still here: those whose memory goes back furthest.
const oldWorkerDraws, maxOldWorkers = 16, 2

// pickOldWorkers are workers that have been there for long.
func (c *planner) pickOldWorkers() []*worker {
	var ws []*worker
	for i := 0; i < oldWorkerDraws && len(c.workers) > 0; i++ {
		if w := c.workers[c.rand.IntN(len(c.workers))]; w != nil && w.Up() && !slices.Contains(ws, w) {
			ws = append(ws, w)
		}
	}
	slices.SortFunc(ws, func(a, b *worker) int { return cmp.Or(a.firstLinkAt.Compare(b.firstLinkAt), cmp.Compare(a.Key, b.Key)) })
	return ws[:min(len(ws), maxOldWorkers)]
}

// planJob gives groups of a job the places that they want.
func (c *planner) planJob(j *job, groups []*group, now time.Time, acts []Action) []Action {
	if j.ended {
		return acts
	}
	for _, g := range groups {
		acts = c.planGroup(g, now, acts)
	}
	c.setJobTimer(j, now)
	return acts
}

// planGroup gives a group that has no places, lost some, or got tasks back, as many places as its waiting tasks are worth.
func (c *planner) planGroup(g *group, now time.Time, acts []Action) []Action {
	p := g.Policy
	switch {
	case g.queue.Len() == 0 || g.Set.Len() == 0:
		return acts
	case p.Binding == EarlyPerTask || p.Binding == EarlyBatch:
		return c.measureQueues(g, g.earlyRoom(), now, acts)
	case g.near != nil:
		return c.planNear(g.near, now, acts)
	}
	missing := g.missingProbes()
	if p.Binding == EarlyRandom {
		missing = g.earlyRoom()
	}
	if missing > 0 {
		acts = c.commitPlaces(g, nil, c.sampler.PlacerFor(p).Place(c.makeWant(g, missing), now), now, acts)
	}
	if p.Binding == EarlyRandom && g.earlyRoom() > 0 {
		c.putOffJob(g.job, now, now) // to the next step
	}
	return acts
}
