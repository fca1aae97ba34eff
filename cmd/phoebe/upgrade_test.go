package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
)

// mixedFor is the time of a fleet in a mix of old and new processes, under load.
const mixedFor = time.Minute

// A fleet of the release in RELEASED (a commit) is upgraded to the tested release and back, process by process,
// while jobs flow. No job fails.
func TestUpgrade(t *testing.T) {
	if os.Getenv("PHOEBE_UPGRADE") == "" {
		t.Skip("PHOEBE_UPGRADE is not set")
	}
	released := buildReleased(t)
	f := &upgradedFleet{t: t}
	var homes []string
	for i := range 3 {
		args := append(slices.Clone(gossipFlags), "--lease", "3s") // the usual lease: no process shall count as dead
		if i > 0 {
			args = append(args, "--join", f.frontends[0].gossip)
		}
		g := awaitGossiper(startRelease(t, released, args...))
		f.frontends, homes = append(f.frontends, g), append(homes, g.heartbeat)
	}
	for i := range 4 {
		w := startRelease(t, released, "--log-level", "info", "worker", "--listen", "127.0.0.1:0", "--admin",
			"127.0.0.1:0", "--name", fmt.Sprint("w", i), "--allow-exec", "--slots", "4", "--join",
			strings.Join(homes, ","))
		f.workers, f.workerAddrs = append(f.workers, w), append(f.workerAddrs, w.workerAddr())
	}
	f.awaitLinked()
	f.load = startMixedLoad(t, newClient(t, f.frontends[0].api, f.frontends[1].api, f.frontends[2].api))
	for _, to := range []struct{ name, program string }{{"this release", binary}, {"the one before", released}} {
		before := f.load.jobs.Load()
		f.replaceFrontend(0, to.program)
		f.replaceWorker(0, to.program)
		f.replaceWorker(1, to.program)
		if !f.load.awaitProgress(t, mixedFor) {
			t.Fatalf("half of the fleet was brought to %s", to.name)
		}
		f.replaceFrontend(1, to.program)
		f.replaceWorker(2, to.program)
		f.replaceWorker(3, to.program)
		f.replaceFrontend(2, to.program)
		if !f.load.awaitProgress(t, 0) {
			t.Fatalf("all of the fleet was brought to %s", to.name)
		}
		t.Logf("%d jobs while the fleet was brought to %s", f.load.jobs.Load()-before, to.name)
	}
	f.load.stopAndCheck(t)
	for _, g := range f.frontends {
		f.wantNoProtocolErrors(g.process)
	}
	for _, w := range f.workers {
		f.wantNoProtocolErrors(w)
	}
	if n := f.load.lost.Load(); n > 0 {
		t.Errorf("%d tasks that may start only once were lost", n)
	}
}

// Frontends of the last release and of this release serve the same workers, half of each release. The fleets get
// the same jobs in turns under load, in either order. No job fails.
func TestMixedReleases(t *testing.T) {
	if os.Getenv("PHOEBE_UPGRADE") == "" {
		t.Skip("PHOEBE_UPGRADE is not set")
	}
	f := &upgradedFleet{t: t}
	programs := []string{buildReleased(t), binary}
	for i := range 8 {
		w := startRelease(t, programs[i%2], "--log-level", "info", "worker", "--listen", "127.0.0.1:0", "--admin",
			"127.0.0.1:0", "--name", fmt.Sprint("w", i), "--slots", "4")
		f.workers, f.workerAddrs = append(f.workers, w), append(f.workerAddrs, w.workerAddr())
	}
	var fleets []string
	parts := f.workers
	for _, program := range programs {
		var apis []string
		for range 2 {
			g := startRelease(t, program, "--log-level", "info", "frontend", "--listen", "127.0.0.1:0", "--admin",
				"127.0.0.1:0", "--workers", strings.Join(f.workerAddrs, ","),
				"--max-wait=-1s") // other work of the machine must not cause refusals
			parts, apis = append(parts, g), append(apis, g.awaitLines("frontend", 1)[0])
			awaitLinked(t, apis[len(apis)-1], len(f.workers))
		}
		fleets = append(fleets, strings.Join(apis, "+"))
	}
	for _, order := range [][]string{{"the release before", "this one"}, {"this one", "the release before"}} {
		for _, work := range [][]string{{"task-exp:20ms"}, {"task-exp:1.5s", "--estimates"}} {
			file := filepath.Join(t.TempDir(), "b.json")
			args := []string{"bench", "--against", strings.Join(fleets, ","), "--load", "0.7", "--tasks-per-job", "4",
				"--warmup", "1s", "--for", "15s", "--json", file, "--task-duration"}
			runPhoebe(t, append(args, work...)...).wantExit(t, 0)
			text, err := os.ReadFile(file)
			var doc bench.Document
			if err == nil {
				err = json.Unmarshal(text, &doc)
			}
			if err != nil || len(doc.Runs) != 2 || len(doc.Comparisons) != 1 {
				t.Fatalf("%v: %s", err, text)
			}
			a, b, c := doc.Runs[0], doc.Runs[1], doc.Comparisons[0]
			if a.Errors+b.Errors > 0 || c.Pairs == 0 {
				t.Errorf("%s: %d of %d jobs of %s and %d of %d of %s failed (refused: %v, %v), %d pairs",
					work[0], a.Errors, a.Jobs+a.Errors, order[0], b.Errors, b.Jobs+b.Errors, order[1], a.Refused,
					b.Refused, c.Pairs)
			}
			t.Logf("%s, %d pairs of jobs: %s took %.3f times as long as %s (%.3f to %.3f), at p99 %.3f (%.3f to %.3f)",
				work[0], c.Pairs, order[1], c.Pair.Ratio, order[0], c.Pair.Low, c.Pair.High, c.P99.Ratio, c.P99.Low,
				c.P99.High)
		}
		slices.Reverse(fleets)
	}
	for _, p := range parts {
		f.wantNoProtocolErrors(p)
	}
}

// buildReleased builds the release whose commit is in RELEASED, from this repository's history.
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

// startRelease starts a process of another release.
func startRelease(t testing.TB, program string, args ...string) *process {
	t.Helper()
	cmd := phoebeCommand(context.Background(), args...)
	cmd.Path = program
	return startCommand(t, cmd, args)
}

// upgradedFleet is a fleet whose processes are replaced by processes of another release.
type upgradedFleet struct {
	t           *testing.T
	frontends   []*gossiper
	workers     []*process
	workerAddrs []string
	load        *load
}

// awaitLinked waits until each frontend knows each worker: two of three frontends by heartbeats, and the third by
// gossip.
func (f *upgradedFleet) awaitLinked() {
	f.t.Helper()
	for _, g := range f.frontends {
		g.awaitWorkers(f.workerAddrs...)
	}
}

// replaceFrontend replaces frontend i by a process of program, at the same addresses.
func (f *upgradedFleet) replaceFrontend(i int, program string) {
	f.t.Helper()
	g := f.frontends[i]
	args := restartArgs(g.process, g.api)
	args[slices.Index(args, "--gossip")+1] = g.gossip
	args[slices.Index(args, "--heartbeat")+1] = g.heartbeat
	f.frontends[i] = awaitGossiper(f.replaceProcess(g.process, program, args))
	f.awaitLinked()
}

// replaceWorker replaces worker i by a process of program, at the same address.
func (f *upgradedFleet) replaceWorker(i int, program string) {
	f.t.Helper()
	f.workers[i] = f.replaceProcess(f.workers[i], program, restartArgs(f.workers[i], f.workerAddrs[i]))
	f.awaitLinked()
}

// wantNoProtocolErrors fails the test if a process could not read a message. Links and tasks are retried, so jobs
// alone do not show such errors.
func (f *upgradedFleet) wantNoProtocolErrors(p *process) {
	f.t.Helper()
	for _, name := range []string{"phoebe_frontend_protocol_errors_total",
		`phoebe_worker_protocol_errors_total{reason="garbage"}`} {
		if n := metricSum(f.t, p, name); n > 0 {
			f.t.Errorf("phoebe %q: %s is %v\n%s", p.args, name, n, p.errs.String())
		}
	}
}

// replaceProcess drains a process, and starts another process in its place.
func (f *upgradedFleet) replaceProcess(p *process, program string, args []string) *process {
	f.t.Helper()
	if !f.load.awaitProgress(f.t, 0) {
		f.t.FailNow()
	}
	f.wantNoProtocolErrors(p)
	p.sendSignal(syscall.SIGTERM)
	if code := p.awaitEnd(); code != 0 {
		f.t.Errorf("phoebe %q: exit code %d\n%s", p.args, code, p.errs.String())
	}
	return startUntilUp(f.t, func() *process { return startRelease(f.t, program, args...) })
}
