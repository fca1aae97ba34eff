package sim

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
)

// network says how messages travel.
type network struct {
	delay        time.Duration // one way
	jitter       time.Duration // mean of an exponential addition; messages of a connection still arrive in order
	rate         float64       // payload bytes sent by a process in a second, in sequence; 0: no limit
	codec        bool          // messages are encoded and decoded on their way
	reorder      time.Duration // faults: the largest additional delay of a message, out of order
	repeatShare  float64       // faults: share of messages delivered twice
	frames       bool          // faults: messages to a frontend may come in one frame with the next message
	lease        time.Duration // after a silence of lease, an end takes the connection for broken
	ping         time.Duration // the time between two pings of a frontend
	workersWatch bool          // workers look for silent frontends, too: needed only with faults
}

// sendToWorker sends m over cn, together with the messages that wait. A nil cn, or a closed end, drops m.
func (c *cluster) sendToWorker(cn *conn, m probe.Msg) {
	if cn == nil || !cn.fOpen {
		return
	}
	c.releaseWaiting(cn)
	c.messages++
	if cn.cut || c.gatherMsg(cn, m) {
		return
	}
	leaves := c.nextDeparture(&cn.f.sentAll, m)
	at := c.drawReorderedArrival(leaves, &cn.wLast)
	c.schedule(at, event{kind: toWorker, conn: cn, content: c.recodeMsg(m)})
	if c.net.repeatShare > 0 && c.rng.Float64() < c.net.repeatShare {
		c.schedule(c.drawReorderedArrival(leaves, &cn.wLast), event{kind: toWorker, conn: cn, content: c.recodeMsg(m)})
	}
}

// sendToFrontend sends m over cn. A nil cn, or a closed end, drops m.
func (c *cluster) sendToFrontend(cn *conn, m probe.Msg) {
	if cn == nil || !cn.wOpen {
		return
	}
	c.messages++
	m = copyLent(m)
	if cn.cut || c.gatherMsg(cn, m) {
		return
	}
	leaves := c.nextDeparture(&cn.w.sentAll, m)
	at := c.drawReorderedArrival(leaves, &cn.fLast)
	if _, replaces := m.(probe.Cache); replaces {
		// The last Cache tells the state of the cache, so this message needs the order of a link.
		cn.lastCache = max(at, cn.lastCache)
		c.schedule(cn.lastCache, event{kind: toFrontend, conn: cn, content: c.recodeMsg(m)})
		return
	}
	c.schedule(at, event{kind: toFrontend, conn: cn, content: c.recodeMsg(m)})
	if c.net.repeatShare > 0 && c.rng.Float64() < c.net.repeatShare {
		c.schedule(c.drawReorderedArrival(leaves, &cn.fLast),
			event{kind: toFrontend, conn: cn, content: c.recodeMsg(m)})
	}
}

// copyLent returns a message with its own memory. A core lends some parts of a message only until the next step.
func copyLent(m probe.Msg) probe.Msg {
	switch m := m.(type) {
	case *probe.Finished:
		f := *m
		return &f
	case probe.Reserve:
		m.Launches = slices.Clone(m.Launches)
		return m
	case probe.Bind:
		m.Bundle = slices.Clone(m.Bundle)
		return m
	}
	return m
}

// recodeMsg returns m as the other end decodes m.
func (c *cluster) recodeMsg(m probe.Msg) probe.Msg {
	if !c.net.codec {
		return m
	}
	c.frame = probe.AppendFrame(c.frame[:0], 1, m)
	_, msgs, err := c.decoder.Decode(bytes.Clone(c.frame[probe.FrameHeader:]), c.decoded[:0])
	if c.decoded = msgs; err != nil || len(msgs) != 1 {
		panic(fmt.Sprintf("sim: %#v came back as %d messages: %v", m, len(msgs), err))
	}
	return msgs[0]
}

// sendWithNext keeps m for the next message on cn, at most for frontend.LingerFor.
func (c *cluster) sendWithNext(cn *conn, m probe.Msg) {
	if cn == nil || !cn.fOpen {
		return
	}
	f := cn.f
	if len(cn.waiting) == 0 {
		f.lingers = append(f.lingers, cn)
	}
	cn.waiting = append(cn.waiting, m)
	if f.lingerAt == 0 {
		f.lingerAt = c.now + frontend.LingerFor
		c.schedule(f.lingerAt, event{kind: lingerEnds, f: f, life: f.life})
	}
}

// endLinger sends all waiting messages of a frontend.
func (c *cluster) endLinger(f *frontendNode) {
	f.lingerAt = 0
	for i, cn := range f.lingers {
		f.lingers[i] = nil
		c.releaseWaiting(cn)
	}
	f.lingers = f.lingers[:0]
}

// releaseWaiting sends the waiting messages of a connection. The connection stays in the list of lingers.
func (c *cluster) releaseWaiting(cn *conn) {
	if cn == nil || len(cn.waiting) == 0 {
		return
	}
	waiting := cn.waiting
	cn.waiting = nil
	for _, m := range waiting {
		c.sendToWorker(cn, m)
	}
}

// nextDeparture returns when m has left a process. The process has sent all earlier messages at *last, and
// nextDeparture moves *last on to the departure of m.
func (c *cluster) nextDeparture(last *time.Duration, m probe.Msg) time.Duration {
	if c.net.rate == 0 {
		return c.now
	}
	*last = max(c.now, *last) + time.Duration(float64(payloadBytes(m))/c.net.rate*float64(time.Second))
	return *last
}

// payloadBytes returns the bytes of payloads and results in m.
func payloadBytes(m probe.Msg) int {
	n := 0
	add := func(launches []probe.Launch) {
		for i := range launches {
			n += len(launches[i].Payload)
		}
	}
	switch m := m.(type) {
	case probe.Reserve:
		add(m.Launches)
	case probe.Bind:
		n = len(m.Launch.Payload)
		add(m.Bundle)
	case probe.Enqueue:
		n = len(m.Launch.Payload)
	case *probe.Finished:
		n = len(m.Result)
	}
	return n
}

// drawOrderedArrival draws when a message arrives that leaves at the given time: not before the message ahead, which
// arrives at *last. drawOrderedArrival moves *last on to the arrival.
func (c *cluster) drawOrderedArrival(leaves time.Duration, last *time.Duration) time.Duration {
	at := leaves + c.net.delay
	if c.net.jitter > 0 {
		at += time.Duration(c.rng.ExpFloat64() * float64(c.net.jitter))
	}
	*last = max(at, *last)
	return *last
}

// drawReorderedArrival is drawOrderedArrival with an additional delay at random, so later messages may overtake.
func (c *cluster) drawReorderedArrival(leaves time.Duration, last *time.Duration) time.Duration {
	at := c.drawOrderedArrival(leaves, last)
	if c.net.reorder > 0 {
		at += time.Duration(c.rng.Int64N(int64(c.net.reorder)))
	}
	return at
}
