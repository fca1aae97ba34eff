package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/phoebe-sched/phoebe/probe/door"
	"github.com/phoebe-sched/phoebe/probe/sock"
)

// filesLeftFree is the number of open files that connections leave free. gnet gives up for good when it can
// accept no connection. Before the server can close a connection, gnet accepts all connections waiting on the
// listener (as a rule at most 4096).
const filesLeftFree = 4096 + 512

// engine accepts connections and calls their conns.
type engine interface {
	// start listens, and serves until stop. After an error it does not serve.
	start() error
	// stop closes the listener and all connections.
	stop()
}

// gnetEngine serves all connections on a few event loops. If an event loop fails, all of gnet ends.
type gnetEngine struct {
	gnet.BuiltinEventEngine
	server  *Server
	gnet    gnet.Engine
	bootErr error
	err     error         // why gnet ended, before stopped is closed
	booted  chan struct{} // closed when gnet listens
	stopped chan struct{} // closed when gnet has ended
}

// start listens, and serves until stop is called.
func (e *gnetEngine) start() error {
	cfg := &e.server.cfg
	listen, err := net.ResolveTCPAddr("tcp", cfg.Listen)
	if err != nil {
		return err
	}
	go func() {
		defer close(e.stopped)
		// No keepalive here: with keepalive, gnet loses the error of a failed listener.
		e.err = gnet.Run(e, "tcp://"+listen.String(), gnet.WithNumEventLoop(cfg.EventLoops), gnet.WithReuseAddr(true),
			gnet.WithLogger(gnetLog{cfg.Logger}))
		select {
		case <-e.booted:
			e.server.engineStopped(e.err)
		default:
		}
	}()
	select {
	case <-e.booted:
		return nil
	case <-e.stopped:
		return errors.Join(e.err, e.bootErr)
	}
}

// stop closes the listener and all connections.
func (e *gnetEngine) stop() {
	select {
	case <-e.booted:
		now, cancel := context.WithCancel(context.Background())
		cancel()
		_ = e.gnet.Stop(now) // without a cancelled context, Stop polls for the end every 500 ms
		<-e.stopped
	case <-e.stopped:
	}
}

// OnBoot is called when gnet listens.
func (e *gnetEngine) OnBoot(g gnet.Engine) gnet.Action {
	e.gnet = g
	addr, err := listenAddr(g)
	if err != nil {
		e.bootErr = err
		return gnet.Shutdown
	}
	e.server.adoptAddr(addr)
	close(e.booted)
	return gnet.None
}

// listenAddr finds out the port of gnet's listener.
func listenAddr(g gnet.Engine) (net.Addr, error) {
	fd, err := g.Dup()
	if err != nil {
		return nil, fmt.Errorf("find the address: %w", err)
	}
	f := os.NewFile(uintptr(fd), "listener")
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("find the address: %w", err)
	}
	defer l.Close()
	return l.Addr(), nil
}

// OnOpen is called when a connection was accepted.
func (e *gnetEngine) OnOpen(g gnet.Conn) (_ []byte, action gnet.Action) {
	s := e.server
	defer s.recoverPanic("opening a connection", func() { action = gnet.Close })
	s.meters.connections.Inc()
	guest := s.door.Enter(g.Fd(), func() { g.Close() })
	if guest == nil {
		return nil, gnet.Close
	}
	c := newConn(s, &gnetWire{Conn: g, fd: g.Fd()}, g.EventLoop())
	c.guest = guest
	g.SetContext(c)
	return nil, gnet.None
}

// newDoor makes the door for links of frontends.
func (s *Server) newDoor() *door.Door {
	return door.New(door.Rule{MaxConns: s.cfg.MaxConns, FilesFree: filesLeftFree, Closed: func(why door.Reason) {
		if why == door.NoFile {
			s.meters.countFault("too_many_files")
		} else {
			s.meters.countFault("too_many_connections")
		}
	}})
}

// OnClose is called when either side has closed a connection.
func (e *gnetEngine) OnClose(g gnet.Conn, _ error) gnet.Action {
	s := e.server
	defer s.recoverPanic("closing a connection", nil)
	s.meters.connections.Dec()
	if c, ok := g.Context().(*conn); ok {
		c.wire.(*gnetWire).blockDirect()
		c.handleClosed()
	}
	return gnet.None
}

// OnTraffic is called when bytes were received.
func (e *gnetEngine) OnTraffic(g gnet.Conn) (action gnet.Action) {
	defer e.server.recoverPanic("reading a connection", func() { action = gnet.Close })
	data, _ := g.Next(-1) // all bytes: each call takes all
	if c, ok := g.Context().(*conn); ok {
		c.receiveData(data)
	}
	return gnet.None
}

// gnetWire is a connection of gnet as a transport.
type gnetWire struct {
	gnet.Conn
	fd int

	mu            sync.Mutex // held while TryWrite uses fd
	directBlocked bool       // fd is closed, or gnet's buffer must be written first
}

// TryWrite writes past gnet. A write by way of gnet's event loop would take 10 us and more.
func (w *gnetWire) TryWrite(b []byte) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.directBlocked {
		return 0
	}
	return sock.WriteNow(w.fd, b)
}

func (w *gnetWire) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	if err == nil {
		w.mu.Lock()
		w.directBlocked = w.OutboundBuffered() > 0
		w.mu.Unlock()
	}
	return n, err
}

// blockDirect is called before gnet closes fd. Afterwards another file may have the number fd.
func (w *gnetWire) blockDirect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.directBlocked = true
}

func (w *gnetWire) Tune(lease time.Duration) { tuneSocket(w.fd, lease) }

func (w *gnetWire) Later(f func()) {
	// An error means that gnet and the connection have ended.
	_ = w.EventLoop().Execute(context.Background(), gnet.RunnableFunc(func(context.Context) error { f(); return nil }))
}

// gnetLog passes the log of gnet on to a slog.Logger.
type gnetLog struct{ log *slog.Logger }

func (l gnetLog) Debugf(format string, args ...any) {}
func (l gnetLog) Infof(format string, args ...any)  {}
func (l gnetLog) Warnf(format string, args ...any) {
	l.log.Debug("gnet", "err", fmt.Sprintf(format, args...))
}
func (l gnetLog) Errorf(format string, args ...any) {
	l.log.Error("gnet", "err", fmt.Sprintf(format, args...))
}
func (l gnetLog) Fatalf(format string, args ...any) { l.Errorf(format, args...) }
