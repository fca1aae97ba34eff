package frontend

import (
	"cmp"
	"slices"
	"time"
)

// plan gives the jobs that want something the places that their waiting tasks are worth.
func (c *planner) plan(now time.Time, acts []Action) []Action {
	if len(c.holding) > 0 {
		acts = c.letGo(now, acts)
	}
	if len(c.debtors) > 0 {
		acts = c.settleDebts(now, acts)
	}
	if len(c.wants) > 0 {
		for _, j := range c.wanting() {
			acts = c.cover(j, j.taken(), now, acts)
		}
	}
	if c.wantAll {
		c.wantAll = false
		for t := range c.hungry.all.All() {
			for j := range t.hungry.All() {
				acts = c.cover(j, j.groups, now, acts)
			}
		}
	}
	return acts
}

// letGo lets held tasks run, as far as their tenants may use what they take.
func (c *planner) letGo(now time.Time, acts []Action) []Action {
	for _, of := range c.holding {
		for of.held.Len() > 0 && c.fits(of.held.Min()) {
			t := of.held.Min()
			if j := t.group.job; now.Sub(j.vouchedAt) >= vouchFor {
				if j.vouchers == 0 {
					acts = c.vouch(j, c.elders(), now, acts)
				}
				if j.vouchers > 0 {
					break
				}
			}
			c.run(t)
			c.want(t.group)
		}
	}
	c.holdOn()
	return acts
}

// Of so many workers so many are asked whether a job is still here: those whose memory goes back furthest.
const eldersOf, maxElders = 16, 2

// elders are workers that have been there for long.
func (c *planner) elders() []*worker {
	var ws []*worker
	for i := 0; i < eldersOf && len(c.workers) > 0; i++ {
		if w := c.workers[c.rand.IntN(len(c.workers))]; w != nil && w.Up() && !slices.Contains(ws, w) {
			ws = append(ws, w)
		}
	}
	slices.SortFunc(ws, func(a, b *worker) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.Key, b.Key)) })
	return ws[:min(len(ws), maxElders)]
}

// cover gives groups of a job the places that they want.
func (c *planner) cover(j *job, groups []*group, now time.Time, acts []Action) []Action {
	if j.ended {
		return acts
	}
	for _, g := range groups {
		acts = c.coverGroup(g, now, acts)
	}
	c.settle(j, now)
	return acts
}

// coverGroup gives a group that has no places, lost some, or got tasks back, as many places as its waiting tasks are worth.
func (c *planner) coverGroup(g *group, now time.Time, acts []Action) []Action {
	p := g.Policy
	switch {
	case g.queue.Len() == 0 || g.Set.Len() == 0:
		return acts
	case p.Binding == EarlyPerTask || p.Binding == EarlyBatch:
		return c.measure(g, g.room(), now, acts)
	case g.near != nil:
		return c.coverNear(g.near, now, acts)
	}
	missing := g.missing()
	if p.Binding == EarlyRandom {
		missing = g.room()
	}
	if missing > 0 {
		acts = c.commit(g, nil, c.sampler.PlacerFor(p).Place(c.short(g, missing), now), now, acts)
	}
	if p.Binding == EarlyRandom && g.room() > 0 {
		c.putOff(g.job, now, now) // to the next step
	}
	return acts
}
