package client

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudwego/gopkg/bufiox"
	"github.com/cloudwego/gopkg/protocol/thrift"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe/identity"
	"github.com/phoebe-sched/phoebe/probe/list"
	"github.com/phoebe-sched/phoebe/probe/sock"
)

const (
	// idleFor is the time for which the pool keeps an idle connection. A frontend closes an idle connection after two
	// minutes.
	idleFor = time.Minute
	// trustFor bounds the idle time up to which the pool lends a connection without a check of its health. If the
	// connection is dead, the client cannot tell whether the frontend got the call, and a Once task is lost.
	trustFor = time.Millisecond
)

// call is one RPC, and the context of the RPC. The context itself never ends: to end a call, the client closes the
// call's connection.
type call struct {
	ctx      context.Context // the caller's
	pool     *pool           // of the address to call
	timeout  time.Duration   // bounds the wait for a connection, and then the wait for the answer; 0: no bound
	until    time.Time       // bounds both waits, too; zero: no bound
	findBy   time.Time       // bounds the wait for a connection, too; zero: no bound
	patience time.Duration   // once bytes move, the longest time without progress
	deadline time.Time       // of the present wait; zero: none
	parting  bool            // goes out even while the client closes
	newJob   bool            // submits a job, so it must not go to a draining frontend
	owner    *process        // the frontend to ask; nil: any
	ping     bool            // asks whether the frontend lives, so only its own connection or a new connection will do
	onlyConn *conn           // the connection to use; nil: any
	onConn   func()          // called when the call has a connection, before the request is encoded; nil: not called

	mu        sync.Mutex
	conn      *conn    // nil before and after the call has a connection
	reached   *process // the frontend behind the connection; nil: the call never had a connection
	freshConn bool     // the connection was new
	sent      bool     // the call had a connection, so the frontend may have received the request
	ended     bool     // ctx has ended
	cause     error    // why the client closed the connection; nil: the client did not
}

// callKey is the context key by which rpcs finds the call.
type callKey struct{}

func (c *call) Deadline() (time.Time, bool) { return time.Time{}, false }
func (c *call) Done() <-chan struct{}       { return nil }
func (c *call) Err() error                  { return nil }
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return nil
}

// startWait sets the deadline of the wait for a connection, or for the answer.
func (c *call) startWait() {
	c.deadline = c.until
	if c.timeout > 0 {
		c.deadline = earlierOf(time.Now().Add(c.timeout), c.until)
	}
}

// earlierOf returns the earlier of two times. A zero time stands for never.
func earlierOf(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// endCall closes the call's connection, and lets the call take no further one. It runs when the caller's context ends.
func (c *call) endCall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.conn != nil {
		c.conn.closeFor(contextError(c.ctx))
	}
}

// attachConn gives conn to the call, and reports false if the call has ended.
func (c *call) attachConn(conn *conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.conn, c.sent, c.reached, c.freshConn = conn, true, conn.process, conn.idleSince.IsZero()
	return true
}

// askedProcess returns the frontend whose answer the call awaits; nil: unknown.
func (c *call) askedProcess() *process {
	if c.owner != nil {
		return c.owner
	}
	return c.reached
}

// unbindConn takes the connection from the call. If the call ends later, the connection stays open.
func (c *call) unbindConn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.cause = c.conn.closeCause()
		c.conn = nil
	}
}

// conn is a connection to a frontend.
type conn struct {
	net.Conn
	r         *bufiox.DefaultReader
	outBuf    []byte                  // buffer for requests; empty between calls
	lastSeq   int32                   // sequence number of the last call
	call      *call                   // the call that uses the connection; nil: none
	process   *process                // the frontend behind the connection
	awaited   atomic.Pointer[process] // the frontend whose answer the call awaits; nil: not in use, or unknown
	idleSince time.Time               // when the connection became idle; zero: not used yet
	received  atomic.Int64            // bytes
	sent      atomic.Int64            // bytes taken by the kernel
	steps     atomic.Uint64           // number of steps of progress seen by followProgress

	mu           sync.Mutex
	cause        error         // why the client closed the connection; nil: it did not
	patience     time.Duration // longest time of the present call without progress; 0: no bound
	seenReceived int64         // received at the last step of progress
	seenSent     int64         // number of bytes outside the machine at the last step of progress
}

// newConn wraps a connected socket.
func newConn(s *sock.Conn) *conn {
	c := &conn{Conn: s}
	c.r = bufiox.NewDefaultReader(c)
	return c
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received.Add(int64(n))
	return n, err
}

// maxPiece is the number of bytes written at a time, so that sent grows while a large request is written.
const maxPiece = 256 << 10

// Write implements net.Conn.
func (c *conn) Write(b []byte) (n int, err error) {
	for first := true; first || n < len(b) && err == nil; first = false {
		var more int
		more, err = c.Conn.Write(b[n:min(n+maxPiece, len(b))])
		c.sent.Add(int64(more))
		n += more
	}
	return n, err
}

// minStep is the number of sent bytes that count as progress. A smaller request does not prove that the peer reads,
// because the peer's kernel takes the request even if the peer hangs.
const minStep = 16 << 10

// startPatience sets the bound of a new call: the longest time without progress; 0: none.
func (c *conn) startPatience(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.patience = d
	c.seenReceived, c.seenSent = c.received.Load(), c.sent.Load()
}

// endPatience ends the bound of a call.
func (c *conn) endPatience() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.patience = 0
	c.Conn.SetDeadline(time.Time{})
}

// followProgress puts off the deadline of a call if bytes have come, or have left the machine, since the last step of
// progress.
func (c *conn) followProgress() {
	c.mu.Lock()
	defer c.mu.Unlock()
	received, sent := c.received.Load(), c.sent.Load()-int64(countUnsent(c.Conn))
	if received == c.seenReceived && sent < c.seenSent+minStep {
		return
	}
	c.seenReceived, c.seenSent = received, max(sent, c.seenSent)
	c.steps.Add(1)
	if c.patience > 0 {
		c.Conn.SetDeadline(time.Now().Add(c.patience))
	}
}

// closeFor closes the connection because of cause. The first cause is kept, see closeCause.
func (c *conn) closeFor(cause error) {
	c.mu.Lock()
	if c.cause == nil {
		c.cause = cause
	}
	c.mu.Unlock()
	c.Conn.Close()
}

// closeCause returns why the client closed the connection; nil: it did not.
func (c *conn) closeCause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// pool holds the connections to one address. The pool also knows the connections in use, and can close them to end
// their calls. Safe for concurrent use.
type pool struct {
	addr       string
	keys       *identity.Keys
	dialer     net.Dialer
	sendsToken bool                                           // calls carry a token, which must not travel unencrypted
	identify   func(context.Context, *conn) (*process, error) // asks a new connection for its frontend; nil: do not

	mu          sync.Mutex
	idle        []*conn            // longest idle first
	conns       map[*conn]bool     // idle or in use
	sweeper     *time.Timer        // runs closeStale; nil: no connection is idle
	waiters     list.List[*waiter] // longest wait first, pings before the rest
	dials       []*dial            // under way or resting
	dialsBegun  uint64             // number of dials begun so far
	dialsFailed uint64             // number of dials failed so far
	crowdedAt   time.Time          // when the frontend last took no further connection
	failsInRow  uint64             // number of dials failed since the last success
	dialCtx     context.Context    // of all dials; abort ends it
	cancelDials context.CancelFunc // ends dialCtx
	closedErr   error              // error of each call that is not parting; nil: the pool is open
}

// newPool makes a pool without connections. If keys is nil, the pool connects without TLS.
func newPool(addr string, connectTimeout time.Duration, keys *identity.Keys) *pool {
	p := &pool{
		addr: addr, keys: keys, dialer: net.Dialer{Timeout: connectTimeout}, conns: map[*conn]bool{},
	}
	p.dialCtx, p.cancelDials = context.WithCancel(context.Background())
	return p
}

// lendConn gives cl a connection, an idle or a new one. On an error the frontend has received nothing.
func (p *pool) lendConn(cl *call) (*conn, error) {
	c, err := cl.onlyConn, error(nil)
	if c == nil {
		if c, err = p.getConn(cl); err != nil {
			return nil, err
		}
	}
	if !cl.attachConn(c) {
		p.dropConn(c)
		return nil, contextError(cl.ctx)
	}
	c.call = cl
	c.awaited.Store(cl.askedProcess())
	if cl.startWait(); cl.deadline.IsZero() {
		c.startPatience(0)
	} else {
		c.startPatience(cl.patience)
		c.Conn.SetDeadline(cl.deadline)
	}
	if cl.onConn != nil {
		cl.onConn()
	}
	return c, nil
}

// getConn returns an idle connection for cl, or waits for a connection.
func (p *pool) getConn(cl *call) (*conn, error) {
	for {
		p.mu.Lock()
		if p.closedErr != nil && !cl.parting {
			p.mu.Unlock()
			return nil, p.closedErr
		}
		i := p.pickIdle(cl)
		if i < 0 {
			return p.waitForConn(cl)
		}
		c := p.idle[i]
		p.idle = slices.Delete(p.idle, i, i+1)
		p.mu.Unlock()
		if idle := time.Since(c.idleSince); c.closeCause() == nil && p.keys.Current(c.Conn) &&
			(idle < trustFor || idle < idleFor && isAlive(c.Conn)) {
			return c, nil
		}
		p.dropConn(c)
	}
}

// pickIdle returns the index of the idle connection that cl should use, or -1 if cl can use no idle connection. It
// prefers a connection to the frontend that cl asks, and among equals the connection with the shortest idle time. The
// mutex is held.
func (p *pool) pickIdle(cl *call) int {
	other := -1
	for i, c := range slices.Backward(p.idle) {
		switch {
		case !c.canServe(cl):
		case cl.owner == nil || c.process == cl.owner:
			return i
		case other < 0:
			other = i // leads to another frontend, and that frontend forwards the call
		}
	}
	return other
}

// putConn takes c back after the answer to the call.
func (p *pool) putConn(c *conn) {
	hasDeadline := !c.call.deadline.IsZero()
	onlyConn := c.call.onlyConn
	c.call.unbindConn()
	c.call = nil
	c.awaited.Store(nil)
	if onlyConn != nil {
		c.endPatience()
		return
	}
	if c.closeCause() != nil || c.r.Buffered() > 0 || !p.keys.Current(c.Conn) { // buffered bytes answer no call
		p.dropConn(c)
		return
	}
	if hasDeadline {
		c.endPatience()
	}
	c.idleSince = time.Now()
	p.releaseConn(c)
}

// closeStale closes the connections that have been idle for idleFor (1 min) or longer.
func (p *pool) closeStale() {
	p.mu.Lock()
	n := 0
	for ; n < len(p.idle) && time.Since(p.idle[n].idleSince) >= idleFor; n++ {
		delete(p.conns, p.idle[n])
	}
	old := slices.Clone(p.idle[:n])
	p.idle = slices.Delete(p.idle, 0, n)
	if p.sweeper = nil; len(p.idle) > 0 {
		p.sweeper = time.AfterFunc(idleFor-time.Since(p.idle[0].idleSince), p.closeStale)
	}
	p.mu.Unlock()
	for _, c := range old {
		c.Conn.Close()
	}
}

// discardConn drops c after the failure of the call.
func (p *pool) discardConn(c *conn) {
	c.call.unbindConn()
	c.call = nil
	p.dropConn(c)
}

// maxOutBuf is the size in bytes up to which a connection keeps its request buffer for the next call.
const maxOutBuf = 16 << 10

// isAnswer reports whether err came as the frontend's answer.
func isAnswer(err error) bool {
	var refused *v1.Refused
	var serverErr *thrift.ApplicationException // the answer of a Thrift server to an unexpected request or error
	return errors.As(err, &refused) || errors.As(err, &serverErr)
}

// dropConn removes c from the pool and closes it.
func (p *pool) dropConn(c *conn) {
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
	c.Conn.Close()
}

// dropIdle closes the idle connections to a frontend, or all idle connections if peer is nil. After a connection in
// use has broken, the idle connections are probably broken, too.
func (p *pool) dropIdle(peer *process) {
	var idle []*conn
	p.mu.Lock()
	p.idle = slices.DeleteFunc(p.idle, func(c *conn) bool {
		if peer != nil && c.process != peer {
			return false
		}
		idle = append(idle, c)
		delete(p.conns, c)
		return true
	})
	p.mu.Unlock()
	for _, c := range idle {
		c.Conn.Close()
	}
}

// closeConnsOf closes the idle connections to a frontend, and the connections whose calls await its answer, because of
// cause. The calls end. If peer is nil, all connections are closed.
func (p *pool) closeConnsOf(peer *process, cause error) {
	p.dropIdle(peer)
	p.mu.Lock()
	used := make([]*conn, 0, len(p.conns))
	for c := range p.conns {
		if peer == nil || c.awaited.Load() == peer {
			used = append(used, c)
		}
	}
	p.mu.Unlock()
	for _, c := range used {
		c.closeFor(cause)
	}
}

// answersOwed returns the frontends whose answers are awaited, each with a number that grows with each sign of life: an
// answer, or a part of a message.
func (p *pool) answersOwed() map[*process]uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	owed := map[*process]uint64{}
	for c := range p.conns {
		if peer := c.awaited.Load(); peer != nil {
			if owed[peer] == 0 {
				owed[peer] = peer.answers.Load()
			}
			owed[peer] += c.steps.Load()
		}
	}
	return owed
}

// followProgress puts off the deadlines of calls whose bytes move.
func (p *pool) followProgress() {
	p.mu.Lock()
	var used []*conn
	for c := range p.conns {
		if c.awaited.Load() != nil {
			used = append(used, c)
		}
	}
	p.mu.Unlock()
	for _, c := range used {
		c.followProgress()
	}
}

// abort ends every call with cause. Later calls fail with cause, too, unless they are parting.
func (p *pool) abort(cause error) {
	p.mu.Lock()
	p.closedErr = cause
	p.cancelDials()
	p.dialCtx, p.cancelDials = context.WithCancel(context.Background())
	p.failWaiters(cause, func(w *waiter) bool { return !w.call.parting })
	if p.sweeper != nil {
		p.sweeper.Stop()
		p.sweeper = nil
	}
	p.mu.Unlock()
	p.closeConnsOf(nil, cause)
}

var _ context.Context = (*call)(nil)
