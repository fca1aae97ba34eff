package sim

import (
	"fmt"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
)

// CPU says how much CPU time messages take at the processes that send and receive. A process works in sequence,
// and a busy process reads later messages in order. In the zero value processes need no time.
type CPU struct {
	// Message is the time of a unit of work. The units are: to read the messages of a connection, the end of a
	// task, a timer or a client's call; to send messages on a connection; to start a task; to answer a client.
	// Each further message, launch or outcome travelling along takes a tenth of Message.
	Message time.Duration
	Cores   int  // of a machine; 0: one
	Shared  bool // one machine for all frontends and workers; else each process has a machine
}

// alongDivisor divides the cost of a message if the message travels along with another message.
const alongDivisor = 10

func (u *CPU) validate() error {
	if u.Message < 0 || u.Cores < 0 {
		return fmt.Errorf("messages that cost %v on machines of %d cores: use 0 or more", u.Message, u.Cores)
	}
	return nil
}

func (u *CPU) String() string {
	if u.Message == 0 {
		return "messages cost no CPU"
	}
	where := "each process has"
	if u.Shared {
		where = "all processes share"
	}
	return fmt.Sprintf("a message costs %v of CPU at either end, %s %d cores", u.Message, where, max(u.Cores, 1))
}

// spendCPU counts CPU time of the process and its machine. The caller lets the time pass.
func (p *process) spendCPU(cost time.Duration) {
	p.used += cost
	p.machine.used += cost
}

// busyEvery is the least time between two news on the price of messages to a frontend.
const busyEvery = 10 * time.Millisecond

// tellBusy tells a frontend the price of messages and the use of its machine. Here both are known exactly.
func (c *cluster) tellBusy(f *frontendNode) {
	if f.machine == nil || c.now < f.busyAt {
		return
	}
	m := f.machine
	span := c.now - f.busyAt + busyEvery // since the core last heard
	share := float64(m.used-f.busyUsed) / float64(span) / float64(m.cores)
	f.core.Step(c.timeNow(), frontend.Busy{Message: c.cpu.Message, Share: share}, nil)
	f.busyAt, f.busyUsed = c.now+busyEvery, m.used
}

// costOf returns the CPU time of a number of things that travel together.
func (u *CPU) costOf(things int) time.Duration {
	if things == 0 {
		return 0
	}
	return u.Message + u.Message*time.Duration(things-1)/alongDivisor
}

// machine is a number of CPU cores, and the turns that wait for a core.
type machine struct {
	cores        int
	idle         int           // idle cores
	used         time.Duration // CPU time
	waitingTurns []*turn
	head         int // index of the oldest waiting turn in waitingTurns
}

// process is the part of a node that needs CPU time.
type process struct {
	machine     *machine      // nil: the process needs no time
	lastTurnEnd time.Duration // end of its last turn; no later turn ends before
	used        time.Duration // CPU time
	wakeQueued  bool          // a Wake is queued
}

// turn is the input read by a process at once, and the work of the process for the input.
type turn struct {
	process *process
	event   event
	msgs    []probe.Msg // of the event, if it brings messages; with messages arrived later, before the turn began

	// The work of the turn, known while the turn is carried out.
	starts   int // of tasks
	answers  int // to clients
	outcomes int // in the answers
	conns    []*conn
}

// addProcess gives a process a machine: its own, or the shared machine.
func (c *cluster) addProcess(p *process) {
	switch {
	case c.cpu.Message == 0:
	case c.cpu.Shared && c.lastMachine != nil:
		p.machine = c.lastMachine
	default:
		cores := max(c.cpu.Cores, 1)
		p.machine = &machine{cores: cores, idle: cores}
		c.lastMachine = p.machine
	}
}

// busyProcess returns the process for which e is work; nil if e costs nothing. Making connections costs nothing.
func (e *event) busyProcess() *process {
	var p *process
	switch e.kind {
	case toWorker, toFrontend, wakeWorker, wakeFrontend, lingerEnds, taskExits, pingDue, watchDue, clientCall:
		if f, w := e.targetNodes(); f != nil {
			p = &f.process
		} else {
			p = &w.process
		}
	}
	if p == nil || p.machine == nil || e.kind == toWorker && e.content == nil {
		return nil
	}
	return p
}

// queueEvent lets e wait until its process has time.
func (c *cluster) queueEvent(p *process, e event) {
	switch e.kind {
	case taskExits:
		e.content.(*execution).endedAt = c.now
	case wakeFrontend, wakeWorker:
		p.wakeQueued = true
	}
	msgs, isMessages := e.content.([]probe.Msg)
	if isMessages {
		if t := *e.conn.unreadTurn(e.kind); t != nil {
			t.msgs = append(t.msgs, msgs...)
			return
		}
	}
	t := &turn{process: p, event: e, msgs: msgs}
	m := p.machine
	if m.idle > 0 {
		c.beginTurn(t)
		return
	}
	if isMessages {
		*e.conn.unreadTurn(e.kind) = t
	}
	m.waitingTurns = append(m.waitingTurns, t)
}

// unreadTurn returns the waiting turn for the messages of a connection, at the end at which an event of kind k
// happens.
func (cn *conn) unreadTurn(k eventKind) **turn {
	if k == toWorker {
		return &cn.wUnread
	}
	return &cn.fUnread
}

// beginTurn spends the time to read the input of a turn.
func (c *cluster) beginTurn(t *turn) {
	t.process.machine.idle--
	things := 1
	if t.msgs != nil {
		*t.event.conn.unreadTurn(t.event.kind) = nil
		things = countThings(t.msgs)
	} else if ev, ok := t.event.content.(frontend.Submit); ok {
		things = len(ev.Job.Tasks)
	}
	cost := c.cpu.costOf(things)
	t.process.spendCPU(cost)
	t.process.lastTurnEnd = max(c.now+cost, t.process.lastTurnEnd)
	c.schedule(t.process.lastTurnEnd, event{kind: turnTakenIn, content: t})
}

// carryOut does the work of a turn after its input was read, and spends the time of the work.
func (c *cluster) carryOut(t *turn) error {
	c.currentTurn = t
	defer func() { c.currentTurn = nil }()
	if err := c.handleTurn(t); err != nil {
		return err
	}
	cost := c.cpu.Message*time.Duration(t.starts+t.answers) + c.cpu.Message*time.Duration(t.outcomes)/alongDivisor
	for _, cn := range t.conns {
		msgs := cn.outgoing
		cn.outgoing = nil
		cost += c.cpu.costOf(countThings(msgs))
		c.sendTogether(cn, t.event.kind.isAtWorker(), c.now+cost, msgs)
	}
	t.process.spendCPU(cost)
	c.schedule(c.now+cost, event{kind: coreRests, content: t.process.machine})
	return nil
}

// handleTurn lets the event or messages of a turn happen.
func (c *cluster) handleTurn(t *turn) error {
	each := func(e event) error {
		switch e.kind {
		case wakeWorker, wakeFrontend: // the Wake came in time, and only waited for the process
			t.process.wakeQueued = false
		default:
			if c.isVoid(&e) {
				return nil
			}
		}
		return c.handleEvent(&e)
	}
	if t.msgs == nil {
		return each(t.event)
	}
	for _, m := range t.msgs {
		if err := each(event{kind: t.event.kind, conn: t.event.conn, content: m}); err != nil {
			return err
		}
	}
	return nil
}

// isAtWorker reports whether an event of kind k, if the event is work, happens at a worker.
func (k eventKind) isAtWorker() bool {
	return k == toWorker || k == wakeWorker || k == taskExits || k == watchDue
}

// freeCore gives a CPU core to the oldest waiting turn.
func (c *cluster) freeCore(m *machine) {
	m.idle++
	if m.head == len(m.waitingTurns) {
		return
	}
	t := m.waitingTurns[m.head]
	m.waitingTurns[m.head] = nil
	if m.head++; m.head == len(m.waitingTurns) || m.head > 1024 {
		m.waitingTurns = m.waitingTurns[:copy(m.waitingTurns, m.waitingTurns[m.head:])]
		m.head = 0
	}
	c.beginTurn(t)
}

// noteAnswer notes an action for a client. All outcomes of a job are in one answer.
func (t *turn) noteAnswer(a frontend.Action) {
	if t == nil {
		return
	}
	switch a.(type) {
	case *frontend.Done:
		t.outcomes++
	case frontend.Ended, frontend.Refused:
		t.answers++
	}
}

// gatherMsg keeps a message until the end of the turn, so messages on the same connection travel together.
// gatherMsg returns false if no turn is carried out.
func (c *cluster) gatherMsg(cn *conn, m probe.Msg) bool {
	if c.currentTurn == nil {
		return false
	}
	if len(cn.outgoing) == 0 {
		c.currentTurn.conns = append(c.currentTurn.conns, cn)
	}
	cn.outgoing = append(cn.outgoing, m)
	return true
}

// sendTogether sends messages that travel together.
func (c *cluster) sendTogether(cn *conn, byWorker bool, leaves time.Duration, msgs []probe.Msg) {
	k, sentAll, last := toWorker, &cn.f.sentAll, &cn.wLast
	if byWorker {
		k, sentAll, last = toFrontend, &cn.w.sentAll, &cn.fLast
	}
	for i, m := range msgs {
		leaves = max(leaves, c.nextDeparture(sentAll, m))
		msgs[i] = c.recodeMsg(m)
	}
	c.schedule(c.drawReorderedArrival(leaves, last), event{kind: k, conn: cn, content: msgs})
}

// countThings counts messages, and the launches in messages beyond the first of each message.
func countThings(msgs []probe.Msg) int {
	n := len(msgs)
	for _, m := range msgs {
		switch m := m.(type) {
		case probe.Reserve:
			n += max(0, len(m.Launches)-1)
		case probe.Bind:
			n += len(m.Bundle)
		}
	}
	return n
}

// callFrontend lets a client call a frontend.
func (c *cluster) callFrontend(f *frontendNode, ev frontend.Event) error {
	if f.machine == nil {
		return c.stepFrontend(f, ev)
	}
	c.queueEvent(&f.process, event{kind: clientCall, f: f, content: ev})
	return nil
}

// cpuUsed sums up the CPU time of all processes for a number of tasks; nil if processes need no time.
func (r *runner) cpuUsed(tasks int) *bench.SimCPU {
	if r.cpu.Message == 0 {
		return nil
	}
	const us = float64(time.Microsecond)
	span := float64(r.now - r.arrivalsBegan)
	used := &bench.SimCPU{MessageUS: float64(r.cpu.Message) / us}
	add := func(share *float64, p *process, processes int) {
		*share += float64(p.used) / span / float64(processes)
		used.PerTaskUS += float64(p.used) / us / float64(tasks)
		used.BusiestShare = max(used.BusiestShare, float64(p.used)/span)
	}
	for _, f := range r.frontends {
		add(&used.FrontendsShare, &f.process, len(r.frontends))
	}
	for _, w := range r.workers {
		add(&used.WorkersShare, &w.process, len(r.workers))
	}
	return used
}
