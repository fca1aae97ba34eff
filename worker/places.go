package worker

import (
	"cmp"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// reserve queues the places that were not heard of before, and starts the tasks that ride along as long as there is
// room for them, and that delays nobody who waits.
func (c *Core) reserve(l *link, m *probe.Reserve, now time.Time, acts []Action) []Action {
	reason := c.unacceptable(m.Demand, false)
	if c.moved(l, m.Job, m.Generation) {
		reason = probe.Moved
	}
	for i := range m.Launches {
		if reason == 0 {
			reason = c.unfitLate(l, m.Job, &m.Launches[i], now)
		}
	}
	if reason != 0 {
		if !l.mark(m.First, m.Count) {
			return acts // repeated: it may have been accepted
		}
		return c.refuse(l, m.First, m.Count, probe.AttemptID{}, reason, 0, acts)
	}

	// Of the places, those below count were taken, and of these, those from rides on are not used up.
	class := m.Standing.Class
	q, regular := c.queueOf(class), class == probe.Regular
	count, rides, ahead, bundle := m.Count, len(m.Launches), uint32(q.len()), min(m.Bundle, maxStaged)
	need, of := needs(m.Demand, false), q.tenant(m.Tenant)
	q.weigh(of, m.Weights)
	if regular {
		c.cameShort(need, now)
	}
	looked, gap := false, false // whether, though others wait, there may be room for those that ride along
	for i := range m.Count {
		id := m.First + probe.ResID(i)
		if !l.seen.Mark(id) {
			continue
		}
		ride := regular && int(i) < rides && len(c.early) == 0 && !c.has(l, m.Launches[i].Attempt)
		if ride && c.queue.len() > 0 {
			if !looked {
				looked, gap = true, c.hasGap(need, now)
			}
			gap = gap && c.fillGap(need, m.Launches[i].Estimate)
			ride = gap
		}
		if ride {
			a := c.arrive(l, &m.Launches[i], m.Job, m.Generation, now)
			a.tenant, a.demand, a.of = m.Tenant, m.Demand, of
			a.expected = cmp.Or(a.launch.Estimate, m.Estimate, m.Typical)
			if c.staged.Len() == 0 && need.fits(c.free) {
				c.take(need)
				a.bill = c.queue.chargeMore(of, m.Demand, a.expected)
				c.Stats.RidesStarted++
				c.enter(a)
				acts = c.start(a, now, acts)
				continue
			}
			if bundle > 0 && c.staged.Len() < maxStaged && c.queue.len() == 0 {
				bundle--
				a.bill = c.queue.chargeMore(of, m.Demand, a.expected)
				c.Stats.RidesStarted++
				c.stage(a, now)
				continue
			}
		}
		if !q.takes(m.Tenant, c.room(class)) {
			count = i
			l.mark(id, m.Count-i)
			acts = c.refuse(l, id, m.Count-i, probe.AttemptID{}, probe.QueueFull, fullRetry, acts)
			break
		}
		c.Stats.Reserved++
		p := &place{
			link: l, res: id, job: m.Job, generation: m.Generation, tenant: m.Tenant, priority: m.Priority, demand: m.Demand,
			estimate: m.Estimate, expected: cmp.Or(m.Estimate, m.Typical), mayAskEarly: m.Early,
		}
		c.stamp(p, m.Standing)
		c.queuePlace(p, now)
		if int(i) < rides {
			rides = int(i)
		}
	}
	if rides < min(len(m.Launches), int(count)) {
		acts = c.send(l, probe.Queued{
			First: m.First + probe.ResID(rides), Count: count - uint32(rides), Ahead: ahead, Load: c.Load(),
		}, acts)
	}
	return acts
}

// enqueue queues a task bound early.
func (c *Core) enqueue(l *link, m *probe.Enqueue, now time.Time, acts []Action) []Action {
	if !l.seen.Mark(m.Res) {
		return acts
	}
	if len(m.Launch.Files) > 0 && (c.fetches[m.Launch.Attempt] != nil || c.attempts[m.Launch.Attempt] != nil) {
		return acts // its frontend uses an id twice; the first one goes
	}
	reason, after := c.unacceptable(m.Demand, m.Long), time.Duration(0)
	if c.moved(l, m.Job, m.Generation) {
		reason = probe.Moved
	}
	if reason == 0 {
		reason = c.unfit(l, m.Job, &m.Launch, now)
	}
	class := m.Standing.Class
	q := c.queueOf(class)
	if reason == 0 && !q.takes(m.Tenant, c.room(class)) {
		reason, after = probe.QueueFull, fullRetry
	}
	if reason != 0 {
		return c.refuse(l, m.Res, 1, m.Launch.Attempt, reason, after, acts)
	}
	q.weigh(q.tenant(m.Tenant), m.Weights)
	ahead := uint32(q.len())
	c.Stats.Reserved++
	p := &place{
		link: l, res: m.Res, job: m.Job, generation: m.Generation, tenant: m.Tenant, priority: m.Priority, demand: m.Demand, long: m.Long,
		estimate: m.Launch.Estimate, expected: m.Launch.Estimate, launch: &m.Launch, tellMatrix: m.Matrix,
	}
	p.common = l.common(m.Job, p.launch)
	c.stamp(p, m.Standing)
	if class == probe.Regular {
		c.cameRegular(p)
	}
	if len(m.Launch.Files) > 0 {
		acts = c.fetch(p, now, acts)
	}
	c.queuePlace(p, now)
	if acts = c.fill(now, acts); l.places[m.Res] != nil {
		answer := probe.Queued{First: m.Res, Count: 1, Ahead: ahead, Load: c.load(m.Matrix, now)}
		if m.Matrix {
			answer.Wait = c.waitOf(p, now)
		}
		acts = c.send(l, answer, acts)
	}
	return acts
}

// room is how many more places of a class the queue takes: of those that are not regular no more than it leaves room for.
func (c *Core) room(class probe.Class) int {
	n := c.cfg.MaxQueue - c.queue.len() - c.spare.len() - c.parked
	if class != probe.Regular {
		n -= c.spare.len()
	}
	return n
}

// unacceptable says why no place of this demand is taken, or 0.
func (c *Core) unacceptable(d probe.Demand, long bool) probe.Reason {
	switch {
	case c.leaving:
		return probe.Leaving
	case !needs(d, long).fits(room{c.capacity.all, c.always}):
		return probe.TooBig
	}
	return 0
}

// unfit says why this worker cannot run a launch, or 0.
func (c *Core) unfit(l *link, job probe.JobID, m *probe.Launch, now time.Time) probe.Reason {
	common := l.named(job, m)
	if common != nil {
		c.used(common, now)
	}
	switch {
	case common == nil && m.Context != nil && m.Context.Common > 0:
		return probe.NoCommon
	case !c.functions[m.Function]:
		return probe.NoFunction
	case len(m.Payload) > c.cfg.MaxPayload, common != nil && len(common.payload) > c.cfg.MaxPayload:
		return probe.Oversized
	}
	return 0
}

// unfitLate is unfit for a launch that is not to be queued.
func (c *Core) unfitLate(l *link, job probe.JobID, m *probe.Launch, now time.Time) probe.Reason {
	if len(m.Files) > 0 {
		return probe.NeedsFiles
	}
	return c.unfit(l, job, m, now)
}

func (c *Core) refuse(l *link, first probe.ResID, count uint32, a probe.AttemptID, reason probe.Reason, after time.Duration, acts []Action) []Action {
	c.Stats.Refused++
	return c.send(l, probe.Refused{
		First: first, Count: count, Attempt: a, Reason: reason, RetryAfter: after, Load: c.Load(),
	}, acts)
}

func (c *Core) queuePlace(p *place, now time.Time) {
	c.seq++
	p.seq, p.queuedAt, p.toldAt = c.seq, now, now
	p.of = c.queueOf(p.class).tenant(p.tenant)
	p.since = c.sums(p.of)
	if p.launch != nil {
		p.link.tasks++
	}
	c.line(p)
}

// line puts a place into the queue, or beside it if its link is silent.
func (c *Core) line(p *place) {
	p.link.places[p.res] = p
	if p.link.silent {
		p.state = parked
		p.link.parked = append(p.link.parked, p)
		c.parked++
		return
	}
	p.state = queued
	if c.classify(p).push(p); p.class != probe.Regular && p.due > 0 {
		c.aging.Push(aging{p})
	}
}

// unline takes a place out of the queue.
func (c *Core) unline(p *place) {
	c.queueOf(p.class).remove(p)
	c.aging.Remove(aging{p})
}

// mark notes that the link's ids were seen, and reports whether one of them was new.
func (l *link) mark(first probe.ResID, count uint32) bool {
	fresh := false
	for i := range count {
		fresh = l.seen.Mark(first+probe.ResID(i)) || fresh
	}
	return fresh
}

// fill hands free room to whoever is next: tasks already bound to it, places already asked about, then the
// queue, in its order, and then where there are gaps. It has spare work stopped that stands in the way, lets what is not
// regular have what nothing else can use, and at last asks ahead for room that is expected within one round trip.
func (c *Core) fill(now time.Time, acts []Action) []Action {
	for filled := true; filled; { // whoever fills a gap may, under Fair, bring another tenant to the head
		if acts = c.fillInOrder(now, acts); c.queue.len() == 0 {
			break
		}
		acts, filled = c.backfill(now, acts)
	}
	acts = c.fillSpare(now, c.preempt(now, acts))
	if c.queue.len() > 0 {
		acts = c.askAhead(now, acts)
	}
	return acts
}

// fillInOrder goes as far as there is room for who is next.
func (c *Core) fillInOrder(now time.Time, acts []Action) []Action {
	for {
		c.reopen(now)
		if a := c.staged.First(); a != nil {
			if !needs(a.demand, a.long).fits(c.free) {
				return acts
			}
			c.unstage(a)
			c.take(needs(a.demand, a.long))
			acts = c.start(a, now, acts)
			continue
		}
		if len(c.early) > 0 {
			p := c.early[0]
			if !p.needs().fits(c.free) {
				return acts
			}
			c.dropEarly(p)
			p.state = held
			c.hold(p)
			p.bill.use()
			continue
		}
		if c.queue.len() == 0 {
			return acts
		}
		p := c.queue.head(now)
		if p.fetching() || !p.needs().fits(c.free) {
			return acts
		}
		c.queue.take(p)
		acts = c.begin(p, now, acts)
	}
}

// begin gives its room to a place that was taken out of the queue.
func (c *Core) begin(p *place, now time.Time, acts []Action) []Action {
	if p.launch == nil {
		p.bill.use()
		c.hold(p)
		return c.ask(p, held, now, acts)
	}
	if c.attempts[p.launch.Attempt] != nil {
		c.dropPlace(p) // its frontend uses an id twice; the first one goes
		return acts
	}
	delete(p.link.places, p.res)
	p.link.tasks--
	if p.files != nil {
		delete(c.fetches, p.launch.Attempt)
	}
	a := c.attempt(p, now)
	c.enter(a)
	c.take(p.needs())
	acts = c.start(a, now, acts)
	return c.send(p.link, probe.Started{
		Attempt: a.id, Res: p.res, Job: p.job, Task: a.task, Load: c.load(p.tellMatrix, now),
	}, acts)
}

// hold takes room for a place whose turn is on.
func (c *Core) hold(p *place) {
	c.take(p.needs())
	c.occupants.held.add(p.demand.CPU, c.queue.now)
}

// attempt is that of a task bound early, whose wait is over.
func (c *Core) attempt(p *place, now time.Time) *attempt {
	a := c.arrive(p.link, p.launch, p.job, p.generation, p.queuedAt)
	a.tenant, a.demand, a.long, a.class, a.of = p.tenant, p.demand, p.long, p.class, p.of
	a.common, a.files, a.expected = p.common, p.files, p.expected
	a.startedAt, a.waited, a.waits = now, now.Sub(p.queuedAt), c.waits(p)
	a.bill = p.endTurn()
	return a
}

// askAhead lets places ask for the room of attempts that should end within one round trip.
func (c *Core) askAhead(now time.Time, acts []Action) []Action {
	for c.willEnd.Len() > 0 && !now.Before(c.willEnd.Min().askAt) {
		a := c.willEnd.Pop()
		a.due = true
		c.due = append(c.due, a)
		c.dueRoom = c.dueRoom.Add(a.demand)
	}
	for c.queue.len() > 0 && len(c.due) > 0 {
		p := c.queue.head(now)
		if !p.mayAskEarly || !c.promised.Add(p.demand).Fits(c.free.all.Add(c.dueRoom)) {
			break
		}
		acts = c.askEarly(p, now, acts)
	}
	return acts
}

// askEarly asks whether there is a task for a place, ahead of its room.
func (c *Core) askEarly(p *place, now time.Time, acts []Action) []Action {
	c.queue.take(p)
	c.early = append(c.early, p)
	c.promised = c.promised.Add(p.demand)
	c.Stats.EarlyAsks++
	return c.ask(p, early, now, acts)
}

// ask tells the frontend that the place's turn has come.
func (c *Core) ask(p *place, state placeState, now time.Time, acts []Action) []Action {
	p.state, p.askedAt, p.waits = state, now, c.waits(p)
	c.asked.Push(p)
	m := probe.Ready{Res: p.res, Turn: p.turn, Waited: now.Sub(p.queuedAt), Expiry: c.cfg.ReadyExpiry, Load: c.Load()}
	if state == early {
		m.Early = p.link.lead
	}
	return c.send(p.link, m, acts)
}

// askedPlace is the place whose given turn is on, or nil.
func (c *Core) askedPlace(l *link, res probe.ResID, turn probe.Turn) *place {
	if p := l.places[res]; p != nil && p.turn == turn && (p.state == held || p.state == early) {
		return p
	}
	return nil
}

// bind gives a task to a place whose turn is on.
func (c *Core) bind(l *link, m *probe.Bind, now time.Time, acts []Action) []Action {
	if !l.bound.Mark(probe.ResID(m.Launch.Attempt.Seq)) || c.has(l, m.Launch.Attempt) {
		return acts // repeated, and not to be refused: it may have run, and be forgotten
	}
	p := c.askedPlace(l, m.Res, m.Turn)
	if p == nil {
		acts = c.refuseAll(l, m.Bundle, probe.Expired, acts)
		return c.refuse(l, 0, 0, m.Launch.Attempt, probe.Expired, 0, acts)
	}
	l.learn(now.Sub(p.askedAt))
	c.learned.turned(true)
	job, generation := p.job, p.generation
	own := m.Job == probe.JobID{} || m.Job == p.job
	if !own {
		job, generation = m.Job, m.Generation
	}
	reason := c.unfitLate(l, job, &m.Launch, now)
	if !own && c.moved(l, job, generation) {
		reason = probe.Moved
	}
	if reason != 0 {
		c.dropPlace(p)
		acts = c.refuseAll(l, m.Bundle, reason, acts)
		return c.refuse(l, m.Res, 1, m.Launch.Attempt, reason, 0, acts)
	}
	if p.class != probe.Regular && len(m.Bundle) > 0 { // what is staged goes ahead of the queue
		acts = c.refuseAll(l, m.Bundle, probe.Late, acts)
		m.Bundle = nil
	}
	c.Stats.Bound++
	expected := p.expected
	if !own { // tasks of another job may be of another function
		expected = 0
	}
	a := c.arrive(l, &m.Launch, job, generation, now)
	a.tenant, a.demand, a.class, a.of = p.tenant, p.demand, p.class, p.of
	a.expected = cmp.Or(m.Launch.Estimate, expected)
	a.waited, a.held, a.waits, a.clears = p.askedAt.Sub(p.queuedAt), now.Sub(p.askedAt), p.waits, p.clears
	wasHeld := p.state == held
	c.unask(p)
	switch {
	case m.Keep && c.leaving:
		delete(l.places, p.res)
		acts = c.send(l, probe.Evicted{First: p.res, Count: 1, Reason: probe.Leaving}, acts)
	case m.Keep:
		if (p.turn+1)%maxTurns == 0 {
			c.seq++
			p.seq, p.came, p.queuedAt, p.since = c.seq, c.queue.now, now, c.sums(p.of)
		}
		c.requeue(p)
	default:
		delete(l.places, p.res)
		if own {
			a.from = p
		}
	}
	a.bill = p.endTurn()
	if wasHeld {
		c.occupants.held.add(-p.demand.CPU, c.queue.now)
		c.enter(a)
		acts = c.start(a, now, acts)
	} else {
		c.stage(a, now)
	}
	for i := range m.Bundle {
		launch := &m.Bundle[i]
		if c.has(l, launch.Attempt) {
			continue // its frontend uses an id twice
		}
		if reason := c.unfitLate(l, job, launch, now); reason != 0 {
			acts = c.refuse(l, 0, 0, launch.Attempt, reason, 0, acts)
			continue
		}
		c.Stats.Bound++
		b := c.arrive(l, launch, job, generation, now)
		b.tenant, b.demand, b.of = p.tenant, p.demand, p.of
		b.expected = cmp.Or(launch.Estimate, expected)
		b.waited, b.held, b.waits = a.waited, a.held, a.waits
		b.bill = c.queue.chargeMore(c.queue.tenant(p.tenant), p.demand, cmp.Or(launch.Estimate, p.expected))
		c.stage(b, now)
	}
	return acts
}

// stage lets an attempt wait, ahead of the queue, for a slot that should fall free within a round trip.
func (c *Core) stage(a *attempt, now time.Time) {
	a.state, a.since = staged, now
	c.enter(a)
	c.staged.Push(a)
	c.promised = c.promised.Add(a.demand)
}

// refuseAll refuses the launches of a bundle, but for any that came before.
func (c *Core) refuseAll(l *link, bundle []probe.Launch, reason probe.Reason, acts []Action) []Action {
	for i := range bundle {
		if c.attempts[bundle[i].Attempt] == nil {
			acts = c.refuse(l, 0, 0, bundle[i].Attempt, reason, 0, acts)
		}
	}
	return acts
}

// maxTurns is how many turns in a row a sticky place has where it was in the queue. Then it goes to the back: its job is a
// large one, and small ones that came later are not to wait until all of it has been served.
const maxTurns = 16

// requeue puts a place back where it was in the queue, for another turn.
func (c *Core) requeue(p *place) {
	p.turn++
	p.startIn, p.clears = 0, false
	c.line(p)
}

// unask takes a place out of those that were asked about, without freeing what it holds.
func (c *Core) unask(p *place) {
	c.asked.Remove(p)
	if p.state == early {
		c.dropEarly(p)
	}
}

func (c *Core) dropEarly(p *place) {
	c.early = slices.Delete(c.early, slices.Index(c.early, p), slices.Index(c.early, p)+1)
	c.promised = c.promised.Sub(p.demand)
}

// dropPlace forgets a place, whatever its state, and frees what it holds.
func (c *Core) dropPlace(p *place) {
	switch p.state {
	case queued:
		c.unline(p)
	case parked:
		p.link.parked = slices.Delete(p.link.parked, slices.Index(p.link.parked, p), slices.Index(p.link.parked, p)+1)
		c.parked--
	case held:
		c.unask(p)
		c.give(p.needs())
		c.occupants.held.add(-p.demand.CPU, c.queue.now)
	case early:
		c.unask(p)
	}
	p.endTurn().settle(0)
	delete(p.link.places, p.res)
	if p.launch != nil {
		p.link.tasks--
	}
	if p.files != nil {
		delete(c.fetches, p.launch.Attempt)
		c.release(p.launch.Attempt)
	}
}

// park takes the queued places of a silent link out of the queue's way.
func (c *Core) park(l *link) {
	l.silent = true
	for _, p := range l.inOrder(func(p *place) bool { return p.state == queued }) {
		c.unline(p)
		c.line(p)
	}
}

// unpark lets a link that was silent take part again.
func (c *Core) unpark(l *link) {
	if !l.silent {
		return
	}
	places := l.parked
	l.silent, l.parked = false, nil
	c.parked -= len(places)
	for _, p := range places {
		c.line(p)
	}
}

// learn smooths the time that the link needs to answer a Ready, and how far it strays. Who asks that long and four
// times the deviation ahead (as TCP reckons its time-outs) rarely finds the slot free before the answer.
func (l *link) learn(d time.Duration) {
	off := d - l.answer
	l.answer += off / 8
	l.stray += (off.Abs() - l.stray) / 4
	l.lead = min(l.answer+4*l.stray, maxLead)
}

func all(*place) bool { return true }

// inOrder is those places of a link that are meant, by id, so that map order decides nothing.
func (l *link) inOrder(meant func(*place) bool) []*place {
	var ps []*place
	for _, p := range l.places {
		if meant(p) {
			ps = append(ps, p)
		}
	}
	slices.SortFunc(ps, func(a, b *place) int { return cmp.Compare(a.res, b.res) })
	return ps
}

// expire acts on silence: turns that were not answered, staged attempts whose slot did not fall free,
// results and orphans that nobody claimed.
func (c *Core) expire(now time.Time, acts []Action) []Action {
	if !now.Before(c.stays) {
		c.stays = time.Time{}
	}
	for p := c.asked.First(); p != nil && now.Sub(p.askedAt) >= c.cfg.ReadyExpiry; p = c.asked.First() {
		c.Stats.Expired++
		c.learned.turned(false)
		c.dropPlace(p)
		acts = c.send(p.link, probe.Evicted{First: p.res, Count: 1, Reason: probe.Expired}, acts)
		if !p.link.silent {
			c.park(p.link)
		}
	}
	for a := c.lateStaged(now); a != nil; a = c.lateStaged(now) {
		acts = c.handBack(a, now, acts)
	}
	c.disobey(now)
	c.promote()
	c.expireResults(now)
	c.unremember(now)
	c.expireCommons(now)
	for a := c.orphans.First(); a != nil && now.Sub(a.since) >= c.cfg.Grace; a = c.orphans.First() {
		c.orphans.Remove(a)
		c.Stats.Abandoned++
		acts = c.abandon(a, now, acts)
	}
	return acts
}

// lateStaged is the first of the staged attempts, if its patience is over, or nil.
func (c *Core) lateStaged(now time.Time) *attempt {
	if a := c.staged.First(); a != nil && now.Sub(a.since) >= c.patience(a) {
		return a
	}
	return nil
}

// patience is how long a staged attempt waits for the slot it was promised.
func (c *Core) patience(a *attempt) time.Duration {
	if a.clears && c.stopping.Len() > 0 {
		return 2 * obeysFor
	}
	return lateAfter * max(a.owner.lead, firstLead)
}

// handBack returns a staged attempt whose slot did not fall free in time: another worker may have room.
// The attempts that were expected to end are no longer, until they do.
func (c *Core) handBack(a *attempt, now time.Time, acts []Action) []Action {
	c.Stats.Late++
	c.dropStaged(a)
	for _, d := range c.due {
		d.due = false
	}
	clear(c.due)
	c.due, c.dueRoom = c.due[:0], probe.Demand{}
	if p := a.from; p != nil && !c.leaving {
		p.toldAt = now
		c.requeue(p)
	}
	return c.refuse(a.owner, 0, 0, a.id, probe.Late, c.cfg.ReadyExpiry, acts)
}
