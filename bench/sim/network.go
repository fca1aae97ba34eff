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
	delay   time.Duration // one way
	jitter  time.Duration // mean of an exponential addition; messages of a connection still arrive in order
	rate    float64       // payload bytes sent by a process in a second, in sequence; 0: no limit
	codec   bool          // messages are encoded and decoded on their way
	reorder time.Duration // faults: the largest additional delay of a message, out of order
	repeat  float64       // faults: share of messages delivered twice
	frames  bool          // faults: messages to a frontend may come in one frame with the next message
	lease   time.Duration // after a silence of lease, an end takes the connection for broken
	ping    time.Duration // the time between two pings of a frontend
	watch   bool          // workers look for silent frontends, too: needed only with faults
}

func (c *cluster) send(cn *conn, m probe.Msg) {
	if cn == nil || !cn.fOpen {
		return
	}
	c.release(cn)
	c.messages++
	if cn.cut || c.gather(cn, m) {
		return
	}
	leaves := c.sent(&cn.f.sentAll, m)
	at := c.travel(leaves, &cn.wLast)
	c.at(at, event{kind: toWorker, conn: cn, what: c.recode(m)})
	if c.net.repeat > 0 && c.rng.Float64() < c.net.repeat {
		c.at(c.travel(leaves, &cn.wLast), event{kind: toWorker, conn: cn, what: c.recode(m)})
	}
}

func (c *cluster) push(cn *conn, m probe.Msg) {
	if cn == nil || !cn.wOpen {
		return
	}
	c.messages++
	m = kept(m)
	if cn.cut || c.gather(cn, m) {
		return
	}
	leaves := c.sent(&cn.w.sentAll, m)
	at := c.travel(leaves, &cn.fLast)
	c.at(at, event{kind: toFrontend, conn: cn, what: c.recode(m)})
	if c.net.repeat > 0 && c.rng.Float64() < c.net.repeat {
		c.at(c.travel(leaves, &cn.fLast), event{kind: toFrontend, conn: cn, what: c.recode(m)})
	}
}

// copyLent returns a message with its own memory. A core lends some parts of a message only until the next step.
func kept(m probe.Msg) probe.Msg {
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
func (c *cluster) recode(m probe.Msg) probe.Msg {
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

func (c *cluster) linger(cn *conn, m probe.Msg) {
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
		c.at(f.lingerAt, event{kind: linger, f: f, life: f.life})
	}
}

// endLinger sends all waiting messages of a frontend.
func (c *cluster) endLinger(f *frontendNode) {
	f.lingerAt = 0
	for i, cn := range f.lingers {
		f.lingers[i] = nil
		c.release(cn)
	}
	f.lingers = f.lingers[:0]
}

// releaseWaiting sends the waiting messages of a connection. The connection stays in the list of lingers.
func (c *cluster) release(cn *conn) {
	if cn == nil || len(cn.waiting) == 0 {
		return
	}
	waiting := cn.waiting
	cn.waiting = nil
	for _, m := range waiting {
		c.send(cn, m)
	}
}

// scheduleDeparture returns when m has left a process. The process has sent all earlier messages at *last, and
// scheduleDeparture moves *last on to the departure of m.
func (c *cluster) sent(last *time.Duration, m probe.Msg) time.Duration {
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

// orderedArrival returns when a message arrives: not before the message ahead, which arrives at *last. The
// message leaves at the given time.
func (c *cluster) arrival(leaves time.Duration, last *time.Duration) time.Duration {
	at := leaves + c.net.delay
	if c.net.jitter > 0 {
		at += time.Duration(c.rng.ExpFloat64() * float64(c.net.jitter))
	}
	*last = max(at, *last)
	return *last
}

// reorderedArrival is orderedArrival with an additional delay at random, so later messages may overtake.
func (c *cluster) travel(leaves time.Duration, last *time.Duration) time.Duration {
	at := c.arrival(leaves, last)
	if c.net.reorder > 0 {
		at += time.Duration(c.rng.Int64N(int64(c.net.reorder)))
	}
	return at
}
