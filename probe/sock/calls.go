//go:build unix && !race

package sock

import (
	"syscall"
	"unsafe"
)

func read(fd int, b []byte) (int, syscall.Errno) { return call(syscall.SYS_READ, fd, b) }

func write(fd int, b []byte) (int, syscall.Errno) { return call(syscall.SYS_WRITE, fd, b) }

func call(trap uintptr, fd int, b []byte) (int, syscall.Errno) {
	n, _, err := syscall.RawSyscall(trap, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if err != 0 {
		return 0, err
	}
	return int(n), 0
}
