package main_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mixedFor is how long a fleet stays half of one release and half of the other, under load.
const mixedFor = time.Minute

// A fleet of the release whose commit RELEASED names is brought to this one and back, one process after the other, while jobs
// flow: none fails.
func TestUpgrade(t *testing.T) {
	if os.Getenv("PHOEBE_UPGRADE") == "" {
		t.Skip("PHOEBE_UPGRADE is not set")
	}
	released := buildReleased(t)
	f := &upgraded{t: t}
	var homes []string
	for i := range 3 {
		args := append(slices.Clone(gossipFlags), "--lease", "3s") // as a fleet has it: no process is to die here
		if i > 0 {
			args = append(args, "--join", f.frontends[0].gossip)
		}
		g := meet(startAs(t, released, args...))
		f.frontends, homes = append(f.frontends, g), append(homes, g.heartbeat)
	}
	for i := range 4 {
		w := startAs(t, released, "--log-level", "info", "worker", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--name", fmt.Sprint("w", i), "--allow-exec", "--slots", "4", "--join", strings.Join(homes, ","))
		f.workers, f.workerAddrs = append(f.workers, w), append(f.workerAddrs, w.addr())
	}
	f.linked()
	f.load = startMixedLoad(t, dial(t, f.frontends[0].api, f.frontends[1].api, f.frontends[2].api))
	for _, to := range []struct{ name, program string }{{"this release", binary}, {"the one before", released}} {
		before := f.load.jobs.Load()
		f.frontend(0, to.program)
		f.worker(0, to.program)
		f.worker(1, to.program)
		if !f.load.goOn(t, mixedFor) {
			t.Fatalf("half of the fleet was brought to %s", to.name)
		}
		f.frontend(1, to.program)
		f.worker(2, to.program)
		f.worker(3, to.program)
		f.frontend(2, to.program)
		if !f.load.goOn(t, 0) {
			t.Fatalf("all of the fleet was brought to %s", to.name)
		}
		t.Logf("%d jobs while the fleet was brought to %s", f.load.jobs.Load()-before, to.name)
	}
	f.load.end(t)
	for _, g := range f.frontends {
		f.understood(g.process)
	}
	for _, w := range f.workers {
		f.understood(w)
	}
	if n := f.load.lost.Load(); n > 0 {
		t.Errorf("%d tasks that may start only once were lost", n)
	}
}

// buildReleased builds the release whose commit RELEASED names, from this repository's history.
func buildReleased(t *testing.T) (program string) {
	text, err := os.ReadFile("RELEASED")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program = filepath.Join(dir, "phoebe")
	sh := exec.Command("sh", "-ec", `cd "$(git rev-parse --show-toplevel)"
git archive --output "$1/tree.tar" "$2"
mkdir "$1/tree"
cd "$1/tree"
tar -xf ../tree.tar
go build -o ../phoebe ./cmd/phoebe`, "sh", dir, strings.TrimSpace(string(text)))
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("build the release that RELEASED names (a shallow clone does not have it): %v\n%s", err, out)
	}
	return program
}

// startAs starts a process of another release.
func startAs(t testing.TB, program string, args ...string) *process {
	t.Helper()
	cmd := command(context.Background(), args...)
	cmd.Path = program
	return startCommand(t, cmd, args)
}

// upgraded is a fleet whose processes are replaced by those of another release.
type upgraded struct {
	t           *testing.T
	frontends   []*gossiper
	workers     []*process
	workerAddrs []string
	load        *load
}

// linked waits until each frontend knows each worker, two of three frontends by heartbeats and the third by gossip.
func (f *upgraded) linked() {
	f.t.Helper()
	for _, g := range f.frontends {
		g.lists(f.workerAddrs...)
	}
}

func (f *upgraded) frontend(i int, program string) {
	f.t.Helper()
	g := f.frontends[i]
	args := again(g.process, g.api)
	args[slices.Index(args, "--gossip")+1] = g.gossip
	args[slices.Index(args, "--heartbeat")+1] = g.heartbeat
	f.frontends[i] = meet(f.replace(g.process, program, args))
	f.linked()
}

func (f *upgraded) worker(i int, program string) {
	f.t.Helper()
	f.workers[i] = f.replace(f.workers[i], program, again(f.workers[i], f.workerAddrs[i]))
	f.linked()
}

// understood fails the test if a process could not read what it was told. Links are made again and tasks are tried again, so that
// no job need fail of it.
func (f *upgraded) understood(p *process) {
	f.t.Helper()
	for _, name := range []string{"phoebe_frontend_protocol_errors_total", `phoebe_worker_protocol_errors_total{reason="garbage"}`} {
		if n := metric(f.t, p, name); n > 0 {
			f.t.Errorf("phoebe %q: %s is %v\n%s", p.args, name, n, p.errs.String())
		}
	}
}

// replace drains a process and starts another one in its place.
func (f *upgraded) replace(p *process, program string, args []string) *process {
	f.t.Helper()
	if !f.load.goOn(f.t, 0) {
		f.t.FailNow()
	}
	f.understood(p)
	p.signal(syscall.SIGTERM)
	if code := p.ends(); code != 0 {
		f.t.Errorf("phoebe %q: exit code %d\n%s", p.args, code, p.errs.String())
	}
	return revive(f.t, func() *process { return startAs(f.t, program, args...) })
}
