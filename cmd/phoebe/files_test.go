package main_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// fileStore serves one file, and counts requests.
type fileStore struct {
	*httptest.Server
	content  string
	requests atomic.Int32
}

func newFileStore(t *testing.T) *fileStore {
	s := &fileStore{content: strings.Repeat("All that is fetched is checked.\n", 1<<15)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/part" {
			http.NotFound(w, r)
			return
		}
		s.requests.Add(1)
		fmt.Fprint(w, s.content)
	}))
	t.Cleanup(s.Close)
	return s
}

// describeFile returns a file of the store, with the digest of content.
func (s *fileStore) describeFile(name, content string) client.File {
	sum := sha256.Sum256([]byte(content))
	return client.File{URL: s.URL + "/" + name, SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(content))}
}

// hashJob returns a job with a task that hashes a file in a process. If host is not empty, the task must run there.
func hashJob(t *testing.T, file client.File, host string) client.Job {
	t.Helper()
	payload, err := exec.Command{Argv: []string{"sh", "-c", `sha256sum < "$PHOEBE_FILE_0"`}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	job := client.Job{Tasks: []client.Task{{Function: "exec", Payload: payload, Files: []client.File{file}}}}
	if host != "" {
		job.Constraint.Hosts = []string{host}
	}
	return job
}

// startCachingWorker starts a worker with a cache.
func startCachingWorker(t *testing.T, name string, flags ...string) *process {
	t.Helper()
	return startPhoebe(t, append([]string{"--log-level", "info", "worker", "--listen", "127.0.0.1:0", "--admin",
		"127.0.0.1:0", "--name", name, "--allow-exec",
		"--cache-dir", filepath.Join(t.TempDir(), name), "--file-hosts", "127.0.0.1"}, flags...)...)
}

// The second worker with a task for a file fetches the file from the first worker: the frontend knows the files of
// each cache. If a file cannot be fetched, the task's error names the file.
func TestFiles(t *testing.T) {
	t.Parallel()
	store, g := newFileStore(t), startGossiper(t)
	first := startCachingWorker(t, "first", "--join", g.heartbeat, "--speed", "2")
	second := startCachingWorker(t, "second", "--join", g.heartbeat)
	bare := startAnnounced(t, "bare", g.heartbeat)
	g.awaitWorkers(first.workerAddr(), second.workerAddr(), bare.workerAddr())
	c := newClient(t, g.api)
	part := store.describeFile("part", store.content)
	run := func(job client.Job) (client.Outcome, error) {
		t.Helper()
		outcomes, err := c.Run(t.Context(), job)
		if err != nil {
			return client.Outcome{}, err
		}
		return outcomes[0], outcomes[0].Err
	}
	fetched := func(host string, want int64) {
		t.Helper()
		o, err := run(hashJob(t, part, host))
		if err != nil {
			t.Fatal(err)
		}
		if got, _, _ := strings.Cut(string(o.Result), " "); got != part.SHA256 || o.Usage.Fetched != want {
			t.Errorf("at %s the file has the digest %s, %d bytes were fetched; want %s, %d", host, got,
				o.Usage.Fetched, part.SHA256, want)
		}
	}
	fetched("first", part.Bytes)
	known := func(files map[string]int) {
		t.Helper()
		waitUntil(t, func() error {
			said, err := c.Cluster(t.Context())
			if err != nil {
				return err
			}
			for _, w := range said.Workers {
				if w.View.Files != files[w.Name] {
					return fmt.Errorf("of worker %s %d files are known, want %d", w.Name, w.View.Files, files[w.Name])
				}
				if want := map[bool]float64{true: 2, false: 1}[w.Name == "first"]; w.View.Speed != want {
					return fmt.Errorf("worker %s has the speed %v", w.Name, w.View.Speed)
				}
			}
			return nil
		})
	}
	known(map[string]int{"first": 1})
	located := func(want ...client.Copy) {
		t.Helper()
		unknown := strings.Repeat("0", 64)
		got, err := c.Locate(t.Context(), slices.Insert(slices.Repeat([]string{unknown}, 150), 120, part.SHA256)...)
		if err != nil {
			t.Fatal(err)
		}
		for i, at := range got {
			if i == 120 && !slices.Equal(at, want) || i != 120 && len(at) > 0 {
				t.Errorf("file %d of %d is at %v, want %v for that of 120", i, len(got), at, want)
			}
		}
	}
	located(client.Copy{At: "first"})
	fetched("second", part.Bytes)
	fetched("second", 0)
	if n := store.requests.Load(); n != 1 {
		t.Errorf("the store was asked %d times", n)
	}
	if n := metricSum(t, first, `phoebe_worker_served_bytes_total`); n != float64(part.Bytes) {
		t.Errorf("the first worker has sent %v bytes to the second", n)
	}
	known(map[string]int{"first": 1, "second": 1})
	located(client.Copy{At: "first"}, client.Copy{At: "second"})
	if _, err := c.Locate(t.Context(), part.SHA256[:60]); err == nil ||
		!strings.Contains(err.Error(), "64 hexadecimal digits") {
		t.Errorf("a digest that is cut short: %v", err)
	}

	wrong, none := store.describeFile("part", "something else"), store.describeFile("nothing", "x")
	wrong.Bytes = 0
	for _, bad := range []struct {
		file client.File
		says []string
	}{{wrong, []string{"/part", "sha256", wrong.SHA256[:12]}}, {none, []string{"/nothing", "404"}}} {
		_, err := run(hashJob(t, bad.file, ""))
		failed, ok := errors.AsType[*client.TaskError](err)
		if !ok || failed.Reason != client.NoInput {
			t.Fatalf("%s: %v", bad.file.URL, err)
		}
		for _, want := range bad.says {
			if !strings.Contains(failed.Message, want) {
				t.Errorf("%s: %q does not tell %q", bad.file.URL, failed.Message, want)
			}
		}
	}
	if _, err := run(hashJob(t, part, "bare")); !errors.As(err, new(*client.RefusedError)) {
		t.Errorf("a worker without a cache is to run a task that needs a file: %v", err)
	}
}

// A worker in a fixed list takes files like all workers, except for facts only told by gossip.
func TestFilesWithoutGossip(t *testing.T) {
	t.Parallel()
	store := newFileStore(t)
	w := startCachingWorker(t, "w")
	f := startPhoebe(t, "frontend", "--listen", "127.0.0.1:0", "--workers", w.workerAddr())
	c := newClient(t, f.awaitLines("frontend", 1)[0])
	part := store.describeFile("part", store.content)
	for i, want := range []int64{part.Bytes, 0} {
		outcomes, err := c.Run(t.Context(), hashJob(t, part, ""))
		if err != nil || outcomes[0].Err != nil || outcomes[0].Usage.Fetched != want {
			t.Fatalf("run %d: %v %+v", i, err, outcomes)
		}
	}
	if n := store.requests.Load(); n != 1 {
		t.Errorf("the store was asked %d times", n)
	}
}

func TestFileUsage(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"--cache-dir", dir, "--files-listen", "0.0.0.0:0"}, "set a secret"},
		{[]string{"--cache-dir", dir, "--files-listen", "here"}, "host:port"},
		{[]string{"--cache-dir", dir, "--file-roots", "here"}, "absolute"},
		{[]string{"--cache-dir", dir, "--cache-size", "lots"}, "2GiB"},
		{[]string{"--file-hosts", "h"}, "no cache"},
		{[]string{"--speed", "0.001"}, "0.01 to 100"},
	} {
		runPhoebe(t, append([]string{"worker", "--listen", "127.0.0.1:0"}, test.args...)...).wantExit(t, 2, test.says)
	}
}
