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

// door is a listener that hands connections to the test, which are closed at its end.
type door struct {
	net.Listener
	came chan net.Conn
}

func newDoor(t *testing.T) (*door, *pool) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{l, make(chan net.Conn)}
	ended := make(chan struct{})
	over, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		defer close(d.came)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			select {
			case d.came <- c:
			case <-over.Done():
			}
		}
	}()
	p := newPool(l.Addr().String(), time.Second, nil)
	t.Cleanup(func() { p.Close(); cancel(); l.Close(); <-ended })
	return d, p
}

// hello has a pool take a connection for good once one byte has come on it.
func hello(ctx context.Context, c *conn) (*process, error) {
	defer context.AfterFunc(ctx, func() { c.Conn.Close() })()
	_, err := io.ReadFull(c.Conn, make([]byte, 1))
	return &process{name: "f"}, err
}

// asks has so many calls get a connection each; what became of them comes as it does.
func asks(p *pool, n int, like func() *call) chan lent {
	got := make(chan lent, n)
	for range n {
		go func() {
			cl := like()
			c, err := p.get(cl)
			if c != nil {
				c.call = cl
			}
			got <- lent{c, err}
		}()
	}
	return got
}

// await waits until what holds under the pool's mutex does.
func await(t *testing.T, p *pool, what string, holds func() bool) {
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

func anyCall() *call { return &call{ctx: context.Background()} }

// A thousand calls at once find a frontend that is slow to answer: few connections are made, and those who are done with theirs pass
// them on.
func TestCallsThatWaitForConnections(t *testing.T) {
	d, p := newDoor(t)
	p.greet = hello
	const calls = 1000
	got := asks(p, calls, anyCall)
	await(t, p, "all wait", func() bool { return p.waiting.Len() == calls })
	if len(p.dials) != maxDials {
		t.Errorf("%d connections are begun at once, want %d", len(p.dials), maxDials)
	}
	first := <-d.came
	first.Write([]byte{1})
	for range calls {
		l := <-got
		if l.err != nil {
			t.Fatal(l.err)
		}
		p.Put(l.conn)
	}
	if n := int(p.begun); n > besides*maxDials {
		t.Errorf("%d connections for %d calls", n, calls)
	}
}

// Of calls that wait each gets a connection of its own if nobody is done with one.
func TestConnectionsForAll(t *testing.T) {
	d, p := newDoor(t)
	p.greet = hello
	const calls = 100
	got := asks(p, calls, anyCall)
	for range calls {
		(<-d.came).Write([]byte{1})
	}
	all := map[*conn]bool{}
	for range calls {
		l := <-got
		if l.err != nil {
			t.Fatal(l.err)
		}
		all[l.conn] = true
	}
	if len(all) != calls || p.waiting.Len() != 0 {
		t.Errorf("%d connections for %d calls, %d still wait", len(all), calls, p.waiting.Len())
	}
	for c := range all { // more than were kept once
		p.Put(c)
	}
	if len(p.idle) != calls || p.sweeper == nil {
		t.Errorf("%d are kept", len(p.idle))
	}
	for _, c := range p.idle[:60] {
		c.since = c.since.Add(-idleFor)
	}
	p.sweep()
	if len(p.idle) != 40 || len(p.all) != 40 || p.sweeper == nil {
		t.Errorf("%d idle ones of %d are left", len(p.idle), len(p.all))
	}
}

// A frontend takes some connections, and closes the others at once: all calls are made with those, and it is not asked for more
// again and again.
func TestFrontendThatTakesNoMoreConnections(t *testing.T) {
	d, p := newDoor(t)
	p.greet = hello
	const calls, takes = 200, 3
	got := asks(p, calls, anyCall)
	for range takes {
		(<-d.came).Write([]byte{1})
	}
	var some []*conn
	for range takes {
		some = append(some, (<-got).conn)
	}
	var closed sync.WaitGroup
	closed.Go(func() {
		for range maxDials {
			(<-d.came).Close()
		}
	})
	closed.Wait()
	for _, c := range some {
		p.Put(c)
	}
	for range calls - takes {
		l := <-got
		if l.err != nil {
			t.Fatal(l.err)
		}
		p.Put(l.conn)
	}
	if p.begun > 2*maxDials+takes {
		t.Errorf("%d connections were tried", p.begun)
	}
}

// But those that wait for a second are told.
func TestFrontendThatTakesNoMoreConnectionsForLong(t *testing.T) {
	d, p := newDoor(t)
	p.greet = hello
	got := asks(p, 2, anyCall)
	(<-d.came).Write([]byte{1})
	if l := <-got; l.err != nil {
		t.Fatal(l.err)
	}
	began := time.Now()
	go func() {
		for c := range d.came {
			c.Close()
		}
	}()
	l := <-got
	if l.err == nil || time.Since(began) < (besides-1)*besideAfter {
		t.Errorf("after %v: %v", time.Since(began), l.err)
	}
	if p.begun > 2+2*besides {
		t.Errorf("%d connections were tried in a second", p.begun)
	}
}

// Where nobody is there, all who wait are told by few connections.
func TestNobodyThere(t *testing.T) {
	d, p := newDoor(t)
	d.Close()
	const calls = 1000
	got := asks(p, calls, anyCall)
	for range calls {
		if l := <-got; l.err == nil {
			t.Fatal("a connection to nobody")
		}
	}
	await(t, p, "no dial is left", func() bool { return len(p.dials) == 0 })
}

// A frontend that says nothing has others tried beside it, and the call that waits ends in time; a connection that comes later is kept.
func TestSilentFrontend(t *testing.T) {
	d, p := newDoor(t)
	p.greet = hello
	got := asks(p, 1, func() *call { return &call{ctx: context.Background(), deadline: time.Now().Add(5 * besideAfter)} })
	var silent []net.Conn
	for range besides {
		silent = append(silent, <-d.came)
	}
	if l := <-got; !errors.Is(l.err, os.ErrDeadlineExceeded) || p.begun != besides {
		t.Errorf("%v after %d connections", l.err, p.begun)
	}
	silent[0].Write([]byte{1})
	await(t, p, "it is idle", func() bool { return len(p.idle) == 1 })
	if l := <-asks(p, 1, anyCall); l.err != nil {
		t.Error(l.err)
	}
}

// What is left of dials for calls that wait no more, and says nothing, does not keep others from being made.
func TestSilentDialsOfOthers(t *testing.T) {
	d, p := newDoor(t)
	p.greet = hello
	ctx, cancel := context.WithCancel(context.Background())
	const calls = 2
	got := asks(p, calls, func() *call { return &call{ctx: ctx} })
	for range calls * besides {
		<-d.came
	}
	cancel()
	for range calls {
		<-got
	}
	got = asks(p, 1, anyCall)
	(<-d.came).Write([]byte{1})
	if l := <-got; l.err != nil {
		t.Error(l.err)
	}
	of := &process{name: "f"}
	ping := asks(p, 1, func() *call { return &call{ctx: context.Background(), ping: true, of: of} })
	<-d.came
	(<-d.came).Write([]byte{1}) // beside the first one, which is silent
	if l := <-ping; l.err != nil {
		t.Error(l.err)
	}
}

// Behind a balancer every other connection leads nowhere: all calls get one of the others.
func TestEveryOtherConnectionFails(t *testing.T) {
	d, p := newDoor(t)
	var n atomic.Int64
	p.greet = func(context.Context, *conn) (*process, error) {
		if n.Add(1)%2 == 0 {
			return nil, errors.New("nobody is behind it")
		}
		return &process{name: "f"}, nil
	}
	go func() {
		for range d.came {
		}
	}()
	const calls = 300
	got := asks(p, calls, anyCall)
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

// A call that ends just when a connection comes for it has that kept for others.
func TestCallThatEndsAsItsConnectionComes(t *testing.T) {
	_, p := newDoor(t)
	why := errors.New("nobody waits any more")
	ended := 0
	for ended < 5 {
		p.dropIdle(nil)
		ctx, cancel := context.WithCancelCause(context.Background())
		c, _ := net.Pipe()
		p.mu.Lock()
		p.dials = make([]*dial, maxDials) // none is to begin
		for i := range p.dials {
			p.dials[i] = &dial{}
		}
		p.mu.Unlock()
		got := asks(p, 1, func() *call { return &call{ctx: ctx} })
		await(t, p, "it waits", func() bool { return p.waiting.Len() == 1 })
		p.mu.Lock()
		cancel(why)
		came := newConn(sock.New(c))
		p.all[came] = true
		p.offer(came)
		p.mu.Unlock()
		if l := <-got; l.err == nil { // it saw that first
			p.Put(l.conn)
		} else if ended++; !errors.Is(l.err, why) {
			t.Fatal(l.err)
		}
		if len(p.idle) != 1 || p.waiting.Len() > 0 {
			t.Fatalf("%d are idle, %d wait", len(p.idle), p.waiting.Len())
		}
	}
	p.dials = nil
}

// Who waits is told when the client closes, but for parting calls; these are served then.
func TestCloseWhileCallsWait(t *testing.T) {
	d, p := newDoor(t)
	p.greet = hello
	got := asks(p, 3, anyCall)
	parting := asks(p, 1, func() *call { return &call{ctx: context.Background(), parting: true} })
	await(t, p, "all wait", func() bool { return p.waiting.Len() == 4 })
	p.abort(ErrClosed)
	for range 3 {
		if l := <-got; !errors.Is(l.err, ErrClosed) {
			t.Error(l.err)
		}
	}
	go func() {
		for c := range d.came {
			c.Write([]byte{1})
		}
	}()
	if l := <-parting; l.err != nil {
		t.Error(l.err)
	}
	await(t, p, "no dial is left", func() bool { return len(p.dials) == 0 })
}

// A job does not go to a frontend that leaves, other calls do; a ping takes its own frontend's connection, or a new one.
func TestWhoMayUseAConnection(t *testing.T) {
	f, other := &process{name: "f"}, &process{name: "other"}
	leaves := &process{name: "leaves"}
	leaves.leaves.Store(true)
	fresh, used := time.Time{}, time.Now()
	for _, c := range []struct {
		conn *conn
		call *call
		want bool
	}{
		{&conn{of: f, since: used}, &call{job: true}, true},
		{&conn{of: leaves, since: used}, &call{job: true}, false},
		{&conn{of: leaves, since: used}, &call{}, true},
		{&conn{of: f, since: used}, &call{ping: true, of: f}, true},
		{&conn{of: other, since: used}, &call{ping: true, of: f}, false},
		{&conn{of: other, since: fresh}, &call{ping: true, of: f}, true},
		{&conn{of: other, since: used}, &call{of: f}, true},
	} {
		if got := c.conn.serves(c.call); got != c.want {
			t.Errorf("of %s, since %v, for a job %v or ping %v: %v", c.conn.of.name, c.conn.since, c.call.job, c.call.ping, got)
		}
	}
	_, p := newDoor(t)
	p.greet = func(context.Context, *conn) (*process, error) { return leaves, nil }
	if l := <-asks(p, 1, func() *call { return &call{ctx: context.Background(), job: true} }); !errors.Is(l.err, errLeaves) {
		t.Error(l.err)
	}
	await(t, p, "no dial is left", func() bool { return len(p.dials) == 0 })
	if len(p.all) > 0 {
		t.Error("a connection is kept that was made for a job, to a frontend that leaves")
	}
	if l := <-asks(p, 1, anyCall); l.err != nil {
		t.Error(l.err)
	}
}
