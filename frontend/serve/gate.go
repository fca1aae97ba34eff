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
	server  *Server
	calls   *handler
	reading *semaphore.Weighted // bytes of large requests
	decoded *semaphore.Weighted // bytes that requests take which have been read, until the core has their jobs
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
	// small is the size of a request that needs no room: that of the buffer which each connection has anyway.
	small = 8 << 10
	// strange is the size of a request without the right secret after which its connection may go on.
	strange = 4 << 10
	// A request has to come within grace, and a second for each so many bytes.
	grace   = 10 * time.Second
	slowest = 256 << 10
	// light is how many bytes a request with a job may decode to without room. Others are small, and may wait for long.
	light = 4 << 10
	// crowd is how many bytes the requests that have been read take together, and copies is how often each has what it
	// decodes to until its job is the core's, or refused. One that takes all of it may take more, alone.
	crowd  = 64 << 20
	copies = 4
	// lingerClosing is how long what a client still sends is thrown away before its connection is closed: to close
	// one with unread bytes takes back the answer that is on its way.
	lingerClosing = time.Second
)

// room is how much memory a request of so many bytes may take once it is decoded: for what it carries, for as many
// tasks as a job may have, and for what else is said of them.
func (s *Server) room(size int) int { return 1<<20 + 512*s.cfg.Core.MaxTasksPerJob + size }

func newGate(s *Server) *gate {
	return &gate{
		server:   s,
		calls:    &handler{s},
		reading:  semaphore.NewWeighted(2 * int64(s.cfg.MaxRequest)),
		decoded:  semaphore.NewWeighted(crowd),
		patience: 2 * time.Second,
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
	v := &visitor{buffered: conn.(buffered), client: conn.RemoteAddr().(clientAddr).conn}
	return g.kitexHandler.OnActive(context.WithValue(ctx, visitorKey{}, v), conn)
}

// OnRead implements remote.ServerTransHandler: it reads a call and answers it. An error closes the connection.
func (g *gate) OnRead(ctx context.Context, conn net.Conn) error {
	v := ctx.Value(visitorKey{}).(*visitor)
	v.client.settle()
	head, err := frame.ReadHead(v)
	if errors.Is(err, frame.ErrMalformed) || err == nil && head.Type != thrift.CALL {
		g.server.metrics.connsGarbage.Inc()
		return io.EOF
	} else if err != nil {
		return io.EOF // it hung up, or is too slow
	}
	v.head, v.unread = head, head.Size
	var known bool
	if v.who, known = g.server.identify(head.Secret, v.client.peer()); !known {
		refusal := g.server.unknown()
		g.calls.note(ctx, nil, string(head.Method), "", "", refusal)
		return v.refuse(head.Size <= strange, refusal)
	}
	v.client.known()
	if head.Size > small {
		return g.large(ctx, v)
	}
	b, err := v.Peek(head.Size)
	if err != nil {
		return io.EOF
	}
	weight, err := head.Weigh(b, g.server.room(head.Size))
	switch {
	case err != nil:
		return v.unreadable(err)
	case weight <= light || !v.job():
		return g.pass(ctx, v, v.buffered, b)
	}
	h := &hold{patience: g.patience}
	defer h.end()
	if !h.take(ctx, g.decoded, min(copies*weight, crowd)) {
		return v.refuse(true, g.full())
	}
	return g.pass(context.WithValue(ctx, holdKey{}, h), v, v.buffered, b)
}

// pass lets a call pass, which is the frame b and the next to be read from conn: Run to its handler, others to Kitex.
func (g *gate) pass(ctx context.Context, v *visitor, conn buffered, b []byte) error {
	if string(v.head.Method) != "Run" {
		return g.kitexHandler.OnRead(ctx, conn)
	}
	args := v1.NewPhoebeRunArgs()
	if err := v.head.Decode(b, args); err != nil {
		return v.unreadable(err)
	}
	if args.Request == nil {
		return v.unreadable(errors.New("there is no request"))
	}
	seq := v.head.Seq
	conn.Reader().Skip(len(b))
	conn.Reader().Release(nil)
	g.calls.run(ctx, v.client, seq, args.Request)
	return nil
}

// full refuses a request for lack of room.
func (g *gate) full() *v1.Refused {
	r := refuse(v1.RefusedReason_OVERLOADED, "the memory for requests is taken by others; come back later")
	r.RetryAfterUs = g.patience.Microseconds()
	return r
}

// large lets a large request pass once there is room for it.
func (g *gate) large(ctx context.Context, v *visitor) error {
	size, most := v.head.Size, g.server.cfg.MaxRequest
	if size > most {
		return v.refuse(false, refuse(v1.RefusedReason_TOO_LARGE, "the request has %d bytes, the limit is %d: split the job", size, most))
	}
	if !v.job() {
		return v.refuse(false, refuse(v1.RefusedReason_TOO_LARGE, "the request has %d bytes: only Run, Submit and Extend may have more than %d", size, small))
	}
	h := &hold{patience: g.patience}
	defer h.end()
	if !h.take(ctx, g.reading, size) {
		return v.refuse(true, g.full())
	}
	collect(size)
	v.hurry()
	r := bufiox.NewDefaultReader(v.rest())
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
	weight, err := v.head.Weigh(b, g.server.room(size))
	switch {
	case errors.Is(err, frame.ErrHeavy):
		return v.refuse(true, refuse(v1.RefusedReason_TOO_LARGE, "the job would take more than %d bytes of memory: split it", g.server.room(size)))
	case err != nil:
		return v.unreadable(err)
	case !h.take(ctx, g.decoded, min(copies*weight, crowd)):
		return v.refuse(true, g.full())
	}
	collect(weight)
	return g.pass(context.WithValue(ctx, holdKey{}, h), v, &whole{v.buffered, r}, b)
}

// collect is called before a request takes so many bytes. Where that is much, what such ones have left behind would count,
// too, and a collection is little beside the rest of the work.
func collect(bytes int) {
	if bytes > crowd/copies {
		runtime.GC()
	}
}

// hold is the room that a large request takes.
type hold struct {
	patience time.Duration
	of       []*semaphore.Weighted
	bytes    []int
}

type holdKey struct{}

// take waits for a time, and reports whether there is room.
func (h *hold) take(ctx context.Context, of *semaphore.Weighted, bytes int) bool {
	if !of.TryAcquire(int64(bytes)) {
		ctx, cancel := context.WithTimeout(ctx, h.patience)
		defer cancel()
		if of.Acquire(ctx, int64(bytes)) != nil {
			return false
		}
	}
	h.of, h.bytes = append(h.of, of), append(h.bytes, bytes)
	return true
}

func (h *hold) end() {
	for i, of := range h.of {
		of.Release(int64(h.bytes[i]))
	}
	h.of = nil
}

// taken ends what the request of a call holds: what it asks for has been handed on.
func taken(ctx context.Context) {
	if h, ok := ctx.Value(holdKey{}).(*hold); ok {
		h.end()
	}
}

// visitor is a connection at the gate. Its calls come one after the other.
type visitor struct {
	buffered
	client *clientConn
	who    who        // makes that call
	head   frame.Head // of the call that is being read
	unread int        // bytes of it that are to be taken from the connection
}

// buffered is a connection as Kitex has it.
type buffered interface {
	net.Conn
	Reader() *bufiox.DefaultReader
	Writer() *bufiox.DefaultWriter
}

// whole is a connection whose next call has been read. The connection's own reader would keep a buffer as large as
// its largest call.
type whole struct {
	buffered
	r *bufiox.DefaultReader
}

func (w *whole) Reader() *bufiox.DefaultReader { return w.r }

// job reports whether the call brings a job, or what is added to one.
func (v *visitor) job() bool {
	m := string(v.head.Method)
	return m == "Run" || m == "Submit" || m == "Extend"
}

// Peek implements frame.Peeker.
func (v *visitor) Peek(n int) ([]byte, error) {
	if v.Reader().Buffered() < n {
		v.hurry()
	}
	return v.Reader().Peek(n)
}

// hurry sets the time for what has not come yet. Kitex sets another when it waits for the next call.
func (v *visitor) hurry() {
	v.SetReadDeadline(time.Now().Add(grace + time.Duration(v.unread)*time.Second/slowest))
}

// rest is what is unread of the call. The connection's reader must not be used until all of it was taken.
func (v *visitor) rest() io.Reader {
	begun, _ := v.Reader().Next(min(v.Reader().Buffered(), v.unread))
	all := io.LimitReader(io.MultiReader(bytes.NewReader(begun), v.client), int64(v.unread))
	v.unread = 0
	return all
}

// unreadable refuses a call that is not one of the API.
func (v *visitor) unreadable(err error) error {
	return v.refuse(false, refuse(v1.RefusedReason_INVALID, "%s cannot be read: %v", v.head.Method, err))
}

// refuse answers the call without having read it. If the connection is to be kept, it is thrown away first; if not,
// the connection closes, and what comes in the meantime is thrown away.
func (v *visitor) refuse(keep bool, r *v1.Refused) error {
	answer := v.head.Refusal(r)
	v.hurry()
	rest := v.rest()
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
