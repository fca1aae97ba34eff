package live

import "syscall"

// processAttributes of a process: it dies with this one, and the terminal's interrupts are not for it.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
