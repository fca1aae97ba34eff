package serve

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// termsFile writes a file that is replaced at once, as editors do, and returns how.
func termsFile(t *testing.T, text string) (name string, replace func(text string)) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "tenants.yaml")
	replace = func(text string) {
		t.Helper()
		if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	replace(text)
	return name, replace
}

// run runs two tasks of a tenant.
func (c *cluster) run(tenant string) error {
	j := job("echo", "x", "y")
	j.Tenant = tenant
	_, err := c.client.Run(context.Background(), &v1.RunRequest{Job: j})
	return err
}

// A file is read again when it changes. One that is flawed, is gone, or does not say that it is newer changes nothing, and
// is complained of until it is right.
func TestTermsFile(t *testing.T) {
	name, replace := termsFile(t, "revision: 1\ntenants:\n  web: {tokens: 2, queue: 1}\n")
	c := startCluster(t, 1, 1, func(cfg *Config) { cfg.Tenants = name })
	refusal(t, c.run("web"), v1.RefusedReason_TOO_LARGE, `tenant "web" may have 1 pending`)
	warns := func(with ...string) {
		t.Helper()
		poll(t, strings.Join(with, ", "), func() bool {
			text := c.Warning()
			for _, w := range with {
				if !strings.Contains(text, w) {
					return false
				}
			}
			return len(with) > 0 || text == ""
		})
		refusal(t, c.run("web"), v1.RefusedReason_TOO_LARGE, `tenant "web" may have 1 pending`)
	}
	replace("revision: 2\ntenants:\n  web: {tokens: -2}\n")
	warns(name+":3:", `tokens "-2"`, "revision 1 holds on")
	replace("revision: 1\ntenants:\n  web: {tokens: 2, queue: 1}\n")
	warns()
	replace("revision: 1\ntenants:\n  web: {tokens: 2, queue: 2}\n")
	warns("has changed, and the revision is still 1: give it a higher one")
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	warns("no such file", "revision 1 holds on")
	replace("revision: 3\ntenants:\n  web: {tokens: 2, queue: 2}\n")
	poll(t, "revision 3 holds", func() bool { return c.Warning() == "" && c.run("web") == nil })
	replace("revision: 2\ntenants:\n  web: {tokens: 2, queue: 1}\n")
	poll(t, "it is too old", func() bool { return strings.Contains(c.Warning(), "has revision 2, and 3 holds: give it a higher one") })
	if err := c.run("web"); err != nil {
		t.Error(err)
	}

	if s, err := New(Config{Listen: "127.0.0.1:0", Tenants: filepath.Join(t.TempDir(), "none")}); err != nil {
		t.Error(err)
	} else if err := s.Start(); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("it starts without its file: %v", err)
	}
}

// The newest revision that any frontend has gets to all, also to those without a file, and to who comes later.
func TestTermsSpread(t *testing.T) {
	name, replace := termsFile(t, "revision: 1\ntenants:\n  web: {queue: 2}\n")
	older, _ := termsFile(t, "revision: 1\ntenants:\n  web: {queue: 100}\n")
	a := startCluster(t, 1, 1, gossips(), func(cfg *Config) { cfg.Tenants = name })
	b := startCluster(t, 1, 1, gossips(a.GossipAddr()))
	if err := b.run("web"); err != nil {
		t.Fatal(err)
	}
	replace("revision: 2\ntenants:\n  web: {queue: 1}\n")
	poll(t, "b has it", func() bool { return b.run("web") != nil })
	c := startCluster(t, 1, 1, gossips(a.GossipAddr()), func(cfg *Config) { cfg.Tenants = older })
	poll(t, "c has it", func() bool { return c.run("web") != nil })
	refusal(t, c.run("web"), v1.RefusedReason_TOO_LARGE, `tenant "web" may have 1 pending`)
	for _, s := range []*cluster{a, b, c} {
		if w := s.Warning(); w != "" {
			t.Errorf("it warns: %s", w)
		}
	}
}

// What a tenant uses at most holds for all frontends together. One that goes leaves its part to the others.
func TestMaximumOfAll(t *testing.T) {
	name, _ := termsFile(t, "revision: 1\ntenants:\n  web: {max: 2}\n")
	a := startCluster(t, 1, 4, gossips(), func(cfg *Config) { cfg.Tenants = name })
	b := startCluster(t, 1, 4, gossips(a.GossipAddr()))
	use := func(c *cluster) (n int64) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, s := range c.core.Tenants(9) {
			n += s.Use
		}
		return n
	}
	poll(t, "each has its part", func() bool {
		for _, c := range []*cluster{a, b} {
			c.mu.Lock()
			may := c.core.May("web")
			c.mu.Unlock()
			if may.All != 1000 {
				return false
			}
		}
		return true
	})
	for _, c := range []*cluster{a, b} {
		j := job("sleep", "1h", "1h", "1h", "1h")
		j.Tenant = "web"
		if _, err := c.client.Submit(context.Background(), &v1.SubmitRequest{Job: j}); err != nil {
			t.Fatal(err)
		}
	}
	poll(t, "all of it is in use", func() bool {
		all := use(a) + use(b)
		if all > 2000 {
			t.Fatalf("%d and %d are in use", use(a), use(b))
		}
		return all == 2000
	})
	a.Close()
	poll(t, "the other one has all of it", func() bool { return use(b) == 2000 })
}
