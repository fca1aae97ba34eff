package frontend

import (
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// When a worker falls idle, or a task waits longer than expected beside an idle worker, long tasks in the queues of
// other workers may move to the idle worker. Apollo (section 3.4) schedules a task again if the wait is too long.
// First the idle worker tells its room, in a message of its own or because the frontend asks. Then the workers of the
// queues give tasks back, and the frontend places these tasks anew. Spare tasks stay in their queues, because workers
// report no waits of spare tasks, and the frontend knows only its own spare tasks.
//
// Frontends do not tell each other of moves. So each frontend waits for a random time before it asks, uses only its
// share of the room, and moves a task only for a large gain. The numbers were chosen.

const (
	// minMoveGain is the least gain of a move: a move takes four messages and two round trips.
	minMoveGain = 10 * time.Millisecond
	// minGainOfWait is the least gain as a share of the rest of the wait in the queue. The rest of the wait is an
	// estimate, and another frontend may take the room first.
	minGainOfWait = 0.5
	// maxMovesLooked bounds the queued tasks looked at for a worker with room, and so the moves of a step.
	maxMovesLooked = 64
	// movePause is the time until the next look at a worker after a look in vain, and until the next question after a
	// look put off. It is the time between two reports of the waits in queues.
	movePause = time.Second
	// moveLookPause is the mean time from a look in vain to the next look for an idle worker, for each task looked at.
	// A look at a task takes a microsecond or two. While thousands of workers are idle, and no task gains at any of the
	// workers, looks take some hundredth of the time. The hundredth was chosen.
	moveLookPause = 100 * time.Microsecond
	// maxLooksAhead bounds the time by which looks in vain run ahead of their mean. A frontend pings all workers at
	// once, and idle workers answer at once, often in the same order. If a look in vain put off the next look, the
	// workers that answer late would get no look. The time is movePause, and suffices for a hundred idle workers.
	maxLooksAhead = movePause
	// moveSpread is the length, in round trips for each other frontend, of the time within which frontends ask an idle
	// worker. From the question to the arrival of the task it takes two and a half round trips.
	moveSpread = 5
)

// planMoveAsk plans to ask w for its room, if w is believed to have room and a task in another queue would gain there.
func (c *planner) planMoveAsk(w *worker, now time.Time) {
	if !c.mayMoveTo(w, now) || !w.moveAskAt.IsZero() || c.looksUntil.Sub(now) > maxLooksAhead {
		return
	}
	gains := func(x *longTask) bool { return c.gainsByMove(x, w, now) }
	if len(c.findMovers(1, gains)) == 0 {
		c.noteVainLook(w, now)
		return
	}
	c.setMoveAsk(w, now.Add(c.drawMoveDelay()))
}

// noteVainLook notes that none of the movers looked at gains at w.
func (c *planner) noteVainLook(w *worker, now time.Time) {
	w.noteVainMove(now.Add(movePause))
	c.looksUntil = laterOf(c.looksUntil, now).Add(time.Duration(min(c.movers.Len(), maxMovesLooked)) * moveLookPause)
}

// drawMoveDelay returns a random time within which other frontends may ask the same worker.
func (c *planner) drawMoveDelay() time.Duration {
	spread := moveSpread * c.view.Trip() * time.Duration(max(c.quotas.Frontends()-1, 1))
	return time.Duration(c.rand.Int64N(int64(spread) + 1))
}

// seekRoom plans to ask an idle worker for its room, if w reports a later start of a task than expected. Another
// frontend may have chosen w at the same time.
func (c *planner) seekRoom(w *worker, m *probe.Queued, now time.Time) {
	a := w.enqueued[m.First]
	if a == nil || !a.task.isSlipping() || c.movers.Len() == 0 {
		return
	}
	if to := c.idleWorkerFor(a.task); to != nil {
		c.planMoveAsk(c.workerOf(to), now)
	}
}

// mayMoveTo reports whether queued tasks may move to w: w is in the fleet, may run some of the tasks, and is believed
// to have room, and no other task is on the way.
func (c *planner) mayMoveTo(w *worker, now time.Time) bool {
	return c.movers.Len() > 0 && w.Up() && w.Idle() && w.comingMoves == 0 && !now.Before(w.moveNotUntil) &&
		c.mayRunMovers(w) && c.view.Fleet().Get(int32(w.Key)) != nil
}

// askForMoves asks w for its room, if the time has come.
func (c *planner) askForMoves(w *worker, now time.Time, acts []Action) []Action {
	if w.moveAskAt.IsZero() || now.Before(w.moveAskAt) {
		return acts
	}
	c.setMoveAsk(w, time.Time{})
	if c.mayMoveTo(w, now) && w.mayAskMatrix(now) {
		acts = c.askMatrix(w, nil, now, acts)
	}
	return acts
}

// moveToRoom moves queued tasks to w, which has just told its room. Tasks that wait at the frontend go first: the look
// is put off, and w is asked again after movePause, unless w tells its room sooner.
func (c *planner) moveToRoom(w *worker, now time.Time, acts []Action) []Action {
	if !c.mayMoveTo(w, now) {
		return acts
	}
	if row := c.view.Fleet().Get(int32(w.Key)); row.Matrix == nil || !row.Heard.Equal(now) {
		c.planMoveAsk(w, now)
		return acts
	}
	if c.batchQueue.Len() > 0 {
		c.setMoveAsk(w, now.Add(movePause+c.drawMoveDelay()))
		return acts
	}
	c.setMoveAsk(w, time.Time{})
	var taken probe.Demand
	most := max(w.Room(probe.Slot)/c.quotas.Frontends(), 1)
	chosen := c.findMovers(most, func(x *longTask) bool {
		if !c.gainsByMove(x, w, now) || c.waitsBeside(x, w, taken) {
			return false
		}
		taken = taken.Add(x.spec.Demand)
		return true
	})
	if len(chosen) == 0 {
		c.noteVainLook(w, now)
	}
	for _, x := range chosen {
		a := x.task.attempt
		acts = c.askBack(a, w, a.expectedStart.Sub(now), now, acts)
	}
	return acts
}

// findMovers returns the first movers that gain, at most the given number, among the first maxMovesLooked movers. The
// movers stay in their heap.
//
// If the look finds too few and more movers follow, the movers passed over go to the next round, behind all movers of
// this round. Otherwise tasks that cannot move to the worker would hide all others. New movers join the latest round.
// So once movers of a round were passed over, no mover joins the round, and later looks reach all its movers.
func (c *planner) findMovers(most int, gains func(*longTask) bool) []mover {
	var found, passed []mover
	for c.movers.Len() > 0 && len(found) < most && len(found)+len(passed) < maxMovesLooked {
		x := c.movers.Pop()
		if gains(x.longTask) {
			found = append(found, x)
		} else {
			passed = append(passed, x)
		}
	}
	c.putBackMovers(found, passed, len(found) < most && c.movers.Len() > 0)
	return found
}

// gainsByMove reports whether a move of the queued task x to w pays: if x starts there at once, x ends sooner by
// minMoveGain at least.
//
// A tenant with tasks beyond its tokens is left out: the tokens of the task would go to another task meanwhile.
func (c *planner) gainsByMove(x *longTask, w *worker, now time.Time) bool {
	t := x.task
	a, j := t.attempt, t.group.job
	if a.w == w || w.Worker == t.shunned || t.copy != nil || j.paused || j.tenant.debts.Len() > 0 ||
		!t.group.Set.Contains(w.Worker) {
		return false
	}
	wait, trips := a.expectedStart.Sub(now), 2*c.view.Trip()
	if wait < trips+minMoveGain {
		return false
	}
	c.updateWork(x)
	_, runHere := c.view.Fleet().WorkAt(&x.spec, int32(a.w.Key))
	fetch, runThere := c.view.Fleet().WorkAt(&x.spec, int32(w.Key))
	here := wait + scaleTime(paceOf(a.w.Worker), runHere)
	there := trips + fetch + scaleTime(paceOf(w.Worker), runThere)
	return here-there >= max(minMoveGain, scaleTime(minGainOfWait, wait))
}

// waitsBeside reports whether x would have to wait at w, beside other tasks with the demand taken.
func (c *planner) waitsBeside(x *longTask, w *worker, taken probe.Demand) bool {
	beside := x.spec
	beside.Demand = beside.Demand.Add(taken)
	return c.view.Fleet().MustWait(&beside, int32(w.Key))
}
