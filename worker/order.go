package worker

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// Order is the policy for the order of the queue.
type Order uint8

const (
	// Fair lets tenants take turns by weight (start-time fair queueing). A tenant's own places go by priority,
	// and then by arrival.
	Fair     Order = iota
	FIFO           // by arrival
	Priority       // higher priority first, then by arrival
	Shortest       // smallest estimate first; a place that waited for StarvationBound goes before
)

var orderNames = []string{"fair", "fifo", "priority", "shortest"}

func (o Order) String() string { return orderNames[o] }

// ParseOrder returns the Order with this name.
func ParseOrder(s string) (Order, error) {
	for i, name := range orderNames {
		if s == name {
			return Order(i), nil
		}
	}
	return 0, fmt.Errorf("queue order %q is unknown: use one of %q", s, orderNames)
}

// newPolicy returns the policy of o for q.
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

// policy holds the places of a queue in a certain Order. Each Order has a file of its own.
type policy interface {
	// addPlace adds p. A returning place keeps its position among places of equal rank.
	addPlace(p *place)
	// removePlace takes out p, which must be in the queue.
	removePlace(p *place)
	// nextPlace returns the place with the next turn. The queue must not be empty.
	nextPlace(now time.Time) *place
	// inOrder yields the places in the expected order of their turns, if no place comes or goes until then.
	inOrder(now time.Time) iter.Seq[*place]
	// allPlaces yields the places in no particular order.
	allPlaces() iter.Seq[*place]

	// openAccount makes the account of a new tenant. closeAccount drops the account. setWeights sets the weights
	// along the path of the tenant.
	openAccount(t *tenant)
	closeAccount(t *tenant)
	setWeights(t *tenant, weights []uint32)
	// chargeTurn charges the tenant of p for its turn. p is still in the queue.
	chargeTurn(p *place)
	// chargeAttempt charges a tenant for an attempt without a place in the queue.
	chargeAttempt(t *tenant, d probe.Demand, expected time.Duration) bill
}

// unpaid is the part of a policy without accounts.
type unpaid struct{}

func (unpaid) openAccount(*tenant)                                         {}
func (unpaid) closeAccount(*tenant)                                        {}
func (unpaid) setWeights(*tenant, []uint32)                                {}
func (unpaid) chargeTurn(*place)                                           {}
func (unpaid) chargeAttempt(*tenant, probe.Demand, time.Duration) (b bill) { return }

// walk visits the items of a heap in their order, without changing the heap. After an item, its children in the
// heap become candidates. A walk is good until the heap changes.
type walk[T pq.Item[T]] struct {
	items      []T
	candidates []int // positions of items that may come next, the best position last
}

func (w *walk[T]) startWalk(h *pq.Heap[T]) {
	w.items, w.candidates = h.All(), w.candidates[:0]
	w.addCandidate(0)
}

// endWalk drops the heap.
func (w *walk[T]) endWalk() { w.items = nil }

// peek returns the next item; ok is false at the end.
func (w *walk[T]) peek() (x T, ok bool) {
	if len(w.candidates) == 0 {
		return x, false
	}
	return w.items[w.candidates[len(w.candidates)-1]], true
}

// skip moves on to the item after the next.
func (w *walk[T]) skip() {
	last := len(w.candidates) - 1
	i := w.candidates[last]
	w.candidates = w.candidates[:last]
	w.addCandidate(2*i + 1) // a pq.Heap is a binary heap
	w.addCandidate(2*i + 2)
}

// visitAll yields the items of h in order until yield returns false.
func (w *walk[T]) visitAll(h *pq.Heap[T], yield func(T) bool) {
	defer w.endWalk()
	for w.startWalk(h); ; w.skip() {
		if x, ok := w.peek(); !ok || !yield(x) {
			return
		}
	}
}

// addCandidate sorts the item at position i in among the candidates, if there is an item.
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
