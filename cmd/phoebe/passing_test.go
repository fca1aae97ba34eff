package main_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/phoebe-sched/phoebe/frontend/client"
	wexec "github.com/phoebe-sched/phoebe/worker/exec"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

// embedderVariable names an environment variable with a folder. If the variable is set, this program runs a worker
// with the folder, and no tests.
const embedderVariable = "PHOEBE_TEST_EMBEDDER"

// runEmbedder runs a worker embedded in this program, as query engines do. It ends with standard input.
func runEmbedder(dir string) error {
	registry := wexec.NewRegistry()
	if err := registry.Register("leave", writeOutput); err != nil {
		return err
	}
	if err := registry.Register("count", countInputs); err != nil {
		return err
	}
	w, err := wserve.New(wserve.Config{Listen: "127.0.0.1:0", Name: filepath.Base(dir), CacheDir: dir,
		Registry: registry, Goroutines: true})
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.Start(); err != nil {
		return err
	}
	fmt.Printf("worker %s\n", w.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// outputBytes is too large to travel with a result.
const outputBytes = 3 << 20

// writeOutput writes its task's index outputBytes times into partition 0, and prints a line "left".
func writeOutput(ctx context.Context, _ []byte) ([]byte, error) {
	out, err := wexec.Output(ctx, 0)
	if err != nil {
		return nil, err
	}
	if _, err := out.Write(bytes.Repeat([]byte{byte(wexec.Task(ctx).Index)}, outputBytes)); err != nil {
		return nil, err
	}
	fmt.Println("left", wexec.Task(ctx).Index)
	return nil, out.Close()
}

// countInputs returns the source task and the number of right bytes of each input. If the payload is a URL, the
// function waits for the URL's answer before it opens inputs.
func countInputs(ctx context.Context, gate []byte) ([]byte, error) {
	if len(gate) > 0 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, string(gate), nil)
		if err != nil {
			return nil, err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		res.Body.Close()
	}
	var said []byte
	for _, in := range wexec.Inputs(ctx) {
		r, err := in.Open(ctx)
		if err != nil {
			return nil, err
		}
		all, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			return nil, err
		}
		said = fmt.Appendf(said, "%d:%d ", in.Task, bytes.Count(all, []byte{byte(in.Task)}))
	}
	return said, nil
}

// Workers, frontend and client are separate processes. A worker with task outputs for the next stage gets SIGKILL:
// before the next stage is known, or while a task of the next stage is about to read. The outputs are remade at
// another worker, the job ends with complete results, and each outcome comes once.
func TestOutputsOutliveTheirWorker(t *testing.T) {
	t.Parallel()
	for _, reading := range []bool{false, true} {
		t.Run(map[bool]string{false: "before it is read", true: "while it is wanted"}[reading], func(t *testing.T) {
			workers := map[string]*process{}
			var addrs []string
			for i := range 3 {
				dir := filepath.Join(t.TempDir(), fmt.Sprint("w", i))
				w := startEmbedder(t, dir)
				workers[filepath.Base(dir)], addrs = w, append(addrs, w.workerAddr())
			}
			front := startPhoebe(t, "frontend", "--listen", "127.0.0.1:0", "--workers", strings.Join(addrs, ","))
			addr := front.awaitLines("frontend", 1)[0]
			awaitLinked(t, addr, len(addrs))
			c := newClient(t, addr)

			asked, open := make(chan struct{}), make(chan struct{})
			var once sync.Once
			gate := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				once.Do(func() { close(asked) })
				select {
				case <-open:
				case <-r.Context().Done():
				}
			}))
			t.Cleanup(gate.Close)

			r, err := c.Submit(t.Context(), client.Job{
				Open: true, Stages: []client.Stage{{Name: "scan"}},
				Tasks: []client.Task{{Stage: "scan", Function: "leave"}, {Stage: "scan", Function: "leave"},
					{Stage: "scan", Function: "leave"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			var holder string
			for n := range 3 {
				o, err := r.Next(t.Context())
				if err != nil {
					t.Fatalf("outcome %d: %v", n, err)
				}
				holder = o.Worker // the worker of the last outcome
			}
			join := client.Task{Stage: "join", Function: "count",
				Inputs: []client.Input{{Stage: "scan", Pass: client.AsFile}}}
			for name := range workers {
				if name != holder {
					join.Constraint.Hosts = append(join.Constraint.Hosts, name)
				}
			}
			slices.Sort(join.Constraint.Hosts)
			extend := func() {
				t.Helper()
				if err := r.Extend(t.Context(), []client.Stage{{Name: "join", After: []string{"scan"}}},
					[]client.Task{join}); err != nil {
					t.Fatal(err)
				}
				if err := r.Seal(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if reading {
				join.Payload = []byte(gate.URL)
				extend()
				select {
				case <-asked:
				case <-t.Context().Done():
					t.Fatal(t.Context().Err())
				}
			}
			workers[holder].sendSignal(syscall.SIGKILL)
			workers[holder].awaitEnd()
			if close(open); !reading {
				extend()
			}
			outs, err := r.Wait()
			if err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf("0:%d 1:%[1]d 2:%[1]d ", outputBytes)
			if len(outs) != 1 || outs[0].Task != 3 || string(outs[0].Result) != want || outs[0].Worker == holder {
				t.Errorf("after the end of %s: %+v, want one with %s", holder, outs, want)
			}
			waitUntil(t, func() error {
				written := 0
				for _, w := range workers {
					written += len(w.awaitLines("left", 0))
				}
				if written <= 3 {
					return fmt.Errorf("%d tasks have run in all: nothing was made again", written)
				}
				return nil
			})
		})
	}
}

// startEmbedder starts a worker as a process of this test's program, under the name of its folder.
func startEmbedder(t *testing.T, dir string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), embedderVariable+"="+dir)
	if _, err := cmd.StdinPipe(); err != nil { // standard input ends with this process
		t.Fatal(err)
	}
	return startCommand(t, cmd, []string{"embedder", dir})
}
