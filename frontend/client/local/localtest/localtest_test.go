package localtest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	"github.com/phoebe-sched/phoebe/frontend/client/local/localtest"
	"github.com/phoebe-sched/phoebe/idl/typed"
	"github.com/phoebe-sched/phoebe/worker/exec"
	"github.com/phoebe-sched/phoebe/worker/serve"
)

var repeat = typed.Func[int, string]{Name: "repeat"}

// A cluster for a test has a client, and workers with caches for large results.
func TestNew(t *testing.T) {
	registry := exec.NewRegistry()
	if err := exec.Register(registry, repeat, func(_ context.Context, n int) (string, error) {
		return strings.Repeat("a", n), nil
	}); err != nil {
		t.Fatal(err)
	}
	cluster := localtest.New(t, registry, func(cfg *local.Config) {
		cfg.Secret = "s3cret"
		cfg.Worker = func(_ int, worker *serve.Config) { worker.CacheDir = t.TempDir() }
	})
	for _, n := range []int{3, 3 << 20} {
		s, err := client.Call(t.Context(), cluster.Client, repeat, n, func(j *client.Job) { j.LargeResults = true })
		if err != nil || len(s) != n {
			t.Errorf("%d characters, %v", len(s), err)
		}
	}
	_, err := client.Call(t.Context(), cluster.Client, repeat, 3<<20)
	if failed, ok := errors.AsType[*client.TaskError](err); !ok || failed.Reason != client.ResultTooLarge ||
		!strings.Contains(failed.Message, "LargeResults") {
		t.Error(err)
	}
	if err := cluster.StopWorker(0); err != nil {
		t.Error(err)
	}
}

// recordedTest is a test that keeps its log.
type recordedTest struct {
	testing.TB
	log     bytes.Buffer
	ended   bool
	cleanup []func()
}

func (r *recordedTest) Output() io.Writer { return r }

func (r *recordedTest) Write(b []byte) (int, error) {
	if r.ended {
		r.Errorf("logged after the end of the test: %s", b)
	}
	return r.log.Write(b)
}

func (r *recordedTest) Cleanup(f func()) { r.cleanup = append(r.cleanup, f) }

// The log of the cluster goes to the test, and only while the test runs.
func TestLogIsTheTests(t *testing.T) {
	test := &recordedTest{TB: t}
	cluster := localtest.New(test, nil)
	if err := cluster.Client.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	for _, f := range test.cleanup {
		f()
	}
	test.ended = true
	for _, part := range []string{"frontend-0", "worker-1"} {
		if !strings.Contains(test.log.String(), part) {
			t.Errorf("the log lacks %s:\n%s", part, fmt.Sprint(test.log.String()))
		}
	}
}
