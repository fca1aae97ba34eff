package frontend

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/probe"
)

var levelOf = [...]level{
	blocked: levelIdle, resting: levelIdle, done: levelIdle, held: levelWanted, claiming: levelWanted, waiting: levelAllowed, matching: levelAllowed, probing: levelAllowed,
	riding: levelAtWorker, enqueued: levelAtWorker, bound: levelAtWorker, adrift: levelAtWorker,
}

func (t *task) tokenCost() int64 { return max(int64(t.spec.Demand.CPU), 1) }

// tokenCost is what each task of a group takes.
func (g *group) tokenCost() int64 { return max(int64(g.Demand.CPU), 1) }

// addTask counts a task that has just come, and moved one that goes from a state to another.
func (u *usage) addTask(t *task) {
	u.largestTask = max(u.largestTask, t.tokenCost())
	u.moveTask(t, levelIdle, levelOf[t.state])
}

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

// fitsMaximum reports whether its tenant may use what a task that can run takes. What it takes of a maximum counts from now on. One
// task that was accepted when it might take more than it may now is let go on. A part of a maximum may be too small for any
// task, for ever: then one is let go nevertheless, after patience, and only then is a maximum exceeded. Tokens hold nothing:
// what they do not cover is spare.
func (c *jobs) fitsMaximum(t *task) bool {
	tenant, n := t.group.job.tenant, t.tokenCost()
	if tenant.used.atLevel[levelAllowed] == 0 && tenant.starvedRounds > c.patience {
		return true
	}
	quota := c.quotas.Of(tenant.name)
	return tenant.used.atLevel[levelAllowed]+n <= quota.All || n > c.terms.TaskMaximum(tenant.name) && tenant.used.atLevel[levelAllowed] == 0
}

// mustHold reports whether a task that can run from now on has to wait for what its tenant may use.
func (c *jobs) mustHold(t *task) bool {
	return levelOf[t.state] < levelAllowed && (!c.fitsMaximum(t) || t.group.job.tenant.held.Len() > 0)
}

// coverByTokens notes whether a task that is bound to a worker now, by estimation, is covered by its tenant's tokens. It says what
// that is to be known by, or "" if there are no tokens, or it needs none by its class.
func (c *jobs) coverByTokens(t *task) string {
	tenant := t.group.job.tenant
	quota := c.quotas.Of(tenant.name).Regular
	if quota == tenants.Unlimited || t.group.class != probe.Regular {
		return ""
	}
	use, verdict := tenant.used.coveredUse(), "covered"
	if use+t.tokenCost() > quota {
		verdict = "not covered"
		t.spare = t.group.job.Class == Auto
	}
	return fmt.Sprintf("%s by tokens: tenant %q has %s of the %s slots that it may have here", verdict, tenant.name, formatSlots(use), formatSlots(quota))
}

// coveredUse is what is at workers and not spare.
func (u *usage) coveredUse() int64 { return u.atLevel[levelAtWorker] - u.spareUse }

// canCoverNext reports whether tokens cover the first of a tenant's tasks that are beyond them, by now.
func (c *jobs) canCoverNext(tenant *tenant) bool {
	return tenant.debts.Len() > 0 && tenant.used.coveredUse()+tenant.debts.Min().task.tokenCost() <= c.quotas.Of(tenant.name).Regular
}

// wouldOverdraw reports whether a task of a group may not be placed by estimation now, with so much more of its tenant that is about
// to be: tokens do not cover it, and twice as much as they cover would wait at workers beyond them. There it may wait for long
// while others would have room for it. One that waits alone always may.
func (c *jobs) wouldOverdraw(g *group, planned int64) bool {
	tenant := g.job.tenant
	quota := c.quotas.Of(tenant.name).Regular
	if quota == tenants.Unlimited || g.class != probe.Regular || g.job.Class != Auto || tenant.queuedDebt+planned == 0 {
		return false
	}
	return tenant.queuedDebt+planned+g.tokenCost() > max(quota-tenant.used.coveredUse(), 0)+2*quota
}

// whyHeld says what a held task waits for.
func (c *jobs) whyHeld(t *task) string {
	tenant := t.group.job.tenant
	return fmt.Sprintf("held: tenant %q has %s of the %s slots of its maximum that it may have here", tenant.name, formatSlots(tenant.used.atLevel[levelAllowed]), formatSlots(c.quotas.Of(tenant.name).All))
}

// explainWeights says what a tenant's tokens are to tasks that are sampled.
func (c *jobs) explainWeights(tenant *tenant) string {
	if len(tenant.weights) == 0 {
		return ""
	}
	return fmt.Sprintf("needs no tokens, as it is sampled: those of tenant %q are its weights in workers' queues, %v by the parts of its path", tenant.name, tenant.weights)
}

func formatSlots(n int64) string { return fmt.Sprintf("%.4g", float64(n)/float64(tenants.Slot)) }

// updateQuotas takes in what other frontends need.
func (c *jobs) updateQuotas(ev *Others, now time.Time) {
	var own []tenants.OwnNeed
	for _, name := range slices.Sorted(maps.Keys(c.tenants)) {
		if t := c.tenants[name]; t.used.atLevel[levelWanted] > 0 {
			u := &t.used
			own = append(own, tenants.OwnNeed{Path: name, Use: u.atLevel[levelAtWorker], Want: u.atLevel[levelWanted], Spare: u.spareWanted, Most: u.largestTask, Taken: tenants.Quota{Regular: u.coveredUse(), All: u.atLevel[levelAllowed]}})
		}
	}
	c.needs = c.quotas.Exchange(now, ev.Self, ev.Members, ev.Silent, ev.Needs, own)
	c.patience = 10 * (len(ev.Members) + 2) // each frontend has had a turn of what cannot be divided by then
	for _, t := range c.tenantsHolding {
		if t.starvedRounds++; t.used.atLevel[levelAllowed] > 0 {
			t.starvedRounds = 0
		}
	}
}
