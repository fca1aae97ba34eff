package worker

import "github.com/phoebe-sched/phoebe/probe"

// What tasks of a job have in common is told once on a link, and kept with it. Who uses it has it until its end.

type commonKey struct {
	job    probe.JobID
	number uint32
}

// keep takes what tasks of a job have in common.
func (l *link) keep(m *probe.Common) {
	if l.commons == nil {
		l.commons = map[commonKey][]byte{}
	}
	l.commons[commonKey{m.Job, m.Number}] = m.Payload
}

// forget lets go of what a job has in common.
func (l *link) forget(job probe.JobID) {
	for key := range l.commons {
		if key.job == job {
			delete(l.commons, key)
		}
	}
}

// common is what a launch of a job has in common with others, and whether it is there.
func (l *link) common(job probe.JobID, m *probe.Launch) (payload []byte, there bool) {
	if m.Context == nil || m.Context.Common == 0 {
		return nil, true
	}
	payload, there = l.commons[commonKey{job, m.Context.Common}]
	return payload, there
}
