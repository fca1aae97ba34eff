package sim

import (
	"fmt"
	"time"
)

// eventKind says what happens at an event, and so which fields of the event count.
type eventKind uint8

const (
	toWorker   eventKind = iota // content (a message, nil: Hello) arrives at conn's worker
	toFrontend                  // content (a message) arrives at conn's frontend
	wakeWorker                  // the worker's core may have asked for a Wake
	wakeFrontend
	lingerEnds   // the messages at the frontend with MayWait have waited long enough
	taskExits    // an executor is done with content (an execution)
	dialDue      // the frontend tries to reach the worker
	dialAnswered // of conn: the worker's answer (content) arrives at the frontend, or the worker's refusal (nil)
	dialTimesOut // of conn: the worker did not answer for the lease
	connBroken   // of conn: the worker w or the frontend f learns of the close by the other end
	pingDue      // of conn: the frontend checks the connection
	watchDue     // of conn: the worker checks the connection
	funcCall     // content (a func())
	clientCall   // the frontend hears from a client: content (a frontend.Event)
	turnTakenIn  // the process has read content (a turn)
	coreRests    // a CPU core of content (a machine) falls idle
)

// event is something due to happen. The fields in use depend on kind.
type event struct {
	kind    eventKind
	life    int32 // of the node or execution when the event was scheduled: an event of an earlier life is void
	conn    *conn
	w       *workerNode
	f       *frontendNode
	content any
}

// entry says when an event happens, and where the clock keeps the event. Entries are ordered by time, then by the
// order of scheduling.
type entry struct {
	at time.Duration
	id uint64 // the order of scheduling, and the slot in the clock's slab
}

// slotBits are the bits of an entry's id for the slot: 1<<slotBits events may be pending at a time.
const slotBits = 24

func (a entry) isBefore(b entry) bool { return a.at < b.at || a.at == b.at && a.id < b.id }

// clock is virtual time and the pending events. The events are in a slab. The entries are in a heap with four
// children a node, or in a lane. A lane is a queue for events scheduled in the order of their times.
type clock struct {
	now       time.Duration // since the start of the run
	steps     uint64        // events so far
	seq       uint64
	slab      []event
	freeSlots []uint32 // free slots of slab
	heap      []entry
	lanes     [2]lane // of messages (equal delays unless there is jitter), and of regular checks of connections
}

// origin is the moment at which every run starts. Nothing depends on the moment.
var origin = time.Unix(1_000_000_000, 0).UTC()

func (c *clock) timeNow() time.Time { return origin.Add(c.now) }

// schedule lets e happen at t, but not before now.
func (c *clock) schedule(t time.Duration, e event) {
	var slot uint32
	if n := len(c.freeSlots); n > 0 {
		slot, c.freeSlots = c.freeSlots[n-1], c.freeSlots[:n-1]
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
	case toWorker, toFrontend, dialAnswered, connBroken:
		if c.lanes[0].pushBack(x) {
			return
		}
	case pingDue, watchDue:
		if c.lanes[1].pushBack(x) {
			return
		}
	}
	c.pushHeap(x)
}

// takeNext removes the next event, and moves the clock to the event's time. There must be a pending event.
func (c *clock) takeNext() event {
	first, source := c.firstEntry()
	if source < len(c.lanes) {
		c.lanes[source].popFront()
	} else {
		c.popHeap()
	}
	slot := uint32(first.id & (1<<slotBits - 1))
	e := c.slab[slot]
	c.slab[slot] = event{}
	c.freeSlots = append(c.freeSlots, slot)
	c.now = first.at
	c.steps++
	return e
}

// nextTime returns the time of the next event; false if no event is pending.
func (c *clock) nextTime() (time.Duration, bool) {
	first, source := c.firstEntry()
	return first.at, source >= 0
}

// firstEntry returns the entry of the next event, and its source: the number of a lane, len(c.lanes) for the
// heap, or -1 if no event is pending.
func (c *clock) firstEntry() (x entry, source int) {
	source = -1
	if len(c.heap) > 0 {
		x, source = c.heap[0], len(c.lanes)
	}
	for i := range c.lanes {
		if l := &c.lanes[i]; l.head < len(l.entries) && (source < 0 || l.entries[l.head].isBefore(x)) {
			x, source = l.entries[l.head], i
		}
	}
	return x, source
}

// pushHeap and popHeap keep the order of the heap: the children of entry i are entries 4i+1 to 4i+4.
func (c *clock) pushHeap(x entry) {
	c.heap = append(c.heap, x)
	i := len(c.heap) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !x.isBefore(c.heap[parent]) {
			break
		}
		c.heap[i] = c.heap[parent]
		i = parent
	}
	c.heap[i] = x
}

func (c *clock) popHeap() {
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
			if h[k].isBefore(h[least]) {
				least = k
			}
		}
		if !h[least].isBefore(x) {
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
func (l *lane) pushBack(x entry) bool {
	n := len(l.entries)
	if n > 0 && x.isBefore(l.entries[n-1]) {
		return false
	}
	if n == cap(l.entries) && l.head > n/2 {
		l.entries = l.entries[:copy(l.entries, l.entries[l.head:])]
		l.head = 0
	}
	l.entries = append(l.entries, x)
	return true
}

func (l *lane) popFront() {
	if l.head++; l.head == len(l.entries) {
		l.entries, l.head = l.entries[:0], 0
	}
}
