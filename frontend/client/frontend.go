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
	brokeAlone bool
	// answered: the frontend lives, but made an error of its own.
	answered bool
}

func (e *callError) Error() string { return fmt.Sprintf("frontend %s: %v", e.addr, e.err) }
func (e *callError) Unwrap() error { return e.err }

// frontend is what the client knows of an address that leads to a frontend, or, behind a balancer, to one of several. Safe
// for concurrent use.
type frontend struct {
	addr      string
	cfg       *config
	rpc       phoebe.Client
	pool      *pool
	processes *processes

	background *sync.WaitGroup // the client's; Add only during a call
	closing    <-chan struct{}

	mu         sync.Mutex
	openCalls  int       // without an answer yet
	watching   bool      // watch runs
	failures   int       // since the last answer, at most one in each time that it is left alone
	aloneUntil time.Time // leave it alone until then if there is another one
	awayUntil  time.Time // the same, since it said that it leaves
	usedAt     time.Time // when a call last began
}

func newFrontend(addr string, cfg *config, known *processes, background *sync.WaitGroup, closing <-chan struct{}) (*frontend, error) {
	f := &frontend{
		addr: addr, cfg: cfg, processes: known, pool: newPool(addr, cfg.connectTimeout, cfg.keys),
		background: background, closing: closing,
	}
	rpc, err := phoebe.NewClient("phoebe",
		// Measured on loopback against Kitex's netpoll and multiplexed transports: this one has the lowest
		// latency and CPU for sequential calls, and does not hinder the throughput of concurrent ones.
		kitex.WithTransHandlerFactory(gonet.NewCliTransHandlerFactory()),
		kitex.WithTransportProtocol(transport.Framed),
		kitex.WithConnPool(f.pool),
		kitex.WithCodec(frame.Codec(maxAnswer)),
		kitex.WithProxy(&fixedAddress{discovery.NewInstance("tcp", addr, discovery.DefaultWeight, nil)}),
	)
	if err != nil {
		return nil, fmt.Errorf("client for frontend %s: %w", addr, err)
	}
	f.rpc = rpc
	f.pool.identify = f.identifyPeer
	f.pool.sendsToken = cfg.tokens.Tell() != ""
	return f, nil
}

// fixedAddress takes the place of Kitex's service discovery, which would run goroutines for ever, look the name
// up only once, and make calls whose connection failed a second time.
type fixedAddress struct{ instance discovery.Instance }

func (a *fixedAddress) Configure(*proxy.Config) error { return nil }

func (a *fixedAddress) ResolveProxyInstance(ctx context.Context) error {
	remoteinfo.AsRemoteInfo(rpcinfo.GetRPCInfo(ctx).To()).SetInstance(a.instance)
	return nil
}

// identifyPeer asks who is behind a new connection. An error means that nobody there gives a sign of life.
func (f *frontend) identifyPeer(ctx context.Context, c *conn) (*process, error) {
	cl := &call{ctx: ctx, onlyConn: c, deadline: time.Now().Add(f.cfg.pingTimeout)}
	defer context.AfterFunc(ctx, cl.endCall)()
	resp, err := f.rpc.Cluster(cl, &v1.ClusterRequest{Caller: f.cfg.wireCaller(), FrontendsOnly: true})
	switch {
	case err == nil && resp != nil && resp.Address != "":
		return f.processes.noteGreeting(resp), nil
	case err == nil || isAnswer(err): // it does not tell, but lives
		return f.processes.findOrAdd(f.addr), nil
	case isTimeout(err), errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("it gives no sign of life within %v: %w", f.cfg.pingTimeout, os.ErrDeadlineExceeded)
	}
	return nil, err
}

// makeCall makes one call. It returns nil, a *RefusedError, a *callError or, if ctx ended it, a *callError with
// the context's cause.
func (f *frontend) makeCall(ctx context.Context, cl *call, timeout time.Duration, rpc func(context.Context) error) error {
	cl.ctx = ctx
	if timeout > 0 {
		cl.deadline = time.Now().Add(timeout)
	}
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, cl.endCall)()
	}
	f.noteCall()
	err := rpc(cl)
	var refused *v1.Refused
	if err == nil || isAnswer(err) {
		f.noteAnswered()
		if peer := cl.askedProcess(); peer != nil {
			peer.answers.Add(1)
		}
	}
	if err == nil {
		return nil
	}
	if errors.As(err, &refused) {
		if cl.newJob && refused.Reason == v1.RefusedReason_DRAINING && cl.reached != nil {
			cl.reached.draining.Store(true)
			if cl.freshConn { // it has just said that it does not leave
				f.leaveAlone(drainPause)
			}
		}
		return &RefusedError{RefusedReason(refused.Reason), refused.Message, fromMicros(refused.RetryAfterUs)}
	}
	fail := &callError{addr: f.addr, err: err}
	var serverErr *thrift.ApplicationException // what a Thrift server says for what it did not expect
	if errors.As(err, &serverErr) {
		fail.sent, fail.answered, fail.err = true, true, serverErr
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
		f.noteGivenUp()
		return fail
	case errors.Is(fail.err, ErrClosed):
		fail.err = ErrClosed
		f.noteGivenUp()
		return fail
	case cause != nil:
	case timeout > 0 && isTimeout(err):
		fail.err = fmt.Errorf("no answer within %v: %w", timeout, os.ErrDeadlineExceeded)
	default:
		fail.brokeAlone = fail.sent
	}
	if fail.sent {
		f.pool.dropIdle(cl.reached)
	}
	f.noteFailed(fail)
	return fail
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &ne) && ne.Timeout()
}

func (f *frontend) noteCall() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.openCalls++
	f.usedAt = time.Now()
	if !f.watching {
		f.watching = true
		f.background.Go(f.watchCalls)
	}
}

func (f *frontend) noteAnswered() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.openCalls--
	f.failures, f.aloneUntil = 0, time.Time{}
}

func (f *frontend) noteGivenUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.openCalls--
}

func (f *frontend) noteFailed(err error) {
	f.mu.Lock()
	f.openCalls--
	now := time.Now()
	first := f.failures == 0
	if !now.Before(f.aloneUntil) { // else it is known
		f.aloneUntil = now.Add(f.cfg.backoffAfter(f.failures))
		f.failures++
	}
	f.mu.Unlock()
	if first {
		f.cfg.log.Warn("frontend does not answer", "frontend", f.addr, "err", err)
	}
}

// backoffAfter is how long to wait after a number of earlier failures: half of it certain, half by chance.
func (c *config) backoffAfter(failures int) time.Duration {
	d := c.backoffMin
	for i := 0; i < failures && d < c.backoffMax; i++ {
		d *= 2
	}
	d = min(d, c.backoffMax)
	return d/2 + rand.N(d/2+1)
}

// leaveAlone has all jobs leave f alone for d: a call that comes when it goes could be taken for one that it got.
func (f *frontend) leaveAlone(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.awayUntil = time.Now().Add(d)
}

// loadAndPause is what the choice between frontends goes by.
func (f *frontend) loadAndPause() (calls int, aloneTil time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.awayUntil.After(f.aloneUntil) {
		return f.openCalls, f.awayUntil
	}
	return f.openCalls, f.aloneUntil
}

// unusedFor is for how long it has had no call.
func (f *frontend) unusedFor() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.openCalls > 0 {
		return 0
	}
	return time.Since(f.usedAt)
}

// isDown reports whether it failed again when it was tried again, or leaves.
func (f *frontend) isDown() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failures > 1 || time.Now().Before(f.awayUntil)
}

// watchCalls looks after the calls that have no answer yet, while there are any: some, like Run, may rightly take
// for ever. A frontend that owes answers and gave none for pingEvery is asked for a sign of life, on another
// connection; if there is none within pingTimeout, the calls that wait for it end: by default, no later than 3 s after
// it hangs.
func (f *frontend) watchCalls() {
	tick := time.NewTicker(f.cfg.pingEvery)
	defer tick.Stop()
	owed := f.pool.answersOwed()
	for {
		select {
		case <-tick.C:
		case <-f.closing:
			return
		}
		f.mu.Lock()
		if f.openCalls == 0 {
			f.watching = false
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		var pings sync.WaitGroup
		for p, now := range f.pool.answersOwed() {
			if before, ok := owed[p]; ok && before == now {
				pings.Go(func() { f.pingProcess(p) })
			}
		}
		pings.Wait()
		owed = f.pool.answersOwed()
	}
}

// noJob is the id of no job.
const noJob = "00000000000000000000000000"

// pingProcess asks a frontend for a sign of life, and ends the calls that wait for it if there is none. Behind a balancer, where it
// cannot be reached at will, another frontend may have to pass the question on.
func (f *frontend) pingProcess(p *process) {
	// Any answer of its own will do; this one costs it least.
	err := f.makeCall(context.Background(), &call{owner: p, ping: true}, f.cfg.pingTimeout, func(ctx context.Context) error {
		_, err := f.rpc.Events(ctx, &v1.EventsRequest{Caller: f.cfg.wireCaller(), Handle: &v1.Handle{Job: noJob, Owner: p.name}})
		return err
	})
	// A refused connection is no proof: a frontend that leaves closes its listener first. Neither is that another one does
	// not reach it, but where that has been told so itself.
	var refused *RefusedError
	if isTimeout(err) || errors.As(err, &refused) && refused.Reason == OwnerLost && p.lost.Load() {
		f.pool.closeConnsOf(p, errSilent)
	}
}
