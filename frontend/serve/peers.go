package serve

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/cloudwego/kitex/client"
	"github.com/cloudwego/kitex/client/callopt"
	"github.com/cloudwego/kitex/pkg/remote/codec"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1/phoebe"
)

// peers are the other frontends to which calls are forwarded. Only listed ones: a handle comes from a client,
// and must not make this process connect to wherever it says.
type peers struct {
	caller *v1.Caller
	size   int
	mu     sync.Mutex
	byAddr map[string]*peer // nil until it is needed
}

// peer is another frontend.
type peer struct {
	addr   string
	caller *v1.Caller
	client phoebe.Client
}

// ownerTimeout is how long another frontend may take to say whether it has a job, and longer than that over
// its wait for an answer to Events.
const ownerTimeout = time.Second

func newPeers(cfg *Config) *peers {
	secret, name := cfg.Secret, cfg.Name
	p := &peers{caller: &v1.Caller{Secret: &secret, Name: &name, Forwarded: true}, size: cfg.MaxRequest, byAddr: map[string]*peer{}}
	for _, addr := range cfg.Peers {
		if addr != cfg.Advertise {
			p.byAddr[addr] = nil
		}
	}
	return p
}

// get is the peer at addr, or nil if none is listed.
func (p *peers) get(addr string) *peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	q, listed := p.byAddr[addr]
	if !listed || q != nil {
		return q
	}
	c, err := phoebe.NewClient("phoebe", client.WithHostPorts(addr),
		client.WithConnectTimeout(ownerTimeout),
		client.WithCodec(codec.NewDefaultCodecWithConfig(codec.CodecConfig{MaxSize: p.size})))
	if err != nil {
		return nil
	}
	q = &peer{addr: addr, caller: p.caller, client: c}
	p.byAddr[addr] = q
	return q
}

func (p *peers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.byAddr {
		if q == nil {
			continue
		}
		if c, ok := q.client.(io.Closer); ok {
			c.Close()
		}
	}
}

// owns asks whether the peer answers and has the job.
func (p *peer) owns(ctx context.Context, job string) bool {
	_, err := p.client.Events(ctx, &v1.EventsRequest{Caller: p.caller, Handle: &v1.Handle{Job: job, Owner: p.addr}, MaxEvents: 1},
		callopt.WithRPCTimeout(ownerTimeout))
	return err == nil
}

// Run has no time limit of its own, so it asks all along whether the peer is there.
func (p *peer) Run(ctx context.Context, req *v1.RunRequest) (*v1.RunResponse, error) {
	req.Caller = p.caller
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
			if !p.owns(ctx, req.Job.Id) {
				cancel()
			}
		}
	}()
	res, err := p.client.Run(ctx, req)
	return res, lostOwner(p.addr, err)
}

func (p *peer) Submit(ctx context.Context, req *v1.SubmitRequest) (*v1.SubmitResponse, error) {
	req.Caller = p.caller
	res, err := p.client.Submit(ctx, req, callopt.WithRPCTimeout(10*ownerTimeout))
	return res, lostOwner(p.addr, err)
}

func (p *peer) Events(ctx context.Context, req *v1.EventsRequest) (*v1.EventsResponse, error) {
	req.Caller = p.caller
	res, err := p.client.Events(ctx, req, callopt.WithRPCTimeout(micros(req.MaxWaitUs)+3*ownerTimeout))
	return res, lostOwner(p.addr, err)
}

func (p *peer) Cancel(ctx context.Context, req *v1.CancelRequest) (*v1.CancelResponse, error) {
	req.Caller = p.caller
	res, err := p.client.Cancel(ctx, req, callopt.WithRPCTimeout(3*ownerTimeout))
	return res, lostOwner(p.addr, err)
}
