package main_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
)

// Of eight workers, a slow worker runs at a tenth of its speed: the test stops the worker for nine tenths of each
// 600 ms. With copies, the p99 of jobs is at most half the p99 without copies. PHOEBE_SOAK=1 takes five times as
// long.
func TestSlowWorker(t *testing.T) {
	f := startFleet(t, 0, 8, nil, []string{"--slots", "4"})
	slow, turn := f.workers[0], 600*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	var turns sync.WaitGroup
	turns.Go(func() {
		for ctx.Err() == nil {
			_ = slow.cmd.Process.Signal(syscall.SIGSTOP)
			waitFor(t, turn*9/10)
			_ = slow.cmd.Process.Signal(syscall.SIGCONT)
			waitFor(t, turn/10)
		}
	})
	defer turns.Wait()
	defer cancel()

	rounds := 2
	if os.Getenv("PHOEBE_SOAK") != "" {
		rounds = 10
	}
	took := map[string][]time.Duration{} // by --copies
	for i := range 2 * rounds {
		share := []string{"0", "0.03"}[i%2]
		took[share] = append(took[share], timeJobs(t, f, share, 4*time.Second)...)
	}
	without, with := p99(took["0"]), p99(took["0.03"])
	t.Logf("p99 of %d jobs without copies %v, of %d with copies %v: %.2f times as long", len(took["0"]), without,
		len(took["0.03"]), with, with.Seconds()/without.Seconds())
	if 2*with > without {
		t.Errorf("p99 is %v with copies and %v without: want at most half", with, without)
	}
}

// timeJobs returns the response times of jobs through a new frontend with --copies share. Four goroutines run job
// after job, for the time goOn.
func timeJobs(t *testing.T, f *fleet, share string, goOn time.Duration) (took []time.Duration) {
	front := startPhoebe(t, "frontend", "--listen", "127.0.0.1:0", "--workers", strings.Join(f.workerAddrs, ","),
		"--copies", share)
	addr := front.awaitLines("frontend", 1)[0]
	awaitLinked(t, addr, len(f.workerAddrs))
	c := newClient(t, addr)
	var mu sync.Mutex
	var rows sync.WaitGroup
	for range 4 {
		rows.Go(func() {
			for until := time.Now().Add(goOn); time.Now().Before(until); {
				job := client.Job{Tasks: make([]client.Task, 10)}
				for i := range job.Tasks {
					job.Tasks[i] = client.Task{Function: "sleep", Payload: []byte("20ms")}
				}
				began := time.Now()
				if _, err := c.Run(t.Context(), job); err != nil {
					t.Errorf("with copies of %s: %v", share, err)
					return
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
		})
	}
	rows.Wait()
	front.sendSignal(syscall.SIGTERM)
	front.awaitEnd()
	return took
}

// p99 returns the 99th percentile. It sorts took.
func p99(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)*99/100]
}
