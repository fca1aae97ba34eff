package serve

import (
	"context"
	"slices"
	"time"

	"github.com/cloudwego/kitex/client/callopt"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

// maxAway bounds the time until an announced maintenance, and its length.
const maxAway = 90 * 24 * time.Hour

// Leave implements the API. A frontend without a link to the worker asks the others.
func (h *handler) Leave(ctx context.Context, req *v1.LeaveRequest) (*v1.LeaveResponse, error) {
	leaveAt := func(ctx context.Context, p *peer, within callopt.Option) (*v1.LeaveResponse, error) {
		ask := *req
		ask.Caller, ask.Frontend = p.newCaller(ctx), ""
		return p.client.Leave(ctx, &ask, within)
	}
	if req.Frontend != "" && !h.isThisFrontend(req.Frontend) {
		return forwardTo(ctx, h, req.Caller, req.Frontend, leaveAt)
	}
	refused := h.sendLeave(ctx, req)
	if refused != nil && refused.Reason == v1.RefusedReason_NO_WORKER && req.Frontend == "" {
		refused = h.leaveThroughPeers(ctx, req, refused, leaveAt)
	}
	action := "maintenance"
	if req.Drain {
		action = "drain"
	}
	if h.auditCall(ctx, req.Caller, action+" worker "+req.Worker, "", "", orNil(refused)); refused != nil {
		return nil, refused
	}
	return &v1.LeaveResponse{}, nil
}

// leaveThroughPeers has the peers send the worker an Away message, each by leaveAt. If no peer is linked to the worker,
// the refusal names the peers without an answer. refusedHere is the refusal of this frontend.
func (h *handler) leaveThroughPeers(ctx context.Context, req *v1.LeaveRequest, refusedHere *v1.Refused,
	leaveAt func(context.Context, *peer, callopt.Option) (*v1.LeaveResponse, error)) *v1.Refused {
	answers := askAllPeers(ctx, h, req.Caller, leaveAt)
	refused := newRefused(refusedHere.Reason, "%s", refusedHere.Message)
	for _, a := range answers {
		switch {
		case a.res != nil:
			return nil
		case a.refused == nil:
			refused.Message += "; frontend " + a.peer.displayName() + " does not answer: " + a.err
		case a.refused.Reason != v1.RefusedReason_NO_WORKER && refused.Reason == v1.RefusedReason_NO_WORKER:
			refused = newRefused(a.refused.Reason, "%s", a.refused.Message) // says more, such as an older release
		}
	}
	return refused
}

// sendLeave sends the worker an Away message, or says why not.
func (h *handler) sendLeave(ctx context.Context, req *v1.LeaveRequest) *v1.Refused {
	if tenant, isBound := h.boundTenant(ctx, req.Caller); isBound {
		return newRefused(v1.RefusedReason_FORBIDDEN,
			"only operators may drain workers: your certificate names tenant %q", tenant)
	}
	m := probe.Away{Drain: req.Drain, In: fromMicros(req.InUs), Lasts: fromMicros(req.LastsUs)}
	if m.In < 0 || m.In > maxAway || m.Lasts < 0 || m.Lasts > maxAway {
		return newRefused(v1.RefusedReason_INVALID, "away in %v for %v: want times from 0 to %v", m.In, m.Lasts,
			maxAway)
	}
	h.mu.Lock()
	links := slices.Clone(h.links)
	h.mu.Unlock()
	links = h.linksNamed(slices.DeleteFunc(links, func(l *link) bool { return l == nil }), req.Worker)
	var target *link
	var welcome probe.Welcome
	h.lookAtWorkers(links, func(l *link, st *frontend.WorkerStatus) {
		if up, _, _, _ := l.linkStatus(); up && st != nil {
			target, welcome = l, st.Welcome
		}
	})
	switch {
	case target == nil:
		return newRefused(v1.RefusedReason_NO_WORKER, "worker %q is not linked to frontend %s: it may be gone already",
			req.Worker, h.cfg.Name)
	case welcome.Speaks.Features&probe.Departing == 0:
		return newRefused(v1.RefusedReason_INVALID,
			"worker %q is of an older release: drain it by SIGTERM, and announce maintenance by POST /maintenance at "+
				"its --admin", req.Worker)
	case !m.Drain && !h.isGossiping(welcome.Worker):
		return newRefused(v1.RefusedReason_INVALID,
			"no frontend would hear of the maintenance: start worker %q with --join", req.Worker)
	}
	target.send(m)
	target.flush(true)
	return nil
}

// isGossiping reports whether gossip has a row of a worker.
func (h *handler) isGossiping(worker string) bool {
	if h.fleet == nil {
		return false
	}
	h.fleet.mu.Lock()
	defer h.fleet.mu.Unlock()
	_, known := h.fleet.known[worker]
	return known
}
