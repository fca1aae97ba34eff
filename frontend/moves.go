package frontend

import (
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// When a worker falls idle, or a task waits longer than expected beside an idle worker, long tasks in the queues of
// other workers may move to the idle worker. Apollo (section 3.4) schedules a task again if the wait is too long.
// First the idle worker tells its room, in a message of its own or because the frontend asks. Then the workers of the
// queues give tasks back, and the frontend places these tasks anew. Spare tasks stay in their queues, because workers
// report no waits of spare tasks.
//
// Frontends do not tell each other of moves. So each frontend waits for a random time before it asks, uses only its
// share of the room, and moves a task only for a large gain. The numbers were chosen.

const (
	// minMoveGain is the least gain of a move: a move takes four messages and two round trips.
	minMoveGain = 10 * time.Millisecond
	// minGainOfWait is the least gain as a share of the rest of the wait in the queue. The rest of the wait is an
	// estimate, and another frontend may take the room first.
	minGainOfWait = 0.5
	// maxMovesLooked bounds the queued tasks looked at in a step, and so the moves of a step. Tenants take turns, and
	// of a tenant the most urgent tasks come first.
	maxMovesLooked = 64
	// movePause is the time without moves to a worker after a look in vain. It is the time between two reports of the
	// waits in queues.
	movePause = time.Second
	// moveSpread is the length, in round trips for each other frontend, of the time within which frontends ask an idle
	// worker. From the question to the arrival of the task it takes two and a half round trips.
	moveSpread = 5
)

// planMoveAsk plans to ask w for its room, if w is believed to have room and tasks wait in other queues.
func (c *planner) planMoveAsk(w *worker, now time.Time) {
	if !c.mayMoveTo(w, now) || !w.moveAskAt.IsZero() {
		return
	}
	spread := moveSpread * c.view.Trip() * time.Duration(max(c.otherFrontends, 1))
	c.setMoveAsk(w, now.Add(time.Duration(c.rand.Int64N(int64(spread)+1))))
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

// mayMoveTo reports whether queued tasks may move to w: w is believed to have room, and no other task is on the way.
func (c *planner) mayMoveTo(w *worker, now time.Time) bool {
	return c.movers.Len() > 0 && w.Up() && w.Idle() && w.comingMoves == 0 && !now.Before(w.moveNotUntil)
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

// moveToRoom moves queued tasks to w, which has just told its room. Tasks that wait at the frontend go first.
func (c *planner) moveToRoom(w *worker, now time.Time, acts []Action) []Action {
	if !c.mayMoveTo(w, now) {
		return acts
	}
	row := c.view.Fleet().Get(int32(w.Key))
	if row == nil || row.Matrix == nil || !row.Heard.Equal(now) || c.batchQueue.Len() > 0 {
		c.planMoveAsk(w, now)
		return acts
	}
	c.setMoveAsk(w, time.Time{})
	var taken probe.Demand
	var chosen []mover
	most := max(w.Room(probe.Slot)/(c.otherFrontends+1), 1)
	c.movers.InOrder(maxMovesLooked, func(x mover) bool {
		if c.gainsByMove(x.longTask, w, taken, now) {
			chosen = append(chosen, x)
			taken = taken.Add(x.spec.Demand)
		}
		return len(chosen) < most
	})
	if len(chosen) == 0 {
		w.noteVainMove(now.Add(movePause))
	}
	for _, x := range chosen {
		a := x.task.attempt
		acts = c.askBack(a, w, a.expectedStart.Sub(now), now, acts)
	}
	return acts
}

// gainsByMove reports whether a move of the queued task x to w pays: x would start at once there, beside other tasks
// with the demand taken, and would end sooner by minMoveGain at least.
//
// A tenant with tasks beyond its tokens is left out: the tokens of the task would go to another task meanwhile.
func (c *planner) gainsByMove(x *longTask, w *worker, taken probe.Demand, now time.Time) bool {
	t := x.task
	a, j := t.attempt, t.group.job
	if a.w == w || w.Worker == t.shunned || t.copy != nil || j.paused || j.tenant.debts.Len() > 0 ||
		!t.group.Set.Contains(w.Worker) {
		return false
	}
	c.updateWork(x)
	beside := x.spec
	if beside.Demand = beside.Demand.Add(taken); c.view.Fleet().MustWait(&beside, int32(w.Key)) {
		return false
	}
	wait, trips := a.expectedStart.Sub(now), 2*c.view.Trip()
	if wait < trips+minMoveGain {
		return false
	}
	_, runHere := c.view.Fleet().WorkAt(&x.spec, int32(a.w.Key))
	fetch, runThere := c.view.Fleet().WorkAt(&x.spec, int32(w.Key))
	here := wait + scaleTime(paceOf(a.w.Worker), runHere)
	there := trips + fetch + scaleTime(paceOf(w.Worker), runThere)
	return here-there >= max(minMoveGain, scaleTime(minGainOfWait, wait))
}
