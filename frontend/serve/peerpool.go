package serve

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cloudwego/gopkg/bufiox"
	"github.com/cloudwego/gopkg/protocol/thrift"
	"github.com/cloudwego/kitex/pkg/connpool"
	"github.com/cloudwego/kitex/pkg/kerrors"
	"github.com/cloudwego/kitex/pkg/remote"
	pool "github.com/cloudwego/kitex/pkg/remote/connpool"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

// peerPool holds the connections to a peer. It lends no connection that is known to be dead. If a call's context
// ends, its connection is closed, so that the peer learns that nobody waits any more.
type peerPool struct {
	*pool.LongPool
	keys *identity.Keys
	// When a call's connection last broke, by monotonicNow(). Older connections are not lent: if the peer's machine was
	// replaced, all older connections are dead, and only a call on each connection would tell.
	brokeAt atomic.Int64
}

// idlePeerConns bounds the idle connections to a peer.
const idlePeerConns = 10

func newPeerPool(keys *identity.Keys) *peerPool {
	return &peerPool{keys: keys, LongPool: pool.NewLongPool("phoebe", connpool.IdleConfig{
		MaxIdlePerAddress: idlePeerConns, MaxIdleGlobal: idlePeerConns, MaxIdleTimeout: time.Minute})}
}

// Get implements remote.ConnPool.
func (p *peerPool) Get(ctx context.Context, network, addr string, opt remote.ConnOption) (net.Conn, error) {
	c, err := p.LongPool.Get(ctx, network, addr, opt)
	if err == nil {
		pc := peerConnOf(c)
		pc.endLoan = context.AfterFunc(ctx, pc.abandon)
	}
	return c, err
}

// Put implements remote.ConnPool.
func (p *peerPool) Put(c net.Conn) error {
	if !peerConnOf(c).endLoan() {
		return p.LongPool.Discard(c) // the context ended, or ends just now
	}
	return p.LongPool.Put(c)
}

// Discard implements remote.ConnPool.
func (p *peerPool) Discard(c net.Conn) error {
	peerConnOf(c).endLoan()
	return p.LongPool.Discard(c)
}

func peerConnOf(c net.Conn) *peerConn { return c.(remote.RawConn).RawConn().(*peerConn) }

// DialTimeout implements remote.Dialer.
func (p *peerPool) DialTimeout(_, addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	madeAt := monotonicNow()
	c, err := p.keys.Connect(ctx, new(net.Dialer).DialContext, addr, identity.Frontend)
	if err != nil {
		return nil, err
	}
	pc := &peerConn{Conn: c, pool: p, madeAt: madeAt, r: bufiox.NewDefaultReader(c), w: bufiox.NewDefaultWriter(c)}
	if sc, ok := c.(syscall.Conn); ok {
		pc.raw, _ = sc.SyscallConn()
	}
	return pc, nil
}

// peerConn is a connection with the buffers that Kitex's gonet transport asks for.
type peerConn struct {
	net.Conn
	pool    *peerPool
	madeAt  int64 // before the dial, by monotonicNow()
	raw     syscall.RawConn
	r       *bufiox.DefaultReader
	w       *bufiox.DefaultWriter
	endLoan func() bool // stops abandon; false: it is too late

	mu          sync.Mutex
	isAbandoned bool // the context of the call has ended
}

func (c *peerConn) Reader() *bufiox.DefaultReader { return c.r }
func (c *peerConn) Writer() *bufiox.DefaultWriter { return c.w }

// IsActive implements remote.IsActive: it reports whether the connection may be lent again.
func (c *peerConn) IsActive() bool {
	return c.madeAt > c.pool.brokeAt.Load() && !(c.raw != nil && peerHungUp(c.raw, c.pool.keys != nil))
}

// abandon lets the call that uses the connection run out of time. Then Kitex closes the connection. If abandon closed
// the connection, Kitex would log an error.
func (c *peerConn) abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isAbandoned = true
	c.Conn.SetDeadline(time.Unix(1, 0))
}

// SetReadDeadline implements net.Conn. Kitex calls SetReadDeadline before a read.
func (c *peerConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isAbandoned {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

// call makes a call by rpc. If the connection breaks, the call is repeated on a new connection, because a connection
// of the pool may have been dead. A peer that gets a call twice answers the second like the first.
func (p *peer) call(ctx context.Context, rpc func() error) error {
	err := rpc()
	if ctx.Err() != nil || !isBroken(err) {
		return err
	}
	p.pool.brokeAt.Store(monotonicNow())
	return rpc()
}

// isBroken reports whether a call failed because its connection broke.
func isBroken(err error) bool {
	var refused *v1.Refused
	var answer *thrift.ApplicationException
	return err != nil && !errors.As(err, &refused) && !errors.As(err, &answer) && !kerrors.IsTimeoutError(err) &&
		!errors.Is(err, kerrors.ErrGetConnection)
}
