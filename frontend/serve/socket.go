package serve

import (
	"net"
	"syscall"
)

// socket writes to a connection what it takes at once, so that its caller never waits. One at a time may use it.
type socket struct {
	raw     syscall.RawConn
	try     func(fd uintptr) bool // made once: it would be allocated each time
	buf     []byte
	written int
}

// newSocket returns nil if conn is not the plain connection of an operating system that we know.
func newSocket(conn net.Conn) *socket {
	c, ok := conn.(syscall.Conn)
	if !ok || !canTryWrite {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	s := &socket{raw: raw}
	s.try = func(fd uintptr) bool {
		s.written = tryWrite(fd, s.buf)
		return true
	}
	return s
}

// write returns how many bytes of b were written: fewer than all if the connection is full, or broken.
func (s *socket) write(b []byte) int {
	s.buf, s.written = b, 0
	s.raw.Write(s.try)
	s.buf = nil
	return s.written
}
