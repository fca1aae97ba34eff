package worker

import (
	"fmt"
	"iter"
	"maps"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// Order is the policy by which queued places take their turns.
type Order uint8

const (
	FIFO     Order = iota // by arrival
	Priority              // higher priority first, then by arrival
	Fair                  // tenants take turns by weight (start-time fair queueing), each its own by arrival
	Shortest              // smallest estimate first, but whoever waited for StarvationBound goes ahead
)

var orderNames = []string{"fifo", "priority", "fair", "shortest"}

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

// queue holds the places whose turn has not come, in the order of the policy.
type queue struct {
	order   Order
	bound   time.Duration      // Shortest only
	weights map[string]float64 // Fair only; a tenant that is not named weighs 1

	n       int
	heap    pq.Heap[*place]    // all but Fair
	oldest  pq.Heap[arrival]   // Shortest only: the same places by arrival
	tenants pq.Heap[*tenant]   // Fair only: those with places in the queue
	known   map[string]*tenant // Fair only: those, and some that were: what one of them owes is a turn at most
	virtual float64            // Fair only: when the last turn began, in virtual time
}

// tenant is one tenant's part of the queue, in order of arrival. A turn costs its expected CPU time over
// the tenant's weight, and the tenant's next one begins no earlier than that later in virtual time. The
// turn is what costs: a place that was cancelled cost nothing, one that comes round again pays again.
type tenant struct {
	name   string
	weight float64
	places pq.Heap[*place]
	start  float64 // of the next turn, in virtual time
	pos    int
}

func (t *tenant) Before(u *tenant) bool {
	if t.start != u.start {
		return t.start < u.start
	}
	return t.places.Min().seq < u.places.Min().seq
}

func (t *tenant) Pos() *int { return &t.pos }

// arrival orders places by when they came.
type arrival struct{ *place }

func (a arrival) Before(b arrival) bool { return a.seq < b.seq }
func (a arrival) Pos() *int             { return &a.arrivalPos }

func (q *queue) len() int { return q.n }

// push adds p. A place that was in the queue before keeps its position among those of its key, and under
// Fair among those of its tenant.
func (q *queue) push(p *place) {
	q.n++
	switch q.order {
	case Fair:
		t := q.tenant(p.tenant)
		if t.places.Len() > 0 {
			t.places.Push(p)
			q.tenants.Fix(t) // p may be its oldest
			return
		}
		t.start = max(t.start, q.virtual)
		t.places.Push(p)
		q.tenants.Push(t)
		return
	case Priority:
		p.key = -float64(p.priority)
	case Shortest:
		p.key = float64(p.estimate)
		if p.estimate == 0 {
			p.key = float64(q.bound) // unknown: behind what is known to be short
		}
		q.oldest.Push(arrival{p})
	}
	q.heap.Push(p)
}

func (q *queue) tenant(name string) *tenant {
	if t := q.known[name]; t != nil {
		return t
	}
	if len(q.known) > 2*q.tenants.Len()+1000 {
		maps.DeleteFunc(q.known, func(_ string, t *tenant) bool { return t.places.Len() == 0 })
	}
	t := &tenant{name: name, weight: q.weights[name]}
	if t.weight <= 0 {
		t.weight = 1
	}
	q.known[name] = t
	return t
}

// unknownCost is what a task without an estimate is taken to need, where one must be compared with others.
const unknownCost = 10 * time.Millisecond

// head is the place whose turn is next; the queue must not be empty.
func (q *queue) head(now time.Time) *place {
	switch q.order {
	case Fair:
		return q.tenants.Min().places.Min()
	case Shortest:
		if first := q.oldest.Min(); now.Sub(first.queuedAt) >= q.bound {
			return first.place
		}
	}
	return q.heap.Min()
}

// remove takes p out, if it is in.
func (q *queue) remove(p *place) {
	if p.pos == 0 {
		return
	}
	q.n--
	switch q.order {
	case Fair:
		t := q.known[p.tenant]
		t.places.Remove(p)
		if t.places.Len() > 0 {
			q.tenants.Fix(t)
			return
		}
		q.tenants.Remove(t)
		return
	case Shortest:
		q.oldest.Remove(arrival{p})
	}
	q.heap.Remove(p)
}

// take is remove for a place whose turn has come: under Fair its tenant pays for it.
func (q *queue) take(p *place) {
	if q.order == Fair {
		t, estimate := q.known[p.tenant], p.estimate
		if estimate == 0 {
			estimate = unknownCost
		}
		q.virtual = max(q.virtual, t.start)
		t.start += estimate.Seconds() * float64(max(p.demand.CPU, 1)) / t.weight
	}
	q.remove(p)
}

// all yields the places in no particular order.
func (q *queue) all() iter.Seq[*place] {
	return func(yield func(*place) bool) {
		for _, p := range q.heap.All() {
			if !yield(p) {
				return
			}
		}
		for _, t := range q.tenants.All() {
			for _, p := range t.places.All() {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// place is one ResID on one link: queued, or asked about, or gone.
type place struct {
	link     *link
	res      probe.ResID
	job      probe.JobID
	tenant   string
	priority int32
	demand   probe.Demand
	estimate time.Duration
	launch   *probe.Launch // of a task bound early

	mayAskEarly bool

	turn     probe.Turn
	state    placeState
	queuedAt time.Time
	askedAt  time.Time

	seq             uint64 // order of arrival
	key             float64
	pos, arrivalPos int
	node            node[*place] // in the list of those asked
}

type placeState uint8

const (
	queued placeState = iota
	parked            // queued, but its frontend was silent when last asked
	held              // Ready is out and a slot is held
	early             // Ready is out, ahead of a slot that is expected to fall free
)

func (p *place) Before(q *place) bool {
	if p.key != q.key {
		return p.key < q.key
	}
	return p.seq < q.seq
}

func (p *place) Pos() *int { return &p.pos }
