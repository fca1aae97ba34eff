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

// link is the connection to one worker. A broken link is made again, until the worker is taken off the list. A link
// is never used again for another worker, so late news of a retired link can be dropped.
type link struct {
	server *Server
	key    frontend.Worker
	addr   string
	pipe   *pipe
	ctx    context.Context // ends when the link is retired
	cancel context.CancelFunc

	workerRun workerRun // found at the address last; guarded by the server's mutex
	// The recorder's number of the worker's name; 0: not known. Guarded by the server's mutex.
	recordNumber uint32

	mu            sync.Mutex
	conn          *linkConn // nil: none, or being dialled
	epoch         probe.Epoch
	problem       string
	delayDial     bool   // the last connection was closed before Welcome: the next dial waits
	lostAt        int64  // when the last connection that was up was closed, by monotonicNow()
	rejection     string // why the worker rejected the last Hello; "": no rejection
	loggedProblem string // the reason why no Welcome came, if the log has it already

	heardAt  atomic.Int64 // when the worker was last heard, by monotonicNow(); see noteMoved
	pingedAt atomic.Int64
	pingSeq  atomic.Uint64
	pongSeq  atomic.Uint64
	rtt      atomic.Int64
}

// workerRun is a run of a worker: from the start of the process to the end.
type workerRun struct {
	worker      string
	incarnation uint64
}

var processStart = time.Now()

// monotonicNow returns the nanoseconds since this process started. No clock change affects them.
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

// send appends a message to the outbox; flush must follow. Without a connection the message is dropped.
func (l *link) send(m probe.Msg) {
	l.mu.Lock()
	if c := l.conn; c != nil && c.up {
		c.appendMsg(m)
	}
	l.mu.Unlock()
}

// flush makes sure that the outbox gets written. If urgent, the caller itself writes as much as the connection takes
// at once. fastrpc's goroutine, which may block, writes the rest. flush never blocks.
func (l *link) flush(urgent bool) {
	l.mu.Lock()
	c := l.conn
	unwritten := c != nil && !c.writing && len(c.outbox) > 0 // if another goroutine writes, it writes the rest, too
	if urgent && unwritten && c.up {
		unwritten = c.writeNow()
	}
	l.mu.Unlock()
	if unwritten {
		l.pipe.scheduleFlush()
	}
}

// maxReusedOutbox is the largest outbox, in bytes, that is kept for reuse. So idle links take little memory. The
// values from maxReusedOutbox to redialDelay were chosen, and not measured.
const maxReusedOutbox = 1 << 20

// maxOutbox bounds the bytes that wait for a worker, besides the payloads of the jobs that the frontend admits. So a
// slow worker gets all payloads, and the outbox does not grow for ever.
const maxOutbox = 64 << 20

// redialDelay is the pause after a failed dial, or after a connection closed before Welcome.
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
		l.server.reportLost(l, frontend.WorkerGone{Worker: l.key}) // no process listens there any more
	}
}

// startHandshake makes a new connection the link's, with Hello in its outbox. It returns nil if the link has been
// retired.
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

// greetingProblem is a link's problem while the link has a connection and no Welcome.
const greetingProblem = "connected, without an answer yet: if this lasts, its process hangs"

// linkConn is a connection of a link, with an outbox. When any caller, such as fastrpc, closes the connection,
// linkConn tells the link.
type linkConn struct {
	// After the handshake, one goroutine at a time writes, and sets writing meanwhile. During the handshake only one
	// goroutine knows the connection.
	*sock.Conn
	link      *link
	epoch     probe.Epoch
	closeOnce sync.Once

	// Guarded by the link's mutex.
	up         bool      // Welcome came; set by the goroutine that reads
	closed     bool      // the outbox is dropped
	writing    bool      // a goroutine writes, and then looks at the outbox again
	writeEnded sync.Cond // signalled when writing has ended
	outbox     []byte    // frames to be written, each with its request id
	bodyStart  int       // where the body of the last frame in outbox starts; 0: no frame is open
	unsent     []byte    // bytes left by writeNow, to be written before outbox
	spareBuf   []byte

	muted bool // bytes from fastrpc are dropped; only fastrpc's goroutine uses it
}

// appendMsg appends m to the open frame of the outbox, or to a new frame if the open frame is full. The link's
// mutex is held.
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

// takeOutbox empties the outbox and returns the bytes. The link's mutex is held.
func (c *linkConn) takeOutbox() []byte {
	if c.bodyStart > 0 {
		c.outbox = probe.EndFrame(c.outbox, c.bodyStart)
		c.bodyStart = 0
	}
	out := c.outbox
	c.outbox, c.spareBuf = c.spareBuf[:0], nil
	return out
}

// reuseBuf keeps the memory of a slice that takeOutbox returned. The link's mutex is held.
func (c *linkConn) reuseBuf(out []byte) {
	if cap(out) <= maxReusedOutbox {
		c.spareBuf = out[:0]
	}
}

// maxWriteRounds bounds a caller's rounds of writing. In each round the caller writes the messages added meanwhile.
// After the last round, fastrpc writes.
const maxWriteRounds = 4

// writeNow writes the outbox as far as the socket takes it, and reports whether bytes are left. Bytes that fail are
// left, too: fastrpc will find out. The link's mutex is held at call and return, but not during a write.
func (c *linkConn) writeNow() (unwritten bool) {
	l := c.link
	c.writing = true
	for round := 0; round < maxWriteRounds && len(c.outbox) > 0 && len(c.unsent) == 0; round++ {
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

// Read implements net.Conn. After Welcome, bytes of a frame count before the whole frame has come. Before Welcome, the
// worker has a lease for a whole frame, and bytes do not extend the lease.
func (c *linkConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.up { // the caller is the goroutine that sets up
		c.link.noteMoved(n)
	}
	return n, err
}

const (
	// writeTimeout bounds the time for a peer to read written bytes.
	writeTimeout = 10 * time.Second
	// writePiece bounds the bytes of a write that waits for a worker. If the worker reads, pieces end within a lease.
	writePiece = 64 << 10
	// maxKernelUnsent bounds the bytes that the kernel takes for a worker and has not sent. Otherwise the kernel takes
	// megabytes at once, and wakes the writer when a third has left: on a slow link, too seldom.
	maxKernelUnsent = 2 * writePiece
)

// Write implements net.Conn. Only fastrpc calls it.
func (c *linkConn) Write(b []byte) (int, error) {
	if c.muted {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// writeOutbox writes all waiting bytes, for fastrpc. By then bw holds a request id from fastrpc. The id is dropped,
// because each frame in the outbox has an id already. If frames went by way of bw, any frame larger than bw would
// take two writes and wake the reader twice.
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

// writeAll writes b. The worker may take writeTimeout for each piece, and any time for the whole. Pongs wait behind the
// bytes, so pieces that the worker reads count as signs of life.
func (c *linkConn) writeAll(b []byte) error {
	if b = b[c.Conn.TryWrite(b):]; len(b) == 0 {
		return nil
	}
	defer c.SetWriteDeadline(time.Time{})
	for len(b) > 0 {
		c.SetWriteDeadline(time.Now().Add(writeTimeout))
		n, err := c.Conn.Write(b[:min(len(b), writePiece)])
		if err != nil {
			return err
		}
		c.link.noteMoved(n)
		b = b[n:]
	}
	return nil
}

// wantsFlush reports whether fastrpc must be given a flush: to write waiting bytes, or to make another connection.
func (c *linkConn) wantsFlush() bool {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	return c.closed || len(c.outbox)+len(c.unsent) > 0
}

// Close closes the connection, and tells the link the first time.
func (c *linkConn) Close() error {
	err := c.Conn.Close()
	c.closeOnce.Do(func() { c.link.noteClosed(c) })
	return err
}

// noteClosed withdraws connection c, and starts to make a new one unless the link is retired.
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
			l.problem = "it closes connections without a word: it is about to end, or no worker of this release"
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

// pushReader reads the worker's frames on one connection.
type pushReader struct {
	conn    *linkConn
	decoder probe.Decoder
	msgs    []probe.Msg
	header  [probe.FrameHeader]byte
}

// ReadResponse implements fastrpc.ResponseReader: it reads a frame. An error closes the connection.
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

// rejectGarbage closes the connection because of an unreadable frame, and returns err.
func (c *linkConn) rejectGarbage(err error) error {
	c.link.server.metrics.protocolErrors.Inc()
	c.link.failConn(c, err.Error())
	return err
}

// readWelcome takes the worker's first message, and returns the messages after it.
func (c *linkConn) readWelcome(msgs []probe.Msg) ([]probe.Msg, error) {
	if len(msgs) == 0 {
		return nil, nil
	}
	l, s := c.link, c.link.server
	problem, rejection := "", ""
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
		problem = fmt.Sprintf("it is worker %s, linked as %s: list it under one address", m.Worker, other.addr)
	case probe.Rejected:
		problem, rejection = "rejected: "+m.Reason, m.Reason
	default:
		problem = fmt.Sprintf("its first message is a %T, not Welcome", m)
	}
	l.mu.Lock()
	level := slog.LevelWarn
	if l.loggedProblem == problem {
		level = slog.LevelDebug
	}
	l.loggedProblem, l.rejection = problem, rejection
	l.mu.Unlock()
	s.log.Log(context.Background(), level, "worker is not linked", "worker", l.addr, "reason", problem)
	s.metrics.protocolErrors.Inc()
	l.failConn(c, problem)
	return nil, errors.New(problem)
}

// markUp lets messages go by the connection, unless it has been closed meanwhile.
func (c *linkConn) markUp() bool {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != c {
		return false
	}
	c.up, l.problem, l.loggedProblem, l.rejection = true, "", "", ""
	return true
}

// checkConn closes a silent connection, and a connection with too many waiting bytes. If the link is up, checkConn
// sends a Ping. It reports whether the connection was silent.
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
	case waiting > maxOutbox+l.server.cfg.Core.MaxPayloads:
		l.failConn(conn, fmt.Sprintf("it reads too slowly: %d bytes wait", waiting))
	case up:
		l.sendPing()
	}
	return false
}

// minLinkRate is the least rate of a link, in bytes a second, at which a large frame breaks no lease. The value was
// chosen, and not measured.
const minLinkRate = 32 << 10

// noteMoved subtracts from the worker's silence the time that n bytes take at minLinkRate. So a worker that trickles
// bytes falls silent as before.
func (l *link) noteMoved(n int) { l.excuseAbsence(time.Duration(n) * time.Second / minLinkRate) }

// excuseAbsence subtracts an absence of this process from the worker's silence.
func (l *link) excuseAbsence(absence time.Duration) {
	for {
		at := l.heardAt.Load()
		if l.heardAt.CompareAndSwap(at, min(at+int64(absence), monotonicNow())) {
			return
		}
	}
}

// sendPing asks the worker for a Pong, and returns the number of the Ping.
func (l *link) sendPing() uint64 {
	l.pingedAt.Store(monotonicNow())
	seq := l.pingSeq.Add(1)
	l.send(probe.Ping{Seq: seq})
	l.flush(true)
	return seq
}

// hasAnswered reports whether the worker has answered Ping seq or a later one, or has no link. By then the worker
// has all messages sent before the Ping.
func (l *link) hasAnswered(seq uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pongSeq.Load() >= seq || !l.isUp()
}

// notePong takes the answer to a Ping, and measures the round trip if the Ping was the last. The server's mutex is
// held.
func (l *link) notePong(seq uint64) {
	l.pongSeq.Store(seq)
	if seq == l.pingSeq.Load() {
		rtt := monotonicNow() - l.pingedAt.Load()
		l.rtt.Store(rtt)
		l.server.recorder.roundTrips.Add(time.Duration(rtt))
	}
}

// isUpOrRecent reports whether the link is up, or was up within the lease and may soon be again. The server's mutex
// is held.
func (l *link) isUpOrRecent(lease time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isUp() || l.lostAt > 0 && time.Duration(monotonicNow()-l.lostAt) < lease
}

// isUp reports whether messages go by the link. The link's mutex is held.
func (l *link) isUp() bool { return l.conn != nil && l.conn.up }

// Rejections returns why workers rejected the frontend's last Hello, by the workers' addresses.
func (s *Server) Rejections() map[string]string {
	found := map[string]string{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for addr, l := range s.byAddr {
		l.mu.Lock()
		if l.rejection != "" {
			found[addr] = l.rejection
		}
		l.mu.Unlock()
	}
	return found
}

// linkStatus returns the state of the link, for people.
func (l *link) linkStatus() (connected bool, problem string, heardAgo, rtt time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.heardAt.Load(); h > 0 {
		heardAgo = time.Duration(monotonicNow() - h)
	}
	return l.isUp(), l.problem, heardAgo, time.Duration(l.rtt.Load())
}
