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
	rec "github.com/phoebe-sched/phoebe/frontend/record"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

// Cluster implements the API.
func (h *handler) Cluster(ctx context.Context, req *v1.ClusterRequest) (*v1.ClusterResponse, error) {
	if req.Frontend != "" && !h.isThisFrontend(req.Frontend) {
		return forwardTo(ctx, h, req.Caller, req.Frontend,
			func(ctx context.Context, p *peer, within callopt.Option) (*v1.ClusterResponse, error) {
				ask := *req
				ask.Caller, ask.Frontend = p.newCaller(ctx), ""
				return p.client.Cluster(ctx, &ask, within)
			})
	}
	res := h.clusterStatus(req)
	if bound, isBound := h.boundTenant(ctx, req.Caller); isBound {
		res.Warning = "" // may concern other tenants' entries
		res.LastMinute, res.OtherTenants = nil, nil
		res.Tenants = slices.DeleteFunc(res.Tenants,
			func(t *v1.TenantStatus) bool { return !probe.TenantCovers(bound, t.Path) })
	}
	return res, nil
}

// Cluster returns this frontend's view of the fleet.
func (s *Server) Cluster() *v1.ClusterResponse { return s.clusterStatus(v1.NewClusterRequest()) }

func (s *Server) clusterStatus(req *v1.ClusterRequest) *v1.ClusterResponse {
	now := time.Now()
	s.mu.Lock()
	pending, running := s.core.Pending()
	res := &v1.ClusterResponse{
		Frontend: s.cfg.Name, Address: s.cfg.Advertise, Version: s.cfg.Version,
		UptimeUs: now.Sub(s.startedAt).Microseconds(), Draining: s.draining, Jobs: int32(s.core.Jobs()),
		TasksPending: int32(pending), TasksRunning: int32(running), Workers: []*v1.WorkerStatus{},
		Members: []*v1.Member{},
		ClockUs: now.UnixMicro(), FileLimit: int64(s.cfg.FileLimit), MaxClients: int32(s.cfg.MaxConns),
	}
	s.mu.Unlock()
	res.Warning = s.Warning()
	if s.fleet != nil {
		for _, m := range s.fleet.node.Members() {
			res.Members = append(res.Members,
				&v1.Member{Name: m.Name, Address: m.API, Gossip: m.Gossip, Heartbeat: m.Heartbeat})
		}
	}
	var minutes map[string]*rec.Minute
	if !req.Figures && (!req.FrontendsOnly || req.Tenants) {
		res.Others = s.peers.describeOthers(now)
		s.recorder.mu.Lock()
		var all rec.Minute
		all, minutes = s.recorder.history.LastMinute(now)
		s.recorder.mu.Unlock()
		res.LastMinute = minuteToAPI(&all)
	}
	if req.Tenants {
		s.addTenants(res, minutes, now)
	}
	if req.History {
		res.History = s.fleetHistory(now)
	}
	if req.FrontendsOnly {
		return res
	}
	s.mu.Lock()
	stats := &s.core.Stats
	res.Spare, res.Copies, res.CopiesWon, res.Preempted = s.core.Spare(now), int64(stats.Copies), int64(stats.CopiesWon),
		int64(stats.Preempted)
	s.mu.Unlock()
	links := s.allLinks()
	slices.SortFunc(links, func(a, b *link) int { return cmp.Compare(a.addr, b.addr) })
	res.Total = int32(len(links))
	switch {
	case req.Figures:
		res.Figures = s.packFigures(links, req.Known, now)
		return res
	case req.Worker != "":
		links = s.linksNamed(links, req.Worker)
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
	s.lookAtWorkers(links, func(l *link, st *frontend.WorkerStatus) {
		res.Workers = append(res.Workers, workerStatus(l, st, now))
	})
	if s.fleet != nil {
		for _, ws := range res.Workers {
			if ws.State != connecting {
				s.fleet.describeWorker(ws)
			}
		}
	}
	return res
}

// addTenants lists the tenants with jobs, with refused jobs, or with counts in the last minute.
func (s *Server) addTenants(res *v1.ClusterResponse, minutes map[string]*rec.Minute, now time.Time) {
	var counted []string
	for tenant, m := range minutes {
		if tenant == rec.Other {
			res.OtherTenants = minuteToAPI(m)
		} else {
			counted = append(counted, tenant)
		}
	}
	s.mu.Lock()
	list := s.core.Tenants(maxTenantsListed, now, counted...)
	s.mu.Unlock()
	for i := range list {
		t := tenantStatus(&list[i])
		if m := minutes[t.Path]; m != nil && t.Path != rec.Other {
			t.LastMinute = minuteToAPI(m)
		}
		res.Tenants = append(res.Tenants, t)
	}
}

func minuteToAPI(m *rec.Minute) *v1.LastMinute {
	return &v1.LastMinute{Us: m.Length.Microseconds(), Jobs: int64(m.Responses.Count), Tasks: int64(m.Tasks),
		Failed: int64(m.Failed), Responses: m.Responses.Append(nil)}
}

// maxTenantsListed bounds the tenants in an answer to Cluster.
const maxTenantsListed = 1000

func tenantStatus(s *frontend.TenantStatus) *v1.TenantStatus {
	return &v1.TenantStatus{
		Path: s.Path, Used: s.Use, Spare: s.Spare, Wanted: s.Want, Tokens: limitToAPI(s.Quota.Regular),
		Most: limitToAPI(s.Quota.All),
		Held: int32(s.Held), Pending: int32(s.Pending), Refused: int64(s.Refused),
	}
}

// limitToAPI returns n as the API has limits: -1 stands for no limit.
func limitToAPI(n int64) int64 {
	if n == tenants.Unlimited {
		return -1
	}
	return n
}

// isThisFrontend reports whether a name or address is that of this frontend.
func (h *handler) isThisFrontend(name string) bool {
	return name == h.cfg.Name || name == h.cfg.Advertise
}

// forwardTo makes a call at the peer with a given name or address.
func forwardTo[R any](ctx context.Context, h *handler, caller *v1.Caller, other string,
	call func(context.Context, *peer, callopt.Option) (*R, error)) (*R, error) {
	if isForwarded(caller) {
		return nil, newRefused(v1.RefusedReason_INVALID, "this is frontend %q, not %q", h.cfg.Name, other)
	}
	p := h.findNamedPeer(ctx, caller, other)
	if p == nil {
		return nil, newRefused(v1.RefusedReason_INVALID,
			"no frontend with name or address %q is known: phoebe status lists the frontends", other)
	}
	if why := h.peers.listGone(time.Now())[p]; why != "" {
		return nil, newRefused(v1.RefusedReason_OWNER_LOST, "frontend %s is %s", p.addr, why)
	}
	h.metrics.forwarded.Inc()
	res, err := callPeer(ctx, p, 3*ownerTimeout, call)
	var refused *v1.Refused
	if err != nil && !errors.As(err, &refused) {
		return nil, newRefused(v1.RefusedReason_OWNER_LOST, "frontend %s does not answer: %v", p.addr, err)
	}
	return res, err
}

// findNamedPeer returns the peer with a given name or address, or nil. A peer of Config.Peers has no known
// name before its first answer. So if no known name matches, findNamedPeer asks all peers.
func (h *handler) findNamedPeer(ctx context.Context, caller *v1.Caller, other string) *peer {
	findKnown := func() *peer {
		all := h.peers.listPresent()
		for p := range h.peers.listGone(time.Now()) {
			all = append(all, p)
		}
		for _, p := range all {
			if p.addr == other || p.displayName() == other {
				return p
			}
		}
		return nil
	}
	if p := findKnown(); p != nil {
		return p
	}
	for _, a := range askAllPeers(ctx, h, caller,
		func(ctx context.Context, p *peer, within callopt.Option) (*v1.ClusterResponse, error) {
			return p.client.Cluster(ctx, &v1.ClusterRequest{Caller: p.newCaller(ctx), FrontendsOnly: true}, within)
		}) {
		if a.res != nil {
			a.peer.name.Store(&a.res.Frontend)
		}
	}
	return findKnown()
}

// allLinks returns the links of all listed workers.
func (s *Server) allLinks() []*link {
	s.mu.Lock()
	room := len(s.links)
	s.mu.Unlock()
	links := make([]*link, 0, room) // allocate without the mutex: the list may be long
	s.mu.Lock()
	links = append(links, s.links...)
	s.mu.Unlock()
	return slices.DeleteFunc(links, func(l *link) bool { return l == nil })
}

// lookAtWorkers calls do with the status of each link's worker. Between chunks of workersPerLook workers it lets go
// of the mutex. st is nil for a worker without a status yet. do must not keep st.
func (s *Server) lookAtWorkers(links []*link, do func(l *link, st *frontend.WorkerStatus)) {
	s.lookAtWorkersAnd(links, func(*link) {}, do)
}

// lookAtWorkersAnd does the work of lookAtWorkers, and calls locked with each link whose worker has a status. The
// mutex is held in locked, but not in do.
func (s *Server) lookAtWorkersAnd(links []*link, locked func(*link), do func(l *link, st *frontend.WorkerStatus)) {
	var list [workersPerLook]frontend.WorkerStatus
	var known [workersPerLook]bool
	for part := range slices.Chunk(links, workersPerLook) {
		s.mu.Lock()
		for i, l := range part {
			if known[i] = s.hasLink(l); !known[i] {
				continue
			}
			if list[i], known[i] = s.core.Status(l.key); known[i] {
				locked(l)
			}
		}
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

// linksNamed finds the workers with a given name or address.
func (s *Server) linksNamed(links []*link, name string) (found []*link) {
	for part := range slices.Chunk(links, workersPerLook) {
		s.mu.Lock()
		for _, l := range part {
			if l.addr == name || l.workerRun.worker == name {
				found = append(found, l)
			}
		}
		s.mu.Unlock()
	}
	return found
}

// connecting is the state of a worker without a status.
const connecting = "connecting"

// workerState returns a worker's state in the core, or connecting. up says whether the link is up. If the link is
// up and the state in the core is "down", the worker counts as connecting.
func workerState(up bool, st *frontend.WorkerStatus) string {
	if st == nil || st.State == "down" && up {
		return connecting
	}
	return st.State
}

func workerStatus(l *link, st *frontend.WorkerStatus, now time.Time) *v1.WorkerStatus {
	up, problem, heard, rtt := l.linkStatus()
	ws := &v1.WorkerStatus{
		RowUsAgo: -1, WaitUsAgo: -1, MaintenanceUs: -1, Name: l.addr, Address: l.addr, State: workerState(up, st),
		Error: problem, Spare: demandToAPI(probe.Demand{}),
		HeardUsAgo: heard.Microseconds(), RttUs: rtt.Microseconds(),
	}
	if st == nil {
		return ws
	}
	ws.Name, ws.Host, ws.Rack = st.Welcome.Worker, st.Welcome.Host, st.Welcome.Rack
	ws.Labels, ws.Functions = st.Welcome.Labels, st.Welcome.Functions
	ws.Capacity = demandToAPI(st.Welcome.Capacity)
	ws.Free = demandToAPI(probe.Demand{CPU: max(st.Load.Free.CPU, 0), Mem: max(st.Load.Free.Mem, 0)})
	ws.Spare = demandToAPI(st.Spare)
	ws.Queued, ws.Running = int32(st.Load.Queued), int32(st.Load.Running)
	ws.Reservations, ws.Attempts, ws.CacheError = int32(st.Reservations), int32(st.Attempts), st.CacheProblem
	describeView(ws, &st.View, now)
	return ws
}

func demandToAPI(d probe.Demand) *v1.Demand {
	return &v1.Demand{CpuMillicores: int32(d.CPU), MemoryMib: int32(d.Mem)}
}

// stateNumbers are the numbers of the API for states.
var stateNumbers = map[string]byte{connecting: 0, "up": 1, "adrift": 2, "draining": 3, "down": 4}

// packFigures packs a few numbers of each worker. known is the number of the list of names that the caller has. If
// the names are still the same, the answer leaves them out.
func (s *Server) packFigures(links []*link, known int64, now time.Time) *v1.Figures {
	f := &v1.Figures{Names: make([]string, 0, len(links)), Addresses: make([]string, 0, len(links)),
		Racks: make([]string, 0, len(links)), Hosts: make([]string, 0, len(links)),
		Figures: make([]byte, 0, 8*len(links))}
	namesHash := fnv.New64a()
	addName := func(names *[]string, name string) {
		*names = append(*names, name)
		_, _ = namesHash.Write(binary.AppendUvarint(nil, uint64(len(name))))
		_, _ = namesHash.Write([]byte(name))
	}
	s.lookAtWorkers(links, func(l *link, st *frontend.WorkerStatus) {
		addName(&f.Addresses, l.addr)
		name, rack, host, age := l.addr, "", "", byte(unknownFigure)
		if st != nil {
			name, rack, host = st.Welcome.Worker, st.Welcome.Rack, st.Welcome.Host
			if st.View.Matrix != nil {
				age = logFigure(now.Sub(st.View.Heard).Microseconds())
			}
		}
		addName(&f.Names, name)
		addName(&f.Racks, rack)
		addName(&f.Hosts, host)
		figure := packFigure(l, st)
		f.Figures, f.Ages = append(f.Figures, figure[:]...), append(f.Ages, age)
	})
	f.Number = max(int64(namesHash.Sum64()&math.MaxInt64), 1)
	if f.Number == known {
		f.Names, f.Addresses, f.Racks, f.Hosts = nil, nil, nil, nil
	}
	return f
}

// packFigure packs the figures of a worker as the API has them. st is nil for a worker without a status.
func packFigure(l *link, st *frontend.WorkerStatus) [8]byte {
	if st == nil {
		return [8]byte{stateNumbers[connecting], 0, 0, 0, 0, unknownFigure, unknownFigure, unknownFigure}
	}
	up, _, heard, rtt := l.linkStatus()
	capacity, free, wait := st.Welcome.Capacity, st.Load.Free, byte(unknownFigure)
	if st.View.Matrix != nil {
		if w := st.View.Matrix.Cells[figureStep][figureStep]; w != probe.NeverFits {
			wait = logFigure(w.Duration().Microseconds())
		}
	}
	return [8]byte{stateNumbers[workerState(up, st)],
		usedShare(int64(free.CPU), int64(capacity.CPU)), usedShare(int64(free.Mem), int64(capacity.Mem)),
		logFigure(int64(st.Load.Queued)), logFigure(int64(st.Load.Running)), wait, logFigure(rtt.Microseconds()),
		logFigure(heard.Microseconds())}
}

// figureStep is the step of a wait matrix that stands for an eighth of the worker.
const figureStep = 2

// unknownFigure stands for a figure that is not known.
const unknownFigure = 255

// usedShare returns the used share of all, as a number from 0 to 255.
func usedShare(free, all int64) byte {
	if all <= 0 {
		return 0
	}
	return byte(255 * (all - min(max(free, 0), all)) / all)
}

// logFigure returns 8 times the binary logarithm of n. 0 stands for 0, and 1 for 1. The largest value is
// unknownFigure-1.
func logFigure(n int64) byte {
	if n <= 0 {
		return 0
	}
	return byte(min(max(math.Round(8*math.Log2(float64(n))), 1), unknownFigure-1))
}
