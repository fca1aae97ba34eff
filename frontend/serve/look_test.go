package serve

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/probe"
)

// startLarge is a frontend that believes in 20,000 workers, of which none is there.
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
		s.links = append(s.links, &link{server: s, key: key, addr: addr, run: run{name, 1}})
		s.stepLocked(frontend.WorkerUp{Worker: key, Welcome: probe.Welcome{
			Worker: name, Host: name, Rack: fmt.Sprint("rack-", i/40), Incarnation: 1, Capacity: probe.Demand{CPU: 16000, Mem: 65536},
			Open: probe.Demand{CPU: 16000, Mem: 65536}, Functions: []string{"echo"}, MaxPayload: 1 << 20, MaxResult: 1 << 20,
		}})
		s.stepLocked(frontend.Heard{Worker: key, Incarnation: 1, Seq: 1, Matrix: &matrix})
	}
	return s
}

// BenchmarkLook is for how long the server's mutex is held at a time while somebody looks at 20,000 workers: for Cluster and its
// figures, and for all that only counts workers (Watch and a scrape). Each part is looked at several times, and the shortest of these
// counts, as the machine may interrupt it; of the parts, the longest.
func BenchmarkLook(b *testing.B) {
	s := startLarge(b)
	list, known := make([]frontend.WorkerStatus, workersPerLook), make([]bool, workersPerLook)
	hold := func(locked func()) time.Duration {
		shortest := time.Hour
		for range 10 {
			s.mu.Lock()
			began := time.Now()
			locked()
			shortest = min(shortest, time.Since(began))
			s.mu.Unlock()
		}
		return shortest
	}
	for b.Loop() {
		var status, count, clone time.Duration
		for part := range slices.Chunk(s.links, workersPerLook) {
			status = max(status, hold(func() { s.lookLocked(part, list, known) }))
			count = max(count, hold(func() {
				for _, l := range part {
					s.core.Load(l.key)
				}
			}))
		}
		clone = hold(func() { _ = slices.Clone(s.links) })
		b.ReportMetric(float64(status.Nanoseconds())/1e3, "us-cluster")
		b.ReportMetric(float64(count.Nanoseconds())/1e3, "us-count")
		b.ReportMetric(float64(clone.Nanoseconds())/1e3, "us-list")
	}
}
