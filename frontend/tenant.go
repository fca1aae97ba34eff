package frontend

import "github.com/phoebe-sched/phoebe/probe/list"

// tenant is one for whom jobs are under way. Tenants are kept apart in all that one of them could use up: admission,
// the tasks that may be pending, and the room that workers are believed to have.
type tenant struct {
	name     string
	jobs     int             // under way
	pending  int             // tasks without an outcome
	payloads int             // bytes, of tasks without an outcome
	hungry   list.List[*job] // jobs with waiting tasks, in order of submission

	node list.Node[*tenant] // among those with hungry jobs
}

// Links makes it an item of lists.
func (t *tenant) Links() *list.Node[*tenant] { return &t.node }

// enter counts a job that was admitted.
func (c *Core) enter(j *job) {
	t := c.tenants[j.Tenant]
	if t == nil {
		t = &tenant{name: j.Tenant}
		c.tenants[j.Tenant] = t
	}
	j.tenant = t
	t.jobs++
	t.pending += j.left
	c.pending += j.left
	t.payloads += j.payloads
	c.payloads += j.payloads
}

// depart forgets a job that has ended, and its tenant with the last one.
func (c *Core) depart(j *job) {
	c.hungry.update(j)
	c.unload(j, j.payloads)
	if j.tenant.jobs--; j.tenant.jobs == 0 {
		delete(c.tenants, j.Tenant)
	}
}

// settled counts n tasks of a job that got their outcomes, or whose outcomes are another frontend's business.
func (c *Core) settled(j *job, n int) {
	j.tenant.pending -= n
	c.pending -= n
}

// unload counts bytes of payloads that a job needs no more.
func (c *Core) unload(j *job, bytes int) {
	j.payloads -= bytes
	j.tenant.payloads -= bytes
	c.payloads -= bytes
}

// hungry is the tenants with waiting tasks, the one whose turn is next first.
type hungry struct{ all list.List[*tenant] }

// update puts j among the jobs of its tenant with waiting tasks, by when they were submitted, or takes it out.
func (h *hungry) update(j *job) {
	t := j.tenant
	switch hungry := j.waiting > 0 && !j.ended; {
	case hungry && !list.Has(j):
		after := t.hungry.Last()
		for after != nil && compareJobs(after, j) > 0 {
			after = t.hungry.Prev(after)
		}
		t.hungry.InsertAfter(after, j)
		if !list.Has(t) {
			h.all.Push(t)
		}
	case !hungry:
		t.hungry.Remove(j)
		if t.hungry.Len() == 0 {
			h.all.Remove(t)
		}
	}
}

// served lets the tenants that have waited for longer go first: t was given something.
func (h *hungry) served(t *tenant) {
	if list.Has(t) && h.all.Last() != t {
		h.all.Remove(t)
		h.all.Push(t)
	}
}

// mostLooked is how many waiting jobs are looked at for one that can use what there is.
const mostLooked = 16

// first fills room with the jobs to look at: of each tenant the oldest, then of each the next.
func (h *hungry) first(room *[mostLooked]*job) []*job {
	jobs := room[:0]
	for t := range h.all.All() {
		if len(jobs) == mostLooked {
			break
		}
		jobs = append(jobs, t.hungry.First())
	}
	for i := 0; i < len(jobs) && len(jobs) < mostLooked; i++ {
		if next := jobs[i].tenant.hungry.Next(jobs[i]); next != nil {
			jobs = append(jobs, next)
		}
	}
	return jobs
}
