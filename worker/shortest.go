package worker

import (
	"iter"
	"math"
	"time"

	"github.com/phoebe-sched/phoebe/probe/pq"
)

// shortest is the policy of Shortest.
type shortest struct {
	fifo
	starvationBound time.Duration    // after this wait a place goes first
	byArrival       pq.Heap[arrival] // the same places by arrival
	arrivalWalk     pq.Walk[arrival] // scratch of inOrder
}

// arrival orders places by arrival.
type arrival struct{ *place }

func (a arrival) Before(b arrival) bool { return a.seq < b.seq }
func (a arrival) Pos() *int             { return &a.arrivalPos }

// newNewcomer returns a newcomer behind all others, because the run time of a newcomer is not known.
func (s *shortest) newNewcomer(x *place) newcomer {
	x.sortKey = math.Inf(1)
	return newcomer{place: x}
}

func (s *shortest) addPlace(p *place) {
	p.sortKey = float64(p.estimate)
	if p.estimate == 0 {
		p.sortKey = float64(s.starvationBound) // unknown: behind all places known to be short
	}
	s.byArrival.Push(arrival{p})
	s.fifo.addPlace(p)
}

func (s *shortest) removePlace(p *place) {
	s.byArrival.Remove(arrival{p})
	s.fifo.removePlace(p)
}

// isStarving reports whether p has waited for starvationBound, so no shorter task may go first any more.
func (s *shortest) isStarving(p *place, now time.Time) bool {
	return now.Sub(p.queuedAt) >= s.starvationBound
}

func (s *shortest) nextPlace(now time.Time) *place {
	if first := s.byArrival.Min().place; s.isStarving(first, now) {
		return first
	}
	return s.fifo.nextPlace(now)
}

func (s *shortest) inOrder(now time.Time) iter.Seq[*place] {
	return func(yield func(*place) bool) {
		more := true
		s.arrivalWalk.VisitAll(&s.byArrival, func(a arrival) bool {
			starves := s.isStarving(a.place, now)
			more = !starves || yield(a.place)
			return starves && more
		})
		if !more {
			return
		}
		s.walk.VisitAll(&s.places, func(p *place) bool { return s.isStarving(p, now) || yield(p) })
	}
}
