package main_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe/ports/porttest"
)

// gossiper is a frontend that gossips.
type gossiper struct {
	*process
	api, gossip, heartbeat string
}

// gossipFlags starts a frontend with gossip, and with an admin port.
var gossipFlags = []string{
	"--log-level", "info", "frontend", "--listen", "127.0.0.1:0", "--gossip", "127.0.0.1:0", "--heartbeat",
	"127.0.0.1:0", "--admin", "127.0.0.1:0", "--lease", "500ms",
}

// startGossiper starts a frontend that joins the given peers, if any.
func startGossiper(t testing.TB, join ...string) *gossiper {
	t.Helper()
	args := slices.Clone(gossipFlags)
	if len(join) > 0 {
		args = append(args, "--join", strings.Join(join, ","))
	}
	return awaitGossiper(startPhoebe(t, args...))
}

// awaitGossiper waits until a frontend has printed its addresses.
func awaitGossiper(p *process) *gossiper {
	p.t.Helper()
	return &gossiper{p, p.awaitLines("frontend", 1)[0], p.awaitLines("gossip", 1)[0], p.awaitLines("heartbeat", 1)[0]}
}

// startAnnounced starts a worker that announces itself.
func startAnnounced(t testing.TB, name string, join ...string) *process {
	t.Helper()
	return startPhoebe(t, "--log-level", "info", "worker", "--listen", "127.0.0.1:0", "--name", name, "--allow-exec",
		"--slots", "4",
		"--retain", "2s", "--join", strings.Join(join, ","))
}

// awaitWorkers waits until a frontend is linked to exactly these workers.
func (g *gossiper) awaitWorkers(addrs ...string) {
	g.t.Helper()
	addrs = slices.Sorted(slices.Values(addrs))
	c := newClient(g.t, g.api)
	waitUntil(g.t, func() error {
		said, err := c.Cluster(g.t.Context())
		if err != nil {
			return err
		}
		var up []string
		for _, w := range said.Workers {
			if w.State != "up" {
				return fmt.Errorf("frontend %s: worker %s at %s is %s: %s", g.api, w.Name, w.Address, w.State, w.Error)
			}
			up = append(up, w.Address)
		}
		if !slices.Equal(up, addrs) {
			return fmt.Errorf("frontend %s lists %v, want %v", g.api, up, addrs)
		}
		return nil
	})
}

// awaitMembers waits until a frontend knows n frontends, including itself.
func (g *gossiper) awaitMembers(n float64) {
	g.t.Helper()
	waitUntil(g.t, func() error {
		if got := metricSum(g.t, g.process, "phoebe_frontend_gossip_members"); got != n {
			return fmt.Errorf("frontend %s knows %v frontends, want %v", g.api, got, n)
		}
		return nil
	})
}

// workerAddr returns the printed address of a worker.
func (p *process) workerAddr() string {
	p.t.Helper()
	return p.awaitLines("worker", 1)[0]
}

// awaitLog waits until the log of a process contains all texts.
func (p *process) awaitLog(texts ...string) {
	p.t.Helper()
	waitUntil(p.t, func() error {
		for _, text := range texts {
			if !strings.Contains(p.errs.String(), text) {
				return fmt.Errorf("phoebe %q does not log %q, but\n%s", p.args, text, p.errs.String())
			}
		}
		return nil
	})
}

// Three frontends, each with a single peer in --join, find each other, and so do four workers with the same
// frontend in --join. While jobs flow, frontends and workers are killed, leave, join, and come back elsewhere.
func TestFindEachOther(t *testing.T) {
	t.Parallel()
	first := startGossiper(t)
	second := startGossiper(t, first.gossip)
	third := startGossiper(t, second.gossip)
	var workers []*process
	var addrs []string
	for i := range 4 {
		w := startAnnounced(t, fmt.Sprint("w", i), second.heartbeat)
		workers, addrs = append(workers, w), append(addrs, w.workerAddr())
	}
	for _, g := range []*gossiper{first, second, third} {
		g.awaitWorkers(addrs...)
		g.awaitMembers(3)
	}
	load := startLoad(t, newClient(t, first.api, second.api, third.api))
	if !load.awaitProgress(t, 0) {
		return
	}

	// The only frontend in the workers' --join is killed. A new frontend joins.
	second.sendSignal(syscall.SIGKILL)
	second.awaitEnd()
	fourth := startGossiper(t, third.gossip)
	fourth.awaitWorkers(addrs...)
	for _, g := range []*gossiper{first, third, fourth} {
		g.awaitMembers(3)
	}
	// The workers have learned of the new frontend from the others. A new worker joins only the new frontend.
	last := startAnnounced(t, "w4", fourth.heartbeat)
	addrs = append(addrs, last.workerAddr())
	all := []*gossiper{first, third, fourth}
	for _, g := range all {
		g.awaitWorkers(addrs...)
	}
	if !load.awaitProgress(t, 0) {
		t.Error("after a frontend was killed")
		return
	}

	// One worker leaves. One is killed, and comes back on another port.
	workers[0].sendSignal(syscall.SIGTERM)
	if code := workers[0].awaitEnd(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	workers[1].sendSignal(syscall.SIGKILL)
	workers[1].awaitEnd()
	back := startAnnounced(t, "w1", first.heartbeat)
	addrs = append(addrs[2:], back.workerAddr())
	for _, g := range all {
		g.awaitWorkers(addrs...)
	}
	if !load.awaitProgress(t, 0) {
		t.Error("after workers came and went")
		return
	}
	load.stopAndCheck(t)
	for _, g := range all {
		g.sendSignal(syscall.SIGTERM)
	}
	for _, g := range all {
		if code := g.awaitEnd(); code != 0 {
			t.Errorf("exit code %d of frontend %s", code, g.api)
		}
	}
}

// A worker that is killed and does not come back is forgotten.
func TestForgetsWorker(t *testing.T) {
	t.Parallel()
	g := startGossiper(t)
	w, stays := startAnnounced(t, "goes", g.heartbeat), startAnnounced(t, "stays", g.heartbeat)
	g.awaitWorkers(w.workerAddr(), stays.workerAddr())
	w.sendSignal(syscall.SIGKILL)
	w.awaitEnd()
	g.awaitWorkers(stays.workerAddr())
	g.awaitLog("worker gone, by gossip", "state=lost")
}

// A process with another secret is kept out, and logs why.
func TestGossipSecret(t *testing.T) {
	t.Parallel()
	mine, other := []string{"PHOEBE_SECRET=sesame"}, []string{"PHOEBE_SECRET=simsim"}
	g := awaitGossiper(startPhoebeIn(t, mine, gossipFlags...))
	worker := []string{"worker", "--listen", "127.0.0.1:0", "--join", g.heartbeat}
	w := startPhoebeIn(t, other, worker...)
	w.awaitLog("no frontend takes this worker's heartbeats", g.heartbeat+": refused: the secret is not this frontend's")
	stranger := awaitGossiper(startPhoebeIn(t, other, append(slices.Clone(gossipFlags), "--join", g.gossip)...))
	stranger.awaitLog("no other frontend can be joined")
	good := startPhoebeIn(t, mine, worker...)
	waitUntil(t, func() error {
		s := runPhoebeIn(t, "", mine, "status", "--connect", g.api)
		if !strings.Contains(s.out, good.workerAddr()) || strings.Contains(s.out, w.workerAddr()) {
			return fmt.Errorf("status says %s %s", s.out, s.err)
		}
		return nil
	})
	stranger.awaitMembers(1)
	if n := metricSum(t, g.process, "phoebe_frontend_gossip_complaints_total"); n == 0 {
		t.Error("the stranger is not counted")
	}
}

// Seeds without a listener are tried again until one listens. The log says so once.
func TestUnreachableSeeds(t *testing.T) {
	t.Parallel()
	args := slices.Clone(gossipFlags)
	for _, flag := range []string{"--gossip", "--heartbeat"} { // the frontend is started again, and needs its ports
		args[slices.Index(args, flag)+1] = porttest.FreeAddress(t)
	}
	g := awaitGossiper(startPhoebe(t, args...))
	g.sendSignal(syscall.SIGKILL)
	g.awaitEnd()
	w := startAnnounced(t, "w", g.heartbeat)
	w.awaitLog("no frontend takes this worker's heartbeats", g.heartbeat+": dial: connect: connection refused")
	alone := startGossiper(t, g.gossip)
	alone.awaitLog("no other frontend can be joined", "connection refused")
	if out := getAdmin(t, alone.process, "/readyz"); !strings.Contains(out, "no worker is linked") {
		t.Errorf("readyz: %s", out)
	}

	var back *gossiper
	waitUntil(t, func() error { // the ports may be in use for a moment
		p := startPhoebe(t, args...)
		p.mu.Lock()
		for len(p.lines) < 3 && !p.eof {
			p.changed.Wait()
		}
		n := len(p.lines)
		p.mu.Unlock()
		if n < 3 {
			return fmt.Errorf("%s", p.errs.String())
		}
		back = awaitGossiper(p)
		return nil
	})
	for _, f := range []*gossiper{alone, back} {
		f.awaitMembers(2)
		f.awaitWorkers(w.workerAddr())
	}
	w.awaitLog("a frontend takes this worker's heartbeats again")
	waitUntil(t, func() error {
		if out := getAdmin(t, alone.process, "/readyz"); out != "ok\n" {
			return fmt.Errorf("readyz: %s", out)
		}
		return nil
	})
	if n := strings.Count(w.errs.String(), "no frontend takes"); n != 1 {
		t.Errorf("said %d times:\n%s", n, w.errs.String())
	}
}

// Maintenance is announced at the admin port.
func TestMaintenance(t *testing.T) {
	t.Parallel()
	g := startGossiper(t)
	w := startPhoebe(t, "--log-level", "info", "worker", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--join",
		g.heartbeat, "--maintenance-in", "1h")
	g.awaitWorkers(w.workerAddr())
	for query, code := range map[string]int{"in=10m&for=1h": 200, "for=0": 200, "in=-1m": 400, "in=soon": 400,
		"in=1m&for=10000h": 400, "": 400, "inn=10m": 400} {
		if got := postAdmin(t, w, "/maintenance?"+query); got != code {
			t.Errorf("%s: %d, want %d", query, got, code)
		}
	}
	c := newClient(t, g.api)
	for _, lasts := range []time.Duration{time.Hour, 0} { // through a frontend: announced, then called off
		if err := c.Maintenance(t.Context(), w.workerAddr(), 30*time.Minute, lasts); err != nil {
			t.Fatal(err)
		}
		waitUntil(t, func() error {
			said, err := c.Cluster(t.Context())
			if err != nil {
				return err
			}
			if in := said.Workers[0].View.Maintenance; (in > 29*time.Minute && in <= 31*time.Minute) != (lasts > 0) ||
				(in < 0) != (lasts == 0) {
				return fmt.Errorf("it is away in %v", in)
			}
			return nil
		})
	}
	if err := c.Maintenance(t.Context(), w.workerAddr(), 3000*time.Hour, time.Hour); err == nil {
		t.Error("maintenance in 3000 h is announced")
	}
	runPhoebe(t, "worker", "--listen", "127.0.0.1:0", "--maintenance-in=-1s").wantExit(t, 2, "maintenance in -1s")
	runPhoebe(t, "worker", "--listen", "127.0.0.1:0", "--maintenance-in", "1h").wantExit(t, 2, "--join")
	alone := startPhoebe(t, "--log-level", "info", "worker", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	if got := postAdmin(t, alone, "/maintenance?in=1h"); got != 400 {
		t.Errorf("announced to nobody: %d", got)
	}
}

func TestGossipUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"frontend"}, "--gossip"},
		{[]string{"frontend", "--gossip", "0.0.0.0:0"}, "set a secret"},
		{[]string{"frontend", "--gossip", "nonsense"}, "host:port"},
		{[]string{"frontend", "--workers", "127.0.0.1:1", "--join", "127.0.0.1:1"}, "give --gossip HOST:PORT too"},
		{[]string{"frontend", "--gossip", "127.0.0.1:0", "--join", "here"}, `"here"`},
		{[]string{"worker", "--join", "here"}, `"here"`},
		{[]string{"worker", "--advertise", "w:1"}, "heartbeat addresses"},
	} {
		runPhoebe(t, test.args...).wantExit(t, 2, test.says)
	}
}

// phoebe status shows gossip as each frontend sees it.
func TestStatusOfGossip(t *testing.T) {
	t.Parallel()
	a := startGossiper(t)
	b := startGossiper(t, a.gossip)
	w := startPhoebe(t, "worker", "--listen", "127.0.0.1:0", "--name", "w", "--rack", "r1", "--slots", "1", "--join",
		b.heartbeat)
	for _, g := range []*gossiper{a, b} {
		g.awaitWorkers(w.workerAddr())
		g.awaitMembers(2)
	}
	connect := a.api + "," + b.api
	waitUntil(t, func() error {
		out := runPhoebe(t, "status", "--connect", connect).wantExit(t, 0).out
		for _, want := range []string{"MEMBER", "KNOWN TO\n", a.gossip, b.heartbeat, " 2/2\n", "AGE", "itself",
			"0..0"} {
			if !strings.Contains(out, want) {
				return fmt.Errorf("%q is missing in\n%s", want, out)
			}
		}
		return nil
	})
	var all []struct {
		Members []struct{ Name, Address, Gossip, Heartbeat string }
		Workers []struct {
			Rack string
			Row  *struct {
				Age  int64 `json:"age_us"`
				From string
			}
			View struct {
				Age   int64     `json:"age_us"`
				Waits [][]int64 `json:"waits_us"`
			}
		}
	}
	if err := json.Unmarshal([]byte(runPhoebe(t, "status", "--json", "--connect", connect).wantExit(t, 0).out),
		&all); err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if len(f.Members) != 2 || len(f.Workers) != 1 || f.Workers[0].Rack != "r1" {
			t.Fatalf("%+v", f)
		}
		if w := &f.Workers[0]; w.Row == nil || w.Row.From != "itself" || len(w.View.Waits) != 8 ||
			len(w.View.Waits[7]) != 8 || w.View.Waits[7][7] != 0 || w.View.Age < 0 {
			t.Errorf("%+v", w) // with two frontends, both are home frontends of the worker
		}
	}
}

// phoebe doctor finds no problem in a healthy fleet, also asks frontends that --connect does not name, and reports
// a killed worker.
func TestDoctor(t *testing.T) {
	t.Parallel()
	first := startGossiper(t)
	second := startGossiper(t, first.gossip)
	worker := startAnnounced(t, "w0", first.heartbeat)
	for _, f := range []*gossiper{first, second} {
		f.awaitMembers(2)
		f.awaitWorkers(worker.workerAddr())
	}
	runPhoebe(t, "doctor", "--connect", first.api).wantExit(t, 0, "asked 2 frontends, which know 1 workers: 0 findings")
	if s := runPhoebe(t, "doctor", "--json", "--connect", first.api); strings.TrimSpace(s.out) != "[]" {
		t.Errorf("findings of a healthy fleet as JSON: %q", s.out)
	}
	runPhoebe(t, "doctor", "--connect", first.api+",127.0.0.1:1").wantExit(t, 1,
		"frontend 127.0.0.1:1: does not answer",
		"refused", "firewall")
	runPhoebe(t, "doctor", "--connect", "127.0.0.1:1", "--retry-for", "200ms").wantExit(t, 3, "no frontend answers")
	worker.sendSignal(syscall.SIGKILL)
	waitUntil(t, func() error {
		if s := runPhoebe(t, "doctor", "--json", "--connect", second.api); s.code != 1 ||
			!strings.Contains(s.out, `"where": "worker w0 at `+worker.workerAddr()) {
			return fmt.Errorf("exit code %d: %s%s", s.code, s.out, s.err)
		}
		return nil
	})
}
