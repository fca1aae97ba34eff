package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"github.com/cloudwego/gopkg/protocol/thrift"
	kitex "github.com/cloudwego/kitex/client"
	"github.com/cloudwego/kitex/pkg/discovery"
	"github.com/cloudwego/kitex/pkg/proxy"
	"github.com/cloudwego/kitex/pkg/remote/trans/gonet"
	"github.com/cloudwego/kitex/pkg/rpcinfo"
	"github.com/cloudwego/kitex/pkg/rpcinfo/remoteinfo"
	"github.com/cloudwego/kitex/transport"

	"github.com/phoebe-sched/phoebe/frontend/frame"
	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1/phoebe"
)

// maxAnswer bounds what an answer may make us allocate; frontends stay far below it.
const maxAnswer = 1 << 30

// errSilent ends the calls to a frontend that owes answers and gives no sign of life.
var errSilent = errors.New("it gives no sign of life")

// callError is a call that got no answer, or one that is no use.
type callError struct {
	addr string
	err  error
	// sent: the frontend may have received and carried out the call.
	sent bool
	// alone: the connection broke by itself, which need not mean that the frontend is gone.
	alone bool
	// answered: the frontend lives, but made an error of its own.
	answered bool
}

func (e *callError) Error() string { return fmt.Sprintf("frontend %s: %v", e.addr, e.err) }
func (e *callError) Unwrap() error { return e.err }

// frontend is what the client knows of one frontend. Safe for concurrent use.
type frontend struct {
	addr   string
	cfg    *config
	caller *v1.Caller
	rpc    phoebe.Client
	pool   *pool

	background *sync.WaitGroup // the client's; Add only during a call
	closing    <-chan struct{}

	mu       sync.Mutex
	name     string // by which handles call it as an owner; its address until heard
	calls    int    // without an answer yet
	answers  uint64
	watched  bool      // watch runs
	failures int       // since the last answer, at most one in each time that it is left alone
	aloneTil time.Time // leave it alone until then if there is another one
	awayTil  time.Time // the same, since it said that it leaves
}

func newFrontend(addr string, cfg *config, caller *v1.Caller, background *sync.WaitGroup, closing <-chan struct{}) (*frontend, error) {
	f := &frontend{
		addr: addr, name: addr, cfg: cfg, caller: caller, pool: newPool(addr, cfg.connectTimeout, cfg.keys),
		background: background, closing: closing,
	}
	rpc, err := phoebe.NewClient("phoebe",
		// Measured on loopback against Kitex's netpoll and multiplexed transports: this one has the lowest
		// latency and CPU for sequential calls, and does not hinder the throughput of concurrent ones.
		kitex.WithTransHandlerFactory(gonet.NewCliTransHandlerFactory()),
		kitex.WithTransportProtocol(transport.Framed),
		kitex.WithConnPool(f.pool),
		kitex.WithCodec(frame.Codec(maxAnswer)),
		kitex.WithProxy(&address{discovery.NewInstance("tcp", addr, discovery.DefaultWeight, nil)}),
	)
	if err != nil {
		return nil, fmt.Errorf("client for frontend %s: %w", addr, err)
	}
	f.rpc = rpc
	return f, nil
}

// address takes the place of Kitex's service discovery, which would run goroutines for ever, look the name
// up only once, and make calls whose connection failed a second time.
type address struct{ to discovery.Instance }

func (a *address) Configure(*proxy.Config) error { return nil }

func (a *address) ResolveProxyInstance(ctx context.Context) error {
	remoteinfo.AsRemoteInfo(rpcinfo.GetRPCInfo(ctx).To()).SetInstance(a.to)
	return nil
}

// do makes one call. It returns nil, a *RefusedError, a *callError or, if ctx ended it, a *callError with
// the context's cause.
func (f *frontend) do(ctx context.Context, cl *call, timeout time.Duration, rpc func(context.Context) error) error {
	cl.ctx = ctx
	if timeout > 0 {
		cl.deadline = time.Now().Add(timeout)
	}
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, cl.end)()
	}
	f.begin()
	err := rpc(cl)
	if err == nil {
		f.answered()
		return nil
	}
	var refused *v1.Refused
	if errors.As(err, &refused) {
		f.answered()
		return &RefusedError{RefusedReason(refused.Reason), refused.Message, fromMicros(refused.RetryAfterUs)}
	}
	fail := &callError{addr: f.addr, err: err}
	var own *thrift.ApplicationException // what a Thrift server says for what it did not expect
	if errors.As(err, &own) {
		f.answered()
		fail.sent, fail.answered, fail.err = true, true, own
		return fail
	}
	cl.mu.Lock()
	fail.sent = cl.sent
	ended, cause := cl.ended, cl.cause
	cl.mu.Unlock()
	if cause != nil {
		fail.err = cause
	}
	switch {
	case ended:
		fail.err = context.Cause(ctx)
		f.gaveUp()
		return fail
	case errors.Is(fail.err, ErrClosed):
		fail.err = ErrClosed
		f.gaveUp()
		return fail
	case cause != nil:
	case isTimeout(err):
		fail.err = fmt.Errorf("no answer within %v: %w", timeout, os.ErrDeadlineExceeded)
	default:
		fail.alone = fail.sent
	}
	if fail.sent {
		f.pool.dropIdle()
	}
	f.failed(fail)
	return fail
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &ne) && ne.Timeout()
}

func (f *frontend) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if !f.watched {
		f.watched = true
		f.background.Go(f.watch)
	}
}

func (f *frontend) answered() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls--
	f.answers++
	f.failures, f.aloneTil = 0, time.Time{}
}

func (f *frontend) gaveUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls--
}

func (f *frontend) failed(err error) {
	f.mu.Lock()
	f.calls--
	now := time.Now()
	first := f.failures == 0
	if !now.Before(f.aloneTil) { // else it is known
		f.aloneTil = now.Add(f.cfg.backoff(f.failures))
		f.failures++
	}
	f.mu.Unlock()
	if first {
		f.cfg.log.Warn("frontend does not answer", "frontend", f.addr, "err", err)
	}
}

// backoff is how long to wait after a number of earlier failures: half of it certain, half by chance.
func (c *config) backoff(failures int) time.Duration {
	d := c.backoffMin
	for i := 0; i < failures && d < c.backoffMax; i++ {
		d *= 2
	}
	d = min(d, c.backoffMax)
	return d/2 + rand.N(d/2+1)
}

// leaves has all jobs leave f alone for d: a call that comes when it goes could be taken for one that it got.
func (f *frontend) leaves(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.awayTil = time.Now().Add(d)
}

// state is what the choice between frontends goes by.
func (f *frontend) state() (calls int, aloneTil time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.awayTil.After(f.aloneTil) {
		return f.calls, f.awayTil
	}
	return f.calls, f.aloneTil
}

// owner is the name for a handle: by default, the address.
func (f *frontend) owner() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.name
}

func (f *frontend) setName(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.name != name {
		f.name = name
	}
}

// watch looks after the calls that have no answer yet, while there are any: some, like Run, may rightly take
// for ever. A frontend that answered nothing for pingEvery is asked for a sign of life, on another
// connection; if there is none within pingTimeout, every call to it ends: by default, no later than 4 s after
// it hangs.
func (f *frontend) watch() {
	tick := time.NewTicker(f.cfg.pingEvery)
	defer tick.Stop()
	f.mu.Lock()
	heard := f.answers
	f.mu.Unlock()
	for {
		select {
		case <-tick.C:
		case <-f.closing:
			return
		}
		f.mu.Lock()
		if f.calls == 0 {
			f.watched = false
			f.mu.Unlock()
			return
		}
		silent := f.answers == heard
		f.mu.Unlock()
		if silent {
			f.ping()
		}
		f.mu.Lock()
		heard = f.answers
		f.mu.Unlock()
	}
}

// noJob is the id of no job.
const noJob = "00000000000000000000000000"

func (f *frontend) ping() {
	cl := &call{}
	// Any answer will do; this one costs the frontend least.
	err := f.do(context.Background(), cl, f.cfg.pingTimeout, func(ctx context.Context) error {
		_, err := f.rpc.Events(ctx, &v1.EventsRequest{Caller: f.caller, Handle: &v1.Handle{Job: noJob}})
		return err
	})
	// A refused connection is no proof: a frontend that leaves closes its listener first.
	if errors.Is(err, os.ErrDeadlineExceeded) {
		f.pool.kill(errSilent)
	}
}
