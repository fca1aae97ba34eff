package frontend

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/place"
	"github.com/phoebe-sched/phoebe/frontend/view"
)

// Short tasks that read inputs are sampled, too, but first among the workers where these are. A worker that is ready gets
// the task that has its data there; if there is none, one that has waited for longer than reading from elsewhere would
// cost (compare delay scheduling: Zaharia et al., EuroSys 2010).

// makeNear lets the tasks of a group go to their inputs.
func (c *jobs) makeNear(g *group) {
	g.near = &nearGroup{group: g, shelves: map[shelfKey]*shelf{}, placesAt: map[*worker]int{}, siteless: map[*task]bool{}, timers: &c.ripeningShelves}
}

// addUnshelved notes that a task waits.
func (n *nearGroup) addUnshelved(t *task) { n.unshelved = append(n.unshelved, t) }

// unshelve takes a task off the shelves.
func (n *nearGroup) unshelve(t *task) {
	if t.near == nil {
		return
	}
	for _, x := range t.near.spots {
		s := x.shelf
		if x.pos > 0 {
			n.timers.Remove(s)
			s.green.Remove(x)
			s.setTimer()
		}
		s.ripe.Remove(x)
	}
	t.near.spots = nil
	delete(n.siteless, t)
}

// setTimer sets the timer of a shelf that has none.
func (s *shelf) setTimer() {
	if s.green.Len() > 0 {
		s.near.timers.Push(s)
	}
}

// shelveNew puts the tasks that came on the shelves where they belong.
func (c *jobs) shelveNew(n *nearGroup, now time.Time) {
	for _, t := range n.unshelved {
		if t.state == waiting && (t.near == nil || t.near.spots == nil) {
			c.shelveTask(n, t, now)
		}
	}
	clear(n.unshelved)
	n.unshelved = n.unshelved[:0]
}

func (c *jobs) shelveTask(n *nearGroup, t *task, now time.Time) {
	x := t.near
	if x == nil {
		x = &nearTask{inputs: t.locateInputs(), attemptsBefore: -1}
		t.near = x
	}
	if x.attemptsBefore != t.attempts { // else it only comes back from a worker that had no room
		x.attemptsBefore, x.waitsSince = t.attempts, now
	}
	x.sites = c.view.Fleet().Sites(x.inputs, n.group.Set, x.sites[:0])
	best := x.sites[0].Read
	if len(x.sites) == 1 {
		n.siteless[t] = true
	}
	far := x.waitsSince.Add(x.sites[len(x.sites)-1].Read - best)
	if x.sitesBusy = far.After(now) && c.isCrowded(n, x, now); x.sitesBusy {
		far = now
	}
	for _, site := range x.sites {
		s, from := n.ensureShelf(site.Tier, site.Name), x.waitsSince.Add(site.Read-best)
		if site.Tier == estimate.Across {
			from = far
		}
		p := &spot{task: t, shelf: s, ripeAt: from}
		x.spots = append(x.spots, p)
		if p.ripeAt.After(now) {
			n.timers.Remove(s)
			s.green.Push(p)
			s.setTimer()
		} else {
			s.ripe.Push(p)
			s.wantPlaces()
		}
	}
}

// noteNearChoice remembers where a task was given to, near its inputs or far from them, and why.
func (c *jobs) noteNearChoice(t *task, w *worker, now time.Time) {
	x, j := t.near, t.group.job
	x.read = c.view.Fleet().ReadTime(x.inputs, int32(w.Key))
	d := c.log.near.add()
	x.decision = c.log.near.n
	*d = Decision{
		Job: j.ID, Task: t.spec.Index, Path: estimate.Sampling, Why: t.group.pathReason, Class: t.group.explainClass(), Demand: t.group.explainDemand(), At: now.Sub(j.submitted), Attempt: t.attempt.id, Worker: w.Welcome().Worker,
		Outcome: stateText[t.state], Near: x.explainSites(), Read: x.read, Delay: now.Sub(x.waitsSince), group: t.group.index,
	}
	switch {
	case len(x.sites) == 1:
		d.Far = Nowhere
	case x.read <= x.sites[0].Read:
	case x.sitesBusy:
		d.Far = Crowded
	default:
		d.Far = Waited
	}
}

// explainSites is the sites of a task, as they are explained.
func (x *nearTask) explainSites() []Site {
	sites := make([]Site, len(x.sites))
	for i, s := range x.sites {
		sites[i].Site = s
	}
	return sites
}

// isCrowded reports whether a task that is about to be put on shelves would wait for longer at all of its sites than reading
// elsewhere would cost more: what is there before it, of its own job, takes too long, or long tasks hold the workers.
func (c *jobs) isCrowded(n *nearGroup, x *nearTask, now time.Time) bool {
	g := n.group
	far := x.sites[len(x.sites)-1].Read
	for _, site := range x.sites[:len(x.sites)-1] {
		run := max(g.estimate-far+site.Read, g.Runs.Shortest())
		ahead, slots := n.ensureShelf(site.Tier, site.Name).ripe.Len(), 0
		for _, key := range c.view.Fleet().WorkersAt(site.Tier, site.Name) {
			if w := c.view.Worker(Worker(key)); g.Set.Contains(w) && !c.view.IsAvoided(w, now) {
				slots += g.Demand.Times(w.Welcome().Capacity)
				if time.Duration(ahead/max(slots, 1))*run < far-site.Read {
					return false
				}
			}
		}
	}
	return true
}

func (n *nearGroup) ensureShelf(tier estimate.Tier, name string) *shelf {
	key := shelfKey{tier, name}
	s := n.shelves[key]
	if s == nil {
		s = &shelf{shelfKey: key, near: n}
		n.shelves[key] = s
	}
	return s
}

// wantPlaces notes that a shelf may need more places than it has.
func (s *shelf) wantPlaces() {
	if !s.isWanting {
		s.isWanting = true
		s.near.wantingShelves = append(s.near.wantingShelves, s)
	}
}

// ripenDue makes those ripe whose time has come.
func (s *shelf) ripenDue(now time.Time) {
	if s.green.Len() == 0 || s.green.Min().ripeAt.After(now) {
		return
	}
	s.near.timers.Remove(s)
	for s.green.Len() > 0 && !s.green.Min().ripeAt.After(now) {
		s.ripe.Push(s.green.Pop())
	}
	s.setTimer()
	s.wantPlaces()
}

// ripenShelves plans places for those whose time has come.
func (c *jobs) ripenShelves(now time.Time) {
	for c.ripeningShelves.Len() > 0 && !c.ripeningShelves.Min().green.Min().ripeAt.After(now) {
		s := c.ripeningShelves.Min()
		s.ripenDue(now)
		c.wantPlaces(s.near.group)
	}
}

func (t *task) Shunned() *view.Worker { return t.shunned }
func (x *spot) Shunned() *view.Worker { return x.task.shunned }

// workerToAvoid is w, or nil if tasks of the group that shun it can go nowhere else.
func (g *group) workerToAvoid(w *worker) *view.Worker {
	if g.Set.Len() > 1 {
		return w.Worker
	}
	return nil
}

// nextTask is the task of a group that w gets next if it asks; nil: it gets none, yet. One that has its data at w goes first.
func (c *jobs) nextTask(g *group, w *worker, now time.Time) *task {
	if g.near == nil {
		return g.queue.FirstFor(g.workerToAvoid(w))
	}
	c.shelveNew(g.near, now)
	row := c.view.Fleet().Get(int32(w.Key))
	if row == nil {
		return nil
	}
	for _, key := range [...]shelfKey{{estimate.Disk, row.Host}, {estimate.Rack, row.Rack}, {estimate.Across, ""}} {
		if s := g.near.shelves[key]; s != nil {
			s.ripenDue(now)
			if t := s.nextTask(w); t != nil {
				return t
			}
		}
	}
	return nil
}

// nextTask is the ripe task that w gets next; nil: none. Of the foremost it is the one whose other hosts have most to choose from, so that each
// finds what is left where it is.
func (s *shelf) nextTask(w *worker) *task {
	best := s.ripe.FirstFor(s.near.group.workerToAvoid(w))
	if best == nil {
		return nil
	}
	if best.Shunned() == nil {
		most, looked := best.fewestElsewhere(), 0
		for x := range s.ripe.rest.All() {
			if looked++; looked > maxLooked {
				break
			}
			if n := x.fewestElsewhere(); n > most {
				best, most = x, n
			}
		}
	}
	return best.task
}

// fewestElsewhere is how many tasks are ripe where fewest are, of the other hosts that have the task's inputs.
func (x *spot) fewestElsewhere() int {
	least := math.MaxInt
	for _, y := range x.task.near.spots {
		if y != x && y.shelf.tier == estimate.Disk {
			least = min(least, y.shelf.ripe.Len())
		}
	}
	return least
}

// Len, Riders and Fit make a shelf the queue of its ripe tasks.
func (s *shelf) Len() int { return s.ripe.Len() }

func (s *shelf) Riders(most int) int {
	n := 0
	for x := range s.ripe.All() {
		if n >= most || x.task.bytesToSend() > place.MaxRide {
			break
		}
		n++
	}
	return n
}

func (s *shelf) Fit(int, int) int { return 1 }

// shelvesWantPlaces reports whether some shelf of the group may need more places than it has.
func (g *group) shelvesWantPlaces() bool { return g.near != nil && len(g.near.wantingShelves) > 0 }

// anywhereShelf is the shelf of those tasks that any worker may run.
func (n *nearGroup) anywhereShelf() *shelf { return n.ensureShelf(estimate.Across, "") }

// countPlaces notes that so many more places of a reservation are in the queue, or fewer.
func (n *nearGroup) countPlaces(r *reservation, places int) {
	if n.placesAt[r.w] += places; n.placesAt[r.w] == 0 {
		delete(n.placesAt, r.w)
		if s := n.anywhereShelf(); s.ripe.Len() > 0 && s.missingProbes() > 0 { // it may have left w out for the place that w had
			s.wantPlaces()
		}
	}
	s := r.shelf
	if s == nil {
		return
	}
	s.livePlaces += places
	switch before := r.livePlaces - places; {
	case before == 0 && places > 0:
		s.liveReservations++
	case before > 0 && r.livePlaces == 0:
		s.liveReservations--
	}
	if places < 0 && s.ripe.Len() > 0 && s.missingProbes() > 0 && (r.livePlaces == 0 || !n.group.Policy.Sticky) {
		s.wantPlaces()
	}
}

// reshelveGone puts the tasks elsewhere whose data only w had, which is no longer up.
func (c *jobs) reshelveGone(w *worker) {
	row := c.view.Fleet().Get(int32(w.Key))
	if row == nil {
		return
	}
	for n := range c.nearGroups.All() {
		for _, key := range [...]shelfKey{{estimate.Disk, row.Host}, {estimate.Rack, row.Rack}} {
			s := n.shelves[key]
			if s == nil || slices.ContainsFunc(c.view.Fleet().WorkersAt(key.tier, key.name), n.group.Set.Has) {
				continue
			}
			for s.ripe.Len() > 0 {
				n.reshelve(s.ripe.First().task)
			}
			for s.green.Len() > 0 {
				n.reshelve(s.green.Min().task)
			}
			c.wantPlaces(n.group)
		}
	}
}

// reshelveSiteless brings tasks nearer whose data nobody had, now that another worker is up.
func (c *jobs) reshelveSiteless() {
	for n := range c.nearGroups.All() {
		tasks := slices.SortedFunc(maps.Keys(n.siteless), func(t, u *task) int { return cmp.Compare(t.spec.Index, u.spec.Index) })
		for _, t := range tasks {
			n.reshelve(t)
		}
	}
}

// reshelve lets a task be put on other shelves.
func (n *nearGroup) reshelve(t *task) {
	n.unshelve(t)
	n.addUnshelved(t)
}

// missingProbes is how many probes the ripe tasks of the shelf are worth that it has not: of those that several hosts have,
// each host gets one.
func (s *shelf) missingProbes() int {
	g, n := s.near.group, s.ripe.Len()
	if s.tier != estimate.Disk {
		n = g.Probes(n)
	}
	return n - s.heldProbes()
}

// heldProbes is how many probes the live places of a shelf are worth.
func (s *shelf) heldProbes() int {
	if s.near.group.Policy.Sticky {
		return s.liveReservations
	}
	return s.livePlaces
}
