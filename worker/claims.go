package worker

import (
	"cmp"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// jobMemory holds facts about a job that outlast its attempts. If owner is set, the worker refuses tasks of
// earlier owners. If forgotAttempts is set, the worker may have forgotten attempts that started. Then the worker does
// not promise that an unknown attempt never started.
type jobMemory struct {
	key            jobKey
	owner          probe.FrontendID // 0: no frontend has claimed the job
	generation     probe.Generation // of the last claim
	forgotAttempts bool
	changedAt      time.Time // when the memory last changed
	node           list.Node[*jobMemory]
}

// jobKey names a job for the claims of frontends. Clients choose the ids of jobs, so the worker tells jobs with
// the same id apart by their tenants.
type jobKey struct {
	job    probe.JobID
	tenant string
	// anyTenant is set if a memory concerns the jobs of all tenants with this id, except guarded jobs. Such memories
	// come from claims of frontends of an older version, and from forgotten attempts of jobs that are not guarded.
	anyTenant bool
}

// keyOf returns the key of the jobs that a claim concerns.
func keyOf(m *probe.Claim) jobKey {
	if m.HasTenant {
		return jobKey{job: m.Job, tenant: m.Tenant}
	}
	return jobKey{job: m.Job, anyTenant: true}
}

// coversTenant reports whether a claim concerns a job of tenant. A frontend of an older version names no tenant: its
// claim concerns all jobs that are not guarded.
func coversTenant(m *probe.Claim, tenant string, guarded bool) bool {
	if m.HasTenant {
		return tenant == m.Tenant
	}
	return !guarded
}

const (
	// rememberFor is the time that a memory is kept after its last change. In this time, an earlier owner of a moved
	// job may still send messages for the job. A message is under way for no longer than the lease of its link: a
	// link that is silent for its lease counts as broken. But a frontend that was frozen goes on with its jobs, until
	// a check shows that their clients are gone. The check takes as long as a client may be silent (30 s by default).
	// The time was chosen much longer than both.
	rememberFor = 10 * time.Minute
	// maxMemories bounds the number of memories. The number was chosen: all jobs of a lost frontend have a memory
	// each, and should fit. Beyond the bound the worker forgets the oldest memories, whose earlier owners
	// have had the longest time to let go of their jobs. maxMemoryNames likewise bounds the bytes of the
	// tenants' names in the memories.
	maxMemories    = 1 << 18
	maxMemoryNames = 16 << 20
)

// rememberJob returns the memory of a job, marked as changed now. If there is none, rememberJob makes an empty memory.
// The caller sets what is to be remembered.
func (c *Core) rememberJob(key jobKey, now time.Time) *jobMemory {
	m := c.memories[key]
	if m == nil {
		m = &jobMemory{key: key}
		c.memories[key] = m
		c.memoryNames += len(key.tenant)
	} else {
		c.memoriesByAge.Remove(m)
	}
	m.changedAt = now
	c.memoriesByAge.Push(m)
	return m
}

// expireMemories forgets old memories, and the oldest of too many. A memory may be the only sign that an attempt of the
// job started, and was forgotten. Without the memory, the worker no longer knows all attempts from the time before the
// last change of the memory. So knownSince moves up to that change.
func (c *Core) expireMemories(now time.Time) {
	for m := c.memoriesByAge.First(); m != nil && (now.Sub(m.changedAt) >= rememberFor ||
		c.memoriesByAge.Len() > maxMemories || c.memoryNames > maxMemoryNames); m = c.memoriesByAge.First() {
		c.memoriesByAge.Remove(m)
		delete(c.memories, m.key)
		c.memoryNames -= len(m.key.tenant)
		if m.forgotAttempts {
			c.knownSince = m.changedAt
		}
	}
}

// noteForgotten notes in the job's memory that the worker forgets a started attempt, whose result may be undelivered.
// The caller drops the attempt.
func (c *Core) noteForgotten(a *attempt, now time.Time) {
	key := jobKey{job: a.job, anyTenant: true}
	if a.guarded {
		key = jobKey{job: a.job, tenant: a.tenant}
	}
	c.rememberJob(key, now).forgotAttempts = true
}

// hasForgotten reports whether the worker has forgotten a started attempt that key may concern.
func (c *Core) hasForgotten(key jobKey) bool {
	own, all := c.memories[key], c.memories[jobKey{job: key.job, anyTenant: true}]
	return own != nil && own.forgotAttempts || all != nil && all.forgotAttempts
}

// hasMoved reports whether the job is no longer l's at generation g: another frontend claimed the job for g, or any
// frontend claimed it for a later generation. If guarded is set, only claims that name the tenant count.
func (c *Core) hasMoved(l *link, job probe.JobID, tenant string, guarded bool, g probe.Generation) bool {
	if len(c.memories) == 0 {
		return false
	}
	return c.memories[jobKey{job: job, tenant: tenant}].outranks(l, g) ||
		!guarded && c.memories[jobKey{job: job, anyTenant: true}].outranks(l, g)
}

// outranks reports whether m remembers a claim that outranks the frontend of l at generation g; m may be nil.
func (m *jobMemory) outranks(l *link, g probe.Generation) bool {
	return m != nil && m.owner != 0 && (g < m.generation || g == m.generation && m.owner != l.frontend)
}

// grantClaim makes the claimant l the owner of a job, or hands a claim of a single attempt to claimAttempt. The
// claimant gets the attempts that have started. If the job was claimed for a later generation, grantClaim answers with
// Claimed, and Moved set.
//
// Staged attempts have not started. They are withdrawn, and the claimant can launch their tasks anew. They could not
// pass to a new owner: handBack returns a staged attempt to its place, and the place is on the link of the earlier
// owner. A staged attempt stays if the claimant itself launched the attempt for this generation.
func (c *Core) grantClaim(l *link, m *probe.Claim, now time.Time, acts []Action) []Action {
	if m.Attempt != (probe.AttemptID{}) {
		return c.claimAttempt(l, m, now, acts)
	}
	// Clients that do not count generations cause several claims of the same generation. The last claim wins.
	key := keyOf(m)
	if known := c.memories[key]; known != nil && known.owner != 0 && m.Generation < known.generation {
		return c.sendMsg(l, probe.Claimed{Job: m.Job, Generation: m.Generation, Moved: true}, acts)
	}
	known := c.rememberJob(key, now)
	known.owner, known.generation = l.frontend, m.Generation
	for _, other := range c.linksInOrder() {
		for _, p := range other.placesInOrder(func(p *place) bool {
			return p.job == m.Job && coversTenant(m, p.tenant, p.guarded) &&
				(other != l || p.generation < m.Generation)
		}) {
			c.dropPlace(p)
			if other != l { // the same frontend has forgotten the place with the job
				acts = c.sendMsg(other, probe.Evicted{First: p.res, Count: 1, Reason: probe.Moved}, acts)
			}
		}
	}
	adopted := uint32(0)
	for _, a := range c.attemptsInOrder(func(a *attempt) bool {
		return a.job == m.Job && coversTenant(m, a.tenant, a.guarded) && a.generation <= m.Generation && !a.unwanted
	}) {
		switch {
		case a.state != staged:
			acts = c.adoptAttempt(l, a, now, acts)
			a.generation = m.Generation
			adopted++
		case a.owner != l || a.generation < m.Generation:
			acts = c.withdrawStaged(l, a, acts)
		}
	}
	return c.sendMsg(l, probe.Claimed{
		Job: m.Job, Generation: m.Generation, Count: adopted, Knows: c.knownFor(m, now),
	}, acts)
}

// knownFor returns how far back the worker remembers every started attempt of a claimed job; 0: the worker cannot say.
// If an attempt was sent within this time, and is neither here nor acknowledged, it never started.
func (c *Core) knownFor(m *probe.Claim, now time.Time) time.Duration {
	switch {
	// A frontend of an older version may claim a guarded job. The claim takes nothing, so the owner may still start
	// tasks of the job.
	case !m.HasTenant && c.guardsJobs:
		return 0
	// Frontends acknowledge the results of a leaving worker early, before clients have the results.
	case c.leaving || c.hasForgotten(keyOf(m)):
		return 0
	}
	return now.Sub(c.knownSince)
}

// claimAttempt answers the claim of a single attempt. If the attempt has started, and the job has not moved, the
// claimant l becomes the owner. If the job has moved, l gets Refused with Moved. A staged attempt is withdrawn, for
// the reason at grantClaim. Then l gets Refused with Unknown, as for an attempt that is not here. By Knows, l learns
// whether the attempt surely never started.
func (c *Core) claimAttempt(l *link, m *probe.Claim, now time.Time, acts []Action) []Action {
	a := c.attempts[m.Attempt]
	if a != nil && !coversTenant(m, a.tenant, a.guarded) {
		a = nil // an attempt of another tenant's job
	}
	// If the claim names a tenant, only claims that name the tenant are later claims, as for a guarded job.
	if c.hasMoved(l, m.Job, m.Tenant, m.HasTenant, m.Generation) {
		return c.sendMoved(l, m.Attempt, acts)
	}
	if a != nil && a.state == staged {
		acts = c.withdrawStaged(l, a, acts)
	} else if a != nil && !a.unwanted {
		return c.adoptAttempt(l, a, now, acts)
	}
	c.Stats.Refused++
	return c.sendMsg(l, probe.Refused{
		Attempt: m.Attempt, Reason: probe.Unknown, Load: c.Load(), Knows: c.knownFor(m, now),
	}, acts)
}

// withdrawStaged drops a staged attempt because of a claim: the attempt will not run. The owner learns of the move,
// unless the owner is the claimant, whom the answer to the claim tells.
func (c *Core) withdrawStaged(claimant *link, a *attempt, acts []Action) []Action {
	c.dropStaged(a)
	if a.owner == claimant {
		return acts
	}
	return c.sendMoved(a.owner, a.id, acts)
}

// adoptAttempt makes l the owner of a, a started attempt. l gets Finished or Started. An earlier owner with a link
// learns of the move.
func (c *Core) adoptAttempt(l *link, a *attempt, now time.Time, acts []Action) []Action {
	if a.owner != nil && a.owner != l {
		acts = c.sendMoved(a.owner, a.id, acts)
	}
	switch {
	case a.owner == nil:
		c.ownerlessList(a).Remove(a)
	case a.state == ended && !(a.isHeldBack && a.owner == l): // l's held results keep their order
		c.unlistOwned(a)
	}
	a.owner, a.stateSince = l, now
	c.Stats.Claimed++
	if a.state == ended {
		if !a.isHeldBack {
			c.retained.Push(a)
			acts = c.sendResult(a, acts)
		}
		if a.isHeldBack { // before the claim, or by sendResult just now
			acts = c.answerHeld(a, acts)
		}
		return acts
	}
	return c.sendMsg(l, probe.Started{
		Attempt: a.id, Job: a.job, Task: a.task, Ran: now.Sub(a.startedAt), Load: c.Load(),
	}, acts)
}

// ownerlessList returns the list that has a, an attempt without an owner.
func (c *Core) ownerlessList(a *attempt) *list.List[*attempt] {
	if a.state == ended {
		return &c.unclaimed
	}
	return &c.orphans
}

// disownResult takes the owner off a result, and keeps the result for a claim.
func (c *Core) disownResult(a *attempt, now time.Time) {
	if a.owner != nil {
		c.unlistOwned(a)
		a.owner, a.stateSince = nil, now
		c.unclaimed.Push(a)
	}
}

// unlistOwned takes a result with an owner off its list.
func (c *Core) unlistOwned(a *attempt) {
	if a.isHeldBack {
		c.unholdResult(a)
	} else {
		c.retained.Remove(a)
	}
}

// retainResult keeps a result until its owner acknowledges the result. If the owner is lost, the worker keeps the
// result for claimableFor.
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
		c.unlistOwned(a)
	} else {
		c.unclaimed.Remove(a)
	}
	c.retainedBytes -= a.retainedSize()
	delete(c.attempts, a.id)
	c.freeAttempts.putBack(a)
}

// acknowledgeResult forgets a result that l owns, or that nobody owns. If disowned is set, the result stays for a
// claim.
func (c *Core) acknowledgeResult(l *link, id probe.AttemptID, disowned bool, now time.Time) {
	a := c.attempts[id]
	if a == nil || a.owner != l && a.owner != nil || a.state != ended {
		return
	}
	if disowned {
		c.disownResult(a, now)
		return
	}
	c.forgetAttempt(a)
}

// claimableFor returns how long a frontend may claim a result whose owner is lost. A leaving worker stays no
// longer for a result than for a running attempt.
func (c *Core) claimableFor() time.Duration {
	if c.leaving {
		return min(c.cfg.Retain, c.cfg.Grace)
	}
	return c.cfg.Retain
}

// expireResults forgets results that nobody has claimed in time. If all results still take too much memory,
// expireResults forgets more: the oldest unclaimed results first, then the oldest results that were sent to their
// owner. Results held back stay: nobody else has them, and MaxUnsent bounds them.
func (c *Core) expireResults(now time.Time) {
	for {
		a := c.unclaimed.First()
		switch {
		case a != nil && now.Sub(a.stateSince) >= c.claimableFor():
		case c.retainedBytes <= c.cfg.MaxRetained:
			return
		case a == nil:
			if a = c.retained.First(); a == nil {
				return
			}
		}
		c.Stats.Forgotten++
		c.noteForgotten(a, now)
		c.forgetAttempt(a)
	}
}

// attemptsInOrder returns the attempts that pass the filter, by id, so that the order of a map decides nothing.
func (c *Core) attemptsInOrder(filter func(*attempt) bool) []*attempt {
	var as []*attempt
	for _, a := range c.attempts {
		if filter(a) {
			as = append(as, a)
		}
	}
	slices.SortFunc(as, func(a, b *attempt) int {
		x, y := a.id, b.id
		return cmp.Or(cmp.Compare(x.Frontend, y.Frontend), cmp.Compare(x.Seq, y.Seq))
	})
	return as
}

// Links makes a memory an item of lists.
func (m *jobMemory) Links() *list.Node[*jobMemory] { return &m.node }
