package gossip

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/memberlist"

	"github.com/phoebe-sched/phoebe/probe/door"
)

// memberlist reads up to 20 MiB of a stream before the check of the secret, for any number of connections. The
// constants bound the memory of all incoming streams.
const (
	// maxInbound bounds the number of incoming streams: each frontend opens a stream now and then, for a moment. No
	// stream is ever known, because only memberlist sees whether the secret is right.
	maxInbound = 256
	// maxInboundBytes bounds the bytes received by all open streams together. The bound is several full tables of
	// 20,000 workers.
	maxInboundBytes = 64 << 20
	// maxRead bounds a single read, and thus how far a stream may exceed maxInboundBytes.
	maxRead = 64 << 10
)

// transport is memberlist's own transport with a bound on incoming streams.
type transport struct {
	*memberlist.NetTransport
	streams      chan net.Conn
	closed       chan struct{}
	closeOnce    sync.Once
	inboundBytes atomic.Int64 // received by all open streams
	door         *door.Door
}

// openPorts opens the ports of m. If m names no port, openPorts takes a free port and writes the port into m.
func openPorts(m *memberlist.Config) (*transport, error) {
	// A free port for TCP may be taken for UDP, so a free port takes several tries.
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
			b := &transport{NetTransport: t, streams: make(chan net.Conn), closed: make(chan struct{}),
				door: door.New(door.Rule{MaxConns: maxInbound})}
			go b.admitStreams()
			return b, nil
		}
		if !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	return nil, fmt.Errorf("listen on %s port %d: %w", m.BindAddr, m.BindPort, err)
}

// StreamCh returns the channel of admitted streams.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// Shutdown closes the ports.
func (t *transport) Shutdown() error {
	t.closeOnce.Do(func() { close(t.closed) })
	return t.NetTransport.Shutdown()
}

// admitStreams passes incoming streams on. If maxInbound streams are open, the oldest is closed.
func (t *transport) admitStreams() {
	for {
		select {
		case <-t.closed:
			return
		case conn := <-t.NetTransport.StreamCh():
			guest := t.door.Enter(door.Descriptor(conn), func() { conn.Close() })
			if guest == nil {
				conn.Close()
				continue
			}
			in := &inbound{Conn: conn, owner: t, guest: guest}
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

// inbound is a stream with a count of received bytes, up to Close. A single goroutine reads and closes the stream.
type inbound struct {
	net.Conn
	owner    *transport
	guest    *door.Guest
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
		c.guest.Leave()
	}
	return c.Conn.Close()
}
