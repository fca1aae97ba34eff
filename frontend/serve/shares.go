package serve

import (
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/probe/gossip/view"
)

const (
	// shareEvery is how often frontends tell each other what they need of tenants.
	shareEvery = time.Second
	// silentAfter is for how long nothing comes of that from who is taken for cut off: before gossip gives it up, so that the
	// others are missed together, and not one after the other.
	silentAfter = 3 * shareEvery
)

// shareNeeds tells the core which other frontends there are and what they need of tenants, and them what this one does. As long as nothing
// is said of tenants, there is nothing to share, and the core is told of the frontends alone.
func (s *Server) shareNeeds() {
	s.terms.mu.Lock()
	hasTerms := s.terms.currentRevision() > 0
	s.terms.mu.Unlock()
	if !hasTerms && s.fleet == nil {
		return
	}
	ev := s.listOthers(hasTerms)
	s.mu.Lock()
	s.stepLocked(ev)
	needs := s.core.Needs()
	s.unlockAndFlush()
	if !hasTerms || s.fleet == nil {
		return
	}
	list := make([]view.Need, 0, len(needs))
	for _, n := range needs {
		if len(n.Path) > view.MaxName { // an entry's path is shorter
			continue
		}
		list = append(list, view.Need{Path: n.Path, Counts: [...]int64{n.Use, n.Want, n.Most, n.Quota.Regular, n.Quota.All}})
	}
	s.fleet.node.TellNeeds(list)
}

// listOthers is which frontends there are, and what they need, if tenants have bounds.
func (s *Server) listOthers(hasTerms bool) frontend.Others {
	ev := frontend.Others{Self: s.cfg.Name, Needs: map[string][]tenants.Need{}}
	if s.fleet == nil {
		return ev
	}
	for _, m := range s.fleet.node.Members() {
		ev.Members = append(ev.Members, m.Name)
	}
	if !hasTerms {
		return ev
	}
	needs, silent := s.fleet.node.Needs(silentAfter)
	ev.Silent = silent
	for name, list := range needs {
		for _, n := range list {
			ev.Needs[name] = append(ev.Needs[name], needFromGossip(n))
		}
	}
	return ev
}

// needFromGossip is one as another frontend told it.
func needFromGossip(n view.Need) tenants.Need {
	c := n.Counts
	return tenants.Need{Path: n.Path, Use: c[0], Want: c[1], Most: c[2], Quota: tenants.Quota{Regular: c[3], All: c[4]}}
}
