package worker

import (
	"fmt"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// Order is the policy by which queued places take their turns.
type Order uint8

const (
	FIFO     Order = iota // by arrival
	Priority              // higher priority first, then by arrival
	Fair                  // tenants share by weight (start-time fair queueing), then by arrival
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

	heap    pq.Heap[*place]
	oldest  pq.Heap[arrival]       // Shortest only: the same places by arrival
	virtual float64                // Fair only: key of the place whose turn came last
	finish  map[string]*tenantTurn // Fair only
}

// tenantTurn is where a tenant with places in the queue stands in virtual time.
type tenantTurn struct {
	last   float64 // virtual finish of its last place
	places int
}

// arrival orders places by when they came.
type arrival struct{ *place }

func (a arrival) Before(b arrival) bool { return a.seq < b.seq }
func (a arrival) Pos() *int             { return &a.arrivalPos }

func (q *queue) len() int { return q.heap.Len() }

// push adds p. A place that was in the queue before keeps its key, and so its position.
func (q *queue) push(p *place) {
	if !p.keyed {
		p.keyed = true
		switch q.order {
		case Priority:
			p.key = -float64(p.priority)
		case Shortest:
			p.key = float64(p.estimate)
			if p.estimate == 0 {
				p.key = float64(q.bound) // unknown: behind what is known to be short
			}
		case Fair:
			p.key = q.fairKey(p)
		}
	}
	if q.order == Fair {
		q.tenant(p.tenant).places++
	}
	q.heap.Push(p)
	if q.order == Shortest {
		q.oldest.Push(arrival{p})
	}
}

func (q *queue) tenant(name string) *tenantTurn {
	t := q.finish[name]
	if t == nil {
		t = &tenantTurn{last: q.virtual}
		q.finish[name] = t
	}
	return t
}

// fairKey is the place's start tag: no earlier than now in virtual time, no earlier than the end of the
// tenant's places before it. A place costs its expected CPU time over the tenant's weight.
func (q *queue) fairKey(p *place) float64 {
	weight := q.weights[p.tenant]
	if weight <= 0 {
		weight = 1
	}
	estimate := p.estimate
	if estimate == 0 {
		estimate = unknownCost
	}
	t := q.tenant(p.tenant)
	key := max(q.virtual, t.last)
	t.last = key + estimate.Seconds()*float64(max(p.demand.CPU, 1))/weight
	return key
}

// unknownCost is what a task without an estimate is taken to need, where one must be compared with others.
const unknownCost = 10 * time.Millisecond

// head is the place whose turn is next; the queue must not be empty.
func (q *queue) head(now time.Time) *place {
	if q.order == Shortest {
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
	q.heap.Remove(p)
	switch q.order {
	case Shortest:
		q.oldest.Remove(arrival{p})
	case Fair:
		if t := q.finish[p.tenant]; t.places > 1 {
			t.places--
		} else {
			delete(q.finish, p.tenant)
		}
	}
}

// take is remove for a place whose turn has come: virtual time advances.
func (q *queue) take(p *place) {
	q.virtual = max(q.virtual, p.key)
	q.remove(p)
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
	keyed           bool
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
