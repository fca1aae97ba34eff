package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
	"github.com/phoebe-sched/phoebe/probe/ports/porttest"
	wserve "github.com/phoebe-sched/phoebe/worker/serve"
)

// withGossip gives a test's frontend gossip.
func withGossip(join ...string) func(*Config) {
	return func(c *Config) { c.Gossip, c.Heartbeat, c.Join = "127.0.0.1:0", "127.0.0.1:0", join }
}

// startWorker starts a worker that announces itself to the frontends at these addresses.
func startWorker(tb testing.TB, name, listen string, join ...string) *wserve.Server {
	tb.Helper()
	w, err := wserve.New(wserve.Config{Listen: listen, Name: name, Join: join})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { w.Close() })
	if err := w.Start(); err != nil {
		tb.Fatal(err)
	}
	return w
}

// listAddrs lists the addresses of the workers on the frontend's list.
func (c *testCluster) listAddrs() (addrs []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.links {
		if l != nil {
			addrs = append(addrs, l.addr)
		}
	}
	slices.Sort(addrs)
	return addrs
}

func (c *testCluster) shownState(tb testing.TB, addr string) string {
	tb.Helper()
	res, err := c.client.Cluster(context.Background(), &v1.ClusterRequest{})
	if err != nil {
		tb.Fatal(err)
	}
	for _, w := range res.Workers {
		if w.Address == addr {
			return w.State
		}
	}
	return ""
}

// Frontends and workers with a single known address find each other, and forward calls to the owners of jobs.
func TestFindEachOther(t *testing.T) {
	a := startCluster(t, 0, 0, withGossip())
	b := startCluster(t, 1, 1, withGossip(a.GossipAddr())) // with a single worker on its list
	w := startWorker(t, "w", "127.0.0.1:0", a.HeartbeatAddr())
	a.awaitWorkers(t, 1)
	b.awaitWorkers(t, 2)
	if l := a.listAddrs(); !slices.Equal(l, []string{w.Addr().String()}) {
		t.Errorf("a lists %v", l)
	}
	ctx := context.Background()
	j := newJob("echo", "x")
	j.Constraint = &v1.Constraint{Hosts: []string{"w"}}
	h, err := b.client.Submit(ctx, &v1.SubmitRequest{Job: j})
	if err != nil {
		t.Fatal(err)
	}
	pollUntil(t, "they know each other", func() bool { return a.fleet.node.Health().Members == 2 })
	if ev := a.listOthers(false); len(ev.Members) != 2 {
		t.Errorf("without a tenants file, the core learns of frontends %q", ev.Members)
	}
	pollUntil(t, "the call is forwarded", func() bool {
		ev, err := a.client.Events(ctx, &v1.EventsRequest{Handle: h.Handle, MaxWaitUs: 5e6})
		return err == nil && ev.Done
	})
	if a.Warning() != "" || b.Warning() != "" {
		t.Errorf("warnings: %q, %q", a.Warning(), b.Warning())
	}

	// b drains. Gossip tells a of the drain before b itself does.
	row, ok := a.fleet.node.Get("w")
	if !ok {
		t.Fatal("no row of w")
	}
	row.Seq += 1000
	row.Draining = true
	a.fleet.onRows([]rows.Row{row})
	if s := a.shownState(t, w.Addr().String()); s != "draining" {
		t.Errorf("it is %s", s)
	}

	// A live link is better evidence than rows.
	row.State = rows.Lost
	b.fleet.onRows([]rows.Row{row})
	b.fleet.dropFormer()
	if l := b.listAddrs(); len(l) != 2 {
		t.Errorf("b lists %v", l)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	for _, c := range []*testCluster{a, b} {
		pollUntil(t, "it is off the list", func() bool { return !slices.Contains(c.listAddrs(), w.Addr().String()) })
	}
	if len(b.listAddrs()) != 1 {
		t.Errorf("b lists %v", b.listAddrs())
	}

	if err := b.Close(); err != nil {
		t.Error(err)
	}
	pollUntil(t, "b left", func() bool { return a.fleet.node.Health().Members == 1 })
	if a.Warning() != "" {
		t.Errorf("b left, and a says %q", a.Warning())
	}
}

// A worker comes back under its name on another port, then crashes. Another worker takes the port.
func TestWorkerMoves(t *testing.T) {
	a := startCluster(t, 0, 0, withGossip())
	first := startWorker(t, "w", "127.0.0.1:0", a.HeartbeatAddr())
	a.awaitWorkers(t, 1)
	second := startWorker(t, "w", porttest.FreeAddress(t), a.HeartbeatAddr())
	both := []string{first.Addr().String(), second.Addr().String()}
	slices.Sort(both)
	pollUntil(t, "both are linked while both live", func() bool { return slices.Equal(a.listAddrs(), both) })
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	pollUntil(t, "the newer is left",
		func() bool { return slices.Equal(a.listAddrs(), []string{second.Addr().String()}) })
	if r, ok := a.fleet.node.Get("w"); !ok || r.State != rows.Up || r.Profile.Addr != second.Addr().String() {
		t.Errorf("the row of w: %+v", r)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	pollUntil(t, "nobody is left", func() bool { return len(a.listAddrs()) == 0 })
	third := startWorker(t, "w3", second.Addr().String(), a.HeartbeatAddr())
	pollUntil(t, "another worker is linked on the same address",
		func() bool { return a.shownState(t, third.Addr().String()) == "up" })
}

// Two workers exchange their addresses by restarts. Afterwards gossip and links agree on each address.
func TestWorkersExchangeAddresses(t *testing.T) {
	a := startCluster(t, 0, 0, withGossip())
	x := startWorker(t, "x", porttest.FreeAddress(t), a.HeartbeatAddr())
	y := startWorker(t, "y", porttest.FreeAddress(t), a.HeartbeatAddr())
	names := map[string]string{x.Addr().String(): "x", y.Addr().String(): "y"}
	a.awaitLinks(t, names)
	for _, w := range []*wserve.Server{x, y} {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	names[x.Addr().String()], names[y.Addr().String()] = "y", "x"
	startWorker(t, "y", x.Addr().String(), a.HeartbeatAddr())
	startWorker(t, "x", y.Addr().String(), a.HeartbeatAddr())
	a.awaitLinks(t, names)
	for addr, name := range names {
		if r, ok := a.fleet.node.Get(name); !ok || r.State != rows.Up || r.Profile.Addr != addr {
			t.Errorf("the row of %s: %+v", name, r)
		}
	}
}

func TestBadRowAddress(t *testing.T) {
	a := startCluster(t, 0, 0, withGossip())
	for i, addr := range []string{"", "w", ":7420", "[::1"} {
		name := fmt.Sprint("w", i)
		a.fleet.node.Hear(
			rows.Row{Key: rows.KeyOf(name, 1), Incarnation: 1, Seq: 1, ProfileRev: 1,
				Profile: &rows.Profile{Name: name, Addr: addr}})
	}
	w := startWorker(t, "good", "127.0.0.1:0", a.HeartbeatAddr())
	a.awaitWorkers(t, 1)
	if l := a.listAddrs(); !slices.Equal(l, []string{w.Addr().String()}) {
		t.Errorf("the list is %v", l)
	}
}

// A frontend cut off from all peers goes on, and reports that.
func TestCutOff(t *testing.T) {
	var log strings.Builder
	a := startCluster(t, 1, 1, withGossip("127.0.0.1:1"),
		func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	pollUntil(t, "it says so", func() bool { return strings.Contains(a.Warning(), "no other frontend is reached") })
	if err := a.Ready(); err != nil {
		t.Errorf("it is not ready: %v", err)
	}
	if _, err := a.client.Run(context.Background(), &v1.RunRequest{Job: newJob("echo", "x")}); err != nil {
		t.Error(err)
	}
	var b strings.Builder
	a.cfg.Metrics.WritePrometheus(&b)
	if !strings.Contains(b.String(), "phoebe_frontend_gossip_cut_off 1\n") {
		t.Errorf("metrics: %s", b.String())
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "no other frontend can be joined") {
		t.Errorf("the log is %s", log.String())
	}
}

func TestUnion(t *testing.T) {
	var late func([]string)
	var lists []string
	u := Union{Static{"b:1", "a:1"}, watchFunc(func(set func([]string)) { set(nil); late = set }), Static{"a:1"}}
	if err := u.Watch(context.Background(),
		func(addrs []string) { lists = append(lists, strings.Join(addrs, " ")) }); err != nil {
		t.Fatal(err)
	}
	late([]string{"c:1", "b:1"})
	late(nil)
	if want := []string{"a:1 b:1", "a:1 b:1 c:1", "a:1 b:1"}; !slices.Equal(lists, want) {
		t.Errorf("%q, want %q", lists, want)
	}
	if err := (Union{Static{"a"}}).Watch(context.Background(), func([]string) {}); err == nil {
		t.Error("a bad list is taken")
	}
}

type watchFunc func(set func([]string))

func (w watchFunc) Watch(_ context.Context, set func([]string)) error { w(set); return nil }

func TestPeersComeAndGo(t *testing.T) {
	p := newPeers(&Config{Advertise: "self:1", Peers: []string{"listed:1", "self:1"}})
	known := func(addrs ...string) {
		t.Helper()
		for _, addr := range []string{"self:1", "listed:1", "a:1", "b:1"} {
			if got := p.findPeer(addr) != nil; got != slices.Contains(addrs, addr) {
				t.Errorf("%s is known: %v", addr, got)
			}
		}
	}
	now := time.Now()
	known("listed:1")
	p.setMembers([]string{"self:1", "a:1", "b:1"}, now)
	known("listed:1", "a:1", "b:1")
	p.setMembers([]string{"b:1"}, now)
	p.dropLost(now.Add(keepLostPeers))
	known("listed:1", "a:1", "b:1") // perhaps only cut off
	p.setMembers([]string{"a:1"}, now.Add(keepLostPeers+1))
	p.dropLost(now.Add(keepLostPeers + 1))
	known("listed:1", "a:1", "b:1")
	p.setMembers(nil, now.Add(2*keepLostPeers))
	if gone := p.listGone(now); len(gone) != 2 {
		t.Errorf("%d peers are told of as gone, want a and b", len(gone))
	}
	p.dropLost(now.Add(3*keepLostPeers + 1)) // although no member came or went since
	known("listed:1")
	if gone := p.listGone(now); len(gone) != 0 {
		t.Errorf("%d peers are told of as gone for ever", len(gone))
	}
	p.close()
}

func TestValidateGossip(t *testing.T) {
	good := Config{Listen: "0.0.0.0:7410", Advertise: "f1:7410", Secret: "s", Gossip: ":7411", GossipAdvertise: "f1",
		Join: []string{"f2:7411"}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	if h := good.withDefaults().Heartbeat; h != ":7412" {
		t.Errorf("heartbeats are taken on %s", h)
	}
	for _, bad := range []struct {
		says  string
		spoil func(*Config)
	}{
		{"give --gossip", func(c *Config) { c.Gossip = "" }},
		{"set a secret", func(c *Config) { c.Secret = "" }},
		{`gossip on "here"`, func(c *Config) { c.Gossip = "here" }},
		{`take heartbeats on "here"`, func(c *Config) { c.Heartbeat = "here" }},
		{"give --advertise", func(c *Config) { c.Advertise = "" }},
		{"give --gossip-advertise", func(c *Config) { c.GossipAdvertise = "" }},
		{`join "f2"`, func(c *Config) { c.Join = []string{"f2"} }},
	} {
		c := good
		bad.spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%v, want something about %s", err, bad.says)
		}
	}
	for _, c := range []struct{ addr, other, want string }{{"127.0.0.1:5", "", "127.0.0.1:5"},
		{"0.0.0.0:5", "f1", "f1:5"}, {"0.0.0.0:5", "f1:9", "f1:5"}} {
		addr, err := net.ResolveTCPAddr("tcp", c.addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := advertisedAddr(addr, c.other); got != c.want {
			t.Errorf("%s under %q is advertised as %s", c.addr, c.other, got)
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []Config{{Gossip: taken.Addr().String(), Heartbeat: "127.0.0.1:0"},
		{Gossip: "127.0.0.1:0", Heartbeat: taken.Addr().String()}} {
		c.Listen = "127.0.0.1:0"
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("%+v: %v", c, err)
			s.Close()
		}
	}
}

// Two frontends with the same advertised address warn of each other. An address without a host is refused.
func TestAdvertisedTwice(t *testing.T) {
	named := func(name, advertise string) func(*Config) {
		return func(c *Config) { c.Name, c.Advertise = name, advertise }
	}
	a := startCluster(t, 0, 0, withGossip(), named("a", "127.0.0.1:7"))
	b := startCluster(t, 0, 0, withGossip(a.GossipAddr()), named("b", "127.0.0.1:7"))
	startCluster(t, 0, 0, withGossip(a.GossipAddr()), named("c", "127.0.0.1:8"))
	for _, f := range []struct {
		*testCluster
		warns string
	}{{a, "frontend b advertises the same address"}, {b, "frontend a advertises the same address"}} {
		pollUntil(t, "the warning", func() bool { return strings.Contains(f.Warning(), f.warns) })
	}
	for _, advertise := range []string{"0.0.0.0:7410", "[::]:7410", ":7410"} {
		cfg := Config{Gossip: "127.0.0.1:0", Heartbeat: "127.0.0.1:0", Advertise: advertise}
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "an address of this machine") {
			t.Errorf("advertise %q: %v", advertise, err)
		}
	}
}
