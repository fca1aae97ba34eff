//go:build !linux

package main

import "os/exec"

// endWithParent does nothing here: the processes of a fleet that is killed go on.
func endWithParent(*exec.Cmd) {}
