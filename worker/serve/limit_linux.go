package serve

import (
	"time"

	"golang.org/x/sys/unix"
)

// RaiseFileLimit raises the limit of open files of this process to n, if allowed. It returns the limit.
func RaiseFileLimit(n uint64) uint64 {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return n // cannot happen; the first file too many will show
	}
	if lim.Cur >= n {
		return lim.Cur
	}
	want := unix.Rlimit{Cur: n, Max: max(n, lim.Max)} // only root may go above Max
	if unix.Setrlimit(unix.RLIMIT_NOFILE, &want) == nil {
		return n
	}
	want = unix.Rlimit{Cur: lim.Max, Max: lim.Max}
	if unix.Setrlimit(unix.RLIMIT_NOFILE, &want) == nil {
		return lim.Max
	}
	return lim.Cur
}

// maxInKernel bounds the bytes that the kernel takes and does not send yet. Without the bound, megabytes of results
// stood before a Pong, and the kernel took no more bytes for seconds on a slow link: the peer seemed to read nothing.
const maxInKernel = 256 << 10

// tuneSocket has the kernel end the connection to a dead host. On an idle connection keepalive finds the dead
// host; on a busy connection, missing acknowledgements do.
func tuneSocket(fd int, lease time.Duration) {
	for _, o := range []struct{ level, option, value int }{
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
		{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(lease.Milliseconds())},
		{unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxInKernel},
	} {
		_ = unix.SetsockoptInt(fd, o.level, o.option, o.value) // without the option, the lease still finds a dead host
	}
}
