package frontend

import (
	"github.com/phoebe-sched/phoebe/frontend/view"
)

// useSet notes that the admitted group g uses a set of workers.
func (c *jobs) useSet(g *group) {
	users := c.setUsers[g.Set]
	users.Push(g)
	c.setUsers[g.Set] = users
}

// releaseSet notes the end of g. If no other group uses the set, the view may drop the set.
func (c *jobs) releaseSet(g *group) {
	c.forgetServed(waitKey{g.Set, g.job.tenant})
	users := c.setUsers[g.Set]
	if users.Remove(g); users.Len() > 0 {
		c.setUsers[g.Set] = users
	} else {
		delete(c.setUsers, g.Set)
	}
}

// setsInUse returns a predicate of sets. It reports whether jobs under way, or the job just being admitted, use
// the set.
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

// updateStranded notes groups without any worker up as stranded, and groups with a worker again as not stranded.
func (c *jobs) updateStranded() {
	for _, s := range c.view.TakeChangedSets() {
		users := c.setUsers[s]
		for g := range users.All() {
			switch stranded := s.Len() == 0; {
			case stranded && !g.isStranded:
				g.job.strandedTasks += g.queue.Len() + g.matching
			case !stranded && g.isStranded:
				g.job.strandedTasks -= g.queue.Len() + g.matching
			}
			g.isStranded = s.Len() == 0
		}
	}
}
