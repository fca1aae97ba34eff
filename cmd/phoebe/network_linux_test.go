package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
)

// networkVariable is set in the environment of the test binary if it runs in a network of its own.
const inNetwork = "PHOEBE_TEST_NETWORK"

// runInOwnNetwork runs the test again, in a process with a network of its own. The result is true in the new
// process. If it is false, the caller returns. Without the right to make a network, the test is skipped.
func withinNetwork(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inNetwork) != "" {
		return true
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.run", "^" + t.Name() + "$", "-test.v"}
	if end, ok := t.Deadline(); ok {
		args = append(args, "-test.timeout", time.Until(end).String())
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), inNetwork+"=1", binaryIn+"="+binary)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the child dies with its parent thread
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit):
		t.Skipf("a network namespace is not allowed: %v", err)
	case err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) &&
		!bytes.Contains(out, []byte("--- SKIP: ")):
		t.Errorf("in a network of its own: %v\n%s", err, out)
	case bytes.Contains(out, []byte("--- SKIP: ")):
		t.Skipf("in a network of its own:\n%s", out)
	}
	t.Logf("in a network of its own:\n%s", out)
	return false
}

// The hub is the network of the test. The hub has two switches: for gossip between frontends, and for all remaining
// connections.
const (
	mainNet   = "main"
	gossipNet = "gossip"
)

var subnets = map[string]string{mainNet: "10.11.12.", gossipNet: "10.11.13."}

// newHub makes the hub's switches in the network of the test.
func newHub(t testing.TB) *network {
	hub := &network{t, os.Getpid()}
	hub.ip("link set lo up")
	for name, subnet := range subnets {
		hub.ip("link add " + name + " type bridge")
		hub.ip("addr add " + subnet + "254/24 dev " + name)
		hub.ip("link set " + name + " up")
	}
	return hub
}

// station is a process of phoebe on a machine of its own.
type station struct {
	*network
	hub    *network
	name   string
	number int
	args   []string
	now    *process
}

// newStation wires a machine to networks. Its addresses end in number.
func newStation(hub *network, name string, number int, nets ...string) *station {
	s := &station{network: newNetwork(hub.t), hub: hub, name: name, number: number}
	for _, on := range nets {
		hub.ip(fmt.Sprintf("link add %s type veth peer name %s netns %d", s.wire(on), on, s.pid))
		hub.ip("link set " + s.wire(on) + " master " + on + " up")
		s.ip("addr add " + s.at(on) + "/24 dev " + on)
		s.ip("link set " + on + " up")
	}
	return s
}

// cableName returns the name of the hub's end of a cable.
func (s *station) wire(on string) string { return s.name + "-" + on[:1] }
func (s *station) at(on string) string   { return fmt.Sprint(subnets[on], s.number) }

// startProcess starts the process, or starts it again on the same addresses.
func (s *station) begin() {
	s.t.Helper()
	s.now = revive(s.t, func() *process { return s.start(s.args...) })
}

func (s *station) kill() {
	s.now.signal(syscall.SIGKILL)
	s.now.ends()
}

// unplug unplugs cables, plugIn plugs them in again.
func (s *station) cut(nets ...string) {
	for _, on := range nets {
		s.hub.ip("link set " + s.wire(on) + " down")
	}
}

func (s *station) plug(nets ...string) {
	for _, on := range nets {
		s.hub.ip("link set " + s.wire(on) + " up")
	}
}

func (s *station) api() string { return s.at(mainNet) + ":7410" }

// awaitGossip waits until a frontend knows the number of members, and is ready, with the warning if any.
func (s *station) gossips(members float64, warning string) {
	s.t.Helper()
	eventually(s.t, func() error {
		if n := metric(s.t, s.now, "phoebe_frontend_gossip_members"); n != members {
			return fmt.Errorf("%s knows %v frontends, want %v", s.name, n, members)
		}
		text := get(s.t, s.now, "/readyz")
		if warning == "" && text != "ok\n" || !strings.Contains(text, warning) {
			return fmt.Errorf("%s says %q at /readyz, want %q", s.name, text, warning)
		}
		return nil
	})
}

// runAtEach runs a short and a long task at each of some workers, by a client of this frontend alone.
func (s *station) reaches(workers ...*station) {
	s.t.Helper()
	c := dial(s.t, s.api())
	for _, w := range workers {
		at := client.Constraint{Hosts: []string{w.name}}
		outs, err := c.Run(s.t.Context(), client.Job{Constraint: at, Tasks: []client.Task{
			{Function: "echo", Payload: []byte("short")},
			{Function: "echo", Payload: []byte("long"), Estimate: 2 * time.Second},
		}})
		if err != nil {
			s.t.Errorf("%s at %s: %v", s.name, w.name, err)
		}
		for _, o := range outs {
			if o.Worker != w.name {
				s.t.Errorf("%s: task %d ran at %s, want %s", s.name, o.Task, o.Worker, w.name)
			}
		}
	}
}

// Frontends and workers, each on its own machine, find each other by gossip, while short and long jobs flow. In
// turn, processes are killed, frozen or cut off. Each task of each job has one outcome with the right result. Tasks
// with once start once at most. In the end no process holds anything of any job.
func TestSoakNetwork(t *testing.T) {
	t.Parallel()
	p := short
	if os.Getenv("PHOEBE_SOAK") != "" {
		p = long
	}
	if !withinNetwork(t) {
		return
	}
	secret = "sesame"
	hub := newHub(t)
	var frontends, workers []*station
	var apis, beats, gossip []string
	for i := range 3 {
		s := newStation(hub, fmt.Sprint("f", i), 1+i, mainNet, gossipNet)
		frontends, apis = append(frontends, s), append(apis, s.api())
		beats, gossip = append(beats, s.at(mainNet)+":7412"), append(gossip, s.at(gossipNet)+":7411")
	}
	for i, s := range frontends {
		s.args = []string{
			"frontend", "--name", s.name, "--listen", apis[i], "--gossip", gossip[i], "--heartbeat", beats[i],
			"--join", strings.Join(gossip, ","),
			"--admin", s.at(mainNet) + ":7413", "--lease", p.lease, "--client-grace", p.grace,
		}
		s.begin()
	}
	for i := range 4 {
		s := newStation(hub, fmt.Sprint("w", i), 101+i, mainNet)
		s.args = []string{
			"worker", "--name", s.name, "--listen", s.at(mainNet) + ":7420", "--join", strings.Join(beats, ","),
			"--allow-exec", "--slots", "4",
			"--rack", fmt.Sprint("r", i%2),
		}
		s.begin()
		workers = append(workers, s)
	}
	whole := func() {
		t.Helper()
		for _, f := range frontends {
			linked(t, f.api(), len(workers))
			f.gossips(float64(len(frontends)), "")
		}
	}
	whole()
	load := startMixedLoad(t, dial(t, apis...))

	for _, fault := range []struct {
		what     string
		at       *station
		do, undo func(s *station)
		meets    func() // waits for the effects of the fault, before it is undone
	}{
		{"a worker is killed", workers[0], (*station).kill, (*station).begin, func() { pause(t, p.down) }},
		{"a frontend is killed", frontends[0], (*station).kill, (*station).begin, func() { pause(t, p.down) }},
		{"a worker is frozen", workers[1], freeze, thaw, func() { pause(t, p.frozen) }},
		{"a frontend is frozen", frontends[1], freeze, thaw, func() { pause(t, p.frozenFE) }},
		{
			"a frontend is cut off from gossip", frontends[2],
			func(s *station) { s.cut(gossipNet) }, func(s *station) { s.plug(gossipNet) },
			func() {
				frontends[2].gossips(1, "warning: no other frontend is reached")
				frontends[2].reaches(workers...)
				frontends[0].gossips(2, "")
				pause(t, p.down)
				frontends[2].reaches(workers...)
			},
		},
		{
			"a worker is cut off", workers[2],
			func(s *station) { s.cut(mainNet) }, func(s *station) { s.plug(mainNet) },
			func() {
				for _, f := range frontends {
					linked(t, f.api(), len(workers)-1)
				}
				pause(t, p.down)
			},
		},
		{
			"a frontend is cut off from all", frontends[0],
			func(s *station) { s.cut(mainNet, gossipNet) }, func(s *station) { s.plug(mainNet, gossipNet) },
			func() {
				frontends[1].gossips(2, "")
				frontends[1].reaches(workers...)
				pause(t, p.down)
			},
		},
	} {
		before := load.jobs.Load()
		fault.do(fault.at)
		fault.meets()
		if !load.goOn(t, 0) {
			t.Fatalf("while %s", fault.what)
		}
		during := load.jobs.Load() - before
		fault.undo(fault.at)
		whole()
		if !load.goOn(t, p.after) {
			t.Fatalf("after %s", fault.what)
		}
		t.Logf("%s: %d jobs meanwhile, then all is well", fault.what, during)
	}
	load.end(t)
	for _, f := range frontends {
		c := dial(t, f.api())
		eventually(t, func() error {
			said, err := c.Cluster(t.Context())
			if err != nil {
				return err
			}
			held := said.Jobs + said.TasksPending + said.TasksRunning
			for _, w := range said.Workers {
				held += w.Attempts + w.Reservations + w.Running + w.Queued
			}
			if held > 0 {
				return fmt.Errorf("%s still holds something: %+v", f.name, said)
			}
			return nil
		})
	}
}

func freeze(s *station) { s.now.signal(syscall.SIGSTOP) }
func thaw(s *station)   { s.now.signal(syscall.SIGCONT) }
