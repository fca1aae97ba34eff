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
	roster    atomic.Pointer[roster]
	processes *processes
	nextStart atomic.Uint32 // where the choice of a frontend begins

	closing    chan struct{}
	background sync.WaitGroup // calls of the API, and what they have started

	mu      sync.Mutex // held to change roster
	closed  bool
	retired []*frontend // that were on it, and may still be asked about jobs
}

// New makes a client for the frontends at these addresses, HOST:PORT each, dns:HOST:PORT for all addresses of a host, or
// srv:_phoebe._tcp.NAME for those of a service record: both are looked up again and again. It connects to none of them yet.
//
// One address is enough: frontends that gossip tell of each other, and where none of the given ones can be reached the others
// are asked. An address may be that of a load balancer, see WithLoadBalancerOnly. A frontend behind it that hangs is found out if
// the others know it, by gossip or as a peer.
func New(frontends []string, opts ...Option) (*Client, error) {
	c := &Client{cfg: defaultConfig(), processes: &processes{byName: map[string]*process{}}, closing: make(chan struct{})}
	for _, o := range opts {
		o(&c.cfg)
	}
	if err := c.cfg.validate(frontends); err != nil {
		return nil, err
	}
	if err := c.cfg.readKeyFiles(); err != nil {
		return nil, err
	}
	c.watchKeys()
	c.roster.Store(&roster{})
	if !c.cfg.balancerOnly {
		c.processes.onMembers = c.noteMembers
	}
	if err := c.followSeeds(frontends); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// readKeyFiles reads the files with keys and secrets.
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

// watchKeys takes in what changes in those files, until the client is closed.
func (c *Client) watchKeys() {
	ctx, cancel := context.WithCancel(context.Background())
	warnUnusable := func(err error) {
		if err != nil {
			c.cfg.log.Warn("new keys are no use: the old ones stay", "err", err)
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

// wireCaller is who calls; nil: nobody in particular.
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
			errs = append(errs, fmt.Errorf("frontend %q is named twice", addr))
		}
	}
	if c.log == nil {
		errs = append(errs, errors.New("the logger is nil"))
	}
	if c.rpcTimeout <= 0 || c.connectTimeout <= 0 || c.retryFor <= 0 {
		errs = append(errs, errors.New("timeouts must be positive"))
	}
	if c.backoffMin <= 0 || c.backoffMax < c.backoffMin {
		errs = append(errs, fmt.Errorf("backoff from %v to %v: both must be positive, in this order", c.backoffMin, c.backoffMax))
	}
	return errors.Join(errs...)
}

// Close cancels the jobs that are under way, as far as their frontends can be reached within a second, waits
// for the calls of other goroutines to return (with ErrClosed), and closes the connections.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	close(c.closing)
	c.mu.Unlock()
	for _, f := range slices.Concat(c.roster.Load().allFrontends(), c.retired) {
		f.pool.abort(ErrClosed)
	}
	c.background.Wait()
	for _, f := range slices.Concat(c.roster.Load().allFrontends(), c.retired) {
		f.pool.abort(ErrClosed) // the connections of the parting calls
	}
	return nil
}

// holdOpen holds Close up until c.background.Done; it fails if the client is closed.
func (c *Client) holdOpen() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.background.Add(1)
	return nil
}

// Run runs a job and waits for it. It returns one outcome for each task, in the order of job.Tasks. The
// error is nil only if every task has a result; if not, it is the first failed task's *TaskError, or one
// that concerns the whole job: *RefusedError, *UnfinishedError or ErrClosed. When ctx ends, Run returns an
// *UnfinishedError at once, and the job is cancelled at its frontend.
//
// A small job takes a single call. One of more than 512 tasks, of more than 1 MiB of payloads or with an
// estimate of a second or more goes by way of Submit, because a large or late answer is better had in parts, as does one
// with tasks that may start only once, of which frontend and workers remember what they did until it has arrived. So does
// one whose call was cut off, such as by a balancer to which it was silent for too long.
// Results of more than 64 MiB together are too many for one call: Submit such a job.
func (c *Client) Run(ctx context.Context, job Job) (outs []Outcome, err error) {
	if job.Open {
		return nil, &RefusedError{Reason: Invalid, Message: "job.open: Run waits for its end, use Submit"}
	}
	if isLarge(&job) {
		r, err := c.Submit(ctx, job)
		if err != nil {
			return nil, err
		}
		return r.Wait()
	}
	if err := c.holdOpen(); err != nil {
		return nil, err
	}
	defer c.background.Done()
	ctx, end := c.startSpan(ctx, "phoebe.Run", &job)
	defer func() { end(err) }()
	s, err := c.newSession(ctx, job)
	if err != nil {
		return nil, err
	}
	outs = make([]Outcome, len(job.Tasks))
	return finishRun(outs, s, s.runJob(ctx, outs))
}

// finishRun completes outs, ordered by task, with what the client does not know, and picks Run's error.
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

// Submit hands a job over and returns as soon as a frontend has accepted it. ctx is the job's: when it
// ends, the job is cancelled.
func (c *Client) Submit(ctx context.Context, job Job) (*Running, error) {
	if err := c.holdOpen(); err != nil {
		return nil, err
	}
	defer c.background.Done()
	ctx, end := c.startSpan(ctx, "phoebe.Submit", &job)
	s, err := c.newSession(ctx, job)
	if err == nil {
		err = s.submitJob(ctx)
	}
	if err != nil {
		end(err)
		return nil, err
	}
	r := newRunning(s)
	r.onEnd = end
	r.publishOwner()
	c.background.Go(func() { r.poll(ctx) })
	return r, nil
}
