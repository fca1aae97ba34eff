package worker

import (
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// A short task waits for room in all of the worker. A long task waits for room in the open part.
func TestMatrixTellsShortFromLong(t *testing.T) {
	slots := func(n int32) probe.Demand {
		return probe.Demand{CPU: probe.Slot.CPU * probe.Millicores(n), Mem: probe.Slot.Mem * probe.MiB(n)}
	}
	var f forecast
	f.reset(room{all: slots(8), open: slots(7)})
	for range 7 {
		f.addRunning(roomFor(probe.Slot, true), 7*time.Second)
	}
	var m probe.WaitMatrix
	f.writeMatrix(&m, f.capacity.open)
	if long, short := m.Wait(probe.Slot).Duration(), m.ShortWait(probe.Slot).Duration(); long != 7*time.Second ||
		short != 0 {
		t.Errorf("beside 7 long tasks on 8 slots, of which 7 are open, a long task waits %v, a short task %v", long,
			short)
	}
	if w := m.ShortWait(slots(2)).Duration(); w != 7*time.Second {
		t.Errorf("one of two slots waits %v", w)
	}
	if w := m.ShortWait(slots(9)); w != probe.NeverFits {
		t.Errorf("one of nine slots waits %d", w)
	}
	f.addRunning(roomFor(probe.Slot, false), 2*time.Second)
	f.planEntry(roomFor(probe.Slot, false), 0, time.Second)
	f.writeMatrix(&m, f.capacity.open)
	if w := m.ShortWait(probe.Slot).Duration(); w != 3*time.Second {
		t.Errorf("behind two short tasks, of 2 s and 1 s, one waits %v", w)
	}
}
