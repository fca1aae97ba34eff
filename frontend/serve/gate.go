package serve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"time"

	"github.com/cloudwego/gopkg/bufiox"
	"github.com/cloudwego/gopkg/protocol/thrift"
	"github.com/cloudwego/kitex/pkg/remote"
	"github.com/cloudwego/kitex/pkg/remote/trans/gonet"
	"golang.org/x/sync/semaphore"

	"github.com/phoebe-sched/phoebe/frontend/frame"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// gate stands between the connections and Kitex, which would read and decode all of a call, whoever sent it and
// however much that takes. What passes is a whole call of the API with the right secret, and there is memory for it. Calls
// of Run do not go by way of Kitex, which would have a goroutine wait for each.
type gate struct {
	kitexHandler
	server       *Server
	handler      *handler
	readingBytes *semaphore.Weighted // bytes of large requests
	decodedBytes *semaphore.Weighted // bytes that requests take which have been read, until the core has their jobs
	// patience is how long a large request waits for room.
	patience time.Duration
}

// kitexHandler is what Kitex's handler of connections implements.
type kitexHandler interface {
	remote.ServerTransHandler
	remote.InvokeHandleFuncSetter
	remote.GracefulShutdown
}

const (
	// smallRequest is the size of a request that needs no room: that of the buffer which each connection has anyway.
	smallRequest = 8 << 10
	// maxStrangerRequest is the size of a request without the right secret after which its connection may go on.
	maxStrangerRequest = 4 << 10
	// A request has to come within grace, and a second for each so many bytes.
	requestGrace   = 10 * time.Second
	minRequestRate = 256 << 10
	// lightRequest is how many bytes a request with a job may decode to without room. Others are small, and may wait for long.
	lightRequest = 4 << 10
	// maxDecoded is how many bytes the requests that have been read take together, and copies is how often each has what it
	// decodes to until its job is the core's, or refused. One that takes all of it may take more, alone.
	maxDecoded    = 64 << 20
	decodedCopies = 4
	// lingerClosing is how long what a client still sends is thrown away before its connection is closed: to close
	// one with unread bytes takes back the answer that is on its way.
	lingerClosing = time.Second
)

// decodedLimit is how much memory a request of so many bytes may take once it is decoded: for what it carries, for as many
// tasks as a job may have, and for what else is said of them.
func (s *Server) decodedLimit(size int) int { return 1<<20 + 512*s.cfg.Core.MaxTasksPerJob + size }

func newGate(s *Server) *gate {
	return &gate{
		server:       s,
		handler:      &handler{s},
		readingBytes: semaphore.NewWeighted(2 * int64(s.cfg.MaxRequest)),
		decodedBytes: semaphore.NewWeighted(maxDecoded),
		patience:     2 * time.Second,
	}
}

// NewTransHandler implements remote.ServerTransHandlerFactory.
func (g *gate) NewTransHandler(opt *remote.ServerOption) (remote.ServerTransHandler, error) {
	h, err := gonet.NewSvrTransHandlerFactory().NewTransHandler(opt)
	if err != nil {
		return nil, err
	}
	g.kitexHandler = h.(kitexHandler)
	return g, nil
}

type visitorKey struct{}

// OnActive implements remote.ServerTransHandler.
func (g *gate) OnActive(ctx context.Context, conn net.Conn) (context.Context, error) {
	v := &visitor{bufferedConn: conn.(bufferedConn), client: conn.RemoteAddr().(clientAddr).conn}
	return g.kitexHandler.OnActive(context.WithValue(ctx, visitorKey{}, v), conn)
}

// OnRead implements remote.ServerTransHandler: it reads a call and answers it. An error closes the connection.
func (g *gate) OnRead(ctx context.Context, conn net.Conn) error {
	v := ctx.Value(visitorKey{}).(*visitor)
	v.client.awaitSettled()
	head, err := frame.ReadHead(v)
	if errors.Is(err, frame.ErrMalformed) || err == nil && head.Type != thrift.CALL {
		g.server.metrics.connsGarbage.Inc()
		return io.EOF
	} else if err != nil {
		return io.EOF // it hung up, or is too slow
	}
	v.head, v.unread = head, head.Size
	var known bool
	if v.caller, known = g.server.identifyCaller(head.Secret, v.client.peerIdentity()); !known {
		refusal := g.server.newRefusedUnknown()
		g.handler.auditCall(ctx, nil, string(head.Method), "", "", refusal)
		return v.refuseCall(head.Size <= maxStrangerRequest, refusal)
	}
	v.client.markTrusted()
	if head.Size > smallRequest {
		return g.passLarge(ctx, v)
	}
	b, err := v.Peek(head.Size)
	if err != nil {
		return io.EOF
	}
	weight, err := head.Weigh(b, g.server.decodedLimit(head.Size))
	switch {
	case err != nil:
		return v.refuseUnreadable(err)
	case weight <= lightRequest || !v.bringsJob():
		return g.passCall(ctx, v, v.bufferedConn, b)
	}
	h := &heldRoom{patience: g.patience}
	defer h.releaseRoom()
	if !h.acquireRoom(ctx, g.decodedBytes, min(decodedCopies*weight, maxDecoded)) {
		return v.refuseCall(true, g.newRefusedFull())
	}
	return g.passCall(context.WithValue(ctx, holdKey{}, h), v, v.bufferedConn, b)
}

// passCall lets a call pass, which is the frame b and the next to be read from conn: Run to its handler, others to Kitex.
func (g *gate) passCall(ctx context.Context, v *visitor, conn bufferedConn, b []byte) error {
	if string(v.head.Method) != "Run" {
		return g.kitexHandler.OnRead(ctx, conn)
	}
	args := v1.NewPhoebeRunArgs()
	if err := v.head.Decode(b, args); err != nil {
		return v.refuseUnreadable(err)
	}
	if args.Request == nil {
		return v.refuseUnreadable(errors.New("there is no request"))
	}
	seq := v.head.Seq
	conn.Reader().Skip(len(b))
	conn.Reader().Release(nil)
	g.handler.runJob(ctx, v.client, seq, args.Request)
	return nil
}

// newRefusedFull refuses a request for lack of room.
func (g *gate) newRefusedFull() *v1.Refused {
	r := newRefused(v1.RefusedReason_OVERLOADED, "the memory for requests is taken by others; come back later")
	r.RetryAfterUs = g.patience.Microseconds()
	return r
}

// passLarge lets a large request pass once there is room for it.
func (g *gate) passLarge(ctx context.Context, v *visitor) error {
	size, most := v.head.Size, g.server.cfg.MaxRequest
	if size > most {
		return v.refuseCall(false, newRefused(v1.RefusedReason_TOO_LARGE, "the request has %d bytes, the limit is %d: split the job", size, most))
	}
	if !v.bringsJob() {
		return v.refuseCall(false, newRefused(v1.RefusedReason_TOO_LARGE, "the request has %d bytes: only Run, Submit and Extend may have more than %d", size, smallRequest))
	}
	h := &heldRoom{patience: g.patience}
	defer h.releaseRoom()
	if !h.acquireRoom(ctx, g.readingBytes, size) {
		return v.refuseCall(true, g.newRefusedFull())
	}
	collectGarbage(size)
	v.limitReadTime()
	r := bufiox.NewDefaultReader(v.takeRest())
	defer func() {
		r.Skip(r.Buffered())
		r.Release(nil)
	}()
	b, err := r.Peek(size)
	if err != nil {
		return io.EOF
	}
	if v.head, err = frame.ReadHead(r); err != nil { // now that it has moved
		return io.EOF
	}
	v.Reader().Release(nil)
	weight, err := v.head.Weigh(b, g.server.decodedLimit(size))
	switch {
	case errors.Is(err, frame.ErrHeavy):
		return v.refuseCall(true, newRefused(v1.RefusedReason_TOO_LARGE, "the job would take more than %d bytes of memory: split it", g.server.decodedLimit(size)))
	case err != nil:
		return v.refuseUnreadable(err)
	case !h.acquireRoom(ctx, g.decodedBytes, min(decodedCopies*weight, maxDecoded)):
		return v.refuseCall(true, g.newRefusedFull())
	}
	collectGarbage(weight)
	return g.passCall(context.WithValue(ctx, holdKey{}, h), v, &prereadConn{v.bufferedConn, r}, b)
}

// collectGarbage is called before a request takes so many bytes. Where that is much, what such ones have left behind would count,
// too, and a collection is little beside the rest of the work.
func collectGarbage(bytes int) {
	if bytes > maxDecoded/decodedCopies {
		runtime.GC()
	}
}

// heldRoom is the room that a large request takes.
type heldRoom struct {
	patience   time.Duration
	semaphores []*semaphore.Weighted
	bytes      []int
}

type holdKey struct{}

// acquireRoom waits for a time, and reports whether there is room.
func (h *heldRoom) acquireRoom(ctx context.Context, sem *semaphore.Weighted, bytes int) bool {
	if !sem.TryAcquire(int64(bytes)) {
		ctx, cancel := context.WithTimeout(ctx, h.patience)
		defer cancel()
		if sem.Acquire(ctx, int64(bytes)) != nil {
			return false
		}
	}
	h.semaphores, h.bytes = append(h.semaphores, sem), append(h.bytes, bytes)
	return true
}

func (h *heldRoom) releaseRoom() {
	for i, sem := range h.semaphores {
		sem.Release(int64(h.bytes[i]))
	}
	h.semaphores = nil
}

// releaseHeldRoom ends what the request of a call holds: what it asks for has been handed on.
func releaseHeldRoom(ctx context.Context) {
	if h, ok := ctx.Value(holdKey{}).(*heldRoom); ok {
		h.releaseRoom()
	}
}

// visitor is a connection at the gate. Its calls come one after the other.
type visitor struct {
	bufferedConn
	client *clientConn
	caller callerIdentity // makes that call
	head   frame.Head     // of the call that is being read
	unread int            // bytes of it that are to be taken from the connection
}

// bufferedConn is a connection as Kitex has it.
type bufferedConn interface {
	net.Conn
	Reader() *bufiox.DefaultReader
	Writer() *bufiox.DefaultWriter
}

// prereadConn is a connection whose next call has been read. The connection's own reader would keep a buffer as large as
// its largest call.
type prereadConn struct {
	bufferedConn
	r *bufiox.DefaultReader
}

func (w *prereadConn) Reader() *bufiox.DefaultReader { return w.r }

// bringsJob reports whether the call brings a job, or what is added to one.
func (v *visitor) bringsJob() bool {
	m := string(v.head.Method)
	return m == "Run" || m == "Submit" || m == "Extend"
}

// Peek implements frame.Peeker.
func (v *visitor) Peek(n int) ([]byte, error) {
	if v.Reader().Buffered() < n {
		v.limitReadTime()
	}
	return v.Reader().Peek(n)
}

// limitReadTime sets the time for what has not come yet. Kitex sets another when it waits for the next call.
func (v *visitor) limitReadTime() {
	v.SetReadDeadline(time.Now().Add(requestGrace + time.Duration(v.unread)*time.Second/minRequestRate))
}

// takeRest is what is unread of the call. The connection's reader must not be used until all of it was taken.
func (v *visitor) takeRest() io.Reader {
	begun, _ := v.Reader().Next(min(v.Reader().Buffered(), v.unread))
	all := io.LimitReader(io.MultiReader(bytes.NewReader(begun), v.client), int64(v.unread))
	v.unread = 0
	return all
}

// refuseUnreadable refuses a call that is not one of the API.
func (v *visitor) refuseUnreadable(err error) error {
	return v.refuseCall(false, newRefused(v1.RefusedReason_INVALID, "%s cannot be read: %v", v.head.Method, err))
}

// refuseCall answers the call without having read it. If the connection is to be kept, it is thrown away first; if not,
// the connection closes, and what comes in the meantime is thrown away.
func (v *visitor) refuseCall(keep bool, r *v1.Refused) error {
	answer := v.head.Refusal(r)
	v.limitReadTime()
	rest := v.takeRest()
	if keep {
		if _, err := io.Copy(io.Discard, rest); err != nil {
			return io.EOF
		}
		v.Reader().Release(nil)
	}
	if _, err := v.client.Write(answer); err != nil {
		return io.EOF
	}
	if keep {
		return nil
	}
	v.client.CloseWrite()
	v.SetReadDeadline(time.Now().Add(lingerClosing))
	io.Copy(io.Discard, rest)
	return io.EOF
}
