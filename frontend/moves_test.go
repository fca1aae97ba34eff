package frontend

import (
	"fmt"
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
