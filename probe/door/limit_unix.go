//go:build unix

package door

import "syscall"

// fileLimit returns the limit of descriptors of this process, or 0 if there is none.
func fileLimit() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || limit.Cur > 1<<30 {
		return 0
	}
	return int(limit.Cur)
}
