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
	"github.com/cloudwego/kitex/pkg/remote"

	"github.com/phoebe-sched/phoebe/frontend/frame"
	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe/identity"
	"github.com/phoebe-sched/phoebe/probe/list"
	"github.com/phoebe-sched/phoebe/probe/sock"
)

const (
	// idleFor is how long an idle connection is kept: less than the two minutes after which the frontend would close it.
	idleFor = time.Minute
	// trustFor is how long a connection may have been idle and be used without a look whether it still lives. Where it
	// does not, the frontend may have had the call, for all that is known: a task that may start only once is lost then.
	trustFor = time.Millisecond
)

// call is one RPC. It is the context that Kitex is given, and never ends: Kitex runs a call whose context
// can end in a second goroutine, which costs several microseconds and, on a connection that stays silent,
// never returns. Instead, what ends a call closes its connection.
type call struct {
	ctx      context.Context // the caller's
	deadline time.Time       // zero: none
	parting  bool            // goes out though the client is closing
	newJob   bool            // brings one that is new: to no frontend that leaves
	owner    *process        // the owner that it asks; nil: whichever it gets to
	ping     bool            // whether of lives: only its own connection will do, or a new one
	onlyConn *conn           // which it has to use; nil: any

	mu        sync.Mutex
	conn      *conn    // while it has one
	reached   *process // behind the connection that it had; nil: it had none
	freshConn bool     // that was a new one
	sent      bool     // had one
	ended     bool     // ctx has
	cause     error    // of the end of conn, if we ended it
}

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

// endCall is called when the caller's context ends.
func (c *call) endCall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.conn != nil {
		c.conn.closeFor(context.Cause(c.ctx))
	}
}

// bindConn binds conn to the call and reports whether the call still wants one.
func (c *call) bindConn(conn *conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.conn, c.sent, c.reached, c.freshConn = conn, true, conn.process, conn.idleSince.IsZero()
	return true
}

// askedProcess is the frontend whose answer it waits for.
func (c *call) askedProcess() *process {
	if c.owner != nil {
		return c.owner
	}
	return c.reached
}

// unbindConn unbinds the connection: what ends the call from here on no longer concerns it.
func (c *call) unbindConn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.cause = c.conn.closeCause()
		c.conn = nil
	}
}

// conn is a connection to a frontend, with the buffers that Kitex's gonet transport asks for.
type conn struct {
	net.Conn
	r         *bufiox.DefaultReader
	w         *bufiox.DefaultWriter
	outBuf    []byte                  // a call of Run; it is empty otherwise
	lastSeq   int32                   // of the last one
	call      *call                   // in use by
	process   *process                // behind it
	awaited   atomic.Pointer[process] // for an answer of whom; nil: it is not in use
	idleSince time.Time               // idle; zero: it has not been used yet

	mu    sync.Mutex
	cause error // why we closed it, if we did
}

func newConn(s *sock.Conn) *conn {
	return &conn{Conn: s, r: bufiox.NewDefaultReader(s), w: bufiox.NewDefaultWriter(s)}
}

func (c *conn) Reader() *bufiox.DefaultReader { return c.r }
func (c *conn) Writer() *bufiox.DefaultWriter { return c.w }

// SetReadDeadline does nothing: Kitex would clear the deadline that the pool has set.
func (c *conn) SetReadDeadline(time.Time) error { return nil }

func (c *conn) closeFor(cause error) {
	c.mu.Lock()
	if c.cause == nil {
		c.cause = cause
	}
	c.mu.Unlock()
	c.Conn.Close()
}

func (c *conn) closeCause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// pool is the connections to one frontend: Kitex's connection pool, but that it knows those in use, too,
// and can end them. Safe for concurrent use.
type pool struct {
	addr       string
	keys       *identity.Keys
	dialer     net.Dialer
	sendsToken bool                                           // a token, which nobody on the way is to see
	identify   func(context.Context, *conn) (*process, error) // asks who is behind a new connection; nil: nobody need know

	mu          sync.Mutex
	idle        []*conn // longest idle first
	conns       map[*conn]bool
	sweeper     *time.Timer // nil: none is idle
	waiters     list.List[*waiter]
	dials       []*dial
	dialsBegun  uint64          // dials, ever
	dialsFailed uint64          // of these
	failsInRow  uint64          // the last so many
	dialCtx     context.Context // theirs, ended by abort
	cancelDials context.CancelFunc
	closedErr   error // what Get answers
}

func newPool(addr string, connectTimeout time.Duration, keys *identity.Keys) *pool {
	p := &pool{addr: addr, keys: keys, dialer: net.Dialer{Timeout: connectTimeout}, conns: map[*conn]bool{}}
	p.dialCtx, p.cancelDials = context.WithCancel(context.Background())
	return p
}

// Get implements remote.ConnPool. An error means that nothing was sent.
func (p *pool) Get(ctx context.Context, _, _ string, _ remote.ConnOption) (net.Conn, error) {
	c, err := p.lendConn(ctx.Value(callKey{}).(*call))
	if err != nil {
		return nil, err
	}
	return c, nil
}

// lendConn is Get for those who know the call.
func (p *pool) lendConn(cl *call) (*conn, error) {
	c, err := cl.onlyConn, error(nil)
	if c == nil {
		if c, err = p.getConn(cl); err != nil {
			return nil, err
		}
	}
	if !cl.bindConn(c) {
		p.dropConn(c)
		return nil, context.Cause(cl.ctx)
	}
	c.call = cl
	c.awaited.Store(cl.askedProcess())
	if !cl.deadline.IsZero() {
		c.Conn.SetDeadline(cl.deadline)
	}
	return c, nil
}

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
		if idle := time.Since(c.idleSince); c.closeCause() == nil && p.keys.Current(c.Conn) && (idle < trustFor || idle < idleFor && isAlive(c.Conn)) {
			return c, nil
		}
		p.dropConn(c)
	}
}

// pickIdle is which idle connection a call had best use: the latest, if it can be of the frontend that the call asks; -1: none.
// The mutex is held.
func (p *pool) pickIdle(cl *call) int {
	other := -1
	for i, c := range slices.Backward(p.idle) {
		switch {
		case !c.canServe(cl):
		case cl.owner == nil || c.process == cl.owner:
			return i
		case other < 0:
			other = i // which forwards
		}
	}
	return other
}

// Put implements remote.ConnPool: the call on nc is over, and was answered.
func (p *pool) Put(nc net.Conn) error {
	c := nc.(*conn)
	hasDeadline := !c.call.deadline.IsZero()
	onlyConn := c.call.onlyConn
	c.call.unbindConn()
	c.call = nil
	c.awaited.Store(nil)
	if onlyConn != nil {
		c.Conn.SetDeadline(time.Time{})
		return nil
	}
	if c.closeCause() != nil || c.r.Buffered() > 0 || !p.keys.Current(c.Conn) { // an answer nobody asked for
		p.dropConn(c)
		return nil
	}
	if hasDeadline {
		c.Conn.SetDeadline(time.Time{})
	}
	c.idleSince = time.Now()
	p.releaseConn(c)
	return nil
}

// closeStale closes the connections that have been idle for too long.
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

// Discard implements remote.ConnPool: the call on nc failed.
func (p *pool) Discard(nc net.Conn) error {
	c := nc.(*conn)
	c.call.unbindConn()
	c.call = nil
	p.dropConn(c)
	return nil
}

// Close implements remote.ConnPool.
func (p *pool) Close() error {
	p.abort(ErrClosed)
	return nil
}

// maxOutBuf is how many bytes a connection keeps for its next call of Run.
const maxOutBuf = 16 << 10

// sendRun makes a call of Run, as Kitex would, which takes several times as long for it and allocates more.
func (p *pool) sendRun(cl *call, req *v1.RunRequest) (*v1.RunResponse, error) {
	c, err := p.lendConn(cl)
	if err != nil {
		return nil, err
	}
	c.lastSeq++
	b := frame.AppendRun(c.outBuf, c.lastSeq, req)
	_, err = c.Conn.Write(b)
	if cap(b) <= maxOutBuf {
		c.outBuf = b[:0]
	}
	if err != nil {
		p.Discard(c)
		return nil, err
	}
	res, err := frame.ReadRun(c.r, c.lastSeq, maxAnswer)
	if err != nil && !isAnswer(err) {
		p.Discard(c)
		return nil, err
	}
	p.Put(c)
	return res, err
}

// isAnswer reports whether a call has failed by its answer, after which its connection is as good as before.
func isAnswer(err error) bool {
	var refused *v1.Refused
	var serverErr *thrift.ApplicationException // what a Thrift server says for what it did not expect
	return errors.As(err, &refused) || errors.As(err, &serverErr)
}

func (p *pool) dropConn(c *conn) {
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
	c.Conn.Close()
}

// dropIdle closes the idle connections to a frontend, or to all if it is nil: one in use has broken, so they are probably
// broken, too.
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

// closeConnsOf closes every connection to a frontend, or all if it is nil, which ends the calls that wait for it.
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

// answersOwed is the frontends that calls wait for, and how many answers each had given before.
func (p *pool) answersOwed() map[*process]uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	owed := map[*process]uint64{}
	for c := range p.conns {
		if peer := c.awaited.Load(); peer != nil {
			owed[peer] = peer.answers.Load()
		}
	}
	return owed
}

// abort ends every call with cause, and all later ones that are not parting.
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

var (
	_ remote.ConnPool = (*pool)(nil)
	_ context.Context = (*call)(nil)
)
