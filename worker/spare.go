package worker

import (
	"cmp"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// What is not regular waits in a line of its own, fair over tenants, and in each those go first whose jobs have the least work left. It
// starts where nothing regular can. What is yielded stays then; what is spare is stopped where something regular has
// waited for PreemptAfter and could start without it. A place that is due is regular from then on.

// obeysFor is how long an attempt that was told to stop is expected to take for it. One that goes on, as Go functions can, counts
// like any other from then on, and is not told again.
const obeysFor = 100 * time.Millisecond

// standing is how a running attempt stands to what is regular.
type standing uint8

const (
	stays  standing = iota
	yields          // it is stopped if it stands in the way
	stops           // it was told to
)

// queueOf is where places of a class wait.
func (c *Core) queueOf(class probe.Class) *queue {
	if class == probe.Regular {
		return &c.queue
	}
	return &c.spare
}

// stamp notes how a place stands from now on.
func (c *Core) stamp(p *place, s probe.Standing) {
	p.class, p.left, p.due, p.came = s.Class, s.Left, 0, c.queue.now-s.Age
	if s.Due > 0 {
		p.due = c.queue.now + min(s.Due, horizon)
	}
}

// classify has a place that is to be lined wait with those of its class.
func (c *Core) classify(p *place) *queue {
	if p.class != probe.Regular && p.due > 0 && p.due <= c.queue.now {
		p.class = probe.Regular
		c.Stats.Promoted++
		c.cameRegular(p)
	}
	q := c.queueOf(p.class)
	if of := q.tenant(p.tenant); of != p.of {
		p.since.own += of.taken.until(q.now) - p.of.taken.until(q.now) // what its wait was for so far remains
		p.of = of
	}
	p.linedAt = q.now
	return q
}

// restamp changes how a place stands whose turn is yet to come, or lets what runs stay.
func (c *Core) restamp(l *link, m *probe.Restamp) {
	if p := l.places[m.Res]; p != nil && p.state == queued {
		was := p.class
		c.unline(p)
		if c.stamp(p, m.Standing); p.class == probe.Regular && was != p.class {
			c.cameRegular(p)
		}
		c.line(p)
		return
	}
	if a := c.attempts[m.Attempt]; a != nil && a.owner == l && a.standing == yields && m.Standing.Class != probe.Spare {
		c.setStanding(a, stays)
	}
}

// cameRegular notes that there is one more place that is regular.
func (c *Core) cameRegular(p *place) {
	if p.long {
		c.learned.longer(c.cost(p))
	} else {
		c.cameShort(p.needs(), c.began.Add(c.queue.now))
	}
}

// promote makes regular what is due.
func (c *Core) promote() {
	for c.aging.Len() > 0 && c.aging.Min().due <= c.queue.now {
		p := c.aging.Min().place
		c.unline(p)
		c.line(p)
	}
}

// fillSpare hands the room that nothing regular can use to what is not. While something is stopped for what is regular, that gets all.
func (c *Core) fillSpare(now time.Time, acts []Action) []Action {
	if c.stopping.Len() > 0 && c.regularWaits() {
		return acts
	}
	for c.spare.len() > 0 && c.spare.fitsAny(c.free) {
		p := c.nextSpare(now)
		if p == nil {
			break
		}
		c.aging.Remove(aging{p})
		c.spare.take(p)
		acts = c.begin(p, now, acts)
	}
	return acts
}

// regularWaits reports whether something regular waits for room.
func (c *Core) regularWaits() bool { return c.queue.len()+c.staged.Len()+len(c.early) > 0 }

// nextSpare is the first of the places that are not regular for which there is room, or nil.
func (c *Core) nextSpare(now time.Time) *place {
	n := 0
	for p := range c.spare.inOrder(now) {
		if !p.fetching() && p.needs().fits(c.free) {
			return p
		}
		if n++; n == planDepth {
			break
		}
	}
	return nil
}

// setStanding notes how a running attempt stands, and the room that is there to be had for what is regular.
func (c *Core) setStanding(a *attempt, s standing) {
	if a.standing == stops {
		c.stopping.Remove(stopping{a})
	}
	if (a.standing == stays) != (s == stays) {
		c.changes++
		if s == stays {
			c.preemptible = c.preemptible.Sub(a.demand)
		} else {
			c.preemptible = c.preemptible.Add(a.demand)
		}
	}
	if a.standing = s; s == stops {
		c.stopping.Push(stopping{a})
	}
}

// preempt stops spare work that stands in the way of what is regular.
func (c *Core) preempt(now time.Time, acts []Action) []Action {
	c.preemptAt = time.Time{}
	if c.queue.len() == 0 || c.preemptible == (probe.Demand{}) {
		return acts
	}
	return c.preemptFor(now, acts)
}

// preemptFor stops spare work for regular places that have waited for long enough, and could start without it: no more than
// they need, and the youngest first, of which the least is lost. Its parameters go to the heap, so it is not called in vain.
func (c *Core) preemptFor(now time.Time, acts []Action) []Action {
	free, victims, sought := c.free, []*attempt(nil), false
	for a := range c.stopping.All() {
		free = free.add(needs(a.demand, a.long))
	}
	for p := range c.queue.inOrder(now) {
		if p.fetching() {
			continue
		}
		if p.needs().fits(free) {
			free = free.sub(p.needs())
			continue
		}
		if at := now.Add(c.cfg.PreemptAfter - (c.queue.now - p.linedAt)); at.After(now) {
			c.preemptAt = at
			break
		}
		if !sought {
			sought = true
			victims = c.seekVictims(now)
		}
		with, n := free, 0
		for ; n < len(victims) && !p.needs().fits(with); n++ {
			with = with.add(needs(victims[n].demand, victims[n].long))
		}
		if !p.needs().fits(with) { // all of them are not enough
			break
		}
		for _, a := range victims[:n] {
			acts = c.stop(a, now, acts)
		}
		free, victims = with.sub(p.needs()), victims[n:]
	}
	clear(c.victims)
	c.victims = c.victims[:0]
	return acts
}

// stop tells an attempt to stop, if it was not told before.
func (c *Core) stop(a *attempt, now time.Time, acts []Action) []Action {
	if !a.toldAt.IsZero() {
		return acts
	}
	if a.toldAt = now; a.standing == yields {
		c.setStanding(a, stops)
	}
	return append(acts, Stop{a.launch.Attempt})
}

// seekVictims finds what may be stopped now, the youngest first, and when there may be more.
func (c *Core) seekVictims(now time.Time) []*attempt {
	for _, a := range c.runs {
		if a.standing != yields {
			continue
		}
		ran, expected := now.Sub(a.startedAt), expectedCost(a.expected, c.learned.run, 1)
		if remaining(expected, ran) > c.cfg.PreemptAfter {
			c.victims = append(c.victims, a)
		} else if at := a.startedAt.Add(expected + c.cfg.PreemptAfter + 1); c.preemptAt.IsZero() || at.Before(c.preemptAt) {
			c.preemptAt = at // if it is not over by then
		}
	}
	slices.SortFunc(c.victims, func(a, b *attempt) int {
		return cmp.Or(b.startedAt.Compare(a.startedAt), cmp.Compare(b.launch.Attempt.Seq, a.launch.Attempt.Seq))
	})
	return c.victims
}

// disobey counts those like any other that were told to stop and go on.
func (c *Core) disobey(now time.Time) {
	for c.stopping.Len() > 0 && now.Sub(c.stopping.First().toldAt) >= obeysFor {
		c.setStanding(c.stopping.First().attempt, stays)
	}
}

// stopped notes how a spare attempt ended.
func (c *Core) stopped(a *attempt, ev *Exited) {
	c.setStanding(a, stays)
	c.Stats.SpareRan += ev.Run
	if !a.toldAt.IsZero() && !a.unwanted && ev.Status == probe.Killed {
		ev.Status = probe.Preempted
		c.Stats.Preempted++
		c.Stats.SpareLost += ev.Run
	}
}

// spareWakes tells when something becomes regular, may be stopped, or should have.
func (c *Core) spareWakes(soonest func(time.Time)) {
	if c.aging.Len() > 0 {
		soonest(c.began.Add(c.aging.Min().due))
	}
	if !c.preemptAt.IsZero() {
		soonest(c.preemptAt)
	}
	if c.stopping.Len() > 0 {
		soonest(c.stopping.First().toldAt.Add(obeysFor))
	}
}

// aging orders places by when they are due.
type aging struct{ *place }

func (a aging) Before(b aging) bool {
	if a.due != b.due {
		return a.due < b.due
	}
	return a.seq < b.seq
}

func (a aging) Pos() *int { return &a.agingPos }

// stopping makes an attempt an item of the list of those that were told to stop.
type stopping struct{ *attempt }

func (s stopping) Links() *list.Node[stopping] { return &s.stopNode }
