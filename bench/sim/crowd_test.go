package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// A job many times as large as all queues of the fleet costs a few messages a task under every policy, and also
// with estimation. Tasks without room are not sent again and again.
func TestJobLargerThanQueues(t *testing.T) {
	for _, p := range frontend.Policies {
		t.Run(p.Name, func(t *testing.T) { runCrowd(t, 20_000, 500, 100*time.Microsecond, frontend.Job{Policy: p}) })
	}
	t.Run("estimate", func(t *testing.T) {
		runCrowd(t, 4000, 100, 10*time.Millisecond, frontend.Job{Policy: frontend.Policies[0], Mode: estimate.Estimate})
	})
}

// runCrowd runs a job on two workers; queue bounds the queue of each worker.
func runCrowd(t *testing.T, tasks, queue int, run time.Duration, job frontend.Job) {
	c := &cluster{rng: rand.New(rand.NewPCG(1, 'n')),
		net: network{delay: 250 * time.Microsecond, lease: 3 * time.Second, ping: time.Second}}
	for range 2 {
		c.addWorker(worker.Config{Capacity: slotsOf(4), Functions: []string{sleepFunction}, MaxQueue: queue}, 1)
	}
	c.addFrontend(frontend.Config{MaxPending: tasks}, 1)
	unfinished := tasks
	c.onAnswer = func(_ *frontendNode, a frontend.Action) {
		switch a := a.(type) {
		case *frontend.Done:
			if a.Outcome.Kind != frontend.Result {
				t.Fatalf("%+v", a.Outcome)
			}
			unfinished--
		case frontend.Refused:
			t.Fatal(a.Err)
		}
	}
	c.callAt(10*time.Millisecond, func() {
		job.ID = jobID(1)
		for k := range tasks {
			job.Tasks = append(job.Tasks, frontend.Task{Index: probe.TaskIndex(k), Function: sleepFunction,
				Payload: payloadOf(run), Retryable: true})
		}
		if err := c.stepFrontend(c.frontends[0], frontend.Submit{Job: &job}); err != nil {
			t.Fatal(err)
		}
	})
	for unfinished > 0 && c.now < time.Minute {
		if err := c.stepEvent(); err != nil {
			t.Fatal(err)
		}
	}
	perTask, ideal := float64(c.messages)/float64(tasks), time.Duration(tasks)*run/8
	t.Logf("%v for an ideal of %v; %.1f messages a task", c.now, ideal, perTask)
	if unfinished > 0 || perTask > 10 {
		t.Errorf("%d tasks are left after %v; %.1f messages a task", unfinished, c.now, perTask)
	}
}
