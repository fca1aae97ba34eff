package engine

import (
	"strings"
	"syscall"
	"testing"
)

func TestThread(t *testing.T) {
	nice := func() int {
		kernel, err := syscall.Getpriority(syscall.PRIO_PROCESS, syscall.Gettid()) // the kernel returns 20 less the nice value
		if err != nil {
			t.Error(err)
		}
		return 20 - kernel
	}
	here := nice()
	th := newThread()
	defer close(th)
	var on [2]int
	for i := range on {
		th.do(func() { on[i] = syscall.Gettid() })
	}
	if on[0] != on[1] {
		t.Errorf("functions ran on threads %d", on)
	}
	there := 0
	th.do(func() { there = nice() })
	if there <= here && here < 10 {
		t.Errorf("the thread has nice value %d, other threads %d", there, here)
	}
	func() {
		defer func() {
			if v, _ := recover().(string); !strings.Contains(v, "bad luck") || !strings.Contains(v, "TestThread") {
				t.Errorf("the panic has the text %q", v)
			}
		}()
		th.do(func() { panic("bad luck") })
	}()
	th.do(func() { there = 1 })
	if there != 1 {
		t.Error("the thread runs no function after a panic")
	}
}
