package client_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// blockUntilStopped returns a function that runs until its task is stopped, and then sends the task's index to
// stopped.
func blockUntilStopped(stopped chan<- int) exec.Func {
	return func(ctx context.Context, _ []byte) ([]byte, error) {
		<-ctx.Done()
		stopped <- exec.Task(ctx).Index
		return nil, context.Cause(ctx)
	}
}

// Tasks of CancelTasks are stopped, and the next stage starts without them.
func TestCancelTasks(t *testing.T) {
	stopped := make(chan int, 2)
	_, c := startPassing(t, local.Config{}, map[string]exec.Func{
		"block": blockUntilStopped(stopped), "leave": writeOutput, "look": readInputs,
	})
	r, err := c.Submit(t.Context(), client.Job{
		Stages: []client.Stage{{Name: "a"}, {Name: "b", After: []string{"a"}}},
		Tasks: []client.Task{
			{Stage: "a", Function: "leave", Payload: []byte("7")}, {Stage: "a", Function: "block"},
			{Stage: "a", Function: "block"},
			{Stage: "b", Function: "look", Inputs: []client.Input{{Stage: "a", Pass: client.Inline}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := r.Next(t.Context()); err != nil || o.Task != 0 {
		t.Fatal(o, err)
	}
	if err := r.CancelTasks(t.Context(), 1, 2); err != nil {
		t.Fatal(err)
	}
	outs, _ := r.Wait()
	for _, o := range outs {
		var failed *client.TaskError
		if cancelled := errors.As(o.Err, &failed) && failed.Reason == client.Cancelled; cancelled != (o.Task < 3) {
			t.Errorf("%+v", o)
		}
	}
	if last := outs[len(outs)-1]; string(last.Result) != "a.0:7 " {
		t.Errorf("%+v", last)
	}
	<-stopped
	<-stopped
}

// After Satisfied, there is no error, and running tasks are stopped.
func TestSatisfied(t *testing.T) {
	stopped := make(chan int, 1)
	_, c := startPassing(t, local.Config{}, map[string]exec.Func{"block": blockUntilStopped(stopped)})
	r, err := c.Submit(t.Context(), client.Job{
		Tasks: []client.Task{{Function: "echo", Payload: []byte("enough")}, {Function: "block"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := r.Next(t.Context()); err != nil || string(o.Result) != "enough" {
		t.Fatal(o, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	if err := r.Satisfied(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o, err := r.Next(t.Context()); err != io.EOF {
		t.Error(o, err)
	}
	if outs, err := r.Wait(); len(outs) > 0 || err != nil {
		t.Error(outs, err)
	}
	<-stopped
}

// A client that reads slowly holds at most the window and one answer of unread results. In the end it gets all results.
func TestWindow(t *testing.T) {
	_, c := startPassing(t, local.Config{}, nil)
	const n, size = 40, 256 << 10
	job := client.Job{Window: 1 << 20}
	for range n {
		job.Tasks = append(job.Tasks, client.Task{Function: "echo", Payload: make([]byte, size)})
	}
	r, err := c.Submit(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	for got := 0; ; got++ {
		o, err := r.Next(t.Context())
		if err == io.EOF {
			if got != n {
				t.Errorf("%d results", got)
			}
			return
		}
		if err != nil || len(o.Result) != size {
			t.Fatal(o, err)
		}
		if most := int64(1<<20 + 4<<20 + size); r.Unread() > most {
			t.Fatalf("%d bytes are unread", r.Unread())
		}
	}
}

// Close does not wait for a reader of the results.
func TestCloseUnread(t *testing.T) {
	_, c := startPassing(t, local.Config{}, nil)
	job := client.Job{Window: 1}
	for range 40 {
		job.Tasks = append(job.Tasks, client.Task{Function: "echo", Payload: make([]byte, 1<<20)})
	}
	if _, err := c.Submit(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("Close waits for a reader")
	}
}
