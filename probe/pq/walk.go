package pq

import "slices"

// Walk visits the items of a heap in their order, without changing the heap. After an item, its children in the
// heap become candidates. A Walk is good until the heap changes. A Walk that has grown allocates nothing.
type Walk[T Item[T]] struct {
	items      []T
	candidates []int // positions of items that may come next, the best position last
}

// Start begins a walk through h.
func (w *Walk[T]) Start(h *Heap[T]) {
	w.items, w.candidates = h.items, w.candidates[:0]
	w.addCandidate(0)
}

// End drops the heap.
func (w *Walk[T]) End() { w.items = nil }

// Peek returns the next item; ok is false at the end.
func (w *Walk[T]) Peek() (x T, ok bool) {
	if len(w.candidates) == 0 {
		return x, false
	}
	return w.items[w.candidates[len(w.candidates)-1]], true
}

// Skip moves on to the item after the next.
func (w *Walk[T]) Skip() {
	last := len(w.candidates) - 1
	i := w.candidates[last]
	w.candidates = w.candidates[:last]
	w.addCandidate(2*i + 1)
	w.addCandidate(2*i + 2)
}

// VisitAll yields the items of h in order until yield returns false.
func (w *Walk[T]) VisitAll(h *Heap[T], yield func(T) bool) {
	defer w.End()
	for w.Start(h); ; w.Skip() {
		if x, ok := w.Peek(); !ok || !yield(x) {
			return
		}
	}
}

// addCandidate sorts the item at position i in among the candidates, if there is an item.
func (w *Walk[T]) addCandidate(i int) {
	if i >= len(w.items) {
		return
	}
	pos, _ := slices.BinarySearchFunc(w.candidates, w.items[i], func(j int, x T) int {
		if x.Before(w.items[j]) {
			return -1
		}
		return 1
	})
	w.candidates = slices.Insert(w.candidates, pos, i)
}
