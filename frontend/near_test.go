package frontend

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
)

// A worker is told the run time of a task with the time for reading inputs there. The run time learnt from the
// result leaves out the reading.
func TestReadingIsPartOfTheRun(t *testing.T) {
	f := newFleet(t, 2, 1, Config{})
	readTime := 6250 * time.Microsecond // a megabyte, from disk
	for i := range 20 {
		task := Task{Estimate: time.Millisecond, Inputs: []Input{{Bytes: 1e6, Copies: []estimate.Copy{{At: "h1"}}}}}
		if i > 0 {
			task.Estimate = 0
		}
		acts := f.step(Submit{jobWith(fmt.Sprint(i), task)})
		var sent *probe.Reserve
		for _, a := range acts {
			if s, ok := a.(Send); ok && s.Worker == 1 {
				m := s.Msg.(probe.Reserve)
				sent = &m
			}
		}
		if sent == nil || len(sent.Launches) != 1 {
			t.Fatalf("the task does not ride to its inputs: %v", acts)
		}
		if got := sent.Launches[0].Estimate; i == 0 && got != time.Millisecond+readTime {
			t.Errorf("the worker is told a run of %v, want the hint and the time to read", got)
		}
		f.step(frameFrom(1, &probe.Finished{Attempt: sent.Launches[0].Attempt, Status: probe.Succeeded,
			Run: time.Millisecond + readTime, Load: probe.Load{Free: f.size}}))
	}
	if w := estimate.Expect(0, 1e6, nil, f.core.view.EnsureRuns("", "f").Stats(),
		time.Hour); w.Run.Round(10*time.Microsecond) != time.Millisecond {
		t.Errorf("tasks are believed to run for %v without reading", w.Run)
	}
}

// The job names a host for each of its many tasks. Admission must not look at all workers for each task, and a
// message must not look at all groups.
func BenchmarkManyHosts(b *testing.B) {
	const n = 20_000
	c := New(Config{ID: 1}, rand.New(rand.NewPCG(1, 2)))
	now := time.Unix(1000, 0)
	for i := range n {
		c.Step(now, WorkerUp{Worker(i), probe.Welcome{Worker: fmt.Sprint("w", i), Host: fmt.Sprint("h", i),
			Incarnation: 1, Functions: []string{"f"}, Capacity: probe.Slot}}, nil)
	}
	makeJob := func() *Job {
		j := jobWith("x", make([]Task, n)...)
		for i := range j.Tasks {
			j.Tasks[i].Constraint.Hosts = []string{fmt.Sprint("h", i)}
		}
		return j
	}
	b.Run("submit", func(b *testing.B) {
		for b.Loop() {
			j := makeJob()
			c.Step(now, Submit{j}, nil)
			b.StopTimer()
			c.Step(now, Cancel{Job: j.ID}, nil)
			b.StartTimer()
		}
	})
	b.Run("message", func(b *testing.B) {
		c.Step(now, Submit{makeJob()}, nil)
		c.Step(now, LinkLost{1}, nil)
		for i := 0; b.Loop(); i++ {
			c.Step(now, frameFrom(Worker(2+i%(n-2)), probe.Refused{First: 1, Count: 1, Reason: probe.QueueFull}), nil)
		}
	})
}
