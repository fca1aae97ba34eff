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
	"github.com/phoebe-sched/phoebe/probe/sock"
)

const (
	// maxIdle connections are kept for each frontend, each for idleFor: less than the two minutes after
	// which the frontend would close it.
	maxIdle = 512
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
	job      bool            // brings one that is new: to no frontend that leaves
	of       *process        // the owner that it asks; nil: whichever it gets to
	ping     bool            // whether of lives: only its own connection will do, or a new one
	on       *conn           // which it has to use; nil: any

	mu    sync.Mutex
	conn  *conn    // while it has one
	got   *process // behind the connection that it had; nil: it had none
	fresh bool     // that was a new one
	sent  bool     // had one
	ended bool     // ctx has
	cause error    // of the end of conn, if we ended it
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

// end is called when the caller's context ends.
func (c *call) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.conn != nil {
		c.conn.kill(context.Cause(c.ctx))
	}
}

// take binds conn to the call and reports whether the call still wants one.
func (c *call) take(conn *conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.conn, c.sent, c.got, c.fresh = conn, true, conn.of, conn.since.IsZero()
	return true
}

// asks is the frontend whose answer it waits for.
func (c *call) asks() *process {
	if c.of != nil {
		return c.of
	}
	return c.got
}

// leave unbinds the connection: what ends the call from here on no longer concerns it.
func (c *call) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.cause = c.conn.killed()
		c.conn = nil
	}
}

// conn is a connection to a frontend, with the buffers that Kitex's gonet transport asks for.
type conn struct {
	net.Conn
	r     *bufiox.DefaultReader
	w     *bufiox.DefaultWriter
	out   []byte                  // a call of Run; it is empty otherwise
	seq   int32                   // of the last one
	call  *call                   // in use by
	of    *process                // behind it
	waits atomic.Pointer[process] // for an answer of whom; nil: it is not in use
	since time.Time               // idle; zero: it has not been used yet

	mu    sync.Mutex
	cause error // why we closed it, if we did
}

func (c *conn) Reader() *bufiox.DefaultReader { return c.r }
func (c *conn) Writer() *bufiox.DefaultWriter { return c.w }

// SetReadDeadline does nothing: Kitex would clear the deadline that the pool has set.
func (c *conn) SetReadDeadline(time.Time) error { return nil }

func (c *conn) kill(cause error) {
	c.mu.Lock()
	if c.cause == nil {
		c.cause = cause
	}
	c.mu.Unlock()
	c.Conn.Close()
}

func (c *conn) killed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// pool is the connections to one frontend: Kitex's connection pool, but that it knows those in use, too,
// and can end them. Safe for concurrent use.
type pool struct {
	addr     string
	keys     *identity.Keys
	dialer   net.Dialer
	aborting context.Context // ended by abort
	end      context.CancelFunc
	tells    bool                                           // a token, which nobody on the way is to see
	greet    func(context.Context, *conn) (*process, error) // asks who is behind a new connection; nil: nobody need know

	mu   sync.Mutex
	idle []*conn // longest idle first
	all  map[*conn]struct{}
	shut error // what Get answers
}

func newPool(addr string, connectTimeout time.Duration, keys *identity.Keys) *pool {
	p := &pool{addr: addr, keys: keys, dialer: net.Dialer{Timeout: connectTimeout}, all: map[*conn]struct{}{}}
	p.aborting, p.end = context.WithCancel(context.Background())
	return p
}

// Get implements remote.ConnPool. An error means that nothing was sent.
func (p *pool) Get(ctx context.Context, _, _ string, _ remote.ConnOption) (net.Conn, error) {
	c, err := p.lend(ctx.Value(callKey{}).(*call))
	if err != nil {
		return nil, err
	}
	return c, nil
}

// lend is Get for those who know the call.
func (p *pool) lend(cl *call) (*conn, error) {
	c, err := cl.on, error(nil)
	if c == nil {
		if c, err = p.get(cl); err != nil {
			return nil, err
		}
	}
	if !cl.take(c) {
		p.drop(c)
		return nil, context.Cause(cl.ctx)
	}
	c.call = cl
	c.waits.Store(cl.asks())
	if !cl.deadline.IsZero() {
		c.Conn.SetDeadline(cl.deadline)
	}
	return c, nil
}

func (p *pool) get(cl *call) (*conn, error) {
	for {
		p.mu.Lock()
		if p.shut != nil && !cl.parting {
			p.mu.Unlock()
			return nil, p.shut
		}
		i := p.suits(cl)
		if i < 0 {
			p.mu.Unlock()
			return p.dial(cl)
		}
		c := p.idle[i]
		p.idle = slices.Delete(p.idle, i, i+1)
		p.mu.Unlock()
		if idle := time.Since(c.since); c.killed() == nil && p.keys.Current(c.Conn) && (idle < trustFor || idle < idleFor && alive(c.Conn)) {
			return c, nil
		}
		p.drop(c)
	}
}

// suits is which idle connection a call had best use: the latest, if it can be of the frontend that the call asks; -1: none.
// The mutex is held.
func (p *pool) suits(cl *call) int {
	other := -1
	for i, c := range slices.Backward(p.idle) {
		switch {
		case cl.job && c.of != nil && c.of.leaves.Load():
		case cl.of == nil || c.of == cl.of:
			return i
		case other < 0 && !cl.ping:
			other = i // which forwards
		}
	}
	return other
}

// A new connection whose frontend says nothing for so long has others tried beside it, so many in all: behind a balancer, it
// may lead to a frontend that hangs, and the next one need not.
const (
	besideAfter = 250 * time.Millisecond
	dials       = 4
)

var (
	errLeaves  = errors.New("it takes no new jobs: it leaves")
	errInPlain = errors.New("the token would be told in plain: use TLS too, beyond this machine (client.WithTLS, --tls-dir)")
)

// dial makes a connection, to a frontend that has given a sign of life.
func (p *pool) dial(cl *call) (*conn, error) {
	ctx, cancel := context.WithCancel(cl.ctx)
	defer cancel()
	if !cl.deadline.IsZero() {
		ctx, cancel = context.WithDeadline(ctx, cl.deadline)
		defer cancel()
	}
	if !cl.parting {
		defer context.AfterFunc(p.aborting, cancel)()
	}
	c, err := p.first(ctx)
	if err != nil {
		return nil, err
	}
	if cl.job && c.of != nil && c.of.leaves.Load() {
		c.Conn.Close()
		return nil, errLeaves
	}
	p.mu.Lock()
	shut := p.shut
	if cl.parting {
		shut = nil
	}
	if shut == nil {
		p.all[c] = struct{}{}
	}
	p.mu.Unlock()
	if shut != nil {
		c.Conn.Close()
		return nil, shut
	}
	return c, nil
}

// first is the first of some connections behind which somebody gives a sign of life.
func (p *pool) first(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	came, failed := make(chan *conn), make(chan error, dials)
	begin := func() {
		c, err := p.connect(ctx)
		if err != nil {
			failed <- err
			return
		}
		select {
		case came <- c:
		case <-ctx.Done(): // another one came before
			c.Conn.Close()
		}
	}
	beside := time.NewTicker(besideAfter)
	defer beside.Stop()
	begun, under := 1, 1
	go begin()
	for {
		select {
		case c := <-came:
			return c, nil
		case err := <-failed:
			if under--; under == 0 {
				return nil, err
			}
		case <-beside.C:
			if begun < dials {
				begun++
				under++
				go begin()
			}
		}
	}
}

// connect makes a connection and asks who is behind it.
func (p *pool) connect(ctx context.Context) (*conn, error) {
	raw, err := p.keys.Connect(ctx, p.dialer.DialContext, p.addr, identity.Frontend)
	if err != nil {
		return nil, err
	}
	if at, tcp := raw.RemoteAddr().(*net.TCPAddr); p.tells && p.keys == nil && tcp && !at.IP.IsLoopback() {
		raw.Close()
		return nil, errInPlain
	}
	s := sock.New(raw)
	c := &conn{Conn: s, r: bufiox.NewDefaultReader(s), w: bufiox.NewDefaultWriter(s)}
	if p.greet != nil {
		if c.of, err = p.greet(ctx, c); err != nil {
			raw.Close()
			return nil, err
		}
	}
	return c, nil
}

// Put implements remote.ConnPool: the call on nc is over, and was answered.
func (p *pool) Put(nc net.Conn) error {
	c := nc.(*conn)
	timed := !c.call.deadline.IsZero()
	on := c.call.on
	c.call.leave()
	c.call = nil
	c.waits.Store(nil)
	if on != nil {
		c.Conn.SetDeadline(time.Time{})
		return nil
	}
	if c.killed() != nil || c.r.Buffered() > 0 { // an answer nobody asked for
		p.drop(c)
		return nil
	}
	if timed {
		c.Conn.SetDeadline(time.Time{})
	}
	c.since = time.Now()
	var old *conn
	p.mu.Lock()
	p.idle = append(p.idle, c)
	if len(p.idle) > maxIdle || c.since.Sub(p.idle[0].since) > idleFor {
		old = p.idle[0]
		p.idle = append(p.idle[:0], p.idle[1:]...)
	}
	p.mu.Unlock()
	if old != nil {
		p.drop(old)
	}
	return nil
}

// Discard implements remote.ConnPool: the call on nc failed.
func (p *pool) Discard(nc net.Conn) error {
	c := nc.(*conn)
	c.call.leave()
	c.call = nil
	p.drop(c)
	return nil
}

// Close implements remote.ConnPool.
func (p *pool) Close() error {
	p.abort(ErrClosed)
	return nil
}

// maxOut is how many bytes a connection keeps for its next call of Run.
const maxOut = 16 << 10

// run makes a call of Run, as Kitex would, which takes several times as long for it and allocates more.
func (p *pool) run(cl *call, req *v1.RunRequest) (*v1.RunResponse, error) {
	c, err := p.lend(cl)
	if err != nil {
		return nil, err
	}
	c.seq++
	b := frame.AppendRun(c.out, c.seq, req)
	_, err = c.Conn.Write(b)
	if cap(b) <= maxOut {
		c.out = b[:0]
	}
	if err != nil {
		p.Discard(c)
		return nil, err
	}
	res, err := frame.ReadRun(c.r, c.seq, maxAnswer)
	if err != nil && !answers(err) {
		p.Discard(c)
		return nil, err
	}
	p.Put(c)
	return res, err
}

// answers reports whether a call has failed by its answer, after which its connection is as good as before.
func answers(err error) bool {
	var refused *v1.Refused
	var own *thrift.ApplicationException // what a Thrift server says for what it did not expect
	return errors.As(err, &refused) || errors.As(err, &own)
}

func (p *pool) drop(c *conn) {
	p.mu.Lock()
	delete(p.all, c)
	p.mu.Unlock()
	c.Conn.Close()
}

// dropIdle closes the idle connections to a frontend, or to all if it is nil: one in use has broken, so they are probably
// broken, too.
func (p *pool) dropIdle(of *process) {
	var idle []*conn
	p.mu.Lock()
	p.idle = slices.DeleteFunc(p.idle, func(c *conn) bool {
		if of != nil && c.of != of {
			return false
		}
		idle = append(idle, c)
		delete(p.all, c)
		return true
	})
	p.mu.Unlock()
	for _, c := range idle {
		c.Conn.Close()
	}
}

// kill closes every connection to a frontend, or all if it is nil, which ends the calls that wait for it.
func (p *pool) kill(of *process, cause error) {
	p.dropIdle(of)
	p.mu.Lock()
	used := make([]*conn, 0, len(p.all))
	for c := range p.all {
		if of == nil || c.waits.Load() == of {
			used = append(used, c)
		}
	}
	p.mu.Unlock()
	for _, c := range used {
		c.kill(cause)
	}
}

// owing is the frontends that calls wait for, and how many answers each had given before.
func (p *pool) owing() map[*process]uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	owing := map[*process]uint64{}
	for c := range p.all {
		if of := c.waits.Load(); of != nil {
			owing[of] = of.answers.Load()
		}
	}
	return owing
}

// abort ends every call with cause, and all later ones that are not parting.
func (p *pool) abort(cause error) {
	p.mu.Lock()
	p.shut = cause
	p.mu.Unlock()
	p.end()
	p.kill(nil, cause)
}

var (
	_ remote.ConnPool = (*pool)(nil)
	_ context.Context = (*call)(nil)
)
