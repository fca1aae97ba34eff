package worker

import (
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// A part of a worker is closed to long tasks, so that short ones do not wait for them alone: from when one had to, until
// none has come for as long as a long task takes. Then the next one had better wait than have slots stand idle for it.

// noteShort notes that a short task of these needs comes.
func (c *Core) noteShort(needs room, now time.Time) {
	c.lastShortAt = now
	if !needs.fitsIn(c.free) && c.free.open != c.capacity.open {
		c.setOpenPart(c.alwaysOpen)
	}
}

// reopenIfQuiet opens all of the worker to long tasks where no short one waits, or is to be expected.
func (c *Core) reopenIfQuiet(now time.Time) {
	if c.capacity.open != c.capacity.all && c.isQuiet(now) {
		c.setOpenPart(c.capacity.all)
	}
}

func (c *Core) isQuiet(now time.Time) bool {
	return c.averages.longRunTime > 0 && !now.Before(c.quietAt()) && !c.hasShortWaiting()
}

func (c *Core) hasShortWaiting() bool {
	return c.staged.Len()+len(c.askedAhead) > 0 || c.queue.hasShort()
}

// quietAt is when no short task will have come for as long as a long one takes.
func (c *Core) quietAt() time.Time { return c.lastShortAt.Add(c.averages.longRunTime) }

// setOpenPart lets long tasks have so much of the worker. What they have already they keep, be it more.
func (c *Core) setOpenPart(part probe.Demand) {
	if part == c.capacity.open {
		return
	}
	c.free.open = c.free.open.Add(part.Sub(c.capacity.open))
	c.capacity.open = part
	c.changes++
}
