package client

import (
	"errors"
	"testing"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// moving is a job of n tasks whose first owner is lost, on its way to the second one, which has not answered yet.
type moving struct {
	c          *Client
	r          *Running
	b          *fake
	job        *v1.Job // as b has it
	came, goOn chan struct{}
}

func newMoving(t *testing.T, n int) *moving {
	a, b := newFake(t), newFake(t)
	m := &moving{b: b, came: make(chan struct{}), goOn: make(chan struct{})}
	var atA *v1.Job
	submitted := make(chan struct{})
	a.submit = a.take(&atA)
	a.events = func(*v1.EventsRequest) (*v1.EventsResponse, error) {
		<-submitted
		a.crash()
		return nil, errors.New("unheard")
	}
	b.submit = func(r *v1.SubmitRequest) (*v1.SubmitResponse, error) {
		m.job = r.Job
		close(m.came)
		<-m.goOn
		return &v1.SubmitResponse{Handle: b.handle(r.Job)}, nil
	}
	unknown := func() error { return &v1.Refused{Reason: v1.RefusedReason_UNKNOWN_JOB, Message: "no such job"} }
	b.cancel = func(*v1.CancelRequest) (*v1.CancelResponse, error) { return nil, unknown() }
	b.cancelTasks = func(*v1.CancelTasksRequest) (*v1.CancelResponse, error) { return nil, unknown() }
	m.c = newClient(t, []string{a.addr, b.addr})
	first(m.c)
	r, err := m.c.Submit(t.Context(), echoJob(n))
	if err != nil {
		t.Fatal(err)
	}
	m.r = r
	close(submitted)
	<-m.came
	return m
}

// A job that is cancelled while no frontend has it is over, and the one that gets it just then is told.
func TestCancelWhileMoving(t *testing.T) {
	m := newMoving(t, 2)
	if err := m.r.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 1)
	fence()
	m.b.cancel = func(r *v1.CancelRequest) (*v1.CancelResponse, error) {
		told <- r.Handle.Job
		return &v1.CancelResponse{Cancelled: 2}, nil
	}
	fence()
	close(m.goOn)
	outs, _ := m.r.Wait()
	if len(outs) != 2 {
		t.Fatalf("%+v", outs)
	}
	for _, o := range outs {
		if failed, ok := errors.AsType[*TaskError](o.Err); !ok || failed.Reason != Cancelled {
			t.Errorf("%+v", o)
		}
	}
	if job := <-told; job != m.r.Handle().Job {
		t.Errorf("told of %s", job)
	}
}

// So it is with tasks that are cancelled by themselves. The others go on.
func TestCancelTasksWhileMoving(t *testing.T) {
	m := newMoving(t, 2)
	if err := m.r.CancelTasks(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	told := make(chan []int32, 1)
	fence()
	m.b.cancelTasks = func(r *v1.CancelTasksRequest) (*v1.CancelResponse, error) {
		told <- r.Tasks
		return &v1.CancelResponse{Cancelled: 1}, nil
	}
	m.b.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		<-told
		return events(1, true, echo(m.job, 0)), nil
	}
	fence()
	close(m.goOn)
	outs, err := m.r.Wait()
	if failed, ok := errors.AsType[*TaskError](err); !ok || failed.Reason != Cancelled || failed.Task != 1 || len(outs) != 2 || outs[0].Err != nil {
		t.Errorf("%+v, %v", outs, err)
	}
}
