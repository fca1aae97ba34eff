//go:build !norecorder

package serve

// recorderOn is false in a build with the tag norecorder, which measures the cost of the recorder: make ui-cost.
const recorderOn = true
