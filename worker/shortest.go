package worker

import (
	"iter"
	"time"

	"github.com/phoebe-sched/phoebe/probe/pq"
)

// shortest is the policy of Shortest.
type shortest struct {
	fifo
	bound   time.Duration    // who waited that long goes ahead
	oldest  pq.Heap[arrival] // the same places by arrival
	oldWalk walk[arrival]    // scratch of inOrder
}

// arrival orders places by when they came.
type arrival struct{ *place }

func (a arrival) Before(b arrival) bool { return a.seq < b.seq }
func (a arrival) Pos() *int             { return &a.arrivalPos }

func (s *shortest) push(p *place) {
	p.key = float64(p.estimate)
	if p.estimate == 0 {
		p.key = float64(s.bound) // unknown: behind what is known to be short
	}
	s.oldest.Push(arrival{p})
	s.fifo.push(p)
}

func (s *shortest) remove(p *place) {
	s.oldest.Remove(arrival{p})
	s.fifo.remove(p)
}

func (s *shortest) starves(p *place, now time.Time) bool { return now.Sub(p.queuedAt) >= s.bound }

func (s *shortest) head(now time.Time) *place {
	if first := s.oldest.Min().place; s.starves(first, now) {
		return first
	}
	return s.fifo.head(now)
}

func (s *shortest) inOrder(now time.Time) iter.Seq[*place] {
	return func(yield func(*place) bool) {
		more := true
		s.oldWalk.over(&s.oldest, func(a arrival) bool {
			starves := s.starves(a.place, now)
			more = !starves || yield(a.place)
			return starves && more
		})
		if !more {
			return
		}
		s.walk.over(&s.places, func(p *place) bool { return s.starves(p, now) || yield(p) })
	}
}
