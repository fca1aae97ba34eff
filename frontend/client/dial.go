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
	besideAfter = 250 * time.Millisecond
	besides     = 4
)

var (
	errLeaves  = errors.New("it takes no new jobs: it leaves")
	errInPlain = errors.New("the token would be told in plain: use TLS too, beyond this machine (client.WithTLS, --tls-dir)")
)

// waiter is a call that waits for a connection.
type waiter struct {
	call  *call
	came  uint64 // how many dials had begun by then
	fails uint64 // and failed
	at    time.Time
	got   chan lent // has room for it
	node  list.Node[*waiter]
}

// lent is what a call has waited for.
type lent struct {
	conn *conn
	err  error
}

// Links makes it an item of lists.
func (w *waiter) Links() *list.Node[*waiter] { return &w.node }

// dial is a connection that is being made.
type dial struct {
	n      uint64 // how many had begun, with it
	silent bool   // for besideAfter
	rests  bool   // it is over
}

// wait waits for a connection for a call. The mutex is held, and is not afterwards.
func (p *pool) wait(cl *call) (*conn, error) {
	w := &waiter{call: cl, came: p.begun, fails: p.fails, at: time.Now(), got: make(chan lent, 1)}
	if cl.ping { // by which it is known whether the others wait in vain
		p.waiting.PushFront(w)
		p.dial()
	} else {
		p.waiting.Push(w)
	}
	p.dialMore()
	p.mu.Unlock()
	var over <-chan time.Time
	if !cl.deadline.IsZero() {
		t := time.NewTimer(time.Until(cl.deadline))
		defer t.Stop()
		over = t.C
	}
	var err error
	select {
	case got := <-w.got:
		return got.conn, got.err
	case <-cl.ctx.Done():
		err = context.Cause(cl.ctx)
	case <-over:
		err = fmt.Errorf("no connection is free: %w", os.ErrDeadlineExceeded)
	}
	p.mu.Lock()
	p.waiting.Remove(w)
	p.mu.Unlock()
	select {
	case got := <-w.got: // meanwhile
		if got.conn != nil {
			p.free(got.conn)
		}
	default:
	}
	return nil, err
}

// free gives a connection that nobody uses to the first call that waits and can use it, or keeps it for later ones.
func (p *pool) free(c *conn) {
	p.mu.Lock()
	ours := p.all[c] && c.killed() == nil
	if ours {
		p.offer(c)
	}
	p.mu.Unlock()
	if !ours { // the pool was closed meanwhile
		p.drop(c)
	}
}

// offer is free. The mutex is held.
func (p *pool) offer(c *conn) {
	if !p.give(c) {
		p.keep(c)
	}
}

// keep keeps a connection for later calls.
func (p *pool) keep(c *conn) {
	c.since = time.Now()
	p.idle = append(p.idle, c)
	if p.sweeper == nil {
		p.sweeper = time.AfterFunc(idleFor, p.sweep)
	}
}

// give gives a connection to the first call that waits and can use it, and reports whether there is one.
func (p *pool) give(c *conn) bool {
	for w := range p.waiting.All() {
		if c.serves(w.call) {
			p.answer(w, lent{conn: c})
			return true
		}
	}
	return false
}

// serves reports whether a call may go out on a connection. A ping is for one frontend, but where it has to come by a new connection.
func (c *conn) serves(cl *call) bool {
	switch {
	case cl.job && c.leaving():
		return false
	case cl.ping:
		return c.of == cl.of || c.since.IsZero()
	}
	return true
}

// leaving reports whether the frontend behind a connection takes no new jobs.
func (c *conn) leaving() bool { return c.of != nil && c.of.leaves.Load() }

func (p *pool) answer(w *waiter, l lent) {
	p.waiting.Remove(w)
	w.got <- l
}

// fail ends the waiting of the calls that are meant.
func (p *pool) fail(err error, meant func(*waiter) bool) {
	for w := range p.waiting.All() {
		if meant(w) {
			p.answer(w, lent{err: err})
		}
	}
}

// dialMore makes connections for those that wait. The mutex is held.
func (p *pool) dialMore() {
	if p.waiting.Len() == 0 {
		return
	}
	most := min(p.waiting.Len(), maxDials)
	silent, since := 0, 0 // the one that waits at the front came
	for _, d := range p.dials {
		if d.silent {
			silent++
		}
		if d.n > p.waiting.First().came {
			since++
		}
	}
	for ; len(p.dials)-silent < most && since < besides*most && len(p.dials) < besides*maxDials; since++ {
		p.dial()
	}
}

// dial begins a connection. The mutex is held.
func (p *pool) dial() {
	p.begun++
	d := &dial{n: p.begun}
	p.dials = append(p.dials, d)
	ctx := p.dialling
	go func() {
		beside := time.AfterFunc(besideAfter, func() { p.later(d) })
		c, err := p.connect(ctx)
		beside.Stop()
		p.dialled(ctx, d, c, err)
	}()
}

// later lets others be tried beside a dial.
func (p *pool) later(d *dial) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d.silent = true
	p.dialMore()
}

// dialled ends a dial, which may have been in vain, and with it the waiting of calls. But where it was closed at once, as by a frontend
// that has too many, and others are in use, they wait for these for a while, and the next dial rests.
func (p *pool) dialled(ctx context.Context, d *dial, c *conn, err error) {
	kept := false
	p.mu.Lock()
	switch {
	case err == nil:
		if kept = p.take(c); !c.leaving() {
			p.row = 0
			break
		}
		p.failed(d, errLeaves, func(w *waiter) bool { return w.call.job })
	case ctx.Err() != nil: // it was aborted
	case closedAtOnce(err) && len(p.all) > len(p.idle):
		p.fail(err, func(w *waiter) bool {
			return w.came < d.n && (w.call.ping || time.Since(w.at) >= besides*besideAfter)
		})
		d.rests = true
		time.AfterFunc(besideAfter, func() { p.rested(d) })
	default:
		p.failed(d, err, func(*waiter) bool { return true })
	}
	if !d.rests {
		p.ended(d)
	}
	p.mu.Unlock()
	if err == nil && !kept {
		c.Conn.Close()
	}
}

// take gives a new connection to a call that waits, or keeps it, unless nobody may need it: then it reports false.
func (p *pool) take(c *conn) bool {
	if p.shut != nil && p.waiting.Len() == 0 {
		return false
	}
	p.all[c] = true
	switch {
	case p.give(c):
	case c.leaving():
		delete(p.all, c)
		return false
	default:
		p.keep(c)
	}
	return true
}

// failed tells those that are meant, and wait in vain as a dial that began since they came has failed: no other one is under way, or so many
// have failed in a row as may be made for all that wait. Behind a balancer, the next one may lead elsewhere.
func (p *pool) failed(d *dial, err error, meant func(*waiter) bool) {
	p.row++
	p.fails++
	most := uint64(besides * min(p.waiting.Len(), maxDials))
	last := !slices.ContainsFunc(p.dials, func(x *dial) bool { return x != d && !x.rests })
	p.fail(err, func(w *waiter) bool {
		return w.came < d.n && meant(w) && (last || min(p.row, p.fails-w.fails) >= most)
	})
}

// rested ends a dial that was of no use.
func (p *pool) rested(d *dial) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended(d)
}

func (p *pool) ended(d *dial) {
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
	if at, tcp := raw.RemoteAddr().(*net.TCPAddr); p.tells && p.keys == nil && tcp && !at.IP.IsLoopback() {
		raw.Close()
		return nil, errInPlain
	}
	c := newConn(sock.New(raw))
	if p.greet != nil {
		if c.of, err = p.greet(ctx, c); err != nil {
			raw.Close()
			return nil, err
		}
	}
	return c, nil
}
