package client

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// balancer forwards connections to frontends in turn.
type balancer struct {
	net.Listener
	mu      sync.Mutex
	targets []string
	conns   []net.Conn
}

// newBalancer starts a balancer, which ends with the test.
func newBalancer(t *testing.T, to ...*fake) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{Listener: l}
	b.sendTo(to...)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			b.mu.Lock()
			addr := b.targets[0]
			b.targets = append(b.targets[1:], addr)
			b.mu.Unlock()
			out, err := net.Dial("tcp", addr)
			if err != nil {
				in.Close()
				continue
			}
			b.mu.Lock()
			b.conns = append(b.conns, in, out)
			b.mu.Unlock()
			running.Go(func() { io.Copy(out, in); out.Close(); in.Close() })
			running.Go(func() { io.Copy(in, out); out.Close(); in.Close() })
		}
	})
	t.Cleanup(func() {
		l.Close()
		b.cutAll()
		running.Wait()
	})
	return b
}

// cutAll ends all connections.
func (b *balancer) cutAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.conns {
		c.Close()
	}
	b.conns = nil
}

// sendTo makes new connections go to the given frontends, beginning with the first.
func (b *balancer) sendTo(to ...*fake) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.targets = nil
	for _, f := range to {
		b.targets = append(b.targets, f.addr)
	}
}

func (b *balancer) addr() string { return b.Addr().String() }

// If a draining frontend refuses a job, the job goes to another frontend behind the same address at once.
func TestDrainingFrontendBehindABalancer(t *testing.T) {
	a, b := newFake(t), newFake(t)
	lb := newBalancer(t, a)
	a.run, b.run = a.runEcho, b.runEcho
	c := newClient(t, []string{lb.addr()}, func(c *config) { c.drainPause = time.Hour })
	if _, err := c.Run(t.Context(), echoJob(1)); err != nil {
		t.Fatal(err)
	}
	fence()
	asked := 0
	a.run = func(*v1.RunRequest) (*v1.RunResponse, error) {
		asked++
		return nil, &v1.Refused{Reason: v1.RefusedReason_DRAINING}
	}
	a.greeting = func() *v1.ClusterResponse { return &v1.ClusterResponse{Address: a.addr, Draining: true} }
	fence()
	lb.sendTo(a, b) // the balancer has not noticed yet

	// A minute is far less than the pause.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 5 {
		if _, err := c.Run(ctx, echoJob(1)); err != nil {
			t.Fatal(err)
		}
	}
	fence()
	if asked > 1 {
		t.Errorf("the frontend that leaves was given %d jobs", asked)
	}
}

// The client finds a hanging frontend although other frontends behind the same address answer. Only the calls of the
// hanging frontend end.
func TestFrozenFrontendBehindABalancer(t *testing.T) {
	t.Parallel() // mostly waits
	a, b := newFake(t), newFake(t)
	lb := newBalancer(t, a, b)
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	frozen, begun, slow := make(chan struct{}), make(chan struct{}), make(chan struct{})
	a.run = func(*v1.RunRequest) (*v1.RunResponse, error) {
		close(frozen)
		<-hang
		return nil, nil
	}
	var moved *v1.Resubmission
	b.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		if len(r.Job.Tasks) == 2 {
			close(begun)
			<-slow
		} else if r.Job.Resubmission != nil {
			moved = r.Job.Resubmission
		}
		return b.runEcho(r)
	}
	a.passesPingsTo, b.passesPingsTo = map[string]*fake{b.addr: b}, map[string]*fake{a.addr: a}
	c := newClient(t, []string{lb.addr()}, func(c *config) { c.pingTimeout = 2 * time.Second })
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), echoJob(1))
		ended <- err
	}()
	<-frozen
	lb.sendTo(b)
	other := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), echoJob(2))
		other <- err
	}()
	<-begun
	a.freeze()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	fence()
	if moved == nil || moved.PreviousOwner != a.addr {
		t.Errorf("it moved as %+v", moved)
	}
	for b.pings.Load() < 3 { // frontend b takes long, but lives
		if _, err := c.Run(t.Context(), echoJob(1)); err != nil {
			t.Fatal(err)
		}
	}
	close(slow)
	if err := <-other; err != nil {
		t.Error(err)
	}
}

// If a balancer cuts silent connections, a job loses nothing, because the client asks again.
func TestBalancerThatCutsConnections(t *testing.T) {
	a := newFake(t)
	lb := newBalancer(t, a)
	asked := 0
	a.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		if asked++; asked <= 3 {
			lb.cutAll()
			return nil, &v1.Refused{Reason: v1.RefusedReason_INVALID, Message: "unheard"}
		}
		if r.Job.Resubmission == nil || r.Job.Resubmission.PreviousOwner != a.addr {
			t.Errorf("asked again by %+v", r.Job.Resubmission)
		}
		return a.runEcho(r)
	}
	c := newClient(t, []string{lb.addr()})
	outs, err := c.Run(t.Context(), echoJob(2))
	if err != nil {
		t.Fatal(err)
	}
	checkEchoes(t, outs, 2)
}

// If a balancer cuts every call of Run, the client submits the job. A submitted job does not depend on a connection.
func TestBalancerThatCutsEveryRun(t *testing.T) {
	a := newFake(t)
	lb := newBalancer(t, a)
	a.run = func(*v1.RunRequest) (*v1.RunResponse, error) {
		lb.cutAll()
		return nil, &v1.Refused{Reason: v1.RefusedReason_INVALID, Message: "unheard"}
	}
	var kept atomic.Pointer[v1.Job] // a cut may reach the call of Submit, too: the client then calls again
	a.submit = func(r *v1.SubmitRequest) (*v1.SubmitResponse, error) {
		kept.Store(r.Job)
		return &v1.SubmitResponse{Handle: a.handleOf(r.Job)}, nil
	}
	a.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		if r.Cursor == 0 {
			return eventsAnswer(1, false, echoOutcome(kept.Load(), 1)), nil
		}
		return eventsAnswer(2, true, echoOutcome(kept.Load(), 0)), nil
	}
	c := newClient(t, []string{lb.addr()})
	spec := echoJob(2)
	spec.Window = 1 // no limit for Run, because Run waits for all results
	outs, err := c.Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	checkEchoes(t, outs, 2)
	if job := kept.Load(); job.Resubmission == nil || job.Resubmission.PreviousOwner != a.addr {
		t.Errorf("submitted as %+v", job.Resubmission)
	}
}

// If a new connection leads to a hanging frontend, the client makes another connection beside it, and gives the hanging
// frontend no job.
func TestConnectionToFrozenFrontend(t *testing.T) {
	a, b := newFake(t), newFake(t)
	a.freeze()
	b.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		if r.Job.Resubmission != nil {
			t.Error("nobody had the job, and yet it comes as a resubmission")
		}
		return b.runEcho(r)
	}
	c := newClient(t, []string{newBalancer(t, a, b).addr()}, func(c *config) { c.pingTimeout = time.Hour })
	if _, err := c.Run(t.Context(), echoJob(1)); err != nil {
		t.Fatal(err)
	}
}

// If a balancer cuts connections that wait, the polls become shorter than the time between two cuts, and the job stays
// where it is.
func TestPollsFitBetweenCuts(t *testing.T) {
	a := newFake(t)
	lb := newBalancer(t, a)
	var job *v1.Job
	a.submit = func(r *v1.SubmitRequest) (*v1.SubmitResponse, error) {
		if r.Job.Resubmission != nil {
			t.Error("the job was taken for lost")
		}
		return a.keepJob(&job)(r)
	}
	answered := 0
	a.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		if r.MaxWaitUs > 50_000 {
			lb.cutAll()
			return nil, &v1.Refused{Reason: v1.RefusedReason_INVALID, Message: "unheard"}
		}
		if answered++; answered < 3*maxLostOwners {
			return eventsAnswer(0, false), nil
		}
		return eventsAnswer(1, true, echoOutcome(job, 0)), nil
	}
	r, err := newClient(t, []string{lb.addr()}).Submit(t.Context(), echoJob(1))
	if err != nil {
		t.Fatal(err)
	}
	outs, err := r.Wait()
	if err != nil {
		t.Fatal(err)
	}
	checkEchoes(t, outs, 1)
}

// After a break, polls are short, and become as long as before.
func TestPollsGrowAgain(t *testing.T) {
	c := newClient(t, []string{"127.0.0.1:1"})
	s, err := c.newSession(t.Context(), echoJob(1))
	if err != nil {
		t.Fatal(err)
	}
	if !s.mayAskAgain(t.Context(), &callError{brokeAlone: true, sent: true}, 0) || s.pollFor >= time.Second {
		t.Errorf("after a break, a poll takes %v", s.pollFor)
	}
	for range 20 {
		s.notePollAnswered()
	}
	if s.pollFor != c.cfg.pollFor {
		t.Errorf("after twenty answers, a poll takes %v", s.pollFor)
	}
}

// A frontend behind a balancer hangs, and then the balancer takes no connection. The client turns to the frontends'
// own addresses, but not to the address of the frontend that hangs, where the job would lose seconds again.
func TestFrozenFrontendIsNotAskedAtItsOwnAddress(t *testing.T) {
	t.Parallel() // mostly waits
	for _, frozenFirst := range []bool{true, false} {
		a, own, b := newFake(t), newFake(t), newFake(t) // the balancer's frontend, its own address, another frontend
		members := []*v1.Member{{Address: own.addr}, {Address: b.addr}}
		if !frozenFirst {
			slices.Reverse(members)
		}
		a.greeting = func() *v1.ClusterResponse { return &v1.ClusterResponse{Address: own.addr, Members: members} }
		a.run = func(*v1.RunRequest) (*v1.RunResponse, error) {
			a.freeze()
			a.waitWhileFrozen()
			return nil, errors.New("unheard")
		}
		b.run = b.runEcho
		own.freeze()
		lb := newBalancer(t, a)
		c := newClient(t, []string{lb.addr()}, WithLogger(slog.New(whenLogged{"job moves", func() {
			lb.Close()
			lb.cutAll()
		}})), func(c *config) { c.pingTimeout, c.backoffMax = 2*time.Second, time.Hour })
		outs, err := c.Run(t.Context(), echoJob(1))
		if err != nil {
			t.Fatal(err)
		}
		checkEchoes(t, outs, 1)
		own.ln.mu.Lock()
		if n := len(own.ln.conns); n > 0 {
			t.Errorf("%d connections to the frontend that hangs", n)
		}
		own.ln.mu.Unlock()
	}
}

// whenLogged calls do before a message is logged.
type whenLogged struct {
	message string
	do      func()
}

func (whenLogged) Enabled(context.Context, slog.Level) bool { return true }
func (h whenLogged) WithAttrs([]slog.Attr) slog.Handler     { return h }
func (h whenLogged) WithGroup(string) slog.Handler          { return h }
func (h whenLogged) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.message {
		h.do()
	}
	return nil
}
