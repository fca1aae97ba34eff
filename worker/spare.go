package worker

import (
	"cmp"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// Yielded and spare places wait in a queue of their own. The queue is fair over tenants. Within a tenant, jobs
// with the least work left go first. A place of this queue starts only in room that no regular place can use. A
// yielded task then runs on. The worker stops a spare task if a regular place could start without it, and has
// waited for PreemptAfter. If much work would be lost, the regular place waits longer. A place becomes regular
// when it is due.

// obeysFor is the time that an attempt may take to stop. An attempt may run on, as Go functions can. After
// obeysFor the attempt counts as normal work, and gets no second order to stop. The time was chosen, and not measured.
const obeysFor = 100 * time.Millisecond

// Before spare work stops, the waits of the regular places must add up to a limit. The limit is waitPerLostRun
// times the run time that the spare work had when the first regular place came. It is at most maxPatience times
// PreemptAfter. With a lower limit, spare tasks of 100 ms would be lost again and again. With a higher limit, spare
// tasks of a second would be in the way (figure spare).
const (
	waitPerLostRun = 3
	maxPatience    = 20
)

// stopState tells whether a running attempt has to make room for regular places.
type stopState uint8

const (
	unstoppable stopState = iota
	stoppable             // spare: stops if in the way
	stopOrdered           // spare: an order to stop is out
)

// queueOf returns the queue for places of class.
func (c *Core) queueOf(class probe.Class) *queue {
	if class == probe.Regular {
		return &c.queue
	}
	return &c.spareQueue
}

// stampPlace sets the class of p, and the times that go with the class.
func (c *Core) stampPlace(p *place, s probe.Standing) {
	p.class, p.workLeft, p.due, p.cameAt = s.Class, s.Left, 0, c.queue.now-s.Age
	if s.Due > 0 {
		p.due = c.queue.now + min(s.Due, horizon)
	}
}

// prepareForQueue readies p to enter a queue now, and returns that queue. A place that is due becomes regular. The
// caller adds p to the queue.
func (c *Core) prepareForQueue(p *place) *queue {
	if p.class != probe.Regular && p.due > 0 && p.due <= c.queue.now {
		p.class = probe.Regular
		c.Stats.Promoted++
		c.noteRegular(p)
	}
	q := c.queueOf(p.class)
	if tenant := q.ensureTenant(p.tenant); tenant != p.queueTenant {
		// The tenant's sum of the other queue differs. Shift the remembered sum, so that the wait so far is kept.
		p.sumsWhenQueued.own += tenant.cpuUse.sumUntil(q.now) - p.queueTenant.cpuUse.sumUntil(q.now)
		p.queueTenant = tenant
	}
	p.inQueueSince = q.now
	return q
}

// restampPlace changes the class of a place before its turn, or lets a running spare attempt run on.
func (c *Core) restampPlace(l *link, m *probe.Restamp) {
	if p := l.places[m.Res]; p != nil && p.state == queued {
		oldClass := p.class
		c.takeFromQueue(p)
		if c.stampPlace(p, m.Standing); p.class == probe.Regular && oldClass != p.class {
			c.noteRegular(p)
		}
		c.queueOrPark(p)
		return
	}
	if a := c.attempts[m.Attempt]; a != nil &&
		a.owner == l && a.state == running && a.stopState == stoppable && m.Standing.Class != probe.Spare {
		c.setStopState(a, unstoppable)
	}
}

// noteRegular notes the arrival of a regular place: the expected run time of a long task, or a short task, for which
// the short part may close.
func (c *Core) noteRegular(p *place) {
	if p.long {
		c.averages.noteLongRun(c.placeCost(p))
	} else {
		c.noteShortArrival(p.neededRoom(), c.beganAt.Add(c.queue.now))
	}
}

// promoteDue makes due places regular. The places leave their queue and enter again, and so become regular
// (prepareForQueue).
func (c *Core) promoteDue() {
	for c.aging.Len() > 0 && c.aging.Min().due <= c.queue.now {
		p := c.aging.Min().place
		c.takeFromQueue(p)
		c.queueOrPark(p)
	}
}

// assignToSpare gives yielded and spare places the room that no regular place can use. While the worker stops
// spare work for regular places, regular places get all room.
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
		c.spareQueue.takeForTurn(p)
		acts = c.giveRoom(p, now, acts)
	}
	return acts
}

// hasRegularWaiting reports whether a regular place or a staged attempt waits for room.
func (c *Core) hasRegularWaiting() bool { return c.queue.len()+c.staged.Len()+len(c.askedAhead) > 0 }

// nextSparePlace returns the first place of spareQueue that fits into the free room, or nil.
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

// setStopState sets the stopState of a running attempt, and counts the room that regular places can get from spare
// work.
func (c *Core) setStopState(a *attempt, s stopState) {
	if a.stopState == stopOrdered {
		c.stopping.Remove(stopping{a})
	}
	if (a.stopState == unstoppable) != (s == unstoppable) {
		c.changes++
		if s == unstoppable {
			c.preemptible = c.preemptible.Sub(a.demand)
		} else {
			c.preemptible = c.preemptible.Add(a.demand)
		}
	}
	if a.stopState = s; s == stopOrdered {
		c.stopping.Push(stopping{a})
	}
}

// preemptSpare stops spare work that is in the way of regular places.
func (c *Core) preemptSpare(now time.Time, acts []Action) []Action {
	c.preemptAt = time.Time{}
	if c.preemptible == (probe.Demand{}) || !c.hasRegularWaiting() {
		return acts
	}
	return c.preemptForRegular(now, acts)
}

// preemptForRegular stops spare work for regular places that have waited long enough and could start instead.
// Only as much is stopped as needed. Most turns of reservations get no task. So a reservation first asks its
// frontend, and spare work stops if a task comes. The call allocates, so preemptSpare calls this function only if
// there is spare work to stop.
func (c *Core) preemptForRegular(now time.Time, acts []Action) []Action {
	s := victimSearch{c: c, now: now, free: c.free}
	for a := range c.stopping.All() {
		s.free = s.free.add(roomFor(a.demand, a.long))
	}
	for a := range c.staged.All() { // staged attempts without stopsSpare get room that falls free by itself
		if a.stopsSpare {
			stop, _ := s.planRoom(roomFor(a.demand, a.long))
			acts = s.stopVictims(stop, acts)
		}
	}
	for _, p := range c.askedAhead {
		if p.stopsSpare { // its victims stop only if a task comes
			s.planRoom(p.neededRoom())
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
		if !p.neededRoom().fitsIn(s.free) && s.postponeIfTooSoon(c.queue.now-p.inQueueSince) {
			break
		}
		stop, ok := s.planRoom(p.neededRoom())
		if !ok { // all spare work together is too little
			break
		}
		switch s.countWaiting(p, -1); {
		case len(stop) == 0 || p.launch == nil && p.neededRoom().fitsIn(c.free):
			// No spare work need stop: the room is free, or falls free already.
		case p.launch == nil:
			asks = append(asks, p)
		default:
			acts = s.stopVictims(stop, acts)
		}
	}
	for _, p := range asks {
		p.stopsSpare = true
		acts = c.askPlaceAhead(p, now, acts)
	}
	clear(c.victims)
	c.victims = c.victims[:0]
	return acts
}

// victimSearch is the search for spare work to stop, place by place in the order of the queue.
type victimSearch struct {
	c            *Core
	now          time.Time
	free         room       // free room, less the room set aside for earlier places
	victims      []*attempt // attempts that may be stopped, youngest first
	hasSought    bool
	waitingCount float64 // number of waiting places; a reservation counts as less than 1
	waitedTotal  float64 // sum of their waits, in nanoseconds
}

// countWaiting counts p n times among the waiting places. A reservation counts by the chance of a task.
func (s *victimSearch) countWaiting(p *place, n float64) {
	if p.launch == nil {
		n *= s.c.averages.bindChance
	}
	s.waitingCount += n
	s.waitedTotal += n * float64(s.c.queue.now-p.inQueueSince)
}

// seekOnce finds the victims, at the first call only.
func (s *victimSearch) seekOnce() {
	if !s.hasSought {
		s.hasSought, s.victims = true, s.c.seekVictims(s.now)
	}
}

// postponeIfTooSoon reports whether a place that has waited for this time should wait on, before spare work stops for
// it. If so, postponeIfTooSoon sets the time of the next check. A place waits for PreemptAfter, and longer if more
// work would be lost. Meanwhile a task may end by itself, or another worker may have a cheaper victim.
func (s *victimSearch) postponeIfTooSoon(waited time.Duration) bool {
	c := s.c
	wait := c.cfg.PreemptAfter - waited
	if s.seekOnce(); wait <= 0 && len(s.victims) > 0 {
		ran := s.now.Sub(s.victims[0].startedAt) - waited // of the youngest victim, when the place came
		if lack := float64(min(waitPerLostRun*ran, maxPatience*c.cfg.PreemptAfter)) - s.waitedTotal; lack > 0 {
			wait = max(time.Duration(lack/s.waitingCount), time.Millisecond)
		}
	}
	if wait <= 0 {
		return false
	}
	c.checkPreemptBy(s.now.Add(wait))
	return true
}

// planRoom sets room aside for a need, in the search only, and returns the victims whose room is needed, too. It stops
// no victim: the caller does. ok is false if all victims together have too little room.
func (s *victimSearch) planRoom(need room) (stop []*attempt, ok bool) {
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

// stopVictims tells the victims to stop.
func (s *victimSearch) stopVictims(victims []*attempt, acts []Action) []Action {
	for _, a := range victims {
		acts = s.c.stopAttempt(a, s.now, acts)
	}
	return acts
}

// stopAttempt tells an attempt to stop, once.
func (c *Core) stopAttempt(a *attempt, now time.Time, acts []Action) []Action {
	if !a.stopOrderedAt.IsZero() {
		return acts
	}
	if a.stopOrderedAt = now; a.stopState == stoppable {
		c.setStopState(a, stopOrdered)
	}
	return append(acts, Stop{a.id})
}

// checkPreemptBy has the core look for spare work to stop at the given time, or before.
func (c *Core) checkPreemptBy(at time.Time) {
	if c.preemptAt.IsZero() || at.Before(c.preemptAt) {
		c.preemptAt = at
	}
}

// seekVictims returns the attempts that may be stopped now, youngest first: those expected to run on for longer
// than PreemptAfter. It also sets the time when more attempts may be stopped.
func (c *Core) seekVictims(now time.Time) []*attempt {
	for _, a := range c.runs {
		if a.stopState != stoppable {
			continue
		}
		ran, expected := now.Sub(a.startedAt), expectedCost(a.expectedRun, c.averages.runTime, 1)
		if remainingTime(expected, ran) > c.cfg.PreemptAfter {
			c.victims = append(c.victims, a)
		} else {
			c.checkPreemptBy(a.startedAt.Add(expected + c.cfg.PreemptAfter + 1)) // if the attempt has not ended by then
		}
	}
	slices.SortFunc(c.victims, func(a, b *attempt) int {
		return cmp.Or(b.startedAt.Compare(a.startedAt), cmp.Compare(b.id.Seq, a.id.Seq))
	})
	return c.victims
}

// giveUpStopping treats attempts that still run obeysFor (100 ms) after Stop as normal work.
func (c *Core) giveUpStopping(now time.Time) {
	for c.stopping.Len() > 0 && now.Sub(c.stopping.First().stopOrderedAt) >= obeysFor {
		c.setStopState(c.stopping.First().attempt, unstoppable)
	}
}

// endSpareAttempt counts the run time of a spare attempt that has ended. If the attempt was stopped for regular work,
// endSpareAttempt changes ev.Status to Preempted, so that the frontend retries the task.
func (c *Core) endSpareAttempt(a *attempt, ev *Exited) {
	c.setStopState(a, unstoppable)
	c.Stats.SpareRan += ev.Run
	if !a.stopOrderedAt.IsZero() && !a.unwanted && ev.Status == probe.Killed {
		ev.Status = probe.Preempted
		c.Stats.Preempted++
		c.Stats.SpareLost += ev.Run
	}
}

// addSpareWakes reports the times when a place becomes regular, when spare work may be stopped, and when a stop
// order has been out for obeysFor.
func (c *Core) addSpareWakes(addWake func(time.Time)) {
	if c.aging.Len() > 0 {
		addWake(c.beganAt.Add(c.aging.Min().due))
	}
	if !c.preemptAt.IsZero() {
		addWake(c.preemptAt)
	}
	if c.stopping.Len() > 0 {
		addWake(c.stopping.First().stopOrderedAt.Add(obeysFor))
	}
}

// aging orders places by due time.
type aging struct{ *place }

func (a aging) Before(b aging) bool {
	if a.due != b.due {
		return a.due < b.due
	}
	return a.seq < b.seq
}

func (a aging) Pos() *int { return &a.agingPos }

// stopping makes an attempt an item of the list Core.stopping.
type stopping struct{ *attempt }

func (s stopping) Links() *list.Node[stopping] { return &s.stopNode }
