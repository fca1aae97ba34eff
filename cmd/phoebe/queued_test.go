package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
)

// A long task waits behind a task that runs longer than expected. The task gets a copy at a worker with room. The
// copy starts there, the first place in the queue is withdrawn, and there is one outcome.
func TestCopyOfQueued(t *testing.T) {
	t.Run("gossip", func(t *testing.T) {
		t.Parallel()
		g := startGossiper(t)
		var addrs []string
		for _, name := range []string{"w0", "w1"} {
			addrs = append(addrs, startPhoebe(t, "worker", "--listen", "127.0.0.1:0", "--name", name, "--allow-exec",
				"--slots", "1", "--join", g.heartbeat).workerAddr())
		}
		g.awaitWorkers(addrs...)
		copyOfQueued(t, g.api)
	})
	t.Run("list", func(t *testing.T) {
		t.Parallel()
		copyOfQueued(t, startFleet(t, 1, 2, nil, []string{"--slots", "1"}).frontendAddrs[0])
	})
}

// copyOfQueued runs the test by a frontend with two workers, each with a slot.
func copyOfQueued(t *testing.T, api string) {
	c, dir := newClient(t, api), t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	path := func(file string) string { return filepath.Join(dir, file) }
	holds := func(worker string, expected time.Duration) client.Task {
		task := scriptTask(t, path("holds-"+worker), fmt.Sprintf("while [ ! -e %s ]; do sleep 0.01; done",
			path("free-"+worker)))
		task.Estimate, task.Once, task.Constraint = expected, true, client.Constraint{Hosts: []string{worker}}
		return task
	}
	hold := make(chan error, 2)
	for worker, expected := range map[string]time.Duration{"w0": time.Second, "w1": time.Hour} {
		go func() {
			_, err := c.Run(ctx, client.Job{Tasks: []client.Task{holds(worker, expected)}})
			hold <- err
		}()
	}
	awaitStarted(t, path("holds-w0"), path("holds-w1"))

	task := scriptTask(t, path("task"), "echo done")
	task.Estimate = 2 * time.Second
	running, err := c.Submit(ctx, client.Job{Tasks: []client.Task{task}})
	if err != nil {
		t.Fatal(err)
	}
	handle := running.Handle()
	waitUntil(t, func() error {
		d := explainJob(t, handle.Job, "0", "--connect", api)
		if at := d.Decisions[0]; at.Worker != "w0" {
			return fmt.Errorf("%+v", at)
		}
		return nil
	})
	touchFile(t, path("free-w1"))
	waitUntil(t, func() error {
		if d := explainJob(t, handle.Job, "0", "--connect", api).Decisions; len(d) < 2 {
			return fmt.Errorf("%+v", d)
		}
		return nil
	})
	outs, err := running.Wait()
	if err != nil || len(outs) != 1 || string(outs[0].Result) != "done\n" || outs[0].Worker != "w1" {
		t.Errorf("%+v, %v", outs, err)
	}
	d := explainJob(t, handle.Job, "0", "--connect", api).Decisions
	if len(d) != 2 || d[0].Worker != "w0" ||
		!strings.HasPrefix(d[0].Outcome, "withdrawn: its copy has started first") || d[1].Worker != "w1" ||
		d[1].CopyOf != d[0].Attempt || d[1].CopyOf == "" {
		t.Errorf("decisions %+v", d)
	}
	var job struct{ Copies int }
	s := runPhoebe(t, "jobs", "--json", "--connect", api, "--most", "1").wantExit(t, 0)
	if err := json.Unmarshal([]byte(s.out), &job); err != nil || job.Copies != 1 {
		t.Errorf("%v, %q", err, s.out)
	}
	runPhoebe(t, "status", "--connect", api).wantExit(t, 0, " 1/1 ")

	touchFile(t, path("free-w0"))
	if err := errors.Join(<-hold, <-hold); err != nil {
		t.Error(err)
	}
	last := scriptTask(t, path("last"), "true") // comes last in the queue of w0
	last.Constraint = client.Constraint{Hosts: []string{"w0"}}
	if _, err := c.Run(ctx, client.Job{Tasks: []client.Task{last}}); err != nil {
		t.Error(err)
	}
	wantStartedOnce(t, path("task"), path("holds-w0"), path("holds-w1"))
}
