package engine

import "syscall"

// lowerPriority makes way for all other threads of this machine. If that is not allowed, nothing is lost but time.
func lowerPriority() { syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), 10) }
