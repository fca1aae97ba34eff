// Package sock reads and writes connections with system calls of which Go's scheduler is not told. It is told of all that may
// block, and then wakes its monitor thread if all was idle, and keeps it up for a while: on an idle process that is a third of
// the CPU of a round trip. These calls return at once: the sockets do not block, and who waits does so in Go's poller.
package sock

import (
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
)

// Conn is a connection that is read and written so, if it is the plain one of an operating system that we know, or one of Seal's;
// any other one is used as it is.
type Conn struct {
	net.Conn
	raw     syscall.RawConn // nil: it is another one
	in, out direction
	seal    *seal // nil: it is not one of Seal's
}

// direction is one direction of a connection. One at a time may use it, so that nothing is allocated.
type direction struct {
	b    []byte
	n    int
	err  syscall.Errno
	call func(fd uintptr) bool
}

// New makes a Conn of c, which is to be used no other way while others may use the Conn.
func New(c net.Conn) *Conn {
	if s, ok := c.(*Conn); ok {
		return s
	}
	s := &Conn{Conn: c}
	sc, ok := c.(syscall.Conn)
	if !ok || runtime.GOOS == "windows" {
		return s
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return s
	}
	s.raw = raw
	s.in.call = func(fd uintptr) bool {
		s.in.n, s.in.err = ReadNow(int(fd), s.in.b)
		return s.in.err != syscall.EAGAIN
	}
	s.out.call = func(fd uintptr) bool {
		s.out.n = WriteNow(int(fd), s.out.b)
		return true
	}
	return s
}

// Read implements net.Conn. One at a time may call it.
func (c *Conn) Read(b []byte) (int, error) {
	if c.seal != nil {
		return c.seal.readSealed(b)
	}
	if c.raw == nil || len(b) == 0 {
		return c.Conn.Read(b)
	}
	in := &c.in
	in.b, in.n, in.err = b, 0, 0
	err := c.raw.Read(in.call)
	in.b = nil
	switch {
	case err != nil:
		return 0, err
	case in.err != 0:
		return 0, &net.OpError{Op: "read", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError("read", in.err)}
	case in.n == 0:
		return 0, io.EOF
	}
	return in.n, nil
}

// TryWrite gives the kernel as much of b as it takes at once, and returns how much that is: none if the connection is broken,
// or another one. One at a time may call it, or Write.
func (c *Conn) TryWrite(b []byte) int {
	if c.seal != nil {
		return c.seal.tryWrite(b)
	}
	if c.raw == nil {
		return 0
	}
	out := &c.out
	out.b, out.n = b, 0
	c.raw.Write(out.call)
	out.b = nil
	return out.n
}

// Write implements net.Conn. One at a time may call it, or TryWrite.
func (c *Conn) Write(b []byte) (int, error) {
	if c.seal != nil {
		return c.seal.writeAll(b)
	}
	n := c.TryWrite(b)
	if n == len(b) && n > 0 {
		return n, nil
	}
	more, err := c.Conn.Write(b[n:])
	return n + more, err
}

// SyscallConn implements syscall.Conn.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	if c.seal != nil {
		c = c.seal.plain
	}
	if c.raw == nil {
		return nil, syscall.EINVAL
	}
	return c.raw, nil
}

// ReadNow gives what the kernel has, of a socket that does not block: nothing, without an error, at its end, and EAGAIN if more
// is to come.
func ReadNow(fd int, b []byte) (n int, err syscall.Errno) {
	for {
		if n, err = readFD(fd, b); err != syscall.EINTR {
			return n, err
		}
	}
}

// WriteNow gives the kernel as much of b as a socket that does not block takes at once. If an error is more than that it takes
// nothing, the next write will find out.
func WriteNow(fd int, b []byte) int {
	for len(b) > 0 {
		if n, err := writeFD(fd, b); err != syscall.EINTR {
			return n
		}
	}
	return 0
}
