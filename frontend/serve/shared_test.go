package serve

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

// fetch asks for outcomes, and returns the answer.
func (c *testCluster) fetch(t *testing.T, h *v1.Handle, cursor int64, follow bool) *v1.EventsResponse {
	t.Helper()
	res, err := c.client.Events(context.Background(), &v1.EventsRequest{
		Handle: h, Cursor: cursor, MaxWaitUs: time.Minute.Microseconds(), MaxEvents: 1, Follow: follow,
	})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// The cursor of a follower acknowledges nothing while the submitter lives. The cursor of the submitter does, and only a
// shared job keeps the acknowledged outcomes.
func TestFollowerTakesNothing(t *testing.T) {
	c := startCluster(t, 1, 1, func(cfg *Config) { cfg.ClientGrace = time.Hour })
	for _, shared := range []bool{false, true} {
		job := newJob("echo", "a", "b", "c")
		job.Shared = shared
		res, err := c.client.Submit(context.Background(), &v1.SubmitRequest{Job: job})
		if err != nil {
			t.Fatal(err)
		}
		for cursor := range int64(4) { // the last call follows behind the last outcome
			if res := c.fetch(t, res.Handle, cursor, true); res.Tasks != 3 || len(res.Events) != int(min(3-cursor, 1)) {
				t.Errorf("the follower got %v", res)
			}
		}
		if res := c.fetch(t, res.Handle, 0, false); res.Cursor != 1 || len(res.Events) != 1 {
			t.Errorf("the submitter got %v", res)
		}
		c.fetch(t, res.Handle, 2, false) // acknowledges two outcomes
		want := int64(3)
		if shared {
			want = 1
		}
		if res := c.fetch(t, res.Handle, 0, true); res.Cursor != want {
			t.Errorf("shared %v: behind two acknowledged outcomes, a new follower is at %d, want %d",
				shared, res.Cursor, want)
		}
		if n := c.fetchAll(t, res.Handle); shared && n != 3 || !shared && n != 1 {
			t.Errorf("shared %v: %d outcomes are left", shared, n)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unreadBytes != 0 || c.fetchedBytes != 3*65 {
		t.Errorf("%d bytes count as unread, and %d as fetched", c.unreadBytes, c.fetchedBytes)
	}
	c.forgetEnded(time.Now().Add(time.Hour))
	if c.fetchedBytes != 0 {
		t.Errorf("%d bytes count as fetched of forgotten jobs", c.fetchedBytes)
	}
}

// Shared jobs drop their oldest fetched outcomes beyond the bound, and bring outcomes in a resubmission.
func TestFetchedOutcomesAreBounded(t *testing.T) {
	s := &Server{}
	large := func() *v1.Outcome { return &v1.Outcome{Result_: make([]byte, maxFetchedBytes/4)} }
	r, r2 := &clientJob{}, &clientJob{}
	s.shareJob(r, &v1.Job{Resubmission: &v1.Resubmission{Outcomes: []*v1.Outcome{large(), large()}}})
	s.shareJob(r2, &v1.Job{Resubmission: &v1.Resubmission{Outcomes: []*v1.Outcome{large(), large(), large()}}})
	if len(r.outcomes) != 2 || len(r2.outcomes) != 1 || r2.baseCursor != 2 || s.fetchedBytes > maxFetchedBytes {
		t.Errorf("%d and %d outcomes are left, %d bytes", len(r.outcomes), len(r2.outcomes), s.fetchedBytes)
	}
	if _, next, _, _ := r2.fetchOutcomes(0, math.MaxInt, true, time.Now()); next != 3 {
		t.Errorf("the cursor is %d", next)
	}
}

// Outcomes in a resubmission come from a client, and may lack any field.
func TestSharedOutcomesMayBeEmpty(t *testing.T) {
	c := startCluster(t, 1, 1)
	job := newJob("echo", "a")
	job.Shared, job.Phases, job.Tasks[0].Index = true, true, 2
	job.Resubmission = &v1.Resubmission{Count: 1, Tasks: 3, Outcomes: []*v1.Outcome{{Task: 0}, {Task: -7, Kind: 99}}}
	res, err := c.client.Submit(context.Background(), &v1.SubmitRequest{Job: job})
	if err != nil {
		t.Fatal(err)
	}
	if n := c.fetchAll(t, res.Handle); n != 3 {
		t.Errorf("%d outcomes of 3", n)
	}
}

// Results of tasks that may start only once stay at the workers as long as a shared job is known.
func TestSharedOnceJobKeepsReceipts(t *testing.T) {
	c := startCluster(t, 1, 1)
	job := newJob("echo", "a")
	job.Shared, job.Tasks[0].Retryable = true, false
	res, err := c.client.Submit(context.Background(), &v1.SubmitRequest{Job: job})
	if err != nil {
		t.Fatal(err)
	}
	c.fetchAll(t, res.Handle)
	id, _ := probe.ParseJobID(res.Handle.Job)
	c.mu.Lock()
	defer c.unlockAndFlush()
	r := c.jobs[id]
	if len(r.receipts) != 1 {
		t.Errorf("%d receipts are left of 1", len(r.receipts))
	}
	c.forgetEnded(time.Now().Add(time.Hour))
	if len(r.receipts) != 0 || c.jobs[id] != nil {
		t.Errorf("%d receipts are left of a forgotten job", len(r.receipts))
	}
}
