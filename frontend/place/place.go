package place

import (
	"math/rand/v2"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// Want is the need of a group of waiting tasks for places.
type Want struct {
	*Kind
	Queue    Queue
	Probes   int            // places to reserve now, including rides
	MayRide  bool           // tasks may ride along: the group has no places yet, or a worker looks idle
	PlacesAt []*view.Worker // workers where the group has places already
}

// Decision assigns rides and places to a worker.
type Decision struct {
	Worker *view.Worker
	Why    Why
	Rides  int  // tasks that ride with their reservations
	Places int  // places without a task
	Bound  bool // instead of rides and places: one task, bound at once
}

// Why is the reason for choosing a worker.
type Why uint8

const (
	AtRandom   Why = iota // drawn from the workers that may run the task
	IsIdle                // drawn from the workers believed idle
	BecameIdle            // the worker reported room, and the job was the first to use it
	IsShortest            // the worker's queue is the shortest of the probed queues
)

var whyNames = [...]string{AtRandom: "at random", IsIdle: "believed idle", BecameIdle: "has room",
	IsShortest: "shortest queue"}

func (w Why) String() string { return whyNames[w] }

// Placer chooses workers for waiting tasks. The Placer owns the returned slice, until its next call.
type Placer interface {
	Place(w *Want, now time.Time) []Decision
}

// PlacerFor returns the Placer for a policy that does not ask for queue lengths first.
func (s *Sampler) PlacerFor(p *Policy) Placer {
	if p.Binding == EarlyRandom {
		return (*randomPlacer)(s)
	}
	return s
}

// Sampler reserves places at a random sample of workers: Sparrow's batch sampling (section 3.3) with late binding
// (section 3.5). If the policy says so, tasks ride to workers that look idle; the policy phoebe adds this.
type Sampler struct {
	view      *view.View
	rand      *rand.Rand
	decisions []Decision
	marks     []int32 // by worker: position in decisions, from 1; hasPlaces: the group has places there
}

const hasPlaces = -1

// NewSampler returns a Sampler of the view's workers. It shares rng with the caller.
func NewSampler(v *view.View, rng *rand.Rand) *Sampler { return &Sampler{view: v, rand: rng} }

// Place decides on w.Probes places, if the set has workers. First tasks ride, if they may. Then workers without places
// of the group get places, and last any worker (see planPlaces). A ride counts as a place. If all waiting tasks ride,
// there are no further places.
func (s *Sampler) Place(w *Want, now time.Time) []Decision {
	s.decisions = s.decisions[:0]
	for _, worker := range w.PlacesAt {
		*s.markOf(worker) = hasPlaces
	}
	t, rides := w.Tactic(w.Queue, s.view.Trip()), 0
	if w.MayRide && w.Policy.RideAlong {
		rides = s.planRides(w, &t, now)
	}
	if rides < w.Queue.Len() {
		s.planPlaces(w, &t, w.Probes-rides, now)
	}
	for i := range s.decisions {
		*s.markOf(s.decisions[i].Worker) = 0
	}
	for _, worker := range w.PlacesAt {
		*s.markOf(worker) = 0
	}
	return s.decisions
}

// Offer decides what a worker gets after reporting room. The worker gets rides, or, for a large job or a policy
// without rides, places. ok is false if the worker gets nothing.
func (s *Sampler) Offer(k *Kind, q Queue, worker *view.Worker) (d Decision, ok bool) {
	n := q.Riders(min(worker.Room(k.Demand), k.mostRides()))
	switch d = (Decision{Worker: worker, Why: BecameIdle}); {
	case k.Policy.RideAlong && !k.isLarge(q):
		d.Rides = n
	default:
		d.Places = n
	}
	return d, n > 0
}

// markOf returns the mark of a worker in s.marks.
func (s *Sampler) markOf(w *view.Worker) *int32 {
	for int(w.Key) >= len(s.marks) {
		s.marks = append(s.marks, 0)
	}
	return &s.marks[w.Key]
}

// decisionFor returns the decision on w, and adds it if there is none.
func (s *Sampler) decisionFor(w *view.Worker, why Why) *Decision {
	mark := s.markOf(w)
	if *mark <= 0 {
		s.decisions = append(s.decisions, Decision{Worker: w, Why: why})
		*mark = int32(len(s.decisions))
	}
	return &s.decisions[*mark-1]
}

// planRides lets tasks ride to workers believed to have room. If the policy ignores the view, the tasks ride to a
// random sample. The tasks of a large job ride only if at least twice as many workers look idle. planRides returns
// the number of tasks that ride.
func (s *Sampler) planRides(w *Want, t *Tactic, now time.Time) (rides int) {
	idle := len(s.view.Idle())
	// An idle worker takes at most mostRides, and a worker of a random sample takes one task.
	riders := w.Queue.Riders(min(w.Queue.Len(), idle*w.mostRides()+w.Set.Len()))
	switch {
	case !w.Policy.Informed:
	case t.Large && riders > idle/2:
		return 0
	default:
		return s.rideToIdle(w, t.Bundle, riders)
	}
	for i := 0; i < w.Set.Len() && rides < riders; i++ {
		if worker := w.Set.Draw(i, s.rand); !s.view.IsAvoided(worker, now) {
			s.decisionFor(worker, AtRandom).Rides++
			rides++
		}
	}
	return rides
}

// rideToIdle lets tasks ride to workers believed to have room: a task to each, then a further task to each while
// there is room. Tasks worth bundling fill a worker before the next, because a message costs more than such a task.
// The shorter list is searched, the set or the idle workers.
func (s *Sampler) rideToIdle(w *Want, bundle, riders int) (rides int) {
	most := w.mostRides()
	fillWorker := func(worker *view.Worker) {
		n := min(most, bundle*worker.Room(w.Demand))
		if bundle == 1 {
			n = min(n, 1)
		}
		if n = min(n, riders-rides); n > 0 {
			s.decisionFor(worker, IsIdle).Rides += n
			rides += n
		}
	}
	if idle := len(s.view.Idle()); w.Set.Len() < idle {
		for i := 0; i < w.Set.Len() && rides < riders; i++ {
			if worker := w.Set.Draw(i, s.rand); worker.Idle() {
				fillWorker(worker)
			}
		}
	} else {
		for i := 0; i < idle && rides < riders; i++ {
			if worker := s.view.DrawIdle(i); w.Set.Contains(worker) {
				fillWorker(worker)
			}
		}
	}
	for before := -1; before < rides; {
		before = rides
		for i := range s.decisions {
			if d := &s.decisions[i]; rides < riders && d.Rides < min(most, bundle*d.Worker.Room(w.Demand)) {
				d.Rides++
				rides++
			}
		}
	}
	return rides
}

// maxSticky bounds the places of a group at a worker: on wide workers more places only cost messages.
const maxSticky = 8

// planPlaces adds places at n workers of a random sample: first at workers where the group has no place and none
// is planned, then at any worker, again and again. At a worker, a sticky group gets a single reservation, so the
// group may get fewer places. Workers that long tasks occupy come last.
//
// A sticky place comes round again and again, but only in one slot at a time. So if there are fewer workers than
// places, the group reserves a place for each slot of a worker. Otherwise a job could not get all the slots that
// become free together at a worker, and later jobs would overtake it. Short tasks need a single place, because the
// place soon comes round again.
func (s *Sampler) planPlaces(w *Want, t *Tactic, n int, now time.Time) {
	perWorker := (n + w.Set.Len() - 1) / max(1, w.Set.Len())
	placesFor := func(worker *view.Worker) int {
		if !w.Policy.Sticky || t.Single {
			return 1
		}
		return max(1, min(perWorker, w.Demand.Times(worker.Welcome().Capacity), w.Queue.Len(), maxSticky))
	}
	skips := 0 // avoided workers that may still be skipped: bounds the search if nearly all are avoided
	if s.view.Avoided() > 0 {
		skips = 64 + 8*n
	}
	for i := 0; i < w.Set.Len() && n > 0; i++ {
		worker := w.Set.Draw(i, s.rand)
		if skips > 0 && s.view.IsAvoided(worker, now) {
			skips--
			continue
		}
		if *s.markOf(worker) == 0 {
			s.decisionFor(worker, AtRandom).Places += placesFor(worker)
			n--
		}
	}
	for more := true; more && n > 0; {
		more = false
		for _, worker := range w.Set.Workers() {
			if n == 0 {
				break
			}
			mark := *s.markOf(worker)
			switch {
			case w.Policy.Sticky && mark == hasPlaces:
				continue
			case mark > 0:
				if d := &s.decisions[mark-1]; w.Policy.Sticky && d.Places > 0 || d.Rides+d.Places == probe.MaxPlaces {
					continue
				}
			}
			s.decisionFor(worker, AtRandom).Places += placesFor(worker)
			n--
			more = true
		}
	}
}
