package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
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
	rate    float64       // payload bytes that a process sends in a second, one after the other; 0: no limit
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
	conns     []*conn // all that there ever were: conn n is at n-1
	messages  uint64
	decoder   probe.Decoder
	frame     []byte                           // scratch of recode
	decoded   []probe.Msg                      // scratch of recode
	idleRuns  []*execution                     // to be used again
	check     uint64                           // the cores' state is looked at in one of so many events; 0: never
	log       func(format string, args ...any) // nil: nobody reads it

	// newScheduler makes the core of a frontend; nil: a frontend.Core.
	newScheduler func(cfg frontend.Config, rng *rand.Rand) scheduler
	// tell is what a frontend says to its clients, within a step of its core: it must not step it again.
	tell func(f *frontendNode, a frontend.Action)
	// afterFrontend and afterWorker look at a step and what is to be done; nil where nobody wants to.
	afterFrontend func(f *frontendNode, ev frontend.Event)
	afterWorker   func(w *workerNode, ev worker.Event)
	// onStart and onEnd hear of every run of a task; nil where nobody wants to. onEnd may change how it ends.
	onStart func(w *workerNode, s *worker.Start)
	onEnd   func(s *worker.Start, ev *worker.Exited)
	// onFetch and onRelease are the fetcher of a worker's files; needed only where tasks name files.
	onFetch   func(w *workerNode, a worker.Fetch)
	onRelease func(w *workerNode, a worker.Release)
	// reads is how long a task reads its inputs at a worker, on top of its run; nil: tasks have none.
	reads  func(w *workerNode, s *worker.Start) time.Duration
	failed error // what an event of kind call found, at the end of the step: of a Run, and of gossip
}

// scheduler is what decides where tasks run: a [frontend.Core], or a rival that is told the same events, takes the
// same actions and has the same workers.
type scheduler interface {
	Step(now time.Time, ev frontend.Event, acts []frontend.Action) []frontend.Action
	NextWake() time.Time
	Check() error
}

// frontendNode is a frontend process.
type frontendNode struct {
	sentAll time.Duration // when it has sent all that it was told to
	index   int
	id      probe.FrontendID
	cfg     frontend.Config
	core    scheduler
	acts    []frontend.Action
	conns   []*conn // by worker: the one that is up or being made
	wakeAt  time.Duration
	life    int32 // counts its starts
	down    bool
	hung    *hang

	receipts []frontend.Receipt // of outcomes, to be told when clients have them

	lingers  []*conn // with messages that wait, until lingerAt at the latest
	lingerAt time.Duration
}

// frontend is the core of a frontend that is no rival's.
func (f *frontendNode) frontend() *frontend.Core { return f.core.(*frontend.Core) }

// workerNode is a worker process. What every event needs is in front.
type workerNode struct {
	sentAll time.Duration // when it has sent all that it was told to
	core    *worker.Core
	hung    *hang
	wakeAt  time.Duration
	life    int32
	down    bool
	dark    bool // down without a trace: connecting to it takes a lease, instead of being refused
	index   int
	acts    []worker.Action
	running []*execution
	speed   float64 // of running tasks; 1 is nominal
	links   []*conn // that the core knows, in no order
	cfg     worker.Config
	welcome probe.Welcome
}

// hang keeps what happens to a process that does not run, until it does.
type hang struct {
	since  time.Duration
	events []event
}

// execution is an attempt that runs.
type execution struct {
	start    worker.Start
	began    time.Duration
	takes    time.Duration
	stopping bool
	life     int32 // of its exit: one that was scheduled before is void
}

// conn is one connection between a frontend and a worker. Each end believes its own part of it.
type conn struct {
	w      *workerNode
	f      *frontendNode
	id     worker.LinkID
	fOpen  bool // Welcome has arrived, and the frontend has not given it up
	wOpen  bool // Hello has arrived, and the worker has not given it up
	linked bool // Hello has arrived: the worker's core knows it
	closed bool // by the frontend, before Welcome arrived
	cut    bool // half-open: whatever is sent is lost, and no end knows

	fHeard, wHeard time.Duration // when each end last heard of the other
	fLast, wLast   time.Duration // latest arrival that is under way to each end
	fLife, wLife   int32         // of the process that opened it, and that it reached
	pings          uint64
	waiting        []probe.Msg // of the frontend, for another message to travel with
}

func (c *cluster) addWorker(cfg worker.Config, speed float64) *workerNode {
	w := &workerNode{index: len(c.workers), cfg: cfg, speed: speed}
	w.welcome = probe.Welcome{
		Version: probe.Version, Worker: fmt.Sprint("w", w.index), Host: fmt.Sprint("h", w.index),
		Capacity: cfg.Defaults().Capacity, Open: cfg.Open(), Functions: cfg.Functions, MaxPayload: 1 << 20, MaxResult: 1 << 20,
	}
	c.workers = append(c.workers, w)
	c.startWorker(w)
	return w
}

// startWorker begins a new life of a worker process.
func (c *cluster) startWorker(w *workerNode) {
	w.life++
	w.welcome.Incarnation = uint64(w.index)<<32 | uint64(w.life)
	w.core = worker.New(w.cfg)
	w.links, w.running = nil, nil
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
	rng := rand.New(rand.NewPCG(seed, uint64(f.id)))
	if c.newScheduler == nil {
		f.core = frontend.New(cfg, rng)
	} else {
		f.core = c.newScheduler(cfg, rng)
	}
	f.conns = make([]*conn, len(c.workers))
	f.down, f.hung, f.wakeAt = false, nil, 0
	f.lingers, f.lingerAt, f.receipts = nil, 0, nil
	for _, w := range c.workers {
		if core, ok := f.core.(*frontend.Core); ok {
			core.Step(c.time(), frontend.Listed{Worker: frontend.Worker(w.index), Address: w.welcome.Worker}, nil)
		}
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
	case wakeWorker:
		if e.w.life != e.life || c.now != e.w.wakeAt {
			return nil // an earlier one was scheduled since
		}
		h = e.w.hung
	case exit:
		if e.what.(*execution).life != e.life {
			return nil
		}
		h = e.w.hung
	case wakeFrontend:
		if e.f.life != e.life || c.now != e.f.wakeAt {
			return nil
		}
		h = e.f.hung
	case dial, linger:
		if e.f.life != e.life {
			return nil
		}
		h = e.f.hung
	case accepted, silent, ping:
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
		if e.what == nil { // Hello
			return c.hello(e.conn)
		}
		e.conn.wHeard = c.now
		return c.stepWorker(e.conn.w, worker.Received{Link: e.conn.id, Msg: e.what.(probe.Msg)})
	case toFrontend:
		e.conn.fHeard = c.now
		return c.stepFrontend(e.conn.f, frontend.Received{Worker: frontend.Worker(e.conn.w.index), Msg: e.what.(probe.Msg)})
	case wakeWorker:
		if e.w.wakeAt = 0; !c.passed(e.w.core.NextWake()) {
			c.armWorker(e.w)
			return nil
		}
		return c.stepWorker(e.w, worker.Wake{})
	case wakeFrontend:
		if e.f.wakeAt = 0; !c.passed(e.f.core.NextWake()) {
			c.armFrontend(e.f)
			return nil
		}
		return c.stepFrontend(e.f, frontend.Wake{})
	case exit:
		return c.exited(e.w, e.what.(*execution))
	case linger:
		c.endLinger(e.f)
	case dial:
		c.dial(e.f, e.w)
	case accepted, silent:
		return c.accepted(e.conn, e.what)
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
		e.what.(func())()
	}
	return nil
}

// later lets fn happen at a time.
func (c *cluster) later(at time.Duration, fn func()) { c.at(at, event{kind: call, what: fn}) }

func (c *cluster) passed(at time.Time) bool { return !at.IsZero() && !at.After(c.time()) }

func (c *cluster) stepFrontend(f *frontendNode, ev frontend.Event) error {
	f.acts = f.core.Step(c.time(), ev, f.acts[:0])
	c.note("f%d %s", f.index, ev)
	if c.afterFrontend != nil {
		c.afterFrontend(f, ev)
	}
	for _, a := range f.acts {
		c.note("   f%d -> %s", f.index, a)
		if m, ok := a.(frontend.Send); !ok {
			c.tell(f, a)
		} else if m.MayWait {
			c.linger(f.conns[m.Worker], m.Msg)
		} else {
			c.send(f.conns[m.Worker], m.Msg)
		}
	}
	if len(f.lingers) > 0 {
		for _, a := range f.acts { // what came to wait behind a message of this step travels with it
			if m, ok := a.(frontend.Send); ok && !m.MayWait {
				c.release(f.conns[m.Worker])
			}
		}
	}
	clear(f.acts)
	c.armFrontend(f)
	if c.check > 0 && c.steps%c.check == 0 {
		if err := f.core.Check(); err != nil {
			return fmt.Errorf("frontend %d after %T: %w", f.index, ev, err)
		}
	}
	return nil
}

func (c *cluster) stepWorker(w *workerNode, ev worker.Event) error {
	w.acts = w.core.Step(c.time(), ev, w.acts[:0])
	c.note("w%d %s", w.index, ev)
	if c.afterWorker != nil {
		c.afterWorker(w, ev)
	}
	for _, a := range w.acts {
		c.note("   w%d -> %s", w.index, a)
		switch a := a.(type) {
		case worker.Send:
			c.push(c.conns[a.Link-1], a.Msg)
		case worker.Start:
			c.execute(w, a)
		case worker.Stop:
			i := slices.IndexFunc(w.running, func(r *execution) bool { return r.start.Launch.Attempt == a.Attempt })
			if i >= 0 && !w.running[i].stopping {
				r := w.running[i]
				r.stopping = true
				c.exitAt(c.now+stopTakes, w, r)
			}
		case worker.Fetch:
			c.onFetch(w, a)
		case worker.Release:
			c.onRelease(w, a)
		case worker.Drop:
			if cn := c.conns[a.Link-1]; cn.linked {
				cn.wOpen = false
				w.unlink(cn)
				c.hangUp(cn, true)
			}
		default:
			panic(fmt.Sprintf("sim: unknown action %T", a))
		}
	}
	clear(w.acts)
	c.armWorker(w)
	if c.check > 0 && c.steps%c.check == 0 {
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
			c.at(d, event{kind: wakeFrontend, f: f, life: f.life})
		}
	}
}

func (c *cluster) armWorker(w *workerNode) {
	if at := w.core.NextWake(); !at.IsZero() {
		if d := at.Sub(origin); w.wakeAt == 0 || d < w.wakeAt {
			w.wakeAt = max(d, c.now)
			c.at(d, event{kind: wakeWorker, w: w, life: w.life})
		}
	}
}

// stopTakes is how long an executor needs to stop a task.
const stopTakes = 100 * time.Microsecond

func (c *cluster) execute(w *workerNode, s worker.Start) {
	r := new(execution)
	if n := len(c.idleRuns); n > 0 {
		r, c.idleRuns = c.idleRuns[n-1], c.idleRuns[:n-1]
	}
	*r = execution{start: s, began: c.now, life: r.life}
	if c.onStart != nil {
		c.onStart(w, &r.start)
	}
	r.takes = time.Duration(float64(durationOf(s.Launch.Payload)) / w.speed)
	if c.reads != nil {
		r.takes += c.reads(w, &r.start)
	}
	if s.Launch.Timeout > 0 {
		r.takes = min(r.takes, s.Launch.Timeout)
	}
	w.running = append(w.running, r)
	c.exitAt(c.now+r.takes, w, r)
}

// exitAt schedules the end of a run, in place of any that was scheduled before.
func (c *cluster) exitAt(at time.Duration, w *workerNode, r *execution) {
	r.life++
	c.at(at, event{kind: exit, w: w, what: r, life: r.life})
}

func (c *cluster) exited(w *workerNode, r *execution) error {
	i := slices.Index(w.running, r)
	last := len(w.running) - 1
	w.running[i] = w.running[last]
	w.running[last] = nil
	w.running = w.running[:last]
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
	r.life++
	c.idleRuns = append(c.idleRuns, r)
	return c.stepWorker(w, ev)
}

// unlink notes that the worker's core knows a connection no longer.
func (w *workerNode) unlink(cn *conn) {
	cn.linked = false
	w.links = slices.DeleteFunc(w.links, func(x *conn) bool { return x == cn })
}

// sent is when a message has left a process that has sent all before it at *last, which it sets.
func (c *cluster) sent(last *time.Duration, m probe.Msg) time.Duration {
	if c.net.rate == 0 {
		return c.now
	}
	*last = max(c.now, *last) + time.Duration(float64(payloadBytes(m))/c.net.rate*float64(time.Second))
	return *last
}

// payloadBytes is how much of m grows with what tasks take and return.
func payloadBytes(m probe.Msg) int {
	n := 0
	add := func(launches []probe.Launch) {
		for i := range launches {
			n += len(launches[i].Payload)
		}
	}
	switch m := m.(type) {
	case probe.Reserve:
		add(m.Launches)
	case probe.Bind:
		n = len(m.Launch.Payload)
		add(m.Bundle)
	case probe.Enqueue:
		n = len(m.Launch.Payload)
	case probe.Finished:
		n = len(m.Result)
	}
	return n
}

// arrival is when something arrives that leaves at a given time, in order.
func (c *cluster) arrival(leaves time.Duration, last *time.Duration) time.Duration {
	at := leaves + c.net.delay
	if c.net.jitter > 0 {
		at += time.Duration(c.rng.ExpFloat64() * float64(c.net.jitter))
	}
	*last = max(at, *last)
	return *last
}

// travel is when a message that leaves now arrives, perhaps behind later ones.
func (c *cluster) travel(leaves time.Duration, last *time.Duration) time.Duration {
	at := c.arrival(leaves, last)
	if c.net.reorder > 0 {
		at += time.Duration(c.rng.Int64N(int64(c.net.reorder)))
	}
	return at
}

// lingerFor is how long a message that may wait does, if no other one leaves on its connection before.
const lingerFor = 500 * time.Microsecond

func (c *cluster) linger(cn *conn, m probe.Msg) {
	if cn == nil || !cn.fOpen {
		return
	}
	f := cn.f
	if len(cn.waiting) == 0 {
		f.lingers = append(f.lingers, cn)
	}
	cn.waiting = append(cn.waiting, m)
	if f.lingerAt == 0 {
		f.lingerAt = c.now + lingerFor
		c.at(f.lingerAt, event{kind: linger, f: f, life: f.life})
	}
}

// endLinger lets all of a frontend go that waits.
func (c *cluster) endLinger(f *frontendNode) {
	f.lingerAt = 0
	for i, cn := range f.lingers {
		f.lingers[i] = nil
		c.release(cn)
	}
	f.lingers = f.lingers[:0]
}

// release lets what waits on a connection go. That stays among those that linger.
func (c *cluster) release(cn *conn) {
	if cn == nil || len(cn.waiting) == 0 {
		return
	}
	waiting := cn.waiting
	cn.waiting = nil
	for _, m := range waiting {
		c.send(cn, m)
	}
}

func (c *cluster) send(cn *conn, m probe.Msg) {
	if cn == nil || !cn.fOpen {
		return
	}
	c.release(cn)
	c.messages++
	if cn.cut {
		return
	}
	leaves := c.sent(&cn.f.sentAll, m)
	at := c.travel(leaves, &cn.wLast)
	c.at(at, event{kind: toWorker, conn: cn, what: c.recode(m)})
	if c.net.repeat > 0 && c.rng.Float64() < c.net.repeat {
		c.at(c.travel(leaves, &cn.wLast), event{kind: toWorker, conn: cn, what: c.recode(m)})
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
	leaves := c.sent(&cn.w.sentAll, m)
	at := c.travel(leaves, &cn.fLast)
	c.at(at, event{kind: toFrontend, conn: cn, what: c.recode(m)})
	if c.net.repeat > 0 && c.rng.Float64() < c.net.repeat {
		c.at(c.travel(leaves, &cn.fLast), event{kind: toFrontend, conn: cn, what: c.recode(m)})
	}
}

// recode is what the other end gets to see of m.
func (c *cluster) recode(m probe.Msg) probe.Msg {
	if !c.net.codec {
		return m
	}
	c.frame = probe.AppendFrame(c.frame[:0], 1, m)
	_, msgs, err := c.decoder.Decode(bytes.Clone(c.frame[probe.FrameHeader:]), c.decoded[:0])
	if c.decoded = msgs; err != nil || len(msgs) != 1 {
		panic(fmt.Sprintf("sim: %#v came back as %d messages: %v", m, len(msgs), err))
	}
	return msgs[0]
}

// redial is how long a frontend waits before it tries to reach a worker again.
const redial = 100 * time.Millisecond

func (c *cluster) dial(f *frontendNode, w *workerNode) {
	cn := &conn{id: worker.LinkID(len(c.conns) + 1), f: f, w: w, fLife: f.life, wLife: w.life}
	c.conns = append(c.conns, cn)
	f.conns[w.index] = cn
	if w.down && !w.dark {
		c.at(c.now+2*c.net.delay, event{kind: accepted, conn: cn})
		return
	}
	c.at(c.now+c.net.lease, event{kind: silent, conn: cn})
	if w.down {
		return
	}
	cn.wOpen = true // its kernel accepts, whether the process runs or hangs
	c.at(c.arrival(c.now, &cn.wLast), event{kind: toWorker, conn: cn})
}

// hello is the first message of a connection.
func (c *cluster) hello(cn *conn) error {
	w := cn.w
	cn.wHeard = c.now
	cn.linked = true
	w.links = append(w.links, cn)
	if !cn.cut {
		c.at(c.arrival(c.now, &cn.fLast), event{kind: accepted, conn: cn, what: c.recode(w.welcome)})
	}
	if c.net.watch {
		c.at(c.now+c.net.ping, event{kind: watch, conn: cn})
	}
	return c.stepWorker(w, worker.LinkUp{Link: cn.id, Frontend: cn.f.id})
}

// accepted is the end of dialling: with a Welcome, or without one if the worker refused or was silent.
func (c *cluster) accepted(cn *conn, m any) error {
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
		return c.silence(cn.f)
	}
	cn.pings++
	c.send(cn, probe.Ping{Seq: cn.pings})
	c.at(c.now+c.net.ping, event{kind: ping, conn: cn})
	return nil
}

// silence gives up the workers that are silent, all of them before any of their tasks goes elsewhere.
func (c *cluster) silence(f *frontendNode) error {
	var silent []*conn
	for _, cn := range f.conns {
		if cn == nil || !cn.fOpen || c.now-cn.fHeard <= c.net.lease {
			continue
		}
		silent = append(silent, cn)
		if err := c.closeAtFrontend(cn); err != nil {
			return err
		}
		c.hangUp(cn, false)
	}
	for _, cn := range silent {
		if err := c.stepFrontend(f, frontend.WorkerGone{Worker: frontend.Worker(cn.w.index)}); err != nil {
			return err
		}
	}
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
		c.at(c.arrival(c.now, &cn.fLast), event{kind: broken, conn: cn, f: cn.f})
	default:
		c.at(c.arrival(c.now, &cn.wLast), event{kind: broken, conn: cn, w: cn.w})
	}
}

func (c *cluster) closeAtWorker(cn *conn) error {
	if !cn.wOpen || cn.w.life != cn.wLife {
		return nil
	}
	cn.wOpen = false
	if !cn.linked {
		return nil // its Hello never arrived
	}
	cn.w.unlink(cn)
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
