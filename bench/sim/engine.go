package sim

import (
	"fmt"
	"time"
)

// eventKind says what happens at an event, and so which fields of the event count.
type kind uint8

const (
	toWorker   kind = iota // content (a message, nil: Hello) arrives at conn's worker
	toFrontend             // content (a message) arrives at conn's frontend
	wakeWorker             // the worker's core may have asked for a Wake
	wakeFrontend
	linger   // the messages at the frontend with MayWait have waited long enough
	exit     // an executor is done with content (an execution)
	dial     // the frontend tries to reach the worker
	accepted // of conn: the worker's answer (content) arrives at the frontend, or the worker's refusal (nil)
	silent   // of conn: the worker did not answer for the lease
	broken   // of conn: the worker w or the frontend f learns of the close by the other end
	ping     // of conn: the frontend checks the connection
	watch    // of conn: the worker checks the connection
	call     // content (a func())
	called   // the frontend hears from a client: content (a frontend.Event)
	taken    // the process has read content (a turn)
	rested   // a CPU core of content (a machine) falls idle
)

// event is something due to happen. The fields in use depend on kind.
type event struct {
	kind kind
	life int32 // of the node or execution when the event was scheduled: an event of an earlier life is void
	conn *conn
	w    *workerNode
	f    *frontendNode
	what any
}

// entry says when an event happens, and where the clock keeps the event. Entries are ordered by time, then by the
// order of scheduling.
type entry struct {
	at time.Duration
	id uint64 // the order of scheduling, and the slot in the clock's slab
}

// slotBits are the bits of an entry's id for the slot: 1<<slotBits events may be pending at a time.
const slotBits = 24

func (a entry) before(b entry) bool { return a.at < b.at || a.at == b.at && a.id < b.id }

// clock is virtual time and the pending events. The events are in a slab. The entries are in a heap with four
// children a node, or in a lane. A lane is a queue for events scheduled in the order of their times.
type clock struct {
	now   time.Duration // since the start of the run
	steps uint64        // events so far
	seq   uint64
	slab  []event
	spare []uint32 // free slots of slab
	heap  []entry
	lanes [2]lane // of messages (equal delays unless there is jitter), and of regular checks of connections
}

// origin is the moment at which every run starts. Nothing depends on the moment.
var origin = time.Unix(1_000_000_000, 0).UTC()

func (c *clock) time() time.Time { return origin.Add(c.now) }

// schedule lets e happen at t, but not before now.
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

// takeNext removes the next event, and moves the clock to the event's time. There must be a pending event.
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

// nextTime returns the time of the next event; false if no event is pending.
func (c *clock) due() (time.Duration, bool) {
	first, from := c.first()
	return first.at, from >= 0
}

// firstEntry returns the entry of the next event, and its source: the number of a lane, len(c.lanes) for the
// heap, or -1 if no event is pending.
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

// pushHeap and popHeap keep the order of the heap: the children of entry i are entries 4i+1 to 4i+4.
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

// lane is a sorted queue of entries.
type lane struct {
	entries []entry
	head    int
}

// pushBack appends x, or returns false if x comes before the last entry of the lane.
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
