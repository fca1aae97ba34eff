package frontend

import (
	"time"

	"github.com/phoebe-sched/phoebe/frontend/place"
	"github.com/phoebe-sched/phoebe/probe"
)

// ready gives a place whose turn has come a waiting task of its job, or declines.
func (c *planner) ready(w *worker, m *probe.Ready, now time.Time, acts []Action) []Action {
	r := w.places[m.Res]
	if r == nil && w.cancelled(m.Res) {
		return acts // the Cancel is on its way
	}
	if r == nil {
		c.Stats.Declines++
		return append(acts, Send{Worker: w.Key, Msg: probe.Decline{Res: m.Res, Turn: m.Turn}})
	}
	if a := r.ride(m.Res); a != nil {
		c.unride(a, r) // its Queued was overtaken
	}
	g := c.choose(r.group, w, now)
	shared := g == nil
	if shared {
		g = c.share(r.group, w, now)
	}
	if g == nil {
		c.dropPlace(w, m.Res, r, place.Declined)
		c.Stats.Declines++
		return append(acts, Send{Worker: w.Key, Msg: probe.Decline{Res: m.Res, Turn: m.Turn}})
	}
	j := g.job
	j.served = true
	bind := probe.Bind{Res: m.Res, Turn: m.Turn, Launch: c.bindNext(g, w, m, now)}
	if shared {
		bind.Job, bind.Generation = j.ID, j.Generation
		c.Stats.Shared++
		c.log.fates(r).Add(place.Lent)
	} else {
		c.log.fates(r).Add(place.Bound)
	}
	for n := g.Turn(g, w.Worker, place.BundleBytes-len(bind.Launch.Payload)); n > 1 && c.first(g, w, now) != nil; n-- {
		bind.Bundle = append(bind.Bundle, c.bindNext(g, w, m, now))
	}
	keep := !shared && r.group.Sticky && c.choose(r.group, w, now) != nil
	if keep {
		c.Stats.Kept++
	} else {
		c.dropPlace(w, m.Res, r, place.Used)
		w.attempts[bind.Launch.Attempt].spent = !shared
	}
	c.Stats.Binds++
	bind.Keep = keep
	acts = append(acts, Send{Worker: w.Key, Msg: bind})
	if j.waiting == 0 && j.Policy.Cancel {
		acts = c.cancelPlaces(j, now, acts)
	}
	if own := r.group; own.live == 0 && own.job.waiting > 0 || own.uneasy() { // used up: a Reserve asks for MaxPlaces at most
		c.want(own.job)
	}
	c.settle(j, now)
	return acts
}

// bindNext launches the group's next task at the place whose turn has come.
func (c *planner) bindNext(g *group, w *worker, m *probe.Ready, now time.Time) probe.Launch {
	t := c.first(g, w, now)
	a := c.launch(t, w, m.Res, bound, now)
	a.turn = m.Turn
	t.readyAt, t.boundAt = now, now
	return t.launch(a.id)
}

// choose is the group whose first waiting task a place of group g at w gets: its own, or any other of the
// job that w satisfies and the place has room for (Sparrow, section 4.1). Nil if none waits.
func (c *planner) choose(g *group, w *worker, now time.Time) *group {
	if c.first(g, w, now) != nil {
		return g
	}
	if g.job.waiting == 0 {
		return nil
	}
	for _, other := range g.job.groups {
		if other.queue.Len() > 0 && other.Set.Contains(w.Worker) && other.Demand.Fits(g.Demand) && c.first(other, w, now) != nil {
			return other
		}
	}
	return nil
}

// share is the group of another job of the tenant, the oldest one first, whose next task a turn at w gets that place group g
// does not need: one for which the worker would have put the place where it was. Nil if none waits.
func (c *planner) share(g *group, w *worker, now time.Time) *group {
	j := g.job
	t := c.tenants[j.Tenant] // j.tenant, unless j has ended
	if !j.Policy.Share || g.Short(c.view.Trip()) || t == nil {
		return nil
	}
	looked := 0
	for k := range t.hungry.All() {
		if looked++; looked > mostLooked {
			break
		}
		if !k.Policy.Share || k.Priority != j.Priority {
			continue
		}
		for _, other := range k.groups {
			if other.queue.Len() > 0 && other.Set.Contains(w.Worker) && other.Demand.Fits(g.Demand) && c.first(other, w, now) != nil &&
				(g.estimate == 0 || other.estimate > 0 && other.estimate <= g.estimate) {
				return other
			}
		}
	}
	return nil
}
