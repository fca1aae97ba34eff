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
	blocked: idle, resting: idle, done: idle, held: wanted, claiming: wanted, waiting: let, matching: let, probing: let,
	riding: placed, enqueued: placed, bound: placed, adrift: placed,
}

func (t *task) takes() int64 { return max(int64(t.spec.Demand.CPU), 1) }

// takes is what each task of a group takes.
func (g *group) takes() int64 { return max(int64(g.Demand.CPU), 1) }

// enters counts a task that has just come, and moved one that goes from a state to another.
func (u *usage) enters(t *task) {
	u.most = max(u.most, t.takes())
	u.moved(t, idle, levelOf[t.state])
}

func (u *usage) moved(t *task, from, to level) {
	n := t.takes()
	for l := from; l > to; l-- {
		u.at[l] -= n
	}
	for l := from + 1; l <= to; l++ {
		u.at[l] += n
	}
	if t.group.class != probe.Regular && (from < wanted) != (to < wanted) {
		if to < wanted {
			u.lower -= n
		} else {
			u.lower += n
		}
	}
	switch {
	case to == placed:
		if t.spare = t.spare || t.group.class != probe.Regular; t.spare {
			u.spare += n
		}
	case from == placed && t.spare:
		t.spare = false
		u.spare -= n
	}
}

// fits reports whether its tenant may use what a task that can run takes. What it takes of a maximum counts from now on. One
// task that was accepted when it might take more than it may now is let go on. A part of a maximum may be too small for any
// task, for ever: then one is let go nevertheless, after patience, and only then is a maximum exceeded. Tokens hold nothing:
// what they do not cover is spare.
func (c *jobs) fits(t *task) bool {
	of, n := t.group.job.tenant, t.takes()
	if of.used.at[let] == 0 && of.starved > c.patience {
		return true
	}
	may := c.shares.Of(of.name)
	return of.used.at[let]+n <= may.All || n > c.terms.TaskMaximum(of.name) && of.used.at[let] == 0
}

// holds reports whether a task that can run from now on has to wait for what its tenant may use.
func (c *jobs) holds(t *task) bool {
	return levelOf[t.state] < let && (!c.fits(t) || t.group.job.tenant.held.Len() > 0)
}

// cover notes whether a task that is bound to a worker now, by estimation, is covered by its tenant's tokens. It says what
// that is to be known by, or "" if there are no tokens, or it needs none by its class.
func (c *jobs) cover(t *task) string {
	of := t.group.job.tenant
	may := c.shares.Of(of.name).Regular
	if may == tenants.Unlimited || t.group.class != probe.Regular {
		return ""
	}
	has, is := of.used.covered(), "covered"
	if has+t.takes() > may {
		is = "not covered"
		t.spare = t.group.job.Class == Auto
	}
	return fmt.Sprintf("%s by tokens: tenant %q has %s of the %s slots that it may have here", is, of.name, slots(has), slots(may))
}

// covered is what is at workers and not spare.
func (u *usage) covered() int64 { return u.at[placed] - u.spare }

// coversNext reports whether tokens cover the first of a tenant's tasks that are beyond them, by now.
func (c *jobs) coversNext(of *tenant) bool {
	return of.beyond.Len() > 0 && of.used.covered()+of.beyond.Min().task.takes() <= c.shares.Of(of.name).Regular
}

// overdrawn reports whether a task of a group may not be placed by estimation now, with so much more of its tenant that is about
// to be: tokens do not cover it, and twice as much as they cover would wait at workers beyond them. There it may wait for long
// while others would have room for it. One that waits alone always may.
func (c *jobs) overdrawn(g *group, about int64) bool {
	of := g.job.tenant
	may := c.shares.Of(of.name).Regular
	if may == tenants.Unlimited || g.class != probe.Regular || g.job.Class != Auto || of.queued+about == 0 {
		return false
	}
	return of.queued+about+g.takes() > max(may-of.used.covered(), 0)+2*may
}

// heldBy says what a held task waits for.
func (c *jobs) heldBy(t *task) string {
	of := t.group.job.tenant
	return fmt.Sprintf("held: tenant %q has %s of the %s slots of its maximum that it may have here", of.name, slots(of.used.at[let]), slots(c.shares.Of(of.name).All))
}

// weighs says what a tenant's tokens are to tasks that are sampled.
func (c *jobs) weighs(of *tenant) string {
	if len(of.weights) == 0 {
		return ""
	}
	return fmt.Sprintf("needs no tokens, as it is sampled: those of tenant %q are its weights in workers' queues, %v by the parts of its path", of.name, of.weights)
}

func slots(n int64) string { return fmt.Sprintf("%.4g", float64(n)/float64(tenants.Slot)) }

// others takes in what other frontends need.
func (c *jobs) others(ev *Others, now time.Time) {
	var own []tenants.OwnNeed
	for _, name := range slices.Sorted(maps.Keys(c.tenants)) {
		if t := c.tenants[name]; t.used.at[wanted] > 0 {
			u := &t.used
			own = append(own, tenants.OwnNeed{Path: name, Use: u.at[placed], Want: u.at[wanted], Spare: u.lower, Most: u.most, Taken: tenants.Quota{Regular: u.covered(), All: u.at[let]}})
		}
	}
	c.needs = c.shares.Exchange(now, ev.Self, ev.Members, ev.Silent, ev.Needs, own)
	c.patience = 10 * (len(ev.Members) + 2) // each frontend has had a turn of what cannot be divided by then
	for _, t := range c.holding {
		if t.starved++; t.used.at[let] > 0 {
			t.starved = 0
		}
	}
}
