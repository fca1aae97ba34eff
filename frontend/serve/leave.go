package serve

import (
	"context"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

// maxAway bounds how far ahead maintenance is announced, and how long it takes.
const maxAway = 90 * 24 * time.Hour

// Leave implements the API.
func (h *handler) Leave(ctx context.Context, req *v1.LeaveRequest) (*v1.LeaveResponse, error) {
	refused := h.leave(ctx, req)
	what := "maintenance"
	if req.Drain {
		what = "drain"
	}
	if h.note(ctx, req.Caller, what+" worker "+req.Worker, "", "", orNil(refused)); refused != nil {
		return nil, refused
	}
	return &v1.LeaveResponse{}, nil
}

func (h *handler) leave(ctx context.Context, req *v1.LeaveRequest) *v1.Refused {
	if tenant, is := h.bound(ctx, req.Caller); is {
		return refuse(v1.RefusedReason_FORBIDDEN, "what workers do is for operators: your certificate names tenant %q", tenant)
	}
	m := probe.Away{Drain: req.Drain, In: micros(req.InUs), Lasts: micros(req.LastsUs)}
	if m.In < 0 || m.In > maxAway || m.Lasts < 0 || m.Lasts > maxAway {
		return refuse(v1.RefusedReason_INVALID, "away in %v for %v: want times from 0 to %v", m.In, m.Lasts, maxAway)
	}
	h.mu.Lock()
	links := slices.Clone(h.links)
	h.mu.Unlock()
	links = h.named(slices.DeleteFunc(links, func(l *link) bool { return l == nil }), req.Worker)
	var to *link
	var its probe.Welcome
	h.look(links, func(l *link, st *frontend.WorkerStatus) {
		if up, _, _, _ := l.status(); up && st != nil {
			to, its = l, st.Welcome
		}
	})
	switch {
	case to == nil:
		return refuse(v1.RefusedReason_INVALID, "worker %q is not linked to frontend %s: it may be gone already", req.Worker, h.cfg.Name)
	case its.Speaks.Features&probe.Departing == 0:
		return refuse(v1.RefusedReason_INVALID, "worker %q is of an older release: send its process SIGTERM to drain it, and announce maintenance with POST /maintenance at its --admin", req.Worker)
	case !m.Drain && !h.gossips(its.Worker):
		return refuse(v1.RefusedReason_INVALID, "no frontend would hear of the maintenance: start worker %q with --join", req.Worker)
	}
	to.send(m)
	to.flush(true)
	return nil
}

// gossips reports whether a worker tells of itself by gossip.
func (h *handler) gossips(worker string) bool {
	if h.fleet == nil {
		return false
	}
	h.fleet.mu.Lock()
	defer h.fleet.mu.Unlock()
	_, known := h.fleet.known[worker]
	return known
}
