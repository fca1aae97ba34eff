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
	ended  bool // closed, or about to be: nothing more is read or written at home

	parser         parser
	decoder        probe.Decoder
	helloDone      bool // a good Hello came, and set what follows
	epoch          probe.Epoch
	frontend       probe.FrontendID
	frontendName   string         // of the frontend
	secret         string         // the secret
	secretsVersion uint64         // the version of ours that has taken it
	features       probe.Features // that both ends have
	lease          time.Duration
	heardAt        time.Time   // when something last came; until known, when the connection was opened
	batch          []probe.Msg // received, to be delivered

	// Guarded by the server's mutex.
	hadLink   bool          // it has, or had, a link
	link      worker.LinkID // 0: none
	outEpoch  probe.Epoch   // of what is put into the outbox
	outbox    []byte        // frames
	bodyStart int           // where the body of the last of them starts; 0: none is open
	writing   bool          // somebody writes, and will look into the outbox again

	// Owned by whoever writes.
	taken  []byte // taken from the outbox
	unsent []byte // of what was taken before, and not written yet
}

// fault is a reason to close a connection.
type fault struct {
	reason string // for the metric
	err    error
}

// reasonRejected is the reason of a fault of which the peer is told.
const reasonRejected = "rejected"

func newRejection(format string, args ...any) *fault {
	return &fault{reasonRejected, fmt.Errorf(format, args...)}
}

func newConn(s *Server, t transport, home any) *conn {
	c := &conn{server: s, wire: t, home: home, heardAt: time.Now()}
	c.timer = time.AfterFunc(s.cfg.HandshakeTimeout, func() { t.Later(c.checkSilence) })
	return c
}

// receiveData takes what has come from the peer, which may be anything, and answers.
func (c *conn) receiveData(data []byte) {
	if c.ended {
		return
	}
	if c.helloDone {
		c.heardAt = time.Now()
	}
	flt := c.checkSecret()
	if flt == nil {
		flt = c.parseFrames(data)
	}
	if len(c.batch) > 0 {
		c.server.deliverBatch(c)
		c.batch = emptyBatch(c.batch)
		c.decoder.Reuse()
	}
	if flt != nil {
		c.closeForFault(flt)
	}
}

// checkSecret is a fault if the secret that let the frontend in has been replaced.
func (c *conn) checkSecret() *fault {
	secrets := c.server.cfg.connSecrets()
	version := secrets.Version()
	if !c.helloDone || version == c.secretsVersion {
		return nil
	}
	if c.secretsVersion = version; secrets.Takes(c.secret) {
		return nil
	}
	return newRejection("the secret that this connection was made with is not this worker's any more")
}

// parseFrames collects messages in the batch. With a fault, those before it are good.
func (c *conn) parseFrames(data []byte) *fault {
	if !c.parser.greeted {
		rest, err := c.parser.takeGreeting(data)
		if c.parser.greeted {
			c.writeAtHome(greeting)
		}
		if err != nil {
			return &fault{"handshake", err}
		}
		data = rest
	}
	for len(data) > 0 {
		limit := c.server.cfg.MaxFrame
		if !c.helloDone {
			limit = probe.MaxHello
		}
		body, rest, err := c.parser.nextFrame(data, limit)
		if err != nil {
			return &fault{"oversized", err}
		}
		if body == nil {
			return nil
		}
		if flt := c.decodeFrame(body); flt != nil {
			return flt
		}
		data = rest
	}
	return nil
}

// decodeFrame decodes a frame. One that is not of the connection's epoch is dropped.
func (c *conn) decodeFrame(body []byte) *fault {
	before := len(c.batch)
	epoch, msgs, err := c.decoder.Decode(body, c.batch)
	if err != nil {
		if !c.helloDone {
			c.writeAtHome(probe.AppendOldRejected(nil, epoch))
		}
		return &fault{"garbage", err}
	}
	if n := c.decoder.Skipped; n > 0 {
		c.server.meters.skipped.Add(n)
		c.decoder.Skipped = 0
	}
	switch {
	case c.helloDone && epoch == c.epoch:
		c.batch = msgs
	case c.helloDone:
		clear(msgs[before:])
		c.server.meters.countFault("stale_frame")
	case len(msgs) > 0: // an empty frame is nothing
		c.epoch = epoch
		if flt := c.checkHello(msgs[0]); flt != nil {
			return flt
		}
		c.batch = msgs
	}
	return nil
}

// checkHello checks the first message of a connection.
func (c *conn) checkHello(m probe.Msg) *fault {
	h, ok := m.(probe.Hello)
	if !ok || h.Epoch != c.epoch {
		return newRejection("the first message must be a Hello, in a frame of its epoch")
	}
	cfg := &c.server.cfg
	version, features, err := probe.Spoken.Common(h.Speaks, "this worker", "the frontend")
	secrets := cfg.connSecrets()
	c.secretsVersion = secrets.Version() // before it is compared
	switch {
	case err != nil:
		return newRejection("%w", err)
	case !secrets.Takes(h.Secret):
		return newRejection("the secret is not this worker's: give all frontends and workers the same one")
	case h.Lease < minLease || h.Lease > cfg.MaxLease:
		return newRejection("a lease of %v: this worker takes %v to %v", h.Lease, minLease, cfg.MaxLease)
	case h.Frontend == 0:
		return newRejection("a frontend without an id")
	}
	c.secret = h.Secret
	c.helloDone, c.frontend, c.frontendName, c.lease, c.heardAt = true, h.Frontend, h.Name, h.Lease, time.Now()
	c.features = features
	c.timer.Reset(c.lease)
	c.wire.Tune(c.lease)
	c.server.log.Info("frontend connected", "worker", cfg.Name, "frontend", c.frontendName, "id", c.frontend.String(),
		"version", version, "features", features)
	return nil
}

// appendMsg puts a message into the outbox. The server's mutex is held.
func (c *conn) appendMsg(m probe.Msg) {
	if c.bodyStart > 0 && len(c.outbox)-c.bodyStart >= probe.FullFrame {
		c.endFrame()
	}
	if c.bodyStart == 0 {
		c.outbox, c.bodyStart = probe.BeginPush(c.outbox, c.outEpoch)
	}
	c.outbox = probe.AppendMsg(c.outbox, m)
}

func (c *conn) endFrame() {
	c.outbox = probe.EndFrame(c.outbox, c.bodyStart)
	c.bodyStart = 0
}

// takeOutbox gets what is in the outbox, for whoever writes and has written all from before. The server's mutex
// is held.
func (c *conn) takeOutbox() {
	if c.bodyStart > 0 {
		c.endFrame()
	}
	c.taken, c.outbox = c.outbox, c.taken
}

// maxReusedOutbox is the largest outbox, in bytes, that is kept for reuse.
const maxReusedOutbox = 256 << 10

// writeTaken writes what was taken, and then what has come into the outbox meanwhile. Away from home it writes once, and leaves
// to home what the kernel would not take or came meanwhile.
func (c *conn) writeTaken(atHome bool) {
	defer c.server.recoverPanic("writing to a connection", func() { c.wire.Close() })
	for more := true; more; {
		switch b := c.taken; {
		case len(b) == 0:
		case atHome:
			c.writeAtHome(b)
		default:
			c.unsent = append(c.unsent, b[c.wire.TryWrite(b):]...)
		}
		if c.taken = c.taken[:0]; cap(c.taken) > maxReusedOutbox {
			c.taken = nil
		}

		c.server.mu.Lock()
		more = len(c.outbox) > 0
		leave := !atHome && (more || len(c.unsent) > 0)
		if more && atHome {
			c.takeOutbox()
		}
		c.writing = more || leave
		c.server.mu.Unlock()
		if leave {
			c.wire.Later(c.writeUnsent)
			break
		}
	}
}

// writeUnsent goes on where write left off away from home.
func (c *conn) writeUnsent() {
	if len(c.unsent) > 0 {
		c.writeAtHome(c.unsent)
		c.unsent = nil
	}
	c.writeTaken(true)
}

// emptyBatch is msgs without elements, and without memory that is rarely needed.
func emptyBatch(msgs []probe.Msg) []probe.Msg {
	if cap(msgs) > 1024 {
		return nil
	}
	clear(msgs)
	return msgs[:0]
}

// writeAtHome writes b at home.
func (c *conn) writeAtHome(b []byte) {
	if c.ended {
		return
	}
	if _, err := c.wire.Write(b); err != nil {
		return // and closed
	}
	if n := c.wire.OutboundBuffered(); n > c.server.cfg.OutboundLimit {
		c.closeForFault(&fault{"slow_reader", fmt.Errorf("%d bytes wait for the peer to read", n)})
	}
}

// closeForFault closes the connection.
func (c *conn) closeForFault(flt *fault) {
	if c.ended {
		return
	}
	s := c.server
	s.meters.countFault(flt.reason)
	if flt.reason == reasonRejected {
		s.cfg.Audit.Note(audit.Entry{What: "connect", Name: c.frontendName, From: c.wire.RemoteAddr().String()}, flt.err)
		s.log.Warn("frontend rejected", "worker", s.cfg.Name, "frontend", c.frontendName, "err", flt.err)
		s.withCore(c.home, func(time.Time) {
			c.outEpoch = c.epoch
			s.queueMsg(c, probe.Rejected{Reason: flt.err.Error()})
		})
	} else {
		s.log.Debug("connection closed for a fault", "worker", s.cfg.Name, "frontend", c.frontendName, "reason", flt.reason, "err", flt.err)
	}
	c.ended = true
	c.wire.Close()
}

// checkSilence closes a connection whose peer was not heard of for too long.
func (c *conn) checkSilence() {
	defer c.server.recoverPanic("checking a lease", func() { c.wire.Close() })
	silent, limit := time.Since(c.heardAt), c.server.cfg.HandshakeTimeout
	if c.helloDone {
		limit = c.lease
	}
	switch {
	case c.ended:
	case silent < limit:
		c.timer.Reset(limit - silent)
	case !c.helloDone:
		c.closeForFault(&fault{"handshake_timeout", fmt.Errorf("no good Hello within %v", limit)})
	default:
		c.closeForFault(&fault{"lease", fmt.Errorf("nothing heard for %v", silent)})
	}
}

// handleClosed is called once, when the connection is closed.
func (c *conn) handleClosed() {
	c.ended = true
	c.timer.Stop()
	if c.helloDone {
		c.server.hangUp(c)
		c.server.log.Info("frontend disconnected", "worker", c.server.cfg.Name, "frontend", c.frontendName, "id", c.frontend.String())
	}
}
