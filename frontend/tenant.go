package frontend

import "github.com/phoebe-sched/phoebe/probe/list"

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
