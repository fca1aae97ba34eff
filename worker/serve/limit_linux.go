package serve

import (
	"time"

	"golang.org/x/sys/unix"
)

// RaiseFileLimit lets this process have at least n open files, if it may, and returns how many it may
// have.
func RaiseFileLimit(n uint64) uint64 {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return n // cannot happen; the first file too many will tell
	}
	if lim.Cur >= n {
		return lim.Cur
	}
	want := unix.Rlimit{Cur: n, Max: max(n, lim.Max)} // above Max only root may
	if unix.Setrlimit(unix.RLIMIT_NOFILE, &want) == nil {
		return n
	}
	want = unix.Rlimit{Cur: lim.Max, Max: lim.Max}
	if unix.Setrlimit(unix.RLIMIT_NOFILE, &want) == nil {
		return lim.Max
	}
	return lim.Cur
}

// tuneSocket has the kernel give up on a peer whose host is gone: found when idle by keepalive, when not by what
// it does not acknowledge.
func tuneSocket(fd int, lease time.Duration) {
	for _, o := range []struct{ level, option, value int }{
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
		{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(lease.Milliseconds())},
	} {
		_ = unix.SetsockoptInt(fd, o.level, o.option, o.value) // the lease still finds it without
	}
}
