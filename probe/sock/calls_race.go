//go:build unix && race

package sock

import "syscall"

// The race detector understands package syscall: a read comes after the write of the same bytes.

func readFD(fd int, b []byte) (int, syscall.Errno) { return splitErrno(syscall.Read(fd, b)) }

func writeFD(fd int, b []byte) (int, syscall.Errno) { return splitErrno(syscall.Write(fd, b)) }

func splitErrno(n int, err error) (int, syscall.Errno) {
	if err != nil {
		errno, _ := err.(syscall.Errno)
		return 0, errno
	}
	return n, 0
}
