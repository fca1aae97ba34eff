//go:build !norecorder

package serve

// recorderOn is off in a build that only serves to measure what the recorder costs: make ui-cost.
const recorderOn = true
