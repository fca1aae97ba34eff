package frontend

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/script"
)

// describeEarlier describes the earlier attempts in the outcome among acts, a line each, and returns the number of
// attempts.
func describeEarlier(t *testing.T, acts []Action) (text string, tries int) {
	t.Helper()
	for _, a := range acts {
		if d, ok := a.(*Done); ok {
			for _, e := range d.Outcome.Earlier {
				text += fmt.Sprintf("w%d way %d end %d sent %v started %v ended %v\n",
					e.Worker, e.Way, e.End, e.Sent, e.Started, e.Ended)
			}
			return text, d.Outcome.Attempts
		}
	}
	t.Fatal("no outcome")
	return "", 0
}

// describeAgain describes the copies and the retries of the outcome among acts.
func describeAgain(t *testing.T, acts []Action) string {
	t.Helper()
	i := slices.IndexFunc(acts, func(a Action) bool { _, isDone := a.(*Done); return isDone })
	if i < 0 {
		t.Fatal("no outcome")
	}
	o := &acts[i].(*Done).Outcome
	return fmt.Sprint(o.CountCopies(), " copies, retried after ", o.RetriedAfter())
}

// An outcome lists the last attempts that gave no outcome: the worker of each, the times, and why the attempt ended.
func TestEarlier(t *testing.T) {
	const long = 10 * time.Second
	at := func(w Worker, way Way, end End, sent, started, ended time.Duration) string {
		return fmt.Sprintf("w%d way %d end %d sent %v started %v ended %v\n", w, way, end, sent, started, ended)
	}
	// next lets time pass until the task is launched again, and returns the worker and the launch.
	next := func(f *fleet) (Worker, probe.Launch) {
		for range 100 {
			f.now = f.now.Add(time.Second)
			for _, ev := range []Event{
				frameFrom(0, probe.Load{Matrix: flatMatrix(f.size, 0)}),
				frameFrom(1, probe.Load{Matrix: flatMatrix(f.size, 0)}),
				Wake{},
			} {
				if to, sent := sentEnqueues(f.step(ev)); len(sent) == 1 {
					return to[0], sent[0]
				}
			}
		}
		t.Fatal("nothing is sent")
		return 0, probe.Launch{}
	}
	begin := func() (*fleet, Worker, probe.Launch) {
		f := newFleet(t, 2, 1, Config{Copies: 1, Estimate: estimate.Config{Jitter: -1}})
		for w := range 2 {
			f.tellWait(w, 0, probe.Load{})
		}
		to, sent := sentEnqueues(f.step(Submit{jobWith("x", Task{Estimate: long, Retryable: true, Retries: 9})}))
		return f, to[0], sent[0]
	}
	finish := func(f *fleet, w Worker, l probe.Launch, s probe.Status) []Action {
		return f.step(frameFrom(w, &probe.Finished{
			Attempt: l.Attempt, Job: script.Job("x"), Status: s, Launch: time.Second, Run: time.Second,
		}))
	}

	t.Run("failed", func(t *testing.T) {
		f, w, l := begin()
		want := ""
		for range 1 + MaxEarlier {
			sent := f.now
			f.passTime(2 * time.Second)
			finish(f, w, l, probe.Failed)
			since := f.now.Sub(time.Unix(1000, 0))
			if sent != time.Unix(1000, 0) { // the first attempt is forgotten
				want += at(w, WayEarly, EndFailed, sent.Sub(time.Unix(1000, 0)), since-time.Second, since)
			}
			w, l = next(f)
		}
		acts := finish(f, w, l, probe.Succeeded)
		if again := describeAgain(t, acts); again != "0 copies, retried after [1 1 1 1]" {
			t.Error(again)
		}
		got, tries := describeEarlier(t, acts)
		if got != want || tries != 2+MaxEarlier {
			t.Errorf("%d attempts:\n%swant\n%s", tries, got, want)
		}
	})
	t.Run("lost", func(t *testing.T) {
		f, w, l := begin()
		f.step(frameFrom(w, probe.Started{Attempt: l.Attempt, Job: script.Job("x")}))
		f.passTime(time.Second)
		f.step(WorkerGone{Worker: w})
		to, l := next(f)
		acts := finish(f, to, l, probe.Succeeded)
		if again := describeAgain(t, acts); again != "0 copies, retried after [7]" {
			t.Error(again)
		}
		if got, _ := describeEarlier(t, acts); got !=
			at(w, WayEarly, EndLost, 1, 1, time.Second) {
			t.Error(got)
		}
	})
	t.Run("beaten", func(t *testing.T) {
		f, first, l := begin()
		f.step(frameFrom(first, probe.Started{Attempt: l.Attempt, Job: script.Job("x")}))
		second, other := next(f)
		sent := f.now.Sub(time.Unix(1000, 0))
		f.step(frameFrom(second, probe.Started{Attempt: other.Attempt, Job: script.Job("x")}))
		f.passTime(time.Second)
		acts := finish(f, first, l, probe.Succeeded)
		if again := describeAgain(t, acts); again != "1 copies, retried after []" {
			t.Error(again)
		}
		if got, _ := describeEarlier(t, acts); got !=
			at(second, WayCopy, EndBeaten, sent, sent, sent+time.Second) {
			t.Error("the first attempt gave the outcome:", got)
		}
	})
	t.Run("the copy is done first", func(t *testing.T) {
		f, first, l := begin()
		f.step(frameFrom(first, probe.Started{Attempt: l.Attempt, Job: script.Job("x"), Ran: 0}))
		second, other := next(f)
		f.passTime(time.Second)
		now := f.now.Sub(time.Unix(1000, 0))
		acts := finish(f, second, other, probe.Succeeded)
		if again := describeAgain(t, acts); again != "1 copies, retried after []" {
			t.Error(again)
		}
		if got, _ := describeEarlier(t, acts); got !=
			at(first, WayEarly, EndBeaten, 1, 1, now) {
			t.Error("the copy gave the outcome:", got)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		f, w, l := begin()
		f.passTime(time.Second)
		f.step(frameFrom(w, probe.Started{Attempt: l.Attempt, Job: script.Job("x")}))
		f.passTime(time.Second)
		acts := f.step(Cancel{Job: script.Job("x")})
		if again := describeAgain(t, acts); again != "0 copies, retried after []" {
			t.Error(again)
		}
		if got, _ := describeEarlier(t, acts); got !=
			at(w, WayEarly, EndStopped, 1, time.Second, 2*time.Second) {
			t.Error(got)
		}
		if p := doneIn(acts).Outcome.Phases; p != (Phases{Again: 2 * time.Second}) {
			t.Errorf("until the end, the time was in vain: %+v", p)
		}
	})
}
