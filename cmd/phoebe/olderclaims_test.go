package main_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	kitexclient "github.com/cloudwego/kitex/client"
	"github.com/cloudwego/kitex/transport"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1/phoebe"
)

// A frontend of the last release names no tenant in its claims. A worker of this release gives such a claim nothing of
// a job where tenants have tokens: no result, no running task, no place. The job's own frontend keeps the job.
func TestOlderClaims(t *testing.T) {
	if os.Getenv("PHOEBE_UPGRADE") == "" {
		t.Skip("PHOEBE_UPGRADE is not set")
	}
	dir := t.TempDir()
	secret, tenants := filepath.Join(dir, "secret"), filepath.Join(dir, "tenants.yaml")
	terms := fmt.Sprintf("revision: 1\ntenants:\n  ads: {token-hashes: [%x]}\n", sha256.Sum256([]byte("ads's")))
	if err := errors.Join(os.WriteFile(secret, []byte("the fleet's\n"), 0o600),
		os.WriteFile(tenants, []byte(terms), 0o600)); err != nil {
		t.Fatal(err)
	}
	w := startRelease(t, binary, "--log-level", "info", "worker", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--name", "w", "--slots", "4", "--secret-file", secret)
	start := func(program string, more ...string) phoebe.Client {
		args := []string{"--log-level", "info", "frontend", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
			"--workers", w.workerAddr(), "--secret-file", secret}
		api := startRelease(t, program, append(args, more...)...).awaitLines("frontend", 1)[0]
		fleet, err := client.New([]string{api}, client.WithSecretFile(secret))
		if err != nil {
			t.Fatal(err)
		}
		defer fleet.Close()
		awaitLinkedBy(t, fleet, 1)
		c, err := phoebe.NewClient("phoebe", kitexclient.WithHostPorts(api),
			kitexclient.WithTransportProtocol(transport.Framed))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	owner, older := start(binary, "--tenants", tenants), start(buildReleased(t))

	by := func(token string) *v1.Caller { return &v1.Caller{Secret: &token} }
	newJob := func(function string, payloads ...string) *v1.Job {
		j := v1.NewJob()
		for _, payload := range payloads {
			task := v1.NewTask()
			task.FunctionName, task.Payload = function, []byte(payload)
			j.Tasks = append(j.Tasks, task)
		}
		return j
	}
	j := newJob("sleep", "1us", "1h")
	j.Id = client.NewJobID()
	sub, err := owner.Submit(t.Context(), &v1.SubmitRequest{Caller: by("ads's"), Job: j})
	if err != nil {
		t.Fatal(err)
	}
	outcomes := func(c phoebe.Client, caller *v1.Caller, handle *v1.Handle) (n int, done bool) {
		ev, err := c.Events(t.Context(), &v1.EventsRequest{Caller: caller, Handle: handle, MaxWaitUs: 100_000})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range ev.Events {
			if string(e.Outcome.Result_) != "mine" && c == older {
				t.Errorf("the older frontend has got %v", e.Outcome)
			}
		}
		return len(ev.Events), ev.Done
	}
	waitUntil(t, func() error {
		if n, _ := outcomes(owner, by("ads's"), sub.Handle); n != 1 {
			return fmt.Errorf("%d outcomes, want 1", n)
		}
		return nil
	})
	theft := newJob("echo", "mine", "mine")
	theft.Id, theft.Resubmission = j.Id, &v1.Resubmission{PreviousOwner: "nobody:1", Count: 1000}
	stolen, err := older.Submit(t.Context(), &v1.SubmitRequest{Caller: by("the fleet's"), Job: theft})
	if err != nil {
		t.Fatal(err)
	}
	waitUntil(t, func() error {
		if n, done := outcomes(older, by("the fleet's"), stolen.Handle); !done {
			return fmt.Errorf("the older frontend has %d outcomes, want 2", n)
		}
		return nil
	})
	if n, done := outcomes(owner, by("ads's"), sub.Handle); n != 1 || done {
		t.Errorf("the owner has %d outcomes, done: %t", n, done)
	}
	res, err := owner.Cancel(t.Context(), &v1.CancelRequest{Caller: by("ads's"), Handle: sub.Handle})
	if err != nil || res.Cancelled != 1 {
		t.Errorf("the owner cancels: %v, %v", res, err)
	}
}
