//go:build !linux

package engine

// lowerPriority does nothing: elsewhere threads have no priority of their own.
func lowerPriority() {}
