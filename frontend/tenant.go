package frontend

import "github.com/phoebe-sched/phoebe/probe/list"

// hungry is the tenants with waiting tasks, in the order in which they are offered room at workers.
type hungry struct{ tenants list.List[*tenant] }

// updateJob puts j among the waiting jobs of the tenant, ordered by submission, if a task of j waits. Else j is
// taken out.
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

// moveToBack moves t to the back, because a job of t got room on offer: the next room is offered to other tenants
// first.
func (h *hungry) moveToBack(t *tenant) {
	if list.Has(t) && h.tenants.Last() != t {
		h.tenants.Remove(t)
		h.tenants.Push(t)
	}
}

// maxLooked bounds the waiting jobs, tasks or idle workers examined in one search, for example for a use of the room on
// offer. The number was chosen, and not measured: a step must stay short.
const maxLooked = 16

// jobsToOffer returns the jobs to offer room to: the oldest job of each tenant, then the next job of each. The result
// is in buf.
func (h *hungry) jobsToOffer(buf *[maxLooked]*job) []*job {
	jobs := buf[:0]
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
