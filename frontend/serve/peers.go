package serve

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudwego/kitex/client"
	"github.com/cloudwego/kitex/client/callopt"
	"github.com/cloudwego/kitex/pkg/remote/trans/gonet"
	"github.com/cloudwego/kitex/transport"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1/phoebe"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

// peers are the frontends to forward calls to: the listed frontends, and the frontends that gossip knows or knew.
// Calls go to no further address. A handle comes from a client, and must not make this process connect to any
// address the client names.
type peers struct {
	selfAddr    string // address of this frontend
	newCaller   func(context.Context) *v1.Caller
	keys        *identity.Keys
	maxResponse int
	listed      []string
	mu          sync.Mutex
	byAddr      map[string]*peer
}

// peer is another frontend.
type peer struct {
	addr      string
	newCaller func(context.Context) *v1.Caller
	client    phoebe.Client          // nil until it is needed
	pool      *peerPool              // of client
	goneSince time.Time              // when gossip lost the peer; zero: the peer is present
	name      atomic.Pointer[string] // the peer's name in its own words; nil: not known yet
}

// keepLostPeers is the time for which calls are still forwarded to a peer that gossip has lost. Perhaps the peer is
// only cut off from gossip.
const keepLostPeers = 10 * time.Minute

// ownerTimeout bounds the time of a peer to say whether it has a job. The time limits of forwarded calls are
// multiples of ownerTimeout.
var ownerTimeout = time.Second

func newPeers(cfg *Config) *peers {
	caller := func(ctx context.Context) *v1.Caller {
		secret := cfg.connSecrets().Tell()
		c := &v1.Caller{Secret: &secret, Name: &cfg.Name, Forwarded: true}
		if tenant, isBound := cfg.tenantOf(callerOf(ctx).Identity); isBound {
			name := identity.Identity{Roles: identity.Client, Tenant: tenant}.String()
			c.BoundTo, c.OnBehalf = &tenant, &name
		}
		return c
	}
	p := &peers{selfAddr: cfg.Advertise, newCaller: caller, keys: cfg.Keys, maxResponse: cfg.MaxRequest,
		listed: cfg.Peers, byAddr: map[string]*peer{}}
	p.setMembers(nil, time.Now())
	return p
}

// setMembers sets the frontends known by gossip, besides the listed frontends. The frontend's own address may be
// among addrs.
func (p *peers) setMembers(addrs []string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	present := map[string]bool{}
	for _, addr := range slices.Concat(p.listed, addrs) {
		present[addr] = true
		switch q := p.byAddr[addr]; {
		case addr == p.selfAddr:
		case q == nil:
			p.byAddr[addr] = &peer{addr: addr, newCaller: p.newCaller}
		default:
			q.goneSince = time.Time{}
		}
	}
	for addr, q := range p.byAddr {
		if !present[addr] && q.goneSince.IsZero() {
			q.goneSince = now
		}
	}
}

// dropLost forgets the peers that gossip has lost for longer than keepLostPeers.
func (p *peers) dropLost(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for addr, q := range p.byAddr {
		if !q.goneSince.IsZero() && now.Sub(q.goneSince) > keepLostPeers {
			q.close()
			delete(p.byAddr, addr)
		}
	}
}

// findPeer returns the peer at addr, or nil if no such peer is known.
func (p *peers) findPeer(addr string) *peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.byAddr[addr]
	if q == nil || q.client != nil {
		return q
	}
	q.pool = newPeerPool(p.keys)
	c, err := phoebe.NewClient("phoebe", client.WithHostPorts(addr),
		client.WithConnectTimeout(ownerTimeout),
		client.WithTransHandlerFactory(gonet.NewCliTransHandlerFactory()), client.WithConnPool(q.pool),
		client.WithDialer(q.pool), client.WithTransportProtocol(transport.Framed), client.WithCodec(newAnswerCodec(p.maxResponse)))
	if err != nil {
		q.pool.Close()
		return nil
	}
	q.client = c
	return q
}

// listPresent returns the peers that have not gone.
func (p *peers) listPresent() []*peer {
	p.mu.Lock()
	var addrs []string
	for addr, q := range p.byAddr {
		if q.goneSince.IsZero() {
			addrs = append(addrs, addr)
		}
	}
	p.mu.Unlock()
	var list []*peer
	for _, addr := range addrs {
		if q := p.findPeer(addr); q != nil {
			list = append(list, q)
		}
	}
	return list
}

// describeOthers returns the peers, in the order of addresses. A peer that has gone has an error.
func (p *peers) describeOthers(now time.Time) []*v1.Told {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := []*v1.Told{}
	for _, q := range p.byAddr {
		list = append(list, &v1.Told{Name: q.displayName(), Address: q.addr, Error: q.whyGone(now), SilenceUs: -1})
	}
	slices.SortFunc(list, func(a, b *v1.Told) int { return cmp.Compare(a.Address, b.Address) })
	return list
}

// whyGone says for how long gossip has missed the peer; "": the peer is present. The mutex of peers is held.
func (p *peer) whyGone(now time.Time) string {
	if p.goneSince.IsZero() {
		return ""
	}
	return "gone, as gossip tells, for " + now.Sub(p.goneSince).Round(time.Second).String()
}

// setName notes the name of the peer at addr.
func (p *peers) setName(addr, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.byAddr[addr]; q != nil {
		q.name.Store(&name)
	}
}

// listGone returns the peers that have gone, and why they are not asked.
func (p *peers) listGone(now time.Time) map[*peer]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := map[*peer]string{}
	for _, q := range p.byAddr {
		if !q.goneSince.IsZero() {
			list[q] = q.whyGone(now)
		}
	}
	return list
}

func (p *peers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.byAddr {
		q.close()
	}
}

func (p *peer) close() {
	if c, ok := p.client.(io.Closer); ok {
		c.Close()
	}
}

// ownsJob asks whether the peer answers and has the job. An error is the peer's refusal to a client who has no right to
// touch the job.
func (p *peer) ownsJob(ctx context.Context, job string) (bool, error) {
	err := p.call(ctx, func() error {
		_, err := p.client.Events(ctx,
			&v1.EventsRequest{Caller: p.newCaller(ctx), Handle: &v1.Handle{Job: job, Owner: p.addr}, MaxEvents: 1,
				OnlyAsk: true},
			callopt.WithRPCTimeout(ownerTimeout))
		return err
	})
	var refused *v1.Refused
	if errors.As(err, &refused) && refused.Reason == v1.RefusedReason_FORBIDDEN {
		return false, refused
	}
	return err == nil, nil
}

// findAmongPeers asks all peers at once for a job, and returns the first peer that has the job, or nil. An error is a
// peer's refusal to a client who has no right to touch the job.
func findAmongPeers(ctx context.Context, peers []*peer, job string) (*peer, error) {
	type answer struct {
		peer *peer
		owns bool
		err  error
	}
	answers := make(chan answer, len(peers))
	for _, p := range peers {
		go func() {
			owns, err := p.ownsJob(ctx, job)
			answers <- answer{p, owns, err}
		}()
	}
	for range peers {
		switch a := <-answers; {
		case a.err != nil:
			return nil, a.err
		case a.owns:
			return a.peer, nil
		}
	}
	return nil, nil
}

// Run forwards a Run. A Run has no time limit of its own, so p asks all along whether the peer still has the job.
func (p *peer) Run(ctx context.Context, req *v1.RunRequest) (*v1.RunResponse, error) {
	req.Caller = p.newCaller(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		tick := time.NewTicker(ownerTimeout)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if owns, _ := p.ownsJob(ctx, req.Job.Id); !owns {
				cancel()
			}
		}
	}()
	var res *v1.RunResponse
	err := p.call(ctx, func() (err error) { res, err = p.client.Run(ctx, req); return err })
	return res, ownerLostError(p.addr, err)
}

// callPeer makes a call at p, as peer.call does. within is the time limit.
func callPeer[R any](ctx context.Context, p *peer, within time.Duration,
	call func(context.Context, *peer, callopt.Option) (R, error)) (res R, err error) {
	err = p.call(ctx, func() (err error) { res, err = call(ctx, p, callopt.WithRPCTimeout(within)); return err })
	return res, err
}

// forwardCall makes a call for a client. within is the time limit.
func forwardCall[Q, R any](ctx context.Context, p *peer, within time.Duration,
	rpc func(context.Context, Q, ...callopt.Option) (R, error), req Q) (R, error) {
	res, err := callPeer(ctx, p, within,
		func(ctx context.Context, _ *peer, within callopt.Option) (R, error) { return rpc(ctx, req, within) })
	return res, ownerLostError(p.addr, err)
}

func (p *peer) Submit(ctx context.Context, req *v1.SubmitRequest) (*v1.SubmitResponse, error) {
	req.Caller = p.newCaller(ctx)
	return forwardCall(ctx, p, 10*ownerTimeout, p.client.Submit, req)
}

func (p *peer) Events(ctx context.Context, req *v1.EventsRequest) (*v1.EventsResponse, error) {
	req.Caller = p.newCaller(ctx)
	return forwardCall(ctx, p, min(fromMicros(req.MaxWaitUs), maxEventsWait)+3*ownerTimeout, p.client.Events, req)
}

func (p *peer) Extend(ctx context.Context, req *v1.ExtendRequest) (*v1.ExtendResponse, error) {
	req.Caller = p.newCaller(ctx)
	return forwardCall(ctx, p, 10*ownerTimeout, p.client.Extend, req)
}

// Explain returns the answer, a refusal, or neither if there is no answer.
func (p *peer) Explain(ctx context.Context, req *v1.ExplainRequest) (*v1.ExplainResponse, *v1.Refused) {
	req = &v1.ExplainRequest{Caller: p.newCaller(ctx), Handle: req.Handle, Task: req.Task}
	res, err := p.client.Explain(ctx, req, callopt.WithRPCTimeout(3*ownerTimeout))
	var refused *v1.Refused
	if err != nil {
		errors.As(err, &refused)
		return nil, refused
	}
	return res, nil
}
