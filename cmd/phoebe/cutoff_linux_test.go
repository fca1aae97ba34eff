package main_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client/admin"
)

// If a frontend's gossip is cut off, the frontend cannot know whether the rest of the fleet is gone. From the
// loss of its two peers until their return, the frontend uses at most half of a tenant's maximum: on a slow machine
// gossip may lose a peer long before the other peer. In the end the parts are as before.
func TestCutOffWithTenants(t *testing.T) {
	t.Parallel()
	if !runInOwnNetwork(t) {
		return
	}
	secret = "sesame"
	hub := newHub(t)
	file := &tenantsFile{t: t, name: filepath.Join(t.TempDir(), "tenants.yaml")}
	file.writeTenants("  bounded: {tokens: 1, max: 6}\n")
	var frontends []*station
	var beats, gossip []string
	for i := range 3 {
		s := newStation(hub, fmt.Sprint("f", i), 1+i, mainNet, gossipNet)
		frontends, beats, gossip = append(frontends, s), append(beats, s.address(mainNet)+":7412"),
			append(gossip, s.address(gossipNet)+":7411")
	}
	for i, s := range frontends {
		s.args = []string{
			"frontend", "--name", s.name, "--listen", s.apiAddr(), "--gossip", gossip[i], "--heartbeat", beats[i],
			"--join", strings.Join(gossip, ","),
			"--admin", s.address(mainNet) + ":7413", "--tenants", file.name,
		}
		s.startProcess()
	}
	w := newStation(hub, "w", 101, mainNet)
	w.args = []string{"worker", "--name", "w", "--listen", w.address(mainNet) + ":7420", "--join",
		strings.Join(beats, ","), "--slots", "16"}
	w.startProcess()
	for _, f := range frontends {
		awaitLinked(t, f.apiAddr(), 1)
		f.awaitGossip(3, "")
		submitMuch(t, f.apiAddr(), "bounded", 500*time.Millisecond)
	}
	// A frontend uses two slots for a moment, on the way to three, before the frontend knows what both others want.
	awaitParts := func() {
		t.Helper()
		for _, f := range frontends {
			awaitPart(t, newClient(t, f.apiAddr()), "bounded", 2)
		}
	}
	awaitParts()
	alone := frontends[2]
	c := newClient(t, alone.apiAddr())
	never := func(during string) {
		t.Helper()
		has, err := slotsInUse(t, c)
		if err != nil {
			t.Error(err)
		}
		if has["bounded"] > 3 {
			t.Fatalf("%s it has %v slots", during, has["bounded"])
		}
	}
	alone.unplug(gossipNet)
	for lost := 0; lost < 20; { // for 2 s more, while tasks of the tenant end
		never("while it loses the others")
		if metricSum(t, alone.current, "phoebe_frontend_gossip_members") == 1 {
			lost++
		}
		waitFor(t, 100*time.Millisecond)
	}
	alone.awaitGossip(1, "warning: no other frontend is reached")
	// the others count two of three frontends
	awaitUse(t, newClient(t, frontends[0].apiAddr()), map[string]float64{"bounded": 3})
	never("cut off")
	alone.plugIn(gossipNet)
	for back := 0; back < 20; { // for 2 s more
		never("when the others are back")
		if metricSum(t, alone.current, "phoebe_frontend_gossip_members") == 3 {
			back++
		}
		waitFor(t, 100*time.Millisecond)
	}
	for _, f := range frontends {
		f.awaitGossip(3, "")
	}
	awaitParts()
}

// awaitPart waits until a tenant uses all of a part of its maximum at a frontend, and the part is this many slots.
func awaitPart(t *testing.T, c *admin.Client, tenant string, slots float64) {
	t.Helper()
	waitUntil(t, func() error {
		said, err := c.ClusterPage(t.Context(), admin.ClusterQuery{Tenants: true})
		if err != nil {
			return err
		}
		for _, s := range said.Tenants {
			if s.Path == tenant && s.Most == slots && s.Used == slots {
				return nil
			}
		}
		return fmt.Errorf("tenants %+v, want %s with a part of %v slots, all in use", said.Tenants, tenant, slots)
	})
}
