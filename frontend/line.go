package frontend

import (
	"iter"
	"slices"

	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// line is what waits to be given to workers, first to be given at the front. What shuns a worker stands before the rest,
// in a list for each worker shunned: so it takes the same time to find what a worker gets, however many shun it.
type line[T waiter[T]] struct {
	shy  []shy[T] // none is empty
	rest list.List[T]
	n    int
}

type shy[T waiter[T]] struct {
	of *view.Worker
	list.List[T]
}

type waiter[T any] interface {
	list.Item[T]
	// Shunned is the worker that it had better not be given to, or nil: the same one while it waits.
	Shunned() *view.Worker
}

func (l *line[T]) Len() int { return l.n }

// First is what is at the front, or nil.
func (l *line[T]) First() T {
	if len(l.shy) > 0 {
		return l.shy[0].First()
	}
	return l.rest.First()
}

// Last is what is at the back, or nil.
func (l *line[T]) Last() T {
	if l.rest.Len() > 0 || len(l.shy) == 0 {
		return l.rest.Last()
	}
	return l.shy[len(l.shy)-1].Last()
}

// For is the first that does not shun w, or nil; of w nil, the first.
func (l *line[T]) For(w *view.Worker) T {
	for i := range l.shy { // at most one is of w
		if l.shy[i].of != w {
			return l.shy[i].First()
		}
	}
	return l.rest.First()
}

// All yields what waits, from front to back. None may come or go meanwhile.
func (l *line[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range l.shy {
			for x := range l.shy[i].All() {
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
	l.with(x.Shunned()).Push(x)
}

// PushFront puts x at the front of those.
func (l *line[T]) PushFront(x T) {
	l.n++
	l.with(x.Shunned()).PushFront(x)
}

// with is the list of those that shun w, or of the rest.
func (l *line[T]) with(w *view.Worker) *list.List[T] {
	if w == nil {
		return &l.rest
	}
	i := slices.IndexFunc(l.shy, func(s shy[T]) bool { return s.of == w })
	if i < 0 {
		i = len(l.shy)
		l.shy = append(l.shy, shy[T]{of: w})
	}
	return &l.shy[i].List
}

// Remove takes x out, which waits here or not at all.
func (l *line[T]) Remove(x T) {
	if !list.Has(x) {
		return
	}
	l.n--
	w := x.Shunned()
	if l.with(w).Remove(x); w != nil {
		l.shy = slices.DeleteFunc(l.shy, func(s shy[T]) bool { return s.Len() == 0 })
	}
}
