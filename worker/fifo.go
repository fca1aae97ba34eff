package worker

import (
	"iter"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe/pq"
)

// fifo is the policy of FIFO. Other policies build on fifo by setting the sort keys of places.
type fifo struct {
	unpaid
	places pq.Heap[*place]
	walk   pq.Walk[*place] // scratch of inOrder
}

func (f *fifo) addPlace(p *place)                    { f.places.Push(p) }
func (f *fifo) removePlace(p *place)                 { f.places.Remove(p) }
func (f *fifo) nextPlace(time.Time) *place           { return f.places.Min() }
func (f *fifo) newNewcomer(x *place) newcomer        { return newcomer{place: x} }
func (f *fifo) comesNext(n *newcomer, p *place) bool { return n.place.Before(p) }
func (f *fifo) allPlaces() iter.Seq[*place]          { return slices.Values(f.places.All()) }

func (f *fifo) inOrder(time.Time) iter.Seq[*place] {
	return func(yield func(*place) bool) { f.walk.VisitAll(&f.places, yield) }
}
