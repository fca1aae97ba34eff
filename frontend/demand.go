package frontend

import (
	"fmt"
	"math"

	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// A task takes a slot of what its job does not say that it demands. If it is of a class, of which finished ones are known to have used more
// than that, it takes as much as they did: where more of them ran at once than there is room for, all would be late. It never takes less than a
// slot, which is also how much memory a process may use; and without a class nothing says that tasks of a function are alike: processes are all of one.

// withSlotDefaults is a demand, and a slot's where it says nothing.
func withSlotDefaults(d probe.Demand) probe.Demand {
	if d.CPU == 0 {
		d.CPU = probe.Slot.CPU
	}
	if d.Mem == 0 {
		d.Mem = probe.Slot.Mem
	}
	return d
}

// refineDemand has the tasks of a group, whose class is that of t, demand what finished ones used, where their job leaves it open. It is no more
// than each of their workers has, so that they could run at all of them without, too, and than their tenant may use.
func (g *group) refineDemand(t *Task, maximum int64) {
	if t.Class == "" {
		return
	}
	used, least := g.Runs.Stats().Used(), g.Set.LeastOpen()
	if g.statedDemand.CPU == 0 {
		g.Demand.CPU = max(g.Demand.CPU, min(used.CPU, least.CPU, probe.Millicores(min(maximum, math.MaxInt32))))
	}
	if g.statedDemand.Mem == 0 {
		g.Demand.Mem = max(g.Demand.Mem, min(used.Mem, least.Mem))
	}
	if g.Demand != withSlotDefaults(g.statedDemand) {
		g.demandSamples = g.Runs.Stats().N()
	}
}

// demandAt is what a short or long task of the group takes at a worker: all that one has which is smaller than those were by which that was refined.
func (g *group) demandAt(w *view.Worker, long bool) probe.Demand {
	if g.demandSamples == 0 {
		return g.Demand
	}
	room, least := w.Welcome().Capacity, withSlotDefaults(g.statedDemand)
	if long {
		room = w.Open()
	}
	return probe.Demand{CPU: max(min(g.Demand.CPU, room.CPU), least.CPU), Mem: max(min(g.Demand.Mem, room.Mem), least.Mem)}
}

// DemandReason is what a task takes of a worker, and by what that is known.
type DemandReason struct {
	Demand probe.Demand
	Why    string
}

func (r DemandReason) String() string { return fmt.Sprintf("takes %v: %s", r.Demand, r.Why) }

// explainDemand says what each task of the group takes, and why.
func (g *group) explainDemand() DemandReason {
	r := DemandReason{g.Demand, "its job says so"}
	switch {
	case g.demandSamples > 0:
		r.Why = fmt.Sprintf("its job does not say all of it, and finished tasks of its class used so much (the last of %d)", g.demandSamples)
	case g.statedDemand == probe.Demand{}:
		r.Why = "a slot, as its job says nothing of it"
	case g.statedDemand.CPU == 0 || g.statedDemand.Mem == 0:
		r.Why = "its job says so of one, and of the other it is a slot's"
	}
	return r
}
