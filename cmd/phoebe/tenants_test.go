package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
)

// phoebe tenants shows what tenants use, want and may have, and their refused jobs, for each frontend and in all. A
// caller with a tenant's token sees only the tenant.
func TestTenantsCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	web, webHash := makeToken(t, dir, "web")
	file := &tenantsFile{t: t, name: filepath.Join(dir, "tenants.yaml")}
	file.writeTenants("  ads: {tokens: 1, max: 1, queue: 2}\n  web: {tokens: 2, token-hashes: [" + webHash + "]}\n")
	const secret = "the fleet's"
	key := writeFile(t, secret)
	dial := func(addr string, options ...client.Option) *admin.Client {
		c, err := client.New([]string{addr}, append(options, client.WithSecret(secret))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return admin.New(c)
	}
	w := startPhoebe(t, "worker", "--listen", "127.0.0.1:0", "--slots", "8", "--secret-file",
		key).awaitLines("worker", 1)[0]
	var addrs []string
	for _, name := range []string{"a", "b"} {
		addr := startPhoebe(t, "frontend", "--listen", "127.0.0.1:0", "--workers", w, "--tenants", file.name,
			"--secret-file", key, "--name", name).awaitLines("frontend", 1)[0]
		awaitLinkedBy(t, dial(addr).Client, 1)
		addrs = append(addrs, addr)
		long := client.Task{Function: "sleep", Payload: []byte("1h")}
		for _, j := range []client.Job{{Tenant: "ads", Tasks: []client.Task{long, long}},
			{Tenant: "web", Class: client.Spare, Due: time.Hour, Tasks: []client.Task{long}}} {
			if _, err := dial(addr).Submit(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := dial(addrs[0], client.WithRefusalsFinal()).Submit(t.Context(),
		client.Job{Tenant: "ads", Tasks: []client.Task{{Function: "echo"}}}); err == nil {
		t.Error("one more than may be pending was accepted")
	}
	connect := strings.Join(addrs, ",")
	waitUntil(t, func() error {
		s := runPhoebe(t, "tenants", "--secret-file", key, "--connect", connect).wantExit(t, 0)
		got := ""
		for line := range strings.Lines(s.out) {
			got += strings.Join(strings.Fields(line), " ") + "\n"
		}
		if got != `TENANT FRONTEND USED SPARE WAITING TOKENS MAX HELD REFUSED 1 MIN: JOBS/S TASKS/S FAILED P99
ads all 2 0 2 2 2 2 1 0 0 0 -
ads a 1 0 1 1 1 1 1 0 0 0 -
ads b 1 0 1 1 1 1 0 0 0 0 -
web all 2 2 0 4 - 0 0 0 0 0 -
web a 1 1 0 2 - 0 0 0 0 0 -
web b 1 1 0 2 - 0 0 0 0 0 -
` {
			return errors.New(got)
		}
		return nil
	})
	waitUntil(t, func() error { // the worker reports the room at the next ping
		s := runPhoebe(t, "status", "--secret-file", key, "--connect", connect).wantExit(t, 0,
			"\nFREE is the room for regular tasks. Spare tasks use SPARE CPU of FREE CPU")
		row := strings.Join(strings.Fields(s.out), " ")
		if !strings.Contains(row, " FREE MEMORY SPARE CPU QUEUED ") ||
			!strings.Contains(row, " up 8000m 2048MiB 6000m 1536MiB 2000m 0 4 2/2 ") {
			return errors.New(s.out)
		}
		return nil
	})
	runPhoebe(t, "status", "--help").wantExit(t, 0, "FREE CPU", "the room of spare tasks counts as free")
	runPhoebe(t, "status", "--json", "--secret-file", key, "--connect", addrs[0]).wantExit(t, 0, `"spare": 1,`,
		`"copies": 0,`)
	spare := runPhoebe(t, "jobs", "--tenant", "web", "--secret-file", key, "--connect", addrs[0]).wantExit(t, 0,
		" spare/1h ")
	why := runPhoebe(t, "explain", strings.Fields(strings.Split(spare.out, "\n")[1])[0], "0", "--json", "--secret-file",
		key, "--connect", addrs[0]).wantExit(t, 0,
		`"cause": "class"`, `"class": "spare"`, `"class_why": "its job asks for it"`, `"due_us": 3600000000`,
		`"copies": "no copy: its job is spare"`)
	if !strings.Contains(why.out,
		`"tokens": "needs no tokens, because it is sampled: in workers' queues tenant \"web\" has the weights [2], `+
			`one for each part of its path"`) {
		t.Errorf("%s", why.out)
	}
	var one struct {
		Frontend, Tenant            string
		Used, Spare, Wanted, Tokens float64
		Max                         *float64
	}
	s := runPhoebe(t, "tenants", "--json", "--token-file", web, "--connect", addrs[1]).wantExit(t, 0)
	if err := json.Unmarshal([]byte(s.out), &one); err != nil || one.Tenant != "web" || one.Frontend != "b" ||
		one.Used != 1 || one.Spare != 1 || one.Wanted != 1 || one.Tokens != 2 || one.Max != nil {
		t.Errorf("%v, %+v of %q", err, one, s.out)
	}
}

// A flawed tenants file changes nothing. Each flaw is reported with its line and its remedy, at all places where
// operators look. A frontend does not start with a flawed file. Tenants without an entry have the entry "*".
func TestBadTenantsFile(t *testing.T) {
	t.Parallel()
	file := &tenantsFile{t: t, name: filepath.Join(t.TempDir(), "tenants.yaml")}
	file.writeTenants("  web: {tokens: 2, queue: 1}\n  \"*\": {tokens: 1, queue: 2}\n")
	args := []string{"--log-level", "info", "frontend", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--tenants", file.name, "--workers", startPhoebe(t, "worker", "--listen", "127.0.0.1:0").workerAddr()}
	p := startPhoebe(t, args...)
	addr := p.awaitLines("frontend", 1)[0]
	awaitLinked(t, addr, 1)
	limits := func() {
		t.Helper()
		for tenant, queue := range map[string]int{"web": 1, "nobody/said": 2} {
			tasks := func(n int) output {
				return runPhoebe(t, "run", "--connect", addr, "--tenant", tenant, "--function", "echo", "--tasks",
					fmt.Sprint(n))
			}
			tasks(queue).wantExit(t, 0)
			tasks(queue+1).wantExit(t, 2, fmt.Sprintf("may have %d pending", queue))
		}
	}
	limits()
	for _, bad := range []struct {
		tenants string
		flaws   []string
	}{
		{"  web: {tokens: -3, queue: 9}\n  ads/../..//x: {tokens: 1}\n  y: {token: 1}\n", []string{
			`:3: tenant "web": tokens "-3": want a whole number from 1 to`,
			`:4: tenant "ads/../..//x": a part of the path is empty: write parts with a / between`,
			`:5: tenant "y": unknown key "token": it is one of ["certificates" "functions" "max" "priority" "queue" "rate" "token-hashes" "tokens"]`,
		}},
		{"  web: &loop\n    tokens: *loop\n",
			[]string{":3: anchors, aliases and << are not read here, as they may go round in circles: write the values out", ":4: anchors"}},
	} {
		file.writeTenants(bad.tenants)
		says := func(s output, code int) {
			t.Helper()
			for _, flaw := range bad.flaws {
				s.wantExit(t, code, file.name+flaw)
			}
		}
		waitUntil(t, func() error {
			if text := getAdmin(t, p, "/readyz"); !strings.Contains(text, bad.flaws[len(bad.flaws)-1]) {
				return errors.New(text)
			}
			return nil
		})
		ready := runPhoebe(t, "ready", adminAddr(t, p)) // the frontend still serves
		says(ready, 0)
		ready.wantExit(t, 0, "ok\nwarning: tenants file: ", "; revision 1 stays in force")
		says(output{err: strings.ReplaceAll(p.errs.String(), `\"`, `"`)}, 0)
		says(runPhoebe(t, "tenants", "--connect", addr), 0)
		says(runPhoebe(t, "status", "--connect", addr), 0)
		says(runPhoebe(t, "doctor", "--connect", addr), 1)
		says(runPhoebe(t, args...), 2)
		limits()
	}
	file.writeTenants("  web: {tokens: 2, queue: 1}\n  \"*\": {tokens: 1, queue: 2}\n")
	waitUntil(t, func() error {
		if text := getAdmin(t, p, "/readyz"); text != "ok\n" {
			return errors.New(text)
		}
		return nil
	})
	limits()
}

// A frontend hangs or dies while it uses tokens and a part of a maximum. The frontend's wants no longer count, and
// its peer soon has all tokens and the whole maximum. When the frontend wakes, it gets its part back as tasks of
// the peer end.
func TestTokensReturn(t *testing.T) {
	t.Parallel()
	file := &tenantsFile{t: t, name: filepath.Join(t.TempDir(), "tenants.yaml")}
	file.writeTenants("  tokens: {tokens: 4}\n  bounded: {tokens: 1, max: 4}\n")
	var all []*gossiper
	for range 2 {
		args := append(slices.Clone(gossipFlags), "--tenants", file.name)
		for _, g := range all {
			args = append(args, "--join", g.gossip)
		}
		all = append(all, awaitGossiper(startPhoebe(t, args...)))
	}
	w := startPhoebe(t, "worker", "--listen", "127.0.0.1:0", "--slots", "32", "--grace", "500ms", "--join",
		all[0].heartbeat+","+all[1].heartbeat)
	for _, g := range all {
		g.awaitWorkers(w.workerAddr())
		g.awaitMembers(2)
	}
	shares := func(g *gossiper, want float64) {
		t.Helper()
		awaitUse(t, newClient(t, g.api), map[string]float64{"tokens": want, "bounded": want})
	}
	for _, g := range all {
		for _, tenant := range []string{"tokens", "bounded"} {
			submitMuch(t, g.api, tenant, 2*time.Second)
		}
	}
	both := func() {
		t.Helper()
		shares(all[0], 2)
		shares(all[1], 2)
	}
	both()
	all[0].sendSignal(syscall.SIGSTOP)
	shares(all[1], 4)
	all[0].sendSignal(syscall.SIGCONT)
	both()
	all[1].sendSignal(syscall.SIGKILL)
	shares(all[0], 4)
}

// submitMuch submits a job to a frontend, with more tasks than will run, and does not wait.
func submitMuch(t *testing.T, api, tenant string, run time.Duration) {
	t.Helper()
	c, err := client.New([]string{api}, client.WithLoadBalancerOnly(), client.WithSecret(secret))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	tasks := slices.Repeat([]client.Task{{Function: "sleep", Payload: []byte(run.String()), Estimate: run}}, 1000)
	if _, err := c.Submit(t.Context(), client.Job{Tenant: tenant, Tasks: tasks}); err != nil {
		t.Fatal(err)
	}
}

// slotsInUse returns the slots that tenants use at a frontend. For the tenant "tokens" it leaves out slots without
// tokens.
func slotsInUse(t *testing.T, c *admin.Client) (map[string]float64, error) {
	said, err := c.ClusterPage(t.Context(), admin.ClusterQuery{Tenants: true})
	if err != nil {
		return nil, err
	}
	has := map[string]float64{}
	for _, s := range said.Tenants {
		if has[s.Path] = s.Used; s.Path == "tokens" { // slots not covered by tokens are spare
			has[s.Path] -= s.Spare
		}
	}
	return has, nil
}

// awaitUse waits until tenants use these slots at a frontend.
func awaitUse(t *testing.T, c *admin.Client, want map[string]float64) {
	t.Helper()
	waitUntil(t, func() error {
		has, err := slotsInUse(t, c)
		if err == nil && !maps.Equal(has, want) {
			err = fmt.Errorf("%v are in use, want %v", has, want)
		}
		return err
	})
}
