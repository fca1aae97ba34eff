package worker

import (
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// A part of the worker, the short part, can be closed to long tasks. Otherwise long tasks could take all slots, and
// short tasks would wait for the end of a long task. The part closes when a short task has to wait for long tasks.
// The part opens when no short task has come for the run time of a long task. A short task that comes later may have
// to wait, but slots kept idle for short tasks would cost more.

// noteShortArrival notes the arrival of a short task with these needs. If the task has no room now, and long tasks use
// room, the short part closes.
func (c *Core) noteShortArrival(needs room, now time.Time) {
	c.lastShortAt = now
	if !needs.fitsIn(c.free) && c.free.open != c.capacity.open {
		c.setOpenPart(c.alwaysOpen)
	}
}

// reopenIfQuiet opens all of the worker to long tasks if no short task waits or is expected.
func (c *Core) reopenIfQuiet(now time.Time) {
	if c.capacity.open != c.capacity.all && c.isQuiet(now) {
		c.setOpenPart(c.capacity.all)
	}
}

// isQuiet reports whether no short task waits, and none has come for the run time of a long task.
func (c *Core) isQuiet(now time.Time) bool {
	return c.averages.longRunTime > 0 && !now.Before(c.quietAt()) && !c.hasShortWaiting()
}

// hasShortWaiting reports whether a short task waits, in the queue or before the queue.
func (c *Core) hasShortWaiting() bool {
	return c.staged.Len()+len(c.askedAhead) > 0 || c.queue.hasShort()
}

// quietAt returns when the average run time of a long task will have passed since the last short task came.
func (c *Core) quietAt() time.Time { return c.lastShortAt.Add(c.averages.longRunTime) }

// setOpenPart sets the part of the worker that long tasks may use. Long tasks with more room keep the room.
func (c *Core) setOpenPart(part probe.Demand) {
	if part == c.capacity.open {
		return
	}
	c.free.open = c.free.open.Add(part.Sub(c.capacity.open))
	c.capacity.open = part
	c.changes++
}
