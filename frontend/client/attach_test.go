package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	fserve "github.com/phoebe-sched/phoebe/frontend/serve"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// awaitMove waits until the job of r has left the frontend of the handle.
func awaitMove(t *testing.T, r *client.Running, handle client.Handle) {
	t.Helper()
	for began := time.Now(); r.Handle() == handle; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("after a minute, the job is still at %s", handle.Owner)
		}
	}
}

// A process submits a job and leaves. Another process gets all outcomes, and a third one submits the job again.
func ExampleClient_Attach() {
	cluster, err := local.Start(local.Config{Frontends: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	newClient := func() *client.Client {
		c, err := client.New(cluster.Frontends())
		if err != nil {
			log.Fatal(err)
		}
		return c
	}
	ctx := context.Background()
	job := client.Job{
		Key: "order 17", Grace: time.Minute, // the job goes on without a process for a minute
		Tasks: []client.Task{{Function: "echo", Payload: []byte("hello")}},
	}

	first := newClient()
	running, err := first.Submit(ctx, job)
	if err != nil {
		log.Fatal(err)
	}
	handle, err := running.Leave(ctx) // for instance, put the handle into a database
	if err != nil {
		log.Fatal(err)
	}
	first.Close()

	second := newClient()
	defer second.Close()
	followed, err := second.Attach(ctx, handle)
	if err != nil {
		log.Fatal(err)
	}
	outcomes, err := followed.Wait()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, %d attempt\n", outcomes[0].Result, outcomes[0].Attempts)

	third := newClient()
	defer third.Close()
	outcomes, err = third.Run(ctx, job) // nothing runs again
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, %d attempt\n", outcomes[0].Result, outcomes[0].Attempts)
	// Output:
	// hello, 1 attempt
	// hello, 1 attempt
}

// heldWork is a function "work" whose tasks wait if their payload is "hold".
type heldWork struct {
	release chan struct{}
	mu      sync.Mutex
	runs    map[string]int // by job
	stopped chan string    // jobs with a stopped task
}

// startHeld starts a cluster with a heldWork. At the end of the test the tasks end.
func startHeld(t *testing.T, cfg local.Config) (*heldWork, *local.Cluster) {
	h := &heldWork{release: make(chan struct{}), runs: map[string]int{}, stopped: make(chan string, 100)}
	cfg.Registry = exec.NewRegistry()
	err := cfg.Registry.Register("work", func(ctx context.Context, payload []byte) ([]byte, error) {
		job := exec.Task(ctx).Job
		h.mu.Lock()
		h.runs[job]++
		h.mu.Unlock()
		if string(payload) == "hold" {
			select {
			case <-h.release:
			case <-ctx.Done():
				h.stopped <- job
				return nil, context.Cause(ctx)
			}
		}
		return payload, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return h, startCluster(t, cfg)
}

func (h *heldWork) countRuns(job string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs[job]
}

// newWork returns tasks of "work", one for each payload.
func newWork(payloads ...string) (tasks []client.Task) {
	for _, p := range payloads {
		tasks = append(tasks, client.Task{Function: "work", Payload: []byte(p)})
	}
	return tasks
}

// waitAll waits for the job, and checks that each task has its payload as the result.
func waitAll(t *testing.T, who string, r *client.Running, tasks []client.Task) {
	t.Helper()
	outcomes, err := r.Wait()
	if err != nil {
		t.Errorf("%s: %v", who, err)
	}
	if len(outcomes) != len(tasks) {
		t.Fatalf("%s: %d outcomes of %d tasks", who, len(outcomes), len(tasks))
	}
	for i, o := range outcomes {
		if o.Task != i || string(o.Result) != string(tasks[i].Payload) {
			t.Errorf("%s: outcome %d is %+v", who, i, o)
		}
	}
}

// Processes with the same key share a job, even if each process knows another frontend, and if the frontend of the job
// is lost. No task runs twice.
func TestKey(t *testing.T) {
	h, cluster := startHeld(t, local.Config{Frontends: 3})
	job := client.Job{Tenant: "shop", Key: "order", Tasks: newWork("a", "hold", "b")}
	clients, runnings := make([]*client.Client, 3), make([]*client.Running, 3)
	var all sync.WaitGroup
	addrs := cluster.Frontends()
	for i, addr := range addrs {
		clients[i] = connectClient(t, []string{addr, addrs[(i+1)%len(addrs)]})
		all.Go(func() {
			var err error
			if runnings[i], err = clients[i].Submit(t.Context(), job); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	handle := runnings[0].Handle()
	for _, r := range runnings {
		if r.Handle() != handle {
			t.Errorf("the job is at %v and at %v", handle, r.Handle())
		}
	}
	for range 2 { // the outcomes of a and b reach the first process, and stay at the frontend for the others
		if _, err := runnings[0].Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := cluster.StopFrontend(slices.Index(cluster.Frontends(), handle.Owner)); err != nil {
		t.Fatal(err)
	}
	awaitMove(t, runnings[0], handle) // the resubmission brings the outcomes of a and b
	late := connectClient(t, cluster.Frontends())
	r, err := late.Submit(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	close(h.release)
	for i, running := range append(runnings[1:], r) {
		waitAll(t, fmt.Sprint("process ", i+1), running, job.Tasks)
	}
	if _, err := runnings[0].Wait(); err != nil {
		t.Error(err)
	}
	if n := h.countRuns(handle.Job); n != 3 {
		t.Errorf("3 tasks ran %d times", n)
	}

	other := job
	other.Tenant = ""
	outcomes, err := late.Run(t.Context(), other)
	if err != nil || len(outcomes) != 3 || h.countRuns(handle.Job) != 3 {
		t.Errorf("another tenant's job: %v, %v", outcomes, err)
	}
	larger := job
	larger.Tasks = newWork("a", "b", "c", "d")
	_, err = late.Run(t.Context(), larger)
	refused, ok := errors.AsType[*client.LateRefusalError](err)
	if !ok || !strings.Contains(refused.Message, "3 tasks") {
		t.Errorf("more tasks under the same key: %v", err)
	}
	job.ID = client.NewJobID()
	if _, err = late.Run(t.Context(), job); !errors.As(err, new(*client.RefusedError)) {
		t.Errorf("a job with a key and an id: %v", err)
	}
}

// A follower sees all outcomes, from the job's present owner, although the submitter has fetched outcomes before.
func TestAttachAcrossFrontends(t *testing.T) {
	h, cluster := startHeld(t, local.Config{Frontends: 2})
	tasks := newWork("a", "hold", "b", "hold")
	running, err := connectClient(t, cluster.Frontends()).Submit(t.Context(),
		client.Job{Grace: time.Minute, Tasks: tasks})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := running.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	handle := running.Handle()
	early, err := connectClient(t, cluster.Frontends()).Attach(t.Context(), handle)
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.StopFrontend(slices.Index(cluster.Frontends(), handle.Owner)); err != nil {
		t.Fatal(err)
	}
	awaitMove(t, running, handle)
	late, err := connectClient(t, cluster.Frontends()).Attach(t.Context(), handle)
	if err != nil {
		t.Fatal(err)
	}
	close(h.release)
	waitAll(t, "the early follower", early, tasks)
	waitAll(t, "the late follower", late, tasks)
	if _, err := running.Wait(); err != nil {
		t.Error(err)
	}
	if n := h.countRuns(handle.Job); n != 4 {
		t.Errorf("4 tasks ran %d times", n)
	}
}

// A job goes on after Leave: for its grace without a follower, and then with the follower alone. If the frontend is
// lost, too, the follower's error names the frontend.
func TestLeave(t *testing.T) {
	h, cluster := startHeld(t, local.Config{Frontends: 2, Frontend: func(_ int, c *fserve.Config) {
		c.ClientGrace = 2 * time.Second
	}})
	addrs := cluster.Frontends()
	leave := func(addr string, job client.Job) client.Handle {
		c := connectClient(t, []string{addr})
		defer c.Close()
		r, err := c.Submit(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		handle, err := r.Leave(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Wait(); !errors.Is(err, client.ErrLeft) {
			t.Errorf("after Leave: %v", err)
		}
		return handle
	}
	tasks := newWork("a", "hold")
	kept := leave(addrs[0], client.Job{Grace: time.Hour, Tasks: tasks})
	lost := leave(addrs[1], client.Job{Grace: time.Hour, Tasks: newWork("hold")})
	brief := leave(addrs[0], client.Job{Tasks: newWork("hold")})
	if job := <-h.stopped; job != brief.Job {
		t.Errorf("job %s was stopped, not the job without grace", job)
	}

	c := connectClient(t, addrs, client.WithRetryFor(2*time.Second))
	_, err := c.Attach(t.Context(), brief)
	if refused, ok := errors.AsType[*client.RefusedError](err); !ok || refused.Reason != client.UnknownJob {
		t.Errorf("the job without grace: %v", err)
	}
	r, err := c.Attach(t.Context(), client.Handle{Job: kept.Job}) // the owner is not known
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Seal(t.Context()); !errors.As(err, new(*client.RefusedError)) {
		t.Errorf("a follower may seal the job: %v", err)
	}
	abandoned, err := c.Attach(t.Context(), lost)
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.StopFrontend(1); err != nil {
		t.Fatal(err)
	}
	_, err = abandoned.Wait()
	if gone, ok := errors.AsType[*client.AbandonedError](err); !ok || gone.Owner != lost.Owner {
		t.Errorf("the job without frontend and submitter: %v", err)
	}
	close(h.release)
	waitAll(t, "the follower", r, tasks)
}

// Without Key and Grace, the frontend forgets what the submitter has fetched, and the follower learns which outcomes
// are missing. A follower takes nothing from the submitter.
func TestAttachToPlainJob(t *testing.T) {
	h, cluster := startHeld(t, local.Config{})
	c := connectClient(t, cluster.Frontends())
	tasks := newWork("a", "hold", "hold")
	running, err := c.Submit(t.Context(), client.Job{Tasks: tasks})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := running.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The outcome of the cancelled task comes with a later poll, and so the cursor is behind the outcome of a.
	if err := running.CancelTasks(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if o, err := running.Next(t.Context()); o.Task != 1 || err == nil {
		t.Fatal(o, err)
	}
	follower, err := c.Attach(t.Context(), running.Handle())
	if err != nil {
		t.Fatal(err)
	}
	close(h.release)
	outcomes, err := follower.Wait()
	unfinished, ok := errors.AsType[*client.UnfinishedError](err)
	if !ok || !slices.Contains(unfinished.Tasks, 0) || string(outcomes[2].Result) != "hold" {
		t.Errorf("%v, %v", outcomes, err)
	}
	if outcomes, err := running.Wait(); err != nil || len(outcomes) != 1 || outcomes[0].Task != 2 {
		t.Errorf("the submitter got %v, %v", outcomes, err)
	}
}
