// Package lent is for values that are made in great number, and wanted for a short time only: so they take no memory of their
// own.
package lent

import "sync"

// Of is values that are lent. The zero Of has lent none.
type Of[T any] struct{ list []T }

// maxKept is of how many the memory is kept.
const maxKept = 1024

// Take is n values, all zero, until TakeBack. Those that were lent before stay where they are.
func (o *Of[T]) Take(n int) []T {
	at := len(o.list)
	if at+n > cap(o.list) {
		o.list, at = make([]T, 0, max(n, min(2*cap(o.list), maxKept))), 0
	}
	o.list = o.list[:at+n]
	return o.list[at : at+n : at+n]
}

// New is one value, which is zero, until TakeBack.
func (o *Of[T]) New() *T { return &o.Take(1)[0] }

// Lend is v, until TakeBack.
func (o *Of[T]) Lend(v T) *T {
	p := o.New()
	*p = v
	return p
}

// TakeBack ends the use of all that was lent.
func (o *Of[T]) TakeBack() {
	if cap(o.list) > maxKept {
		o.list = nil
		return
	}
	clear(o.list)
	o.list = o.list[:0]
}

// Pool is the memory of those who lend now and then: between two times they have none. It is safe for concurrent use.
type Pool[T any] struct{ idle sync.Pool }

// Of is *o, which is an Of of the pool from now on if it was nil.
func (p *Pool[T]) Of(o **Of[T]) *Of[T] {
	if *o == nil {
		if *o, _ = p.idle.Get().(*Of[T]); *o == nil {
			*o = new(Of[T])
		}
	}
	return *o
}

// TakeBack ends the use of all that *o has lent, if it is not nil, and of itself: it is nil from now on.
func (p *Pool[T]) TakeBack(o **Of[T]) {
	if *o != nil {
		(*o).TakeBack()
		p.idle.Put(*o)
		*o = nil
	}
}
