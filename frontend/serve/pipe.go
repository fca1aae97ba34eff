package serve

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"

	"github.com/valyala/fastrpc"

	"github.com/phoebe-sched/phoebe/probe"
)

// pipe carries the connections of links in turn. A pipe holds a fastrpc client, because a fastrpc client cannot be
// closed. Between two links the pipe waits in dialNext. By then fastrpc has finished with all connections of the
// first link. So no dial and no connection of an earlier link is ever under way in a later one.
//
// fastrpc dials when it has a request to send. That request is always a flush. A flush asks for the connection's
// outbox only when fastrpc writes. So a flush takes all messages gathered by then, and no message outlives the
// connection. Once a connection is up, a goroutine with a message first writes to the connection itself. By way of
// fastrpc, another goroutine would write.
type pipe struct {
	client         *fastrpc.Client
	nextLink       chan *link  // the link to serve next; sent to while the pipe is new or idle
	link           *link       // the link served now; only dialNext uses it
	flushScheduled atomic.Bool // fastrpc holds a flush
	dialling       atomic.Bool
	conn           atomic.Pointer[linkConn] // the present or last connection of fastrpc; nil: none yet
}

// idlePipes are the pipes that wait for a link.
var idlePipes struct {
	sync.Mutex
	pipes []*pipe
}

// takePipe finds or makes a pipe. The pipe connects the link that the caller then sends to nextLink.
func takePipe() *pipe {
	idlePipes.Lock()
	defer idlePipes.Unlock()
	if n := len(idlePipes.pipes); n > 0 {
		p := idlePipes.pipes[n-1]
		idlePipes.pipes = idlePipes.pipes[:n-1]
		return p
	}
	p := &pipe{nextLink: make(chan *link, 1)}
	p.client = &fastrpc.Client{
		SniffHeader:        probe.SniffHeader,
		ProtocolVersion:    probe.ProtocolVersion,
		CompressType:       fastrpc.CompressNone,
		NewResponse:        func() fastrpc.ResponseReader { return &pushReader{conn: p.conn.Load()} },
		Dial:               func(string) (net.Conn, error) { return p.dialNext() },
		MaxPendingRequests: 64,
		ReadBufferSize:     8 << 10,
		// For messages sent while the connection is new or was full. The rest is written without the buffer.
		WriteBufferSize: 512,
	}
	p.scheduleFlush()
	return p
}

// dialNext returns when there is a connection of the pipe's link, or of the next link. It never fails, because
// fastrpc would sleep after an error.
func (p *pipe) dialNext() (net.Conn, error) {
	p.dialling.Store(true)
	for {
		if p.link == nil {
			p.link = <-p.nextLink
		}
		if c := p.link.connect(); c != nil {
			p.conn.Store(c)
			p.dialling.Store(false)
			p.scheduleFlush()
			return c, nil
		}
		p.link = nil
		p.conn.Store(nil)
		idlePipes.Lock()
		idlePipes.pipes = append(idlePipes.pipes, p)
		idlePipes.Unlock()
	}
}

// scheduleFlush asks fastrpc for a flush. If there is no connection, fastrpc dials.
func (p *pipe) scheduleFlush() {
	if p.flushScheduled.CompareAndSwap(false, true) {
		p.client.SendNowait(&flushRequest{pipe: p}, flushReleased) // the queue has room, because it holds no flush
	}
}

// flushRequest is a request for fastrpc: an order to write the outbox as of the time of writing.
type flushRequest struct {
	pipe    *pipe
	written bool
}

// WriteRequest implements fastrpc.RequestWriter. fastrpc has just written the first frame's request id.
func (f *flushRequest) WriteRequest(bw *bufio.Writer) error {
	f.written = true
	f.pipe.flushScheduled.Store(false) // messages that come from here on need another flush
	return f.pipe.conn.Load().writeOutbox(bw)
}

// flushReleased is called by fastrpc when it has finished with a flush. Another flush follows in two cases. fastrpc
// gave up the flush without writing, as after ten seconds without a connection. Or the flush went to a connection
// that was closed already.
func flushReleased(req fastrpc.RequestWriter) {
	f := req.(*flushRequest)
	p := f.pipe
	if !f.written {
		p.flushScheduled.Store(false)
	}
	if p.dialling.Load() {
		return // the dial ends with a flush
	}
	if c := p.conn.Load(); c == nil || c.wantsFlush() {
		p.scheduleFlush()
	}
}
