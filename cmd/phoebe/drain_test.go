package main_test

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	"github.com/phoebe-sched/phoebe/probe/ports/porttest"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// fleet is a set of frontends and workers, each in its own process.
type fleet struct {
	frontends, workers         []*process
	frontendAddrs, workerAddrs []string
}

// startFleet starts workers, then frontends, and waits until all are linked. A process can start again at its address.
func startFleet(t testing.TB, frontends, workers int, frontendFlags, workerFlags []string) *fleet {
	t.Helper()
	f := &fleet{}
	for i := range workers {
		f.workers = append(f.workers,
			startPhoebe(t, append([]string{"worker", "--listen", porttest.FreeAddress(t), "--name",
				fmt.Sprintf("w%d", i), "--allow-exec"}, workerFlags...)...))
	}
	for _, p := range f.workers {
		f.workerAddrs = append(f.workerAddrs, p.awaitLines("worker", 1)[0])
	}
	for range frontends {
		f.frontends = append(f.frontends,
			startPhoebe(t, append([]string{"frontend", "--listen", porttest.FreeAddress(t), "--workers",
				strings.Join(f.workerAddrs, ",")}, frontendFlags...)...))
	}
	for _, p := range f.frontends {
		f.frontendAddrs = append(f.frontendAddrs, p.awaitLines("frontend", 1)[0])
	}
	for _, a := range f.frontendAddrs {
		awaitLinked(t, a, workers)
	}
	return f
}

// restartArgs returns the arguments to start p again, at the address of its first start.
func restartArgs(p *process, addr string) []string {
	args := append([]string{}, p.args...)
	for i, a := range args {
		if a == "--listen" {
			args[i+1] = addr
		}
	}
	return args
}

// scriptTask returns a task that appends a line to the file starts, and then runs the shell script text.
func scriptTask(t testing.TB, starts, text string) client.Task {
	t.Helper()
	payload, err := exec.Command{Argv: []string{"sh", "-c", "echo started >> " + starts + "; " + text}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return client.Task{Function: "exec", Payload: payload}
}

// awaitStarted waits until each script has started at least once; names are the scripts' files of starts.
func awaitStarted(t testing.TB, names ...string) {
	t.Helper()
	waitUntil(t, func() error {
		for _, n := range names {
			if countLines(t, n) == 0 {
				return fmt.Errorf("%s: not started", n)
			}
		}
		return nil
	})
}

// wantStartedOnce fails the test unless each script has started exactly once.
func wantStartedOnce(t testing.TB, names ...string) {
	t.Helper()
	for _, n := range names {
		if got := countLines(t, n); got != 1 {
			t.Errorf("%s: started %d times", n, got)
		}
	}
}

// A worker told to leave, by a signal or through a frontend, finishes its tasks and takes no new tasks.
func TestDrainWorker(t *testing.T) {
	t.Parallel()
	for how, tell := range map[string]func(t *testing.T, frontend string, w *process) *process{
		"signal": func(_ *testing.T, _ string, w *process) *process { w.sendSignal(syscall.SIGTERM); return nil },
		"hangup": func(_ *testing.T, _ string, w *process) *process { w.sendSignal(syscall.SIGHUP); return nil },
		"command": func(t *testing.T, frontend string, _ *process) *process {
			return startPhoebe(t, "drain", "w0", "--connect", frontend)
		},
	} {
		t.Run(how, func(t *testing.T) { drainWorker(t, tell) })
	}
}

// drainWorker runs the test. tell makes the worker w0 leave. A process of tell waits for the end of w0.
func drainWorker(t *testing.T, tell func(*testing.T, string, *process) *process) {
	f := startFleet(t, 1, 2, nil, []string{"--slots", "4"})
	c := newClient(t, f.frontendAddrs...)
	starts := filepath.Join(t.TempDir(), "starts")
	proceed := filepath.Join(t.TempDir(), "go")
	task := scriptTask(t, starts, "while [ ! -e "+proceed+" ]; do sleep 0.01; done; echo done")
	task.Constraint.Hosts = []string{"w0"}
	r, err := c.Submit(t.Context(), client.Job{Tasks: []client.Task{task}})
	if err != nil {
		t.Fatal(err)
	}
	awaitStarted(t, starts)
	waits := tell(t, f.frontendAddrs[0], f.workers[0])
	waitUntil(t, func() error { // until the frontend knows
		said, err := c.Cluster(t.Context())
		if err != nil {
			return err
		}
		for _, w := range said.Workers {
			if w.Name == "w0" && w.State == "draining" {
				return nil
			}
		}
		return fmt.Errorf("w0 does not drain: %+v", said.Workers)
	})
	outs, err := c.Run(t.Context(), client.Job{Tasks: eightEchoes()})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outs {
		if o.Worker != "w1" {
			t.Errorf("task %d ran on %s, which drains", o.Task, o.Worker)
		}
	}
	touchFile(t, proceed)
	outs, err = r.Wait()
	if err != nil || string(outs[0].Result) != "done\n" || outs[0].Attempts != 1 {
		t.Errorf("%+v %v", outs, err)
	}
	if code := f.workers[0].awaitEnd(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if waits != nil {
		waits.awaitLines("worker", 1)
		if code := waits.awaitEnd(); code != 0 {
			t.Errorf("the command: exit code %d", code)
		}
	}
	wantStartedOnce(t, starts)
	var refused *client.RefusedError
	if err := c.Drain(t.Context(), "w0"); !errors.As(err, &refused) || refused.Reason != client.NoWorker {
		t.Errorf("one that has gone: %v", err)
	}
	if err := c.Maintenance(t.Context(), "w1", time.Hour, time.Hour); !errors.As(err, &refused) ||
		!strings.Contains(refused.Message, "--join") {
		t.Errorf("one of which gossip does not tell: %v", err)
	}
}

func eightEchoes() []client.Task {
	tasks := make([]client.Task, 8)
	for i := range tasks {
		tasks[i] = client.Task{Function: "echo"}
	}
	return tasks
}

// A frontend told to leave takes no new jobs, and delivers the results of its jobs.
func TestDrainFrontend(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"Run", "Submit"} {
		t.Run(how, func(t *testing.T) {
			f := startFleet(t, 1, 1, nil, []string{"--slots", "16"})
			c := newClient(t, f.frontendAddrs...)
			dir := t.TempDir()
			starts, proceed := filepath.Join(dir, "starts"), filepath.Join(dir, "go")
			// Larger than one answer to Events, and larger than a socket's buffer.
			const tasks, size = 12, 1_000_000
			var job client.Job
			var names []string
			for i := range tasks {
				names = append(names, fmt.Sprintf("%s%d", starts, i))
				job.Tasks = append(job.Tasks,
					scriptTask(t, names[i], fmt.Sprintf("while [ ! -e %s ]; do sleep 0.01; done; head -c %d /dev/zero",
						proceed, size)))
			}
			ended := make(chan error, 1)
			go func() {
				outs, err := runJob(t, c, how, job)
				for _, o := range outs {
					if len(o.Result) != size || o.Attempts != 1 {
						err = cmp.Or(err, fmt.Errorf("task %d: %d bytes after %d attempts: %v", o.Task, len(o.Result),
							o.Attempts, o.Err))
					}
				}
				ended <- err
			}()
			awaitStarted(t, names...)
			// Run occupies a connection: make a second one for the question
			if _, err := c.Cluster(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.frontends[0].sendSignal(syscall.SIGTERM)
			awaitDraining(t, c)
			touchFile(t, proceed)
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if code := f.frontends[0].awaitEnd(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			wantStartedOnce(t, names...)
		})
	}
}

// awaitDraining waits until the client's frontend says that it drains.
func awaitDraining(t testing.TB, c *admin.Client) {
	t.Helper()
	waitUntil(t, func() error {
		said, err := c.Cluster(t.Context())
		if err == nil && !said.Draining {
			err = errors.New("it does not drain")
		}
		return err
	})
}

// runJob runs a job by the SDK's Run, or by Submit and Wait if how is not "Run".
func runJob(t testing.TB, c *admin.Client, how string, job client.Job) ([]client.Outcome, error) {
	if how == "Run" {
		return c.Run(t.Context(), job)
	}
	r, err := c.Submit(t.Context(), job)
	if err != nil {
		return nil, err
	}
	return r.Wait()
}

// If a frontend is killed while it drains, no job is lost, and no task runs twice.
func TestKilledWhileItDrains(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2, 1, nil, []string{"--slots", "4"})
	dir := t.TempDir()
	starts, proceed := filepath.Join(dir, "starts"), filepath.Join(dir, "go")
	r, err := newClient(t, f.frontendAddrs...).Submit(t.Context(),
		client.Job{Tasks: []client.Task{scriptTask(t, starts,
			"while [ ! -e "+proceed+" ]; do sleep 0.01; done; echo done")}})
	if err != nil {
		t.Fatal(err)
	}
	awaitStarted(t, starts)
	owner, other := f.findOwner(t)
	f.frontends[owner].sendSignal(syscall.SIGTERM)
	awaitDraining(t, newClient(t, f.frontendAddrs[owner]))
	f.frontends[owner].sendSignal(syscall.SIGKILL)
	f.awaitAttempts(t, other, 1)
	touchFile(t, proceed)
	outs, err := r.Wait()
	if err != nil || string(outs[0].Result) != "done\n" || outs[0].Attempts != 1 {
		t.Errorf("%+v %v", outs, err)
	}
	wantStartedOnce(t, starts)
}

// A drain that does not end is given up after --drain-timeout, or at the second signal.
func TestDrainEnds(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"timeout", "second signal"} {
		t.Run(how, func(t *testing.T) {
			timeout := "50ms"
			if how != "timeout" {
				timeout = "1h"
			}
			f := startFleet(t, 1, 1, nil, []string{"--drain-timeout", timeout, "--log-level", "info"})
			c := newClient(t, f.frontendAddrs...)
			r, err := c.Submit(t.Context(),
				client.Job{Tasks: []client.Task{{Function: "sleep", Payload: []byte("1h")}}})
			if err != nil {
				t.Fatal(err)
			}
			waitUntil(t, func() error {
				said, err := c.Cluster(t.Context())
				if err == nil && said.Workers[0].Running != 1 {
					err = fmt.Errorf("nothing runs: %+v", said.Workers)
				}
				return err
			})
			w, want := f.workers[0], 1
			if how == "timeout" {
				w.sendSignal(syscall.SIGTERM)
			} else {
				w.sendSignal(syscall.SIGINT)
				w.awaitLog("a second interrupt ends the process at once")
				w.sendSignal(syscall.SIGINT)
				want = 130
			}
			if code := w.awaitEnd(); code != want {
				t.Errorf("exit code %d, want %d", code, want)
			}
			if err := r.Cancel(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// All processes drain and restart in turn, while jobs flow. No task is lost, not even tasks with once. No worker
// waits for the acknowledgement of a delivered result: the worker would keep the result for an hour.
func TestRollingDrains(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2, 2, nil, []string{"--slots", "4", "--retain", "1h"})
	load := startLoad(t, newClient(t, f.frontendAddrs...))
	drain := func(name string, at *process, addr string) *process {
		began := time.Now()
		at.sendSignal(syscall.SIGTERM)
		if code := at.awaitEnd(); code != 0 {
			t.Errorf("%s: exit code %d", name, code)
		}
		t.Logf("%s drained in %v", name, time.Since(began).Round(time.Millisecond))
		now := restartProcess(t, at, addr)
		f.awaitAllLinked(t)
		return now
	}
	for i, addr := range f.frontendAddrs {
		if !load.awaitProgress(t, 0) {
			return
		}
		f.frontends[i] = drain(fmt.Sprint("frontend ", i), f.frontends[i], addr)
	}
	for i, addr := range f.workerAddrs {
		if !load.awaitProgress(t, 0) {
			return
		}
		f.workers[i] = drain(fmt.Sprint("worker ", i), f.workers[i], addr)
	}
	load.awaitProgress(t, 0)
	load.stopAndCheck(t)
	if n := load.lost.Load(); n > 0 {
		t.Errorf("%d tasks that may start only once were lost", n)
	}
}
