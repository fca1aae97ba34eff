package frontend

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/script"
)

// A task moves to the worker with room, also in a fleet where few workers are candidates of the task. People are told
// of the move, and the first attempt does not count.
func TestMove(t *testing.T) {
	const workers, free = 40, 17
	f := newFleet(t, 0, 1, Config{})
	for i := range workers {
		f.step(WorkerUp{Worker(i), probe.Welcome{Worker: fmt.Sprint("w", i), Host: fmt.Sprint("h", i), Incarnation: 1,
			Functions: []string{"f"}, Capacity: f.size, Speaks: probe.Spoken}})
	}
	for i := range workers {
		f.tellWait(i, 20*time.Second, probe.Load{Queued: 1})
	}
	job := jobWith("x", Task{Estimate: 10 * time.Second})
	job.Mode = estimate.Estimate
	from, sent := sentEnqueues(f.step(Submit{job}))
	if len(sent) != 1 || from[0] == free {
		t.Fatalf("sent to %v", from)
	}
	f.step(frameFrom(from[0], probe.Queued{First: 1, Count: 1, Wait: 20 * time.Second, Load: probe.Load{Queued: 2}}))
	f.tellWait(free, 0, probe.Load{Free: f.size})
	to, again := sentEnqueues(f.step(frameFrom(from[0], probe.Evicted{First: 1, Count: 1, Reason: probe.Withdrawn})))
	if len(to) != 1 || to[0] != free || again[0].Context != nil {
		t.Fatalf("moved to %v: %+v", to, again)
	}
	found := f.core.Explain(script.Job("x"), 0, f.now)
	if len(found) != 2 {
		t.Fatalf("%d decisions", len(found))
	}
	for i, want := range []string{
		"withdrawn, because w17 has room: here the task would have waited for 20.000s more",
		fmt.Sprintf("the task moved from w%d, where it would have waited for 20.000s more", from[0]),
	} {
		if text := found[i].String(); !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	f.step(frameFrom(free, probe.Started{Attempt: again[0].Attempt, Job: script.Job("x")}))
	f.now = f.now.Add(10 * time.Second)
	acts := f.step(frameFrom(free, &probe.Finished{Attempt: again[0].Attempt, Job: script.Job("x"),
		Status: probe.Succeeded, Run: 10 * time.Second}))
	got, tries := describeEarlier(t, acts)
	want := fmt.Sprintf("w%d way %d end %d sent 1ns started 0s ended 1ns\n", from[0], WayEarly, EndMoved)
	if got != want || tries != 1 || describeAgain(t, acts) != "0 copies, retried after []" {
		t.Errorf("%d tries, %s\n%swant\n%s", tries, describeAgain(t, acts), got, want)
	}
	if f.core.Stats.Moves != 1 || f.core.Stats.Retries != 0 || f.core.Stats.Losses != 0 {
		t.Errorf("%+v", f.core.Stats)
	}
}

// addMover adds a task in the queue of w, with an expected start.
func (c *Core) addMover(g *group, w *worker, index int, start time.Time) *longTask {
	x := &longTask{}
	x.task = &task{spec: &Task{Index: probe.TaskIndex(index)}, group: g, state: enqueued, long: x}
	x.task.attempt = &attempt{task: x.task, w: w}
	c.noteExpectedStart(x.task.attempt, start)
	return x
}

// Movers come in the order of their expected starts, the latest first. A look ends after maxMovesLooked movers. Movers
// that are passed over do not hide others for long, even if further such movers come before each look.
func TestFindMovers(t *testing.T) {
	f := newFleet(t, 0, 1, Config{})
	f.step(WorkerUp{1, probe.Welcome{Worker: "w", Incarnation: 1, Capacity: f.size, Speaks: probe.Spoken}})
	g, w := &group{job: &job{}}, f.core.workerByKey(1)
	tasks := 0
	addMover := func(start time.Duration) *longTask {
		x := f.core.addMover(g, w, tasks, f.now.Add(start))
		tasks++
		if err := f.core.checkMovers(); err != nil {
			t.Fatal(err)
		}
		return x
	}
	for i := range 2*maxMovesLooked + 1 {
		addMover(time.Hour + time.Duration(i%maxMovesLooked))
	}
	fitting := addMover(time.Second)
	latest := addMover(time.Minute)
	f.core.noteExpectedStart(latest.task.attempt, f.now.Add(2*time.Hour))
	found := f.core.findMovers(maxMovesLooked, func(*longTask) bool { return true })
	for i := range len(found) - 1 {
		if found[i].task.attempt.expectedStart.Before(found[i+1].task.attempt.expectedStart) {
			t.Errorf("mover %d starts after mover %d", i+1, i)
		}
	}
	if len(found) != maxMovesLooked || found[0].longTask != latest {
		t.Fatalf("%d found, first task %d", len(found), found[0].task.spec.Index)
	}
	// A look that finds enough hides nobody, so the order stays.
	f.core.findMovers(1, func(x *longTask) bool { return x != latest })
	if f.core.movers.Min().longTask != latest {
		t.Errorf("after a look that found enough, task %d comes first", f.core.movers.Min().task.spec.Index)
	}
	for look := range 4 {
		looked := 0
		found := f.core.findMovers(1, func(x *longTask) bool { looked++; return x == fitting })
		if err := f.core.checkMovers(); err != nil {
			t.Fatal(err)
		}
		if looked > maxMovesLooked {
			t.Errorf("look %d at %d movers", look, looked)
		}
		if len(found) > 0 {
			if look != 2 {
				t.Errorf("look %d found the task", look)
			}
			return
		}
		for range 2 * maxMovesLooked {
			addMover(3 * time.Hour)
		}
	}
	t.Error("the task that may move stays hidden")
}

// While many workers are idle, and no queued task gains at any of the workers, looks take a hundredth of the time.
// Looks for workers that report at the same time run ahead by a second. Workers that may run none of the tasks get no
// look.
func TestLooksInVain(t *testing.T) {
	const idle, tasks = 200, maxMovesLooked
	f := newFleet(t, 1, 1, Config{})
	f.step(WorkerUp{0, probe.Welcome{Worker: "w0", Host: "h0", Incarnation: 2, Functions: []string{"f"},
		Capacity: f.size, Speaks: probe.Spoken}})
	f.tellWait(0, 20*time.Second, probe.Load{Queued: 1})
	job := jobWith("x", slices.Repeat([]Task{{Estimate: 10 * time.Second, Inputs: []Input{
		{Bytes: 1 << 40, Copies: []estimate.Copy{{At: "h0"}}},
	}}}, tasks)...)
	job.Mode = estimate.Estimate
	_, sent := sentEnqueues(f.step(Submit{job}))
	for len(sent) < tasks {
		f.now = f.now.Add(time.Millisecond)
		_, more := sentEnqueues(f.step(Wake{}))
		sent = append(sent, more...)
	}
	f.step(frameFrom(0, probe.Queued{First: 1, Count: tasks, Wait: 20 * time.Second, Load: probe.Load{Queued: tasks}}))
	if f.core.movers.Len() != tasks {
		t.Fatalf("%d tasks may move", f.core.movers.Len())
	}
	looks := func() (n int) {
		for i := range idle {
			if !f.core.workers[1+i].moveNotUntil.IsZero() {
				n++
			}
		}
		return n
	}
	for i := range 2 * idle {
		key, functions := 1+(i+idle)%(2*idle), []string{"f"}
		if key > idle { // these workers come first
			functions = []string{"g"}
		}
		f.step(WorkerUp{Worker(key), probe.Welcome{Worker: fmt.Sprint("w", key), Host: fmt.Sprint("h", key),
			Incarnation: 1, Functions: functions, Capacity: f.size, Speaks: probe.Spoken}})
	}
	const ahead = int(maxLooksAhead/(tasks*moveLookPause)) + 1
	if n := looks(); n != ahead {
		t.Errorf("%d looks at once, want %d", n, ahead)
	}
	for range 2 {
		f.now = f.now.Add(tasks * moveLookPause)
		for i := range idle {
			f.step(frameFrom(Worker(1+i), probe.Pong{Load: probe.Load{Free: f.size}}))
		}
	}
	if n := looks(); n != ahead+2 {
		t.Errorf("%d looks, want two more than %d", n, ahead)
	}
}

// BenchmarkLookInVain measures a look for an idle worker where no queued task gains.
func BenchmarkLookInVain(b *testing.B) {
	for _, movers := range []int{100, 100_000} {
		b.Run(fmt.Sprint("movers=", movers), func(b *testing.B) {
			c := New(Config{ID: 1}, rand.New(rand.NewPCG(1, 2)))
			now := time.Unix(1000, 0)
			c.Step(now, WorkerUp{1, probe.Welcome{Worker: "w", Incarnation: 1, Speaks: probe.Spoken}}, nil)
			g, w := &group{job: &job{}}, c.workerByKey(1)
			for i := range movers {
				c.addMover(g, w, i, now.Add(time.Duration(rand.IntN(1e9))))
			}
			for b.Loop() {
				c.findMovers(1, func(*longTask) bool { return false })
			}
		})
	}
}
