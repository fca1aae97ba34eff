//go:build !linux

package serve

import (
	"syscall"
	"time"
)

func setUserTimeout(syscall.RawConn, time.Duration) error { return nil }

func limitUnsent(syscall.RawConn, int) {}

// peerHungUp cannot tell here. If a client is gone, its job runs to the end.
func peerHungUp(syscall.RawConn, bool) bool { return false }
