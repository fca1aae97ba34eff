package frontend

import (
	"github.com/phoebe-sched/phoebe/frontend/place"
	"slices"
	"time"
)

// What an event leaves to be done is noted as a want, and planned when its facts are told: nothing that records them
// places anything itself.

// want notes that a job may need more places than it has.
func (c *Core) want(j *job) {
	if !j.wants {
		j.wants = true
		c.wants = append(c.wants, j)
	}
}

// wanting takes the jobs that were noted, in the order in which they were submitted. It is good until the next want.
func (c *Core) wanting() []*job {
	js := c.wants
	if len(js) > 1 {
		slices.SortFunc(js, compareJobs)
	}
	for _, j := range js {
		j.wants = false
	}
	c.wants = js[:0]
	return js
}

// plan gives the jobs that want something the places that their waiting tasks are worth.
func (c *Core) plan(now time.Time, acts []Action) []Action {
	if len(c.wants) > 0 {
		for _, j := range c.wanting() {
			acts = c.cover(j, now, acts)
		}
	}
	if c.wantAll {
		c.wantAll = false
		for t := range c.hungry.all.All() {
			for j := range t.hungry.All() {
				acts = c.cover(j, now, acts)
			}
		}
	}
	return acts
}

// cover gives the groups of a job the places that they want.
func (c *Core) cover(j *job, now time.Time, acts []Action) []Action {
	if j.ended {
		return acts
	}
	for _, g := range j.groups {
		acts = c.coverGroup(g, now, acts)
	}
	c.settle(j, now)
	return acts
}

// putOff lets the jobs that want something wait until a time, instead.
func (c *Core) putOff(until, now time.Time) {
	for _, j := range c.wanting() {
		if !j.ended {
			j.retryAt = until
			c.settle(j, now)
		}
	}
}

// coverGroup gives a group that has no places, lost some, or got tasks back, as many places as its waiting tasks are worth.
func (c *Core) coverGroup(g *group, now time.Time, acts []Action) []Action {
	n, p := g.queue.Len(), g.Policy
	switch {
	case n == 0 || g.Set.Len() == 0:
		return acts
	case p.Binding == EarlyPerTask || p.Binding == EarlyBatch:
		return c.measure(g, now, acts)
	case g.near != nil:
		return c.coverNear(g.near, now, acts)
	case g.live == 0:
		g.budget = g.Probes(n)
	}
	if missing := max(g.Probes(n)-g.probed(), g.budget); missing > 0 {
		acts = c.commit(g, nil, c.sampler.For(p).Place(c.short(g, missing), now), now, acts)
	}
	return acts
}

// probed is how many probes the live places of the group are worth: a sticky one asked for several places.
func (g *group) probed() int {
	if !g.Sticky {
		return g.live
	}
	return g.probing
}

// short is what a group is short of: so many probes. It is good until the next call.
func (c *Core) short(g *group, probes int) *place.Want {
	w := &c.scratch
	*w = place.Want{Kind: &g.Kind, Queue: g, Probes: probes, Fresh: g.live == 0, Has: w.Has[:0]}
	for r := range g.places.All() {
		if r.live > 0 {
			w.Has = append(w.Has, r.w.Worker)
		}
	}
	return w
}

// Len, Riders and Fit make a group the queue of those of its tasks that wait.
func (g *group) Len() int { return g.queue.Len() }

func (g *group) Riders(most int) int {
	n := 0
	for t := range g.queue.All() {
		if n >= most || len(t.spec.Payload) > place.MaxRide {
			break
		}
		n++
	}
	return n
}

func (g *group) Fit(n, bytes int) int {
	if g.near != nil { // which tasks a worker gets depends on it
		return 1
	}
	fit := 1
	for t := range g.queue.All() {
		if fit == n {
			break
		}
		if bytes -= len(t.spec.Payload); bytes < 0 {
			return fit
		}
		fit++
	}
	return n
}
