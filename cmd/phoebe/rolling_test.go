package main_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	"github.com/phoebe-sched/phoebe/probe/ports/porttest"
)

// A rehearsal starts processes, restarts a process after its end, and ends as a whole. A terminal sends an interrupt to
// the whole group of the rehearsal: then the processes drain, too.
func TestFleet(t *testing.T) {
	t.Parallel()
	args := []string{"dev", "--fleet", "--frontends", "2", "--workers", "2", "--slots", "2", "--frontend-port", "0",
		"--balancer", "none"}
	cmd := phoebeCommand(context.Background(), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := startCommand(t, cmd, args)
	p.awaitLines("ready", 1)
	f := rehearsal{process: p}
	addr, pid := f.nthStarted("worker", 0)
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.awaitLines("worker", 3)
	if again, now := f.nthStarted("worker", 2); again != addr || now == pid {
		t.Errorf("%s as %d, was %s as %d", again, now, addr, pid)
	}
	front, _ := f.nthStarted("frontend", 1)
	awaitLinked(t, front, 2)
	runPhoebe(t, "run", "--connect", front, "--function", "echo", "--payload", "hello", "--tasks", "4").wantExit(t, 0,
		"hello")
	r, err := newClient(t, front).Submit(t.Context(),
		client.Job{Tasks: []client.Task{{Function: "sleep", Payload: []byte("1h")}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	p.awaitLog("a second interrupt ends the process at once")
	if err := r.Cancel(t.Context()); err != nil {
		t.Errorf("the job of a draining frontend: %v", err)
	}
	if code := p.awaitEnd(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, kind := range []string{"frontend", "worker"} {
		for i := range p.awaitLines(kind, 2) {
			if _, pid := f.nthStarted(kind, i); syscall.Kill(pid, 0) == nil {
				t.Errorf("%s %d lives on as process %d", kind, i, pid)
			}
		}
	}
	runPhoebe(t, "dev", "--fleet", "--order", "fifo").wantExit(t, 2, "PHOEBE_WORKER_ORDER")
}

// A rehearsal with mutual TLS, behind each installed balancer with the recipe of the packages. HAProxy asks the admin ports
// by TLS, and sends the clients' addresses. The balancers print nothing. The page needs no certificate.
func TestFleetByTLS(t *testing.T) {
	t.Parallel()
	for _, balancer := range []string{"haproxy", "nginx", "none"} {
		t.Run(balancer, func(t *testing.T) {
			t.Parallel()
			_, err := os.Stat("/usr/sbin/" + balancer)
			if _, inPath := exec.LookPath(balancer); balancer != "none" && err != nil && inPath != nil {
				t.Skipf("%s is not installed: make balancers installs it", balancer)
			}
			tryFleetByTLS(t, balancer)
		})
	}
}

func tryFleetByTLS(t *testing.T, balancer string) {
	log := filepath.Join(t.TempDir(), "audit")
	args := []string{"dev", "--fleet", "--tls", "--frontends", "2", "--workers", "1", "--slots", "2",
		"--frontend-port", "0", "--balancer", balancer}
	cmd := phoebeCommand(context.Background(), args...)
	cmd.Env = append(cmd.Env, "PHOEBE_FRONTEND_AUDIT_LOG="+log)
	p := startCommand(t, cmd, args)
	page := p.awaitLines("page", 1)[0] // the last line
	try := p.awaitLines(os.Args[0], 0)
	for _, l := range p.lines {
		if strings.Contains(l, " run --connect ") {
			try = strings.Fields(l)[1:]
		}
	}
	runPhoebe(t, try...).wantExit(t, 0, "hello")
	res, err := http.Get(page)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if html, err := io.ReadAll(res.Body); res.StatusCode != http.StatusOK || !strings.Contains(string(html), "<html") {
		t.Errorf("the page: %s %v %.100s", res.Status, err, html)
	}
	if all := p.errs.String(); strings.Contains(strings.ToLower(all), "[alert]") || strings.Contains(all, "[WARNING]") {
		t.Errorf("the balancer is loud: %s", all)
	}
	p.sendSignal(syscall.SIGTERM)
	if code := p.awaitEnd(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	text, err := os.ReadFile(log)
	if submit := regexp.MustCompile(`"what":"submit".*"from":"127\.0\.0\.1:`); err != nil || !submit.Match(text) {
		t.Errorf("the job did not come from its client's address: %v\n%s", err, text)
	}
}

// If a balancer does not start, the reason is printed.
func TestFleetBalancerFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "haproxy"), []byte("#!/bin/sh\necho the port is taken >&2\nexit 1\n"),
		0o700); err != nil {
		t.Fatal(err)
	}
	args := []string{"dev", "--fleet", "--frontends", "1", "--workers", "1", "--frontend-port", "0"}
	cmd := phoebeCommand(context.Background(), args...)
	cmd.Env = append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"))
	p := startCommand(t, cmd, args)
	p.awaitLog("the port is taken")
	p.sendSignal(syscall.SIGTERM)
	p.awaitEnd()
}

// rehearsal is a phoebe dev --fleet.
type rehearsal struct{ *process }

// nthStarted returns address and process id of the i-th started process of a kind.
func (r rehearsal) nthStarted(kind string, i int) (addr string, pid int) {
	r.t.Helper()
	words := strings.Fields(r.awaitLines(kind, i+1)[i])
	pid, err := strconv.Atoi(words[2])
	if err != nil {
		r.t.Fatal(err)
	}
	return words[0], pid
}

// TestRolling restarts every process of a fleet twice under a load of 0.6, and measures what clients notice. make
// rolling runs this test. PHOEBE_ROLLING names the balancer.
func TestRolling(t *testing.T) {
	balancer := os.Getenv("PHOEBE_ROLLING")
	if balancer == "" {
		t.Skip("PHOEBE_ROLLING is not set: make rolling LB=haproxy, nginx or none runs this")
	}
	const (
		frontends, workers, slots = 3, 6, 4
		runs                      = 50 * time.Millisecond
		tasks                     = 2
		least                     = 10_000 // jobs
		clients                   = 8
	)
	load := 0.6
	p := startPhoebe(t, "dev", "--fleet", "--slots", fmt.Sprint(slots), "--frontend-port", "0", "--balancer", balancer)
	p.awaitLines("ready", 1)
	f := rehearsal{process: p}
	var apis, connect []string
	for i := range frontends {
		addr, _ := f.nthStarted("frontend", i)
		apis = append(apis, addr)
	}
	connect = apis
	if balancer != "none" {
		addr, _ := f.nthStarted("balancer", 0)
		connect = []string{addr}
	}
	var clis []*admin.Client
	for range clients {
		c, err := client.New(connect) // like a program without any setting for failover
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clis = append(clis, admin.New(c))
	}
	type call struct {
		at, took time.Duration // since the load began
		err      error
		again    int // tasks with more than one attempt
	}
	var (
		mu    sync.Mutex
		calls []call
		jobs  sync.WaitGroup
		began = time.Now()
		stop  = make(chan struct{})
		sent  = make(chan int, 1)
	)
	go func() {
		tick := time.NewTicker(time.Duration(float64(runs*tasks) / load / (workers * slots)))
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-stop:
				sent <- n
				return
			case <-tick.C:
			}
			c := clis[n%clients]
			jobs.Go(func() {
				job := client.Job{}
				for range tasks {
					job.Tasks = append(job.Tasks, client.Task{Function: "sleep", Payload: []byte(runs.String())})
				}
				k := call{at: time.Since(began)}
				outs, err := c.Run(t.Context(), job)
				k.took, k.err = time.Since(began)-k.at, err
				for _, o := range outs {
					if o.Err != nil && k.err == nil {
						k.err = o.Err
					}
					if o.Attempts > 1 {
						k.again++
					}
				}
				if k.err == nil && len(outs) != tasks {
					k.err = fmt.Errorf("%d outcomes", len(outs))
				}
				mu.Lock()
				calls = append(calls, k)
				mu.Unlock()
			})
		}
	}()
	done := func() int { mu.Lock(); defer mu.Unlock(); return len(calls) }
	wait := func(jobs int) { // waits in jobs, not in seconds
		from := done()
		waitUntil(t, func() error {
			if n := done() - from; n < jobs {
				return fmt.Errorf("%d of %d jobs have ended", n, jobs)
			}
			return nil
		})
	}
	wait(1500)
	calm := time.Since(began)
	python := func() string { return "not run" }
	if balancer != "none" {
		python = keepRunning(t, connect[0])
	}
	countOf := map[string]int{"frontend": frontends, "worker": workers}
	for round := range 2 {
		for _, kind := range []string{"frontend", "worker"} {
			for i := range countOf[kind] {
				nth := round*countOf[kind] + i // counts all started processes of the kind
				_, pid := f.nthStarted(kind, nth)
				if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				p.awaitLines(kind, nth+countOf[kind]+1)
				for _, api := range apis {
					awaitLinked(t, api, workers)
				}
				wait(300)
			}
		}
	}
	if n := done(); n < least {
		wait(least - n)
	}
	ended := time.Since(began)
	byPython := python()
	// A frontend hangs, with connections of old clients, and gets new ones.
	_, pid := f.nthStarted("frontend", 2*frontends)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	wait(1500)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	close(stop)
	n := <-sent
	jobs.Wait()
	var before, during []time.Duration
	failed, again := 0, 0
	stall := time.Duration(0)
	kinds := map[string]int{}
	var ends []time.Duration
	for _, k := range calls {
		if k.err != nil {
			failed++
			kinds[k.err.Error()]++
		}
		again += k.again
		switch end := k.at + k.took; {
		case end < calm:
			before = append(before, k.took)
		case end < ended:
			during = append(during, k.took)
			ends = append(ends, end)
		default:
			stall = max(stall, k.took)
		}
	}
	slices.Sort(ends)
	pause := time.Duration(0)
	for i := range ends[1:] {
		pause = max(pause, ends[i+1]-ends[i])
	}
	p99 := func(d []time.Duration) time.Duration { slices.Sort(d); return d[len(d)*99/100] }
	others, _ := os.ReadFile("/proc/loadavg")
	t.Logf("balancer %s: %d jobs in %v, each of 9 processes restarted twice: %d failed, %d tasks with more than one attempt, longest pause without a result %v,"+
		" p99 %v before and %v during, longest %v; by Python: %s; longest call with a frontend frozen %v; load of the machine %s",
		balancer, n, ended.Round(time.Second), failed, again, pause.Round(time.Millisecond),
		p99(before).Round(time.Millisecond), p99(during).Round(time.Millisecond),
		slices.Max(during).Round(time.Millisecond),
		byPython, stall.Round(time.Millisecond), strings.TrimSpace(string(others)))
	for text, n := range kinds {
		t.Logf("%d failed by: %s", n, text)
	}
	if failed > 0 {
		t.Errorf("%d of %d jobs failed", failed, n)
	}
	if pause >= time.Second || p99(during) > 3*p99(before) || stall > 5*time.Second {
		t.Error("clients notice too much: a pause of 1 s, three times the p99, or a stall of more than 5 s")
	}
	p.sendSignal(syscall.SIGTERM)
	if code := p.awaitEnd(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A frontend hangs behind two balancers at once: HAProxy checks frontends, and nginx does not. No call by either
// balancer fails. make rolling also checks that no call takes longer than 5 s.
func TestFrozenBehindBoth(t *testing.T) {
	t.Parallel()
	const frontends = 3
	for _, needed := range []string{"/usr/lib/nginx/modules/ngx_stream_module.so", "/usr/sbin/haproxy"} {
		switch _, err := os.Stat(needed); {
		case err != nil && os.Getenv("PHOEBE_ROLLING") != "":
			t.Fatal(err)
		case err != nil:
			t.Skip(err)
		}
	}
	p := startPhoebe(t, "dev", "--fleet", "--frontends", fmt.Sprint(frontends), "--workers", "2", "--slots", "8",
		"--frontend-port", "0", "--balancer", "haproxy")
	p.awaitLines("ready", 1)
	f := rehearsal{process: p}
	recipe, err := os.ReadFile(filepath.Join("packaging", "nginx.conf"))
	if err != nil {
		t.Fatal(err)
	}
	dir, entry := t.TempDir(), porttest.FreeAddress(t)
	text := strings.NewReplacer("listen 7410", "listen "+entry, "/run/nginx.pid", filepath.Join(dir, "pid")).Replace(
		string(recipe))
	for i := range frontends {
		api, _ := f.nthStarted("frontend", i)
		text = strings.Replace(text, fmt.Sprintf("10.0.0.%d:7410", i+1), api, 1)
	}
	conf := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	nginx := exec.Command("/usr/sbin/nginx", "-e", "stderr", "-g", "daemon off;", "-c", conf)
	if err := startWithTests(nginx); err != nil {
		t.Fatal(err)
	}
	defer func() {
		nginx.Process.Signal(syscall.SIGTERM) // nginx ends its own processes
		nginx.Wait()
	}()
	haproxy, _ := f.nthStarted("balancer", 0)
	ctx, stop := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	defer calling.Wait()
	defer stop()
	type caller struct {
		by              string
		calls           atomic.Int64
		longest, frozen time.Duration // before and after the frontend hangs
	}
	var hangs atomic.Bool
	var callers []*caller
	for i := range 12 {
		by, addr := "HAProxy", haproxy
		if i%2 > 0 {
			by, addr = "nginx", entry
		}
		k, c := &caller{by: by}, newClient(t, addr)
		callers = append(callers, k)
		calling.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				_, err := c.Run(context.Background(),
					client.Job{Tasks: []client.Task{{Function: "sleep", Payload: []byte("20ms")}}})
				if err != nil {
					t.Errorf("by %s: %v", by, err)
					return
				}
				if took := time.Since(began); hangs.Load() {
					k.frozen = max(k.frozen, took)
				} else {
					k.longest = max(k.longest, took)
				}
				k.calls.Add(1)
			}
		})
	}
	all := func(n int64) {
		t.Helper()
		from := make([]int64, len(callers))
		for i, k := range callers {
			from[i] = k.calls.Load()
		}
		waitUntil(t, func() error {
			for i, k := range callers {
				if got := k.calls.Load() - from[i]; got < n {
					return fmt.Errorf("a client by %s has %d calls of %d", k.by, got, n)
				}
			}
			return nil
		})
	}
	all(20)
	_, pid := f.nthStarted("frontend", 0)
	hangs.Store(true)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	all(50)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	stop()
	calling.Wait()
	for _, by := range []string{"HAProxy", "nginx"} {
		var longest, frozen time.Duration
		for _, k := range callers {
			if k.by == by {
				longest, frozen = max(longest, k.longest), max(frozen, k.frozen)
			}
		}
		t.Logf("by %s: longest call %v, with a frontend frozen %v", by, longest.Round(time.Millisecond),
			frozen.Round(time.Millisecond))
		if os.Getenv("PHOEBE_ROLLING") != "" && frozen > 5*time.Second {
			t.Errorf("a stall of %v", frozen)
		}
	}
}

// keepRunning runs job after job by a client in Python without failover. The returned function ends the client, and
// returns its count.
func keepRunning(t *testing.T, addr string) (end func() string) {
	t.Helper()
	path := os.Getenv("PHOEBE_PYTHON_PATH")
	if path == "" {
		t.Fatal("PHOEBE_PYTHON_PATH, the folder of the Python client's packages, is not set: make rolling sets it")
	}
	cmd := exec.CommandContext(t.Context(), "python3", filepath.Join("..", "..", "frontend", "client", "testdata",
		"python", "keep_running.py"), addr)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+path, "PYTHONDONTWRITEBYTECODE=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() string {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the client in Python: %v\n%s", err, said.String())
		}
		return strings.TrimSpace(said.String())
	}
}
