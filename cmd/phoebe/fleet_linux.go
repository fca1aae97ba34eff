package main

import (
	"os/exec"
	"syscall"
)

// endWithParent has a process end when the thread that starts it does.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
