package serve

import (
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
)

const (
	// shareEvery is the period of telling peers the needs of tenants, and of renewing lessons.
	shareEvery = time.Second
	// silentAfter is the silence about needs after which a frontend is missed. On a machine with free CPU it ends
	// before gossip gives the frontend up. So frontends that are cut off together are mostly missed together.
	silentAfter = 3 * shareEvery
)

// shareNeeds tells the core its peers and the needs of tenants there, and tells the peers the needs here. Without a
// tenants file there are no needs to share, and the core gets only the list of frontends.
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
	list := make([]rows.Need, 0, len(needs))
	for _, n := range needs {
		if len(n.Path) > rows.MaxName { // paths in the tenants file are shorter
			continue
		}
		list = append(list,
			rows.Need{Path: n.Path, Counts: [...]int64{n.Use, n.Want, n.Most, n.Quota.Regular, n.Quota.All}})
	}
	s.fleet.node.TellNeeds(list)
}

// shareLessons renews the lessons that gossip takes to peers.
func (s *Server) shareLessons() {
	if s.fleet == nil {
		return
	}
	s.mu.Lock()
	lessons := s.core.Lessons(time.Now())
	s.mu.Unlock()
	s.fleet.node.SetLessons(view.EncodeLessons(lessons, rows.MaxLessons))
}

// hearLessons takes the lessons of a peer.
func (s *Server) hearLessons(encoded []byte) {
	lessons, err := view.DecodeLessons(encoded)
	if err != nil {
		s.log.Warn("lessons of another frontend are unreadable", "err", err)
	}
	s.mu.Lock()
	s.stepLocked(frontend.Lessons{List: lessons})
	s.unlockAndFlush()
}

// listOthers lists the frontends, with needs if there is a tenants file.
func (s *Server) listOthers(hasTerms bool) frontend.Others {
	ev := frontend.Others{Self: s.cfg.Name, Needs: map[string][]tenants.Need{}}
	if s.fleet == nil {
		return ev
	}
	if !hasTerms {
		ev.Members = namesOf(s.fleet.node.Members())
		return ev
	}
	members, needs, silent := s.fleet.node.Needs(silentAfter)
	ev.Members, ev.Silent = namesOf(members), silent
	for name, list := range needs {
		for _, n := range list {
			ev.Needs[name] = append(ev.Needs[name], needFromGossip(n))
		}
	}
	return ev
}

func namesOf(members []rows.Member) (names []string) {
	for _, m := range members {
		names = append(names, m.Name)
	}
	return names
}

// needFromGossip makes a need from a peer's row.
func needFromGossip(n rows.Need) tenants.Need {
	c := n.Counts
	return tenants.Need{Path: n.Path, Use: c[0], Want: c[1], Most: c[2], Quota: tenants.Quota{Regular: c[3], All: c[4]}}
}
