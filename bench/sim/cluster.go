package sim

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// function is what simulated tasks call. Its payload is the run time, as payloadOf writes it.
const function = "sleep"

func payloadOf(d time.Duration) []byte {
	return binary.LittleEndian.AppendUint64(nil, uint64(d))
}

func durationOf(payload []byte) time.Duration {
	if len(payload) < 8 {
		return 0
	}
	return time.Duration(binary.LittleEndian.Uint64(payload))
}

// network is how messages travel.
type network struct {
	delay   time.Duration // one way
	jitter  time.Duration // mean of an exponential addition; messages of a connection still arrive in order
	codec   bool          // messages are encoded and decoded on their way
	reorder time.Duration // faults: up to so much more for a message, out of order
	repeat  float64       // faults: share of messages that arrive twice
	lease   time.Duration // silence after which an end takes a connection for broken
	ping    time.Duration // how often a frontend asks for a sign of life
	watch   bool          // workers look for silent frontends, too: needed only where there are faults
}

// cluster is frontends, workers, and what is between them.
type cluster struct {
	clock
	net       network
	rng       *rand.Rand // of the network
	frontends []*frontendNode
	workers   []*workerNode
	conns     uint64
	messages  uint64
	decoder   probe.Decoder
	check     bool                             // the cores' state, after every step
	log       func(format string, args ...any) // nil: nobody reads it

	// tell is what a frontend says to its clients, within a step of its core: it must not step it again.
	tell func(f *frontendNode, a frontend.Action)
	// onStart and onEnd hear of every run of a task; nil where nobody wants to. onEnd may change how it ends.
	onStart func(w *workerNode, s *worker.Start)
	onEnd   func(s *worker.Start, ev *worker.Exited)
}

// frontendNode is a frontend process.
type frontendNode struct {
	index  int
	id     probe.FrontendID
	cfg    frontend.Config
	core   *frontend.Core
	acts   []frontend.Action
	conns  []*conn // by worker: the one that is up or being made
	wakeAt time.Duration
	life   int // counts its starts
	down   bool
	hung   *hang
}

// workerNode is a worker process.
type workerNode struct {
	index       int
	cfg         worker.Config
	incarnation uint64
	speed       float64 // of running tasks; 1 is nominal
	core        *worker.Core
	acts        []worker.Action
	links       map[worker.LinkID]*conn
	running     map[probe.AttemptID]*execution
	wakeAt      time.Duration
	life        int
	down        bool
	dark        bool // down without a trace: connecting to it takes a lease, instead of being refused
	hung        *hang
}

// hang keeps what happens to a process that does not run, until it does.
type hang struct{ events []event }

// execution is an attempt that runs.
type execution struct {
	w        *workerNode
	start    worker.Start
	began    time.Duration
	takes    time.Duration
	stopping bool
	end      *event
}

// conn is one connection between a frontend and a worker. Each end believes its own part of it.
type conn struct {
	id     worker.LinkID
	f      *frontendNode
	w      *workerNode
	fLife  int // of the process that opened it
	wLife  int
	fOpen  bool // Welcome has arrived, and the frontend has not given it up
	wOpen  bool // Hello has arrived, and the worker has not given it up
	closed bool // by the frontend, before Welcome arrived
	cut    bool // half-open: whatever is sent is lost, and no end knows

	fHeard, wHeard time.Duration // when each end last heard of the other
	fLast, wLast   time.Duration // latest arrival that is under way to each end
	pings          uint64
}

func (c *cluster) addWorker(cfg worker.Config, speed float64) *workerNode {
	w := &workerNode{index: len(c.workers), cfg: cfg, speed: speed}
	c.workers = append(c.workers, w)
	c.startWorker(w)
	return w
}

// startWorker begins a new life of a worker process.
func (c *cluster) startWorker(w *workerNode) {
	w.life++
	w.incarnation = uint64(w.index)<<32 | uint64(w.life)
	w.core = worker.New(w.cfg)
	w.links = map[worker.LinkID]*conn{}
	w.running = map[probe.AttemptID]*execution{}
	w.down, w.dark, w.hung, w.wakeAt = false, false, nil, 0
}

func (c *cluster) addFrontend(cfg frontend.Config, seed uint64) *frontendNode {
	f := &frontendNode{index: len(c.frontends), cfg: cfg}
	c.frontends = append(c.frontends, f)
	c.startFrontend(f, seed)
	return f
}

// startFrontend begins a new life of a frontend process, which dials every worker.
func (c *cluster) startFrontend(f *frontendNode, seed uint64) {
	f.life++
	f.id = probe.FrontendID(f.index+1)<<32 | probe.FrontendID(f.life)
	cfg := f.cfg
	cfg.ID = f.id
	f.core = frontend.New(cfg, rand.New(rand.NewPCG(seed, uint64(f.id))))
	f.conns = make([]*conn, len(c.workers))
	f.down, f.hung, f.wakeAt = false, nil, 0
	for _, w := range c.workers {
		c.at(c.now, event{kind: dial, f: f, w: w, life: f.life})
	}
}

// step lets the next event happen. It returns an error if a core's state is broken.
func (c *cluster) step() error {
	e := c.next()
	// What happens to a process that hangs happens when it goes on, and nothing happens to a dead one.
	var h *hang
	switch e.kind {
	case toWorker:
		if !e.conn.wOpen {
			return nil
		}
		h = e.conn.w.hung
	case toFrontend:
		if !e.conn.fOpen {
			return nil
		}
		h = e.conn.f.hung
	case wakeWorker, exit:
		if e.w.life != e.life {
			return nil
		}
		h = e.w.hung
	case wakeFrontend, dial:
		if e.f.life != e.life {
			return nil
		}
		h = e.f.hung
	case accepted, ping:
		if e.conn.f.life != e.conn.fLife {
			return nil
		}
		h = e.conn.f.hung
	case watch:
		if !e.conn.wOpen {
			return nil
		}
		h = e.conn.w.hung
	case broken:
		if e.w != nil {
			h = e.w.hung
		} else {
			h = e.f.hung
		}
	}
	if h != nil {
		h.events = append(h.events, e)
		return nil
	}
	switch e.kind {
	case toWorker:
		if e.msg == nil { // Hello
			return c.hello(e.conn)
		}
		e.conn.wHeard = c.now
		return c.stepWorker(e.conn.w, worker.Received{Link: e.conn.id, Msg: e.msg})
	case toFrontend:
		e.conn.fHeard = c.now
		return c.stepFrontend(e.conn.f, frontend.Received{Worker: frontend.Worker(e.conn.w.index), Msg: e.msg})
	case wakeWorker:
		if e.wake != e.w.wakeAt {
			return nil // an earlier one was scheduled since
		}
		if e.w.wakeAt = 0; !c.due(e.w.core.NextWake()) {
			c.armWorker(e.w)
			return nil
		}
		return c.stepWorker(e.w, worker.Wake{})
	case wakeFrontend:
		if e.wake != e.f.wakeAt {
			return nil
		}
		if e.f.wakeAt = 0; !c.due(e.f.core.NextWake()) {
			c.armFrontend(e.f)
			return nil
		}
		return c.stepFrontend(e.f, frontend.Wake{})
	case exit:
		return c.exited(e.w, e.run)
	case dial:
		c.dial(e.f, e.w)
	case accepted:
		return c.accepted(e.conn, e.msg)
	case broken:
		if e.w != nil {
			return c.closeAtWorker(e.conn)
		}
		return c.closeAtFrontend(e.conn)
	case ping:
		return c.ping(e.conn)
	case watch:
		return c.watch(e.conn)
	case call:
		e.fn()
	}
	return nil
}

func (c *cluster) due(at time.Time) bool { return !at.IsZero() && !at.After(c.time()) }

func (c *cluster) stepFrontend(f *frontendNode, ev frontend.Event) error {
	f.acts = f.core.Step(c.time(), ev, f.acts[:0])
	c.note("f%d %s", f.index, ev)
	for _, a := range f.acts {
		c.note("   f%d -> %s", f.index, a)
		if m, ok := a.(frontend.Send); ok {
			c.send(f.conns[m.Worker], m.Msg)
		} else {
			c.tell(f, a)
		}
	}
	clear(f.acts)
	c.armFrontend(f)
	if c.check {
		if err := f.core.Check(); err != nil {
			return fmt.Errorf("frontend %d after %T: %w", f.index, ev, err)
		}
	}
	return nil
}

func (c *cluster) stepWorker(w *workerNode, ev worker.Event) error {
	w.acts = w.core.Step(c.time(), ev, w.acts[:0])
	c.note("w%d %s", w.index, ev)
	for _, a := range w.acts {
		c.note("   w%d -> %s", w.index, a)
		switch a := a.(type) {
		case worker.Send:
			c.push(w.links[a.Link], a.Msg)
		case worker.Start:
			c.execute(w, a)
		case worker.Stop:
			if r := w.running[a.Attempt]; r != nil && !r.stopping {
				r.stopping = true
				c.cancel(r.end)
				r.end = c.at(c.now+stopTakes, event{kind: exit, w: w, run: r, life: w.life})
			}
		case worker.Drop:
			if cn := w.links[a.Link]; cn != nil {
				cn.wOpen = false
				delete(w.links, a.Link)
				c.hangUp(cn, true)
			}
		default:
			panic(fmt.Sprintf("sim: unknown action %T", a))
		}
	}
	clear(w.acts)
	c.armWorker(w)
	if c.check {
		if err := w.core.Check(); err != nil {
			return fmt.Errorf("worker %d after %T: %w", w.index, ev, err)
		}
	}
	return nil
}

// note logs what happened at a node.
func (c *cluster) note(format string, index int, what any) {
	if c.log == nil {
		return
	}
	if s := describe(what); s != "" {
		c.log(format, index, s)
	}
}

// armFrontend sees to it that a Wake comes no later than the core asks for.
func (c *cluster) armFrontend(f *frontendNode) {
	if at := f.core.NextWake(); !at.IsZero() {
		if d := at.Sub(origin); f.wakeAt == 0 || d < f.wakeAt {
			f.wakeAt = max(d, c.now)
			c.at(d, event{kind: wakeFrontend, f: f, life: f.life, wake: f.wakeAt})
		}
	}
}

func (c *cluster) armWorker(w *workerNode) {
	if at := w.core.NextWake(); !at.IsZero() {
		if d := at.Sub(origin); w.wakeAt == 0 || d < w.wakeAt {
			w.wakeAt = max(d, c.now)
			c.at(d, event{kind: wakeWorker, w: w, life: w.life, wake: w.wakeAt})
		}
	}
}

// stopTakes is how long an executor needs to stop a task.
const stopTakes = 100 * time.Microsecond

func (c *cluster) execute(w *workerNode, s worker.Start) {
	if c.onStart != nil {
		c.onStart(w, &s)
	}
	r := &execution{w: w, start: s, began: c.now}
	r.takes = time.Duration(float64(durationOf(s.Launch.Payload)) / w.speed)
	if s.Launch.Timeout > 0 {
		r.takes = min(r.takes, s.Launch.Timeout)
	}
	r.end = c.at(c.now+r.takes, event{kind: exit, w: w, run: r, life: w.life})
	w.running[s.Launch.Attempt] = r
}

func (c *cluster) exited(w *workerNode, r *execution) error {
	delete(w.running, r.start.Launch.Attempt)
	took := c.now - r.began
	ev := worker.Exited{Attempt: r.start.Launch.Attempt, Status: probe.Succeeded, Run: took}
	switch {
	case r.stopping:
		ev.Status = probe.Killed
	case r.start.Launch.Timeout > 0 && r.takes >= r.start.Launch.Timeout:
		ev.Status = probe.TimedOut
	}
	if c.onEnd != nil {
		c.onEnd(&r.start, &ev)
	}
	return c.stepWorker(w, ev)
}

// arrival is when something that leaves now arrives in order.
func (c *cluster) arrival(last *time.Duration) time.Duration {
	at := c.now + c.net.delay
	if c.net.jitter > 0 {
		at += time.Duration(c.rng.ExpFloat64() * float64(c.net.jitter))
	}
	*last = max(at, *last)
	return *last
}

// travel is when a message that leaves now arrives, perhaps behind later ones.
func (c *cluster) travel(last *time.Duration) time.Duration {
	at := c.arrival(last)
	if c.net.reorder > 0 {
		at += time.Duration(c.rng.Int64N(int64(c.net.reorder)))
	}
	return at
}

func (c *cluster) send(cn *conn, m probe.Msg) {
	if cn == nil || !cn.fOpen {
		return
	}
	c.messages++
	if cn.cut {
		return
	}
	at := c.travel(&cn.wLast)
	c.at(at, event{kind: toWorker, conn: cn, msg: c.recode(m)})
	if c.net.repeat > 0 && c.rng.Float64() < c.net.repeat {
		c.at(c.travel(&cn.wLast), event{kind: toWorker, conn: cn, msg: c.recode(m)})
	}
}

func (c *cluster) push(cn *conn, m probe.Msg) {
	if cn == nil || !cn.wOpen {
		return
	}
	c.messages++
	if cn.cut {
		return
	}
	at := c.travel(&cn.fLast)
	c.at(at, event{kind: toFrontend, conn: cn, msg: c.recode(m)})
	if c.net.repeat > 0 && c.rng.Float64() < c.net.repeat {
		c.at(c.travel(&cn.fLast), event{kind: toFrontend, conn: cn, msg: c.recode(m)})
	}
}

// recode is what the other end gets to see of m.
func (c *cluster) recode(m probe.Msg) probe.Msg {
	if !c.net.codec {
		return m
	}
	frame := probe.AppendFrame(nil, 1, m)
	_, msgs, err := c.decoder.Decode(frame[probe.FrameHeader:], nil)
	if err != nil || len(msgs) != 1 {
		panic(fmt.Sprintf("sim: %#v came back as %d messages: %v", m, len(msgs), err))
	}
	return msgs[0]
}

// redial is how long a frontend waits before it tries to reach a worker again.
const redial = 100 * time.Millisecond

func (c *cluster) dial(f *frontendNode, w *workerNode) {
	c.conns++
	cn := &conn{id: worker.LinkID(c.conns), f: f, w: w, fLife: f.life, wLife: w.life}
	f.conns[w.index] = cn
	if w.down && !w.dark {
		c.at(c.now+2*c.net.delay, event{kind: accepted, conn: cn})
		return
	}
	c.at(c.now+c.net.lease, event{kind: accepted, conn: cn}) // by then it was silent for the lease
	if w.down {
		return
	}
	cn.wOpen = true // its kernel accepts, whether the process runs or hangs
	c.at(c.arrival(&cn.wLast), event{kind: toWorker, conn: cn})
}

// hello is the first message of a connection.
func (c *cluster) hello(cn *conn) error {
	w := cn.w
	cn.wHeard = c.now
	w.links[cn.id] = cn
	welcome := probe.Welcome{
		Version: probe.Version, Worker: fmt.Sprint("w", w.index), Host: fmt.Sprint("h", w.index), Incarnation: w.incarnation,
		Capacity: w.cfg.Defaults().Capacity, Functions: w.cfg.Functions, MaxPayload: 1 << 20, MaxResult: 1 << 20,
	}
	if !cn.cut {
		c.at(c.arrival(&cn.fLast), event{kind: accepted, conn: cn, msg: c.recode(welcome)})
	}
	if c.net.watch {
		c.at(c.now+c.net.ping, event{kind: watch, conn: cn})
	}
	return c.stepWorker(w, worker.LinkUp{Link: cn.id, Frontend: cn.f.id})
}

// accepted is the end of dialling: with a Welcome, or without one if the worker refused or was silent.
func (c *cluster) accepted(cn *conn, m probe.Msg) error {
	f, key := cn.f, frontend.Worker(cn.w.index)
	if cn.fOpen || cn.closed || f.conns[cn.w.index] != cn {
		return nil
	}
	if m == nil {
		cn.closed = true
		c.hangUp(cn, false)
		c.at(c.now+redial, event{kind: dial, f: f, w: cn.w, life: f.life})
		return c.stepFrontend(f, frontend.WorkerGone{Worker: key})
	}
	cn.fOpen, cn.fHeard = true, c.now
	c.at(c.now+c.net.ping, event{kind: ping, conn: cn})
	return c.stepFrontend(f, frontend.WorkerUp{Worker: key, Welcome: m.(probe.Welcome)})
}

// ping is the frontend's regular look at a connection.
func (c *cluster) ping(cn *conn) error {
	switch {
	case !cn.fOpen:
		return nil
	case c.now-cn.fHeard > c.net.lease:
		if err := c.closeAtFrontend(cn); err != nil {
			return err
		}
		c.hangUp(cn, false)
		return c.stepFrontend(cn.f, frontend.WorkerGone{Worker: frontend.Worker(cn.w.index)})
	}
	cn.pings++
	c.send(cn, probe.Ping{Seq: cn.pings})
	c.at(c.now+c.net.ping, event{kind: ping, conn: cn})
	return nil
}

// watch is the worker's regular look at a connection.
func (c *cluster) watch(cn *conn) error {
	if c.now-cn.wHeard > c.net.lease {
		c.hangUp(cn, true)
		return c.closeAtWorker(cn)
	}
	c.at(c.now+c.net.ping, event{kind: watch, conn: cn})
	return nil
}

// hangUp lets the other end of a connection know that this one has closed it.
func (c *cluster) hangUp(cn *conn, byWorker bool) {
	switch {
	case cn.cut:
	case byWorker:
		c.at(c.arrival(&cn.fLast), event{kind: broken, conn: cn, f: cn.f})
	default:
		c.at(c.arrival(&cn.wLast), event{kind: broken, conn: cn, w: cn.w})
	}
}

func (c *cluster) closeAtWorker(cn *conn) error {
	if !cn.wOpen || cn.w.life != cn.wLife {
		return nil
	}
	cn.wOpen = false
	if cn.w.links[cn.id] == nil {
		return nil // its Hello never arrived
	}
	delete(cn.w.links, cn.id)
	return c.stepWorker(cn.w, worker.LinkDown{Link: cn.id})
}

func (c *cluster) closeAtFrontend(cn *conn) error {
	f := cn.f
	if f.life != cn.fLife || f.conns[cn.w.index] != cn || cn.closed {
		return nil
	}
	wasOpen := cn.fOpen
	cn.fOpen, cn.closed = false, true
	c.at(c.now+redial/10, event{kind: dial, f: f, w: cn.w, life: f.life})
	if !wasOpen {
		return nil
	}
	return c.stepFrontend(f, frontend.LinkLost{Worker: frontend.Worker(cn.w.index)})
}
