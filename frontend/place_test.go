package frontend

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// A Reserve asks for MaxPlaces at most. A job worth more places gets new ones after the first are used up, and
// every task runs.
func TestMoreTasksThanAReserveHasPlaces(t *testing.T) {
	const tasks = probe.MaxPlaces + 100
	c := New(Config{ID: 'a'}, rand.New(rand.NewPCG(1, 2)))
	now := time.Unix(1_000_000, 0)
	policy, err := ParsePolicy("late-binding")
	if err != nil {
		t.Fatal(err)
	}
	c.Step(now, WorkerUp{Worker: 0, Welcome: probe.Welcome{Worker: "w1", Capacity: probe.Slot,
		Functions: []string{"f"}}}, nil)
	spec := &Job{Policy: policy, Tasks: make([]Task, tasks)}
	for i := range spec.Tasks {
		spec.Tasks[i] = Task{Index: probe.TaskIndex(i), Function: "f"}
	}
	done := 0
	for acts := c.Step(now, Submit{spec}, nil); len(acts) > 0; {
		var next []Action
		receive := func(m probe.Msg) { next = c.Step(now, frameFrom(0, m), next) }
		for _, a := range acts {
			switch a := a.(type) {
			case *Done:
				done++
			case Send:
				switch m := a.Msg.(type) {
				case probe.Reserve:
					for i := range m.Count {
						receive(probe.Ready{Res: m.First + probe.ResID(i)})
					}
				case probe.Bind:
					receive(&probe.Finished{Attempt: m.Launch.Attempt, Status: probe.Succeeded})
				}
			}
		}
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		acts = next
	}
	if done != tasks {
		t.Errorf("%d of %d tasks have ended", done, tasks)
	}
}

// A job with a long wait makes many reservations over time, and keeps only reservations with a live place or
// ride.
func TestUsedReservationsAreDropped(t *testing.T) {
	f := newFleet(t, 1, 1, Config{})
	acts := f.step(Submit{jobWith("one", Task{Function: "f", Estimate: 10 * time.Millisecond})})
	made := 0
	for range 1000 {
		var reserved []probe.Reserve
		for _, a := range acts {
			if s, ok := a.(Send); ok {
				if m, ok := s.Msg.(probe.Reserve); ok {
					reserved = append(reserved, m)
				}
			}
		}
		if acts = nil; len(reserved) == 0 {
			break
		}
		for _, m := range reserved {
			made++
			acts = append(acts, f.step(frameFrom(0, probe.Evicted{First: m.First, Count: m.Count}))...)
		}
	}
	if made < 1000 {
		t.Fatalf("%d reservations were made", made)
	}
	for _, j := range f.core.byID {
		if n := j.groups[0].places.Len(); n > 16 {
			t.Errorf("%d reservations are kept of %d", n, made)
		}
	}
}
