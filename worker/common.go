package worker

import (
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// common is data shared by tasks of a job. A frontend sends the data once on a link, and the link keeps the data.
// A task that names the data has the data until the task ends.
type common struct {
	node    list.Node[*common]
	link    *link
	key     commonKey
	payload []byte
	usedAt  time.Time // when the data came, or a launch last named it
}

type commonKey struct {
	job    probe.JobID
	number uint32
}

func (m *common) Links() *list.Node[*common] { return &m.node }

// storeCommon keeps the common data of a job's tasks.
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

// noteCommonUse notes a use of m, and moves m to the end of the list by last use.
func (c *Core) noteCommonUse(m *common, now time.Time) {
	m.usedAt = now
	c.commons.Remove(m)
	c.commons.Push(m)
}

// forgetCommon drops the common data of a job.
func (c *Core) forgetCommon(l *link, job probe.JobID) {
	for key, m := range l.commons {
		if key.job == job {
			c.dropCommon(m)
		}
	}
}

// dropCommon removes m from its link.
func (c *Core) dropCommon(m *common) {
	c.commons.Remove(m)
	delete(m.link.commons, m.key)
}

// expireCommons drops common data that was not used for Retain. Forget alone is not enough, because it may arrive
// before the data. A frontend whose launch names dropped data gets Refused, and sends the data again.
func (c *Core) expireCommons(now time.Time) {
	for m := c.commons.First(); m != nil && now.Sub(m.usedAt) >= c.cfg.Retain; m = c.commons.First() {
		c.dropCommon(m)
	}
}

// findCommon returns the common data that launch names, or nil.
func (l *link) findCommon(job probe.JobID, launch *probe.Launch) *common {
	if launch.Context == nil || launch.Context.Common == 0 {
		return nil
	}
	return l.commons[commonKey{job, launch.Context.Common}]
}

// commonPayload returns the payload of the common data that launch names, or nil.
func (l *link) commonPayload(job probe.JobID, launch *probe.Launch) []byte {
	if m := l.findCommon(job, launch); m != nil {
		return m.payload
	}
	return nil
}
