package frontend

import (
	"fmt"
	"math/rand/v2"
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

// Movers come in the order of their expected starts, the latest first. A look ends after maxMovesLooked movers. Movers
// that are passed over do not hide others for long, even if further such movers come before each look.
func TestFindMovers(t *testing.T) {
	f := newFleet(t, 0, 1, Config{})
	f.step(WorkerUp{1, probe.Welcome{Worker: "w", Incarnation: 1, Capacity: f.size, Speaks: probe.Spoken}})
	g, w := &group{job: &job{}}, f.core.workerByKey(1)
	tasks := 0
	addMover := func(start time.Duration) *longTask {
		x := &longTask{}
		x.task = &task{spec: &Task{Index: probe.TaskIndex(tasks)}, group: g, state: enqueued, long: x}
		x.task.attempt = &attempt{task: x.task, w: w}
		tasks++
		f.core.noteExpectedStart(x.task.attempt, f.now.Add(start))
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

// BenchmarkLookInVain measures a look for an idle worker where no queued task gains.
func BenchmarkLookInVain(b *testing.B) {
	for _, movers := range []int{100, 100_000} {
		b.Run(fmt.Sprint("movers=", movers), func(b *testing.B) {
			c := New(Config{ID: 1}, rand.New(rand.NewPCG(1, 2)))
			now := time.Unix(1000, 0)
			c.Step(now, WorkerUp{1, probe.Welcome{Worker: "w", Incarnation: 1, Speaks: probe.Spoken}}, nil)
			g, w := &group{job: &job{}}, c.workerByKey(1)
			for i := range movers {
				x := &longTask{}
				x.task = &task{spec: &Task{Index: probe.TaskIndex(i)}, group: g, state: enqueued, long: x}
				x.task.attempt = &attempt{task: x.task, w: w}
				c.noteExpectedStart(x.task.attempt, now.Add(time.Duration(rand.IntN(1e9))))
			}
			for b.Loop() {
				c.findMovers(1, func(*longTask) bool { return false })
			}
		})
	}
}
