package worker

import (
	"cmp"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// newAttempt makes the attempt of a launch that came on l. The caller adds it by addAttempt.
func (c *Core) newAttempt(
	l *link, launch *probe.Launch, job probe.JobID, generation probe.Generation, now time.Time,
) *attempt {
	a := c.freeAttempts.getZeroed()
	a.activePart = c.freeActiveParts.getZeroed()
	a.id, a.task, a.launch = launch.Attempt, launch.Task, *launch
	a.job, a.generation, a.owner = job, generation, l
	a.commonPayload, a.arrivedAt, a.stateSince = l.commonPayload(job, launch), now, now
	return a
}

// addAttempt makes an attempt known by its id.
func (c *Core) addAttempt(a *attempt) {
	id, l := a.id, a.owner
	c.attempts[id] = a
	if l.frontend != id.Frontend { // topSeq counts by the frontend in the id
		l = c.linksByFrontend[id.Frontend]
	}
	if l != nil {
		l.topSeq = max(l.topSeq, id.Seq)
	}
}

// hasAttempt reports whether the core has the attempt id, which came on l. Nearly all ids are new. A new id is
// compared with topSeq only: a lookup among the many kept results would miss the processor's cache.
func (c *Core) hasAttempt(l *link, id probe.AttemptID) bool {
	return (id.Frontend != l.frontend || id.Seq <= l.topSeq) && c.attempts[id] != nil
}

// startAttempt starts an attempt. Its room is taken already.
func (c *Core) startAttempt(a *attempt, now time.Time, acts []Action) []Action {
	a.state, a.startedAt, a.returnPlace = running, now, nil
	c.changes++
	a.bill.StartUse()
	c.addCPUUse(a, a.demand.CPU)
	a.runIndex = int32(len(c.runs))
	c.runs = append(c.runs, a)
	c.Stats.Started++
	if a.class == probe.Spare {
		c.Stats.SpareStarted++
		if c.cfg.PreemptAfter >= 0 {
			c.setStopState(a, stoppable)
		}
	}
	if a.launch.Estimate > 0 {
		a.askAt = now.Add(a.launch.Estimate - a.owner.lead)
		c.expectedEnds.Push(a)
	}
	launch := a.launch
	if launch.Deadline > 0 { // the deadline has counted since the arrival
		launch.Deadline = max(launch.Deadline-now.Sub(a.arrivedAt), 1)
	}
	return append(acts, c.lent.starts.Lend(Start{
		Job: a.job, Tenant: a.tenant, Demand: a.demand, Launch: launch, Common: a.commonPayload,
	}))
}

// removeStaged takes an attempt off the list staged. The caller starts or drops the attempt.
func (c *Core) removeStaged(a *attempt) {
	c.staged.Remove(a)
	c.promised = c.promised.Sub(a.demand)
}

// dropStaged forgets a staged attempt: it will not run.
func (c *Core) dropStaged(a *attempt) {
	c.removeStaged(a)
	a.bill.settle(0)
	delete(c.attempts, a.id)
}

// endAttempt takes an attempt out of the running attempts, and passes its result on. The attempt's room is given to
// others first, so that the next Ready leaves before the result. The result is larger, and the start of the next
// task waits for the Ready only.
func (c *Core) endAttempt(ev *Exited, now time.Time, acts []Action) []Action {
	a := c.attempts[ev.Attempt]
	if a == nil || a.state != running {
		return acts
	}
	if a.class == probe.Spare {
		c.endSpareAttempt(a, ev)
	}
	c.freeRoom(roomFor(a.demand, a.long))
	c.addCPUUse(a, -a.demand.CPU)
	last := len(c.runs) - 1
	c.runs[a.runIndex] = c.runs[last]
	c.runs[a.runIndex].runIndex = a.runIndex
	c.runs[last] = nil
	c.runs = c.runs[:last]
	c.averages.noteRun(ev.Run)
	if a.long && a.expectedRun > 0 && ev.Status == probe.Succeeded {
		c.paces.noteEnd(ev.Run, a.expectedRun)
	}
	a.bill.settle(max(ev.Run, now.Sub(a.startedAt))) // ev.Run leaves out the time until Exited came
	a.bill = bill{}
	c.Stats.Finished++
	c.expectedEnds.Remove(a)
	if a.endsSoon {
		a.endsSoon = false
		c.endingSoon = slices.Delete(c.endingSoon, slices.Index(c.endingSoon, a), slices.Index(c.endingSoon, a)+1)
		c.endingSoonRoom = c.endingSoonRoom.Sub(a.demand)
	}
	if a.files != nil {
		c.releaseFiles(ev.Attempt)
	}
	acts = c.assignRoom(now, acts)
	c.orphans.Remove(a)
	if a.unwanted {
		delete(c.attempts, a.id)
		return acts
	}
	return c.concludeAttempt(a, ev, now, acts)
}

// concludeAttempt keeps the result of an attempt, and sends the result to the owner.
func (c *Core) concludeAttempt(a *attempt, ev *Exited, now time.Time, acts []Action) []Action {
	a.state, a.endedAt, a.launchTime, a.end = ended, c.queue.now, a.startedAt.Sub(a.arrivedAt), endingOf(ev)
	c.freeActiveParts.putBack(a.activePart)
	a.activePart = nil
	c.retainResult(a, now)
	c.retainedBytes += a.retainedSize()
	if a.owner == nil {
		return acts
	}
	return c.sendResult(a, acts)
}

// finishedMsg makes the Finished of an attempt that has ended and has an owner.
func (c *Core) finishedMsg(a *attempt) *probe.Finished {
	usage := probe.Usage{CPU: a.end.cpu, Memory: a.end.memory}
	if a.files != nil {
		usage.Fetched, usage.Fetch = a.files.bytes, a.files.took
	}
	status := a.end.status
	if status == probe.Preempted && a.owner.features&probe.Classes == 0 { // an older frontend that claimed the attempt
		status = probe.Killed
	}
	m := c.lent.results.New()
	m.Attempt, m.Job, m.Task = a.id, a.job, a.task
	m.Status, m.Result = status, a.end.result
	m.Waited, m.Held, m.Launch, m.Run, m.Kept = a.waited, a.heldFor, a.launchTime, a.end.run, c.queue.now-a.endedAt
	m.Usage, m.Load, m.Waits = usage, c.Load(), a.waitParts
	if more := a.end.details; more != nil {
		m.Error, m.Code, m.Detail, m.Retry, m.Outputs = more.Error, more.Code, more.Detail, more.Retry, more.Outputs
		m.DiskFailed = more.DiskFailed
	}
	return m
}

// endingOf returns the ending for ev. details stays nil if ev has only a status, a result and usage.
func endingOf(ev *Exited) ending {
	e := ending{status: ev.Status, memory: ev.Memory, result: ev.Result, run: ev.Run, cpu: ev.CPU}
	if ev.Error != "" || ev.Code != "" || len(ev.Detail)+len(ev.Outputs) > 0 || ev.Retry != probe.Anywhere {
		more := *ev
		e.details = &more
	}
	return e
}

// retainedSize returns the memory, in bytes, that a kept result takes.
func (a *attempt) retainedSize() int {
	bytes := retainedCost + len(a.tenant) + len(a.end.result)
	if more := a.end.details; more != nil {
		bytes += detailsCost + len(more.Error) + len(more.Code) + len(more.Detail)
		for i := range more.Outputs {
			bytes += outputCost + len(more.Outputs[i].Data)
		}
	}
	return bytes
}

// abandonAttempt gets rid of an attempt whose result no frontend wants.
func (c *Core) abandonAttempt(a *attempt, now time.Time, acts []Action) []Action {
	switch a.state {
	case staged:
		c.dropStaged(a)
	case running:
		if !a.unwanted {
			a.unwanted = true
			c.noteForgotten(a, now)
			return c.stopAttempt(a, now, acts)
		}
	case ended:
		c.noteForgotten(a, now)
		c.forgetAttempt(a)
	}
	return acts
}

// killAttempt stops a running attempt, forgets a result, or drops a queued task with its place. An attempt of another
// link is left alone. A launch that is still on the way never starts. The worker marks its place as seen, and ignores a
// late Reserve or Enqueue. If the place is asking, the worker drops the place, and refuses a late Bind.
func (c *Core) killAttempt(l *link, m *probe.Kill, now time.Time, acts []Action) []Action {
	if a := c.attempts[m.Attempt]; a != nil {
		if a.owner == l {
			acts = c.abandonAttempt(a, now, acts)
		}
		return acts
	}
	if m.Res == 0 {
		return acts
	}
	l.seenPlaces.Mark(m.Res)
	p := l.places[m.Res]
	if p == nil {
		return acts
	}
	if p.launch != nil && p.launch.Attempt == m.Attempt || c.askedPlace(l, m.Res, m.Turn) == p {
		c.dropPlace(p)
	}
	return acts
}

// syncLink compares the frontend's knowledge with the worker's. The worker drops places and attempts that the
// frontend no longer knows, and sends lost results again. It reports places and attempts that the frontend awaits
// in vain. The worker touches no place or attempt younger than SyncAge, because messages may have crossed.
func (c *Core) syncLink(l *link, m *probe.Sync, now time.Time, acts []Action) []Action {
	var gone probe.Gone
	live := make(map[probe.ResID]bool)
	returning := make(map[probe.ResID]bool) // places to return if their staged task is handed back
	for a := range c.staged.All() {
		if a.owner == l && a.returnPlace != nil {
			returning[a.returnPlace.res] = true
		}
	}
	lookups := 0
	for _, r := range m.Live {
		if lookups += int(r.Count); lookups > maxSync {
			break // no honest frontend has more places here
		}
		first := len(gone.Places)
		for i := range r.Count {
			id := r.First + probe.ResID(i)
			live[id] = true
			if l.places[id] != nil || returning[id] {
				continue
			}
			l.seenPlaces.Mark(id) // a late copy of the place is unwanted
			if n := len(gone.Places); n > first && gone.Places[n-1].First+probe.ResID(gone.Places[n-1].Count) == id {
				gone.Places[n-1].Count++
			} else {
				gone.Places = append(gone.Places, probe.Range{First: id, Count: 1})
			}
		}
	}
	wanted := make(map[probe.AttemptID]bool, len(m.Attempts))
	for _, id := range m.Attempts {
		wanted[id] = true
	}
	queuedTasks := make(map[probe.AttemptID]bool) // bound early
	for _, p := range l.placesInOrder(anyPlace) {
		named := live[p.res]
		if p.launch != nil {
			named = wanted[p.launch.Attempt] // a Sync names a task bound early by its attempt, not by its place
			queuedTasks[p.launch.Attempt] = true
		}
		if p.res < m.Next && !named && (p.state == queued || p.state == parked) &&
			now.Sub(p.believedSince) >= probe.SyncAge {
			c.dropPlace(p)
		}
	}
	mayResend := !l.mayBeUnderWay(now)
	for _, id := range m.Attempts {
		switch a := c.attempts[id]; {
		case a == nil && !queuedTasks[id]:
			gone.Attempts = append(gone.Attempts, id)
		case a != nil && a.owner == nil && c.hasMoved(l, a.job, a.tenant, a.guarded, a.generation):
			acts = c.sendMoved(l, id, acts)
		case a != nil && a.owner == nil:
			acts = c.adoptAttempt(l, a, now, acts) // the frontend's Claim was lost
		case a != nil && a.owner == l && a.state == ended && c.queue.now-a.endedAt >= probe.SyncAge && mayResend:
			acts = c.sendResult(a, acts)
		}
	}
	for _, a := range c.attemptsInOrder(func(a *attempt) bool {
		return a.owner == l && a.state != ended && !wanted[a.id] && now.Sub(a.stateSince) >= probe.SyncAge
	}) {
		acts = c.abandonAttempt(a, now, acts)
	}
	if len(gone.Places)+len(gone.Attempts) > 0 {
		acts = c.sendMsg(l, gone, acts)
	}
	return acts
}

// startLeaving evicts all waiting places and sends Drain to every frontend. Turns that have begun go on. Drain may
// still be on the way, so the worker answers messages for at least ReadyExpiry.
func (c *Core) startLeaving(now time.Time, acts []Action) []Action {
	if c.leaving {
		return acts
	}
	c.leaving, c.staysUntil = true, now.Add(c.cfg.ReadyExpiry)
	for _, l := range c.linksInOrder() {
		acts = c.sendMsg(l, probe.Drain{}, acts)
		for _, p := range l.placesInOrder(func(p *place) bool { return p.state == queued || p.state == parked }) {
			c.dropPlace(p)
			acts = c.sendMsg(l, probe.Evicted{First: p.res, Count: 1, Reason: probe.Leaving}, acts)
		}
	}
	return acts
}

// linkUp makes the link of a new connection. An older link of the same frontend is dropped.
func (c *Core) linkUp(ev LinkUp, now time.Time, acts []Action) []Action {
	if old := c.linksByFrontend[ev.Frontend]; old != nil {
		acts = append(acts, Drop{old.id})
		c.linkDown(old, now)
	}
	l := &link{
		id: ev.Link, frontend: ev.Frontend, features: ev.Features,
		places: map[probe.ResID]*place{}, answerTime: initialLead, lead: initialLead,
	}
	for id := range c.attempts {
		if id.Frontend == l.frontend {
			l.topSeq = max(l.topSeq, id.Seq)
		}
	}
	c.links[l.id] = l
	c.linksByFrontend[l.frontend] = l
	if c.leaving {
		acts = c.sendMsg(l, probe.Drain{}, acts)
	}
	if c.cacheProblem != "" {
		acts = c.sendMsg(l, probe.Cache{Problem: c.cacheProblem}, acts)
	}
	return acts
}

// linkDown drops the places, the staged attempts and the common data of l. Running attempts run on for Grace, and
// results are kept for a claim.
func (c *Core) linkDown(l *link, now time.Time) {
	for _, p := range l.placesInOrder(anyPlace) {
		c.dropPlace(p)
	}
	for _, a := range c.attemptsInOrder(func(a *attempt) bool { return a.owner == l }) {
		switch a.state {
		case staged:
			c.dropStaged(a)
		case running:
			if !a.unwanted {
				c.Stats.Orphaned++
				a.stateSince = now
				c.orphans.Push(a)
			}
		case ended:
			c.disownResult(a, now)
		}
		a.owner = nil
	}
	for _, m := range l.commons {
		c.commons.Remove(m)
	}
	if l.isFull {
		c.fullLinks--
	}
	delete(c.links, l.id)
	delete(c.linksByFrontend, l.frontend)
}

// linksInOrder returns all links by id, so that the order of a map decides nothing.
func (c *Core) linksInOrder() []*link {
	ls := make([]*link, 0, len(c.links))
	for _, l := range c.links {
		ls = append(ls, l)
	}
	slices.SortFunc(ls, func(a, b *link) int { return cmp.Compare(a.id, b.id) })
	return ls
}
