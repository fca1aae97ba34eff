package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// A job that is many times as large as all queues of the fleet costs a few messages a task, whatever its policy: those that
// find no room are not sent again and again.
func TestJobLargerThanQueues(t *testing.T) {
	const tasks, queue, run = 20_000, 500, 100 * time.Microsecond
	for _, p := range frontend.Policies {
		t.Run(p.Name, func(t *testing.T) {
			c := &cluster{rng: rand.New(rand.NewPCG(1, 'n')), net: network{delay: 250 * time.Microsecond, lease: 3 * time.Second, ping: time.Second}}
			for range 2 {
				c.addWorker(worker.Config{Capacity: slotsOf(4), Functions: []string{function}, MaxQueue: queue}, 1)
			}
			c.addFrontend(frontend.Config{MaxPending: tasks}, 1)
			left := tasks
			c.tell = func(_ *frontendNode, a frontend.Action) {
				switch a := a.(type) {
				case *frontend.Done:
					if a.Outcome.Kind != frontend.Result {
						t.Fatalf("%+v", a.Outcome)
					}
					left--
				case frontend.Refused:
					t.Fatal(a.Err)
				}
			}
			c.later(10*time.Millisecond, func() {
				job := &frontend.Job{ID: jobID(1), Policy: p}
				for k := range tasks {
					job.Tasks = append(job.Tasks, frontend.Task{Index: probe.TaskIndex(k), Function: function, Payload: payloadOf(run), Retryable: true})
				}
				if err := c.stepFrontend(c.frontends[0], frontend.Submit{Job: job}); err != nil {
					t.Fatal(err)
				}
			})
			for left > 0 && c.now < time.Minute {
				if err := c.step(); err != nil {
					t.Fatal(err)
				}
			}
			perTask := float64(c.messages) / tasks
			t.Logf("%v for an ideal of %v; %.1f messages a task", c.now, tasks*run/8, perTask)
			if left > 0 || perTask > 10 {
				t.Errorf("%d tasks are left after %v; %.1f messages a task", left, c.now, perTask)
			}
		})
	}
}
