package sim

import (
	"fmt"
	"time"
)

// kind is what an event is about.
type kind uint8

const (
	toWorker   kind = iota // what (a message, nil: Hello) arrives at conn's worker
	toFrontend             // what (a message) arrives at conn's frontend
	wakeWorker             // the worker's core may have asked for a Wake
	wakeFrontend
	linger   // what may wait at frontend has waited
	exit     // an executor is done with what (an execution)
	dial     // frontend tries to reach worker
	accepted // of conn: the worker's answer (what) arrives at the frontend, or its refusal (nil)
	silent   // of conn: the worker did not answer for the lease
	broken   // of conn: an end (worker or frontend) learns that the other has closed it
	ping     // of conn: its frontend looks after it
	watch    // of conn: its worker looks after it
	call     // what (a func())
	called   // frontend hears from a client: what (a frontend.Event)
	taken    // what (a turn) has been taken in by its process
	rested   // a core of what (a machine) falls idle
)

// event is something that will happen. Which fields count depends on kind.
type event struct {
	kind kind
	life int32 // of the node or execution when the event was scheduled: one of an earlier life is void
	conn *conn
	w    *workerNode
	f    *frontendNode
	what any
}

// entry is when an event happens and where it is kept. Entries are ordered by time, then by when they were
// scheduled.
type entry struct {
	at time.Duration
	id uint64 // the order of scheduling, and the slot in the clock's slab
}

const slotBits = 24 // of an entry's id: events that may be pending at a time

func (a entry) before(b entry) bool { return a.at < b.at || a.at == b.at && a.id < b.id }

// clock is virtual time and what will happen in it. Events are kept in a slab; a heap of four children and
// queues for those that are scheduled in the order in which they happen hold their entries.
type clock struct {
	now   time.Duration // since the start of the run
	steps uint64        // events that have happened
	seq   uint64
	slab  []event
	spare []uint32 // free slots of slab
	heap  []entry
	lanes [2]lane // of messages, which take equally long unless there is jitter, and of regular looks at connections
}

// origin is the moment at which every run starts. Nothing depends on it.
var origin = time.Unix(1_000_000_000, 0).UTC()

func (c *clock) time() time.Time { return origin.Add(c.now) }

// at schedules e, for now at the earliest.
func (c *clock) at(t time.Duration, e event) {
	var slot uint32
	if n := len(c.spare); n > 0 {
		slot, c.spare = c.spare[n-1], c.spare[:n-1]
		c.slab[slot] = e
	} else {
		if len(c.slab) == 1<<slotBits {
			panic(fmt.Sprintf("sim: more than %d events are pending", len(c.slab)))
		}
		slot = uint32(len(c.slab))
		c.slab = append(c.slab, e)
	}
	c.seq++
	x := entry{max(t, c.now), c.seq<<slotBits | uint64(slot)}
	switch e.kind {
	case toWorker, toFrontend, accepted, broken:
		if c.lanes[0].push(x) {
			return
		}
	case ping, watch:
		if c.lanes[1].push(x) {
			return
		}
	}
	c.push(x)
}

// next takes the next event and moves the clock to it. There must be one.
func (c *clock) next() event {
	first, from := c.first()
	if from < len(c.lanes) {
		c.lanes[from].pop()
	} else {
		c.pop()
	}
	slot := uint32(first.id & (1<<slotBits - 1))
	e := c.slab[slot]
	c.slab[slot] = event{}
	c.spare = append(c.spare, slot)
	c.now = first.at
	c.steps++
	return e
}

// due is when the next event happens, false if nothing ever does.
func (c *clock) due() (time.Duration, bool) {
	first, from := c.first()
	return first.at, from >= 0
}

// first is the entry of the next event and where it is: the number of a lane, that of lanes for the heap, or
// -1 if there is none.
func (c *clock) first() (x entry, from int) {
	from = -1
	if len(c.heap) > 0 {
		x, from = c.heap[0], len(c.lanes)
	}
	for i := range c.lanes {
		if l := &c.lanes[i]; l.head < len(l.entries) && (from < 0 || l.entries[l.head].before(x)) {
			x, from = l.entries[l.head], i
		}
	}
	return x, from
}

// push and pop keep the heap: the children of i are 4i+1 to 4i+4.
func (c *clock) push(x entry) {
	c.heap = append(c.heap, x)
	i := len(c.heap) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !x.before(c.heap[parent]) {
			break
		}
		c.heap[i] = c.heap[parent]
		i = parent
	}
	c.heap[i] = x
}

func (c *clock) pop() {
	last := len(c.heap) - 1
	x, h := c.heap[last], c.heap[:last]
	c.heap = h
	if last == 0 {
		return
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= last {
			break
		}
		least := child
		for k := child + 1; k < min(child+4, last); k++ {
			if h[k].before(h[least]) {
				least = k
			}
		}
		if !h[least].before(x) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = x
}

// lane is a queue of entries in their order.
type lane struct {
	entries []entry
	head    int
}

// push appends x, or returns false if it comes before what is in the lane.
func (l *lane) push(x entry) bool {
	n := len(l.entries)
	if n > 0 && x.before(l.entries[n-1]) {
		return false
	}
	if n == cap(l.entries) && l.head > n/2 {
		l.entries = l.entries[:copy(l.entries, l.entries[l.head:])]
		l.head = 0
	}
	l.entries = append(l.entries, x)
	return true
}

func (l *lane) pop() {
	if l.head++; l.head == len(l.entries) {
		l.entries, l.head = l.entries[:0], 0
	}
}
