package engine

import (
	"strings"
	"syscall"
	"testing"
)

func TestThread(t *testing.T) {
	nice := func() int {
		// the kernel returns 20 less the nice value
		kernel, err := syscall.Getpriority(syscall.PRIO_PROCESS, syscall.Gettid())
		if err != nil {
			t.Error(err)
		}
		return 20 - kernel
	}
	ownNice := nice()
	th := newThread()
	defer close(th)
	var threadIDs [2]int
	for i := range threadIDs {
		th.runAndWait(func() { threadIDs[i] = syscall.Gettid() })
	}
	if threadIDs[0] != threadIDs[1] {
		t.Errorf("functions ran on threads %d", threadIDs)
	}
	threadNice := 0
	th.runAndWait(func() { threadNice = nice() })
	if threadNice <= ownNice && ownNice < 10 {
		t.Errorf("the thread has nice value %d, other threads %d", threadNice, ownNice)
	}
	func() {
		defer func() {
			if v, _ := recover().(string); !strings.Contains(v, "bad luck") || !strings.Contains(v, "TestThread") {
				t.Errorf("the panic has the text %q", v)
			}
		}()
		th.runAndWait(func() { panic("bad luck") })
	}()
	th.runAndWait(func() { threadNice = 1 })
	if threadNice != 1 {
		t.Error("the thread runs no function after a panic")
	}
}
