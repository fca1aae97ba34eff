// Package list is a linked list of items that carry their own links. Every operation takes constant time and
// allocates nothing. The cores use lists for items that come and go in any order, and are served in a fixed order.
package list

import "iter"

// List is a list of items in order. An item is in at most one list at a time. The zero List is empty. A List is not
// safe for concurrent use.
type List[T Item[T]] struct {
	head, tail T
	n          int
}

// Node is an item's place in its list.
type Node[T any] struct {
	next, prev T
	isListed   bool
}

// Item is a pointer to a listed value with a Node.
type Item[T any] interface {
	comparable
	Links() *Node[T]
}

// Len returns the number of items.
func (l *List[T]) Len() int { return l.n }

// First returns the item at the front, or nil.
func (l *List[T]) First() T { return l.head }

// Last returns the item at the back, or nil.
func (l *List[T]) Last() T { return l.tail }

// Next returns the item behind x, or nil.
func (l *List[T]) Next(x T) T { return x.Links().next }

// Prev returns the item before x, or nil.
func (l *List[T]) Prev(x T) T { return x.Links().prev }

// Has reports whether x is in a list.
func Has[T Item[T]](x T) bool { return x.Links().isListed }

// Push puts x at the back. x must not be in a list.
func (l *List[T]) Push(x T) { l.InsertAfter(l.tail, x) }

// PushFront puts x at the front. x must not be in a list.
func (l *List[T]) PushFront(x T) {
	var zero T
	l.InsertAfter(zero, x)
}

// InsertAfter puts x behind an item of this list, or at the front if after is nil. x must not be in a list.
func (l *List[T]) InsertAfter(after, x T) {
	var zero T
	next := l.head
	if after != zero {
		next = after.Links().next
		after.Links().next = x
	} else {
		l.head = x
	}
	if next != zero {
		next.Links().prev = x
	} else {
		l.tail = x
	}
	*x.Links() = Node[T]{next: next, prev: after, isListed: true}
	l.n++
}

// Remove takes x out of this list. If x is in no list, Remove does nothing.
func (l *List[T]) Remove(x T) {
	var zero T
	n := x.Links()
	if !n.isListed {
		return
	}
	if n.prev == zero {
		l.head = n.next
	} else {
		n.prev.Links().next = n.next
	}
	if n.next == zero {
		l.tail = n.prev
	} else {
		n.next.Links().prev = n.prev
	}
	*n = Node[T]{}
	l.n--
}

// Pop takes the first item out. The list must not be empty.
func (l *List[T]) Pop() T {
	x := l.head
	l.Remove(x)
	return x
}

// All yields the items from front to back. During the iteration only the yielded item may be removed.
func (l *List[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		var zero T
		for x := l.head; x != zero; {
			next := x.Links().next
			if !yield(x) {
				return
			}
			x = next
		}
	}
}
