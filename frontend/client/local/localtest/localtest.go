// Package localtest runs a cluster for a test, with a client. The cluster's log is the test's, and the cluster ends
// with the test:
//
//	func TestArea(t *testing.T) {
//		cluster := localtest.New(t, registry)
//		size, err := client.Call(t.Context(), cluster.Client, Area, Resize{3, 4})
//		...
//	}
//
// Programs that are no tests use package local: package localtest imports testing.
package localtest

import (
	"log/slog"
	"sync"
	"testing"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// Cluster is a local.Cluster with a Client.
type Cluster struct {
	*local.Cluster
	Client *client.Client
}

// New starts a frontend and two workers with the functions of registry (nil: only the built-in functions), and connects
// a client. Each change may alter the configuration first, for instance to start more frontends, or to give workers
// a cache:
//
//	localtest.New(t, registry, func(cfg *local.Config) {
//		cfg.Frontends = 2
//		cfg.Worker = func(_ int, worker *serve.Config) { worker.CacheDir = t.TempDir() }
//	})
//
// If the cluster does not start, the test fails at once. go test prints the log only of failed tests, or with -v.
func New(t testing.TB, registry *exec.Registry, changes ...func(*local.Config)) *Cluster {
	t.Helper()
	out := &testOutput{t: t}
	log := slog.New(slog.NewTextHandler(out, nil))
	cfg := local.Config{Registry: registry, Logger: log}
	for _, change := range changes {
		change(&cfg)
	}
	cluster, err := local.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	opts := []client.Option{client.WithLogger(log)}
	if cfg.Secret != "" {
		opts = append(opts, client.WithSecret(cfg.Secret))
	}
	if cfg.TLSDir != "" {
		opts = append(opts, client.WithTLS(cfg.TLSDir))
	}
	c, err := client.New(cluster.Frontends(), opts...)
	if err != nil {
		cluster.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
		out.closeOutput()
	})
	return &Cluster{cluster, c}
}

// testOutput writes to the log of a test, and drops all that comes after the test's end.
type testOutput struct {
	mu    sync.Mutex
	t     testing.TB
	ended bool
}

func (o *testOutput) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return len(b), nil
	}
	return o.t.Output().Write(b)
}

func (o *testOutput) closeOutput() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
}
