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

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// maxAnswer bounds the memory, in bytes, that the client allocates for an answer. Frontends send far smaller answers.
const maxAnswer = 1 << 30

// errSilent ends the calls to a frontend that does not answer, not even a ping.
var errSilent = errors.New("no sign of life")

// callError is the error of a call without a usable answer.
type callError struct {
	addr string
	err  error
	// sent says that the frontend may have received and executed the call.
	sent bool
	// brokeAlone says that the connection broke by itself. The frontend may still live.
	brokeAlone bool
	// answered says that the frontend lives, but answered with an internal error.
	answered bool
}

func (e *callError) Error() string { return fmt.Sprintf("frontend %s: %v", e.addr, e.err) }
func (e *callError) Unwrap() error { return e.err }

// frontend holds the client's state for one address. The address leads to a frontend, or through a balancer to any of
// several frontends. Safe for concurrent use.
type frontend struct {
	addr      string
	cfg       *config
	rpc       rpcs
	pool      *pool
	processes *processes

	background *sync.WaitGroup // the client's; Add only during a call
	closing    <-chan struct{} // closed by Client.Close

	mu         sync.Mutex
	openCalls  int       // number of calls without an answer
	watching   bool      // watchCalls runs
	failures   int       // since the last answer; failures during a pause count once
	aloneUntil time.Time // end of the pause after a failure: until then the client prefers other frontends
	awayUntil  time.Time // end of the pause of a draining frontend
	usedAt     time.Time // when a call last began
}

// newFrontend makes a frontend for addr. It does not connect.
func newFrontend(
	addr string, cfg *config, known *processes, background *sync.WaitGroup, closing <-chan struct{},
) *frontend {
	f := &frontend{
		addr: addr, cfg: cfg, processes: known, pool: newPool(addr, cfg.connectTimeout, cfg.keys),
		background: background, closing: closing,
	}
	f.pool.identify = f.identifyPeer
	f.pool.sendsToken = cfg.tokens.Tell() != ""
	return f
}

// identifyPeer asks which frontend is behind a new connection. An error means that the connection is of no use: the
// frontend did not answer within pingTimeout, or answered with an exception.
func (f *frontend) identifyPeer(ctx context.Context, c *conn) (*process, error) {
	cl := &call{ctx: ctx, pool: f.pool, onlyConn: c, timeout: f.cfg.pingTimeout, patience: f.cfg.pingTimeout}
	defer context.AfterFunc(ctx, cl.endCall)()
	resp, err := f.rpc.Cluster(cl, &v1.ClusterRequest{Caller: f.cfg.wireCaller(), FrontendsOnly: true})
	var refused *v1.Refused
	switch {
	case err == nil && resp != nil && resp.Address != "":
		return f.processes.noteGreeting(resp), nil
	case err == nil || errors.As(err, &refused): // the frontend lives, but does not tell its address
		return f.processes.findOrAdd(f.addr), nil
	case isTimeout(err), errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("no sign of life within %v: %w", f.cfg.pingTimeout, os.ErrDeadlineExceeded)
	}
	return nil, err
}

// makeCall makes one call with rpc. The bound ctx is for the whole call, and timeout bounds both the wait for a
// connection and the wait for the answer (0: no bound). The result is nil, a *RefusedError, a *LateRefusalError or a
// *callError. If ctx ended the call, the callError holds the context's error and cause.
func (f *frontend) makeCall(
	ctx context.Context, cl *call, timeout time.Duration, rpc func(context.Context) error,
) error {
	cl.ctx, cl.pool = ctx, f.pool
	cl.patience = f.cfg.rpcTimeout
	if cl.timeout = timeout; timeout > 0 {
		cl.patience = timeout
	}
	cl.startWait()
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
			if cl.freshConn { // a moment ago identifyPeer found the frontend not draining
				f.leaveAlone(f.cfg.drainPause)
			}
		}
		err = &RefusedError{RefusedReason(refused.Reason), refused.Message, fromMicros(refused.RetryAfterUs)}
		if refused.GetStarted() {
			return hideRefusal(err)
		}
		return err
	}
	fail := &callError{addr: f.addr, err: err}
	var serverErr *thrift.ApplicationException // the answer of a Thrift server to an unexpected request or error
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
		fail.err = contextError(ctx)
		f.noteGivenUp()
		return fail
	case errors.Is(fail.err, ErrClosed):
		fail.err = ErrClosed
		f.noteGivenUp()
		return fail
	case cause != nil:
	case fail.sent && isTimeout(err):
		fail.err = fmt.Errorf("no answer in time: %w", os.ErrDeadlineExceeded)
	default:
		fail.brokeAlone = fail.sent
	}
	if fail.sent {
		f.pool.dropIdle(cl.reached)
	}
	f.noteFailed(fail)
	return fail
}

// isTimeout reports whether err says that time ran out.
func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &ne) && ne.Timeout()
}

// noteCall notes the start of a call, and starts watchCalls if needed.
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

// noteAnswered notes the answer to a call, and ends the pause after failures.
func (f *frontend) noteAnswered() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.openCalls--
	f.failures, f.aloneUntil = 0, time.Time{}
}

// noteGivenUp notes that the client ended a call.
func (f *frontend) noteGivenUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.openCalls--
}

// noteFailed notes the failure of a call, and starts a pause unless a pause runs. It logs the first failure since the
// last answer.
func (f *frontend) noteFailed(err error) {
	f.mu.Lock()
	f.openCalls--
	now := time.Now()
	first := f.failures == 0
	if !now.Before(f.aloneUntil) { // a failure during the pause is no news
		f.aloneUntil = now.Add(f.cfg.backoffAfter(f.failures))
		f.failures++
	}
	f.mu.Unlock()
	if first {
		f.cfg.log.Warn("frontend does not answer", "frontend", f.addr, "err", err)
	}
}

// backoffAfter returns the pause after a number of earlier failures. Half of the pause is certain, half is random.
func (c *config) backoffAfter(failures int) time.Duration {
	d := c.backoffMin
	for i := 0; i < failures && d < c.backoffMax; i++ {
		d *= 2
	}
	d = min(d, c.backoffMax)
	return d/2 + rand.N(d/2+1)
}

// leaveAlone keeps all jobs from f for d. If a call reached f at the moment of its exit, the client could not tell
// whether f got the call.
func (f *frontend) leaveAlone(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.awayUntil = time.Now().Add(d)
}

// loadAndPause returns the number of calls without an answer, and the end of the pause, if any.
func (f *frontend) loadAndPause() (calls int, aloneTil time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.awayUntil.After(f.aloneUntil) {
		return f.openCalls, f.awayUntil
	}
	return f.openCalls, f.aloneUntil
}

// unusedFor returns the time since the last call began, or 0 while a call is under way.
func (f *frontend) unusedFor() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.openCalls > 0 {
		return 0
	}
	return time.Since(f.usedAt)
}

// countFailures returns the number of failures since the last answer.
func (f *frontend) countFailures() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failures
}

// isDown reports whether f failed again after a pause, or is draining.
func (f *frontend) isDown() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failures > 1 || time.Now().Before(f.awayUntil)
}

// watchCalls puts off the deadlines of calls whose bytes move. It also finds hanging frontends while calls have no
// answer. Time limits are no help, because calls such as Run may rightly take very long. If a frontend with unanswered
// calls has given no sign of life for pingEvery (0.5 s), watchCalls pings the frontend on another connection. If the
// ping gets no answer within pingTimeout (2 s), all calls to the frontend end: by default no later than 3 s after the
// frontend hangs.
func (f *frontend) watchCalls() {
	tick := time.NewTicker(min(f.cfg.pingEvery, max(f.cfg.rpcTimeout/4, time.Millisecond)))
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
		f.pool.followProgress()
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

// noJob is an id that no job has.
const noJob = "00000000000000000000000000"

// pingProcess asks p for a sign of life. Without an answer, pingProcess ends the calls to p. Behind a balancer a
// new connection may lead to another frontend, and the other frontend forwards the ping to p.
func (f *frontend) pingProcess(p *process) {
	// Any answer from p will do. An Events call for an unknown job costs p least.
	err := f.makeCall(context.Background(), &call{owner: p, ping: true}, f.cfg.pingTimeout,
		func(ctx context.Context) error {
			_, err := f.rpc.Events(ctx,
				&v1.EventsRequest{Caller: f.cfg.wireCaller(), Handle: &v1.Handle{Job: noJob, Owner: p.name}})
			return err
		})
	// A refused connection proves nothing, because a draining frontend closes its listener first. An OwnerLost from
	// another frontend counts only if the frontends' lists no longer name p.
	var refused *RefusedError
	if isTimeout(err) || errors.As(err, &refused) && refused.Reason == OwnerLost && p.lost.Load() {
		f.processes.noteSilent(p)
		f.pool.closeConnsOf(p, errSilent)
	}
}
