package sock

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// seal is the TLS of a connection. What TLS writes goes to the kernel as far as that takes it at once, and what is left is
// written by a goroutine: so one may try to write although a record cannot be cut.
type seal struct {
	tls   *tls.Conn
	plain *Conn
	ready atomic.Bool // the handshake is over
	once  sync.Once
	ended func()

	mu      sync.Mutex
	emptied sync.Cond
	left    []byte // what the kernel has not taken
	err     error  // of writing that
}

// Seal makes a Conn of c that speaks TLS: as end says, to which it gives what TLS is to read and write. ended is called when
// it is closed. The handshake comes with the first read, or before.
func Seal(c net.Conn, end func(net.Conn) *tls.Conn, ended func()) *Conn {
	s := &seal{plain: New(c), ended: ended}
	s.emptied.L = &s.mu
	s.tls = end(outlet{s.plain, s})
	return &Conn{Conn: s.tls, seal: s}
}

// Handshake does the handshake, until ctx ends.
func (c *Conn) Handshake(ctx context.Context) error {
	if c.seal == nil {
		return nil
	}
	err := c.seal.tls.HandshakeContext(ctx)
	if err == nil {
		c.seal.ready.Store(true)
	}
	return err
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	if c.seal != nil {
		c.seal.once.Do(c.seal.ended)
	}
	return c.Conn.Close()
}

// CloseWrite tells the peer that nothing more comes.
func (c *Conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

func (s *seal) read(b []byte) (int, error) {
	n, err := s.tls.Read(b)
	if err == nil {
		s.ready.Store(true)
	}
	return n, err
}

// mostAtOnce is the largest write that is tried: what the kernel does not take of it is held here.
const mostAtOnce = 64 << 10

func (s *seal) tryWrite(b []byte) int {
	if !s.ready.Load() || len(b) > mostAtOnce {
		return 0
	}
	s.mu.Lock()
	held := len(s.left) > 0 || s.err != nil
	s.mu.Unlock()
	if held {
		return 0
	}
	n, _ := s.tls.Write(b)
	return n
}

// write returns when the kernel has all of b.
func (s *seal) write(b []byte) (n int, err error) {
	for first := true; first || n < len(b); first = false {
		if err := s.wait(); err != nil {
			return n, err
		}
		more, err := s.tls.Write(b[n:min(len(b), n+mostAtOnce)])
		if n += more; err != nil {
			return n, err
		}
	}
	return n, s.wait()
}

// wait returns when the kernel has taken all.
func (s *seal) wait() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.left) > 0 && s.err == nil {
		s.emptied.Wait()
	}
	return s.err
}

// flush writes what is left.
func (s *seal) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.emptied.Broadcast()
	for len(s.left) > 0 {
		b := s.left
		s.mu.Unlock()
		_, err := s.plain.Conn.Write(b)
		s.mu.Lock()
		if s.left = s.left[len(b):]; err != nil {
			s.left, s.err = nil, err
		}
	}
	s.left = nil
}

// outlet is where TLS reads and writes.
type outlet struct {
	*Conn
	seal *seal
}

func (o outlet) Write(b []byte) (int, error) {
	s := o.seal
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	if len(s.left) > 0 {
		s.left = append(s.left, b...)
		return len(b), nil
	}
	if rest := b[s.plain.TryWrite(b):]; len(rest) > 0 {
		s.left = append(s.left, rest...)
		go s.flush()
	}
	return len(b), nil
}

var _ io.Writer = outlet{}
