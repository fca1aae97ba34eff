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

// averages is what a core makes of what it has seen, to foresee what will be.
type averages struct {
	runTime     time.Duration // of a task of which nothing is known
	longRunTime time.Duration // of a long task
	bindChance  float64       // that a reservation turns into a task
	fetchRate   float64       // bytes per second
}

// noteRun takes note of a run time.
func (l *averages) noteRun(d time.Duration) {
	if d > 0 {
		l.runTime += (d - l.runTime) / 16
	}
}

// noteLongRun takes note of how long a long task will take.
func (l *averages) noteLongRun(d time.Duration) {
	if l.longRunTime == 0 {
		l.longRunTime = d
	}
	l.longRunTime += (d - l.longRunTime) / 16
}

// noteTurn takes note that a reservation turned into a task, or did not.
func (l *averages) noteTurn(bound bool) {
	outcome := 0.0
	if bound {
		outcome = 1
	}
	l.bindChance += (outcome - l.bindChance) / 64
}

// placeCost is how long the place is expected to occupy its room, once it has it.
func (c *Core) placeCost(p *place) time.Duration {
	chance := 1.0
	if p.launch == nil {
		chance = c.averages.bindChance
	}
	return expectedCost(p.expectedRun, c.averages.runTime, chance)
}

// longestRun is how long the place may occupy its room, as far as anybody said.
func (p *place) longestRun() time.Duration {
	switch {
	case p.estimate <= 0:
		return horizon
	case p.launch == nil:
		return p.estimate + p.link.answerTime
	}
	return p.estimate
}

// beginForecast begins a forecast: what takes room now, and what is bound to take it before the queue does.
func (c *Core) beginForecast(now time.Time) *forecast {
	f, capacity := &c.forecast, c.capacity
	if c.isQuiet(now) {
		capacity.open = capacity.all
	}
	f.reset(capacity)
	for _, a := range c.runs {
		timeLeft := c.attemptTimeLeft(a, now)
		if a.standing != unstoppable {
			timeLeft = min(timeLeft, c.cfg.PreemptAfter)
		}
		f.addRunning(roomFor(a.demand, a.long), timeLeft)
	}
	for p := range c.asked.All() {
		if p.state == asking {
			f.addRunning(p.neededRoom(), remainingTime(p.link.answerTime+c.placeCost(p), now.Sub(p.askedAt)))
		}
	}
	for a := range c.staged.All() {
		f.planEntry(roomFor(a.demand, a.long), 0, expectedCost(a.expectedRun, c.averages.runTime, 1))
	}
	for _, p := range c.askedAhead {
		f.planEntry(p.neededRoom(), 0, c.placeCost(p))
	}
	return f
}

// Matrix is the expected wait for room of a long task that comes at now. It takes some 20 us with a hundred entries in the
// queue, and some 100 us with any number. It changes nothing that Step depends on; but, like Step, it is not for
// concurrent use.
func (c *Core) Matrix(now time.Time) probe.WaitMatrix {
	f := c.beginForecast(now)
	rest, n := c.queue.backlog, 0
	for p := range c.queue.inOrder(now) {
		if n++; n > planDepth {
			break
		}
		rest.addPlace(p, -1)
		f.planEntry(p.neededRoom(), p.filesExpectedIn(now), c.placeCost(p))
	}
	if c.queue.len() > planDepth {
		f.planRest(rest.expectedWork(c.averages.runTime, c.averages.bindChance))
	}
	var m probe.WaitMatrix
	f.writeMatrix(&m, c.alwaysOpen)
	return m
}

// expectedWaits is how long those of a link's places that have a task are expected to wait, as far as the queue is planned one by one. A wait
// matrix would not tell: it counts what came after them.
func (c *Core) expectedWaits(l *link, now time.Time) (list []probe.Expect) {
	if l.taskCount == 0 {
		return nil
	}
	for p, wait := range c.plannedWaits(now) {
		if p.link == l && p.launch != nil {
			if list = append(list, probe.Expect{Attempt: p.launch.Attempt, Wait: wait}); len(list) == l.taskCount {
				break
			}
		}
	}
	return list
}

// expectedWait is how long a place is expected to wait; 0: it is not planned.
func (c *Core) expectedWait(wanted *place, now time.Time) time.Duration {
	for p, wait := range c.plannedWaits(now) {
		if p == wanted {
			return wait
		}
	}
	return 0
}

// plannedWaits is the places that are planned one by one, in their order, and how long each is expected to wait.
func (c *Core) plannedWaits(now time.Time) iter.Seq2[*place, time.Duration] {
	return func(yield func(*place, time.Duration) bool) {
		f, n := c.beginForecast(now), 0
		for p := range c.queue.inOrder(now) {
			if n++; n > planDepth || !yield(p, f.planEntry(p.neededRoom(), p.filesExpectedIn(now), c.placeCost(p))) {
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
	if c.staged.Len() > 0 || len(c.askedAhead) > 0 || c.settledChanges == c.changes+c.queue.changes || !c.queue.fitsAny(c.free) {
		return acts, false
	}
	c.findGaps(now, nil)
	for _, p := range c.gaps {
		c.Stats.Backfilled++
		c.queue.takePlace(p)
		acts = c.beginTurn(p, now, acts)
	}
	filled := len(c.gaps) > 0
	clear(c.gaps)
	c.settledChanges = c.changes + c.queue.changes
	return acts, filled
}

// findGaps plans the queue, and collects in c.gaps the entries that may start now. It reports whether one more, which
// needs so much, may still find a gap behind all of them, and whether only in the share that is closed to long tasks;
// without one, it stops where nothing in the queue can.
func (c *Core) findGaps(now time.Time, more *room) (found, shortPartOnly bool) {
	f := c.beginForecast(now)
	c.gaps, c.fetchWake = c.gaps[:0], time.Time{}
	tried, n := room{}, 0
	shortAhead := false // a short entry ahead cannot start
	for p := range c.queue.inOrder(now) {
		n++
		deep := n > gapDepth
		if n > planDepth || deep && shortAhead {
			return false, shortPartOnly
		}
		shortPartOnly = shortPartOnly || deep // what fits into that share delays no long entry
		if free := f.spans[0].free; free != tried {
			if more != nil && !more.fitsIn(free) || more == nil && !c.queue.fitsAny(free) {
				return false, shortPartOnly
			}
			tried = free
		}
		fetched, notBefore := p.filesExpectedIn(now), f.nextChange()
		switch {
		case fetched > 0:
			notBefore = fetched
			if late := p.files.expectedAt.Add(1); c.fetchWake.IsZero() || late.Before(c.fetchWake) {
				c.fetchWake = late
			}
		case p.waitsForFiles():
			continue // late: it keeps its place, but no room
		case (deep || f.mayStart(p.neededRoom(), p.longestRun())) && (!shortPartOnly || c.fitsShortPart(p.neededRoom(), f.spans[0].free)):
			f.addRunning(p.neededRoom(), expectedCost(p.expectedRun, c.averages.runTime, 1))
			c.gaps = append(c.gaps, p)
			continue
		}
		if deep && p.long {
			continue
		}
		shortAhead = shortAhead || !p.long
		waited := now.Sub(p.queuedAt)
		start := waited + f.planEntry(p.neededRoom(), notBefore, c.placeCost(p))
		switch {
		case fetched > 0:
		case p.startIn == 0:
			p.startIn = max(start, 1)
		case waited <= p.startIn:
		case !p.long:
			return false, shortPartOnly
		default:
			shortPartOnly = true
		}
	}
	return true, shortPartOnly
}

// fitsShortPart reports whether a short task of these needs, beside all short ones for which room is taken, fits into
// what is closed to long ones: it never delays any of these. Long ones may have more than what is open to them.
func (c *Core) fitsShortPart(needs, free room) bool {
	if needs.open != (probe.Demand{}) || !needs.fitsIn(free) {
		return false
	}
	all := c.capacity.all.Sub(free.all)
	long := c.capacity.open.Sub(free.open)
	return all.Sub(long).Add(needs.all).Fits(c.capacity.all.Sub(c.alwaysOpen))
}

// hasGap reports whether tasks that need so much, and ride along, may find a gap behind all that wait. Then fillGap
// tells of each of them, until the step ends.
func (c *Core) hasGap(needs room, now time.Time) bool {
	if c.staged.Len() > 0 || len(c.askedAhead) > 0 || !needs.fitsIn(c.free) {
		return false
	}
	c.changes++ // the next backfill is to start from what then waits
	found, shortPartOnly := c.findGaps(now, &needs)
	c.shortPartOnly = shortPartOnly
	found = found && len(c.gaps) == 0
	clear(c.gaps)
	return found
}

// takeGap reports whether a task can start now without delaying any that waits, and counts on that it does.
func (c *Core) takeGap(needs room, estimate time.Duration) bool {
	takes := estimate
	if takes <= 0 {
		takes = horizon
	}
	if !c.forecast.mayStart(needs, takes) || c.shortPartOnly && !c.fitsShortPart(needs, c.forecast.spans[0].free) {
		return false
	}
	c.forecast.addRunning(needs, takes)
	return true
}
