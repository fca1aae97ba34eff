package client

import (
	"sync"
	"testing"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// crowd is a frontend that takes three connections, and has eighteen jobs. Each job ends with its second poll.
type crowd struct {
	*fake
	mu    sync.Mutex
	jobs  map[string]*v1.Job
	polls map[string]int
	moved int // number of resubmissions
}

// newCrowd starts a crowd.
func newCrowd(t *testing.T) *crowd {
	f := &crowd{fake: newFake(t), jobs: map[string]*v1.Job{}, polls: map[string]int{}}
	f.ln.mu.Lock()
	f.ln.maxConns = 3
	f.ln.mu.Unlock()
	f.submit = func(r *v1.SubmitRequest) (*v1.SubmitResponse, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.jobs[r.Job.Id] = r.Job; r.Job.Resubmission != nil {
			f.moved++
		}
		return &v1.SubmitResponse{Handle: f.handleOf(r.Job)}, nil
	}
	f.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		f.mu.Lock()
		job := f.jobs[r.Handle.Job]
		f.polls[job.Id]++
		ended := f.polls[job.Id] == 2
		f.mu.Unlock()
		if ended {
			return eventsAnswer(1, true, echoOutcome(job, 0)), nil
		}
		time.Sleep(time.Duration(r.MaxWaitUs) * time.Microsecond) // there is no news
		return eventsAnswer(0, false), nil
	}
	return f
}

// If a client has more jobs than a frontend takes connections, the polls take turns, and no job is taken for lost.
func TestMoreJobsThanConnections(t *testing.T) {
	f := newCrowd(t)
	c := newClient(t, []string{f.addr}, func(c *config) {
		c.pollFor, c.rpcTimeout, c.pingEvery = 1500*time.Millisecond, 5*time.Second, time.Hour
	})
	var jobs sync.WaitGroup
	for range 18 {
		jobs.Go(func() {
			r, err := c.Submit(t.Context(), echoJob(1))
			if err == nil {
				_, err = r.Wait()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	jobs.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.moved > 0 {
		t.Errorf("%d times a job was taken for lost", f.moved)
	}
}
