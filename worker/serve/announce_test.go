package serve

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
	"github.com/phoebe-sched/phoebe/probe/heartbeat"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

// fakeFrontend is a frontend that only answers heartbeats.
type fakeFrontend struct {
	addr string

	mu     sync.Mutex
	beats  []rows.Heartbeat
	answer rows.Answer // without Seq
}

func newFakeFrontend(t *testing.T, listen, secret string) *fakeFrontend {
	t.Helper()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	h := &fakeFrontend{addr: l.Addr().String()}
	h.answer.Version = 1
	h.answer.Members = []rows.Member{{Name: "f-" + h.addr, Heartbeat: h.addr}}
	s := heartbeat.Serve(l,
		heartbeat.Config{Secrets: identity.NewSecrets(secret), MaxConns: 10,
			Answer: func(b *rows.Heartbeat) rows.Answer {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.beats = append(h.beats, *b)
				a := h.answer
				a.Seq = b.Row.Seq
				return a
			}})
	t.Cleanup(func() { s.Close() })
	return h
}

// waitForBeat waits for a heartbeat for which ok returns true.
func (h *fakeFrontend) waitForBeat(t *testing.T, label string, ok func(b *rows.Heartbeat) bool) (found rows.Heartbeat) {
	t.Helper()
	waitUntil(t, label, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for i := range h.beats {
			if ok(&h.beats[i]) {
				found = h.beats[i]
				return true
			}
		}
		return false
	})
	return found
}

func hasProfile(b *rows.Heartbeat) bool   { return b.Row.Profile != nil }
func hasNoProfile(b *rows.Heartbeat) bool { return b.Row.Profile == nil }

// logLines collects the log of a server.
type logLines struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *logLines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.all.String(), text)
}

func (l *logLines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func TestAnnounces(t *testing.T) {
	t.Parallel()
	h := newFakeFrontend(t, "127.0.0.1:0", "sesame")
	s := newServer(t, 2, func(c *Config) {
		c.Secret, c.Join, c.Name, c.Host, c.Rack, c.Labels = "sesame", []string{h.addr}, "w", "mars", "r7",
			[]string{"disk=ssd"}
	})
	row := h.waitForBeat(t, "a heartbeat with the profile", hasProfile).Row
	want := rows.Profile{Name: "w", Addr: s.Addr().String(), Host: "mars", Rack: "r7", Capacity: capacity(2)}
	if p := *row.Profile; p.Name != want.Name || p.Addr != want.Addr || p.Host != want.Host ||
		p.Rack != want.Rack || p.Capacity != want.Capacity || len(p.Labels) != 1 {
		t.Errorf("the worker announces %+v, want %+v", p, want)
	}
	if row.Incarnation != s.incarnation || row.State != rows.Up || row.Draining {
		t.Errorf("the row is %+v", row)
	}
	h.waitForBeat(t, "a heartbeat without the profile", hasNoProfile)

	p := dial(t, s)
	greet := hello(7)
	greet.Secret = "sesame"
	p.send(greet)
	if w := expect[probe.Welcome](p); w.Incarnation != row.Incarnation || w.Rack != "r7" {
		t.Errorf("the Welcome is %+v", w)
	}
	p.send(reserve(1, launch(7, 1, "echo", "x")), reserve(2, launch(7, 2, "fail", "oh")))
	for range 2 {
		f := expect[*probe.Finished](p)
		p.send(probe.Ack{Attempts: []probe.AttemptID{f.Attempt}})
	}
	h.waitForBeat(t, "the counts of ended attempts",
		func(b *rows.Heartbeat) bool { return b.Row.Finished == 2 && b.Row.Failed == 1 })

	p.send(reserve(3, launch(7, 3, "sleep", "1m"), launch(7, 4, "sleep", "1m")))
	m := h.waitForBeat(t, "a matrix without room",
		func(b *rows.Heartbeat) bool { return b.Row.Matrix.Cells[0][0] > 0 }).Row.Matrix
	if m.Cells[0][0] == probe.NeverFits {
		t.Errorf("never any room: %v", m.Cells)
	}

	s.Maintenance(time.Hour, 10*time.Minute)
	out := h.waitForBeat(t, "the planned maintenance",
		func(b *rows.Heartbeat) bool { return b.Row.Maintenance.Lasts > 0 })
	if in, lasts, ok := out.Row.Outage(); !ok || in > time.Hour || in < 50*time.Minute || lasts != 10*time.Minute {
		t.Errorf("in %v for %v", in, lasts)
	}
	s.Maintenance(-time.Minute, 10*time.Minute)
	out = h.waitForBeat(t, "maintenance that has begun",
		func(b *rows.Heartbeat) bool { m := b.Row.Maintenance; return m.Lasts > 0 && m.Lasts < 10*time.Minute })
	if in, lasts, ok := out.Row.Outage(); !ok || in > time.Second || lasts > 9*time.Minute || lasts < 8*time.Minute {
		t.Errorf("in %v for %v", in, lasts)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Drain(ctx); err == nil {
		t.Error("drained with a task that runs")
	}
	h.waitForBeat(t, "the news of the drain", func(b *rows.Heartbeat) bool { return b.Row.Draining })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	h.waitForBeat(t, "the news of the departure", func(b *rows.Heartbeat) bool { return b.Row.State == rows.Left })

	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.beats[1:] {
		if h.beats[i].Row.Seq >= h.beats[i+1].Row.Seq {
			t.Errorf("number %d comes before %d", h.beats[i].Row.Seq, h.beats[i+1].Row.Seq)
		}
	}
}

// One seed answers and names the homes of the worker. A home is gone, and comes back.
func TestGoesToHomes(t *testing.T) {
	t.Parallel()
	seed, a, b :=
		newFakeFrontend(t, "127.0.0.1:0", ""), newFakeFrontend(t, "127.0.0.1:0", ""),
		newFakeFrontend(t, "127.0.0.1:0", "")
	gone, err := net.Listen("tcp", "127.0.0.2:0") // no other test takes the port, which is bound again
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	members := []rows.Member{{Name: "a", Heartbeat: a.addr}, {Name: "b", Heartbeat: b.addr},
		{Name: "c", Heartbeat: gone.Addr().String()}}
	name := ""
	for i := 0; name == ""; i++ { // a name with homes c and a
		n := strings.Repeat("w", i+1)
		if h := rows.Homes(n, members); h[0].Name == "c" && h[1].Name == "a" {
			name = n
		}
	}
	for _, h := range []*fakeFrontend{seed, a, b} {
		h.mu.Lock()
		h.answer.Version, h.answer.Members = 9, members
		h.mu.Unlock()
	}
	newServer(t, 1, func(c *Config) { c.Join, c.Name = []string{gone.Addr().String(), seed.addr}, name })
	a.waitForBeat(t, "the profile at the home a", hasProfile)
	b.waitForBeat(t, "the profile at b, in place of the missing home", hasProfile)
	back := newFakeFrontend(t, gone.Addr().String(), "")
	back.mu.Lock()
	back.answer.Version, back.answer.Members = 9, members
	back.mu.Unlock()
	back.waitForBeat(t, "the profile at the home that came back", hasProfile)
	back.waitForBeat(t, "a further heartbeat there", hasNoProfile)
}

func TestWhenNobodyTakesHeartbeats(t *testing.T) {
	t.Parallel()
	strict := newFakeFrontend(t, "127.0.0.1:0", "sesame")
	api, err := net.Listen("tcp", "127.0.0.1:0") // not a frontend
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	go func() {
		for {
			c, err := api.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	for name, c := range map[string]struct{ join, says, outcome string }{
		"unreachable":    {"127.0.0.1:1", "connection refused", "failed"},
		"wrong secret":   {strict.addr, "give all frontends and workers the same one", "refused"},
		"another server": {api.Addr().String(), "heartbeat address of a frontend", "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			var log logLines
			s := newServer(t, 1, func(cfg *Config) { cfg.Join, cfg.Logger = []string{c.join}, log.logger() })
			waitUntil(t, "a further try", func() bool {
				n := metricValue(s, `phoebe_worker_heartbeats_total{outcome="`+c.outcome+`"}`)
				return n != "none" && n != "0" && n != "1"
			})
			if n := log.count("no frontend takes this worker's heartbeats"); n != 1 || log.count(c.join) != 1 ||
				log.count(c.says) != 1 {
				t.Errorf("logged %d times: %s", n, log.all.String())
			}
		})
	}
	if len(strict.beats) > 0 {
		t.Error("a heartbeat with a wrong secret was taken")
	}
}

// An unchanged problem is logged once a minute. A new problem is logged at once.
func TestProblemIsRepeated(t *testing.T) {
	beats, err := rows.NewAnnouncer(nil, rows.Profile{Name: "w", Addr: "127.0.0.1:1"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	var log logLines
	a := &announcer{log: log.logger(), beats: beats}
	refused, hung := errors.New("refused"), errors.New("hung")
	start := time.Now()
	for _, round := range []struct {
		after  time.Duration
		err    error
		logged int // lines in all
	}{{0, refused, 1}, {time.Second, refused, 1}, {59 * time.Second, refused, 1}, {time.Minute, refused, 2},
		{61 * time.Second, hung, 3}, {120 * time.Second, hung, 3}, {121 * time.Second, hung, 4}} {
		a.logRound([]error{round.err}, 1, start.Add(round.after))
		if n := log.count("no frontend takes this worker's heartbeats"); n != round.logged {
			t.Errorf("after %v: %d lines, want %d", round.after, n, round.logged)
		}
	}
}

func TestSuperseded(t *testing.T) {
	t.Parallel()
	h := newFakeFrontend(t, "127.0.0.1:0", "")
	var log logLines
	newServer(t, 1, func(c *Config) { c.Join, c.Logger = []string{h.addr}, log.logger() })
	h.waitForBeat(t, "a heartbeat with the profile", hasProfile)
	h.mu.Lock()
	h.answer.Incarnation = 1 << 62
	h.mu.Unlock()
	waitUntil(t, "a log line about the newer worker",
		func() bool { return log.count("another worker that was started later has the name") == 1 })
}

func TestValidateAnnouncement(t *testing.T) {
	good := Config{Join: []string{"f1:7412"}, Listen: "0.0.0.0:7420", Secret: "s", Advertise: "w1:7420"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for says, spoil := range map[string]func(*Config){
		`join "f1"`:           func(c *Config) { c.Join = []string{"f1"} },
		"set the address to":  func(c *Config) { c.Advertise = "" },
		`advertise "w1:0"`:    func(c *Config) { c.Advertise = "w1:0" },
		"65 labels":           func(c *Config) { c.Labels = strings.Split(strings.Repeat("a=b,", 64)+"c=d", ",") },
		"has 300 bytes":       func(c *Config) { c.Labels = []string{"a=" + strings.Repeat("x", 298)} },
		"name has 256 bytes":  func(c *Config) { c.Name = strings.Repeat("x", 256) },
		"nobody announces it": nil,
	} {
		c := good
		if spoil == nil {
			c.Join, says = nil, "no frontends to announce it to"
		} else {
			spoil(&c)
		}
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want something about %s", err, says)
		}
	}
}
