package main_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/phoebe-sched/phoebe/frontend/client"
)

// A spare process ignores as many signals as possible. When regular work waits for the process's room, the process
// is stopped. The stop does not count as a failure: the task starts again when there is room, and has one outcome.
func TestPreemptedProcess(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 1, 1, nil, []string{"--slots", "1"})
	api, dir := f.frontendAddrs[0], t.TempDir()
	c, proceed := newClient(t, api), filepath.Join(dir, "go")
	task := scriptTask(t, filepath.Join(dir, "spare"),
		fmt.Sprintf("trap '' TERM INT HUP QUIT; while [ ! -e %s ]; do sleep 0.01; done; echo done", proceed))
	spare, err := c.Submit(t.Context(), client.Job{Class: client.Spare, Tasks: []client.Task{task}})
	if err != nil {
		t.Fatal(err)
	}
	for turn := range 2 {
		waitUntil(t, func() error {
			if n := countLines(t, filepath.Join(dir, "spare")); n != turn+1 {
				return fmt.Errorf("it has started %d times, want %d", n, turn+1)
			}
			return nil
		})
		if _, err := c.Run(t.Context(), client.Job{Tasks: []client.Task{{Function: "echo"}}}); err != nil {
			t.Error(err)
		}
	}
	touchFile(t, proceed)
	outs, err := spare.Wait()
	if err != nil || len(outs) != 1 || string(outs[0].Result) != "done\n" || outs[0].Attempts != 3 {
		t.Errorf("%+v, %v", outs, err)
	}
	runPhoebe(t, "status", "--json", "--connect", api).wantExit(t, 0, `"preempted": 2,`)
}
