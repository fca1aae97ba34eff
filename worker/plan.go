package worker

import (
	"iter"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// gapDepth is how many entries are planned in search of gaps: that happens whenever something changes and there is room
// that the head of the queue cannot use. Short entries behind them may still use the share that is closed to long ones.
const gapDepth = 64

// What a core knows before it has learned it.
const (
	firstRun    = unknownCost
	firstChance = 0.5 // a frontend sends about two reservations for each task
)

// learned is what a core makes of what it has seen, to foresee what will be.
type learned struct {
	run    time.Duration // of a task of which nothing is known
	long   time.Duration // of a long task
	chance float64       // that a reservation turns into a task
	fetch  float64       // bytes per second
}

// ran takes note of a run time.
func (l *learned) ran(d time.Duration) {
	if d > 0 {
		l.run += (d - l.run) / 16
	}
}

// longer takes note of how long a long task will take.
func (l *learned) longer(d time.Duration) {
	if l.long == 0 {
		l.long = d
	}
	l.long += (d - l.long) / 16
}

// turned takes note that a reservation turned into a task, or did not.
func (l *learned) turned(bound bool) {
	was := 0.0
	if bound {
		was = 1
	}
	l.chance += (was - l.chance) / 64
}

// cost is how long the place is expected to occupy its room, once it has it.
func (c *Core) cost(p *place) time.Duration {
	chance := 1.0
	if p.launch == nil {
		chance = c.learned.chance
	}
	return expectedCost(p.expected, c.learned.run, chance)
}

// longest is how long the place may occupy its room, as far as anybody said.
func (p *place) longest() time.Duration {
	switch {
	case p.estimate <= 0:
		return horizon
	case p.launch == nil:
		return p.estimate + p.link.answer
	}
	return p.estimate
}

// occupied begins a forecast: what takes room now, and what is bound to take it before the queue does.
func (c *Core) occupied(now time.Time) *forecast {
	f, capacity := &c.forecast, c.capacity
	if c.quiet(now) {
		capacity.open = capacity.all
	}
	f.reset(capacity)
	for _, a := range c.runs {
		left := c.left(a, now)
		if a.standing != stays {
			left = min(left, c.cfg.PreemptAfter)
		}
		f.running(needs(a.demand, a.long), left)
	}
	for p := range c.asked.All() {
		if p.state == held {
			f.running(p.needs(), remaining(p.link.answer+c.cost(p), now.Sub(p.askedAt)))
		}
	}
	for a := range c.staged.All() {
		f.plan(needs(a.demand, a.long), 0, expectedCost(a.expected, c.learned.run, 1))
	}
	for _, p := range c.early {
		f.plan(p.needs(), 0, c.cost(p))
	}
	return f
}

// Matrix is the expected wait for room of a long task that comes at now. It takes some 20 us with a hundred entries in the
// queue, and some 100 us with any number. It changes nothing that Step depends on; but, like Step, it is not for
// concurrent use.
func (c *Core) Matrix(now time.Time) probe.WaitMatrix {
	f := c.occupied(now)
	rest, n := c.queue.backlog, 0
	for p := range c.queue.inOrder(now) {
		if n++; n > planDepth {
			break
		}
		rest.add(p, -1)
		f.plan(p.needs(), p.fetchedIn(now), c.cost(p))
	}
	if c.queue.len() > planDepth {
		f.rest(rest.expected(c.learned.run, c.learned.chance))
	}
	var m probe.WaitMatrix
	f.matrix(&m, c.always)
	return m
}

// expect is how long those of a link's places that have a task are expected to wait, as far as the queue is planned one by one. A wait
// matrix would not tell: it counts what came after them.
func (c *Core) expect(l *link, now time.Time) (list []probe.Expect) {
	if l.tasks == 0 {
		return nil
	}
	for p, wait := range c.planned(now) {
		if p.link == l && p.launch != nil {
			if list = append(list, probe.Expect{Attempt: p.launch.Attempt, Wait: wait}); len(list) == l.tasks {
				break
			}
		}
	}
	return list
}

// waitOf is how long a place is expected to wait; 0: it is not planned.
func (c *Core) waitOf(of *place, now time.Time) time.Duration {
	for p, wait := range c.planned(now) {
		if p == of {
			return wait
		}
	}
	return 0
}

// planned is the places that are planned one by one, in their order, and how long each is expected to wait.
func (c *Core) planned(now time.Time) iter.Seq2[*place, time.Duration] {
	return func(yield func(*place, time.Duration) bool) {
		f, n := c.occupied(now), 0
		for p := range c.queue.inOrder(now) {
			if n++; n > planDepth || !yield(p, f.plan(p.needs(), p.fetchedIn(now), c.cost(p))) {
				return
			}
		}
	}
}

// backfill starts entries behind the head of the queue, for which there is no room yet, where that does not delay the
// expected start of any entry ahead of them (conservative backfilling). It reports whether there were any.
func (c *Core) backfill(now time.Time, acts []Action) ([]Action, bool) {
	if !c.fetchWake.IsZero() && !now.Before(c.fetchWake) {
		c.fetchWake = time.Time{}
		c.changes++
	}
	if c.staged.Len() > 0 || len(c.early) > 0 || c.settled == c.changes+c.queue.changes || !c.queue.fitsAny(c.free) {
		return acts, false
	}
	c.findGaps(now, nil)
	for _, p := range c.gaps {
		c.Stats.Backfilled++
		c.queue.take(p)
		acts = c.begin(p, now, acts)
	}
	filled := len(c.gaps) > 0
	clear(c.gaps)
	c.settled = c.changes + c.queue.changes
	return acts, filled
}

// findGaps plans the queue, and collects in c.gaps the entries that may start now. It reports whether one more, which
// needs so much, may still find a gap behind all of them, and whether only in the share that is closed to long tasks;
// without one, it stops where nothing in the queue can.
func (c *Core) findGaps(now time.Time, more *room) (found, shareOnly bool) {
	f := c.occupied(now)
	c.gaps, c.fetchWake = c.gaps[:0], time.Time{}
	tried, n := room{}, 0
	held := false // a short entry ahead cannot start
	for p := range c.queue.inOrder(now) {
		n++
		deep := n > gapDepth
		if n > planDepth || deep && held {
			return false, shareOnly
		}
		shareOnly = shareOnly || deep // what fits into that share delays no long entry
		if free := f.spans[0].free; free != tried {
			if more != nil && !more.fits(free) || more == nil && !c.queue.fitsAny(free) {
				return false, shareOnly
			}
			tried = free
		}
		fetched, before := p.fetchedIn(now), f.next()
		switch {
		case fetched > 0:
			before = fetched
			if late := p.files.by.Add(1); c.fetchWake.IsZero() || late.Before(c.fetchWake) {
				c.fetchWake = late
			}
		case p.fetching():
			continue // late: it keeps its place, but no room
		case (deep || f.mayStart(p.needs(), p.longest())) && (!shareOnly || c.inShortShare(p.needs(), f.spans[0].free)):
			f.running(p.needs(), expectedCost(p.expected, c.learned.run, 1))
			c.gaps = append(c.gaps, p)
			continue
		}
		if deep && p.long {
			continue
		}
		held = held || !p.long
		waited := now.Sub(p.queuedAt)
		start := waited + f.plan(p.needs(), before, c.cost(p))
		switch {
		case fetched > 0:
		case p.startIn == 0:
			p.startIn = max(start, 1)
		case waited <= p.startIn:
		case !p.long:
			return false, shareOnly
		default:
			shareOnly = true
		}
	}
	return true, shareOnly
}

// inShortShare reports whether a short task of these needs, beside all short ones for which room is taken, fits into
// what is closed to long ones: it never delays any of these. Long ones may have more than what is open to them.
func (c *Core) inShortShare(needs, free room) bool {
	if needs.open != (probe.Demand{}) || !needs.fits(free) {
		return false
	}
	all := c.capacity.all.Sub(free.all)
	long := c.capacity.open.Sub(free.open)
	return all.Sub(long).Add(needs.all).Fits(c.capacity.all.Sub(c.always))
}

// hasGap reports whether tasks that need so much, and ride along, may find a gap behind all that wait. Then fillGap
// tells of each of them, until the step ends.
func (c *Core) hasGap(needs room, now time.Time) bool {
	if c.staged.Len() > 0 || len(c.early) > 0 || !needs.fits(c.free) {
		return false
	}
	c.changes++ // the next backfill is to start from what then waits
	found, shareOnly := c.findGaps(now, &needs)
	c.shareOnly = shareOnly
	found = found && len(c.gaps) == 0
	clear(c.gaps)
	return found
}

// fillGap reports whether a task can start now without delaying any that waits, and counts on that it does.
func (c *Core) fillGap(needs room, estimate time.Duration) bool {
	takes := estimate
	if takes <= 0 {
		takes = horizon
	}
	if !c.forecast.mayStart(needs, takes) || c.shareOnly && !c.inShortShare(needs, c.forecast.spans[0].free) {
		return false
	}
	c.forecast.running(needs, takes)
	return true
}
