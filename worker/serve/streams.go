package serve

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/phoebe-sched/phoebe/probe/door"
	"github.com/phoebe-sched/phoebe/probe/identity"
	"github.com/phoebe-sched/phoebe/probe/sock"
)

// goEngine serves each connection with a goroutine of its own.
type goEngine struct {
	server   *Server
	listener net.Listener
	running  sync.WaitGroup

	mu      sync.Mutex
	stopped bool
	streams map[*stream]bool
}

func (e *goEngine) start() error {
	l, err := net.Listen("tcp", e.server.cfg.Listen)
	if err != nil {
		return err
	}
	e.listener = l
	e.server.adoptAddr(l.Addr())
	e.running.Go(e.acceptConns)
	return nil
}

func (e *goEngine) acceptConns() {
	for {
		c, err := door.Accept(e.listener, func() { e.server.meters.countFault("accept") })
		if err != nil {
			e.mu.Lock()
			stopped := e.stopped
			e.mu.Unlock()
			if !stopped {
				e.server.engineStopped(err)
			}
			return
		}
		e.openStream(c.(*net.TCPConn))
	}
}

// openStream starts to serve an accepted connection.
func (e *goEngine) openStream(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		c.Close()
		return
	}
	s := &stream{TCPConn: c, raw: raw, out: c}
	s.writeOnce = func(fd uintptr) bool { // made once: a closure in writeNow would be allocated at each call
		s.unwritten = s.unwritten[sock.WriteNow(int(fd), s.unwritten):]
		return true
	}
	if keys := e.server.cfg.Keys; keys != nil {
		s.sealed = keys.Server(c, identity.Frontend)
		s.out = s.sealed
	}
	raw.Control(func(fd uintptr) { s.fd = int(fd) })
	e.mu.Lock()
	ok := !e.stopped
	if ok {
		e.streams[s] = true
	}
	e.mu.Unlock()
	if !ok {
		c.Close()
		return
	}
	e.server.meters.connections.Inc()
	guest := e.server.door.Enter(s.fd, func() { s.Close() })
	if guest == nil {
		s.Close() // readStream ends at once, and takes the connection off the count
	}
	e.running.Go(func() { e.readStream(s, guest) })
}

// readStream passes all received bytes to the conn of s.
func (e *goEngine) readStream(s *stream, guest *door.Guest) {
	srv := e.server
	s.home.Lock() // the timer of newConn must not find an incomplete conn
	c := newConn(srv, s, s)
	c.guest = guest
	s.home.Unlock()
	s.readAll(func(b []byte) {
		s.atHome(func() {
			defer srv.recoverPanic("reading a connection", func() { s.Close() })
			c.receiveData(b)
		})
	})
	s.out.Close()
	s.atHome(func() {
		defer srv.recoverPanic("closing a connection", nil)
		c.handleClosed()
	})
	e.mu.Lock()
	delete(e.streams, s)
	e.mu.Unlock()
	srv.meters.connections.Dec()
}

func (e *goEngine) stop() {
	e.mu.Lock()
	e.stopped = true
	for s := range e.streams {
		s.Close()
	}
	e.mu.Unlock()
	if e.listener != nil {
		e.listener.Close()
	}
	e.running.Wait()
}

// stream is a connection as a transport. At home means with the mutex home held.
type stream struct {
	*net.TCPConn
	raw     syscall.RawConn
	sealed  *sock.Conn // TLS; nil: no encryption
	out     net.Conn   // sealed or the TCPConn
	fd      int        // for Tune and the limit of open files only: it may be closed at any time
	home    sync.Mutex
	closing atomic.Bool // reads no more

	mu        sync.Mutex
	waiting   []byte // bytes that neither the kernel nor flushWaiting has taken
	inflight  int    // bytes that flushWaiting has taken, and not written
	flushing  bool   // flushWaiting runs
	unwritten []byte // bytes that writeNow has still to write
	writeOnce func(fd uintptr) bool
}

func (s *stream) atHome(f func()) {
	s.home.Lock()
	defer s.home.Unlock()
	f()
}

const readSize = 16 << 10

// readBuffers are shared, so a stream that waits for its peer holds no buffer.
var readBuffers = sync.Pool{New: func() any { return new([readSize]byte) }}

// readAll calls f with all received bytes, until the connection ends. A single call of raw.Read is enough. Its
// callback returns false, and so waits, as soon as the kernel gave less than the size of the buffer. A Read of
// net.Conn would have to ask the kernel once more.
func (s *stream) readAll(f func([]byte)) {
	if s.sealed != nil {
		s.readSealed(f)
		return
	}
	s.raw.Read(func(fd uintptr) (done bool) {
		room := readBuffers.Get().(*[readSize]byte)
		defer readBuffers.Put(room)
		buf := room[:]
		for !s.closing.Load() {
			switch n, errno := sock.ReadNow(int(fd), buf); {
			case n > 0:
				if f(buf[:n]); n < len(buf) {
					return false
				}
			default:
				return errno != syscall.EAGAIN
			}
		}
		return true
	})
}

// sealedSize is the size of a read of decrypted bytes. Each TLS connection holds a buffer of this size.
const sealedSize = 4 << 10

func (s *stream) readSealed(f func([]byte)) {
	buf := make([]byte, sealedSize)
	for !s.closing.Load() {
		n, err := s.sealed.Read(buf)
		if n > 0 {
			f(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

func (s *stream) TryWrite(b []byte) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flushing {
		return 0
	}
	return s.writeNow(b)
}

// writeNow writes as much of b as the kernel takes at once, and returns the number of bytes.
func (s *stream) writeNow(b []byte) int {
	if s.sealed != nil {
		return s.sealed.TryWrite(b)
	}
	s.unwritten = b
	s.raw.Write(s.writeOnce)
	n := len(b) - len(s.unwritten)
	s.unwritten = nil
	return n
}

func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.flushing {
		n := s.writeNow(b)
		if n == len(b) {
			return n, nil
		}
		s.flushing = true
		s.waiting = append(s.waiting, b[n:]...)
		go s.flushWaiting()
		return len(b), nil
	}
	s.waiting = append(s.waiting, b...)
	return len(b), nil
}

// flushPiece is the size of a write of flushWaiting. OutboundBuffered shows the progress after each.
const flushPiece = 64 << 10

// flushWaiting writes the waiting bytes, as fast as the kernel takes them.
func (s *stream) flushWaiting() {
	for {
		s.mu.Lock()
		b := s.waiting
		s.waiting, s.inflight = nil, len(b)
		s.flushing = len(b) > 0
		s.mu.Unlock()
		if len(b) == 0 {
			return
		}
		for len(b) > 0 {
			piece := b[:min(len(b), flushPiece)]
			if _, err := s.out.Write(piece); err != nil {
				s.Close()
				return
			}
			b = b[len(piece):]
			s.mu.Lock()
			s.inflight = len(b)
			s.mu.Unlock()
		}
	}
}

func (s *stream) OutboundBuffered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) + s.inflight
}

func (s *stream) Tune(lease time.Duration) {
	s.raw.Control(func(fd uintptr) { tuneSocket(int(fd), lease) })
}

// Close ends the reading, and then the reader closes the connection. TCPConn.Close would wait for the reader,
// which may be the caller. Without closing, a peer that keeps sending would keep the reader busy.
func (s *stream) Close() error {
	s.closing.Store(true)
	s.CloseRead()
	return s.CloseWrite()
}

func (s *stream) Later(f func()) { go s.atHome(f) }
