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

// A long task waits behind a task that runs longer than expected, while another worker falls idle. The task moves
// there, or gets a copy there, whichever comes first. The place in the queue is withdrawn, and there is one outcome.
func TestQueuedStartsElsewhere(t *testing.T) {
	t.Run("gossip", func(t *testing.T) {
		t.Parallel()
		g := startGossiper(t)
		var addrs []string
		for _, name := range []string{"w0", "w1"} {
			addrs = append(addrs, startPhoebe(t, "worker", "--listen", "127.0.0.1:0", "--name", name, "--allow-exec",
				"--slots", "1", "--join", g.heartbeat).workerAddr())
		}
		g.awaitWorkers(addrs...)
		startQueuedElsewhere(t, g.api)
	})
	t.Run("list", func(t *testing.T) {
		t.Parallel()
		startQueuedElsewhere(t, startFleet(t, 1, 2, nil, []string{"--slots", "1"}).frontendAddrs[0])
	})
}

// startQueuedElsewhere runs the test by a frontend with two workers, each with a slot.
func startQueuedElsewhere(t *testing.T, api string) {
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
	copies, why := 0, "withdrawn, because w1 has room"
	if len(d) == 2 && d[1].CopyOf != "" {
		copies, why = 1, "withdrawn: its copy has started first"
	}
	if len(d) != 2 || d[0].Worker != "w0" || !strings.HasPrefix(d[0].Outcome, why) || d[1].Worker != "w1" ||
		copies == 1 && d[1].CopyOf != d[0].Attempt {
		t.Errorf("decisions %+v", d)
	}
	var job struct{ Copies int }
	s := runPhoebe(t, "jobs", "--json", "--connect", api, "--most", "1").wantExit(t, 0)
	if err := json.Unmarshal([]byte(s.out), &job); err != nil || job.Copies != copies {
		t.Errorf("%v, %q", err, s.out)
	}
	runPhoebe(t, "status", "--connect", api).wantExit(t, 0, fmt.Sprintf(" %d/%d ", copies, copies))

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
