package serve

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/phoebe-sched/phoebe/frontend"
	rec "github.com/phoebe-sched/phoebe/frontend/record"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/histogram"
)

// Each job and task is counted once, and the phases add up.
func TestRecorder(t *testing.T) {
	c := startCluster(t, 2, 2, func(*Config) {})
	c.awaitWorkers(t, 2)
	ctx := context.Background()
	good := newJob("echo", "a", "b", "c")
	good.Tenant = "t"
	staged := newJob("sleep", "1ms", "2ms", "1ms")
	staged.Stages = []*v1.Stage{{Name: "first"}, {Name: "second", After: []string{"first"}}}
	for i, name := range []string{"first", "first", "second"} {
		staged.Tasks[i].Stage, staged.Tasks[i].EstimateUs = name, 1
	}
	for _, j := range []*v1.Job{good, staged, newJob("fail", "why")} {
		if _, err := c.client.Run(ctx, &v1.RunRequest{Job: j}); err != nil {
			t.Fatal(err)
		}
	}
	c.putWindow(time.Now().Add(minWindow))
	got := map[rec.Key]map[rec.Measure]uint64{}
	slowest := time.Duration(0)
	c.recorder.history.EachTotal(func(k rec.Key, m rec.Measure, h *histogram.Histogram) {
		if _, ok := k.Function(); ok { // see TestWatchAll
			return
		}
		if got[k] == nil {
			got[k] = map[rec.Measure]uint64{}
		}
		got[k][m] = h.Count
		if m == rec.Slowdown {
			slowest = h.Quantile(1)
		}
	})
	for k, want := range map[rec.Key]struct{ tasks, jobs, ideal uint64 }{
		{Path: "sampling", Policy: "phoebe", Tenant: "t"}: {3, 1, 1}, {Path: "sampling", Policy: "phoebe"}: {3, 2, 1},
	} {
		for m := range rec.Measure(rec.Measures) {
			n := want.tasks
			switch m {
			case rec.Response:
				n = want.jobs
			case rec.Slowdown:
				n = want.ideal
			}
			if got[k][m] != n {
				t.Errorf("%v of %v: %d, want %d", m, k, got[k][m], n)
			}
		}
	}
	if len(got) != 2 || slowest < rec.One {
		t.Errorf("%d series, slowdown %v of 1 = %v", len(got), slowest, rec.One)
	}

	c.collectJobs()
	jobs := c.recorder.listKept()
	if len(jobs) != 3 {
		t.Fatalf("%d jobs are kept", len(jobs))
	}
	slices.Reverse(jobs)
	for i, tasks := range []int{3, 3, 1} {
		j, sum := jobs[i], time.Duration(0)
		for _, d := range j.Blame {
			sum += d
		}
		if j.Trace.N != tasks || sum != j.Response || sum <= 0 || j.Blame[rec.Kind(rec.Run)]+j.Blame[rec.Excess] <= 0 ||
			(j.Failed > 0) != (i == 2) {
			t.Errorf("job %d has %d attempts, %d failed, blame %v of %v", i, j.Trace.N, j.Failed, j.Blame, j.Response)
		}
		// a task of each stage, whichever outcome came last
		if i == 1 && j.Blame[rec.Kind(rec.Run)]+j.Blame[rec.Excess] < 2*time.Millisecond {
			t.Errorf("the critical path of stages is %v", j.Blame)
		}
	}
}

// If there are more tasks than the recorder can remember for long, it remembers all attempts of some jobs, and only
// the failed attempts of the other jobs. All tasks are counted.
func TestRecorderBeyondCapacity(t *testing.T) {
	s, err := New(Config{Listen: "127.0.0.1:0", Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	const tasks, jobs = 100, 1000
	now := s.recorder.putAt
	second := func(failing int) {
		for n := range jobs {
			r := &clientJob{id: probe.JobID{byte(n), byte(n >> 8), 1}, receivedAt: now, endedAt: now.Add(time.Second)}
			s.steppedAt = r.endedAt
			s.beginTiming(&r.timing,
				&frontend.Job{ID: r.id, Policy: frontend.Policies[0], Tasks: make([]frontend.Task, tasks)}, now)
			for k := range tasks {
				o := &frontend.Outcome{Task: probe.TaskIndex(k), Kind: frontend.Result, Run: time.Millisecond,
					Phases: frontend.Phases{Finished: time.Millisecond}}
				if n < failing && k == 7 {
					o.Kind = frontend.Failed
				}
				s.countTask(&r.timing, o)
			}
			s.countJob(r)
		}
		now = now.Add(time.Second)
		s.putWindow(now)
		s.collectJobs()
	}
	second(0)
	if e := s.recorder.endedCounts; e.whole != jobs || e.parted != 0 {
		t.Fatalf("in the first second, without a known rate of tasks: %+v", e)
	}
	pass := func(seconds, submitted int) {
		for range seconds {
			for range submitted {
				s.beginTiming(new(jobTiming),
					&frontend.Job{Policy: frontend.Policies[0], Tasks: make([]frontend.Task, tasks)}, now)
			}
			now = now.Add(time.Second)
			s.putWindow(now)
		}
	}
	pass(60, jobs)
	const failing = 50
	second(failing)
	if e := s.recorder.endedCounts; e.parted < jobs*9/10-50 || e.whole < jobs+20 {
		t.Errorf("with many more tasks than can be remembered: %+v", e)
	}
	pass(60, 0)
	second(0)
	if e := s.recorder.endedCounts; e.whole < 2*jobs {
		t.Errorf("after a minute without tasks: %+v", e)
	}
	parted := 0
	for _, j := range s.recorder.listKept() {
		sum := time.Duration(0)
		for _, d := range j.Blame {
			sum += d
		}
		switch {
		case j.Trace.N == tasks && sum == j.Response:
		case j.Trace.N == 1 && sum == 0 && j.Failed == 1 && j.Why == rec.Failed:
			parted++
		default:
			t.Errorf("a job kept for %b has %d attempts and %d failed tasks, and its blame adds up to %v of %v", j.Why,
				j.Trace.N, j.Failed, sum, j.Response)
		}
	}
	if parted < failing*3/4 || parted == failing {
		t.Errorf("%d jobs have failed tasks, and %d are kept with the failed tasks alone", failing, parted)
	}
	failed, runs := uint64(0), uint64(0)
	for _, w := range s.recorder.history.Windows(5*time.Minute, time.Time{}) {
		failed += w.Failed
	}
	s.recorder.history.EachTotal(func(_ rec.Key, m rec.Measure, h *histogram.Histogram) {
		if m == rec.Run {
			runs = h.Count
		}
	})
	if failed != failing || runs+256 < 3*jobs*tasks-failing || runs > 3*jobs*tasks-failing {
		t.Errorf("%d failed, %d runs are counted", failed, runs)
	}
}

// If jobs fail faster than the recorder can keep them, the surplus is counted, and no step waits.
func TestRecorderFull(t *testing.T) {
	s, err := New(Config{Listen: "127.0.0.1:0", Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	const more = 10
	now := s.recorder.putAt
	s.steppedAt = now
	for n := range maxChosen + more {
		r := &clientJob{id: probe.JobID{byte(n), byte(n >> 8), 1}, receivedAt: now, endedAt: now}
		s.beginTiming(&r.timing, &frontend.Job{ID: r.id, Policy: frontend.Policies[0], Tasks: make([]frontend.Task, 1)},
			now)
		s.countTask(&r.timing, &frontend.Outcome{Kind: frontend.Failed})
		s.countJob(r)
	}
	s.collectJobs()
	if lost, kept := s.recorder.keptJobs.Lost(), len(s.recorder.listKept()); lost != more || kept != maxChosen {
		t.Errorf("%d jobs are lost, %d are kept", lost, kept)
	}
}

// If attempts of a large job are forgotten, a look at the job allocates no room for them.
func TestForgottenAttemptsTakeNoRoom(t *testing.T) {
	s, err := New(Config{Listen: "127.0.0.1:0", Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	var j jobTiming
	s.beginTiming(&j, &frontend.Job{Policy: frontend.Policies[0], Tasks: make([]frontend.Task, 1)}, s.recorder.putAt)
	for s.recorder.attempts.Count() == 0 || s.recorder.attempts.Remembers(1) {
		s.countTask(&j, &frontend.Outcome{Kind: frontend.Failed})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	attempts, _, ok := s.collectAttempts(j.refs)
	runtime.ReadMemStats(&after)
	if ok || len(attempts) > 0 {
		t.Errorf("%d attempts, %v", len(attempts), ok)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("the look allocated %d bytes for %d attempts", took, j.refs.tasks)
	}
}

// BenchmarkCount measures the cost of counting a task.
func BenchmarkCount(b *testing.B) {
	s := &Server{recorder: newRecorder(time.Now(), 1), steppedAt: time.Now()}
	j := &frontend.Job{Tenant: "t", Policy: frontend.Policies[0], Tasks: make([]frontend.Task, 1)}
	var t jobTiming
	s.beginTiming(&t, j, s.steppedAt)
	o := &frontend.Outcome{Kind: frontend.Result, Run: time.Millisecond, Phases: frontend.Phases{
		Sampled: 1, Queued: 1000, Ready: 2_000_000, Bound: 2_100_000, Started: 2_200_000, Finished: 3_200_000,
	}}
	b.ReportAllocs()
	for b.Loop() {
		s.countTask(&t, o)
	}
}

// BenchmarkCountJobs measures the cost of counting jobs, at a given number of tasks a second.
func BenchmarkCountJobs(b *testing.B) {
	for _, x := range []struct{ tasks, second int }{{1, 5000}, {100, 300_000}} {
		b.Run(fmt.Sprintf("%d tasks each, %d a second", x.tasks, x.second), func(b *testing.B) {
			now := time.Now()
			s := &Server{recorder: newRecorder(now, 1), steppedAt: now}
			j := &frontend.Job{Tenant: "t", Policy: frontend.Policies[0], Tasks: make([]frontend.Task, x.tasks)}
			j.Tasks[0].Function = "f"
			o := &frontend.Outcome{Kind: frontend.Result, Worker: "w", Run: time.Millisecond, Phases: frontend.Phases{
				Sampled: 1, Queued: 1000, Ready: 2_000_000, Bound: 2_100_000, Started: 2_200_000, Finished: 3_200_000,
			}, Function: "f"}
			var spare *rec.Batch
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				r := &clientJob{receivedAt: now, endedAt: now.Add(time.Millisecond)}
				s.beginTiming(&r.timing, j, now)
				for range x.tasks {
					s.countTask(&r.timing, o)
				}
				s.countJob(r)
				if n += x.tasks; n >= x.second {
					n, now = 0, now.Add(time.Second)
					s.steppedAt, s.recorder.chosenJobs = now, nil
					spare = s.recorder.intake.Take(now, spare)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*x.tasks), "ns/task")
		})
	}
}

// BenchmarkHistograms measures three histograms of the metrics package, for comparison.
func BenchmarkHistograms(b *testing.B) {
	h := [...]*metrics.Histogram{metrics.NewSet().NewHistogram("a"), metrics.NewSet().NewHistogram("b"),
		metrics.NewSet().NewHistogram("c")}
	for b.Loop() {
		h[0].Update(1e-3)
		h[1].Update(2e-3)
		h[2].Update(1e-4)
	}
}

// A worker leaves the list, and another worker gets its place. The trace still names the first worker for its attempts.
func TestTraceNamesFormerWorkers(t *testing.T) {
	c := startCluster(t, 2, 1)
	ctx := context.Background()
	addr := func(i int) string { return c.workers[i].Addr().String() }
	c.setWorkers([]string{addr(0)})
	j, handle := runOpenEcho(t, c)
	c.setWorkers(nil)
	c.setWorkers([]string{addr(1)})
	c.awaitWorkers(t, 1)
	more := newJob("echo", "b").Tasks
	more[0].Index = 1
	if _, err := c.client.Extend(ctx, &v1.ExtendRequest{Handle: handle, Tasks: more, FromTask: 1}); err != nil {
		t.Fatal(err)
	}
	readAll(t, c, handle, 2)
	wantWorkers := func(trace, id string) {
		t.Helper()
		res, err := c.client.Trace(ctx, &v1.TraceRequest{Job: id})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(res.Workers, []string{"w0", "w1"}) {
			t.Errorf("%s names the workers %v, want w0 and w1", trace, res.Workers)
		}
	}
	wantWorkers("the trace of the job under way", j.Id)
	if _, err := c.client.Cancel(ctx, &v1.CancelRequest{Handle: handle}); err != nil {
		t.Fatal(err)
	}
	wantWorkers("the trace of the kept job", j.Id)
}
