package client

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe/names/zone"
)

// Without any frontend, calls say why the name has no address.
func TestNameThatIsNotFound(t *testing.T) {
	z := zone.New(t)
	c := newClient(t, []string{"srv:_phoebe._tcp.test."}, WithRetryFor(10*time.Millisecond),
		func(c *config) { c.resolver = z.Resolver })
	_, cancelErr := c.Cancel(t.Context(), Handle{Job: NewJobID()}, "")
	_, workersErr := c.Workers(t.Context())
	_, runErr := c.Run(t.Context(), echoJob(1))
	for call, err := range map[string]error{"Cancel": cancelErr, "Workers": workersErr, "Run": runErr} {
		if _, is := errors.AsType[*net.DNSError](err); !is {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// Calls wait for the first lookup of a name.
func TestCallBeforeTheFirstLookup(t *testing.T) {
	f := newFake(t)
	f.cluster = func(*v1.ClusterRequest) (*v1.ClusterResponse, error) {
		return &v1.ClusterResponse{Frontend: "a"}, nil
	}
	_, port, _ := net.SplitHostPort(f.addr)
	c := newClient(t, []string{"dns:localhost:" + port})
	if got, err := c.askCluster(t.Context(), &v1.ClusterRequest{}); err != nil || got.Frontend != "a" {
		t.Error(got, err)
	}
}

// Where no seed answers, queries go to the members. A frontend that has not answered comes last.
func TestQueriesGoWhereAnAnswerIsLikely(t *testing.T) {
	seed, member := newFake(t), newFake(t)
	member.cluster = func(*v1.ClusterRequest) (*v1.ClusterResponse, error) {
		return &v1.ClusterResponse{Frontend: "member"}, nil
	}
	seed.freeze()
	c := newClient(t, []string{seed.addr}, func(c *config) {
		c.pingTimeout = 500 * time.Millisecond
		c.backoffMin, c.backoffMax = time.Nanosecond, time.Nanosecond
	})
	c.noteMembers([]string{member.addr})
	for range 5 {
		if got, err := c.askCluster(t.Context(), &v1.ClusterRequest{}); err != nil || got.Frontend != "member" {
			t.Fatal(got, err)
		}
	}
	if seed := c.roster.Load().seeds[0]; seed.pool.dialsBegun > 2*maxDialsForOne {
		t.Errorf("the hanging seed was dialed %d times", seed.pool.dialsBegun)
	}
}

// A hanging frontend does not keep a job beyond its deadline.
func TestDeadlineAtHangingFrontend(t *testing.T) {
	for name, run := range map[string]func(*Client, Job) error{
		"Run": func(c *Client, job Job) error {
			_, err := c.Run(t.Context(), job)
			return err
		},
		"Submit": func(c *Client, job Job) error {
			_, err := c.Submit(t.Context(), job)
			return err
		},
		"Events": func(c *Client, job Job) error {
			r, err := c.Submit(t.Context(), job)
			if err != nil {
				return nil
			}
			_, err = r.Wait()
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			hang := make(chan struct{})
			t.Cleanup(func() { close(hang) })
			f.run = func(*v1.RunRequest) (*v1.RunResponse, error) {
				<-hang
				return nil, errors.New("unheard")
			}
			if name == "Events" {
				f.submit = func(r *v1.SubmitRequest) (*v1.SubmitResponse, error) {
					return &v1.SubmitResponse{Handle: f.handleOf(r.Job)}, nil
				}
			}
			f.events = func(*v1.EventsRequest) (*v1.EventsResponse, error) {
				<-hang
				return nil, errors.New("unheard")
			}
			f.cancel = func(*v1.CancelRequest) (*v1.CancelResponse, error) { return &v1.CancelResponse{}, nil }
			c := newClient(t, []string{f.addr}, WithRPCTimeout(time.Hour), func(c *config) { c.pingEvery = time.Hour })
			job := echoJob(1)
			job.Deadline = 20 * time.Millisecond
			ended := make(chan error, 1)
			go func() { ended <- run(c, job) }()
			select {
			case err := <-ended:
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			case <-time.After(20 * time.Second):
				t.Error("the job goes on long after its deadline")
				c.Close()
			}
		})
	}
}

// WithRetryFor also bounds the wait for a frontend that takes connections, and does not answer.
func TestRetryForAtSilentFrontend(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c := newClient(t, []string{ln.Addr().String()}, WithRetryFor(50*time.Millisecond), WithRPCTimeout(time.Hour),
		func(c *config) { c.pingTimeout = time.Hour })
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), echoJob(1))
		ended <- err
	}()
	select {
	case err := <-ended:
		if _, unfinished := errors.AsType[*UnfinishedError](err); !unfinished {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the client looks for a frontend for longer than WithRetryFor")
		c.Close()
	}
}

// Errors keep their causes.
func TestCausesSurvive(t *testing.T) {
	closed := newFake(t)
	closed.stop()
	unknowing := newFake(t)
	unknowing.cancel = func(*v1.CancelRequest) (*v1.CancelResponse, error) {
		return nil, &v1.Refused{Reason: v1.RefusedReason_UNKNOWN_JOB, Message: "no such job"}
	}
	c := newClient(t, []string{closed.addr, unknowing.addr})
	_, err := c.Cancel(t.Context(), Handle{Job: NewJobID()}, "")
	if !errors.Is(err, syscall.ECONNREFUSED) || !refusedFor(err, UnknownJob) {
		t.Errorf("Cancel: %v", err)
	}

	runBriefly := func(c *Client, cause func(error) bool) (err error) {
		tryLonger(50*time.Millisecond, func(within time.Duration) bool { // in vain if the error has no cause yet
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			_, err = c.Run(ctx, echoJob(1))
			return cause(err)
		})
		return err
	}
	isClosed := func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
	if err := runBriefly(newClient(t, []string{closed.addr}), isClosed); !errors.Is(err, context.DeadlineExceeded) ||
		!isClosed(err) {
		t.Errorf("Run at nobody: %v", err)
	}

	busy := newFake(t)
	busy.run = func(*v1.RunRequest) (*v1.RunResponse, error) {
		return nil, &v1.Refused{Reason: v1.RefusedReason_OVERLOADED, Message: "full", RetryAfterUs: 3_600_000_000}
	}
	isFull := func(err error) bool { return refusedFor(err, Overloaded) }
	if err := runBriefly(newClient(t, []string{busy.addr}), isFull); !errors.Is(err, context.DeadlineExceeded) ||
		!isFull(err) {
		t.Errorf("Run at a busy frontend: %v", err)
	}
	job := echoJob(1)
	tryLonger(20*time.Millisecond, func(deadline time.Duration) bool {
		job.Deadline = deadline
		_, err = newClient(t, []string{busy.addr}).Run(t.Context(), job)
		return isFull(err)
	})
	if !errors.Is(err, context.DeadlineExceeded) || !isFull(err) {
		t.Errorf("deadline at a busy frontend: %v", err)
	}

	tired := errors.New("the user is tired")
	withCause, end := context.WithCancelCause(t.Context())
	end(tired)
	_, err = newClient(t, []string{busy.addr}).Run(withCause, echoJob(1))
	if !errors.Is(err, context.Canceled) || !errors.Is(err, tired) || !strings.Contains(err.Error(), "tired") {
		t.Errorf("cancelled with a cause: %v", err)
	}
}
