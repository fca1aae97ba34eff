//go:build race

package main_test

import "os"

func init() {
	buildFlags = append(buildFlags, "-race")
	// By default, each process with the race detector sleeps for 1 s before it exits.
	os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=10")
}
