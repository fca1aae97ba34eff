package main_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/probe/proxy"
)

// networkVariable is set in the environment of the test binary if it runs in a network of its own.
const networkVariable = "PHOEBE_TEST_NETWORK"

// runInOwnNetwork runs the test again, in a process with a network of its own. The result is true in the new
// process. If it is false, the caller returns. Without the right to make a network, the test is skipped.
func runInOwnNetwork(t *testing.T) bool {
	t.Helper()
	if os.Getenv(networkVariable) != "" {
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
	cmd.Env = append(os.Environ(), networkVariable+"=1", binaryVariable+"="+binary)
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
	hub.runIP("link set lo up")
	for name, subnet := range subnets {
		hub.runIP("link add " + name + " type bridge")
		hub.runIP("addr add " + subnet + "254/24 dev " + name)
		hub.runIP("link set " + name + " up")
	}
	return hub
}

// station is a process of phoebe on a machine of its own.
type station struct {
	*network
	hub     *network
	name    string
	number  int
	args    []string
	current *process
}

// newStation wires a machine to networks. Its addresses end in number.
func newStation(hub *network, name string, number int, nets ...string) *station {
	s := &station{network: newNetwork(hub.t), hub: hub, name: name, number: number}
	for _, netName := range nets {
		hub.runIP(fmt.Sprintf("link add %s type veth peer name %s netns %d", s.cableName(netName), netName, s.pid))
		hub.runIP("link set " + s.cableName(netName) + " master " + netName + " up")
		s.runIP("addr add " + s.address(netName) + "/24 dev " + netName)
		s.runIP("link set " + netName + " up")
	}
	return s
}

// cableName returns the name of the hub's end of a cable.
func (s *station) cableName(netName string) string { return s.name + "-" + netName[:1] }
func (s *station) address(netName string) string   { return fmt.Sprint(subnets[netName], s.number) }

// startProcess starts the process, or starts it again on the same addresses.
func (s *station) startProcess() {
	s.t.Helper()
	s.current = startUntilUp(s.t, func() *process { return s.startPhoebe(s.args...) })
}

func (s *station) killProcess() {
	s.current.sendSignal(syscall.SIGKILL)
	s.current.awaitEnd()
}

// unplug unplugs cables, plugIn plugs them in again.
func (s *station) unplug(nets ...string) {
	for _, netName := range nets {
		s.hub.runIP("link set " + s.cableName(netName) + " down")
	}
}

func (s *station) plugIn(nets ...string) {
	for _, netName := range nets {
		s.hub.runIP("link set " + s.cableName(netName) + " up")
	}
}

func (s *station) apiAddr() string { return s.address(mainNet) + ":7410" }

// awaitGossip waits until a frontend knows the number of members, and is ready, with the warning if any.
func (s *station) awaitGossip(members float64, warning string) {
	s.t.Helper()
	waitUntil(s.t, func() error {
		if n := metricSum(s.t, s.current, "phoebe_frontend_gossip_members"); n != members {
			return fmt.Errorf("%s knows %v frontends, want %v", s.name, n, members)
		}
		text := getAdmin(s.t, s.current, "/readyz")
		if warning == "" && text != "ok\n" || !strings.Contains(text, warning) {
			return fmt.Errorf("%s says %q at /readyz, want %q", s.name, text, warning)
		}
		return nil
	})
}

// runAtEach runs a short and a long task at each of some workers, by a client of this frontend alone.
func (s *station) runAtEach(workers ...*station) {
	s.t.Helper()
	c := newClient(s.t, s.apiAddr())
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

// echoAt sends a payload to a worker and back, and returns the time taken. A link of a busy machine may break in between.
// So echoAt tries again, and fails only if no payload ever comes back.
func (s *station) echoAt(w *station, size int) (took time.Duration) {
	s.t.Helper()
	payload := bytes.Repeat([]byte("phoebe"), size/6)
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*patience)
	defer cancel()
	c := newClient(s.t, s.apiAddr())
	waitUntil(s.t, func() error {
		began := time.Now()
		outs, err := c.Run(ctx, client.Job{Constraint: client.Constraint{Hosts: []string{w.name}},
			Tasks: []client.Task{{Function: "echo", Payload: payload}}})
		took = time.Since(began)
		if err != nil || !bytes.Equal(outs[0].Result, payload) {
			return fmt.Errorf("%s: a payload of %d bytes does not come back from %s: %w", s.name, size, w.name, err)
		}
		return nil
	})
	return took
}

// runWithFiles runs tasks that need new files from a folder. Only some workers may run the tasks.
func (s *station) runWithFiles(dir string, workers ...*station) {
	s.t.Helper()
	var job client.Job
	for range 8 {
		text := client.NewJobID()
		name := filepath.Join(dir, text)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
		job.Tasks = append(job.Tasks, client.Task{Function: "echo",
			Files: []client.File{{URL: "file://" + name, SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(text)))}}})
	}
	outs, err := newClient(s.t, s.apiAddr()).Run(s.t.Context(), job)
	if err != nil {
		s.t.Fatalf("%s: tasks with files: %v", s.name, err)
	}
	for _, o := range outs {
		if !slices.ContainsFunc(workers, func(w *station) bool { return w.name == o.Worker }) {
			s.t.Errorf("%s: a task with a new file ran at %s", s.name, o.Worker)
		}
	}
}

// cacheError returns why the cache of a worker takes no new files, as this frontend knows; "": the cache takes files.
func (s *station) cacheError(worker *station) string {
	s.t.Helper()
	said, err := newClient(s.t, s.apiAddr()).Cluster(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, w := range said.Workers {
		if w.Name == worker.name {
			return w.CacheError
		}
	}
	return ""
}

// Frontends and workers, each on its own machine, find each other by gossip, while short and long jobs flow. In
// turn, processes are killed, frozen or cut off. Each task of each job has one outcome with the right result. Tasks
// with once start once at most. In the end no process holds anything of any job.
func TestSoakNetwork(t *testing.T) {
	t.Parallel()
	p := shortTimes
	if os.Getenv("PHOEBE_SOAK") != "" {
		p = longTimes
	}
	if !runInOwnNetwork(t) {
		return
	}
	secret = "sesame"
	hub := newHub(t)
	var frontends, workers []*station
	var apis, beats, gossip []string
	for i := range 3 {
		s := newStation(hub, fmt.Sprint("f", i), 1+i, mainNet, gossipNet)
		frontends, apis = append(frontends, s), append(apis, s.apiAddr())
		beats, gossip = append(beats, s.address(mainNet)+":7412"), append(gossip, s.address(gossipNet)+":7411")
	}
	for i, s := range frontends {
		s.args = []string{
			"frontend", "--name", s.name, "--listen", apis[i], "--gossip", gossip[i], "--heartbeat", beats[i],
			"--join", strings.Join(gossip, ","),
			"--admin", s.address(mainNet) + ":7413", "--lease", p.lease, "--client-grace", p.grace,
		}
		s.startProcess()
	}
	files, caches := t.TempDir(), t.TempDir()
	for i := range 4 {
		s := newStation(hub, fmt.Sprint("w", i), 101+i, mainNet)
		s.args = []string{
			"worker", "--name", s.name, "--listen", s.address(mainNet) + ":7420", "--join", strings.Join(beats, ","),
			"--allow-exec", "--slots", "4",
			"--rack", fmt.Sprint("r", i%2),
		}
		if i%2 == 1 {
			s.args = append(s.args, "--cache-dir", filepath.Join(caches, s.name), "--file-roots", files)
		}
		workers = append(workers, s)
	}
	slow := workers[2] // reached by way of a proxy
	link := proxy.NewAt(t, subnets[mainNet]+"254:0", slow.address(mainNet)+":7420")
	slow.args = append(slow.args, "--advertise", link.Addr)
	for _, w := range workers {
		w.startProcess()
	}
	whole := func() {
		t.Helper()
		for _, f := range frontends {
			awaitLinked(t, f.apiAddr(), len(workers))
			f.awaitGossip(float64(len(frontends)), "")
		}
	}
	whole()
	load := startMixedLoad(t, newClient(t, apis...))
	lease, err := time.ParseDuration(p.lease)
	if err != nil {
		t.Fatal(err)
	}
	const large = 900 << 10 // a payload that takes three leases each way over the slow link
	rate := int(large / (3 * lease.Seconds()))
	cache := filepath.Join(caches, workers[1].name)

	for _, fault := range []struct {
		what     string
		at       *station
		do, undo func(s *station)
		meets    func() // waits for the effects of the fault, before it is undone
	}{
		{"a worker is killed", workers[0], (*station).killProcess, (*station).startProcess,
			func() { waitFor(t, p.down) }},
		{"a frontend is killed", frontends[0], (*station).killProcess, (*station).startProcess,
			func() { waitFor(t, p.down) }},
		{"a worker is frozen", workers[1], freezeStation, thawStation, func() { waitFor(t, p.frozen) }},
		{"a frontend is frozen", frontends[1], freezeStation, thawStation, func() { waitFor(t, p.frozenFrontend) }},
		{
			"a frontend is cut off from gossip", frontends[2],
			func(s *station) { s.unplug(gossipNet) }, func(s *station) { s.plugIn(gossipNet) },
			func() {
				frontends[2].awaitGossip(1, "warning: no other frontend is reached")
				frontends[2].runAtEach(workers...)
				frontends[0].awaitGossip(2, "")
				waitFor(t, p.down)
				frontends[2].runAtEach(workers...)
			},
		},
		{
			"a worker has a slow link", slow,
			func(*station) { link.SetRate(rate) }, func(*station) { link.SetRate(0) },
			func() {
				if took := frontends[0].echoAt(slow, large); took < 5*lease {
					t.Errorf("%d bytes went and came in %v over a link of %d bytes a second", large, took, rate)
				}
			},
		},
		{
			"the cache of a worker is dead", workers[1],
			func(*station) {
				if err := errors.Join(os.RemoveAll(cache), os.WriteFile(cache, nil, 0o600)); err != nil {
					t.Fatal(err)
				}
			},
			func(w *station) {
				if err := os.Remove(cache); err != nil {
					t.Fatal(err)
				}
				waitUntil(t, func() error {
					if problem := frontends[1].cacheError(w); problem != "" {
						return fmt.Errorf("the cache of %s is still out of service: %s", w.name, problem)
					}
					return nil
				})
			},
			func() {
				waitUntil(t, func() error {
					frontends[1].runWithFiles(files, workers[1], workers[3])
					if frontends[1].cacheError(workers[1]) == "" {
						return fmt.Errorf("the cache of %s is in service", workers[1].name)
					}
					return nil
				})
				waitFor(t, p.down)
				frontends[1].runWithFiles(files, workers[3])
			},
		},
		{
			"a worker is cut off", workers[2],
			func(s *station) { s.unplug(mainNet) }, func(s *station) { s.plugIn(mainNet) },
			func() {
				for _, f := range frontends {
					awaitLinked(t, f.apiAddr(), len(workers)-1)
				}
				waitFor(t, p.down)
			},
		},
		{
			"a frontend is cut off from all", frontends[0],
			func(s *station) { s.unplug(mainNet, gossipNet) }, func(s *station) { s.plugIn(mainNet, gossipNet) },
			func() {
				frontends[1].awaitGossip(2, "")
				frontends[1].runAtEach(workers...)
				waitFor(t, p.down)
			},
		},
	} {
		before := load.jobs.Load()
		fault.do(fault.at)
		fault.meets()
		if !load.awaitProgress(t, 0) {
			t.Fatalf("while %s", fault.what)
		}
		during := load.jobs.Load() - before
		fault.undo(fault.at)
		whole()
		if !load.awaitProgress(t, p.loadAfter) {
			t.Fatalf("after %s", fault.what)
		}
		t.Logf("%s: %d jobs meanwhile, then all is well", fault.what, during)
	}
	load.stopAndCheck(t)
	for _, f := range frontends {
		c := newClient(t, f.apiAddr())
		waitUntil(t, func() error {
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

func freezeStation(s *station) { s.current.sendSignal(syscall.SIGSTOP) }
func thawStation(s *station)   { s.current.sendSignal(syscall.SIGCONT) }
