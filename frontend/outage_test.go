package frontend

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// If all workers of a rack restart within seconds, the rack had a single failure, shared by the workers. If
// workers of several racks restart, each worker had a failure.
func TestRackRestartIsOneFailure(t *testing.T) {
	const workers, rack = 100, 5
	now := time.Unix(1000, 0)
	c := New(Config{ID: 1}, rand.New(rand.NewPCG(1, 2)))
	start := func(w Worker, incarnation uint64) {
		c.Step(now, WorkerUp{w, probe.Welcome{
			Worker: fmt.Sprint("w", w), Rack: fmt.Sprint("r", w/rack), Incarnation: incarnation,
			Functions: []string{"f"}, Capacity: probe.Slot,
		}}, nil)
	}
	for w := range Worker(workers) {
		start(w, 1)
	}
	failures := func(w int32) float64 { return c.view.Fleet().Failures(w, now) }

	now = now.Add(10 * time.Minute)
	for w := range Worker(rack) { // the second rack, one worker after the other, by crash or as another process
		now = now.Add(100 * time.Millisecond)
		if w%2 == 0 {
			c.Step(now, LinkLost{rack + w}, nil)
			c.Step(now, WorkerGone{Worker: rack + w}, nil)
		}
		start(rack+w, 2)
	}
	for w := range int32(rack) {
		if got := failures(rack + w); got > 1.01/rack || got < 0.98/rack {
			t.Errorf("w%d, of the rack that restarted: %.3f failures, want %.3f", rack+w, got, 1.0/rack)
		}
	}

	now = now.Add(10 * time.Minute)
	for w := range Worker(2) { // two workers of each rack: no event of the racks
		start(20+w, 2) // r4
		start(30+w, 2) // r6
	}
	for _, w := range []int32{20, 21, 30, 31} {
		if got := failures(w); got < 0.98 {
			t.Errorf("w%d, which restarted with one other of its rack: %.3f failures, want 1", w, got)
		}
	}
}
