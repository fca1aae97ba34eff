package serve

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudwego/kitex/client"
	"github.com/cloudwego/kitex/pkg/connpool"
	"github.com/cloudwego/kitex/pkg/remote/trans/gonet"
	"github.com/cloudwego/kitex/transport"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1/phoebe"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

func init() { askTimeout, ownerTimeout = 5*time.Second, 5*time.Second } // a busy machine needs more time

// testCluster is a frontend with some workers on loopback.
type testCluster struct {
	*Server
	workers []*wserve.Server
	client  phoebe.Client
}

func startCluster(tb testing.TB, workers, slots int, change ...func(*Config)) *testCluster {
	tb.Helper()
	c := &testCluster{}
	var addrs Static
	for i := range workers {
		w, err := wserve.New(wserve.Config{
			Listen: "127.0.0.1:0", Name: fmt.Sprintf("w%d", i), Labels: []string{fmt.Sprintf("n=%d", i)},
			Core: worker.Config{
				Capacity: probe.Demand{CPU: probe.Millicores(1000 * slots), Mem: probe.MiB(256 * slots)}},
		})
		if err != nil {
			tb.Fatal(err)
		}
		if err := w.Start(); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { w.Close() })
		c.workers = append(c.workers, w)
		addrs = append(addrs, w.Addr().String())
	}
	cfg := Config{Listen: "127.0.0.1:0", Workers: addrs, Seed: 1}
	for _, f := range change {
		f(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	if err := s.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	c.Server = s
	c.client = dialAPI(tb, s.Addr())
	c.awaitWorkers(tb, workers)
	return c
}

func dialAPI(tb testing.TB, addr string) phoebe.Client {
	cl, err := phoebe.NewClient("phoebe", client.WithHostPorts(addr), client.WithTransportProtocol(transport.Framed),
		client.WithTransHandlerFactory(gonet.NewCliTransHandlerFactory()), client.WithDialer(gonet.NewDialer()),
		client.WithLongConnection(
			connpool.IdleConfig{MaxIdlePerAddress: 64, MaxIdleGlobal: 1024, MaxIdleTimeout: time.Minute}))
	if err != nil {
		tb.Fatal(err)
	}
	return cl
}

// awaitWorkers returns when n workers or more are up.
func (c *testCluster) awaitWorkers(tb testing.TB, n int) {
	tb.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); ; <-tick.C {
		res, err := c.client.Cluster(context.Background(),
			&v1.ClusterRequest{Caller: &v1.Caller{Secret: &c.cfg.Secret}})
		up := 0
		if err == nil {
			for _, w := range res.Workers {
				if w.State == "up" {
					up++
				}
			}
		}
		if up >= n {
			return
		}
		if time.Now().After(end) {
			tb.Fatalf("%d workers are up, want %d: %v %v", up, n, res, err)
		}
	}
}

// wantEnd fails the test unless do ends within a minute, without an error.
func wantEnd(t *testing.T, what string, do func() error) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- do() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%s does not end", what)
	}
}

// coreStats returns the counts of the core.
func (c *testCluster) coreStats() frontend.Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.core.Stats
}

func newID() string {
	return probe.NewJobID(time.Now().UnixMilli(), rand.Uint64(), rand.Uint64()).String()
}

func newJob(function string, payloads ...string) *v1.Job {
	j := v1.NewJob()
	j.Id = newID()
	for _, p := range payloads {
		t := v1.NewTask()
		t.FunctionName, t.Payload = function, []byte(p)
		j.Tasks = append(j.Tasks, t)
	}
	return j
}

func TestRun(t *testing.T) {
	c := startCluster(t, 3, 2)
	payloads := make([]string, 100)
	for i := range payloads {
		payloads[i] = fmt.Sprintf("payload %d", i)
	}
	j := newJob("echo", payloads...)
	j.Phases = true
	res, err := c.client.Run(context.Background(), &v1.RunRequest{Job: j})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Outcomes) != len(payloads) {
		t.Fatalf("%d outcomes for %d tasks", len(res.Outcomes), len(payloads))
	}
	seen := map[int32]bool{}
	for _, o := range res.Outcomes {
		if seen[o.Task] {
			t.Fatalf("task %d has two outcomes", o.Task)
		}
		seen[o.Task] = true
		if o.Kind != v1.OutcomeKind_RESULT || string(o.Result_) != payloads[o.Task] ||
			!strings.HasPrefix(o.Worker, "w") || o.Attempts != 1 {
			t.Fatalf("task %d: %v", o.Task, o)
		}
		if p := o.Phases; p.SampledUs > p.QueuedUs || p.StartedUs > p.FinishedUs || p.FinishedUs > p.DeliveredUs {
			t.Fatalf("task %d: phases out of order: %v", o.Task, p)
		}
	}
}

func BenchmarkFloor(b *testing.B) {
	f, err := bench.StartFloor()
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	b.ResetTimer()
	for range b.N {
		if _, err := f.RoundTrip(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	c := startCluster(b, 1, 4)
	ctx := context.Background()
	b.ResetTimer()
	for range b.N {
		if _, err := c.client.Run(ctx, &v1.RunRequest{Job: newJob("echo", "x")}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTasks runs jobs of 100 tasks that do nothing, 16 at a time.
func BenchmarkTasks(b *testing.B) {
	for _, policy := range []v1.Policy{v1.Policy_PHOEBE, v1.Policy_LATE_BINDING} {
		b.Run(policy.String(), func(b *testing.B) {
			c := startCluster(b, 10, 4)
			payloads := make([]string, 100)
			jobs := make(chan struct{}, 16)
			var wait sync.WaitGroup
			b.ResetTimer()
			for range 16 {
				wait.Go(func() {
					for range jobs {
						j := newJob("echo", payloads...)
						j.Policy = policy
						if _, err := c.client.Run(context.Background(), &v1.RunRequest{Job: j}); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for range b.N {
				jobs <- struct{}{}
			}
			close(jobs)
			wait.Wait()
			b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

// A message that may wait is delayed, and is sent even without another message to the worker.
func TestMessageMayWait(t *testing.T) {
	c := startCluster(t, 1, 1, func(cfg *Config) { cfg.Core.SyncEvery = time.Hour })
	l := c.links[0]
	waiting := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.conn.outbox)
	}
	for range 5 {
		pings := l.pingSeq.Load()
		c.mu.Lock()
		c.carryOut(frontend.Send{Worker: 0, Msg: probe.Probe{Seq: 1}, MayWait: true})
		c.unlockAndFlush()
		if waiting() == 0 && l.pingSeq.Load() == pings {
			t.Log("sent before it could be seen")
			continue
		}
		pollUntil(t, "the message is sent", func() bool { return waiting() == 0 })
		if l.pingSeq.Load() == pings {
			return
		}
	}
	t.Fatal("it never waits, or only a Ping takes it along")
}

// A late report about an earlier connection does not end the present connection.
func TestLateLoss(t *testing.T) {
	c := startCluster(t, 1, 1)
	for _, ev := range []frontend.Event{frontend.LinkLost{Worker: 0}, frontend.WorkerGone{Worker: 0}} {
		c.reportLost(c.links[0], ev)
		c.mu.Lock()
		status, _ := c.core.Status(0)
		c.mu.Unlock()
		if status.State != "up" {
			t.Errorf("%T: the worker is %s", ev, status.State)
		}
	}
}

// A server may be closed right after its start, at whatever point of Kitex's start.
func TestCloseAtOnce(t *testing.T) {
	for range 50 {
		s, err := New(Config{Listen: "127.0.0.1:0", Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// An open job without a task left does not hold up a drain. Its client goes on elsewhere.
func TestOpenJobsDoNotHoldADrain(t *testing.T) {
	c := startCluster(t, 1, 1)
	ctx := context.Background()
	j := newJob("echo", "first")
	j.Open = true
	submitted, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: j})
	if err != nil {
		t.Fatal(err)
	}
	h := submitted.Handle
	res, err := c.client.Events(ctx, &v1.EventsRequest{Handle: h, MaxWaitUs: time.Minute.Microseconds()})
	if err != nil || len(res.Events) != 1 {
		t.Fatal(res, err)
	}
	lost := make(chan error)
	go func() {
		_, err := c.client.Events(ctx,
			&v1.EventsRequest{Handle: h, Cursor: res.Cursor, MaxWaitUs: time.Minute.Microseconds()})
		lost <- err
	}()
	if err := c.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	var refused *v1.Refused
	if err := <-lost; !errors.As(err, &refused) || refused.Reason != v1.RefusedReason_OWNER_LOST {
		t.Error(err)
	}
}
