package worker

// list is a first-in, first-out list from whose middle items can be removed. An item is in one list at
// most, and carries its node. The zero list is empty.
type list[T listed[T]] struct {
	head, tail T
	n          int
}

type node[T any] struct {
	next, prev T
	in         bool
}

type listed[T any] interface {
	comparable
	linked[T]
}

type linked[T any] interface{ links() *node[T] }

var (
	_ linked[*place]   = (*place)(nil)
	_ linked[*attempt] = (*attempt)(nil)
	_ linked[*memory]  = (*memory)(nil)
)

func (p *place) links() *node[*place]     { return &p.node }
func (a *attempt) links() *node[*attempt] { return &a.node }
func (m *memory) links() *node[*memory]   { return &m.node }

// first is the oldest item, or nil.
func (l *list[T]) first() T { return l.head }

func (l *list[T]) push(x T) {
	var none T
	*x.links() = node[T]{prev: l.tail, in: true}
	if l.tail == none {
		l.head = x
	} else {
		l.tail.links().next = x
	}
	l.tail = x
	l.n++
}

// remove takes x out, which must be in this list or in none.
func (l *list[T]) remove(x T) {
	var none T
	n := x.links()
	if !n.in {
		return
	}
	if n.prev == none {
		l.head = n.next
	} else {
		n.prev.links().next = n.next
	}
	if n.next == none {
		l.tail = n.prev
	} else {
		n.next.links().prev = n.prev
	}
	*n = node[T]{}
	l.n--
}
