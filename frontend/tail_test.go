package frontend

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/script"
)

// runJob submits a job of tasks without estimates, placed by estimation, and starts all of its tasks at once.
func (f *fleet) runJob(id string, tasks int) (workers []Worker, launches []probe.Launch) {
	f.t.Helper()
	for w := range f.core.view.Workers() {
		f.tellWait(int(w.Key), 0, probe.Load{Free: f.size})
	}
	j := jobWith(id, make([]Task, tasks)...)
	for i := range j.Tasks {
		j.Tasks[i].Retryable = true
	}
	j.Mode = estimate.Estimate
	acts := f.step(Submit{j})
	for range 100 {
		ws, ls := sentEnqueues(acts)
		workers, launches = append(workers, ws...), append(launches, ls...)
		if len(launches) >= tasks {
			break
		}
		f.now = f.core.NextWake()
		acts = f.step(Wake{})
	}
	for i, l := range launches {
		f.step(frameFrom(workers[i], probe.Started{Attempt: l.Attempt, Job: script.Job(id)}))
	}
	return workers, launches
}

// finishJob ends the tasks of a job with these run times.
func (f *fleet) finishJob(id string, workers []Worker, launches []probe.Launch, runs []time.Duration) {
	f.t.Helper()
	for i, l := range launches {
		f.step(frameFrom(workers[i], &probe.Finished{Attempt: l.Attempt, Job: script.Job(id), Task: l.Task,
			Status: probe.Succeeded, Run: runs[i]}))
	}
}

// Runs of a function vary, as runs do. A task that has just started is no later than its copy would be, and has no
// copy. At no age does a task have a copy that is expected to run for longer than the task has run.
func TestYoungTasksHaveNoCopies(t *testing.T) {
	const tasks = 4
	copies := 0
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 3))
		f := newFleet(t, 8, 4, Config{Copies: 1, Estimate: estimate.Config{Jitter: -1}})
		share := rng.Float64()
		factor := 1 + 20*rng.Float64()
		draw := func() time.Duration {
			run := 1 + 0.1*rng.Float64()
			if rng.Float64() < share {
				run *= factor
			}
			return time.Duration(run * 1e9)
		}
		for n := range 3 {
			id := fmt.Sprint("learn", n)
			workers, launches := f.runJob(id, 8)
			runs := make([]time.Duration, len(launches))
			for i := range runs {
				runs[i] = draw()
			}
			f.finishJob(id, workers, launches, runs)
		}
		began := map[probe.TaskIndex]time.Time{}
		workers, launches := f.runJob("x", tasks)
		for _, l := range launches {
			began[l.Task] = f.now
		}
		if len(workers) != tasks {
			t.Fatalf("seed %d: %d tasks are placed", seed, len(workers))
		}
		for range 300 {
			f.now = f.now.Add(50 * time.Millisecond)
			for w := range f.core.view.Workers() {
				f.tellWait(int(w.Key), 0, probe.Load{Free: f.size})
			}
			_, more := sentEnqueues(f.step(Wake{}))
			for _, l := range more {
				copies++
				if age := f.now.Sub(began[l.Task]); age < l.Estimate {
					t.Errorf("seed %d: a task that has run for %v has a copy that runs for %v", seed, age, l.Estimate)
				}
			}
		}
	}
	if copies < 10 {
		t.Errorf("%d tasks had copies: late tasks should have some", copies)
	}
}
