package client

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// slowLink is a proxy before a server. Each connection carries rate bytes a second in each direction.
type slowLink struct {
	net.Listener
	rate int

	mu     sync.Mutex
	thawed sync.Cond
	frozen bool
	conns  []net.Conn
}

// newSlowLink starts a slow link to addr, which ends with the test.
func newSlowLink(t *testing.T, addr string, rate int) *slowLink {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &slowLink{Listener: ln, rate: rate}
	l.thawed.L = &l.mu
	var running sync.WaitGroup
	running.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", addr)
			if err != nil {
				in.Close()
				continue
			}
			for _, c := range []net.Conn{in, out} { // else the kernel takes megabytes at once
				c.(*net.TCPConn).SetReadBuffer(16 << 10)
				c.(*net.TCPConn).SetWriteBuffer(16 << 10)
			}
			l.mu.Lock()
			l.conns = append(l.conns, in, out)
			l.mu.Unlock()
			running.Go(func() { l.carry(out, in) })
			running.Go(func() { l.carry(in, out) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		l.thaw()
		l.cut()
		running.Wait()
	})
	return l
}

// carry carries bytes at the rate of the link, until a side ends the connection.
func (l *slowLink) carry(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, max(l.rate/100, 1))
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		time.Sleep(time.Duration(n) * time.Second / time.Duration(l.rate))
		l.mu.Lock()
		for l.frozen {
			l.thawed.Wait()
		}
		l.mu.Unlock()
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// cut ends all connections.
func (l *slowLink) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.Close()
	}
	l.conns = nil
}

// freeze stops all bytes, until thaw.
func (l *slowLink) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = true
}

// thaw ends a freeze.
func (l *slowLink) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = false
	l.thawed.Broadcast()
}

// A large job, and a large result, may take much longer than the timeout of a call, as long as bytes move.
func TestLargeJobOverSlowLink(t *testing.T) {
	f := newFake(t)
	var job *v1.Job
	f.submit = func(r *v1.SubmitRequest) (*v1.SubmitResponse, error) {
		if r.Job.Resubmission != nil {
			t.Error("the job was taken for lost")
		}
		return f.keepJob(&job)(r)
	}
	f.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		return eventsAnswer(1, true, echoOutcome(job, 0)), nil
	}
	const size = 4 << 20
	link := newSlowLink(t, f.addr, 2<<20) // each way takes two seconds
	c := newClient(t, []string{link.Addr().String()}, WithRetryFor(time.Second), func(c *config) {
		c.rpcTimeout, c.pollFor = time.Second, time.Millisecond
	})
	payload := bytes.Repeat([]byte{7}, size)
	r, err := c.Submit(t.Context(), Job{Tasks: []Task{{Function: "echo", Payload: payload}}})
	if err != nil {
		t.Fatal(err)
	}
	outs, err := r.Wait()
	if err != nil || !bytes.Equal(outs[0].Result, payload) {
		t.Fatal(err)
	}
}

// If a link freezes in the middle of a large job, the client notices, and gives the job to another frontend.
func TestFrozenLink(t *testing.T) {
	a, b := newFake(t), newFake(t)
	b.submit = nil
	b.run = b.runEcho
	link := newSlowLink(t, a.addr, 8<<20)
	c := newClient(t, []string{link.Addr().String(), b.addr}, func(c *config) {
		c.rpcTimeout, c.pingTimeout = time.Second, 300*time.Millisecond
	})
	chooseFirst(c)
	time.AfterFunc(200*time.Millisecond, link.freeze)
	r, err := c.Submit(t.Context(), Job{Tasks: []Task{{Function: "echo", Payload: make([]byte, 8<<20)}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(); err != nil {
		t.Fatal(err)
	}
	if h := r.Handle(); h.Owner != b.addr {
		t.Errorf("the job is at %s", h.Owner)
	}
}

// If a link is cut in the middle of a large job, the client sends the job again.
func TestCutLink(t *testing.T) {
	a := newFake(t)
	a.run = a.runEcho
	link := newSlowLink(t, a.addr, 8<<20)
	c := newClient(t, []string{link.Addr().String()})
	time.AfterFunc(200*time.Millisecond, link.cut)
	r, err := c.Submit(t.Context(), Job{Tasks: []Task{{Function: "echo", Payload: make([]byte, 4<<20)}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(); err != nil {
		t.Fatal(err)
	}
}
