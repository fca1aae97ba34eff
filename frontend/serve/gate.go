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

// gate stands between the connections and Kitex. Kitex alone would read and decode any whole call, from any sender
// and at any cost in memory. The gate lets a call pass if it is whole, shows the right secret, and finds memory.
// The gate keeps calls of Run from Kitex, because Kitex would have a goroutine wait for each.
type gate struct {
	kitexHandler
	server       *Server
	handler      *handler
	readingRoom  *readingRoom        // for large requests
	decodedBytes *semaphore.Weighted // bytes of requests from reading until the core has the job
	// patience bounds a large request's wait for room.
	patience time.Duration
}

// kitexHandler is the interface of Kitex's handler of connections.
type kitexHandler interface {
	remote.ServerTransHandler
	remote.InvokeHandleFuncSetter
	remote.GracefulShutdown
}

const (
	// smallRequest bounds a request that needs no room for reading. Each connection has a buffer of that size anyway.
	smallRequest = 8 << 10
	// maxStrangerRequest bounds a request without the right secret whose connection may go on, in bytes.
	maxStrangerRequest = 4 << 10
	// A small request has to arrive within requestGrace, plus a second for each minRequestRate bytes. The bytes of a
	// large request have to come at that rate, and may be late by requestGrace.
	requestGrace   = 10 * time.Second
	minRequestRate = 256 << 10
	// firstRoom is the room that a large request takes before its bytes arrive.
	firstRoom = 2 * smallRequest
	// roomGrowth is the factor by which the room grows once it is full. The smaller the factor, the more of a request
	// is copied, and the more buffers are garbage.
	roomGrowth = 8
	// lightRequest bounds the decoded bytes of a request with a job that takes no room. Requests without a job take
	// no room, either: they are small, and would keep the room for as long as they wait.
	lightRequest = 4 << 10
	// maxDecoded bounds the decoded bytes of all requests together. Until a request's job is the core's, or refused,
	// its decoded bytes exist decodedCopies times. A larger request takes all of maxDecoded, so that no
	// other request is decoded beside it.
	maxDecoded    = 64 << 20
	decodedCopies = 4
	// lingerClosing is the time before a connection is closed. Meanwhile the client's further bytes are thrown
	// away. If a connection is closed with unread bytes, the kernel takes back the answer on its way.
	lingerClosing = time.Second
)

// decodedLimit bounds the memory of a decoded request of size bytes. It allows for the payloads, for the largest
// number of tasks in a job, and for the rest of a job's description.
func (s *Server) decodedLimit(size int) int { return 1<<20 + 512*s.cfg.Core.MaxTasksPerJob + size }

func newGate(s *Server) *gate {
	return &gate{
		server:       s,
		handler:      &handler{s},
		readingRoom:  newReadingRoom(s.cfg.MaxRequest),
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

// OnRead implements remote.ServerTransHandler: it reads and answers a call. An error closes the connection.
func (g *gate) OnRead(ctx context.Context, conn net.Conn) error {
	v := ctx.Value(visitorKey{}).(*visitor)
	v.client.awaitSettled() // the answer to an earlier Run is written first
	head, err := frame.ReadHead(v)
	if errors.Is(err, frame.ErrMalformed) || err == nil && head.Type != thrift.CALL {
		g.server.metrics.connsGarbage.Inc()
		return io.EOF
	} else if err != nil {
		return io.EOF // the client hung up, or is too slow
	}
	v.head, v.unread, v.rest = head, head.Size, nil
	var known bool
	if v.caller, known = g.server.identifyCaller(head.Secret, v.client.peerIdentity()); !known {
		refusal := g.server.newRefusedUnknown()
		g.server.cfg.Audit.NoteStranger(g.handler.newAuditEntry(ctx, nil, string(head.Method), "", ""), refusal)
		end := v.client.guest.NoteWrongSecret()
		return v.refuseCall(!end && head.Size <= maxStrangerRequest, refusal)
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
	h := &requestRoom{patience: g.patience}
	defer h.releaseRoom()
	if !h.acquireRoom(ctx, g.decodedBytes, min(decodedCopies*weight, maxDecoded)) {
		return v.refuseCall(true, g.newRefusedFull())
	}
	return g.passCall(context.WithValue(ctx, roomKey{}, h), v, v.bufferedConn, b)
}

// passCall lets a call pass: Run to its handler, other calls to Kitex. b is the frame of the call: the next bytes
// of conn.
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
		return v.refuseCall(false,
			newRefused(v1.RefusedReason_TOO_LARGE, "the request has %d bytes, the limit is %d: split the job", size,
				most))
	}
	if !v.bringsJob() {
		return v.refuseCall(false,
			newRefused(v1.RefusedReason_TOO_LARGE,
				"the request has %d bytes: only Run, Submit and Extend may have more than %d", size, smallRequest))
	}
	h := &requestRoom{patience: g.patience, arriving: g.readingRoom.addRequest(v.caller.Tenant)}
	defer h.releaseRoom()
	r := bufiox.NewDefaultReader(v.takeUnread())
	defer func() {
		r.Skip(r.Buffered())
		r.Release(nil)
	}()
	var b []byte
	var err error
	for room := 0; room < size; { // the buffer grows with the bytes that have arrived
		more := min(max((roomGrowth-1)*room, firstRoom), size-room)
		if !h.arriving.addBytes(more, g.patience) {
			h.releaseRoom()
			return v.refuseCall(true, g.newRefusedFull())
		}
		room += more
		collectGarbage(room)
		r.Release(nil) // frees the last buffer but one
		if b, err = r.Peek(room); err != nil {
			return io.EOF
		}
	}
	if v.head, err = frame.ReadHead(r); err != nil { // again, because it has moved
		return io.EOF
	}
	v.Reader().Release(nil)
	weight, err := v.head.Weigh(b, g.server.decodedLimit(size))
	switch {
	case errors.Is(err, frame.ErrHeavy):
		return v.refuseCall(true,
			newRefused(v1.RefusedReason_TOO_LARGE, "the job would take more than %d bytes of memory: split it",
				g.server.decodedLimit(size)))
	case err != nil:
		return v.refuseUnreadable(err)
	case !h.acquireRoom(ctx, g.decodedBytes, min(decodedCopies*weight, maxDecoded)):
		return v.refuseCall(true, g.newRefusedFull())
	}
	collectGarbage(weight)
	return g.passCall(context.WithValue(ctx, roomKey{}, h), v, &prereadConn{v.bufferedConn, r}, b)
}

// collectGarbage is called before a request takes many bytes. Before a large request, it frees the memory of earlier
// large requests, so that the memory of both is not in use at once. A collection costs little beside the rest of the
// work for a large request.
func collectGarbage(bytes int) {
	if bytes > maxDecoded/decodedCopies {
		runtime.GC()
	}
}

// requestRoom is the room that a large request takes.
type requestRoom struct {
	patience   time.Duration
	arriving   *requestBytes // nil: the request is small
	semaphores []*semaphore.Weighted
	bytes      []int
}

type roomKey struct{}

// acquireRoom waits up to patience for room, and reports whether there is any.
func (h *requestRoom) acquireRoom(ctx context.Context, sem *semaphore.Weighted, bytes int) bool {
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

// releaseRoom gives the room back. It may be called twice.
func (h *requestRoom) releaseRoom() {
	for i, sem := range h.semaphores {
		sem.Release(int64(h.bytes[i]))
	}
	h.semaphores = nil
	if h.arriving != nil {
		h.arriving.release()
	}
}

// releaseRequestRoom gives back the room of a call's request, once the request's content has been handed on.
func releaseRequestRoom(ctx context.Context) {
	if h, ok := ctx.Value(roomKey{}).(*requestRoom); ok {
		h.releaseRoom()
	}
}

// visitor is a connection at the gate. The calls come in turn.
type visitor struct {
	bufferedConn
	client *clientConn
	caller callerIdentity // makes the call
	head   frame.Head     // of the call that is being read
	unread int            // bytes of the call that takeUnread will take from the connection
	rest   io.Reader      // of the call's bytes, once taken
}

// bufferedConn is Kitex's type of a connection.
type bufferedConn interface {
	net.Conn
	Reader() *bufiox.DefaultReader
	Writer() *bufiox.DefaultWriter
}

// prereadConn is a connection whose next call has been read. The connection's own reader would keep a buffer as
// large as its largest call.
type prereadConn struct {
	bufferedConn
	r *bufiox.DefaultReader
}

func (w *prereadConn) Reader() *bufiox.DefaultReader { return w.r }

// bringsJob reports whether the call brings a job, or tasks for a job.
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

// limitReadTime sets the deadline for the call's missing bytes. Kitex sets a new deadline when it waits for the
// next call.
func (v *visitor) limitReadTime() {
	v.SetReadDeadline(time.Now().Add(requestGrace + time.Duration(v.unread)*time.Second/minRequestRate))
}

// takeUnread returns a reader of the call's unread bytes. The connection's reader must not be used before all unread
// bytes were taken.
func (v *visitor) takeUnread() io.Reader {
	if v.rest == nil {
		begun, _ := v.Reader().Next(min(v.Reader().Buffered(), v.unread))
		all := io.LimitReader(io.MultiReader(bytes.NewReader(begun), v.client), int64(v.unread))
		v.rest = &pacedReader{all, v.client, requestGrace}
		v.unread = 0
	}
	return v.rest
}

// refuseUnreadable refuses a call that is not a call of the API.
func (v *visitor) refuseUnreadable(err error) error {
	return v.refuseCall(false, newRefused(v1.RefusedReason_INVALID, "%s cannot be read: %v", v.head.Method, err))
}

// refuseCall answers a call without having read it. If keep is true, the call's bytes are thrown away before the
// answer. If not, the connection closes, and bytes that come meanwhile are thrown away.
func (v *visitor) refuseCall(keep bool, r *v1.Refused) error {
	answer := v.head.Refusal(r)
	rest := v.takeUnread()
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
	io.Copy(io.Discard, v.client)
	return io.EOF
}
