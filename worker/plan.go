package worker

import (
	"iter"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// gapDepth is the number of entries to plan in search of gaps. It is small because the search runs at each change
// while the free room is too small for the head of the queue. Short entries further behind may still use the short
// part.
const gapDepth = 64

// lateDepth is the number of entries to skip in search of gaps because their files are late. Skipping costs little.
const lateDepth = 4096

// The initial values of averages.
const (
	initialRun        = assumedRun
	initialBindChance = 0.5 // frontends send about two reservations a task
)

// averages are the moving averages of what a core has seen. Forecasts build on them.
type averages struct {
	runTime     time.Duration // of all tasks; assumed for a task without an expected run time
	longRunTime time.Duration // of a long task; 0: none came yet
	bindChance  float64       // chance of a task for a reservation
	fetchRate   float64       // bytes per second
}

// noteRun takes a run time into the average.
func (l *averages) noteRun(d time.Duration) {
	if d > 0 {
		l.runTime += (d - l.runTime) / 16
	}
}

// noteLongRun takes the expected run time of a long task into the average.
func (l *averages) noteLongRun(d time.Duration) {
	if l.longRunTime == 0 {
		l.longRunTime = d
	}
	l.longRunTime += (d - l.longRunTime) / 16
}

// noteTurn takes into the average whether a reservation got a task.
func (l *averages) noteTurn(bound bool) {
	outcome := 0.0
	if bound {
		outcome = 1
	}
	l.bindChance += (outcome - l.bindChance) / 64
}

// placeCost returns the time that the place is expected to keep its room, once the room is taken.
func (c *Core) placeCost(p *place) time.Duration {
	chance := 1.0
	if p.launch == nil {
		chance = c.averages.bindChance
	}
	return expectedCost(p.expectedRun, c.averages.runTime, chance)
}

// longestRun returns the longest use of room by the place, going by the estimate; horizon if unknown.
func (p *place) longestRun() time.Duration {
	switch {
	case p.estimate <= 0:
		return horizon
	case p.launch == nil:
		return p.estimate + p.link.answerTime
	}
	return p.estimate
}

// beginForecast begins a forecast with the present use of room, and with the uses that come before the queue.
func (c *Core) beginForecast(now time.Time) *forecast {
	f, capacity := &c.forecast, c.capacity
	if c.isQuiet(now) {
		capacity.open = capacity.all
	}
	f.reset(capacity)
	for _, a := range c.runs {
		timeLeft := c.attemptTimeLeft(a, now)
		if a.stopState != unstoppable { // a regular place can have the attempt stopped
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

// Matrix returns the expected wait for room of a long task that comes at now. It takes some 20 us with a hundred
// entries in the queue, and never more than some 100 us. Matrix changes nothing that Step depends on. Like Step,
// it is not for concurrent use.
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

// expectedWaits returns the expected waits of the tasks of l in the queue, as far as the first planDepth places
// go. A wait matrix cannot tell these waits, because a matrix also counts later places.
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

// expectedWait returns the expected wait of a place; 0: the place is beyond the planned part.
func (c *Core) expectedWait(wanted *place, now time.Time) time.Duration {
	for p, wait := range c.plannedWaits(now) {
		if p == wanted {
			return wait
		}
	}
	return 0
}

// plannedWaits yields the first planDepth places in order, with expected waits.
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

// backfill begins the turns of entries behind the head of the queue, while the head has no room. An entry goes
// first only if it does not delay the expected start of an entry ahead (conservative backfilling). backfill reports
// whether a turn began.
func (c *Core) backfill(now time.Time, acts []Action) ([]Action, bool) {
	if !c.fetchWake.IsZero() && !now.Before(c.fetchWake) {
		c.fetchWake = time.Time{}
		c.changes++
	}
	if c.staged.Len() > 0 || len(c.askedAhead) > 0 || c.settledChanges == c.changes+c.queue.changes ||
		!c.queue.fitsAny(c.free) {
		return acts, false
	}
	c.findGaps(now, nil)
	for _, p := range c.gaps {
		c.Stats.Backfilled++
		c.queue.takeForTurn(p)
		acts = c.giveRoom(p, now, acts)
	}
	filled := len(c.gaps) > 0
	clear(c.gaps)
	c.settledChanges = c.changes + c.queue.changes
	return acts, filled
}

// findGaps plans the queue, and collects in c.gaps the entries that may start now. If extra is not nil, extra is the
// need of one more entry, behind all others. Then found says whether the extra entry may find a gap now, and
// shortPartOnly whether only in the short part. If extra is nil, findGaps stops where no entry of the queue can fill a
// gap, and the results mean nothing.
func (c *Core) findGaps(now time.Time, extra *room) (found, shortPartOnly bool) {
	f := c.beginForecast(now)
	c.gaps, c.fetchWake = c.gaps[:0], time.Time{}
	checkedFree, n, late := room{}, 0, 0
	shortAhead := false // a short entry ahead cannot start
	for p := range c.queue.inOrder(now) {
		fetched := p.filesExpectedIn(now)
		if late < lateDepth && fetched == 0 && p.waitsForFiles() {
			late++
			continue // late files: the entry keeps its position, but no room
		}
		n++
		deep := n > gapDepth
		if n > planDepth || deep && shortAhead {
			return false, shortPartOnly
		}
		shortPartOnly = shortPartOnly || deep // an entry in the short part delays no long entry
		if free := f.spans[0].free; free != checkedFree {
			if extra != nil && !extra.fitsIn(free) || extra == nil && !c.queue.fitsAny(free) {
				return false, shortPartOnly
			}
			checkedFree = free
		}
		// An entry that cannot start now is planned from the next change of the free room on.
		notBefore := f.nextChange()
		switch {
		case fetched > 0:
			notBefore = fetched
			if late := p.files.expectedAt.Add(1); c.fetchWake.IsZero() || late.Before(c.fetchWake) {
				c.fetchWake = late
			}
		case p.waitsForFiles():
			continue // beyond lateDepth
		// A deep entry gets room in the short part only, where only short entries could be delayed. None is ahead.
		case (deep || f.mayStart(p.neededRoom(), p.longestRun())) &&
			(!shortPartOnly || c.fitsShortPart(p.neededRoom(), f.spans[0].free)):
			// The check took the longest run. The plan takes the expected run, as for running attempts.
			f.addRunning(p.neededRoom(), expectedCost(p.expectedRun, c.averages.runTime, 1))
			c.gaps = append(c.gaps, p)
			continue
		}
		if deep && p.long { // not planned: from here on only the short part is filled
			continue
		}
		shortAhead = shortAhead || !p.long
		waited := now.Sub(p.queuedAt)
		start := waited + f.planEntry(p.neededRoom(), notBefore, c.placeCost(p))
		// If a short entry has waited longer than first planned, no entry may go before the short entry any more.
		// If a long entry has, entries in the short part may still go first, because they delay no long entry.
		switch {
		case fetched > 0:
		case p.plannedWait == 0:
			p.plannedWait = max(start, 1)
		case waited <= p.plannedWait:
		case !p.long:
			return false, shortPartOnly
		default:
			shortPartOnly = true
		}
	}
	return true, shortPartOnly
}

// fitsShortPart reports whether a short task fits into the short part, beside all short tasks that have room.
// Such a task never delays long tasks. The task must fit into the free room, too, because long tasks may use more
// than the open part.
func (c *Core) fitsShortPart(needs, free room) bool {
	if needs.open != (probe.Demand{}) || !needs.fitsIn(free) {
		return false
	}
	all := c.capacity.all.Sub(free.all)
	long := c.capacity.open.Sub(free.open)
	return all.Sub(long).Add(needs.all).Fits(c.capacity.all.Sub(c.alwaysOpen))
}

// seekGap reports whether ride-along tasks with these needs may find a gap behind all waiting places. It leaves the
// forecast for takeGap, which then decides on each task, until the step ends.
func (c *Core) seekGap(needs room, now time.Time) bool {
	if c.staged.Len() > 0 || len(c.askedAhead) > 0 || !needs.fitsIn(c.free) {
		return false
	}
	c.changes++ // so the next backfill plans the queue anew
	found, shortPartOnly := c.findGaps(now, &needs)
	c.shortPartOnly = shortPartOnly
	found = found && len(c.gaps) == 0 // waiting places fill their gaps first
	clear(c.gaps)
	return found
}

// takeGap reports whether a task can start now without a delay for any waiting place. If so, it takes the gap.
func (c *Core) takeGap(needs room, estimate time.Duration) bool {
	runTime := estimate
	if runTime <= 0 {
		runTime = horizon
	}
	if !c.forecast.mayStart(needs, runTime) || c.shortPartOnly && !c.fitsShortPart(needs, c.forecast.spans[0].free) {
		return false
	}
	c.forecast.addRunning(needs, runTime)
	return true
}
