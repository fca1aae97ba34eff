package serve

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout lets the kernel give up a peer that acknowledges no data for d.
func setUserTimeout(c syscall.RawConn, d time.Duration) error {
	var err error
	if e := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	}); e != nil {
		return e
	}
	return err
}

// limitUnsent bounds the bytes that the kernel takes and has not sent. Without the option, links work all the same.
func limitUnsent(c syscall.RawConn, bytes int) {
	c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, bytes)
	})
}

// peerHungUp reports whether the peer has closed the connection. No bytes are taken from the connection. sealed
// means TLS. Before a TLS peer closes, it sends a message. So unread bytes do not prove a living peer.
func peerHungUp(c syscall.RawConn, sealed bool) bool {
	gone := false
	c.Control(func(fd uintptr) {
		if sealed {
			p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
			n, _ := unix.Poll(p, 0)
			gone = n > 0
			return
		}
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		gone = n == 0 && err == nil || err != nil && err != unix.EAGAIN && err != unix.EINTR
	})
	return gone
}
