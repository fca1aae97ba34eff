//go:build race

package main_test

import "os"

func init() {
	buildFlags = append(buildFlags, "-race")
	// By default the race detector has each process sleep for a second before it exits.
	os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=10")
}
