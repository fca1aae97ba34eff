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

// showUnderWay shows where a job's attempts are, the count of running attempts, and the places at worker 0.
func (f *fleet) showUnderWay(id string) string {
	f.t.Helper()
	var words []string
	for from, more := 0, true; more; more = from > 0 {
		var list []UnderWay
		list, from = f.core.AppendUnderWay(nil, script.Job(id), from, 1, f.now) // a task at a time
		for _, a := range list {
			word := fmt.Sprintf("%d/%d %s %s", a.Task, a.Tries, a.Name,
				[...]string{"", "sent", "queued", "runs", "cut off"}[a.State])
			if a.Way == WayCopy {
				word += " as copy"
			}
			if (a.Started > 0) != (a.State == AttemptRuns || a.State == AttemptCutOff) {
				f.t.Errorf("an attempt is %s, and started %v after the job came", word, a.Started)
			}
			words = append(words, word)
		}
	}
	_, running := f.core.Pending()
	status, _ := f.core.Status(0)
	return fmt.Sprintf("%s; %d running, %d places", strings.Join(words, ", "), running, status.Reservations)
}

// No message tells that a task that rode along has started. If the task does not come back within a round trip, it
// runs. Tasks in a worker's queue do not run.
func TestUnderWay(t *testing.T) {
	const trip = 10 * time.Millisecond
	var f *fleet
	submit := func(id string, task Task) (place probe.ResID, attempt probe.AttemptID) {
		t.Helper()
		for _, a := range f.step(Submit{jobWith(id, task)}) {
			switch m := a.(type) {
			case Send:
				switch m := m.Msg.(type) {
				case probe.Reserve:
					return m.First, m.Launches[0].Attempt
				case probe.Enqueue:
					return m.Res, m.Launch.Attempt
				}
			}
		}
		t.Fatal("the task goes nowhere")
		return 0, probe.AttemptID{}
	}
	want := func(state, outcome string) {
		t.Helper()
		if got := f.showUnderWay("x"); got != state {
			t.Errorf("%q, want %q", got, state)
		}
		if ds := f.core.Explain(script.Job("x"), 0, f.now); len(ds) != 1 || ds[0].Outcome != outcome {
			t.Errorf("explained as %v, want the outcome %q", ds, outcome)
		}
	}
	begin := func(task Task) (place probe.ResID, attempt probe.AttemptID) { // the frontend knows the round trip
		t.Helper()
		f = newFleet(t, 1, 2, Config{})
		_, first := submit("first", Task{})
		f.now = f.now.Add(trip)
		f.step(frameFrom(0, &probe.Finished{Attempt: first, Status: probe.Succeeded, Load: probe.Load{Free: f.size}}))
		f.tellWait(0, 0, probe.Load{Free: f.size})
		return submit("x", task)
	}
	near := Task{Inputs: []Input{{Bytes: 1000, Copies: []estimate.Copy{{At: "h0"}}}}}
	for _, task := range []Task{{}, near} {
		begin(task)
		want("0/1 w0 sent; 1 running, 0 places", "sent along with a reservation")
		f.now = f.now.Add(trip + 1)
		want("0/1 w0 runs; 1 running, 0 places", "runs")
		f.step(LinkLost{Worker: 0})
		want("0/1 w0 cut off; 1 running, 0 places", "its link is broken")

		place, _ := begin(task)
		f.step(frameFrom(0, probe.Queued{First: place, Count: 1}))
		if got := f.showUnderWay("x"); got != "; 0 running, 1 places" {
			t.Errorf("after the task came back: %q", got)
		}
		f.step(frameFrom(0, probe.Ready{Res: place}))
		if got := f.showUnderWay("x"); !strings.HasPrefix(got, "0/1 w0 runs; 1 running") {
			t.Errorf("after the task's turn: %q", got)
		}
	}
	_, attempt := begin(Task{Estimate: time.Minute})
	want("0/1 w0 queued; 0 running, 0 places", "sent")
	f.step(frameFrom(0, probe.Started{Attempt: attempt, Job: script.Job("x")}))
	want("0/1 w0 runs; 1 running, 0 places", "started")
}
