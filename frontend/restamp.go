package frontend

import (
	"fmt"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// settleDebts makes tasks beyond tokens regular, the most urgent first, as far as tokens have fallen free. Then
// tasks in crowds become due, as many as may find room and tokens.
func (c *ledger) settleDebts(now time.Time, acts []Action) []Action {
	for _, tenant := range c.debtors {
		for c.canCoverNext(tenant) {
			acts = c.restampTask(tenant.debts.Min().task, now, acts)
		}
		tenant.crowdedGroups = slices.DeleteFunc(tenant.crowdedGroups, func(g *group) bool {
			c.releaseCrowd(g)
			return g.crowd.Len() == 0
		})
	}
	c.debtors = slices.DeleteFunc(c.debtors, func(tenant *tenant) bool {
		tenant.isDebtor = tenant.debts.Len() > 0 || len(tenant.crowdedGroups) > 0
		return !tenant.isDebtor
	})
	return acts
}

// restampTask makes a task beyond tokens regular, wherever the task is, because a token has fallen free. Workers
// are told, so the task is no longer stopped for regular work.
func (c *ledger) restampTask(t *task, now time.Time, acts []Action) []Action {
	tenant := t.group.job.tenant
	tenant.removeBeyond(t)
	tenant.used.spareUse -= t.tokenCost()
	t.spare = false
	if d := c.lastDecision(t); d != nil {
		d.Class = t.explainClass()
		d.Budget += fmt.Sprintf("; covered since %v after the job came",
			now.Sub(t.group.job.submitted).Round(time.Microsecond))
	}
	for _, a := range t.liveAttempts() {
		if a.class == probe.Spare {
			c.view.Take(a.w.Worker, t.spec.Demand)
		}
		a.class = probe.Regular
		if a.w.Linked() && a.w.Has(probe.Classes) {
			c.Stats.Restamps++
			acts = append(acts, Send{Worker: a.w.Key, Msg: probe.Restamp{
				Res: a.res, Attempt: a.id, Standing: t.group.standingFor(probe.Regular, now),
			}})
		}
	}
	return acts
}
