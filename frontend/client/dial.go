package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/phoebe-sched/phoebe/probe/identity"
	"github.com/phoebe-sched/phoebe/probe/list"
	"github.com/phoebe-sched/phoebe/probe/sock"
)

// A call for which no connection is idle waits for the first that another call is done with, or that is new. New ones are made for those
// that wait, a few at a time: a frontend that is too busy to answer at once has its work, and not one more connection for each call.

const (
	// maxDials is how many new connections to a frontend are under way at a time, but for those that are silent.
	maxDials = 16
	// A new connection whose frontend says nothing for besideAfter has others tried beside it, so many in all: behind a balancer, it
	// may lead to a frontend that hangs, and the next one need not.
	silentAfter    = 250 * time.Millisecond
	maxDialsForOne = 4
)

var (
	errLeaves       = errors.New("it takes no new jobs: it leaves")
	errTokenInPlain = errors.New("the token would be told in plain: use TLS too, beyond this machine (client.WithTLS, --tls-dir)")
)

// waiter is a call that waits for a connection.
type waiter struct {
	call         *call
	begunBefore  uint64 // how many dials had begun by then
	failedBefore uint64 // and failed
	since        time.Time
	result       chan lentConn // has room for it
	node         list.Node[*waiter]
}

// lentConn is what a call has waited for.
type lentConn struct {
	conn *conn
	err  error
}

// Links makes it an item of lists.
func (w *waiter) Links() *list.Node[*waiter] { return &w.node }

// dial is a connection that is being made.
type dial struct {
	number  uint64 // how many had begun, with it
	silent  bool   // for besideAfter
	resting bool   // it is over
}

// waitForConn waits for a connection for a call. The mutex is held, and is not afterwards.
func (p *pool) waitForConn(cl *call) (*conn, error) {
	w := &waiter{call: cl, begunBefore: p.dialsBegun, failedBefore: p.dialsFailed, since: time.Now(), result: make(chan lentConn, 1)}
	if cl.ping { // by which it is known whether the others wait in vain
		p.waiters.PushFront(w)
		p.startDial()
	} else {
		p.waiters.Push(w)
	}
	p.dialMore()
	p.mu.Unlock()
	var timeUp <-chan time.Time
	if !cl.deadline.IsZero() {
		t := time.NewTimer(time.Until(cl.deadline))
		defer t.Stop()
		timeUp = t.C
	}
	var err error
	select {
	case got := <-w.result:
		return got.conn, got.err
	case <-cl.ctx.Done():
		err = context.Cause(cl.ctx)
	case <-timeUp:
		err = fmt.Errorf("no connection is free: %w", os.ErrDeadlineExceeded)
	}
	p.mu.Lock()
	p.waiters.Remove(w)
	p.mu.Unlock()
	select {
	case got := <-w.result: // meanwhile
		if got.conn != nil {
			p.releaseConn(got.conn)
		}
	default:
	}
	return nil, err
}

// releaseConn gives a connection that nobody uses to the first call that waits and can use it, or keeps it for later ones.
func (p *pool) releaseConn(c *conn) {
	p.mu.Lock()
	inPool := p.conns[c] && c.closeCause() == nil
	if inPool {
		p.offerConn(c)
	}
	p.mu.Unlock()
	if !inPool { // the pool was closed meanwhile
		p.dropConn(c)
	}
}

// offerConn is free. The mutex is held.
func (p *pool) offerConn(c *conn) {
	if !p.giveToWaiter(c) {
		p.keepIdle(c)
	}
}

// keepIdle keeps a connection for later calls.
func (p *pool) keepIdle(c *conn) {
	c.idleSince = time.Now()
	p.idle = append(p.idle, c)
	if p.sweeper == nil {
		p.sweeper = time.AfterFunc(idleFor, p.closeStale)
	}
}

// giveToWaiter gives a connection to the first call that waits and can use it, and reports whether there is one.
func (p *pool) giveToWaiter(c *conn) bool {
	for w := range p.waiters.All() {
		if c.canServe(w.call) {
			p.answerWaiter(w, lentConn{conn: c})
			return true
		}
	}
	return false
}

// canServe reports whether a call may go out on a connection. A ping is for one frontend, but where it has to come by a new connection.
func (c *conn) canServe(cl *call) bool {
	switch {
	case cl.newJob && c.isDraining():
		return false
	case cl.ping:
		return c.process == cl.owner || c.idleSince.IsZero()
	}
	return true
}

// isDraining reports whether the frontend behind a connection takes no new jobs.
func (c *conn) isDraining() bool { return c.process != nil && c.process.draining.Load() }

func (p *pool) answerWaiter(w *waiter, l lentConn) {
	p.waiters.Remove(w)
	w.result <- l
}

// failWaiters ends the waiting of the calls that are meant.
func (p *pool) failWaiters(err error, applies func(*waiter) bool) {
	for w := range p.waiters.All() {
		if applies(w) {
			p.answerWaiter(w, lentConn{err: err})
		}
	}
}

// dialMore makes connections for those that wait. The mutex is held.
func (p *pool) dialMore() {
	if p.waiters.Len() == 0 {
		return
	}
	limit := min(p.waiters.Len(), maxDials)
	silent, begunSince := 0, 0 // the one that waits at the front came
	for _, d := range p.dials {
		if d.silent {
			silent++
		}
		if d.number > p.waiters.First().begunBefore {
			begunSince++
		}
	}
	for ; len(p.dials)-silent < limit && begunSince < maxDialsForOne*limit && len(p.dials) < maxDialsForOne*maxDials; begunSince++ {
		p.startDial()
	}
}

// startDial begins a connection. The mutex is held.
func (p *pool) startDial() {
	p.dialsBegun++
	d := &dial{number: p.dialsBegun}
	p.dials = append(p.dials, d)
	ctx := p.dialCtx
	go func() {
		beside := time.AfterFunc(silentAfter, func() { p.dialBeside(d) })
		c, err := p.connect(ctx)
		beside.Stop()
		p.finishDial(ctx, d, c, err)
	}()
}

// dialBeside lets others be tried beside a dial.
func (p *pool) dialBeside(d *dial) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d.silent = true
	p.dialMore()
}

// finishDial ends a dial, which may have been in vain, and with it the waiting of calls. But where it was closed at once, as by a frontend
// that has too many, and others are in use, they wait for these for a while, and the next dial rests.
func (p *pool) finishDial(ctx context.Context, d *dial, c *conn, err error) {
	kept := false
	p.mu.Lock()
	switch {
	case err == nil:
		if kept = p.takeConn(c); !c.isDraining() {
			p.failsInRow = 0
			break
		}
		p.noteDialFailed(d, errLeaves, func(w *waiter) bool { return w.call.newJob })
	case ctx.Err() != nil: // it was aborted
	case closedAtOnce(err) && len(p.conns) > len(p.idle):
		p.failWaiters(err, func(w *waiter) bool {
			return w.begunBefore < d.number && (w.call.ping || time.Since(w.since) >= maxDialsForOne*silentAfter)
		})
		d.resting = true
		time.AfterFunc(silentAfter, func() { p.endRest(d) })
	default:
		p.noteDialFailed(d, err, func(*waiter) bool { return true })
	}
	if !d.resting {
		p.removeDial(d)
	}
	p.mu.Unlock()
	if err == nil && !kept {
		c.Conn.Close()
	}
}

// takeConn gives a new connection to a call that waits, or keeps it, unless nobody may need it: then it reports false.
func (p *pool) takeConn(c *conn) bool {
	if p.closedErr != nil && p.waiters.Len() == 0 {
		return false
	}
	p.conns[c] = true
	switch {
	case p.giveToWaiter(c):
	case c.isDraining():
		delete(p.conns, c)
		return false
	default:
		p.keepIdle(c)
	}
	return true
}

// noteDialFailed tells those that are meant, and wait in vain as a dial that began since they came has failed: no other one is under way, or so many
// have failed in a row as may be made for all that wait. Behind a balancer, the next one may lead elsewhere.
func (p *pool) noteDialFailed(d *dial, err error, applies func(*waiter) bool) {
	p.failsInRow++
	p.dialsFailed++
	limit := uint64(maxDialsForOne * min(p.waiters.Len(), maxDials))
	last := !slices.ContainsFunc(p.dials, func(x *dial) bool { return x != d && !x.resting })
	p.failWaiters(err, func(w *waiter) bool {
		return w.begunBefore < d.number && applies(w) && (last || min(p.failsInRow, p.dialsFailed-w.failedBefore) >= limit)
	})
}

// endRest ends a dial that was of no use.
func (p *pool) endRest(d *dial) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeDial(d)
}

func (p *pool) removeDial(d *dial) {
	p.dials = slices.DeleteFunc(p.dials, func(x *dial) bool { return x == d })
	p.dialMore()
}

// closedAtOnce reports whether a new connection was closed by the frontend before it said anything.
func closedAtOnce(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// connect makes a connection and asks who is behind it.
func (p *pool) connect(ctx context.Context) (*conn, error) {
	raw, err := p.keys.Connect(ctx, p.dialer.DialContext, p.addr, identity.Frontend)
	if err != nil {
		return nil, err
	}
	if at, tcp := raw.RemoteAddr().(*net.TCPAddr); p.sendsToken && p.keys == nil && tcp && !at.IP.IsLoopback() {
		raw.Close()
		return nil, errTokenInPlain
	}
	c := newConn(sock.New(raw))
	if p.identify != nil {
		if c.process, err = p.identify(ctx, c); err != nil {
			raw.Close()
			return nil, err
		}
	}
	return c, nil
}
