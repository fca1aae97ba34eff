//go:build !linux

package live

import "syscall"

func processAttributes() *syscall.SysProcAttr { return nil }
