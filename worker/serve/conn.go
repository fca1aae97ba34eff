package serve

import (
	"fmt"
	"net"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/audit"
	"github.com/phoebe-sched/phoebe/probe/door"
	"github.com/phoebe-sched/phoebe/worker"
)

// transport carries the bytes of a connection. The goroutine that reads the connection is its home. Methods may be
// called only at home, except methods marked "For anyone".
type transport interface {
	// TryWrite gives the kernel as much of b as it takes at once, and returns the number of bytes. For anyone,
	// but only a single caller at a time may use TryWrite or Write.
	TryWrite(b []byte) int
	// Write takes all of b, at once or into a buffer, and does not keep b. After an error the connection is
	// closed.
	Write(b []byte) (int, error)
	// OutboundBuffered returns the number of bytes that Write has taken and the kernel has not.
	OutboundBuffered() int
	// Tune is called when the lease is known.
	Tune(lease time.Duration)
	// Later has f run at home soon. If the connection is closed meanwhile, f may never run. For anyone.
	Later(f func())
	RemoteAddr() net.Addr
	// Close closes the connection soon; then handleClosed is called. For anyone.
	Close() error
}

// conn is a connection, from the greeting on. Its methods run at home, except writeTaken.
type conn struct {
	server *Server
	wire   transport
	guest  *door.Guest
	home   any // equal for connections with the same home
	timer  *time.Timer
	ended  bool // closed or closing: home neither reads nor writes any more

	parser         parser
	decoder        probe.Decoder
	helloDone      bool // a good Hello came, and set the next fields
	epoch          probe.Epoch
	frontend       probe.FrontendID
	frontendName   string
	secret         string         // secret of the frontend's Hello
	secretsVersion uint64         // version of the worker's secrets at the last check
	features       probe.Features // features of both ends
	lease          time.Duration
	heardAt        time.Time   // when data last came; before helloDone, when the connection opened
	batch          []probe.Msg // received messages, to be delivered
	arrived        int         // received bytes, not yet reported to the core

	outflow  *time.Timer // set while bytes wait for the peer; nil: none wait
	written  int64       // bytes given to wire.Write
	passed   int64       // of them, those that the kernel had taken at passedAt
	passedAt time.Time   // when the kernel last took bytes

	// The server's mutex guards these.
	hadLink   bool          // has or had a link
	link      worker.LinkID // 0: none
	outEpoch  probe.Epoch   // epoch of messages in the outbox
	outbox    []byte        // frames
	bodyStart int           // start of the last frame's body; 0: no frame is open
	writing   bool          // a goroutine writes, and will look into the outbox again
	allTaken  int64         // bytes ever taken from the outbox
	reports   []int64       // ends of messages with Report, counted as allTaken, for those that have not left

	// The writer owns these.
	taken  []byte // taken from the outbox
	unsent []byte // taken before, and not written yet
}

// fault is a reason to close a connection.
type fault struct {
	reason string // for the metric
	err    error
}

// reasonRejected is the reason of faults that are told to the peer.
const reasonRejected = "rejected"

func newRejection(format string, args ...any) *fault {
	return &fault{reasonRejected, fmt.Errorf(format, args...)}
}

func newConn(s *Server, t transport, home any) *conn {
	c := &conn{server: s, wire: t, home: home, heardAt: time.Now()}
	c.timer = time.AfterFunc(s.cfg.HandshakeTimeout, func() { t.Later(c.checkSilence) })
	return c
}

// receiveData takes arbitrary bytes from the peer, and answers.
func (c *conn) receiveData(data []byte) {
	if c.ended {
		return
	}
	if c.helloDone {
		c.heardAt = time.Now()
		c.arrived += len(data)
	}
	flt := c.checkSecret()
	if flt == nil {
		flt = c.parseFrames(data)
	}
	if len(c.batch) > 0 || c.arrived >= reportArrived {
		c.server.deliverBatch(c)
		c.batch = emptyBatch(c.batch)
		c.decoder.Reuse()
	}
	if flt != nil {
		c.closeForFault(flt)
	}
}

// reportArrived is the least number of received bytes in a report to the core. The core expects 16 KiB in ReadyExpiry
// (500 ms by default) from a frontend whose answer is on its way.
const reportArrived = 4 << 10

// checkSecret returns a fault if the secret that admitted the frontend has been replaced.
func (c *conn) checkSecret() *fault {
	secrets := c.server.cfg.connSecrets()
	version := secrets.Version()
	if !c.helloDone || version == c.secretsVersion {
		return nil
	}
	if c.secretsVersion = version; secrets.Takes(c.secret) {
		return nil
	}
	return newRejection("the secret of this connection is not this worker's any more: " +
		"connect again with the new secret")
}

// parseFrames collects messages in the batch. Messages before a fault are good.
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

// decodeFrame decodes a frame. It drops a frame of another epoch.
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
	case len(msgs) > 0: // an empty frame means nothing
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
	c.secretsVersion = secrets.Version() // read before the comparison
	switch {
	case err != nil:
		return newRejection("%w", err)
	case !secrets.Takes(h.Secret):
		return newRejection("the secret is not this worker's: give all frontends and workers the same secret")
	case h.Lease < minLease || h.Lease > cfg.MaxLease:
		return newRejection("a lease of %v: this worker takes %v to %v", h.Lease, minLease, cfg.MaxLease)
	case h.Frontend == 0:
		return newRejection("a frontend without an id")
	}
	c.secret = h.Secret
	c.helloDone, c.frontend, c.frontendName, c.lease, c.heardAt = true, h.Frontend, h.Name, h.Lease, time.Now()
	c.features = features
	c.guest.MarkKnown()
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

// endFrame ends the open frame of the outbox.
func (c *conn) endFrame() {
	c.outbox = probe.EndFrame(c.outbox, c.bodyStart)
	c.bodyStart = 0
}

// takeOutbox takes the outbox for the writer, who has written everything before. The server's mutex is held.
func (c *conn) takeOutbox() {
	if c.bodyStart > 0 {
		c.endFrame()
	}
	c.taken, c.outbox = c.outbox, c.taken
	c.allTaken += int64(len(c.taken))
}

// reportWhenSent has the core told when the last message of the outbox has left. The server's mutex is held.
func (c *conn) reportWhenSent() {
	c.reports = append(c.reports, c.allTaken+int64(len(c.outbox)))
}

// maxReusedOutbox is the largest outbox, in bytes, that is kept for reuse.
const maxReusedOutbox = 256 << 10

// writeTaken writes the taken bytes, and then whatever came into the outbox meanwhile. Away from home it writes
// only once. Bytes that the kernel did not take, or that came meanwhile, are left to home.
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
		waiting := len(c.unsent)
		if atHome {
			waiting = c.wire.OutboundBuffered()
		}
		var leave bool
		var others []*conn
		if more, leave, others = c.endWrite(atHome, waiting); leave {
			c.wire.Later(c.writeUnsent)
			more = false
		}
		for _, other := range others {
			other.writeTaken(atHome && other.home == c.home)
		}
	}
}

// endWrite notes that all taken bytes were written, except the waiting bytes. If the writer is to go on, more or leave
// is set: leave if home has to go on. If results have left, the core may have sent messages to other connections. The
// caller has to write these connections.
func (c *conn) endWrite(atHome bool, waiting int) (more, leave bool, others []*conn) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reportSent(c, waiting) {
		others = s.endLocked(nil)
	}
	more = len(c.outbox) > 0
	leave = !atHome && (more || len(c.unsent) > 0)
	if more && atHome {
		c.takeOutbox()
	}
	c.writing = more || leave
	return more, leave, others
}

// writeUnsent goes on, at home, where writeTaken stopped away from home.
func (c *conn) writeUnsent() {
	if len(c.unsent) > 0 {
		c.writeAtHome(c.unsent)
		c.unsent = nil
	}
	c.writeTaken(true)
}

// emptyBatch returns msgs without elements, and without memory beyond the usual size.
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
		return // Write has closed the connection
	}
	c.written += int64(len(b))
	switch n := c.wire.OutboundBuffered(); {
	case n > c.server.cfg.OutboundLimit:
		c.closeForFault(&fault{"slow_reader", fmt.Errorf("%d bytes wait for the peer to read", n)})
	case n > 0 && c.outflow == nil:
		c.passed, c.passedAt = c.written-int64(n), time.Now()
		c.outflow = time.AfterFunc(outflowEvery, func() { c.wire.Later(c.checkOutflow) })
	}
}

const (
	// outflowEvery is the time between two looks at a connection with waiting bytes. After a look, held results may
	// follow. See sendWindow of package worker.
	outflowEvery = time.Millisecond
	// maxStall bounds the time for a peer to read nothing, together with the lease.
	maxStall = 10 * time.Second
)

// checkOutflow looks how many of the waiting bytes the kernel has taken. If the kernel took nothing for too long, the
// peer does not read, and checkOutflow closes the connection. A slow peer may take any time.
func (c *conn) checkOutflow() {
	defer c.server.recoverPanic("sending results", func() { c.wire.Close() })
	if c.ended {
		return
	}
	waiting, now := c.wire.OutboundBuffered(), time.Now()
	if passed := c.written - int64(waiting); passed > c.passed {
		c.passed, c.passedAt = passed, now
	}
	stalled, limit := now.Sub(c.passedAt), c.server.cfg.HandshakeTimeout
	if c.helloDone {
		limit = min(c.lease, maxStall)
	}
	switch {
	case waiting == 0:
		c.outflow = nil
	case stalled >= limit:
		c.closeForFault(&fault{"slow_reader", fmt.Errorf("the peer has read nothing for %v", stalled)})
		return
	default:
		c.outflow.Reset(outflowEvery)
	}
	c.server.withCore(c.home, func(time.Time) {
		if !c.writing { // a writer reports by itself
			c.server.reportSent(c, waiting)
		}
	})
}

// closeForFault counts and logs the fault, and closes the connection. If the fault is a rejection, the peer gets the
// reason first.
func (c *conn) closeForFault(flt *fault) {
	if c.ended {
		return
	}
	s := c.server
	s.meters.countFault(flt.reason)
	if flt.reason == reasonRejected {
		entry := audit.Entry{What: "connect", Name: c.frontendName, From: c.wire.RemoteAddr().String()}
		if c.helloDone {
			s.cfg.Audit.Note(entry, flt.err)
		} else {
			s.cfg.Audit.NoteStranger(entry, flt.err)
		}
		s.log.Warn("frontend rejected", "worker", s.cfg.Name, "frontend", c.frontendName, "err", flt.err)
		s.withCore(c.home, func(time.Time) {
			c.outEpoch = c.epoch
			s.queueMsg(c, probe.Rejected{Reason: flt.err.Error()})
		})
	} else {
		s.log.Debug("connection closed for a fault", "worker", s.cfg.Name,
			"frontend", c.frontendName, "reason", flt.reason, "err", flt.err)
	}
	c.ended = true
	c.wire.Close()
}

// checkSilence closes a connection whose peer was silent for too long.
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
	c.guest.Leave()
	c.timer.Stop()
	if c.outflow != nil {
		c.outflow.Stop()
	}
	if c.helloDone {
		c.server.reportLinkDown(c)
		c.server.log.Info("frontend disconnected", "worker", c.server.cfg.Name,
			"frontend", c.frontendName, "id", c.frontend.String())
	}
}
