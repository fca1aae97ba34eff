package client

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// stagedJob returns a job of n echoes in stage "map" and n echoes in the later stage "reduce".
func stagedJob(n int) Job {
	job := echoJob(2 * n)
	job.Stages = []Stage{{Name: "map"}, {Name: "reduce", After: []string{"map"}}}
	for i := range job.Tasks {
		job.Tasks[i].Stage = job.Stages[i/n].Name
	}
	return job
}

func TestInputsAndFilesArrive(t *testing.T) {
	f := newFake(t)
	var got *v1.Job
	f.submit = f.keepJob(&got)
	f.events = func(*v1.EventsRequest) (*v1.EventsResponse, error) {
		o := echoOutcome(got, 0)
		o.Usage = &v1.Usage{CpuUs: 1, MemoryMib: 2, FetchedBytes: 3, FetchUs: 4}
		return eventsAnswer(2, true, o, echoOutcome(got, 1)), nil
	}
	c := newClient(t, []string{f.addr})
	job := stagedJob(1)
	job.Mode = EstimateMode
	job.Tasks[0].Files = []File{{URL: "https://h/f", SHA256: "ab", Bytes: 7}}
	job.Tasks[0].Inputs = []Input{{Bytes: 5, Copies: []Copy{{At: "h1", Memory: true}, {Rack: "r"}}}}
	job.Tasks[1].Inputs = []Input{{Bytes: 6, Stage: "map"}}
	outs, err := c.Run(t.Context(), job)
	fence()
	if err != nil {
		t.Fatal(err)
	}
	a, b := got.Tasks[0], got.Tasks[1]
	if got.Mode != v1.Mode_ESTIMATE || len(got.Stages) != 2 || got.Stages[1].Name != "reduce" ||
		!slices.Equal(got.Stages[1].After, []string{"map"}) ||
		a.Stage != "map" || b.Stage != "reduce" ||
		*a.Files[0] != (v1.File{Url: "https://h/f", Sha256: "ab", Bytes: 7}) ||
		a.Inputs[0].Bytes != 5 || *a.Inputs[0].Copies[0] != (v1.Copy{At: "h1", Tier: v1.Tier_MEMORY}) ||
		*a.Inputs[0].Copies[1] != (v1.Copy{Rack: "r"}) ||
		b.Inputs[0].Bytes != 6 || b.Inputs[0].Stage != "map" || len(b.Files) != 0 {
		t.Errorf("submitted %+v", got)
	}
	if want := (Usage{CPU: time.Microsecond, Memory: 2, Fetched: 3,
		Fetch: 4 * time.Microsecond}); outs[0].Usage != want || outs[1].Usage != (Usage{}) {
		t.Errorf("usage %+v, %+v", outs[0].Usage, outs[1].Usage)
	}
	for _, m := range []Mode{AutoMode, "auto", SampleMode} {
		if _, err := m.toWire(); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.Run(t.Context(), Job{Mode: "x"}); !refusedFor(err, Invalid) ||
		!strings.Contains(err.Error(), "auto, sample, estimate") {
		t.Error(err)
	}
}

// A job with stages moves with its unfinished tasks, all its stages, and the places where ended tasks have run.
func TestStagedJobMoves(t *testing.T) {
	a, b := newFake(t), newFake(t)
	var atA, atB *v1.Job
	a.submit = a.keepJob(&atA)
	a.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		if r.Cursor == 0 {
			three := echoOutcome(atA, 2)
			three.Worker = "w2"
			return eventsAnswer(3, false, echoOutcome(atA, 0), echoOutcome(atA, 1), three), nil
		}
		a.crash()
		return nil, errors.New("unheard")
	}
	b.submit = b.keepJob(&atB)
	b.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		return eventsAnswer(3, true, echoOutcome(atB, 0), echoOutcome(atB, 1), echoOutcome(atB, 2)), nil
	}
	c := newClient(t, []string{a.addr, b.addr})
	chooseFirst(c)
	outs, err := c.Run(t.Context(), stagedJob(3))
	fence()
	if err != nil {
		t.Fatal(err)
	}
	checkEchoes(t, outs, 6)
	ran := map[v1.StageRun]bool{}
	for _, r := range atB.Resubmission.Ran {
		ran[*r] = true
	}
	if len(atB.Tasks) != 3 || atB.Tasks[0].Index != 3 || atB.Tasks[0].Stage != "reduce" || len(atB.Stages) != 2 ||
		len(ran) != 2 ||
		!ran[v1.StageRun{Stage: "map", Worker: "w1", Tasks: 2}] ||
		!ran[v1.StageRun{Stage: "map", Worker: "w2", Tasks: 1}] {
		t.Errorf("resubmitted as %+v", atB)
	}
}

// A failed job with stages does not move. Another frontend would take the failed task for a task with a result, and
// start the next stage.
func TestFailedStagedJobDoesNotMove(t *testing.T) {
	for _, end := range []*v1.Outcome{
		{Kind: v1.OutcomeKind_FAILED, Failure: &v1.Failure{Reason: v1.FailureReason_PANIC, Message: "boom"}},
		{Kind: v1.OutcomeKind_CANCELLED},
	} {
		a, b := newFake(t), newFake(t) // a call of b fails the test
		var at *v1.Job
		a.submit = a.keepJob(&at)
		a.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
			if r.Cursor == 0 {
				end.Task = 1
				return eventsAnswer(2, false, echoOutcome(at, 0), end), nil
			}
			a.crash()
			return nil, errors.New("unheard")
		}
		c := newClient(t, []string{a.addr, b.addr})
		chooseFirst(c)
		outs, err := c.Run(t.Context(), stagedJob(2))
		fence()
		if len(outs) != 4 || outs[0].Err != nil {
			t.Fatalf("%+v: %v", outs, err)
		}
		for _, o := range outs[2:] {
			var e *TaskError
			if !errors.As(o.Err, &e) || e.Task != o.Task {
				t.Fatalf("%+v", o)
			}
			failed := e.Reason == StageFailed && e.Message == `task 1 of stage "map" failed: boom`
			if failed != (end.Kind == v1.OutcomeKind_FAILED) || !failed && e.Reason != Cancelled {
				t.Errorf("%+v", e)
			}
		}
	}
}

func TestExplainAsksEveryFrontend(t *testing.T) {
	a, b := newFake(t), newFake(t)
	unknown := &v1.Refused{Reason: v1.RefusedReason_UNKNOWN_JOB, Message: "not here"}
	asked := 0
	a.explain = func(*v1.ExplainRequest) (*v1.ExplainResponse, error) {
		asked++
		return nil, unknown
	}
	b.explain = func(r *v1.ExplainRequest) (*v1.ExplainResponse, error) {
		if r.Handle.Job != "J" || r.Handle.Owner != "" || r.Task != 3 {
			t.Errorf("asked %+v", r)
		}
		d := v1.NewDecision()
		d.Task, d.Alike, d.Path, d.Cause, d.Why, d.ThresholdUs, d.Text = 3, 2, v1.Path_ESTIMATION,
			v1.Cause_BY_LENGTH, "long", 1, "text"
		d.Work = &v1.Work{MeanUs: 2, DeviationUs: 3, Source: v1.Source_CORRECTED_HINT, Samples: 4}
		d.AtUs, d.Tries, d.Attempt, d.Worker, d.Outcome, d.WaitedUs, d.RanUs, d.Usage = 5, 6, "a-1", "w", "sent", 7,
			8, &v1.Usage{CpuUs: 9}
		d.Candidates = []*v1.Candidate{{
			Worker: "w", Kind: "light", IUs: 1, WUs: 2, RUs: 3, ReadUs: 4, Success: 0.5, EUs: 6, CUs: 7, NoiseUs: 8,
			AgeUs: 9, Steps: 10,
			FetchBytes: 11, MemoryBytes: 12, DiskBytes: 13, RackBytes: 14, AcrossBytes: 15,
		}}
		d.Seen, d.Chosen, d.Reason = 16, 0, "least"
		return &v1.ExplainResponse{Frontend: "f", Decisions: []*v1.Decision{d}}, nil
	}
	c := newClient(t, []string{a.addr, b.addr})
	chooseFirst(c)
	x, err := c.Explain(t.Context(), Handle{Job: "J"}, 3)
	fence()
	if err != nil {
		t.Fatal(err)
	}
	us := time.Microsecond
	want := Candidate{"w", "light", us, 2 * us, 3 * us, 4 * us, 0.5, 6 * us, 7 * us, 8 * us, 9 * us, 10, 11, 12, 13,
		14, 15}
	d := x.Decisions[0]
	if x.Frontend != "f" || asked != 1 || len(d.Candidates) != 1 || d.Candidates[0] != want {
		t.Errorf("%+v", x)
	}
	d.Candidates = nil
	if got, want := d, (Decision{
		Task: 3, Alike: 2, Path: "estimation", Cause: "length", Why: "long", Threshold: us,
		Work: Work{2 * us, 3 * us, "corrected hint", 4}, At: 5 * us,
		Tries: 6, Attempt: "a-1", Worker: "w", Outcome: "sent", Waited: 7 * us, Ran: 8 * us,
		Usage: Usage{CPU: 9 * us}, Seen: 16, Reason: "least", Text: "text",
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, not %+v", got, want)
	}
	b.explain = a.explain
	fence()
	if _, err := c.Explain(t.Context(), Handle{Job: "J"}, -1); !refusedFor(err, UnknownJob) {
		t.Error(err)
	}
	fence()
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
	a.stop()
	b.stop()
	if _, err := c.Explain(t.Context(), Handle{Job: "J"}, -1); err == nil || refusedFor(err, UnknownJob) {
		t.Error(err)
	}
}
