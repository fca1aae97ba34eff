package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/worker"
)

// mixedConfig is a small cluster under short and long tasks.
func mixedConfig(t testing.TB, name string) Config {
	return Config{
		Policy: mustPolicy(t, name), Load: 0.9, Frontends: 3, Workers: 12, Slots: 8, Jobs: 200, WarmupJobs: 20, Seed: 2,
		Workload: Mixed{Short: mustPoisson(t, "geometric:10", "task-exp:200ms"),
			Long: mustPoisson(t, "20", "task-exp:10s"), LongJobs: 0.1},
		Delay: 500 * time.Microsecond, Gossip: Gossip{Period: time.Second, Delay: time.Millisecond}, Codec: true,
	}
}

func TestMixedWorkload(t *testing.T) {
	m := Mixed{Short: mustPoisson(t, "10", "fixed:100ms"), Long: mustPoisson(t, "20", "fixed:5s"), LongJobs: 0.1}
	a, err := m.newArrivals(3, 0.8, 400)
	if err != nil {
		t.Fatal(err)
	}
	const n = 20_000
	var long, work, longWork float64
	var last time.Duration
	for job := range a.jobs {
		if job.At < last || job.long != (len(job.Tasks) == 20) || job.mean != job.Tasks[0] {
			t.Fatalf("%+v after %v", job, last)
		}
		last = job.At
		work += job.Work().Seconds()
		if job.long {
			long++
			longWork += job.Work().Seconds()
		}
		if job.Index == n-1 {
			break
		}
	}
	if share, load := long/n, work/last.Seconds()/400; math.Abs(share-0.1) > 0.01 || math.Abs(load-0.8) > 0.04 ||
		math.Abs(longWork/work-10.0/10.9) > 0.01 {
		t.Errorf("%.3f of the jobs are long, the load is %.3f, %.3f of it of long jobs", share, load, longWork/work)
	}
	for _, share := range []float64{0, 1, math.NaN()} {
		m.LongJobs = share
		if _, err := m.newArrivals(3, 0.8, 400); err == nil || !strings.Contains(err.Error(), "long") {
			t.Errorf("%g: %v", share, err)
		}
	}
}

// A run with gossip is the same every time, with and without the codec. Lost gossip changes the run.
func TestMixedRun(t *testing.T) {
	cfg := mixedConfig(t, "phoebe")
	cfg.checkState = true
	first := mustRun(t, cfg)
	cfg.checkState = false
	if again := mustRun(t, cfg); !reflect.DeepEqual(again, first) {
		t.Error("the same settings give another result")
	}
	cfg.Codec = false
	if plain := mustRun(t, cfg); !reflect.DeepEqual(plain, first) {
		t.Error("another result without the codec")
	}
	cfg.Gossip.Loss, cfg.SureFor = 0.5, -1
	lossy := mustRun(t, cfg)
	cfg.Gossip.Loss = 0
	if full := mustRun(t, cfg); reflect.DeepEqual(full, lossy) {
		t.Error("the same result though half of the gossip gets lost")
	}
	if first.Short == nil || first.Long == nil || first.Short.Jobs+first.Long.Jobs != 180 ||
		first.Short.Jobs < 5*first.Long.Jobs {
		t.Fatalf("groups %+v and %+v", first.Short, first.Long)
	}
	e := first.Estimates
	if e == nil || e.Tasks < first.Long.Tasks || e.WaitWithin < 0.9 || e.RunWithin != 1 || e.Asked == 0 ||
		lossy.Estimates.Asked >= e.Asked/4 {
		t.Errorf("estimates %+v; by gossip alone %+v", e, lossy.Estimates)
	}
	if first.WorkerWaitMS.Max <= 0 || first.WorkerSpread <= 0 {
		t.Errorf("waits by worker %+v, spread %g", first.WorkerWaitMS, first.WorkerSpread)
	}
	// A policy without estimation gets no gossip.
	cfg = mixedConfig(t, "late-binding")
	late := mustRun(t, cfg)
	cfg.Gossip = Gossip{}
	if none := mustRun(t, cfg); !reflect.DeepEqual(none, late) || late.Estimates != nil {
		t.Error("gossip changes late binding")
	}
}

// Frontends hear of every worker within a little more than a period, whether or not they are homes of the worker.
// If half of the messages between frontends get lost, they hear somewhat later.
func TestGossip(t *testing.T) {
	for _, test := range []struct {
		loss   float64
		oldest time.Duration
	}{{0, 1200 * time.Millisecond}, {0.5, 5 * time.Second}} {
		c := &cluster{net: network{delay: time.Millisecond, lease: 3 * time.Second, ping: time.Second, codec: true},
			onAnswer: func(*frontendNode, frontend.Action) {}, checkEvery: 1}
		c.rng = rand.New(rand.NewPCG(1, 1))
		for range 20 {
			c.addWorker(worker.Config{Functions: []string{sleepFunction}, Capacity: slotsOf(8)}, 1)
		}
		for i := range 5 {
			c.addFrontend(frontend.Config{}, uint64(i))
		}
		if err := c.startGossip(Gossip{Period: time.Second, Delay: time.Millisecond, Loss: test.loss},
			rand.New(rand.NewPCG(1, 2))); err != nil {
			t.Fatal(err)
		}
		for at, _ := c.nextTime(); at < 20*time.Second; at, _ = c.nextTime() {
			if err := c.stepEvent(); err != nil || c.callErr != nil {
				t.Fatal(err, c.callErr)
			}
		}
		oldest := time.Duration(0)
		for _, f := range c.frontends {
			for _, w := range c.workers {
				s, ok := f.frontendCore().Status(frontend.Worker(w.index))
				if !ok || s.View.Matrix == nil {
					t.Fatalf("loss %g: frontend %d does not know how long one waits at worker %d", test.loss, f.index,
						w.index)
				}
				oldest = max(oldest, c.timeNow().Sub(s.View.Heard))
			}
		}
		if oldest > test.oldest {
			t.Errorf("loss %g: a frontend's matrix is %v old, want at most %v", test.loss, oldest, test.oldest)
		}
	}
}

// With one slot a worker, the rival places long tasks like a central queue: if all tasks have the same length,
// each has the least possible wait.
func TestEagleIsCentralForLongTasks(t *testing.T) {
	cfg := smallConfig(t)
	cfg.Policy, cfg.Workers, cfg.Slots, cfg.Delay, cfg.checkState = mustPolicy(t, "eagle"), 4, 1, 0, true
	cfg.Workload, cfg.Jobs, cfg.WarmupJobs = mustPoisson(t, "1", "fixed:2s"), 1000, 50
	r := mustRun(t, cfg)
	if !reflect.DeepEqual(r.ResponseMS, *r.OmniscientMS) {
		t.Errorf("responses of %+v ms, want %+v", r.ResponseMS, *r.OmniscientMS)
	}
}

// A short task takes a message to the worker, two for the answer, and a message back. A long task takes a message
// to the central scheduler, a message to the worker and a message back.
func TestEagleStepByStep(t *testing.T) {
	cfg := smallConfig(t)
	cfg.Policy, cfg.Load, cfg.Jobs, cfg.WarmupJobs, cfg.Delay, cfg.checkState = mustPolicy(t, "eagle"), 0, 0, 0,
		time.Millisecond, true
	cfg.Workload = jobsFile(t, "0 1 0.1 0.1\n10 1 5 5\n", false)
	if r := mustRun(t, cfg); r.ResponseMS.P50 != 104 || r.ResponseMS.Max != 5003 {
		t.Errorf("%+v", r.ResponseMS)
	}
	// Ten workers have a slot each, and one worker is reserved. Of ten long tasks, one has to wait for another.
	cfg.Slots, cfg.Reserved = 1, 0.1
	cfg.Workload = jobsFile(t, "0 10 5 5 5 5 5 5 5 5 5 5 5\n", false)
	if r := mustRun(t, cfg); r.ResponseMS.Max != 10_003 {
		t.Errorf("%+v", r.ResponseMS)
	}
	// A short job is now turned away until its probe reaches the reserved worker.
	cfg.Workload = jobsFile(t, "0 9 5 5 5 5 5 5 5 5 5 5\n1 2 0.1 0.1 0.1\n", false)
	if r := mustRun(t, cfg); r.ResponseMS.P50 > 220 {
		t.Errorf("%+v", r.ResponseMS)
	}
}

// Short tasks wait much less with the rival than with late binding among long tasks, and long tasks do not
// suffer.
func TestEagleInTheMix(t *testing.T) {
	cfg := mixedConfig(t, "eagle")
	cfg.Jobs, cfg.WarmupJobs, cfg.Codec, cfg.Reserved = 1000, 100, false, 0.1
	bound := cfg
	bound.Policy, cfg.checkState = mustPolicy(t, "late-binding"), true
	late, eagle := mustRun(t, bound), mustRun(t, cfg)
	if eagle.Short.WaitMS.P90 > 0.8*late.Short.WaitMS.P90 ||
		eagle.Long.ResponseMS.Mean > 1.1*late.Long.ResponseMS.Mean {
		t.Errorf("short p90 wait %.0f ms, long mean %.0f; bound late %.0f and %.0f",
			eagle.Short.WaitMS.P90, eagle.Long.ResponseMS.Mean, late.Short.WaitMS.P90, late.Long.ResponseMS.Mean)
	}
	if again := mustRun(t, cfg); !reflect.DeepEqual(again, eagle) {
		t.Error("the same settings give another result")
	}
}

// The rival's queues: the job with the least work left to start goes first, unless the estimates of all
// overtaking tasks would then exceed five times the overtaken task's own. A long task at the head is not
// overtaken.
func TestEagleQueue(t *testing.T) {
	type entry struct {
		rest, mean time.Duration
		long       bool
	}
	for _, test := range []struct {
		name     string
		shortest bool
		queue    []entry
		want     []time.Duration // by work left
	}{
		{"as they came", false, []entry{{rest: 50, mean: 10}, {rest: 7, mean: 1}, {rest: 9, mean: 9}},
			[]time.Duration{50, 7, 9}},
		{"the least first", true, []entry{{rest: 50, mean: 10}, {rest: 7, mean: 7}, {rest: 9, mean: 3}},
			[]time.Duration{7, 9, 50}},
		{"24, 24 and 2 may overtake a task of 10", true,
			[]entry{{rest: 100, mean: 10}, {rest: 50, mean: 24}, {rest: 49, mean: 24}, {rest: 60, mean: 3},
				{rest: 70, mean: 2}, {rest: 80, mean: 1}},
			[]time.Duration{49, 50, 70, 100, 60, 80}},
		{"many brief tasks may overtake", true,
			[]entry{{rest: 100, mean: 10}, {rest: 1, mean: 1}, {rest: 2, mean: 1}, {rest: 3, mean: 1},
				{rest: 4, mean: 1}, {rest: 5, mean: 1}, {rest: 6, mean: 1}},
			[]time.Duration{1, 2, 3, 4, 5, 6, 100}},
		{"a task that may not overtake one may not overtake those before", true,
			[]entry{{rest: 100, mean: 10}, {rest: 90, mean: 1}, {rest: 80, mean: 6}, {rest: 70, mean: 5}},
			[]time.Duration{70, 90, 80, 100}},
		{"a long task at the head", true, []entry{{rest: 100, mean: 100, long: true}, {rest: 7, mean: 7},
			{rest: 5, mean: 5}}, []time.Duration{100, 5, 7}},
		{"a long task behind others", true, []entry{{rest: 9, mean: 9}, {rest: 200, mean: 100, long: true},
			{rest: 10, mean: 1}}, []time.Duration{9, 200, 10}},
	} {
		e, n := &eagle{shortest: test.shortest}, &eagleNode{}
		for _, q := range test.queue {
			job := &eagleJob{handJob: &handJob{Job: &frontend.Job{Tasks: make([]frontend.Task, 1)}},
				workLeft: q.rest, mean: q.mean, long: q.long}
			entry := &eagleEntry{job: job}
			if q.long {
				entry.task = &frontend.Task{Estimate: q.mean}
			}
			e.addEntry(n, entry)
		}
		var got []time.Duration
		for q := e.takeEntry(n); q != nil; q = e.takeEntry(n) {
			got = append(got, q.job.workLeft)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// yahooLike returns jobs much like a part of the Yahoo trace used by Hawk and Eagle, of a tenth of the size. Nine
// in ten jobs are short, with about 23 tasks of 21 s. The others have as many tasks of 1,300 s, together 98 % of
// the work.
func yahooLike(n int, slots, load float64) string {
	var file strings.Builder
	rng := rand.New(rand.NewPCG(1, 2))
	at := 0.0
	for range n {
		mean := 21.0
		if rng.Float64() < 0.1 {
			mean = 1300
		}
		mean *= math.Exp(rng.NormFloat64() - 0.5)
		tasks := 1 + rng.IntN(45)
		at += rng.ExpFloat64() * 23 * (0.9*21 + 0.1*1300) / slots / load
		fmt.Fprintf(&file, "%.3f %d %.0f", at, tasks, mean)
		for range tasks {
			fmt.Fprintf(&file, " %.0f", max(mean*(1+0.1*rng.NormFloat64()), 1))
		}
		file.WriteString("\n")
	}
	return file.String()
}

// The rival agrees with the simulator of Eagle's authors (github.com/epfl-labos/eagle) on these very jobs. The
// parameters are theirs for the Yahoo trace, except a tenth of the workers reserved; without SRPT and with SRPT.
func TestEagleIsEagle(t *testing.T) {
	cfg := smallConfig(t)
	cfg.Workers, cfg.Slots, cfg.Load, cfg.Jobs, cfg.WarmupJobs, cfg.Delay, cfg.Reserved = 400, 1, 0, 0, 0,
		500*time.Microsecond, 0.1
	cfg.Workload, cfg.Cutoff, cfg.Estimates = jobsFile(t, yahooLike(1500, 400, 0.85), true), 90*time.Second,
		Estimates{Mean: true}
	for _, test := range []struct {
		policy               string
		mean, p90, p99, long float64 // in seconds; long: the mean of long jobs
	}{{"eagle-fifo", 37.0, 94.8, 170.4, 1220.6}, {"eagle", 31.6, 67.2, 202.3, 1218.2}} {
		cfg.Policy = mustPolicy(t, test.policy)
		r := mustRun(t, cfg)
		for _, v := range []struct{ got, want, within float64 }{
			{r.Short.ResponseMS.Mean, test.mean, 0.03}, {r.Short.ResponseMS.P90, test.p90, 0.05},
			{r.Short.ResponseMS.P99, test.p99, 0.06},
			{r.Long.ResponseMS.Mean, test.long, 0.02},
		} {
			if v.got /= 1000; math.Abs(v.got/v.want-1) > v.within {
				t.Errorf("%s: short jobs take %+v ms, long ones %+v: %.1f s should be %.1f", test.policy,
					r.Short.ResponseMS, r.Long.ResponseMS, v.got, v.want)
			}
		}
	}
}

// The time to read an input depends on its distance. The stages of a job follow each other, and read the output
// of the stage before.
func TestInputsAndStages(t *testing.T) {
	cfg := smallConfig(t)
	cfg.Policy, cfg.Load, cfg.Jobs, cfg.WarmupJobs, cfg.Delay = mustPolicy(t, "strict-locality"), 0, 0, 0, 0
	cfg.Workload = jobsFile(t, "0 4 1 1 1 1 1\n", false)
	cfg.Racks, cfg.Copies, cfg.Input, cfg.checkState = 2, 3, 160e6, true
	if r := mustRun(t, cfg); math.Round(r.ResponseMS.Max) != 2000 || *r.Read != (bench.SimRead{Host: 160e6, Near: 1}) {
		t.Errorf("where the input is: %+v, %+v", r.ResponseMS, r.Read)
	}
	cfg.Policy = mustPolicy(t, "phoebe")
	if r := mustRun(t, cfg); math.Round(r.ResponseMS.Max) != 2000 || r.Read.Host != 160e6 ||
		r.Estimates.RunWithin != 1 {
		t.Errorf("by estimation: %+v, %+v, %+v", r.ResponseMS, r.Read, r.Estimates)
	}
	cfg.Policy, cfg.Copies, cfg.Racks, cfg.Workers = mustPolicy(t, "random"), 1, 0, 200
	if r := mustRun(t, cfg); math.Round(r.ResponseMS.Max) != 3000 || r.Read.Across < 100e6 {
		t.Errorf("anywhere: %+v, %+v", r.ResponseMS, r.Read)
	}
	cfg.Policy, cfg.Workers, cfg.Stages = mustPolicy(t, "phoebe"), 1, 2
	if r := mustRun(t, cfg); math.Abs(r.ResponseMS.Max-4000) > 5 || r.Read.Host != 160e6 {
		t.Errorf("two stages at one worker: %+v, %+v", r.ResponseMS, r.Read)
	}
	cfg.Input = 0
	if r := mustRun(t, cfg); math.Abs(r.ResponseMS.Max-2000) > 5 || r.Read != nil {
		t.Errorf("two stages without inputs: %+v, %+v", r.ResponseMS, r.Read)
	}
	cfg.Policy = mustPolicy(t, "eagle")
	if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "eagle knows nothing of stages") {
		t.Error(err)
	}
	cfg = smallConfig(t)
	cfg.Gossip, cfg.Stages, cfg.Copies = Gossip{Period: -2, Loss: 1}, -1, 99
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "gossip with") ||
		!strings.Contains(err.Error(), "-1 stages") {
		t.Error(err)
	}
}
