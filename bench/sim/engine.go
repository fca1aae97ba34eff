package sim

import (
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// kind is what an event is about.
type kind uint8

const (
	toWorker   kind = iota // msg arrives at conn's worker
	toFrontend             // msg arrives at conn's frontend
	wakeWorker             // the worker's core may have asked for a Wake
	wakeFrontend
	exit     // an executor is done with run
	dial     // frontend tries to reach worker
	accepted // of conn: the worker's answer arrives at the frontend, or its refusal
	broken   // of conn: an end learns that the other has closed it
	ping     // of conn: its frontend looks after it
	watch    // of conn: its worker looks after it
	call     // fn
)

// event is something that will happen. Which fields count depends on kind.
type event struct {
	at   time.Duration
	seq  uint64 // order of events of the same moment: that in which they were scheduled
	kind kind
	f    *frontendNode
	w    *workerNode
	conn *conn
	msg  probe.Msg
	run  *execution
	life int           // of the node when the event was scheduled: one of an earlier life is void
	wake time.Duration // as life: when it was due
	fn   func()
	pos  int
}

func (e *event) Before(o *event) bool {
	if e.at != o.at {
		return e.at < o.at
	}
	return e.seq < o.seq
}

func (e *event) Pos() *int { return &e.pos }

// clock is virtual time and what will happen in it.
type clock struct {
	now   time.Duration // since the start of the run
	steps uint64        // events that have happened
	seq   uint64
	heap  pq.Heap[*event]
	spare []*event
}

// origin is the moment at which every run starts. Nothing depends on it.
var origin = time.Unix(1_000_000_000, 0).UTC()

func (c *clock) time() time.Time { return origin.Add(c.now) }

// at schedules e, for now at the earliest.
func (c *clock) at(t time.Duration, e event) *event {
	var p *event
	if n := len(c.spare); n > 0 {
		p, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		p = new(event)
	}
	c.seq++
	e.at, e.seq = max(t, c.now), c.seq
	*p = e
	c.heap.Push(p)
	return p
}

// next takes the next event off the heap and moves the clock to it. It returns a copy: the event itself is
// used again.
func (c *clock) next() event {
	p := c.heap.Pop()
	e := *p
	*p = event{}
	c.spare = append(c.spare, p)
	c.now = e.at
	c.steps++
	return e
}

// cancel takes back an event that has not happened.
func (c *clock) cancel(p *event) {
	c.heap.Remove(p)
	*p = event{}
	c.spare = append(c.spare, p)
}
