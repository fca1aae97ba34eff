//go:build !linux

package serve

import "time"

// RaiseFileLimit does nothing here but agree.
func RaiseFileLimit(n uint64) uint64 { return n }

func tuneSocket(int, time.Duration) {}
