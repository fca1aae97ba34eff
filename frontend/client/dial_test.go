package client

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe/sock"
)

// door is a listener that hands its connections to the test. They are closed at the end of the test.
type door struct {
	net.Listener
	conns chan net.Conn
}

func newDoor(t *testing.T) (*door, *pool) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{l, make(chan net.Conn)}
	ended := make(chan struct{})
	closing, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		defer close(d.conns)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			select {
			case d.conns <- c:
			case <-closing.Done():
			}
		}
	}()
	p := newPool(l.Addr().String(), time.Second, nil)
	t.Cleanup(func() { p.abort(ErrClosed); cancel(); l.Close(); <-ended })
	return d, p
}

// identifyByByte accepts a new connection as soon as a byte has come.
func identifyByByte(ctx context.Context, c *conn) (*process, error) {
	defer context.AfterFunc(ctx, func() { c.Conn.Close() })()
	_, err := io.ReadFull(c.Conn, make([]byte, 1))
	return &process{name: "f"}, err
}

// startCalls starts n calls that each get a connection. The results come in order of arrival.
func startCalls(p *pool, n int, newCall func() *call) chan lentConn {
	got := make(chan lentConn, n)
	for range n {
		go func() {
			cl := newCall()
			c, err := p.getConn(cl)
			if c != nil {
				c.call = cl
			}
			got <- lentConn{c, err}
		}()
	}
	return got
}

// awaitPool waits until holds returns true under the pool's mutex. The text what describes the condition.
func awaitPool(t *testing.T, p *pool, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		ok := holds()
		p.mu.Unlock()
		if ok {
			return
		}
		if time.Since(began) > 20*time.Second {
			t.Fatal("waited in vain: " + what)
		}
	}
}

// anyCall returns a call without special needs.
func anyCall() *call { return &call{ctx: context.Background()} }

// A thousand calls at once meet a slow frontend. The pool makes few connections, and calls pass their connections on.
func TestCallsThatWaitForConnections(t *testing.T) {
	d, p := newDoor(t)
	p.identify = identifyByByte
	const calls = 1000
	got := startCalls(p, calls, anyCall)
	awaitPool(t, p, "all wait", func() bool { return p.waiters.Len() == calls })
	if len(p.dials) != maxDials {
		t.Errorf("%d connections are begun at once, want %d", len(p.dials), maxDials)
	}
	first := <-d.conns
	first.Write([]byte{1})
	for range calls {
		l := <-got
		if l.err != nil {
			t.Fatal(l.err)
		}
		p.putConn(l.conn)
	}
	if n := int(p.dialsBegun); n > maxDialsForOne*maxDials {
		t.Errorf("%d connections for %d calls", n, calls)
	}
}

// If no call releases its connection, each waiting call gets a connection of its own.
func TestConnectionsForAll(t *testing.T) {
	d, p := newDoor(t)
	p.identify = identifyByByte
	const calls = 100
	got := startCalls(p, calls, anyCall)
	for range calls {
		(<-d.conns).Write([]byte{1})
	}
	all := map[*conn]bool{}
	for range calls {
		l := <-got
		if l.err != nil {
			t.Fatal(l.err)
		}
		all[l.conn] = true
	}
	if len(all) != calls || p.waiters.Len() != 0 {
		t.Errorf("%d connections for %d calls, %d still wait", len(all), calls, p.waiters.Len())
	}
	for c := range all { // the pool keeps any number of idle connections
		p.putConn(c)
	}
	if len(p.idle) != calls || p.sweeper == nil {
		t.Errorf("%d are kept", len(p.idle))
	}
	for _, c := range p.idle[:60] {
		c.idleSince = c.idleSince.Add(-idleFor)
	}
	p.closeStale()
	if len(p.idle) != 40 || len(p.conns) != 40 || p.sweeper == nil {
		t.Errorf("%d idle ones of %d are left", len(p.idle), len(p.conns))
	}
}

// A frontend accepts three connections and closes further connections at once. All calls use the three connections, and
// the pool does not try for more again and again.
func TestFrontendThatTakesNoMoreConnections(t *testing.T) {
	d, p := newDoor(t)
	p.identify = identifyByByte
	const calls, takes = 200, 3
	got := startCalls(p, calls, anyCall)
	for range takes {
		(<-d.conns).Write([]byte{1})
	}
	var some []*conn
	for range takes {
		some = append(some, (<-got).conn)
	}
	var closed sync.WaitGroup
	closed.Go(func() {
		for range maxDials {
			(<-d.conns).Close()
		}
	})
	closed.Wait()
	for _, c := range some {
		p.putConn(c)
	}
	for range calls - takes {
		l := <-got
		if l.err != nil {
			t.Fatal(l.err)
		}
		p.putConn(l.conn)
	}
	if p.dialsBegun > 2*maxDials+takes {
		t.Errorf("%d connections were tried", p.dialsBegun)
	}
}

// If no connection becomes free within a second, the waiting calls end with an error.
func TestFrontendThatTakesNoMoreConnectionsForLong(t *testing.T) {
	d, p := newDoor(t)
	p.identify = identifyByByte
	got := startCalls(p, 2, anyCall)
	(<-d.conns).Write([]byte{1})
	if l := <-got; l.err != nil {
		t.Fatal(l.err)
	}
	began := time.Now()
	go func() {
		for c := range d.conns {
			c.Close()
		}
	}()
	l := <-got
	if l.err == nil || time.Since(began) < (maxDialsForOne-1)*silentAfter {
		t.Errorf("after %v: %v", time.Since(began), l.err)
	}
	if p.dialsBegun > 2+2*maxDialsForOne {
		t.Errorf("%d connections were tried in a second", p.dialsBegun)
	}
}

// If no frontend listens, a few failed dials end all waiting calls.
func TestNobodyThere(t *testing.T) {
	d, p := newDoor(t)
	d.Close()
	const calls = 1000
	got := startCalls(p, calls, anyCall)
	for range calls {
		if l := <-got; l.err == nil {
			t.Fatal("a connection to nobody")
		}
	}
	awaitPool(t, p, "no dial is left", func() bool { return len(p.dials) == 0 })
}

// If a frontend stays silent, the pool dials again beside it, and the waiting call ends at its deadline. If a silent
// connection comes to life later, the pool keeps the connection.
func TestSilentFrontend(t *testing.T) {
	d, p := newDoor(t)
	p.identify = identifyByByte
	got := startCalls(p, 1, func() *call {
		return &call{ctx: context.Background(), deadline: time.Now().Add(5 * silentAfter)}
	})
	var silent []net.Conn
	for range maxDialsForOne {
		silent = append(silent, <-d.conns)
	}
	if l := <-got; !errors.Is(l.err, os.ErrDeadlineExceeded) || p.dialsBegun != maxDialsForOne {
		t.Errorf("%v after %d connections", l.err, p.dialsBegun)
	}
	silent[0].Write([]byte{1})
	awaitPool(t, p, "it is idle", func() bool { return len(p.idle) == 1 })
	if l := <-startCalls(p, 1, anyCall); l.err != nil {
		t.Error(l.err)
	}
}

// Silent dials of calls that no longer wait do not prevent new dials.
func TestSilentDialsOfOthers(t *testing.T) {
	d, p := newDoor(t)
	p.identify = identifyByByte
	ctx, cancel := context.WithCancel(context.Background())
	const calls = 2
	got := startCalls(p, calls, func() *call { return &call{ctx: ctx} })
	for range calls * maxDialsForOne {
		<-d.conns
	}
	cancel()
	for range calls {
		<-got
	}
	got = startCalls(p, 1, anyCall)
	(<-d.conns).Write([]byte{1})
	if l := <-got; l.err != nil {
		t.Error(l.err)
	}
	owner := &process{name: "f"}
	ping := startCalls(p, 1, func() *call { return &call{ctx: context.Background(), ping: true, owner: owner} })
	<-d.conns
	(<-d.conns).Write([]byte{1}) // the second dial, beside the silent first dial
	if l := <-ping; l.err != nil {
		t.Error(l.err)
	}
}

// Behind a balancer every other connection leads nowhere. Nearly all calls get a good connection.
func TestEveryOtherConnectionFails(t *testing.T) {
	d, p := newDoor(t)
	var n atomic.Int64
	p.identify = func(context.Context, *conn) (*process, error) {
		if n.Add(1)%2 == 0 {
			return nil, errors.New("nobody is behind it")
		}
		return &process{name: "f"}, nil
	}
	go func() {
		for range d.conns {
		}
	}()
	const calls = 300
	got := startCalls(p, calls, anyCall)
	failed := 0
	for range calls {
		if l := <-got; l.err != nil {
			failed++
		}
	}
	if failed > calls/20 {
		t.Errorf("%d of %d calls fail", failed, calls)
	}
}

// If a call ends at the moment when its connection comes, the pool keeps the connection for other calls.
func TestCallThatEndsAsItsConnectionComes(t *testing.T) {
	_, p := newDoor(t)
	why := errors.New("nobody waits any more")
	ended := 0
	for ended < 5 {
		p.dropIdle(nil)
		ctx, cancel := context.WithCancelCause(context.Background())
		c, _ := net.Pipe()
		p.mu.Lock()
		p.dials = make([]*dial, maxDials) // so that no dial begins
		for i := range p.dials {
			p.dials[i] = &dial{}
		}
		p.mu.Unlock()
		got := startCalls(p, 1, func() *call { return &call{ctx: ctx} })
		awaitPool(t, p, "it waits", func() bool { return p.waiters.Len() == 1 })
		p.mu.Lock()
		cancel(why)
		came := newConn(sock.New(c))
		p.conns[came] = true
		p.offerConn(came)
		p.mu.Unlock()
		if l := <-got; l.err == nil { // the call saw the connection first
			p.putConn(l.conn)
		} else if ended++; !errors.Is(l.err, why) {
			t.Fatal(l.err)
		}
		if len(p.idle) != 1 || p.waiters.Len() > 0 {
			t.Fatalf("%d are idle, %d wait", len(p.idle), p.waiters.Len())
		}
	}
	p.dials = nil
}

// When the client closes, waiting calls end, except parting calls. Parting calls still get connections.
func TestCloseWhileCallsWait(t *testing.T) {
	d, p := newDoor(t)
	p.identify = identifyByByte
	got := startCalls(p, 3, anyCall)
	parting := startCalls(p, 1, func() *call { return &call{ctx: context.Background(), parting: true} })
	awaitPool(t, p, "all wait", func() bool { return p.waiters.Len() == 4 })
	p.abort(ErrClosed)
	for range 3 {
		if l := <-got; !errors.Is(l.err, ErrClosed) {
			t.Error(l.err)
		}
	}
	go func() {
		for c := range d.conns {
			c.Write([]byte{1})
		}
	}()
	if l := <-parting; l.err != nil {
		t.Error(l.err)
	}
	awaitPool(t, p, "no dial is left", func() bool { return len(p.dials) == 0 })
}

// A job must not go to a draining frontend; other calls may. A ping uses a connection of its own frontend, or a new
// one.
func TestCanServe(t *testing.T) {
	f, other := &process{name: "f"}, &process{name: "other"}
	leaves := &process{name: "leaves"}
	leaves.draining.Store(true)
	fresh, used := time.Time{}, time.Now()
	for _, c := range []struct {
		conn *conn
		call *call
		want bool
	}{
		{&conn{process: f, idleSince: used}, &call{newJob: true}, true},
		{&conn{process: leaves, idleSince: used}, &call{newJob: true}, false},
		{&conn{process: leaves, idleSince: used}, &call{}, true},
		{&conn{process: f, idleSince: used}, &call{ping: true, owner: f}, true},
		{&conn{process: other, idleSince: used}, &call{ping: true, owner: f}, false},
		{&conn{process: other, idleSince: fresh}, &call{ping: true, owner: f}, true},
		{&conn{process: other, idleSince: used}, &call{owner: f}, true},
	} {
		if got := c.conn.canServe(c.call); got != c.want {
			t.Errorf("of %s, since %v, for a job %v or ping %v: %v", c.conn.process.name, c.conn.idleSince,
				c.call.newJob, c.call.ping, got)
		}
	}
	_, p := newDoor(t)
	p.identify = func(context.Context, *conn) (*process, error) { return leaves, nil }
	if l := <-startCalls(p, 1, func() *call {
		return &call{ctx: context.Background(), newJob: true}
	}); !errors.Is(l.err, errLeaves) {
		t.Error(l.err)
	}
	awaitPool(t, p, "no dial is left", func() bool { return len(p.dials) == 0 })
	if len(p.conns) > 0 {
		t.Error("the pool keeps a connection made for a job, although the frontend is draining")
	}
	if l := <-startCalls(p, 1, anyCall); l.err != nil {
		t.Error(l.err)
	}
}
