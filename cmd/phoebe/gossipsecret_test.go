package main_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
)

// With a secret of their own for gossip, frontends gossip with each other, and workers announce themselves. Who holds
// only the workers' secret cannot gossip, and so cannot spread a tenants file.
func TestGossipSecretOfFrontends(t *testing.T) {
	t.Parallel()
	secret, gossipSecret := writeFile(t, "a secret of the fleet\n"), writeFile(t, "a secret of frontends\n")
	tenants := func(revision int) string {
		file := &tenantsFile{t: t, name: filepath.Join(t.TempDir(), "tenants.yaml"), revision: revision - 1}
		file.writeTenants("  web: {tokens: 1}\n")
		return file.name
	}
	start := func(flags ...string) *gossiper {
		flags = append(flags, "--secret-file", secret)
		return awaitGossiper(startPhoebe(t, append(slices.Clone(gossipFlags), flags...)...))
	}
	one := start("--gossip-secret-file", gossipSecret)
	forger := start("--join", one.gossip, "--tenants", tenants(99))
	forger.awaitLog("no other frontend can be joined")
	two := start("--gossip-secret-file", gossipSecret, "--join", one.gossip, "--tenants", tenants(5))
	worker := startPhoebe(t, "worker", "--listen", "127.0.0.1:0", "--secret-file", secret, "--join", one.heartbeat)
	one.awaitLog("frontend joined")
	one.awaitLog(`"a tenants file is in force" revision=5`)
	waitUntil(t, func() error {
		out := runPhoebe(t, "run", "--connect", two.api, "--secret-file", secret, "--function", "echo")
		if out.code != 0 {
			return fmt.Errorf("%s", out.err)
		}
		return nil
	})
	worker.workerAddr()
	runPhoebe(t, append(slices.Clone(gossipFlags[2:3]), "--gossip-secret-file", gossipSecret, "--workers",
		"127.0.0.1:1")...).wantExit(t, 2, "give --gossip HOST:PORT too")
	runPhoebe(t, append(slices.Clone(gossipFlags), "--gossip-secret-file", "/nonexistent")...).wantExit(t, 2,
		"--gossip-secret-file", "no such file")
}
