package local_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	fserve "github.com/phoebe-sched/phoebe/frontend/serve"
	"github.com/phoebe-sched/phoebe/worker/exec"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

// A slow file is fetched once, and the task runs, even if the download takes many times the Sync interval of frontend
// and worker. If a file never comes, the task ends after three tries.
func TestSlowFiles(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("drop by drop ", 100)
	var slow, mute atomic.Int32
	o := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mute" {
			mute.Add(1)
			<-r.Context().Done()
			return
		}
		slow.Add(1)
		const pieces = 15
		for i := range pieces {
			w.Write([]byte(content[len(content)*i/pieces : len(content)*(i+1)/pieces]))
			w.(http.Flusher).Flush()
			select {
			case <-time.After(100 * time.Millisecond): // a slow link
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(o.Close)
	registry := newCatRegistry(t)
	dir := t.TempDir()
	c := startReady(t, local.Config{
		Workers: 1, Registry: registry,
		Frontend: func(_ int, f *fserve.Config) { f.Core.SyncEvery = 50 * time.Millisecond },
		Worker: func(_ int, w *wserve.Config) {
			w.CacheDir, w.FileHosts, w.FileTimeout = filepath.Join(dir, "cache"), []string{"127.0.0.1"}, time.Second
		},
	})
	cl, err := client.New(c.Frontends())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	on := func(path string) client.Job {
		sum := sha256.Sum256([]byte(content))
		return client.Job{Deadline: time.Minute, Tasks: []client.Task{{
			Function: "cat",
			Files: []client.File{{URL: o.URL + path, SHA256: hex.EncodeToString(sum[:]),
				Bytes: int64(len(content))}},
		}}}
	}
	_, err = cl.Run(t.Context(), on("/mute"))
	failed, ok := errors.AsType[*client.TaskError](err)
	if !ok || failed.Reason != client.NoInput || !strings.Contains(failed.Message, o.URL+"/mute") ||
		!strings.Contains(failed.Message, "tried 3 times") {
		t.Errorf("with a file that never comes the job ends with %v", err)
	}
	if n := mute.Load(); n != 3 {
		t.Errorf("it was asked for %d times, want 3", n)
	}
	outcomes, err := cl.Run(t.Context(), on("/slow"))
	if err != nil {
		t.Fatal(err)
	}
	if o := outcomes[0]; o.Err != nil || string(o.Result) != content {
		t.Errorf("with a file that is slow to come the task ends with %q, %v", o.Result, o.Err)
	}
	if n := slow.Load(); n != 1 {
		t.Errorf("it was asked for %d times, want once", n)
	}
}

// With gossip, each frontend learns which worker has a file in its cache.
func TestGossip(t *testing.T) {
	t.Parallel()
	content := []byte("in a cache")
	name := filepath.Join(t.TempDir(), "part")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := startReady(t, local.Config{Frontends: 2, Workers: 3, Gossip: true, Secret: "xyzzy",
		Worker: func(i int, w *wserve.Config) {
			w.CacheDir, w.FileRoots = filepath.Join(dir, w.Name), []string{filepath.Dir(name)}
		}})
	sum := sha256.Sum256(content)
	file := client.File{URL: "file://" + name, SHA256: hex.EncodeToString(sum[:])}
	var at string
	for i, addr := range c.Frontends() {
		cl, err := client.New([]string{addr}, client.WithSecret("xyzzy"))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		if i == 0 {
			outcomes, err := cl.Run(t.Context(),
				client.Job{Tasks: []client.Task{{Function: "echo", Files: []client.File{file}}}})
			if err != nil {
				t.Fatal(err)
			}
			at = outcomes[0].Worker
		}
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			copies, err := cl.Locate(t.Context(), file.SHA256)
			if err != nil {
				t.Fatal(err)
			}
			if len(copies[0]) == 1 && copies[0][0].At == at {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("frontend %s: the file of %s is at %+v", addr, at, copies)
			}
		}
	}
}

// Of two workers, one cannot write to its cache. All tasks with files succeed at the other worker, without a retry.
// The fleet's state names the problem until the cache works again.
func TestDeadCache(t *testing.T) {
	t.Parallel()
	o := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL.Path)
	}))
	t.Cleanup(o.Close)
	registry := newCatRegistry(t)
	dir := t.TempDir()
	c := startReady(t, local.Config{
		Workers: 2, Registry: registry,
		Worker: func(i int, w *wserve.Config) {
			w.CacheDir, w.FileHosts = filepath.Join(dir, fmt.Sprint(i)), []string{"127.0.0.1"}
		},
	})
	dead := filepath.Join(dir, "0")
	if err := errors.Join(os.RemoveAll(dead), os.WriteFile(dead, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	cl, err := client.New(c.Frontends())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for round := range 2 {
		job := client.Job{}
		for i := range 20 {
			path := fmt.Sprintf("/%d/%d", round, i)
			sum := sha256.Sum256([]byte(path))
			job.Tasks = append(job.Tasks, client.Task{Function: "cat",
				Files: []client.File{{URL: o.URL + path, SHA256: hex.EncodeToString(sum[:])}}})
		}
		outcomes, err := cl.Run(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range outcomes {
			if string(o.Result) != fmt.Sprintf("/%d/%d", round, i) {
				t.Errorf("round %d, task %d: %q, %v", round, i, o.Result, o.Err)
			}
		}
	}
	countBroken := func() (n int) {
		all, err := admin.New(cl).Cluster(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range all.Workers {
			if w.CacheError != "" {
				n++
			}
		}
		return n
	}
	if n := countBroken(); n != 1 {
		t.Errorf("%d caches are out of service, want 1", n)
	}
	if err := os.Remove(dead); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(30 * time.Second); countBroken() > 0; {
		if time.Now().After(until) {
			t.Fatal("the cache stays out of service")
		}
	}
}

// A client with a token locates and reads the files that tasks of its tenant have read and written, by way of any
// frontend. To a client of another tenant the files do not exist. A client with the secret may read all files.
func TestFilesOfTenants(t *testing.T) {
	t.Parallel()
	content := []byte("in a cache")
	dir := t.TempDir()
	name, terms := filepath.Join(dir, "part"), filepath.Join(dir, "tenants.yaml")
	text := fmt.Sprintf("revision: 1\ntenants:\n  ads: {token-hashes: [%x]}\n  web: {token-hashes: [%x]}\n",
		sha256.Sum256([]byte("ads")), sha256.Sum256([]byte("web")))
	if err := errors.Join(os.WriteFile(name, content, 0o600), os.WriteFile(terms, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	registry := exec.NewRegistry()
	if err := registry.Register("large", func(context.Context, []byte) ([]byte, error) {
		return make([]byte, 9<<20), nil // too large for a message
	}); err != nil {
		t.Fatal(err)
	}
	c := startReady(t, local.Config{Frontends: 2, Workers: 1, Gossip: true, Secret: "xyzzy", Registry: registry,
		Frontend: func(_ int, f *fserve.Config) { f.Tenants = terms },
		Worker: func(_ int, w *wserve.Config) {
			w.CacheDir, w.FileRoots = filepath.Join(dir, "cache"), []string{dir}
		}})
	clientOf := func(frontend int, who client.Option) *client.Client {
		cl, err := client.New(c.Frontends()[frontend:frontend+1], who, client.WithRetryFor(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cl.Close() })
		return cl
	}
	sum := sha256.Sum256(content)
	input := client.File{URL: "file://" + name, SHA256: hex.EncodeToString(sum[:])}
	outcomes, err := clientOf(0, client.WithToken("ads")).Run(t.Context(), client.Job{Tenant: "ads/etl",
		LargeResults: true, Tasks: []client.Task{{Function: "large", Files: []client.File{input}}}})
	if err != nil {
		t.Fatal(err)
	}
	files := []string{input.SHA256, outcomes[0].File.SHA256}
	for i := range c.Frontends() {
		for who, option := range map[string]client.Option{
			"ads": client.WithToken("ads"), "web": client.WithToken("web"), "operator": client.WithSecret("xyzzy"),
		} {
			cl, may := clientOf(i, option), who != "web"
			operator := clientOf(i, client.WithSecret("xyzzy"))
			for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) { // gossip brings the files
				copies, err := operator.Locate(t.Context(), files...)
				if err != nil || time.Now().After(end) {
					t.Fatalf("frontend %d knows %v, %v", i, copies, err)
				}
				if len(copies[0])+len(copies[1]) == len(files) {
					break
				}
			}
			copies, err := cl.Locate(t.Context(), files...)
			if err != nil || len(copies[0]) != len(copies[1]) || (len(copies[0]) == 1) != may {
				t.Errorf("%s locates the files at frontend %d: %v, %v", who, i, copies, err)
			}
			r, err := cl.Open(t.Context(), outcomes[0])
			n := int64(0)
			if err == nil {
				n, err = io.Copy(io.Discard, r)
				r.Close()
			}
			if may && (err != nil || n != 9<<20) {
				t.Errorf("%s reads %d bytes at frontend %d: %v", who, n, i, err)
			} else if !may && (err == nil || !strings.Contains(err.Error(), `no task of tenant "web"`)) {
				t.Errorf("%s reads %d bytes at frontend %d: %v", who, n, i, err)
			}
		}
	}
}

// newCatRegistry returns a registry with the function "cat": its result is the task's first file.
func newCatRegistry(t *testing.T) *exec.Registry {
	t.Helper()
	registry := exec.NewRegistry()
	if err := registry.Register("cat", func(ctx context.Context, _ []byte) ([]byte, error) {
		return os.ReadFile(exec.Files(ctx)[0])
	}); err != nil {
		t.Fatal(err)
	}
	return registry
}
