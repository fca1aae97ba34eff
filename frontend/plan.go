package frontend

import (
	"slices"
	"time"
)

// What an event leaves to be done is noted as a want, and planned when its facts are told: nothing that records them
// places anything itself.

// want notes that a job may need more places than it has.
func (c *Core) want(j *job) {
	if !j.wants {
		j.wants = true
		c.wants = append(c.wants, j)
	}
}

// wanting takes the jobs that were noted, in the order in which they were submitted. It is good until the next want.
func (c *Core) wanting() []*job {
	js := c.wants
	if len(js) > 1 {
		slices.SortFunc(js, compareJobs)
	}
	for _, j := range js {
		j.wants = false
	}
	c.wants = js[:0]
	return js
}

// plan gives the jobs that want something the places that their waiting tasks are worth.
func (c *Core) plan(now time.Time, acts []Action) []Action {
	if len(c.wants) > 0 {
		for _, j := range c.wanting() {
			acts = c.cover(j, now, acts)
		}
	}
	if c.wantAll {
		c.wantAll = false
		for t := range c.hungry.all.All() {
			for j := range t.hungry.All() {
				acts = c.cover(j, now, acts)
			}
		}
	}
	return acts
}

// cover gives the groups of a job the places that they want.
func (c *Core) cover(j *job, now time.Time, acts []Action) []Action {
	if j.ended {
		return acts
	}
	for _, g := range j.groups {
		acts = c.coverGroup(g, now, acts)
	}
	c.settle(j, now)
	return acts
}

// putOff lets the jobs that want something wait until a time, instead.
func (c *Core) putOff(until, now time.Time) {
	for _, j := range c.wanting() {
		if !j.ended {
			j.retryAt = until
			c.settle(j, now)
		}
	}
}
