package worker

import (
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// The worker splits the wait of a task by the users of the CPU meanwhile: short tasks of each tenant, long tasks,
// and asking places. Each use of CPU is summed over time. So a place only remembers the sums at its entry.

// cpuUse is the CPU that some tasks use, and the sum over time.
type cpuUse struct {
	cpu probe.Millicores
	sum uint64 // millicores times nanoseconds; may overflow, as only differences count
	at  time.Duration
}

// addCPU notes that the tasks use more CPU from now on, or less if cpu is negative.
func (t *cpuUse) addCPU(cpu probe.Millicores, now time.Duration) {
	t.sum, t.at = t.sumUntil(now), now
	t.cpu += cpu
}

// sumUntil returns the sum at now.
func (t *cpuUse) sumUntil(now time.Duration) uint64 { return t.sum + uint64(now-t.at)*uint64(t.cpu) }

// occupants are the users of the worker's CPU.
type occupants struct {
	short, long, asking cpuUse // asking: room held for places whose turn is on
}

// sums are the sums of CPU use at a moment.
type sums struct {
	at                       time.Duration
	own, short, long, asking uint64
}

// addCPUUse notes that attempt a uses more CPU from now on, or less if cpu is negative.
func (c *Core) addCPUUse(a *attempt, cpu probe.Millicores) {
	if a.long {
		c.occupants.long.addCPU(cpu, c.queue.now)
		return
	}
	c.occupants.short.addCPU(cpu, c.queue.now)
	a.queueTenant.cpuUse.addCPU(cpu, c.queue.now)
}

// currentSums returns the sums that a place of tenant t sees now.
func (c *Core) currentSums(t *tenant) sums {
	now, o := c.queue.now, &c.occupants
	return sums{
		at: now, own: t.cpuUse.sumUntil(now),
		short: o.short.sumUntil(now), long: o.long.sumUntil(now), asking: o.asking.sumUntil(now),
	}
}

// splitWait splits the wait of p since it was queued. While a short task waits, the free room is too small for
// the task. So the users of CPU get the wait, and free CPU gets a part only if no CPU was used. While a long task
// waits, free CPU may be closed to long tasks, and gets a part always.
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
	} else { // the remainder of rounding
		w.Own += unsplit
	}
	return w
}
