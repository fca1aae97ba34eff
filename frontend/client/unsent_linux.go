package client

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// countUnsent returns the number of written bytes whose arrival the peer's kernel has not confirmed.
func countUnsent(c net.Conn) (n int) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0
	}
	raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	return n
}
