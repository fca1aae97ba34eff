package frontend

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/script"
)

// fleet is a core with workers w0, w1, ... of some slots each, for tests not written as stories.
type fleet struct {
	t    *testing.T
	core *Core
	now  time.Time
	size probe.Demand
}

func newFleet(t *testing.T, workers, slots int, cfg Config) *fleet {
	cfg.ID = 'a'
	f := &fleet{t: t, core: New(cfg, rand.New(rand.NewPCG(1, 2))), now: time.Unix(1000, 0), size: script.Size(slots)}
	for i := range workers {
		f.step(WorkerUp{Worker(i), probe.Welcome{
			Worker: fmt.Sprint("w", i), Host: fmt.Sprint("h", i), Incarnation: 1, Functions: []string{"f", "g", "h"},
			Capacity: f.size,
		}})
	}
	return f
}

func (f *fleet) step(ev Event) []Action {
	f.t.Helper()
	acts := f.core.Step(f.now, ev, nil)
	if err := f.core.Check(); err != nil {
		f.t.Fatal(err)
	}
	return acts
}

// passTime lets time pass, and steps the core with Wake whenever due.
func (f *fleet) passTime(d time.Duration) {
	f.t.Helper()
	for end := f.now.Add(d); ; f.step(Wake{}) {
		at := f.core.NextWake()
		if at.IsZero() || at.After(end) {
			f.now = end
			return
		}
		f.now = at
	}
}

// tellWait lets worker w report the given wait for tasks of all sizes.
func (f *fleet) tellWait(w int, wait time.Duration, load probe.Load) {
	f.t.Helper()
	load.Matrix = flatMatrix(f.size, wait)
	f.step(frameFrom(Worker(w), load))
}

// flatMatrix returns a matrix with the same wait for all tasks.
func flatMatrix(capacity probe.Demand, wait time.Duration) *probe.WaitMatrix {
	m := &probe.WaitMatrix{Capacity: capacity}
	for i := range m.Cells {
		for k := range m.Cells[i] {
			m.Cells[i][k] = probe.WaitOf(wait)
		}
	}
	for i := range m.Short {
		m.Short[i] = probe.WaitOf(wait)
	}
	return m
}

// sentEnqueues returns the worker and the launch of each Enqueue.
func sentEnqueues(acts []Action) (workers []Worker, launches []probe.Launch) {
	for _, a := range acts {
		if s, ok := a.(Send); ok {
			if m, ok := s.Msg.(probe.Enqueue); ok {
				workers, launches = append(workers, s.Worker), append(launches, m.Launch)
			}
		}
	}
	return workers, launches
}

func jobWith(id string, tasks ...Task) *Job {
	j := &Job{ID: script.Job(id), Policy: Policies[0], Tasks: tasks}
	for i := range j.Tasks {
		j.Tasks[i].Index = probe.TaskIndex(i)
		if j.Tasks[i].Function == "" {
			j.Tasks[i].Function = "f"
		}
	}
	return j
}

// Short tasks avoid workers that long tasks use, as long as other workers remain. But no worker is avoided for
// ever: if more workers are needed, the sampler draws from the avoided workers.
func TestSamplingAvoidsWorkersOfLongTasks(t *testing.T) {
	f := newFleet(t, 20, 4, Config{})
	for w := range 20 {
		wait := time.Duration(0)
		if w < 10 {
			wait = time.Minute
		}
		f.tellWait(w, wait, probe.Load{Queued: 1})
	}
	reserved := func(tasks int) map[Worker]int {
		counts := map[Worker]int{}
		for n := range 50 {
			id := fmt.Sprint(tasks, "-", n)
			for _, a := range f.step(Submit{jobWith(id, make([]Task, tasks)...)}) {
				if s, ok := a.(Send); ok {
					if _, ok := s.Msg.(probe.Reserve); ok {
						counts[s.Worker]++
					}
				}
			}
			f.step(Cancel{Job: script.Job(id)})
		}
		return counts
	}
	counts := reserved(2)
	for w := range Worker(20) {
		if (counts[w] == 0) != (w < 10) {
			t.Errorf("worker %d has got %d places", w, counts[w])
		}
	}
	if counts = reserved(10); len(counts) != 20 {
		t.Errorf("jobs worth 20 places have places at %d workers, want 20", len(counts))
	}
	f.step(frameFrom(3, probe.Pong{Load: probe.Load{Free: probe.Slot}}))
	f.step(frameFrom(3, probe.Pong{Load: probe.Load{Queued: 1}}))
	if counts = reserved(2); counts[3] == 0 {
		t.Error("a worker that had room is still avoided")
	}
	f.passTime(2 * time.Second)
	if counts = reserved(2); counts[5] == 0 || f.core.view.Avoided() == 10 {
		t.Errorf("after 2s workers are still avoided: %v", counts)
	}
}

// Explain returns each placing of a long task, with candidates, terms and outcome, and why a task was sampled. Later
// decisions push the oldest out.
func TestExplain(t *testing.T) {
	f := newFleet(t, 2, 1, Config{Estimate: estimate.Config{Jitter: -1}})
	f.tellWait(0, 3*time.Second, probe.Load{})
	f.tellWait(1, time.Second, probe.Load{})
	f.step(Submit{jobWith("x", Task{Estimate: 10 * time.Second, Retryable: true},
		Task{Estimate: time.Millisecond, Retryable: true})})
	wantExplained := func(want ...string) {
		t.Helper()
		var text strings.Builder
		for _, d := range f.core.Explain(script.Job("x"), -1, f.now) {
			text.WriteString(d.String() + "\n")
		}
		rest := text.String()
		for _, w := range want {
			_, after, ok := strings.Cut(rest, w)
			if !ok {
				t.Fatalf("explained:\n%s\nbut not, or not in this order: %q", text.String(), w)
			}
			rest = after
		}
	}
	wantExplained(
		"task 0 is placed by estimation, because it is long: expected to run for 10s (its estimate); 1s or more is long",
		"0s after the job came, w1 was chosen: it has the least C of 2",
		"* w1 (in pool): C 11.000s", "wait W 1.000s + run R 10.000s", "w0 (in pool): C 13.0", "at w1: sent",
		"task 1 is placed by sampling, because it is short: expected to run for 1ms (its estimate)",
	)
	f.now = f.now.Add(time.Second)
	f.step(frameFrom(1, probe.Started{Attempt: probe.AttemptID{Frontend: 'a', Seq: 1}}))
	f.step(WorkerGone{Worker: 1})
	f.tellWait(0, 3*time.Second, probe.Load{})
	wantExplained("lost: worker w1 went away",
		"1s after the job came, w0 was chosen: it has the least C of 1", "at w0: sent")
	acts := f.step(frameFrom(0, &probe.Finished{Attempt: probe.AttemptID{Frontend: 'a', Seq: 2},
		Status: probe.Succeeded, Waited: 4 * time.Second, Run: 9 * time.Second,
		Usage: probe.Usage{CPU: 8 * time.Second, Memory: 100},
	}))
	if i := slices.IndexFunc(acts, func(a Action) bool { _, ok := a.(*Done); return ok }); i < 0 {
		t.Errorf("no outcome: %v", acts)
	} else if o := acts[i].(*Done).Outcome; o.Expected != 10*time.Second || o.ExpectedWait != 3*time.Second ||
		o.Waited != 4*time.Second || o.Path != estimate.Estimation {
		t.Errorf("the outcome tells of a run of %v and of waits of %v and %v", o.Expected, o.ExpectedWait, o.Waited)
	}
	f.step(Cancel{Job: script.Job("x")})
	wantExplained("succeeded, waited 4s, ran 9s, used 8s of CPU and 100 MiB", "sampling")
	if ds := f.core.Explain(script.Job("x"), 0, f.now); len(ds) != 2 {
		t.Errorf("%d decisions on one task that was placed twice", len(ds))
	}
	if w, r := f.core.Waits, f.core.Runs; w.Seen != 1 || w.Good != 1 || r.Seen != 1 || r.Good != 1 {
		t.Errorf("waits: %v; runs: %v", w, r)
	}

	for n := range maxDecisions { // later decisions push the first ones out
		f.tellWait(0, 0, probe.Load{})
		id := fmt.Sprint("y", n)
		f.step(Submit{jobWith(id, Task{Estimate: 10 * time.Second, Retryable: true})})
		f.step(Cancel{Job: script.Job(id)})
	}
	ds, all := f.core.Explain(script.Job("x"), 0, f.now), f.core.Explain(script.Job("x"), -1, f.now)
	if len(ds) != 0 || len(all) != 1 || all[0].Task != 1 {
		t.Errorf("%d decisions on a task after %d later ones, on its job: %v", len(ds), maxDecisions, all)
	}
	if ds := f.core.Explain(script.Job(fmt.Sprint("y", maxDecisions-1)), 0, f.now); len(ds) != 1 ||
		ds[0].Choice.Choice() == nil {
		t.Errorf("%d decisions on the last task", len(ds))
	}
	for n := range maxSampled {
		id := fmt.Sprint("z", n)
		f.step(Submit{jobWith(id, Task{Function: "g", Retryable: true})})
		f.step(Cancel{Job: script.Job(id)})
	}
	if ds := f.core.Explain(script.Job("x"), -1, f.now); len(ds) != 0 {
		t.Errorf("%d decisions on a job after %d later ones", len(ds), maxSampled)
	}
	if ds := f.core.Explain(script.Job("z0"), 0, f.now); len(ds) != 1 || ds[0].Why.Cause != estimate.ByIgnorance {
		t.Errorf("on a job with a sampled task: %v", ds)
	}
}

// Run times are learnt by function for later jobs, and by hint for later tasks of the job. The worker is told the
// estimate.
func TestLearning(t *testing.T) {
	f := newFleet(t, 1, 8, Config{})
	finish := func(l probe.Launch, run time.Duration) {
		f.step(frameFrom(0, &probe.Finished{Attempt: l.Attempt, Status: probe.Succeeded, Run: run}))
		f.tellWait(0, 0, probe.Load{})
	}
	f.tellWait(0, 0, probe.Load{})
	for n := range 3 {
		_, ls := sentEnqueues(f.step(Submit{jobWith(fmt.Sprint("a", n), Task{Estimate: 20 * time.Second})}))
		finish(ls[0], 30*time.Second)
	}
	_, ls := sentEnqueues(f.step(Submit{jobWith("b", Task{})}))
	if len(ls) != 1 || ls[0].Estimate != 30*time.Second {
		t.Fatalf("a task without a hint of a function that runs for 30 s: %+v", ls)
	}
	tasks := make([]Task, 5)
	for i := range tasks {
		tasks[i].Estimate = time.Second * time.Duration(6-i) // the job ends soonest if the longest task is placed first
	}
	f.tellWait(0, 0, probe.Load{})
	acts := f.step(Submit{jobWith("c", tasks...)})
	for i := range 4 {
		_, ls = sentEnqueues(acts)
		if want := time.Duration(6-i) * time.Second; len(ls) != 1 || i < 3 && ls[0].Estimate != want {
			t.Fatalf("task %d: %+v", i, ls)
		}
		if i == 3 {
			break
		}
		f.step(frameFrom(0, &probe.Finished{Attempt: ls[0].Attempt, Status: probe.Succeeded, Run: 2 * ls[0].Estimate}))
		f.now = f.core.NextWake()
		acts = f.step(Wake{})
	}
	if got := ls[0].Estimate; got != 6*time.Second {
		t.Errorf("a hint of 3 s, while the stage's tasks take twice their hints: %v", got)
	}

	short := newFleet(t, 1, 8, Config{})
	for n := range 100 {
		id := fmt.Sprint("s", n)
		acts := short.step(Submit{jobWith(id, Task{})})
		l := acts[1].(Send).Msg.(probe.Reserve).Launches[0]
		short.step(frameFrom(0, &probe.Finished{Attempt: l.Attempt, Status: probe.Succeeded, Run: time.Millisecond,
			Load: probe.Load{Free: short.size}}))
	}
	if n := short.core.view.EnsureRuns("", "f").Stats().N(); n < 8 || n > 20 {
		t.Errorf("%d of 100 short runs are remembered", n)
	}
}

// The wait of the asking tenant decides where a long task goes: a worker may be busy for one tenant, and have its next
// turn for another. A task beyond its tenant's tokens comes after all others.
func TestWaitsByTenant(t *testing.T) {
	tell := func(f *fleet) {
		f.tellWait(0, 10*time.Second, probe.Load{})
		f.tellWait(1, 3*time.Second, probe.Load{})
		m := flatMatrix(f.size, 10*time.Second)
		m.Shares.Others = probe.ShareOf(probe.WaitOf(time.Second), probe.WaitOf(10*time.Second))
		m.Shares.Set(probe.CodeOf("bully"), 0)
		f.step(frameFrom(0, probe.Load{Matrix: m}))
	}
	for _, c := range []struct {
		tenant string
		class  Class
		worker Worker
		wait   time.Duration
	}{
		{"bully", Auto, 1, 3 * time.Second}, {"polite", Auto, 0, time.Second}, {"poor", Auto, 0, time.Second},
		{"polite", Spare, 1, 3 * time.Second},
	} {
		f := newFleet(t, 2, 8, Config{Estimate: estimate.Config{Jitter: -1}})
		f.step(Terms{tenants.New(1, nil, []tenants.Entry{{Path: "*", Tokens: 100}, {Path: "poor", Tokens: 1}})})
		tell(f)
		j := jobWith("x", Task{Estimate: 5 * time.Second})
		j.Tenant, j.Class, j.Mode = c.tenant, c.class, estimate.Estimate
		ws, _ := sentEnqueues(f.step(Submit{j}))
		if len(ws) != 1 || ws[0] != c.worker {
			t.Errorf("a task of %s went to %v, want worker %d", c.tenant, ws, c.worker)
			continue
		}
		if w := f.core.Explain(j.ID, 0, f.now)[0].Choice.Choice().W; w < c.wait || w > c.wait+c.wait/20 {
			t.Errorf("a task of %s is told to wait for %v, want %v", c.tenant, w, c.wait)
		}
		tell(f)
		j = jobWith("y", Task{Estimate: 5 * time.Second})
		j.Tenant, j.Class, j.Mode = c.tenant, c.class, estimate.Estimate
		if ws, _ = sentEnqueues(f.step(Submit{j})); c.tenant == "poor" && (len(ws) != 1 || ws[0] != 1) {
			t.Errorf("a task beyond the tokens of %s went to %v", c.tenant, ws)
		}
	}

	f := newFleet(t, 1, 8, Config{})
	j := jobWith("x", Task{Estimate: 5 * time.Second})
	j.Tenant, j.Priority = "polite", 3
	for _, a := range f.step(Submit{j}) {
		if s, ok := a.(Send); ok {
			want := probe.Asker{Tenant: "polite", Priority: 3, Demand: probe.Slot, Long: true}
			if m, ok := s.Msg.(probe.Probe); !ok || m.Asker == nil || *m.Asker != want {
				t.Errorf("the worker is asked by %+v", s.Msg)
			}
		}
	}
}

// If hints of a function were wrong by a factor above two, hints of later jobs are corrected, on both paths.
// Before that, and with better hints, the hint counts.
func TestWrongHints(t *testing.T) {
	f := newFleet(t, 1, 8, Config{})
	reserve := func(id string, tasks ...Task) probe.Reserve {
		t.Helper()
		return f.step(Submit{jobWith(id, tasks...)})[1].(Send).Msg.(probe.Reserve)
	}
	for n, off := range []time.Duration{3, 3, 3, 1} {
		m := reserve(fmt.Sprint("s", n), Task{Estimate: 10 * time.Millisecond})
		if want := []time.Duration{10, 10, 10, 30}[n] * time.Millisecond; m.Estimate != want ||
			m.Launches[0].Estimate != want {
			t.Errorf("job %d: a hint of 10 ms is told as %v and %v, want %v", n, m.Estimate, m.Launches[0].Estimate,
				want)
		}
		f.step(frameFrom(0, &probe.Finished{Attempt: m.Launches[0].Attempt, Status: probe.Succeeded,
			Run: off * 10 * time.Millisecond, Load: probe.Load{Free: f.size}}))
	}
	f.tellWait(0, 0, probe.Load{})
	_, ls := sentEnqueues(f.step(Submit{jobWith("l", Task{Estimate: 900 * time.Millisecond})}))
	if len(ls) != 1 || ls[0].Estimate != 2700*time.Millisecond {
		t.Errorf("hint of 900 ms, of a function with thrice its hints: %+v, want one task of 2.7 s by estimation", ls)
	}
}

// The run time of a group is the run time of its longest tasks. A single task with a hint of 20 ms among ten makes the
// group as long.
func TestGroupRunIsItsLongest(t *testing.T) {
	run := func(tasks ...Task) time.Duration {
		f := newFleet(t, 1, 1, Config{})
		f.step(Submit{jobWith("x", tasks...)})
		return f.core.byID[script.Job("x")].groups[0].Run()
	}
	ten := make([]Task, 10)
	if got := run(ten...); got != 0 {
		t.Errorf("nothing is known: %v", got)
	}
	ten[3].Estimate = 20 * time.Millisecond
	if got := run(ten...); got != 20*time.Millisecond {
		t.Errorf("one of ten has a hint of 20 ms: %v", got)
	}
	for i := range ten {
		ten[i].Estimate = time.Millisecond
	}
	ten[9].Estimate = 20 * time.Millisecond
	if got := run(ten...); got != 20*time.Millisecond {
		t.Errorf("nine of 1 ms and one of 20 ms: %v", got)
	}
}

// The failure model learns about workers that go away, alone or together, but not about leaving workers. It also
// learns about tasks of different functions failing at the same worker.
func TestFailures(t *testing.T) {
	failures := func(f *fleet, w int32) float64 { return f.core.view.Fleet().Failures(w, f.now) }
	restart := func(f *fleet, w Worker) {
		f.step(WorkerUp{w, probe.Welcome{Worker: fmt.Sprint("w", w), Incarnation: 2,
			Functions: []string{"f", "g", "h"}, Capacity: f.size}})
	}
	f := newFleet(t, 100, 1, Config{})
	f.step(WorkerGone{Worker: 1})
	f.step(WorkerGone{Worker: 1})
	restart(f, 1)
	f.step(frameFrom(2, probe.Drain{}))
	f.step(WorkerGone{Worker: 2})
	restart(f, 2)
	if got := failures(f, 1); got != 1 {
		t.Errorf("a worker that went away has %v failures", got)
	}
	if failures(f, 2) != 0 {
		t.Error("a worker that left is taken for one that failed")
	}
	f.now = f.now.Add(time.Hour)
	for w := range Worker(50) {
		f.step(LinkLost{w + 50})
	}
	f.passTime(2 * time.Second)
	restart(f, 60)
	if got := failures(f, 60); got > 0.1 {
		t.Errorf("a worker that went away together with half of the fleet has %v failures", got)
	}

	f = newFleet(t, 2, 1, Config{})
	for _, function := range []string{"f", "g", "h"} {
		f.tellWait(0, 0, probe.Load{})
		f.tellWait(1, time.Minute, probe.Load{})
		_, ls := sentEnqueues(f.step(Submit{jobWith("j"+function,
			Task{Function: function, Estimate: 5 * time.Second})}))
		f.step(frameFrom(0, &probe.Finished{Attempt: ls[0].Attempt, Status: probe.Failed}))
	}
	if failures(f, 0) != 1 || failures(f, 1) != 0 {
		t.Errorf("three functions failed at a worker: %v failures, and at another %v", failures(f, 0), failures(f, 1))
	}
}

// Some tasks of a job would have to wait, and would still end before the longest task. Such tasks are placed
// later: when there is room, but early enough to end with the longest task.
func TestPostponed(t *testing.T) {
	// first is the wait that the worker reports first. An hour is wrong, and must not put the task off for an hour.
	for _, first := range []time.Duration{3 * time.Second, time.Hour} {
		f := newFleet(t, 1, 8, Config{})
		f.tellWait(0, first, probe.Load{})
		f.step(Submit{jobWith("a", Task{Estimate: 5 * time.Second}, Task{Estimate: 20 * time.Second})})
		f.passTime(2 * batchPause)
		began := f.now
		if f.core.Stats.Enqueued != 1 || f.core.sleepers.Len() != 1 {
			t.Fatalf("%d tasks were enqueued, %d sleep: one of 5 s was to wait for %v while another takes 20",
				f.core.Stats.Enqueued, f.core.sleepers.Len(), first)
		}
		for i := 0; i < 1000 && f.core.Stats.Enqueued < 2; i++ {
			f.now = f.core.NextWake()
			f.step(Wake{})
			f.tellWait(0, 3*time.Second, probe.Load{})
		}
		if after := f.now.Sub(began); f.core.Stats.Enqueued != 2 || after < 14*time.Second || after > 16*time.Second {
			t.Errorf("reported wait %v: %d enqueued after %v, want the task of 5 s after the difference, 15 s",
				first, f.core.Stats.Enqueued, after)
		}
	}

	// With room at once, a task starts at once. A task alone does not sleep.
	f := newFleet(t, 2, 8, Config{})
	f.tellWait(0, 0, probe.Load{})
	f.tellWait(1, 0, probe.Load{})
	if ws, _ := sentEnqueues(f.step(Submit{jobWith("b", Task{Estimate: 5 * time.Second},
		Task{Estimate: 20 * time.Second})})); len(ws) != 2 {
		t.Errorf("with room for both, %d tasks are placed", len(ws))
	}
	f = newFleet(t, 1, 8, Config{})
	f.tellWait(0, 3*time.Second, probe.Load{})
	if ws, _ := sentEnqueues(f.step(Submit{jobWith("c", Task{Estimate: 5 * time.Second})})); len(ws) != 1 {
		t.Error("a task that is alone is put off")
	}
}

// Tasks of several frontends sleep for the same room. The frontends wake the tasks at different moments, all of them
// before the room is there: the next frontend then knows that the room is taken.
func TestPostponedTasksWakeApart(t *testing.T) {
	const wait, early = 3 * time.Second, 3 * time.Second / 8
	var wakes []time.Duration
	for seed := range uint64(20) {
		f := newFleet(t, 1, 8, Config{})
		f.core.rand = rand.New(rand.NewPCG(seed, 3))
		f.tellWait(0, wait, probe.Load{})
		f.step(Submit{jobWith("a", Task{Estimate: 5 * time.Second}, Task{Estimate: 20 * time.Second})})
		f.passTime(2 * batchPause)
		if f.core.sleepers.Len() != 1 {
			t.Fatalf("%d tasks sleep, want 1", f.core.sleepers.Len())
		}
		wakes = append(wakes, f.core.sleepers.Min().sleepUntil.Sub(f.now))
	}
	slices.Sort(wakes)
	first, last := wakes[0], wakes[len(wakes)-1]
	if first < wait-early*3/2-10*time.Millisecond || last > wait-early/2 || last-first < early/2 {
		t.Errorf("tasks sleep for %v to %v: want different times, %v to %v before the room is there", first, last,
			early/2, early*3/2)
	}
}

// A task that had rather wait for the worker with its input than use the room elsewhere is woken for that room only
// a few times.
func TestVainWakes(t *testing.T) {
	f := newFleet(t, 2, 8, Config{})
	f.tellWait(0, 3*time.Second, probe.Load{})
	f.tellWait(1, 3*time.Second, probe.Load{})
	at := []estimate.Copy{{At: "w0"}}
	f.step(Submit{jobWith("a", Task{Estimate: 5 * time.Second, Inputs: []Input{{Bytes: 2e9, Copies: at}}},
		Task{Estimate: 40 * time.Second, Inputs: []Input{{Bytes: 2e9, Copies: at}}})})
	f.passTime(2 * batchPause)
	if c := f.core; c.Stats.Enqueued != 1 || c.sleepers.Len() != 1 {
		t.Fatalf("%d tasks were enqueued, and %d sleep: one of each was to be", c.Stats.Enqueued, c.sleepers.Len())
	}
	before := f.core.Stats.Batches
	for range 100 {
		f.passTime(batchPause)
		f.step(frameFrom(1, probe.Pong{Load: probe.Load{Free: probe.Slot}}))
	}
	if n := f.core.Stats.Batches - before; n != maxVainWakes || f.core.sleepers.Len() != 1 {
		t.Errorf("a hundred reports of room led to %d batches, and %d tasks sleep: want %d, and the task asleep", n,
			f.core.sleepers.Len(), maxVainWakes)
	}
}

// Workers with old matrices are asked again, and very old matrices are forgotten. For each task only some workers are
// asked.
func TestAsking(t *testing.T) {
	f := newFleet(t, 40, 1, Config{})
	asked := func(id string) int {
		n := 0
		for _, a := range f.step(Submit{jobWith(id, Task{Estimate: 10 * time.Second})}) {
			if s, ok := a.(Send); ok {
				if m, ok := s.Msg.(probe.Probe); ok && m.Matrix {
					n++
				}
			}
		}
		return n
	}
	if n := asked("a"); n < 1 || n > 6 {
		t.Errorf("%d workers are asked for one task while nothing is known of any", n)
	}
	for w := range 40 {
		f.tellWait(w, time.Second, probe.Load{})
	}
	if n := asked("b"); n != 0 {
		t.Errorf("%d workers are asked although all have just told", n)
	}
	f.now = f.now.Add(time.Second)
	if n := asked("c"); n < 2 || n > 6 {
		t.Errorf("%d workers are asked, as what is known is 1 s old", n)
	}
	f.passTime(time.Minute)
	asked("d")
	known := 0
	for w := range int32(40) {
		if f.core.view.Fleet().Get(w).Matrix != nil {
			known++
		}
	}
	if known > 0 {
		t.Errorf("%d matrices are believed after a minute", known)
	}
}

// Random jobs with stages: each stage starts after its predecessors have ended, all tasks end, and a failure ends
// the job.
func TestRandomStages(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 5))
		f := newFleet(t, 4, 4, Config{Estimate: estimate.Config{Jitter: -1}})
		for w := range 4 {
			f.tellWait(w, 0, probe.Load{Free: f.size})
		}
		n := 1 + rng.IntN(8)
		names := rng.Perm(n) // stage i of the order comes at position names[i]
		j := jobWith("x")
		j.Stages = make([]Stage, n)
		after := make([][]int, n)
		for i, position := range names {
			j.Stages[position].Name = fmt.Sprint("s", position)
			for _, before := range names[:i] {
				if rng.IntN(3) == 0 {
					j.Stages[position].After = append(j.Stages[position].After, fmt.Sprint("s", before))
					after[position] = append(after[position], before)
				}
			}
			for range 1 + rng.IntN(3) {
				task := Task{Index: probe.TaskIndex(len(j.Tasks)), Stage: int32(position), Function: "f",
					Estimate: time.Millisecond, Retryable: true}
				if rng.IntN(2) == 0 {
					task.Estimate = time.Minute
				}
				if len(after[position]) > 0 && rng.IntN(2) == 0 {
					task.Inputs = []Input{{Bytes: 1e9, Stage: j.Stages[position].After[0]}}
				}
				j.Tasks = append(j.Tasks, task)
			}
		}
		unfinished, doomed := make([]int, n), rng.IntN(4) == 0
		for i := range j.Tasks {
			unfinished[j.Tasks[i].Stage]++
		}
		type running struct {
			w Worker
			l probe.Launch
		}
		var runs []running
		outcomes, failures := 0, 0
		ended := false
		take := func(acts []Action) {
			for _, a := range acts {
				switch a := a.(type) {
				case Send:
					var ls []probe.Launch
					switch m := a.Msg.(type) {
					case probe.Enqueue:
						ls = []probe.Launch{m.Launch}
					case probe.Reserve:
						ls = m.Launches
						if len(ls) == 0 {
							t.Fatalf("seed %d: workers are idle, and a place is all that is sent", seed)
						}
					}
					for _, l := range ls {
						for _, before := range after[j.Tasks[l.Task].Stage] {
							if unfinished[before] > 0 {
								t.Fatalf("seed %d: task %d starts before stage %d has ended", seed, l.Task, before)
							}
						}
						runs = append(runs, running{a.Worker, l})
					}
				case Refused:
					t.Fatalf("seed %d: %v", seed, a.Err)
				case *Done:
					outcomes++
					if a.Outcome.Kind != Result {
						failures++
					}
				case Ended:
					ended = true
				}
			}
		}
		take(f.step(Submit{j}))
		for !ended {
			if len(runs) == 0 {
				if f.now = f.core.NextWake(); f.now.IsZero() {
					t.Fatalf("seed %d: nothing runs and nothing is due", seed)
				}
				take(f.step(Wake{}))
				continue
			}
			k := rng.IntN(len(runs))
			r := runs[k]
			runs = append(runs[:k], runs[k+1:]...)
			status := probe.Succeeded
			if doomed && rng.IntN(4) == 0 {
				status = probe.Failed
			} else {
				unfinished[j.Tasks[r.l.Task].Stage]--
			}
			load := probe.Load{Free: f.size, Matrix: flatMatrix(f.size, 0)}
			take(f.step(frameFrom(r.w, &probe.Finished{Attempt: r.l.Attempt, Status: status, Run: time.Millisecond,
				Load: load})))
		}
		if outcomes != len(j.Tasks) || failures > 0 && !doomed {
			t.Fatalf("seed %d: %d of %d tasks ended, %d failed", seed, outcomes, len(j.Tasks), failures)
		}
	}
}

// Tenants with long tasks due get turns in proportion to their tokens, whatever the priorities, sizes and numbers of
// their tasks: the services over tokens of two tenants never differ by more than a task of each.
func TestLongTasksOfTenantsTakeTurns(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		f := newFleet(t, 1, 1, Config{Estimate: estimate.Config{Jitter: -1}})
		weights, paths := map[string]int{}, []string{"a", "b", "c/x", "d"}[:2+rng.IntN(3)]
		var entries []tenants.Entry
		for _, path := range paths {
			weights[path] = 1 + rng.IntN(4)
			top := path[:1]
			entries = append(entries, tenants.Entry{Path: top, Tokens: 10_000 * weights[path]})
		}
		f.step(Terms{tenants.New(1, nil, entries)})
		unplaced, served := map[string]int{}, map[string]time.Duration{}
		tenantOf := map[probe.JobID]string{}
		for n := range 3 * len(paths) {
			path := paths[n%len(paths)]
			j := jobWith(fmt.Sprint("j", n), make([]Task, 4+rng.IntN(8))...)
			for i := range j.Tasks {
				j.Tasks[i].Estimate = time.Duration(1+rng.IntN(10)) * time.Second
			}
			j.Tenant, j.Priority, j.Mode = path, int32(rng.IntN(3)), estimate.Estimate
			tenantOf[j.ID] = path
			unplaced[path] += len(j.Tasks)
			f.step(Submit{j})
		}
		f.core.Step(f.now, frameFrom(0, probe.Load{Matrix: flatMatrix(f.size, 0)}), nil)
		placed := 0
		count := func(acts []Action) {
			for _, a := range acts {
				s, ok := a.(Send)
				if !ok {
					continue
				}
				if m, ok := s.Msg.(probe.Enqueue); ok {
					path := tenantOf[m.Job]
					served[path] += m.Launch.Estimate / time.Duration(weights[path])
					unplaced[path]--
					placed++
				}
			}
			for i, a := range paths {
				for _, b := range paths[:i] {
					most := 10*time.Second/time.Duration(weights[a]) + 10*time.Second/time.Duration(weights[b])
					if gap := (served[a] - served[b]).Abs(); unplaced[a] > 0 && unplaced[b] > 0 && gap > most {
						t.Fatalf("seed %d: after %d tasks %s and %s were served %v and %v for each token", seed, placed,
							a, b, served[a], served[b])
					}
				}
			}
		}
		for range 20 {
			f.now = f.core.NextWake()
			count(f.step(Wake{}))
		}
		if placed < 15 {
			t.Fatalf("seed %d: %d tasks were placed", seed, placed)
		}
	}
}

// Reports of workers teach rates. Tasks that read near their input and far from it take equally long, so the far place
// counts as near. Files come fast from their origin.
func TestRatesAreLearntFromTasks(t *testing.T) {
	const bytes = 400_000_000
	f := newFleet(t, 2, 4, Config{Estimate: estimate.Config{Jitter: -1}})
	for i := range Worker(2) {
		f.step(WorkerUp{i, probe.Welcome{Worker: fmt.Sprint("w", i), Host: fmt.Sprint("h", i), Incarnation: 2,
			Functions: []string{"f"}, Capacity: f.size, Cache: "c:1"}})
	}
	input := Input{Bytes: bytes, Copies: []estimate.Copy{{At: "h0"}}}
	file := probe.File{Digest: [32]byte{1}, URL: "https://x/y", Bytes: bytes}
	before := f.core.view.Fleet().Rates()
	for i := range 40 {
		near := i%2 == 0
		f.tellWait(0, map[bool]time.Duration{true: 0, false: time.Hour}[near], probe.Load{Free: f.size})
		f.tellWait(1, map[bool]time.Duration{true: time.Hour, false: 0}[near], probe.Load{Free: f.size})
		id := fmt.Sprint("j", i)
		workers, launches := sentEnqueues(f.step(Submit{jobWith(id, Task{Inputs: []Input{input},
			Estimate: 2 * time.Second, Files: []probe.File{file}})}))
		if len(workers) != 1 || workers[0] != Worker(i%2) {
			t.Fatalf("task %d went to %v", i, workers)
		}
		f.step(frameFrom(workers[0], &probe.Finished{Attempt: launches[0].Attempt, Job: script.Job(id),
			Status: probe.Succeeded, Run: 2 * time.Second,
			Usage: probe.Usage{Fetched: bytes, Fetch: 200 * time.Millisecond}}))
	}
	after := f.core.view.Fleet().Rates()
	if after.Across != after.Disk || after.Disk < before.Disk {
		t.Errorf("near and far runs are equally long, and the rates are %+v, before %+v", after, before)
	}
	if after.Origin < 1.99e9 || after.Origin > 2.01e9 {
		t.Errorf("files came at 2 GB/s, and the rate is %v", after.Origin)
	}
}
