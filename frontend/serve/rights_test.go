package serve

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

// A caller with a token may make any call about jobs of its tenant and of tenants below, and about no other job.
// Claims of another name do not help. Once the token is gone, the caller may do nothing, even in a call that began
// before.
func TestTokenRights(t *testing.T) {
	terms := func(revision int, ads string) string {
		return fmt.Sprintf("revision: %d\ntenants:\n  ads: {token-hashes: [%x]}\n  web: {token-hashes: [%x]}\n",
			revision, sha256.Sum256([]byte(ads)), sha256.Sum256([]byte("web's")))
	}
	name, replace := termsFile(t, terms(1, "ads's"))
	c := startCluster(t, 1, 2, func(cfg *Config) { cfg.Secret, cfg.Tenants = "the fleet's", name })
	ctx, by := context.Background(), func(secret string) *v1.Caller { return &v1.Caller{Secret: &secret} }
	j := newJob("sleep", "1h", "1h")
	j.Tenant, j.Open = "ads/etl", true
	sub, err := c.client.Submit(ctx, &v1.SubmitRequest{Caller: by("ads's"), Job: j})
	if err != nil {
		t.Fatal(err)
	}
	asks := func(caller *v1.Caller) map[string]error {
		answers := map[string]error{}
		ask := func(what string, call func() error) {
			var refused *v1.Refused
			// The third wrong secret ends a connection. The next call then fails, and the call after it dials.
			for range 2 {
				if answers[what] = call(); answers[what] == nil || errors.As(answers[what], &refused) {
					return
				}
			}
		}
		ask("events", func() error {
			_, err := c.client.Events(ctx, &v1.EventsRequest{Caller: caller, Handle: sub.Handle})
			return err
		})
		ask("cancel tasks", func() error {
			_, err := c.client.CancelTasks(ctx,
				&v1.CancelTasksRequest{Caller: caller, Handle: sub.Handle, Tasks: []int32{0}})
			return err
		})
		ask("extend", func() error {
			_, err := c.client.Extend(ctx, &v1.ExtendRequest{Caller: caller, Handle: sub.Handle, FromTask: 2,
				Tasks: newJob("sleep", "1h").Tasks})
			return err
		})
		ask("cancel what is not there", func() error {
			_, err := c.client.Cancel(ctx,
				&v1.CancelRequest{Caller: caller, Handle: &v1.Handle{Job: newID(), Owner: sub.Handle.Owner}})
			return err
		})
		ask("trace", func() error {
			_, err := c.client.Trace(ctx, &v1.TraceRequest{Caller: caller, Job: sub.Handle.Job})
			return err
		})
		ask("explain", func() error {
			_, err := c.client.Explain(ctx, &v1.ExplainRequest{Caller: caller, Handle: sub.Handle, Task: -1})
			return err
		})
		ask("submit", func() error {
			_, err := c.client.Submit(ctx, &v1.SubmitRequest{Caller: caller, Job: j})
			return err
		})
		return answers
	}
	posing := by("web's")
	operator := "operator"
	posing.Forwarded, posing.OnBehalf = true, &operator
	for who, caller := range map[string]*v1.Caller{"another tenant": by("web's"),
		"one that poses as a frontend": posing} {
		for what, err := range asks(caller) {
			reason, says := v1.RefusedReason_FORBIDDEN, "another tenant"
			switch what {
			case "submit":
				says = `you are known as a client of "web"`
			case "cancel what is not there":
				reason, says = v1.RefusedReason_UNKNOWN_JOB, "is not known here"
			}
			t.Run(who+" asks for "+what, func(t *testing.T) { wantRefused(t, err, reason, says) })
		}
	}
	for what, err := range asks(by("none's")) {
		t.Run("nobody asks for "+what,
			func(t *testing.T) { wantRefused(t, err, v1.RefusedReason_UNAUTHORIZED, "unknown here") })
	}
	for what, err := range asks(by("ads's")) {
		if err != nil && what != "cancel what is not there" {
			t.Errorf("the owner of the job calls %s: %v", what, err)
		}
	}
	waits := make(chan error)
	go func() {
		_, err := c.client.Events(ctx,
			&v1.EventsRequest{Caller: by("ads's"), Handle: sub.Handle, Cursor: 1,
				MaxWaitUs: time.Minute.Microseconds()})
		waits <- err
	}()
	id, err := probe.ParseJobID(sub.Handle.Job)
	if err != nil {
		t.Fatal(err)
	}
	pollUntil(t, "it waits", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.jobs[id].waitingPolls) > 0
	})
	replace(terms(2, "the next"))
	pollUntil(t, "the old one is gone", func() bool {
		_, err := c.client.Events(ctx, &v1.EventsRequest{Caller: by("ads's"), Handle: sub.Handle})
		return err != nil
	})
	if _, err := c.client.Cancel(ctx, &v1.CancelRequest{Caller: by("the next"), Handle: sub.Handle}); err != nil {
		t.Error(err)
	}
	wantRefused(t, <-waits, v1.RefusedReason_UNAUTHORIZED, "unknown here")
}

// Flaws of the tenants file are shown to the operators of the fleet, and to no tenant. A flaw may concern another
// tenant.
func TestWarningRights(t *testing.T) {
	text := fmt.Sprintf("revision: 1\ntenants:\n  web: {token-hashes: [%x]}\n", sha256.Sum256([]byte("web's")))
	name, replace := termsFile(t, text)
	c := startCluster(t, 0, 0, func(cfg *Config) { cfg.Secret, cfg.Tenants = "the fleet's", name })
	replace(text + "  ads: {tokens: 0}\n")
	pollUntil(t, "it warns", func() bool { return c.Warning() != "" })
	for secret, warns := range map[string]bool{"the fleet's": true, "web's": false} {
		res, err := c.client.Cluster(context.Background(), &v1.ClusterRequest{Caller: &v1.Caller{Secret: &secret}})
		if err != nil || (res.Warning != "") != warns {
			t.Errorf("a caller with the secret %s gets the warning %q, %v", secret, res.Warning, err)
		}
	}
}

// The id of a job with a key is its tenant's. Another tenant can compute the id, but cannot submit a job under
// the id, whatever tenant the job names. A caller with the fleet's secret may name any tenant.
func TestKeyedJobsBelongToTheirTenant(t *testing.T) {
	name, _ := termsFile(t, fmt.Sprintf(
		"revision: 1\ntenants:\n  ads: {token-hashes: [%x]}\n  web: {token-hashes: [%x]}\n",
		sha256.Sum256([]byte("ads's")), sha256.Sum256([]byte("web's"))))
	c := startCluster(t, 1, 2, func(cfg *Config) { cfg.Secret, cfg.Tenants = "the fleet's", name })
	submit := func(secret, tenant, idOf string, shared bool, parts int32) error {
		j := newJob("sleep", "1h")
		j.Id, j.Tenant, j.Shared = probe.KeyedJobID(idOf, "order 18").String(), tenant, shared
		if parts > 0 {
			j.Resubmission = &v1.Resubmission{Parts: parts}
		}
		_, err := c.client.Submit(context.Background(), &v1.SubmitRequest{Caller: &v1.Caller{Secret: &secret}, Job: j})
		return err
	}
	for _, shared := range []bool{false, true} {
		for _, tenant := range []string{"", "web", "web/ads"} {
			for _, parts := range []int32{0, 2} {
				err := submit("web's", tenant, "ads", shared, parts)
				wantRefused(t, err, v1.RefusedReason_FORBIDDEN, "key of another tenant")
			}
		}
		wantRefused(t, submit("ads's", "", "", shared, 0), v1.RefusedReason_FORBIDDEN, `name the tenant "ads"`)
	}
	for _, tenant := range []string{"ads", "ads/etl"} {
		if err := submit("ads's", tenant, tenant, true, 0); err != nil {
			t.Errorf("%s's own: %v", tenant, err)
		}
	}
	if err := submit("the fleet's", "", "", true, 0); err != nil {
		t.Errorf("without a tenant: %v", err)
	}
}
