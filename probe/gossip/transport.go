package gossip

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/memberlist"
)

// Memberlist reads up to 20 MiB of a stream before it looks whether the sender knows the secret, as often as somebody
// connects. What it holds of all streams that come in is bounded here.
const (
	// maxInbound is how many streams there may be: each frontend opens one now and then, for a moment.
	maxInbound = 256
	// maxInboundBytes is how much may have come in by all of them together: what a full view of 20,000 workers takes, some
	// times over.
	maxInboundBytes = 64 << 20
	// maxRead is how much of a stream comes in at once, and thus how far each may go beyond that.
	maxRead = 64 << 10
)

// transport is memberlist's own, with a bound on what comes in by streams.
type transport struct {
	*memberlist.NetTransport
	streams      chan net.Conn
	closed       chan struct{}
	closeOnce    sync.Once
	inboundBytes atomic.Int64 // that came in by the streams that are open
	openCount    atomic.Int64
}

// openPorts opens the ports of m. If it names no port, a free one is taken, and written into m.
func openPorts(m *memberlist.Config) (*transport, error) {
	// A port that is free for TCP may be taken for UDP.
	tries := 1
	if m.BindPort == 0 {
		tries = 10
	}
	var err error
	for range tries {
		var t *memberlist.NetTransport
		t, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{m.BindAddr}, BindPort: m.BindPort, Logger: m.Logger,
		})
		if err == nil {
			if m.BindPort == 0 {
				m.BindPort = t.GetAutoBindPort()
				m.AdvertisePort = m.BindPort
			}
			b := &transport{NetTransport: t, streams: make(chan net.Conn), closed: make(chan struct{})}
			go b.admitStreams()
			return b, nil
		}
		if !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	return nil, fmt.Errorf("listen on %s port %d: %w", m.BindAddr, m.BindPort, err)
}

// StreamCh has the streams that were let in.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// Shutdown closes the ports.
func (t *transport) Shutdown() error {
	t.closeOnce.Do(func() { close(t.closed) })
	return t.NetTransport.Shutdown()
}

// admitStreams lets streams in, while there are not too many.
func (t *transport) admitStreams() {
	for {
		select {
		case <-t.closed:
			return
		case conn := <-t.NetTransport.StreamCh():
			if t.openCount.Load() >= maxInbound {
				conn.Close()
				continue
			}
			t.openCount.Add(1)
			in := &inbound{Conn: conn, owner: t}
			select {
			case t.streams <- in:
			case <-t.closed:
				in.Close()
				return
			}
		}
	}
}

var errInbound = errors.New("too many bytes are coming in by all gossip streams together")

// inbound is a stream that counts what came in by it, until it is closed. One goroutine reads and closes it.
type inbound struct {
	net.Conn
	owner    *transport
	received int64
	closed   bool
}

func (c *inbound) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b[:min(len(b), maxRead)])
	c.received += int64(n)
	if c.owner.inboundBytes.Add(int64(n)) > maxInboundBytes && err == nil {
		err = errInbound
	}
	return n, err
}

func (c *inbound) Close() error {
	if !c.closed {
		c.closed = true
		c.owner.inboundBytes.Add(-c.received)
		c.owner.openCount.Add(-1)
	}
	return c.Conn.Close()
}
