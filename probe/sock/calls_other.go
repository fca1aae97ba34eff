//go:build !unix

package sock

import "syscall"

func read(int, []byte) (int, syscall.Errno) { return 0, syscall.ENOSYS }

func write(int, []byte) (int, syscall.Errno) { return 0, syscall.ENOSYS }
