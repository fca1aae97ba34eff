package place

import (
	"math/rand/v2"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// Want is what a group of tasks that wait is short of.
type Want struct {
	*Kind
	Queue    Queue
	Probes   int            // that it may have, rides included
	Fresh    bool           // it has no places: tasks may ride along
	PlacesAt []*view.Worker // where it has places already
}

// Decision is what one worker gets.
type Decision struct {
	Worker *view.Worker
	Why    Why
	Rides  int  // tasks that go along with their reservations
	Places int  // without a task
	Bound  bool // instead: one task, at once
}

// Why says why a worker was chosen.
type Why uint8

const (
	AtRandom   Why = iota // it was drawn from those that may run the task
	IsIdle                // it was drawn from those believed to be idle
	BecameIdle            // it said that it has room, and the job was the first to use it
	IsShortest            // of the queues that were asked for, its own is the shortest
)

var whyNames = [...]string{AtRandom: "at random", IsIdle: "believed idle", BecameIdle: "has room", IsShortest: "shortest queue"}

func (w Why) String() string { return whyNames[w] }

// Placer chooses workers for tasks that wait. It owns what it returns, until it is asked again.
type Placer interface {
	Place(w *Want, now time.Time) []Decision
}

// PlacerFor is who places tasks that go by a policy which does not ask for the lengths of queues first.
func (s *Sampler) PlacerFor(p *Policy) Placer {
	if p.Binding == EarlyRandom {
		return (*randomPlacer)(s)
	}
	return s
}

// Sampler reserves places at a random sample of workers, and, if the policy says so, lets tasks ride to those that look
// idle: Sparrow's batch sampling, and what the policy phoebe adds to it.
type Sampler struct {
	view      *view.View
	rand      *rand.Rand
	decisions []Decision
	marks     []int32 // by worker: its position in out, counted from 1; hasPlaces: there are places already
}

const hasPlaces = -1

// NewSampler is a Sampler of the workers of a view. It shares rng with its caller.
func NewSampler(v *view.View, rng *rand.Rand) *Sampler { return &Sampler{view: v, rand: rng} }

// Place reserves places, those worth w.Probes, at workers where the tasks have none, as far as there are.
func (s *Sampler) Place(w *Want, now time.Time) []Decision {
	s.decisions = s.decisions[:0]
	for _, row := range w.PlacesAt {
		*s.markOf(row) = hasPlaces
	}
	t, rides := w.Tactic(w.Queue, s.view.Trip()), 0
	if w.Fresh && w.Policy.RideAlong {
		rides = s.planRides(w, &t, now)
	}
	if rides < w.Queue.Len() {
		s.planPlaces(w, &t, w.Probes-rides, now)
	}
	for i := range s.decisions {
		*s.markOf(s.decisions[i].Worker) = 0
	}
	for _, row := range w.PlacesAt {
		*s.markOf(row) = 0
	}
	return s.decisions
}

// Offer is what a worker gets that has said that it has room, if it gets anything.
func (s *Sampler) Offer(k *Kind, q Queue, to *view.Worker) (d Decision, any bool) {
	n := q.Riders(min(to.Room(k.Demand), k.mostRides()))
	switch d = (Decision{Worker: to, Why: BecameIdle}); {
	case k.Policy.RideAlong && !k.isLarge(q):
		d.Rides = n
	default:
		d.Places = n
	}
	return d, n > 0
}

func (s *Sampler) markOf(w *view.Worker) *int32 {
	for int(w.Key) >= len(s.marks) {
		s.marks = append(s.marks, 0)
	}
	return &s.marks[w.Key]
}

// decisionFor is the decision on w, which it now has if it had none.
func (s *Sampler) decisionFor(w *view.Worker, why Why) *Decision {
	at := s.markOf(w)
	if *at <= 0 {
		s.decisions = append(s.decisions, Decision{Worker: w, Why: why})
		*at = int32(len(s.decisions))
	}
	return &s.decisions[*at-1]
}

// planRides sends tasks along to workers believed to have room; where the view is not to be used, to a random sample. It
// returns how many tasks ride.
func (s *Sampler) planRides(w *Want, t *Tactic, now time.Time) (rides int) {
	idle := len(s.view.Idle())
	all := w.Queue.Riders(min(w.Queue.Len(), idle*w.mostRides()+w.Set.Len()))
	switch {
	case !w.Policy.Informed:
	case t.Large && all > idle/2:
		return 0
	default:
		return s.rideToIdle(w, t.Bundle, all)
	}
	for i := 0; i < w.Set.Len() && rides < all; i++ {
		if row := w.Set.Draw(i, s.rand); !s.view.IsAvoided(row, now) {
			s.decisionFor(row, AtRandom).Rides++
			rides++
		}
	}
	return rides
}

// rideToIdle sends tasks along to workers believed to have room, one each, then one more each while room
// is left. Tasks worth bundling fill one worker after the other instead: each message costs more than they do.
func (s *Sampler) rideToIdle(w *Want, bundle, all int) (rides int) {
	most := w.mostRides()
	take := func(row *view.Worker) {
		n := min(most, bundle*row.Room(w.Demand))
		if bundle == 1 {
			n = min(n, 1)
		}
		if n = min(n, all-rides); n > 0 {
			s.decisionFor(row, IsIdle).Rides += n
			rides += n
		}
	}
	if idle := len(s.view.Idle()); w.Set.Len() < idle {
		for i := 0; i < w.Set.Len() && rides < all; i++ {
			if row := w.Set.Draw(i, s.rand); row.Idle() {
				take(row)
			}
		}
	} else {
		for i := 0; i < idle && rides < all; i++ {
			if row := s.view.DrawIdle(i); w.Set.Contains(row) {
				take(row)
			}
		}
	}
	for before := -1; before < rides; {
		before = rides
		for i := range s.decisions {
			if d := &s.decisions[i]; rides < all && d.Rides < min(most, bundle*d.Worker.Room(w.Demand)) {
				d.Rides++
				rides++
			}
		}
	}
	return rides
}

// maxSticky bounds the places of a group at one worker: on wide workers more of them only cost messages.
const maxSticky = 8

// planPlaces probes n workers of a random sample: first those where the group has no place and none is
// planned, then any. A sticky place comes round again and again, but only in one slot at a time, so where there are
// fewer workers than that, it asks for one in each slot, unless its tasks are so short that it is back soon; without that, a job
// could not have all the slots that fall free together at a worker, and later ones would overtake it. Workers that are held
// by long tasks come last.
func (s *Sampler) planPlaces(w *Want, t *Tactic, n int, now time.Time) {
	share := (n + w.Set.Len() - 1) / max(1, w.Set.Len())
	each := func(row *view.Worker) int {
		if !w.Policy.Sticky || t.Single {
			return 1
		}
		return max(1, min(share, w.Demand.Times(row.Welcome().Capacity), w.Queue.Len(), maxSticky))
	}
	skips := 0 // how many held ones may be passed over
	if s.view.Avoided() > 0 {
		skips = 64 + 8*n
	}
	for i := 0; i < w.Set.Len() && n > 0; i++ {
		row := w.Set.Draw(i, s.rand)
		if skips > 0 && s.view.IsAvoided(row, now) {
			skips--
			continue
		}
		if *s.markOf(row) == 0 {
			s.decisionFor(row, AtRandom).Places += each(row)
			n--
		}
	}
	for more := true; more && n > 0; {
		more = false
		for _, row := range w.Set.Workers() {
			if n == 0 {
				break
			}
			at := *s.markOf(row)
			switch {
			case w.Policy.Sticky && at == hasPlaces:
				continue
			case at > 0:
				if d := &s.decisions[at-1]; w.Policy.Sticky && d.Places > 0 || d.Rides+d.Places == probe.MaxPlaces {
					continue
				}
			}
			s.decisionFor(row, AtRandom).Places += each(row)
			n--
			more = true
		}
	}
}
