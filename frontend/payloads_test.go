package frontend

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// Payloads are held until the end of the job. The payloads of all jobs together are bounded, and each tenant has
// to leave a part of the bound to others.
func TestPayloadsAreBounded(t *testing.T) {
	const limit = 1000
	c := New(Config{ID: 1, MaxPayloads: limit}, rand.New(rand.NewPCG(1, 2)))
	now := time.Unix(0, 0)
	c.Step(now, WorkerUp{0, probe.Welcome{Worker: "w", Functions: []string{"f"}, Capacity: probe.Slot}}, nil)
	submit := func(n byte, tenant string, bytes int) string {
		t.Helper()
		job := &Job{ID: probe.JobID{n}, Tenant: tenant, Tasks: []Task{{Function: "f", Payload: make([]byte, bytes)}}}
		acts := c.Step(now, Submit{job}, nil)
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		if r, ok := acts[0].(Refused); ok {
			return r.Err.Message
		}
		return ""
	}
	wantRefusal := func(got, want string) {
		t.Helper()
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("refused as %q, want %q", got, want)
		}
	}
	wantRefusal(submit(1, "a", limit+1), "split it")
	wantRefusal(submit(1, "a", limit/2), "")
	wantRefusal(submit(2, "a", limit/2), "too little would be left to other tenants")
	wantRefusal(submit(2, "b", limit/2+1), "500 bytes of payloads are pending and the job has 501: the limit is 1000")
	wantRefusal(submit(2, "b", limit/2), "")
	wantRefusal(submit(3, "c", 1), "come back later")
	c.Step(now, Cancel{Job: probe.JobID{1}}, nil)
	wantRefusal(submit(3, "c", limit/2), "")
	c.Step(now, Cancel{Job: probe.JobID{2}}, nil)
	c.Step(now, Cancel{Job: probe.JobID{3}}, nil)
	wantRefusal(submit(4, "a", limit), "")
}
