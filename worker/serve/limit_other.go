//go:build !linux

package serve

import "time"

// RaiseFileLimit does nothing on this system, and returns n.
func RaiseFileLimit(n uint64) uint64 { return n }

func tuneSocket(int, time.Duration) {}
