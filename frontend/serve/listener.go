package serve

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/door"
	"github.com/phoebe-sched/phoebe/probe/identity"
	"github.com/phoebe-sched/phoebe/probe/sock"
)

// listener accepts clients, up to a limit, and keeps their connections. Silent connections, and connections that do
// not read, are closed. hasHungUp tells whether the client behind a call has gone.
type listener struct {
	net.Listener
	server *Server
	door   *door.Door // strangers have made no accepted call yet

	mu    sync.Mutex
	conns map[*clientConn]bool
}

// idleTimeout bounds the time without a byte either way on a client's connection. The time for which the client waits
// for an answer has no bound.
const idleTimeout = 30 * time.Minute

// clientConn is a client's connection.
type clientConn struct {
	// The goroutine that answers a Run may write. Otherwise only the server writes.
	*sock.Conn
	listener *listener
	// The connection of a balancer that has not named the client yet. nil: the client is named, or there is no
	// balancer.
	relayed *relayedConn
	raw     syscall.RawConn
	usedAt  atomic.Int64 // when a byte last went either way, by monotonicNow(); 0: never
	// How many times the server came back to read, or had written the answer to a Run. Each time, all earlier answers
	// are written.
	answerCount  atomic.Int64
	reading      atomic.Bool // waits for the client's next bytes
	closed       atomic.Bool
	guest        *door.Guest
	trusted      bool              // markTrusted was called, and need not lock again
	id           identity.Identity // from the certificate, once trusted; zero without certificates
	lastAnswered probe.JobID       // the last job whose Run was answered here. Server.mu guards it
	// Ends the context of the call that waits for something here; nil: none waits.
	endCall atomic.Pointer[context.CancelFunc]

	mu         sync.Mutex // guards all below
	owesAnswer bool       // the answer to a Run: nothing else may be written before it
	settled    sync.Cond  // signalled when no answer is owed, or the connection is closed
}

func newListener(raw net.Listener, s *Server) *listener {
	return &listener{Listener: raw, server: s, conns: map[*clientConn]bool{},
		door: door.New(door.Rule{MaxConns: s.cfg.MaxConns, Closed: func(why door.Reason) {
			if why == door.Late {
				s.metrics.connsIdle.Inc()
			} else {
				s.metrics.connsRefused.Inc()
			}
		}})}
}

// Accept implements net.Listener. Accept goes on after errors that would make Kitex end.
func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := door.Accept(l.Listener, l.server.metrics.connsRefused.Inc)
		if err != nil {
			return nil, err
		}
		c := &clientConn{listener: l}
		if tcp, ok := raw.(*net.TCPConn); ok && l.server.cfg.isBalancer(raw.RemoteAddr()) {
			c.relayed = &relayedConn{TCPConn: tcp}
			raw = c.relayed
		}
		c.Conn = sock.New(raw)
		if keys := l.server.cfg.Keys; keys != nil {
			c.Conn = keys.Server(raw, identity.Client|identity.Frontend|identity.Operator)
		}
		c.settled.L = &c.mu
		c.raw, _ = c.SyscallConn()
		if !l.addConn(c) {
			c.Conn.Close()
			continue
		}
		return c, nil
	}
}

// addConn takes in a new connection, and reports whether there is room.
func (l *listener) addConn(c *clientConn) bool {
	l.mu.Lock() // before the door evicts c, because Close removes c
	l.conns[c] = true
	l.mu.Unlock()
	guest := l.door.Enter(door.Descriptor(c.Conn), func() { c.Close() })
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.guest = guest; guest == nil {
		delete(l.conns, c)
	}
	return guest != nil
}

// markTrusted notes that the client has shown a right to call. Only the gate calls it.
func (c *clientConn) markTrusted() {
	if c.trusted {
		return
	}
	c.id, c.trusted = c.peerIdentity(), true
	c.guest.MarkKnown()
}

// peerIdentity returns the identity in the certificate of the client. Only the gate calls it.
func (c *clientConn) peerIdentity() identity.Identity {
	if c.trusted {
		return c.id
	}
	return c.listener.server.cfg.Keys.Peer(c.Conn)
}

// readIdleTimeout bounds a client's silence. Kitex has the same limit, but sets it before a Run is answered.
const readIdleTimeout = 2 * time.Minute

func (c *clientConn) Read(b []byte) (int, error) {
	c.answerCount.Add(1)
	c.reading.Store(true)
	defer c.reading.Store(false)
	if c.relayed != nil {
		if err := c.relayed.readProxyHeader(); err != nil {
			c.listener.server.noteUnintroduced(c.relayed, err)
			return 0, io.EOF
		}
		c.relayed = nil
	}
	for {
		n, err := c.Conn.Read(b)
		if n > 0 {
			c.usedAt.Store(monotonicNow())
		}
		if err == nil || !c.awaitSettled() || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		c.Conn.SetReadDeadline(time.Now().Add(readIdleTimeout)) // the client had to wait for this frontend
	}
}

func (c *clientConn) Write(b []byte) (int, error) {
	c.usedAt.Store(monotonicNow())
	if len(b) > 64<<10 { // fewer bytes fit the socket's buffer, or the next write finds it full
		return c.writePieces(b)
	}
	return c.Conn.Write(b)
}

// writePieces writes b piece by piece. The client may take writeTimeout for each piece, and any time for all pieces.
func (c *clientConn) writePieces(b []byte) (n int, err error) {
	const piece = 256 << 10
	defer c.SetWriteDeadline(time.Time{})
	for n < len(b) && err == nil {
		c.SetWriteDeadline(time.Now().Add(writeTimeout))
		var written int
		written, err = c.Conn.Write(b[n:min(n+piece, len(b))])
		n += written
	}
	return n, err
}

func (c *clientConn) Close() error {
	if !c.closed.Swap(true) {
		c.listener.mu.Lock()
		delete(c.listener.conns, c)
		guest := c.guest
		c.listener.mu.Unlock()
		guest.Leave()
		c.mu.Lock()
		c.settled.Broadcast()
		c.mu.Unlock()
	}
	return c.Conn.Close()
}

// hasHungUp reports whether the client has closed the connection.
func (c *clientConn) hasHungUp() bool {
	return c.closed.Load() || c.raw != nil && peerHungUp(c.raw, c.listener.server.cfg.Keys != nil)
}

// isGone is hasHungUp for a call that may have no connection, because no client makes it.
func (c *clientConn) isGone() bool { return c != nil && c.hasHungUp() }

// untilHangUp returns a context for a call that waits. The context ends soon after the client hangs up, or with end.
// While a call waits, nobody reads the connection, so nothing else would notice.
func (c *clientConn) untilHangUp(ctx context.Context) (waits context.Context, end context.CancelFunc) {
	waits, cancel := context.WithCancel(ctx)
	if c == nil {
		return waits, cancel
	}
	c.endCall.Store(&cancel)
	return waits, func() {
		c.endCall.Store(nil)
		cancel()
	}
}

// endCallsOfGone ends the waits of calls whose clients have hung up. Then their connections get closed, and make
// room for others.
func (l *listener) endCallsOfGone() {
	var waiting []*clientConn
	l.mu.Lock()
	for c := range l.conns {
		if c.endCall.Load() != nil {
			waiting = append(waiting, c)
		}
	}
	l.mu.Unlock()
	for _, c := range waiting {
		if end := c.endCall.Load(); end != nil && c.hasHungUp() {
			(*end)()
		}
	}
}

// clientAddr is the client's address for Kitex, which passes on nothing else of a connection.
type clientAddr struct {
	net.Addr
	conn *clientConn
}

// RemoteAddr implements net.Conn.
func (c *clientConn) RemoteAddr() net.Addr { return clientAddr{c.Conn.RemoteAddr(), c} }

// listAnswering returns the connections whose clients wait for an answer, or for the rest of an answer, and the
// answerCount of each.
func (l *listener) listAnswering() map[*clientConn]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	conns := map[*clientConn]int64{}
	for c := range l.conns {
		if answers := c.answerCount.Load(); c.isWaiting() {
			conns[c] = answers
		}
	}
	return conns
}

// awaitsFirstCalls reports whether a connection waits for its first call.
func (l *listener) awaitsFirstCalls() bool {
	return l.door.Strangers() > 0
}

// sweepIdle closes connections that have been idle for too long.
func (l *listener) sweepIdle() {
	var idle []*clientConn
	now := monotonicNow()
	l.mu.Lock()
	for c := range l.conns {
		if used := c.usedAt.Load(); used != 0 && time.Duration(now-used) > idleTimeout && !c.isWaiting() {
			idle = append(idle, c)
		}
	}
	l.mu.Unlock()
	for _, c := range idle {
		l.server.metrics.connsIdle.Inc()
		c.Close()
	}
}

func (l *listener) closeAll() {
	l.mu.Lock()
	conns := slices.Collect(maps.Keys(l.conns))
	l.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}
