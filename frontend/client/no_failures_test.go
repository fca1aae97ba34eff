package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	fserve "github.com/phoebe-sched/phoebe/frontend/serve"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"

	"github.com/phoebe-sched/phoebe/worker/exec"
)

// If nothing goes wrong, each task starts once, and its first attempt has the result. The test covers every policy.
// Queues last longer than two Syncs of the links (2 s apart), files take longer than a Sync, and tasks of
// microseconds run at the same time. Copies of late tasks are turned off, because on a busy machine some tasks are
// late.
func TestNothingIsLostWhileAllIsWell(t *testing.T) {
	t.Parallel()
	var starts sync.Map // of tasks, by their payloads
	registry := exec.NewRegistry()
	err := registry.Register("work", func(ctx context.Context, payload []byte) ([]byte, error) {
		n, _ := starts.LoadOrStore(string(payload), new(atomic.Int32))
		n.(*atomic.Int32).Add(1)
		_, text, _ := strings.Cut(string(payload), " ")
		takes, err := time.ParseDuration(text)
		if err != nil {
			return nil, err
		}
		select {
		case <-time.After(takes):
			return payload, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	content := bytes.Repeat([]byte("data"), 1000)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(content[:len(content)/2])
		_ = http.NewResponseController(w).Flush()
		select {
		case <-time.After(3 * time.Second):
			_, _ = w.Write(content[len(content)/2:])
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(origin.Close)
	sum := sha256.Sum256(content)
	file := client.File{URL: origin.URL, SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(content))}
	cluster := startCluster(t, local.Config{
		Frontends: 2, Workers: 3, Slots: 4, Registry: registry,
		Frontend: func(_ int, c *fserve.Config) { c.Core.Copies = 0 },
		Worker: func(_ int, c *wserve.Config) {
			c.CacheDir, c.FileHosts = filepath.Join(t.TempDir(), "cache"), []string{"127.0.0.1"}
		},
	})

	const long = time.Second
	jobs := map[string]client.Job{}
	add := func(name string, job client.Job, n int, takes, hint time.Duration) {
		for i := range n {
			task := client.Task{
				Function: "work", Estimate: hint, Once: i%2 == 0, Payload: fmt.Appendf(nil, "%s.%d %v", name, i, takes),
			}
			if len(job.Stages) > 0 {
				task.Stage = job.Stages[i*len(job.Stages)/n].Name
			}
			job.Tasks = append(job.Tasks, task)
		}
		jobs[name] = job
	}
	for _, policy := range []client.Policy{"phoebe", "late-binding", "batch", "per-task", "random"} {
		add("long-"+string(policy), client.Job{Policy: policy}, 8, long, 0)
		add("short-"+string(policy), client.Job{Policy: policy}, 300, 10*time.Microsecond, 0)
	}
	add("estimated", client.Job{Mode: "estimate"}, 8, long, long)
	add("hinted", client.Job{}, 8, long, long)
	add("hinted-wrong", client.Job{}, 100, time.Millisecond, 3*long)
	add("staged", client.Job{Stages: []client.Stage{{Name: "a"}, {Name: "b", After: []string{"a"}}}}, 4, long/2, long)
	add("filed", client.Job{}, 3, long/4, long)
	for i := range jobs["filed"].Tasks {
		jobs["filed"].Tasks[i].Files = []client.File{file}
	}

	c := connectClient(t, cluster.Frontends())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for name, job := range jobs {
		all.Go(func() {
			outs, err := c.Run(ctx, job)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			for i, o := range outs {
				if o.Err != nil || o.Attempts != 1 || !bytes.Equal(o.Result, job.Tasks[i].Payload) {
					t.Errorf("%s, task %d: %q, %v after %d attempts", name, i, o.Result, o.Err, o.Attempts)
				}
				if n, _ := starts.Load(string(job.Tasks[i].Payload)); n == nil || n.(*atomic.Int32).Load() != 1 {
					t.Errorf("%s, task %d was not started once", name, i)
				}
			}
		})
	}
	all.Wait()
}
