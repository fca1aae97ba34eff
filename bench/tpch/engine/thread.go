package engine

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// thread runs functions on a thread of the operating system. What is computed there has a lower priority than the messages by which
// workers, frontends and clients find out what to do next: they take microseconds, and would wait for milliseconds.
type thread chan func()

func newThread() thread {
	t := make(thread)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		lowerPriority()
		for f := range t {
			f()
		}
	}()
	return t
}

// do runs f, and returns when it has ended.
func (t thread) do(f func()) {
	done := make(chan string)
	t <- func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				done <- fmt.Sprintf("%v\n%s", v, debug.Stack())
			}
		}()
		f()
	}
	if panicked := <-done; panicked != "" {
		panic(panicked)
	}
}
