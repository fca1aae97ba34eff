package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	fserve "github.com/phoebe-sched/phoebe/frontend/serve"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// A job gets new stages when all its tasks have ended. The new tasks read the outputs of the old tasks.
func TestExtend(t *testing.T) {
	_, c := startPassing(t, local.Config{}, map[string]exec.Func{"leave": writeOutput, "look": readInputs})
	r, err := c.Submit(t.Context(), client.Job{Open: true, Stages: []client.Stage{{Name: "s0"}},
		Tasks: []client.Task{{Stage: "s0", Function: "leave", Payload: []byte("7")}}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if o, err := r.Next(t.Context()); err != nil || o.Task != 2*i || i > 0 && string(o.Result) != "" {
			t.Fatalf("task %d: %q, %v", o.Task, o.Result, err)
		}
		before, name := fmt.Sprint("s", i), fmt.Sprint("s", i+1)
		err := r.Extend(t.Context(), []client.Stage{{Name: "look" + before, After: []string{before}},
			{Name: name, After: []string{"look" + before}}}, []client.Task{
			{Stage: "look" + before, Function: "look", Inputs: []client.Input{{Stage: before, Pass: client.Inline}}},
			{Stage: name, Function: "leave", Payload: []byte("7")},
		})
		if err != nil {
			t.Fatal(err)
		}
		if o, err := r.Next(t.Context()); err != nil || o.Task != 2*i+1 ||
			string(o.Result) != fmt.Sprintf("%s.%d:7 ", before, 2*i) {
			t.Fatalf("task %d: %q, %v", o.Task, o.Result, err)
		}
	}
	if err := r.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if outs, err := r.Wait(); err != nil || len(outs) != 1 || outs[0].Task != 10 {
		t.Error(outs, err)
	}
	var refused *client.RefusedError
	if err := r.Extend(t.Context(), nil, []client.Task{{Stage: "s0", Function: "leave"}}); !errors.As(
		err, &refused) || refused.Reason != client.UnknownJob {
		t.Error(err)
	}
	if err := r.Seal(t.Context()); err != nil {
		t.Error(err)
	}
}

// A refused addition changes nothing, and the error says why.
func TestExtendRefused(t *testing.T) {
	_, c := startPassing(t, local.Config{}, nil)
	echo := client.Task{Function: "echo", Payload: []byte("x")}
	closed, err := c.Submit(t.Context(), client.Job{Tasks: []client.Task{{Function: "sleep", Payload: []byte("1h")}}})
	if err != nil {
		t.Fatal(err)
	}
	open, err := c.Submit(t.Context(), client.Job{Open: true})
	if err != nil {
		t.Fatal(err)
	}
	for says, err := range map[string]error{
		"the job is not open":      closed.Extend(t.Context(), nil, []client.Task{echo}),
		"no worker has a function": open.Extend(t.Context(), nil, []client.Task{{Function: "none"}}),
		"list the stage":           open.Extend(t.Context(), nil, []client.Task{{Function: "echo", Stage: "none"}}),
		"the limit is 100000":      open.Extend(t.Context(), nil, slices.Repeat([]client.Task{echo}, 100_001)),
		"job.open: Run waits for its": func() error {
			_, err := c.Run(t.Context(), client.Job{Open: true})
			return err
		}(),
	} {
		var refused *client.RefusedError
		if !errors.As(err, &refused) || !strings.Contains(refused.Message, says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	if err := open.Extend(t.Context(), nil, []client.Task{echo}); err != nil {
		t.Fatal(err)
	}
	if o, err := open.Next(t.Context()); err != nil || o.Task != 0 || string(o.Result) != "x" {
		t.Error(o, err)
	}
	if err := open.Satisfied(t.Context()); err != nil {
		t.Error(err)
	}
	if o, err := open.Next(t.Context()); err != io.EOF {
		t.Error(o, err)
	}
	if err := closed.Cancel(t.Context()); err != nil {
		t.Error(err)
	}
}

// A job with additions moves to another frontend with all its tasks, and takes further additions there.
func TestExtendFailsOver(t *testing.T) {
	started, release := make(chan string, 10), make(chan struct{})
	cluster, c := startPassing(t, local.Config{Frontends: 2}, map[string]exec.Func{
		"wait": func(ctx context.Context, payload []byte) ([]byte, error) {
			started <- string(payload)
			select {
			case <-release:
			case <-ctx.Done():
			}
			return payload, nil
		},
	})
	r, err := c.Submit(t.Context(), client.Job{
		Open: true, Tasks: []client.Task{{Function: "echo", Payload: []byte("0")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := r.Next(t.Context()); err != nil || string(o.Result) != "0" {
		t.Fatal(o, err)
	}
	if err := r.Extend(t.Context(), nil, []client.Task{{Function: "wait", Payload: []byte("1"), Once: true},
		{Function: "wait", Payload: []byte("2")}}); err != nil {
		t.Fatal(err)
	}
	for <-started != "1" { // wait for the start: with young workers, nobody could prove that a task never started
	}
	if err := cluster.StopFrontend(slices.Index(cluster.Frontends(), r.Handle().Owner)); err != nil {
		t.Fatal(err)
	}
	if err := r.Extend(t.Context(), nil, []client.Task{{Function: "echo", Payload: []byte("3")}}); err != nil {
		t.Fatal(err)
	}
	close(release)
	if err := r.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	outs, err := r.Wait()
	if err != nil || len(outs) != 3 {
		t.Fatal(outs, err)
	}
	for i, o := range outs {
		if o.Task != i+1 || string(o.Result) != fmt.Sprint(i+1) {
			t.Errorf("%+v", o)
		}
	}
}

// A job that has grown beyond the size of a request moves to another frontend in parts. No task runs twice or is lost.
func TestLargeOpenJobFailsOver(t *testing.T) {
	const calls, tasksPerCall, most = 12, 4, 64 << 10
	release := make(chan struct{})
	var runs [calls * tasksPerCall]atomic.Int32
	cluster, _ := startPassing(t, local.Config{
		Frontends: 2, Frontend: func(_ int, c *fserve.Config) { c.MaxRequest = most + 1<<10 },
	}, map[string]exec.Func{
		"wait": func(ctx context.Context, payload []byte) ([]byte, error) {
			select {
			case <-release:
				runs[payload[0]].Add(1)
				return payload[:1], nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	})
	c := connectClient(t, cluster.Frontends(), client.WithMaxRequest(most))
	r, err := c.Submit(t.Context(), client.Job{Open: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range calls {
		tasks := make([]client.Task, tasksPerCall)
		for k := range tasks {
			payload := make([]byte, 10<<10)
			payload[0] = byte(i*tasksPerCall + k)
			tasks[k] = client.Task{Function: "wait", Payload: payload}
		}
		if err := r.Extend(t.Context(), nil, tasks); err != nil {
			t.Fatal(err)
		}
	}
	if err := cluster.StopFrontend(slices.Index(cluster.Frontends(), r.Handle().Owner)); err != nil {
		t.Fatal(err)
	}
	if err := r.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(release)
	outs, err := r.Wait()
	if err != nil || len(outs) != calls*tasksPerCall {
		t.Fatal(len(outs), err)
	}
	for i, o := range outs {
		if o.Task != i || len(o.Result) != 1 || int(o.Result[0]) != i || runs[i].Load() != 1 {
			t.Errorf("%+v, %d runs", o, runs[i].Load())
		}
	}
}

// An open job that gets tasks without end keeps no payloads of ended tasks, at the client nor at frontend and worker.
func TestOpenJobForgetsPayloads(t *testing.T) {
	const tasks, size = 150, 900 << 10
	_, c := startPassing(t, local.Config{}, map[string]exec.Func{
		"swallow": func(context.Context, []byte) ([]byte, error) { return nil, nil },
	})
	r, err := c.Submit(t.Context(), client.Job{Open: true,
		Tasks: []client.Task{{Function: "swallow", Payload: make([]byte, size)}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	kept := client.HeapAfter(func() {
		for range tasks {
			err := r.Extend(t.Context(), nil, []client.Task{{Function: "swallow", Payload: make([]byte, size)}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
	if kept > tasks*size/4 {
		t.Errorf("%d bytes stay of %d", kept, tasks*size)
	}
	if err := r.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(); err != nil {
		t.Error(err)
	}
}
