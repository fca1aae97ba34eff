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

	run run // found at the address last; guarded by the server's mutex

	mu         sync.Mutex
	conn       *linkConn // nil: none, or being dialled
	epoch      probe.Epoch
	problem    string
	turnedAway bool   // the last connection was closed before Welcome: the next one waits
	lostAt     int64  // when the last one that was up was closed, by monotonic()
	warned     string // why no Welcome came, as the log has it already

	heard   atomic.Int64 // when a frame last came, by monotonic()
	pinged  atomic.Int64
	pingSeq atomic.Uint64
	pongSeq atomic.Uint64
	rtt     atomic.Int64
}

// run is one run of a worker.
type run struct {
	worker      string
	incarnation uint64
}

var started = time.Now()

func monotonic() int64 { return int64(time.Since(started)) }

// newLink makes a link and starts to connect it.
func newLink(s *Server, key frontend.Worker, addr string) *link {
	l := &link{server: s, key: key, addr: addr, problem: "connecting"}
	l.ctx, l.cancel = context.WithCancel(s.ctx)
	l.pipe = takePipe()
	l.pipe.next <- l
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
		c.append(m)
	}
	l.mu.Unlock()
}

// flush has what has gathered written: if it is urgent by the caller, as far as the connection takes it at once, and what is
// left by fastrpc, whose goroutine may wait. It never blocks.
func (l *link) flush(urgent bool) {
	l.mu.Lock()
	c := l.conn
	left := c != nil && !c.writing && len(c.out) > 0 // who writes already sees to the rest
	if urgent && left && c.up {
		left = c.writeNow()
	}
	l.mu.Unlock()
	if left {
		l.pipe.schedule()
	}
}

// maxSpare is the largest outbox, in bytes, that is kept for reuse.
const maxSpare = 1 << 20

// maxOut is how many bytes may wait for a worker that does not read.
const maxOut = 64 << 20

// redial is how long to wait after a connection that was not made, or was closed before Welcome.
const redial = time.Second

// connect makes a connection, however long that takes. It returns nil once the link is retired.
func (l *link) connect() *linkConn {
	l.mu.Lock()
	wait := l.turnedAway
	l.turnedAway = false
	l.mu.Unlock()
	for ; ; wait = true {
		if wait {
			select {
			case <-l.ctx.Done():
			case <-time.After(redial):
			}
		}
		if l.ctx.Err() != nil {
			return nil
		}
		if l.server.linkedElsewhere(l) {
			continue
		}
		if raw, err := l.server.dial(l.ctx, l.addr); err != nil {
			l.unreachable(err)
		} else if c := l.greet(raw); c != nil {
			return c
		}
	}
}

// unreachable notes that no connection can be made.
func (l *link) unreachable(err error) {
	l.mu.Lock()
	l.problem = err.Error()
	l.mu.Unlock()
	if errors.Is(err, syscall.ECONNREFUSED) {
		l.server.lost(l, frontend.WorkerGone{Worker: l.key}) // nobody listens there any more
	}
}

// greet makes a new connection the link's, with Hello in its outbox; nil if the link has been retired.
func (l *link) greet(raw net.Conn) *linkConn {
	cfg := &l.server.cfg
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		raw.Close()
		return nil
	}
	l.epoch++
	c := &linkConn{Conn: sock.New(raw), link: l, epoch: l.epoch, written: sync.Cond{L: &l.mu}}
	l.conn, l.problem = c, greeting
	l.heard.Store(monotonic())
	c.append(probe.Hello{
		Speaks: probe.Spoken, Secret: cfg.asked().Tell(), Frontend: cfg.Core.ID, Name: cfg.Name,
		Epoch: c.epoch, Lease: cfg.Lease,
	})
	return c
}

// greeting is a link's problem while it has a connection and no Welcome.
const greeting = "greeting"

// linkConn is one connection of a link, with all that is to be said on it. It tells the link when fastrpc, or anyone,
// closes it.
type linkConn struct {
	*sock.Conn // one at a time writes, as writing says, but for the handshake, when there is no other
	link       *link
	epoch      probe.Epoch
	once       sync.Once

	// Guarded by the link's mutex.
	up      bool      // Welcome came
	closed  bool      // what is in the outbox goes nowhere
	writing bool      // someone writes, and sees to what is in the outbox then
	written sync.Cond // writing has ended
	out     []byte    // frames to be written, each with its request id
	body    int       // where the body of the last frame in out starts; 0: no frame is open
	rest    []byte    // of what was to be written at once: it goes before out
	spare   []byte

	mute bool // what fastrpc writes goes nowhere. Its goroutine's alone
}

func (c *linkConn) append(m probe.Msg) {
	if c.body > 0 && len(c.out)-c.body >= probe.FullFrame {
		c.out = probe.EndFrame(c.out, c.body)
		c.body = 0
	}
	if c.body == 0 {
		c.out, c.body = probe.BeginPush(c.out, c.epoch)
	}
	c.out = probe.AppendMsg(c.out, m)
}

// take empties the outbox. The link's mutex is held.
func (c *linkConn) take() []byte {
	if c.body > 0 {
		c.out = probe.EndFrame(c.out, c.body)
		c.body = 0
	}
	out := c.out
	c.out, c.spare = c.spare[:0], nil
	return out
}

// reuse keeps the memory of what take returned. The link's mutex is held.
func (c *linkConn) reuse(out []byte) {
	if cap(out) <= maxSpare {
		c.spare = out[:0]
	}
}

// writesInTurn is how often one caller writes what others have put into the outbox meanwhile, before fastrpc is to.
const writesInTurn = 4

// writeNow writes the outbox as far as the socket takes it, and reports whether something is left. What fails is left, too:
// fastrpc will find out. The link's mutex is held, but not meanwhile.
func (c *linkConn) writeNow() (left bool) {
	l := c.link
	c.writing = true
	for turn := 0; turn < writesInTurn && len(c.out) > 0 && len(c.rest) == 0; turn++ {
		out := c.take()
		l.mu.Unlock()
		n := c.Conn.TryWrite(out)
		l.mu.Lock()
		c.rest = append(c.rest, out[n:]...)
		c.reuse(out)
	}
	c.writing = false
	c.written.Signal()
	return len(c.out)+len(c.rest) > 0
}

// writeTimeout is how long a peer may take to read what is written to it.
const writeTimeout = 10 * time.Second

// Write implements net.Conn. Only fastrpc calls it.
func (c *linkConn) Write(b []byte) (int, error) {
	if c.mute {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// write writes all there is, for fastrpc. A request id is in bw already, which is emptied, so that others may write: each frame
// has its own, and to write it with them by way of bw would take two writes of whatever is larger than bw, and wake its reader
// for each.
func (c *linkConn) write(bw *bufio.Writer) error {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	for c.writing {
		c.written.Wait()
	}
	if c.closed {
		return net.ErrClosed // with nothing to write, fastrpc would not find out
	}
	c.writing = true
	rest, out := c.rest, c.take()
	l.mu.Unlock()

	c.mute = true
	err := bw.Flush()
	c.mute = false
	for _, b := range [...][]byte{rest, out} {
		if err == nil {
			err = c.writeAll(b)
		}
	}

	l.mu.Lock()
	c.writing, c.rest = false, nil
	c.reuse(out)
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
	return c.closed || len(c.out)+len(c.rest) > 0
}

func (c *linkConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.link.closed(c) })
	return err
}

// closed withdraws the connection and starts to make a new one, unless the link is retired.
func (l *link) closed(c *linkConn) {
	l.mu.Lock()
	c.closed, c.out, c.body, c.rest = true, nil, 0, nil
	wasUp := l.conn == c && c.up
	if l.conn == c {
		l.conn, l.turnedAway = nil, !c.up
		if c.up {
			l.lostAt = monotonic()
		}
		switch l.problem {
		case "":
			l.problem = "connection lost"
		case greeting:
			l.problem = "it closes connections without a word: is it a worker, and of this release?"
		}
	}
	l.mu.Unlock()
	l.pipe.schedule()
	if wasUp {
		s := l.server
		s.log.Warn("worker link lost", "worker", l.addr)
		s.metrics.linksLost.Inc()
		s.lost(l, frontend.LinkLost{Worker: l.key})
	}
}

// fail closes the connection for a reason that people should see.
func (l *link) fail(c *linkConn, problem string) {
	l.mu.Lock()
	if l.conn == c {
		l.problem = problem
	}
	l.mu.Unlock()
	c.Close()
}

// pushes reads what the worker says on one connection.
type pushes struct {
	conn    *linkConn
	decoder probe.Decoder
	msgs    []probe.Msg
	header  [probe.FrameHeader]byte
}

// ReadResponse implements fastrpc.ResponseReader: it reads one frame. An error closes the connection.
func (p *pushes) ReadResponse(br *bufio.Reader) error {
	if _, err := io.ReadFull(br, p.header[:]); err != nil {
		return err
	}
	n, err := probe.BodySize(p.header[:], probe.MaxFrame)
	if err != nil {
		return p.conn.garbage(err)
	}
	body := make([]byte, n) // the messages keep it
	if _, err := io.ReadFull(br, body); err != nil {
		return err
	}
	epoch, msgs, err := p.decoder.Decode(body, p.msgs[:0])
	if err != nil {
		return p.conn.garbage(err)
	}
	c, l := p.conn, p.conn.link
	if n := p.decoder.Skipped; n > 0 {
		l.server.metrics.skipped.Add(n)
		p.decoder.Skipped = 0
	}
	l.heard.Store(monotonic())
	l.mu.Lock()
	current, up := l.conn == c && epoch == c.epoch, c.up
	l.mu.Unlock()
	if !current {
		return nil
	}
	if !up {
		if msgs, err = c.welcome(msgs); err != nil {
			return err
		}
	}
	if len(msgs) > 0 {
		l.server.received(l, msgs)
	}
	clear(msgs)
	p.msgs = msgs[:0]
	p.decoder.Reuse()
	return nil
}

func (c *linkConn) garbage(err error) error {
	c.link.server.metrics.protocolErrors.Inc()
	c.link.fail(c, err.Error())
	return err
}

// welcome takes the worker's first message, and returns those after it.
func (c *linkConn) welcome(msgs []probe.Msg) ([]probe.Msg, error) {
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
		other, ok := s.welcomed(c, m)
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
	if l.warned == problem {
		level = slog.LevelDebug
	}
	l.warned = problem
	l.mu.Unlock()
	s.log.Log(context.Background(), level, "worker is not linked", "worker", l.addr, "reason", problem)
	s.metrics.protocolErrors.Inc()
	l.fail(c, problem)
	return nil, errors.New(problem)
}

// rise makes the connection one that messages go by, unless it has been closed meanwhile.
func (c *linkConn) rise() bool {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != c {
		return false
	}
	c.up, l.problem, l.warned = true, "", ""
	return true
}

// check closes a connection that is silent or does not read, and pings one that is up. It reports whether it was
// silent.
func (l *link) check(lease time.Duration) bool {
	l.mu.Lock()
	conn := l.conn
	if conn == nil {
		l.mu.Unlock()
		return false
	}
	up, waiting := conn.up, len(conn.out)+len(conn.rest)
	l.mu.Unlock()
	now := monotonic()
	switch silent := time.Duration(now - l.heard.Load()); {
	case silent > lease:
		l.fail(conn, fmt.Sprintf("silent for %v", silent.Round(time.Millisecond)))
		return true
	case waiting > maxOut:
		l.fail(conn, fmt.Sprintf("it does not read: %d bytes wait", waiting))
	case up:
		l.ping()
	}
	return false
}

// excuse takes a time in which this process did not run out of the worker's silence.
func (l *link) excuse(absence time.Duration) {
	l.heard.Store(min(l.heard.Load()+int64(absence), monotonic()))
}

// ping asks the worker for a Pong, and returns its number.
func (l *link) ping() uint64 {
	l.pinged.Store(monotonic())
	seq := l.pingSeq.Add(1)
	l.send(probe.Ping{Seq: seq})
	l.flush(true)
	return seq
}

// tookIn reports whether the worker has answered a Ping, and so has all that was sent before, or has no link.
func (l *link) tookIn(seq uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pongSeq.Load() >= seq || !l.isUp()
}

// ponged measures the round trip.
// ponged takes the answer to a Ping. The server's mutex is held.
func (l *link) ponged(seq uint64) {
	l.pongSeq.Store(seq)
	if seq == l.pingSeq.Load() {
		rtt := monotonic() - l.pinged.Load()
		l.rtt.Store(rtt)
		l.server.recorder.roundTrips.Add(time.Duration(rtt))
	}
}

// holds reports whether the link is up, or has been within the lease and may soon be again. Its server's mutex is held.
func (l *link) holds(lease time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isUp() || l.lostAt > 0 && time.Duration(monotonic()-l.lostAt) < lease
}

// isUp reports whether messages go by the link. Its mutex is held.
func (l *link) isUp() bool { return l.conn != nil && l.conn.up }

// status is how the link stands, for people.
func (l *link) status() (connected bool, problem string, heardAgo, rtt time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.heard.Load(); h > 0 {
		heardAgo = time.Duration(monotonic() - h)
	}
	return l.isUp(), l.problem, heardAgo, time.Duration(l.rtt.Load())
}
