package serve

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
	"github.com/phoebe-sched/phoebe/probe/poll"
)

func init() { poll.Every = 20 * time.Millisecond }

// termsFile writes a tenants file. replace exchanges the file at once, as editors do.
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

// runTwo runs two tasks of a tenant.
func (c *testCluster) runTwo(tenant string) error {
	j := newJob("echo", "x", "y")
	j.Tenant = tenant
	_, err := c.client.Run(context.Background(), &v1.RunRequest{Job: j})
	return err
}

// A tenants file is read again when it changes. A flawed or missing file, or a file without a higher revision,
// changes nothing. The frontend complains until the file is right.
func TestTermsFile(t *testing.T) {
	name, replace := termsFile(t, "revision: 1\ntenants:\n  web: {tokens: 2, queue: 1}\n")
	c := startCluster(t, 1, 1, func(cfg *Config) { cfg.Tenants = name })
	wantRefused(t, c.runTwo("web"), v1.RefusedReason_TOO_LARGE, `tenant "web" may have 1 pending`)
	warns := func(with ...string) {
		t.Helper()
		pollUntil(t, strings.Join(with, ", "), func() bool {
			text := c.Warning()
			for _, w := range with {
				if !strings.Contains(text, w) {
					return false
				}
			}
			return len(with) > 0 || text == ""
		})
		wantRefused(t, c.runTwo("web"), v1.RefusedReason_TOO_LARGE, `tenant "web" may have 1 pending`)
	}
	replace("revision: 2\ntenants:\n  web: {tokens: -2}\n")
	warns(name+":3:", `tokens "-2"`, "revision 1 stays in force")
	replace("revision: 1\ntenants:\n  web: {tokens: 2, queue: 1}\n")
	warns()
	replace("revision: 1\ntenants:\n  web: {tokens: 2, queue: 2}\n")
	warns("has changed, and the revision is still 1: give it a higher one")
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	warns("no such file", "revision 1 stays in force")
	replace("revision: 1099511627778\ntenants:\n  web: {tokens: 2, queue: 2}\n") // would leave too few revisions
	warns("has revision 1099511627778", "give it at most 1099511627777", "revision 1 stays in force")
	replace("revision: 3\ntenants:\n  web: {tokens: 2, queue: 2}\n")
	pollUntil(t, "revision 3 holds", func() bool { return c.Warning() == "" && c.runTwo("web") == nil })
	replace("revision: 2\ntenants:\n  web: {tokens: 2, queue: 1}\n")
	pollUntil(t, "it is too old",
		func() bool {
			return strings.Contains(c.Warning(), "has revision 2, and 3 is in force: give it a higher one")
		})
	if err := c.runTwo("web"); err != nil {
		t.Error(err)
	}

	if s, err := New(Config{Listen: "127.0.0.1:0", Tenants: filepath.Join(t.TempDir(), "none")}); err != nil {
		t.Error(err)
	} else if err := s.Start(); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("it starts without its file: %v", err)
	}
}

// A tenants file that is a link is read again when the link's target changes, or the folder of the target is replaced,
// as Kubernetes does for a mounted ConfigMap.
func TestTermsFileByLink(t *testing.T) {
	dir := t.TempDir()
	replace := func(version, text string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, version, "tenants.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(version, filepath.Join(dir, "..data.new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data.new"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	replace("v1", "revision: 1\ntenants:\n  web: {queue: 1}\n")
	mount := t.TempDir() // the link that is given lies elsewhere, too
	name := filepath.Join(mount, "tenants.yaml")
	if err := os.Symlink(filepath.Join(dir, "..data", "tenants.yaml"), name); err != nil {
		t.Fatal(err)
	}
	c := startCluster(t, 1, 1, func(cfg *Config) { cfg.Tenants = name })
	wantRefused(t, c.runTwo("web"), v1.RefusedReason_TOO_LARGE, `tenant "web" may have 1 pending`)
	replace("v2", "revision: 2\ntenants:\n  web: {queue: 2}\n")
	pollUntil(t, "revision 2", func() bool { return c.runTwo("web") == nil })
	if w := c.Warning(); w != "" {
		t.Errorf("it warns: %s", w)
	}
}

// The warning of another frontend's flawed file ends with a later file of the own.
func TestForeignFileIsOvercome(t *testing.T) {
	name, replace := termsFile(t, "revision: 1\ntenants:\n  web: {queue: 1}\n")
	c := startCluster(t, 1, 1, func(cfg *Config) { cfg.Tenants = name })
	c.terms.hearTerms(rows.Terms{Revision: 5, Text: []byte("revision: 5\ntenants:\n  web: {of-a-later-release: 1}\n")})
	if w := c.Warning(); !strings.Contains(w, "of-a-later-release") {
		t.Fatalf("it warns %q, want a warning of the other frontend's file", w)
	}
	replace("revision: 4\ntenants:\n  web: {queue: 2}\n")
	pollUntil(t, "revision 4", func() bool { return c.runTwo("web") == nil })
	if w := c.Warning(); !strings.Contains(w, "of-a-later-release") {
		t.Errorf("it warns %q: revision 5 is still not in force", w)
	}
	replace("revision: 6\ntenants:\n  web: {queue: 3}\n")
	pollUntil(t, "revision 6", func() bool { return c.terms.current.Load().Revision == 6 })
	if w := c.Warning(); w != "" {
		t.Errorf("it warns %q of a file that revision 6 has overcome", w)
	}
}

// The newest revision at any frontend reaches all frontends: also frontends without a file, and frontends that join
// later.
func TestTermsSpread(t *testing.T) {
	name, replace := termsFile(t, "revision: 1\ntenants:\n  web: {queue: 2}\n")
	older, _ := termsFile(t, "revision: 1\ntenants:\n  web: {queue: 100}\n")
	a := startCluster(t, 1, 1, withGossip(), func(cfg *Config) { cfg.Tenants = name })
	b := startCluster(t, 1, 1, withGossip(a.GossipAddr()))
	if err := b.runTwo("web"); err != nil {
		t.Fatal(err)
	}
	replace("revision: 2\ntenants:\n  web: {queue: 1}\n")
	pollUntil(t, "b has it", func() bool { return b.runTwo("web") != nil })
	c := startCluster(t, 1, 1, withGossip(a.GossipAddr()), func(cfg *Config) { cfg.Tenants = older })
	pollUntil(t, "c has it", func() bool { return c.runTwo("web") != nil })
	wantRefused(t, c.runTwo("web"), v1.RefusedReason_TOO_LARGE, `tenant "web" may have 1 pending`)
	for _, s := range []*testCluster{a, b, c} {
		if w := s.Warning(); w != "" {
			t.Errorf("it warns: %s", w)
		}
	}
}

// A tenant's maximum holds for all frontends together. A frontend that leaves gives its part to the rest.
func TestMaximumOfAll(t *testing.T) {
	name, _ := termsFile(t, "revision: 1\ntenants:\n  web: {max: 2}\n")
	a := startCluster(t, 1, 4, withGossip(), func(cfg *Config) { cfg.Tenants = name })
	b := startCluster(t, 1, 4, withGossip(a.GossipAddr()))
	use := func(c *testCluster) (n int64) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, s := range c.core.Tenants(9, time.Now()) {
			n += s.Use
		}
		return n
	}
	submit := func(c *testCluster) {
		t.Helper()
		j := newJob("sleep", "1h", "1h", "1h", "1h")
		j.Tenant = "web"
		if _, err := c.client.Submit(context.Background(), &v1.SubmitRequest{Job: j}); err != nil {
			t.Fatal(err)
		}
	}
	may := func(c *testCluster) int64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.core.Quota("web").All
	}
	submit(a) // the first job may use all of the maximum
	pollUntil(t, "all of it is in use, and the other frontend knows",
		func() bool { return use(a) == 2000 && may(b) == 0 })
	submit(b)
	pollUntil(t, "the first frontend knows of both jobs", func() bool {
		if use(a)+use(b) > 2000 {
			t.Fatalf("%d and %d are in use", use(a), use(b))
		}
		return may(a) == 1000
	})
	a.Close()
	pollUntil(t, "the other one has all of it", func() bool { return use(b) == 2000 })
}
