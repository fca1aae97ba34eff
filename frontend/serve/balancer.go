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

// relayedConn is a connection that a balancer makes for a client. Before all else the balancer says who that is, by the PROXY
// protocol, version 2. Until then it is the balancer's.
type relayedConn struct {
	*net.TCPConn
	client atomic.Pointer[net.TCPAddr]
}

// isBalancer tells whether an address is a balancer's.
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

// minHeader is how many bytes a header has at least; the last two say how many follow.
const minHeader = 16

var errNoHeader = errors.New("it does not begin with a header of the PROXY protocol, version 2: have the balancer send one (HAProxy: send-proxy-v2), or leave its address out of --proxy-from")

// readProxyHeader reads who the client is, and not a byte more: what follows is the client's. One that the balancer makes for
// itself, as to see whether this frontend lives, stays the balancer's.
func (r *relayedConn) readProxyHeader() error {
	b := make([]byte, minHeader, 64)
	if n, err := io.ReadFull(r.TCPConn, b); n == 0 {
		return err // it hung up
	}
	if !bytes.HasPrefix(b, proxyproto.SIGV2) {
		return errNoHeader
	}
	size := binary.BigEndian.Uint16(b[minHeader-2:])
	if size > proxyproto.MaxV2HeaderSize {
		return fmt.Errorf("its header of the PROXY protocol has %d bytes, at most %d are read", size, proxyproto.MaxV2HeaderSize)
	}
	b = append(b, make([]byte, size)...)
	if _, err := io.ReadFull(r.TCPConn, b[minHeader:]); err != nil {
		return err
	}
	h, err := proxyproto.Read(bufio.NewReader(bytes.NewReader(b)))
	if err != nil {
		return fmt.Errorf("its header of the PROXY protocol: %w", err)
	}
	if from, _, ok := h.TCPAddrs(); ok && h.Command.IsProxy() {
		r.client.Store(from)
	}
	return nil
}

// noteUnintroduced notes that a balancer's connection was closed, for it did not say for whom it is.
func (s *Server) noteUnintroduced(r *relayedConn, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return // it looked whether somebody listens
	}
	s.metrics.connsUnintroduced.Inc()
	s.cfg.Audit.Note(audit.Entry{What: "connect", From: r.RemoteAddr().String()}, err)
}
