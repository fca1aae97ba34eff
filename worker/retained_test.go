package worker

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// Retained results take no more memory than counted for them.
func TestRetainedMemory(t *testing.T) {
	const results = 50_000
	for _, size := range []int{0, 1000} {
		c := newCycle(FIFO, 0)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range results {
			launch := c.launch()
			c.step(Received{1, probe.Reserve{First: c.res, Count: 1, Demand: probe.Slot,
				Launches: []probe.Launch{launch}}})
			c.res++
			c.step(&Exited{Attempt: launch.Attempt, Status: probe.Succeeded, Run: time.Millisecond,
				Result: make([]byte, size)})
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		used := int(after.HeapAlloc - before.HeapAlloc)
		if len(c.core.attempts) != results || used > c.core.retainedBytes {
			t.Errorf("%d results of %d bytes are kept in %d bytes, %d counted", len(c.core.attempts), size, used,
				c.core.retainedBytes)
		}
		t.Logf("%d bytes for a result of %d", used/results, size)
	}
}

// The names of tenants in memories are bounded: clients choose the names.
func TestNamesInMemories(t *testing.T) {
	c := New(Config{})
	now := time.Unix(1, 0)
	c.Step(now, LinkUp{Link: 1, Frontend: 1}, nil)
	const claims = 2 * maxMemoryNames / probe.MaxString
	for i := range claims {
		tenant := fmt.Sprintf("%0*d", probe.MaxString, i)
		c.Step(now, Received{1, probe.Claim{Job: probe.JobID{1}, Tenant: tenant, HasTenant: true}}, nil)
	}
	names := 0
	for key := range c.memories {
		names += len(key.tenant)
	}
	if names > maxMemoryNames || names != c.memoryNames || len(c.memories) != claims/2 {
		t.Errorf("%d memories with names of %d bytes, %d counted, at most %d", len(c.memories), names, c.memoryNames,
			maxMemoryNames)
	}
}
