package serve

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// Any frontend cancels a job of any frontend. If the call names a frontend, only the named frontend is asked.
func TestCancelAnywhere(t *testing.T) {
	owner, other := startPair(t, 1, 2, func(cfg *Config) { cfg.Name = "owner" })
	ctx := context.Background()
	submit := func() *v1.Handle {
		t.Helper()
		res, err := owner.client.Submit(ctx, &v1.SubmitRequest{Job: newJob("sleep", "1h", "1h")})
		if err != nil {
			t.Fatal(err)
		}
		return res.Handle
	}
	for name, handle := range map[string]*v1.Handle{
		"without an owner":     {Job: submit().Job},
		"with the owner":       submit(),
		"with an unknown one":  {Job: submit().Job, Owner: "127.0.0.1:1"},
		"with a former owner":  {Job: submit().Job, Owner: other.Advertised()},
		"only some tasks":      {Job: submit().Job},
		"only at the owner":    {Job: submit().Job},
		"only at its address":  {Job: submit().Job},
		"not only elsewhere":   {Job: submit().Job},
		"of nobody, never was": {Job: newID()},
	} {
		var res *v1.CancelResponse
		var err error
		want := int32(2)
		switch name {
		case "only some tasks":
			want = 1
			res, err = other.client.CancelTasks(ctx, &v1.CancelTasksRequest{Handle: handle, Tasks: []int32{1}})
		case "only at the owner":
			res, err = other.client.Cancel(ctx, &v1.CancelRequest{Handle: handle, Frontend: "owner"})
		case "only at its address":
			res, err = other.client.Cancel(ctx, &v1.CancelRequest{Handle: handle, Frontend: owner.Advertised()})
		case "not only elsewhere":
			_, err = other.client.Cancel(ctx, &v1.CancelRequest{Handle: handle, Frontend: other.Advertised()})
			wantRefused(t, err, v1.RefusedReason_UNKNOWN_JOB, "not known here")
			continue
		case "of nobody, never was":
			_, err = other.client.Cancel(ctx, &v1.CancelRequest{Handle: handle})
			wantRefused(t, err, v1.RefusedReason_UNKNOWN_JOB, "nor at another frontend")
			continue
		default:
			res, err = other.client.Cancel(ctx, &v1.CancelRequest{Handle: handle})
		}
		if err != nil || res.Cancelled != want {
			t.Errorf("%s: %v, %v, want %d tasks", name, res, err, want)
		}
	}
}

// An answer for the fleet names the silent frontends.
func TestSilentFrontendsAreNamed(t *testing.T) {
	defer func(owner, ask time.Duration) { ownerTimeout, askTimeout = owner, ask }(ownerTimeout, askTimeout)
	ownerTimeout, askTimeout = time.Second, time.Second // nobody answers, on a busy machine either
	frozen := startHung(t)
	c := startCluster(t, 0, 0, func(cfg *Config) { cfg.Peers = []string{frozen} })
	ctx := context.Background()
	_, err := c.client.Cancel(ctx, &v1.CancelRequest{Handle: &v1.Handle{Job: newID()}})
	wantRefused(t, err, v1.RefusedReason_UNKNOWN_JOB, "frontend "+frozen+" does not answer")
	_, err = c.client.Leave(ctx, &v1.LeaveRequest{Worker: "w0", Drain: true})
	wantRefused(t, err, v1.RefusedReason_NO_WORKER, "frontend "+frozen+" does not answer")
	_, err = c.client.Cluster(ctx, &v1.ClusterRequest{Frontend: frozen})
	wantRefused(t, err, v1.RefusedReason_OWNER_LOST, frozen)
	res, err := c.client.Cluster(ctx, v1.NewClusterRequest())
	if err != nil || len(res.Others) != 1 || res.Others[0].Address != frozen || res.Others[0].Error != "" {
		t.Errorf("%v, %v", res, err)
	}
	c.peers.byAddr[frozen].goneSince = c.startedAt
	if res := c.Cluster(); len(res.Others) != 1 || !strings.HasPrefix(res.Others[0].Error, "gone") {
		t.Errorf("%v", res.Others)
	}
	_, err = c.client.Cluster(ctx, &v1.ClusterRequest{Frontend: frozen})
	wantRefused(t, err, v1.RefusedReason_OWNER_LOST, "gone")
}

// A worker drains though the asked frontend has no link to the worker.
func TestDrainAnywhere(t *testing.T) {
	owner := startCluster(t, 1, 1)
	other := startCluster(t, 0, 0, func(cfg *Config) { cfg.Peers = []string{owner.Advertised()} })
	ctx := context.Background()
	_, err := other.client.Leave(ctx, &v1.LeaveRequest{Worker: "w0", Drain: true, Frontend: other.Advertised()})
	wantRefused(t, err, v1.RefusedReason_NO_WORKER, "not linked")
	if _, err := other.client.Leave(ctx, &v1.LeaveRequest{Worker: "w0", Drain: true}); err != nil {
		t.Fatal(err)
	}
	pollUntil(t, "the drain", func() bool {
		res := owner.Cluster()
		return len(res.Workers) == 0 || res.Workers[0].State != "up"
	})
}

// A tenant without tasks under way is listed with the counts of the last minute.
func TestTenantsLastMinute(t *testing.T) {
	c := startCluster(t, 1, 4)
	ctx := context.Background()
	for tenant, jobs := range map[string]int{"ads": 3, "web": 2} {
		for range jobs {
			j := newJob("echo", "a", "b")
			j.Tenant = tenant
			j.Tasks[0].FunctionName = "fail"
			if _, err := c.client.Run(ctx, &v1.RunRequest{Job: j}); err != nil {
				t.Fatal(err)
			}
		}
	}
	pollUntil(t, "the counts", func() bool {
		res, err := c.client.Cluster(ctx, &v1.ClusterRequest{Tenants: true, FrontendsOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		jobs := map[string]int64{}
		for _, s := range res.Tenants {
			if s.LastMinute != nil {
				jobs[s.Path] = s.LastMinute.Jobs
				if m := s.LastMinute; m.Tasks != 2*m.Jobs || m.Failed != m.Jobs || s.Tokens != -1 {
					t.Fatalf("%v", s)
				}
			}
		}
		all := res.LastMinute
		return jobs["ads"] == 3 && jobs["web"] == 2 && all.Jobs == 5 && all.Tasks == 10 && all.Failed == 5
	})
}
