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

// Short tasks with inputs are sampled, too, but first among the workers near the inputs. A ready worker gets a
// task with inputs at the worker. If no such task waits, the worker gets a task that has waited long enough. The
// wait is the extra time for reading from elsewhere (compare delay scheduling: Zaharia et al., EuroSys 2010).
//
// Each task is on one shelf for each site of its inputs: a host, a rack, or anywhere. On a shelf a task is green
// while waiting for a nearer site is better than reading there, and ripe afterwards.

// makeNear gives g shelves. From now on its tasks go to their inputs.
func (c *jobs) makeNear(g *group) {
	g.near = &nearGroup{
		group: g, shelves: map[shelfKey]*shelf{}, placesAt: map[*worker]int{}, siteless: map[*task]bool{},
		timers: &c.ripeningShelves,
	}
}

// addUnshelved notes that t waits for a turn and belongs on shelves.
func (n *nearGroup) addUnshelved(t *task) { n.unshelved = append(n.unshelved, t) }

// unshelve takes t off all shelves.
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

// setTimer files the shelf by its first green task, if there is a green task. The caller has taken the shelf out of the
// timers before changing the green tasks.
func (s *shelf) setTimer() {
	if s.green.Len() > 0 {
		s.near.timers.Push(s)
	}
}

// shelveNew shelves the tasks noted by addUnshelved.
func (c *jobs) shelveNew(n *nearGroup, now time.Time) {
	for _, t := range n.unshelved {
		if t.state == waiting && (t.near == nil || t.near.spots == nil) {
			c.shelveTask(n, t, now)
		}
	}
	clear(n.unshelved)
	n.unshelved = n.unshelved[:0]
}

// shelveTask puts t on a shelf for each site. At the nearest site t is ripe at once. At another site t ripens
// after a wait as long as the extra time for reading there. If all near sites are busy, t is ripe anywhere at
// once.
func (c *jobs) shelveTask(n *nearGroup, t *task, now time.Time) {
	x := t.near
	if x == nil {
		x = &nearTask{inputs: t.locateInputs(), attemptsBefore: -1}
		t.near = x
	}
	if x.attemptsBefore != t.attempts { // else a worker without room sent t back, and the wait goes on
		x.attemptsBefore, x.waitsSince = t.attempts, now
	}
	x.sites = c.view.Fleet().Sites(x.inputs, n.group.Set, x.sites[:0])
	best := x.sites[0].Read
	if len(x.sites) == 1 {
		n.siteless[t] = true
	}
	far := x.waitsSince.Add(x.sites[len(x.sites)-1].Read - best)
	if x.sitesBusy = far.After(now) && c.areSitesBusy(n, x, now); x.sitesBusy {
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

// noteNearChoice records where t was sent, near its inputs or far away, and why. It also notes the time to read the
// inputs at w, which the expected run of t includes (expectedRun).
func (c *jobs) noteNearChoice(t *task, w *worker, now time.Time) {
	x, j := t.near, t.group.job
	x.read = c.view.Fleet().ReadTime(x.inputs, int32(w.Key))
	d := c.log.near.add()
	x.decision = c.log.near.n
	*d = Decision{
		Job: j.ID, Task: t.spec.Index, Path: estimate.Sampling, Why: t.group.pathReason, Class: t.group.explainClass(),
		Demand: t.group.explainDemand(), At: now.Sub(j.submitted), Attempt: t.attempt.id, Worker: w.Welcome().Worker,
		Outcome: stateText[t.state], Near: x.explainSites(), Read: x.read, Delay: now.Sub(x.waitsSince),
		group: t.group.index,
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

// explainSites returns the sites of a task for explanations.
func (x *nearTask) explainSites() []Site {
	sites := make([]Site, len(x.sites))
	for i, s := range x.sites {
		sites[i].Site = s
	}
	return sites
}

// areSitesBusy reports whether a task about to be shelved would wait longer at each near site than reading elsewhere
// costs. Either ripe tasks of the same group take too long there, or long tasks use the workers.
func (c *jobs) areSitesBusy(n *nearGroup, x *nearTask, now time.Time) bool {
	g := n.group
	far := x.sites[len(x.sites)-1].Read
	for _, site := range x.sites[:len(x.sites)-1] {
		run := max(g.estimate-far+site.Read, g.Runs.Shortest()) // g.estimate includes reading from far away
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

// ensureShelf returns the shelf of a site, made now if missing.
func (n *nearGroup) ensureShelf(tier estimate.Tier, name string) *shelf {
	key := shelfKey{tier, name}
	s := n.shelves[key]
	if s == nil {
		s = &shelf{shelfKey: key, near: n}
		n.shelves[key] = s
	}
	return s
}

// wantPlaces notes that the shelf may need more places.
func (s *shelf) wantPlaces() {
	if !s.isWanting {
		s.isWanting = true
		s.near.wantingShelves = append(s.near.wantingShelves, s)
	}
}

// ripenDue makes the green tasks ripe whose time has come.
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

// ripenShelves ripens shelves with due tasks, and has places planned for the groups.
func (c *jobs) ripenShelves(now time.Time) {
	for c.ripeningShelves.Len() > 0 && !c.ripeningShelves.Min().green.Min().ripeAt.After(now) {
		s := c.ripeningShelves.Min()
		s.ripenDue(now)
		c.wantPlaces(s.near.group)
	}
}

// Shunned returns the worker where the task failed and would fail again, or nil.
func (t *task) Shunned() *view.Worker { return t.shunned }

// Shunned returns the worker shunned by the task, or nil.
func (x *spot) Shunned() *view.Worker { return x.task.shunned }

// shunFilter returns the argument of FirstFor in a search for a task for w. As a rule the result is w, so tasks that
// shun w are passed over. If w is the only worker for the group, the result is nil, and w gets tasks that shun w, too.
func (g *group) shunFilter(w *worker) *view.Worker {
	if g.Set.Len() > 1 {
		return w.Worker
	}
	return nil
}

// nextTask returns the task of g for w, or nil if w has to wait. Tasks with inputs at w go first, then tasks with
// inputs in the rack of w. The task stays in the queue. Shelves are brought up to date first: new tasks are shelved,
// and due tasks ripen.
func (c *jobs) nextTask(g *group, w *worker, now time.Time) *task {
	if g.near == nil {
		return g.queue.FirstFor(g.shunFilter(w))
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

// nextTask returns the ripe task for w, or nil. A task that shuns another worker goes first. Otherwise, of the first
// maxLooked tasks, the task with the largest fewestElsewhere goes: the other hosts of its inputs have the most tasks
// left, or there are none. So no host runs out of tasks with inputs there.
func (s *shelf) nextTask(w *worker) *task {
	best := s.ripe.FirstFor(s.near.group.shunFilter(w))
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

// fewestElsewhere looks at the other hosts of x's inputs, and returns the number of ripe tasks at the host with the
// fewest. If x's inputs are at one host only, it returns MaxInt.
func (x *spot) fewestElsewhere() int {
	least := math.MaxInt
	for _, y := range x.task.near.spots {
		if y != x && y.shelf.tier == estimate.Disk {
			least = min(least, y.shelf.ripe.Len())
		}
	}
	return least
}

// Len, Riders and Fit make a shelf the place.Queue of the ripe tasks.
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

// shelvesWantPlaces reports whether a shelf of the group may need more places.
func (g *group) shelvesWantPlaces() bool { return g.near != nil && len(g.near.wantingShelves) > 0 }

// anywhereShelf returns the shelf of tasks for any worker, made now if missing.
func (n *nearGroup) anywhereShelf() *shelf { return n.ensureShelf(estimate.Across, "") }

// addLivePlaces counts more live places of r, at the worker and on the shelf; negative: fewer. A shelf that now lacks
// places wants places. The caller has changed r.livePlaces already.
func (n *nearGroup) addLivePlaces(r *reservation, places int) {
	if n.placesAt[r.w] += places; n.placesAt[r.w] == 0 {
		delete(n.placesAt, r.w)
		// The shelf may have passed over the worker because of the place.
		if s := n.anywhereShelf(); s.ripe.Len() > 0 && s.missingProbes() > 0 {
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

// reshelveGone shelves tasks anew if w was the last worker up at a host or rack of their inputs. The caller knows that
// w is not up any more, or gets no tasks with files.
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

// reshelveSiteless shelves tasks without a near worker anew: another worker is up, perhaps near their inputs.
func (c *jobs) reshelveSiteless() {
	for n := range c.nearGroups.All() {
		tasks := slices.SortedFunc(maps.Keys(n.siteless), func(t, u *task) int {
			return cmp.Compare(t.spec.Index, u.spec.Index)
		})
		for _, t := range tasks {
			n.reshelve(t)
		}
	}
}

// reshelve puts t on no shelf now, and on new shelves with the next shelveNew.
func (n *nearGroup) reshelve(t *task) {
	n.unshelve(t)
	n.addUnshelved(t)
}

// missingProbes returns how many probes the shelf lacks for its ripe tasks. At a host, a task is worth a single
// probe: each further host of the inputs has a shelf and probes, too.
func (s *shelf) missingProbes() int {
	g, n := s.near.group, s.ripe.Len()
	if s.tier != estimate.Disk {
		n = g.Probes(n)
	}
	return n - s.liveProbes()
}

// liveProbes returns how many probes the live places of the shelf count for.
func (s *shelf) liveProbes() int {
	if s.near.group.Policy.Sticky {
		return s.liveReservations
	}
	return s.livePlaces
}
