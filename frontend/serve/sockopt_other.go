//go:build !linux

package serve

import (
	"syscall"
	"time"
)

func setUserTimeout(syscall.RawConn, time.Duration) error { return nil }

// hungUp cannot be told here: a job whose client is gone runs to its end.
func hungUp(syscall.RawConn, bool) bool { return false }
