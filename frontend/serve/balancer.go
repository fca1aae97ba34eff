package serve

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/pires/go-proxyproto"

	"github.com/phoebe-sched/phoebe/probe/audit"
)

// relayedConn is a connection that a balancer makes for a client. First the balancer names the client by the PROXY
// protocol, version 2. Until then the connection counts as the balancer's.
type relayedConn struct {
	*net.TCPConn
	client atomic.Pointer[net.TCPAddr]
}

// isBalancer reports whether an address is a balancer's.
func (c *Config) isBalancer(addr net.Addr) bool {
	a, ok := addr.(*net.TCPAddr)
	if !ok {
		return false
	}
	ip := a.AddrPort().Addr().Unmap()
	return slices.ContainsFunc(c.ProxyFrom, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// RemoteAddr implements net.Conn.
func (r *relayedConn) RemoteAddr() net.Addr {
	if a := r.client.Load(); a != nil {
		return a
	}
	return r.TCPConn.RemoteAddr()
}

// minHeader is the size of the shortest header, in bytes. The last two bytes of a header hold the number of bytes
// behind it.
const minHeader = 16

var errNoHeader = errors.New(
	"the connection does not begin with a PROXY header, version 2: have the balancer send the header (HAProxy: " +
		"send-proxy-v2), or leave its address out of --proxy-from")

// readProxyHeader reads the name of the client, and not a byte more, because the following bytes are the client's.
// A connection of the balancer's own, for instance a health check, stays the balancer's.
func (r *relayedConn) readProxyHeader() error {
	b := make([]byte, minHeader, 64)
	if n, err := io.ReadFull(r.TCPConn, b); n == 0 {
		return err // the balancer hung up
	}
	if !bytes.HasPrefix(b, proxyproto.SIGV2) {
		return errNoHeader
	}
	size := binary.BigEndian.Uint16(b[minHeader-2:])
	if size > proxyproto.MaxV2HeaderSize {
		return fmt.Errorf("the PROXY header has %d bytes: at most %d are allowed", size, proxyproto.MaxV2HeaderSize)
	}
	b = append(b, make([]byte, size)...)
	if _, err := io.ReadFull(r.TCPConn, b[minHeader:]); err != nil {
		return err
	}
	h, err := proxyproto.Read(bufio.NewReader(bytes.NewReader(b)))
	if err != nil {
		return fmt.Errorf("the PROXY header: %w", err)
	}
	if from, _, ok := h.TCPAddrs(); ok && h.Command.IsProxy() {
		r.client.Store(from)
	}
	return nil
}

// noteUnintroduced notes that a balancer's connection was closed because the balancer named no client.
func (s *Server) noteUnintroduced(r *relayedConn, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return // the balancer checked whether this frontend listens
	}
	s.metrics.connsUnintroduced.Inc()
	s.cfg.Audit.NoteStranger(audit.Entry{What: "connect", From: r.RemoteAddr().String()}, err)
}
