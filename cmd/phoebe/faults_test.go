package main_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
)

// faultTimes says how long the parts of the fault test take.
type faultTimes struct {
	lease string
	grace string        // of clients
	down  time.Duration // from a kill to the restart
	// of a worker and of a frontend: longer than the lease, and longer than the SDK waits
	frozen, frozenFrontend time.Duration
	loadAfter              time.Duration // load after all is well again
}

var (
	shortTimes = faultTimes{lease: "500ms", grace: "2s", down: 50 * time.Millisecond, frozen: 1200 * time.Millisecond,
		frozenFrontend: 4 * time.Second, loadAfter: 100 * time.Millisecond}
	longTimes = faultTimes{lease: "3s", grace: "30s", down: 30 * time.Second, frozen: 30 * time.Second,
		frozenFrontend: 30 * time.Second, loadAfter: 30 * time.Second}
)

// Each process of a fleet is killed and started again, and frozen and thawed, while jobs flow. In the end, each
// task of each job has one outcome with the right result. Tasks with once start once at most.
func TestSoakFaults(t *testing.T) {
	t.Parallel()
	p := shortTimes
	if os.Getenv("PHOEBE_SOAK") != "" {
		p = longTimes
	}
	f := startFleet(t, 3, 6, []string{"--lease", p.lease}, []string{"--slots", "4"})
	load := startLoad(t, newClient(t, f.frontendAddrs...))
	if !load.awaitProgress(t, 100*time.Millisecond) {
		return
	}
	for i := range 9 {
		var at *process
		var addr, name string
		freeze := p.frozen
		if worker := i - 3; worker >= 0 {
			at, addr, name = f.workers[worker], f.workerAddrs[worker], fmt.Sprintf("worker %d", worker)
		} else {
			at, addr, name, freeze = f.frontends[i], f.frontendAddrs[i], fmt.Sprintf("frontend %d", i), p.frozenFrontend
		}
		before := load.jobs.Load()

		at.sendSignal(syscall.SIGKILL)
		at.awaitEnd()
		waitFor(t, p.down)
		now := restartProcess(t, at, addr)
		if i < 3 {
			f.frontends[i] = now
		} else {
			f.workers[i-3] = now
		}
		f.awaitAllLinked(t)
		if !load.awaitProgress(t, p.loadAfter) {
			t.Errorf("after %s was killed", name)
			return
		}
		killed := load.jobs.Load()

		now.sendSignal(syscall.SIGSTOP)
		waitFor(t, freeze)
		now.sendSignal(syscall.SIGCONT)
		f.awaitAllLinked(t)
		if !load.awaitProgress(t, p.loadAfter) {
			t.Errorf("after %s was frozen", name)
			return
		}
		t.Logf("%s: %d jobs while it was killed, %d while it was frozen", name, killed-before, load.jobs.Load()-killed)
	}
	load.stopAndCheck(t)
}

// waitFor waits for d, or until the test ends, while the load goes on.
func waitFor(t testing.TB, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// restartProcess starts a process at the address of its first start.
func restartProcess(t testing.TB, p *process, addr string) *process {
	t.Helper()
	return startUntilUp(t, func() *process { return startPhoebe(t, restartArgs(p, addr)...) })
}

// startUntilUp starts a process again and again, until it prints a line.
func startUntilUp(t testing.TB, start func() *process) *process {
	t.Helper()
	var now *process
	// for a moment, a connection of the dead process may occupy the port
	waitUntil(t, func() error {
		now = start()
		now.mu.Lock()
		defer now.mu.Unlock()
		for len(now.lines) == 0 && !now.eof {
			now.changed.Wait()
		}
		if len(now.lines) == 0 {
			return errors.New(now.errs.String())
		}
		return nil
	})
	return now
}

// awaitAllLinked waits until each frontend is linked to all workers.
func (f *fleet) awaitAllLinked(t testing.TB) {
	t.Helper()
	for _, a := range f.frontendAddrs {
		awaitLinked(t, a, len(f.workerAddrs))
	}
}

// load runs jobs all the time, by 8 goroutines.
type load struct {
	client          *admin.Client
	mixed           bool // some jobs have long tasks
	dir             string
	stop            context.CancelFunc
	ctx             context.Context
	runners         sync.WaitGroup
	jobs            atomic.Int64
	lost            atomic.Int64 // lost tasks with once
	furtherAttempts atomic.Int64 // attempts beyond the first
	failed          chan error   // the first failure
}

// startLoad starts a load of short tasks.
func startLoad(t testing.TB, c *admin.Client) *load {
	return startJobs(t, &load{client: c})
}

// startMixedLoad starts a load in which every third job also has long tasks. The long tasks run for a short time,
// but have estimates above 1 s, and are placed by estimation.
func startMixedLoad(t testing.TB, c *admin.Client) *load {
	return startJobs(t, &load{client: c, mixed: true})
}

// startJobs starts the goroutines of a load, which end with the test.
func startJobs(t testing.TB, l *load) *load {
	l.dir, l.failed = t.TempDir(), make(chan error, 1)
	l.ctx, l.stop = context.WithCancel(context.Background())
	for i := range 8 {
		l.runners.Go(func() {
			for n := 0; l.ctx.Err() == nil; n++ {
				if err := l.runJob(t, i, n); err != nil {
					select {
					case l.failed <- err:
					default:
					}
					l.stop()
					return
				}
				l.jobs.Add(1)
			}
		})
	}
	t.Cleanup(func() {
		l.stop()
		l.runners.Wait()
	})
	return l
}

// runJob runs the n-th job of a goroutine, and checks the outcomes. Every fourth job has a task with once that
// leaves a trace.
func (l *load) runJob(t testing.TB, worker, n int) error {
	var job client.Job
	var want []string
	add := func(task client.Task, result string) {
		job.Tasks = append(job.Tasks, task)
		want = append(want, result)
	}
	for i := range 5 {
		text := fmt.Sprintf("task %d of job %d of %d", i, n, worker)
		add(client.Task{Function: "echo", Payload: []byte(text)}, text)
		add(client.Task{Function: "sleep", Payload: []byte(fmt.Sprintf("%dms", 1+(n+i)%20))}, "")
	}
	var estimate time.Duration
	if l.mixed && n%3 == 0 {
		estimate = 1500 * time.Millisecond
		for i := range 3 {
			text := fmt.Sprintf("long task %d of job %d of %d", i, n, worker)
			add(client.Task{Function: "echo", Payload: []byte(text), Estimate: estimate}, text)
			add(client.Task{Function: "sleep", Payload: []byte("50ms"), Estimate: estimate}, "")
		}
	}
	trace := ""
	if n%4 == 0 {
		trace = filepath.Join(l.dir, fmt.Sprintf("%d-%d", worker, n))
		task := scriptTask(t, trace, "sleep 0.02; echo done")
		task.Once, task.Estimate = true, estimate
		add(task, "done\n")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	job.ID = client.NewJobID()
	seen := make([]bool, len(want))
	check := func(o client.Outcome) error {
		var failure *client.TaskError
		switch {
		case o.Task < 0 || o.Task >= len(want):
			return fmt.Errorf("job %s: outcome of task %d: %w", job.ID, o.Task, o.Err)
		case seen[o.Task]:
			return fmt.Errorf("job %s: task %d has two outcomes", job.ID, o.Task)
		}
		seen[o.Task] = true
		l.furtherAttempts.Add(int64(max(o.Attempts-1, 0)))
		switch {
		case job.Tasks[o.Task].Once && errors.As(o.Err, &failure) && failure.Reason == client.Lost:
			l.lost.Add(1)
		case o.Err != nil || string(o.Result) != want[o.Task]:
			return fmt.Errorf("job %s: task %d: %q, want %q: %w", job.ID, o.Task, o.Result, want[o.Task], o.Err)
		}
		return nil
	}
	if n%2 == 0 {
		outs, err := l.client.Run(ctx, job)
		if err != nil && outs == nil {
			return fmt.Errorf("job %s: %w", job.ID, err)
		}
		for _, o := range outs {
			if err := check(o); err != nil {
				return err
			}
		}
	} else {
		r, err := l.client.Submit(ctx, job)
		if err != nil {
			return fmt.Errorf("job %s: %w", job.ID, err)
		}
		for o := range r.Results() {
			if err := check(o); err != nil {
				return err
			}
		}
	}
	for i, ok := range seen {
		if !ok {
			return fmt.Errorf("job %s: task %d has no outcome", job.ID, i)
		}
	}
	if trace != "" {
		if n := countLines(t, trace); n > 1 {
			return fmt.Errorf("job %s: a task that may start only once started %d times", job.ID, n)
		}
		os.Remove(trace)
	}
	return nil
}

// awaitProgress waits for d, and then until 16 more jobs have ended. It reports whether no job has failed.
func (l *load) awaitProgress(t testing.TB, d time.Duration) bool {
	t.Helper()
	waitFor(t, d)
	enough := l.jobs.Load() + 16
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for l.jobs.Load() < enough {
		select {
		case err := <-l.failed:
			t.Error(err)
			return false
		case <-deadline:
			t.Errorf("jobs do not end: %d of %d", l.jobs.Load(), enough)
			return false
		case <-tick.C:
		}
	}
	return true
}

// stopAndCheck ends the load, and fails the test if a job has failed.
func (l *load) stopAndCheck(t testing.TB) {
	t.Helper()
	l.stop()
	l.runners.Wait()
	select {
	case err := <-l.failed:
		t.Error(err)
	default:
	}
	t.Logf("%d jobs, %d further attempts, %d tasks lost that may start only once", l.jobs.Load(),
		l.furtherAttempts.Load(),
		l.lost.Load())
}

// When a frontend dies, its started tasks go on, and do not start again.
func TestClaim(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"Run", "Submit"} {
		t.Run(how, func(t *testing.T) {
			f := startFleet(t, 2, 2, nil, []string{"--slots", "4"})
			c := newClient(t, f.frontendAddrs...)
			dir := t.TempDir()
			proceed := filepath.Join(dir, "go")
			var job client.Job
			var names []string
			for i := range 6 {
				names = append(names, filepath.Join(dir, strconv.Itoa(i)))
				job.Tasks = append(job.Tasks,
					scriptTask(t, names[i], fmt.Sprintf("while [ ! -e %s ]; do sleep 0.01; done; echo %d", proceed, i)))
			}
			ended := make(chan error, 1)
			go func() {
				outs, err := runJob(t, c, how, job)
				for _, o := range outs {
					if err == nil && string(o.Result) != strconv.Itoa(o.Task)+"\n" {
						err = fmt.Errorf("task %d: %q", o.Task, o.Result)
					}
				}
				ended <- err
			}()
			awaitStarted(t, names...)
			owner, other := f.findOwner(t)
			f.frontends[owner].sendSignal(syscall.SIGKILL)
			f.frontends[owner].awaitEnd()
			// Wait until the other frontend has claimed all tasks.
			heir := newClient(t, f.frontendAddrs[other])
			waitUntil(t, func() error {
				said, err := heir.Cluster(t.Context())
				if err != nil {
					return err
				}
				attempts := 0
				for _, w := range said.Workers {
					attempts += w.Attempts
				}
				if said.Jobs != 1 || attempts != len(names) {
					return fmt.Errorf("%d jobs and %d attempts are claimed", said.Jobs, attempts)
				}
				return nil
			})
			touchFile(t, proceed)
			if err := <-ended; err != nil {
				t.Error(err)
			}
			wantStartedOnce(t, names...)
		})
	}
}

// A frontend dies while a task runs at two workers. The next frontend claims both attempts, and starts no third.
// The first to finish gives the outcome, and the second is stopped.
func TestClaimOfCopy(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2, 2, nil, []string{"--slots", "1"})
	c := newClient(t, f.frontendAddrs...)
	dir := t.TempDir()
	trace, proceed := filepath.Join(dir, "task"), filepath.Join(dir, "go")
	task := scriptTask(t, trace, fmt.Sprintf("n=$(wc -l < %s); while [ ! -e %s$n ]; do sleep 0.01; done; echo $n",
		trace,
		proceed))
	task.Estimate = time.Second // the task is late, and gets a copy, after three times the hint
	r, err := c.Submit(t.Context(), client.Job{Tasks: []client.Task{task}})
	if err != nil {
		t.Fatal(err)
	}
	waitUntil(t, func() error {
		if n := countLines(t, trace); n != 2 {
			return fmt.Errorf("it has started %d times", n)
		}
		return nil
	})
	owner, other := f.findOwner(t)
	f.frontends[owner].sendSignal(syscall.SIGKILL)
	f.frontends[owner].awaitEnd()
	f.awaitAttempts(t, other, 2)
	touchFile(t, proceed+"2")
	outs, err := r.Wait()
	if err != nil || len(outs) != 1 || string(outs[0].Result) != "2\n" {
		t.Errorf("%+v, %v", outs, err)
	}
	heir := newClient(t, f.frontendAddrs[other])
	for i := range f.workers { // the worker's slot is free
		last := client.Task{Function: "echo", Constraint: client.Constraint{Hosts: []string{fmt.Sprint("w", i)}}}
		if _, err := heir.Run(t.Context(), client.Job{Tasks: []client.Task{last}}); err != nil {
			t.Error(err)
		}
	}
	if n := countLines(t, trace); n != 2 {
		t.Errorf("it has started %d times", n)
	}
}

// A frontend is killed while results of a job wait there for the last task. The next frontend gets the results from
// the workers, and the tasks do not run again.
func TestResultsOutliveTheirFrontend(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2, 2, nil, []string{"--slots", "4"})
	c := newClient(t, f.frontendAddrs...)
	dir := t.TempDir()
	proceed := filepath.Join(dir, "go")
	var job client.Job
	var names []string
	for i := range 7 {
		names = append(names, filepath.Join(dir, strconv.Itoa(i)))
		text := fmt.Sprintf("echo %d", i)
		if i == 0 {
			text = fmt.Sprintf("while [ ! -e %s ]; do sleep 0.01; done; echo 0", proceed)
		}
		job.Tasks = append(job.Tasks, scriptTask(t, names[i], text))
	}
	ended := make(chan error, 1)
	go func() {
		outs, err := c.Run(t.Context(), job)
		for _, o := range outs {
			if err == nil && string(o.Result) != strconv.Itoa(o.Task)+"\n" {
				err = fmt.Errorf("task %d: %q", o.Task, o.Result)
			}
		}
		ended <- err
	}()
	awaitStarted(t, names...)
	owner, other := f.findOwner(t)
	f.awaitAttempts(t, owner, 1)
	waitFor(t, 200*time.Millisecond) // long enough for acknowledgements, if any were sent
	f.frontends[owner].sendSignal(syscall.SIGKILL)
	f.frontends[owner].awaitEnd()
	f.awaitAttempts(t, other, 1)
	touchFile(t, proceed)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	wantStartedOnce(t, names...)
}

// awaitAttempts waits until frontend at has one job, and want attempts at workers.
func (f *fleet) awaitAttempts(t testing.TB, at, want int) {
	t.Helper()
	c := newClient(t, f.frontendAddrs[at])
	waitUntil(t, func() error {
		said, err := c.Cluster(t.Context())
		if err != nil {
			return err
		}
		attempts := 0
		for _, w := range said.Workers {
			attempts += w.Attempts
		}
		if said.Jobs != 1 || attempts != want {
			return fmt.Errorf("%d jobs and %d attempts, want 1 and %d", said.Jobs, attempts, want)
		}
		return nil
	})
}

// A frontend is frozen, and its client moves to another frontend. When the first frontend wakes, the frontend drops
// the job, and no task starts twice.
func TestFrozenFrontendWakes(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2, 2, []string{"--lease", "500ms"}, []string{"--slots", "1"})
	c := newClient(t, f.frontendAddrs...)
	dir := t.TempDir()
	proceed := filepath.Join(dir, "go")
	var job client.Job
	var names []string
	for i := range 6 {
		names = append(names, filepath.Join(dir, strconv.Itoa(i)))
		job.Tasks = append(job.Tasks,
			scriptTask(t, names[i], fmt.Sprintf("while [ ! -e %s ]; do sleep 0.01; done; sleep 0.1; echo %d", proceed,
				i)))
	}
	r, err := c.Submit(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	waitUntil(t, func() error {
		n := 0
		for _, name := range names {
			n += countLines(t, name)
		}
		if n != 2 {
			return fmt.Errorf("%d tasks have started", n)
		}
		return nil
	})
	owner, other := f.findOwner(t)
	f.frontends[owner].sendSignal(syscall.SIGSTOP)
	f.awaitAttempts(t, other, 2)
	f.frontends[owner].sendSignal(syscall.SIGCONT)
	touchFile(t, proceed)
	outs, err := r.Wait()
	if err != nil {
		t.Error(err)
	}
	for _, o := range outs {
		if string(o.Result) != strconv.Itoa(o.Task)+"\n" || o.Attempts != 1 {
			t.Errorf("task %d: %q after %d attempts", o.Task, o.Result, o.Attempts)
		}
	}
	c = newClient(t, f.frontendAddrs[owner])
	waitUntil(t, func() error {
		said, err := c.Cluster(t.Context())
		if err == nil && said.Jobs > 0 {
			err = fmt.Errorf("%d jobs are left at the one that was frozen", said.Jobs)
		}
		return err
	})
	wantStartedOnce(t, names...)
}

// A frontend is frozen for longer than its lease. After the wake, the frontend does not take the pause for the end
// of its workers: running tasks go on, and no task is lost.
func TestFrozenFrontend(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 1, 4, []string{"--lease", "300ms"}, []string{"--slots", "2"})
	c := newClient(t, f.frontendAddrs...)
	dir := t.TempDir()
	proceed := filepath.Join(dir, "go")
	var job client.Job
	var names []string
	for i := range 8 {
		names = append(names, filepath.Join(dir, strconv.Itoa(i)))
		task := scriptTask(t, names[i], fmt.Sprintf("while [ ! -e %s ]; do sleep 0.01; done; echo %d", proceed, i))
		task.Once = i%2 == 0
		job.Tasks = append(job.Tasks, task)
	}
	r, err := c.Submit(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	awaitStarted(t, names...)
	f.frontends[0].sendSignal(syscall.SIGSTOP)
	waitFor(t, 1200*time.Millisecond) // less than the client's patience
	f.frontends[0].sendSignal(syscall.SIGCONT)
	f.awaitAllLinked(t)
	touchFile(t, proceed)
	for o := range r.Results() {
		if o.Err != nil || string(o.Result) != strconv.Itoa(o.Task)+"\n" || o.Attempts != 1 {
			t.Errorf("task %d: %q after %d attempts: %v", o.Task, o.Result, o.Attempts, o.Err)
		}
	}
	wantStartedOnce(t, names...)
}

// findOwner returns a frontend with a job, and a frontend without jobs.
func (f *fleet) findOwner(t testing.TB) (owner, other int) {
	t.Helper()
	owner = -1
	for i, a := range f.frontendAddrs {
		said, err := newClient(t, a).Cluster(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if said.Jobs > 0 {
			owner = i
		} else {
			other = i
		}
	}
	if owner < 0 {
		t.Fatal("no frontend has the job")
	}
	return owner, other
}

// A thousand silent connections, and some with garbage, are closed and counted. They cost little memory, and do not
// keep a job from running.
func TestIdleConnectionsAndGarbage(t *testing.T) {
	admin := []string{"--admin", "127.0.0.1:0", "--log-level", "info"}
	f := startFleet(t, 1, 1, admin, admin)
	c := newClient(t, f.frontendAddrs...)
	job := func() {
		t.Helper()
		if _, err := c.Run(t.Context(), client.Job{Tasks: eightEchoes()}); err != nil {
			t.Error(err)
		}
	}
	job()
	for _, target := range []struct {
		what, addr string
		p          *process
		counter    string // counts closed connections
	}{
		{"frontend", f.frontendAddrs[0], f.frontends[0], "phoebe_frontend_connections_closed_total"},
		{"worker", f.workerAddrs[0], f.workers[0], "phoebe_worker_protocol_errors_total"},
	} {
		before := residentMemory(t, target.p)
		const idle = 1000
		var closed sync.WaitGroup
		var open atomic.Int64
		connect := func(say []byte) {
			conn, err := net.Dial("tcp", target.addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			open.Add(1)
			if _, err := conn.Write(say); err != nil {
				t.Error(err)
			}
			closed.Go(func() {
				_ = conn.SetReadDeadline(time.Now().Add(patience))
				_, err := io.Copy(io.Discard, conn)
				if errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s: a connection that said %.20q is still open", target.what, say)
				}
				open.Add(-1)
			})
		}
		began := time.Now()
		for range idle {
			connect(nil)
		}
		garbage := make([]byte, 64<<10)
		_, _ = rand.Read(garbage)
		for _, say := range [][]byte{
			garbage,
			[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
			{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3},       // TLS
			{0x7f, 0xff, 0xff, 0xff, 0x80, 1, 0, 1, 0, 0}, // a frame of 2 GiB
			bytes.Repeat([]byte{0xff}, 4096),
			bytes.Repeat([]byte{0}, 4096),
		} {
			connect(say)
		}
		// A worker closes silent connections after 3 s. On a busy machine those are the first, before the last is made.
		if n := open.Load(); n < idle*9/10 && time.Since(began) < 2*time.Second {
			t.Errorf("%s: only %d connections are open", target.what, n)
		}
		job() // while the connections are open
		if used := residentMemory(t, target.p) - before; used > 64<<20 {
			t.Errorf("%s: %d connections cost %d MiB", target.what, idle, used>>20)
		}
		closed.Wait()
		if n := metricSum(t, target.p, target.counter); n < idle {
			t.Errorf("%s: %v connections are counted as closed, want %d", target.what, n, idle)
		}
		job()
	}
}

// residentMemory returns the memory of a process, in bytes.
func residentMemory(t testing.TB, p *process) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Skip(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}

// metricSum returns the sum of a metric over its labels, from the admin port.
func metricSum(t testing.TB, p *process, name string) (sum float64) {
	t.Helper()
	for line := range strings.Lines(getAdmin(t, p, "/metrics")) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok &&
			(key == name || strings.HasPrefix(key, name+"{")) {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}

// adminAddr returns the address of a process's admin port. The process must log at level info.
func adminAddr(t testing.TB, p *process) string {
	t.Helper()
	const serves = `msg="admin port serves" address=`
	p.awaitLog(serves)
	_, rest, _ := strings.Cut(p.errs.String(), serves)
	return strings.Fields(rest)[0]
}

// getAdmin returns the answer of the admin port.
func getAdmin(t testing.TB, p *process, path string) string {
	t.Helper()
	res, err := http.Get("http://" + adminAddr(t, p) + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// postAdmin returns the status of the admin port's answer.
func postAdmin(t testing.TB, p *process, path string) int {
	t.Helper()
	res, err := http.Post("http://"+adminAddr(t, p)+path, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}
