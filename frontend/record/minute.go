package record

import (
	"time"

	"github.com/phoebe-sched/phoebe/probe/histogram"
)

// Minute holds what was counted in the last minute.
type Minute struct {
	Length    time.Duration       // of the counted time: shorter than a minute at the start
	Counts                        // of tasks
	Responses histogram.Histogram // of the jobs that have ended
}

// LastMinute returns the counts of the last minute before now, of all jobs and by tenant. Tenants that are not counted
// under their own names are in Other.
func (h *History) LastMinute(now time.Time) (all Minute, byTenant map[string]*Minute) {
	byTenant = map[string]*Minute{}
	r := &h.rings[0]
	for i := range r.windows {
		w := &r.windows[i]
		if now.Sub(w.to) >= time.Minute {
			continue
		}
		all.Length += w.to.Sub(w.from)
		all.Tasks, all.Failed = all.Tasks+w.Tasks, all.Failed+w.Failed
		for k, p := range w.keys {
			if _, ofFunction := p.Function(); ofFunction { // the same tasks, and no jobs
				continue
			}
			m := byTenant[p.Tenant]
			if m == nil {
				m = &Minute{}
				byTenant[p.Tenant] = m
			}
			m.Tasks, m.Failed = m.Tasks+p.Counts.Tasks, m.Failed+p.Counts.Failed
			series := Packed{p.Key, w.packedAt(k)}
			series.Add(Response, &m.Responses)
		}
	}
	for _, m := range byTenant {
		m.Length = all.Length
		all.Responses.Merge(&m.Responses)
	}
	return all, byTenant
}
