package frontend

import (
	"iter"
	"slices"

	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// line is what waits to be given to workers, first to be given at the front. What shuns a worker stands before the rest,
// in a list for each worker shunned: so it takes the same time to find what a worker gets, however many shun it.
type line[T lineItem[T]] struct {
	shunLists []shunList[T] // none is empty
	rest      list.List[T]
	n         int
}

type shunList[T lineItem[T]] struct {
	worker *view.Worker
	list.List[T]
}

type lineItem[T any] interface {
	list.Item[T]
	// Shunned is the worker that it had better not be given to, or nil: the same one while it waits.
	Shunned() *view.Worker
}

func (l *line[T]) Len() int { return l.n }

// First is what is at the front, or nil.
func (l *line[T]) First() T {
	if len(l.shunLists) > 0 {
		return l.shunLists[0].First()
	}
	return l.rest.First()
}

// Last is what is at the back, or nil.
func (l *line[T]) Last() T {
	if l.rest.Len() > 0 || len(l.shunLists) == 0 {
		return l.rest.Last()
	}
	return l.shunLists[len(l.shunLists)-1].Last()
}

// FirstFor is the first that does not shun w, or nil; of w nil, the first.
func (l *line[T]) FirstFor(w *view.Worker) T {
	for i := range l.shunLists { // at most one is of w
		if l.shunLists[i].worker != w {
			return l.shunLists[i].First()
		}
	}
	return l.rest.First()
}

// All yields what waits, from front to back. None may come or go meanwhile.
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

// Push puts x at the back of those that shun the same worker, or none.
func (l *line[T]) Push(x T) {
	l.n++
	l.listShunning(x.Shunned()).Push(x)
}

// PushFront puts x at the front of those.
func (l *line[T]) PushFront(x T) {
	l.n++
	l.listShunning(x.Shunned()).PushFront(x)
}

// listShunning is the list of those that shun w, or of the rest.
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

// Remove takes x out, which waits here or not at all.
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
