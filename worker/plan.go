package worker

import (
	"iter"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	fairness "github.com/phoebe-sched/phoebe/probe/fair"
)

// gapDepth is the number of entries, from the head of the queue on, for which findGaps looks for gaps in all of the
// worker. For deeper entries, up to planDepth, findGaps looks in the short part alone, which costs less. The number is
// small because findGaps runs at each change while the head of the queue has no room. The number was chosen, and not
// measured.
const gapDepth = 64

// lateDepth is the number of entries with late files that findGaps skips without counting them for gapDepth or
// planDepth. A skipped entry costs little time, but the time of a call needs a bound. The number was chosen, and not
// measured.
const lateDepth = 4096

// The averages runTime and bindChance begin with these values, and fetchRate with initialFetchRate.
const (
	initialRun        = fairness.AssumedRun
	initialBindChance = 0.5 // frontends send about two reservations a task
)

// averages are the moving averages of what a core has seen. Forecasts build on them. A new run time counts for 1/16
// of the average, a new fetch for 1/8, and a new turn for 1/64, because a turn is only yes or no. The weights were
// chosen, and not measured.
type averages struct {
	runTime     time.Duration // of all tasks; assumed for a task without an expected run time
	longRunTime time.Duration // of a long task; 0: none came yet
	bindChance  float64       // chance that a reservation gets a task
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

// placeCost returns how long the place is expected to use its room. For a reservation, the time is multiplied by the
// chance that the reservation gets a task.
func (c *Core) placeCost(p *place) time.Duration {
	chance := 1.0
	if p.launch == nil {
		chance = c.averages.bindChance
	}
	return expectedCost(p.expectedRun, c.averages.runTime, chance)
}

// maxUse returns the longest time that the place may use room: the whole run, unlike placeCost. A reservation also uses
// room until its frontend answers. If the place has no estimate, maxUse returns horizon.
func (p *place) maxUse() time.Duration {
	switch {
	case p.estimate <= 0:
		return horizon
	case p.launch == nil:
		return p.estimate + p.link.answerTime
	}
	return p.estimate
}

// beginForecast returns a forecast without the queue: the caller adds the places of the queue. The forecast has the
// running attempts, and the places that hold a slot while their frontends answer. Staged attempts (bound before
// their slot is free) and places that asked ahead come next, because they get room before any place of the queue.
func (c *Core) beginForecast(now time.Time) *forecast {
	f, capacity := &c.forecast, c.capacity
	if c.isQuiet(now) { // before the next turn, reopenIfQuiet lets long tasks use the short part
		capacity.open = capacity.all
	}
	f.reset(capacity)
	for _, a := range c.runs {
		timeLeft := c.attemptTimeLeft(a, now)
		if a.stopState != unstoppable { // the attempt stops if a regular place needs the room
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

// Matrix returns the expected wait for room of a long task that comes at now, and the shares of tenants (shares.go).
// With a hundred entries in the queue, Matrix takes some 20 us, and never more than some 100 us. Matrix changes nothing
// that Step depends on. Like Step, Matrix is not for concurrent use.
func (c *Core) Matrix(now time.Time) probe.WaitMatrix { return c.matrixFor(nil, gossipedTenants, now) }

// matrixFor returns Matrix with the shares of at most the given number of tenants. If asker is not nil, the share of
// the asker's tenant is exact.
func (c *Core) matrixFor(asker *probe.Asker, tenants int, now time.Time) probe.WaitMatrix {
	f := c.beginForecast(now)
	rest, n := c.queue.backlog, 0
	c.beginShares(asker)
	for p := range c.queue.inOrder(now) {
		if n++; n > planDepth {
			break
		}
		c.noteTurnsBefore(p)
		rest.countPlace(p, -1)
		cost := c.placeCost(p)
		f.planEntry(p.neededRoom(), p.filesExpectedIn(now), cost)
		c.countPlanned(p, cost)
	}
	if c.queue.len() > planDepth {
		f.planRest(rest.expectedWork(c.averages.runTime, c.averages.bindChance))
	}
	var m probe.WaitMatrix
	f.writeMatrix(&m, c.alwaysOpen)
	c.writeShares(&m, tenants)
	return m
}

// expectedWaits returns the expected waits of l's tasks among the first planDepth places of the queue. The wait matrix
// cannot tell these waits, because the matrix also counts the places behind a task.
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

// expectedWait returns the expected wait of a place; 0: the place is not among the first planDepth places.
func (c *Core) expectedWait(wanted *place, now time.Time) time.Duration {
	for p, wait := range c.plannedWaits(now) {
		if p == wanted {
			return wait
		}
	}
	return 0
}

// plannedWaits yields the first planDepth places in the order of the queue, each with its expected wait.
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

// backfill begins the turns of entries behind the head of the queue, while the head has no room. An entry overtakes
// others only if no expected start of an entry ahead is delayed (conservative backfilling). backfill reports whether
// a turn began.
func (c *Core) backfill(now time.Time, acts []Action) ([]Action, bool) {
	if !c.filesLateAt.IsZero() && !now.Before(c.filesLateAt) { // files are late now, and other entries may go first
		c.filesLateAt = time.Time{}
		c.changes++
	}
	// Staged attempts and places that asked ahead get room first. If nothing changed since the last look, no gap is
	// left.
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

// findGaps plans the queue in order, and collects in c.gaps the entries that may start now. It sets c.filesLateAt: from
// that time on, the files of a planned entry are late, and backfill must look for gaps again.
//
// If extra is nil, the caller wants only c.gaps, and ignores both results. The plan ends once no entry of the queue
// fits into the free room.
//
// If extra is set, the caller asks about one more entry behind all others. That entry needs the room extra, and the
// plan ends once extra does not fit into the free room. The result found says whether the entry may find a gap. If so,
// shortPartOnly says whether the gap must be in the short part.
func (c *Core) findGaps(now time.Time, extra *room) (found, shortPartOnly bool) {
	f := c.beginForecast(now)
	c.gaps, c.filesLateAt = c.gaps[:0], time.Time{}
	checkedFree, n, skipped := room{}, 0, 0
	shortAhead := false // an entry ahead is short, and cannot start now
	for p := range c.queue.inOrder(now) {
		filesIn := p.filesExpectedIn(now)
		if skipped < lateDepth && filesIn == 0 && p.waitsForFiles() {
			skipped++
			continue // late files: the entry keeps its position, and gets no room in the plan
		}
		n++
		deep := n > gapDepth
		if n > planDepth || deep && shortAhead {
			return false, shortPartOnly
		}
		shortPartOnly = shortPartOnly || deep // a deep entry may start in the short part, where it delays no long entry
		if free := f.spans[0].free; free != checkedFree {
			if extra != nil && !extra.fitsIn(free) || extra == nil && !c.queue.fitsAny(free) {
				return false, shortPartOnly
			}
			checkedFree = free
		}
		// An entry that cannot start now can start at the next change of the free room, at the earliest.
		notBefore := f.nextChange()
		switch {
		case filesIn > 0:
			notBefore = filesIn
			if lateAt := p.files.expectedAt.Add(1); c.filesLateAt.IsZero() || lateAt.Before(c.filesLateAt) {
				c.filesLateAt = lateAt // at expectedAt itself, filesExpectedIn still waits
			}
		case p.waitsForFiles():
			continue // beyond lateDepth
		// A deep entry needs no look at the plan. It gets room in the short part only, so it delays no long entry. It
		// delays no short entry either: if a short entry waits ahead, the loop has ended.
		case (deep || f.mayStart(p.neededRoom(), p.maxUse())) &&
			(!shortPartOnly || c.fitsShortPart(p.neededRoom(), f.spans[0].free)):
			// The check used maxUse, to be safe. The plan uses the expected run, as for running attempts.
			f.addRunning(p.neededRoom(), expectedCost(p.expectedRun, c.averages.runTime, 1))
			c.gaps = append(c.gaps, p)
			continue
		}
		if deep && p.long { // not planned: from here on only the short part is filled
			continue
		}
		shortAhead = shortAhead || !p.long
		waited := now.Sub(p.queuedAt)
		plannedWait := waited + f.planEntry(p.neededRoom(), notBefore, c.placeCost(p))
		// If a short entry has waited longer than first planned, no entry behind it may start before it.
		// If a long entry has waited longer, entries behind may start in the short part only, where they delay no
		// long entry.
		switch {
		case filesIn > 0: // the wait for files says nothing about delays by other entries
		case p.firstPlannedWait == 0:
			p.firstPlannedWait = max(plannedWait, 1) // 0 would mean: never planned
		case waited <= p.firstPlannedWait:
		case !p.long:
			return false, shortPartOnly
		default:
			shortPartOnly = true
		}
	}
	return true, shortPartOnly
}

// fitsShortPart reports whether a task is short, and fits into the short part beside all short tasks that have room.
// Such a task never delays long tasks. The task must also fit into the free room, because long tasks may still use some
// of the short part.
func (c *Core) fitsShortPart(needs, free room) bool {
	if isLong := needs.open != (probe.Demand{}); isLong || !needs.fitsIn(free) {
		return false
	}
	used, usedByLong := c.capacity.all.Sub(free.all), c.capacity.open.Sub(free.open)
	shortPart := c.capacity.all.Sub(c.alwaysOpen)
	return used.Sub(usedByLong).Add(needs.all).Fits(shortPart)
}

// seekGap reports whether ride-along tasks with these needs may find a gap behind all waiting places. If so, the
// caller calls takeGap for each task in the same step, because takeGap uses the forecast that seekGap leaves.
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

// takeGap reports whether a task can start now without a delay for any waiting place. If so, takeGap takes the gap from
// the forecast.
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
