package serve

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	rec "github.com/phoebe-sched/phoebe/frontend/record"
	"github.com/phoebe-sched/phoebe/probe"
)

// Memory of the recorder stays within the bounds of histograms, attempts and kept jobs together, however long it
// records and however many tenants there are. Each second of the test is a second of the recorder's clock; make
// soak runs half a day.
func TestSoakRecorder(t *testing.T) {
	seconds := 1000
	if os.Getenv("PHOEBE_SOAK") != "" {
		seconds = 12 * 3600
	}
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	s, err := New(Config{Listen: "127.0.0.1:0", Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	const most = int64(rec.MaxBytes + rec.MaxKeptBytes*11/10 + rec.MaxAttemptsBytes + 8<<20)
	rng, now := rand.New(rand.NewPCG(1, 2)), s.recorder.putAt
	for second := range seconds {
		for range 10 {
			tasks := 1 + rng.IntN(60)
			r := &clientJob{receivedAt: now, endedAt: now.Add(time.Duration(rng.Int64N(1e9)))}
			s.steppedAt = r.endedAt
			s.beginTiming(&r.timing,
				&frontend.Job{Tenant: fmt.Sprint("tenant-", rng.IntN(1000)),
					Policy: frontend.Policies[rng.IntN(len(frontend.Policies))], Tasks: make([]frontend.Task, tasks)},
				now)
			for k := range tasks {
				at := time.Duration(rng.Int64N(1e8))
				o := &frontend.Outcome{Task: probe.TaskIndex(k), Run: at,
					Phases: frontend.Phases{Sampled: at, Queued: 2 * at, Ready: 3 * at, Bound: 4 * at, Started: 5 * at,
						Finished: 6 * at}}
				if rng.IntN(100) == 0 {
					o.Kind = frontend.Failed
				}
				s.countTask(&r.timing, o)
			}
			s.countJob(r)
		}
		if now = now.Add(time.Second); second%600 == 599 { // the clock is set back
			now = now.Add(time.Duration(rng.Int64N(int64(2*time.Minute))) - time.Minute)
		}
		s.putWindow(now)
		s.collectJobs()
		if second%3600 == 3599 || second == seconds-1 {
			if used := heap() - before; used > most {
				t.Fatalf("after %d seconds %d bytes are used, at most %d may be", second+1, used, most)
			} else if second == seconds-1 {
				t.Logf("%d of %d bytes after %d seconds, %d jobs kept", used, most, seconds, s.recorder.keptJobs.Len())
			}
		}
	}
	runtime.KeepAlive(s)
}
