// Package sock reads and writes connections with raw system calls, unknown to Go's scheduler. Go's scheduler
// prepares for every call that may block: in an idle process the scheduler wakes its monitor thread, and the thread
// stays up for a while. On an idle process this takes a third of the CPU of a round trip. The calls of this package
// return at once, because the sockets do not block. A caller that must wait waits in Go's poller.
package sock

import (
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
)

// Conn is a connection with raw reads and writes. Only plain connections of a known operating system, and
// connections made by Seal, are read and written raw. All other connections work as before.
type Conn struct {
	net.Conn
	raw     syscall.RawConn // nil: not a plain connection
	in, out direction
	seal    *seal // nil: not made by Seal
}

// direction is one direction of a connection. A single goroutine at a time may use a direction, so that no call
// allocates.
type direction struct {
	b    []byte
	n    int
	err  syscall.Errno
	call func(fd uintptr) bool
}

// New makes a Conn of c. While the Conn is in use, c must not be used directly.
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

// Read implements net.Conn. A single goroutine at a time may call Read.
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
		return 0, &net.OpError{Op: "read", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(),
			Err: os.NewSyscallError("read", in.err)}
	case in.n == 0:
		return 0, io.EOF
	}
	return in.n, nil
}

// TryWrite gives the kernel as much of b as the kernel takes at once, and returns the number of bytes. If the
// connection is broken, or is neither raw nor sealed, TryWrite returns 0. A single goroutine at a time may call
// TryWrite or Write.
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

// Write implements net.Conn. A single goroutine at a time may call Write or TryWrite.
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

// ReadNow reads the bytes available at a socket that does not block. At the end of the stream ReadNow returns 0
// without an error. If no bytes are available yet, the error is EAGAIN.
func ReadNow(fd int, b []byte) (n int, err syscall.Errno) {
	for {
		if n, err = readFD(fd, b); err != syscall.EINTR {
			return n, err
		}
	}
}

// WriteNow gives the kernel as much of b as a socket that does not block takes at once. Errors are not reported:
// the next write finds them again.
func WriteNow(fd int, b []byte) int {
	for len(b) > 0 {
		if n, err := writeFD(fd, b); err != syscall.EINTR {
			return n
		}
	}
	return 0
}
