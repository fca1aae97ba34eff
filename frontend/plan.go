package frontend

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/place"
)

// planner is the floor of decisions. What an event leaves to be done is noted as a want, and planned when its facts are
// told: nothing that records them places anything itself.
type planner struct {
	ledger
	rand    *rand.Rand
	sampler *place.Sampler
	scratch place.Want
	rounds  rounds
	batch   batch
}

// batch is the next one of tasks to be placed by estimation.
type batch struct {
	at    time.Time // before which there is none; zero: at once
	until time.Time // how long the matrices are waited for that were asked for it; zero: none were
	also  []int32   // the workers that were asked
	keys  []int32   // scratch of doubtful
}

// rounds are those under way; all wait equally long, so they end in order.
type rounds struct {
	seq   uint64
	bySeq map[uint64]*round
	queue []*round
}

// round is one sampling of queue lengths, for tasks that are bound early by them.
type round struct {
	group   *group
	tasks   []*task
	asked   map[*worker]uint64 // the sequence numbers of the probes without an answer
	answers []place.Answer
	until   time.Time
	over    bool
}

// short is what a group is short of: so many probes. It is good until the next call.
func (c *planner) short(g *group, probes int) *place.Want {
	w := &c.scratch
	*w = place.Want{Kind: &g.Kind, Queue: g, Probes: probes, Fresh: g.live == 0, PlacesAt: w.PlacesAt[:0]}
	for r := range g.places.All() {
		if r.live > 0 {
			w.PlacesAt = append(w.PlacesAt, r.w.Worker)
		}
	}
	return w
}

// resample adds places for a job whose turns do not come: those it has may be at slow workers, or stuck
// behind long tasks. Each time it waits twice as long.
func (c *planner) resample(j *job, now time.Time, acts []Action) []Action {
	c.lagged(j)
	for _, g := range j.groups {
		n, probed := g.queue.Len(), g.probed()
		if g.near != nil { // what had better not go anywhere yet has a timer
			n, probed = g.near.anywhere().ripe.Len(), g.near.anywhere().probed()
		}
		if n == 0 || !j.Policy.Resample || probed < g.Probes(n) || probed >= 4*g.Probes(n) {
			continue
		}
		c.Stats.Resamples++
		if g.near != nil {
			acts = c.placeShelf(g.near.anywhere(), n, now, acts)
		} else {
			acts = c.commit(g, nil, c.sampler.Place(c.short(g, n), now), now, acts)
		}
	}
	return acts
}

// offer brings waiting tasks to a worker that is believed to have room.
func (c *planner) offer(w *worker, now time.Time, acts []Action) []Action {
	if !w.Idle() {
		return acts
	}
	var room [mostLooked]*job
	for _, j := range c.hungry.first(&room) {
		if j.Policy.Informed && j.Policy.Binding == Late {
			for more := true; more && w.Idle(); {
				acts, more = c.offerOf(j, w, now, acts)
			}
			c.settle(j, now)
		}
	}
	return acts
}

// offerOf offers w tasks of a job. It reports whether it may take more: if tasks ride, what room it has left is known.
func (c *planner) offerOf(j *job, w *worker, now time.Time, acts []Action) (_ []Action, more bool) {
	for g := range j.hungryAt(w) {
		var q place.Queue = g
		if g.near == nil && c.first(g, w, now) == nil { // all shun it
			continue
		}
		if g.near != nil {
			q = c.fromShelves(g, w, now)
		}
		if d, any := c.sampler.Offer(&g.Kind, q, w.Worker); any {
			c.Stats.Offers++
			acts = c.commit(g, nil, []place.Decision{d}, now, acts)
			c.hungry.served(j.tenant)
			return acts, d.Rides > 0
		}
	}
	return acts, false
}

// coverNear finds workers for the tasks of a group that are ripe: first those where the data is.
func (c *planner) coverNear(n *near, now time.Time, acts []Action) []Action {
	c.shelve(n, now)
	if len(c.view.Idle()) >= n.group.queue.Len() { // all may ride, and need no places before they do
		acts = c.coverShelves(n, (*planner).rideShelf, now, acts)
	}
	acts = c.coverShelves(n, (*planner).coverShelf, now, acts)
	n.uneasy = slices.DeleteFunc(n.uneasy, func(s *shelf) bool { return !s.uneasy })
	return acts
}

// coverShelves goes through the shelves that may need places, in the order of their tiers.
func (c *planner) coverShelves(n *near, cover func(*planner, *shelf, time.Time, []Action) []Action, now time.Time, acts []Action) []Action {
	for _, tier := range [...]estimate.Tier{estimate.Disk, estimate.Rack, estimate.Across} {
		for i := 0; i < len(n.uneasy); i++ {
			if s := n.uneasy[i]; s.tier == tier && s.uneasy {
				s.ripen(now)
				acts = cover(c, s, now, acts)
			}
		}
	}
	return acts
}

// rideShelf lets what is ripe on a shelf ride to its workers, as far as they have room.
func (c *planner) rideShelf(s *shelf, now time.Time, acts []Action) []Action {
	if s.live > 0 || s.ripe.Len() == 0 {
		return acts
	}
	return c.placeShelf(s, 0, now, acts)
}

// coverShelf gives a shelf the places that what is ripe on it is worth.
func (c *planner) coverShelf(s *shelf, now time.Time, acts []Action) []Action {
	s.uneasy = false
	missing := s.missing()
	if missing <= 0 {
		return acts
	}
	return c.placeShelf(s, missing, now, acts)
}

// placeShelf places what is ripe on a shelf at its workers, as if they were all, with so many probes.
func (c *planner) placeShelf(s *shelf, probes int, now time.Time, acts []Action) []Action {
	n := s.near
	kind := n.group.Kind
	if s.tier != estimate.Across {
		kind.Set = c.view.Among(kind.Set, c.view.Fleet().WorkersAt(s.tier, s.name))
	}
	w := &c.scratch
	*w = place.Want{Kind: &kind, Queue: s, Probes: probes, Fresh: s.live == 0, PlacesAt: w.PlacesAt[:0]}
	if s.tier == estimate.Across {
		for held := range n.held { // in no order, which changes nothing
			w.PlacesAt = append(w.PlacesAt, held.Worker)
		}
	} else {
		for _, row := range kind.Set.Workers() {
			if n.held[c.at(row)] > 0 {
				w.PlacesAt = append(w.PlacesAt, row)
			}
		}
	}
	return c.commit(n.group, s, c.sampler.Place(w, now), now, acts)
}

// single is the queue of one task, or of none.
type single struct{ task *task }

func (l single) Len() int { return l.Riders(1) }

func (l single) Riders(most int) int {
	if l.task == nil || l.task.weight() > place.MaxRide {
		return 0
	}
	return min(most, 1)
}

func (l single) Fit(int, int) int { return 1 }

// fromShelves is the queue of which w, which has room, would get a task.
func (c *planner) fromShelves(g *group, w *worker, now time.Time) place.Queue {
	return single{c.first(g, w, now)}
}
