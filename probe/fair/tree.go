package fair

import (
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// AssumedRun is the run time that workers and frontends assume of tasks without an estimate, until run times are known.
// An account assumes the same of its items.
const AssumedRun = 10 * time.Millisecond

// Item is an item of a Tree.
type Item[T any] interface {
	pq.Item[T]
	// TurnCost returns the demand that a turn of the item uses, and the expected time of the use. 0: not known.
	TurnCost() (probe.Demand, time.Duration)
}

// Tree is a queue of items that belong to tenants. A Tree is not safe for concurrent use.
type Tree[T Item[T]] struct {
	clock  *time.Duration // the present time, kept by the owner; never goes back
	leafAt func(path string) *Account[T]
	root   Account[T]
	inner  map[string]*Account[T] // by path: accounts with children
	count  int                    // of items

	walk        pq.Walk[*Account[T]] // scratch of InOrder
	cursors     []*cursor[T]
	cursorsUsed int
	next        *cursor[T] // of the item that InOrder yields
}

// Account is the account of a tenant, or of a path with children. A turn costs CPU time divided by the weight,
// and moves the start of the next turn by that cost in virtual time. The account pays the expected cost when the
// turn begins, so tenants take turns while tasks run. At the end of the use, the account pays the difference to
// the real cost (see Bill). A turn costs, an item does not: a cancelled item costs nothing, and an item with
// another turn pays again. The parents of a tenant pay the same cost, each among its own siblings.
type Account[T Item[T]] struct {
	tree       *Tree[T]
	path       string
	parent     *Account[T] // nil: the root
	childCount int         // number of children
	weight     float64
	startTag   float64 // of the next turn, in the virtual time of the parent
	pos        int

	items pq.Heap[T] // of a tenant

	waiting     pq.Heap[*Account[T]] // children with items
	virtualTime float64              // of the children: the least service over weight; never goes back
	lastPayer   *Account[T]          // the child that was charged last

	cursor *cursor[T] // in a walk that has met the account; else nil

	// meanRun is the recent run time of the tenant's tasks without an expected run time. With a constant instead,
	// the bills would still add up, but only at the end of tasks. Until then a tenant with tasks of minutes would
	// take all slots, and for as long afterwards no slots. An expected run time goes first, even if often wrong,
	// because nothing else tells a tenant's long tasks from short tasks.
	meanRun time.Duration

	openTurns int     // turns that are on
	openBills int     // bills of turns, and of uses without a turn
	paidAhead float64 // paid for openBills in advance
	useRate   float64 // CPU in use by openBills
	begunSum  float64 // over openBills in use: sum of CPU multiplied by usedSince; the use is useRate*now - begunSum
}

// NewTree returns a tree without accounts. The tree reads the present time from clock. The function leafAt returns
// the open account of a tenant by path, or nil.
func NewTree[T Item[T]](clock *time.Duration, leafAt func(path string) *Account[T]) *Tree[T] {
	return &Tree[T]{clock: clock, leafAt: leafAt, inner: map[string]*Account[T]{}}
}

// Before orders the accounts of siblings by their next turns.
func (a *Account[T]) Before(b *Account[T]) bool {
	if a.startTag != b.startTag {
		return a.startTag < b.startTag
	}
	return a.firstItem().Before(b.firstItem())
}

// Pos implements pq.Item.
func (a *Account[T]) Pos() *int { return &a.pos }

// firstItem returns the item at or below a with the next turn. There must be such an item.
func (a *Account[T]) firstItem() T {
	for a.waiting.Len() > 0 {
		a = a.waiting.Min()
	}
	return a.items.Min()
}

// hasItems reports whether there is an item at or below a.
func (a *Account[T]) hasItems() bool { return a.items.Len()+a.waiting.Len() > 0 }

// IsOpen reports whether Open has been called, and Close has not.
func (a *Account[T]) IsOpen() bool { return a.tree != nil }

// Len returns the number of items of a's tenant, without the tenants below.
func (a *Account[T]) Len() int { return a.items.Len() }

// HasBills reports whether a bill of the account is open.
func (a *Account[T]) HasBills() bool { return a.openBills > 0 }

// updatePosition moves a to its position among its siblings, after a change of its items or of its startTag. Then
// each parent of a is moved likewise.
func (a *Account[T]) updatePosition() {
	for ; a.parent != nil; a = a.parent {
		switch siblings := &a.parent.waiting; {
		case !a.hasItems():
			siblings.Remove(a)
		case a.pos > 0:
			siblings.Fix(a)
		default:
			siblings.Push(a)
		}
	}
}

// Open makes a the account of the tenant at path, and makes the accounts of the parents. A weight of 0 or less counts
// as 1. The path must not have an open account.
func (t *Tree[T]) Open(a *Account[T], path string, weight float64) {
	parent := &t.root
	for above := range probe.TenantPaths(path) {
		if above != path {
			parent = t.ensureInnerAccount(above, parent)
		}
	}
	if own := t.inner[path]; own != nil { // the path has children already
		parent, weight = own, 1
	}
	if weight <= 0 {
		weight = 1
	}
	*a = Account[T]{tree: t, path: path, parent: parent, weight: weight, meanRun: AssumedRun}
	parent.childCount++
}

// ensureInnerAccount returns the account of a path with children, and makes the account if there is none. If the path
// was a tenant without children so far, the tenant becomes a child of its own path.
func (t *Tree[T]) ensureInnerAccount(path string, parent *Account[T]) *Account[T] {
	if a := t.inner[path]; a != nil {
		return a
	}
	a := &Account[T]{tree: t, path: path, parent: parent, weight: 1}
	t.inner[path] = a
	parent.childCount++
	if own := t.leafAt(path); own != nil {
		parent.childCount--
		parent.waiting.Remove(own)
		if parent.lastPayer == own {
			parent.lastPayer = a
		}
		a.weight, a.startTag, a.virtualTime = own.weight, own.startTag, own.startTag // own is the only child
		a.openTurns, a.openBills, a.paidAhead, a.useRate, a.begunSum =
			own.openTurns, own.openBills, own.paidAhead, own.useRate, own.begunSum
		a.childCount, a.lastPayer = 1, own
		own.parent, own.weight = a, 1
		own.updatePosition()
	}
	return a
}

// Close drops a, an account without items and bills, and parents without a child left.
func (t *Tree[T]) Close(a *Account[T]) {
	a.tree = nil
	for b := a; b.parent != nil; b = b.parent {
		if b.parent.lastPayer == b {
			b.parent.lastPayer = nil
		}
		if b != a {
			delete(t.inner, b.path)
		}
		if b.parent.childCount--; b.parent.childCount > 0 {
			return
		}
	}
}

// SetWeights sets the weights along the path of a tenant, topmost part first. A missing weight, or 0, changes nothing.
func (t *Tree[T]) SetWeights(a *Account[T], weights []uint32) {
	parts := strings.Count(a.path, "/") + 1
	if t.inner[a.path] != nil {
		a = a.parent
	}
	for i := min(parts, probe.MaxParts) - 1; i >= 0; i, a = i-1, a.parent {
		if i < len(weights) && weights[i] > 0 {
			a.weight = float64(weights[i])
		}
	}
}

// Len returns the number of items.
func (t *Tree[T]) Len() int { return t.count }

// Push adds an item of a's tenant.
func (t *Tree[T]) Push(a *Account[T], x T) {
	t.catchUpStart(a)
	t.count++
	a.items.Push(x)
	a.updatePosition()
}

// Remove takes out an item of a's tenant. If the item is not in the tree, Remove does nothing.
func (t *Tree[T]) Remove(a *Account[T], x T) {
	if *x.Pos() == 0 {
		return
	}
	t.count--
	a.items.Remove(x)
	a.updatePosition()
}

// Reorder moves all items of a's tenant to their new positions after the order of several items changed.
func (t *Tree[T]) Reorder(a *Account[T]) {
	a.items.Reorder()
	a.updatePosition()
}

// Min returns the item with the next turn. There must be an item.
func (t *Tree[T]) Min() T { return t.root.firstItem() }

// All yields the items in no particular order.
func (t *Tree[T]) All(yield func(T) bool) { t.root.yieldItems(yield) }

// yieldItems yields the items at and below a until yield returns false.
func (a *Account[T]) yieldItems(yield func(T) bool) bool {
	for _, x := range a.items.All() {
		if !yield(x) {
			return false
		}
	}
	for _, b := range a.waiting.All() {
		if !b.yieldItems(yield) {
			return false
		}
	}
	return true
}

// catchUpStart prepares a tenant for its next turns if the tenant has no item and no turn is on, and likewise each
// such parent. An idle tenant saves nothing up: its start moves up to virtual time. If the tenant has no open bills,
// virtual time is first brought forward (advanceVirtual). A tenant with open bills keeps the lag behind its siblings
// that it had at the last charge. Otherwise a tenant that has one item after another would lose the lag between two
// items.
func (t *Tree[T]) catchUpStart(a *Account[T]) {
	for ; a.parent != nil && !a.hasItems() && a.openTurns == 0; a = a.parent {
		a.startTag = a.nextStart()
		if a.openBills == 0 {
			a.parent.advanceVirtual()
		}
	}
}

// nextStart returns the start that catchUpStart would give a now.
func (a *Account[T]) nextStart() float64 {
	switch {
	case a.hasItems() || a.openTurns > 0:
		return a.startTag
	case a.openBills > 0:
		return max(a.startTag, a.parent.virtualTime)
	}
	return max(a.startTag, a.parent.nextVirtual())
}

// advanceVirtual brings virtual time forward to the service that the first waiting child has had. Payments in advance
// for use still to come do not count as service. Otherwise, if the siblings of a newcomer had just paid for an hour,
// the newcomer would wait for an hour. But the siblings get most of the hour back if their tasks end early. If no
// child waits, virtual time follows the last payer, so use that no sibling wanted creates no debt.
func (parent *Account[T]) advanceVirtual() { parent.virtualTime = parent.nextVirtual() }

// nextVirtual returns the virtual time that advanceVirtual sets.
func (parent *Account[T]) nextVirtual() float64 {
	child := parent.lastPayer
	if parent.waiting.Len() > 0 {
		child = parent.waiting.Min()
	}
	if child == nil {
		return parent.virtualTime
	}
	// The child's start, less the payments in advance, plus the use so far.
	served := child.startTag -
		(child.paidAhead-(child.useRate*float64(*child.tree.clock)-child.begunSum))/child.weight
	return max(parent.virtualTime, min(child.startTag, served))
}

// AmountOwed returns by how much a tenant, or a parent, is ahead of its waiting siblings in service: the largest such
// amount, in millicores times nanoseconds.
func (a *Account[T]) AmountOwed() (cost float64) {
	for ; a.parent != nil; a = a.parent {
		cost = max(cost, (a.startTag-a.parent.virtualTime)*a.weight)
	}
	return cost
}
