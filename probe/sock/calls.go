//go:build unix && !race

package sock

import (
	"syscall"
	"unsafe"
)

func readFD(fd int, b []byte) (int, syscall.Errno) { return callRaw(syscall.SYS_READ, fd, b) }

func writeFD(fd int, b []byte) (int, syscall.Errno) { return callRaw(syscall.SYS_WRITE, fd, b) }

// callRaw makes a system call without telling Go's scheduler. The call must not block.
func callRaw(trap uintptr, fd int, b []byte) (int, syscall.Errno) {
	n, _, err := syscall.RawSyscall(trap, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if err != 0 {
		return 0, err
	}
	return int(n), 0
}
