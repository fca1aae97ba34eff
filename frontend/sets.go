package frontend

import (
	"slices"

	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// use notes that the tasks of a group of a job that was admitted may run at the workers of its set.
func (c *Core) use(g *group) {
	users := c.users[g.eligible]
	if users == nil {
		users = &list.List[*group]{}
		c.users[g.eligible] = users
	}
	users.Push(g)
}

// unuse forgets a group of a job that has ended.
func (c *Core) unuse(g *group) {
	c.forgetServed(waiters{g.eligible, g.job.tenant})
	users := c.users[g.eligible]
	if users.Remove(g); users.Len() == 0 {
		delete(c.users, g.eligible)
	}
}

// inUse reports of sets whether jobs under way use them, or one that is being admitted.
func (c *Core) inUse(admitted *job) func(*view.Set) bool {
	var own map[*view.Set]bool
	return func(s *view.Set) bool {
		if own == nil {
			own = make(map[*view.Set]bool, len(admitted.groups))
			for _, g := range admitted.groups {
				own[g.eligible] = true
			}
		}
		return own[s] || c.users[s] != nil
	}
}

// turn notes which groups no worker is up for any more, and which have one again.
func (c *Core) turn() {
	for _, s := range c.view.Turned() {
		users := c.users[s]
		if users == nil {
			continue
		}
		for g := range users.All() {
			g.job.lone = slices.DeleteFunc(g.job.lone, func(h *group) bool { return h == g })
			if s.Len() == 0 {
				g.job.lone = append(g.job.lone, g)
			}
		}
	}
}
