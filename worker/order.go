package worker

import (
	"iter"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe/pq"
)

// walk visits the items of a heap in their order, without changing it: after an item, those below it may come next. It
// is good until the heap changes.
type walk[T pq.Item[T]] struct {
	items []T
	next  []int // positions of items that may come next, the first of them last
}

func (w *walk[T]) begin(h *pq.Heap[T]) {
	w.items, w.next = h.All(), w.next[:0]
	w.add(0)
}

// end lets go of the heap.
func (w *walk[T]) end() { w.items = nil }

// peek is the next item; ok is false at the end.
func (w *walk[T]) peek() (x T, ok bool) {
	if len(w.next) == 0 {
		return x, false
	}
	return w.items[w.next[len(w.next)-1]], true
}

// skip goes on behind the next item.
func (w *walk[T]) skip() {
	last := len(w.next) - 1
	i := w.next[last]
	w.next = w.next[:last]
	w.add(2*i + 1) // a pq.Heap is a binary heap
	w.add(2*i + 2)
}

func (w *walk[T]) add(i int) {
	if i >= len(w.items) {
		return
	}
	at, _ := slices.BinarySearchFunc(w.next, w.items[i], func(j int, x T) int {
		if x.Before(w.items[j]) {
			return -1
		}
		return 1
	})
	w.next = slices.Insert(w.next, at, i)
}

// turns is a tenant's part of a walk through the queue.
type turns struct {
	tenant *tenant
	start  float64 // of its next turn, in virtual time
	places walk[*place]
}

// inOrder yields the places in the order in which their turns are expected, if nothing comes and goes until then.
func (q *queue) inOrder(now time.Time) iter.Seq[*place] {
	if q.order == Fair {
		return q.inFairOrder
	}
	return func(yield func(*place) bool) {
		defer q.byTurn.end()
		if q.order == Shortest {
			defer q.byArrival.end()
			for q.byArrival.begin(&q.oldest); ; q.byArrival.skip() {
				a, ok := q.byArrival.peek()
				if !ok || now.Sub(a.queuedAt) < q.bound {
					break
				}
				if !yield(a.place) {
					return
				}
			}
		}
		for q.byTurn.begin(&q.heap); ; q.byTurn.skip() {
			p, ok := q.byTurn.peek()
			if !ok {
				return
			}
			if q.order == Shortest && now.Sub(p.queuedAt) >= q.bound {
				continue // was yielded
			}
			if !yield(p) {
				return
			}
		}
	}
}

// inFairOrder is inOrder under Fair: it lets the tenants take their turns as take would.
func (q *queue) inFairOrder(yield func(*place) bool) {
	defer q.endFair()
	for q.byTenant.begin(&q.tenants); len(q.turns) < planDepth; q.byTenant.skip() { // others come after all that is planned
		t, ok := q.byTenant.peek()
		if !ok {
			break
		}
		q.turns = slices.Grow(q.turns, 1)[:len(q.turns)+1]
		u := &q.turns[len(q.turns)-1] // with the slice of an earlier walk
		u.tenant, u.start = t, t.start
		u.places.begin(&t.places)
	}
	for {
		var first *turns
		var place *place
		for i := range q.turns {
			u := &q.turns[i]
			p, ok := u.places.peek()
			if ok && (first == nil || u.start < first.start || u.start == first.start && p.seq < place.seq) {
				first, place = u, p
			}
		}
		if first == nil || !yield(place) {
			return
		}
		first.start += first.tenant.toll(place.demand, place.estimate) / first.tenant.weight
		first.places.skip()
	}
}

func (q *queue) endFair() {
	q.byTenant.end()
	for i := range q.turns {
		u := &q.turns[i]
		u.tenant = nil
		u.places.end()
	}
	q.turns = q.turns[:0]
}
