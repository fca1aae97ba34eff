package client

import (
	"fmt"
	"runtime"
	"testing"
)

// heapAfter returns the bytes of the heap that use leaves in use.
func heapAfter(use func()) int64 {
	var before, after runtime.MemStats
	collect := func(into *runtime.MemStats) {
		for range 3 { // objects with finalizers take two collections
			runtime.GC()
		}
		runtime.ReadMemStats(into)
	}
	collect(&before)
	use()
	collect(&after)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

// Clients leave no memory when they are closed, with or without connections, nor do frontends that leave the list.
func TestNothingStaysOnTheHeap(t *testing.T) {
	f := newFake(t)
	f.run = f.runEcho
	const clients, most = 5000, 1 << 20
	openAndClose := func(n int) {
		for i := range n {
			c, err := New([]string{f.addr, "127.0.0.1:1", "127.0.0.1:2"})
			if err != nil {
				t.Fatal(err)
			}
			chooseFirst(c)
			if i%5 == 0 {
				if _, err := c.Run(t.Context(), echoJob(1)); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
		f.ln.breakConns()
	}
	openAndClose(100)
	if n := heapAfter(func() { openAndClose(clients) }); n > most {
		t.Errorf("%d closed clients leave %d bytes", clients, n)
	}
	c := newClient(t, []string{f.addr})
	n := heapAfter(func() {
		for i := range clients {
			c.noteMembers([]string{fmt.Sprintf("127.0.0.1:%d", i+1)})
		}
	})
	if n > most {
		t.Errorf("%d frontends that came and went leave %d bytes", clients, n)
	}
}
