//go:build !unix

package sock

import "syscall"

func readFD(int, []byte) (int, syscall.Errno) { return 0, syscall.ENOSYS }

func writeFD(int, []byte) (int, syscall.Errno) { return 0, syscall.ENOSYS }
