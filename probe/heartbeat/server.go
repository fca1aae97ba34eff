package heartbeat

import (
	"bufio"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fastrpc"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/door"
	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

const (
	silentFor    = 30 * time.Second // a connection is closed after this time without a whole heartbeat
	writeTimeout = 10 * time.Second
	concurrency  = 256     // heartbeats handled at once; fastrpc has a queue of the same length for each connection
	bufferSize   = 1 << 10 // bytes of each connection, either way: nearly all messages are shorter
)

// Config configures a Server.
type Config struct {
	Secrets  *identity.Secrets // accepted secrets of workers
	MaxConns int               // known workers and strangers; a further connection takes the place of a stranger
	// Answer answers a heartbeat with the right secret. Calls are concurrent. Answer must not block, and may keep
	// the parts that the row points to.
	Answer func(h *rows.Heartbeat) rows.Answer
}

// Server answers heartbeats.
type Server struct {
	cfg      Config
	listener net.Listener
	door     *door.Door
	stopped  atomic.Bool
	accepts  sync.WaitGroup
	counts   struct{ answered, unauthorized, versions, errors, limit atomic.Uint64 }
}

// Stats are counts since the start.
type Stats struct {
	Answered     uint64
	Unauthorized uint64 // heartbeats with a wrong secret
	Versions     uint64 // heartbeats of workers without a common version
	// Errors counts unreadable heartbeats, connections closed for garbage or because no good heartbeat came in time,
	// and failed accepts.
	Errors uint64
	Limit  uint64 // connections closed for lack of room or of descriptors
}

// Stats returns the present counts.
func (s *Server) Stats() Stats {
	c := &s.counts
	return Stats{Answered: c.answered.Load(), Unauthorized: c.unauthorized.Load(), Versions: c.versions.Load(),
		Errors: c.errors.Load(), Limit: c.limit.Load()}
}

// Serve answers heartbeats on l, in the background. The server owns l.
func Serve(l net.Listener, cfg Config) *Server {
	s := &Server{cfg: cfg, listener: l}
	s.door = door.New(door.Rule{MaxConns: cfg.MaxConns, Closed: s.countClosed})
	rpc := &fastrpc.Server{
		SniffHeader:     sniffHeader,
		ProtocolVersion: protocolVersion,
		CompressType:    fastrpc.CompressNone,
		NewHandlerCtx:   func() fastrpc.HandlerCtx { return &call{server: s} },
		Handler:         func(ctx fastrpc.HandlerCtx) fastrpc.HandlerCtx { ctx.(*call).answerBeat(); return ctx },
		Concurrency:     concurrency,
		ReadTimeout:     silentFor,
		WriteTimeout:    writeTimeout,
		ReadBufferSize:  bufferSize,
		WriteBufferSize: bufferSize,
		Logger:          errorCount{s},
	}
	s.accepts.Go(func() { _ = rpc.Serve(s.door.Listen(l)) })
	return s
}

// countClosed counts a connection that the door closed.
func (s *Server) countClosed(why door.Reason) {
	if why == door.NoRoom || why == door.NoFile {
		s.counts.limit.Add(1)
	} else {
		s.counts.errors.Add(1)
	}
}

// Close closes the listener and all connections. A call of Answer may still run when Close returns.
func (s *Server) Close() error {
	s.stopped.Store(true)
	err := s.listener.Close()
	s.accepts.Wait()
	s.door.CloseAll()
	return err
}

// errorCount counts the connections that ended with an error. fastrpc would log each error, and garbage must not
// fill the log.
type errorCount struct{ *Server }

func (e errorCount) Printf(string, ...any) {
	if !e.stopped.Load() {
		e.counts.errors.Add(1)
	}
}

var _ fasthttp.Logger = errorCount{}

// call is a heartbeat and its answer. fastrpc reuses calls.
type call struct {
	server *Server
	conn   *door.Conn
	buf    []byte
	beat   rows.Heartbeat
	err    error // why the heartbeat cannot be read
	isLast bool  // the connection ends after the answer
}

// Init implements fastrpc.HandlerCtx.
func (c *call) Init(conn net.Conn, _ fasthttp.Logger) { c.conn = conn.(*door.Conn) }

// ReadRequest implements fastrpc.HandlerCtx. After an error fastrpc closes the connection.
func (c *call) ReadRequest(br *bufio.Reader) (err error) {
	if c.buf, err = readBody(br, c.buf[:0], maxRequest); err == nil {
		c.err = rows.ReadHeartbeat(c.buf, &c.beat)
	}
	return err
}

// answerBeat checks dialect and secret, and encodes the answer or a refusal.
func (c *call) answerBeat() {
	s := c.server
	if c.err != nil {
		s.counts.errors.Add(1)
		c.refuseBeat(fmt.Sprintf(
			"this frontend speaks %v of the probe protocol, and cannot read this heartbeat (%v): upgrade the older end",
			probe.Spoken, c.err))
		return
	}
	if _, _, err := probe.Spoken.Common(c.beat.Speaks, "this frontend", "the worker"); err != nil {
		s.counts.versions.Add(1)
		c.refuseBeat(err.Error())
		return
	}
	if !s.cfg.Secrets.Takes(c.beat.Secret) {
		s.counts.unauthorized.Add(1)
		c.isLast = c.conn.Guest.NoteWrongSecret()
		c.refuseBeat("the secret is not this frontend's: give all frontends and workers the same one")
		return
	}
	c.conn.Guest.MarkKnown()
	s.counts.answered.Add(1)
	a := s.cfg.Answer(&c.beat)
	c.encodeAnswer(kindAnswered, func(b []byte) []byte { return rows.AppendAnswer(b, &a) })
}

// ConcurrencyLimitError implements fastrpc.HandlerCtx.
func (c *call) ConcurrencyLimitError(int) {
	c.refuseBeat("too many heartbeats at once: the next may succeed")
}

func (c *call) refuseBeat(why string) {
	c.encodeAnswer(kindRefused, func(b []byte) []byte { return append(b, why...) })
}

func (c *call) encodeAnswer(kind byte, body func([]byte) []byte) {
	c.beat = rows.Heartbeat{}
	c.buf = appendBody(c.buf[:0], func(b []byte) []byte { return body(append(b, kind)) })
}

// WriteResponse implements fastrpc.HandlerCtx.
func (c *call) WriteResponse(bw *bufio.Writer) error {
	_, err := bw.Write(c.buf)
	if c.isLast {
		c.isLast = false
		_ = bw.Flush() // an error: the connection has ended already
		c.conn.Close()
	}
	if cap(c.buf) > keptBuffer {
		c.buf = nil
	}
	if err != nil {
		return fmt.Errorf("heartbeat: answer: %w", err)
	}
	return nil
}
