package worker

import (
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// What a wait was for is told from who had the worker's CPU meanwhile: short tasks of each tenant, long tasks, and places for which it was
// held. Each is added up over time, so that a place has only to remember what the sums were when it came.

// taken is how much CPU somebody takes, and the sum of that over time.
type taken struct {
	cpu probe.Millicores
	sum uint64 // in millicores times nanoseconds; it may overflow, as only differences count
	at  time.Duration
}

// add notes that so much more, or less, is taken from now on.
func (t *taken) add(cpu probe.Millicores, now time.Duration) {
	t.sum, t.at = t.until(now), now
	t.cpu += cpu
}

func (t *taken) until(now time.Duration) uint64 { return t.sum + uint64(now-t.at)*uint64(t.cpu) }

// occupants are who takes CPU.
type occupants struct {
	short, long, held taken // tasks that run, and room that is held for places whose turn is on
}

// sums are what was taken until a moment.
type sums struct {
	at                     time.Duration
	own, short, long, held uint64
}

// occupy notes that an attempt takes so much CPU more, or less.
func (c *Core) occupy(a *attempt, cpu probe.Millicores) {
	if a.long {
		c.occupants.long.add(cpu, c.queue.now)
		return
	}
	c.occupants.short.add(cpu, c.queue.now)
	a.of.taken.add(cpu, c.queue.now)
}

// sums are those for a place of a tenant.
func (c *Core) sums(of *tenant) sums {
	now, o := c.queue.now, &c.occupants
	return sums{at: now, own: of.taken.until(now), short: o.short.until(now), long: o.long.until(now), held: o.held.until(now)}
}

// waits splits a place's wait since it was queued. Free room is of no use to a short task that waits, as it is too little: its wait
// was for those who had the rest.
func (c *Core) waits(p *place) probe.Waits {
	now := c.sums(p.of)
	waited := now.at - p.since.at
	if waited <= 0 || c.capacity.all.CPU <= 0 {
		return probe.Waits{}
	}
	own, short := float64(now.own-p.since.own), float64(now.short-p.since.short)
	long, held := float64(now.long-p.since.long), float64(now.held-p.since.held)
	all, free := short+long+held, 0.0
	if whole := float64(waited) * float64(c.capacity.all.CPU); p.long || all <= 0 {
		free = max(whole-all, 0)
		all += free
	}
	left := waited
	part := func(of float64) time.Duration {
		d := min(max(time.Duration(float64(waited)*of/all), 0), left)
		left -= d
		return d
	}
	w := probe.Waits{Own: part(min(own, short)), Long: part(long), Closed: part(free), Idle: part(held)}
	if short > own {
		w.Others, left = left, 0
	} else { // what rounding left
		w.Own += left
	}
	return w
}
