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

	"github.com/valyala/fastrpc"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
)

// link is the connection to one worker, made again whenever it breaks. fastrpc dials when something is to
// be sent; what that is, a flush, is asked for only when it writes, so that one flush takes all that has
// gathered in the outbox, and nothing survives its connection.
type link struct {
	server *Server
	key    frontend.Worker
	addr   string
	client *fastrpc.Client

	mu        sync.Mutex
	retired   bool
	conn      *linkConn   // nil: none, or being dialled
	epoch     probe.Epoch // of conn, or of the last one
	up        bool        // Welcome came on conn
	out       []byte      // frames to be written on conn, each with its request id
	body      int         // where the body of the last frame in out starts; 0: no frame is open
	spare     []byte
	scheduled bool // fastrpc holds a flush
	problem   string
	pause     bool   // the last connection was closed before Welcome: the next dial fails, and fastrpc waits
	warned    string // why no Welcome came, as the log has it already

	heard   atomic.Int64 // when a frame last came, by monotonic()
	pinged  atomic.Int64
	pingSeq atomic.Uint64
	rtt     atomic.Int64
}

// spareLinks are retired links: fastrpc's clients cannot be closed, so they are used again.
var spareLinks struct {
	sync.Mutex
	list []*link
}

var started = time.Now()

func monotonic() int64 { return int64(time.Since(started)) }

// newLink makes a link and starts to connect it.
func newLink(s *Server, key frontend.Worker, addr string) *link {
	spareLinks.Lock()
	var l *link
	if n := len(spareLinks.list); n > 0 {
		l = spareLinks.list[n-1]
		spareLinks.list = spareLinks.list[:n-1]
	}
	spareLinks.Unlock()
	if l == nil {
		l = &link{}
		l.client = &fastrpc.Client{
			SniffHeader:        probe.SniffHeader,
			ProtocolVersion:    probe.ProtocolVersion,
			CompressType:       fastrpc.CompressNone,
			NewResponse:        func() fastrpc.ResponseReader { return l.pushes() },
			Dial:               func(string) (net.Conn, error) { return l.dial() },
			MaxPendingRequests: 64,
			WriteTimeout:       10 * time.Second,
			ReadBufferSize:     8 << 10,
			WriteBufferSize:    8 << 10,
		}
	}
	l.mu.Lock()
	l.server, l.key, l.addr, l.retired, l.problem = s, key, addr, false, "connecting"
	l.pause, l.warned = false, ""
	l.rtt.Store(0)
	l.schedule()
	l.mu.Unlock()
	return l
}

// retire closes the link for good.
func (l *link) retire() {
	l.mu.Lock()
	conn := l.conn
	l.retired, l.conn, l.up = true, nil, false
	l.out, l.body = nil, 0
	l.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
	spareLinks.Lock()
	spareLinks.list = append(spareLinks.list, l)
	spareLinks.Unlock()
}

// schedule asks fastrpc for a flush, which makes it dial if there is no connection. l.mu is held.
func (l *link) schedule() {
	if !l.scheduled && !l.retired {
		l.scheduled = l.client.SendNowait(&flush{link: l}, released)
	}
}

// flush is what is handed to fastrpc: an order to write what is in the outbox by then.
type flush struct {
	link    *link
	written bool
}

// released is called by fastrpc when it is done with a flush. One that it gave up without writing, after ten
// seconds without a connection, is followed by another.
func released(req fastrpc.RequestWriter) {
	f := req.(*flush)
	f.link.mu.Lock()
	if !f.written {
		f.link.scheduled = false
	}
	if len(f.link.out) > 0 || f.link.conn == nil {
		f.link.schedule()
	}
	f.link.mu.Unlock()
}

// send appends a message to the outbox; flush must follow. Without a connection it is dropped.
func (l *link) send(m probe.Msg) {
	l.mu.Lock()
	if l.up {
		l.append(m)
	}
	l.mu.Unlock()
}

func (l *link) append(m probe.Msg) {
	if l.body > 0 && len(l.out)-l.body >= probe.FullFrame {
		l.out = probe.EndFrame(l.out, l.body)
		l.body = 0
	}
	if l.body == 0 {
		l.out, l.body = probe.BeginPush(l.out, l.epoch)
	}
	l.out = probe.AppendMsg(l.out, m)
}

// flush lets fastrpc write what has gathered.
func (l *link) flush() {
	l.mu.Lock()
	if len(l.out) > 0 {
		l.schedule()
	}
	l.mu.Unlock()
}

// WriteRequest implements fastrpc.RequestWriter: fastrpc has just written the first frame's request id.
func (f *flush) WriteRequest(bw *bufio.Writer) error {
	l := f.link
	f.written = true
	l.mu.Lock()
	l.scheduled = false // what comes from here on needs another flush
	if l.body == 0 && len(l.out) == 0 {
		l.out, l.body = probe.BeginPush(l.out, l.epoch) // an id must be followed by a frame
	}
	if l.body > 0 {
		l.out = probe.EndFrame(l.out, l.body)
		l.body = 0
	}
	out := l.out
	l.out = l.spare[:0]
	l.spare = nil
	l.mu.Unlock()

	_, err := bw.Write(out[probe.PushHeader-probe.FrameHeader:])

	if cap(out) <= maxSpare {
		l.mu.Lock()
		l.spare = out[:0]
		l.mu.Unlock()
	}
	return err
}

// maxSpare is the largest outbox, in bytes, that is kept for reuse.
const maxSpare = 1 << 20

// maxOut is how many bytes may wait for a worker that does not read.
const maxOut = 64 << 20

// dial connects, for fastrpc, which waits a second after an error.
func (l *link) dial() (net.Conn, error) {
	l.mu.Lock()
	s, key, addr, retired, pause := l.server, l.key, l.addr, l.retired, l.pause
	l.pause = false
	l.mu.Unlock()
	switch {
	case retired:
		return nil, errors.New("link: retired")
	case pause:
		return nil, errors.New("link: turned away just now")
	}
	dialer := net.Dialer{
		Timeout:         s.cfg.DialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 3},
		Control:         func(_, _ string, c syscall.RawConn) error { return setUserTimeout(c, s.cfg.Lease) },
	}
	raw, err := dialer.DialContext(context.Background(), "tcp", addr)
	if err != nil {
		l.mu.Lock()
		l.problem = err.Error()
		l.mu.Unlock()
		if errors.Is(err, syscall.ECONNREFUSED) {
			s.lost(l, frontend.WorkerGone{Worker: key}) // nobody listens there any more
		}
		return nil, err
	}
	conn := &linkConn{Conn: raw, link: l, server: s, key: key, addr: addr}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retired || l.server != s {
		raw.Close()
		return nil, errors.New("link: retired")
	}
	l.epoch++
	l.conn, l.up, l.problem = conn, false, greeting
	l.heard.Store(monotonic())
	l.out, l.body = l.out[:0], 0
	l.append(probe.Hello{
		Version: probe.Version, Secret: s.cfg.Secret, Frontend: s.cfg.Core.ID, Name: s.cfg.Name,
		Epoch: l.epoch, Lease: s.cfg.Lease,
	})
	l.schedule()
	return conn, nil
}

// greeting is a link's problem while it has a connection and no Welcome.
const greeting = "greeting"

// linkConn tells its link when fastrpc, or anyone, closes it. It remembers for whom it was made: a retired link
// may belong to another server before fastrpc has let go of the connection.
type linkConn struct {
	net.Conn
	link   *link
	server *Server
	key    frontend.Worker
	addr   string
	once   sync.Once
}

func (c *linkConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.link.closed(c) })
	return err
}

// closed withdraws the connection and starts to make a new one.
func (l *link) closed(c *linkConn) {
	l.mu.Lock()
	if l.conn != c {
		l.mu.Unlock()
		return
	}
	wasUp := l.up
	l.conn, l.up = nil, false
	l.out, l.body = l.out[:0], 0
	switch l.problem {
	case "":
		l.problem = "connection lost"
	case greeting:
		l.problem = "it closes connections without a word: is it a worker?"
	}
	l.pause = !wasUp
	l.schedule()
	l.mu.Unlock()
	if wasUp {
		c.server.log.Warn("worker link lost", "worker", c.addr)
		c.server.metrics.linksLost.Inc()
		c.server.lost(l, frontend.LinkLost{Worker: c.key})
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
	link    *link
	conn    *linkConn
	epoch   probe.Epoch
	decoder probe.Decoder
	msgs    []probe.Msg
	header  [probe.FrameHeader]byte
}

func (l *link) pushes() *pushes {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &pushes{link: l, conn: l.conn, epoch: l.epoch}
}

// ReadResponse implements fastrpc.ResponseReader: it reads one frame. An error closes the connection.
func (p *pushes) ReadResponse(br *bufio.Reader) error {
	if _, err := io.ReadFull(br, p.header[:]); err != nil {
		return err
	}
	n, err := probe.BodySize(p.header[:], probe.MaxFrame)
	if err != nil {
		return p.garbage(err)
	}
	body := make([]byte, n) // the messages keep it
	if _, err := io.ReadFull(br, body); err != nil {
		return err
	}
	epoch, msgs, err := p.decoder.Decode(body, p.msgs[:0])
	if err != nil {
		return p.garbage(err)
	}
	l := p.link
	l.heard.Store(monotonic())
	l.mu.Lock()
	current, up := l.conn == p.conn && epoch == p.epoch, l.up
	l.mu.Unlock()
	if !current {
		return nil
	}
	if !up {
		if msgs, err = p.welcome(msgs); err != nil {
			return err
		}
	}
	if len(msgs) > 0 {
		p.conn.server.received(p.conn, msgs)
	}
	clear(msgs)
	p.msgs = msgs[:0]
	return nil
}

func (p *pushes) garbage(err error) error {
	if p.conn != nil {
		p.conn.server.metrics.protocolErrors.Inc()
		p.link.fail(p.conn, err.Error())
	}
	return err
}

// welcome takes the worker's first message, and returns those after it.
func (p *pushes) welcome(msgs []probe.Msg) ([]probe.Msg, error) {
	if len(msgs) == 0 {
		return nil, nil
	}
	l, s := p.link, p.conn.server
	problem := ""
	switch m := msgs[0].(type) {
	case probe.Welcome:
		if m.Version == probe.Version && m.Epoch == p.epoch {
			l.mu.Lock()
			l.up, l.problem, l.warned = true, "", ""
			l.mu.Unlock()
			s.step(frontend.WorkerUp{Worker: p.conn.key, Welcome: m})
			s.log.Info("worker linked", "worker", m.Worker, "address", p.conn.addr, "capacity", m.Capacity.String())
			return msgs[1:], nil
		}
		problem = fmt.Sprintf("it speaks version %d of the probe protocol, we speak %d: use the same release", m.Version, probe.Version)
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
	s.log.Log(context.Background(), level, "worker does not accept the link", "worker", p.conn.addr, "reason", problem)
	s.metrics.protocolErrors.Inc()
	l.fail(p.conn, problem)
	return nil, errors.New(problem)
}

// check closes a connection that is silent or does not read, and pings one that is up. It returns one that is silent.
func (l *link) check(lease time.Duration) *linkConn {
	l.mu.Lock()
	conn, up, waiting := l.conn, l.up, len(l.out)
	l.mu.Unlock()
	if conn == nil {
		return nil
	}
	now := monotonic()
	switch silent := time.Duration(now - l.heard.Load()); {
	case silent > lease:
		l.fail(conn, fmt.Sprintf("silent for %v", silent.Round(time.Millisecond)))
		return conn
	case waiting > maxOut:
		l.fail(conn, fmt.Sprintf("it does not read: %d bytes wait", waiting))
	case up:
		l.pinged.Store(now)
		l.send(probe.Ping{Seq: l.pingSeq.Add(1)})
		l.flush()
	}
	return nil
}

// excuse takes a time in which this process did not run out of the worker's silence.
func (l *link) excuse(absence time.Duration) {
	l.heard.Store(min(l.heard.Load()+int64(absence), monotonic()))
}

// ponged measures the round trip.
func (l *link) ponged(seq uint64) {
	if seq == l.pingSeq.Load() {
		l.rtt.Store(monotonic() - l.pinged.Load())
	}
}

// status is how the link stands, for people.
func (l *link) status() (connected bool, problem string, heardAgo, rtt time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.heard.Load(); h > 0 {
		heardAgo = time.Duration(monotonic() - h)
	}
	return l.up, l.problem, heardAgo, time.Duration(l.rtt.Load())
}
