package worker

import (
	"iter"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	fairness "github.com/phoebe-sched/phoebe/probe/fair"
)

// fair is the policy of Fair: tenants take turns by weight (package probe/fair). With a single tenant, the order is by
// priority, then by arrival.
type fair struct {
	*fairness.Tree[*place]
	queue      *queue
	byWorkLeft bool               // orders a tenant's places by the work left of their jobs, not by priority
	weights    map[string]float64 // of tenants whose frontends send no weights
}

type account = fairness.Account[*place]

// bill is the cost so far of a turn, or of an attempt that started without a turn. The bill is on the place until
// the place has a task, and then on the attempt.
type bill struct {
	fairness.Bill[*place]
	queue *queue // nil: no account pays
}

// newFair returns the policy for q. The tenants have these weights if their frontends send none.
func newFair(q *queue, weights map[string]float64) *fair {
	return &fair{queue: q, weights: weights, Tree: fairness.NewTree(&q.now, func(path string) *account {
		if t := q.tenants[path]; t != nil {
			return &t.account
		}
		return nil
	})}
}

func (f *fair) openAccount(t *tenant) { f.Open(&t.account, t.name, f.weights[t.name]) }

func (f *fair) closeAccount(t *tenant) { f.Close(&t.account) }

func (f *fair) setWeights(t *tenant, weights []uint32) { f.SetWeights(&t.account, weights) }

func (f *fair) addPlace(p *place) {
	f.setSortKey(p)
	f.Push(&p.queueTenant.account, p)
}

// setSortKey ranks p among the places of its tenant.
func (f *fair) setSortKey(p *place) {
	if p.sortKey = -float64(p.priority); f.byWorkLeft {
		p.sortKey = float64(p.workLeft)
	}
}

func (f *fair) removePlace(p *place) { f.Remove(&p.queueTenant.account, p) }

func (f *fair) nextPlace(time.Time) *place { return f.Min() }

func (f *fair) chargeTurn(p *place) {
	p.bill = bill{f.ChargeTurn(&p.queueTenant.account, p), f.queue}
}

// chargeAttempt charges t for an attempt without a place in the queue.
func (f *fair) chargeAttempt(t *tenant, d probe.Demand, expected time.Duration) bill {
	if t.isIdle() {
		f.queue.busyTenants++
	}
	return bill{f.ChargeUse(&t.account, d, expected), f.queue}
}

func (f *fair) newNewcomer(x *place) newcomer {
	f.setSortKey(x)
	return newcomer{x, f.NewNewcomer(x.tenant, x)}
}

func (f *fair) comesNext(n *newcomer, _ *place) bool { return f.ComesNext(&n.turn) }

// inOrder lets the tenants take turns in the same order as nextPlace. Tenants, or paths with the same parent, beyond
// planDepth come after the planned part, and are left out.
func (f *fair) inOrder(time.Time) iter.Seq[*place] {
	return func(yield func(*place) bool) { f.InOrder(planDepth, yield) }
}

func (f *fair) allPlaces() iter.Seq[*place] { return f.All }

// TurnCost implements fair.Item: a turn costs what the place is expected to use.
func (p *place) TurnCost() (probe.Demand, time.Duration) { return p.demand, p.expectedRun }

// settle closes the bill, and corrects the payment to the real use: the time that the room was in use, or the run time
// of the task if longer. The argument ran is 0 if no task ran. A bill is settled once.
func (b bill) settle(ran time.Duration) {
	q := b.queue
	if q == nil {
		return
	}
	if b.Settle(ran); q.placeCount > 0 {
		q.changes++
	}
	if t := b.Account(); !t.HasBills() && t.Len() == 0 {
		q.busyTenants--
	}
}

// takeBill takes the bill off p, and closes the turn in the accounts if the turn has begun. The caller settles the
// bill, or passes it to an attempt. Without a turn or without accounts the bill is empty.
func (p *place) takeBill() bill {
	b := p.bill
	b.EndTurn()
	p.bill = bill{}
	return b
}
