package worker

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// Order is the policy by which queued places take their turns.
type Order uint8

const (
	Fair     Order = iota // tenants take turns by weight (start-time fair queueing), each its own by priority, then by arrival
	FIFO                  // by arrival
	Priority              // higher priority first, then by arrival
	Shortest              // smallest estimate first, but whoever waited for StarvationBound goes ahead
)

var orderNames = []string{"fair", "fifo", "priority", "shortest"}

func (o Order) String() string { return orderNames[o] }

// ParseOrder reads an Order's name.
func ParseOrder(s string) (Order, error) {
	for i, name := range orderNames {
		if s == name {
			return Order(i), nil
		}
	}
	return 0, fmt.Errorf("queue order %q is unknown: use one of %q", s, orderNames)
}

func (o Order) newPolicy(cfg *Config, q *queue) policy {
	switch o {
	case Fair:
		return &fair{queue: q, weights: cfg.Weights, innerAccounts: map[string]*account{}}
	case Priority:
		return &byPriority{}
	case Shortest:
		return &shortest{starvationBound: cfg.StarvationBound}
	}
	return &fifo{}
}

// policy holds the places of a queue in one Order. Each has a file of its own.
type policy interface {
	// addPlace adds p. One that was in before keeps its position among those that are level with it.
	addPlace(p *place)
	// removePlace takes out p, which is in.
	removePlace(p *place)
	// nextPlace is the place whose turn is next; there must be one.
	nextPlace(now time.Time) *place
	// inOrder yields the places in the order in which their turns are expected, if nothing comes and goes until then.
	inOrder(now time.Time) iter.Seq[*place]
	// allPlaces yields the places in no particular order.
	allPlaces() iter.Seq[*place]

	// openAccount makes the account of a tenant that was not known, close lets go of it, and weigh tells what the parts of its
	// path weigh.
	openAccount(t *tenant)
	closeAccount(t *tenant)
	setWeights(t *tenant, weights []uint32)
	// chargeTurn makes the tenant of p, which is still in, pay for the turn that has come.
	chargeTurn(p *place)
	// chargeAttempt makes a tenant pay for an attempt that has no place in the queue.
	chargeAttempt(t *tenant, d probe.Demand, expected time.Duration) bill
}

// unpaid is the part of a policy under which nobody pays.
type unpaid struct{}

func (unpaid) openAccount(*tenant)                                         {}
func (unpaid) closeAccount(*tenant)                                        {}
func (unpaid) setWeights(*tenant, []uint32)                                {}
func (unpaid) chargeTurn(*place)                                           {}
func (unpaid) chargeAttempt(*tenant, probe.Demand, time.Duration) (b bill) { return }

// walk visits the items of a heap in their order, without changing it: after an item, those below it may come next. It
// is good until the heap changes.
type walk[T pq.Item[T]] struct {
	items      []T
	candidates []int // positions of items that may come next, the first of them last
}

func (w *walk[T]) startWalk(h *pq.Heap[T]) {
	w.items, w.candidates = h.All(), w.candidates[:0]
	w.addCandidate(0)
}

// endWalk lets go of the heap.
func (w *walk[T]) endWalk() { w.items = nil }

// peek is the next item; ok is false at the end.
func (w *walk[T]) peek() (x T, ok bool) {
	if len(w.candidates) == 0 {
		return x, false
	}
	return w.items[w.candidates[len(w.candidates)-1]], true
}

// skip goes on behind the next item.
func (w *walk[T]) skip() {
	last := len(w.candidates) - 1
	i := w.candidates[last]
	w.candidates = w.candidates[:last]
	w.addCandidate(2*i + 1) // a pq.Heap is a binary heap
	w.addCandidate(2*i + 2)
}

// visitAll yields the items of h until that is told to stop.
func (w *walk[T]) visitAll(h *pq.Heap[T], yield func(T) bool) {
	defer w.endWalk()
	for w.startWalk(h); ; w.skip() {
		if x, ok := w.peek(); !ok || !yield(x) {
			return
		}
	}
}

func (w *walk[T]) addCandidate(i int) {
	if i >= len(w.items) {
		return
	}
	pos, _ := slices.BinarySearchFunc(w.candidates, w.items[i], func(j int, x T) int {
		if x.Before(w.items[j]) {
			return -1
		}
		return 1
	})
	w.candidates = slices.Insert(w.candidates, pos, i)
}
