package serve

import (
	"fmt"
	"net"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/audit"
	"github.com/phoebe-sched/phoebe/worker"
)

// transport is what carries a connection. Its home is the goroutine that the connection is read on; what is
// not said to be for anyone is to be called there.
type transport interface {
	// TryWrite gives the kernel as much of b as it takes at once, and returns how much that is. It is for
	// anyone, but one at a time, Write included.
	TryWrite(b []byte) int
	// Write takes all of b, at once or into a buffer, and keeps nothing of it. On an error the connection
	// has been closed.
	Write(b []byte) (int, error)
	// OutboundBuffered is how many bytes Write has taken and the kernel has not.
	OutboundBuffered() int
	// Tune is called when the lease is known.
	Tune(lease time.Duration)
	// Later has f run at home, soon; perhaps never, if the connection is closed meanwhile. For anyone.
	Later(f func())
	RemoteAddr() net.Addr
	// Close closes it, soon; down is called then. For anyone.
	Close() error
}

// conn is a connection, from the greeting on. Its methods run at its home, but for write.
type conn struct {
	server *Server
	wire   transport
	home   any // equal for connections of the same home
	timer  *time.Timer
	over   bool // closed, or about to be: nothing more is read or written at home

	parser   parser
	decoder  probe.Decoder
	known    bool // a good Hello came, and set what follows
	epoch    probe.Epoch
	frontend probe.FrontendID
	name     string         // of the frontend
	told     string         // the secret
	secrets  uint64         // the version of ours that has taken it
	features probe.Features // that both ends have
	lease    time.Duration
	heard    time.Time   // when something last came; until known, when the connection was opened
	batch    []probe.Msg // received, to be delivered

	// Guarded by the server's mutex.
	joined  bool          // it has, or had, a link
	link    worker.LinkID // 0: none
	speaks  probe.Epoch   // of what is put into the outbox
	outbox  []byte        // frames
	body    int           // where the body of the last of them starts; 0: none is open
	writing bool          // somebody writes, and will look into the outbox again

	// Owned by whoever writes.
	sending []byte // taken from the outbox
	rest    []byte // of what was taken before, and not written yet
}

// fault is a reason to close a connection.
type fault struct {
	reason string // for the metric
	err    error
}

// rejected is the reason of a fault of which the peer is told.
const rejected = "rejected"

func reject(format string, args ...any) *fault { return &fault{rejected, fmt.Errorf(format, args...)} }

func newConn(s *Server, t transport, home any) *conn {
	c := &conn{server: s, wire: t, home: home, heard: time.Now()}
	c.timer = time.AfterFunc(s.cfg.HandshakeTimeout, func() { t.Later(c.checkSilence) })
	return c
}

// receive takes what has come from the peer, which may be anything, and answers.
func (c *conn) receive(data []byte) {
	if c.over {
		return
	}
	if c.known {
		c.heard = time.Now()
	}
	flt := c.outdated()
	if flt == nil {
		flt = c.parse(data)
	}
	if len(c.batch) > 0 {
		c.server.deliver(c)
		c.batch = emptied(c.batch)
		c.decoder.Reuse()
	}
	if flt != nil {
		c.fail(flt)
	}
}

// outdated is a fault if the secret that let the frontend in has been replaced.
func (c *conn) outdated() *fault {
	secrets := c.server.cfg.asked()
	version := secrets.Version()
	if !c.known || version == c.secrets {
		return nil
	}
	if c.secrets = version; secrets.Takes(c.told) {
		return nil
	}
	return reject("the secret that this connection was made with is not this worker's any more")
}

// parse collects messages in the batch. With a fault, those before it are good.
func (c *conn) parse(data []byte) *fault {
	if !c.parser.greeted {
		rest, err := c.parser.greet(data)
		if c.parser.greeted {
			c.put(greeting)
		}
		if err != nil {
			return &fault{"handshake", err}
		}
		data = rest
	}
	for len(data) > 0 {
		limit := c.server.cfg.MaxFrame
		if !c.known {
			limit = probe.MaxHello
		}
		body, rest, err := c.parser.next(data, limit)
		if err != nil {
			return &fault{"oversized", err}
		}
		if body == nil {
			return nil
		}
		if flt := c.open(body); flt != nil {
			return flt
		}
		data = rest
	}
	return nil
}

// open decodes a frame. One that is not of the connection's epoch is dropped.
func (c *conn) open(body []byte) *fault {
	before := len(c.batch)
	epoch, msgs, err := c.decoder.Decode(body, c.batch)
	if err != nil {
		if !c.known {
			c.put(probe.AppendOldRejected(nil, epoch))
		}
		return &fault{"garbage", err}
	}
	if n := c.decoder.Skipped; n > 0 {
		c.server.meters.skipped.Add(n)
		c.decoder.Skipped = 0
	}
	switch {
	case c.known && epoch == c.epoch:
		c.batch = msgs
	case c.known:
		clear(msgs[before:])
		c.server.meters.protocolError("stale_frame")
	case len(msgs) > 0: // an empty frame is nothing
		c.epoch = epoch
		if flt := c.hello(msgs[0]); flt != nil {
			return flt
		}
		c.batch = msgs
	}
	return nil
}

// hello checks the first message of a connection.
func (c *conn) hello(m probe.Msg) *fault {
	h, ok := m.(probe.Hello)
	if !ok || h.Epoch != c.epoch {
		return reject("the first message must be a Hello, in a frame of its epoch")
	}
	cfg := &c.server.cfg
	version, features, err := probe.Spoken.Common(h.Speaks, "this worker", "the frontend")
	secrets := cfg.asked()
	c.secrets = secrets.Version() // before it is compared
	switch {
	case err != nil:
		return reject("%w", err)
	case !secrets.Takes(h.Secret):
		return reject("the secret is not this worker's: give all frontends and workers the same one")
	case h.Lease < minLease || h.Lease > cfg.MaxLease:
		return reject("a lease of %v: this worker takes %v to %v", h.Lease, minLease, cfg.MaxLease)
	case h.Frontend == 0:
		return reject("a frontend without an id")
	}
	c.told = h.Secret
	c.known, c.frontend, c.name, c.lease, c.heard = true, h.Frontend, h.Name, h.Lease, time.Now()
	c.features = features
	c.timer.Reset(c.lease)
	c.wire.Tune(c.lease)
	c.server.log.Info("frontend connected", "worker", cfg.Name, "frontend", c.name, "id", c.frontend.String(),
		"version", version, "features", features)
	return nil
}

// append puts a message into the outbox. The server's mutex is held.
func (c *conn) append(m probe.Msg) {
	if c.body > 0 && len(c.outbox)-c.body >= probe.FullFrame {
		c.endFrame()
	}
	if c.body == 0 {
		c.outbox, c.body = probe.BeginPush(c.outbox, c.speaks)
	}
	c.outbox = probe.AppendMsg(c.outbox, m)
}

func (c *conn) endFrame() {
	c.outbox = probe.EndFrame(c.outbox, c.body)
	c.body = 0
}

// take gets what is in the outbox, for whoever writes and has written all from before. The server's mutex
// is held.
func (c *conn) take() {
	if c.body > 0 {
		c.endFrame()
	}
	c.sending, c.outbox = c.outbox, c.sending
}

// maxSpare is the largest outbox, in bytes, that is kept for reuse.
const maxSpare = 256 << 10

// write writes what was taken, and then what has come into the outbox meanwhile. Away from home it writes once, and leaves
// to home what the kernel would not take or came meanwhile.
func (c *conn) write(atHome bool) {
	defer c.server.guard("writing to a connection", func() { c.wire.Close() })
	for more := true; more; {
		switch b := c.sending; {
		case len(b) == 0:
		case atHome:
			c.put(b)
		default:
			c.rest = append(c.rest, b[c.wire.TryWrite(b):]...)
		}
		if c.sending = c.sending[:0]; cap(c.sending) > maxSpare {
			c.sending = nil
		}

		c.server.mu.Lock()
		more = len(c.outbox) > 0
		leave := !atHome && (more || len(c.rest) > 0)
		if more && atHome {
			c.take()
		}
		c.writing = more || leave
		c.server.mu.Unlock()
		if leave {
			c.wire.Later(c.writeRest)
			break
		}
	}
}

// writeRest goes on where write left off away from home.
func (c *conn) writeRest() {
	if len(c.rest) > 0 {
		c.put(c.rest)
		c.rest = nil
	}
	c.write(true)
}

// emptied is msgs without elements, and without memory that is rarely needed.
func emptied(msgs []probe.Msg) []probe.Msg {
	if cap(msgs) > 1024 {
		return nil
	}
	clear(msgs)
	return msgs[:0]
}

// put writes b at home.
func (c *conn) put(b []byte) {
	if c.over {
		return
	}
	if _, err := c.wire.Write(b); err != nil {
		return // and closed
	}
	if n := c.wire.OutboundBuffered(); n > c.server.cfg.OutboundLimit {
		c.fail(&fault{"slow_reader", fmt.Errorf("%d bytes wait for the peer to read", n)})
	}
}

// fail closes the connection.
func (c *conn) fail(flt *fault) {
	if c.over {
		return
	}
	s := c.server
	s.meters.protocolError(flt.reason)
	if flt.reason == rejected {
		s.cfg.Audit.Note(audit.Entry{What: "connect", Name: c.name, From: c.wire.RemoteAddr().String()}, flt.err)
		s.log.Warn("frontend rejected", "worker", s.cfg.Name, "frontend", c.name, "err", flt.err)
		s.withCore(c.home, func(time.Time) {
			c.speaks = c.epoch
			s.say(c, probe.Rejected{Reason: flt.err.Error()})
		})
	} else {
		s.log.Debug("connection closed for a fault", "worker", s.cfg.Name, "frontend", c.name, "reason", flt.reason, "err", flt.err)
	}
	c.over = true
	c.wire.Close()
}

// checkSilence closes a connection whose peer was not heard of for too long.
func (c *conn) checkSilence() {
	defer c.server.guard("checking a lease", func() { c.wire.Close() })
	silent, limit := time.Since(c.heard), c.server.cfg.HandshakeTimeout
	if c.known {
		limit = c.lease
	}
	switch {
	case c.over:
	case silent < limit:
		c.timer.Reset(limit - silent)
	case !c.known:
		c.fail(&fault{"handshake_timeout", fmt.Errorf("no good Hello within %v", limit)})
	default:
		c.fail(&fault{"lease", fmt.Errorf("nothing heard for %v", silent)})
	}
}

// down is called once, when the connection is closed.
func (c *conn) down() {
	c.over = true
	c.timer.Stop()
	if c.known {
		c.server.hangUp(c)
		c.server.log.Info("frontend disconnected", "worker", c.server.cfg.Name, "frontend", c.name, "id", c.frontend.String())
	}
}
