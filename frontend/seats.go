package frontend

import (
	"iter"

	"github.com/phoebe-sched/phoebe/probe/list"
)

// A job whose tasks each name other hosts is of as many groups. What comes of one message looks at the groups that it
// concerns: those of a worker with waiting tasks are found by the names that they give.

// maxGroupsLooked bounds the groups of a job that are looked at for one with a task for a worker: of those that name no host,
// none may be for it.
const maxGroupsLooked = 256

// makeSeats makes the seats of those groups of a job that have none, if it has several.
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

// takeSeats notes that a group has waiting tasks, and rise that it no longer has.
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

// hungryGroupsAt is the groups of a job with waiting tasks that may run at w, those that name it or its host first.
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
