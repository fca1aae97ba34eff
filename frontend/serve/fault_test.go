package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cloudwego/gopkg/bufiox"

	"github.com/phoebe-sched/phoebe/frontend/frame"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/ports/porttest"
	"github.com/phoebe-sched/phoebe/probe/proxy"
	"github.com/phoebe-sched/phoebe/worker"
	"github.com/phoebe-sched/phoebe/worker/exec"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

// pollUntil returns when ok does, and fails the test after too long a wait.
func pollUntil(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(end) {
			tb.Fatalf("waited in vain for %s", what)
		}
	}
}

func wantRefused(t *testing.T, err error, reason v1.RefusedReason, says string) *v1.Refused {
	t.Helper()
	var r *v1.Refused
	if !errors.As(err, &r) || r.Reason != reason || !strings.Contains(r.Message, says) {
		t.Fatalf("got %v, want a refusal %v that says %q", err, reason, says)
	}
	return r
}

func TestRefusals(t *testing.T) {
	c := startCluster(t, 2, 2)
	ctx := context.Background()
	for _, bad := range []struct {
		name   string
		change func(*v1.Job)
		reason v1.RefusedReason
		says   string
	}{
		{"id", func(j *v1.Job) { j.Id = "job-1" }, v1.RefusedReason_INVALID, "ULID"},
		{"no tasks", func(j *v1.Job) { j.Tasks = nil }, v1.RefusedReason_INVALID, "no tasks"},
		{"unknown function", func(j *v1.Job) { j.Tasks[0].FunctionName = "ecco" }, v1.RefusedReason_NO_WORKER,
			`"ecco"; they have ["echo"`},
		{"too much CPU", func(j *v1.Job) { j.Tasks[0].Demand = &v1.Demand{CpuMillicores: 3000} },
			v1.RefusedReason_NO_WORKER, "largest: 2000m CPU"},
		{"negative demand", func(j *v1.Job) { j.Tasks[0].Demand = &v1.Demand{CpuMillicores: -1} },
			v1.RefusedReason_INVALID, "positive"},
		{"label", func(j *v1.Job) { j.Constraint = &v1.Constraint{Labels: []string{"n=7"}} },
			v1.RefusedReason_NO_WORKER, `labels ["n=7"]`},
		{"host", func(j *v1.Job) { j.Tasks[0].Constraint = &v1.Constraint{Hosts: []string{"mars"}} },
			v1.RefusedReason_NO_WORKER, `hosts ["mars"]`},
		{"selector", func(j *v1.Job) { j.Constraint = &v1.Constraint{Labels: []string{"!a=b"}} },
			v1.RefusedReason_INVALID, "key!=value"},
		{"payload", func(j *v1.Job) { j.Tasks[0].Payload = make([]byte, 1<<20+1) }, v1.RefusedReason_TOO_LARGE,
			"the limit is 1048576"},
		{"probe ratio", func(j *v1.Job) { j.ProbeRatio = 0.5 }, v1.RefusedReason_INVALID, "1 to 10"},
		{"policy", func(j *v1.Job) { j.Policy = 42 }, v1.RefusedReason_INVALID, "policy number 42"},
		{"index", func(j *v1.Job) { j.Tasks[0].Index, j.Tasks[1].Index = 1, 1 }, v1.RefusedReason_INVALID, "two tasks"},
		{"deadline", func(j *v1.Job) { j.DeadlineUs = -1 }, v1.RefusedReason_INVALID, "negative"},
		{"retries", func(j *v1.Job) { j.Tasks[0].Retries = -1 }, v1.RefusedReason_INVALID, "retries"},
	} {
		t.Run(bad.name, func(t *testing.T) {
			j := newJob("echo", "a", "b")
			bad.change(j)
			_, err := c.client.Run(ctx, &v1.RunRequest{Job: j})
			wantRefused(t, err, bad.reason, bad.says)
			_, err = c.client.Submit(ctx, &v1.SubmitRequest{Job: j})
			wantRefused(t, err, bad.reason, bad.says)
		})
	}
	_, err := c.client.Events(ctx, &v1.EventsRequest{Handle: &v1.Handle{Job: newID(), Owner: c.Advertised()}})
	wantRefused(t, err, v1.RefusedReason_UNKNOWN_JOB, "not known here")
	_, err = c.client.Events(ctx, &v1.EventsRequest{Handle: &v1.Handle{Job: newID(), Owner: "198.51.100.1:1"}})
	wantRefused(t, err, v1.RefusedReason_OWNER_LOST, "not among the frontends")
	if n := c.core.Jobs(); n != 0 {
		t.Errorf("%d jobs are left", n)
	}
}

func TestConstraintsSteer(t *testing.T) {
	c := startCluster(t, 3, 2)
	j := newJob("echo", "a", "b", "c", "d", "e", "f")
	j.Constraint = &v1.Constraint{Labels: []string{"n!=0"}}
	for _, task := range j.Tasks[3:] {
		task.Constraint = &v1.Constraint{Hosts: []string{"w2"}}
	}
	res, err := c.client.Run(context.Background(), &v1.RunRequest{Job: j})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range res.Outcomes {
		if o.Worker == "w0" || o.Task >= 3 && o.Worker != "w2" {
			t.Errorf("task %d ran on %s", o.Task, o.Worker)
		}
	}
}

func TestSecret(t *testing.T) {
	const secret = "sesame"
	w, err := wserve.New(wserve.Config{Listen: "127.0.0.1:0", Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	c := startCluster(t, 0, 1,
		func(cfg *Config) { cfg.Workers = Static{w.Addr().String()}; cfg.Secret = secret; cfg.Name = "right" })
	_ = c
	ctx := context.Background()
	_, err = c.client.Run(ctx, &v1.RunRequest{Job: newJob("echo", "x")})
	wantRefused(t, err, v1.RefusedReason_UNAUTHORIZED, "secret")
	text := secret
	pollUntil(t, "the worker", func() bool {
		res, err := c.client.Run(ctx, &v1.RunRequest{Caller: &v1.Caller{Secret: &text}, Job: newJob("echo", "x")})
		return err == nil && len(res.Outcomes) == 1
	})

	// A worker refuses a frontend with another secret, and the frontend reports that.
	other := startCluster(t, 0, 1, func(cfg *Config) { cfg.Workers = Static{w.Addr().String()} })
	pollUntil(t, "the rejection", func() bool {
		res, err := other.client.Cluster(ctx, &v1.ClusterRequest{})
		return err == nil && len(res.Workers) == 1 && strings.Contains(res.Workers[0].Error, "secret")
	})

	for _, cfg := range []Config{{Listen: "0.0.0.0:0"}, {Listen: "nonsense"}, {Core: c.cfg.Core, MaxConns: -1}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

// After a rejection by a worker, a frontend waits for redialDelay (1 s) before each new connection.
func TestPauseAfterRejection(t *testing.T) {
	w, err := wserve.New(wserve.Config{Listen: "127.0.0.1:0", Secret: "sesame"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	began := time.Now() // before the first rejection, because a busy machine may show both rejections at once
	c := startCluster(t, 0, 1, func(cfg *Config) { cfg.Workers = Static{w.Addr().String()} })
	pollUntil(t, "the second rejection", func() bool { return c.metrics.protocolErrors.Get() > 1 })
	if d := time.Since(began); d < 900*time.Millisecond {
		t.Errorf("asked again after %v", d)
	}
}

// A drained frontend leaves no result at its workers. A worker would wait for the acknowledgement.
func TestDrainAcknowledges(t *testing.T) {
	w, err := wserve.New(wserve.Config{Listen: "127.0.0.1:0", Core: worker.Config{Retain: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	c := startCluster(t, 0, 1, func(cfg *Config) { cfg.Workers = Static{w.Addr().String()} })
	c.awaitWorkers(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 20 {
		if _, err := c.client.Run(ctx, &v1.RunRequest{Job: newJob("echo", "a", "b")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Drain(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := w.Drain(ctx); err != nil {
		t.Errorf("the worker still waits: %v", err)
	}
}

// failingListener is a listener without room for the first connection.
type failingListener struct {
	net.Listener
	failed atomic.Bool
}

func (l *failingListener) Accept() (net.Conn, error) {
	if !l.failed.Swap(true) {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.ENOMEM}
	}
	return l.Listener.Accept()
}

// After an error for lack of memory, Accept may succeed for the next connection.
func TestAcceptFails(t *testing.T) {
	c := startCluster(t, 0, 0)
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newListener(&failingListener{Listener: raw}, c.Server)
	defer l.Close()
	peer, err := net.Dial("tcp", raw.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestSubmitAndEvents(t *testing.T) {
	c := startCluster(t, 2, 2)
	ctx := context.Background()
	j := newJob("echo", "a", "b", "c", "d", "e")
	first, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: j})
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: j})
	if err != nil || *again.Handle != *first.Handle {
		t.Fatalf("submitted again: %v, %v; want %v", again, err, first)
	}
	seen := map[int32]bool{}
	for cursor, done := int64(0), false; !done; {
		res, err := c.client.Events(ctx,
			&v1.EventsRequest{Handle: first.Handle, Cursor: cursor, MaxWaitUs: 1e6, MaxEvents: 2})
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Events) > 2 {
			t.Fatalf("%d events, asked for 2", len(res.Events))
		}
		for _, e := range res.Events {
			if seen[e.Outcome.Task] {
				t.Fatalf("task %d was delivered twice", e.Outcome.Task)
			}
			seen[e.Outcome.Task] = true
		}
		cursor, done = res.Cursor, res.Done
	}
	if len(seen) != 5 {
		t.Fatalf("outcomes of %v", seen)
	}
}

func TestCancelAndDeadline(t *testing.T) {
	c := startCluster(t, 1, 1)
	ctx := context.Background()
	j := newJob("sleep", "1h", "1h")
	h, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: j})
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.client.Cancel(ctx, &v1.CancelRequest{Handle: h.Handle, Reason: "enough"})
	if err != nil || res.Cancelled != 2 {
		t.Fatalf("cancel: %v %v", res, err)
	}
	ev, err := c.client.Events(ctx, &v1.EventsRequest{Handle: h.Handle, MaxWaitUs: 1e6})
	if err != nil || !ev.Done || len(ev.Events) != 2 || ev.Events[0].Outcome.Kind != v1.OutcomeKind_CANCELLED {
		t.Fatalf("events: %v %v", ev, err)
	}

	j = newJob("sleep", "1h", "1ms")
	j.DeadlineUs = 50_000
	run, err := c.client.Run(ctx, &v1.RunRequest{Job: j})
	if err != nil || len(run.Outcomes) != 2 || run.Outcomes[1].Kind != v1.OutcomeKind_DEADLINE_EXCEEDED {
		t.Fatalf("deadline: %v %v", run, err)
	}
	// The slot of the killed sleep must be free again.
	if _, err := c.client.Run(ctx, &v1.RunRequest{Job: newJob("echo", "x")}); err != nil {
		t.Fatal(err)
	}
}

func TestClientGone(t *testing.T) {
	c := startCluster(t, 1, 1, func(cfg *Config) { cfg.ClientGrace = 300 * time.Millisecond })
	ctx := context.Background()
	if _, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: newJob("sleep", "1h")}); err != nil {
		t.Fatal(err)
	}
	pollUntil(t, "the job of a client that does not ask to be cancelled", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.core.Jobs() == 0
	})
	// Now a client hangs up during Run: the job goes through a proxy, and the proxy cuts the connection.
	cut := proxy.New(t, c.Addr())
	gone := dialAPI(t, cut.Addr)
	ended := make(chan error, 1)
	go func() {
		_, err := gone.Run(ctx, &v1.RunRequest{Job: newJob("sleep", "1h")})
		ended <- err
	}()
	pollUntil(t, "the job to run", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.core.Jobs() == 1
	})
	cut.Close()
	if err := <-ended; err == nil {
		t.Error("the call survived its connection")
	}
	pollUntil(t, "the job of a client that hung up to be cancelled", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.core.Jobs() == 0
	})
}

// Close drops all jobs at once. Clients may still cancel jobs, and the server may still look for clients that are
// gone.
func TestCancelledAsItCloses(t *testing.T) {
	c := startCluster(t, 1, 1)
	ctx := context.Background()
	var handles []*v1.Handle
	for range 2 {
		res, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: newJob("sleep", "1h")})
		if err != nil {
			t.Fatal(err)
		}
		handles = append(handles, res.Handle)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := (&handler{c.Server}).Cancel(ctx, &v1.CancelRequest{Handle: handles[0]})
	wantRefused(t, err, v1.RefusedReason_UNKNOWN_JOB, "not known here")
	c.mu.Lock()
	defer c.unlockAndFlush()
	c.sweepJobsLocked(time.Now().Add(time.Hour))
}

// A client that loses its connection and comes back has not cancelled its job. That holds whether or not the
// frontend has noticed the lost connection by then.
func TestClientComesBack(t *testing.T) {
	release := make(chan struct{})
	w := startHolding(t, "127.0.0.1:0", "w", release)
	c := startCluster(t, 0, 0, func(cfg *Config) {
		cfg.Workers, cfg.ClientGrace = Static{w.Addr().String()}, 300*time.Millisecond
	})
	c.awaitWorkers(t, 1)
	ctx := context.Background()
	heard := func(id string) *clientConn { // the latest connection that waits for the job's results
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, r := range c.jobs {
			if n := len(r.waitingRuns); r.id.String() == id && n > 0 {
				return r.waitingRuns[n-1].conn
			}
		}
		return nil
	}
	for _, before := range []bool{true, false} {
		cut := proxy.New(t, c.Addr())
		j := newJob("sleep", "1h")
		if before {
			j = newJob("hold", "")
		}
		first, second := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := dialAPI(t, cut.Addr).Run(ctx, &v1.RunRequest{Job: j})
			first <- err
		}()
		pollUntil(t, "the job to be there", func() bool { return heard(j.Id) != nil })
		if !before {
			cut.Close()
			<-first
			pollUntil(t, "it to be cancelled", func() bool { return heard(j.Id) == nil })
			j.Tasks[0].Payload = []byte("1ms")
		}
		by := heard(j.Id)
		go func() {
			resp, err := c.client.Run(ctx, &v1.RunRequest{Job: j})
			if err == nil && (len(resp.Outcomes) != 1 || resp.Outcomes[0].Kind != v1.OutcomeKind_RESULT) {
				err = fmt.Errorf("%v", resp.Outcomes)
			}
			second <- err
		}()
		if before {
			pollUntil(t, "the client to come back", func() bool { return heard(j.Id) != by })
			cut.Close()
			<-first
			c.sweepLater(time.Hour)
			close(release)
		}
		if err := <-second; err != nil {
			t.Errorf("back before the frontend notices: %t: %v", before, err)
		}
	}
}

// startHolding starts a worker with one slot at an address. Its function "hold" ends once release is closed.
func startHolding(t *testing.T, addr, name string, release <-chan struct{}) *wserve.Server {
	t.Helper()
	r := exec.NewRegistry()
	if err := r.Register("hold", func(ctx context.Context, _ []byte) ([]byte, error) {
		select {
		case <-release:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}); err != nil {
		t.Fatal(err)
	}
	w, err := wserve.New(wserve.Config{Listen: addr, Name: name, Registry: r, Goroutines: true,
		Core: worker.Config{Capacity: probe.Slot}})
	if err != nil {
		t.Fatal(err)
	}
	pollUntil(t, "the address", func() bool { return w.Start() == nil })
	t.Cleanup(func() { w.Close() })
	return w
}

func TestWorkerRestartsOnItsAddress(t *testing.T) {
	addr := porttest.FreeAddress(t)
	first := startHolding(t, addr, "first", nil)
	c := startCluster(t, 0, 0, func(cfg *Config) { cfg.Workers = Static{addr} })
	c.awaitWorkers(t, 1)
	ctx := context.Background()
	done := make(chan error, 1)
	go func() {
		res, err := c.client.Run(ctx, &v1.RunRequest{Job: newJob("hold", "")})
		if err == nil && (res.Outcomes[0].Kind != v1.OutcomeKind_RESULT || res.Outcomes[0].Worker != "again") {
			err = fmt.Errorf("outcome %v", res.Outcomes[0])
		}
		done <- err
	}()
	pollUntil(t, "the task to run", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, running := c.core.Pending()
		return running == 1
	})
	first.Close()
	release := make(chan struct{})
	close(release)
	startHolding(t, addr, "again", release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestWorkersFile(t *testing.T) {
	var workers []*wserve.Server
	for i := range 2 {
		w, err := wserve.New(wserve.Config{Listen: "127.0.0.1:0", Name: fmt.Sprint("w", i)})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		workers = append(workers, w)
	}
	name := filepath.Join(t.TempDir(), "workers")
	write := func(text string) {
		if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	write("# the first\n" + workers[0].Addr().String() + "\n")
	warned := make(chan error, 10)
	c := startCluster(t, 0, 0,
		func(cfg *Config) { cfg.Workers = File{Name: name, Warn: func(err error) { warned <- err }} })
	c.awaitWorkers(t, 1)
	write("nonsense\n")
	if err := <-warned; !strings.Contains(err.Error(), "line 1") {
		t.Error(err)
	}
	write(workers[1].Addr().String() + " # the second\n")
	pollUntil(t, "the second alone", func() bool {
		res, err := c.client.Cluster(context.Background(), &v1.ClusterRequest{})
		return err == nil && len(res.Workers) == 1 && res.Workers[0].Name == "w1" && res.Workers[0].State == "up"
	})
	if err := (File{Name: name + "-not"}).Watch(context.Background(), nil); err == nil {
		t.Error("a file that is not there was watched")
	}
}

// A list without a live worker takes no live worker off: an emptied file, or a DNS answer with wrong addresses. Once
// a listed worker is live, the list holds. A worker that is not live goes at once.
func TestListWithoutLiveWorker(t *testing.T) {
	c := startCluster(t, 3, 1)
	ctx := context.Background()
	addr := func(i int) string { return c.workers[i].Addr().String() }
	isListed := func(addrs ...string) func() bool {
		slices.Sort(addrs)
		return func() bool { return slices.Equal(c.listAddrs(), addrs) }
	}
	c.takeList([]string{addr(0), addr(1)})
	if !isListed(addr(0), addr(1))() {
		t.Fatalf("%v are on the list, want the first two", c.listAddrs())
	}
	j := newJob("sleep", "1h", "1h")
	j.Tasks[0].Retryable, j.Tasks[1].Retryable = false, false
	if _, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: j}); err != nil {
		t.Fatal(err)
	}
	pollUntil(t, "the tasks to run", func() bool { _, running := c.counts(); return running == 2 })
	silent, err := net.Listen("tcp", "127.0.0.1:0") // an address where no worker answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, list := range [][]string{{}, {silent.Addr().String()}} {
		c.takeList(list)
		c.recheckList()
		if !isListed(append(list, addr(0), addr(1))...)() {
			t.Errorf("the list %v was given, %v remain", list, c.listAddrs())
		}
		if w := c.Warning(); !strings.Contains(w, "names no live worker, so the 2 workers") {
			t.Errorf("it warns %q", w)
		}
	}
	if _, running := c.counts(); running != 2 {
		t.Errorf("%d tasks run on", running)
	}
	c.takeList([]string{silent.Addr().String(), addr(2)})
	pollUntil(t, "the list to hold, once a listed worker is up", isListed(silent.Addr().String(), addr(2)))
	if w := c.Warning(); w != "" {
		t.Errorf("it warns %q", w)
	}
	c.workers[2].Close()
	pollUntil(t, "the last worker to be gone for good", func() bool {
		c.takeList(nil)
		return isListed()()
	})
}

// counts returns the numbers of tasks that wait and that run.
func (c *testCluster) counts() (pending, running int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.core.Pending()
}

func TestDrain(t *testing.T) {
	defer func(d time.Duration) { firstCall = d }(firstCall)
	firstCall = time.Minute // the client's first call comes sooner, even on a busy machine
	c := startCluster(t, 1, 1)
	ctx := context.Background()
	ran := make(chan error, 1)
	go func() {
		_, err := dialAPI(t, c.Addr()).Run(ctx, &v1.RunRequest{Job: newJob("sleep", "200ms")})
		ran <- err
	}()
	pollUntil(t, "a job", func() bool { return c.coreStats().Jobs == 1 })
	// A client that calls once on each connection has connected before the drain, and calls during the drain.
	late, err := net.Dial("tcp", c.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	pollUntil(t, "a connection without a call", c.listener.awaitsFirstCalls)
	drained := make(chan error, 1)
	go func() { drained <- c.Drain(ctx) }()
	pollUntil(t, "an end of listening", func() bool { return !c.isAccepting() })
	if _, err := late.Write(frame.AppendCall(nil, "Run", 1, &v1.RunRequest{Job: newJob("echo", "x")})); err != nil {
		t.Fatal(err)
	}
	var res v1.PhoebeRunResult
	err = frame.ReadAnswer(bufiox.NewDefaultReader(late), "Run", 1, 1<<20, &res)
	if err != nil || len(res.Success.Outcomes) != 1 {
		t.Errorf("the first call on a connection that was accepted: %v %v", res, err)
	}
	c.awaitDraining(t)
	if c.Ready() == nil {
		t.Error("ready while draining")
	}
	if err := <-ran; err != nil {
		t.Errorf("the job under way: %v", err)
	}
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
}

// A client that connects for each call is accepted until the client has all outcomes of its submitted jobs.
func TestDrainSubmitted(t *testing.T) {
	c := startCluster(t, 1, 1)
	ctx := context.Background()
	h, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: newJob("sleep", "200ms")})
	if err != nil {
		t.Fatal(err)
	}
	drained := make(chan error, 1)
	go func() { drained <- c.Drain(ctx) }()
	c.awaitDraining(t)
	for cursor, done := int64(0), false; !done; {
		ev, err := dialAPI(t, c.Addr()).Events(ctx,
			&v1.EventsRequest{Handle: h.Handle, Cursor: cursor, MaxWaitUs: 10_000})
		if err != nil || len(ev.Events) > 0 && ev.Events[0].Outcome.Kind != v1.OutcomeKind_RESULT {
			t.Fatalf("the job under way: %v %v", ev, err)
		}
		cursor, done = ev.Cursor, ev.Done
	}
	pollUntil(t, "an end of listening", func() bool { return !c.isAccepting() })
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
}

// isAccepting tries to connect to the frontend.
func (c *testCluster) isAccepting() bool {
	conn, err := net.Dial("tcp", c.Addr())
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// awaitDraining waits until the frontend refuses a job because of its drain.
func (c *testCluster) awaitDraining(t *testing.T) {
	t.Helper()
	pollUntil(t, "a refusal", func() bool {
		_, err := c.client.Run(context.Background(), &v1.RunRequest{Job: newJob("echo", "x")})
		var r *v1.Refused
		return errors.As(err, &r) && r.Reason == v1.RefusedReason_DRAINING && r.RetryAfterUs > 0
	})
}

func TestOverload(t *testing.T) {
	c := startCluster(t, 1, 1, func(cfg *Config) { cfg.Core.MaxWait = 20 * time.Millisecond; cfg.Core.MaxPending = 50 })
	ctx := context.Background()
	if _, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: newJob("sleep", "1h")}); err != nil {
		t.Fatal(err)
	}
	var r *v1.Refused
	pollUntil(t, "a refusal because jobs wait", func() bool {
		_, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: newJob("echo", "x")})
		return errors.As(err, &r)
	})
	if r.Reason != v1.RefusedReason_OVERLOADED || r.RetryAfterUs <= 0 {
		t.Errorf("refused with %v", r)
	}
	many := make([]string, 50)
	_, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: newJob("echo", many...)})
	if r := wantRefused(t, err, v1.RefusedReason_OVERLOADED, "the limit is 50"); r.RetryAfterUs <= 0 {
		t.Errorf("refused with %v", r)
	}
}

// TestForwarding sends every call to a frontend that does not own the job.
func TestForwarding(t *testing.T) {
	owner := startCluster(t, 1, 2)
	other := startCluster(t, 0, 0, func(cfg *Config) {
		cfg.Workers = Static{owner.workers[0].Addr().String()}
		cfg.Peers = []string{owner.Advertised()}
	})
	other.awaitWorkers(t, 1)
	ctx := context.Background()
	j := newJob("sleep", "100ms")
	h, err := owner.client.Submit(ctx, &v1.SubmitRequest{Job: j})
	if err != nil {
		t.Fatal(err)
	}
	// While the owner lives and has the job, a resubmission goes to the owner.
	j.Resubmission = &v1.Resubmission{PreviousOwner: owner.Advertised()}
	again, err := other.client.Submit(ctx, &v1.SubmitRequest{Job: j})
	if err != nil || *again.Handle != *h.Handle {
		t.Fatalf("resubmitted: %v %v, want %v", again, err, h)
	}
	ev, err := other.client.Events(ctx, &v1.EventsRequest{Handle: h.Handle, MaxWaitUs: 5e6})
	if err != nil || !ev.Done || len(ev.Events) != 1 {
		t.Fatalf("events by way of another frontend: %v %v", ev, err)
	}
	if other.coreStats().Jobs != 0 {
		t.Error("the job ran twice")
	}

	// Once the owner is gone, the second frontend takes over.
	owner.Close()
	_, err = other.client.Events(ctx, &v1.EventsRequest{Handle: h.Handle})
	wantRefused(t, err, v1.RefusedReason_OWNER_LOST, "does not answer")
	j = newJob("echo", "x")
	j.Resubmission = &v1.Resubmission{PreviousOwner: owner.Advertised()}
	res, err := other.client.Run(ctx, &v1.RunRequest{Job: j})
	if err != nil || res.Outcomes[0].Kind != v1.OutcomeKind_RESULT || res.Handle.Owner != other.Advertised() {
		t.Fatalf("resubmitted to the other: %v %v", res, err)
	}
}

// TestClaim closes a frontend while its task runs. The next frontend adopts the attempt.
func TestClaim(t *testing.T) {
	release := make(chan struct{})
	w := startHolding(t, "127.0.0.1:0", "w", release)
	useWorker := func(cfg *Config) { cfg.Workers = Static{w.Addr().String()} }
	owner, other := startCluster(t, 0, 0, useWorker), startCluster(t, 0, 0, useWorker)
	owner.awaitWorkers(t, 1)
	other.awaitWorkers(t, 1)
	ctx := context.Background()
	j := newJob("hold", "")
	j.Tasks[0].Retryable = false
	if _, err := owner.client.Submit(ctx, &v1.SubmitRequest{Job: j}); err != nil {
		t.Fatal(err)
	}
	pollUntil(t, "the task to run", func() bool {
		ws, err := other.client.Cluster(ctx, &v1.ClusterRequest{})
		return err == nil && len(ws.Workers) == 1 && ws.Workers[0].Running == 1
	})
	owner.Server.Close()
	j.Resubmission = &v1.Resubmission{PreviousOwner: owner.Advertised()}
	go func() {
		defer close(release)
		pollUntil(t, "the attempt to be adopted", func() bool { return other.coreStats().Adopted > 0 })
	}()
	res, err := other.client.Run(ctx, &v1.RunRequest{Job: j})
	if err != nil || res.Outcomes[0].Kind != v1.OutcomeKind_RESULT {
		t.Fatalf("claimed: %v %v", res, err)
	}
	if st := other.coreStats(); st.Adopted != 1 || st.Binds+st.Rides != 0 {
		t.Errorf("%d adopted, %d bound, %d rides; want 1, 0, 0", st.Adopted, st.Binds, st.Rides)
	}
	// A task that may start only once is lost if no worker knows the task.
	j = newJob("echo", "x")
	j.Tasks[0].Retryable = false
	j.Resubmission = &v1.Resubmission{PreviousOwner: owner.Advertised()}
	res, err = other.client.Run(ctx, &v1.RunRequest{Job: j})
	if err != nil || res.Outcomes[0].Kind != v1.OutcomeKind_FAILED ||
		res.Outcomes[0].Failure.Reason != v1.FailureReason_LOST {
		t.Fatalf("lost: %v %v", res, err)
	}
}

// TestHostileConnections: bytes of foreign protocols hurt no client but the sender.
func TestHostileConnections(t *testing.T) {
	c := startCluster(t, 1, 1, func(cfg *Config) { cfg.MaxConns = 50 })
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "\x00\x00\x00\x05hello", "\xff\xff\xff\xff\xff\xff\xff\xff",
		"\x7f\xff\xff\xff\x80\x01\x00\x01",
		// Protocols that Kitex would understand: its header, its mesh header, Protobuf, no frame, and HTTP/2.
		"\x00\x10\x00\x00\x10\x00\x00\x00\x00\x00\x00\x01\x00\x01\x00\x00", "\xff\xaf\x00\x00\x00\x00\x00\x00",
		"\x00\x10\x00\x00\x90\x01\x00\x01\x00\x00\x00\x03Run",
		"\x80\x01\x00\x01\x00\x00\x00\x07Cluster\x00\x00\x00\x01\x00", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", c.Addr())
		if err != nil {
			t.Fatal(err)
		}
		conn.Write([]byte(text))
		conn.(*net.TCPConn).CloseWrite()
		conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		answer, err := io.ReadAll(conn)
		if ne, ok := err.(net.Error); ok && ne.Timeout() || len(answer) > 0 {
			t.Errorf("%q: the connection is still open, or was answered: %q, %v", text, answer, err)
		}
		conn.Close()
	}
	idle := make([]net.Conn, 0, 100)
	for range 100 {
		conn, err := net.Dial("tcp", c.Addr())
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, conn)
	}
	pollUntil(t, "connections over the limit to be closed", func() bool { return c.metrics.connsRefused.Get() >= 50 })
	if _, err := c.client.Run(context.Background(), &v1.RunRequest{Job: newJob("echo", "x")}); err != nil {
		t.Errorf("a client that was there before: %v", err)
	}
	if _, err := dialAPI(t, c.Addr()).Run(context.Background(), &v1.RunRequest{Job: newJob("echo", "x")}); err != nil {
		t.Errorf("a client that came when strangers had taken all the room: %v", err)
	}
	for _, conn := range idle {
		conn.Close()
	}
}
