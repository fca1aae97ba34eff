package view

import (
	"fmt"
	"slices"

	"github.com/phoebe-sched/phoebe/probe"
)

// Check returns an error if the view contradicts itself. It takes time in proportion to the view, and is for tests
// and the simulator.
//
// The list of idle workers holds exactly the idle workers, each at its stated position. The slots are the slots of
// the workers that are up. A set contains, once each, exactly the matching workers that are up. The fleet contains
// the linked and adrift workers. Only workers that are up are candidates.
func (v *View) Check() error {
	slots, idle, rows, avoided := 0, 0, 0, 0
	for key, w := range v.workers {
		if w == nil {
			continue
		}
		if w.Key != Key(key) {
			return fmt.Errorf("worker %d is in the row of key %d", w.Key, key)
		}
		if w.state == Up {
			slots += w.slots
		}
		if w.idleAt > 0 {
			idle++
			if w.idleAt > len(v.idle) || v.idle[w.idleAt-1] != w {
				return fmt.Errorf("worker %d is not at its place %d among the idle", key, w.idleAt)
			}
		}
		if believed := w.state == Up && w.load.Queued == 0 && probe.Slot.Fits(w.load.Free); believed != (w.idleAt > 0) {
			return fmt.Errorf("worker %d is %s with load %+v, listed as idle: %t", key, w.state, w.load, !believed)
		}
		if !w.avoidUntil.IsZero() {
			avoided++
		}
		if w.state != Up && (len(w.uncounted) > 0 || !w.avoidUntil.IsZero()) {
			return fmt.Errorf("worker %d is %s, avoided until %v, with %d attempts not counted yet", key, w.state,
				w.avoidUntil, len(w.uncounted))
		}
		row := v.fleet.Get(int32(key))
		switch {
		case (row != nil) != (w.state != Down):
			return fmt.Errorf("worker %d is %s, in the fleet: %t", key, w.state, row != nil)
		case row == nil:
		case row.Name != w.welcome.Worker || row.Draining == (w.state == Up):
			return fmt.Errorf("worker %d, %s, is %s; in the fleet it is %s and draining: %t", key, w.welcome.Worker,
				w.state, row.Name, row.Draining)
		default:
			rows++
		}
	}
	switch {
	case slots != v.slots:
		return fmt.Errorf("%d slots up, %d counted", slots, v.slots)
	case idle != len(v.idle):
		return fmt.Errorf("%d idle workers, %d listed", idle, len(v.idle))
	case rows != v.fleet.Len() || avoided != v.avoided:
		return fmt.Errorf("%d workers in the fleet, want %d; %d avoided, %d counted", v.fleet.Len(), rows, avoided,
			v.avoided)
	}
	for key, s := range v.sets {
		members := 0
		for w := range v.Workers() {
			want := w.state == Up && s.need.isMetBy(w)
			if s.Contains(w) != want || slices.Contains(s.workers, w) != want {
				return fmt.Errorf("set %q: worker %d is %s, a member: %t, should be: %t", key, w.Key, w.state,
					s.Contains(w), want)
			}
			if want {
				members++
			}
		}
		if members != len(s.workers) {
			return fmt.Errorf("set %q has %d workers, %d distinct", key, len(s.workers), members)
		}
	}
	return v.fleet.Check()
}
