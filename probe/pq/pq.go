// Package pq is a binary heap whose items know their position, so that any of them can be removed or
// moved in logarithmic time. Timers and queues of both cores use it.
package pq

// Item is what a Heap holds: usually a pointer.
type Item[T any] interface {
	// Before reports whether the item comes before other. It must be a strict order; make it total
	// (by a counter) where the order of equals decides anything.
	Before(other T) bool
	// Pos is where the heap keeps the item's position plus one; 0 means not in a heap.
	Pos() *int
}

// Heap is a priority queue. The zero Heap is empty. Not safe for concurrent use.
type Heap[T Item[T]] struct{ items []T }

// Len is the number of items.
func (h *Heap[T]) Len() int { return len(h.items) }

// Min is the first item; the heap must not be empty.
func (h *Heap[T]) Min() T { return h.items[0] }

// All is the items in no particular order. It is the heap's own slice.
func (h *Heap[T]) All() []T { return h.items }

// Push adds an item that is in no heap.
func (h *Heap[T]) Push(x T) {
	h.items = append(h.items, x)
	h.siftUp(len(h.items) - 1)
}

// Pop removes the first item; the heap must not be empty.
func (h *Heap[T]) Pop() T {
	x := h.items[0]
	h.Remove(x)
	return x
}

// Remove takes x out, if it is in.
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

// Fix moves x to where it belongs after its order changed.
func (h *Heap[T]) Fix(x T) {
	h.siftDown(*x.Pos() - 1)
	h.siftUp(*x.Pos() - 1)
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
