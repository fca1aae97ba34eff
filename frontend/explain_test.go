package frontend

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/place"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/script"
)

// Tasks without a decision are explained, too. Tasks that are alike share an explanation.
func TestExplainWaitingTasks(t *testing.T) {
	f := newFleet(t, 1, 4, Config{})
	f.tellWait(0, 0, probe.Load{})
	j := jobWith("x",
		Task{Estimate: time.Minute}, Task{Stage: 1, Estimate: time.Minute}, Task{Stage: 1, Estimate: time.Minute},
		Task{Estimate: time.Millisecond}, Task{Estimate: time.Millisecond}, Task{Estimate: time.Millisecond})
	j.Stages = []Stage{{Name: "a"}, {Name: "b", After: []string{"a"}}}
	f.step(Submit{j})
	explain := func(task int, want ...string) {
		t.Helper()
		ds := f.core.Explain(script.Job("x"), task, f.now)
		if len(ds) != len(want) {
			t.Fatalf("task %d: %d decisions, want %d: %v", task, len(ds), len(want), ds)
		}
		for i := range ds {
			if text := ds[i].String(); !strings.Contains(text, want[i]) {
				t.Errorf("task %d, decision %d: %q lacks %q", task, i, text, want[i])
			}
		}
	}
	explain(2,
		"task 2 is placed by estimation, because it is long: expected to run for 1m0s (its estimate); 1s or more is "+
			"long\nit waits for other stages")
	explain(4, "task 4 is placed by sampling")
	explain(9)
	explain(-1, "w0 was chosen: it has the least C of 1",
		"task 3 (and 2 more like it) is placed by sampling", "task 1 (and 1 more like it) is placed by estimation")
	f.step(Cancel{Job: script.Job("x")})
	explain(-1, "w0 was chosen: it has the least C of 1", "task 3 (and 2 more like it) is placed by sampling")
	explain(0, "w0 was chosen: it has the least C of 1")
	explain(5, "task 5 is placed by sampling")
	explain(6)
}

// Explain tells that no worker of a task's set is up.
func TestExplainStranded(t *testing.T) {
	f := newFleet(t, 1, 4, Config{})
	f.step(Submit{jobWith("x", Task{Retryable: true}, Task{Estimate: time.Minute})})
	f.step(WorkerGone{Worker: 0})
	for task := range 2 {
		ds := f.core.Explain(script.Job("x"), task, f.now)
		if text := ds[len(ds)-1].String(); !strings.Contains(text, "it waits for a worker: none that may run it is up") {
			t.Errorf("task %d: %s", task, text)
		}
	}
}

// Explain tells whether tokens cover a task, and why a held task waits.
func TestExplainTokens(t *testing.T) {
	f := newFleet(t, 2, 4, Config{Estimate: estimate.Config{Jitter: -1}})
	f.step(Terms{tenants.New(1, nil, []tenants.Entry{{Path: "a", Tokens: 1, Max: 2}})})
	j := jobWith("x", Task{Estimate: time.Minute}, Task{Estimate: time.Minute}, Task{Estimate: time.Minute})
	j.Tenant = "a"
	f.step(Submit{j})
	for w := range 2 {
		f.tellWait(w, 0, probe.Load{})
	}
	text := ""
	for task := range 3 {
		for _, d := range f.core.Explain(script.Job("x"), task, f.now) {
			text += d.String() + "\n"
		}
	}
	for _, want := range []string{
		`covered by tokens: tenant "a" used 0 of its 1 slots at this frontend`,
		`not covered by tokens: tenant "a" used 1 of its 1 slots`,
		"class regular: the default, because its job asks for none\n",
		"class yielded: its job asks for none, and its tenant's tokens do not cover the task\n",
		`held: tenant "a" uses 2 of its maximum of 2 slots at this frontend`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	f.now = f.now.Add(time.Second)
	f.step(Terms{tenants.New(2, nil, []tenants.Entry{{Path: "a", Tokens: 2, Max: 2}})})
	if text := f.core.Explain(script.Job("x"), 1, f.now)[0].String(); !strings.Contains(text,
		"class regular: the default, because its job asks for none") || !strings.Contains(text,
		`not covered by tokens: tenant "a" used 1 of its 1 slots at this frontend; covered since 1s after the job came`,
	) {
		t.Errorf("with another token:\n%s", text)
	}
}

// A copy is explained after the first attempt: why and where the copy was made, and what became of each attempt.
func TestExplainCopies(t *testing.T) {
	f := newFleet(t, 2, 1, Config{Copies: 1, Estimate: estimate.Config{Jitter: -1}})
	f.tellWait(0, 0, probe.Load{})
	f.tellWait(1, time.Second, probe.Load{})
	_, first := sentEnqueues(f.step(Submit{jobWith("x", Task{Estimate: 10 * time.Second, Retryable: true})}))
	f.step(frameFrom(0, probe.Started{Attempt: first[0].Attempt, Job: script.Job("x")}))
	f.tellWait(1, 0, probe.Load{})
	var copies []probe.Launch
	for range 40 {
		f.now = f.now.Add(time.Second)
		_, more := sentEnqueues(f.step(Wake{}))
		copies = append(copies, more...)
	}
	if len(copies) != 1 {
		t.Fatalf("%d copies", len(copies))
	}
	ds := f.core.Explain(script.Job("x"), 0, f.now)
	if len(ds) != 2 || ds[0].Copies != "its copy is at w1" || ds[0].CopyOf != (probe.AttemptID{}) ||
		ds[1].CopyOf != first[0].Attempt {
		t.Errorf("decisions: %+v", ds)
	}
	f.step(frameFrom(1, &probe.Finished{
		Attempt: copies[0].Attempt, Job: script.Job("x"), Status: probe.Succeeded, Run: 5 * time.Second,
	}))
	ds = f.core.Explain(script.Job("x"), 0, f.now)
	if len(ds) != 2 {
		t.Fatalf("decisions: %v", ds)
	}
	for i, want := range []string{
		"at w0: stopped: its copy was done first",
		"w1 was chosen: it gets a copy of attempt " + first[0].Attempt.String() + ", which has run at w0 for 31",
	} {
		if text := ds[i].String(); !strings.Contains(text, want) {
			t.Errorf("decision %d: %q lacks %q", i, text, want)
		}
	}
	if text := ds[1].String(); !strings.Contains(text, "at w1: succeeded, waited 0s, ran 5s") {
		t.Errorf("the copy: %q", text)
	}
}

// Explain tells why a running task has no copy, on either path.
func TestExplainNoCopy(t *testing.T) {
	for _, want := range []struct {
		cfg  Config
		job  Job
		once bool
		says string
	}{
		{Config{Copies: 1}, Job{}, false,
			"no copy: the task is not known to be late, or no other worker would finish it sooner"},
		{Config{}, Job{}, false, "no copy: this frontend makes no copies"},
		{Config{Copies: 1}, Job{}, true, "no copy: the task may start only once"},
		{Config{Copies: 1}, Job{Tenant: "bounded"}, false, "no copy: its tenant has a maximum"},
		{Config{Copies: 1}, Job{Class: Spare}, false, "no copy: its job is spare"},
	} {
		for _, mode := range []estimate.Mode{estimate.Sample, estimate.Estimate} {
			f := newFleet(t, 1, 1, want.cfg)
			f.step(Terms{tenants.New(1, nil, []tenants.Entry{{Path: "bounded", Tokens: 7, Max: 2}})})
			f.tellWait(0, 0, probe.Load{})
			j := jobWith("x", Task{Estimate: time.Minute, Retryable: !want.once})
			j.Class, j.Tenant, j.Mode = want.job.Class, want.job.Tenant, mode
			for _, a := range f.step(Submit{j}) {
				s, _ := a.(Send)
				switch m := s.Msg.(type) {
				case probe.Enqueue:
					f.step(frameFrom(0, probe.Started{Attempt: m.Launch.Attempt, Job: j.ID}))
				case probe.Reserve:
					if len(m.Launches) > 0 {
						f.step(frameFrom(0, probe.Started{Attempt: m.Launches[0].Attempt, Job: j.ID}))
					} else {
						f.step(frameFrom(0, probe.Ready{Res: m.First}))
					}
				}
			}
			ds := f.core.Explain(script.Job("x"), 0, f.now)
			if len(ds) != 1 || ds[0].Worker == "" || !slices.Contains(strings.Split(ds[0].String(), "\n"), want.says) {
				t.Errorf("%v: %v lacks the line %q", mode, ds, want.says)
			}
			if tokens := "has the weights [7], one for each part of its path"; mode == estimate.Sample &&
				j.Tenant != "" && !strings.Contains(ds[0].Budget, tokens) {
				t.Errorf("%q lacks %q", ds[0].Budget, tokens)
			}
		}
	}
}

// The copy of a queued task is explained by three waits of the first attempt: expected, so far, and still to come.
func TestExplainCopyOfQueued(t *testing.T) {
	f := newFleet(t, 2, 1, Config{Copies: 1, Estimate: estimate.Config{Jitter: -1}})
	f.tellWait(0, 5*time.Second, probe.Load{})
	f.tellWait(1, time.Hour, probe.Load{})
	_, first := sentEnqueues(f.step(Submit{jobWith("x", Task{Estimate: 10 * time.Second, Retryable: true})}))
	f.step(frameFrom(0, probe.Queued{First: 1, Count: 1}))
	f.now = f.now.Add(time.Second)
	f.step(frameFrom(0, probe.Pong{Expect: []probe.Expect{{Attempt: first[0].Attempt, Wait: 20 * time.Second}}}))
	f.tellWait(1, 0, probe.Load{})
	f.now = f.now.Add(4 * time.Second)
	_, copies := sentEnqueues(f.step(Wake{}))
	if len(copies) != 1 {
		t.Fatalf("%d copies", len(copies))
	}
	f.step(frameFrom(1, probe.Started{Attempt: copies[0].Attempt, Job: script.Job("x")}))
	ds := f.core.Explain(script.Job("x"), 0, f.now)
	if len(ds) != 2 {
		t.Fatalf("decisions: %v", ds)
	}
	for i, want := range []string{
		"at w0: withdrawn: its copy has started first",
		"w1 was chosen: it gets a copy of attempt " + first[0].Attempt.String() +
			", which was expected to wait at w0 for 5.000s, has waited for 5.000s, and is expected to wait for 16.000s more",
	} {
		if text := ds[i].String(); !strings.Contains(text, want) || !strings.Contains(text, "class regular") {
			t.Errorf("decision %d: %q lacks %q, or its class", i, text, want)
		}
	}
}

// If a job ends before its second stage begins, Explain does not say that the tasks of the stage were placed.
func TestExplainStagesThatNeverBegan(t *testing.T) {
	f := newFleet(t, 1, 4, Config{})
	short := Task{Estimate: time.Millisecond}
	later, long := Task{Estimate: time.Millisecond, Stage: 1}, Task{Estimate: time.Minute, Stage: 1}
	j := jobWith("x", short, short, later, long, later, short)
	j.Stages = []Stage{{Name: "a"}, {Name: "b", After: []string{"a"}}}
	f.step(Submit{j})
	f.step(Cancel{Job: script.Job("x")})
	explain := func(task int, want ...string) {
		t.Helper()
		var got []string
		for _, d := range f.core.Explain(script.Job("x"), task, f.now) {
			first, _, _ := strings.Cut(d.String(), ", because")
			got = append(got, first)
		}
		if !slices.Equal(got, want) {
			t.Errorf("task %d: %q, want %q", task, got, want)
		}
	}
	explain(1, "task 1 is placed by sampling")
	explain(2, "task 2 never began")
	explain(3, "task 3 never began")
	explain(5, "task 5 is placed by sampling")
	explain(-1, "task 0 (and 2 more like it) is placed by sampling", "task 2 (and 2 more like it) never began")
}

// A spare job's task counts as spare if the task started before the job was due. A task that starts later is regular.
func TestSpareUseAfterDue(t *testing.T) {
	f := newFleet(t, 2, 1, Config{})
	task := Task{Demand: probe.Demand{CPU: 500}, Retryable: true}
	j := jobWith("x", task, task)
	j.Class, j.Due = Spare, 3*time.Second
	var places [2]probe.ResID // by worker
	for _, a := range f.step(Submit{j}) {
		if s, ok := a.(Send); ok {
			places[s.Worker] = s.Msg.(probe.Reserve).First
		}
	}
	use := func(use, spare int64) {
		t.Helper()
		list := f.core.Tenants(9, f.now)
		if got := f.core.Spare(f.now); got != spare || len(list) != 1 || list[0].Spare != spare || list[0].Use != use {
			t.Errorf("%d spare, want %d of %d; tenants %+v", got, spare, use, list)
		}
		w0, _ := f.core.Status(0)
		w1, _ := f.core.Status(1)
		if got := w0.Spare.Add(w1.Spare).CPU; int64(got) != spare {
			t.Errorf("spare tasks use %d millicores of the workers, want %d", got, spare)
		}
	}
	f.step(frameFrom(0, probe.Ready{Res: places[0]}))
	use(500, 500)
	f.passTime(3 * time.Second)
	use(500, 500)
	f.step(frameFrom(1, probe.Ready{Res: places[1]}))
	use(1000, 500)
}

// Explain tells the class of every task, on either path: of waiting, of placed and of ended tasks.
func TestExplainClass(t *testing.T) {
	for _, want := range []struct {
		job  Job
		once bool
		says string
	}{
		{Job{}, false, "class regular: the default, because its job asks for none"},
		{Job{Class: Regular}, false, "class regular: its job asks for it"},
		{Job{Class: Spare}, false, "class spare: its job asks for it"},
		{Job{Class: Spare, Due: 3 * time.Second}, false,
			"class spare: its job asks for it; regular from 3s after the job came"},
		{Job{Class: Spare, Deadline: 8 * time.Second}, true,
			"class yielded: its job is spare, and the task may start only once; regular from 4s after the job came"},
	} {
		for _, mode := range []estimate.Mode{estimate.Sample, estimate.Estimate} {
			f := newFleet(t, 1, 1, Config{})
			j := jobWith("x", Task{Estimate: time.Minute, Retryable: !want.once})
			j.Class, j.Due, j.Deadline, j.Mode = want.job.Class, want.job.Due, want.job.Deadline, mode
			check := func(when string) {
				t.Helper()
				ds := f.core.Explain(script.Job("x"), 0, f.now)
				if len(ds) != 1 || !slices.Contains(strings.Split(ds[0].String(), "\n"), want.says) {
					t.Errorf("%v, %s: %v lacks the line %q", mode, when, ds, want.says)
				}
			}
			f.step(Submit{j})
			check("submitted")
			f.tellWait(0, 0, probe.Load{})
			check("placed")
			f.step(Cancel{Job: script.Job("x")})
			check("ended")
		}
	}
}

// The output of a stage lies where the stage's tasks ran. Tasks left out by a resubmitted job count, too.
func TestOutputsOfResubmittedStages(t *testing.T) {
	f := newFleet(t, 3, 4, Config{Estimate: estimate.Config{Jitter: -1}})
	j := jobWith("x", Task{Stage: 1, Estimate: time.Second, Inputs: []Input{{Bytes: 4e9, Stage: "a"}}, Retryable: true})
	j.Generation, j.Stages = 1, []Stage{
		{Name: "a", Ran: map[string]int{"w1": 1, "w2": 3}}, {Name: "b", After: []string{"a"}},
	}
	f.step(Submit{j})
	var ls []probe.Launch
	for w := range 3 {
		f.tellWait(w, 0, probe.Load{})
		_, some := sentEnqueues(f.step(frameFrom(Worker(w), probe.Claimed{Job: script.Job("x"), Generation: 1})))
		ls = append(ls, some...)
	}
	ds := f.core.Explain(script.Job("x"), 0, f.now)
	if len(ls) != 1 || len(ds) != 1 || ds[0].Worker != "w2" {
		t.Fatalf("%d launches, decided: %v", len(ls), ds)
	}
	for _, c := range ds[0].Choice.Candidates {
		if want := map[string]int64{"w0": 0, "w1": 1e9, "w2": 3e9}[c.Name]; c.Bytes[estimate.Disk] != want {
			t.Errorf("%s reads %d bytes from its disk, want %d", c.Name, c.Bytes[estimate.Disk], want)
		}
	}
	acts := f.step(frameFrom(2, &probe.Finished{
		Attempt: ls[0].Attempt, Status: probe.Succeeded, Usage: probe.Usage{CPU: time.Second, Memory: 7},
	}))
	if !slices.ContainsFunc(acts, func(a Action) bool {
		d, ok := a.(*Done)
		return ok && d.Outcome.Usage.Memory == 7
	}) {
		t.Errorf("the outcome does not tell the usage: %v", acts)
	}
}

// Decisions on sampled tasks are remembered: the workers chosen, the reasons, the rides and places, and their fates.
func TestExplainSampled(t *testing.T) {
	f := newFleet(t, 3, 1, Config{})
	busy := probe.Load{Queued: 2}
	f.step(frameFrom(1, probe.Pong{Load: busy}))
	f.step(frameFrom(2, probe.Pong{Load: busy}))
	task := Task{Estimate: 100 * time.Millisecond}
	acts := f.step(Submit{jobWith("x", task, task)})
	explain := func(task int, want ...string) {
		t.Helper()
		ds := f.core.Explain(script.Job("x"), task, f.now)
		if len(ds) != 1 || len(ds[0].Samples) == 0 {
			t.Fatalf("task %d: %v", task, ds)
		}
		for _, w := range want {
			if text := ds[0].String(); !strings.Contains(text, w) {
				t.Errorf("task %d: %q lacks %q", task, text, w)
			}
		}
	}
	explain(1, "0s after the job came, 2 tasks waited; each runs for up to 100ms:",
		"w0 (believed idle): got 1 task, and 1 place in its queue", "w1 (at random): got 1 place in its queue",
		"w2 (at random): got 1 place in its queue")
	for _, a := range acts {
		s, _ := a.(Send)
		switch m, ok := s.Msg.(probe.Reserve); {
		case ok && s.Worker == 0:
			f.step(frameFrom(0, probe.Started{Attempt: m.Launches[0].Attempt}))
		case ok && s.Worker == 1:
			f.step(frameFrom(1, probe.Ready{Res: m.First, Load: busy}))
		}
	}
	f.passTime(time.Second)
	want := []string{
		"w0 (believed idle): got 1 task, and 1 place in its queue; 1 task started at once, 1 place withdrawn",
		"w1 (at random): got 1 place in its queue; 1 turn got a task",
		"w2 (at random): got 1 place in its queue; 1 place withdrawn",
	}
	explain(0, want...)
	f.step(Cancel{Job: script.Job("x")})
	explain(-1, want...) // after the job has ended, too
}

// Decisions by queue lengths are remembered, too: the worker, and that the task was bound at once.
func TestExplainBoundByQueues(t *testing.T) {
	f := newFleet(t, 2, 1, Config{})
	j := jobWith("x", Task{})
	j.Policy, _ = ParsePolicy("batch")
	for _, a := range f.step(Submit{j}) {
		if s, ok := a.(Send); ok {
			f.step(frameFrom(s.Worker, probe.Load{Seq: s.Msg.(probe.Probe).Seq, Running: 1 + 2*uint32(s.Worker)}))
		}
	}
	if ds := f.core.Explain(script.Job("x"), 0, f.now); len(ds) != 1 ||
		!strings.Contains(ds[0].String(), "\n  w0 (shortest queue): got 1 task, bound at once") {
		t.Errorf("%v", ds)
	}
}

// At most maxSamples decisions on sampled tasks are remembered. Fates of places of a forgotten decision are not
// counted.
func TestSamplesAreForgotten(t *testing.T) {
	f := newFleet(t, 1, 1, Config{})
	f.step(frameFrom(0, probe.Pong{Load: probe.Load{Queued: 2}}))
	for n := range maxSamples + 10 {
		j := jobWith(string(rune('a')), Task{Estimate: time.Second / 10})
		j.ID = probe.JobID{byte(n), byte(n >> 8)}
		f.step(Submit{j})
	}
	for n, want := range map[int]int{0: 0, 9: 0, 10: 1, maxSamples + 9: 1} {
		ds := f.core.Explain(probe.JobID{byte(n), byte(n >> 8)}, -1, f.now)
		if len(ds) != 1 || len(ds[0].Samples) != want {
			t.Errorf("job %d: %v, want %d samples", n, ds, want)
		}
	}
	f.step(LinkLost{0})
	if samples := f.core.log.samples; len(samples) != maxSamples {
		t.Errorf("%d samples are remembered", len(samples))
	} else {
		for i := range samples {
			if n := samples[i].chosen[0].fates[place.Gone]; n != 1 {
				t.Errorf("sample %d: %d places are gone, want 1", i, n)
			}
		}
	}
}

// Explain tells of a task sampled near inputs: the sites of the inputs, the time to read at each, and the worker
// that got the task. If that worker was far from the inputs, Explain tells why.
func TestExplainNear(t *testing.T) {
	f := newFleet(t, 3, 1, Config{})
	explain := func(job string, task int, want ...string) {
		t.Helper()
		ds := f.core.Explain(script.Job(job), task, f.now)
		if len(ds) == 0 {
			t.Fatalf("nothing is known of task %d of %s", task, job)
		}
		for _, w := range want {
			if text := ds[len(ds)-1].String(); !strings.Contains(text, w) {
				t.Errorf("task %d of %s: %q lacks %q", task, job, text, w)
			}
		}
	}
	near := func(host string) Task {
		return Task{Estimate: time.Millisecond, Inputs: []Input{{Bytes: 1e6, Copies: []estimate.Copy{{At: host}}}}}
	}
	sites := "reading its inputs takes 6.25ms at h1 (w1), 12.5ms anywhere"
	f.step(Submit{jobWith("x", near("h1"))})
	explain("x", 0, "is placed by sampling, because it is short", sites,
		"0s after the job came, it went to w1, where reading takes 6.25ms; it waited 0s for a worker near its inputs\n",
		"at w1: sent along with a reservation", "their inputs are at h1", "w1 (believed idle): got 1 task")

	f.step(Submit{jobWith("y", near("h1"))}) // w1 is taken
	explain("y", 0, sites, "it waits for a turn in a worker's queue",
		"their inputs are at h1", "w1 (at random): got 1 place in its queue")
	f.passTime(7 * time.Millisecond)
	explain("y", 0, sites,
		"where reading takes 12.5ms; it waited 6.25ms for a worker near its inputs: no worker near its inputs took "+
			"the task within the extra reading time at this worker", "got 1 task")
	f.step(Cancel{Job: script.Job("y")})
	explain("y", 0, sites, "no worker near its inputs took the task", "stopped: ")
	explain("y", -1, "task 0 is placed by sampling", "their inputs are at h1")

	f.step(LinkLost{1})
	f.step(Submit{jobWith("z", near("h1"))})
	explain("z", 0, "reading its inputs takes 12.5ms anywhere", "no worker near its inputs is up")

	own := Task{Estimate: time.Millisecond, Constraint: Constraint{Hosts: []string{"h2"}}}
	f.step(Submit{jobWith("u", own)})
	explain("u", 0, `they may run only at workers with hosts ["h2"]`)
}

// A task that would wait long behind tasks of its own job goes elsewhere, and Explain says Crowded.
func TestExplainCrowded(t *testing.T) {
	f := newFleet(t, 2, 1, Config{})
	task := Task{Estimate: 10 * time.Millisecond, Inputs: []Input{{Bytes: 1e6, Copies: []estimate.Copy{{At: "h1"}}}}}
	f.step(Submit{jobWith("x", task, task, task)})
	var far, near int
	for _, d := range f.core.Explain(script.Job("x"), -1, f.now) {
		switch {
		case d.Worker == "w0" && d.Far == Crowded && d.Read == 12500*time.Microsecond:
			far++
		case d.Worker == "w1" && d.Far == Nearest && d.Read == 6250*time.Microsecond:
			near++
		}
	}
	if far != 1 || near != 1 {
		t.Errorf("%d tasks went far as it is crowded, %d near: %v", far, near,
			f.core.Explain(script.Job("x"), -1, f.now))
	}
}

// A spare job is sampled because it is spare, unless the job names a mode.
func TestExplainPathOfSpare(t *testing.T) {
	f := newFleet(t, 1, 1, Config{})
	for mode, want := range map[estimate.Mode]string{
		estimate.Auto:   "is placed by sampling, because its job is spare",
		estimate.Sample: "is placed by sampling, because the job's mode asks for it",
	} {
		j := jobWith(mode.String(), Task{Estimate: time.Minute})
		j.Class, j.Mode = Spare, mode
		f.step(Submit{j})
		if text := f.core.Explain(j.ID, 0, f.now)[0].String(); !strings.Contains(text, want) {
			t.Errorf("%v: %q lacks %q", mode, text, want)
		}
	}
}
