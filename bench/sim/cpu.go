package sim

import (
	"fmt"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
)

// CPU is what messages cost the processes that send and receive them, which do one thing after the other: who is busy
// takes what came meanwhile later, in order. The zero value is that of processes which need no time for anything.
type CPU struct {
	// Message is the time to take in what wakes a process: messages that have come on one connection, the end of a task, a timer,
	// a client's call; to send messages on one connection; to start a task; and to answer a client. Each further message, launch
	// or outcome that travels along takes a tenth of it.
	Message time.Duration
	Cores   int  // of a machine; 0: one
	Shared  bool // all frontends and workers are on one machine; else each has one of its own
}

// along is the part of a message's cost that one takes which travels along with it.
const along = 10

func (u *CPU) validate() error {
	if u.Message < 0 || u.Cores < 0 {
		return fmt.Errorf("messages that cost %v on machines of %d cores: neither may be negative", u.Message, u.Cores)
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

// spend counts CPU time.
func (p *process) spend(cost time.Duration) {
	p.used += cost
	p.machine.used += cost
}

// busyEvery is how often a frontend to which anything happens is told what messages cost.
const busyEvery = 10 * time.Millisecond

// tellBusy tells a frontend what messages cost it, which is known exactly here.
func (c *cluster) tellBusy(f *frontendNode) {
	if f.machine == nil || c.now < f.busyAt {
		return
	}
	m := f.machine
	span := c.now - f.busyAt + busyEvery // since it was told last
	share := float64(m.used-f.busyUsed) / float64(span) / float64(m.cores)
	f.core.Step(c.time(), frontend.Busy{Message: c.cpu.Message, Share: share}, nil)
	f.busyAt, f.busyUsed = c.now+busyEvery, m.used
}

// of is the cost of so many things that travel together.
func (u *CPU) of(things int) time.Duration {
	if things == 0 {
		return 0
	}
	return u.Message + u.Message*time.Duration(things-1)/along
}

// machine is cores, and what waits for one of them.
type machine struct {
	cores int
	idle  int           // of them
	used  time.Duration // CPU time
	waits []*turn
	head  int // of waits
}

// process is the part of a node that needs time.
type process struct {
	machine *machine      // nil: it needs none
	done    time.Duration // its last turn's, which no later one overtakes
	used    time.Duration // CPU time
	waking  bool          // a Wake waits for it to have time
}

// turn is what a process takes in at once, and then what it has to do for it.
type turn struct {
	of   *process
	e    event
	msgs []probe.Msg // of e, if that is messages: further ones that have come meanwhile are among them

	// What follows from it, while it is carried out.
	starts   int // of tasks
	answers  int // to clients
	outcomes int // in them
	dirty    []*conn
}

// addProcess gives a process a machine, its own or the one that all share.
func (c *cluster) addProcess(p *process) {
	switch {
	case c.cpu.Message == 0:
	case c.cpu.Shared && c.shared != nil:
		p.machine = c.shared
	default:
		cores := max(c.cpu.Cores, 1)
		p.machine = &machine{cores: cores, idle: cores}
		c.shared = p.machine
	}
}

// busy is the process for which e is work; nil if it costs nothing. Making connections does not.
func (e *event) busy() *process {
	var p *process
	switch e.kind {
	case toWorker, toFrontend, wakeWorker, wakeFrontend, linger, exit, ping, watch, called:
		if f, w := e.process(); f != nil {
			p = &f.process
		} else {
			p = &w.process
		}
	}
	if p == nil || p.machine == nil || e.kind == toWorker && e.what == nil {
		return nil
	}
	return p
}

// queue lets e wait for its process to have time for it.
func (c *cluster) queue(p *process, e event) {
	switch e.kind {
	case exit:
		e.what.(*execution).over = c.now
	case wakeFrontend, wakeWorker:
		p.waking = true
	}
	msgs, isMessages := e.what.([]probe.Msg)
	if isMessages {
		if t := *e.conn.unread(e.kind); t != nil {
			t.msgs = append(t.msgs, msgs...)
			return
		}
	}
	t := &turn{of: p, e: e, msgs: msgs}
	m := p.machine
	if m.idle > 0 {
		c.begin(t)
		return
	}
	if isMessages {
		*e.conn.unread(e.kind) = t
	}
	m.waits = append(m.waits, t)
}

// unread is the turn that waits for messages of a connection to be read, at the end at which an event of this kind is.
func (cn *conn) unread(k kind) **turn {
	if k == toWorker {
		return &cn.wUnread
	}
	return &cn.fUnread
}

// begin spends the time that it takes to take in what a turn is about.
func (c *cluster) begin(t *turn) {
	t.of.machine.idle--
	things := 1
	if t.msgs != nil {
		*t.e.conn.unread(t.e.kind) = nil
		things = thingsIn(t.msgs)
	} else if ev, ok := t.e.what.(frontend.Submit); ok {
		things = len(ev.Job.Tasks)
	}
	cost := c.cpu.of(things)
	t.of.spend(cost)
	t.of.done = max(c.now+cost, t.of.done)
	c.at(t.of.done, event{kind: taken, what: t})
}

// carryOut does what follows from what a turn has taken in, and spends the time for it.
func (c *cluster) carryOut(t *turn) error {
	c.turn = t
	defer func() { c.turn = nil }()
	if err := c.takenIn(t); err != nil {
		return err
	}
	cost := c.cpu.Message*time.Duration(t.starts+t.answers) + c.cpu.Message*time.Duration(t.outcomes)/along
	for _, cn := range t.dirty {
		msgs := cn.out
		cn.out = nil
		cost += c.cpu.of(thingsIn(msgs))
		c.dispatch(cn, t.e.kind.atWorker(), c.now+cost, msgs)
	}
	t.of.spend(cost)
	c.at(c.now+cost, event{kind: rested, what: t.of.machine})
	return nil
}

// takenIn lets what a turn is about happen.
func (c *cluster) takenIn(t *turn) error {
	each := func(e event) error {
		switch e.kind {
		case wakeWorker, wakeFrontend: // it came in time
			t.of.waking = false
		default:
			if c.void(&e) {
				return nil
			}
		}
		return c.happen(&e)
	}
	if t.msgs == nil {
		return each(t.e)
	}
	for _, m := range t.msgs {
		if err := each(event{kind: t.e.kind, conn: t.e.conn, what: m}); err != nil {
			return err
		}
	}
	return nil
}

// atWorker reports whether an event of this kind, if it is work, is a worker's.
func (k kind) atWorker() bool { return k == toWorker || k == wakeWorker || k == exit || k == watch }

// rest gives a core to the turn that has waited for the longest.
func (c *cluster) rest(m *machine) {
	m.idle++
	if m.head == len(m.waits) {
		return
	}
	t := m.waits[m.head]
	m.waits[m.head] = nil
	if m.head++; m.head == len(m.waits) || m.head > 1024 {
		m.waits = m.waits[:copy(m.waits, m.waits[m.head:])]
		m.head = 0
	}
	c.begin(t)
}

// tell notes what is to be said to a client: all outcomes of a job in one answer.
func (t *turn) tell(a frontend.Action) {
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

// gather keeps a message until the end of the turn, for what goes the same way to travel along. It returns false if there is no turn.
func (c *cluster) gather(cn *conn, m probe.Msg) bool {
	if c.turn == nil {
		return false
	}
	if len(cn.out) == 0 {
		c.turn.dirty = append(c.turn.dirty, cn)
	}
	cn.out = append(cn.out, m)
	return true
}

// dispatch lets messages that travel together leave.
func (c *cluster) dispatch(cn *conn, byWorker bool, leaves time.Duration, msgs []probe.Msg) {
	k, sentAll, last := toWorker, &cn.f.sentAll, &cn.wLast
	if byWorker {
		k, sentAll, last = toFrontend, &cn.w.sentAll, &cn.fLast
	}
	for i, m := range msgs {
		leaves = max(leaves, c.sent(sentAll, m))
		msgs[i] = c.recode(m)
	}
	c.at(c.travel(leaves, last), event{kind: k, conn: cn, what: msgs})
}

// thingsIn counts messages and the launches that come along in them.
func thingsIn(msgs []probe.Msg) int {
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

// call lets a client say something to a frontend.
func (c *cluster) call(f *frontendNode, ev frontend.Event) error {
	if f.machine == nil {
		return c.stepFrontend(f, ev)
	}
	c.queue(&f.process, event{kind: called, f: f, what: ev})
	return nil
}

// cpuUsed sums up what all processes needed to run so many tasks; nil if they needed nothing.
func (r *runner) cpuUsed(tasks int) *bench.SimCPU {
	if r.cpu.Message == 0 {
		return nil
	}
	const us = float64(time.Microsecond)
	span := float64(r.now - r.began)
	used := &bench.SimCPU{MessageUS: float64(r.cpu.Message) / us}
	add := func(share *float64, p *process, of int) {
		*share += float64(p.used) / span / float64(of)
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
