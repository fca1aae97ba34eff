package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudwego/kitex/pkg/klog"
	"github.com/cloudwego/kitex/pkg/remote/trans/gonet"
	"github.com/cloudwego/kitex/server"
	"go.uber.org/goleak"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1/phoebe"
	"github.com/phoebe-sched/phoebe/probe"
)

func TestMain(m *testing.M) {
	klog.SetOutput(io.Discard) // the server of the fake frontends reports every connection that a test breaks
	// The ignored goroutines belong to frontends and workers of the cluster tests. fastrpc clients cannot be closed.
	// Kitex keeps goroutines for clients that use its discovery, timeouts or default transport. Package client uses no
	// such feature.
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(),
		goleak.IgnoreAnyFunction("github.com/valyala/fastrpc.(*Client).init.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fastrpc.(*Client).worker"),
		goleak.IgnoreAnyFunction("github.com/cloudwego/kitex/pkg/loadbalance/lbcache.(*BalancerFactory).watcher"),
		goleak.IgnoreAnyFunction("github.com/cloudwego/kitex/pkg/utils.(*SharedTicker).Tick"),
		goleak.IgnoreAnyFunction("github.com/cloudwego/kitex/client.(*timeoutPool).createWorker.func1"),
		goleak.IgnoreAnyFunction("github.com/cloudwego/kitex/client.(*timeoutPool).createTicker.func1"),
		goleak.IgnoreAnyFunction("github.com/cloudwego/netpoll.(*defaultPoll).Wait"),
	)
}

// fake is a frontend whose answers the test writes. A nil handler must not be called, with two exceptions: Events about
// noJob are pings, and if submit and events are nil, run answers in their place.
type fake struct {
	t     testing.TB
	addr  string
	ln    *listener
	stop  func()
	pings atomic.Int32
	// While frozen is not nil, every call waits until it is closed, pings included.
	frozen chan struct{}

	run         func(*v1.RunRequest) (*v1.RunResponse, error)
	submit      func(*v1.SubmitRequest) (*v1.SubmitResponse, error)
	events      func(*v1.EventsRequest) (*v1.EventsResponse, error)
	extend      func(*v1.ExtendRequest) (*v1.ExtendResponse, error)
	cancel      func(*v1.CancelRequest) (*v1.CancelResponse, error)
	cancelTasks func(*v1.CancelTasksRequest) (*v1.CancelResponse, error)
	cluster     func(*v1.ClusterRequest) (*v1.ClusterResponse, error)
	explain     func(*v1.ExplainRequest) (*v1.ExplainResponse, error)
	ranOutcomes sync.Map // outcomes of run in place of submit, by job

	greeting      func() *v1.ClusterResponse // nil: the answer names addr
	passesPingsTo map[string]*fake           // frontends to which fake forwards pings, by address
}

// listener keeps its connections, so that a test can stage a crash.
type listener struct {
	net.Listener
	mu       sync.Mutex
	conns    []net.Conn
	open     int // number of accepted connections that the server has not closed
	maxConns int // the listener closes connections beyond at once, as a frontend does; 0: no limit
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		taken := l.maxConns == 0 || l.open < l.maxConns
		if taken {
			l.open++
			l.conns = append(l.conns, c)
		}
		l.mu.Unlock()
		if taken {
			return &countedConn{Conn: c, listener: l}, nil
		}
		c.Close()
	}
}

// countedConn is an accepted connection that its listener counts.
type countedConn struct {
	net.Conn
	listener *listener
	once     sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() {
		c.listener.mu.Lock()
		defer c.listener.mu.Unlock()
		c.listener.open--
	})
	return c.Conn.Close()
}

// breakConns resets all connections.
func (l *listener) breakConns() {
	fence()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	l.conns = nil
}

// crash has the effect of SIGKILL on a frontend, as seen by clients.
func (f *fake) crash() {
	f.ln.Close()
	f.ln.breakConns()
}

// newFake starts a fake frontend, which ends with the test.
func newFake(t testing.TB) *fake {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{t: t, addr: ln.Addr().String(), ln: &listener{Listener: ln}}
	srv := phoebe.NewServer(f,
		server.WithListener(f.ln),
		server.WithTransServerFactory(gonet.NewTransServerFactory()),
		server.WithTransHandlerFactory(gonet.NewSvrTransHandlerFactory()),
		server.WithExitSignal(func() <-chan error { return nil }),
		server.WithExitWaitTime(time.Millisecond),
		server.WithReadWriteTimeout(time.Minute), // of a large request over a slow link
	)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		srv.Run()
	}()
	f.stop = sync.OnceFunc(func() {
		f.crash()
		srv.Stop()
		<-ended
	})
	t.Cleanup(f.stop)
	return f
}

var fenceMu sync.Mutex

// fence orders the accesses of handlers and tests to shared variables. The race detector cannot see an order that
// arises through a connection.
func fence() {
	fenceMu.Lock()
	defer fenceMu.Unlock()
}

// waitWhileFrozen waits while the fake is frozen.
func (f *fake) waitWhileFrozen() {
	fenceMu.Lock()
	frozen := f.frozen
	fenceMu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

// freeze makes every later call hang until the test ends.
func (f *fake) freeze() {
	thaw := make(chan struct{})
	fenceMu.Lock()
	f.frozen = thaw
	fenceMu.Unlock()
	f.t.Cleanup(func() { close(thaw) })
}

func (f *fake) Run(_ context.Context, r *v1.RunRequest) (*v1.RunResponse, error) {
	f.waitWhileFrozen()
	defer fence()
	return f.run(r)
}

func (f *fake) Submit(_ context.Context, r *v1.SubmitRequest) (*v1.SubmitResponse, error) {
	f.waitWhileFrozen()
	defer fence()
	if f.submit != nil {
		return f.submit(r)
	}
	resp, err := f.run(&v1.RunRequest{Caller: r.Caller, Job: r.Job})
	if err != nil {
		return nil, err
	}
	f.ranOutcomes.Store(r.Job.Id, resp.Outcomes)
	return &v1.SubmitResponse{Handle: resp.Handle}, nil
}

func (f *fake) Events(_ context.Context, r *v1.EventsRequest) (*v1.EventsResponse, error) {
	f.waitWhileFrozen()
	defer fence()
	if r.Handle.Job == noJob {
		if to := f.passesPingsTo[r.Handle.Owner]; to != nil {
			to.waitWhileFrozen()
		}
		f.pings.Add(1)
		return nil, &v1.Refused{Reason: v1.RefusedReason_UNKNOWN_JOB, Message: "no such job"}
	}
	if outs, ok := f.ranOutcomes.Load(r.Handle.Job); ok {
		return eventsAnswer(1, true, outs.([]*v1.Outcome)...), nil
	}
	return f.events(r)
}

func (f *fake) Cancel(_ context.Context, r *v1.CancelRequest) (*v1.CancelResponse, error) {
	f.waitWhileFrozen()
	defer fence()
	return f.cancel(r)
}

func (f *fake) Extend(_ context.Context, r *v1.ExtendRequest) (*v1.ExtendResponse, error) {
	f.waitWhileFrozen()
	defer fence()
	return f.extend(r)
}

func (f *fake) CancelTasks(_ context.Context, r *v1.CancelTasksRequest) (*v1.CancelResponse, error) {
	f.waitWhileFrozen()
	defer fence()
	return f.cancelTasks(r)
}

func (f *fake) Cluster(_ context.Context, r *v1.ClusterRequest) (*v1.ClusterResponse, error) {
	f.waitWhileFrozen()
	defer fence()
	if r.FrontendsOnly && f.greeting != nil {
		return f.greeting(), nil
	} else if r.FrontendsOnly {
		return &v1.ClusterResponse{Address: f.addr}, nil
	}
	return f.cluster(r)
}

func (f *fake) Watch(context.Context, *v1.WatchRequest) (*v1.WatchResponse, error) {
	return nil, errors.ErrUnsupported
}

func (f *fake) Jobs(context.Context, *v1.JobsRequest) (*v1.JobsResponse, error) {
	return nil, errors.ErrUnsupported
}

func (f *fake) Recordings(context.Context, *v1.RecordingsRequest) (*v1.RecordingsResponse, error) {
	return nil, errors.ErrUnsupported
}

func (f *fake) Recording(context.Context, *v1.RecordingRequest) (*v1.RecordingResponse, error) {
	return nil, errors.ErrUnsupported
}

func (f *fake) Leave(context.Context, *v1.LeaveRequest) (*v1.LeaveResponse, error) {
	return nil, errors.ErrUnsupported
}
func (f *fake) ReadFile(context.Context, *v1.ReadFileRequest) (*v1.ReadFileResponse, error) {
	return nil, errors.ErrUnsupported
}

func (f *fake) Locate(context.Context, *v1.LocateRequest) (*v1.LocateResponse, error) {
	return nil, errors.ErrUnsupported
}

func (f *fake) Trace(context.Context, *v1.TraceRequest) (*v1.TraceResponse, error) {
	return nil, errors.ErrUnsupported
}

func (f *fake) Explain(_ context.Context, r *v1.ExplainRequest) (*v1.ExplainResponse, error) {
	f.waitWhileFrozen()
	defer fence()
	return f.explain(r)
}

// handleOf returns the handle of a job at the fake.
func (f *fake) handleOf(job *v1.Job) *v1.Handle { return &v1.Handle{Job: job.Id, Owner: f.addr} }

// taskIndex returns the index, in the original job, of the i-th task sent.
func taskIndex(job *v1.Job, i int) int32 {
	if job.Resubmission != nil {
		return job.Tasks[i].Index
	}
	return int32(i)
}

// echoOutcome returns the outcome of the i-th task sent, with the task's payload as the result.
func echoOutcome(job *v1.Job, i int) *v1.Outcome {
	return &v1.Outcome{
		Task: taskIndex(job, i), Kind: v1.OutcomeKind_RESULT, Result_: job.Tasks[i].Payload, Worker: "w1", Attempts: 1,
	}
}

// runEcho answers Run with all results, last task first.
func (f *fake) runEcho(r *v1.RunRequest) (*v1.RunResponse, error) {
	resp := &v1.RunResponse{Handle: f.handleOf(r.Job)}
	for i := len(r.Job.Tasks) - 1; i >= 0; i-- {
		resp.Outcomes = append(resp.Outcomes, echoOutcome(r.Job, i))
	}
	return resp, nil
}

// keepJob returns a handler of Submit that stores the job in into.
func (f *fake) keepJob(into **v1.Job) func(*v1.SubmitRequest) (*v1.SubmitResponse, error) {
	return func(r *v1.SubmitRequest) (*v1.SubmitResponse, error) {
		*into = r.Job
		return &v1.SubmitResponse{Handle: f.handleOf(r.Job)}, nil
	}
}

// eventsAnswer returns an answer to Events with the given outcomes.
func eventsAnswer(cursor int64, done bool, outs ...*v1.Outcome) *v1.EventsResponse {
	resp := &v1.EventsResponse{Cursor: cursor, Done: done, Events: []*v1.Event{}}
	for _, o := range outs {
		resp.Events = append(resp.Events, &v1.Event{Outcome: o})
	}
	return resp
}

// newClient makes a client that pings often, so that tests are short.
func newClient(t testing.TB, addrs []string, opts ...Option) *Client {
	quick := func(c *config) {
		c.pingEvery, c.backoffMin, c.backoffMax = 5*time.Millisecond, time.Millisecond, 20*time.Millisecond
	}
	fence()
	c, err := New(addrs, append([]Option{quick}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// chooseFirst makes the client's next choice, among idle frontends, the first frontend.
func chooseFirst(c *Client) { c.nextStart.Store(uint32(len(c.roster.Load().seeds)) - 1) }

// echoJob returns a job of n tasks with payloads p0, p1 and so on.
func echoJob(n int) Job {
	job := Job{}
	for i := range n {
		job.Tasks = append(job.Tasks, Task{Function: "echo", Payload: fmt.Appendf(nil, "p%d", i)})
	}
	return job
}

// checkEchoes checks that outs are the n results of an echoJob, in order.
func checkEchoes(t *testing.T, outs []Outcome, n int) {
	t.Helper()
	if len(outs) != n {
		t.Fatalf("%d outcomes of %d tasks", len(outs), n)
	}
	for i, o := range outs {
		if o.Task != i || o.Err != nil || string(o.Result) != fmt.Sprintf("p%d", i) {
			t.Fatalf("outcome %d: %+v", i, o)
		}
	}
}

func TestRunOrdersOutcomesByTask(t *testing.T) {
	f := newFake(t)
	f.run = f.runEcho
	c := newClient(t, []string{f.addr})
	outs, err := c.Run(t.Context(), echoJob(5))
	if err != nil {
		t.Fatal(err)
	}
	checkEchoes(t, outs, 5)
}

func TestEveryFieldArrives(t *testing.T) {
	f := newFake(t)
	var got *v1.RunRequest
	f.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		got = r
		resp, err := f.runEcho(r)
		o := resp.Outcomes[0]
		o.Attempts, o.RunUs, o.Worker = 3, 1500, "w9"
		o.Phases = &v1.Phases{
			SampledUs: 1, QueuedUs: 2, ReadyUs: 3, BoundUs: 4, StartedUs: 5, FinishedUs: 6, DeliveredUs: 7,
		}
		o.Copies, o.Retried = 1, []v1.AttemptEnd{v1.AttemptEnd_TIMED_OUT}
		return resp, err
	}
	c := newClient(t, []string{f.addr}, WithSecret("s3cret"), WithName("test"))
	outs, err := c.Run(t.Context(), Job{
		ID: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Tenant: "t", Priority: -3, Deadline: time.Second, Policy: PerTask,
		ProbeRatio: 1.5,
		Constraint: Constraint{Labels: []string{"a=b"}}, Phases: true,
		Tasks: []Task{{
			Function: "f", Payload: []byte("x"), Demand: Demand{CPU: 500, Memory: 64}, Estimate: 1,
			Constraint: Constraint{Hosts: []string{"h"}}, Timeout: 2500 * time.Microsecond, Retries: 4,
		}},
	})
	fence()
	if err != nil {
		t.Fatal(err)
	}
	j, task := got.Job, got.Job.Tasks[0]
	if *got.Caller.Secret != "s3cret" || *got.Caller.Name != "test" ||
		j.Id != "01ARZ3NDEKTSV4RRFFQ69G5FAV" || j.Tenant != "t" || j.Priority != -3 || j.DeadlineUs != 1e6 ||
		j.Policy != v1.Policy_PER_TASK || j.ProbeRatio != 1.5 || j.Constraint.Labels[0] != "a=b" || !j.Phases ||
		j.Resubmission != nil ||
		task.FunctionName != "f" || string(task.Payload) != "x" ||
		*task.Demand != (v1.Demand{CpuMillicores: 500, MemoryMib: 64}) ||
		task.EstimateUs != 1 || task.Constraint.Hosts[0] != "h" || !task.Retryable || task.TimeoutUs != 2500 ||
		task.Retries != 4 || task.Index != -1 {
		t.Errorf("request: %+v", got)
	}
	us := time.Microsecond
	o := outs[0]
	if o.Attempts != 3 || o.Copies != 1 || !slices.Equal(o.Retried, []string{"timed out"}) ||
		o.Run != 1500*us || o.Worker != "w9" ||
		*o.Phases != (Phases{us, 2 * us, 3 * us, 4 * us, 5 * us, 6 * us, 7 * us}) {
		t.Errorf("outcome: %+v", o)
	}
}

// A job with a Once task goes by Submit. The client tells the owner that all outcomes have arrived, even if the client
// closes, because the workers keep the results until then.
func TestOnceIsConfirmed(t *testing.T) {
	f := newFake(t)
	var job *v1.Job
	f.submit = f.keepJob(&job)
	var mu sync.Mutex
	var cursors []int64
	f.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		mu.Lock()
		cursors = append(cursors, r.Cursor)
		mu.Unlock()
		return eventsAnswer(2, true, echoOutcome(job, 0), echoOutcome(job, 1)), nil
	}
	c := newClient(t, []string{f.addr})
	spec := echoJob(2)
	spec.Tasks[1].Once = true
	outs, err := c.Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	checkEchoes(t, outs, 2)
	if !job.Tasks[0].Retryable || job.Tasks[1].Retryable {
		t.Errorf("tasks %+v", job.Tasks)
	}
	mu.Lock()
	defer mu.Unlock()
	if cursors[0] != 0 || cursors[len(cursors)-1] != 2 {
		t.Errorf("cursors %v", cursors)
	}
}

// Each resubmission carries its number and the job's age. If two frontends own the job, the later owner counts.
func TestResubmissionsAreCounted(t *testing.T) {
	f := newFake(t)
	var counts []int32
	f.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		if m := r.Job.Resubmission; m != nil {
			counts = append(counts, m.Count)
			if m.AgeUs <= 0 {
				t.Errorf("resubmitted after %d us", m.AgeUs)
			}
		}
		if len(counts) < 3 {
			return nil, &v1.Refused{Reason: v1.RefusedReason_OWNER_LOST, Message: "moved"}
		}
		return f.runEcho(r)
	}
	outs, err := newClient(t, []string{f.addr}).Run(t.Context(), echoJob(1))
	fence()
	if err != nil || !slices.Equal(counts, []int32{1, 2, 3}) {
		t.Errorf("%v, %v", counts, err)
	}
	checkEchoes(t, outs, 1)
}

func TestPoliciesHaveTheirNames(t *testing.T) {
	for _, p := range []Policy{PhoebePolicy, LateBinding, Batch, PerTask, Random} {
		w, err := p.toWire()
		if err != nil || enumWords(w.String()) != strings.ReplaceAll(string(p), "-", " ") {
			t.Errorf("%s: %v, %v", p, w, err)
		}
	}
	if _, err := newClient(t, []string{"127.0.0.1:1"}).Run(t.Context(), Job{Policy: "x"}); !refusedFor(err, Invalid) {
		t.Error(err)
	}
}

// refusedFor reports whether err is a RefusedError with the reason why.
func refusedFor(err error, why RefusedReason) bool {
	var r *RefusedError
	return errors.As(err, &r) && r.Reason == why
}

func TestFailedTaskIsAnError(t *testing.T) {
	f := newFake(t)
	f.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		resp, err := f.runEcho(r)
		resp.Outcomes[0] = &v1.Outcome{Task: 2, Kind: v1.OutcomeKind_DEADLINE_EXCEEDED}
		resp.Outcomes[1] = &v1.Outcome{
			Task: 1, Kind: v1.OutcomeKind_FAILED, Worker: "w7", Attempts: 2,
			Failure: &v1.Failure{Reason: v1.FailureReason_POISON, Message: "boom"},
		}
		return resp, err
	}
	c := newClient(t, []string{f.addr})
	outs, err := c.Run(t.Context(), echoJob(3))
	var te *TaskError
	if !errors.As(err, &te) || !reflect.DeepEqual(*te,
		TaskError{Task: 1, Reason: Poison, Message: "boom", Worker: "w7", Attempts: 2}) {
		t.Errorf("Run's error: %v", err)
	}
	if outs[0].Err != nil || string(outs[0].Result) != "p0" || outs[1].Err != err {
		t.Errorf("outcomes: %+v", outs)
	}
	if !errors.As(outs[2].Err, &te) || te.Reason != DeadlineExceeded {
		t.Errorf("task 2: %v", outs[2].Err)
	}
}

func TestFinalRefusals(t *testing.T) {
	f := newFake(t)
	calls := 0
	f.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		calls++
		return nil, &v1.Refused{Reason: v1.RefusedReason_NO_WORKER, Message: "no worker has function f"}
	}
	_, err := newClient(t, []string{f.addr}).Run(t.Context(), echoJob(1))
	fence()
	if !refusedFor(err, NoWorker) || calls != 1 {
		t.Errorf("after %d calls: %v", calls, err)
	}
	var u *UnfinishedError
	if errors.As(err, &u) {
		t.Error("a job that never began is not unfinished")
	}
}

// tryLonger calls try with a short time, and again with twice the time, until the result is true. A busy machine may
// need all of a short time for a connection. After a time of 10 s or more, the result of tryLonger is false.
func tryLonger(within time.Duration, try func(within time.Duration) bool) bool {
	for ; within < 20*time.Second; within *= 2 {
		if try(within) {
			return true
		}
	}
	return false
}

// A client waits for a frontend without workers to get a worker, for a limited time.
func TestFrontendWithoutWorkers(t *testing.T) {
	f := newFake(t)
	calls := 0
	f.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		calls++
		return nil, &v1.Refused{Reason: v1.RefusedReason_NO_WORKER, Message: "no worker is linked", RetryAfterUs: 1000}
	}
	var err error
	if !tryLonger(20*time.Millisecond, func(within time.Duration) bool {
		calls = 0
		_, err = newClient(t, []string{f.addr}, WithRetryFor(within)).Run(t.Context(), echoJob(1))
		fence()
		return refusedFor(err, NoWorker) && calls > 1
	}) {
		t.Errorf("after %d calls: %v", calls, err)
	}
	f.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		if calls++; calls < 3 {
			return nil, &v1.Refused{
				Reason: v1.RefusedReason_NO_WORKER, Message: "no worker is linked", RetryAfterUs: 1000,
			}
		}
		return f.runEcho(r)
	}
	calls = 0
	outs, err := newClient(t, []string{f.addr}).Run(t.Context(), echoJob(1))
	fence()
	if err != nil {
		t.Fatal(err)
	}
	checkEchoes(t, outs, 1)
}

// A job's deadline also holds while no frontend takes the job. Each try carries the remaining time.
func TestDeadlineOfRefusedJob(t *testing.T) {
	if !tryLonger(50*time.Millisecond, func(deadline time.Duration) bool { return isRefusedUntil(t, deadline) }) {
		t.Error("no deadline leaves time for two calls")
	}
}

// isRefusedUntil runs a job that a frontend refuses until the job's deadline, and checks the calls and the error. It
// returns false if the deadline passed before the second call.
func isRefusedUntil(t *testing.T, deadline time.Duration) bool {
	t.Helper()
	f := newFake(t)
	var mu sync.Mutex // a call may arrive after the deadline
	var deadlines []int64
	f.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		mu.Lock()
		defer mu.Unlock()
		deadlines = append(deadlines, r.Job.DeadlineUs)
		return nil, &v1.Refused{Reason: v1.RefusedReason_OVERLOADED, Message: "later", RetryAfterUs: 10_000}
	}
	job := echoJob(1)
	job.Deadline = deadline
	_, err := newClient(t, []string{f.addr}).Run(t.Context(), job)
	mu.Lock()
	defer mu.Unlock()
	if len(deadlines) < 2 {
		return false
	}
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "later") {
		t.Errorf("got %v", err)
	}
	if deadlines[0] != deadline.Microseconds() {
		t.Errorf("at first within %d us", deadlines[0])
	}
	for i := 1; i < len(deadlines); i++ {
		if d := deadlines[i]; d >= deadlines[i-1] || d <= 0 {
			t.Errorf("at try %d within %d us, before %d", i, d, deadlines[i-1])
		}
	}
	return true
}

// After the deadline, the error still says why no frontend took the job, or that the owner was lost. The client does
// not ask another frontend with a microsecond left, whose refusal would hide the reason.
func TestPassedDeadline(t *testing.T) {
	for _, gone := range []bool{false, true} {
		if !tryLonger(20*time.Millisecond, func(deadline time.Duration) bool {
			return failsAfterDeadline(t, gone, deadline)
		}) {
			t.Error("no deadline leaves time for a call")
		}
	}
}

// failsAfterDeadline runs a job whose deadline passes during the first call, and checks the error. It returns false if
// the deadline passed before the call.
func failsAfterDeadline(t *testing.T, gone bool, deadline time.Duration) (asked bool) {
	t.Helper()
	a, b := newFake(t), newFake(t)
	a.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		asked = true
		time.Sleep(2 * deadline)
		if gone {
			a.crash()
			return nil, errors.New("unheard")
		}
		return nil, &v1.Refused{
			Reason: v1.RefusedReason_NO_WORKER, Message: "no worker is linked", RetryAfterUs: 10_000,
		}
	}
	b.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		t.Errorf("asked with %d us left", r.Job.DeadlineUs)
		return b.runEcho(r)
	}
	b.cancel = func(*v1.CancelRequest) (*v1.CancelResponse, error) { return &v1.CancelResponse{}, nil }
	c := newClient(t, []string{a.addr, b.addr})
	chooseFirst(c)
	job := echoJob(1)
	job.Deadline = deadline
	_, err := c.Run(t.Context(), job)
	fence()
	if !asked {
		return false
	}
	if why := map[bool]string{false: "no worker is linked", true: "was lost"}[gone]; !errors.Is(
		err, context.DeadlineExceeded) || !strings.Contains(err.Error(), why) ||
		!strings.Contains(err.Error(), deadline.String()) {
		t.Errorf("got %v, want %q", err, why)
	}
	return true
}

// Waiting for an overloaded frontend is no failure, and may take longer than WithRetryFor.
func TestRetryAfterIsHonoured(t *testing.T) {
	if !tryLonger(30*time.Millisecond, func(wait time.Duration) bool { return isRefusedTwice(t, wait) }) {
		t.Error("no wait leaves time for a connection")
	}
}

// isRefusedTwice runs a job that a frontend refuses twice, each time for a wait. WithRetryFor is as long as the wait.
// The result is false if the client could not connect within WithRetryFor.
func isRefusedTwice(t *testing.T, wait time.Duration) bool {
	t.Helper()
	f := newFake(t)
	var calls []time.Time
	f.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		calls = append(calls, time.Now())
		if r.Job.Resubmission != nil {
			t.Error("a refused job comes as a resubmission")
		}
		if len(calls) < 3 {
			return nil, &v1.Refused{
				Reason: v1.RefusedReason_OVERLOADED, Message: "later", RetryAfterUs: wait.Microseconds(),
			}
		}
		return f.runEcho(r)
	}
	outs, err := newClient(t, []string{f.addr}, WithRetryFor(wait)).Run(t.Context(), echoJob(1))
	fence()
	if errors.As(err, new(*UnfinishedError)) && len(calls) == 0 {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	checkEchoes(t, outs, 1)
	for i := 1; i < len(calls); i++ {
		if d := calls[i].Sub(calls[i-1]); d < wait {
			t.Errorf("asked again after %v, not %v", d, wait)
		}
	}
	return true
}

func TestOverloadedFrontendIsPassedOver(t *testing.T) {
	for _, why := range []v1.RefusedReason{v1.RefusedReason_OVERLOADED, v1.RefusedReason_DRAINING} {
		a, b := newFake(t), newFake(t)
		a.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
			return nil, &v1.Refused{Reason: why, RetryAfterUs: time.Hour.Microseconds()}
		}
		b.run = b.runEcho
		c := newClient(t, []string{a.addr, b.addr})
		chooseFirst(c)
		outs, err := c.Run(t.Context(), echoJob(1))
		if err != nil {
			t.Fatal(err)
		}
		checkEchoes(t, outs, 1)
	}
}

// A client leaves a draining frontend alone. A call that reached the frontend at its exit would have no answer, and the
// client could not tell whether the call was executed.
func TestDrainingFrontendIsLeftAlone(t *testing.T) {
	a, b := newFake(t), newFake(t)
	asked := 0
	a.run = func(*v1.RunRequest) (*v1.RunResponse, error) {
		asked++
		return nil, &v1.Refused{Reason: v1.RefusedReason_DRAINING}
	}
	b.run = b.runEcho
	c := newClient(t, []string{a.addr, b.addr}, func(c *config) { c.drainPause = time.Hour })
	chooseFirst(c)
	for range 10 {
		if _, err := c.Run(t.Context(), echoJob(1)); err != nil {
			t.Fatal(err)
		}
	}
	fence()
	if asked > 1 {
		t.Errorf("it was asked %d times", asked)
	}
}

func TestRefusalsAreFinalIfAsked(t *testing.T) {
	f := newFake(t)
	f.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		return nil, &v1.Refused{Reason: v1.RefusedReason_OVERLOADED, RetryAfterUs: 1500}
	}
	_, err := newClient(t, []string{f.addr}, WithRefusalsFinal()).Run(t.Context(), echoJob(1))
	var r *RefusedError
	if !errors.As(err, &r) || r.Reason != Overloaded || r.RetryAfter != 1500*time.Microsecond {
		t.Error(err)
	}
}

// A program hears of a refusal of a job that the client tries again, with the context of the job.
func TestRefusalHook(t *testing.T) {
	f := newFake(t)
	refusals := 0
	f.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		if refusals++; refusals <= 3 {
			return nil, &v1.Refused{Reason: v1.RefusedReason_OVERLOADED, RetryAfterUs: 1}
		}
		return f.runEcho(r)
	}
	var heard []any
	type key struct{}
	hook := WithRefusalHook(func(ctx context.Context, r *RefusedError) {
		heard = append(heard, ctx.Value(key{}), r.Reason)
	})
	outs, err := newClient(t, []string{f.addr}, hook).Run(context.WithValue(t.Context(), key{}, "job"), echoJob(1))
	if err != nil {
		t.Fatal(err)
	}
	checkEchoes(t, outs, 1)
	if want := []any{"job", Overloaded, "job", Overloaded, "job", Overloaded}; !slices.Equal(heard, want) {
		t.Errorf("heard %v, want %v", heard, want)
	}
}

func TestUnreachableFrontendIsPassedOver(t *testing.T) {
	a, b := newFake(t), newFake(t)
	a.stop()
	b.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		if r.Job.Resubmission != nil {
			t.Error("nobody had the job, and yet it comes as a resubmission")
		}
		return b.runEcho(r)
	}
	c := newClient(t, []string{a.addr, b.addr})
	chooseFirst(c)
	outs, err := c.Run(t.Context(), echoJob(2))
	if err != nil {
		t.Fatal(err)
	}
	checkEchoes(t, outs, 2)
}

func TestRunMovesWhenItsFrontendDies(t *testing.T) {
	a, b := newFake(t), newFake(t)
	var id string
	a.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		id = r.Job.Id
		a.crash()
		return nil, errors.New("unheard")
	}
	b.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		if r.Job.Id != id || r.Job.Resubmission == nil || r.Job.Resubmission.PreviousOwner != a.addr {
			t.Errorf("resubmitted as %+v", r.Job)
		}
		if r.Job.DeadlineUs <= 0 || r.Job.DeadlineUs >= time.Hour.Microseconds() {
			t.Errorf("deadline of %d us left of an hour", r.Job.DeadlineUs)
		}
		return b.runEcho(r)
	}
	c := newClient(t, []string{a.addr, b.addr})
	chooseFirst(c)
	job := echoJob(3)
	job.Deadline = time.Hour
	outs, err := c.Run(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	checkEchoes(t, outs, 3)
	fence()
	if _, err := probe.ParseJobID(id); err != nil {
		t.Error(err)
	}
}

func TestRunResubmitsMissingTasks(t *testing.T) {
	f := newFake(t)
	f.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		resp, err := f.runEcho(r)
		if r.Job.Resubmission == nil {
			resp.Outcomes = resp.Outcomes[:1] // the outcome of the last task
		} else if len(r.Job.Tasks) != 2 || r.Job.Tasks[1].Index != 1 {
			t.Errorf("resubmitted: %+v", r.Job)
		}
		return resp, err
	}
	outs, err := newClient(t, []string{f.addr}).Run(t.Context(), echoJob(3))
	if err != nil {
		t.Fatal(err)
	}
	checkEchoes(t, outs, 3)
}

func TestFrozenFrontendIsFoundOut(t *testing.T) {
	t.Parallel() // mostly waits
	for _, with := range []string{"nothing", "the job"} {
		a, b := newFake(t), newFake(t)
		if with == "nothing" {
			a.freeze()
		}
		a.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
			a.freeze()
			a.waitWhileFrozen()
			return a.runEcho(r)
		}
		b.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
			if (r.Job.Resubmission != nil) != (with == "the job") {
				t.Errorf("frozen with %s: resubmission %+v", with, r.Job.Resubmission)
			}
			return b.runEcho(r)
		}
		c := newClient(t, []string{a.addr, b.addr}, func(c *config) { c.pingTimeout = 2 * time.Second })
		chooseFirst(c)
		outs, err := c.Run(t.Context(), echoJob(2))
		if err != nil {
			t.Fatal(err)
		}
		checkEchoes(t, outs, 2)
	}
}

func TestSlowFrontendIsLeftInPeace(t *testing.T) {
	f := newFake(t)
	enough := make(chan struct{})
	f.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		<-enough
		return f.runEcho(r)
	}
	c := newClient(t, []string{f.addr})
	done := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), echoJob(1))
		done <- err
	}()
	for f.pings.Load() < 3 {
		select {
		case err := <-done:
			t.Fatal("ended early:", err)
		case <-time.After(time.Millisecond):
		}
	}
	close(enough)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestSubmittedJobMovesWithUnfinishedTasks(t *testing.T) {
	a, b := newFake(t), newFake(t)
	var atA, atB *v1.Job
	a.submit = a.keepJob(&atA)
	a.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		if r.Cursor == 0 {
			return eventsAnswer(2, false, echoOutcome(atA, 3), echoOutcome(atA, 1)), nil
		}
		a.crash()
		return nil, errors.New("unheard")
	}
	b.submit = b.keepJob(&atB)
	b.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		if r.Handle.Owner != b.addr || r.Cursor != 0 {
			t.Errorf("asked for %+v", r)
		}
		// Frontend a has already delivered the outcome of task 1.
		return eventsAnswer(3, true, echoOutcome(atA, 1), echoOutcome(atB, 1), echoOutcome(atB, 0),
			echoOutcome(atB, 0)), nil
	}
	c := newClient(t, []string{a.addr, b.addr})
	chooseFirst(c)
	r, err := c.Submit(t.Context(), echoJob(4))
	fence()
	if err != nil {
		t.Fatal(err)
	}
	var order []int
	for o, err := range r.Results() {
		if err != nil || string(o.Result) != fmt.Sprintf("p%d", o.Task) {
			t.Errorf("%+v: %v", o, err)
		}
		order = append(order, o.Task)
	}
	fence()
	if !slices.Equal(order, []int{3, 1, 2, 0}) {
		t.Errorf("delivered %v", order)
	}
	if atB.Id != atA.Id || atB.Resubmission.PreviousOwner != a.addr || len(atB.Tasks) != 2 ||
		atB.Tasks[0].Index != 0 || atB.Tasks[1].Index != 2 {
		t.Errorf("resubmitted as %+v", atB)
	}
	if h := r.Handle(); h.Owner != b.addr {
		t.Error(h)
	}
}

func TestBrokenConnectionIsNotALostOwner(t *testing.T) {
	f := newFake(t)
	var job *v1.Job
	submits := 0
	f.submit = func(r *v1.SubmitRequest) (*v1.SubmitResponse, error) {
		submits++
		return f.keepJob(&job)(r)
	}
	polls := 0
	f.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		polls++
		switch polls {
		case 1:
			return eventsAnswer(1, false, echoOutcome(job, 0)), nil
		case 2:
			f.ln.breakConns()
			return nil, errors.New("unheard")
		}
		if r.Cursor != 1 {
			t.Errorf("asked again from %d", r.Cursor)
		}
		return eventsAnswer(2, true, echoOutcome(job, 1)), nil
	}
	r, err := newClient(t, []string{f.addr}).Submit(t.Context(), echoJob(2))
	fence()
	if err != nil {
		t.Fatal(err)
	}
	outs, err := r.Wait()
	if err != nil {
		t.Fatal(err)
	}
	checkEchoes(t, outs, 2)
	fence()
	if submits != 1 {
		t.Errorf("submitted %d times", submits)
	}
}

func TestOwnerWithoutTheJobIsALostOwner(t *testing.T) {
	for _, why := range []v1.RefusedReason{v1.RefusedReason_UNKNOWN_JOB, v1.RefusedReason_OWNER_LOST,
		v1.RefusedReason_DRAINING} {
		a, b := newFake(t), newFake(t)
		var atA, atB *v1.Job
		a.submit, b.submit = a.keepJob(&atA), b.keepJob(&atB)
		a.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
			return nil, &v1.Refused{Reason: why}
		}
		b.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
			return eventsAnswer(1, true, echoOutcome(atB, 0)), nil
		}
		c := newClient(t, []string{a.addr, b.addr})
		chooseFirst(c)
		r, err := c.Submit(t.Context(), echoJob(1))
		fence()
		if err != nil {
			t.Fatal(err)
		}
		outs, err := r.Wait()
		if err != nil {
			t.Fatal(why, err)
		}
		checkEchoes(t, outs, 1)
		fence()
		if atB.Resubmission.PreviousOwner != a.addr {
			t.Errorf("%v: %+v", why, atB)
		}
	}
}

func TestFrozenOwnerIsFoundOut(t *testing.T) {
	t.Parallel() // mostly waits
	a, b := newFake(t), newFake(t)
	var atA, atB *v1.Job
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	frozen := make(chan struct{})
	a.submit = a.keepJob(&atA)
	a.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		close(frozen)
		<-hang
		return nil, errors.New("unheard")
	}
	b.submit = b.keepJob(&atB)
	b.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		return eventsAnswer(1, true, echoOutcome(atB, 0)), nil
	}
	// In this test the long poll itself runs into its time limit.
	c := newClient(t, []string{a.addr, b.addr}, WithRPCTimeout(3*time.Second), func(c *config) { c.pollFor = 0 })
	chooseFirst(c)
	r, err := c.Submit(t.Context(), echoJob(1))
	fence()
	if err != nil {
		t.Fatal(err)
	}
	<-frozen
	outs, err := r.Wait()
	if err != nil {
		t.Fatal(err)
	}
	checkEchoes(t, outs, 1)
}

func TestEndOfContextCancelsRun(t *testing.T) {
	f := newFake(t)
	ctx, cancel := context.WithCancel(t.Context())
	hang := make(chan struct{})
	var id string
	f.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		id = r.Job.Id
		cancel()
		<-hang
		return nil, errors.New("unheard")
	}
	cancelled := make(chan *v1.CancelRequest, 1)
	f.cancel = func(r *v1.CancelRequest) (*v1.CancelResponse, error) {
		cancelled <- r
		close(hang)
		return &v1.CancelResponse{Cancelled: 2}, nil
	}
	outs, err := newClient(t, []string{f.addr}).Run(ctx, echoJob(2))
	fence()
	var u *UnfinishedError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &u) || !slices.Equal(u.Tasks, []int{0, 1}) ||
		len(outs) != 2 || outs[1].Err != err {
		t.Errorf("%+v: %v", outs, err)
	}
	if r := <-cancelled; r.Handle.Job != id || r.Handle.Owner != f.addr || u.Job != id {
		t.Errorf("cancelled %+v, not %s", r, id)
	}
}

func TestEndOfContextCancelsSubmittedJob(t *testing.T) {
	f := newFake(t)
	var job *v1.Job
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("changed my mind")
	hang := make(chan struct{})
	f.submit = f.keepJob(&job)
	f.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		if r.Cursor == 0 {
			return eventsAnswer(1, false, echoOutcome(job, 1)), nil
		}
		cancel(why)
		<-hang
		return nil, errors.New("unheard")
	}
	f.cancel = func(r *v1.CancelRequest) (*v1.CancelResponse, error) {
		if r.Handle.Job != job.Id || r.Handle.Owner != f.addr {
			t.Errorf("cancelled %+v", r)
		}
		close(hang)
		return &v1.CancelResponse{Cancelled: 1}, nil
	}
	c := newClient(t, []string{f.addr})
	r, err := c.Submit(ctx, echoJob(2))
	fence()
	if err != nil {
		t.Fatal(err)
	}
	var results int
	var last error
	for _, err := range r.Results() {
		results++
		last = err
	}
	var u *UnfinishedError
	if results != 2 || !errors.Is(last, why) || !errors.As(last, &u) || !slices.Equal(u.Tasks, []int{0}) {
		t.Errorf("%d results, then %v", results, last)
	}
	<-hang
}

func TestLoopThatEndsEarlyLeavesTheRest(t *testing.T) {
	f := newFake(t)
	var job *v1.Job
	f.submit = f.keepJob(&job)
	f.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		return eventsAnswer(r.Cursor+1, r.Cursor == 2, echoOutcome(job, int(2-r.Cursor))), nil
	}
	r, err := newClient(t, []string{f.addr}).Submit(t.Context(), echoJob(3))
	fence()
	if err != nil {
		t.Fatal(err)
	}
	for o, err := range r.Results() {
		if o.Task != 2 || err != nil {
			t.Error(o, err)
		}
		break
	}
	outs, err := r.Wait()
	if err != nil {
		t.Fatal(err)
	}
	checkEchoes(t, outs, 2)
	for o := range r.Results() {
		t.Errorf("%+v is handed out twice", o)
	}
}

func TestCancelSubmittedJob(t *testing.T) {
	f := newFake(t)
	var job *v1.Job
	cancelled := make(chan struct{})
	f.submit = f.keepJob(&job)
	f.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		<-cancelled
		return eventsAnswer(1, true, &v1.Outcome{Task: 0, Kind: v1.OutcomeKind_CANCELLED}), nil
	}
	f.cancel = func(r *v1.CancelRequest) (*v1.CancelResponse, error) {
		close(cancelled)
		return &v1.CancelResponse{Cancelled: 1}, nil
	}
	r, err := newClient(t, []string{f.addr}).Submit(t.Context(), echoJob(1))
	fence()
	if err != nil {
		t.Fatal(err)
	}
	if h := r.Handle(); h != (Handle{job.Id, f.addr}) {
		t.Error(h)
	}
	if err := r.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = r.Wait()
	var te *TaskError
	if !errors.As(err, &te) || te.Reason != Cancelled {
		t.Error(err)
	}
}

func TestCancelledJobDoesNotMove(t *testing.T) {
	a, b := newFake(t), newFake(t)
	var job *v1.Job
	a.submit = a.keepJob(&job)
	polled, cancelled := make(chan struct{}), make(chan struct{})
	a.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		close(polled)
		<-cancelled
		a.crash()
		return nil, errors.New("unheard")
	}
	a.cancel = func(r *v1.CancelRequest) (*v1.CancelResponse, error) { return &v1.CancelResponse{Cancelled: 2}, nil }
	c := newClient(t, []string{a.addr, b.addr})
	chooseFirst(c)
	r, err := c.Submit(t.Context(), echoJob(2))
	fence()
	if err != nil {
		t.Fatal(err)
	}
	<-polled
	if err := r.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(cancelled)
	outs, err := r.Wait()
	var te *TaskError
	if len(outs) != 2 || !errors.As(err, &te) || te.Reason != Cancelled {
		t.Errorf("%+v: %v", outs, err)
	}
}

func TestCancelByHandle(t *testing.T) {
	a, b := newFake(t), newFake(t)
	a.cancel = func(r *v1.CancelRequest) (*v1.CancelResponse, error) {
		return nil, &v1.Refused{Reason: v1.RefusedReason_UNKNOWN_JOB, Message: "no such job"}
	}
	b.cancel = a.cancel
	c := newClient(t, []string{a.addr, b.addr})
	if _, err := c.Cancel(t.Context(), Handle{Job: NewJobID()}, "test"); !refusedFor(err, UnknownJob) {
		t.Error(err)
	}
	fence()
	b.cancel = func(r *v1.CancelRequest) (*v1.CancelResponse, error) { return &v1.CancelResponse{Cancelled: 3}, nil }
	fence()
	if n, err := c.Cancel(t.Context(), Handle{Job: NewJobID()}, "test"); n != 3 || err != nil {
		t.Error(n, err)
	}
}

func TestClientGivesUp(t *testing.T) {
	f := newFake(t)
	f.stop()
	c := newClient(t, []string{f.addr}, WithRetryFor(20*time.Millisecond))
	_, err := c.Run(t.Context(), echoJob(2))
	var u *UnfinishedError
	if !errors.As(err, &u) || !slices.Equal(u.Tasks, []int{0, 1}) || !strings.Contains(err.Error(), f.addr) {
		t.Error(err)
	}
}

func TestJobThatBreaksFrontendsIsGivenUp(t *testing.T) {
	f := newFake(t)
	var calls atomic.Int32
	f.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		calls.Add(1)
		f.ln.breakConns()
		return nil, errors.New("unheard")
	}
	f.cancel = func(r *v1.CancelRequest) (*v1.CancelResponse, error) { return &v1.CancelResponse{}, nil }
	// The test does without pings, because a ping's connection would be broken with the rest, and used again.
	withoutPings := func(c *config) { c.pingEvery = time.Hour }
	if !tryLonger(200*time.Millisecond, func(retryFor time.Duration) bool {
		calls.Store(0)
		c := newClient(t, []string{f.addr}, withoutPings, WithRetryFor(retryFor))
		began := time.Now()
		_, err := c.Run(t.Context(), echoJob(1))
		if calls.Load() <= maxLostOwners {
			return false
		}
		if took := time.Since(began); !errors.As(err, new(*UnfinishedError)) || took < retryFor {
			t.Errorf("after %d calls and %v: %v", calls.Load(), took, err)
		}
		return true
	}) {
		t.Errorf("only %d calls", calls.Load())
	}
}

// A long task survives the loss of many owners, one by one.
func TestManyOwnersLostOneByOne(t *testing.T) {
	var addrs []string
	for range maxLostOwners + 2 {
		f := newFake(t)
		var job *v1.Job
		f.submit = f.keepJob(&job)
		f.events = func(*v1.EventsRequest) (*v1.EventsResponse, error) {
			if job.Resubmission == nil || job.Resubmission.Count <= maxLostOwners {
				f.crash()
				return nil, errors.New("unheard")
			}
			return eventsAnswer(1, true, echoOutcome(job, 0)), nil
		}
		addrs = append(addrs, f.addr)
	}
	c := newClient(t, addrs, func(c *config) { c.pingEvery = time.Hour })
	r, err := c.Submit(t.Context(), echoJob(1))
	if err != nil {
		t.Fatal(err)
	}
	outs, err := r.Wait()
	if err != nil {
		t.Fatal(err)
	}
	checkEchoes(t, outs, 1)
}

func TestErrorOfTheFrontendItself(t *testing.T) {
	f := newFake(t)
	calls := 0
	f.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		calls++
		return nil, errors.New("disk on fire")
	}
	f.cancel = func(r *v1.CancelRequest) (*v1.CancelResponse, error) { return &v1.CancelResponse{}, nil }
	_, err := newClient(t, []string{f.addr}).Run(t.Context(), echoJob(1))
	fence()
	var u *UnfinishedError
	if !errors.As(err, &u) || !strings.Contains(err.Error(), "disk on fire") || calls != 1 {
		t.Errorf("after %d calls: %v", calls, err)
	}
}

func TestLargeJobIsSubmitted(t *testing.T) {
	f := newFake(t)
	var job *v1.Job
	f.submit = f.keepJob(&job)
	f.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		resp := eventsAnswer(r.Cursor+100, false)
		for i := r.Cursor; i < min(r.Cursor+100, int64(len(job.Tasks))); i++ {
			resp.Events = append(resp.Events, &v1.Event{Outcome: echoOutcome(job, int(i))})
		}
		resp.Done = int(r.Cursor)+100 >= len(job.Tasks)
		return resp, nil
	}
	c := newClient(t, []string{f.addr})
	outs, err := c.Run(t.Context(), echoJob(maxRunTasks+1))
	if err != nil {
		t.Fatal(err)
	}
	checkEchoes(t, outs, maxRunTasks+1)

	large := Job{Tasks: []Task{{Payload: make([]byte, 8<<20)}}}
	if outs, err := c.Run(t.Context(), large); err != nil || len(outs[0].Result) != 8<<20 {
		t.Error(len(outs), err)
	}
	large.Tasks[0].Payload = make([]byte, maxRequest+1)
	if _, err := c.Run(t.Context(), large); !refusedFor(err, TooLarge) {
		t.Error(err)
	}
}

func TestCloseEndsCalls(t *testing.T) {
	f := newFake(t)
	var job *v1.Job
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	started := make(chan struct{}, 2)
	f.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		started <- struct{}{}
		<-hang
		return nil, errors.New("unheard")
	}
	f.submit = f.keepJob(&job)
	f.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		started <- struct{}{}
		<-hang
		return nil, errors.New("unheard")
	}
	var cancels atomic.Int32
	f.cancel = func(r *v1.CancelRequest) (*v1.CancelResponse, error) {
		cancels.Add(1)
		return &v1.CancelResponse{}, nil
	}
	c := newClient(t, []string{f.addr})
	r, err := c.Submit(t.Context(), echoJob(1))
	fence()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), echoJob(1))
		done <- err
	}()
	<-started
	<-started
	c.Close()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Error("Run:", err)
	}
	if _, err := r.Wait(); !errors.Is(err, ErrClosed) {
		t.Error("Wait:", err)
	}
	if n := cancels.Load(); n != 2 {
		t.Errorf("%d jobs were cancelled", n)
	}
	if _, err := c.Run(t.Context(), echoJob(1)); err != ErrClosed {
		t.Error("after Close:", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestWorkers(t *testing.T) {
	a, b := newFake(t), newFake(t)
	a.stop()
	b.cluster = func(r *v1.ClusterRequest) (*v1.ClusterResponse, error) {
		return &v1.ClusterResponse{Frontend: "f1", Address: b.addr, Version: "v",
			Workers: []*v1.WorkerStatus{
				{Name: "w1", State: "up", Capacity: &v1.Demand{CpuMillicores: 4000, MemoryMib: 1024}, Running: 3},
			}}, nil
	}
	c := newClient(t, []string{a.addr, b.addr})
	chooseFirst(c)
	got, err := c.Workers(t.Context())
	if err != nil || len(got) != 1 || got[0].Name != "w1" || got[0].State != "up" ||
		got[0].Capacity != (Demand{4000, 1024}) || got[0].Running != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestNewNamesEveryMistake(t *testing.T) {
	_, err := New([]string{"nowhere", "a:1", "a:1"}, WithRPCTimeout(-1), WithBackoff(2, 1), WithLogger(nil))
	for _, want := range []string{"nowhere", "twice", "timeouts", "backoff", "logger"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %s: %v", want, err)
		}
	}
	if _, err := New(nil); err == nil {
		t.Error("a client without frontends")
	}
}

func TestNewJobsGoToTheLeastBusyFrontend(t *testing.T) {
	a, b := newFake(t), newFake(t)
	hang := make(chan struct{})
	entered := make(chan struct{})
	a.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		close(entered)
		<-hang
		return a.runEcho(r)
	}
	b.run = b.runEcho
	c := newClient(t, []string{a.addr, b.addr})
	chooseFirst(c)
	done := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), echoJob(1))
		done <- err
	}()
	<-entered
	for range 5 {
		if _, err := c.Run(t.Context(), echoJob(1)); err != nil {
			t.Fatal(err)
		}
	}
	close(hang)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestNameOfAnOwner(t *testing.T) {
	f := newFake(t)
	f.greeting = func() *v1.ClusterResponse { return &v1.ClusterResponse{Address: "its-name"} }
	var second v1.Resubmission
	f.run = func(r *v1.RunRequest) (*v1.RunResponse, error) {
		resp, err := f.runEcho(r)
		if r.Job.Resubmission == nil {
			resp.Outcomes = nil
		} else {
			second = *r.Job.Resubmission
		}
		return resp, err
	}
	c := newClient(t, []string{f.addr})
	if _, err := c.Run(t.Context(), echoJob(1)); err != nil {
		t.Fatal(err)
	}
	fence()
	if second.PreviousOwner != "its-name" {
		t.Errorf("%+v", second)
	}
}

func TestBackoffGrowsUntilAnAnswer(t *testing.T) {
	cfg := defaultConfig()
	cfg.backoffMin, cfg.backoffMax = time.Minute, 4*time.Minute
	f := &frontend{cfg: &cfg}
	for i, want := range []time.Duration{1, 2, 4, 4} {
		f.aloneUntil = time.Time{}
		f.noteFailed(io.EOF)
		_, til := f.loadAndPause()
		f.noteFailed(io.EOF) // a failure during the pause changes nothing
		if _, again := f.loadAndPause(); again != til {
			t.Error("left alone for longer by a failure in the meantime")
		}
		if d := time.Until(til); d > want*time.Minute || d < want*time.Minute/2-time.Second {
			t.Errorf("failure %d: left alone for %v, not %d min", i, d, want)
		}
	}
	f.noteAnswered()
	if f.failures != 0 || !f.aloneUntil.IsZero() {
		t.Error("an answer does not end the pause")
	}
}

func TestIdleConnectionThatThePeerClosedIsNotUsed(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	accept := make(chan net.Conn, 2)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				close(accept)
				return
			}
			accept <- c
		}
	}()
	p := newPool(ln.Addr().String(), time.Second, nil)
	defer p.abort(ErrClosed)
	get := func() *conn {
		t.Helper()
		cl := &call{ctx: context.Background()}
		c, err := p.getConn(cl)
		if err != nil {
			t.Fatal(err)
		}
		c.call = cl
		return c
	}
	c := get()
	peer := <-accept
	p.putConn(c)
	c.idleSince = time.Now().Add(-2 * trustFor)
	if again := get(); again != c {
		t.Error("a living connection was not used again")
	}
	peer.Close()
	if n, err := c.Conn.Read(make([]byte, 1)); err != io.EOF { // wait for the FIN
		t.Fatal(n, err)
	}
	p.putConn(c)
	c.idleSince = time.Now().Add(-2 * trustFor)
	if again := get(); again == c {
		t.Error("a connection that the peer closed was used again")
	}
	(<-accept).Close()
}

func TestMicrosRoundsUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, 1000: 1, 1001: 2, time.Second: 1e6, -1: -1, -1500: -2} {
		if got := toMicros(d); got != want {
			t.Errorf("%d ns: %d us, not %d", d, got, want)
		}
	}
}

func TestErrorTexts(t *testing.T) {
	for want, err := range map[string]error{
		"refused (too large): payload of 9 MiB": &RefusedError{Reason: TooLarge, Message: "payload of 9 MiB"},
		"task 3: task error: boom (attempt 2, on w)": &TaskError{
			Task: 3, Reason: Failed, Message: "boom", Worker: "w", Attempts: 2,
		},
		"task 0: cancelled": &TaskError{Reason: Cancelled},
		"job J: 12 unfinished tasks [0 1 2 3 4 5 6 7 8 9 ...]: " + os.ErrDeadlineExceeded.Error(): &UnfinishedError{
			Job: "J", Tasks: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, Err: os.ErrDeadlineExceeded},
	} {
		if err.Error() != want {
			t.Errorf("%q, not %q", err, want)
		}
	}
}
