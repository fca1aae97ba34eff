package frontend

import "github.com/phoebe-sched/phoebe/probe/list"

// hungry is the tenants with waiting tasks, the one whose turn is next first.
type hungry struct{ tenants list.List[*tenant] }

// updateJob puts j among the jobs of its tenant with waiting tasks, by when they were submitted, or takes it out.
func (h *hungry) updateJob(j *job) {
	t := j.tenant
	switch hungry := j.waiting > 0 && !j.ended; {
	case hungry && !list.Has(j):
		after := t.hungry.Last()
		for after != nil && compareJobs(after, j) > 0 {
			after = t.hungry.Prev(after)
		}
		t.hungry.InsertAfter(after, j)
		if !list.Has(t) {
			h.tenants.Push(t)
		}
	case !hungry:
		t.hungry.Remove(j)
		if t.hungry.Len() == 0 {
			h.tenants.Remove(t)
		}
	}
}

// noteServed lets the tenants that have waited for longer go first: t was given something.
func (h *hungry) noteServed(t *tenant) {
	if list.Has(t) && h.tenants.Last() != t {
		h.tenants.Remove(t)
		h.tenants.Push(t)
	}
}

// maxLooked is how many waiting jobs are looked at for one that can use what there is.
const maxLooked = 16

// jobsToOffer fills room with the jobs to look at: of each tenant the oldest, then of each the next.
func (h *hungry) jobsToOffer(room *[maxLooked]*job) []*job {
	jobs := room[:0]
	for t := range h.tenants.All() {
		if len(jobs) == maxLooked {
			break
		}
		jobs = append(jobs, t.hungry.First())
	}
	for i := 0; i < len(jobs) && len(jobs) < maxLooked; i++ {
		if next := jobs[i].tenant.hungry.Next(jobs[i]); next != nil {
			jobs = append(jobs, next)
		}
	}
	return jobs
}
