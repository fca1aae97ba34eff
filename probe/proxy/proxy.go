// Package proxy is a bad network for tests: a TCP proxy that is slow, freezes, cuts connections, or forgets them.
package proxy

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy relays connections to a server, until the end of the test or Close. Its methods are safe for concurrent use.
type Proxy struct {
	Addr string // to connect to

	listener net.Listener
	to       string
	running  sync.WaitGroup

	mu                  sync.Mutex
	thawed              sync.Cond
	rate                int // bytes a second of each connection, in each direction; 0: no limit
	frozen              bool
	closed              bool
	onRequest, onAnswer func(n int) // see OnRequest and OnAnswer; nil: none
	conns               map[*conn]bool
}

// conn is a connection from a client (in), and the connection to the server (out).
type conn struct {
	in, out net.Conn
	rotten  bool // the next bytes from the client reset the connection
}

const (
	// bufferSize is the size of the kernel's buffers of a connection. The kernel's own choice takes megabytes at once.
	// With less, the kernel would drop bytes, because a new connection has told its peer to send up to 64 KiB.
	bufferSize = 64 << 10
	// partSize is the largest number of bytes relayed at once.
	partSize = 16 << 10
)

// New starts a proxy for the server at the address to. The proxy listens on loopback.
func New(tb testing.TB, to string) *Proxy {
	tb.Helper()
	return NewAt(tb, "127.0.0.1:0", to)
}

// NewAt starts a proxy that listens on an address, for the server at the address to.
func NewAt(tb testing.TB, listen, to string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), listener: l, to: to, conns: map[*conn]bool{}}
	p.thawed.L = &p.mu
	p.running.Go(p.acceptConns)
	tb.Cleanup(p.Close)
	return p
}

// NewSlow starts a proxy with a rate: bytes a second of each connection, in each direction.
func NewSlow(tb testing.TB, to string, rate int) *Proxy {
	tb.Helper()
	p := New(tb, to)
	p.SetRate(rate)
	return p
}

func (p *Proxy) acceptConns() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.to)
		if err != nil {
			in.Close()
			continue
		}
		for _, c := range []net.Conn{in, out} {
			_ = c.(*net.TCPConn).SetReadBuffer(bufferSize) // an error means that the connection has ended
			_ = c.(*net.TCPConn).SetWriteBuffer(bufferSize)
		}
		c := &conn{in: in, out: out}
		p.mu.Lock()
		p.conns[c] = true
		if p.closed {
			in.Close()
			out.Close()
		}
		p.mu.Unlock()
		p.running.Go(func() {
			var back sync.WaitGroup
			back.Go(func() { p.relay(c, c.out, c.in) })
			p.relay(c, c.in, c.out)
			back.Wait()
			p.mu.Lock()
			delete(p.conns, c)
			p.mu.Unlock()
		})
	}
}

// relay carries bytes at the rate of the proxy, until a side ends the connection.
func (p *Proxy) relay(c *conn, from, to net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, partSize)
	var overslept time.Duration // a busy machine wakes late
	for {
		p.mu.Lock()
		rate := p.rate
		p.mu.Unlock()
		part := buf
		if rate > 0 {
			part = buf[:min(max(rate/100, 1), len(buf))]
		}
		n, err := from.Read(part)
		if rate > 0 {
			pause := time.Duration(n)*time.Second/time.Duration(rate) - overslept
			begun := time.Now()
			time.Sleep(pause)
			overslept = time.Since(begun) - pause
		}
		p.mu.Lock()
		for p.frozen {
			p.thawed.Wait()
		}
		rotten, tap := c.rotten, p.onRequest
		if from == c.out {
			tap = p.onAnswer
		}
		p.mu.Unlock()
		if tap != nil && n > 0 {
			tap(n)
		}
		if rotten && from == c.in {
			_ = c.in.(*net.TCPConn).SetLinger(0) // a reset
			return
		}
		if err != nil {
			return
		}
		if _, err := to.Write(part[:n]); err != nil {
			return
		}
	}
}

// OnAnswer has tap called before each relay of bytes from the server. The bytes wait until tap returns.
func (p *Proxy) OnAnswer(tap func(n int)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onAnswer = tap
}

// OnRequest is OnAnswer for bytes from the client.
func (p *Proxy) OnRequest(tap func(n int)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onRequest = tap
}

// SetRate sets the bytes a second of each connection, in each direction; 0: no limit.
func (p *Proxy) SetRate(rate int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = rate
}

// Freeze stops all bytes, until Thaw.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = true
}

// Thaw ends a freeze.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = false
	p.thawed.Broadcast()
}

// Cut ends all present connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.in.Close()
		c.out.Close()
	}
}

// Rot makes the proxy forget all present connections. A client that writes on such a connection gets a reset, as from a
// machine that took over the address. Rot returns the number of connections that were sound before.
func (p *Proxy) Rot() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if !c.rotten {
			c.rotten = true
			n++
		}
	}
	return n
}

// Close ends the proxy with all connections.
func (p *Proxy) Close() {
	p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Thaw()
	p.Cut()
	p.running.Wait()
}
