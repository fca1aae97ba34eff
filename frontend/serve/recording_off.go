//go:build norecorder

package serve

const recording = false
