package worker

import (
	"cmp"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// memory is what is remembered of a job besides its attempts: who claimed it last, so that the earlier owner cannot start
// a task of it any more, and whether attempts of it that had started were forgotten, so that nobody takes them for
// tasks that never did.
type memory struct {
	job        probe.JobID
	owner      probe.FrontendID // 0: nobody has claimed it
	generation probe.Generation // of that claim
	forgot     bool
	at         time.Time // of what is remembered
	node       list.Node[*memory]
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

// remember is what is remembered of a job, to be added to.
func (c *Core) remember(job probe.JobID, now time.Time) *memory {
	m := c.memories[job]
	if m == nil {
		m = &memory{job: job}
		c.memories[job] = m
	} else {
		c.remembered.Remove(m)
	}
	m.at = now
	c.remembered.Push(m)
	return m
}

// unremember lets go of what is old or too much. Of all jobs that are as old it is unknown from then on whether
// attempts of them have started, if that was unknown of the job.
func (c *Core) unremember(now time.Time) {
	for m := c.remembered.First(); m != nil && (now.Sub(m.at) >= rememberFor || c.remembered.Len() > maxMemories); m = c.remembered.First() {
		c.remembered.Remove(m)
		delete(c.memories, m.job)
		if m.forgot {
			c.since = m.at
		}
	}
}

// loseTrack notes that an attempt which had started, and may not have been delivered, is forgotten.
func (c *Core) loseTrack(a *attempt, now time.Time) { c.remember(a.job, now).forgot = true }

// moved reports whether a job of this generation was claimed since, by another frontend or a later generation.
func (c *Core) moved(l *link, job probe.JobID, g probe.Generation) bool {
	if len(c.memories) == 0 {
		return false
	}
	m := c.memories[job]
	return m != nil && m.owner != 0 && (g < m.generation || g == m.generation && m.owner != l.frontend)
}

// claim gives an attempt, or all of a job, to the link that asks.
func (c *Core) claim(l *link, m *probe.Claim, now time.Time, acts []Action) []Action {
	if m.Attempt != (probe.AttemptID{}) {
		return c.claimAttempt(l, m, now, acts)
	}
	// Of two claims of one generation, as clients make them that do not count, the later one has it.
	if known := c.memories[m.Job]; known != nil && known.owner != 0 && m.Generation < known.generation {
		return c.send(l, probe.Claimed{Job: m.Job, Generation: m.Generation, Moved: true}, acts)
	}
	known := c.remember(m.Job, now)
	known.owner, known.generation = l.frontend, m.Generation
	for _, other := range c.linksInOrder() {
		for _, p := range other.inOrder(func(p *place) bool { return p.job == m.Job && (other != l || p.generation < m.Generation) }) {
			c.dropPlace(p)
			if other != l { // the same frontend has forgotten it with the job
				acts = c.send(other, probe.Evicted{First: p.res, Count: 1, Reason: probe.Moved}, acts)
			}
		}
	}
	n := uint32(0)
	for _, a := range c.attemptsInOrder(func(a *attempt) bool { return a.job == m.Job && !a.unwanted }) {
		switch {
		case a.state != staged:
			acts = c.adopt(l, a, now, acts)
			a.generation = m.Generation
			n++
		case a.owner != l || a.generation < m.Generation:
			acts = c.withdraw(l, a, acts)
		}
	}
	return c.send(l, probe.Claimed{Job: m.Job, Generation: m.Generation, Count: n, Knows: c.knows(m.Job, now)}, acts)
}

// knows is for how long everything that started of a job has been acknowledged or is here; 0 if that is not certain.
func (c *Core) knows(job probe.JobID, now time.Time) time.Duration {
	if m := c.memories[job]; m != nil && m.forgot || c.leaving { // who leaves has results acknowledged that clients do not have yet
		return 0
	}
	return now.Sub(c.since)
}

// claimAttempt gives an attempt to the link that asks, if its job has not moved.
func (c *Core) claimAttempt(l *link, m *probe.Claim, now time.Time, acts []Action) []Action {
	if c.moved(l, m.Job, m.Generation) {
		return c.refuse(l, 0, 0, m.Attempt, probe.Moved, 0, acts)
	}
	a := c.attempts[m.Attempt]
	if a != nil && a.state == staged {
		acts = c.withdraw(l, a, acts)
	} else if a != nil && !a.unwanted {
		return c.adopt(l, a, now, acts)
	}
	c.Stats.Refused++
	return c.send(l, probe.Refused{Attempt: m.Attempt, Reason: probe.Unknown, Load: c.Load(), Knows: c.knows(m.Job, now)}, acts)
}

// withdraw takes a staged attempt away from its owner, on behalf of l: it will not run.
func (c *Core) withdraw(l *link, a *attempt, acts []Action) []Action {
	c.dropStaged(a)
	if a.owner == l {
		return acts
	}
	return c.refuse(a.owner, 0, 0, a.id, probe.Moved, 0, acts)
}

// adopt makes l the owner of a, and tells it how a stands. The earlier owner, if it is still there, learns
// that the job has moved.
func (c *Core) adopt(l *link, a *attempt, now time.Time, acts []Action) []Action {
	if a.owner != nil && a.owner != l {
		acts = c.refuse(a.owner, 0, 0, a.id, probe.Moved, 0, acts)
	}
	if a.owner == nil {
		c.disowned(a).Remove(a)
		if a.state == ended {
			c.retained.Push(a)
		}
	}
	a.owner, a.since = l, now
	c.Stats.Claimed++
	if a.state == ended {
		return c.send(l, c.finished(a), acts)
	}
	return c.send(l, probe.Started{
		Attempt: a.id, Job: a.job, Task: a.task, Ran: now.Sub(a.startedAt), Load: c.Load(),
	}, acts)
}

// disowned is where an attempt without a link is found.
func (c *Core) disowned(a *attempt) *list.List[*attempt] {
	if a.state == ended {
		return &c.unclaimed
	}
	return &c.orphans
}

// disown leaves a result to whoever claims it.
func (c *Core) disown(a *attempt, now time.Time) {
	if a.owner != nil {
		c.retained.Remove(a)
		a.owner, a.since = nil, now
		c.unclaimed.Push(a)
	}
}

// retain keeps a result until it is acknowledged, or for some time once its frontend is lost.
func (c *Core) retain(a *attempt, now time.Time) {
	if a.owner != nil {
		c.retained.Push(a)
		return
	}
	a.since = now
	c.unclaimed.Push(a)
}

// forget drops an attempt that has ended.
func (c *Core) forget(a *attempt) {
	if a.owner != nil {
		c.retained.Remove(a)
	} else {
		c.unclaimed.Remove(a)
	}
	c.kept -= a.weight()
	delete(c.attempts, a.id)
	c.forgotten.add(a)
}

// acknowledged forgets a result of the link's, or one that nobody has claimed since its link broke; or only leaves it to
// whoever claims it.
func (c *Core) acknowledged(l *link, id probe.AttemptID, disowned bool, now time.Time) {
	a := c.attempts[id]
	if a == nil || a.owner != l && a.owner != nil || a.state != ended {
		return
	}
	if disowned {
		c.disown(a, now)
		return
	}
	if c.leaving {
		c.loseTrack(a, now)
	}
	c.forget(a)
}

// claimable is how long a result may be claimed whose frontend is lost. Who leaves does not stay longer for it than for
// attempts that run.
func (c *Core) claimable() time.Duration {
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
		case a != nil && now.Sub(a.since) >= c.claimable():
		case c.kept <= c.cfg.MaxRetained:
			return
		case a == nil:
			a = c.retained.First()
		}
		c.Stats.Forgotten++
		c.loseTrack(a, now)
		c.forget(a)
	}
}

// attemptsInOrder is those that are meant, by id.
func (c *Core) attemptsInOrder(meant func(*attempt) bool) []*attempt {
	var as []*attempt
	for _, a := range c.attempts {
		if meant(a) {
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
func (m *memory) Links() *list.Node[*memory] { return &m.node }
