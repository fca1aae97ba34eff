package frontend

import (
	"iter"

	"github.com/phoebe-sched/phoebe/probe/list"
)

// If each task of a job names a host of its own, the job has as many groups as tasks. The core must not look at all
// groups for a message of a worker. So each group with waiting tasks has seats in lists by host or worker, and the
// groups for a worker are found by the worker's names.

// maxGroupsLooked bounds the groups of a job looked at for a task for a worker. There may be many groups that name no
// host, and the worker may be able to run none of their tasks. The number was chosen, and not measured.
const maxGroupsLooked = 256

// makeSeats makes the missing seats of groups. A single group needs no seats.
func (j *job) makeSeats() {
	if len(j.groups) < 2 {
		return
	}
	if j.seats == nil {
		j.seats = map[string]*list.List[*seat]{}
	}
	for _, g := range j.groups {
		if len(g.seats) > 0 {
			continue
		}
		names := g.Set.TaskConstraint().Hosts
		if len(names) == 0 {
			names = []string{""}
		}
		g.seats = make([]seat, len(names))
		for i, name := range names {
			g.seats[i] = seat{group: g, name: name}
			if j.seats[name] == nil {
				j.seats[name] = &list.List[*seat]{}
			}
		}
		if g.queue.Len() > 0 {
			g.takeSeats()
		}
	}
}

// takeSeats notes that g has waiting tasks. leaveSeats notes that no task of g waits any more.
func (g *group) takeSeats() {
	for i := range g.seats {
		g.job.seats[g.seats[i].name].Push(&g.seats[i])
	}
}

func (g *group) leaveSeats() {
	for i := range g.seats {
		g.job.seats[g.seats[i].name].Remove(&g.seats[i])
	}
}

// hungryGroupsAt yields the groups of a job with waiting tasks for w. Groups naming the host of w or w itself
// come first.
func (j *job) hungryGroupsAt(w *worker) iter.Seq[*group] {
	return func(yield func(*group) bool) {
		if j.seats == nil {
			if g := j.groups[0]; g.queue.Len() > 0 && g.Set.Contains(w.Worker) {
				yield(g)
			}
			return
		}
		names, looked := [...]string{w.Welcome().Host, w.Welcome().Worker, ""}, 0
		for i, name := range names {
			l := j.seats[name]
			if l == nil || i == 0 && name == "" || i == 1 && name == names[0] {
				continue
			}
			for s := range l.All() {
				if looked++; looked > maxGroupsLooked {
					return
				}
				if s.group.Set.Contains(w.Worker) && !yield(s.group) {
					return
				}
			}
		}
	}
}
