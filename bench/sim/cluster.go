package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// cluster is a set of frontends and workers, and the connections between the two.
type cluster struct {
	clock
	tenantsFile    *tenants.File // the tenants' tokens and limits; nil: none are set
	net            network
	cpu            CPU
	lastMachine    *machine   // the last machine made; with CPU.Shared, the machine of all processes
	currentTurn    *turn      // in progress; nil: none
	rng            *rand.Rand // of the network
	frontends      []*frontendNode
	workers        []*workerNode
	conns          []*conn // all connections ever made: conn n is at n-1
	messages       uint64
	decoder        probe.Decoder
	frame          []byte                           // scratch of recodeMsg
	decoded        []probe.Msg                      // scratch of recodeMsg
	singleMsg      [1]probe.Msg                     // scratch of a frame of one message
	freeExecutions []*execution                     // to be used again
	checkEvery     uint64                           // the cores' state is checked every checkEvery events; 0: never
	log            func(format string, args ...any) // nil: no log

	// newScheduler makes the core of a frontend; nil: a frontend.Core.
	newScheduler func(cfg frontend.Config, rng *rand.Rand) scheduler
	// onAnswer hears the actions for clients. The frontend's core is within a step then: onAnswer must not step
	// the same core.
	onAnswer func(f *frontendNode, a frontend.Action)
	// afterFrontend and afterWorker see each step, before its actions are carried out; nil: not needed.
	afterFrontend func(f *frontendNode, ev frontend.Event)
	afterWorker   func(w *workerNode, ev worker.Event)
	// onStart and onEnd hear of every run of a task; nil: not needed. onEnd may change how the run ends.
	onStart func(w *workerNode, s *worker.Start)
	onEnd   func(s *worker.Start, ev *worker.Exited)
	// obeysStop tells whether a task stops when told to; nil: all do.
	obeysStop func(s *worker.Start) bool
	// onFetch and onRelease are the fetcher of a worker's files; needed only if tasks name files.
	onFetch   func(w *workerNode, a worker.Fetch)
	onRelease func(w *workerNode, a worker.Release)
	// readTime returns how long a task reads its inputs at a worker, on top of its run; nil: tasks have no
	// inputs.
	readTime func(w *workerNode, s *worker.Start) time.Duration
	// onReport reports to a worker, some time later, that results have left; nil: results leave at once.
	onReport func(w *workerNode, link worker.LinkID)
	// progressOf returns the progress reported by the tasks at a worker; nil: tasks report none.
	progressOf func(w *workerNode) []worker.Progress
	// callErr is the error of an event of kind funcCall, read at the end of the step: of a Run, and of gossip.
	callErr error
}

// scheduler decides where tasks run: a [frontend.Core], or a rival. A rival gets the same events, answers with
// the same actions, and has the same workers.
type scheduler interface {
	Step(now time.Time, ev frontend.Event, acts []frontend.Action) []frontend.Action
	NextWake() time.Time
	Check() error
}

// frontendNode is a frontend process.
type frontendNode struct {
	process
	sentAll time.Duration // when the process has sent all messages so far
	index   int
	id      probe.FrontendID
	cfg     frontend.Config
	core    scheduler
	acts    []frontend.Action
	conns   []*conn // by worker: the connection in use or being made
	wakeAt  time.Duration
	life    int32 // counts the starts of the process
	down    bool
	hung    *hang

	receipts []frontend.Receipt // of outcomes on their way to clients

	lingers  []*conn // with waiting messages, to be sent at lingerAt at the latest
	lingerAt time.Duration

	busyAt   time.Duration // when the core next hears of the price of messages
	busyUsed time.Duration // of its machine's CPU, when the core last heard
}

// frontendCore returns the core of f. The core must not be a rival.
func (f *frontendNode) frontendCore() *frontend.Core { return f.core.(*frontend.Core) }

// workerNode is a worker process. The fields needed by every event come first.
type workerNode struct {
	sentAll        time.Duration // when the process has sent all messages so far
	core           *worker.Core
	hung           *hang
	wakeAt         time.Duration
	life           int32
	down           bool
	diedSilently   bool // down without a trace: a connection attempt takes a lease, instead of being refused
	index          int
	acts           []worker.Action
	running        []*execution
	speed          float64 // of running tasks; 1 is nominal
	ignoresRestamp bool    // every Restamp is lost
	process
	links   []*conn // known to the core, in no order
	cfg     worker.Config
	welcome probe.Welcome
}

// hang keeps the events of a process that hangs until the process goes on.
type hang struct {
	since  time.Duration
	events []event
}

// addWorker adds a worker process, and starts it. speed 1 is nominal.
func (c *cluster) addWorker(cfg worker.Config, speed float64) *workerNode {
	w := &workerNode{index: len(c.workers), cfg: cfg, speed: speed}
	w.welcome = probe.Welcome{
		Speaks: probe.Spoken, Worker: fmt.Sprint("w", w.index), Host: fmt.Sprint("h", w.index),
		Capacity: cfg.Defaults().Capacity, Open: cfg.AlwaysOpen(), Functions: cfg.Functions, MaxPayload: 1 << 20,
		MaxResult: 1 << 20,
	}
	c.workers = append(c.workers, w)
	c.addProcess(&w.process)
	c.startWorker(w)
	return w
}

// joinWorker adds a worker of nominal speed while frontends run, and lets each frontend dial the worker.
func (c *cluster) joinWorker(cfg worker.Config) {
	w := c.addWorker(cfg, 1)
	for _, f := range c.frontends {
		f.conns = append(f.conns, nil)
		c.dialWorker(f, w)
	}
}

// startWorker begins a new life of a worker process.
func (c *cluster) startWorker(w *workerNode) {
	w.life++
	w.welcome.Incarnation = uint64(w.index)<<32 | uint64(w.life)
	w.core = worker.New(w.cfg)
	w.links, w.running = nil, nil
	w.down, w.diedSilently, w.hung, w.wakeAt = false, false, nil, 0
}

// addFrontend adds a frontend process, and starts it. seed is for the choices of its core.
func (c *cluster) addFrontend(cfg frontend.Config, seed uint64) *frontendNode {
	f := &frontendNode{index: len(c.frontends), cfg: cfg}
	c.frontends = append(c.frontends, f)
	c.addProcess(&f.process)
	c.startFrontend(f, seed)
	return f
}

// startFrontend begins a new life of a frontend process. The frontend dials every worker.
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
	if core, ok := f.core.(*frontend.Core); ok && c.tenantsFile != nil {
		core.Step(c.timeNow(), frontend.Terms{File: c.tenantsFile}, nil)
	}
	f.conns = make([]*conn, len(c.workers))
	f.down, f.hung, f.wakeAt = false, nil, 0
	f.lingers, f.lingerAt, f.receipts = nil, 0, nil
	for _, w := range c.workers {
		if core, ok := f.core.(*frontend.Core); ok {
			core.Step(c.timeNow(), frontend.Listed{Worker: frontend.Worker(w.index), Address: w.welcome.Worker}, nil)
		}
		c.schedule(c.now, event{kind: dialDue, f: f, w: w, life: f.life})
	}
}

// stepEvent lets the next event happen. The error tells of a core with a broken state.
func (c *cluster) stepEvent() error {
	e := c.takeNext()
	if c.isVoid(&e) {
		return nil
	}
	// Events of a hung process happen when the process goes on. Nothing happens to a dead process.
	if h := e.hangOfTarget(); h != nil {
		h.events = append(h.events, e)
		return nil
	}
	if p := e.busyProcess(); p != nil {
		c.queueEvent(p, e)
		return nil
	}
	return c.handleEvent(&e)
}

// isVoid reports whether the target of e is gone.
func (c *cluster) isVoid(e *event) bool {
	switch e.kind {
	case toWorker, watchDue:
		return !e.conn.wOpen
	case toFrontend:
		return !e.conn.fOpen
	case wakeWorker:
		return e.w.life != e.life || c.now != e.w.wakeAt // an earlier wake-up was scheduled since
	case wakeFrontend:
		return e.f.life != e.life || c.now != e.f.wakeAt
	case taskExits:
		return e.content.(*execution).life != e.life
	case dialDue, lingerEnds:
		return e.f.life != e.life
	case dialAnswered, dialTimesOut, pingDue:
		return e.conn.f.life != e.conn.fLife
	}
	return false
}

// targetNodes returns the frontend or the worker at which e happens; nil, nil if e happens at neither.
func (e *event) targetNodes() (*frontendNode, *workerNode) {
	switch e.kind {
	case toWorker, watchDue:
		return nil, e.conn.w
	case toFrontend, dialAnswered, dialTimesOut, pingDue:
		return e.conn.f, nil
	case dialDue: // the worker is only the destination
		return e.f, nil
	}
	return e.f, e.w
}

// hangOfTarget returns the hang of the process to which e happens; nil if the process runs.
func (e *event) hangOfTarget() *hang {
	switch f, w := e.targetNodes(); {
	case w != nil:
		return w.hung
	case f != nil:
		return f.hung
	}
	return nil
}

// handleEvent carries out e.
func (c *cluster) handleEvent(e *event) error {
	switch e.kind {
	case toWorker:
		if e.content == nil {
			return c.receiveHello(e.conn)
		}
		e.conn.wHeard = c.now
		if _, restamp := e.content.(probe.Restamp); restamp && e.conn.w.ignoresRestamp {
			return nil
		}
		if _, ping := e.content.(probe.Ping); ping && c.progressOf != nil {
			if progress := c.progressOf(e.conn.w); len(progress) > 0 {
				if err := c.stepWorker(e.conn.w, worker.Progressed{Attempts: progress}); err != nil {
					return err
				}
			}
		}
		return c.stepWorker(e.conn.w, worker.Received{Link: e.conn.id, Msg: e.content.(probe.Msg)})
	case toFrontend:
		e.conn.fHeard = c.now
		if c.net.frames {
			return c.deliverInFrames(e.conn, e.content.(probe.Msg))
		}
		c.singleMsg[0] = e.content.(probe.Msg)
		return c.stepFrontend(e.conn.f, frontend.Frame{Worker: frontend.Worker(e.conn.w.index), Msgs: c.singleMsg[:]})
	case wakeWorker:
		if e.w.wakeAt = 0; c.isPast(e.w.core.NextWake()) {
			return c.stepWorker(e.w, worker.Wake{})
		}
		c.armWorker(e.w)
	case wakeFrontend:
		if e.f.wakeAt = 0; c.isPast(e.f.core.NextWake()) {
			return c.stepFrontend(e.f, frontend.Wake{})
		}
		c.armFrontend(e.f)
	case taskExits:
		return c.endExecution(e.w, e.content.(*execution))
	case lingerEnds:
		c.endLinger(e.f)
	case dialDue:
		c.dialWorker(e.f, e.w)
	case dialAnswered, dialTimesOut:
		return c.finishDial(e.conn, e.content)
	case connBroken:
		if e.w != nil {
			return c.closeAtWorker(e.conn)
		}
		return c.closeAtFrontend(e.conn)
	case pingDue:
		return c.pingWorker(e.conn)
	case watchDue:
		return c.watchFrontend(e.conn)
	case funcCall:
		e.content.(func())()
	case clientCall:
		return c.stepFrontend(e.f, e.content.(frontend.Event))
	case turnTakenIn:
		return c.carryOut(e.content.(*turn))
	case coreRests:
		c.freeCore(e.content.(*machine))
	}
	return nil
}

// callAt lets fn happen at a time.
func (c *cluster) callAt(at time.Duration, fn func()) {
	c.schedule(at, event{kind: funcCall, content: fn})
}

// isPast reports whether a core's wake-up is due. The zero time never is.
func (c *cluster) isPast(at time.Time) bool { return !at.IsZero() && !at.After(c.timeNow()) }

// deliverInFrames delivers messages in frames. Two of three messages wait for the next message on the same
// connection, if there is one under way.
func (c *cluster) deliverInFrames(cn *conn, m probe.Msg) error {
	cn.partialFrame = append(cn.partialFrame, m)
	follows := func(e event) bool { return e.kind == toFrontend && e.conn == cn }
	if c.steps%3 != 0 && slices.ContainsFunc(c.slab, follows) {
		return nil
	}
	msgs := cn.partialFrame
	cn.partialFrame = nil
	return c.stepFrontend(cn.f, frontend.Frame{Worker: frontend.Worker(cn.w.index), Msgs: msgs})
}

// stepFrontend steps a frontend's core, and carries out the actions.
func (c *cluster) stepFrontend(f *frontendNode, ev frontend.Event) error {
	c.tellBusy(f)
	f.acts = f.core.Step(c.timeNow(), ev, f.acts[:0])
	c.logStep("f%d %s", f.index, ev)
	if c.afterFrontend != nil {
		c.afterFrontend(f, ev)
	}
	for _, a := range f.acts {
		c.logStep("   f%d -> %s", f.index, a)
		if m, ok := a.(frontend.Send); !ok {
			c.currentTurn.noteAnswer(a)
			c.onAnswer(f, a)
		} else if m.MayWait {
			c.sendWithNext(f.conns[m.Worker], copyLent(m.Msg))
		} else {
			c.sendToWorker(f.conns[m.Worker], copyLent(m.Msg))
		}
	}
	if len(f.lingers) > 0 {
		for _, a := range f.acts { // messages held back after a message of this step travel along
			if m, ok := a.(frontend.Send); ok && !m.MayWait {
				c.releaseWaiting(f.conns[m.Worker])
			}
		}
	}
	clear(f.acts)
	c.armFrontend(f)
	if c.checkEvery > 0 && c.steps%c.checkEvery == 0 {
		if err := f.core.Check(); err != nil {
			return fmt.Errorf("frontend %d after %T: %w", f.index, ev, err)
		}
	}
	return nil
}

// stepWorker steps a worker's core, and carries out the actions.
func (c *cluster) stepWorker(w *workerNode, ev worker.Event) error {
	w.acts = w.core.Step(c.timeNow(), ev, w.acts[:0])
	c.logStep("w%d %s", w.index, ev)
	if c.afterWorker != nil {
		c.afterWorker(w, ev)
	}
	var departed []worker.LinkID
	for _, a := range w.acts {
		c.logStep("   w%d -> %s", w.index, a)
		switch a := a.(type) {
		case *worker.Send:
			c.sendToFrontend(c.conns[a.Link-1], a.Msg)
			switch {
			case a.Report && c.onReport != nil:
				c.onReport(w, a.Link)
			case a.Report:
				departed = append(departed, a.Link)
			}
		case *worker.Start:
			c.startExecution(w, *a)
		case worker.Stop:
			i := slices.IndexFunc(w.running, func(r *execution) bool { return r.start.Launch.Attempt == a.Attempt })
			if i < 0 {
				break
			}
			if r := w.running[i]; !r.stopping && (c.obeysStop == nil || c.obeysStop(&r.start)) {
				r.stopping = true
				c.exitAt(c.now+stopDelay, w, r)
			}
		case worker.Fetch:
			c.onFetch(w, a)
		case worker.Release:
			c.onRelease(w, a)
		case worker.Drop:
			if cn := c.conns[a.Link-1]; cn.linked {
				cn.wOpen = false
				w.forgetLink(cn)
				c.hangUp(cn, true)
			}
		default:
			panic(fmt.Sprintf("sim: unknown action %T", a))
		}
	}
	clear(w.acts)
	c.armWorker(w)
	if c.checkEvery > 0 && c.steps%c.checkEvery == 0 {
		if err := w.core.Check(); err != nil {
			return fmt.Errorf("worker %d after %T: %w", w.index, ev, err)
		}
	}
	for _, link := range departed {
		if err := c.stepWorker(w, worker.Sent{Link: link}); err != nil {
			return err
		}
	}
	return nil
}

// logStep logs an event or action of a node.
func (c *cluster) logStep(format string, index int, step any) {
	if c.log == nil {
		return
	}
	if s := describeStep(step); s != "" {
		c.log(format, index, s)
	}
}

// armFrontend schedules a Wake no later than the core asks for.
func (c *cluster) armFrontend(f *frontendNode) {
	if at := f.core.NextWake(); !at.IsZero() && !f.wakeQueued {
		if d := at.Sub(origin); f.wakeAt == 0 || d < f.wakeAt {
			f.wakeAt = max(d, c.now)
			c.schedule(d, event{kind: wakeFrontend, f: f, life: f.life})
		}
	}
}

// armWorker is armFrontend for a worker.
func (c *cluster) armWorker(w *workerNode) {
	if at := w.core.NextWake(); !at.IsZero() && !w.wakeQueued {
		if d := at.Sub(origin); w.wakeAt == 0 || d < w.wakeAt {
			w.wakeAt = max(d, c.now)
			c.schedule(d, event{kind: wakeWorker, w: w, life: w.life})
		}
	}
}
