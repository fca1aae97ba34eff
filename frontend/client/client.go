package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe/identity"
	"github.com/phoebe-sched/phoebe/probe/names"
)

// Client runs jobs on a cluster. It is safe for concurrent use; a program needs one.
type Client struct {
	cfg       config
	runner    Runner // the middleware around directRunner
	roster    atomic.Pointer[roster]
	processes *processes
	nextStart atomic.Uint32 // index from which the next choice of a frontend starts, modulo the number of seeds

	lookedUp  chan struct{}         // closed after the first lookup of the names among the given addresses
	lookupErr atomic.Pointer[error] // of the last failed lookup; nil: no lookup has failed

	closing    chan struct{}
	finished   chan struct{}  // closed at the end of Close
	background sync.WaitGroup // API calls, and goroutines started by them

	mu      sync.Mutex // held to change roster
	closed  bool
	retired []*frontend // no longer on roster, but may still be asked about jobs
}

// New makes a client for the frontends at the given addresses. New does not connect yet. An address has one of
// three forms: HOST:PORT; dns:HOST:PORT for all addresses of a host; or srv:_phoebe._tcp.NAME for all targets of a
// service record. The client looks up the last two forms again and again.
//
// One address is enough: frontends that gossip name each other, and if no given address can be reached, the client
// asks the named frontends. An address may lead to a load balancer; see WithLoadBalancerOnly. The client finds out that
// a frontend behind the balancer hangs if the other frontends know the hanging one, by gossip or as a peer.
func New(frontends []string, opts ...Option) (*Client, error) {
	c := &Client{
		cfg: defaultConfig(), processes: &processes{byName: map[string]*process{}}, lookedUp: make(chan struct{}),
		closing: make(chan struct{}), finished: make(chan struct{}),
	}
	for _, o := range opts {
		o(&c.cfg)
	}
	if err := c.cfg.validate(frontends); err != nil {
		return nil, err
	}
	if err := c.cfg.readKeyFiles(); err != nil {
		return nil, err
	}
	c.runner = directRunner{c}
	for _, m := range slices.Backward(c.cfg.middleware) {
		c.runner = m(c.runner)
	}
	c.watchKeys()
	c.roster.Store(&roster{})
	if !c.cfg.balancerOnly {
		c.processes.onMembers = c.noteMembers
	}
	c.followSeeds(frontends)
	return c, nil
}

// readKeyFiles reads the files with keys, secret and token that the options name.
func (c *config) readKeyFiles() (err error) {
	if c.tlsDir != "" {
		if c.keys, err = identity.Open(c.tlsDir); err == nil {
			err = c.keys.Check(identity.Client | identity.Frontend | identity.Operator)
		}
		if err != nil {
			return err
		}
	}
	if c.secretFile != "" {
		if c.secrets, err = identity.OpenSecrets(c.secretFile); err != nil {
			return err
		}
	}
	if c.tokenFile != "" {
		c.tokens, err = identity.OpenSecrets(c.tokenFile)
	}
	return err
}

// watchKeys reloads the files of readKeyFiles when they change, until the client is closed. If a new file is
// unusable, the old content stays in use.
func (c *Client) watchKeys() {
	ctx, cancel := context.WithCancel(context.Background())
	warnUnusable := func(err error) {
		if err != nil {
			c.cfg.log.Warn("new keys are unusable: the old keys stay in use", "err", err)
		}
	}
	c.background.Go(func() {
		<-c.closing
		cancel()
	})
	c.background.Go(func() { c.cfg.keys.Watch(ctx, warnUnusable) })
	c.background.Go(func() { c.cfg.secrets.Watch(ctx, warnUnusable) })
	c.background.Go(func() { c.cfg.tokens.Watch(ctx, warnUnusable) })
}

// wireCaller returns the Caller of each request: the token, or else the secret, and the name of WithName. If the
// client has none, wireCaller returns nil.
func (c *config) wireCaller() *v1.Caller {
	secret := cmp.Or(c.tokens.Tell(), c.secrets.Tell())
	if secret == "" && c.name == "" {
		return nil
	}
	caller := &v1.Caller{}
	if secret != "" {
		caller.Secret = &secret
	}
	if c.name != "" {
		caller.Name = &c.name
	}
	return caller
}

// validate returns all mistakes in the options and addresses, joined.
func (c *config) validate(frontends []string) error {
	var errs []error
	if len(frontends) == 0 {
		errs = append(errs, errors.New("no frontend: name at least one, as HOST:PORT"))
	}
	for i, addr := range frontends {
		if err := names.Check(addr); err != nil {
			errs = append(errs, fmt.Errorf("frontend %w", err))
		}
		if slices.Contains(frontends[:i], addr) {
			errs = append(errs, fmt.Errorf("frontend %q is named twice: name it once", addr))
		}
	}
	if c.log == nil {
		errs = append(errs, errors.New("the logger is nil: leave WithLogger out to log nothing"))
	}
	if c.rpcTimeout <= 0 || c.connectTimeout <= 0 || c.retryFor <= 0 {
		errs = append(errs, errors.New("timeouts must be positive"))
	}
	if c.backoffMin <= 0 || c.backoffMax < c.backoffMin {
		errs = append(errs, fmt.Errorf("backoff from %v to %v: both times must be positive, the shorter one first",
			c.backoffMin, c.backoffMax))
	}
	return errors.Join(errs...)
}

// Close cancels the running jobs whose frontends can be reached within a second, waits until the calls of other
// goroutines return (with ErrClosed), and closes the connections. A second Close only waits for the first.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		<-c.finished
		return nil
	}
	defer close(c.finished)
	c.closed = true
	close(c.closing)
	c.mu.Unlock()
	for _, f := range slices.Concat(c.roster.Load().allFrontends(), c.retired) {
		f.pool.abort(ErrClosed)
	}
	c.background.Wait()
	for _, f := range slices.Concat(c.roster.Load().allFrontends(), c.retired) {
		f.pool.abort(ErrClosed) // closes the connections of the parting calls
	}
	return nil
}

// holdOpen makes Close wait until the caller calls c.background.Done. If the client is closed, or ctx is nil, holdOpen
// returns an error, and the caller must not call Done.
func (c *Client) holdOpen(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.background.Add(1)
	return nil
}

// Run runs a job and waits for its end. Run returns one outcome for each task, in the order of job.Tasks. The error is
// nil only if every task has a result. Otherwise the error is the first failed task's *TaskError, or an error of the
// whole job: *RefusedError, *UnfinishedError or ErrClosed. When ctx ends, Run returns an *UnfinishedError at once, and
// the client cancels the job at its frontend.
//
// A small job takes a single RPC. Run submits the job instead, as Submit does, in these cases:
//
//   - The job has more than 512 tasks or 1 MiB of payloads, or a task with an Estimate of a second or more. A large or
//     late answer is better fetched in parts.
//   - The job has stages, a Key or Grace, or is in EstimateMode.
//   - The client stores outcomes (WithStore). The answer to a single RPC would count as acknowledged at once.
//   - A task is Once. Frontend and workers remember the result of a Once task until the client confirms its arrival.
//   - The RPC was cut off, for instance by a balancer that closes silent connections.
//   - A frontend takes no more connections. Submitted jobs take turns on the open connections.
//
// A single RPC can carry 64 MiB of results: Submit a job with more.
func (c *Client) Run(ctx context.Context, job Job) ([]Outcome, error) { return c.runner.Run(ctx, job) }

// Submit submits a job, and returns as soon as a frontend has accepted the job. ctx stays the job's context: when ctx
// ends, the job is cancelled.
func (c *Client) Submit(ctx context.Context, job Job) (*Running, error) {
	return c.runner.Submit(ctx, job)
}

// Runner runs jobs. A Client is a Runner, and so is each Middleware.
type Runner interface {
	Run(ctx context.Context, job Job) ([]Outcome, error)
	Submit(ctx context.Context, job Job) (*Running, error)
}

// Middleware returns a Runner that replaces next. Normally it calls next. See WithMiddleware.
type Middleware func(next Runner) Runner

// directRunner is the innermost Runner of a client: it runs jobs at the frontends.
type directRunner struct{ c *Client }

// Run is Client.Run without middleware.
func (d directRunner) Run(ctx context.Context, job Job) (outs []Outcome, err error) {
	c := d.c
	if job.Open {
		return nil, &RefusedError{Reason: Invalid, Message: "job.open: Run waits for its end, use Submit"}
	}
	if err := c.holdOpen(ctx); err != nil {
		return nil, err
	}
	defer c.background.Done()
	ctx, end := c.startSpan(ctx, "phoebe.Run", &job)
	defer func() { end(err) }()
	if isLarge(&job) || c.isCrowded() || c.cfg.store != nil { // a single call would acknowledge by itself
		r, err := c.startJob(ctx, job, func(error) {})
		if err != nil {
			return nil, err
		}
		return r.Wait()
	}
	s, err := c.newSession(ctx, job)
	if err != nil {
		return nil, err
	}
	outs = make([]Outcome, len(job.Tasks))
	return finishRun(outs, s, s.runJob(ctx, outs))
}

// isCrowded reports whether a frontend took no further connection a moment ago.
func (c *Client) isCrowded() bool {
	return slices.ContainsFunc(c.roster.Load().allFrontends(), func(f *frontend) bool { return f.pool.isCrowded() })
}

// finishRun marks in outs, ordered by task, the tasks that the client gave up, and picks Run's error.
func finishRun(outs []Outcome, s *session, err error) ([]Outcome, error) {
	var unfinished *UnfinishedError
	switch {
	case errors.As(err, &unfinished):
		for _, i := range unfinished.Tasks {
			outs[i] = Outcome{Task: i, Err: err}
		}
		return outs, err
	case err != nil:
		return nil, err
	}
	if s.failed {
		for i := range outs {
			if outs[i].Err != nil {
				return outs, outs[i].Err
			}
		}
	}
	return outs, nil
}

// Submit is Client.Submit without middleware.
func (d directRunner) Submit(ctx context.Context, job Job) (*Running, error) {
	c := d.c
	if err := c.holdOpen(ctx); err != nil {
		return nil, err
	}
	defer c.background.Done()
	ctx, end := c.startSpan(ctx, "phoebe.Submit", &job)
	r, err := c.startJob(ctx, job, end)
	if err != nil {
		end(err)
		return nil, err
	}
	return r, nil
}

// startJob submits a job, and follows the job in the background. At the job's end, onEnd gets the job's error. If
// startJob returns an error, onEnd is not called.
func (c *Client) startJob(ctx context.Context, job Job, onEnd func(error)) (*Running, error) {
	s, err := c.newSession(ctx, job)
	if err == nil && (s.unfinished > 0 || len(job.Stored) == 0 || job.Open) {
		err = s.submitJob(ctx)
	}
	if err != nil {
		return nil, err
	}
	return startRunning(ctx, s, onEnd, (*Running).poll), nil
}
