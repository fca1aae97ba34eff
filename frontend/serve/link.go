package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/sock"
)

// link is the connection to one worker, made again whenever it breaks, until the worker is taken off the list. A
// link is never used again for another worker: what is heard late of one that was retired concerns nobody.
type link struct {
	server *Server
	key    frontend.Worker
	addr   string
	pipe   *pipe
	ctx    context.Context // ends when the link is retired
	cancel context.CancelFunc

	workerRun workerRun // found at the address last; guarded by the server's mutex

	mu            sync.Mutex
	conn          *linkConn // nil: none, or being dialled
	epoch         probe.Epoch
	problem       string
	delayDial     bool   // the last connection was closed before Welcome: the next one waits
	lostAt        int64  // when the last one that was up was closed, by monotonic()
	loggedProblem string // why no Welcome came, as the log has it already

	heardAt  atomic.Int64 // when a frame last came, by monotonic()
	pingedAt atomic.Int64
	pingSeq  atomic.Uint64
	pongSeq  atomic.Uint64
	rtt      atomic.Int64
}

// workerRun is one run of a worker.
type workerRun struct {
	worker      string
	incarnation uint64
}

var processStart = time.Now()

func monotonicNow() int64 { return int64(time.Since(processStart)) }

// newLink makes a link and starts to connect it.
func newLink(s *Server, key frontend.Worker, addr string) *link {
	l := &link{server: s, key: key, addr: addr, problem: "connecting"}
	l.ctx, l.cancel = context.WithCancel(s.ctx)
	l.pipe = takePipe()
	l.pipe.nextLink <- l
	return l
}

// retire closes the link for good.
func (l *link) retire() {
	l.cancel()
	l.mu.Lock()
	conn := l.conn
	l.conn = nil
	l.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

// send appends a message to the outbox; flush must follow. Without a connection it is dropped.
func (l *link) send(m probe.Msg) {
	l.mu.Lock()
	if c := l.conn; c != nil && c.up {
		c.appendMsg(m)
	}
	l.mu.Unlock()
}

// flush has what has gathered written: if it is urgent by the caller, as far as the connection takes it at once, and what is
// left by fastrpc, whose goroutine may wait. It never blocks.
func (l *link) flush(urgent bool) {
	l.mu.Lock()
	c := l.conn
	unwritten := c != nil && !c.writing && len(c.outbox) > 0 // who writes already sees to the rest
	if urgent && unwritten && c.up {
		unwritten = c.writeNow()
	}
	l.mu.Unlock()
	if unwritten {
		l.pipe.scheduleFlush()
	}
}

// maxReusedOutbox is the largest outbox, in bytes, that is kept for reuse.
const maxReusedOutbox = 1 << 20

// maxOutbox is how many bytes may wait for a worker that does not read.
const maxOutbox = 64 << 20

// redialDelay is how long to wait after a connection that was not made, or was closed before Welcome.
const redialDelay = time.Second

// connect makes a connection, however long that takes. It returns nil once the link is retired.
func (l *link) connect() *linkConn {
	l.mu.Lock()
	wait := l.delayDial
	l.delayDial = false
	l.mu.Unlock()
	for ; ; wait = true {
		if wait {
			select {
			case <-l.ctx.Done():
			case <-time.After(redialDelay):
			}
		}
		if l.ctx.Err() != nil {
			return nil
		}
		if l.server.isLinkedElsewhere(l) {
			continue
		}
		if raw, err := l.server.dial(l.ctx, l.addr); err != nil {
			l.noteUnreachable(err)
		} else if c := l.startHandshake(raw); c != nil {
			return c
		}
	}
}

// noteUnreachable notes that no connection can be made.
func (l *link) noteUnreachable(err error) {
	l.mu.Lock()
	l.problem = err.Error()
	l.mu.Unlock()
	if errors.Is(err, syscall.ECONNREFUSED) {
		l.server.reportLost(l, frontend.WorkerGone{Worker: l.key}) // nobody listens there any more
	}
}

// startHandshake makes a new connection the link's, with Hello in its outbox; nil if the link has been retired.
func (l *link) startHandshake(raw net.Conn) *linkConn {
	cfg := &l.server.cfg
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		raw.Close()
		return nil
	}
	l.epoch++
	c := &linkConn{Conn: sock.New(raw), link: l, epoch: l.epoch, writeEnded: sync.Cond{L: &l.mu}}
	l.conn, l.problem = c, greetingProblem
	l.heardAt.Store(monotonicNow())
	c.appendMsg(probe.Hello{
		Speaks: probe.Spoken, Secret: cfg.connSecrets().Tell(), Frontend: cfg.Core.ID, Name: cfg.Name,
		Epoch: c.epoch, Lease: cfg.Lease,
	})
	return c
}

// greetingProblem is a link's problem while it has a connection and no Welcome.
const greetingProblem = "greeting"

// linkConn is one connection of a link, with all that is to be said on it. It tells the link when fastrpc, or anyone,
// closes it.
type linkConn struct {
	*sock.Conn // one at a time writes, as writing says, but for the handshake, when there is no other
	link       *link
	epoch      probe.Epoch
	closeOnce  sync.Once

	// Guarded by the link's mutex.
	up         bool      // Welcome came
	closed     bool      // what is in the outbox goes nowhere
	writing    bool      // someone writes, and sees to what is in the outbox then
	writeEnded sync.Cond // writing has ended
	outbox     []byte    // frames to be written, each with its request id
	bodyStart  int       // where the body of the last frame in out starts; 0: no frame is open
	unsent     []byte    // of what was to be written at once: it goes before out
	spareBuf   []byte

	muted bool // what fastrpc writes goes nowhere. Its goroutine's alone
}

func (c *linkConn) appendMsg(m probe.Msg) {
	if c.bodyStart > 0 && len(c.outbox)-c.bodyStart >= probe.FullFrame {
		c.outbox = probe.EndFrame(c.outbox, c.bodyStart)
		c.bodyStart = 0
	}
	if c.bodyStart == 0 {
		c.outbox, c.bodyStart = probe.BeginPush(c.outbox, c.epoch)
	}
	c.outbox = probe.AppendMsg(c.outbox, m)
}

// takeOutbox empties the outbox. The link's mutex is held.
func (c *linkConn) takeOutbox() []byte {
	if c.bodyStart > 0 {
		c.outbox = probe.EndFrame(c.outbox, c.bodyStart)
		c.bodyStart = 0
	}
	out := c.outbox
	c.outbox, c.spareBuf = c.spareBuf[:0], nil
	return out
}

// reuseBuf keeps the memory of what take returned. The link's mutex is held.
func (c *linkConn) reuseBuf(out []byte) {
	if cap(out) <= maxReusedOutbox {
		c.spareBuf = out[:0]
	}
}

// maxWriteRounds is how often one caller writes what others have put into the outbox meanwhile, before fastrpc is to.
const maxWriteRounds = 4

// writeNow writes the outbox as far as the socket takes it, and reports whether something is left. What fails is left, too:
// fastrpc will find out. The link's mutex is held, but not meanwhile.
func (c *linkConn) writeNow() (unwritten bool) {
	l := c.link
	c.writing = true
	for turn := 0; turn < maxWriteRounds && len(c.outbox) > 0 && len(c.unsent) == 0; turn++ {
		out := c.takeOutbox()
		l.mu.Unlock()
		n := c.Conn.TryWrite(out)
		l.mu.Lock()
		c.unsent = append(c.unsent, out[n:]...)
		c.reuseBuf(out)
	}
	c.writing = false
	c.writeEnded.Signal()
	return len(c.outbox)+len(c.unsent) > 0
}

// writeTimeout is how long a peer may take to read what is written to it.
const writeTimeout = 10 * time.Second

// Write implements net.Conn. Only fastrpc calls it.
func (c *linkConn) Write(b []byte) (int, error) {
	if c.muted {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// writeOutbox writes all there is, for fastrpc. A request id is in bw already, which is emptied, so that others may write: each frame
// has its own, and to write it with them by way of bw would take two writes of whatever is larger than bw, and wake its reader
// for each.
func (c *linkConn) writeOutbox(bw *bufio.Writer) error {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	for c.writing {
		c.writeEnded.Wait()
	}
	if c.closed {
		return net.ErrClosed // with nothing to write, fastrpc would not find out
	}
	c.writing = true
	rest, out := c.unsent, c.takeOutbox()
	l.mu.Unlock()

	c.muted = true
	err := bw.Flush()
	c.muted = false
	for _, b := range [...][]byte{rest, out} {
		if err == nil {
			err = c.writeAll(b)
		}
	}

	l.mu.Lock()
	c.writing, c.unsent = false, nil
	c.reuseBuf(out)
	return err
}

// writeAll waits for its peer, but not for ever.
func (c *linkConn) writeAll(b []byte) error {
	if b = b[c.Conn.TryWrite(b):]; len(b) == 0 {
		return nil
	}
	c.SetWriteDeadline(time.Now().Add(writeTimeout))
	defer c.SetWriteDeadline(time.Time{})
	_, err := c.Conn.Write(b)
	return err
}

// wantsFlush reports whether fastrpc must be given a flush: to write what waits, or to make another connection.
func (c *linkConn) wantsFlush() bool {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	return c.closed || len(c.outbox)+len(c.unsent) > 0
}

func (c *linkConn) Close() error {
	err := c.Conn.Close()
	c.closeOnce.Do(func() { c.link.noteClosed(c) })
	return err
}

// noteClosed withdraws the connection and starts to make a new one, unless the link is retired.
func (l *link) noteClosed(c *linkConn) {
	l.mu.Lock()
	c.closed, c.outbox, c.bodyStart, c.unsent = true, nil, 0, nil
	wasUp := l.conn == c && c.up
	if l.conn == c {
		l.conn, l.delayDial = nil, !c.up
		if c.up {
			l.lostAt = monotonicNow()
		}
		switch l.problem {
		case "":
			l.problem = "connection lost"
		case greetingProblem:
			l.problem = "it closes connections without a word: is it a worker, and of this release?"
		}
	}
	l.mu.Unlock()
	l.pipe.scheduleFlush()
	if wasUp {
		s := l.server
		s.log.Warn("worker link lost", "worker", l.addr)
		s.metrics.linksLost.Inc()
		s.reportLost(l, frontend.LinkLost{Worker: l.key})
	}
}

// failConn closes the connection for a reason that people should see.
func (l *link) failConn(c *linkConn, problem string) {
	l.mu.Lock()
	if l.conn == c {
		l.problem = problem
	}
	l.mu.Unlock()
	c.Close()
}

// pushReader reads what the worker says on one connection.
type pushReader struct {
	conn    *linkConn
	decoder probe.Decoder
	msgs    []probe.Msg
	header  [probe.FrameHeader]byte
}

// ReadResponse implements fastrpc.ResponseReader: it reads one frame. An error closes the connection.
func (p *pushReader) ReadResponse(br *bufio.Reader) error {
	if _, err := io.ReadFull(br, p.header[:]); err != nil {
		return err
	}
	n, err := probe.BodySize(p.header[:], probe.MaxFrame)
	if err != nil {
		return p.conn.rejectGarbage(err)
	}
	body := make([]byte, n) // the messages keep it
	if _, err := io.ReadFull(br, body); err != nil {
		return err
	}
	epoch, msgs, err := p.decoder.Decode(body, p.msgs[:0])
	if err != nil {
		return p.conn.rejectGarbage(err)
	}
	c, l := p.conn, p.conn.link
	if n := p.decoder.Skipped; n > 0 {
		l.server.metrics.skipped.Add(n)
		p.decoder.Skipped = 0
	}
	l.heardAt.Store(monotonicNow())
	l.mu.Lock()
	current, up := l.conn == c && epoch == c.epoch, c.up
	l.mu.Unlock()
	if !current {
		return nil
	}
	if !up {
		if msgs, err = c.readWelcome(msgs); err != nil {
			return err
		}
	}
	if len(msgs) > 0 {
		l.server.stepFrame(l, msgs)
	}
	clear(msgs)
	p.msgs = msgs[:0]
	p.decoder.Reuse()
	return nil
}

func (c *linkConn) rejectGarbage(err error) error {
	c.link.server.metrics.protocolErrors.Inc()
	c.link.failConn(c, err.Error())
	return err
}

// readWelcome takes the worker's first message, and returns those after it.
func (c *linkConn) readWelcome(msgs []probe.Msg) ([]probe.Msg, error) {
	if len(msgs) == 0 {
		return nil, nil
	}
	l, s := c.link, c.link.server
	problem := ""
	switch m := msgs[0].(type) {
	case probe.Welcome:
		version, features, err := probe.Spoken.Common(m.Speaks, "this frontend", "the worker")
		switch {
		case err != nil:
			problem = err.Error()
		case m.Epoch != c.epoch:
			problem = "its Welcome answers another Hello"
		}
		if problem != "" {
			break
		}
		other, ok := s.reportUp(c, m)
		if ok {
			s.log.Info("worker linked", "worker", m.Worker, "address", l.addr, "capacity", m.Capacity.String(),
				"version", version, "features", features)
			return msgs[1:], nil
		}
		if other == nil {
			return nil, net.ErrClosed
		}
		problem = fmt.Sprintf("it is worker %s, which is linked as %s: list it under one address", m.Worker, other.addr)
	case probe.Rejected:
		problem = "rejected: " + m.Reason
	default:
		problem = fmt.Sprintf("its first message is a %T, not Welcome", m)
	}
	l.mu.Lock()
	level := slog.LevelWarn
	if l.loggedProblem == problem {
		level = slog.LevelDebug
	}
	l.loggedProblem = problem
	l.mu.Unlock()
	s.log.Log(context.Background(), level, "worker is not linked", "worker", l.addr, "reason", problem)
	s.metrics.protocolErrors.Inc()
	l.failConn(c, problem)
	return nil, errors.New(problem)
}

// markUp makes the connection one that messages go by, unless it has been closed meanwhile.
func (c *linkConn) markUp() bool {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != c {
		return false
	}
	c.up, l.problem, l.loggedProblem = true, "", ""
	return true
}

// checkConn closes a connection that is silent or does not read, and pings one that is up. It reports whether it was
// silent.
func (l *link) checkConn(lease time.Duration) bool {
	l.mu.Lock()
	conn := l.conn
	if conn == nil {
		l.mu.Unlock()
		return false
	}
	up, waiting := conn.up, len(conn.outbox)+len(conn.unsent)
	l.mu.Unlock()
	now := monotonicNow()
	switch silent := time.Duration(now - l.heardAt.Load()); {
	case silent > lease:
		l.failConn(conn, fmt.Sprintf("silent for %v", silent.Round(time.Millisecond)))
		return true
	case waiting > maxOutbox:
		l.failConn(conn, fmt.Sprintf("it does not read: %d bytes wait", waiting))
	case up:
		l.sendPing()
	}
	return false
}

// excuseAbsence takes a time in which this process did not run out of the worker's silence.
func (l *link) excuseAbsence(absence time.Duration) {
	l.heardAt.Store(min(l.heardAt.Load()+int64(absence), monotonicNow()))
}

// sendPing asks the worker for a Pong, and returns its number.
func (l *link) sendPing() uint64 {
	l.pingedAt.Store(monotonicNow())
	seq := l.pingSeq.Add(1)
	l.send(probe.Ping{Seq: seq})
	l.flush(true)
	return seq
}

// hasAnswered reports whether the worker has answered a Ping, and so has all that was sent before, or has no link.
func (l *link) hasAnswered(seq uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pongSeq.Load() >= seq || !l.isUp()
}

// notePong measures the round trip.
// ponged takes the answer to a Ping. The server's mutex is held.
func (l *link) notePong(seq uint64) {
	l.pongSeq.Store(seq)
	if seq == l.pingSeq.Load() {
		rtt := monotonicNow() - l.pingedAt.Load()
		l.rtt.Store(rtt)
		l.server.recorder.roundTrips.Add(time.Duration(rtt))
	}
}

// isUpOrRecent reports whether the link is up, or has been within the lease and may soon be again. Its server's mutex is held.
func (l *link) isUpOrRecent(lease time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isUp() || l.lostAt > 0 && time.Duration(monotonicNow()-l.lostAt) < lease
}

// isUp reports whether messages go by the link. Its mutex is held.
func (l *link) isUp() bool { return l.conn != nil && l.conn.up }

// linkStatus is how the link stands, for people.
func (l *link) linkStatus() (connected bool, problem string, heardAgo, rtt time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.heardAt.Load(); h > 0 {
		heardAgo = time.Duration(monotonicNow() - h)
	}
	return l.isUp(), l.problem, heardAgo, time.Duration(l.rtt.Load())
}
