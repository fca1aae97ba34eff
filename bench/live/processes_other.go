//go:build !linux

package live

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
