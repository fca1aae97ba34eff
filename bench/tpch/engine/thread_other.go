//go:build !linux

package engine

// lowerPriority does nothing: on systems other than Linux, a thread has no priority of its own.
func lowerPriority() {}
