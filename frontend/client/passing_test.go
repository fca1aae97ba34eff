package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker/exec"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

// startPassing starts a cluster whose workers have caches and the given functions, and connects a client.
func startPassing(t *testing.T, cfg local.Config, functions map[string]exec.Func) (*local.Cluster, *client.Client) {
	t.Helper()
	cfg.Registry = exec.NewRegistry()
	for name, f := range functions {
		if err := cfg.Registry.Register(name, f); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	more := cfg.Worker
	cfg.Worker = func(i int, c *wserve.Config) {
		if c.CacheDir = filepath.Join(dir, fmt.Sprint("worker-", i)); more != nil {
			more(i, c)
		}
	}
	cluster, err := local.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.Close() })
	c, err := client.New(cluster.Frontends())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return cluster, c
}

// writeOutput is a function that writes into partition 0. The payload is the number of bytes. Each byte is the task's
// index.
func writeOutput(ctx context.Context, payload []byte) ([]byte, error) {
	var n int
	fmt.Sscan(string(payload), &n)
	out, err := exec.Output(ctx, 0)
	if err != nil {
		return nil, err
	}
	for n > 0 {
		some := min(n, 100_000)
		if _, err := out.Write(bytes.Repeat([]byte{byte(exec.Task(ctx).Index)}, some)); err != nil {
			return nil, err
		}
		n -= some
	}
	return nil, out.Close()
}

// readInputs is a function that checks its inputs by Open and by Path, and returns the number of bytes of each.
func readInputs(ctx context.Context, _ []byte) ([]byte, error) {
	var said []byte
	for _, in := range exec.Inputs(ctx) {
		r, err := in.Open(ctx)
		if err != nil {
			return nil, err
		}
		all, err := io.ReadAll(r)
		r.Close()
		if err != nil || int64(len(all)) != in.Bytes || bytes.Count(all, []byte{byte(in.Task)}) != len(all) {
			return nil, fmt.Errorf("task %d: %d of %d bytes, %v", in.Task, len(all), in.Bytes, err)
		}
		path, err := in.Path(ctx)
		if err != nil {
			return nil, err
		}
		if again, err := os.ReadFile(path); err != nil || !bytes.Equal(all, again) {
			return nil, fmt.Errorf("task %d: the file has %d bytes, %v", in.Task, len(again), err)
		}
		said = fmt.Appendf(said, "%s.%d:%d ", in.Stage, in.Task, in.Bytes)
	}
	return said, nil
}

func TestPassing(t *testing.T) {
	_, c := startPassing(t, local.Config{}, map[string]exec.Func{"leave": writeOutput, "look": readInputs})
	for _, pass := range []client.Pass{client.Inline, client.AsFile} {
		job := client.Job{Stages: []client.Stage{{Name: "a"}, {Name: "b", After: []string{"a"}}}}
		for _, n := range []string{"0", "10", "300000", "3000000"} {
			job.Tasks = append(job.Tasks, client.Task{Stage: "a", Function: "leave", Payload: []byte(n)})
		}
		for range 4 {
			job.Tasks = append(job.Tasks, client.Task{
				Stage: "b", Function: "look", Inputs: []client.Input{{Stage: "a", Pass: pass}},
			})
		}
		outs, err := c.Run(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range outs[4:] {
			if want := "a.0:0 a.1:10 a.2:300000 a.3:3000000 "; string(o.Result) != want {
				t.Errorf("%q: task %d got %q", pass, o.Task, o.Result)
			}
		}
	}
}

// Outputs from before the loss of a frontend reach tasks that start later, and so does the common data of stages.
func TestPassingFailsOver(t *testing.T) {
	release := make(chan struct{})
	started := make(chan struct{}, 1)
	cluster, c := startPassing(t, local.Config{Frontends: 2}, map[string]exec.Func{
		"leave": writeOutput,
		"wait": func(ctx context.Context, _ []byte) ([]byte, error) {
			started <- struct{}{}
			select {
			case <-release:
			case <-ctx.Done():
			}
			return nil, nil
		},
		"look": func(ctx context.Context, p []byte) ([]byte, error) {
			said, err := readInputs(ctx, p)
			return append(said, exec.Common(ctx)...), err
		},
	})
	r, err := c.Submit(t.Context(), client.Job{
		Stages: []client.Stage{
			{Name: "a"}, {Name: "w", After: []string{"a"}},
			{Name: "b", After: []string{"a", "w"}, Common: []byte("in common")},
		},
		Tasks: []client.Task{
			{Stage: "a", Function: "leave", Payload: []byte("10")},
			{Stage: "a", Function: "leave", Payload: []byte("1000000")},
			{Stage: "w", Function: "wait"},
			{Stage: "b", Function: "look", Inputs: []client.Input{{Stage: "a", Pass: client.Inline}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	<-started
	for n := 0; n < 2; n++ { // the client has the outputs of stage a
		if _, ok := nextOutcome(r); !ok {
			t.Fatal("no outcome")
		}
	}
	if err := cluster.StopFrontend(slices.Index(cluster.Frontends(), r.Handle().Owner)); err != nil {
		t.Fatal(err)
	}
	close(release)
	outs, err := r.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if last := outs[len(outs)-1]; string(last.Result) != "a.0:10 a.1:1000000 in common" {
		t.Errorf("%q", last.Result)
	}
}

// passingJob returns a job whose last task reads the output of its first task, after a task in between has waited. The
// output has the given number of bytes.
func passingJob(bytes string) client.Job {
	return client.Job{
		Stages: []client.Stage{{Name: "a"}, {Name: "w", After: []string{"a"}}, {Name: "b", After: []string{"a", "w"}}},
		Tasks: []client.Task{
			{Stage: "a", Function: "leave", Payload: []byte(bytes)},
			{Stage: "w", Function: "wait"},
			{Stage: "b", Function: "look", Inputs: []client.Input{{Stage: "a", Pass: client.AsFile}}},
		},
	}
}

// waitFor returns a function that waits until release is closed.
func waitFor(release <-chan struct{}) exec.Func {
	return func(ctx context.Context, _ []byte) ([]byte, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil, nil
	}
}

// A worker dies with an output for later stages. The task runs again, and the client gets its outcome only once. The
// same holds if the task's frontend dies, too: the next frontend has the task's description from the client.
func TestLostOutputsAreMadeAgain(t *testing.T) {
	for _, frontend := range []bool{false, true} {
		release := make(chan struct{})
		cluster, c := startPassing(t, local.Config{Workers: 2, Frontends: 2}, map[string]exec.Func{
			"leave": writeOutput, "look": readInputs,
			"wait": waitFor(release),
		})
		r, err := c.Submit(t.Context(), passingJob("1000000"))
		if err != nil {
			t.Fatal(err)
		}
		first, _ := nextOutcome(r)
		var worker int
		if _, err := fmt.Sscanf(first.Worker, "worker-%d", &worker); err != nil || first.Task != 0 {
			t.Fatalf("%+v, %v", first, err)
		}
		if frontend {
			if err := cluster.StopFrontend(slices.Index(cluster.Frontends(), r.Handle().Owner)); err != nil {
				t.Fatal(err)
			}
		}
		if err := cluster.StopWorker(worker); err != nil {
			t.Fatal(err)
		}
		close(release)
		outs, err := r.Wait()
		if err != nil {
			t.Errorf("without the frontend %t: %v", frontend, err)
		} else if len(outs) != 2 || string(outs[1].Result) != "a.0:1000000 " || outs[1].Worker == first.Worker {
			t.Errorf("%+v", outs)
		}
	}
}

// If a worker drops an output to make room for other files, the task runs again.
func TestThrownAwayOutputsAreMadeAgain(t *testing.T) {
	release := make(chan struct{})
	var runs atomic.Int32
	_, c := startPassing(t, local.Config{Workers: 1, Worker: func(_ int, w *wserve.Config) { w.CacheSize = 4 << 20 }},
		map[string]exec.Func{
			"leave": func(ctx context.Context, payload []byte) ([]byte, error) {
				runs.Add(1)
				return writeOutput(ctx, payload)
			},
			"look": readInputs,
			"wait": waitFor(release),
		})
	r, err := c.Submit(t.Context(), passingJob("2000000"))
	if err != nil {
		t.Fatal(err)
	}
	if first, _ := nextOutcome(r); first.Err != nil {
		t.Fatal(first.Err)
	}
	if _, err := c.Run(t.Context(), client.Job{Stages: []client.Stage{{Name: "a"}},
		Tasks: []client.Task{{Stage: "a", Function: "leave", Payload: []byte("3000000")}}}); err != nil {
		t.Fatal(err)
	}
	close(release)
	outs, err := r.Wait()
	if err != nil || string(outs[len(outs)-1].Result) != "a.0:2000000 " || runs.Load() != 3 {
		t.Errorf("%+v, %v, after %d runs", outs, err, runs.Load())
	}
}

// nextOutcome returns the next outcome. If there is none, ok is false.
func nextOutcome(r *client.Running) (o client.Outcome, ok bool) {
	for o := range r.Results() {
		return o, true
	}
	return o, false
}

func TestTaskInfo(t *testing.T) {
	_, c := startPassing(t, local.Config{Workers: 1}, map[string]exec.Func{
		"info": func(ctx context.Context, _ []byte) ([]byte, error) {
			info := exec.Task(ctx)
			if info.Attempt < 3 {
				return nil, errors.New("again")
			}
			if timeLeft := time.Until(info.Deadline); timeLeft <= 0 || timeLeft > time.Minute {
				return nil, exec.Permanent(fmt.Errorf("%v left", timeLeft))
			}
			info.Deadline = time.Time{}
			return fmt.Appendf(nil, "%+v", info), nil
		},
	})
	id := client.NewJobID()
	outs, err := c.Run(t.Context(), client.Job{
		ID: id, Tenant: "etl", Deadline: time.Minute, Stages: []client.Stage{{Name: "a"}},
		Tasks: []client.Task{{Stage: "a", Function: "echo"},
			{Stage: "a", Function: "info", Retries: 2, Demand: client.Demand{CPU: 2000, Memory: 512}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("{Job:%s Stage:a Index:1 Partition:1 Attempt:3 Tenant:etl Worker:worker-0 CPU:2000 Memory:512 Deadline:0001-01-01 00:00:00 +0000 UTC Traceparent:}", id)
	if string(outs[1].Result) != want {
		t.Errorf("%s\nwant\n%s", outs[1].Result, want)
	}
}

// A worker of an earlier release, without passing, gets no task with passed inputs.
func TestOldWorkersPassNothing(t *testing.T) {
	spoken := probe.Spoken
	probe.Spoken.Features &^= probe.Passing
	t.Cleanup(func() { probe.Spoken = spoken })
	_, c := startPassing(t, local.Config{}, map[string]exec.Func{"leave": writeOutput, "look": readInputs})
	_, err := c.Run(t.Context(), client.Job{
		Stages: []client.Stage{{Name: "a"}, {Name: "b", After: []string{"a"}}},
		Tasks: []client.Task{{Stage: "a", Function: "leave"},
			{Stage: "b", Function: "look", Inputs: []client.Input{{Stage: "a", Pass: client.Inline}}}},
	})
	var refused *client.RefusedError
	if !errors.As(err, &refused) || refused.Reason != client.NoWorker ||
		!strings.Contains(refused.Message, "upgrade the workers") {
		t.Error(err)
	}
}

// A function's error carries a code for programs, and says where to try again.
func TestTypedErrors(t *testing.T) {
	_, c := startPassing(t, local.Config{}, map[string]exec.Func{
		"missing": func(ctx context.Context, at []byte) ([]byte, error) {
			switch worker := exec.Task(ctx).Worker; {
			case string(at) == "":
				return nil, &exec.Error{
					Code: "no_table", Detail: []byte("orders"), Retry: exec.Never, Err: errors.New("it is gone"),
				}
			case exec.Task(ctx).Attempt == 1:
				return []byte(worker), &exec.Error{
					Code: "try_elsewhere", Retry: exec.Elsewhere, Err: errors.New(worker),
				}
			default:
				return []byte(worker), nil
			}
		},
	})
	_, err := c.Run(t.Context(), client.Job{Tasks: []client.Task{{Function: "missing", Retries: 5}}})
	var failed *client.TaskError
	if !errors.As(err, &failed) || failed.Attempts != 1 || failed.Code != "no_table" ||
		string(failed.Detail) != "orders" || failed.Retry != client.RetryNever ||
		failed.Message != "no_table: it is gone" {
		t.Errorf("%+v", failed)
	}
	id := client.NewJobID()
	outs, err := c.Run(t.Context(), client.Job{
		ID: id, Tasks: []client.Task{{Function: "missing", Payload: []byte("x"), Retries: 5}},
	})
	if err != nil || outs[0].Attempts != 2 {
		t.Fatalf("%+v, %v", outs, err)
	}
	trace, err := c.Trace(t.Context(), id, 0, 0)
	if err != nil || len(trace.Tasks) != 1 || len(trace.Tasks[0].Earlier) != 1 {
		t.Fatalf("%+v, %v", trace, err)
	}
	k := &trace.Tasks[0]
	if e := &k.Earlier[0]; e.End != "failed" || e.Worker == "" || e.Worker == k.Worker ||
		k.Worker != outs[0].Worker || e.Started < e.Sent || e.Ended < e.Started ||
		k.Ends[client.MeasureLaunch] < e.Ended {
		t.Errorf("the first attempt is %+v, of %+v", e, k)
	}
}

// A failed task is tried again only after Backoff.
func TestBackoff(t *testing.T) {
	var failed time.Time
	_, c := startPassing(t, local.Config{}, map[string]exec.Func{
		"once": func(ctx context.Context, _ []byte) ([]byte, error) {
			if exec.Task(ctx).Attempt == 1 {
				failed = time.Now()
				return nil, errors.New("not yet")
			}
			return fmt.Append(nil, time.Since(failed)), nil
		},
	})
	const backoff = 30 * time.Millisecond
	outs, err := c.Run(t.Context(), client.Job{Tasks: []client.Task{{Function: "once", Retries: 1, Backoff: backoff}}})
	if err != nil {
		t.Fatal(err)
	}
	if after, err := time.ParseDuration(string(outs[0].Result)); err != nil || after < backoff {
		t.Errorf("it was tried again after %v, %v", after, err)
	}
}

// With Along, a task gets the output of its own partition in the earlier stage, even from before the loss of its
// frontend.
func TestPassingAlong(t *testing.T) {
	release := make(chan struct{})
	cluster, c := startPassing(t, local.Config{Frontends: 2}, map[string]exec.Func{
		"leave": func(ctx context.Context, payload []byte) ([]byte, error) {
			if exec.Task(ctx).Partition == 0 {
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			return writeOutput(ctx, payload)
		},
		"wait": func(ctx context.Context, payload []byte) ([]byte, error) {
			select {
			case <-release:
			case <-ctx.Done():
			}
			return readInputs(ctx, payload)
		},
		"look": readInputs,
	})
	from := []client.Input{{Stage: "a", Pass: client.Inline}}
	r, err := c.Submit(t.Context(), client.Job{
		Stages: []client.Stage{{Name: "a"}, {Name: "b", After: []string{"a"}, Along: []string{"a"}}},
		Tasks: []client.Task{
			{Stage: "a", Function: "leave", Payload: []byte("10")},
			{Stage: "a", Function: "leave", Payload: []byte("11")},
			{Stage: "a", Function: "leave", Payload: []byte("12")},
			{Stage: "b", Function: "look", Inputs: from}, {Stage: "b", Function: "look", Inputs: from},
			{Stage: "b", Function: "wait", Inputs: from, Along: []int{1, 2}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[int]string{}
	for range 3 { // the tasks that do not depend on task 0
		o, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got[o.Task] = string(o.Result)
	}
	if err := cluster.StopFrontend(slices.Index(cluster.Frontends(), r.Handle().Owner)); err != nil {
		t.Fatal(err)
	}
	close(release)
	for range 3 {
		o, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got[o.Task] = string(o.Result)
	}
	for i, want := range []string{"", "", "", "a.0:10 ", "a.1:11 ", "a.1:11 a.2:12 "} {
		if got[i] != want {
			t.Errorf("task %d: %q, not %q", i, got[i], want)
		}
	}
}
