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
	g.near = &near{group: g, shelves: map[shelfKey]*shelf{}, held: map[*worker]int{}, lone: map[*task]bool{}, timers: &c.ripening}
}

// came notes that a task waits.
func (n *near) came(t *task) { n.fresh = append(n.fresh, t) }

// left takes a task off the shelves.
func (n *near) left(t *task) {
	if t.near == nil {
		return
	}
	for _, x := range t.near.spots {
		s := x.shelf
		if x.pos > 0 {
			n.timers.Remove(s)
			s.green.Remove(x)
			s.wait()
		}
		s.ripe.Remove(x)
	}
	t.near.spots = nil
	delete(n.lone, t)
}

// wait sets the timer of a shelf that has none.
func (s *shelf) wait() {
	if s.green.Len() > 0 {
		s.near.timers.Push(s)
	}
}

// shelve puts the tasks that came on the shelves where they belong.
func (c *jobs) shelve(n *near, now time.Time) {
	for _, t := range n.fresh {
		if t.state == waiting && (t.near == nil || t.near.spots == nil) {
			c.shelveTask(n, t, now)
		}
	}
	clear(n.fresh)
	n.fresh = n.fresh[:0]
}

func (c *jobs) shelveTask(n *near, t *task, now time.Time) {
	x := t.near
	if x == nil {
		x = &nearTask{inputs: t.located(), attempts: -1}
		t.near = x
	}
	if x.attempts != t.attempts { // else it only comes back from a worker that had no room
		x.attempts, x.since = t.attempts, now
	}
	x.sites = c.view.Fleet().Sites(x.inputs, n.group.Set, x.sites[:0])
	best := x.sites[0].Read
	if len(x.sites) == 1 {
		n.lone[t] = true
	}
	far := x.since.Add(x.sites[len(x.sites)-1].Read - best)
	if x.crowded = far.After(now) && c.crowded(n, x, now); x.crowded {
		far = now
	}
	for _, at := range x.sites {
		s, from := n.shelf(at.Tier, at.Name), x.since.Add(at.Read-best)
		if at.Tier == estimate.Across {
			from = far
		}
		p := &spot{task: t, shelf: s, from: from}
		x.spots = append(x.spots, p)
		if p.from.After(now) {
			n.timers.Remove(s)
			s.green.Push(p)
			s.wait()
		} else {
			s.ripe.Push(p)
			s.worry()
		}
	}
}

// wentNear remembers where a task was given to, near its inputs or far from them, and why.
func (c *jobs) wentNear(t *task, w *worker, now time.Time) {
	x, j := t.near, t.group.job
	x.read = c.view.Fleet().ReadTime(x.inputs, int32(w.Key))
	d := c.log.near.add()
	x.decision = c.log.near.n
	*d = Decision{
		Job: j.ID, Task: t.spec.Index, Path: estimate.Sampling, Why: t.group.why, Class: t.group.told(), Demand: t.group.takesWhy(), At: now.Sub(j.submitted), Attempt: t.attempt.id, Worker: w.Welcome().Worker,
		Outcome: stateText[t.state], Near: x.told(), Read: x.read, Delay: now.Sub(x.since), group: t.group.index,
	}
	switch {
	case len(x.sites) == 1:
		d.Far = Nowhere
	case x.read <= x.sites[0].Read:
	case x.crowded:
		d.Far = Crowded
	default:
		d.Far = Waited
	}
}

// told is the sites of a task, as they are explained.
func (x *nearTask) told() []Site {
	sites := make([]Site, len(x.sites))
	for i, s := range x.sites {
		sites[i].Site = s
	}
	return sites
}

// crowded reports whether a task that is about to be put on shelves would wait for longer at all of its sites than reading
// elsewhere would cost more: what is there before it, of its own job, takes too long, or long tasks hold the workers.
func (c *jobs) crowded(n *near, x *nearTask, now time.Time) bool {
	g := n.group
	far := x.sites[len(x.sites)-1].Read
	for _, at := range x.sites[:len(x.sites)-1] {
		run := max(g.estimate-far+at.Read, g.Runs.Shortest())
		ahead, slots := n.shelf(at.Tier, at.Name).ripe.Len(), 0
		for _, key := range c.view.Fleet().WorkersAt(at.Tier, at.Name) {
			if w := c.view.Worker(Worker(key)); g.Set.Contains(w) && !c.view.IsAvoided(w, now) {
				slots += g.Demand.Times(w.Welcome().Capacity)
				if time.Duration(ahead/max(slots, 1))*run < far-at.Read {
					return false
				}
			}
		}
	}
	return true
}

func (n *near) shelf(tier estimate.Tier, name string) *shelf {
	key := shelfKey{tier, name}
	s := n.shelves[key]
	if s == nil {
		s = &shelf{shelfKey: key, near: n}
		n.shelves[key] = s
	}
	return s
}

// worry notes that a shelf may need more places than it has.
func (s *shelf) worry() {
	if !s.uneasy {
		s.uneasy = true
		s.near.uneasy = append(s.near.uneasy, s)
	}
}

// ripen makes those ripe whose time has come.
func (s *shelf) ripen(now time.Time) {
	if s.green.Len() == 0 || s.green.Min().from.After(now) {
		return
	}
	s.near.timers.Remove(s)
	for s.green.Len() > 0 && !s.green.Min().from.After(now) {
		s.ripe.Push(s.green.Pop())
	}
	s.wait()
	s.worry()
}

// ripenAll plans places for those whose time has come.
func (c *jobs) ripenAll(now time.Time) {
	for c.ripening.Len() > 0 && !c.ripening.Min().green.Min().from.After(now) {
		s := c.ripening.Min()
		s.ripen(now)
		c.want(s.near.group)
	}
}

func (t *task) Shunned() *view.Worker { return t.shuns }
func (x *spot) Shunned() *view.Worker { return x.task.shuns }

// avoidable is w, or nil if tasks of the group that shun it can go nowhere else.
func (g *group) avoidable(w *worker) *view.Worker {
	if g.Set.Len() > 1 {
		return w.Worker
	}
	return nil
}

// first is the task of a group that w gets next if it asks; nil: it gets none, yet. One that has its data at w goes first.
func (c *jobs) first(g *group, w *worker, now time.Time) *task {
	if g.near == nil {
		return g.queue.For(g.avoidable(w))
	}
	c.shelve(g.near, now)
	row := c.view.Fleet().Get(int32(w.Key))
	if row == nil {
		return nil
	}
	for _, key := range [...]shelfKey{{estimate.Disk, row.Host}, {estimate.Rack, row.Rack}, {estimate.Across, ""}} {
		if s := g.near.shelves[key]; s != nil {
			s.ripen(now)
			if t := s.first(w); t != nil {
				return t
			}
		}
	}
	return nil
}

// first is the ripe task that w gets next; nil: none. Of the foremost it is the one whose other hosts have most to choose from, so that each
// finds what is left where it is.
func (s *shelf) first(w *worker) *task {
	best := s.ripe.For(s.near.group.avoidable(w))
	if best == nil {
		return nil
	}
	if best.Shunned() == nil {
		most, looked := best.elsewhere(), 0
		for x := range s.ripe.rest.All() {
			if looked++; looked > mostLooked {
				break
			}
			if n := x.elsewhere(); n > most {
				best, most = x, n
			}
		}
	}
	return best.task
}

// elsewhere is how many tasks are ripe where fewest are, of the other hosts that have the task's inputs.
func (x *spot) elsewhere() int {
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
		if n >= most || x.task.weight() > place.MaxRide {
			break
		}
		n++
	}
	return n
}

func (s *shelf) Fit(int, int) int { return 1 }

// uneasy reports whether some shelf of the group may need more places than it has.
func (g *group) uneasy() bool { return g.near != nil && len(g.near.uneasy) > 0 }

// anywhere is the shelf of those tasks that any worker may run.
func (n *near) anywhere() *shelf { return n.shelf(estimate.Across, "") }

// queued notes that so many more places of a reservation are in the queue, or fewer.
func (n *near) queued(r *reservation, places int) {
	if n.held[r.w] += places; n.held[r.w] == 0 {
		delete(n.held, r.w)
		if s := n.anywhere(); s.ripe.Len() > 0 && s.missing() > 0 { // it may have left w out for the place that w had
			s.worry()
		}
	}
	s := r.shelf
	if s == nil {
		return
	}
	s.live += places
	switch before := r.live - places; {
	case before == 0 && places > 0:
		s.probes++
	case before > 0 && r.live == 0:
		s.probes--
	}
	if places < 0 && s.ripe.Len() > 0 && s.missing() > 0 && (r.live == 0 || !n.group.Policy.Sticky) {
		s.worry()
	}
}

// nearGone puts the tasks elsewhere whose data only w had, which is no longer up.
func (c *jobs) nearGone(w *worker) {
	row := c.view.Fleet().Get(int32(w.Key))
	if row == nil {
		return
	}
	for n := range c.nears.All() {
		for _, key := range [...]shelfKey{{estimate.Disk, row.Host}, {estimate.Rack, row.Rack}} {
			s := n.shelves[key]
			if s == nil || slices.ContainsFunc(c.view.Fleet().WorkersAt(key.tier, key.name), n.group.Set.Has) {
				continue
			}
			for s.ripe.Len() > 0 {
				n.again(s.ripe.First().task)
			}
			for s.green.Len() > 0 {
				n.again(s.green.Min().task)
			}
			c.want(n.group)
		}
	}
}

// nearUp brings tasks nearer whose data nobody had, now that another worker is up.
func (c *jobs) nearUp() {
	for n := range c.nears.All() {
		tasks := slices.SortedFunc(maps.Keys(n.lone), func(t, u *task) int { return cmp.Compare(t.spec.Index, u.spec.Index) })
		for _, t := range tasks {
			n.again(t)
		}
	}
}

// again lets a task be put on other shelves.
func (n *near) again(t *task) {
	n.left(t)
	n.came(t)
}

// missing is how many probes the ripe tasks of the shelf are worth that it has not: of those that several hosts have,
// each host gets one.
func (s *shelf) missing() int {
	g, n := s.near.group, s.ripe.Len()
	if s.tier != estimate.Disk {
		n = g.Probes(n)
	}
	return n - s.probed()
}

// probed is how many probes the live places of a shelf are worth.
func (s *shelf) probed() int {
	if s.near.group.Policy.Sticky {
		return s.probes
	}
	return s.live
}
