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
// waited for PreemptAfter, and longer where much would be lost, and could start without it. A place that is due is regular from then on.

// obeysFor is how long an attempt that was told to stop is expected to take for it. One that goes on, as Go functions can, counts
// like any other from then on, and is not told again.
const obeysFor = 100 * time.Millisecond

// Those that wait do so, all together, for worthWait times as long as what would be stopped had run when the first of them came, and
// for mostPatience times PreemptAfter at most. Less would lose spare tasks of a tenth of a second again and again, more would have those of a
// second be in the way (figure spare).
const (
	worthWait    = 3
	mostPatience = 20
)

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
	if a := c.attempts[m.Attempt]; a != nil && a.owner == l && a.state == running && a.standing == yields && m.Standing.Class != probe.Spare {
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
	if c.preemptible == (probe.Demand{}) || !c.regularWaits() {
		return acts
	}
	return c.preemptFor(now, acts)
}

// preemptFor stops spare work for what is regular, has waited for long enough, and could start without it: no more than that
// needs. Most turns of reservations are in vain, so these ask first, and what they get is stopped for. Its parameters go to the heap,
// so it is not called in vain.
func (c *Core) preemptFor(now time.Time, acts []Action) []Action {
	s := clearing{c: c, now: now, free: c.free}
	for a := range c.stopping.All() {
		s.free = s.free.add(needs(a.demand, a.long))
	}
	for a := range c.staged.All() { // the others are to have room that falls free by itself
		if a.clears {
			stop, _ := s.room(needs(a.demand, a.long))
			acts = s.stop(stop, acts)
		}
	}
	for _, p := range c.early {
		if p.clears {
			s.room(p.needs())
		}
	}
	n := 0
	for p := range c.queue.inOrder(now) {
		if n++; n > planDepth {
			break
		}
		s.count(p, 1)
	}
	var asks []*place
	for p := range c.queue.inOrder(now) {
		if p.fetching() {
			continue
		}
		if !p.needs().fits(s.free) && s.tooSoon(c.queue.now-p.linedAt) {
			break
		}
		stop, ok := s.room(p.needs())
		if !ok { // all of it is not enough
			break
		}
		switch s.count(p, -1); {
		case len(stop) == 0 || p.launch == nil && p.needs().fits(c.free): // which is for one ahead of it
		case p.launch == nil:
			asks = append(asks, p)
		default:
			acts = s.stop(stop, acts)
		}
	}
	for _, p := range asks {
		p.clears = true
		acts = c.askEarly(p, now, acts)
	}
	clear(c.victims)
	c.victims = c.victims[:0]
	return acts
}

// clearing is the search for spare work that is to be stopped for who comes next.
type clearing struct {
	c       *Core
	now     time.Time
	free    room       // that is not for those ahead
	victims []*attempt // that may be stopped, the youngest first
	sought  bool
	n       float64 // of those that come next, how many there are; a reservation is less than one
	waited  float64 // for how long they have waited together
}

// count counts a place n times among those that come next.
func (s *clearing) count(p *place, n float64) {
	if p.launch == nil {
		n *= s.c.learned.chance
	}
	s.n += n
	s.waited += n * float64(s.c.queue.now-p.linedAt)
}

// seek finds what may be stopped, if it has not been found yet.
func (s *clearing) seek() {
	if !s.sought {
		s.sought, s.victims = true, s.c.seekVictims(s.now)
	}
}

// tooSoon reports whether who has waited for so long is to wait on: for PreemptAfter, and then for longer the more would be lost. Meanwhile
// something may end by itself, or less is to be lost at another worker.
func (s *clearing) tooSoon(waited time.Duration) bool {
	c := s.c
	wait := c.cfg.PreemptAfter - waited
	if s.seek(); wait <= 0 && len(s.victims) > 0 {
		ran := s.now.Sub(s.victims[0].startedAt) - waited
		if lack := float64(min(worthWait*ran, mostPatience*c.cfg.PreemptAfter)) - s.waited; lack > 0 {
			wait = max(time.Duration(lack/s.n), time.Millisecond)
		}
	}
	if wait <= 0 {
		return false
	}
	c.preemptBy(s.now.Add(wait))
	return true
}

// room takes room for who needs so much, and returns what has to be stopped for that, if all that may be is enough.
func (s *clearing) room(need room) (stop []*attempt, ok bool) {
	with, n := s.free, 0
	if !need.fits(with) {
		s.seek()
	}
	for ; n < len(s.victims) && !need.fits(with); n++ {
		with = with.add(needs(s.victims[n].demand, s.victims[n].long))
	}
	if !need.fits(with) {
		return nil, false
	}
	stop, s.victims = s.victims[:n], s.victims[n:]
	s.free = with.sub(need)
	return stop, true
}

func (s *clearing) stop(victims []*attempt, acts []Action) []Action {
	for _, a := range victims {
		acts = s.c.stop(a, s.now, acts)
	}
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
	return append(acts, Stop{a.id})
}

// preemptBy has it looked by then what is to be stopped.
func (c *Core) preemptBy(at time.Time) {
	if c.preemptAt.IsZero() || at.Before(c.preemptAt) {
		c.preemptAt = at
	}
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
		} else {
			c.preemptBy(a.startedAt.Add(expected + c.cfg.PreemptAfter + 1)) // if it is not over by then
		}
	}
	slices.SortFunc(c.victims, func(a, b *attempt) int {
		return cmp.Or(b.startedAt.Compare(a.startedAt), cmp.Compare(b.id.Seq, a.id.Seq))
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
