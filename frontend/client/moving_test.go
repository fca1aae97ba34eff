package client

import (
	"errors"
	"testing"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// movingJob is a job of n tasks between two owners: the first owner is lost, and the second has not answered yet.
type movingJob struct {
	c                *Client
	r                *Running
	b                *fake
	job              *v1.Job       // as submitted to b
	arrived, proceed chan struct{} // arrived is closed when b has the job; b answers when the test closes proceed
}

// newMovingJob submits a job, and returns when the job has reached b.
func newMovingJob(t *testing.T, n int) *movingJob {
	a, b := newFake(t), newFake(t)
	m := &movingJob{b: b, arrived: make(chan struct{}), proceed: make(chan struct{})}
	var atA *v1.Job
	submitted := make(chan struct{})
	a.submit = a.keepJob(&atA)
	a.events = func(*v1.EventsRequest) (*v1.EventsResponse, error) {
		<-submitted
		a.crash()
		return nil, errors.New("unheard")
	}
	b.submit = func(r *v1.SubmitRequest) (*v1.SubmitResponse, error) {
		m.job = r.Job
		close(m.arrived)
		<-m.proceed
		return &v1.SubmitResponse{Handle: b.handleOf(r.Job)}, nil
	}
	unknown := func() error { return &v1.Refused{Reason: v1.RefusedReason_UNKNOWN_JOB, Message: "no such job"} }
	b.cancel = func(*v1.CancelRequest) (*v1.CancelResponse, error) { return nil, unknown() }
	b.cancelTasks = func(*v1.CancelTasksRequest) (*v1.CancelResponse, error) { return nil, unknown() }
	m.c = newClient(t, []string{a.addr, b.addr})
	chooseFirst(m.c)
	r, err := m.c.Submit(t.Context(), echoJob(n))
	if err != nil {
		t.Fatal(err)
	}
	m.r = r
	close(submitted)
	<-m.arrived
	return m
}

// If a job is cancelled while it has no owner, the job ends, and the client cancels it at the next owner.
func TestCancelWhileMoving(t *testing.T) {
	m := newMovingJob(t, 2)
	if err := m.r.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	cancelled := make(chan string, 1)
	fence()
	m.b.cancel = func(r *v1.CancelRequest) (*v1.CancelResponse, error) {
		cancelled <- r.Handle.Job
		return &v1.CancelResponse{Cancelled: 2}, nil
	}
	fence()
	close(m.proceed)
	outs, _ := m.r.Wait()
	if len(outs) != 2 {
		t.Fatalf("%+v", outs)
	}
	for _, o := range outs {
		if failed, ok := errors.AsType[*TaskError](o.Err); !ok || failed.Reason != Cancelled {
			t.Errorf("%+v", o)
		}
	}
	if job := <-cancelled; job != m.r.Handle().Job {
		t.Errorf("cancelled job %s", job)
	}
}

// The same holds for single tasks cancelled by CancelTasks. The remaining tasks go on.
func TestCancelTasksWhileMoving(t *testing.T) {
	m := newMovingJob(t, 2)
	if err := m.r.CancelTasks(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	cancelled := make(chan []int32, 1)
	fence()
	m.b.cancelTasks = func(r *v1.CancelTasksRequest) (*v1.CancelResponse, error) {
		cancelled <- r.Tasks
		return &v1.CancelResponse{Cancelled: 1}, nil
	}
	m.b.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		<-cancelled
		return eventsAnswer(1, true, echoOutcome(m.job, 0)), nil
	}
	fence()
	close(m.proceed)
	outs, err := m.r.Wait()
	if failed, ok := errors.AsType[*TaskError](err); !ok || failed.Reason != Cancelled || failed.Task != 1 ||
		len(outs) != 2 || outs[0].Err != nil {
		t.Errorf("%+v, %v", outs, err)
	}
}
