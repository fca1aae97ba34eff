package frontend

import (
	"github.com/phoebe-sched/phoebe/frontend/view"
)

// use notes that the tasks of a group of a job that was admitted may run at the workers of its set.
func (c *jobs) use(g *group) {
	users := c.users[g.Set]
	users.Push(g)
	c.users[g.Set] = users
}

// unuse forgets a group of a job that has ended.
func (c *jobs) unuse(g *group) {
	c.forgetServed(waiters{g.Set, g.job.tenant})
	users := c.users[g.Set]
	if users.Remove(g); users.Len() > 0 {
		c.users[g.Set] = users
	} else {
		delete(c.users, g.Set)
	}
}

// inUse reports of sets whether jobs under way use them, or one that is being admitted.
func (c *jobs) inUse(admitted *job) func(*view.Set) bool {
	var own map[*view.Set]bool
	return func(s *view.Set) bool {
		if own == nil {
			own = make(map[*view.Set]bool, len(admitted.groups))
			for _, g := range admitted.groups {
				own[g.Set] = true
			}
		}
		_, used := c.users[s]
		return used || own[s]
	}
}

// turn notes which groups no worker is up for any more, and which have one again.
func (c *jobs) turn() {
	for _, s := range c.view.TakeChangedSets() {
		users := c.users[s]
		for g := range users.All() {
			switch lone := s.Len() == 0; {
			case lone && !g.lone:
				g.job.lone += g.queue.Len() + g.matching
			case !lone && g.lone:
				g.job.lone -= g.queue.Len() + g.matching
			}
			g.lone = s.Len() == 0
		}
	}
}
