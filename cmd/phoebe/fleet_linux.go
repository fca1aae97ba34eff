package main

import (
	"os/exec"
	"syscall"
)

// endWithParent makes a process end with its parent thread.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
