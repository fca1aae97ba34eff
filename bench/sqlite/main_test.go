package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	fserve "github.com/phoebe-sched/phoebe/frontend/serve"
	"github.com/phoebe-sched/phoebe/probe/ports/porttest"
)

// isProcess is set in the environment of processes of the test. The processes run the binary of the test.
const isProcess = "PHOEBE_SQLITE_PROCESS"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(isProcess) == "":
		os.Exit(m.Run())
	case os.Args[1] == "frontend":
		log.Fatal(serveJobs(os.Args[2], os.Args[3], os.Args[4], os.Args[5:]))
	default:
		main()
	}
}

// serveJobs is a frontend, in place of phoebe frontend. The frontend prints its addresses, and runs until
// the test kills the frontend.
func serveJobs(listen, gossip, heartbeat string, join []string) error {
	f, err := fserve.New(fserve.Config{Listen: listen, Gossip: gossip, Heartbeat: heartbeat, Join: join})
	if err != nil {
		return err
	}
	if err := f.Start(); err != nil {
		return err
	}
	fmt.Println(f.Addr(), f.GossipAddr(), f.HeartbeatAddr())
	select {}
}

// process is a process of the test. Its exit is known after the end of its output.
type process struct {
	cmd    *exec.Cmd
	out    *bufio.Scanner
	errors bytes.Buffer
}

// start starts the test's binary with args.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0], args...)}
	p.cmd.Env = append(os.Environ(), isProcess+"=1")
	p.cmd.Stderr = &p.errors
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// kill kills the process, and returns when the process has gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// startUp starts a process, and returns the words of its first line. If a restarted frontend's port is taken for a
// moment, startUp tries again.
func startUp(t *testing.T, args ...string) (*process, []string) {
	t.Helper()
	for try := 1; ; try++ {
		p := start(t, args...)
		if p.out.Scan() {
			return p, strings.Fields(p.out.Text())
		}
		p.kill()
		if try == 20 {
			t.Fatalf("%q does not start: %s", args, p.errors.String())
		}
	}
}

// fleet is two frontends and two workers.
type fleet struct {
	t         *testing.T
	frontends [2]*process
	addrs     [2][]string // for clients, for gossip, for workers
	workers   [2]*process
}

// startFrontend starts a frontend again at its addresses, or at free ports the first time.
func (f *fleet) startFrontend(i int) {
	if f.addrs[i] == nil {
		for range 3 {
			f.addrs[i] = append(f.addrs[i], porttest.FreeAddress(f.t))
		}
	}
	args := append([]string{"frontend"}, f.addrs[i]...)
	if other := f.addrs[1-i]; other != nil {
		args = append(args, other[1])
	}
	f.frontends[i], f.addrs[i] = startUp(f.t, args...)
}

// listAddrs returns the addresses of the frontends for clients (0) or for workers (2).
func (f *fleet) listAddrs(kind int) string { return f.addrs[0][kind] + "," + f.addrs[1][kind] }

// startWorker starts a worker.
func (f *fleet) startWorker(i int) {
	f.workers[i], _ = startUp(f.t, "work", "--join", f.listAddrs(2))
}

// The program, frontends and workers are killed and started again while the job runs, alone and together. The file
// then has each outcome once. PHOEBE_SQLITE_TASKS is the number of tasks.
func TestEachOutcomeIsStoredOnce(t *testing.T) {
	n, kills := 300, 8
	if text := os.Getenv("PHOEBE_SQLITE_TASKS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		kills = 40
	}
	f := &fleet{t: t}
	f.startFrontend(0)
	f.startFrontend(1)
	f.startWorker(0)
	f.startWorker(1)
	file := filepath.Join(t.TempDir(), "squares.db")
	killed, runs := 0, 0
	for ended := false; !ended; runs++ {
		program := start(t, "run", "--connect", f.listAddrs(0), "--file", file, "--tasks", fmt.Sprint(n))
		dead := false
		for program.out.Scan() {
			var stored int
			if _, err := fmt.Sscanf(program.out.Text(), "stored %d", &stored); err != nil {
				t.Fatalf("%q: %v", program.out.Text(), err)
			}
			for ; !dead && killed < kills && stored > (killed+1)*n/(kills+1); killed++ {
				at := killed / 4 % 2
				switch killed % 4 {
				case 0:
					dead = true
				case 1:
					f.frontends[at].kill()
					f.startFrontend(at)
				case 2:
					f.workers[at].kill()
					f.startWorker(at)
				case 3: // the job is lost with both, and the next run of the program submits the rest
					dead = true
					f.frontends[0].kill()
					f.frontends[1].kill()
				}
			}
			if dead {
				program.kill()
				break
			}
		}
		switch err := program.cmd.Wait(); {
		case dead && killed%4 == 0:
			f.startFrontend(0)
			f.startFrontend(1)
		case !dead && err != nil:
			t.Fatalf("run %d: %v: %s", runs, err, program.errors.String())
		case !dead:
			ended = true
		}
	}
	if killed != kills {
		t.Errorf("%d kills, want %d", killed, kills)
	}
	checkSquares(t, file, n)
	t.Logf("%d squares in %d runs of the program, with %d kills", n, runs, killed)
}

// checkSquares checks that the file has the squares from 0 to n-1. The table takes no task twice.
func checkSquares(t *testing.T, file string, n int) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var count, first, last, wrong int
	err = db.QueryRowContext(context.Background(), `SELECT count(*), min(task), max(task),
		count(*) FILTER (WHERE square <> task * task OR error <> '') FROM outcomes`).Scan(&count, &first, &last, &wrong)
	if err != nil {
		t.Fatal(err)
	}
	if count != n || first != 0 || last != n-1 || wrong > 0 {
		t.Errorf("%d outcomes of the tasks %d to %d, %d of them wrong: want %d", count, first, last, wrong, n)
	}
}
