package client

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// A kept small result does not keep its answer in memory.
func TestSmallResultIsKeptAlone(t *testing.T) {
	f := newFake(t)
	const answers, tasks, most = 20, 128, 4 << 20
	outcomes := func(job *v1.Job) []*v1.Outcome { // more than a mebibyte
		outs := make([]*v1.Outcome, tasks)
		for i := range outs {
			outs[i] = echoOutcome(job, i)
			outs[i].Result_ = make([]byte, 10<<10)
		}
		outs[0].Result_ = []byte("small")
		return outs
	}
	f.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		return &v1.RunResponse{Handle: f.handleOf(r.Job), Outcomes: outcomes(r.Job)}, nil
	}
	var job *v1.Job
	f.submit = f.keepJob(&job)
	f.events = func(*v1.EventsRequest) (*v1.EventsResponse, error) {
		return eventsAnswer(1, true, outcomes(job)...), nil
	}
	c := newClient(t, []string{f.addr})
	for call, run := range map[string]func() (Outcome, error){
		"Run": func() (Outcome, error) {
			outs, err := c.Run(t.Context(), echoJob(tasks))
			return outs[0], err
		},
		"Next": func() (Outcome, error) {
			r, err := c.Submit(t.Context(), echoJob(tasks))
			if err != nil {
				return Outcome{}, err
			}
			return r.Next(t.Context())
		},
	} {
		var kept []Outcome
		n := heapAfter(func() {
			for range answers {
				o, err := run()
				if err != nil {
					t.Fatal(err)
				}
				kept = append(kept, o)
			}
		})
		if n > most {
			t.Errorf("%s: %d small results keep %d bytes", call, answers, n)
		}
		runtime.KeepAlive(kept)
	}
}

// If Satisfied fails, the job goes on. A later Cancel gives each task its outcome.
func TestSatisfiedFails(t *testing.T) {
	f := newFake(t)
	var job *v1.Job
	f.submit = f.keepJob(&job)
	cancelled := make(chan struct{})
	f.events = func(*v1.EventsRequest) (*v1.EventsResponse, error) {
		<-cancelled
		return eventsAnswer(1, true, &v1.Outcome{Task: 0, Kind: v1.OutcomeKind_CANCELLED}), nil
	}
	tries := 0
	f.cancel = func(*v1.CancelRequest) (*v1.CancelResponse, error) {
		if tries++; tries == 1 {
			return nil, &v1.Refused{Reason: v1.RefusedReason_FORBIDDEN, Message: "not you"}
		}
		close(cancelled)
		return &v1.CancelResponse{Cancelled: 1}, nil
	}
	r, err := newClient(t, []string{f.addr}).Submit(t.Context(), echoJob(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Satisfied(t.Context()); !refusedFor(err, Forbidden) {
		t.Error(err)
	}
	if err := r.Cancel(t.Context()); err != nil {
		t.Error(err)
	}
	outs, err := r.Wait()
	if failed, is := errors.AsType[*TaskError](err); len(outs) != 1 || !is || failed.Reason != Cancelled {
		t.Errorf("%+v, %v", outs, err)
	}
}

// A Run that the client submits is traced like any other Run.
func TestSpanOfSubmittedRun(t *testing.T) {
	f := newFake(t)
	var job *v1.Job
	f.submit = f.keepJob(&job)
	f.events = func(*v1.EventsRequest) (*v1.EventsResponse, error) {
		return eventsAnswer(1, true, &v1.Outcome{Task: 0, Kind: v1.OutcomeKind_CANCELLED}), nil
	}
	tracer := &recordingTracer{}
	spec := echoJob(1)
	spec.Tasks[0].Estimate = time.Hour
	if _, err := newClient(t, []string{f.addr}, WithTracer(tracer)).Run(t.Context(), spec); err == nil {
		t.Error("a cancelled task has no error")
	}
	if len(tracer.spans) != 1 {
		t.Fatalf("%d spans", len(tracer.spans))
	}
	if s := tracer.spans[0]; s.name != "phoebe.Run" || s.ended != 1 || s.status != codes.Error {
		t.Errorf("span %q ended %d times with status %v", s.name, s.ended, s.status)
	}
}

// Each Close returns after all calls have ended.
func TestCloseTwice(t *testing.T) {
	f := newFake(t)
	var job *v1.Job
	f.submit = f.keepJob(&job)
	polled, parting, proceed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var once sync.Once
	f.events = func(*v1.EventsRequest) (*v1.EventsResponse, error) {
		once.Do(func() { close(polled) })
		<-proceed
		return nil, errors.New("unheard")
	}
	f.cancel = func(*v1.CancelRequest) (*v1.CancelResponse, error) {
		close(parting)
		<-proceed
		return &v1.CancelResponse{}, nil
	}
	c := newClient(t, []string{f.addr})
	if _, err := c.Submit(t.Context(), echoJob(1)); err != nil {
		t.Fatal(err)
	}
	<-polled
	first, second := make(chan struct{}), make(chan struct{})
	go func() { c.Close(); close(first) }()
	<-parting
	go func() { c.Close(); close(second) }()
	select {
	case <-second:
		t.Error("the second Close returned before the first")
	case <-time.After(20 * time.Millisecond):
	}
	close(proceed)
	<-first
	<-second
}

// A nil context is an error, not a panic.
func TestNilContext(t *testing.T) {
	f := newFake(t)
	f.run = f.runEcho
	c := newClient(t, []string{f.addr})
	r, err := c.Submit(t.Context(), echoJob(1))
	if err != nil {
		t.Fatal(err)
	}
	var none context.Context
	for name, call := range map[string]func() error{
		"Run":    func() error { _, err := c.Run(none, echoJob(1)); return err },
		"Submit": func() error { _, err := c.Submit(none, echoJob(1)); return err },
		"Next":   func() error { _, err := r.Next(none); return err },
		"Cancel": func() error { return r.Cancel(none) },
		"Extend": func() error { return r.Extend(none, nil, nil) },
		"Client.Cancel": func() error {
			_, err := c.Cancel(none, r.Handle(), "")
			return err
		},
		"Workers": func() error { _, err := c.Workers(none); return err },
		"Open":    func() error { _, err := c.Open(none, Outcome{File: File{SHA256: "00"}}); return err },
	} {
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("%s panics: %v", name, p)
				}
			}()
			if err := call(); !errors.Is(err, errNilContext) {
				t.Errorf("%s: %v", name, err)
			}
		}()
	}
}

// Open returns no reader beside an error.
func TestOpenWithoutFile(t *testing.T) {
	f := newFake(t)
	f.stop()
	c := newClient(t, []string{f.addr}, WithRetryFor(time.Millisecond))
	r, err := c.Open(t.Context(), Outcome{File: File{SHA256: "00", Bytes: 1}})
	if r != nil || err == nil {
		t.Errorf("%v, %v", r, err)
	}
	r, err = c.Open(t.Context(), Outcome{Result: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	b := new(bytes.Buffer)
	if _, err := b.ReadFrom(r); err != nil || b.String() != "x" {
		t.Error(b, err)
	}
}
