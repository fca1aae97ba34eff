// Package lent reuses the memory of values that are made in great numbers and needed only for a short time.
package lent

import "sync"

// Of lends values. The zero Of has lent no value.
type Of[T any] struct{ list []T }

// maxKept is the number of values whose memory an Of keeps.
const maxKept = 1024

// Take lends n values until TakeBack, all zero. Values lent before stay where they are.
func (o *Of[T]) Take(n int) []T {
	at := len(o.list)
	if at+n > cap(o.list) {
		o.list, at = make([]T, 0, max(n, min(2*cap(o.list), maxKept))), 0
	}
	o.list = o.list[:at+n]
	return o.list[at : at+n : at+n]
}

// New lends a zero value until TakeBack.
func (o *Of[T]) New() *T { return &o.Take(1)[0] }

// Lend lends a copy of v until TakeBack.
func (o *Of[T]) Lend(v T) *T {
	p := o.New()
	*p = v
	return p
}

// TakeBack ends the use of all lent values.
func (o *Of[T]) TakeBack() {
	if cap(o.list) > maxKept {
		o.list = nil
		return
	}
	clear(o.list)
	o.list = o.list[:0]
}

// Pool is the common memory of users that lend only now and then. Between two uses, a user has no memory. A Pool is
// safe for concurrent use.
type Pool[T any] struct{ idle sync.Pool }

// Of returns *o. If *o is nil, Of first sets it to an Of from the pool.
func (p *Pool[T]) Of(o **Of[T]) *Of[T] {
	if *o == nil {
		if *o, _ = p.idle.Get().(*Of[T]); *o == nil {
			*o = new(Of[T])
		}
	}
	return *o
}

// TakeBack ends the use of all values lent by *o, gives *o back to the pool and sets it to nil. A nil *o is left
// alone.
func (p *Pool[T]) TakeBack(o **Of[T]) {
	if *o != nil {
		(*o).TakeBack()
		p.idle.Put(*o)
		*o = nil
	}
}
