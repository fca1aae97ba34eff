package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// localityRun is a job of short tasks on an idle cluster: workers w0, w1, ... at hosts h0, h1, ..., played to its
// end.
type localityRun struct {
	cluster
	duration  time.Duration // since its submission
	nearTasks int           // tasks that ran at the host of the input
}

// playLocality plays a job; slots is the number of slots of each worker. Workers read inputs at the rates assumed
// by frontends.
func playLocality(t *testing.T, workers, slots int, job frontend.Job) *localityRun {
	t.Helper()
	r := &localityRun{}
	r.rng = rand.New(rand.NewPCG(1, 'n'))
	r.net = network{delay: 50 * time.Microsecond, codec: true, lease: 3 * time.Second, ping: time.Second,
		workersWatch: true}
	r.checkEvery = 1
	for i := range workers {
		w := r.addWorker(worker.Config{Functions: []string{sleepFunction}, Capacity: slotsOf(slots)}, 1)
		w.welcome.Worker, w.welcome.Host = fmt.Sprint("w", i), fmt.Sprint("h", i)
	}
	r.addFrontend(frontend.Config{}, 1)
	r.readTime = func(w *workerNode, s *worker.Start) time.Duration {
		took, near := readTimeAt(w, job.Tasks[s.Launch.Task].Inputs)
		r.nearTasks += near
		return took
	}
	ended := false
	r.onAnswer = func(_ *frontendNode, a frontend.Action) {
		switch a := a.(type) {
		case frontend.Ended:
			ended = true
		case frontend.Refused:
			t.Fatal(a.Err)
		case *frontend.Done:
			if a.Outcome.Kind != frontend.Result {
				t.Errorf("task %d: %+v", a.Outcome.Task, a.Outcome)
			}
		}
	}
	step := func() {
		if err := r.stepEvent(); err != nil {
			t.Fatal(err)
		}
	}
	for r.now < 10*time.Millisecond {
		step()
	}
	job.ID, job.Policy = jobID(1), frontend.Policies[0]
	begin := r.now
	if err := r.stepFrontend(r.frontends[0], frontend.Submit{Job: &job}); err != nil {
		t.Fatal(err)
	}
	for !ended {
		step()
	}
	r.duration = r.now - begin
	return r
}

// readTimeAt returns how long reading inputs takes at a worker, at the rates assumed by frontends, and how many
// inputs are at the worker's host.
func readTimeAt(w *workerNode, ins []frontend.Input) (took time.Duration, near int) {
	rates := estimate.Config{}.Defaults().Rates
	for _, in := range ins {
		rate := rates.Across
		if slices.ContainsFunc(in.Copies, func(c estimate.Copy) bool { return c.At == w.welcome.Host }) {
			rate = rates.Disk
			near++
		}
		took += time.Duration(float64(in.Bytes) / rate * 1e9)
	}
	return took, near
}

// sleepTasks makes n tasks; each changes a task before use.
func sleepTasks(n int, takes time.Duration, each func(i int, t *frontend.Task)) []frontend.Task {
	tasks := make([]frontend.Task, n)
	for i := range tasks {
		tasks[i] = frontend.Task{Index: probe.TaskIndex(i), Function: sleepFunction, Payload: payloadOf(takes),
			Estimate: takes, Retryable: true}
		each(i, &tasks[i])
	}
	return tasks
}

// Short tasks bound to one host end nearly as soon with mode auto as with mode sample.
func TestShortTasksAtOneHost(t *testing.T) {
	tasks := func() []frontend.Task {
		return sleepTasks(100, time.Millisecond, func(_ int, t *frontend.Task) { t.Constraint.Hosts = []string{"h1"} })
	}
	auto := playLocality(t, 4, 2, frontend.Job{Tasks: tasks()})
	sample := playLocality(t, 4, 2, frontend.Job{Tasks: tasks(), Mode: estimate.Sample})
	t.Logf("100 tasks of 1 ms on 2 slots: %v, with mode sample %v", auto.duration, sample.duration)
	if auto.duration > sample.duration*3/2 {
		t.Errorf("%v, with mode sample %v", auto.duration, sample.duration)
	}
}

// Short tasks with inputs all over the cluster read their inputs locally, and take hardly longer than the reads.
func TestShortTasksWithInputs(t *testing.T) {
	for _, bytes := range []int64{200_000, 1_000_000, 10_000_000} {
		job := frontend.Job{Tasks: sleepTasks(40, 5*time.Millisecond, func(i int, t *frontend.Task) {
			t.Inputs = []frontend.Input{{Bytes: bytes, Copies: []estimate.Copy{{At: fmt.Sprint("h", i%4)}}}}
		})}
		r := playLocality(t, 4, 2, job)
		reads := time.Duration(float64(bytes) / estimate.Config{}.Defaults().Rates.Disk * 1e9)
		ideal := 5 * (5*time.Millisecond + reads)
		t.Logf("40 tasks of 5 ms with inputs of %d bytes on 8 slots: %v, ideal %v, %d near", bytes, r.duration, ideal,
			r.nearTasks)
		if r.duration > 2*ideal || r.nearTasks < 30 {
			t.Errorf("inputs of %d bytes: %v, the ideal is %v; %d tasks were near", bytes, r.duration, ideal,
				r.nearTasks)
		}
	}
}

// If one worker has all inputs, tasks wait for the worker only as long as the wait pays. The job ends as soon as
// with reading from anywhere, or sooner.
func TestShortTasksWithInputsAtOneHost(t *testing.T) {
	for _, bytes := range []int64{200_000, 1_000_000, 10_000_000} {
		job := frontend.Job{Tasks: sleepTasks(40, 5*time.Millisecond, func(_ int, t *frontend.Task) {
			t.Inputs = []frontend.Input{{Bytes: bytes, Copies: []estimate.Copy{{At: "h2"}}}}
		})}
		r := playLocality(t, 4, 2, job)
		far := 5 * (5*time.Millisecond + estimate.Config{}.Defaults().Rates.FarReadTime(bytes))
		t.Logf("40 tasks of 5 ms with inputs of %d bytes at one of 4 workers: %v, %v if all read from elsewhere, "+
			"%d near", bytes, r.duration, far, r.nearTasks)
		if r.duration > far*5/4 {
			t.Errorf("inputs of %d bytes: %v, %v if all read from elsewhere", bytes, r.duration, far)
		}
	}
}
