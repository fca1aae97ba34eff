// Package list is a linked list whose items carry their own links: every operation takes the same time, whatever the
// length, and none allocates. The cores keep in it what comes and goes in any order but is served in one.
package list

import "iter"

// List is items in order. An item is in one list at most, at a time. The zero List is empty. It is not safe for concurrent use.
type List[T Item[T]] struct {
	head, tail T
	n          int
}

// Node is an item's place in its list.
type Node[T any] struct {
	next, prev T
	isListed   bool
}

// Item is a pointer to what is listed, which carries its Node.
type Item[T any] interface {
	comparable
	Links() *Node[T]
}

// Len is how many items there are.
func (l *List[T]) Len() int { return l.n }

// First is the item at the front, or nil.
func (l *List[T]) First() T { return l.head }

// Last is the item at the back, or nil.
func (l *List[T]) Last() T { return l.tail }

// Next is the item behind x, or nil.
func (l *List[T]) Next(x T) T { return x.Links().next }

// Prev is the item before x, or nil.
func (l *List[T]) Prev(x T) T { return x.Links().prev }

// Has reports whether x is in a list.
func Has[T Item[T]](x T) bool { return x.Links().isListed }

// Push puts x, which is in no list, at the back.
func (l *List[T]) Push(x T) { l.InsertAfter(l.tail, x) }

// PushFront puts x, which is in no list, at the front.
func (l *List[T]) PushFront(x T) {
	var zero T
	l.InsertAfter(zero, x)
}

// InsertAfter puts x, which is in no list, behind an item of this one, or at the front if that is nil.
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

// Remove takes x out, which is in this list or in none.
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

// Pop takes the first item out; there must be one.
func (l *List[T]) Pop() T {
	x := l.head
	l.Remove(x)
	return x
}

// All yields the items from front to back. The one that was yielded may be removed meanwhile, and no other.
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
