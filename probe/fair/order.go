package fair

import (
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// cursor is an account's part of a walk through the tree.
type cursor[T Item[T]] struct {
	account     *Account[T]
	parent      *cursor[T]
	startTag    float64 // of the account's next turn in the walk, in virtual time
	items       pq.Walk[T]
	children    pq.Heap[*cursor[T]]
	hasChildren bool // children is filled
	pos         int
}

func (c *cursor[T]) Before(d *cursor[T]) bool {
	if c.startTag != d.startTag {
		return c.startTag < d.startTag
	}
	return c.firstItem().Before(d.firstItem())
}

func (c *cursor[T]) Pos() *int { return &c.pos }

// firstItem returns the next item of the walk. There must be such an item.
func (c *cursor[T]) firstItem() T {
	for c.hasChildren {
		c = c.children.Min()
	}
	if c.account.waiting.Len() > 0 {
		return c.account.firstItem()
	}
	x, _ := c.items.Peek()
	return x
}

// InOrder yields the items in the order of their turns, as if no item comes or goes and each turn costs what is
// expected. The accounts are not charged. Of each account, the given number of children take part: the children with
// the earliest turns. Other children are left out.
func (t *Tree[T]) InOrder(children int, yield func(T) bool) {
	defer t.releaseCursors()
	root := t.newCursor(&t.root, nil)
	for t.root.hasItems() {
		c := root
		for c.account.waiting.Len() > 0 {
			if !c.hasChildren {
				t.fillCursor(c, children)
			}
			if c.children.Len() == 0 {
				return
			}
			c = c.children.Min()
		}
		x, _ := c.items.Peek()
		if t.next = c; !yield(x) {
			return
		}
		cost := c.account.turnCost(x.TurnCost())
		c.items.Skip()
		_, more := c.items.Peek()
		for ; c.parent != nil; c = c.parent {
			c.startTag += cost / c.account.weight
			if more {
				c.parent.children.Fix(c)
			} else {
				c.parent.children.Remove(c)
			}
			more = c.parent.children.Len() > 0
		}
	}
}

// fillCursor makes cursors for the waiting children of c, at most the given number.
func (t *Tree[T]) fillCursor(c *cursor[T], most int) {
	c.hasChildren = true
	for t.walk.Start(&c.account.waiting); c.children.Len() < most; t.walk.Skip() {
		a, ok := t.walk.Peek()
		if !ok {
			break
		}
		c.children.Push(t.newCursor(a, c))
	}
	t.walk.End()
}

func (t *Tree[T]) newCursor(a *Account[T], parent *cursor[T]) *cursor[T] {
	if t.cursorsUsed == len(t.cursors) {
		t.cursors = append(t.cursors, &cursor[T]{})
	}
	c := t.cursors[t.cursorsUsed] // reuses the slices of an earlier walk
	t.cursorsUsed++
	c.account, c.parent, c.startTag = a, parent, a.startTag
	a.cursor = c
	c.items.Start(&a.items)
	return c
}

// releaseCursors ends a walk, and drops all pointers to items and accounts.
func (t *Tree[T]) releaseCursors() {
	for _, c := range t.cursors[:t.cursorsUsed] {
		for c.children.Len() > 0 {
			c.children.Remove(c.children.All()[c.children.Len()-1])
		}
		c.account.cursor = nil
		c.account, c.parent, c.hasChildren = nil, nil, false
		c.items.End()
	}
	t.cursorsUsed, t.next = 0, nil
}

// Newcomer stands for an item that would come now. ComesNext finds the place of the item in a walk (InOrder).
type Newcomer[T Item[T]] struct {
	item    T
	account *Account[T] // of the tenant; or of the next path above with an account
	isOpen  bool        // account is the tenant's own
}

// NewNewcomer returns a newcomer of the tenant at path. The item x is in no tree. Item.Before compares x with other
// items if their turns come at the same time.
func (t *Tree[T]) NewNewcomer(path string, x T) Newcomer[T] {
	n := Newcomer[T]{item: x, account: &t.root}
	for above := range probe.TenantPaths(path) {
		a := t.inner[above]
		if a == nil || above == path {
			if own := t.leafAt(above); own != nil {
				return Newcomer[T]{item: x, account: own, isOpen: above == path}
			}
		}
		if a == nil {
			break
		}
		n.account = a
	}
	return n
}

// ComesNext reports whether n would have its turn before the item that InOrder yields. Call ComesNext only in the
// function yield.
func (t *Tree[T]) ComesNext(n *Newcomer[T]) bool {
	x := t.next.firstItem()
	var below *Account[T] // the part of n's path below the account
	for a := n.account; ; below, a = a, a.parent {
		var child *cursor[T] // the part of x's path below the account
		c := t.next
		for c != nil && c.account != a {
			child, c = c, c.parent
		}
		if c == nil {
			continue // the account is not on x's path
		}
		start, rival := 0.0, 0.0
		switch {
		case child == nil && (n.isOpen || a.parent == nil): // x and n are of the same tenant
			return n.item.Before(x)
		case child == nil: // x's tenant would become a parent, with n as a new child beside x
			start, rival = a.startTag, c.startTag
		case below == nil:
			start, rival = a.nextVirtual(), child.startTag
		case below.cursor != nil:
			start, rival = below.cursor.startTag, child.startTag
		default:
			start, rival = below.nextStart(), child.startTag
		}
		if start != rival {
			return start < rival
		}
		return n.item.Before(x)
	}
}
