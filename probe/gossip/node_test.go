package gossip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/goleak"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/corpus"
	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watcher wakes up at every callback of its nodes.
type watcher struct {
	t     *testing.T
	woken chan struct{}
}

func newWatcher(t *testing.T) *watcher { return &watcher{t, make(chan struct{}, 1)} }

func (w *watcher) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// waitUntil waits for cond, and asks again after every callback of a node.
func (w *watcher) waitUntil(event string, cond func() bool) {
	w.t.Helper()
	limit := time.After(time.Minute)
	for !cond() {
		select {
		case <-w.woken:
		case <-limit:
			w.t.Fatalf("waited in vain until %s", event)
		}
	}
}

// startNode starts a node on loopback. The node notices a lost member within a second.
func (w *watcher) startNode(cfg Config) *Node {
	w.t.Helper()
	cfg.Bind = "127.0.0.1:0"
	cfg.API, cfg.Heartbeat = "api-"+cfg.Name+":1", "hb-"+cfg.Name+":1"
	cfg.OnRows = func([]rows.Row) { w.wake() }
	cfg.OnMembers = func([]rows.Member) { w.wake() }
	more := cfg.tune
	cfg.tune = func(c *memberlist.Config) {
		c.ProbeInterval, c.ProbeTimeout = 200*time.Millisecond, 100*time.Millisecond
		c.GossipInterval, c.SuspicionMult = 20*time.Millisecond, 2
		c.PushPullInterval = time.Second
		if more != nil {
			more(c)
		}
	}
	n, err := Start(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := n.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return n
}

func namesOf(n *Node) string {
	var list []string
	for _, m := range n.Members() {
		list = append(list, m.Name)
	}
	return strings.Join(list, " ")
}

// fullRow makes a whole row of a worker.
func fullRow(name string, incarnation, seq uint64) rows.Row {
	return rows.Row{Key: rows.KeyOf(name, incarnation), Incarnation: incarnation, Seq: seq, Speed: 1, ProfileRev: 1,
		Profile: &rows.Profile{Name: name, Addr: name + ":7420", Capacity: probe.Demand{CPU: 8000, Mem: 8192}}}
}

// allHave returns a condition: all nodes have this version of a worker's row.
func allHave(worker string, incarnation, seq uint64, nodes ...*Node) func() bool {
	return func() bool {
		return !slices.ContainsFunc(nodes, func(n *Node) bool {
			r, _ := n.Get(worker)
			return r.Incarnation != incarnation || r.Seq != seq || r.State != rows.Up
		})
	}
}

// Frontends find each other from any seed. A frontend leaves, a second crashes, and the last is cut off. When the
// lost frontends come back, all find each other again.
func TestComeAndGo(t *testing.T) {
	w := newWatcher(t)
	start := func(name string, seeds ...string) *Node {
		return w.startNode(Config{Name: name, Secrets: identity.NewSecrets("s3cret"), Seeds: seeds})
	}
	a := start("a")
	if h := a.Health(); h.CutOff || h.Members != 1 {
		t.Errorf("the first frontend, which waits for others: %+v", h)
	}
	b := start("b", a.Addr())
	c := start("c", b.Addr())
	d := start("d", c.Addr())
	all := []*Node{a, b, c, d}
	w.waitUntil("all know all", func() bool {
		return !slices.ContainsFunc(all, func(n *Node) bool { return namesOf(n) != "a b c d" })
	})
	if m := d.Members()[0]; m.API != "api-a:1" || m.Heartbeat != "hb-a:1" || m.Gossip != a.Addr() {
		t.Errorf("d knows of a: %+v", m)
	}

	for i := range 20 { // whichever home hears a worker, all know it
		all[i%4].Hear(fullRow(fmt.Sprint("w", i), 1, 1))
	}
	for i := range 20 { // whichever home hears a worker, all frontends learn of it
		w.waitUntil("all know all workers", allHave(fmt.Sprint("w", i), 1, 1, all...))
	}
	w.waitUntil("some of that was pushed", func() bool { return b.Stats().Received > 0 })
	a.Hear(fullRow("w0", 2, 1))
	d.Hear(fullRow("w0", 1, 9))
	w.waitUntil("the newer run counts", allHave("w0", 2, 1, all...))

	if err := d.Leave(10 * time.Second); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	w.waitUntil("it is known that d left", func() bool {
		return namesOf(a) == "a b c" && namesOf(b) == "a b c" &&
			namesOf(c) == "a b c"
	})
	w.waitUntil("a does not look for d", func() bool { return len(a.missingAddrs()) == 0 })
	for _, n := range []*Node{b, c} { // a crash
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
	w.waitUntil("a is the last", func() bool { return namesOf(a) == "a" })
	if h := a.Health(); !h.CutOff {
		t.Errorf("the others are lost: %+v", h)
	}
	silentAt := func(n *Node) string {
		_, _, silent := n.Needs(time.Hour)
		slices.Sort(silent)
		return strings.Join(silent, " ")
	}
	if got := silentAt(a); got != "b c" { // d left with a goodbye
		t.Errorf("a misses %q", got)
	}
	if r, ok := a.Get("w7"); !ok || r.State != rows.Up {
		t.Errorf("cut off, it forgot a worker: %+v", r)
	}

	b = start("b", "127.0.0.1:1", a.Addr()) // back at a new address, with a seed that does not answer
	w.waitUntil("b is back", func() bool { return namesOf(a) == "a b" && namesOf(b) == "a b" })
	w.waitUntil("b learnt everything", allHave("w7", 1, 1, a, b))
	if got := silentAt(a); got != "c" {
		t.Errorf("a misses %q although b is back", got)
	}
	if h := b.Health(); h.Members != 2 {
		t.Errorf("b is back: %+v", h)
	}
}

// setSeeds gives a running node other seeds, as the DNS does.
func (n *Node) setSeeds(seeds ...string) {
	n.peersMu.Lock()
	n.seedAddrs = seeds
	n.peersMu.Unlock()
	n.resolveSeeds()
}

// byName returns the address of a node with the host name "localhost".
func byName(t *testing.T, n *Node) string {
	t.Helper()
	_, port, err := net.SplitHostPort(n.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("localhost", port)
}

// A fleet that was split heals by seeds with host names, although no frontend is alone. The targets of service records
// are such names, too. Seeds that are present, or are the frontend itself, are not missing.
func TestSplitHealsByName(t *testing.T) {
	t.Parallel()
	w := newWatcher(t)
	a := w.startNode(Config{Name: "a"})
	b := w.startNode(Config{Name: "b", Seeds: []string{a.Addr()}})
	c := w.startNode(Config{Name: "c"})
	d := w.startNode(Config{Name: "d", Seeds: []string{c.Addr()}})
	w.waitUntil("both parts are whole", func() bool {
		return namesOf(a) == "a b" && namesOf(b) == "a b" && namesOf(c) == "c d" && namesOf(d) == "c d"
	})
	b.setSeeds(byName(t, a), byName(t, b))
	if missing := b.missingAddrs(); len(missing) > 0 {
		t.Errorf("b misses %v, its peer and itself", missing)
	}
	b.setSeeds(byName(t, a), byName(t, c))
	if missing := b.missingAddrs(); !slices.Equal(missing, []string{byName(t, c)}) {
		t.Fatalf("b misses %v, want c by its name", missing)
	}
	w.waitUntil("the fleet is whole", func() bool {
		return !slices.ContainsFunc([]*Node{a, b, c, d}, func(n *Node) bool { return namesOf(n) != "a b c d" })
	})
	if missing := b.missingAddrs(); len(missing) > 0 {
		t.Errorf("b misses %v in a whole fleet", missing)
	}
}

// A lost frontend that gossip finds again is silent until the core knows the frontend as a member. Otherwise a frontend
// that was cut off would take all of a tenant's maximum for a moment.
func TestFoundMembersAreMissed(t *testing.T) {
	n := newWatcher(t).startNode(Config{Name: "a"})
	b := rows.Member{Name: "b", Run: 1, API: "127.0.0.1:1", Heartbeat: "127.0.0.1:1"}
	node := &memberlist.Node{Name: "b~1", Addr: net.IPv4(127, 0, 0, 1), Port: 1, Meta: encodeMeta(b)}
	for range 100 {
		for _, tell := range []func(*memberlist.Node){(*events)(n).NotifyJoin, (*events)(n).NotifyLeave} {
			tell(node)
			members, _, silent := n.Needs(time.Hour)
			isMember := slices.ContainsFunc(members, func(m rows.Member) bool { return m.Name == "b" })
			if !isMember && !slices.Contains(silent, "b") {
				t.Fatalf("b is forgotten: members %v, silent %v", members, silent)
			}
		}
	}
}

// A lone frontend that names itself as a seed is not cut off, by whichever of its addresses.
func TestOwnNameIsNoSeed(t *testing.T) {
	n := newWatcher(t).startNode(Config{Name: "a"})
	n.setSeeds(byName(t, n))
	if h := n.Health(); h.CutOff {
		t.Errorf("a frontend that names itself: %+v", h)
	}
	n.setSeeds("localhost:1") // where nobody listens
	if h := n.Health(); !h.CutOff {
		t.Errorf("a frontend whose seed is silent: %+v", h)
	}
	n.peersMu.Lock()
	defer n.peersMu.Unlock()
	port := uint16(n.bindPort)
	for _, own := range []struct {
		bind, addr string
		is         bool
	}{
		{"127.0.0.1", "127.0.0.1", true}, {"127.0.0.1", "127.0.1.1", false},
		{"0.0.0.0", "127.0.1.1", true}, {"::", "127.0.0.1", true}, {"0.0.0.0", "198.51.100.1", false},
	} {
		n.bindIP = netip.MustParseAddr(own.bind)
		if is := n.isOwn(netip.AddrPortFrom(netip.MustParseAddr(own.addr), port)); is != own.is {
			t.Errorf("bound to %s, %s is its own: %t", own.bind, own.addr, is)
		}
		if n.isOwn(netip.AddrPortFrom(netip.MustParseAddr(own.addr), port+1)) {
			t.Errorf("another port of %s is its own", own.addr)
		}
	}
}

// Mute seeds are asked beside each other, not one after another.
func TestMuteSeeds(t *testing.T) {
	w := newWatcher(t)
	a := w.startNode(Config{Name: "a"})
	release := make(chan struct{}) // or b would not end
	defer close(release)
	var seeds []string
	for range maxJoins - 1 {
		mute, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer mute.Close()
		go func() {
			for {
				conn, err := mute.Accept()
				if err != nil {
					return
				}
				go func() {
					<-release
					conn.Close()
				}()
			}
		}()
		seeds = append(seeds, mute.Addr().String())
	}
	b := w.startNode(Config{Name: "b", Seeds: append(seeds, a.Addr()),
		tune: func(c *memberlist.Config) { c.TCPTimeout = time.Hour }})
	w.waitUntil("b joins although all other seeds are mute", func() bool { return namesOf(b) == "a b" })
}

// A worker learns of all frontends by the answers to its heartbeats, and all frontends get its row.
func TestWorkerFindsHomes(t *testing.T) {
	w := newWatcher(t)
	nodes := map[string]*Node{}
	var seeds []string
	for _, name := range []string{"a", "b", "c", "d"} {
		n := w.startNode(Config{Name: name, Seeds: seeds})
		nodes["hb-"+name+":1"] = n
		seeds = []string{n.Addr()}
	}
	all := []*Node{nodes["hb-a:1"], nodes["hb-b:1"], nodes["hb-c:1"], nodes["hb-d:1"]}
	w.waitUntil("all know all", func() bool {
		return !slices.ContainsFunc(all, func(n *Node) bool { return namesOf(n) != "a b c d" })
	})
	ann, err := rows.NewAnnouncer([]string{"hb-a:1"}, *fullRow("w", 1, 1).Profile, 7)
	if err != nil {
		t.Fatal(err)
	}
	to := map[string]int{}
	for range 3 {
		for _, beat := range ann.Beats(rows.Row{Speed: 1}, "") {
			answer := nodes[beat.Addr].Heartbeat(&beat.Heartbeat)
			ann.Answered(&beat, &answer)
			to[beat.Addr]++
		}
	}
	homes := rows.Homes("w", all[0].Members())
	if to[homes[0].Heartbeat] < 2 || to[homes[1].Heartbeat] < 2 || to["hb-a:1"] < 1 {
		t.Errorf("heartbeats went to %v; the seed is a, the homes are %v", to, homes)
	}
	w.waitUntil("all know the worker", func() bool {
		return !slices.ContainsFunc(all, func(n *Node) bool { r, ok := n.Get("w"); return !ok || r.State != rows.Up })
	})
}

// logCatcher is a log handler that passes messages to a test.
type logCatcher struct {
	slog.Handler
	lines chan string
}

func (l logCatcher) Enabled(context.Context, slog.Level) bool { return true }
func (l logCatcher) Handle(_ context.Context, r slog.Record) error {
	select {
	case l.lines <- r.Message:
	default:
	}
	return nil
}

// expectText waits for a log message with the text.
func (l logCatcher) expectText(t *testing.T, text string) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case line := <-l.lines:
			if line == text {
				return
			}
		case <-limit:
			t.Fatalf("%q is not logged", text)
		}
	}
}

func TestOtherSecretIsRefused(t *testing.T) {
	w := newWatcher(t)
	a := w.startNode(Config{Name: "a", Secrets: identity.NewSecrets("one")})
	for _, secret := range []string{"two", ""} {
		l := logCatcher{slog.DiscardHandler, make(chan string, 1000)}
		b := w.startNode(Config{Name: "b", Secrets: identity.NewSecrets(secret), Seeds: []string{a.Addr()},
			Log: slog.New(l)})
		l.expectText(t, "no other frontend can be joined")
		if namesOf(a) != "a" || namesOf(b) != "b" || !b.Health().CutOff {
			t.Errorf("with the secret %q: a knows %s, b knows %s, %+v", secret, namesOf(a), namesOf(b), b.Health())
		}
	}
	if s := a.Stats(); s.Complaints == 0 {
		t.Errorf("nothing was counted: %+v", s)
	}
}

// If a worker sends absurd values, every frontend replaces, flags and counts the values.
func TestAbsurdRow(t *testing.T) {
	w := newWatcher(t)
	a := w.startNode(Config{Name: "a"})
	b := w.startNode(Config{Name: "b", Seeds: []string{a.Addr()}})
	w.waitUntil("they know each other", func() bool { return namesOf(a) == "a b" && namesOf(b) == "a b" })
	r := fullRow("liar", 1, 1)
	r.Matrix.Cells[0][0] = 77
	r.Profile.Labels = make([]string, 5000)
	a.Hear(r)
	w.waitUntil("b knows it", allHave("liar", 1, 1, a, b))
	for _, n := range []*Node{a, b} {
		r, _ := n.Get("liar")
		if r.Flaws != rows.BadMatrix || r.Profile.Flaws != rows.BadLabels || len(r.Profile.Labels) > rows.MaxLabels ||
			r.Matrix.Wait(probe.Slot) != probe.NeverFits || n.Stats().Flawed == 0 {
			t.Errorf("at %s: %v, %v, %d labels", n.cfg.Name, r.Flaws.Names(), r.Profile.Flaws.Names(),
				len(r.Profile.Labels))
		}
	}
}

// Garbage on the port is counted, and does no harm.
func TestGarbage(t *testing.T) {
	w := newWatcher(t)
	l := logCatcher{slog.DiscardHandler, make(chan string, 1000)}
	a := w.startNode(Config{Name: "a", Secrets: identity.NewSecrets("one"), Log: slog.New(l)})
	for _, network := range []string{"udp", "tcp"} {
		conn, err := net.Dial(network, a.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		if network == "tcp" {
			for err == nil { // until the node closes the connection
				_, err = conn.Read(make([]byte, 100))
			}
		}
		conn.Close()
	}
	for a.traffic.complaints.Load() < 2 {
		l.expectText(t, "memberlist")
	}
	b := w.startNode(Config{Name: "b", Secrets: identity.NewSecrets("one"), Seeds: []string{a.Addr()}})
	w.waitUntil("b can join", func() bool { return namesOf(a) == "a b" && namesOf(b) == "a b" })
}

// Strangers without the secret share a bound on the bytes that memberlist buffers before the check of the secret.
func TestStrangersShareABound(t *testing.T) {
	cfg := Config{Name: "a", Bind: "127.0.0.1:0", Secrets: identity.NewSecrets("right")}
	conf, err := cfg.libraryConfig("a")
	if err != nil {
		t.Fatal(err)
	}
	conf.LogOutput, conf.TCPTimeout = io.Discard, time.Minute
	ports, err := openPorts(conf)
	if err != nil {
		t.Fatal(err)
	}
	conf.Transport = ports
	list, err := memberlist.Create(conf)
	if err != nil {
		t.Fatal(err)
	}
	defer list.Shutdown()
	// Each stranger claims 20 MiB, memberlist's limit, and never sends the last MiB.
	const each, strangers = 19 << 20, maxInboundBytes/(19<<20) + 2
	var done sync.WaitGroup
	defer done.Wait()
	refused := make(chan struct{}, strangers)
	for range strangers {
		conn, err := net.Dial("tcp", list.LocalNode().Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		done.Go(func() {
			conn.Write(append([]byte{10 /* encrypted */, 1, 0x40, 0, 0}, make([]byte, each)...))
			if _, err := io.Copy(io.Discard, conn); err == nil || !errors.Is(err, net.ErrClosed) {
				refused <- struct{}{}
			}
		})
	}
	<-refused // or the test times out
	if n := ports.inboundBytes.Load(); n > maxInboundBytes+strangers*maxRead {
		t.Errorf("%d bytes are kept of strangers, the bound is %d", n, maxInboundBytes)
	}
}

// Silent streams keep no other stream out: the oldest leaves first.
func TestSilentStreams(t *testing.T) {
	conf := memberlist.DefaultLANConfig()
	conf.BindAddr, conf.BindPort, conf.Logger = "127.0.0.1", 0, log.New(io.Discard, "", 0)
	ports, err := openPorts(conf)
	if err != nil {
		t.Fatal(err)
	}
	defer ports.Shutdown()
	said := make(chan string, maxInbound+11)
	go func() {
		for range maxInbound + 11 {
			stream := <-ports.StreamCh()
			go func() {
				defer stream.Close()
				b := make([]byte, 5)
				n, _ := io.ReadFull(stream, b)
				said <- string(b[:n])
			}()
		}
	}()
	connect := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(conf.BindPort)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(time.Minute))
		return c
	}
	for range maxInbound + 10 {
		connect()
	}
	if _, err := connect().Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	for i := range 12 { // the strangers that had to leave, and the last stream
		if text := <-said; text == "hello" {
			return
		} else if text != "" || i == 11 {
			t.Fatalf("stream %d said %q", i, text)
		}
	}
}

// Callbacks may call the node.
func TestCallbacksMayCall(t *testing.T) {
	reported := make(chan rows.Row, 1)
	var n *Node
	started := make(chan struct{})
	cfg := Config{Name: "a", Bind: "127.0.0.1:0", OnRows: func(changed []rows.Row) {
		<-started
		n.Members()
		n.Stats()
		got, _ := n.Get(changed[0].Name())
		reported <- got
	}}
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	close(started)
	n.Hear(fullRow("w", 1, 1))
	if r := <-reported; r.Name() != "w" {
		t.Errorf("told of %+v", r)
	}
	if all, version := n.Since(0); len(all) != 1 || version != 1 {
		t.Errorf("%d rows, version %d", len(all), version)
	}
}

func TestValidate(t *testing.T) {
	good := Config{Name: "a", Bind: "127.0.0.1:0"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, spoil := range map[string]func(*Config){
		"needs a name":   func(c *Config) { c.Name = "" },
		"needs a secret": func(c *Config) { c.Bind = ":7430" },
		"bind address":   func(c *Config) { c.Bind = "7430" },
		"want host:port": func(c *Config) { c.Seeds = []string{"f1"} },
		"too long":       func(c *Config) { c.API = strings.Repeat("x", 600) },
		"heartbeats":     func(c *Config) { c.View = rows.DefaultConfig; c.View.Heartbeat = time.Hour },
	} {
		c := good
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want something about %q", err, want)
		}
		if _, err := Start(c); err == nil {
			t.Errorf("starts, although %v", c.Validate())
		}
	}
	if c := (Config{Name: "a", Bind: ":7430", Secrets: identity.NewSecrets("s")}); c.Validate() != nil {
		t.Error(c.Validate())
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if _, err := Start(Config{Name: "a", Bind: taken.Addr().String()}); err == nil {
		t.Error("starts on an address in use")
	}
}

func TestMeta(t *testing.T) {
	m := rows.Member{Name: "a", Run: 5, API: "x:1", Heartbeat: "y:2"}
	b := encodeMeta(m)
	if got, err := decodeMeta(b); err != nil || got != m {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := decodeMeta(append(b, 1, 2, 3)); err != nil || got != m {
		t.Errorf("with something appended: %+v, %v", got, err)
	}
	for n := range b {
		if _, err := decodeMeta(b[:n]); err == nil {
			t.Errorf("%d of %d bytes are read", n, len(b))
		}
	}
	newer := append(probe.AppendDialect(nil, probe.Dialect{Min: probe.Version + 1, Max: probe.Version + 1}),
		b[len(probe.AppendDialect(nil, probe.Spoken)):]...)
	if _, err := decodeMeta(newer); err == nil || !strings.HasSuffix(err.Error(), "upgrade this frontend") {
		t.Errorf("of a release that has no version in common: %v", err)
	}
	corpus.Check(t, probe.MinVersion, probe.Version, []corpus.Example{
		{Name: "member", Msg: m, Wire: b, Decode: func(b []byte) (any, error) { return decodeMeta(b) }},
	})
}

// With a secret set, a stranger without the secret learns nothing: neither the state told to members nor a sign of
// life. Without a secret a stranger gets an answer.
func TestStrangersLearnNothing(t *testing.T) {
	ask := map[string]string{
		"tcp": "\x06\x83\xa5Nodes\x00\xacUserStateLen\x00\xa4Join\xc3", // asks for the state
		"udp": "\x00\x81\xa5SeqNo\x07",                                 // asks for a sign of life
	}
	for _, secret := range []string{"", "one"} {
		a := newWatcher(t).startNode(Config{Name: "a", Secrets: identity.NewSecrets(secret)})
		for network, says := range ask {
			conn, err := net.Dial(network, a.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(time.Minute))
			complaints := a.traffic.complaints.Load()
			if _, err := conn.Write([]byte(says)); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 10_000)
			n := 0
			switch {
			case network == "tcp":
				for more := 0; err == nil; n += more {
					more, err = conn.Read(b[n:])
				}
			case secret == "":
				n, err = conn.Read(b)
			default:
				for a.traffic.complaints.Load() == complaints {
					runtime.Gosched()
				}
				conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
				n, err = conn.Read(b)
			}
			known := bytes.Contains(b[:n], []byte("api-a:1")) || network == "udp" && n > 0
			if known != (secret == "") {
				t.Errorf("by %s, with the secret %q, a stranger hears %q, %v", network, secret, b[:n], err)
			}
			// memberlist may answer with an error, encrypted for owners of the secret.
			if secret != "" && n > 0 && (b[0] != 10 || n > 200) {
				t.Errorf("by %s a stranger hears %q", network, b[:n])
			}
		}
	}
}

// Lessons count only from frontends with the secret of gossip. Neither a stranger nor a worker with the secret of workers
// can forge lessons.
func TestStrangersTeachNothing(t *testing.T) {
	w := newWatcher(t)
	heard := make(chan string, 10)
	a := w.startNode(Config{Name: "a", Secrets: identity.NewSecrets("of gossip"),
		OnLessons: func(lessons []byte) { heard <- string(lessons) }})
	addr := netip.MustParseAddrPort(a.Addr())
	to := &memberlist.Node{Name: a.runName, Addr: addr.Addr().AsSlice(), Port: addr.Port()}
	for _, secret := range []string{"", "of workers", "of gossip"} {
		b := w.startNode(Config{Name: "b", Secrets: identity.NewSecrets(secret)})
		msg := append([]byte{9, 1, 'b'}, "by "+secret...) // lessons of frontend b
		complaints := a.traffic.complaints.Load()
		if err := b.list.SendBestEffort(to, msg); err != nil {
			t.Fatal(err)
		}
		for secret != "of gossip" && a.traffic.complaints.Load() == complaints {
			runtime.Gosched()
		}
	}
	if got := <-heard; got != "by of gossip" {
		t.Errorf("a stranger teaches %q", got)
	}
}
