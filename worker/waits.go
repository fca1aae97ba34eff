package worker

import (
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// What a wait was for is told from who had the worker's CPU meanwhile: short tasks of each tenant, long tasks, and places for which it was
// held. Each is added up over time, so that a place has only to remember what the sums were when it came.

// cpuUse is how much CPU somebody takes, and the sum of that over time.
type cpuUse struct {
	cpu probe.Millicores
	sum uint64 // in millicores times nanoseconds; it may overflow, as only differences count
	at  time.Duration
}

// addCPU notes that so much more, or less, is taken from now on.
func (t *cpuUse) addCPU(cpu probe.Millicores, now time.Duration) {
	t.sum, t.at = t.sumUntil(now), now
	t.cpu += cpu
}

func (t *cpuUse) sumUntil(now time.Duration) uint64 { return t.sum + uint64(now-t.at)*uint64(t.cpu) }

// occupants are who takes CPU.
type occupants struct {
	short, long, asking cpuUse // tasks that run, and room that is held for places whose turn is on
}

// sums are what was taken until a moment.
type sums struct {
	at                       time.Duration
	own, short, long, asking uint64
}

// addCPUUse notes that an attempt takes so much CPU more, or less.
func (c *Core) addCPUUse(a *attempt, cpu probe.Millicores) {
	if a.long {
		c.occupants.long.addCPU(cpu, c.queue.now)
		return
	}
	c.occupants.short.addCPU(cpu, c.queue.now)
	a.queueTenant.cpuUse.addCPU(cpu, c.queue.now)
}

// currentSums are those for a place of a tenant.
func (c *Core) currentSums(t *tenant) sums {
	now, o := c.queue.now, &c.occupants
	return sums{at: now, own: t.cpuUse.sumUntil(now), short: o.short.sumUntil(now), long: o.long.sumUntil(now), asking: o.asking.sumUntil(now)}
}

// splitWait splits a place's wait since it was queued. Free room is of no use to a short task that waits, as it is too little: its wait
// was for those who had the rest.
func (c *Core) splitWait(p *place) probe.Waits {
	now := c.currentSums(p.queueTenant)
	waited := now.at - p.sumsWhenQueued.at
	if waited <= 0 || c.capacity.all.CPU <= 0 {
		return probe.Waits{}
	}
	own, short := float64(now.own-p.sumsWhenQueued.own), float64(now.short-p.sumsWhenQueued.short)
	long, idle := float64(now.long-p.sumsWhenQueued.long), float64(now.asking-p.sumsWhenQueued.asking)
	all, free := short+long+idle, 0.0
	if whole := float64(waited) * float64(c.capacity.all.CPU); p.long || all <= 0 {
		free = max(whole-all, 0)
		all += free
	}
	unsplit := waited
	part := func(cpu float64) time.Duration {
		d := min(max(time.Duration(float64(waited)*cpu/all), 0), unsplit)
		unsplit -= d
		return d
	}
	w := probe.Waits{Own: part(min(own, short)), Long: part(long), Closed: part(free), Idle: part(idle)}
	if short > own {
		w.Others, unsplit = unsplit, 0
	} else { // what rounding left
		w.Own += unsplit
	}
	return w
}
