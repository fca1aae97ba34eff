package frontend

// tenant is one for whom jobs are under way. Tenants are kept apart in all that one of them could use up: admission,
// the tasks that may be pending, and the room that workers are believed to have.
type tenant struct {
	name    string
	jobs    int     // under way
	pending int     // tasks without an outcome
	hungry  jobList // jobs with waiting tasks, in order of submission

	next, prev *tenant // among those with hungry jobs
}

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
}

// depart forgets a job that has ended, and its tenant with the last one.
func (c *Core) depart(j *job) {
	c.hungry.update(j)
	if j.tenant.jobs--; j.tenant.jobs == 0 {
		delete(c.tenants, j.Tenant)
	}
}

// settled counts n tasks of a job that got their outcomes, or whose outcomes are another frontend's business.
func (c *Core) settled(j *job, n int) {
	j.tenant.pending -= n
	c.pending -= n
}

// hungry is the tenants with waiting tasks, the one whose turn is next first.
type hungry struct{ head, tail *tenant }

// update puts j in or takes it out, as it has waiting tasks or not.
func (h *hungry) update(j *job) {
	t := j.tenant
	was := t.hungry.head != nil
	t.hungry.update(j)
	switch is := t.hungry.head != nil; {
	case is && !was:
		h.push(t)
	case was && !is:
		h.remove(t)
	}
}

func (h *hungry) push(t *tenant) {
	t.prev, t.next = h.tail, nil
	if h.tail == nil {
		h.head = t
	} else {
		h.tail.next = t
	}
	h.tail = t
}

func (h *hungry) remove(t *tenant) {
	if t.prev == nil {
		h.head = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		h.tail = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.next, t.prev = nil, nil
}

// served lets the tenants that have waited for longer go first: t was given something.
func (h *hungry) served(t *tenant) {
	if t.hungry.head != nil && h.tail != t {
		h.remove(t)
		h.push(t)
	}
}

// mostLooked is how many waiting jobs are looked at for one that can use what there is.
const mostLooked = 16

// first fills room with the jobs to look at: of each tenant the oldest, then of each the next.
func (h *hungry) first(room *[mostLooked]*job) []*job {
	jobs := room[:0]
	for t := h.head; t != nil && len(jobs) < mostLooked; t = t.next {
		jobs = append(jobs, t.hungry.head)
	}
	for i := 0; i < len(jobs) && len(jobs) < mostLooked; i++ {
		if next := jobs[i].next; next != nil {
			jobs = append(jobs, next)
		}
	}
	return jobs
}

// jobList is jobs with waiting tasks, by when they were submitted.
type jobList struct{ head, tail *job }

// update puts j in or takes it out, as it has waiting tasks or not.
func (l *jobList) update(j *job) {
	want := j.waiting > 0 && !j.ended
	switch {
	case want && !j.listed:
		after := l.tail
		for after != nil && compareJobs(after, j) > 0 {
			after = after.prev
		}
		j.prev = after
		if after == nil {
			j.next, l.head = l.head, j
		} else {
			j.next, after.next = after.next, j
		}
		if j.next == nil {
			l.tail = j
		} else {
			j.next.prev = j
		}
		j.listed = true
	case !want && j.listed:
		if j.prev == nil {
			l.head = j.next
		} else {
			j.prev.next = j.next
		}
		if j.next == nil {
			l.tail = j.prev
		} else {
			j.next.prev = j.prev
		}
		j.next, j.prev, j.listed = nil, nil, false
	}
}
