package main

import (
	"os/exec"
	"syscall"
)

// endWithParent makes a process end with its parent thread. The process leaves the parent's process group. Otherwise a
// terminal would interrupt the process, too, and SIGTERM from the parent would be the second signal, which ends a drain.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}
