package serve

import (
	"net"
	"syscall"
	"testing"
)

// When files or memory run out, the worker accepts no connections for a while, and stays.
func TestAcceptFails(t *testing.T) {
	s, err := New(Config{Listen: "127.0.0.1:0", Goroutines: true})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", s.cfg.Listen)
	if err != nil {
		t.Fatal(err)
	}
	e := s.engine.(*goEngine)
	e.listener = &failingListener{l, []error{syscall.EMFILE, syscall.ENOMEM, syscall.ENFILE}}
	s.adoptAddr(l.Addr())
	s.started = true
	e.running.Go(e.acceptConns)
	join(t, s, 1)
	if n := s.cfg.Metrics.GetOrCreateCounter(`phoebe_worker_protocol_errors_total{reason="accept"}`).Get(); n != 3 {
		t.Errorf("%d failures are counted, not 3", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// failingListener fails several times before it accepts.
type failingListener struct {
	net.Listener
	errs []error
}

func (l *failingListener) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, err
	}
	return l.Listener.Accept()
}
