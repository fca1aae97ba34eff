package frontend

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// A wait of two seconds leads to refusals if tasks run for 10 ms. If tasks run for a second, the limit is 20 runs.
func TestLongTasksMayWaitLonger(t *testing.T) {
	for _, test := range []struct {
		run     time.Duration
		refused bool
	}{{10 * time.Millisecond, true}, {time.Second, false}} {
		c := New(Config{ID: 1}, rand.New(rand.NewPCG(1, 2)))
		now := time.Unix(0, 0)
		step := func(ev Event) []Action { return c.Step(now, ev, nil) }
		job := func(n byte) Submit {
			return Submit{&Job{
				ID: probe.JobID{n}, Policy: Policies[1], Tasks: []Task{{Function: "f", Retryable: true}},
			}}
		}
		step(WorkerUp{0, probe.Welcome{Worker: "w", Functions: []string{"f"}, Capacity: probe.Slot}})
		step(job(1))
		step(frameFrom(0, probe.Ready{Res: 1}))
		step(frameFrom(0, &probe.Finished{
			Attempt: probe.AttemptID{Frontend: 1, Seq: 1}, Status: probe.Succeeded, Run: test.run,
		}))
		step(job(2)) // its place is never ready
		now = now.Add(2 * time.Second)
		_, refused := step(job(3))[0].(Refused)
		if refused != test.refused {
			t.Errorf("tasks run %v and a job has waited 2 s: refused %t, want %t", test.run, refused, test.refused)
		}
	}
}

// The lists of unserved jobs and of sets' users drop ended jobs.
func TestEndedJobsAreDropped(t *testing.T) {
	c := New(Config{ID: 1}, rand.New(rand.NewPCG(1, 2)))
	now := time.Unix(0, 0)
	c.Step(now, WorkerUp{0, probe.Welcome{Worker: "w", Functions: []string{"f"}, Capacity: probe.Slot}}, nil)
	for n := range byte(3) {
		c.Step(now, Submit{&Job{ID: probe.JobID{n}, Tasks: []Task{{Function: "f"}}}}, nil)
	}
	for _, n := range []byte{1, 0, 2} {
		c.Step(now, Cancel{Job: probe.JobID{n}}, nil)
	}
	if len(c.unserved)+len(c.setUsers) > 0 {
		t.Errorf("%d tenants and %d sets keep jobs that have ended", len(c.unserved), len(c.setUsers))
	}
}

// While a job waits for long, the list of unserved jobs drops jobs that came and went since.
func TestServedJobsAreDropped(t *testing.T) {
	c := New(Config{ID: 1}, rand.New(rand.NewPCG(1, 2)))
	now := time.Unix(0, 0)
	step := func(ev Event) []Action { return c.Step(now, ev, nil) }
	step(WorkerUp{0, probe.Welcome{Worker: "w", Functions: []string{"f"}, Capacity: probe.Slot}})
	submit := func(n uint16) {
		step(Submit{&Job{ID: probe.JobID{byte(n >> 8), byte(n)}, Policy: Policies[1], Tasks: []Task{{Function: "f"}}}})
	}
	submit(0)
	for n := range uint16(1000) {
		submit(n + 1)
		if len(c.unserved) != 1 {
			t.Fatalf("%d kinds of jobs wait", len(c.unserved))
		}
		for _, u := range c.unserved {
			if u.waitingJobs != 2 {
				t.Fatalf("%d jobs wait", u.waitingJobs)
			}
			if len(u.jobs) > 100 {
				t.Fatalf("%d jobs are kept, and 2 wait", len(u.jobs))
			}
		}
		step(Cancel{Job: probe.JobID{byte((n + 1) >> 8), byte(n + 1)}})
	}
}

// A job with several groups for the same workers waits once.
func TestJobOfGroupsWaitsOnce(t *testing.T) {
	c := New(Config{ID: 1}, rand.New(rand.NewPCG(1, 2)))
	now := time.Unix(0, 0)
	c.Step(now, WorkerUp{0, probe.Welcome{Worker: "w", Functions: []string{"f"}, Capacity: probe.Slot}}, nil)
	c.Step(now, frameFrom(0, probe.Load{Queued: 1}), nil)
	c.Step(now, Submit{&Job{
		ID: probe.JobID{1}, Tasks: []Task{{Function: "f"}, {Index: 1, Function: "f", Class: "c"}},
	}}, nil)
	if len(c.unserved) != 1 {
		t.Fatalf("%d kinds of jobs wait", len(c.unserved))
	}
	for _, u := range c.unserved {
		if u.waitingJobs != 1 || len(u.jobs) != 1 {
			t.Errorf("%d jobs wait, %d are listed, want 1 and 1", u.waitingJobs, len(u.jobs))
		}
	}
}
