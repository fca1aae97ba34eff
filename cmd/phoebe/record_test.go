package main_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
)

// A slow worker breaks an objective, and the recording names the worker.
func TestRecord(t *testing.T) {
	t.Parallel()
	var addrs []string
	var slow *process
	for _, name := range []string{"w0", "w1", "w2"} {
		w := startPhoebe(t, "worker", "--listen", "127.0.0.1:0", "--slots", "2", "--name", name)
		addrs = append(addrs, w.awaitLines("worker", 1)[0])
		if name == "w1" {
			slow = w
		}
	}
	dir := t.TempDir()
	f := startPhoebe(t, "frontend", "--listen", "127.0.0.1:0", "--workers", strings.Join(addrs, ","), "--slo",
		"policy=phoebe,p99=100ms,window=2s", "--record-dir", dir,
		"--copies", "0") // copies would keep the objective
	addr := f.awaitLines("frontend", 1)[0]
	awaitLinked(t, addr, 3)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	c := newClient(t, addr)
	all.Go(func() { // the load
		for ctx.Err() == nil {
			job := client.Job{Tasks: make([]client.Task, 6)}
			for i := range job.Tasks {
				job.Tasks[i] = client.Task{Function: "sleep", Payload: []byte("2ms")}
			}
			var unfinished *client.UnfinishedError
			if _, err := c.Run(ctx, job); err != nil && !errors.As(err, &unfinished) {
				t.Error(err)
				return
			}
		}
	})
	all.Go(func() { // the worker stands still most of the time
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		defer slow.sendSignal(syscall.SIGCONT)
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if n%4 == 0 {
				slow.sendSignal(syscall.SIGCONT)
			} else {
				slow.sendSignal(syscall.SIGSTOP)
			}
		}
	})
	waitUntil(t, func() error { // on a busy machine, the first recording may name another worker
		said := "nothing is recorded"
		files, _ := filepath.Glob(filepath.Join(dir, "recording-*.json.gz"))
		for _, file := range files {
			s := runPhoebe(t, "record", "open", file, "--profile", filepath.Join(dir, "profile")).wantExit(t, 0,
				"policy=phoebe,p99=100ms,window=2s was broken")
			if said = s.out; strings.Contains(said, "slowest worker: w1, most of it ") {
				return nil
			}
		}
		return errors.New(said)
	})
	runPhoebe(t, "record", "open", writeFile(t, "{}")).wantExit(t, 1, "no recording")
	runPhoebe(t, "frontend", "--workers", addrs[0], "--slo", "p99=fast", "--record-dir", dir).wantExit(t, 2, "p99=fast")
	runPhoebe(t, "frontend", "--workers", addrs[0], "--slo", "p99=1s").wantExit(t, 2, "--record-dir")
}
