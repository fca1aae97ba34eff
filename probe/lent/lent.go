// Package lent is for values that a core makes many of, and that are wanted until its next step only: so they take no memory
// of their own.
package lent

// Of is values that are lent. The zero Of has lent none.
type Of[T any] struct{ list []T }

// most is of how many the memory is kept.
const most = 256

// Lend is v, until TakeBack.
func (o *Of[T]) Lend(v T) *T {
	o.list = append(o.list, v) // what was lent before may stay where it was
	return &o.list[len(o.list)-1]
}

// TakeBack ends the use of all that was lent.
func (o *Of[T]) TakeBack() {
	if cap(o.list) > most {
		o.list = nil
		return
	}
	clear(o.list)
	o.list = o.list[:0]
}
