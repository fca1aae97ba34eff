package client

import (
	"errors"
	"testing"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// If a lost frontend may have taken an addition, the addition moves with the job to the next frontend, and is not added
// there again.
func TestAdditionMoves(t *testing.T) {
	a, b := newFake(t), newFake(t)
	var atA, atB *v1.Job
	asked, sealed := make(chan struct{}), make(chan struct{})
	a.submit = a.keepJob(&atA)
	a.extend = func(*v1.ExtendRequest) (*v1.ExtendResponse, error) {
		a.crash()
		close(asked)
		return nil, errors.New("unheard")
	}
	a.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		if r.Cursor == 0 {
			return eventsAnswer(1, false, echoOutcome(atA, 0)), nil
		}
		<-asked
		return nil, errors.New("unheard")
	}
	b.submit = b.keepJob(&atB)
	b.extend = func(r *v1.ExtendRequest) (*v1.ExtendResponse, error) {
		if r.FromTask != 3 || len(r.Tasks) != 0 || !r.Last {
			t.Errorf("asked for %+v", r)
		}
		close(sealed)
		return &v1.ExtendResponse{Tasks: 3}, nil
	}
	b.events = func(*v1.EventsRequest) (*v1.EventsResponse, error) {
		<-sealed
		return eventsAnswer(2, true, echoOutcome(atB, 0), echoOutcome(atB, 1)), nil
	}
	c := newClient(t, []string{a.addr, b.addr})
	chooseFirst(c)
	job := echoJob(3)
	added := job.Tasks[1:]
	job.Tasks, job.Open = job.Tasks[:1], true
	r, err := c.Submit(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if o, err := r.Next(t.Context()); err != nil || o.Task != 0 {
		t.Fatal(o, err)
	}
	if err := r.Extend(t.Context(), nil, added); err != nil {
		t.Fatal(err)
	}
	if err := r.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	outs, err := r.Wait()
	fence()
	if err != nil || len(outs) != 2 {
		t.Fatal(outs, err)
	}
	if !atB.Open || len(atB.Tasks) != 2 || atB.Tasks[0].Index != 1 || atB.Resubmission.Tasks != 3 {
		t.Errorf("resubmitted as %+v", atB)
	}
}
