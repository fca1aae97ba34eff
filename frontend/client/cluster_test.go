package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	fserve "github.com/phoebe-sched/phoebe/frontend/serve"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// The tests of this file run against real frontends and workers.

// startCluster starts a cluster, which ends with the test.
func startCluster(t *testing.T, cfg local.Config) *local.Cluster {
	cluster, err := local.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.Close() })
	return cluster
}

// connectClient makes a client, which is closed at the end of the test.
func connectClient(t *testing.T, addrs []string, opts ...client.Option) *client.Client {
	c, err := client.New(addrs, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestJobsOnACluster(t *testing.T) {
	cluster := startCluster(t, local.Config{Frontends: 2, Workers: 3, Secret: "s3cret"})
	c := connectClient(t, cluster.Frontends(), client.WithSecret("s3cret"))
	for _, n := range []int{1, 100, 2000} { // the last is submitted
		job := client.Job{Tenant: "t", Phases: true}
		for i := range n {
			job.Tasks = append(job.Tasks, client.Task{Function: "echo", Payload: fmt.Append(nil, i)})
		}
		outs, err := c.Run(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range outs {
			if o.Task != i || string(o.Result) != fmt.Sprint(i) || o.Attempts < 1 || o.Phases == nil {
				t.Fatalf("%d: %+v", i, o)
			}
		}
	}
	_, err := c.Run(t.Context(), client.Job{Tasks: []client.Task{{Function: "no-such"}}})
	if r, ok := errors.AsType[*client.RefusedError](err); !ok || r.Reason != client.NoWorker {
		t.Error(err)
	}
	_, err = connectClient(t, cluster.Frontends()).Run(t.Context(), client.Job{
		Tasks: []client.Task{{Function: "echo"}},
	})
	if r, ok := errors.AsType[*client.RefusedError](err); !ok || r.Reason != client.Unauthorized {
		t.Error(err)
	}
}

// gate is a function, named "gate" for workers, whose runs end when the test closes open.
type gate struct {
	begun chan struct{} // gets a value at the start of each run
	open  chan struct{}
	ran   atomic.Int32 // number of runs
	ended atomic.Int32 // number of runs that were stopped
}

// newGate registers a gate.
func newGate(t *testing.T, r *exec.Registry) *gate {
	g := &gate{begun: make(chan struct{}, 100), open: make(chan struct{})}
	err := r.Register("gate", func(ctx context.Context, payload []byte) ([]byte, error) {
		g.ran.Add(1)
		g.begun <- struct{}{}
		select {
		case <-g.open:
			return payload, nil
		case <-ctx.Done():
			g.ended.Add(1)
			return nil, ctx.Err()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestAttemptsOutliveTheirFrontend(t *testing.T) {
	for _, submit := range []bool{false, true} {
		registry := exec.NewRegistry()
		g := newGate(t, registry)
		cluster := startCluster(t, local.Config{Frontends: 1, Workers: 2, Registry: registry})
		doomed, err := fserve.New(fserve.Config{Listen: "127.0.0.1:0", Workers: fserve.Static(cluster.Workers())})
		if err != nil {
			t.Fatal(err)
		}
		if err := doomed.Start(); err != nil {
			t.Fatal(err)
		}
		// The client begins with the second frontend. The first must not see the job while the second lives.
		c := connectClient(t, []string{cluster.Frontends()[0], doomed.Addr()})
		job := client.Job{Tasks: make([]client.Task, 4)}
		for i := range job.Tasks {
			job.Tasks[i] = client.Task{Function: "gate", Payload: fmt.Append(nil, i), Once: i%2 == 0}
		}
		type result struct {
			outs []client.Outcome
			err  error
		}
		results := make(chan result, 1)
		go func() {
			var res result
			if submit {
				r, err := c.Submit(t.Context(), job)
				if err == nil {
					res.outs, err = r.Wait()
				}
				res.err = err
			} else {
				res.outs, res.err = c.Run(t.Context(), job)
			}
			results <- res
		}()
		for range job.Tasks {
			<-g.begun
		}
		doomed.Close()
		var moved *admin.Cluster
		for moved == nil || moved.TasksRunning != len(job.Tasks) {
			if moved, err = admin.New(c).Cluster(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		close(g.open)
		res := <-results
		if res.err != nil {
			t.Fatal(res.err)
		}
		for i, o := range res.outs {
			if string(o.Result) != fmt.Sprint(i) {
				t.Errorf("%d: %+v", i, o)
			}
		}
		if n := g.ran.Load(); int(n) != len(job.Tasks) {
			t.Errorf("%d tasks ran %d times", len(job.Tasks), n)
		}
	}
}

func TestEndOfContextEndsTheAttempts(t *testing.T) {
	registry := exec.NewRegistry()
	g := newGate(t, registry)
	cluster := startCluster(t, local.Config{Registry: registry})
	c := connectClient(t, cluster.Frontends())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := c.Run(ctx, client.Job{Tasks: []client.Task{{Function: "gate"}, {Function: "gate"}}})
		done <- err
	}()
	<-g.begun
	<-g.begun
	cancel()
	if _, ok := errors.AsType[*client.UnfinishedError](<-done); !ok {
		t.Error(ok)
	}
	for g.ended.Load() != 2 {
		if _, err := c.Workers(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// The stages of a job run in order, even if the job's frontend is lost in between. After that, Explain finds the
// frontend that made the decisions.
func TestStagesOutliveTheirFrontend(t *testing.T) {
	registry := exec.NewRegistry()
	started, finish := make(chan struct{}, 1), make(chan struct{})
	var mapped, early atomic.Bool
	register := func(name string, f exec.Func) {
		if err := registry.Register(name, f); err != nil {
			t.Fatal(err)
		}
	}
	register("slow", func(ctx context.Context, _ []byte) ([]byte, error) {
		started <- struct{}{}
		select {
		case <-finish:
		case <-ctx.Done():
		}
		mapped.Store(true)
		return nil, ctx.Err()
	})
	register("reduce", func(context.Context, []byte) ([]byte, error) {
		if !mapped.Load() {
			early.Store(true)
		}
		return []byte("reduced"), nil
	})
	cluster := startCluster(t, local.Config{Frontends: 1, Workers: 2, Registry: registry})
	doomed, err := fserve.New(fserve.Config{Listen: "127.0.0.1:0", Workers: fserve.Static(cluster.Workers())})
	if err != nil {
		t.Fatal(err)
	}
	if err := doomed.Start(); err != nil {
		t.Fatal(err)
	}
	for tick := time.NewTicker(time.Millisecond); doomed.Ready() != nil; <-tick.C {
		if t.Context().Err() != nil {
			t.Fatal(doomed.Ready())
		}
	}
	c := connectClient(t, []string{cluster.Frontends()[0], doomed.Addr()}) // it begins with the second of two
	job := client.Job{
		Stages: []client.Stage{{Name: "map"}, {Name: "reduce", After: []string{"map"}}},
		Tasks: []client.Task{
			{Stage: "map", Function: "echo"}, {Stage: "map", Function: "echo"}, {Stage: "map", Function: "slow"},
			{Stage: "reduce", Function: "reduce", Inputs: []client.Input{{Stage: "map", Bytes: 1e9}}},
		},
	}
	running, err := c.Submit(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	<-started
	owner := running.Handle().Owner
	if owner != doomed.Addr() {
		t.Fatalf("the job is at %s, not at %s", owner, doomed.Addr())
	}
	if err := doomed.Close(); err != nil {
		t.Fatal(err)
	}
	close(finish)
	outs, err := running.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if len(outs) != 4 || string(outs[3].Result) != "reduced" || early.Load() {
		t.Errorf("early: %t, %+v", early.Load(), outs)
	}
	x, err := c.Explain(t.Context(), client.Handle{Job: running.Handle().Job, Owner: owner}, 3)
	if err != nil {
		t.Fatal(err)
	}
	if d := x.Decisions[0]; d.Cause != "inputs" || d.Worker != outs[3].Worker || len(d.Candidates) != 2 {
		t.Errorf("%+v", x)
	}
}

// If the results of a Run are too large together, the error does not say that nothing was started.
func TestResultsTooLargeForRun(t *testing.T) {
	cluster := startCluster(t, local.Config{Frontend: func(_ int, c *fserve.Config) { c.MaxRunResult = 100 }})
	c := connectClient(t, cluster.Frontends())
	task := client.Task{Function: "echo", Payload: make([]byte, 200)}
	_, err := c.Run(t.Context(), client.Job{Tasks: []client.Task{task}})
	late, is := errors.AsType[*client.LateRefusalError](err)
	if _, refused := errors.AsType[*client.RefusedError](err); refused || !is || late.Reason != client.TooLarge {
		t.Error(err)
	}
}
