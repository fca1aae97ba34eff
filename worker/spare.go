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
	unstoppable standing = iota
	stoppable            // it is stopped if it stands in the way
	toldToStop           // it was told to
)

// queueOf is where places of a class wait.
func (c *Core) queueOf(class probe.Class) *queue {
	if class == probe.Regular {
		return &c.queue
	}
	return &c.spareQueue
}

// stampPlace notes how a place stands from now on.
func (c *Core) stampPlace(p *place, s probe.Standing) {
	p.class, p.workLeft, p.due, p.cameAt = s.Class, s.Left, 0, c.queue.now-s.Age
	if s.Due > 0 {
		p.due = c.queue.now + min(s.Due, horizon)
	}
}

// queueByClass has a place that is to be lined wait with those of its class.
func (c *Core) queueByClass(p *place) *queue {
	if p.class != probe.Regular && p.due > 0 && p.due <= c.queue.now {
		p.class = probe.Regular
		c.Stats.Promoted++
		c.noteRegular(p)
	}
	q := c.queueOf(p.class)
	if tenant := q.tenantNamed(p.tenant); tenant != p.queueTenant {
		p.sumsWhenQueued.own += tenant.cpuUse.sumUntil(q.now) - p.queueTenant.cpuUse.sumUntil(q.now) // what its wait was for so far remains
		p.queueTenant = tenant
	}
	p.inQueueSince = q.now
	return q
}

// restampPlace changes how a place stands whose turn is yet to come, or lets what runs stay.
func (c *Core) restampPlace(l *link, m *probe.Restamp) {
	if p := l.places[m.Res]; p != nil && p.state == queued {
		oldClass := p.class
		c.takeFromQueue(p)
		if c.stampPlace(p, m.Standing); p.class == probe.Regular && oldClass != p.class {
			c.noteRegular(p)
		}
		c.putInQueue(p)
		return
	}
	if a := c.attempts[m.Attempt]; a != nil && a.owner == l && a.state == running && a.standing == stoppable && m.Standing.Class != probe.Spare {
		c.setStanding(a, unstoppable)
	}
}

// noteRegular notes that there is one more place that is regular.
func (c *Core) noteRegular(p *place) {
	if p.long {
		c.averages.noteLongRun(c.placeCost(p))
	} else {
		c.noteShort(p.neededRoom(), c.beganAt.Add(c.queue.now))
	}
}

// promoteDue makes regular what is due.
func (c *Core) promoteDue() {
	for c.aging.Len() > 0 && c.aging.Min().due <= c.queue.now {
		p := c.aging.Min().place
		c.takeFromQueue(p)
		c.putInQueue(p)
	}
}

// assignToSpare hands the room that nothing regular can use to what is not. While something is stopped for what is regular, that gets all.
func (c *Core) assignToSpare(now time.Time, acts []Action) []Action {
	if c.stopping.Len() > 0 && c.hasRegularWaiting() {
		return acts
	}
	for c.spareQueue.len() > 0 && c.spareQueue.fitsAny(c.free) {
		p := c.nextSparePlace(now)
		if p == nil {
			break
		}
		c.aging.Remove(aging{p})
		c.spareQueue.takePlace(p)
		acts = c.beginTurn(p, now, acts)
	}
	return acts
}

// hasRegularWaiting reports whether something regular waits for room.
func (c *Core) hasRegularWaiting() bool { return c.queue.len()+c.staged.Len()+len(c.askedAhead) > 0 }

// nextSparePlace is the first of the places that are not regular for which there is room, or nil.
func (c *Core) nextSparePlace(now time.Time) *place {
	n := 0
	for p := range c.spareQueue.inOrder(now) {
		if !p.waitsForFiles() && p.neededRoom().fitsIn(c.free) {
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
	if a.standing == toldToStop {
		c.stopping.Remove(stopping{a})
	}
	if (a.standing == unstoppable) != (s == unstoppable) {
		c.changes++
		if s == unstoppable {
			c.preemptible = c.preemptible.Sub(a.demand)
		} else {
			c.preemptible = c.preemptible.Add(a.demand)
		}
	}
	if a.standing = s; s == toldToStop {
		c.stopping.Push(stopping{a})
	}
}

// preemptSpare stops spare work that stands in the way of what is regular.
func (c *Core) preemptSpare(now time.Time, acts []Action) []Action {
	c.preemptAt = time.Time{}
	if c.preemptible == (probe.Demand{}) || !c.hasRegularWaiting() {
		return acts
	}
	return c.preemptForRegular(now, acts)
}

// preemptForRegular stops spare work for what is regular, has waited for long enough, and could start without it: no more than that
// needs. Most turns of reservations are in vain, so these ask first, and what they get is stopped for. Its parameters go to the heap,
// so it is not called in vain.
func (c *Core) preemptForRegular(now time.Time, acts []Action) []Action {
	s := clearing{c: c, now: now, free: c.free}
	for a := range c.stopping.All() {
		s.free = s.free.add(roomFor(a.demand, a.long))
	}
	for a := range c.staged.All() { // the others are to have room that falls free by itself
		if a.clearsSpare {
			stop, _ := s.makeRoom(roomFor(a.demand, a.long))
			acts = s.stopVictims(stop, acts)
		}
	}
	for _, p := range c.askedAhead {
		if p.clearsSpare {
			s.makeRoom(p.neededRoom())
		}
	}
	n := 0
	for p := range c.queue.inOrder(now) {
		if n++; n > planDepth {
			break
		}
		s.countWaiting(p, 1)
	}
	var asks []*place
	for p := range c.queue.inOrder(now) {
		if p.waitsForFiles() {
			continue
		}
		if !p.neededRoom().fitsIn(s.free) && s.isTooSoon(c.queue.now-p.inQueueSince) {
			break
		}
		stop, ok := s.makeRoom(p.neededRoom())
		if !ok { // all of it is not enough
			break
		}
		switch s.countWaiting(p, -1); {
		case len(stop) == 0 || p.launch == nil && p.neededRoom().fitsIn(c.free): // which is for one ahead of it
		case p.launch == nil:
			asks = append(asks, p)
		default:
			acts = s.stopVictims(stop, acts)
		}
	}
	for _, p := range asks {
		p.clearsSpare = true
		acts = c.askPlaceAhead(p, now, acts)
	}
	clear(c.victims)
	c.victims = c.victims[:0]
	return acts
}

// clearing is the search for spare work that is to be stopped for who comes next.
type clearing struct {
	c            *Core
	now          time.Time
	free         room       // that is not for those ahead
	victims      []*attempt // that may be stopped, the youngest first
	hasSought    bool
	waitingCount float64 // of those that come next, how many there are; a reservation is less than one
	waitedTotal  float64 // for how long they have waited together
}

// countWaiting counts a place n times among those that come next.
func (s *clearing) countWaiting(p *place, n float64) {
	if p.launch == nil {
		n *= s.c.averages.bindChance
	}
	s.waitingCount += n
	s.waitedTotal += n * float64(s.c.queue.now-p.inQueueSince)
}

// seekOnce finds what may be stopped, if it has not been found yet.
func (s *clearing) seekOnce() {
	if !s.hasSought {
		s.hasSought, s.victims = true, s.c.seekVictims(s.now)
	}
}

// isTooSoon reports whether who has waited for so long is to wait on: for PreemptAfter, and then for longer the more would be lost. Meanwhile
// something may end by itself, or less is to be lost at another worker.
func (s *clearing) isTooSoon(waited time.Duration) bool {
	c := s.c
	wait := c.cfg.PreemptAfter - waited
	if s.seekOnce(); wait <= 0 && len(s.victims) > 0 {
		ran := s.now.Sub(s.victims[0].startedAt) - waited
		if lack := float64(min(worthWait*ran, mostPatience*c.cfg.PreemptAfter)) - s.waitedTotal; lack > 0 {
			wait = max(time.Duration(lack/s.waitingCount), time.Millisecond)
		}
	}
	if wait <= 0 {
		return false
	}
	c.checkPreemptBy(s.now.Add(wait))
	return true
}

// makeRoom takes room for who needs so much, and returns what has to be stopped for that, if all that may be is enough.
func (s *clearing) makeRoom(need room) (stop []*attempt, ok bool) {
	free, n := s.free, 0
	if !need.fitsIn(free) {
		s.seekOnce()
	}
	for ; n < len(s.victims) && !need.fitsIn(free); n++ {
		free = free.add(roomFor(s.victims[n].demand, s.victims[n].long))
	}
	if !need.fitsIn(free) {
		return nil, false
	}
	stop, s.victims = s.victims[:n], s.victims[n:]
	s.free = free.sub(need)
	return stop, true
}

func (s *clearing) stopVictims(victims []*attempt, acts []Action) []Action {
	for _, a := range victims {
		acts = s.c.stopAttempt(a, s.now, acts)
	}
	return acts
}

// stopAttempt tells an attempt to stop, if it was not told before.
func (c *Core) stopAttempt(a *attempt, now time.Time, acts []Action) []Action {
	if !a.stopToldAt.IsZero() {
		return acts
	}
	if a.stopToldAt = now; a.standing == stoppable {
		c.setStanding(a, toldToStop)
	}
	return append(acts, Stop{a.id})
}

// checkPreemptBy has it looked by then what is to be stopped.
func (c *Core) checkPreemptBy(at time.Time) {
	if c.preemptAt.IsZero() || at.Before(c.preemptAt) {
		c.preemptAt = at
	}
}

// seekVictims finds what may be stopped now, the youngest first, and when there may be more.
func (c *Core) seekVictims(now time.Time) []*attempt {
	for _, a := range c.runs {
		if a.standing != stoppable {
			continue
		}
		ran, expected := now.Sub(a.startedAt), expectedCost(a.expectedRun, c.averages.runTime, 1)
		if remainingTime(expected, ran) > c.cfg.PreemptAfter {
			c.victims = append(c.victims, a)
		} else {
			c.checkPreemptBy(a.startedAt.Add(expected + c.cfg.PreemptAfter + 1)) // if it is not over by then
		}
	}
	slices.SortFunc(c.victims, func(a, b *attempt) int {
		return cmp.Or(b.startedAt.Compare(a.startedAt), cmp.Compare(b.id.Seq, a.id.Seq))
	})
	return c.victims
}

// giveUpStopping counts those like any other that were told to stop and go on.
func (c *Core) giveUpStopping(now time.Time) {
	for c.stopping.Len() > 0 && now.Sub(c.stopping.First().stopToldAt) >= obeysFor {
		c.setStanding(c.stopping.First().attempt, unstoppable)
	}
}

// noteSpareEnd notes how a spare attempt ended.
func (c *Core) noteSpareEnd(a *attempt, ev *Exited) {
	c.setStanding(a, unstoppable)
	c.Stats.SpareRan += ev.Run
	if !a.stopToldAt.IsZero() && !a.unwanted && ev.Status == probe.Killed {
		ev.Status = probe.Preempted
		c.Stats.Preempted++
		c.Stats.SpareLost += ev.Run
	}
}

// addSpareWakes tells when something becomes regular, may be stopped, or should have.
func (c *Core) addSpareWakes(soonest func(time.Time)) {
	if c.aging.Len() > 0 {
		soonest(c.beganAt.Add(c.aging.Min().due))
	}
	if !c.preemptAt.IsZero() {
		soonest(c.preemptAt)
	}
	if c.stopping.Len() > 0 {
		soonest(c.stopping.First().stopToldAt.Add(obeysFor))
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
