//go:build norecorder

package serve

const recorderOn = false
