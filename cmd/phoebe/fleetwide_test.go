package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	"github.com/phoebe-sched/phoebe/probe/ports/porttest"
)

// startBalancer distributes connections among addrs, and returns its address: HAProxy, or without HAProxy a loop in the
// test.
func startBalancer(t *testing.T, addrs []string) string {
	t.Helper()
	if program := findHAProxy(); program != "" {
		entry, servers := porttest.FreeAddress(t), ""
		for i, addr := range addrs {
			servers += fmt.Sprintf(" server frontend-%d %s\n", i, addr)
		}
		startHAProxy(t, program, fmt.Sprintf("defaults\n mode tcp\n balance leastconn\n timeout connect 10s\n "+
			"timeout client 10m\n timeout server 10m\nlisten phoebe\n bind %s\n%s", entry, servers))
		return entry
	}
	t.Log("HAProxy is not installed: a loop in the test distributes the connections")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 0; ; n++ {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", addrs[n%len(addrs)])
			if err != nil {
				in.Close()
				continue
			}
			go func() { io.Copy(out, in); out.Close() }()
			go func() { io.Copy(in, out); in.Close() }()
		}
	}()
	return l.Addr().String()
}

// Questions and orders to one address hold for the whole fleet behind the address.
func TestFleetBehindABalancer(t *testing.T) {
	cluster, err := local.Start(local.Config{Frontends: 2, Workers: 2, Slots: 8, Gossip: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.Close() })
	addrs := cluster.Frontends()
	address := startBalancer(t, addrs)
	run := func(args ...string) output {
		t.Helper()
		return runHere(t, append(args, "--connect", address)...)
	}

	waitUntil(t, func() error { // the gossip settles
		if s := run("doctor"); s.code != 0 || !strings.Contains(s.out, "asked 2 frontends, which know 2 workers") {
			return errors.New(s.out + s.err)
		}
		return nil
	})
	run("status").wantExit(t, 0, "frontend-0", "frontend-1", "2/2")
	if s := run("status", "--only", "frontend-1").wantExit(t, 0, "frontend-1", "1/1"); strings.Contains(s.out,
		"frontend-0  "+addrs[0]+"  serving") {
		t.Errorf("--only shows another frontend, too: %s", s.out)
	}
	run("status", "--only", addrs[0]).wantExit(t, 0, "frontend-0", "1/1")
	run("doctor", "--only", "frontend-0").wantExit(t, 0, "asked 1 frontends")
	for _, command := range []string{"status", "doctor", "tenants", "jobs"} {
		run(command, "--only", "nobody").wantExit(t, 2, "nobody", "phoebe status lists the frontends")
	}

	countLastMinute(t, address, run)

	// Only the frozen address is blamed, because each address has its own time to answer.
	frozen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { frozen.Close() })
	both := frozen.Addr().String() + "," + address
	s := output{}
	for _, within := range []string{"2s", "30s"} { // a busy machine needs more time
		s = runHere(t, "doctor", "--connect", both, "--retry-for", within)
		if strings.Contains(s.out, "asked 2 frontends") {
			break
		}
	}
	s.wantExit(t, 1, "asked 2 frontends")
	if problems := strings.Count(s.out, "problem: ") + strings.Count(s.out, "note: "); problems != 1 ||
		!strings.Contains(s.out, "problem: frontend "+frozen.Addr().String()+": does not answer") {
		t.Errorf("%s", s.out)
	}

	for i, addr := range addrs {
		for _, only := range []string{"", fmt.Sprint("frontend-", i), addr} {
			job, err := newClient(t, addr).Submit(t.Context(),
				client.Job{Tasks: []client.Task{{Function: "sleep", Payload: []byte("1h")}}})
			if err != nil {
				t.Fatal(err)
			}
			id := job.Handle().Job
			run("jobs", "--running", "--only", addr).wantExit(t, 0, id)
			if s := run("jobs", "--only", addrs[1-i]).wantExit(t, 0); strings.Contains(s.out, id) {
				t.Errorf("--only lists a job of another frontend: %s", s.out)
			}
			run("cancel", id, "--only", addrs[1-i]).wantExit(t, 1, "unknown job")
			run("cancel", id, "--only", only).wantExit(t, 0, "job "+id+": 1 tasks are cancelled")
		}
	}
	run("cancel", client.NewJobID()).wantExit(t, 1, "unknown job")

	run("drain", "worker-0", "--detach").wantExit(t, 0, "worker worker-0 drains")
	run("drain", "nobody").wantExit(t, 1, `"nobody" is not linked`)
}

// countLastMinute checks the counts of the last minute against the counts of a load generator, for four tenants.
func countLastMinute(t *testing.T, address string, run func(...string) output) {
	t.Helper()
	type counts struct{ Jobs, Tasks, Failed int }
	did, all := map[string]counts{}, counts{}
	for i, tenant := range []string{"ads", "news", "shop", "web"} {
		// The clients keep their connections, so the balancer gives both frontends clients.
		clients := []*admin.Client{newClient(t, address), newClient(t, address)}
		for n := range 5 * (i + 1) {
			c := clients[n%2]
			tasks := slices.Repeat([]client.Task{{Function: "echo"}}, n%3+1)
			failed := 0
			if n%4 == 0 {
				tasks[0], failed = client.Task{Function: "fail"}, 1
			}
			_, err := c.Run(t.Context(), client.Job{Tenant: tenant, Tasks: tasks})
			if taskErr := (*client.TaskError)(nil); err != nil && !errors.As(err, &taskErr) {
				t.Fatal(err)
			}
			x := did[tenant]
			did[tenant] = counts{x.Jobs + 1, x.Tasks + len(tasks), x.Failed + failed}
			all = counts{all.Jobs + 1, all.Tasks + len(tasks), all.Failed + failed}
		}
	}
	type line struct {
		Tenant string
		Minute counts `json:"last_minute"`
	}
	waitUntil(t, func() error { // a frontend counts each second
		seen, frontends := map[string]counts{}, 0
		for text := range strings.Lines(run("tenants", "--json").wantExit(t, 0).out) {
			var x line
			if err := json.Unmarshal([]byte(text), &x); err != nil {
				t.Fatal(err)
			}
			y := seen[x.Tenant]
			seen[x.Tenant] = counts{x.Minute.Jobs + y.Jobs, x.Minute.Tasks + y.Tasks, x.Minute.Failed + y.Failed}
		}
		for tenant, want := range did {
			if seen[tenant] != want {
				return fmt.Errorf("%s: %+v, want %+v", tenant, seen[tenant], want)
			}
		}
		var each []line
		if err := json.Unmarshal([]byte(run("status", "--json").wantExit(t, 0).out), &each); err != nil {
			t.Fatal(err)
		}
		sum := counts{}
		for _, f := range each {
			if f.Minute.Jobs > 0 {
				frontends++
			}
			sum = counts{sum.Jobs + f.Minute.Jobs, sum.Tasks + f.Minute.Tasks, sum.Failed + f.Minute.Failed}
		}
		if sum != all || frontends != 2 {
			return fmt.Errorf("status of %d frontends: %+v, want %+v", frontends, sum, all)
		}
		return nil
	})
	jobs, tasks := fmt.Sprintf("last minute: %d jobs ended (", all.Jobs), fmt.Sprintf(
		", %d tasks (", all.Tasks)
	failed := fmt.Sprintf("/s), %d of them without a result", all.Failed)
	run("status").wantExit(t, 0, jobs, tasks, failed)
	run("top").wantExit(t, 0, jobs, tasks, failed)
	run("tenants").wantExit(t, 0, "1 MIN: JOBS/S", "news")
}
