package worker

import (
	"cmp"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// reservePlaces takes in the new places of m, and the tasks that ride along. If a ride has room now, and delays no
// waiting place, the ride starts. If the queue is empty and there is no room, up to m.Bundle rides are staged: they
// start when slots fall free. The places of all other rides are queued, and Queued tells the frontend.
func (c *Core) reservePlaces(l *link, m *probe.Reserve, now time.Time, acts []Action) []Action {
	reason := c.whyNoPlace(m.Demand, false)
	c.guardsJobs = c.guardsJobs || m.Guarded
	if c.hasMoved(l, m.Job, m.Tenant, m.Guarded, m.Generation) {
		reason = probe.Moved
	}
	for i := range m.Launches {
		if reason == 0 {
			reason = c.whyCannotRunNow(l, m.Job, &m.Launches[i], now)
		}
	}
	if reason != 0 {
		if !l.markSeen(m.First, m.Count) {
			return acts // repeated: the worker may have accepted the first copy
		}
		return c.sendRefused(l, m.First, m.Count, probe.AttemptID{}, reason, 0, acts)
	}

	// count is the number of places that are queued or started. rides is the number of launches that may start.
	// After the first queued place, no launch rides along. bundle is the number of launches that may still be
	// staged, to wait for slots.
	class := m.Standing.Class
	q, regular := c.queueOf(class), class == probe.Regular
	count, rides, ahead, bundle := m.Count, len(m.Launches), uint32(q.len()), min(m.Bundle, maxStaged)
	need, tenant := roomFor(m.Demand, false), q.ensureTenant(m.Tenant)
	q.setWeights(tenant, m.Weights)
	if regular {
		c.noteShortArrival(need, now)
	}
	hasLooked, gap := false, false // gap: a task may ride past the waiting places (takeGap decides)
	for i := range m.Count {
		id := m.First + probe.ResID(i)
		if !l.seenPlaces.Mark(id) {
			continue
		}
		ride := regular && !l.isFull && int(i) < rides && len(c.askedAhead) == 0 &&
			!c.hasAttempt(l, m.Launches[i].Attempt)
		if ride && c.queue.len() > 0 {
			if !hasLooked {
				hasLooked, gap = true, c.seekGap(need, now)
			}
			gap = gap && c.takeGap(need, m.Launches[i].Estimate)
			ride = gap
		}
		if ride {
			a := c.newAttempt(l, &m.Launches[i], m.Job, m.Generation, now)
			a.tenant, a.guarded, a.demand, a.queueTenant = m.Tenant, m.Guarded, m.Demand, tenant
			a.expectedRun = cmp.Or(a.launch.Estimate, m.Estimate, m.Typical)
			if c.staged.Len() == 0 && need.fitsIn(c.free) {
				c.takeRoom(need)
				a.bill = c.queue.chargeAttempt(tenant, m.Demand, a.expectedRun)
				c.Stats.RidesStarted++
				c.addAttempt(a)
				acts = c.startAttempt(a, now, acts)
				continue
			}
			if bundle > 0 && c.staged.Len() < maxStaged && c.queue.len() == 0 {
				bundle--
				a.bill = c.queue.chargeAttempt(tenant, m.Demand, a.expectedRun)
				c.Stats.RidesStarted++
				c.stageAttempt(a, now)
				continue
			}
		}
		if !q.mayAddPlace(m.Tenant, c.freePlaces(class)) {
			count = i
			l.markSeen(id, m.Count-i)
			acts = c.sendRefused(l, id, m.Count-i, probe.AttemptID{}, probe.QueueFull, fullRetry, acts)
			break
		}
		c.Stats.Reserved++
		p := &place{
			link: l, res: id, job: m.Job, generation: m.Generation, tenant: m.Tenant, guarded: m.Guarded,
			priority: m.Priority, demand: m.Demand, estimate: m.Estimate,
			expectedRun: cmp.Or(m.Estimate, m.Typical), mayAskAhead: m.Early,
		}
		c.stampPlace(p, m.Standing)
		c.queuePlace(p, now)
		if int(i) < rides {
			rides = int(i)
		}
	}
	if rides < min(len(m.Launches), int(count)) { // the launches from index rides on did not start
		acts = c.sendMsg(l, probe.Queued{
			First: m.First + probe.ResID(rides), Count: count - uint32(rides), Ahead: ahead, Load: c.Load(),
		}, acts)
	}
	return acts
}

// enqueueTask queues a task bound early.
func (c *Core) enqueueTask(l *link, m *probe.Enqueue, now time.Time, acts []Action) []Action {
	if !l.seenPlaces.Mark(m.Res) {
		return acts
	}
	if len(m.Launch.Files) > 0 && (c.fetches[m.Launch.Attempt] != nil || c.attempts[m.Launch.Attempt] != nil) {
		return acts // the frontend used an id twice; the first attempt counts
	}
	reason, retryAfter := c.whyNoPlace(m.Demand, m.Long), time.Duration(0)
	c.guardsJobs = c.guardsJobs || m.Guarded
	if c.hasMoved(l, m.Job, m.Tenant, m.Guarded, m.Generation) {
		reason = probe.Moved
	}
	if reason == 0 {
		reason = c.whyCannotRun(l, m.Job, &m.Launch, now)
	}
	class := m.Standing.Class
	q := c.queueOf(class)
	if reason == 0 && !q.mayAddPlace(m.Tenant, c.freePlaces(class)) {
		reason, retryAfter = probe.QueueFull, fullRetry
	}
	if reason != 0 {
		return c.sendRefused(l, m.Res, 1, m.Launch.Attempt, reason, retryAfter, acts)
	}
	q.setWeights(q.ensureTenant(m.Tenant), m.Weights)
	ahead := uint32(q.len())
	c.Stats.Reserved++
	p := &place{
		link: l, res: m.Res, job: m.Job, generation: m.Generation, tenant: m.Tenant, guarded: m.Guarded,
		priority: m.Priority, demand: m.Demand, long: m.Long,
		estimate: m.Launch.Estimate, expectedRun: m.Launch.Estimate, launch: &m.Launch, wantsMatrix: m.Matrix,
	}
	p.commonPayload = l.commonPayload(m.Job, p.launch)
	c.stampPlace(p, m.Standing)
	if class == probe.Regular {
		c.noteRegular(p)
	}
	if len(m.Launch.Files) > 0 {
		acts = c.fetchFiles(p, now, acts)
	}
	c.queuePlace(p, now)
	// A task that starts at once gets Started as its answer, and no Queued.
	if acts = c.assignRoom(now, acts); l.places[m.Res] != nil {
		answer := probe.Queued{First: m.Res, Count: 1, Ahead: ahead, Load: c.loadWithMatrix(m.Matrix, p.newAsker(), now)}
		if m.Matrix {
			answer.Wait = c.expectedWait(p, now)
		}
		acts = c.sendMsg(l, answer, acts)
	}
	return acts
}

// freePlaces returns how many more places of class the queue takes. Yielded and spare places together may take
// half of what the regular places leave.
func (c *Core) freePlaces(class probe.Class) int {
	n := c.cfg.MaxQueue - c.queue.len() - c.spareQueue.len() - c.parkedCount
	if class != probe.Regular {
		n -= c.spareQueue.len()
	}
	return n
}

// whyNoPlace returns the reason to refuse a place of demand d, or 0.
func (c *Core) whyNoPlace(d probe.Demand, long bool) probe.Reason {
	switch {
	case c.leaving:
		return probe.Leaving
	case !roomFor(d, long).fitsIn(room{c.capacity.all, c.alwaysOpen}):
		return probe.TooBig
	}
	return 0
}

// whyCannotRun returns the reason not to run m at this worker, or 0. The call also counts as a use of the common data
// that m names, so the data does not expire soon.
func (c *Core) whyCannotRun(l *link, job probe.JobID, m *probe.Launch, now time.Time) probe.Reason {
	common := l.findCommon(job, m)
	if common != nil {
		c.noteCommonUse(common, now)
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

// whyCannotRunNow is whyCannotRun for a launch without a wait in the queue, which leaves no time to fetch files.
func (c *Core) whyCannotRunNow(l *link, job probe.JobID, m *probe.Launch, now time.Time) probe.Reason {
	if len(m.Files) > 0 {
		return probe.NeedsFiles
	}
	return c.whyCannotRun(l, job, m, now)
}

// sendRefused refuses count places from first on, or attempt a, or both. With QueueFull, retryAfter tells the
// frontend when to try again. Frontends ignore retryAfter with other reasons.
func (c *Core) sendRefused(
	l *link, first probe.ResID, count uint32, a probe.AttemptID, reason probe.Reason, retryAfter time.Duration,
	acts []Action,
) []Action {
	c.Stats.Refused++
	return c.sendMsg(l, probe.Refused{
		First: first, Count: count, Attempt: a, Reason: reason, RetryAfter: retryAfter, Load: c.Load(),
	}, acts)
}

// sendMoved tells l that an attempt now belongs to another frontend.
func (c *Core) sendMoved(l *link, id probe.AttemptID, acts []Action) []Action {
	return c.sendRefused(l, 0, 0, id, probe.Moved, 0, acts) // no places, and no time to try again
}

// queuePlace gives a new place its sequence number and times, and queues or parks the place.
func (c *Core) queuePlace(p *place, now time.Time) {
	c.seq++
	p.seq, p.queuedAt, p.believedSince = c.seq, now, now
	p.queueTenant = c.queueOf(p.class).ensureTenant(p.tenant)
	p.sumsWhenQueued = c.currentSums(p.queueTenant)
	if p.launch != nil {
		p.link.taskCount++
	}
	c.queueOrPark(p)
}

// queueOrPark puts p into the queue of its class, or parks p if the places of its link are parked. A place that is due
// becomes regular when it enters the queue (prepareForQueue).
func (c *Core) queueOrPark(p *place) {
	p.link.places[p.res] = p
	if p.link.isParked() {
		p.state = parked
		p.link.parked = append(p.link.parked, p)
		c.parkedCount++
		return
	}
	p.state = queued
	if c.prepareForQueue(p).addPlace(p); p.class != probe.Regular && p.due > 0 {
		c.aging.Push(aging{p})
	}
}

// takeFromQueue removes p from the queue, without a charge to its tenant. The place stays known to its link.
func (c *Core) takeFromQueue(p *place) {
	c.queueOf(p.class).removePlace(p)
	c.aging.Remove(aging{p})
}

// markSeen notes count ids from first on as seen, and reports whether an id was new.
func (l *link) markSeen(first probe.ResID, count uint32) bool {
	fresh := false
	for i := range count {
		fresh = l.seenPlaces.Mark(first+probe.ResID(i)) || fresh
	}
	return fresh
}

// assignRoom hands out free room. First come staged attempts, then places asked ahead, then the queue in order,
// then later places in gaps. Next the worker stops spare work in the way, and gives yielded and spare places the
// room that no regular place can use. Last, places ask ahead for room expected to fall free within a round trip.
func (c *Core) assignRoom(now time.Time, acts []Action) []Action {
	for filled := true; filled; { // under Fair, a place in a gap may bring another tenant to the head
		if acts = c.assignInOrder(now, acts); c.queue.len() == 0 {
			break
		}
		acts, filled = c.backfill(now, acts)
	}
	acts = c.assignToSpare(now, c.preemptSpare(now, acts))
	if c.queue.len() > 0 {
		acts = c.askAhead(now, acts)
	}
	return acts
}

// assignInOrder gives room to the next place, again and again, until the next place has no room or waits for files.
func (c *Core) assignInOrder(now time.Time, acts []Action) []Action {
	for {
		c.reopenIfQuiet(now)
		if a := c.staged.First(); a != nil {
			if a.owner.isFull || !roomFor(a.demand, a.long).fitsIn(c.free) {
				return acts
			}
			c.removeStaged(a)
			c.takeRoom(roomFor(a.demand, a.long))
			acts = c.startAttempt(a, now, acts)
			continue
		}
		if len(c.askedAhead) > 0 {
			p := c.askedAhead[0]
			if !p.neededRoom().fitsIn(c.free) {
				return acts
			}
			c.removeAskedAhead(p)
			p.state = asking
			c.takePlaceRoom(p)
			p.bill.StartUse()
			continue
		}
		if c.queue.len() == 0 {
			return acts
		}
		p := c.queue.nextPlace(now)
		if p.waitsForFiles() || !p.neededRoom().fitsIn(c.free) {
			return acts
		}
		c.queue.takeForTurn(p)
		acts = c.giveRoom(p, now, acts)
	}
}

// giveRoom gives room to a place that has just left the queue. A place with a task starts the task. A place
// without a task asks its frontend for a task.
func (c *Core) giveRoom(p *place, now time.Time, acts []Action) []Action {
	if p.launch == nil {
		p.bill.StartUse()
		c.takePlaceRoom(p)
		return c.askPlace(p, asking, now, acts)
	}
	if c.attempts[p.launch.Attempt] != nil {
		c.dropPlace(p) // the frontend used an id twice; the first attempt counts
		return acts
	}
	delete(p.link.places, p.res)
	p.link.taskCount--
	if p.files != nil {
		delete(c.fetches, p.launch.Attempt)
	}
	a := c.newEarlyAttempt(p, now)
	c.addAttempt(a)
	c.takeRoom(p.neededRoom())
	acts = c.startAttempt(a, now, acts)
	return c.sendMsg(p.link, probe.Started{
		Attempt: a.id, Res: p.res, Job: p.job, Task: a.task, Load: c.loadWithMatrix(p.wantsMatrix, p.newAsker(), now),
	}, acts)
}

// takePlaceRoom takes room for a place during its turn, and counts the CPU as held by an asking place.
func (c *Core) takePlaceRoom(p *place) {
	c.takeRoom(p.neededRoom())
	c.occupants.asking.addCPU(p.demand.CPU, c.queue.now)
}

// newEarlyAttempt makes the attempt of a task bound early, whose wait is over. The bill of p passes to the attempt. The
// caller adds the attempt by addAttempt.
func (c *Core) newEarlyAttempt(p *place, now time.Time) *attempt {
	a := c.newAttempt(p.link, p.launch, p.job, p.generation, p.queuedAt)
	a.tenant, a.guarded, a.demand, a.long, a.class = p.tenant, p.guarded, p.demand, p.long, p.class
	a.queueTenant = p.queueTenant
	a.commonPayload, a.files, a.expectedRun = p.commonPayload, p.files, p.expectedRun
	a.startedAt, a.waited, a.waitParts = now, now.Sub(p.queuedAt), c.splitWait(p)
	a.bill = p.takeBill()
	return a
}

// askAhead lets places ask for the room of attempts about to end within a round trip.
func (c *Core) askAhead(now time.Time, acts []Action) []Action {
	for c.expectedEnds.Len() > 0 && !now.Before(c.expectedEnds.Min().askAt) {
		a := c.expectedEnds.Pop()
		a.endsSoon = true
		c.endingSoon = append(c.endingSoon, a)
		c.endingSoonRoom = c.endingSoonRoom.Add(a.demand)
	}
	for c.queue.len() > 0 && len(c.endingSoon) > 0 {
		p := c.queue.nextPlace(now)
		if !p.mayAskAhead || !c.promised.Add(p.demand).Fits(c.free.all.Add(c.endingSoonRoom)) {
			break
		}
		acts = c.askPlaceAhead(p, now, acts)
	}
	return acts
}

// askPlaceAhead asks the frontend of p for a task before there is room.
func (c *Core) askPlaceAhead(p *place, now time.Time, acts []Action) []Action {
	c.queue.takeForTurn(p)
	c.askedAhead = append(c.askedAhead, p)
	c.promised = c.promised.Add(p.demand)
	c.Stats.EarlyAsks++
	return c.askPlace(p, askingAhead, now, acts)
}

// askPlace tells the frontend that the turn of p has come.
func (c *Core) askPlace(p *place, state placeState, now time.Time, acts []Action) []Action {
	p.state, p.askedAt, p.waitParts = state, now, c.splitWait(p)
	c.beginExpiry(p, now)
	m := probe.Ready{
		Res: p.res, Turn: p.turn, Waited: now.Sub(p.queuedAt), Expiry: c.cfg.ReadyExpiry, Load: c.Load(),
	}
	if state == askingAhead {
		m.Early = p.link.lead
	}
	return c.sendMsg(p.link, m, acts)
}

// beginExpiry gives the frontend of p another ReadyExpiry for its answer, and puts p at the end of the list asked.
func (c *Core) beginExpiry(p *place, now time.Time) {
	p.expiryBegan, p.arrivedBefore = now, p.link.arrived
	c.asked.Push(p)
}

// answerMayArrive reports whether bytes have come from the frontend of p since expiryBegan, at minAnswerRate at least.
// Then the answer may be on its way: a large payload, or a message behind large payloads. If the turn ended now, the
// frontend would send the payload again at the next turn, and the payload would never arrive in time.
func (p *place) answerMayArrive(now time.Time) bool {
	return float64(p.link.arrived-p.arrivedBefore) > minAnswerRate*now.Sub(p.expiryBegan).Seconds()
}

// askedPlace returns the place res of l if its turn is on now, or nil.
func (c *Core) askedPlace(l *link, res probe.ResID, turn probe.Turn) *place {
	if p := l.places[res]; p != nil && p.turn == turn && (p.state == asking || p.state == askingAhead) {
		return p
	}
	return nil
}

// bindTask gives the task and the bundle of m to a place whose turn is on.
func (c *Core) bindTask(l *link, m *probe.Bind, now time.Time, acts []Action) []Action {
	if !l.boundAttempts.Mark(probe.ResID(m.Launch.Attempt.Seq)) || c.hasAttempt(l, m.Launch.Attempt) {
		return acts // repeated; not refused, because the first copy may have run and be forgotten
	}
	p := c.askedPlace(l, m.Res, m.Turn)
	if p == nil {
		acts = c.refuseBundle(l, m.Bundle, probe.Expired, acts)
		return c.sendRefused(l, 0, 0, m.Launch.Attempt, probe.Expired, 0, acts)
	}
	l.noteAnswerTime(now.Sub(p.askedAt))
	c.averages.noteTurn(true)
	job, generation := p.job, p.generation
	// A frontend may share the turn, and send a task of another job of the tenant.
	ownJob := m.Job == probe.JobID{} || m.Job == p.job
	if !ownJob {
		job, generation = m.Job, m.Generation
	}
	reason := c.whyCannotRunNow(l, job, &m.Launch, now)
	if !ownJob && c.hasMoved(l, job, p.tenant, p.guarded, generation) {
		reason = probe.Moved
	}
	if reason != 0 {
		c.dropPlace(p)
		acts = c.refuseBundle(l, m.Bundle, reason, acts)
		return c.sendRefused(l, m.Res, 1, m.Launch.Attempt, reason, 0, acts)
	}
	if p.class != probe.Regular && len(m.Bundle) > 0 { // staged tasks would go before the regular queue
		acts = c.refuseBundle(l, m.Bundle, probe.Late, acts)
		m.Bundle = nil
	}
	c.Stats.Bound++
	expected := p.expectedRun
	if !ownJob { // another job's tasks may call another function
		expected = 0
	}
	a := c.newAttempt(l, &m.Launch, job, generation, now)
	a.tenant, a.guarded, a.demand, a.class, a.queueTenant = p.tenant, p.guarded, p.demand, p.class, p.queueTenant
	a.expectedRun = cmp.Or(m.Launch.Estimate, expected)
	a.waited, a.heldFor, a.waitParts, a.stopsSpare =
		p.askedAt.Sub(p.queuedAt), now.Sub(p.askedAt), p.waitParts, p.stopsSpare
	wasAsking := p.state == asking
	c.stopAsking(p)
	switch {
	case m.Keep && c.leaving:
		delete(l.places, p.res)
		acts = c.sendMsg(l, probe.Evicted{First: p.res, Count: 1, Reason: probe.Leaving}, acts)
	case m.Keep:
		if (p.turn+1)%maxTurns == 0 {
			c.seq++
			p.seq, p.cameAt, p.queuedAt, p.sumsWhenQueued = c.seq, c.queue.now, now, c.currentSums(p.queueTenant)
		}
		c.requeuePlace(p)
	default:
		delete(l.places, p.res)
		if ownJob { // a shared turn uses up the place
			a.returnPlace = p
		}
	}
	a.bill = p.takeBill()
	if wasAsking {
		c.occupants.asking.addCPU(-p.demand.CPU, c.queue.now)
		c.addAttempt(a)
		acts = c.startAttempt(a, now, acts)
	} else {
		c.stageAttempt(a, now)
	}
	for i := range m.Bundle {
		launch := &m.Bundle[i]
		if c.hasAttempt(l, launch.Attempt) {
			continue // the frontend used an id twice
		}
		if reason := c.whyCannotRunNow(l, job, launch, now); reason != 0 {
			acts = c.sendRefused(l, 0, 0, launch.Attempt, reason, 0, acts)
			continue
		}
		c.Stats.Bound++
		b := c.newAttempt(l, launch, job, generation, now)
		b.tenant, b.guarded, b.demand, b.queueTenant = p.tenant, p.guarded, p.demand, p.queueTenant
		b.expectedRun = cmp.Or(launch.Estimate, expected)
		b.waited, b.heldFor, b.waitParts = a.waited, a.heldFor, a.waitParts
		b.bill = c.queue.chargeAttempt(c.queue.ensureTenant(p.tenant), p.demand, b.expectedRun)
		c.stageAttempt(b, now)
	}
	return acts
}

// stageAttempt lets an attempt wait, before the queue, for a slot expected to fall free within a round trip.
func (c *Core) stageAttempt(a *attempt, now time.Time) {
	a.state, a.stateSince = staged, now
	c.addAttempt(a)
	c.staged.Push(a)
	c.promised = c.promised.Add(a.demand)
}

// refuseBundle refuses the launches of a bundle, except attempts that came before.
func (c *Core) refuseBundle(l *link, bundle []probe.Launch, reason probe.Reason, acts []Action) []Action {
	for i := range bundle {
		if c.attempts[bundle[i].Attempt] == nil {
			acts = c.sendRefused(l, 0, 0, bundle[i].Attempt, reason, 0, acts)
		}
	}
	return acts
}

// maxTurns is the number of turns of a sticky place at the same position in the queue. Then the place goes to the
// back. Its job is large, and later small jobs shall not wait for the end of a large job. The number was chosen.
const maxTurns = 16

// requeuePlace puts p back at its position in the queue, for another turn.
func (c *Core) requeuePlace(p *place) {
	p.turn++
	p.firstPlannedWait, p.stopsSpare = 0, false
	c.queueOrPark(p)
}

// stopAsking takes p off the lists of asked places. The room that p holds stays taken, for the caller to free or
// to hand on.
func (c *Core) stopAsking(p *place) {
	c.asked.Remove(p)
	if p.state == askingAhead {
		c.removeAskedAhead(p)
	}
}

// removeAskedAhead removes p from askedAhead. The caller gives p a slot, or drops p.
func (c *Core) removeAskedAhead(p *place) {
	c.askedAhead = slices.Delete(c.askedAhead, slices.Index(c.askedAhead, p), slices.Index(c.askedAhead, p)+1)
	c.promised = c.promised.Sub(p.demand)
}

// dropPlace forgets a place in any state, and frees its room.
func (c *Core) dropPlace(p *place) {
	switch p.state {
	case queued:
		c.takeFromQueue(p)
	case parked:
		p.link.parked = slices.Delete(p.link.parked, slices.Index(p.link.parked, p), slices.Index(p.link.parked, p)+1)
		c.parkedCount--
	case asking:
		c.stopAsking(p)
		c.freeRoom(p.neededRoom())
		c.occupants.asking.addCPU(-p.demand.CPU, c.queue.now)
	case askingAhead:
		c.stopAsking(p)
	}
	p.takeBill().settle(0)
	delete(p.link.places, p.res)
	if p.launch != nil {
		p.link.taskCount--
	}
	if p.files != nil {
		delete(c.fetches, p.launch.Attempt)
		c.releaseFiles(p.launch.Attempt)
	}
}

// isParked reports whether the places of a link are parked: the frontend is silent, or too many results wait for it.
func (l *link) isParked() bool { return l.silent || l.isFull }

// parkPlaces takes the queued places of a link out of the queue, so no other place waits behind them.
func (c *Core) parkPlaces(l *link) {
	for _, p := range l.placesInOrder(func(p *place) bool { return p.state == queued }) {
		c.takeFromQueue(p)
		c.queueOrPark(p)
	}
}

// noteHeard takes in that the frontend of a link has spoken.
func (c *Core) noteHeard(l *link) {
	if l.silent {
		l.silent = false
		c.unparkPlaces(l)
	}
}

// unparkPlaces puts the parked places of a link back into the queue, unless there is another reason to park them.
func (c *Core) unparkPlaces(l *link) {
	if l.isParked() {
		return
	}
	places := l.parked
	l.parked = nil
	c.parkedCount -= len(places)
	for _, p := range places {
		c.queueOrPark(p)
	}
}

// noteAnswerTime takes the time of an answer to a Ready into the link's mean and mean deviation. The lead is the
// mean plus four deviations, as in TCP's retransmission timer. With this lead the slot is rarely free before the
// answer.
func (l *link) noteAnswerTime(d time.Duration) {
	deviation := d - l.answerTime
	l.answerTime += deviation / 8
	l.answerDeviation += (deviation.Abs() - l.answerDeviation) / 4
	l.lead = min(l.answerTime+4*l.answerDeviation, maxLead)
}

// anyPlace is the filter for all places.
func anyPlace(*place) bool { return true }

// placesInOrder returns the places of a link that pass the filter, by id, so that the order of a map decides nothing.
func (l *link) placesInOrder(filter func(*place) bool) []*place {
	var ps []*place
	for _, p := range l.places {
		if filter(p) {
			ps = append(ps, p)
		}
	}
	slices.SortFunc(ps, func(a, b *place) int { return cmp.Compare(a.res, b.res) })
	return ps
}

// expireOverdue acts on all limits of time that have passed. It ends turns without an answer, unless the answer may be
// on its way, hands back staged attempts whose slot did not fall free, and abandons orphans. It gives up on attempts
// that do not stop, and makes due places regular. It also forgets unclaimed results, memories of jobs, and unused
// common data.
func (c *Core) expireOverdue(now time.Time, acts []Action) []Action {
	if !now.Before(c.staysUntil) {
		c.staysUntil = time.Time{}
	}
	for p := c.asked.First(); p != nil && now.Sub(p.expiryBegan) >= c.cfg.ReadyExpiry; p = c.asked.First() {
		if p.answerMayArrive(now) {
			c.asked.Remove(p)
			c.beginExpiry(p, now)
			continue
		}
		c.Stats.Expired++
		c.averages.noteTurn(false)
		c.dropPlace(p)
		acts = c.sendMsg(p.link, probe.Evicted{First: p.res, Count: 1, Reason: probe.Expired}, acts)
		if !p.link.silent {
			p.link.silent = true
			c.parkPlaces(p.link)
		}
	}
	for a := c.lateStaged(now); a != nil; a = c.lateStaged(now) {
		acts = c.handBack(a, now, acts)
	}
	c.giveUpStopping(now)
	c.promoteDue()
	c.expireResults(now)
	c.expireMemories(now)
	c.expireCommons(now)
	for a := c.orphans.First(); a != nil && now.Sub(a.stateSince) >= c.cfg.Grace; a = c.orphans.First() {
		c.orphans.Remove(a)
		c.Stats.Abandoned++
		acts = c.abandonAttempt(a, now, acts)
	}
	return acts
}

// lateStaged returns the first staged attempt if it has waited longer than patienceFor, or nil. Staged attempts
// start in order, so an attempt behind the first cannot start earlier. If its limit passes meanwhile, the attempt is
// handed back only when it comes first: Step looks again once the first has started, or was handed back.
func (c *Core) lateStaged(now time.Time) *attempt {
	if a := c.staged.First(); a != nil && now.Sub(a.stateSince) >= c.patienceFor(a) {
		return a
	}
	return nil
}

// patienceFor returns how long a staged attempt waits for the slot promised to it. Spare work that stops for the
// attempt may take obeysFor after the order. The order may go out some time after the attempt was staged, so the
// limit is twice obeysFor. If too many results wait for the frontend, the attempt may not start, and does not wait.
func (c *Core) patienceFor(a *attempt) time.Duration {
	if a.owner.isFull {
		return 0
	}
	if a.stopsSpare && c.stopping.Len() > 0 {
		return 2 * obeysFor
	}
	return lateAfter * max(a.owner.lead, initialLead)
}

// handBack returns a staged attempt to its frontend, because the promised slot did not fall free in time. Another
// worker may have room. The attempts in endingSoon are no longer expected to end soon, because the forecast failed.
// The refusal carries ReadyExpiry as its RetryAfter, which has no effect: with Late, frontends ignore RetryAfter,
// also those of the last release.
func (c *Core) handBack(a *attempt, now time.Time, acts []Action) []Action {
	c.Stats.Late++
	c.dropStaged(a)
	for _, d := range c.endingSoon {
		d.endsSoon = false
	}
	clear(c.endingSoon)
	c.endingSoon, c.endingSoonRoom = c.endingSoon[:0], probe.Demand{}
	if p := a.returnPlace; p != nil && !c.leaving {
		p.believedSince = now
		c.requeuePlace(p)
	}
	return c.sendRefused(a.owner, 0, 0, a.id, probe.Late, c.cfg.ReadyExpiry, acts)
}
