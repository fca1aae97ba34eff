//go:build holds

package serve

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

// maxHold bounds the time for which a look may keep steps from the mutex.
const maxHold = 200 * time.Microsecond

// A look at 20,000 workers, of whatever kind, holds up the scheduler for moments only. The test is part of make
// ui-cost.
func TestHolds(t *testing.T) {
	s := startLarge(t)
	s.peers = newPeers(&s.cfg)
	h := &handler{s}
	ctx := context.Background()
	watch := func(window, top int) func() error {
		return func() error {
			_, err := h.Watch(ctx, &v1.WatchRequest{WindowUs: int64(window) * 1e6, Top: int32(top)})
			return err
		}
	}
	cluster := func(req *v1.ClusterRequest) func() error {
		return func() error { _, err := h.Cluster(ctx, req); return err }
	}
	runtime.LockOSThread() // the thread whose time is measured
	defer runtime.UnlockOSThread()
	for _, call := range []struct {
		name string
		do   func() error
	}{
		{"Cluster", cluster(&v1.ClusterRequest{})},
		{"Cluster, a page", cluster(&v1.ClusterRequest{MaxWorkers: 200})},
		{"Cluster, a worker", cluster(&v1.ClusterRequest{Worker: "worker-19999"})},
		{"Cluster, figures", cluster(&v1.ClusterRequest{Figures: true})},
		{"Watch, a frame's", watch(1, 0)},
		{"Watch, all", watch(300, maxSlowest)},
		{"Jobs", func() error { _, err := h.Jobs(ctx, &v1.JobsRequest{}); return err }},
		{"a scrape", func() error { s.exposeAll(io.Discard); return nil }},
		{"Cluster, history", cluster(&v1.ClusterRequest{FrontendsOnly: true, History: true})},
		{"the fleet is sampled", func() error { s.sampleFleet(time.Now()); return nil }},
		{"a second is put away", func() error { s.putWindow(s.recorder.putAt.Add(time.Second)); return nil }},
	} {
		var calls [20][]time.Duration
		holds, longest := math.MaxInt, time.Duration(0)
		for i := range calls {
			countMany(s)
			s.mu.holdTimes = nil
			if err := call.do(); err != nil {
				t.Fatalf("%s: %v", call.name, err)
			}
			calls[i], holds, longest = s.mu.holdTimes, min(holds, len(s.mu.holdTimes)),
				max(longest, slices.Max(s.mu.holdTimes))
		}
		// Interrupts count as CPU time of the interrupted thread. So the median over all calls counts for each
		// hold.
		usual := time.Duration(0)
		for k := range holds {
			var same [len(calls)]time.Duration
			for i := range calls {
				same[i] = calls[i][k]
			}
			slices.Sort(same[:])
			usual = max(usual, same[len(same)/2])
		}
		if t.Logf("%s: %d holds, %v at most; with interrupts %v once", call.name, holds, usual,
			longest); usual >= maxHold {
			t.Errorf("%s holds the mutex for %v, want less than %v", call.name, usual, maxHold)
		}
	}
}

// startLarge starts a frontend with 20,000 listed workers that do not exist.
func startLarge(tb testing.TB) *Server {
	tb.Helper()
	s, err := New(Config{Listen: "127.0.0.1:0", Seed: 1})
	if err != nil {
		tb.Fatal(err)
	}
	matrix := probe.WaitMatrix{}
	for i := range 20_000 {
		key, addr := frontend.Worker(i), fmt.Sprintf("10.%d.%d.%d:7420", i>>16, i>>8&255, i&255)
		s.stepLocked(frontend.Listed{Worker: key, Address: addr})
		name := fmt.Sprint("worker-", i)
		s.links = append(s.links, &link{server: s, key: key, addr: addr, workerRun: workerRun{name, 1}})
		s.stepLocked(frontend.WorkerUp{Worker: key, Welcome: probe.Welcome{
			Worker: name, Host: name, Rack: fmt.Sprint("rack-", i/40), Incarnation: 1,
			Capacity: probe.Demand{CPU: 16000, Mem: 65536},
			Open:     probe.Demand{CPU: 16000, Mem: 65536}, Functions: []string{"echo"}, MaxPayload: 1 << 20,
			MaxResult: 1 << 20,
		}})
		s.stepLocked(frontend.Heard{Worker: key, Incarnation: 1, Seq: 1, Matrix: &matrix})
	}
	return s
}

// countMany counts the tasks of a busy second: tasks of many tenants, with and without results, and a large job.
func countMany(s *Server) {
	now := time.Now()
	s.steppedAt = now
	for i := range 1000 {
		tasks := 10
		if i == 0 {
			tasks = 20_000
		}
		r := &clientJob{id: probe.JobID{byte(i), byte(i >> 8)},
			receivedAt: now.Add(-time.Duration(i) * time.Millisecond), endedAt: now}
		s.beginTiming(&r.timing,
			&frontend.Job{Tenant: fmt.Sprint("tenant-", i%20), Policy: frontend.Policies[i%len(frontend.Policies)],
				Tasks: make([]frontend.Task, tasks)}, r.receivedAt)
		for k := range tasks {
			o := &frontend.Outcome{Task: probe.TaskIndex(k),
				Receipt: frontend.Receipt{Worker: frontend.Worker((i + k) % len(s.links))}, Run: time.Millisecond}
			if k%10 == 9 {
				o.Kind = frontend.Failed
			} else {
				at := time.Duration(i*k) * time.Microsecond
				o.Phases = frontend.Phases{Sampled: at, Queued: 2 * at, Ready: 3 * at, Bound: 4 * at, Started: 5 * at,
					Finished: 6 * at}
			}
			s.countTask(&r.timing, o)
		}
		s.countJob(r)
	}
}
