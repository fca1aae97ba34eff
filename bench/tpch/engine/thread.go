package engine

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// thread runs functions on a thread of the operating system. Computation on the thread has a lower priority
// than the messages of workers, frontends and clients about the next work. Handling a message takes
// microseconds. Without the priority, a message would wait for milliseconds of computation.
type thread chan func()

func newThread() thread {
	t := make(thread)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		lowerPriority()
		for f := range t {
			f()
		}
	}()
	return t
}

// runAndWait runs f on the thread, and returns when f has ended. If f panics, runAndWait panics with the text
// and the stack.
func (t thread) runAndWait(f func()) {
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
