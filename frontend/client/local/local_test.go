package local_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"

	"github.com/phoebe-sched/phoebe/worker/exec"
)

// startReady starts a cluster, and checks that it is ready and linked. The cluster is closed at the end of the test.
func startReady(t *testing.T, cfg local.Config) *local.Cluster {
	t.Helper()
	c, err := local.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.Ready(); err != nil {
		t.Error(err)
	}
	cl, err := client.New(c.Frontends(), client.WithSecret(cfg.Secret))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for range c.Frontends() {
		said, err := admin.New(cl).Cluster(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range said.Workers {
			if w.State != "up" {
				t.Errorf("%s is %s at %s when the cluster has started", w.Address, w.State, said.Frontend)
			}
		}
	}
	return c
}

// A cluster with a secret runs a function of the program.
func TestRun(t *testing.T) {
	registry := exec.NewRegistry()
	err := registry.Register("upper", func(_ context.Context, payload []byte) ([]byte, error) {
		return []byte(strings.ToUpper(string(payload))), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c := startReady(t, local.Config{
		Frontends: 2, Workers: 3, Slots: 2, Registry: registry, Secret: "s", Policy: "late-binding",
		Worker: func(i int, c *wserve.Config) { c.Labels = []string{"n=" + string(rune('0'+i))} },
	})
	if len(c.Frontends()) != 2 || len(c.Workers()) != 3 {
		t.Errorf("%v %v", c.Frontends(), c.Workers())
	}
	cl, err := client.New(c.Frontends(), client.WithSecret("s"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for range 2 { // once at each frontend
		outs, err := cl.Run(t.Context(), client.Job{
			Tasks:      []client.Task{{Function: "upper", Payload: []byte("hello")}},
			Constraint: client.Constraint{Labels: []string{"n=2"}},
		})
		if err != nil || string(outs[0].Result) != "HELLO" || outs[0].Worker != "worker-2" {
			t.Errorf("%+v %v", outs, err)
		}
	}
	said, err := admin.New(cl).Cluster(t.Context())
	if err != nil || len(said.Workers) != 3 || said.Workers[0].Capacity.CPU != 2000 {
		t.Errorf("%+v %v", said, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.Drain(ctx); err != nil {
		t.Error(err)
	}
	if c.Ready() == nil {
		t.Error("ready while it drains")
	}
	if err := c.Failed(canceledContext(t)); err != nil {
		t.Errorf("failed: %v", err)
	}
}

// The context of a function carries the job's deadline.
func TestDeadline(t *testing.T) {
	registry := exec.NewRegistry()
	err := registry.Register("until", func(ctx context.Context, _ []byte) ([]byte, error) {
		at, ok := ctx.Deadline()
		if !ok {
			return nil, errors.New("there is no deadline")
		}
		return []byte(time.Until(at).String()), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c := startReady(t, local.Config{Registry: registry})
	cl, err := client.New(c.Frontends())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, estimate := range []time.Duration{0, time.Minute} { // late and early binding
		outs, err := cl.Run(t.Context(), client.Job{
			Deadline: time.Hour, Tasks: []client.Task{{Function: "until", Estimate: estimate}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if timeLeft, err := time.ParseDuration(string(outs[0].Result)); err != nil || timeLeft > time.Hour ||
			timeLeft < 50*time.Minute {
			t.Errorf("%v left of an hour: %v", timeLeft, err)
		}
	}
	if _, err := cl.Run(t.Context(), client.Job{Tasks: []client.Task{{Function: "until"}}}); err == nil {
		t.Error("a deadline where there is none")
	}
}

// canceledContext returns a context that has ended.
func canceledContext(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestStartRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	for _, test := range []struct {
		cfg  local.Config
		says string
	}{
		{local.Config{Workers: -1}, "number of workers is -1"},
		{local.Config{Policy: "best"}, `"best"`},
		{local.Config{FrontendPort: 65535, Frontends: 2}, "65535"},
		{local.Config{Worker: func(_ int, c *wserve.Config) { c.Secret = "another" }}, "a worker rejects"},
		{local.Config{Frontends: 1, FrontendPort: port}, taken.Addr().String()},
		{local.Config{Frontends: 1, Workers: 1, WorkerPort: port}, taken.Addr().String()},
	} {
		c, err := local.Start(test.cfg)
		if err == nil {
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: %v, want %q", test.cfg, err, test.says)
		}
	}
	if _, err := local.Start(local.Config{FrontendPort: port}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a taken port: %v", err)
	}
	c, err := local.Start(local.Config{FrontendPort: port, OrFree: true})
	if err != nil || strings.HasSuffix(c.Frontends()[0], fmt.Sprint(":", port)) {
		t.Fatalf("another port was to be taken: %v", err)
	}
	defer c.Close()
}
