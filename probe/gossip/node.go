package gossip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
	"github.com/phoebe-sched/phoebe/probe/names"
)

const (
	dialTimeout  = 3 * time.Second
	joinEvery    = time.Second      // between attempts to join addresses, while the frontend is alone
	rejoinEvery  = 10 * time.Second // the same, while the frontend is not alone
	rememberFor  = time.Hour        // the node looks for a lost member for this time
	streamQueue  = 64               // messages waiting for a stream; further messages are dropped, and asked for again
	stalledAfter = time.Second      // delay of a tick that counts as a stall
	packetCost   = 28 + 1 + 5 + 29  // bytes of IP, UDP, type, checksum and encryption around a message
	streamCost   = 400              // about, including the packets that open and close a connection
	silentFor    = 5                // heartbeats without any message; each member sends two messages a heartbeat
	leaveKind    = 0                // first byte of a goodbye; package rows owns all other kinds
)

// Node represents this frontend among the members. Any goroutine may call its methods.
type Node struct {
	cfg            Config
	self           rows.Member         // without the gossip address, found by the library
	runName        string              // name of the own member in the library
	ring           *memberlist.Keyring // nil: no encryption
	secretsVersion uint64              // version of the secrets when the ring was made
	log            *slog.Logger
	list           *memberlist.Memberlist
	addr           string
	bindIP         netip.Addr // of Bind
	bindPort       int
	ready          atomic.Bool // list and addr are set
	ctx            context.Context
	cancel         context.CancelFunc
	done           sync.WaitGroup

	streams chan streamMsg

	mu   sync.Mutex // held for microseconds: never during a call of memberlist or of the user
	core *rows.Core

	// peersMu guards the fields below. memberlist calls events under its own lock, so take peersMu last.
	peersMu        sync.Mutex
	peers          map[string]*peer            // all members but this, by run
	lostMembers    map[string]lostMember       // members lost without leaving, by run
	leaving        map[string]bool             // runs of members that said goodbye
	seedAddrs      []string                    // the configured seeds, with names of several seeds looked up
	seedIPs        map[string][]netip.AddrPort // addresses of the seeds that have host names
	membersChanged bool

	traffic struct{ packetsIn, packetsOut, bytesIn, bytesOut, dropped, failed, complaints, stalls atomic.Uint64 }
}

// peer is another member, in its state of the last join or update.
type peer struct {
	rows.Member
	node memberlist.Node
}

// lostMember is a member that vanished without a goodbye: its name, the last address, and the time of the loss.
type lostMember struct {
	name, addr string
	since      time.Time
}

// streamMsg is a message waiting for a stream to the receiver.
type streamMsg struct {
	peer *peer
	msg  []byte
}

// Start takes part in the gossip at once, and joins the seeds in the background. Start does not change cfg.
func Start(cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.View == (rows.Config{}) {
		cfg.View = rows.DefaultConfig
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	n := &Node{cfg: cfg, log: cfg.Log, streams: make(chan streamMsg, streamQueue),
		peers: map[string]*peer{}, lostMembers: map[string]lostMember{}, leaving: map[string]bool{},
		seedIPs: map[string][]netip.AddrPort{}, membersChanged: true}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	now := time.Now()
	n.self = rows.Member{Name: cfg.Name, Run: rows.NewIncarnation(now.UnixMilli(), rand.Uint64()), API: cfg.API,
		Heartbeat: cfg.Heartbeat}
	n.core = rows.New(cfg.View, n.self, now, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))

	// The library gets a new name for each run, because memberlist refuses a known name at a new address for some
	// time.
	n.runName = cfg.Name + "~" + strconv.FormatUint(n.self.Run, 36)
	n.secretsVersion = cfg.Secrets.Version()
	conf, err := cfg.libraryConfig(n.runName)
	if err != nil {
		return nil, fmt.Errorf("gossip: %w", err)
	}
	n.ring = conf.Keyring
	conf.Delegate, conf.Events = (*delegate)(n), (*events)(n)
	conf.LogOutput, conf.Logger = nil, log.New(memberlistLog{n}, "", 0)
	ports, err := openPorts(conf)
	if err != nil {
		n.cancel()
		return nil, fmt.Errorf("gossip: %w", err)
	}
	conf.Transport = ports
	if n.list, err = memberlist.Create(conf); err != nil {
		ports.Shutdown()
		n.cancel()
		return nil, fmt.Errorf("gossip: %w", err)
	}
	n.addr = n.list.LocalNode().Address()
	n.bindIP, n.bindPort = netip.MustParseAddr(conf.BindAddr).Unmap(), conf.BindPort
	n.ready.Store(true)
	n.reportMembers()
	n.seedAddrs = names.Plain(cfg.Seeds)
	if slices.ContainsFunc(cfg.Seeds, names.Is) {
		n.done.Go(n.followSeeds)
	}
	n.done.Go(n.tickCore)
	n.done.Go(n.sendStreams)
	n.done.Go(n.joinMissing)
	return n, nil
}

// Addr returns the host:port of the node, as reached by other frontends.
func (n *Node) Addr() string { return n.addr }

// Hear takes a row from its worker, by heartbeat or over a link. wantsWholeRow means that the worker should send a
// whole row.
func (n *Node) Hear(r rows.Row) (o rows.Outcome, wantsWholeRow bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.core.Hear(time.Now(), r)
}

// Heartbeat takes a worker's heartbeat. The caller has checked its secret, and must not write to the Members of the
// answer.
func (n *Node) Heartbeat(h *rows.Heartbeat) rows.Answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.core.Heartbeat(time.Now(), h)
}

// SetTerms offers the frontend's own terms. All members adopt the terms, unless later terms exist. Nobody may write
// to t afterwards.
func (n *Node) SetTerms(t rows.Terms) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.core.SetTerms(t)
}

// SetLessons replaces the lessons of this frontend for the members, at most rows.MaxLessons bytes. Nobody may write to
// the lessons afterwards.
func (n *Node) SetLessons(lessons []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.core.SetLessons(lessons)
}

// TellNeeds tells the members the needs of the frontend by tenant. Call TellNeeds again and again: a need left out
// twice ends.
func (n *Node) TellNeeds(list []rows.Need) {
	n.mu.Lock()
	out := n.core.TellNeeds(list, nil)
	n.mu.Unlock()
	n.sendAll(out)
}

// Needs returns the present frontends, this one included, and the needs told by the others, by frontend. silent lists
// three kinds of frontends: silent for longer than silentAfter, lost without a goodbye, or found since the last tick.
// The results are of one moment. So a lost frontend that gossip finds again is silent or a member at each moment.
// Otherwise this frontend could believe for a moment that no other frontend exists.
func (n *Node) Needs(silentAfter time.Duration) (members []rows.Member, needs map[string][]rows.Need, silent []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	needs, silent = n.core.Needs(time.Now(), silentAfter)
	members = n.core.Members()
	present := map[string]bool{}
	for _, m := range members {
		present[m.Name] = true
	}
	n.peersMu.Lock()
	defer n.peersMu.Unlock()
	for _, l := range n.lostMembers {
		if !present[l.name] {
			silent = append(silent, l.name)
		}
	}
	for _, p := range n.peers {
		if !present[p.Name] {
			silent = append(silent, p.Name)
		}
	}
	return members, needs, silent
}

// Get returns the row of a worker.
func (n *Node) Get(name string) (rows.Row, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.core.Get(time.Now(), name)
}

// Since returns the rows that changed after a version of the table, and the table's new version. Since(0) returns
// all rows.
func (n *Node) Since(version uint64) (list []rows.Row, to uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.appendSince(nil, version)
}

func (n *Node) appendSince(list []rows.Row, version uint64) ([]rows.Row, uint64) {
	for _, r := range n.core.Since(time.Now(), version) {
		list = append(list, r)
	}
	return list, n.core.Version()
}

// Ages returns the ages of the rows of all workers that are up.
func (n *Node) Ages() (ages []time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.core.Since(time.Now(), 0) {
		if r.State == rows.Up {
			ages = append(ages, r.Age)
		}
	}
	return ages
}

// Members returns all frontends by name, including the own frontend. The caller must not write to the slice.
func (n *Node) Members() []rows.Member {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.core.Members()
}

// Health describes the contact with other members.
type Health struct {
	Members int           // known members, including the own frontend
	Silence time.Duration // since the last message of any member
	CutOff  bool          // the frontend should hear from members and does not: only its own workers tell rows
}

// Health returns the present health.
func (n *Node) Health() Health {
	n.mu.Lock()
	h := Health{Members: len(n.core.Members()), Silence: n.core.Silence(time.Now())}
	n.mu.Unlock()
	if h.Members > 1 {
		h.CutOff = h.Silence > silentFor*n.cfg.View.Heartbeat
	} else {
		h.CutOff = len(n.missingAddrs()) > 0
	}
	return h
}

// Stats are counts since the start.
type Stats struct {
	rows.Stats
	Merged                map[string]uint64 // rows by outcome
	Flawed                uint64            // rows with an absurd value, replaced by the table
	Workers               int               // workers that are up
	LessonBytes           int               // of this frontend's lessons
	PacketsIn, PacketsOut uint64            // messages, including messages on streams
	BytesIn, BytesOut     uint64            // with headers, about; without memberlist's own few packets
	Dropped               uint64            // messages dropped because the queue of the streams was full
	Failed                uint64            // failed attempts to send a message
	// Complaints counts warnings and errors of memberlist, for instance about undecryptable packets.
	Complaints        uint64
	Stalls, ClockBack uint64 // standstills of the process for a second; steps of the clock backwards
}

// Stats returns the present counts.
func (n *Node) Stats() Stats {
	t := &n.traffic
	s := Stats{PacketsIn: t.packetsIn.Load(), PacketsOut: t.packetsOut.Load(), BytesIn: t.bytesIn.Load(),
		BytesOut: t.bytesOut.Load(),
		Dropped:  t.dropped.Load(), Failed: t.failed.Load(), Complaints: t.complaints.Load(), Stalls: t.stalls.Load()}
	n.mu.Lock()
	defer n.mu.Unlock()
	s.Stats, s.Workers, s.LessonBytes = n.core.Stats, n.core.Len(), n.core.LessonBytes()
	s.Merged, s.Flawed, s.ClockBack = n.core.Counts()
	return s
}

// Leave says goodbye to the members, so that nobody looks for the frontend. Leave returns when a member has heard
// the goodbye, or after the timeout. Close must follow, and must not come before.
func (n *Node) Leave(timeout time.Duration) error {
	if n.ctx.Err() != nil {
		return errors.New("gossip: leave after close")
	}
	n.sendToPeers(append([]byte{leaveKind}, n.runName...))
	return n.list.Leave(timeout)
}

// Close ends everything begun by Start. After Close returns, no callback runs. Without a Leave before, the members
// take Close for a crash.
func (n *Node) Close() error {
	n.cancel()
	err := n.list.Shutdown()
	n.done.Wait()
	return err
}

// tickCore ticks the core every rows.FlushEvery, sends its messages, and reports changes to the callbacks.
func (n *Node) tickCore() {
	timer := time.NewTicker(rows.FlushEvery)
	defer timer.Stop()
	var rowsVersion uint64
	var sends []rows.Send
	var changedRows []rows.Row
	var termsRevision, farRevision uint64
	var termsText []byte // of the last reported terms
	last := time.Now()
	secrets := n.secretsVersion
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-timer.C:
		}
		now := time.Now()
		if now.Sub(last) > rows.FlushEvery+stalledAfter {
			n.traffic.stalls.Add(1)
		}
		last = now
		n.reportMembers()
		if v := n.cfg.Secrets.Version(); v != secrets {
			secrets = v
			n.changeKeys()
		}
		n.mu.Lock()
		sends = n.core.Tick(now, sends[:0])
		if n.cfg.OnRows != nil {
			changedRows, rowsVersion = n.appendSince(changedRows[:0], rowsVersion)
		}
		terms, far := n.core.Terms(), n.core.FarRevision()
		heardLessons := n.core.TakeHeardLessons()
		n.mu.Unlock()
		if far != farRevision {
			farRevision = far
			n.log.Error("the tenants file of another frontend is refused: give the file a revision within reach, and "+
				"restart the frontend", "revision", far, "in use", terms.Revision, "within reach",
				terms.Revision+rows.MaxRevisionStep)
		}
		n.sendAll(sends)
		clear(sends)
		if n.cfg.OnTerms != nil && terms.Revision > 0 &&
			(terms.Revision != termsRevision || !bytes.Equal(terms.Text, termsText)) {
			termsRevision, termsText = terms.Revision, terms.Text
			n.cfg.OnTerms(terms)
		}
		if len(changedRows) > 0 {
			n.cfg.OnRows(changedRows)
		}
		for _, lessons := range heardLessons {
			if n.cfg.OnLessons != nil {
				n.cfg.OnLessons(lessons)
			}
		}
	}
}

// changeKeys replaces the keys after the secrets have changed.
func (n *Node) changeKeys() {
	keys := n.cfg.deriveKeys()
	if n.ring == nil || len(keys) == 0 {
		n.log.Error("encryption of gossip cannot be switched on or off while a frontend runs: restart this frontend")
		return
	}
	var errs []error
	for _, key := range keys {
		errs = append(errs, n.ring.AddKey(key))
	}
	errs = append(errs, n.ring.UseKey(keys[0]))
	for _, old := range n.ring.GetKeys() {
		if !slices.ContainsFunc(keys, func(key []byte) bool { return bytes.Equal(key, old) }) {
			errs = append(errs, n.ring.RemoveKey(old))
		}
	}
	if err := errors.Join(errs...); err != nil {
		n.log.Error("gossip keys", "err", err)
		return
	}
	n.log.Info("gossip keys have changed", "keys", len(keys))
}

// reportMembers takes changes of the membership to the core and to OnMembers. Calls do not overlap.
func (n *Node) reportMembers() {
	n.peersMu.Lock()
	if !n.membersChanged {
		n.peersMu.Unlock()
		return
	}
	n.membersChanged = false
	self := n.self
	self.Gossip = n.addr
	list := []rows.Member{self}
	for _, p := range n.peers {
		list = append(list, p.Member)
	}
	n.peersMu.Unlock()
	n.mu.Lock()
	n.core.SetMembers(list)
	list = n.core.Members()
	n.mu.Unlock()
	if n.cfg.OnMembers != nil {
		n.cfg.OnMembers(list)
	}
}

func (n *Node) sendAll(sends []rows.Send) {
	for _, s := range sends {
		if s.To == "" {
			n.sendToPeers(s.Msg)
			continue
		}
		n.peersMu.Lock()
		p := n.newestRun(s.To)
		n.peersMu.Unlock()
		switch {
		case p == nil:
		case s.Stream:
			select {
			case n.streams <- streamMsg{p, s.Msg}:
			default:
				n.traffic.dropped.Add(1)
			}
		default:
			n.sendPacket(p, s.Msg)
		}
	}
}

// newestRun returns the newest run of the member called name, or nil.
func (n *Node) newestRun(name string) (p *peer) {
	for _, q := range n.peers {
		if q.Name == name && (p == nil || q.Run > p.Run) {
			p = q
		}
	}
	return p
}

func (n *Node) sendToPeers(msg []byte) {
	n.peersMu.Lock()
	peers := make([]*peer, 0, len(n.peers))
	for _, p := range n.peers {
		peers = append(peers, p)
	}
	n.peersMu.Unlock()
	for _, p := range peers {
		n.sendPacket(p, msg)
	}
}

func (n *Node) sendPacket(p *peer, msg []byte) {
	n.countSent(n.list.SendBestEffort(&p.node, msg), len(msg)+packetCost)
}

// sendStreams sends messages too long for a packet.
func (n *Node) sendStreams() {
	for {
		select {
		case <-n.ctx.Done():
			return
		case s := <-n.streams:
			n.countSent(n.list.SendReliable(&s.peer.node, s.msg), len(s.msg)+streamCost)
		}
	}
}

func (n *Node) countSent(err error, bytes int) {
	if err != nil {
		n.traffic.failed.Add(1)
		return
	}
	n.traffic.packetsOut.Add(1)
	n.traffic.bytesOut.Add(uint64(bytes))
}

// followSeeds follows the DNS for seeds given by name, and keeps seedAddrs up to date.
func (n *Node) followSeeds() {
	warn := func(err error) { n.log.Warn("frontends cannot be looked up", "frontend", n.self.Name, "err", err) }
	names.Watcher{Addrs: n.cfg.Seeds, Warn: warn}.Watch(n.ctx, func(addrs []string) {
		n.peersMu.Lock()
		defer n.peersMu.Unlock()
		n.seedAddrs = addrs
	})
}

// joinMissing keeps trying to reach the missing members, because memberlist itself does not look for a member once
// taken for dead.
func (n *Node) joinMissing() {
	failed := ""
	for {
		n.resolveSeeds()
		err := errors.Join(n.join(n.missingAddrs())...)
		alone := len(n.Members()) == 1
		switch {
		case n.ctx.Err() != nil:
			return
		case err == nil:
			failed = ""
		case alone && err.Error() != failed:
			failed = err.Error()
			n.log.Warn("no other frontend can be joined", "frontend", n.self.Name, "err", err)
		case !alone && failed == "":
			failed = err.Error()
			n.log.Warn("frontends that --join names, or that were lost, cannot be joined", "frontend", n.self.Name, "err",
				err)
		}
		wait := rejoinEvery
		if alone {
			wait = joinEvery
		}
		select {
		case <-n.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// missingAddrs returns the addresses of seeds and lost members without a present member.
func (n *Node) missingAddrs() []string {
	n.peersMu.Lock()
	defer n.peersMu.Unlock()
	var addrs []string
	for run, l := range n.lostMembers {
		if time.Since(l.since) > rememberFor {
			delete(n.lostMembers, run)
		} else {
			addrs = append(addrs, l.addr)
		}
	}
	present := map[string]bool{n.addr: true, n.cfg.Bind: true, n.cfg.Advertise: true}
	for _, p := range n.peers {
		present[p.Gossip] = true
	}
	for _, addr := range n.seedAddrs {
		if !n.isSeedPresent(addr, present) {
			addrs = append(addrs, addr)
		}
	}
	slices.Sort(addrs)
	return slices.Compact(addrs)
}

// delegate answers the questions and takes the messages of memberlist.
type delegate Node

func (d *delegate) NodeMeta(int) []byte { return encodeMeta(d.self) }

func (d *delegate) NotifyMsg(msg []byte) {
	n := (*Node)(d)
	if !n.ready.Load() {
		return
	}
	n.traffic.packetsIn.Add(1)
	cost := packetCost
	if len(msg) > rows.MaxPacket {
		cost = streamCost
	}
	n.traffic.bytesIn.Add(uint64(len(msg) + cost))
	if len(msg) > 0 && msg[0] == leaveKind {
		n.noteLeaving(string(msg[1:]))
		return
	}
	n.mu.Lock()
	out, err := n.core.Receive(time.Now(), msg, nil)
	n.mu.Unlock()
	if err != nil {
		n.log.Debug("unreadable gossip", "frontend", n.self.Name, "err", err)
	}
	n.sendAll(out)
}

// noteLeaving notes a goodbye. memberlist may report the end of the member before the goodbye arrives.
func (n *Node) noteLeaving(run string) {
	n.peersMu.Lock()
	defer n.peersMu.Unlock()
	if n.peers[run] != nil {
		n.leaving[run] = true
	} else if _, ok := n.lostMembers[run]; ok {
		delete(n.lostMembers, run)
		n.membersChanged = true // only for Health
	}
}

func (*delegate) GetBroadcasts(int, int) [][]byte { return nil }
func (*delegate) LocalState(bool) []byte          { return nil }
func (*delegate) MergeRemoteState([]byte, bool)   {}

// events takes memberlist's events about members. memberlist holds its own lock during the calls.
type events Node

func (e *events) NotifyJoin(node *memberlist.Node) { e.noteMember(node) }

func (e *events) NotifyUpdate(node *memberlist.Node) { e.noteMember(node) }

func (e *events) noteMember(node *memberlist.Node) {
	m, err := decodeMeta(node.Meta)
	switch {
	case err != nil:
		e.log.Warn("a member speaks another protocol", "frontend", node.Name, "err", err)
		return
	case m.Run == e.self.Run:
		return
	}
	m.Gossip = node.Address()
	if m.Name == e.self.Name && m.Run > e.self.Run {
		e.log.Error("another frontend has the name of this frontend", "frontend", m.Name, "addr", m.Gossip)
	}
	e.peersMu.Lock()
	defer e.peersMu.Unlock()
	maps.DeleteFunc(e.lostMembers, func(_ string, l lostMember) bool { return l.addr == m.Gossip })
	if e.peers[node.Name] == nil {
		e.log.Info("frontend joined", "frontend", m.Name, "addr", m.Gossip)
	}
	e.peers[node.Name] = &peer{m, *node}
	e.membersChanged = true
}

func (e *events) NotifyLeave(node *memberlist.Node) {
	e.peersMu.Lock()
	defer e.peersMu.Unlock()
	p := e.peers[node.Name]
	if p == nil {
		return
	}
	if e.leaving[node.Name] {
		e.log.Info("frontend left", "frontend", p.Name, "addr", p.Gossip)
	} else {
		e.log.Warn("frontend lost", "frontend", p.Name, "addr", p.Gossip)
		e.lostMembers[node.Name] = lostMember{p.Name, p.Gossip, time.Now()}
	}
	delete(e.peers, node.Name)
	delete(e.leaving, node.Name)
	e.membersChanged = true
}

// memberlistLog takes the log of memberlist: garbage on the port must not fill the log of the frontend.
type memberlistLog struct{ node *Node }

func (c memberlistLog) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("[ERR]")) || bytes.Contains(line, []byte("[WARN]")) {
		c.node.traffic.complaints.Add(1)
	}
	c.node.log.Debug("memberlist", "text", string(bytes.TrimSpace(line)))
	return len(line), nil
}

var _ io.Writer = memberlistLog{}
