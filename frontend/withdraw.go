package frontend

import (
	"fmt"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// A long task in the queue of a worker may move to another worker that has room (planner.moveToRoom). First the
// frontend asks the worker of the queue to give the task back. If the task still waits, the worker withdraws it and
// answers, and the task is placed anew. If the task has started, it stays. So a task is never at two workers because of
// a move.

// maxMoves bounds the moves of a task. With a bound, two frontends cannot push tasks to and fro for long.
const maxMoves = 2

// noteExpectedStarts notes when w expects to start the attempts in its queue. Attempts known to run are
// skipped.
func (c *ledger) noteExpectedStarts(w *worker, list []probe.Expect, now time.Time) {
	for i := range list {
		if a := w.attempts[list[i].Attempt]; a != nil && !a.hasStarted {
			c.noteExpectedStart(a, now.Add(list[i].Wait))
		}
	}
}

// noteExpectedStart notes when the worker of a expects to start a. From now on the task may move, with three
// exceptions: the task has moved maxMoves times, or is asked back already, or the worker has an older version and would
// not answer.
func (c *ledger) noteExpectedStart(a *attempt, at time.Time) {
	a.expectedStart = at
	t, x := a.task, a.task.long
	switch {
	case x == nil || a != t.attempt:
	case x.movePos > 0:
		c.movers.Fix(mover{x})
	case t.state == enqueued && a.move == nil && x.moves < maxMoves && a.w.Has(probe.Withdrawing):
		x.moveRound = c.latestRound
		c.movers.Push(mover{x})
		c.moversOf[t.group.Set]++
	}
}

// removeMover takes x out of the movers, if x is a mover.
func (c *ledger) removeMover(x *longTask) {
	if x.movePos == 0 {
		return
	}
	c.movers.Remove(mover{x})
	set := x.task.group.Set
	if c.moversOf[set]--; c.moversOf[set] == 0 {
		delete(c.moversOf, set)
	}
}

// mayRunMovers reports whether w may run some of the movers. If the movers have more than maxLooked sets of workers,
// mayRunMovers does not look.
func (c *ledger) mayRunMovers(w *worker) bool {
	if len(c.moversOf) > maxLooked {
		return true
	}
	for set := range c.moversOf {
		if set.Contains(w.Worker) {
			return true
		}
	}
	return false
}

// askBack asks the worker of a queued attempt to give the task back, because the worker to has room. The expected rest
// of the wait in the queue is wait.
func (c *ledger) askBack(a *attempt, to *worker, wait time.Duration, now time.Time, acts []Action) []Action {
	c.removeMover(a.task.long)
	a.move = &move{from: a.w, to: to, wait: wait, askedAt: now}
	to.comingMoves++
	return append(acts, Send{Worker: a.w.Key, Msg: probe.Cancel{First: a.res, Count: 1, Answer: true}})
}

// putBackMovers puts the movers of a look back: those found in their round, and those passed over in the next round if
// nextRound is set.
func (c *ledger) putBackMovers(found, passed []mover, nextRound bool) {
	for _, x := range found {
		c.movers.Push(x)
	}
	for _, x := range passed {
		if nextRound {
			x.moveRound++
			c.latestRound = max(c.latestRound, x.moveRound)
		}
		c.movers.Push(x)
	}
}

// endMove notes that the task of a does not wait in a queue any more, and cannot move.
func (c *ledger) endMove(a *attempt) {
	if x := a.task.long; x != nil && a == a.task.attempt {
		c.removeMover(x)
	}
	if a.move != nil {
		a.move.to.comingMoves--
		a.move = nil
	}
}

// lastSentAt returns when the frontend last sent a message about a.
func (a *attempt) lastSentAt() time.Time {
	if a.move != nil {
		return a.move.askedAt
	}
	return a.sentAt
}

// explain tells people where a task was before its move.
func (m *move) explain() string {
	return fmt.Sprintf("; the task moved from %s, where it would have waited for %.3fs more",
		m.from.Welcome().Worker, m.wait.Seconds())
}

// setMoveAsk sets the time to ask w for its room; zero: w is not asked.
func (c *ledger) setMoveAsk(w *worker, at time.Time) {
	w.moveAskAt = at
	c.setTimer(w)
}

// noteVainMove notes that no task moves to w before a time.
func (w *worker) noteVainMove(until time.Time) { w.moveNotUntil = until }
