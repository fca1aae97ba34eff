package serve

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"

	"github.com/valyala/fastrpc"

	"github.com/phoebe-sched/phoebe/probe"
)

// pipe carries the connections of one link after the other: it is a fastrpc client, which cannot be closed. Between
// two links it waits in dial, where fastrpc is done with all that the first had: no dial and no connection of an
// earlier link is ever under way in a later one.
//
// fastrpc dials when something is to be sent. That is always a flush, which asks for the outbox of the connection only
// when fastrpc writes: so one takes all that has gathered, and nothing survives its connection. Once a connection is up,
// who has something to say writes it there himself, as long as the connection takes it: fastrpc has another goroutine write.
type pipe struct {
	client         *fastrpc.Client
	nextLink       chan *link  // to be served; sent to while the pipe is new or spare
	link           *link       // that is served; dial's alone
	flushScheduled atomic.Bool // fastrpc holds a flush
	dialling       atomic.Bool
	conn           atomic.Pointer[linkConn] // that fastrpc serves, or served last; nil: none yet
}

// idlePipes are the pipes that wait for a link.
var idlePipes struct {
	sync.Mutex
	pipes []*pipe
}

// takePipe finds or makes a pipe, which connects the link that is then sent to its next.
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
		WriteBufferSize:    512, // what comes when the connection is new, or was full: the rest is written without it
	}
	p.scheduleFlush()
	return p
}

// dialNext returns when there is a connection of its link, or of the next one. It never fails: fastrpc would sleep then.
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

// scheduleFlush asks fastrpc for a flush, upon which it dials if there is no connection.
func (p *pipe) scheduleFlush() {
	if p.flushScheduled.CompareAndSwap(false, true) {
		p.client.SendNowait(&flushRequest{pipe: p}, flushReleased) // its queue has room: it holds no other
	}
}

// flushRequest is what is handed to fastrpc: an order to write what is in the outbox by then.
type flushRequest struct {
	pipe    *pipe
	written bool
}

// WriteRequest implements fastrpc.RequestWriter: fastrpc has just written the first frame's request id.
func (f *flushRequest) WriteRequest(bw *bufio.Writer) error {
	f.written = true
	f.pipe.flushScheduled.Store(false) // what comes from here on needs another flush
	return f.pipe.conn.Load().writeOutbox(bw)
}

// flushReleased is called by fastrpc when it is done with a flush. One that it gave up without writing, as it does after
// ten seconds without a connection, or that went to a connection which was closed already, is followed by another.
func flushReleased(req fastrpc.RequestWriter) {
	f := req.(*flushRequest)
	p := f.pipe
	if !f.written {
		p.flushScheduled.Store(false)
	}
	if p.dialling.Load() {
		return // which ends with a flush
	}
	if c := p.conn.Load(); c == nil || c.wantsFlush() {
		p.scheduleFlush()
	}
}
