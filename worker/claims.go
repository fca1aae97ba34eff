package worker

import (
	"cmp"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// jobMemory is what is remembered of a job besides its attempts: who claimed it last, so that the earlier owner cannot start
// a task of it any more, and whether attempts of it that had started were forgotten, so that nobody takes them for
// tasks that never did.
type jobMemory struct {
	job            probe.JobID
	owner          probe.FrontendID // 0: nobody has claimed it
	generation     probe.Generation // of that claim
	forgotAttempts bool
	changedAt      time.Time // of what is remembered
	node           list.Node[*jobMemory]
}

const (
	// rememberFor is much longer than an earlier owner may come with a job that has moved. What it sent is under way for
	// no longer than its lease, but a frontend that was frozen goes on with what it has. It lets go of the job when one
	// worker tells it that the job has moved, or when it sees that the client is gone: for that it looks first of all
	// after an absence, and waits for as long as a client may be silent (30 s unless told otherwise).
	rememberFor = 10 * time.Minute
	// maxMemories is more jobs than a frontend may have that is lost with all of them. Beyond it the oldest ones go: their
	// earlier owners have had the longest time to let go of them.
	maxMemories = 1 << 18
)

// rememberJob is what is remembered of a job, to be added to.
func (c *Core) rememberJob(job probe.JobID, now time.Time) *jobMemory {
	m := c.memories[job]
	if m == nil {
		m = &jobMemory{job: job}
		c.memories[job] = m
	} else {
		c.memoriesByAge.Remove(m)
	}
	m.changedAt = now
	c.memoriesByAge.Push(m)
	return m
}

// expireMemories lets go of what is old or too much. Of all jobs that are as old it is unknown from then on whether
// attempts of them have started, if that was unknown of the job.
func (c *Core) expireMemories(now time.Time) {
	for m := c.memoriesByAge.First(); m != nil && (now.Sub(m.changedAt) >= rememberFor || c.memoriesByAge.Len() > maxMemories); m = c.memoriesByAge.First() {
		c.memoriesByAge.Remove(m)
		delete(c.memories, m.job)
		if m.forgotAttempts {
			c.knownSince = m.changedAt
		}
	}
}

// loseTrack notes that an attempt which had started, and may not have been delivered, is forgotten.
func (c *Core) loseTrack(a *attempt, now time.Time) { c.rememberJob(a.job, now).forgotAttempts = true }

// hasMoved reports whether a job of this generation was claimed since, by another frontend or a later generation.
func (c *Core) hasMoved(l *link, job probe.JobID, g probe.Generation) bool {
	if len(c.memories) == 0 {
		return false
	}
	m := c.memories[job]
	return m != nil && m.owner != 0 && (g < m.generation || g == m.generation && m.owner != l.frontend)
}

// grantClaim gives an attempt, or all of a job, to the link that asks.
func (c *Core) grantClaim(l *link, m *probe.Claim, now time.Time, acts []Action) []Action {
	if m.Attempt != (probe.AttemptID{}) {
		return c.claimAttempt(l, m, now, acts)
	}
	// Of two claims of one generation, as clients make them that do not count, the later one has it.
	if known := c.memories[m.Job]; known != nil && known.owner != 0 && m.Generation < known.generation {
		return c.sendMsg(l, probe.Claimed{Job: m.Job, Generation: m.Generation, Moved: true}, acts)
	}
	known := c.rememberJob(m.Job, now)
	known.owner, known.generation = l.frontend, m.Generation
	for _, other := range c.linksInOrder() {
		for _, p := range other.placesInOrder(func(p *place) bool { return p.job == m.Job && (other != l || p.generation < m.Generation) }) {
			c.dropPlace(p)
			if other != l { // the same frontend has forgotten it with the job
				acts = c.sendMsg(other, probe.Evicted{First: p.res, Count: 1, Reason: probe.Moved}, acts)
			}
		}
	}
	n := uint32(0)
	for _, a := range c.attemptsInOrder(func(a *attempt) bool { return a.job == m.Job && !a.unwanted }) {
		switch {
		case a.state != staged:
			acts = c.adoptAttempt(l, a, now, acts)
			a.generation = m.Generation
			n++
		case a.owner != l || a.generation < m.Generation:
			acts = c.withdrawStaged(l, a, acts)
		}
	}
	return c.sendMsg(l, probe.Claimed{Job: m.Job, Generation: m.Generation, Count: n, Knows: c.knownFor(m.Job, now)}, acts)
}

// knownFor is for how long everything that started of a job has been acknowledged or is here; 0 if that is not certain.
func (c *Core) knownFor(job probe.JobID, now time.Time) time.Duration {
	if m := c.memories[job]; m != nil && m.forgotAttempts || c.leaving { // who leaves has results acknowledged that clients do not have yet
		return 0
	}
	return now.Sub(c.knownSince)
}

// claimAttempt gives an attempt to the link that asks, if its job has not moved.
func (c *Core) claimAttempt(l *link, m *probe.Claim, now time.Time, acts []Action) []Action {
	if c.hasMoved(l, m.Job, m.Generation) {
		return c.sendRefused(l, 0, 0, m.Attempt, probe.Moved, 0, acts)
	}
	a := c.attempts[m.Attempt]
	if a != nil && a.state == staged {
		acts = c.withdrawStaged(l, a, acts)
	} else if a != nil && !a.unwanted {
		return c.adoptAttempt(l, a, now, acts)
	}
	c.Stats.Refused++
	return c.sendMsg(l, probe.Refused{Attempt: m.Attempt, Reason: probe.Unknown, Load: c.Load(), Knows: c.knownFor(m.Job, now)}, acts)
}

// withdrawStaged takes a staged attempt away from its owner, on behalf of l: it will not run.
func (c *Core) withdrawStaged(l *link, a *attempt, acts []Action) []Action {
	c.dropStaged(a)
	if a.owner == l {
		return acts
	}
	return c.sendRefused(a.owner, 0, 0, a.id, probe.Moved, 0, acts)
}

// adoptAttempt makes l the owner of a, and tells it how a stands. The earlier owner, if it is still there, learns
// that the job has moved.
func (c *Core) adoptAttempt(l *link, a *attempt, now time.Time, acts []Action) []Action {
	if a.owner != nil && a.owner != l {
		acts = c.sendRefused(a.owner, 0, 0, a.id, probe.Moved, 0, acts)
	}
	if a.owner == nil {
		c.ownerlessList(a).Remove(a)
		if a.state == ended {
			c.retained.Push(a)
		}
	}
	a.owner, a.stateSince = l, now
	c.Stats.Claimed++
	if a.state == ended {
		return c.sendMsg(l, c.finishedMsg(a), acts)
	}
	return c.sendMsg(l, probe.Started{
		Attempt: a.id, Job: a.job, Task: a.task, Ran: now.Sub(a.startedAt), Load: c.Load(),
	}, acts)
}

// ownerlessList is where an attempt without a link is found.
func (c *Core) ownerlessList(a *attempt) *list.List[*attempt] {
	if a.state == ended {
		return &c.unclaimed
	}
	return &c.orphans
}

// disownResult leaves a result to whoever claims it.
func (c *Core) disownResult(a *attempt, now time.Time) {
	if a.owner != nil {
		c.retained.Remove(a)
		a.owner, a.stateSince = nil, now
		c.unclaimed.Push(a)
	}
}

// retainResult keeps a result until it is acknowledged, or for some time once its frontend is lost.
func (c *Core) retainResult(a *attempt, now time.Time) {
	if a.owner != nil {
		c.retained.Push(a)
		return
	}
	a.stateSince = now
	c.unclaimed.Push(a)
}

// forgetAttempt drops an attempt that has ended.
func (c *Core) forgetAttempt(a *attempt) {
	if a.owner != nil {
		c.retained.Remove(a)
	} else {
		c.unclaimed.Remove(a)
	}
	c.retainedBytes -= a.retainedSize()
	delete(c.attempts, a.id)
	c.freeAttempts.putBack(a)
}

// acknowledgeResult forgets a result of the link's, or one that nobody has claimed since its link broke; or only leaves it to
// whoever claims it.
func (c *Core) acknowledgeResult(l *link, id probe.AttemptID, disowned bool, now time.Time) {
	a := c.attempts[id]
	if a == nil || a.owner != l && a.owner != nil || a.state != ended {
		return
	}
	if disowned {
		c.disownResult(a, now)
		return
	}
	if c.leaving {
		c.loseTrack(a, now)
	}
	c.forgetAttempt(a)
}

// claimableFor is how long a result may be claimed whose frontend is lost. Who leaves does not stay longer for it than for
// attempts that run.
func (c *Core) claimableFor() time.Duration {
	if c.leaving {
		return min(c.cfg.Retain, c.cfg.Grace)
	}
	return c.cfg.Retain
}

// expireResults forgets those that nobody claims, and the oldest ones of too many.
func (c *Core) expireResults(now time.Time) {
	for {
		a := c.unclaimed.First()
		switch {
		case a != nil && now.Sub(a.stateSince) >= c.claimableFor():
		case c.retainedBytes <= c.cfg.MaxRetained:
			return
		case a == nil:
			a = c.retained.First()
		}
		c.Stats.Forgotten++
		c.loseTrack(a, now)
		c.forgetAttempt(a)
	}
}

// attemptsInOrder is those that are meant, by id.
func (c *Core) attemptsInOrder(wanted func(*attempt) bool) []*attempt {
	var as []*attempt
	for _, a := range c.attempts {
		if wanted(a) {
			as = append(as, a)
		}
	}
	slices.SortFunc(as, func(a, b *attempt) int {
		x, y := a.id, b.id
		return cmp.Or(cmp.Compare(x.Frontend, y.Frontend), cmp.Compare(x.Seq, y.Seq))
	})
	return as
}

// Links makes it an item of lists.
func (m *jobMemory) Links() *list.Node[*jobMemory] { return &m.node }
