package engine

import "syscall"

// lowerPriority gives the calling thread a lower priority (nice 10) than all threads with nice 0. If the system
// refuses, messages only wait longer.
func lowerPriority() { syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), 10) }
