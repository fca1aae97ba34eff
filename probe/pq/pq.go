// Package pq is a binary heap. The items know their position, so any item can be removed or moved in logarithmic
// time. Timers and queues of both cores use pq.
package pq

// Item is an item of a Heap: usually a pointer.
type Item[T any] interface {
	// Before reports whether the item comes before other. Before must be a strict order. If the order of equal
	// items decides anything, make the order total, by a counter.
	Before(other T) bool
	// Pos points to the item's position plus one, kept by the heap; 0 means not in a heap.
	Pos() *int
}

// Heap is a priority queue. The zero Heap is empty. A Heap is not safe for concurrent use.
type Heap[T Item[T]] struct{ items []T }

// Len returns the number of items.
func (h *Heap[T]) Len() int { return len(h.items) }

// Min returns the first item. The heap must not be empty.
func (h *Heap[T]) Min() T { return h.items[0] }

// All returns the items in no particular order. The result is the heap's own slice.
func (h *Heap[T]) All() []T { return h.items }

// Push adds x. x must not be in a heap.
func (h *Heap[T]) Push(x T) {
	h.items = append(h.items, x)
	h.siftUp(len(h.items) - 1)
}

// Pop removes the first item. The heap must not be empty.
func (h *Heap[T]) Pop() T {
	x := h.items[0]
	h.Remove(x)
	return x
}

// Remove takes x out of the heap. If x is in no heap, Remove does nothing.
func (h *Heap[T]) Remove(x T) {
	i := *x.Pos() - 1
	if i < 0 {
		return
	}
	last := len(h.items) - 1
	moved := h.items[last]
	var zero T
	h.items[last] = zero
	h.items = h.items[:last]
	*x.Pos() = 0
	if i < last {
		h.items[i] = moved
		h.siftDown(i)
		h.siftUp(*moved.Pos() - 1)
	}
}

// Fix moves x to its new position after its order changed.
func (h *Heap[T]) Fix(x T) {
	h.siftDown(*x.Pos() - 1)
	h.siftUp(*x.Pos() - 1)
}

// Reorder moves all items to their new positions after the order of several items changed. Reorder takes linear time.
func (h *Heap[T]) Reorder() {
	for i := len(h.items)/2 - 1; i >= 0; i-- {
		h.siftDown(i)
	}
}

// IsInOrder reports whether each item has its position. IsInOrder is for tests.
func (h *Heap[T]) IsInOrder() bool {
	for i, x := range h.items {
		if *x.Pos() != i+1 || i > 0 && x.Before(h.items[(i-1)/2]) {
			return false
		}
	}
	return true
}

func (h *Heap[T]) siftUp(i int) {
	x := h.items[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !x.Before(h.items[parent]) {
			break
		}
		h.putAt(i, h.items[parent])
		i = parent
	}
	h.putAt(i, x)
}

func (h *Heap[T]) siftDown(i int) {
	x := h.items[i]
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if r := child + 1; r < len(h.items) && h.items[r].Before(h.items[child]) {
			child = r
		}
		if !h.items[child].Before(x) {
			break
		}
		h.putAt(i, h.items[child])
		i = child
	}
	h.putAt(i, x)
}

func (h *Heap[T]) putAt(i int, x T) {
	h.items[i] = x
	*x.Pos() = i + 1
}
