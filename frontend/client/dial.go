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

// If no connection is idle, a call waits for the first connection that another call releases or that a dial makes. The
// pool makes connections for waiting calls, a few at a time. So a frontend that is too busy to answer at once keeps its
// work, and does not get one more connection for each call.

const (
	// maxDials is the number of dials that may be under way at a time, silent dials not counted.
	maxDials = 16
	// silentAfter is the time without an answer after which a dial is silent. The pool then dials again beside the
	// silent dial: behind a balancer, one connection may lead to a hanging frontend, and the next to a healthy one.
	silentAfter = 250 * time.Millisecond
	// maxDialsForOne bounds the dials for one waiting call, the silent dials included.
	maxDialsForOne = 4
)

var (
	errLeaves       = errors.New("the frontend is draining and takes no new jobs")
	errNoConn       = errors.New("no connection became free in time")
	errTokenInPlain = errors.New("the token would leave this machine unencrypted: use TLS (client.WithTLS, --tls-dir)")
)

// waiter is a call that waits for a connection.
type waiter struct {
	call         *call
	begunBefore  uint64        // number of dials begun before the wait
	failedBefore uint64        // number of dials failed before the wait
	since        time.Time     // start of the wait
	result       chan lentConn // gets the result; has room for one value
	node         list.Node[*waiter]
}

// lentConn is the result of a wait: a connection or an error.
type lentConn struct {
	conn *conn
	err  error
}

// Links makes waiter an item of a list.List.
func (w *waiter) Links() *list.Node[*waiter] { return &w.node }

// dial is one attempt to make a connection.
type dial struct {
	number  uint64 // position among all dials of the pool, from 1
	silent  bool   // without an answer for silentAfter
	resting bool   // ended, but still counted, so that the pool does not dial again at once
}

// waitForConn waits until cl gets a connection, or until the call's deadline or its context ends. The caller holds the
// mutex, and waitForConn releases it.
func (p *pool) waitForConn(cl *call) (*conn, error) {
	w := &waiter{
		call: cl, begunBefore: p.dialsBegun, failedBefore: p.dialsFailed, since: time.Now(),
		result: make(chan lentConn, 1),
	}
	if cl.ping { // the ping shows whether the other calls wait in vain
		p.waiters.PushFront(w)
		p.startDial()
	} else {
		p.waiters.Push(w)
	}
	p.dialMore()
	p.mu.Unlock()
	var timeUp <-chan time.Time
	if by := earlierOf(cl.deadline, cl.findBy); !by.IsZero() {
		t := time.NewTimer(time.Until(by))
		defer t.Stop()
		timeUp = t.C
	}
	var err error
	select {
	case got := <-w.result:
		return got.conn, got.err
	case <-cl.ctx.Done():
		err = contextError(cl.ctx)
	case <-timeUp:
		err = fmt.Errorf("%w: %w", errNoConn, os.ErrDeadlineExceeded)
	}
	p.mu.Lock()
	p.waiters.Remove(w)
	p.mu.Unlock()
	select {
	case got := <-w.result: // the connection came at the same moment
		if got.conn != nil {
			p.releaseConn(got.conn)
		}
	default:
	}
	return nil, err
}

// releaseConn gives an unused connection to the first waiting call that can use the connection, or keeps the
// connection idle. If the pool has closed the connection meanwhile, releaseConn drops the connection.
func (p *pool) releaseConn(c *conn) {
	p.mu.Lock()
	inPool := p.conns[c] && c.closeCause() == nil
	if inPool {
		p.offerConn(c)
	}
	p.mu.Unlock()
	if !inPool {
		p.dropConn(c)
	}
}

// offerConn gives c to the first waiting call that can use c, or keeps c idle. The mutex is held.
func (p *pool) offerConn(c *conn) {
	if !p.giveToWaiter(c) {
		p.keepIdle(c)
	}
}

// keepIdle keeps a connection for later calls. The mutex is held.
func (p *pool) keepIdle(c *conn) {
	c.idleSince = time.Now()
	p.idle = append(p.idle, c)
	if p.sweeper == nil {
		p.sweeper = time.AfterFunc(idleFor, p.closeStale)
	}
}

// giveToWaiter gives c to the first waiting call that can use c, or reports false if there is no such call. The mutex
// is held.
func (p *pool) giveToWaiter(c *conn) bool {
	for w := range p.waiters.All() {
		if c.canServe(w.call) {
			p.answerWaiter(w, lentConn{conn: c})
			return true
		}
	}
	return false
}

// canServe reports whether a call may use the connection. A job must not go to a draining frontend. A ping must use a
// connection to its own frontend, or a new connection.
func (c *conn) canServe(cl *call) bool {
	switch {
	case cl.newJob && c.isDraining():
		return false
	case cl.ping:
		return c.process == cl.owner || c.idleSince.IsZero()
	}
	return true
}

// isDraining reports whether the frontend behind the connection takes no new jobs.
func (c *conn) isDraining() bool { return c.process != nil && c.process.draining.Load() }

// answerWaiter ends the wait of w with l. The mutex is held.
func (p *pool) answerWaiter(w *waiter, l lentConn) {
	p.waiters.Remove(w)
	w.result <- l
}

// failWaiters ends the waits to which applies returns true, with err. The mutex is held.
func (p *pool) failWaiters(err error, applies func(*waiter) bool) {
	for w := range p.waiters.All() {
		if applies(w) {
			p.answerWaiter(w, lentConn{err: err})
		}
	}
}

// dialMore starts dials for the waiting calls, within the limits of maxDials and maxDialsForOne. The mutex is held.
func (p *pool) dialMore() {
	if p.waiters.Len() == 0 {
		return
	}
	limit := min(p.waiters.Len(), maxDials)
	silent, begunSince := 0, 0 // numbers of dials: silent ones, and begun after the first waiter came
	for _, d := range p.dials {
		if d.silent {
			silent++
		}
		if d.number > p.waiters.First().begunBefore {
			begunSince++
		}
	}
	for ; len(p.dials)-silent < limit && begunSince < maxDialsForOne*limit &&
		len(p.dials) < maxDialsForOne*maxDials; begunSince++ {
		p.startDial()
	}
}

// startDial starts to make a connection. The mutex is held.
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

// dialBeside marks d as silent, so that the pool dials again beside d.
func (p *pool) dialBeside(d *dial) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d.silent = true
	p.dialMore()
}

// finishDial ends a dial, and the waits decided by the dial's result. A frontend with too many connections closes a new
// connection at once. If other connections are in use then, most calls go on waiting for a used connection. Only pings
// end with err, and calls for any frontend that have waited for 1 s (maxDialsForOne times silentAfter). The dial rests
// for silentAfter, to delay the next dial.
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
	case ctx.Err() != nil: // abort has ended the waits
	case closedAtOnce(err) && len(p.conns) > len(p.idle):
		p.crowdedAt = time.Now()
		p.failWaiters(err, func(w *waiter) bool {
			return w.begunBefore < d.number &&
				(w.call.ping || w.call.owner == nil && time.Since(w.since) >= maxDialsForOne*silentAfter)
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

// takeConn gives a new connection to a waiting call, or keeps the connection idle. takeConn returns false if the caller
// must close the connection, because the pool is closed and no call waits, or because the frontend drains and no
// waiting call can use the connection. The mutex is held.
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

// noteDialFailed notes that d failed, or led to a draining frontend, and ends hopeless waits with err. A wait is
// hopeless if applies returns true, the wait began before d, and one more condition holds. Either no other dial is
// under way, or during the wait as many dials in a row have failed as the pool may make for all waiting calls. One
// failed dial does not count for much, because behind a balancer the next dial may lead to another frontend. The
// mutex is held.
func (p *pool) noteDialFailed(d *dial, err error, applies func(*waiter) bool) {
	p.failsInRow++
	p.dialsFailed++
	limit := uint64(maxDialsForOne * min(p.waiters.Len(), maxDials))
	last := !slices.ContainsFunc(p.dials, func(x *dial) bool { return x != d && !x.resting })
	p.failWaiters(err, func(w *waiter) bool {
		return w.begunBefore < d.number && applies(w) &&
			(last || min(p.failsInRow, p.dialsFailed-w.failedBefore) >= limit)
	})
}

// endRest ends the rest of d, so that the pool may dial again.
func (p *pool) endRest(d *dial) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeDial(d)
}

// removeDial forgets d, and starts the dials that d has delayed. The mutex is held.
func (p *pool) removeDial(d *dial) {
	p.dials = slices.DeleteFunc(p.dials, func(x *dial) bool { return x == d })
	p.dialMore()
}

const (
	// crowdedFor is the time for which a frontend counts as crowded after a refused connection.
	crowdedFor = 2 * time.Second
	// rotationTime is the time until each waiting call should have had a connection to a crowded frontend.
	rotationTime = 2 * time.Second
)

// isCrowded reports whether the frontend took no further connection a moment ago.
func (p *pool) isCrowded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isCrowdedLocked()
}

// isCrowdedLocked is isCrowded with the mutex held.
func (p *pool) isCrowdedLocked() bool { return time.Since(p.crowdedAt) < crowdedFor }

// limitPoll returns how long a poll may keep its connection, at most longest. If the frontend is crowded, the polls
// take turns on the connections, so that no job goes without a poll for long.
func (p *pool) limitPoll(longest time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isCrowdedLocked() {
		return longest
	}
	conns, calls := len(p.conns), len(p.conns)+p.waiters.Len()
	return min(longest, rotationTime*time.Duration(conns)/time.Duration(max(calls, 1)))
}

// isShortOfConns reports whether err means that a call found no connection, although the frontend may be well: other
// calls keep all connections, or the frontend takes no more connections.
func (p *pool) isShortOfConns(err error) bool {
	return errors.Is(err, errNoConn) || closedAtOnce(err) && p.isCrowded()
}

// closedAtOnce reports whether err means that the frontend closed a new connection before its first answer.
func closedAtOnce(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// connect makes a connection, and asks which frontend is behind it. If calls carry a token, connect refuses an
// unencrypted connection to another machine.
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
