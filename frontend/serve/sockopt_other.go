//go:build !linux

package serve

import (
	"syscall"
	"time"
)

func setUserTimeout(syscall.RawConn, time.Duration) error { return nil }

// peerHungUp cannot be told here: a job whose client is gone runs to its end.
func peerHungUp(syscall.RawConn, bool) bool { return false }
