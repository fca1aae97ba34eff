package worker

import (
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// A frontend may take results more slowly than the worker makes them. The worker gives a connection about sendWindow
// of results at a time, and holds the other results back, in order of their ends. So a Pong or a Ready waits behind a
// few results only, and a held result takes no memory but its own. If more than MaxUnsent wait for a frontend, the
// worker starts no task of this frontend until half of MaxUnsent has left.

// sendWindow bounds the bytes of results in a connection, besides a single larger result. The window must outlast the
// time until the shell reports Sent: a millisecond of a link of 1 GiB/s.
const sendWindow = 1 << 20

// unsent are the results of a link that have not left yet. The sizes are those of attempt.retainedSize.
type unsent struct {
	held      list.List[*attempt] // ended, and not sent yet; in order of the ends
	heldBytes int
	sentBytes int   // of results sent, and not known to have left
	unmarked  int   // of the results sent since the last message with Report
	reports   []int // bytes of results that leave with each message with Report, oldest first
	sentAt    time.Time
	isFull    bool // more than MaxUnsent wait: no task starts
}

// total returns the bytes that wait.
func (u *unsent) total() int { return u.heldBytes + u.sentBytes }

// window returns the bytes of results that a connection gets at a time.
func (c *Core) window() int { return min(sendWindow, c.cfg.MaxUnsent) }

// mustHold reports whether a result of this size has to wait. Without a Report under way no Sent would follow, and the
// result would wait for ever.
func (c *Core) mustHold(u *unsent, size int) bool {
	return len(u.reports) > 0 && u.sentBytes+size > c.window()
}

// sendResult sends the result of an attempt that has ended to the owner, or holds the result back.
func (c *Core) sendResult(a *attempt, acts []Action) []Action {
	if l := a.owner; a.isHeldBack {
		return acts
	} else if l.held.Len() > 0 || c.mustHold(&l.unsent, a.retainedSize()) {
		c.holdResult(a)
		return acts
	}
	return c.sendFinished(a, acts)
}

// sendFinished sends a result now.
func (c *Core) sendFinished(a *attempt, acts []Action) []Action {
	l, size := a.owner, a.retainedSize()
	l.sentBytes += size
	l.unmarked += size
	report := l.unmarked >= c.window()/2
	if report {
		l.reports = append(l.reports, l.unmarked)
		l.unmarked = 0
	}
	c.updateFull(l)
	return append(acts, c.lent.sends.Lend(Send{l.id, c.finishedMsg(a), report}))
}

// holdResult moves a kept result to the held results of its owner.
func (c *Core) holdResult(a *attempt) {
	l := a.owner
	c.retained.Remove(a)
	a.isHeldBack = true
	l.held.Push(a)
	l.heldBytes += a.retainedSize()
	c.heldBytes += a.retainedSize()
	c.updateFull(l)
}

// unholdResult takes a result off the held results of its owner. The caller puts the result elsewhere.
func (c *Core) unholdResult(a *attempt) {
	l := a.owner
	l.held.Remove(a)
	a.isHeldBack = false
	l.heldBytes -= a.retainedSize()
	c.heldBytes -= a.retainedSize()
	c.updateFull(l)
}

// releaseHeld takes in that the results up to the oldest Report have left, and sends held results.
func (c *Core) releaseHeld(l *link, now time.Time, acts []Action) []Action {
	if len(l.reports) == 0 {
		return acts
	}
	l.sentBytes -= l.reports[0]
	l.reports = l.reports[1:]
	l.sentAt = now
	for a := l.held.First(); a != nil && !c.mustHold(&l.unsent, a.retainedSize()); a = l.held.First() {
		c.unholdResult(a)
		c.retained.Push(a)
		acts = c.sendFinished(a, acts)
	}
	c.updateFull(l)
	return acts
}

// updateFull parks the places of a link if too many results wait for the link, and unparks the places once half has
// left. In between nothing changes: otherwise each result would move all places.
func (c *Core) updateFull(l *link) {
	switch total := l.total(); {
	case !l.isFull && total > c.cfg.MaxUnsent:
		l.isFull = true
		c.fullLinks++
		c.parkPlaces(l)
	case l.isFull && total <= c.cfg.MaxUnsent/2:
		l.isFull = false
		c.fullLinks--
		c.unparkPlaces(l)
	}
}

// underWayFor is the time that a result may take from the worker's kernel to the frontend.
const underWayFor = 5 * time.Second

// mayBeUnderWay reports whether a result that l misses may still come. If so, the worker does not send the result
// again: on a slow link, repeated results would keep new results out.
func (l *link) mayBeUnderWay(now time.Time) bool {
	return len(l.reports) > 0 || now.Sub(l.sentAt) < underWayFor
}

// Unsent returns the bytes of results that are held back, and the number of frontends whose tasks do not start
// because too many results wait for the frontend.
func (c *Core) Unsent() (heldBytes, fullLinks int) { return c.heldBytes, c.fullLinks }

// answerHeld tells the claimant of a held result that the attempt is here. Without an answer, the claimant would take
// the attempt for lost.
func (c *Core) answerHeld(a *attempt, acts []Action) []Action {
	return c.sendMsg(a.owner, probe.Started{
		Attempt: a.id, Job: a.job, Task: a.task, Ran: a.end.run + c.queue.now - a.endedAt, Load: c.Load(),
	}, acts)
}
