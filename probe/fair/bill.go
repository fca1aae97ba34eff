package fair

import (
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// Bill is the cost so far of a turn, or of a use that began without a turn. Costs are in millicores times nanoseconds.
// The owner keeps the Bill until the end of the use, and then settles the Bill once.
type Bill[T Item[T]] struct {
	account   *Account[T] // nil: no account pays
	paid      float64     // in advance
	usedSince time.Duration
	cpu       probe.Millicores
	inUse     bool // room is in use, since usedSince
	guessed   bool // paid was computed from Account.meanRun
}

// turnCost returns the expected cost of a turn, in millicores times nanoseconds. An expected run time of 0 or less
// is unknown, and meanRun counts.
func (a *Account[T]) turnCost(d probe.Demand, expected time.Duration) float64 {
	if expected <= 0 {
		expected = a.meanRun
	}
	return float64(expected) * float64(max(d.CPU, 1))
}

// payInAdvance charges a and its parents for a turn. The caller updates their positions.
func (a *Account[T]) payInAdvance(d probe.Demand, expected time.Duration) Bill[T] {
	b := Bill[T]{account: a, paid: a.turnCost(d, expected), cpu: max(d.CPU, 1), guessed: expected <= 0}
	for payer := a; payer.parent != nil; payer = payer.parent {
		payer.parent.advanceVirtual()
	}
	for ; a.parent != nil; a = a.parent {
		a.parent.lastPayer = a
		a.openBills++
		a.paidAhead += b.paid
		a.startTag += b.paid / a.weight
	}
	return b
}

// ChargeTurn charges the tenant of x for a turn, which is on until EndTurn. The caller then removes x.
func (t *Tree[T]) ChargeTurn(a *Account[T], x T) Bill[T] {
	b := a.payInAdvance(x.TurnCost())
	for above := a; above != nil; above = above.parent {
		above.openTurns++
	}
	return b
}

// ChargeUse charges a tenant for a use without an item.
func (t *Tree[T]) ChargeUse(a *Account[T], d probe.Demand, expected time.Duration) Bill[T] {
	t.catchUpStart(a)
	b := a.payInAdvance(d, expected)
	a.updatePosition()
	return b
}

// Account returns the paying account, or nil.
func (b *Bill[T]) Account() *Account[T] { return b.account }

// EndTurn notes that the turn of the bill is no longer on.
func (b *Bill[T]) EndTurn() {
	for a := b.account; a != nil; a = a.parent {
		a.openTurns--
	}
}

// StartUse notes that the room of the bill is in use from now on.
func (b *Bill[T]) StartUse() {
	if b.account == nil || b.inUse {
		return
	}
	b.inUse, b.usedSince = true, *b.account.tree.clock
	for a := b.account; a.parent != nil; a = a.parent {
		a.useRate += float64(b.cpu)
		a.begunSum += float64(b.cpu) * float64(b.usedSince)
	}
}

// Settle closes the bill, and corrects the payment to the real use: the time that the room was in use, or the run time
// of the task if longer. The argument ran is 0 if no task ran.
func (b Bill[T]) Settle(ran time.Duration) {
	if b.account == nil {
		return
	}
	used := time.Duration(0)
	if b.inUse {
		used = max(ran, *b.account.tree.clock-b.usedSince)
	}
	if b.guessed && ran > 0 {
		b.account.meanRun += (used - b.account.meanRun) / 8
	}
	for a := b.account; a.parent != nil; a = a.parent {
		if b.inUse {
			a.useRate -= float64(b.cpu)
			a.begunSum -= float64(b.cpu) * float64(b.usedSince)
		}
		a.paidAhead -= b.paid
		a.startTag += (float64(used)*float64(b.cpu) - b.paid) / a.weight
		if a.openBills--; a.openBills == 0 {
			a.paidAhead, a.useRate, a.begunSum = 0, 0, 0 // the sums keep small rounding errors
		}
	}
	if b.account.tree.count > 0 {
		b.account.updatePosition()
	}
}
