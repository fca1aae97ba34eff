package serve

import (
	"context"
	"net"
	"sync"
)

// quiet is the listener that Kitex gets. Kitex reports an error of Accept on stderr, unless it was about to close the
// listener itself. We close it before Kitex is stopped: then Accept does not return until Kitex closes it, too.
type quiet struct {
	net.Listener
	closing        context.Context
	accepts, ended chan struct{} // closed by the first call of Accept, and of Close
	accept, end    func()
	waits          chan struct{} // closed when Kitex waits for its end: one that is stopped before that panics
	wait           func()
}

func newQuiet(l net.Listener, closing context.Context) *quiet {
	q := &quiet{Listener: l, closing: closing, accepts: make(chan struct{}), ended: make(chan struct{})}
	q.accept = sync.OnceFunc(func() { close(q.accepts) })
	q.waits = make(chan struct{})
	q.wait = sync.OnceFunc(func() { close(q.waits) })
	q.end = sync.OnceFunc(func() { close(q.ended) })
	return q
}

// Accept implements net.Listener.
func (q *quiet) Accept() (net.Conn, error) {
	q.accept()
	conn, err := q.Listener.Accept()
	if err != nil && q.closing.Err() != nil {
		<-q.ended
	}
	return conn, err
}

// Close implements net.Listener.
func (q *quiet) Close() error {
	q.end()
	return q.Listener.Close()
}
