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
	client    *fastrpc.Client
	next      chan *link  // to be served; sent to while the pipe is new or spare
	link      *link       // that is served; dial's alone
	scheduled atomic.Bool // fastrpc holds a flush
	dialling  atomic.Bool
	conn      atomic.Pointer[linkConn] // that fastrpc serves, or served last; nil: none yet
}

// spare are the pipes that wait for a link.
var spare struct {
	sync.Mutex
	pipes []*pipe
}

// takePipe finds or makes a pipe, which connects the link that is then sent to its next.
func takePipe() *pipe {
	spare.Lock()
	defer spare.Unlock()
	if n := len(spare.pipes); n > 0 {
		p := spare.pipes[n-1]
		spare.pipes = spare.pipes[:n-1]
		return p
	}
	p := &pipe{next: make(chan *link, 1)}
	p.client = &fastrpc.Client{
		SniffHeader:        probe.SniffHeader,
		ProtocolVersion:    probe.ProtocolVersion,
		CompressType:       fastrpc.CompressNone,
		NewResponse:        func() fastrpc.ResponseReader { return &pushes{conn: p.conn.Load()} },
		Dial:               func(string) (net.Conn, error) { return p.dial() },
		MaxPendingRequests: 64,
		ReadBufferSize:     8 << 10,
		WriteBufferSize:    512, // what comes when the connection is new, or was full: the rest is written without it
	}
	p.schedule()
	return p
}

// dial returns when there is a connection of its link, or of the next one. It never fails: fastrpc would sleep then.
func (p *pipe) dial() (net.Conn, error) {
	p.dialling.Store(true)
	for {
		if p.link == nil {
			p.link = <-p.next
		}
		if c := p.link.connect(); c != nil {
			p.conn.Store(c)
			p.dialling.Store(false)
			p.schedule()
			return c, nil
		}
		p.link = nil
		p.conn.Store(nil)
		spare.Lock()
		spare.pipes = append(spare.pipes, p)
		spare.Unlock()
	}
}

// schedule asks fastrpc for a flush, upon which it dials if there is no connection.
func (p *pipe) schedule() {
	if p.scheduled.CompareAndSwap(false, true) {
		p.client.SendNowait(&flush{pipe: p}, released) // its queue has room: it holds no other
	}
}

// flush is what is handed to fastrpc: an order to write what is in the outbox by then.
type flush struct {
	pipe    *pipe
	written bool
}

// WriteRequest implements fastrpc.RequestWriter: fastrpc has just written the first frame's request id.
func (f *flush) WriteRequest(bw *bufio.Writer) error {
	f.written = true
	f.pipe.scheduled.Store(false) // what comes from here on needs another flush
	return f.pipe.conn.Load().write(bw)
}

// released is called by fastrpc when it is done with a flush. One that it gave up without writing, as it does after
// ten seconds without a connection, or that went to a connection which was closed already, is followed by another.
func released(req fastrpc.RequestWriter) {
	f := req.(*flush)
	p := f.pipe
	if !f.written {
		p.scheduled.Store(false)
	}
	if p.dialling.Load() {
		return // which ends with a flush
	}
	if c := p.conn.Load(); c == nil || c.wantsFlush() {
		p.schedule()
	}
}
