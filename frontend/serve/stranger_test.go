package serve

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

// startFleet starts two frontends with tokens and one worker. The owner knows no other frontend. The tokens are the
// tenants' names.
func startFleet(t *testing.T, know bool, tenants ...string) (owner, other *testCluster) {
	text := "revision: 1\ntenants:\n"
	for _, name := range tenants {
		text += fmt.Sprintf("  %s: {token-hashes: [%x]}\n", name, sha256.Sum256([]byte(name)))
	}
	file, _ := termsFile(t, text)
	owner = startCluster(t, 1, 4, func(cfg *Config) { cfg.Secret, cfg.Tenants = "the fleet's", file })
	other = startCluster(t, 0, 0, func(cfg *Config) {
		cfg.Secret, cfg.Tenants, cfg.Workers = "the fleet's", file, Static{owner.workers[0].Addr().String()}
		if know {
			cfg.Peers = []string{owner.Advertised()}
		}
	})
	other.awaitWorkers(t, 1)
	return owner, other
}

func callerWith(token string) *v1.Caller { return &v1.Caller{Secret: &token} }

// A client resubmits a running job of another tenant to another frontend, and lies about the job's owner. It gets
// only the results of its own tasks, and the job goes on. If the other frontend knows the owner, it refuses.
func TestStrangerResubmits(t *testing.T) {
	ctx := context.Background()
	for _, know := range []bool{false, true} {
		owner, other := startFleet(t, know, "ads", "evil")
		j := newJob("sleep", "1h", "0s")
		sub, err := owner.client.Submit(ctx, &v1.SubmitRequest{Caller: callerWith("ads"), Job: j})
		if err != nil {
			t.Fatal(err)
		}
		pollUntil(t, "a task runs and a result waits", func() bool {
			ws, err := owner.client.Cluster(ctx, &v1.ClusterRequest{Caller: callerWith("the fleet's")})
			return err == nil && ws.Workers[0].Running == 1 && owner.coreStats().Outcomes[frontend.Result] == 1
		})
		for _, previous := range []string{"nobody:1", "", other.Advertised(), owner.Advertised()} {
			theft := newJob("echo", "mine", "mine")
			theft.Id = j.Id
			theft.Resubmission = &v1.Resubmission{PreviousOwner: previous, Count: maxResubmissions, AgeUs: 1}
			_, err := other.client.Submit(ctx, &v1.SubmitRequest{Caller: callerWith("evil"), Job: theft})
			switch {
			case know && previous != other.Advertised():
				wantRefused(t, err, v1.RefusedReason_FORBIDDEN, "another tenant")
				continue
			case err != nil:
				t.Fatal(err)
			}
			stolen := &v1.Handle{Job: j.Id, Owner: other.Advertised()}
			for cursor, done := int64(0), false; !done; {
				ev, err := other.client.Events(ctx, &v1.EventsRequest{Caller: callerWith("evil"), Handle: stolen,
					Cursor: cursor, MaxWaitUs: 10e6})
				if err != nil || len(ev.Events) == 0 && !ev.Done {
					t.Fatalf("after a claim of %q: %v, %v", previous, ev, err)
				}
				for _, e := range ev.Events {
					if string(e.Outcome.Result_) != "mine" {
						t.Errorf("a claim of %q brought %v", previous, e.Outcome)
					}
				}
				cursor, done = ev.Cursor, ev.Done
			}
		}
		ev, err := owner.client.Events(ctx, &v1.EventsRequest{Caller: callerWith("ads"), Handle: sub.Handle})
		if err != nil || len(ev.Events) != 1 || ev.Done {
			t.Fatalf("the owner of the job gets %v, %v", ev, err)
		}
		res, err := owner.client.Cancel(ctx, &v1.CancelRequest{Caller: callerWith("ads"), Handle: sub.Handle})
		if err != nil || res.Cancelled != 1 {
			t.Errorf("the owner cancels %v, %v", res, err)
		}
	}
}

// A frontend that forwards a call tells the tenant of the caller. Neither the name of a tenant nor an older frontend,
// which tells the caller's roles in one text, gives the caller the rights of an operator.
func TestForwardedTenant(t *testing.T) {
	ctx := context.Background()
	owner, _ := startFleet(t, false, "ads", "c")
	sub, err := owner.client.Submit(ctx, &v1.SubmitRequest{Caller: callerWith("ads"), Job: newJob("sleep", "1h")})
	if err != nil {
		t.Fatal(err)
	}
	text := func(s string) *string { return &s }
	for _, c := range []struct {
		onBehalf, boundTo *string
		may               bool
	}{
		{nil, nil, true}, // the frontend itself
		{text("client/ads"), nil, true},
		{text("client/ads"), text("ads"), true},
		{text("client/c"), nil, false},
		{text("client/c"), text("c"), false},
		{text("client/c+operator"), nil, false},
		{text("client/c+operator"), text("c+operator"), false},
		{text("operator"), nil, false},
		{text("client/ads"), text("c"), false},
		{nil, text(""), false},
	} {
		caller := callerWith("the fleet's")
		caller.Forwarded, caller.OnBehalf, caller.BoundTo = true, c.onBehalf, c.boundTo
		_, err := owner.client.Events(ctx, &v1.EventsRequest{Caller: caller, Handle: sub.Handle})
		if c.may && err != nil {
			t.Errorf("%v: %v", caller, err)
		} else if !c.may {
			wantRefused(t, err, v1.RefusedReason_FORBIDDEN, "another tenant")
		}
	}
}

// A frontend's question whether the owner has a job is no sign of life of the job's client, and takes no outcome.
func TestOnlyAsk(t *testing.T) {
	ctx := context.Background()
	c := startCluster(t, 1, 1)
	sub, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: newJob("echo", "x")})
	if err != nil {
		t.Fatal(err)
	}
	id, err := probe.ParseJobID(sub.Handle.Job)
	if err != nil {
		t.Fatal(err)
	}
	pollUntil(t, "the job has ended", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.jobs[id].ended
	})
	look := func() (clientJob, int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return *c.jobs[id], len(c.sentAnswers)
	}
	before, _ := look()
	ask := &v1.EventsRequest{Handle: sub.Handle, MaxEvents: 1, OnlyAsk: true, Cursor: 1}
	ev, err := c.client.Events(ctx, ask)
	if err != nil || len(ev.Events) > 0 || ev.Done || ev.Cursor != 1 {
		t.Fatalf("the answer to a question is %v, %v", ev, err)
	}
	after, answered := look()
	if after.polledAt != before.polledAt || len(after.waitingPolls) > 0 || after.inEndedList ||
		len(after.outcomes) != 1 || len(after.receipts) != 1 || answered > 0 {
		t.Errorf("after a question the job is %+v, was %+v", after, before)
	}
	ask.Handle.Job = newID()
	_, err = c.client.Events(ctx, ask)
	wantRefused(t, err, v1.RefusedReason_UNKNOWN_JOB, "")
}
