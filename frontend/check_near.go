package frontend

import (
	"fmt"
	"slices"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// checkNear: of the tasks with inputs, exactly the waiting tasks are on shelves, or not shelved yet. Each task is
// also on the shelf for anywhere. A shelf with green tasks has a timer, and places are counted by worker and by
// shelf.
func (c *Core) checkNear() error {
	groups, shelves := 0, 0
	for _, j := range c.byID {
		for _, g := range j.groups {
			n := g.near
			if n == nil {
				continue
			}
			if groups++; !list.Has(n) {
				return fmt.Errorf("job %v: a group with inputs is not in the list", j.ID)
			}
			timers, err := n.checkShelves()
			if err != nil {
				return fmt.Errorf("job %v: %w", j.ID, err)
			}
			shelves += timers
		}
	}
	if groups != c.nearGroups.Len() || shelves != c.ripeningShelves.Len() {
		return fmt.Errorf("%d groups with inputs, %d listed; %d shelves with green tasks, %d timers",
			groups, c.nearGroups.Len(), shelves, c.ripeningShelves.Len())
	}
	return nil
}

// checkShelves checks the shelves of a group, and counts the shelves with timers.
func (n *nearGroup) checkShelves() (timers int, err error) {
	spots := 0
	for _, t := range n.group.job.tasks {
		if t.group != n.group {
			continue
		}
		shelved := t.near != nil && t.near.spots != nil
		if shelved && t.state != waiting || !shelved && t.state == waiting && !slices.Contains(n.unshelved, t) {
			return 0, fmt.Errorf("task %d in state %d is on shelves: %t", t.spec.Index, t.state, shelved)
		}
		if !shelved {
			continue
		}
		spots += len(t.near.spots)
		for _, x := range t.near.spots {
			if (x.pos > 0) == list.Has(x) || n.shelves[x.shelf.shelfKey] != x.shelf {
				return 0, fmt.Errorf("task %d is green on a shelf: %t, and ripe: %t",
					t.spec.Index, x.pos > 0, list.Has(x))
			}
		}
		if last := t.near.spots[len(t.near.spots)-1]; last.shelf.tier != estimate.Across {
			return 0, fmt.Errorf("task %d is on no shelf for anywhere", t.spec.Index)
		}
		if (len(t.near.sites) == 1) != n.siteless[t] {
			return 0, fmt.Errorf("task %d has %d sites, and is siteless: %t",
				t.spec.Index, len(t.near.sites), n.siteless[t])
		}
	}
	placesAt := map[*worker]int{}
	live, probes := map[*shelf]int{}, map[*shelf]int{}
	for r := range n.group.places.All() {
		if r.livePlaces > 0 {
			placesAt[r.w] += r.livePlaces
			live[r.shelf] += r.livePlaces
			probes[r.shelf]++
		}
	}
	for w, places := range n.placesAt {
		if placesAt[w] != places {
			return 0, fmt.Errorf("%d live places at worker %d, %d counted", placesAt[w], w.Key, places)
		}
	}
	if len(placesAt) != len(n.placesAt) {
		return 0, fmt.Errorf("live places at %d workers, %d counted", len(placesAt), len(n.placesAt))
	}
	for key, s := range n.shelves {
		spots -= s.green.Len() + s.ripe.Len()
		if s.livePlaces != live[s] || s.liveReservations != probes[s] {
			return 0, fmt.Errorf("shelf %v: %d live places of %d reservations, %d and %d counted",
				key, live[s], probes[s], s.livePlaces, s.liveReservations)
		}
		if s.isWanting != slices.Contains(n.wantingShelves, s) || (s.green.Len() > 0) != (s.pos > 0) {
			return 0, fmt.Errorf("shelf %v: wants places: %t; %d green tasks, with a timer: %t",
				key, s.isWanting, s.green.Len(), s.pos > 0)
		}
		if s.pos > 0 {
			timers++
		}
	}
	if spots != 0 {
		return 0, fmt.Errorf("the shelves lack %d tasks", spots)
	}
	return timers, nil
}
