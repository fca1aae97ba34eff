package main_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
)

// While a task that rode along runs, each command and metric shows the task as running. No message tells the
// frontend of the start. Tasks in the queues of workers wait.
func TestRunningTasksAreShown(t *testing.T) {
	t.Parallel()
	c := startDev(t, "--log-level", "info")
	cl, err := client.New(c.frontends[:1], client.WithLoadBalancerOnly()) // all jobs go to the first frontend
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	submit := func(job client.Job) client.Handle {
		t.Helper()
		running, err := cl.Submit(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		return running.Handle()
	}
	trace := func(h client.Handle) map[string]int { // counts of attempts under way, by state
		t.Helper()
		x, err := cl.Trace(t.Context(), h.Job, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		counts := map[string]int{}
		for _, a := range x.UnderWay {
			counts[a.State]++
		}
		return counts
	}
	ride := submit(client.Job{Tasks: []client.Task{{Function: "sleep", Payload: []byte("1h")}}})
	waitUntil(t, func() error {
		if counts := trace(ride); counts["runs"] != 1 {
			return fmt.Errorf("attempts under way: %v", counts)
		}
		return nil
	})
	since := time.Now()
	s := runPhoebe(t, "trace", ride.Job, "--connect", c.frontends[1]).wantExit(t, 0, "\nunder way:\nTASK ",
		" ride ")
	// Each of the two times is a number and a unit. A sleep is no process, so its use of CPU is not known.
	if row := fieldsOfLine(s.out, "0 "); len(row) != 12 || row[11] != "-" || row[3] != "runs" || row[4] != "1" {
		t.Errorf("%q in\n%s", row, s.out)
	}
	runPhoebe(t, "trace", ride.Job, "--json", "--connect", c.frontends[1]).wantExit(t, 0,
		`"state":"runs","tries":1,`)
	runPhoebe(t, "explain", ride.Job, "0", "--connect", c.connect).wantExit(t, 0, ": runs\n")
	said, err := admin.New(cl).Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	places, attempts := 0, 0
	for _, w := range said.Workers {
		places, attempts = places+w.Reservations, attempts+w.Attempts
	}
	if places != 0 || attempts != 1 || said.TasksPending != 1 || said.TasksRunning != 1 {
		t.Errorf("%d places, %d attempts at workers: %+v", places, attempts, said)
	}
	for line := range strings.Lines(getAdmin(t, c.process, "/metrics")) {
		if strings.HasPrefix(line, "phoebe_frontend_queue_age_seconds") && !strings.HasSuffix(line, " 0\n") {
			t.Errorf("a job waits: %q", line)
		}
	}

	long := client.Task{Function: "sleep", Payload: []byte("1h"), Estimate: time.Hour}
	queued := submit(client.Job{Mode: client.EstimateMode, Tasks: slices.Repeat([]client.Task{long}, 9)})
	waitUntil(t, func() error {
		counts := trace(queued)
		said, err := admin.New(cl).Cluster(t.Context())
		if err != nil {
			return err
		}
		if counts["queued"] == 0 || counts["runs"] == 0 || said.TasksRunning != counts["runs"]+1 {
			return fmt.Errorf("attempts under way: %v, and the frontend says that %d run", counts, said.TasksRunning)
		}
		return nil
	})
	runPhoebe(t, "trace", queued.Job, "--connect", c.connect, "--most", "1").wantExit(t, 0,
		" more attempts are under way\n")

	// The windows that begin while the task runs have no wait for a first task. The page and phoebe top show these
	// windows.
	waitUntil(t, func() error {
		watched, err := admin.New(cl).Watch(t.Context(), time.Second, since, 0)
		if err != nil {
			return err
		}
		seen := 0
		for _, w := range watched.Windows {
			if w.At.After(since) {
				if seen++; w.QueueAge > 0 {
					t.Errorf("in the window from %v on, a job waits for %v", w.At, w.QueueAge)
				}
			}
		}
		if seen == 0 {
			return fmt.Errorf("no window after %v yet", since)
		}
		return nil
	})
}

// fieldsOfLine returns the fields of the last line that begins so.
func fieldsOfLine(text, begin string) (fields []string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, begin) {
			fields = strings.Fields(line)
		}
	}
	return fields
}
