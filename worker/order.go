package worker

import (
	"fmt"
	"iter"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	fairness "github.com/phoebe-sched/phoebe/probe/fair"
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
		return newFair(q, cfg.Weights)
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
	// comesNext reports whether n would have its turn before p, if n came now. Call comesNext while inOrder yields p.
	comesNext(n *newcomer, p *place) bool
	// newNewcomer returns a newcomer for the place x, which is in no queue.
	newNewcomer(x *place) newcomer
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

// newcomer stands for a place that would come now, to be found in the order of a queue.
type newcomer struct {
	place *place
	turn  fairness.Newcomer[*place] // of policies with accounts
}

// unpaid is the part of a policy without accounts.
type unpaid struct{}

func (unpaid) openAccount(*tenant)                                         {}
func (unpaid) closeAccount(*tenant)                                        {}
func (unpaid) setWeights(*tenant, []uint32)                                {}
func (unpaid) chargeTurn(*place)                                           {}
func (unpaid) chargeAttempt(*tenant, probe.Demand, time.Duration) (b bill) { return }
