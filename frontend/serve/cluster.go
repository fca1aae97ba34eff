package serve

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/cloudwego/kitex/client/callopt"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

// Cluster implements the API.
func (h *handler) Cluster(ctx context.Context, req *v1.ClusterRequest) (*v1.ClusterResponse, error) {
	if other := req.Frontend; other != "" && other != h.cfg.Name && other != h.cfg.Advertise {
		return h.clusterOf(ctx, other, req)
	}
	res := h.cluster(req)
	if own, is := h.bound(ctx, req.Caller); is {
		res.Warning = "" // it may be of other tenants' entries
		res.Tenants = slices.DeleteFunc(res.Tenants, func(t *v1.TenantStatus) bool { return !tenants.Covers(own, t.Path) })
	}
	return res, nil
}

// Cluster is what this frontend believes of the fleet.
func (s *Server) Cluster() *v1.ClusterResponse { return s.cluster(v1.NewClusterRequest()) }

func (s *Server) cluster(req *v1.ClusterRequest) *v1.ClusterResponse {
	now := time.Now()
	s.mu.Lock()
	pending, running := s.core.Pending()
	res := &v1.ClusterResponse{
		Frontend: s.cfg.Name, Address: s.cfg.Advertise, Version: s.cfg.Version,
		UptimeUs: now.Sub(s.began).Microseconds(), Draining: s.draining, Jobs: int32(s.core.Jobs()),
		TasksPending: int32(pending), TasksRunning: int32(running), Workers: []*v1.WorkerStatus{}, Members: []*v1.Member{},
		ClockUs: now.UnixMicro(), FileLimit: int64(s.cfg.FileLimit), MaxClients: int32(s.cfg.MaxConns),
	}
	s.mu.Unlock()
	res.Warning = s.Warning()
	if s.fleet != nil {
		for _, m := range s.fleet.node.Members() {
			res.Members = append(res.Members, &v1.Member{Name: m.Name, Address: m.API, Gossip: m.Gossip, Heartbeat: m.Heartbeat})
		}
	}
	if req.Tenants {
		s.mu.Lock()
		list := s.core.Tenants(maxTenantsTold)
		s.mu.Unlock()
		for i := range list {
			res.Tenants = append(res.Tenants, tenantStatus(&list[i]))
		}
	}
	if req.FrontendsOnly {
		return res
	}
	s.mu.Lock()
	stats := &s.core.Stats
	res.Spare, res.Copies, res.CopiesWon, res.Preempted = s.core.Spare(), int64(stats.Copies), int64(stats.CopiesWon), int64(stats.Preempted)
	s.mu.Unlock()
	links := s.allLinks()
	slices.SortFunc(links, func(a, b *link) int { return cmp.Compare(a.addr, b.addr) })
	res.Total = int32(len(links))
	switch {
	case req.Figures:
		res.Figures = s.figures(links, req.Known, now)
		return res
	case req.Worker != "":
		links = s.named(links, req.Worker)
	default:
		from, _ := slices.BinarySearchFunc(links, req.After, func(l *link, after string) int {
			if l.addr <= after {
				return -1
			}
			return 1
		})
		links = links[from:]
		if most := int(req.MaxWorkers); most > 0 && most < len(links) {
			links = links[:most]
			res.NextPage = links[most-1].addr
		}
	}
	s.look(links, func(l *link, st *frontend.WorkerStatus) {
		res.Workers = append(res.Workers, workerStatus(l, st, now))
	})
	if s.fleet != nil {
		for _, ws := range res.Workers {
			if ws.State != connecting {
				s.fleet.describe(ws)
			}
		}
	}
	return res
}

// maxTenantsTold is how many tenants are told of at once.
const maxTenantsTold = 1000

func tenantStatus(s *frontend.TenantStatus) *v1.TenantStatus {
	return &v1.TenantStatus{
		Path: s.Path, Used: s.Use, Spare: s.Spare, Wanted: s.Want, Tokens: limit(s.May.Regular), Most: limit(s.May.All),
		Held: int32(s.Held), Pending: int32(s.Pending), Refused: int64(s.Refused),
	}
}

// limit is -1 for what is not limited.
func limit(n int64) int64 {
	if n == tenants.Unlimited {
		return -1
	}
	return n
}

// clusterOf asks another frontend, of a name or an address.
func (h *handler) clusterOf(ctx context.Context, other string, req *v1.ClusterRequest) (*v1.ClusterResponse, error) {
	return forward(h, req.Caller, other, func(p *peer, within callopt.Option) (*v1.ClusterResponse, error) {
		ask := *req
		ask.Caller, ask.Frontend = p.caller(ctx), ""
		return p.client.Cluster(ctx, &ask, within)
	})
}

// forward asks the frontend of a name or an address, instead of this one.
func forward[R any](h *handler, caller *v1.Caller, other string, call func(*peer, callopt.Option) (*R, error)) (*R, error) {
	if forwarded(caller) {
		return nil, refuse(v1.RefusedReason_INVALID, "this is frontend %q, not %q", h.cfg.Name, other)
	}
	for _, p := range h.peers.all() {
		if p.addr == other || p.called() == other {
			h.metrics.forwarded.Inc()
			res, err := call(p, callopt.WithRPCTimeout(ownerTimeout))
			var refused *v1.Refused
			if err != nil && !errors.As(err, &refused) {
				return nil, refuse(v1.RefusedReason_OWNER_LOST, "frontend %s does not answer: %v", p.addr, err)
			}
			return res, err
		}
	}
	return nil, refuse(v1.RefusedReason_INVALID, "no frontend of the name or address %q is known: phoebe status names those that there are", other)
}

// allLinks are the links of all workers that are listed.
func (s *Server) allLinks() []*link {
	s.mu.Lock()
	room := len(s.links)
	s.mu.Unlock()
	links := make([]*link, 0, room) // so many that the mutex is not to be held meanwhile
	s.mu.Lock()
	links = append(links, s.links...)
	s.mu.Unlock()
	return slices.DeleteFunc(links, func(l *link) bool { return l == nil })
}

// look looks at workers, without keeping others from the mutex for long. status is nil of one of which nothing is known yet, and
// only there for the call.
func (s *Server) look(links []*link, do func(l *link, st *frontend.WorkerStatus)) {
	for part := range slices.Chunk(links, workersPerLook) {
		list := make([]frontend.WorkerStatus, len(part))
		known := make([]bool, len(part))
		s.mu.Lock()
		s.lookLocked(part, list, known)
		s.mu.Unlock()
		for i, l := range part {
			if known[i] {
				do(l, &list[i])
			} else {
				do(l, nil)
			}
		}
	}
}

// lookLocked looks at some workers at once.
func (s *Server) lookLocked(links []*link, list []frontend.WorkerStatus, known []bool) {
	for i, l := range links {
		if s.serves(l) {
			list[i], known[i] = s.core.Status(l.key)
		}
	}
}

// named finds the workers of a name or an address.
func (s *Server) named(links []*link, name string) (found []*link) {
	for part := range slices.Chunk(links, workersPerLook) {
		s.mu.Lock()
		for _, l := range part {
			if l.addr == name || l.run.worker == name {
				found = append(found, l)
			}
		}
		s.mu.Unlock()
	}
	return found
}

// connecting is the state of a worker of which nothing is known yet.
const connecting = "connecting"

// state is that of a link and of what the core makes of it.
func state(up bool, st *frontend.WorkerStatus) string {
	if st == nil || st.State == "down" && up {
		return connecting
	}
	return st.State
}

func workerStatus(l *link, st *frontend.WorkerStatus, now time.Time) *v1.WorkerStatus {
	up, problem, heard, rtt := l.status()
	ws := &v1.WorkerStatus{
		RowUsAgo: -1, WaitUsAgo: -1, MaintenanceUs: -1, Name: l.addr, Address: l.addr, State: state(up, st), Error: problem,
		HeardUsAgo: heard.Microseconds(), RttUs: rtt.Microseconds(),
	}
	if st == nil {
		return ws
	}
	ws.Name, ws.Host, ws.Rack = st.Welcome.Worker, st.Welcome.Host, st.Welcome.Rack
	ws.Labels, ws.Functions = st.Welcome.Labels, st.Welcome.Functions
	ws.Capacity = demand(st.Welcome.Capacity)
	ws.Free = demand(probe.Demand{CPU: max(st.Load.Free.CPU, 0), Mem: max(st.Load.Free.Mem, 0)})
	ws.Queued, ws.Running = int32(st.Load.Queued), int32(st.Load.Running)
	ws.Reservations, ws.Attempts = int32(st.Reservations), int32(st.Attempts)
	describeView(ws, &st.View, now)
	return ws
}

func demand(d probe.Demand) *v1.Demand {
	return &v1.Demand{CpuMillicores: int32(d.CPU), MemoryMib: int32(d.Mem)}
}

// states are numbered as the API has them.
var states = map[string]byte{connecting: 0, "up": 1, "adrift": 2, "draining": 3, "down": 4}

// figures are a few numbers of each worker, with the names unless they are known.
func (s *Server) figures(links []*link, known int64, now time.Time) *v1.Figures {
	f := &v1.Figures{Names: make([]string, 0, len(links)), Addresses: make([]string, 0, len(links)), Racks: make([]string, 0, len(links)), Figures: make([]byte, 0, 8*len(links))}
	list := fnv.New64a()
	note := func(names *[]string, name string) {
		*names = append(*names, name)
		_, _ = list.Write(binary.AppendUvarint(nil, uint64(len(name))))
		_, _ = list.Write([]byte(name))
	}
	s.look(links, func(l *link, st *frontend.WorkerStatus) {
		up, _, heard, rtt := l.status()
		note(&f.Addresses, l.addr)
		if st == nil {
			note(&f.Names, l.addr)
			note(&f.Racks, "")
			f.Figures = append(f.Figures, states[connecting], 0, 0, 0, 0, unknown, unknown, unknown)
			f.Ages = append(f.Ages, unknown)
			return
		}
		note(&f.Names, st.Welcome.Worker)
		note(&f.Racks, st.Welcome.Rack)
		capacity, free, wait := st.Welcome.Capacity, st.Load.Free, byte(unknown)
		age := byte(unknown)
		if st.View.Matrix != nil {
			age = logarithm(now.Sub(st.View.Heard).Microseconds())
			if w := st.View.Matrix.Cells[figureStep][figureStep]; w != probe.NeverFits {
				wait = logarithm(w.Duration().Microseconds())
			}
		}
		f.Figures = append(f.Figures, states[state(up, st)], share(int64(free.CPU), int64(capacity.CPU)), share(int64(free.Mem), int64(capacity.Mem)),
			logarithm(int64(st.Load.Queued)), logarithm(int64(st.Load.Running)), wait, logarithm(rtt.Microseconds()), logarithm(heard.Microseconds()))
		f.Ages = append(f.Ages, age)
	})
	f.Number = max(int64(list.Sum64()&math.MaxInt64), 1)
	if f.Number == known {
		f.Names, f.Addresses, f.Racks = nil, nil, nil
	}
	return f
}

// figureStep is the step of a wait matrix that stands for an eighth of the worker.
const figureStep = 2

// unknown is what a figure is that is not known.
const unknown = 255

// share is how much is taken of all, of 255.
func share(free, all int64) byte {
	if all <= 0 {
		return 0
	}
	return byte(255 * (all - min(max(free, 0), all)) / all)
}

// logarithm is 8 times that of n to the base 2, but that 0 stands for 0, and 1 for 1.
func logarithm(n int64) byte {
	if n <= 0 {
		return 0
	}
	return byte(min(max(math.Round(8*math.Log2(float64(n))), 1), unknown-1))
}
