package frontend

import (
	"time"

	"github.com/phoebe-sched/phoebe/frontend/place"
	"github.com/phoebe-sched/phoebe/probe"
)

// handleReady answers the turn of a place. Later stages of older jobs go first, then the tasks of the place's own
// job, and then tasks of other jobs of the tenant. If there are none, the turn is declined.
func (c *planner) handleReady(w *worker, m *probe.Ready, now time.Time, acts []Action) []Action {
	r := w.places[m.Res]
	if r == nil && w.wasCancelled(m.Res) {
		w.noteVainTurn() // the Cancel is under way
		return acts
	}
	if r == nil {
		return c.declineTurn(w, m, acts)
	}
	if a := r.rideAt(m.Res); a != nil {
		c.takeBackRide(a, r, now) // the Ready overtook the Queued
	}
	if g := c.shareTurn(r.group, w, now, true); g != nil {
		return c.bindTurn(r, g, m, now, acts)
	}
	if g := c.chooseGroup(r.group, w, now); g != nil {
		return c.bindTurn(r, g, m, now, acts)
	}
	if g := c.shareTurn(r.group, w, now, false); g != nil {
		return c.bindTurn(r, g, m, now, acts)
	}
	c.dropPlace(w, m.Res, r, place.Declined)
	if g := r.group; g.livePlaces == 0 && g.queue.Len() > 0 { // all waiting tasks shun w
		c.wantPlaces(g)
	}
	return c.declineTurn(w, m, acts)
}

// shareTurn returns a group of another job of the tenant that may use g's turn at w, oldest job first, or nil.
// The worker would have queued a place of the returned group at the same position. If senior is set, only later
// stages of older jobs count: their tasks have precedence over g's own tasks. The worker guards a task as the place is
// guarded, so a guarded job shares no turn with a job that is not.
func (c *planner) shareTurn(g *group, w *worker, now time.Time, senior bool) *group {
	j := g.job
	t := c.tenants[j.Tenant] // j.tenant, unless j has ended
	if !j.Policy.Share || t == nil {
		return nil
	}
	looked := 0
	for k := range t.hungry.All() {
		if looked++; looked > maxLooked || senior && compareJobs(k, j) >= 0 {
			break
		}
		if senior && len(k.stages) == 0 || !k.Policy.Share || k.Priority != j.Priority || k.Guarded != j.Guarded {
			continue
		}
		for other := range k.hungryGroupsAt(w) {
			if (!senior || k.Policy.Seniority && other.isLaterStage()) &&
				other.Demand.Fits(g.Demand) && c.nextTask(other, w, now) != nil &&
				(g.estimate == 0 || other.estimate > 0 && other.estimate <= g.estimate) {
				return other
			}
		}
	}
	return nil
}
