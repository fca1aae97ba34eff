package frontend

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// Each pair of states: x is a legal change, any other change panics.
func TestMoves(t *testing.T) {
	states := []taskState{
		waiting, matching, blocked, held, probing, riding, enqueued, bound, adrift, claiming, resting, done,
	}
	table := map[taskState]string{
		// to:     w m k h p r e b a c s d
		waiting:  ". x x x x x x x . x . x",
		matching: ". . x . . . x . . . . x",
		blocked:  "x x . x . . . . . . . x",
		held:     "x x x . . . . . . . . x",
		probing:  "x . x . . . x . . . . x",
		riding:   "x . x . . . x x x . x x",
		enqueued: "x x x . . . . x x . x x",
		bound:    "x x x . . . x . x . x x",
		adrift:   "x x x . . . x x . . x x",
		claiming: "x x x x . . . x . . . x",
		resting:  "x x x x . . . . . . . x",
		done:     "x x x x . . . . . . . .",
	}
	if len(table) != len(legalMoves) || len(states) != len(legalMoves) {
		t.Fatalf("%d states in the table, %d in moves", len(table), len(legalMoves))
	}
	legal := func(from, to taskState) (ok bool) {
		defer func() { ok = recover() == nil }()
		task := &task{spec: &Task{}, group: &group{job: &job{tenant: &tenant{}}}, state: from}
		task.move(to)
		return task.state == to
	}
	for from, row := range table {
		for i, cell := range strings.Fields(row) {
			if got := legal(from, states[i]); got != (cell == "x") {
				t.Errorf("from state %d to %d: legal is %t", from, states[i], got)
			}
		}
	}
}

func TestDefaultPolicy(t *testing.T) {
	if Policies[0].Name != "phoebe" {
		t.Errorf("the default is %s", Policies[0].Name)
	}
}

func TestStatus(t *testing.T) {
	c := New(Config{ID: 1}, rand.New(rand.NewPCG(1, 1)))
	if _, ok := c.Status(3); ok {
		t.Error("status of a worker that never was")
	}
	now := time.Unix(1_000_000, 0)
	c.Step(now, WorkerUp{
		Worker: 2, Welcome: probe.Welcome{Worker: "w", Capacity: size(4), Functions: []string{"f"}},
	}, nil)
	for i, want := range []string{"up", "adrift", "down"} {
		switch i {
		case 1:
			c.Step(now, LinkLost{2}, nil)
		case 2:
			c.Step(now, WorkerGone{Worker: 2}, nil)
		}
		if s, ok := c.Status(2); !ok || s.State != want || s.Welcome.Worker != "w" {
			t.Errorf("%+v, want %s", s, want)
		}
	}
}

// A job may name more sets of workers than are kept for later jobs. All sets of the job are kept up to date.
func TestManySets(t *testing.T) {
	f := newFleet(t, view.MaxSets+50, 1, Config{})
	j := jobWith("x", make([]Task, view.MaxSets+50)...)
	for i := range j.Tasks {
		j.Tasks[i].Constraint.Hosts = []string{fmt.Sprint("h", i)}
	}
	f.step(Submit{j})
	f.step(WorkerGone{Worker: 0})
	for _, g := range f.core.byID[j.ID].groups {
		if g.Set.Contains(f.core.view.Worker(0)) {
			t.Fatal("a worker that is gone is still eligible for a task of the job")
		}
	}
}

// If a worker refuses a task bound early again and again, the task fails in the end.
func TestRefusedForEver(t *testing.T) {
	f := newFleet(t, 1, 1, Config{})
	j := jobWith("x", Task{})
	j.Policy, _ = ParsePolicy("random")
	acts := f.step(Submit{j})
	for range maxFailedLaunches {
		_, ls := sentEnqueues(acts)
		if len(ls) != 1 {
			t.Fatalf("the task is not bound again: %v", acts)
		}
		acts = f.step(frameFrom(0, probe.Refused{
			First: probe.ResID(f.core.attemptsMade), Count: 1, Attempt: ls[0].Attempt, Reason: probe.NoFunction,
		}))
	}
	if d, ok := acts[0].(*Done); !ok || d.Outcome.Failure != Infrastructure {
		t.Errorf("after %d refusals: %v", maxFailedLaunches, acts)
	}
}

// A worker stops a task at the job's deadline, and reports this before the frontend's own timer. The deadline has
// then passed for all tasks of the job, also for tasks of later stages.
func TestDeadlineReportedByWorker(t *testing.T) {
	c := New(Config{ID: 'a'}, rand.New(rand.NewPCG(1, 2)))
	now := time.Unix(1_000_000, 0)
	c.Step(now, WorkerUp{
		Worker: 0, Welcome: probe.Welcome{Worker: "w1", Capacity: probe.Slot, Functions: []string{"f"}},
	}, nil)
	acts := c.Step(now, Submit{&Job{
		Policy: Policies[0], Deadline: time.Second, Stages: []Stage{{Name: "a"}, {Name: "b", After: []string{"a"}}},
		Tasks: []Task{{Function: "f"}, {Index: 1, Stage: 1, Function: "f"}},
	}}, nil)
	var id probe.AttemptID
	for _, a := range acts {
		if s, ok := a.(Send); ok {
			if m, ok := s.Msg.(probe.Reserve); ok {
				id = m.Launches[0].Attempt
			}
		}
	}
	ended := 0
	for _, a := range c.Step(
		now.Add(time.Second), frameFrom(0, &probe.Finished{Attempt: id, Status: probe.TimedOut}), nil,
	) {
		if d, ok := a.(*Done); ok {
			if ended++; d.Outcome.Kind != DeadlineExceeded {
				t.Errorf("task %d: %+v", d.Outcome.Task, d.Outcome)
			}
		}
	}
	if ended != 2 {
		t.Errorf("%d of 2 tasks have ended", ended)
	}
}

// If a task waits for a later turn, the wait counts as time in the queue, not as time on the way to the worker.
func TestPhasesOfALaterTurn(t *testing.T) {
	f := newFleet(t, 1, 1, Config{})
	j := jobWith("x", Task{}, Task{})
	j.Policy, _ = ParsePolicy("late-binding")
	way := time.Millisecond
	res := probe.ResID(0)
	for _, a := range f.step(Submit{j}) {
		if s, ok := a.(Send); ok {
			res = s.Msg.(probe.Reserve).First
		}
	}
	run := 100 * time.Millisecond
	f.now = f.now.Add(2 * way)
	for turn := range 2 {
		var bound probe.Launch
		for _, a := range f.step(frameFrom(0, probe.Ready{Res: res + probe.ResID(turn), Turn: 1})) {
			if s, ok := a.(Send); ok {
				if b, ok := s.Msg.(probe.Bind); ok {
					bound = b.Launch
				}
			}
		}
		f.now = f.now.Add(2*way + run)
		for _, a := range f.step(frameFrom(0, &probe.Finished{Attempt: bound.Attempt, Held: 2 * way, Run: run})) {
			if d, ok := a.(*Done); ok {
				if link := d.Outcome.Phases.Queued - d.Outcome.Phases.Sampled; link != way {
					t.Errorf("task %d was on the way for %v, want %v", d.Outcome.Task, link, way)
				}
				turn = -1
			}
		}
		if turn >= 0 {
			t.Fatal("no outcome")
		}
	}
}

// The wait of a task bound early is time in the queue, although the worker counts the wait as a part of the launch.
func TestPhasesOfATaskBoundEarly(t *testing.T) {
	const way, wait, launch, run = time.Millisecond, 993 * time.Millisecond, 2 * time.Millisecond, time.Second
	for _, policy := range []string{"phoebe", "random"} {
		f := newFleet(t, 1, 1, Config{})
		f.tellWait(0, 0, probe.Load{})
		j := jobWith("x", Task{Estimate: run})
		j.Policy, _ = ParsePolicy(policy)
		_, launches := sentEnqueues(f.step(Submit{j}))
		f.now = f.now.Add(2*way + wait + launch + run)
		acts := f.step(frameFrom(0, &probe.Finished{Attempt: launches[0].Attempt, Status: probe.Succeeded, Waited: wait,
			Launch: wait + launch, Run: run}))
		p := doneIn(acts).Outcome.Phases
		if p.Ready-p.Queued != wait || p.Started-p.Bound != launch || p.Queued-p.Sampled != way || p.Bound != p.Ready {
			t.Errorf("policy %s: a task that waited %v and was launched in %v has the phases %+v", policy, wait,
				launch, p)
		}
	}
}

// The time of an attempt in vain belongs to no phase of the attempt that counted.
func TestPhasesAfterAnAttemptInVain(t *testing.T) {
	const way, run = time.Millisecond, time.Second
	f := newFleet(t, 1, 1, Config{})
	f.tellWait(0, 0, probe.Load{})
	j := jobWith("x", Task{Estimate: run, Retryable: true, Retries: 1})
	_, launches := sentEnqueues(f.step(Submit{j}))
	f.now = f.now.Add(2*way + run/2)
	f.step(frameFrom(0, &probe.Finished{Attempt: launches[0].Attempt, Status: probe.Failed, Run: run / 2}))
	acts := f.step(frameFrom(0, probe.Load{Matrix: flatMatrix(f.size, 0)}))
	if _, launches = sentEnqueues(acts); len(launches) == 0 {
		t.Fatalf("the task is not sent again: %v", acts)
	}
	sent := f.now
	f.now = f.now.Add(2*way + run)
	acts = f.step(frameFrom(0, &probe.Finished{Attempt: launches[0].Attempt, Status: probe.Succeeded, Run: run}))
	p, want := doneIn(acts).Outcome.Phases, sent.Sub(time.Unix(1000, 0))
	if p.Again != 2*way+run/2 || p.Sampled != want || p.Queued != want+way || p.Ready != want+way {
		t.Errorf("a task sent again after %v has the phases %+v", want, p)
	}
}

// If a job is cancelled in its second stage, the times before are those of its first stage: the tasks of the second
// stage could start at its end, and the tasks of the third stage never.
func TestReleaseOfTasksThatWereStopped(t *testing.T) {
	f := newFleet(t, 1, 1, Config{})
	j := jobWith("x", Task{}, Task{Stage: 1}, Task{Stage: 2})
	j.Stages = []Stage{{Name: "a"}, {Name: "b", After: []string{"a"}}, {Name: "c", After: []string{"b"}}}
	first := probe.AttemptID{}
	for _, a := range f.step(Submit{j}) {
		if s, ok := a.(Send); ok {
			first = s.Msg.(probe.Reserve).Launches[0].Attempt
		}
	}
	f.now = f.now.Add(time.Second)
	f.step(frameFrom(0, &probe.Finished{Attempt: first, Status: probe.Succeeded, Run: time.Second,
		Load: probe.Load{Free: f.size}}))
	f.now = f.now.Add(2 * time.Second)
	released := map[int32]time.Duration{}
	for _, a := range f.step(Cancel{Job: j.ID}) {
		if d, ok := a.(*Done); ok {
			released[d.Outcome.Stage] = d.Outcome.Phases.Released
		}
	}
	if len(released) != 2 || released[1] != time.Second || released[2] != 3*time.Second {
		t.Errorf("the tasks of the stages were released at %v, want 1s and, as it never was, the end at 3s", released)
	}
}

// doneIn returns the first outcome among acts.
func doneIn(acts []Action) *Done {
	for _, a := range acts {
		if d, ok := a.(*Done); ok {
			return d
		}
	}
	panic("no outcome")
}

// frameFrom makes the event that these messages came from a worker at once.
func frameFrom(w Worker, msgs ...probe.Msg) Frame { return Frame{Worker: w, Msgs: msgs} }
