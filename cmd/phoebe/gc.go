package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// heapFloor is how many bytes the heap may reach, in any case, before it is collected. A worker or frontend has
// few live objects and makes many short-lived ones: with Go's default, to collect when the heap has doubled, one
// of 10 MiB spent a seventh of its CPU on that.
const heapFloor = 64 << 20

// collectLess raises the percentage of the garbage collector, after each collection, so that the next one comes
// no sooner than at heapFloor. It does nothing to a heap that is larger, nor where GOGC is set.
func collectLess() {
	if os.Getenv("GOGC") != "" {
		return
	}
	type sentinel struct{ _ *sentinel } // with a pointer, or it would share its block with others
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	last := 100
	var again func(*sentinel)
	again = func(s *sentinel) {
		metrics.Read(live)
		percent := max(100, heapFloor/(int(live[0].Value.Uint64())/100+1)-100)
		if percent > last+last/8 || percent < last-last/8 {
			debug.SetGCPercent(percent)
			last = percent
		}
		runtime.SetFinalizer(s, again)
	}
	runtime.SetFinalizer(&sentinel{}, again)
}
