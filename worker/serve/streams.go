package serve

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

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
	e.server.setAddr(l.Addr())
	e.running.Go(e.acceptConns)
	return nil
}

// acceptPause is how long to wait after an error that concerns one connection, or all files of the process.
const acceptPause = 10 * time.Millisecond

func (e *goEngine) acceptConns() {
	for {
		c, err := e.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			e.mu.Lock()
			stopped := e.stopped
			e.mu.Unlock()
			if !stopped {
				e.server.engineStopped(err)
			}
			return
		case err != nil:
			e.server.meters.countFault("accept")
			time.Sleep(acceptPause)
		default:
			e.openStream(c.(*net.TCPConn))
		}
	}
}

func (e *goEngine) openStream(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		c.Close()
		return
	}
	s := &stream{TCPConn: c, raw: raw, out: c}
	s.writeOnce = func(fd uintptr) bool { // made once: try would make one for each call
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
	if !e.server.admitConn(s.fd) {
		s.Close()
	}
	e.running.Go(func() { e.readStream(s) })
}

// readStream calls the conn of s with all that comes.
func (e *goEngine) readStream(s *stream) {
	srv := e.server
	s.home.Lock()
	c := newConn(srv, s, s)
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
	srv.connClosed()
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

// stream is a connection as a transport. Its home is whoever holds the mutex of that name.
type stream struct {
	*net.TCPConn
	raw     syscall.RawConn
	sealed  *sock.Conn // by TLS; nil: it is plain
	out     net.Conn   // whichever of the two it is
	fd      int        // for Tune and the limit of files only: it may be closed at any time
	home    sync.Mutex
	closing atomic.Bool // nothing more is to be read

	mu        sync.Mutex
	waiting   []byte // what the kernel has not taken yet, and flush has not either
	inflight  int    // bytes that flush has taken
	flushing  bool   // flush runs
	unwritten []byte // what try has to write, and then what is left of it
	writeOnce func(fd uintptr) bool
}

func (s *stream) atHome(f func()) {
	s.home.Lock()
	defer s.home.Unlock()
	f()
}

const readSize = 16 << 10

// readBuffers are shared: a stream that waits for its peer holds none.
var readBuffers = sync.Pool{New: func() any { return new([readSize]byte) }}

// readAll calls f with all that comes, until the connection ends. One call of raw.Read is enough for all of it:
// the function that it calls waits, by returning false, as soon as the kernel gave less than was asked for. A
// Read of net.Conn has to find that out by asking once more.
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

// sealedSize is how much is read at once of what TLS has decrypted: each connection holds a buffer for that.
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

// writeNow writes what the kernel takes at once.
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

// flushWaiting writes what waits, as the kernel takes it.
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
		if _, err := s.out.Write(b); err != nil {
			s.Close()
			return
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

// Close ends the reading, upon which the reader closes the connection: TCPConn.Close would wait for the reader,
// who may be the caller. A peer that goes on sending would keep the reader busy, but for over.
func (s *stream) Close() error {
	s.closing.Store(true)
	s.CloseRead()
	return s.CloseWrite()
}

func (s *stream) Later(f func()) { go s.atHome(f) }
