package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
)

// What tenants use, want, may have, and were refused is told by frontend and in all; to who has a tenant's token, of that one.
func TestTenantsCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	web, webHash := token(t, dir, "web")
	file := &tenantsFile{t: t, name: filepath.Join(dir, "tenants.yaml")}
	file.put("  ads: {tokens: 1, max: 1, queue: 2}\n  web: {tokens: 2, token-hashes: [" + webHash + "]}\n")
	const secret = "the fleet's"
	key := write(t, secret)
	dial := func(addr string) *client.Client {
		c, err := client.New([]string{addr}, client.WithSecret(secret))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	w := start(t, "worker", "--listen", "127.0.0.1:0", "--slots", "8", "--secret-file", key).said("worker", 1)[0]
	var addrs []string
	for _, name := range []string{"a", "b"} {
		addr := start(t, "frontend", "--listen", "127.0.0.1:0", "--workers", w, "--tenants", file.name, "--secret-file", key, "--name", name).said("frontend", 1)[0]
		linkedBy(t, dial(addr), 1)
		addrs = append(addrs, addr)
		long := client.Task{Function: "sleep", Payload: []byte("1h")}
		for _, j := range []client.Job{{Tenant: "ads", Tasks: []client.Task{long, long}}, {Tenant: "web", Class: client.Spare, Tasks: []client.Task{long}}} {
			if _, err := dial(addr).Submit(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
	}
	soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // the SDK would come back after a second
	defer cancel()
	if _, err := dial(addrs[0]).Submit(soon, client.Job{Tenant: "ads", Tasks: []client.Task{{Function: "echo"}}}); err == nil {
		t.Error("one more than may be pending was accepted")
	}
	connect := strings.Join(addrs, ",")
	eventually(t, func() error {
		s := phoebe(t, "tenants", "--secret-file", key, "--connect", connect).want(t, 0)
		got := ""
		for line := range strings.Lines(s.out) {
			got += strings.Join(strings.Fields(line), " ") + "\n"
		}
		if got != `TENANT FRONTEND USED SPARE WAITING TOKENS MAX HELD REFUSED
ads all 2 0 2 2 2 2 1
ads a 1 0 1 1 1 1 1
ads b 1 0 1 1 1 1 0
web all 2 2 0 4 - 0 0
web a 1 1 0 2 - 0 0
web b 1 1 0 2 - 0 0
` {
			return errors.New(got)
		}
		return nil
	})
	var one struct {
		Frontend, Tenant            string
		Used, Spare, Wanted, Tokens float64
		Max                         *float64
	}
	s := phoebe(t, "tenants", "--json", "--token-file", web, "--connect", addrs[1]).want(t, 0)
	if err := json.Unmarshal([]byte(s.out), &one); err != nil || one.Tenant != "web" || one.Frontend != "b" || one.Used != 1 || one.Spare != 1 || one.Wanted != 1 || one.Tokens != 2 || one.Max != nil {
		t.Errorf("%v, %+v of %q", err, one, s.out)
	}
}
