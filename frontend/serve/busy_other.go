//go:build !linux

package serve

import (
	"syscall"
	"time"
)

// cpuTimes returns the CPU time of this process. The idle time is 0: not known. So time of other processes on the
// machine counts as idle.
func cpuTimes() (used, idle time.Duration) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
		used = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return used, 0
}
