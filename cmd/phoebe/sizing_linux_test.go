package main_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudwego/kitex/pkg/klog"

	"github.com/phoebe-sched/phoebe/frontend/client"
	fserve "github.com/phoebe-sched/phoebe/frontend/serve"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

// cpuUsed returns the CPU time that a process has used.
func cpuUsed(t *testing.T, p *process) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	words := strings.Fields(rest)
	user, _ := strconv.Atoi(words[11])
	system, _ := strconv.Atoi(words[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// TestSizing measures the cost of a frontend and a worker for the operations guide, by tasks a second and by links.
func TestSizing(t *testing.T) {
	if os.Getenv("PHOEBE_SIZING") == "" {
		t.Skip("PHOEBE_SIZING is not set")
	}
	klog.SetOutput(io.Discard)
	const tasks, runs = 10, 10 * time.Second
	for _, rate := range []int{500, 2000, 5000, 10000} {
		w := startPhoebe(t, "worker", "--listen", "127.0.0.1:0", "--slots", "64")
		f := startPhoebe(t, "frontend", "--listen", "127.0.0.1:0", "--workers", w.workerAddr())
		api := f.awaitLines("frontend", 1)[0]
		awaitLinked(t, api, 1)
		c := newClient(t, api)
		job := client.Job{Tasks: make([]client.Task, tasks)}
		for i := range job.Tasks {
			job.Tasks[i].Function = "echo"
		}
		var jobs sync.WaitGroup
		ctx, end := context.WithTimeout(t.Context(), runs)
		began, frontend, worker, sent := time.Now(), cpuUsed(t, f), cpuUsed(t, w), 0
		for tick := time.NewTicker(10 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			for due := int(time.Since(began).Seconds() * float64(rate) / tasks); sent < due; sent++ {
				jobs.Go(func() {
					if _, err := c.Run(t.Context(), job); err != nil {
						t.Error(err)
					}
				})
			}
		}
		jobs.Wait()
		end()
		took := time.Since(began)
		frontend, worker = cpuUsed(t, f)-frontend, cpuUsed(t, w)-worker
		n := sent * tasks
		t.Logf("%6.0f tasks/s: frontend %.3f cores, %v a task, %d MiB; worker %.3f cores, %v a task, %d MiB",
			float64(n)/took.Seconds(),
			frontend.Seconds()/took.Seconds(), frontend/time.Duration(n), residentMemory(t, f)>>20,
			worker.Seconds()/took.Seconds(), worker/time.Duration(n), residentMemory(t, w)>>20)
	}
	const links = 400
	var addrs []string
	for i := range links {
		w, err := wserve.New(wserve.Config{Listen: "127.0.0.1:0", Name: fmt.Sprint("w", i), Goroutines: true})
		if err == nil {
			t.Cleanup(func() { w.Close() })
			err = w.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		addrs = append(addrs, w.Addr().String())
	}
	per := func(n int) (bytes int, cores float64) {
		f := startPhoebe(t, "frontend", "--listen", "127.0.0.1:0", "--workers", strings.Join(addrs[:n], ","))
		awaitLinked(t, f.awaitLines("frontend", 1)[0], n)
		before := cpuUsed(t, f)
		waitFor(t, runs)
		return residentMemory(t, f), (cpuUsed(t, f) - before).Seconds() / runs.Seconds()
	}
	few, idle := per(1)
	many, busy := per(links)
	t.Logf("a frontend's link: %.1f KB, %.3f cores for %d that are idle, %.3f for one",
		float64(many-few)/(links-1)/1024, busy, links, idle)
	w := startPhoebe(t, "worker", "--listen", "127.0.0.1:0")
	measure := func(n int) {
		var all []*fserve.Server
		for i := range n {
			f, err := fserve.New(fserve.Config{Listen: "127.0.0.1:0", Name: fmt.Sprint("f", i),
				Workers: fserve.Static([]string{w.workerAddr()})})
			if err == nil {
				err = f.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, f)
		}
		for _, f := range all {
			awaitLinked(t, f.Addr(), 1)
			t.Cleanup(func() { f.Close() })
		}
	}
	measure(1)
	one := residentMemory(t, w)
	measure(100)
	before := cpuUsed(t, w)
	waitFor(t, runs)
	t.Logf("a worker's link: %.1f KB, %.3f cores for 101 that are idle", float64(residentMemory(t, w)-one)/100/1024,
		(cpuUsed(t, w)-before).Seconds()/runs.Seconds())
}
