package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	"github.com/phoebe-sched/phoebe/worker/exec"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

// fillPattern fills buf with the i-th piece of the test pattern, and returns buf.
func fillPattern(buf []byte, i int) []byte {
	for k := range buf {
		buf[k] = byte(i + k)
	}
	return buf
}

// piece is the number of bytes that the functions write at a time.
const piece = 1000

// largeFunctions returns functions whose results have the number of bytes in the payload, written or returned.
func largeFunctions() map[string]exec.Func {
	size := func(payload []byte) (n int) {
		fmt.Sscan(string(payload), &n)
		return n
	}
	return map[string]exec.Func{
		"write": func(ctx context.Context, payload []byte) ([]byte, error) {
			out, err := exec.ResultWriter(ctx)
			if err != nil {
				return nil, err
			}
			buf := make([]byte, piece)
			for i, unwritten := 0, size(payload); unwritten > 0; i++ {
				n, err := out.Write(fillPattern(buf, i)[:min(unwritten, piece)])
				if err != nil {
					return nil, err
				}
				unwritten -= n
			}
			return nil, out.Close()
		},
		"return": func(_ context.Context, payload []byte) ([]byte, error) {
			var all []byte
			for i := 0; len(all) < size(payload); i++ {
				all = append(all, fillPattern(make([]byte, piece), i)...)
			}
			return all[:size(payload)], nil
		},
		"both": func(ctx context.Context, _ []byte) ([]byte, error) {
			out, err := exec.ResultWriter(ctx)
			if err != nil {
				return nil, err
			}
			return []byte("another"), out.Close()
		},
		"unclosed": func(ctx context.Context, _ []byte) ([]byte, error) {
			_, err := exec.ResultWriter(ctx)
			return nil, err
		},
	}
}

// checkPattern returns an error unless r has n bytes of the test pattern.
func checkPattern(r io.Reader, n int) error {
	buf, want := make([]byte, piece), make([]byte, piece)
	for i, at := 0, 0; ; i++ {
		k, err := io.ReadFull(r, buf)
		if !bytes.Equal(buf[:k], fillPattern(want, i)[:k]) {
			return fmt.Errorf("other bytes from %d on", at)
		}
		switch at += k; {
		case err == nil:
		case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			return err
		case at != n:
			return fmt.Errorf("%d bytes, want %d", at, n)
		default:
			return nil
		}
	}
}

func TestLargeResults(t *testing.T) {
	const limit = 1 << 20 // for results of a worker, and for parts
	_, c := startPassing(t, local.Config{Workers: 1}, largeFunctions())
	ctx := t.Context()
	for _, function := range []string{"write", "return"} {
		for _, n := range []int{0, 1, limit - 1, limit, limit + 1, 2*limit - 1, 2 * limit, 2*limit + 1, 40 << 20} {
			outs, err := c.Run(ctx, client.Job{
				LargeResults: true, Tasks: []client.Task{{Function: function, Payload: fmt.Append(nil, n)}},
			})
			if err != nil {
				t.Fatal(err)
			}
			o := outs[0]
			file := n > limit
			if file != (o.File.SHA256 != "") || file && o.File.Bytes != int64(n) || !file && len(o.Result) != n {
				t.Errorf("%s: a result of %d bytes came as %d bytes and as a file of %d", function, n,
					len(o.Result), o.File.Bytes)
			}
			r, err := c.Open(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			if err := checkPattern(r, n); err != nil {
				t.Errorf("%s: %d bytes: %v", function, n, err)
			}
			r.Close()
			if _, err := r.Read(make([]byte, 1)); err == nil || file && err == io.EOF {
				t.Errorf("read after Close: %v", err)
			}
		}
		// Without LargeResults, a result over the limit fails.
		var failed *client.TaskError
		if _, err := c.Run(ctx, client.Job{Tasks: []client.Task{{Function: function,
			Payload: fmt.Append(nil, limit+1)}}}); !errors.As(err, &failed) || failed.Reason != client.ResultTooLarge {
			t.Errorf("%s: %v", function, err)
		}
		if outs, err := c.Run(ctx, client.Job{Tasks: []client.Task{{Function: function,
			Payload: fmt.Append(nil, limit)}}}); err != nil || len(outs[0].Result) != limit {
			t.Errorf("%s: %v", function, err)
		}
	}
	for function, why := range map[string]string{"both": "returned another", "unclosed": "did not close"} {
		if _, err := c.Run(ctx, client.Job{Tasks: []client.Task{{Function: function}}}); err == nil ||
			!strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", function, err)
		}
	}
}

// The memory for a large result does not grow with its size.
func TestLargeResultsTakeLittleMemory(t *testing.T) {
	const n = 256 << 20
	_, c := startPassing(t, local.Config{Workers: 1, Frontends: 1}, largeFunctions())
	outs, err := c.Run(t.Context(), client.Job{
		LargeResults: true, Tasks: []client.Task{{Function: "write", Payload: fmt.Append(nil, n)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Open(t.Context(), outs[0])
	if err != nil {
		t.Fatal(err)
	}
	most, sum := uint64(0), sha256.New()
	for at := 0; at < n; at += n / 8 {
		if _, err := io.CopyN(sum, r, n/8); err != nil {
			t.Fatal(err)
		}
		runtime.GC() // without it, the garbage of a busy machine would count
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapInuse)
	}
	if _, err := r.Read(make([]byte, 1)); err != io.EOF || hex.EncodeToString(sum.Sum(nil)) != outs[0].File.SHA256 {
		t.Errorf("at its end: %v", err)
	}
	if most > n/4 {
		t.Errorf("%d MiB of heap for a result of %d MiB", most>>20, n>>20)
	}
}

// One frontend is lost while it owns the job, and the next frontend while the client reads the results.
func TestLargeResultsFailOver(t *testing.T) {
	const n = 5 << 20
	release := make(chan struct{})
	functions := largeFunctions()
	functions["wait"] = func(ctx context.Context, payload []byte) ([]byte, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return functions["write"](ctx, payload)
	}
	cluster, c := startPassing(t, local.Config{Frontends: 3, Workers: 1}, functions)
	r, err := c.Submit(t.Context(), client.Job{LargeResults: true, Tasks: []client.Task{
		{Function: "write", Payload: fmt.Append(nil, n)}, {Function: "wait", Payload: fmt.Append(nil, n)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	owner := slices.Index(cluster.Frontends(), r.Handle().Owner)
	if err := cluster.StopFrontend(owner); err != nil {
		t.Fatal(err)
	}
	close(release)
	outs, err := r.Wait()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outs {
		result, err := c.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if o.Task == 1 {
			if err := cluster.StopFrontend((owner + 1) % 3); err != nil {
				t.Fatal(err)
			}
		}
		if err := checkPattern(result, n); err != nil {
			t.Error(err)
		}
	}
}

// If the worker of a result is gone, or its cache has dropped the result for other files, the error says that the
// result is lost.
func TestLargeResultsAreLost(t *testing.T) {
	dir := t.TempDir()
	registry := exec.NewRegistry()
	for name, f := range largeFunctions() {
		must(registry.Register(name, f))
	}
	cluster, err := local.Start(local.Config{
		Workers: 1, Registry: registry,
		Worker: func(_ int, w *wserve.Config) { w.CacheDir, w.CacheSize = filepath.Join(dir, "cache"), 8<<20 },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	c, err := client.New(cluster.Frontends(), client.WithRPCTimeout(3*time.Second), client.WithRetryFor(3*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	run := func() client.Outcome {
		outs, err := c.Run(t.Context(), client.Job{
			LargeResults: true, Tasks: []client.Task{{Function: "write", Payload: []byte("5000000")}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return outs[0]
	}
	lost := func(err error) {
		t.Helper()
		var failed *client.TaskError
		if !errors.As(err, &failed) || failed.Reason != client.ResultLost || failed.Worker != "worker-0" {
			t.Error(err)
		}
	}
	first := run()
	if _, err := c.Run(t.Context(), client.Job{LargeResults: true,
		Tasks: []client.Task{{Function: "write", Payload: []byte("5000001")}}}); err != nil {
		t.Fatal(err)
	}
	_, err = c.Open(t.Context(), first)
	lost(err)
	second := run()
	if err := cluster.StopWorker(0); err != nil {
		t.Fatal(err)
	}
	_, err = c.Open(t.Context(), second)
	lost(err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Open(ctx, second); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
