//go:build !unix

package main

// runUnderInit is never called: no process is process 1.
func runUnderInit() error { panic("process 1 exists on Unix only") }
