package local

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/probe/identity"
)

// keysOf makes a folder with keys for each, of one authority.
func keysOf(t *testing.T, who ...string) map[string]string {
	t.Helper()
	ca, err := identity.NewAuthority("test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	dirs := map[string]string{}
	for _, name := range who {
		id, err := identity.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		dirs[name] = t.TempDir()
		if err := ca.Issue(dirs[name], id, time.Hour, ca); err != nil {
			t.Fatal(err)
		}
	}
	return dirs
}

// What a client may do follows from its certificate, at the owner of a job and by way of another frontend: its jobs are of its
// tenant, whatever they say, and those of others are not its business.
func TestRights(t *testing.T) {
	dirs := keysOf(t, "frontend+worker", "client/acme", "client/other", "operator")
	c, err := Start(Config{Frontends: 2, TLSDir: dirs["frontend+worker"]})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	dial := func(who string, frontend int) *client.Client {
		cl, err := client.New(c.Frontends()[frontend:frontend+1], client.WithTLS(dirs[who]))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cl.Close() })
		return cl
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	acme := dial("client/acme", 0)
	running, err := acme.Submit(ctx, client.Job{Tenant: "other", Tasks: []client.Task{{Function: "sleep", Payload: []byte("1h")}}})
	if err != nil {
		t.Fatal(err)
	}
	job := running.Handle()
	forbidden := func(what string, err error) {
		t.Helper()
		var refused *client.RefusedError
		if !errors.As(err, &refused) || refused.Reason != client.Forbidden {
			t.Errorf("%s: %v", what, err)
		}
	}
	for frontend := range 2 {
		other := dial("client/other", frontend)
		_, err := other.Cancel(ctx, job, "mine is more important")
		forbidden("cancel", err)
		_, err = other.Explain(ctx, job, -1)
		forbidden("explain", err)
		if frontend == 0 {
			_, err = other.Submit(ctx, client.Job{ID: job.Job, Tasks: []client.Task{{Function: "echo"}}})
			forbidden("the same job again", err)
		}
		_, err = other.Watch(ctx, time.Second, time.Time{}, 10)
		forbidden("watch", err)
		if _, err = other.Trace(ctx, job.Job, 0, 0); err == nil {
			t.Error("another tenant's trace is told")
		}
		for _, who := range []struct {
			name string
			jobs []string
		}{{"client/acme", []string{"acme"}}, {"operator", []string{"acme"}}} {
			list, err := dial(who.name, frontend).Jobs(ctx, client.JobFilter{ID: job.Job}, "", 10)
			if err != nil {
				t.Fatal(err)
			}
			var tenants []string
			for _, j := range list.Jobs {
				tenants = append(tenants, j.Tenant)
			}
			if !slices.Equal(tenants, who.jobs) {
				t.Errorf("%s sees jobs of %q, want %q", who.name, tenants, who.jobs)
			}
		}
		if list, err := other.Jobs(ctx, client.JobFilter{}, "", 10); err != nil || len(list.Jobs) > 0 {
			t.Errorf("another tenant sees jobs: %+v, %v", list, err)
		}
		if _, err := dial("client/acme", frontend).Explain(ctx, job, -1); err != nil {
			t.Errorf("its own: %v", err)
		}
	}
	if n, err := dial("operator", 1).Cancel(ctx, job, "by its operator"); err != nil || n != 1 {
		t.Errorf("an operator cancels: %d, %v", n, err)
	}
	if _, err := running.Wait(); err == nil {
		t.Error("it was not cancelled")
	}
}
