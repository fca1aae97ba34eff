package frontend

import (
	"github.com/phoebe-sched/phoebe/frontend/view"
)

// useSet notes that the tasks of a group of a job that was admitted may run at the workers of its set.
func (c *jobs) useSet(g *group) {
	users := c.setUsers[g.Set]
	users.Push(g)
	c.setUsers[g.Set] = users
}

// unuseSet forgets a group of a job that has ended.
func (c *jobs) unuseSet(g *group) {
	c.forgetServed(waitKey{g.Set, g.job.tenant})
	users := c.setUsers[g.Set]
	if users.Remove(g); users.Len() > 0 {
		c.setUsers[g.Set] = users
	} else {
		delete(c.setUsers, g.Set)
	}
}

// setsInUse reports of sets whether jobs under way use them, or one that is being admitted.
func (c *jobs) setsInUse(admitted *job) func(*view.Set) bool {
	var own map[*view.Set]bool
	return func(s *view.Set) bool {
		if own == nil {
			own = make(map[*view.Set]bool, len(admitted.groups))
			for _, g := range admitted.groups {
				own[g.Set] = true
			}
		}
		_, used := c.setUsers[s]
		return used || own[s]
	}
}

// updateStranded notes which groups no worker is up for any more, and which have one again.
func (c *jobs) updateStranded() {
	for _, s := range c.view.TakeChangedSets() {
		users := c.setUsers[s]
		for g := range users.All() {
			switch stranded := s.Len() == 0; {
			case stranded && !g.stranded:
				g.job.strandedTasks += g.queue.Len() + g.matching
			case !stranded && g.stranded:
				g.job.strandedTasks -= g.queue.Len() + g.matching
			}
			g.stranded = s.Len() == 0
		}
	}
}
