package client

import (
	"errors"
	"testing"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// refuseInvalid refuses every job.
func refuseInvalid(*v1.SubmitRequest) (*v1.SubmitResponse, error) {
	return nil, &v1.Refused{Reason: v1.RefusedReason_INVALID, Message: "not here"}
}

// A RefusedError says that nothing was started. If a frontend refuses a job that another frontend has had, the error
// has another type.
func TestRefusalAfterAStart(t *testing.T) {
	for name, stage := range map[string]func(c *Client, a, b *fake){
		"next owner refuses": func(_ *Client, a, b *fake) {
			a.events = func(*v1.EventsRequest) (*v1.EventsResponse, error) {
				a.crash()
				return nil, errors.New("unheard")
			}
			b.submit = refuseInvalid
		},
		"owner refuses the poll": func(_ *Client, a, _ *fake) {
			a.events = func(*v1.EventsRequest) (*v1.EventsResponse, error) {
				return nil, &v1.Refused{Reason: v1.RefusedReason_INVALID, Message: "you no more"}
			}
		},
		"no worker at the next owner": func(c *Client, a, b *fake) {
			a.events = func(*v1.EventsRequest) (*v1.EventsResponse, error) {
				c.updateRoster([]string{b.addr}, nil) // or a's silence may be the last answer
				a.crash()
				return nil, errors.New("unheard")
			}
			b.submit = func(*v1.SubmitRequest) (*v1.SubmitResponse, error) {
				return nil, &v1.Refused{Reason: v1.RefusedReason_NO_WORKER, Message: "nobody", RetryAfterUs: 100}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newFake(t), newFake(t)
			var job *v1.Job
			a.submit = a.keepJob(&job)
			for _, f := range []*fake{a, b} {
				f.cancel = func(*v1.CancelRequest) (*v1.CancelResponse, error) { return &v1.CancelResponse{}, nil }
			}
			c := newClient(t, []string{a.addr, b.addr}, WithRetryFor(50_000_000))
			chooseFirst(c)
			stage(c, a, b)
			r, err := c.Submit(t.Context(), echoJob(1))
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.Wait()
			if _, refused := errors.AsType[*RefusedError](err); refused {
				t.Errorf("the task may have run, and the error is a RefusedError: %v", err)
			}
			if _, late := errors.AsType[*LateRefusalError](err); !late {
				t.Errorf("the refusal is lost: %v", err)
			}
		})
	}
}

// If the results of a Run are too large together, the tasks have run.
func TestRefusalOfLargeResults(t *testing.T) {
	f := newFake(t)
	f.run = func(*v1.RunRequest) (*v1.RunResponse, error) {
		started := true
		return nil, &v1.Refused{Reason: v1.RefusedReason_TOO_LARGE, Message: "too many bytes", Started: &started}
	}
	f.cancel = func(*v1.CancelRequest) (*v1.CancelResponse, error) { return &v1.CancelResponse{}, nil }
	_, err := newClient(t, []string{f.addr}).Run(t.Context(), echoJob(1))
	late, is := errors.AsType[*LateRefusalError](err)
	if _, refused := errors.AsType[*RefusedError](err); refused || !is || late.Reason != TooLarge {
		t.Error(err)
	}
	if _, unfinished := errors.AsType[*UnfinishedError](err); !unfinished {
		t.Error(err)
	}
}

// If a lost frontend may have taken an addition, and the next frontend refuses the addition, Extend fails, and the job
// goes on.
func TestAdditionRefusedAfterMove(t *testing.T) {
	a, b := newFake(t), newFake(t)
	var atA, atB *v1.Job
	asked := make(chan struct{})
	a.submit = a.keepJob(&atA)
	a.extend = func(*v1.ExtendRequest) (*v1.ExtendResponse, error) {
		a.crash()
		close(asked)
		return nil, errors.New("unheard")
	}
	a.events = func(*v1.EventsRequest) (*v1.EventsResponse, error) {
		<-asked
		return nil, errors.New("unheard")
	}
	b.submit = func(r *v1.SubmitRequest) (*v1.SubmitResponse, error) {
		if len(r.Job.Tasks) > 1 {
			return refuseInvalid(r)
		}
		return b.keepJob(&atB)(r)
	}
	sealed := make(chan struct{})
	b.extend = func(r *v1.ExtendRequest) (*v1.ExtendResponse, error) {
		if r.FromTask != 1 || !r.Last {
			t.Errorf("asked for %+v", r)
		}
		close(sealed)
		return &v1.ExtendResponse{Tasks: 1}, nil
	}
	b.events = func(*v1.EventsRequest) (*v1.EventsResponse, error) {
		<-sealed
		return eventsAnswer(1, true, echoOutcome(atB, 0)), nil
	}
	c := newClient(t, []string{a.addr, b.addr})
	chooseFirst(c)
	job := echoJob(2)
	added := job.Tasks[1:]
	job.Tasks, job.Open = job.Tasks[:1], true
	r, err := c.Submit(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	err = r.Extend(t.Context(), nil, added)
	if late, is := errors.AsType[*LateRefusalError](err); !is || late.Reason != Invalid {
		t.Errorf("Extend: %v", err)
	}
	if err := r.Seal(t.Context()); err != nil {
		t.Error(err)
	}
	outs, err := r.Wait()
	if err != nil {
		t.Fatal(err)
	}
	checkEchoes(t, outs, 1)
}
