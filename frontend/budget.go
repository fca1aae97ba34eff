package frontend

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/probe"
)

// levelOf is the level of a task in each state.
var levelOf = [...]level{
	blocked: levelIdle, resting: levelIdle, done: levelIdle, held: levelWanted, claiming: levelWanted,
	waiting: levelAllowed, matching: levelAllowed, probing: levelAllowed,
	riding: levelAtWorker, enqueued: levelAtWorker, bound: levelAtWorker, adrift: levelAtWorker,
}

// tokenCost returns what a task takes of the tenant's tokens and maximum, in thousandths of slots: at least 1.
func (t *task) tokenCost() int64 { return max(int64(t.spec.Demand.CPU), 1) }

// tokenCost returns the cost of each task of the group, in thousandths of slots.
func (g *group) tokenCost() int64 { return max(int64(g.Demand.CPU), 1) }

// addTask counts a new task.
func (u *usage) addTask(t *task) {
	u.largestTask = max(u.largestTask, t.tokenCost())
	u.moveTask(t, levelIdle, levelOf[t.state])
}

// moveTask counts a task's change from a level to another. It also updates t.spare: a task of a spare job is spare
// while at a worker, and a task that leaves a worker is no longer spare.
func (u *usage) moveTask(t *task, from, to level) {
	n := t.tokenCost()
	for l := from; l > to; l-- {
		u.atLevel[l] -= n
	}
	for l := from + 1; l <= to; l++ {
		u.atLevel[l] += n
	}
	if t.group.class != probe.Regular && (from < levelWanted) != (to < levelWanted) {
		if to < levelWanted {
			u.spareWanted -= n
		} else {
			u.spareWanted += n
		}
	}
	switch {
	case to == levelAtWorker:
		if t.spare = t.spare || t.group.class != probe.Regular; t.spare {
			u.spareUse += n
		}
	case from == levelAtWorker && t.spare:
		t.spare = false
		u.spareUse -= n
	}
}

// fitsMaximum reports whether the tenant's maximum lets t run now. Tasks from levelAllowed on count against it.
//
// While no task counts against the maximum, t may run in two more cases. First, t is larger than the tenant's present
// maximum, because t was accepted under earlier terms. Second, the tenant has waited for more Others events than
// c.patience: this frontend's part of the maximum may stay too small for any task. The frontends together may then
// exceed the maximum, by one task at each frontend. Tokens never hold a task: a task beyond the tokens is spare.
func (c *jobs) fitsMaximum(t *task) bool {
	tenant, n := t.group.job.tenant, t.tokenCost()
	if tenant.used.atLevel[levelAllowed] == 0 && tenant.starvedRounds > c.patience {
		return true
	}
	quota := c.quotas.QuotaOf(tenant.name)
	return tenant.used.atLevel[levelAllowed]+n <= quota.All ||
		n > c.terms.TaskMaximum(tenant.name) && tenant.used.atLevel[levelAllowed] == 0
}

// mustHold reports whether t, which could run from now on, has to wait because the tenant's maximum is used. If the
// tenant has a maximum, blocked and claiming tasks are held in any case: a stage, or the last answer to a claim, frees
// many tasks at once. Later in the same step releaseHeld lets the most urgent tasks go.
func (c *jobs) mustHold(t *task) bool {
	return levelOf[t.state] < levelAllowed &&
		(!c.fitsMaximum(t) || t.group.job.tenant.held.Len() > 0 ||
			(t.state == blocked || t.state == claiming) && c.hasMaximum(t.group.job))
}

// hasMaximum reports whether the tenant of j has a maximum.
func (c *jobs) hasMaximum(j *job) bool {
	return c.quotas.QuotaOf(j.tenant.name).All != tenants.Unlimited
}

// coverByTokens notes whether the tenant's tokens cover t, which estimation binds to a worker now. If not, and the
// job names no class, the task is spare. The result explains the verdict to people. If the tenant has no tokens, or
// the class of the task needs no tokens, the result is "".
func (c *jobs) coverByTokens(t *task) string {
	tenant := t.group.job.tenant
	quota := c.quotas.QuotaOf(tenant.name).Regular
	if quota == tenants.Unlimited || t.group.class != probe.Regular {
		return ""
	}
	use, verdict := tenant.used.coveredUse(), "covered"
	if !c.hasTokensFor(tenant, t.tokenCost()) {
		verdict = "not covered"
		t.spare = t.group.job.Class == Auto
	}
	return fmt.Sprintf("%s by tokens: tenant %q used %s of its %s slots at this frontend",
		verdict, tenant.name, formatSlots(use), formatSlots(quota))
}

// isRegularNext reports whether the next task of g, bound early, would be regular: the tenant's tokens cover the task.
// Other tasks come after all regular tasks at a worker.
func (c *jobs) isRegularNext(g *group) bool { return c.isRegularBeside(g, 0) }

// isRegularBeside is isRegularNext beside other tasks of the tenant that are about to be bound. The parameter planned
// sums up their costs, in thousandths of slots.
func (c *jobs) isRegularBeside(g *group, planned int64) bool {
	return g.class == probe.Regular && (g.job.Class != Auto || c.hasTokensFor(g.job.tenant, planned+g.tokenCost()))
}

// spareLoad is the load of a worker by the spare tasks of this frontend that estimation has placed there.
type spareLoad struct {
	free     probe.Demand  // the room that regular tasks and these spare tasks leave; may be negative
	timeLeft time.Duration // the rest of their runs, if they share the CPU of the worker
}

// spareLoadAt returns the spareLoad of w. The matrix of w counts a running spare task as free room, and no spare task
// of the queue. Spare tasks of other frontends are not known.
func (w *worker) spareLoadAt(now time.Time) spareLoad {
	free, work := w.Load().Free, int64(0) // work in millicores times milliseconds
	for _, a := range w.attempts {
		isCounted := a.class == probe.Regular || a.class == probe.Yielded && a.hasStarted // by the matrix
		if x := a.task.long; x != nil && !isCounted {
			timeLeft := x.run
			if !a.runsSince.IsZero() {
				timeLeft = max(timeLeft-now.Sub(a.runsSince), 0)
			}
			free, work = free.Sub(x.spec.Demand), work+min(timeLeft, maxSpareLeft).Milliseconds()*x.task.tokenCost()
		}
	}
	return spareLoad{free, time.Duration(work/max(int64(w.Welcome().Capacity.CPU), 1)) * time.Millisecond}
}

// waitFor returns how long a further spare task of demand d waits for the spare tasks. If there is no room, the task
// waits until the spare tasks have ended.
func (l *spareLoad) waitFor(d probe.Demand) time.Duration {
	if d.Fits(l.free) {
		return 0
	}
	return l.timeLeft
}

// maxSpareLeft bounds the time that a spare task counts in spareLoadAt, so that the sum does not overflow.
const maxSpareLeft = 24 * time.Hour

// hasTokensFor reports whether the tenant's free tokens would now cover a further task of this cost at a worker.
func (c *jobs) hasTokensFor(tenant *tenant, cost int64) bool {
	return tenant.used.coveredUse()+cost <= c.quotas.QuotaOf(tenant.name).Regular
}

// coveredUse returns the use by tasks at workers that are not spare.
func (u *usage) coveredUse() int64 { return u.atLevel[levelAtWorker] - u.spareUse }

// canCoverNext reports whether the tenant's free tokens would now cover the first of the debts.
func (c *jobs) canCoverNext(tenant *tenant) bool {
	return tenant.debts.Len() > 0 && c.hasTokensFor(tenant, tenant.debts.Min().task.tokenCost())
}

// wouldOverdraw reports whether another task of g must not be placed by estimation yet, because the tenant's queued
// debt would grow too large: with the task and the planned tasks, beyond the free tokens plus twice the quota of
// tokens. The debt is bounded because a task beyond tokens may wait long at one worker, while another worker gets
// room. If the tenant has no queued debt, and nothing planned, a task may always go. The parameter planned sums up
// the tenant's tasks picked for the batch, in thousandths of slots.
func (c *jobs) wouldOverdraw(g *group, planned int64) bool {
	tenant := g.job.tenant
	quota := c.quotas.QuotaOf(tenant.name).Regular
	if quota == tenants.Unlimited || g.class != probe.Regular || g.job.Class != Auto || tenant.queuedDebt+planned == 0 {
		return false
	}
	return tenant.queuedDebt+planned+g.tokenCost() > max(quota-tenant.used.coveredUse(), 0)+2*quota
}

// whyHeld explains to people why t is held.
func (c *jobs) whyHeld(t *task) string {
	tenant := t.group.job.tenant
	return fmt.Sprintf("held: tenant %q uses %s of its maximum of %s slots at this frontend",
		tenant.name, formatSlots(tenant.used.atLevel[levelAllowed]), formatSlots(c.quotas.QuotaOf(tenant.name).All))
}

// explainWeights explains to people what a tenant's tokens mean to sampled tasks: weights, not limits.
func (c *jobs) explainWeights(tenant *tenant) string {
	if len(tenant.weights) == 0 {
		return ""
	}
	return fmt.Sprintf(
		"needs no tokens, because it is sampled: in workers' queues tenant %q has the weights %v, "+
			"one for each part of its path",
		tenant.name, tenant.weights)
}

// formatSlots writes n thousandths of slots as slots.
func formatSlots(n int64) string { return fmt.Sprintf("%.4g", float64(n)/float64(tenants.Slot)) }

// updateQuotas takes in the needs of other frontends, and computes this frontend's quotas and needs. For each tenant
// with held tasks, it counts the rounds in which no task may run (see fitsMaximum).
func (c *jobs) updateQuotas(ev *Others, now time.Time) {
	var own []tenants.OwnNeed
	for _, name := range slices.Sorted(maps.Keys(c.tenants)) {
		if t := c.tenants[name]; t.used.atLevel[levelWanted] > 0 {
			u := &t.used
			own = append(own, tenants.OwnNeed{
				Path: name, Use: u.atLevel[levelAtWorker], Want: u.atLevel[levelWanted],
				Spare: u.spareWanted, Most: u.largestTask,
				Taken: tenants.Quota{Regular: u.coveredUse(), All: u.atLevel[levelAllowed]},
			})
		}
	}
	c.needs = c.quotas.Exchange(now, ev.Self, ev.Members, ev.Silent, ev.Needs, own)
	// An amount that cannot be divided goes to one frontend after another, for 10 s each. So the patience is 10 rounds
	// for each frontend, with two turns to spare.
	c.patience = 10 * (len(ev.Members) + 2)
	for _, t := range c.tenantsHolding {
		if t.starvedRounds++; t.used.atLevel[levelAllowed] > 0 {
			t.starvedRounds = 0
		}
	}
}
