package main_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// If a frontend's gossip is cut off, the frontend cannot know whether the rest of the fleet is gone. While the
// frontend loses peers, and afterwards, its part of a tenant's maximum does not grow. When the peers are back, the
// parts are as before.
func TestCutOffWithTenants(t *testing.T) {
	t.Parallel()
	if !withinNetwork(t) {
		return
	}
	secret = "sesame"
	hub := newHub(t)
	file := &tenantsFile{t: t, name: filepath.Join(t.TempDir(), "tenants.yaml")}
	file.put("  bounded: {tokens: 1, max: 6}\n")
	var frontends []*station
	var beats, gossip []string
	for i := range 3 {
		s := newStation(hub, fmt.Sprint("f", i), 1+i, mainNet, gossipNet)
		frontends, beats, gossip = append(frontends, s), append(beats, s.at(mainNet)+":7412"),
			append(gossip, s.at(gossipNet)+":7411")
	}
	for i, s := range frontends {
		s.args = []string{
			"frontend", "--name", s.name, "--listen", s.api(), "--gossip", gossip[i], "--heartbeat", beats[i],
			"--join", strings.Join(gossip, ","),
			"--admin", s.at(mainNet) + ":7413", "--tenants", file.name,
		}
		s.begin()
	}
	w := newStation(hub, "w", 101, mainNet)
	w.args = []string{"worker", "--name", "w", "--listen", w.at(mainNet) + ":7420", "--join",
		strings.Join(beats, ","), "--slots", "16"}
	w.begin()
	for _, f := range frontends {
		linked(t, f.api(), 1)
		f.gossips(3, "")
		wantsMuch(t, f.api(), "bounded", 500*time.Millisecond)
	}
	part := map[string]float64{"bounded": 2}
	for _, f := range frontends {
		uses(t, dial(t, f.api()), part)
	}
	alone := frontends[2]
	c := dial(t, alone.api())
	never := func(during string) {
		t.Helper()
		has, err := inUse(t, c)
		if err != nil {
			t.Error(err)
		}
		if has["bounded"] > 2 {
			t.Fatalf("%s it has %v slots", during, has["bounded"])
		}
	}
	alone.cut(gossipNet)
	for lost := 0; lost < 20; { // for 2 s more, while tasks of the tenant end
		never("while it loses the others")
		if metric(t, alone.now, "phoebe_frontend_gossip_members") == 1 {
			lost++
		}
		pause(t, 100*time.Millisecond)
	}
	alone.gossips(1, "warning: no other frontend is reached")
	uses(t, dial(t, frontends[0].api()), map[string]float64{"bounded": 3}) // the others count two of three frontends
	never("cut off")
	alone.plug(gossipNet)
	for _, f := range frontends {
		f.gossips(3, "")
		uses(t, dial(t, f.api()), part)
	}
}
