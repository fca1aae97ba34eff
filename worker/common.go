package worker

import (
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// common is what tasks of a job have in common. It is told once on a link, and kept with it. Who uses it has it until its end.
type common struct {
	node    list.Node[*common]
	link    *link
	key     commonKey
	payload []byte
	usedAt  time.Time // by a launch that came, or when it was told
}

type commonKey struct {
	job    probe.JobID
	number uint32
}

func (m *common) Links() *list.Node[*common] { return &m.node }

// storeCommon takes what tasks of a job have in common.
func (c *Core) storeCommon(l *link, msg *probe.Common, now time.Time) {
	key := commonKey{msg.Job, msg.Number}
	m := l.commons[key]
	if m == nil {
		m = &common{link: l, key: key}
		if l.commons == nil {
			l.commons = map[commonKey]*common{}
		}
		l.commons[key] = m
		c.commons.Push(m)
	}
	m.payload = msg.Payload
	c.noteCommonUse(m, now)
}

func (c *Core) noteCommonUse(m *common, now time.Time) {
	m.usedAt = now
	c.commons.Remove(m)
	c.commons.Push(m)
}

// forgetCommon lets go of what a job has in common.
func (c *Core) forgetCommon(l *link, job probe.JobID) {
	for key, m := range l.commons {
		if key.job == job {
			c.dropCommon(m)
		}
	}
}

func (c *Core) dropCommon(m *common) {
	c.commons.Remove(m)
	delete(m.link.commons, m.key)
}

// expireCommons lets go of what has not been used for long: what has the worker forget it may have come first. A frontend whose
// launch names it after that is told, and tells it again.
func (c *Core) expireCommons(now time.Time) {
	for m := c.commons.First(); m != nil && now.Sub(m.usedAt) >= c.cfg.Retain; m = c.commons.First() {
		c.dropCommon(m)
	}
}

// findCommon is what a launch of a job names as what it has in common with others, or nil.
func (l *link) findCommon(job probe.JobID, launch *probe.Launch) *common {
	if launch.Context == nil || launch.Context.Common == 0 {
		return nil
	}
	return l.commons[commonKey{job, launch.Context.Common}]
}

// commonPayload is the payload of that.
func (l *link) commonPayload(job probe.JobID, launch *probe.Launch) []byte {
	if m := l.findCommon(job, launch); m != nil {
		return m.payload
	}
	return nil
}
