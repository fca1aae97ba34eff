package frontend

import (
	"fmt"
	"math"

	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// If a job does not say how much CPU or memory a task demands, the task takes as much as a slot has. A task with a
// Class may take more: as much as finished tasks of the class have used. Otherwise more tasks would run at once than
// there is room for, and all would be late. A task never takes less than a slot, because a slot's memory is also the
// limit for a process. Without a Class, tasks of a function need not be alike: for example, all tasks that
// run a process have the same function.

// withSlotDefaults returns d with zero fields replaced by the fields of probe.Slot.
func withSlotDefaults(d probe.Demand) probe.Demand {
	if d.CPU == 0 {
		d.CPU = probe.Slot.CPU
	}
	if d.Mem == 0 {
		d.Mem = probe.Slot.Mem
	}
	return d
}

// refineDemand raises the CPU or memory that the job leaves open. The demand becomes what finished tasks of t's Class
// have used. Each task of the group has that Class. The demand stays within the part open to long tasks of the
// smallest eligible worker, so that every worker stays eligible. The CPU also stays within maximum, the tenant's
// maximum in millicores.
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

// demandAt returns the demand of a task of the group at w. If Demand was refined, w may have come later and be
// smaller than the workers at that time. Then the task takes all of w, or all of the part open to long tasks if the
// task is long.
func (g *group) demandAt(w *view.Worker, long bool) probe.Demand {
	if g.demandSamples == 0 {
		return g.Demand
	}
	room, least := w.Welcome().Capacity, withSlotDefaults(g.statedDemand)
	if long {
		room = w.AlwaysOpen()
	}
	return probe.Demand{
		CPU: max(min(g.Demand.CPU, room.CPU), least.CPU), Mem: max(min(g.Demand.Mem, room.Mem), least.Mem),
	}
}

// DemandReason is a task's demand of a worker, with the reason.
type DemandReason struct {
	Demand probe.Demand
	Why    string
}

func (r DemandReason) String() string {
	return fmt.Sprintf("takes %d millicores of CPU and %d MiB of memory: %s", r.Demand.CPU, r.Demand.Mem, r.Why)
}

// explainDemand returns the demand of each task of the group, with the reason.
func (g *group) explainDemand() DemandReason {
	r := DemandReason{g.Demand, "its job asks for this"}
	switch {
	case g.demandSamples > 0:
		r.Why = fmt.Sprintf(
			"its job leaves CPU or memory open, and the latest of %d finished tasks of its class used this much",
			g.demandSamples)
	case g.statedDemand == probe.Demand{}:
		r.Why = "one slot, the default, because its job asks for no CPU or memory"
	case g.statedDemand.CPU == 0 || g.statedDemand.Mem == 0:
		r.Why = "its job asks for one of these, and the other is the default, as much as a slot has"
	}
	return r
}
