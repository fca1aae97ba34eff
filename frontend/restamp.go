package frontend

import (
	"fmt"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// settleDebts has as many of the tasks that went beyond their tenants' tokens count as covered as tokens have fallen free, the most
// urgent first, and lets those be placed that waited for that.
func (c *ledger) settleDebts(now time.Time, acts []Action) []Action {
	for _, of := range c.debtors {
		for c.coversNext(of) {
			acts = c.restamp(of.beyond.Min().task, now, acts)
		}
		of.crowds = slices.DeleteFunc(of.crowds, func(g *group) bool {
			c.admitCrowd(g)
			return g.crowd.Len() == 0
		})
	}
	c.debtors = slices.DeleteFunc(c.debtors, func(of *tenant) bool {
		of.debtor = of.beyond.Len() > 0 || len(of.crowds) > 0
		return !of.debtor
	})
	return acts
}

// restamp makes a task regular that went beyond its tenant's tokens, wherever it is.
func (c *ledger) restamp(t *task, now time.Time, acts []Action) []Action {
	of := t.group.job.tenant
	of.ends(t)
	of.used.spare -= t.takes()
	t.spare = false
	if d := c.remembered(t); d != nil {
		d.Class = t.told()
		d.Budget += fmt.Sprintf("; covered since %v after it came", now.Sub(t.group.job.submitted).Round(time.Microsecond))
	}
	for _, a := range t.underWay() {
		if a.class == probe.Spare {
			c.view.Take(a.w.Worker, t.spec.Demand)
		}
		a.class = probe.Regular
		if a.w.Linked() && a.w.Has(probe.Classes) {
			c.Stats.Restamps++
			acts = append(acts, Send{Worker: a.w.Key, Msg: probe.Restamp{Res: a.res, Attempt: a.id, Standing: t.group.standing(probe.Regular, now)}})
		}
	}
	return acts
}
