package live

import "syscall"

// processAttributes makes a process die with this process, and shields it from the terminal's interrupts.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
