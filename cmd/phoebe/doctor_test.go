package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
)

// healthyAnswers returns the answers of two frontends with the same two workers.
func healthyAnswers() []answer {
	began := time.Unix(1_000_000, 0)
	var all []answer
	members := []admin.Member{{Name: "f0", Address: "10.0.0.1:7410"}, {Name: "f1", Address: "10.0.0.2:7410"}}
	for _, m := range members {
		all = append(all, answer{connect: m.Address, sentAt: began, receivedAt: began.Add(time.Millisecond),
			cluster: &admin.Cluster{
				Frontend: m.Name, Address: m.Address, Version: "v1", Clock: began,
				FileLimit: 20_000, MaxClients: 10_000, Members: members,
				Workers: []admin.Worker{
					{Worker: client.Worker{Name: "w0", Address: "10.0.1.1:7420", State: "up"}},
					{Worker: client.Worker{Name: "w1", Address: "10.0.1.2:7420", State: "draining"}},
				},
			}})
	}
	return all
}

func TestDiagnose(t *testing.T) {
	if found := diagnoseFleet(healthyAnswers()); len(found) > 0 {
		t.Errorf("a healthy fleet: %+v", found)
	}
	same := healthyAnswers()
	if found := diagnoseFleet(append(same, answer{connect: "balancer:7410", cluster: same[0].cluster,
		sentAt:     same[0].sentAt,
		receivedAt: same[0].receivedAt})); len(found) > 0 {
		t.Errorf("one frontend at two addresses: %+v", found)
	}
	for name, test := range map[string]struct {
		harm          func(f0, f1 *answer)
		where         string
		says, remedy  string
		note, nothing bool
	}{
		"silent": {harm: func(f0, _ *answer) { f0.cluster, f0.err = nil, errors.New("refused") },
			where: "frontend 10.0.0.1:7410", says: "refused", remedy: "firewall"},
		"cut off": {harm: func(_, f1 *answer) { f1.cluster.Warning = "nothing heard" }, where: "frontend f1",
			says: "nothing heard", remedy: "what it says"},
		"drains": {harm: func(_, f1 *answer) { f1.cluster.Draining = true }, where: "frontend f1", says: "drains",
			remedy: "start it again", note: true},
		"advertised": {harm: func(f0, _ *answer) { f0.cluster.Address = "127.0.0.1:7410" }, where: "frontend f0",
			says: "127.0.0.1:7410", remedy: "--advertise"},
		"files": {harm: func(f0, _ *answer) { f0.cluster.FileLimit = 1024 }, where: "frontend f0", says: "1024",
			remedy: "LimitNOFILE=10516"},
		"unknown files": {harm: func(f0, _ *answer) { f0.cluster.FileLimit = 0 }, nothing: true},
		"flaws": {harm: func(f0, _ *answer) {
			f0.cluster.Workers[1].Row = &admin.Row{Flaws: []string{"speed"}}
		}, where: "worker w1", says: "speed", remedy: "Upgrade"},
		"cache": {harm: func(f0, f1 *answer) {
			f0.cluster.Workers[1].CacheError, f1.cluster.Workers[1].CacheError = "the disk is full", "the disk is full"
		}, where: "worker w1", says: "no tasks with files: the disk is full", remedy: "Mend the disk"},
		"version": {harm: func(f0, _ *answer) { f0.cluster.Version = "v2" }, where: "frontends",
			says: "v1 at f1; v2 at f0", remedy: "Finish"},
		"ahead": {harm: func(f0, _ *answer) { f0.cluster.Clock = f0.receivedAt.Add(90 * time.Second) },
			where: "frontend f0", says: "1m30s ahead", remedy: "NTP"},
		"behind": {harm: func(_, f1 *answer) { f1.cluster.Clock = f1.sentAt.Add(-2 * time.Second) },
			where: "frontend f1", says: "2s behind", remedy: "NTP"},
		"slow answer": {harm: func(_, f1 *answer) { f1.receivedAt = f1.sentAt.Add(5 * time.Second) }, nothing: true},
		"no clock":    {harm: func(_, f1 *answer) { f1.cluster.Clock = time.UnixMicro(0) }, nothing: true},
		"stranger": {harm: func(f0, _ *answer) { f0.cluster.Members = f0.cluster.Members[:1] }, where: "frontend f0",
			says: "does not know frontend f1", remedy: "--gossip"},
		"no gossip": {harm: func(f0, f1 *answer) { f0.cluster.Members, f1.cluster.Members = nil, nil }, nothing: true},
		"one link": {harm: func(f0, _ *answer) { f0.cluster.Workers[0].State = "connecting" },
			where: "worker w0 at 10.0.1.1:7420", says: "f0 (connecting: no answer yet)", remedy: "--max-links"},
		"lost worker": {harm: func(f0, f1 *answer) {
			f0.cluster.Workers[0].State, f1.cluster.Workers[0].State, f0.cluster.Workers[0].Error = "down", "down",
				"no route"
		}, where: "worker w0 at 10.0.1.1:7420", says: "f0 (down: no route), f1 (down: no answer yet)",
			remedy: "Start it"},
		"unknown worker": {harm: func(_, f1 *answer) { f1.cluster.Workers = f1.cluster.Workers[1:] },
			where: "worker w0 at 10.0.1.1:7420", says: "not known to f1", remedy: "--workers"},
		"one name": {harm: func(f0, f1 *answer) {
			f0.cluster.Workers[1].Name, f1.cluster.Workers[1].Name = "w0", "w0"
		}, where: "worker w0 at 10.0.1.2:7420", says: "the one at 10.0.1.1:7420", remedy: "--name"},
	} {
		t.Run(name, func(t *testing.T) {
			all := healthyAnswers()
			for i := range all {
				all[i].cluster.Workers, all[i].cluster.Members = slices.Clone(all[i].cluster.Workers),
					slices.Clone(all[i].cluster.Members)
			}
			test.harm(&all[0], &all[1])
			found := diagnoseFleet(all)
			if test.nothing {
				if len(found) > 0 {
					t.Errorf("%+v", found)
				}
				return
			}
			if len(found) != 1 {
				t.Fatalf("%+v", found)
			}
			if f := found[0]; f.Note != test.note || f.Where != test.where ||
				!strings.Contains(f.Problem, test.says) || !strings.Contains(f.Remedy, test.remedy) {
				t.Errorf("%+v, want %+v", f, test)
			}
		})
	}
}
