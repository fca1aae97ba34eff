package frontend

import (
	"iter"
	"slices"

	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// line is a queue of items (tasks, or spots on a shelf) to be given to workers. An item may shun one worker: its
// task failed there and would fail again. Items with a shunned worker stand before the rest, in a list for each
// shunned worker. So the item for a worker is found in the same time, however many items shun the worker.
type line[T lineItem[T]] struct {
	shunLists []shunList[T] // each has items
	rest      list.List[T]
	n         int
}

// shunList is the items that shun the same worker.
type shunList[T lineItem[T]] struct {
	worker *view.Worker
	list.List[T]
}

// lineItem is an item of a line.
type lineItem[T any] interface {
	list.Item[T]
	// Shunned returns the worker to avoid, or nil. The answer stays the same while the item is in a line.
	Shunned() *view.Worker
}

func (l *line[T]) Len() int { return l.n }

// First returns the item at the front, or nil.
func (l *line[T]) First() T {
	if len(l.shunLists) > 0 {
		return l.shunLists[0].First()
	}
	return l.rest.First()
}

// Last returns the item at the back, or nil.
func (l *line[T]) Last() T {
	if l.rest.Len() > 0 || len(l.shunLists) == 0 {
		return l.rest.Last()
	}
	return l.shunLists[len(l.shunLists)-1].Last()
}

// FirstFor returns the first item that does not shun w, or nil. If w is nil, it returns the first item.
func (l *line[T]) FirstFor(w *view.Worker) T {
	for i := range l.shunLists { // at most one list is for w
		if l.shunLists[i].worker != w {
			return l.shunLists[i].First()
		}
	}
	return l.rest.First()
}

// All yields the items from front to back. The line must not change meanwhile.
func (l *line[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range l.shunLists {
			for x := range l.shunLists[i].All() {
				if !yield(x) {
					return
				}
			}
		}
		l.rest.All()(yield)
	}
}

// Push puts x at the back of the items that shun the same worker, or of the rest.
func (l *line[T]) Push(x T) {
	l.n++
	l.listShunning(x.Shunned()).Push(x)
}

// PushFront puts x at the front of the items that shun the same worker, or of the rest.
func (l *line[T]) PushFront(x T) {
	l.n++
	l.listShunning(x.Shunned()).PushFront(x)
}

// listShunning returns the list of the items that shun w, or the rest if w is nil. It makes a missing list.
func (l *line[T]) listShunning(w *view.Worker) *list.List[T] {
	if w == nil {
		return &l.rest
	}
	i := slices.IndexFunc(l.shunLists, func(s shunList[T]) bool { return s.worker == w })
	if i < 0 {
		i = len(l.shunLists)
		l.shunLists = append(l.shunLists, shunList[T]{worker: w})
	}
	return &l.shunLists[i].List
}

// Remove takes x out. Nothing happens if x is in no line; x must not be in another line.
func (l *line[T]) Remove(x T) {
	if !list.Has(x) {
		return
	}
	l.n--
	w := x.Shunned()
	if l.listShunning(w).Remove(x); w != nil {
		l.shunLists = slices.DeleteFunc(l.shunLists, func(s shunList[T]) bool { return s.Len() == 0 })
	}
}
