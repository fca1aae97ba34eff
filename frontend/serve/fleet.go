package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe/gossip"
	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
	"github.com/phoebe-sched/phoebe/probe/heartbeat"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

// fleet is this frontend's part in the gossip. The fleet takes workers' heartbeats, and serves the rows of gossip
// as a list of workers.
type fleet struct {
	server        *Server
	node          *gossip.Node
	heartbeats    *heartbeat.Server
	heartbeatAddr string

	mu          sync.Mutex // taken before the server's
	setAddrs    func([]string)
	known       map[string]knownWorker // workers that are up, by name
	formerAddrs map[string]bool        // addresses of workers that are not up any more but may still be linked
}

// knownWorker holds the facts from gossip about a worker that the list and the core need later.
type knownWorker struct {
	addr        string
	incarnation uint64
	filesRev    uint32 // revision of files in that incarnation
	files       []estimate.FileID
}

// maxBeatConns bounds the connections of workers that send heartbeats.
const maxBeatConns = 1 << 16

// leaveWait bounds the wait for a peer to hear of the frontend's leave.
const leaveWait = time.Second

func newFleet(s *Server) *fleet {
	return &fleet{server: s, known: map[string]knownWorker{}, formerAddrs: map[string]bool{}}
}

// start takes heartbeats and joins the gossip. Watch must have been called.
func (f *fleet) start() error {
	cfg := &f.server.cfg
	l, err := net.Listen("tcp", cfg.Heartbeat)
	if err != nil {
		return fmt.Errorf("take heartbeats on %s: %w", cfg.Heartbeat, err)
	}
	f.heartbeatAddr = l.Addr().String()
	advertises := advertisedAddr(l.Addr(), cfg.GossipAdvertise)
	l = cfg.Keys.Listen(l, identity.Worker)
	node, err := gossip.Start(gossip.Config{
		Name: cfg.Name, Bind: cfg.Gossip, Advertise: cfg.GossipAdvertise, API: cfg.Advertise, Heartbeat: advertises,
		Seeds: cfg.Join, Secrets: cfg.GossipSecrets, OnRows: f.onRows, OnMembers: f.onMembers,
		OnTerms: f.server.terms.hearTerms, OnLessons: f.server.hearLessons, Log: cfg.Logger,
	})
	if err != nil {
		l.Close()
		return err
	}
	f.server.mu.Lock() // for metrics: all other readers start later
	f.node = node
	f.heartbeats = heartbeat.Serve(l,
		heartbeat.Config{Secrets: cfg.connSecrets(), MaxConns: maxBeatConns, Answer: node.Heartbeat})
	f.server.mu.Unlock()
	f.server.terms.tellOthersAtStart()
	f.server.log.Info("frontend gossips", "frontend", cfg.Name, "address", node.Addr(), "heartbeats", f.heartbeatAddr)
	return nil
}

// advertisedAddr returns the advertised form of addr: the host of other, with the port of addr. other is the
// advertised address of another port of this frontend; the port may be missing. If other is empty, the result is
// addr.
func advertisedAddr(addr net.Addr, other string) string {
	if other == "" {
		return addr.String()
	}
	host, _, err := net.SplitHostPort(other)
	if err != nil {
		host = other // without a port
	}
	_, port, _ := net.SplitHostPort(addr.String())
	return net.JoinHostPort(host, port)
}

// close leaves the gossip. No callback runs after close returns.
func (f *fleet) close() error {
	if f.node == nil {
		return nil
	}
	if len(f.node.Members()) > 1 {
		_ = f.node.Leave(leaveWait) // if no frontend hears the farewell, the frontends find out in time
	}
	return errors.Join(f.heartbeats.Close(), f.node.Close())
}

// Watch implements Workers. The list holds the workers whose rows say up, and workers with a live link. A live link
// is better evidence than a row.
func (f *fleet) Watch(_ context.Context, set func([]string)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.setAddrs = set
	set(nil)
	return nil
}

// onMembers sets the frontends to which calls may be forwarded.
func (f *fleet) onMembers(members []rows.Member) {
	addrs := make([]string, len(members))
	for i, m := range members {
		addrs[i] = m.API
	}
	f.server.peers.setMembers(addrs, time.Now())
	for _, m := range members {
		f.server.peers.setName(m.API, m.Name)
	}
}

// onRows passes changed rows to the list of workers and to the core.
func (f *fleet) onRows(changedRows []rows.Row) {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := false
	for i := range changedRows {
		changed = f.noteRow(&changedRows[i]) || changed
	}
	if changed {
		f.publishList()
	}
	f.tellCore(changedRows)
}

// noteRow notes a row of a worker, and reports whether the list of workers changes.
func (f *fleet) noteRow(r *rows.Row) (changed bool) {
	name, addr := r.Profile.Name, r.Profile.Addr
	old, known := f.known[name]
	switch {
	case r.State != rows.Up && !known:
		return false
	case r.State != rows.Up:
		f.server.log.Info("worker gone, by gossip", "worker", name, "address", old.addr, "state", r.State.String())
		delete(f.known, name)
		f.formerAddrs[old.addr] = true
		return true
	case known && old.addr == addr:
		if r.FilesRev != old.filesRev || r.Incarnation != old.incarnation {
			f.known[name] = knownWorker{addr, r.Incarnation, r.FilesRev, fileIDs(r.Files)}
		}
		return false
	}
	if err := checkAddr(addr); err != nil {
		f.server.log.Warn("worker cannot be reached, by gossip", "worker", name, "err", err)
		return false
	}
	f.server.log.Info("worker found, by gossip", "worker", name, "address", addr)
	if known {
		f.formerAddrs[old.addr] = true
	}
	f.known[name] = knownWorker{addr, r.Incarnation, r.FilesRev, fileIDs(r.Files)}
	return true
}

func fileIDs(files *rows.Files) []estimate.FileID {
	if files == nil {
		return nil
	}
	ids := make([]estimate.FileID, len(*files))
	for i, id := range *files {
		ids[i] = estimate.FileID(id)
	}
	return ids
}

// dropFormer takes former workers without a link off the list.
func (f *fleet) dropFormer() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for addr := range f.formerAddrs {
		if !f.server.isLinked(addr) {
			f.publishList()
			return
		}
	}
}

// publishList hands the list of addresses to the server.
func (f *fleet) publishList() {
	addrs := make([]string, 0, len(f.known))
	current := make(map[string]bool, len(f.known))
	for _, k := range f.known {
		addrs = append(addrs, k.addr)
		current[k.addr] = true
	}
	for addr := range f.formerAddrs {
		if current[addr] || !f.server.isLinked(addr) {
			delete(f.formerAddrs, addr)
		} else {
			addrs = append(addrs, addr)
		}
	}
	f.setAddrs(addrs)
}

// rowsPerStep bounds the rows taken by the core under a single hold of the mutex. Meanwhile goroutines wait for the
// mutex.
const rowsPerStep = 32

// tellCore passes rows of workers with a link to the core. Gossip's facts about workers enter the core only here.
func (f *fleet) tellCore(changed []rows.Row) {
	s := f.server
	for chunk := range slices.Chunk(changed, rowsPerStep) {
		s.mu.Lock()
		for i := range chunk {
			r := &chunk[i]
			l := s.byAddr[r.Profile.Addr]
			if l == nil || r.State != rows.Up {
				continue
			}
			matrix := r.Matrix // a copy, because the core keeps it
			s.stepLocked(frontend.Heard{
				Worker: l.key, Incarnation: r.Incarnation, Seq: r.Seq, Age: r.Age, Matrix: &matrix, Speed: r.Speed,
				Draining:    r.Draining,
				Maintenance: r.Maintenance.In, Lasts: r.Maintenance.Lasts, Files: f.known[r.Profile.Name].files,
			})
		}
		s.unlockAndFlush()
	}
}

// describeWorker completes ws with gossip's row of the worker.
func (f *fleet) describeWorker(ws *v1.WorkerStatus) {
	r, ok := f.node.Get(ws.Name)
	if !ok || r.State != rows.Up {
		return
	}
	var homes []string
	for _, m := range rows.Homes(ws.Name, f.node.Members()) {
		if m.Name == f.server.cfg.Name {
			homes = []string{"itself"}
			break
		}
		homes = append(homes, m.Name)
	}
	ws.RowUsAgo, ws.RowFrom = r.Age.Microseconds(), strings.Join(homes, " ")
	ws.RowFlaws = (r.Flaws | r.Profile.Flaws).Names()
	if len(ws.WaitUs) == 0 {
		ws.WaitUs, ws.WaitUsAgo = waitsToAPI(&r.Matrix), ws.RowUsAgo
	}
}

// GossipAddr returns the address of the frontend's gossip, or "" without gossip.
func (s *Server) GossipAddr() string {
	if s.fleet == nil {
		return ""
	}
	return s.fleet.node.Addr()
}

// HeartbeatAddr returns the address that takes workers' heartbeats, or "" without gossip.
func (s *Server) HeartbeatAddr() string {
	if s.fleet == nil {
		return ""
	}
	return s.fleet.heartbeatAddr
}

const aloneAdvice = ": this frontend knows only workers that send it heartbeats; see that --join names running " +
	"frontends, and that TCP and UDP reach their --gossip ports in both directions"

// whyCutOff says how the frontend is cut off from its peers, and how to repair it, or "".
func (f *fleet) whyCutOff() string {
	h := f.node.Health()
	switch {
	case !h.CutOff:
		return ""
	case h.Members == 1:
		return "no other frontend is reached" + aloneAdvice
	}
	return fmt.Sprintf("nothing heard from any of %d other frontends for %v", h.Members-1,
		h.Silence.Round(time.Second)) + aloneAdvice
}

// whyAddrShared names a frontend with the same advertised address, and says how to repair that, or "".
func (f *fleet) whyAddrShared() string {
	cfg := &f.server.cfg
	for _, m := range f.node.Members() {
		if m.API == cfg.Advertise && m.Name != cfg.Name {
			return fmt.Sprintf("frontend %s advertises the same address as this one, %s, and calls for its jobs come here: "+
				"give each frontend an --advertise of its own", m.Name, m.API)
		}
	}
	return ""
}
