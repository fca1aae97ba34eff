package worker

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// A wait matrix has the waits of a task that comes after all other tasks. Under the order fair, a task of a tenant that
// uses less than its part of the worker comes long before the last task. So a matrix also has shares: the parts of the
// waits for which the tasks of a tenant wait. The asking tenant and the tenants with the most planned work have shares
// of their own, and all other tenants have one share. For each share, a newcomer of a tenant takes part in the forecast
// of the queue. When the newcomer has its turn, all places ahead are planned, and the wait of the newcomer is known.

// maxWatched bounds the tenants of the queue that have a newcomer at a time. The tenants with the most work stay.
const maxWatched = 2 * probe.MaxTenantShares

// noTenant is the name of no tenant.
const noTenant = "\x00"

// foreseenTurn is the turn of a newcomer in a forecast.
type foreseenTurn struct {
	newcomer
	tenant *tenant // nil: the newcomer stands for the asker, or for a tenant without places
	wait   time.Duration
	found  bool // the turn has come, and wait is known
}

// planned counts the places of a tenant in a forecast that are planned so far.
type planned struct {
	forecast uint64 // number of the last forecast with a place of the tenant
	places   int
	cost     float64 // of the places, in millicores times nanoseconds
}

// shares finds the shares of a matrix.
type shares struct {
	forecasts      uint64    // number of forecasts so far
	plannedTenants []*tenant // tenants with planned places
	watched        []foreseenTurn
	others         foreseenTurn // of a tenant without places
	asker          foreseenTurn // without a place: there is no asker
}

// beginShares prepares to find the shares of the next matrix.
func (c *Core) beginShares(asker *probe.Asker) {
	s := &c.shares
	s.forecasts++
	if c.queue.len() == 0 { // all shares are the whole wait
		return
	}
	s.others = c.newForeseenTurn(noTenant, 0, c.oneSlot(), true, 0)
	if asker != nil && asker.Standing.Class == probe.Regular {
		s.asker = c.newForeseenTurn(asker.Tenant, asker.Priority, asker.Demand, asker.Long, asker.Standing.Age)
	}
}

// newAsker describes a further task like p that comes now.
func (p *place) newAsker() *probe.Asker {
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

// newForeseenTurn returns a turn of a newcomer that stands behind all places of equal priority. age is the age of the
// job if the task belongs to a later stage.
func (c *Core) newForeseenTurn(tenant string, priority int32, d probe.Demand, long bool, age time.Duration) foreseenTurn {
	return foreseenTurn{newcomer: c.queue.newNewcomer(&place{
		tenant: tenant, priority: priority, demand: d, long: long, cameAt: c.queue.now - age, seq: math.MaxUint64,
	})}
}

// noteTurnsBefore notes the waits of the newcomers whose turn comes before p, the next place to plan.
func (c *Core) noteTurnsBefore(p *place) {
	s := &c.shares
	c.noteTurnBefore(&s.others, p)
	if s.asker.place != nil {
		c.noteTurnBefore(&s.asker, p)
	}
	for i := range s.watched {
		c.noteTurnBefore(&s.watched[i], p)
	}
}

// noteTurnBefore notes the wait of x if the turn of x comes before p.
func (c *Core) noteTurnBefore(x *foreseenTurn, p *place) {
	if !x.found && c.queue.comesNext(&x.newcomer, p) {
		x.found, x.wait = true, c.forecast.waitFor(x.place.neededRoom())
	}
}

// countPlanned counts a planned place, with its expected cost, for the place's tenant. Behind the tenant's last place, a
// newcomer of the tenant joins the forecast.
func (c *Core) countPlanned(p *place, cost time.Duration) {
	s, t := &c.shares, p.queueTenant
	if t.planned.forecast != s.forecasts {
		t.planned = planned{forecast: s.forecasts}
		s.plannedTenants = append(s.plannedTenants, t)
	}
	t.planned.places++
	t.planned.cost += float64(cost) * float64(max(p.demand.CPU, 1))
	if t.planned.places < t.placeCount {
		return
	}
	if len(s.watched) < maxWatched {
		s.watched = append(s.watched, c.newTurnOf(t))
		return
	}
	least := 0
	for i := range s.watched {
		if s.watched[i].tenant.planned.cost < s.watched[least].tenant.planned.cost {
			least = i
		}
	}
	if s.watched[least].tenant.planned.cost < t.planned.cost {
		s.watched[least] = c.newTurnOf(t)
	}
}

// newTurnOf returns a turn of a newcomer behind all places of the tenant t.
func (c *Core) newTurnOf(t *tenant) foreseenTurn {
	x := c.newForeseenTurn(t.name, math.MinInt32, c.oneSlot(), true, 0)
	x.tenant = t
	return x
}

// gossipedTenants is the number of tenants with a share of their own in heartbeats and gossip. A busy worker's row of
// 66 bytes grows by 5 bytes. Each further tenant would take 3 bytes more, in the rows of all workers.
const gossipedTenants = 1

// writeShares writes shares to m, a matrix with all waits: of at most the given number of tenants, and of all others.
func (c *Core) writeShares(m *probe.WaitMatrix, tenants int) {
	s := &c.shares
	if c.queue.len() == 0 {
		return
	}
	slot := m.Wait(c.oneSlot())
	shareOf := func(x *foreseenTurn, whole probe.Wait) probe.WaitShare {
		if !x.found {
			return 0
		}
		return probe.ShareOf(probe.WaitOf(x.wait), whole)
	}
	m.Shares.Others = shareOf(&s.others, slot)
	askerCode := probe.TenantCode(0)
	if p := s.asker.place; p != nil {
		whole := m.ShortWait(p.demand)
		if p.long {
			whole = m.Wait(p.demand)
		}
		askerCode = probe.CodeOf(p.tenant)
		m.Shares.Set(askerCode, shareOf(&s.asker, whole))
	}
	// If the plan ended before the last place of a tenant, a further task of the tenant waits the whole wait.
	waitsToTheEnd := func(t *tenant) bool { return t.planned.places < t.placeCount }
	slices.SortFunc(s.plannedTenants, func(t, u *tenant) int {
		if a, b := waitsToTheEnd(t), waitsToTheEnd(u); a != b {
			if a {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(u.planned.cost, t.planned.cost), cmp.Compare(t.name, u.name))
	})
	for _, t := range s.plannedTenants {
		if m.Shares.Tenants[tenants-1].Tenant != 0 {
			break
		}
		share := probe.WaitShare(0)
		if i := slices.IndexFunc(s.watched, func(x foreseenTurn) bool { return x.tenant == t }); i >= 0 {
			share = shareOf(&s.watched[i], slot)
		}
		if code := probe.CodeOf(t.name); share != m.Shares.Others && code != askerCode {
			m.Shares.Set(code, share)
		}
	}
	clear(s.plannedTenants)
	clear(s.watched)
	s.plannedTenants, s.watched, s.others, s.asker = s.plannedTenants[:0], s.watched[:0], foreseenTurn{}, foreseenTurn{}
}
