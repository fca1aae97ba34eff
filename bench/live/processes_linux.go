package live

import "syscall"

// attributes of a process: it dies with this one, and the terminal's interrupts are not for it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
