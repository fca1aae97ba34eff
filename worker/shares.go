package worker

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// A wait matrix has the waits of a task that comes after all others. Under the order fair, a task of a tenant that uses
// less than its part of the worker comes long before the last. So a matrix also has the shares of these waits that
// tasks of some tenants wait: of the asking tenant, of the tenants with the most planned work, and of all others. A
// newcomer for each of these tenants takes part in the forecast of the queue. The share comes from the wait of a
// one-slot task at the newcomer's turn, when all places ahead are planned.

// maxWatched bounds the tenants of the queue with a newcomer at a time. The tenants with the most work stay.
const maxWatched = 2 * probe.MaxTenantShares

// noTenant is the name of no tenant.
const noTenant = "\x00"

// foreseen is a newcomer in a forecast.
type foreseen struct {
	newcomer
	tenant *tenant // nil: the asker, or a tenant without places
	wait   time.Duration
	found  bool // the turn has come, and wait is known
}

// planned is the part of a tenant in the present forecast.
type planned struct {
	forecast uint64 // number of the last forecast with a place of the tenant
	places   int
	cost     float64 // millicores times nanoseconds
}

// shares finds the shares of a matrix.
type shares struct {
	forecasts uint64
	met       []*tenant // tenants with planned places
	watched   []foreseen
	under     foreseen
	asker     foreseen
	hasAsker  bool
	code      probe.TenantCode // of the asker
	empty     bool             // the queue is empty, and all shares are the whole wait
}

// beginShares prepares to find the shares of the next matrix.
func (c *Core) beginShares(asker *probe.Asker) {
	s := &c.shares
	*s = shares{forecasts: s.forecasts + 1, met: s.met[:0], watched: s.watched[:0], empty: c.queue.len() == 0}
	if s.empty {
		return
	}
	s.under = c.newForeseen(noTenant, 0, c.oneSlot(), true, 0)
	if asker != nil && asker.Standing.Class == probe.Regular {
		s.hasAsker, s.code = true, probe.CodeOf(asker.Tenant)
		s.asker = c.newForeseen(asker.Tenant, asker.Priority, asker.Demand, asker.Long, asker.Standing.Age)
	}
}

// asAsker returns an asker for a further task like p, that comes now.
func (p *place) asAsker() *probe.Asker {
	return &probe.Asker{
		Tenant: p.tenant, Priority: p.priority, Demand: p.demand, Long: p.long,
		Standing: probe.Standing{Class: p.class},
	}
}

// oneSlot returns the demand of the newcomers without an asker.
func (c *Core) oneSlot() probe.Demand {
	all := c.capacity.all
	return probe.Demand{CPU: min(probe.Slot.CPU, all.CPU), Mem: min(probe.Slot.Mem, all.Mem)}
}

// newForeseen returns a newcomer that comes behind all places of equal rank. age is the age of its job, for a later
// stage.
func (c *Core) newForeseen(tenant string, priority int32, d probe.Demand, long bool, age time.Duration) foreseen {
	return foreseen{newcomer: c.queue.newNewcomer(&place{
		tenant: tenant, priority: priority, demand: d, long: long, cameAt: c.queue.now - age, seq: math.MaxUint64,
	})}
}

// foresee notes the waits of newcomers with a turn before p, which is planned next.
func (c *Core) foresee(p *place) {
	s := &c.shares
	c.foreseeTurn(&s.under, p)
	if s.hasAsker {
		c.foreseeTurn(&s.asker, p)
	}
	for i := range s.watched {
		c.foreseeTurn(&s.watched[i], p)
	}
}

// foreseeTurn notes the wait of x if its turn comes before p.
func (c *Core) foreseeTurn(x *foreseen, p *place) {
	if !x.found && c.queue.comesNext(&x.newcomer, p) {
		x.found, x.wait = true, c.forecast.waitFor(x.place.neededRoom())
	}
}

// countPlanned counts a planned place for its tenant. After the last place of the tenant, a newcomer of the tenant
// waits for the next turn.
func (c *Core) countPlanned(p *place) {
	s, t := &c.shares, p.queueTenant
	if t.planned.forecast != s.forecasts {
		t.planned = planned{forecast: s.forecasts}
		s.met = append(s.met, t)
	}
	t.planned.places++
	t.planned.cost += float64(c.placeCost(p)) * float64(max(p.demand.CPU, 1))
	if t.planned.places < t.placeCount {
		return
	}
	x := c.newForeseen(t.name, math.MinInt32, c.oneSlot(), true, 0)
	if x.tenant = t; len(s.watched) < maxWatched {
		s.watched = append(s.watched, x)
		return
	}
	least := 0
	for i := range s.watched {
		if s.watched[i].tenant.planned.cost < s.watched[least].tenant.planned.cost {
			least = i
		}
	}
	if s.watched[least].tenant.planned.cost < t.planned.cost {
		s.watched[least] = x
	}
}

// gossipedTenants is the number of tenants with a share of their own in heartbeats and gossip. A busy worker's row of
// 66 bytes grows by 5 bytes. Each further tenant would take 3 bytes more, in the rows of all workers.
const gossipedTenants = 1

// writeShares writes the shares of at most the given number of tenants to m, a matrix with all waits.
func (c *Core) writeShares(m *probe.WaitMatrix, tenants int) {
	s := &c.shares
	if s.empty {
		return
	}
	slot := m.Wait(c.oneSlot())
	shareOf := func(x *foreseen, whole probe.Wait) probe.WaitShare {
		if !x.found {
			return 0
		}
		return probe.ShareOf(probe.WaitOf(x.wait), whole)
	}
	m.Shares.Under = shareOf(&s.under, slot)
	if s.hasAsker {
		whole := m.ShortWait(s.asker.place.demand)
		if s.asker.place.long {
			whole = m.Wait(s.asker.place.demand)
		}
		m.Shares.Set(s.code, shareOf(&s.asker, whole))
	}
	isWhole := func(t *tenant) bool { return t.planned.places < t.placeCount } // part of its places are behind the plan
	slices.SortFunc(s.met, func(t, u *tenant) int {
		if a, b := isWhole(t), isWhole(u); a != b {
			if a {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(u.planned.cost, t.planned.cost), cmp.Compare(t.name, u.name))
	})
	for _, t := range s.met {
		if m.Shares.Tenants[tenants-1].Tenant != 0 {
			break
		}
		share := probe.WaitShare(0)
		if i := slices.IndexFunc(s.watched, func(x foreseen) bool { return x.tenant == t }); i >= 0 {
			share = shareOf(&s.watched[i], slot)
		}
		if code := probe.CodeOf(t.name); share != m.Shares.Under && code != s.code {
			m.Shares.Set(code, share)
		}
	}
	clear(s.met)
	clear(s.watched)
	s.met, s.watched, s.under, s.asker = s.met[:0], s.watched[:0], foreseen{}, foreseen{}
}
