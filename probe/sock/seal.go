package sock

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// seal is the TLS of a connection. The kernel takes as much of TLS's output as it can at once, and a goroutine
// writes the rest. So a caller can try to write although a TLS record cannot be cut.
type seal struct {
	tls        *tls.Conn
	plain      *Conn
	handshaken atomic.Bool // the handshake has ended
	closeOnce  sync.Once
	onClose    func()

	mu      sync.Mutex
	emptied sync.Cond
	unsent  []byte // bytes not yet taken by the kernel
	err     error  // of writing unsent bytes
}

// Seal makes a Conn that speaks TLS over c. newTLS makes the TLS connection over the given plain connection.
// onClose is called when the Conn is closed. The handshake comes with the first read, or before by Handshake.
func Seal(c net.Conn, newTLS func(net.Conn) *tls.Conn, onClose func()) *Conn {
	s := &seal{plain: New(c), onClose: onClose}
	s.emptied.L = &s.mu
	s.tls = newTLS(outlet{s.plain, s})
	return &Conn{Conn: s.tls, seal: s}
}

// Handshake does the handshake, until ctx ends.
func (c *Conn) Handshake(ctx context.Context) error {
	if c.seal == nil {
		return nil
	}
	err := c.seal.tls.HandshakeContext(ctx)
	if err == nil {
		c.seal.handshaken.Store(true)
	}
	return err
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	if c.seal != nil {
		c.seal.closeOnce.Do(c.seal.onClose)
	}
	return c.Conn.Close()
}

// CloseWrite tells the peer that no more bytes follow.
func (c *Conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

func (s *seal) readSealed(b []byte) (int, error) {
	n, err := s.tls.Read(b)
	if err == nil {
		s.handshaken.Store(true)
	}
	return n, err
}

// maxSealedWrite bounds a write tried at once, because the seal buffers the bytes that the kernel does not take.
const maxSealedWrite = 64 << 10

// maxUnsent bounds the unsent bytes that the next write joins. Only TLS itself writes while bytes are unsent.
const maxUnsent = 2 * maxSealedWrite

var errUnread = errors.New("the peer does not read the answers of TLS to its own requests")

// tryWrite writes b if the handshake has ended and no bytes are unsent. Otherwise tryWrite returns 0.
func (s *seal) tryWrite(b []byte) int {
	if !s.handshaken.Load() || len(b) > maxSealedWrite {
		return 0
	}
	s.mu.Lock()
	hasUnsent := len(s.unsent) > 0 || s.err != nil
	s.mu.Unlock()
	if hasUnsent {
		return 0
	}
	n, _ := s.tls.Write(b)
	return n
}

// writeAll returns when the kernel has all of b.
func (s *seal) writeAll(b []byte) (n int, err error) {
	for first := true; first || n < len(b); first = false {
		if err := s.waitFlushed(); err != nil {
			return n, err
		}
		more, err := s.tls.Write(b[n:min(len(b), n+maxSealedWrite)])
		if n += more; err != nil {
			return n, err
		}
	}
	return n, s.waitFlushed()
}

// waitFlushed returns when the kernel has taken all unsent bytes.
func (s *seal) waitFlushed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.unsent) > 0 && s.err == nil {
		s.emptied.Wait()
	}
	return s.err
}

// flushUnsent writes unsent bytes until all are written.
func (s *seal) flushUnsent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.emptied.Broadcast()
	for len(s.unsent) > 0 {
		b := s.unsent
		s.mu.Unlock()
		_, err := s.plain.Conn.Write(b)
		s.mu.Lock()
		if s.unsent = s.unsent[len(b):]; err != nil {
			s.unsent, s.err = nil, err
		}
	}
	s.unsent = nil
}

// outlet is the plain connection under TLS.
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
	if len(s.unsent) > maxUnsent {
		// The peer asks TLS for answers, such as updates of keys, and reads none.
		s.err = errUnread
		s.plain.Conn.Close()
		return 0, s.err
	}
	if len(s.unsent) > 0 {
		s.unsent = append(s.unsent, b...)
		return len(b), nil
	}
	if rest := b[s.plain.TryWrite(b):]; len(rest) > 0 {
		s.unsent = append(s.unsent, rest...)
		go s.flushUnsent()
	}
	return len(b), nil
}

var _ io.Writer = outlet{}
