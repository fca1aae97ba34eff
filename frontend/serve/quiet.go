package serve

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/cloudwego/kitex/pkg/klog"
)

// quietLogger is Kitex's logger without three lines that Kitex writes on stderr: for each start of a server, for each
// peer that is down, and for each call whose caller did not wait for the error. phoebe logs these events with more
// facts, as far as they matter. Kitex's lines would appear in every test with a cluster.
type quietLogger struct{ klog.FullLogger }

var hiddenFormats = []string{
	"KITEX: server listen at addr=%s",
	"KITEX: auto retry retryable error, to_service=%s, retry=%d error=%s",
}

// Infof implements klog.FormatLogger.
func (l quietLogger) Infof(format string, args ...any) {
	if !slices.Contains(hiddenFormats, format) {
		l.FullLogger.Infof(format, args...)
	}
}

// CtxWarnf implements klog.CtxLogger.
func (l quietLogger) CtxWarnf(ctx context.Context, format string, args ...any) {
	if !slices.Contains(hiddenFormats, format) {
		l.FullLogger.CtxWarnf(ctx, format, args...)
	}
}

// CtxErrorf implements klog.CtxLogger. Only Kitex's client writes a whole line that begins with the name of a service.
func (l quietLogger) CtxErrorf(ctx context.Context, format string, args ...any) {
	if format == "%s" && len(args) == 1 && strings.HasPrefix(fmt.Sprint(args[0]), "KITEX: to_service=") {
		return
	}
	l.FullLogger.CtxErrorf(ctx, format, args...)
}

// Kitex's logger may change only before the first use.
func init() { klog.SetLogger(quietLogger{klog.DefaultLogger()}) }

// quietListener is the listener for Kitex. Kitex reports an error of Accept on stderr, unless Kitex was about to
// close the listener itself. phoebe closes the listener before Kitex is stopped. So Accept does not return until
// Kitex closes the listener, too.
type quietListener struct {
	net.Listener
	closing                   context.Context
	acceptCalled, closeCalled chan struct{} // closed by the first call of Accept, and of Close
	noteAccept, noteClose     func()
	kitexWaits                chan struct{} // closed when Kitex waits for its end; Kitex panics if stopped before
	noteKitexWaits            func()
}

func newQuietListener(l net.Listener, closing context.Context) *quietListener {
	q := &quietListener{Listener: l, closing: closing, acceptCalled: make(chan struct{}),
		closeCalled: make(chan struct{})}
	q.noteAccept = sync.OnceFunc(func() { close(q.acceptCalled) })
	q.kitexWaits = make(chan struct{})
	q.noteKitexWaits = sync.OnceFunc(func() { close(q.kitexWaits) })
	q.noteClose = sync.OnceFunc(func() { close(q.closeCalled) })
	return q
}

// Accept implements net.Listener.
func (q *quietListener) Accept() (net.Conn, error) {
	q.noteAccept()
	conn, err := q.Listener.Accept()
	if err != nil && q.closing.Err() != nil {
		<-q.closeCalled
	}
	return conn, err
}

// Close implements net.Listener.
func (q *quietListener) Close() error {
	q.noteClose()
	return q.Listener.Close()
}
