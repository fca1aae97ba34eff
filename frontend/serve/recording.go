//go:build !norecorder

package serve

// recording is off in a build that only serves to measure what the recorder costs: make ui-cost.
const recording = true
