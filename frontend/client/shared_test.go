package client

import (
	"strings"
	"testing"
	"time"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// An older frontend would take the cursor of a follower for the submitter's. So Attach refuses after one harmless call.
func TestAttachToOldFrontend(t *testing.T) {
	f := newFake(t)
	f.events = func(r *v1.EventsRequest) (*v1.EventsResponse, error) {
		if r.Cursor != 0 || !r.Follow {
			t.Errorf("the follower asked for %v", r)
		}
		return &v1.EventsResponse{Events: []*v1.Event{{Outcome: &v1.Outcome{Task: 0}}}, Cursor: 1}, nil
	}
	c, err := New([]string{f.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Attach(t.Context(), Handle{Job: NewJobID(), Owner: f.addr})
	if err == nil || !strings.Contains(err.Error(), "upgrade the frontend") {
		t.Error(err)
	}
}

// A job with Key goes out as a resubmission without a previous owner. A job with Grace alone is new.
func TestSharedRequests(t *testing.T) {
	f := newFake(t)
	var jobs []*v1.Job
	f.submit = func(r *v1.SubmitRequest) (*v1.SubmitResponse, error) {
		jobs = append(jobs, r.Job)
		return nil, &v1.Refused{Reason: v1.RefusedReason_INVALID, Message: "seen"}
	}
	c, err := New([]string{f.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tasks := []Task{{Function: "f"}, {Function: "f"}}
	for _, job := range []Job{
		{Key: "k", Tenant: "a"}, {Key: "k", Tenant: "a"}, {Key: "k", Tenant: "b"}, {Grace: time.Minute},
		{Key: "k", Tenant: "a", Stored: []int{0}},
	} {
		job.Tasks = tasks
		if _, err := c.Run(t.Context(), job); err == nil || !strings.Contains(err.Error(), "seen") {
			t.Fatal(err)
		}
	}
	for i, j := range jobs {
		if r := j.Resubmission; !j.Shared || (r == nil) != (i == 3) ||
			r != nil && (r.PreviousOwner != "" || r.Count != 1 || r.Tasks != 2 || r.AgeUs == 0) {
			t.Errorf("job %d: %v", i, j)
		}
	}
	if jobs[0].Id != jobs[1].Id || jobs[0].Id == jobs[2].Id {
		t.Errorf("ids %s, %s, %s", jobs[0].Id, jobs[1].Id, jobs[2].Id)
	}
	if jobs[3].GraceUs != time.Minute.Microseconds() {
		t.Errorf("grace %d", jobs[3].GraceUs)
	}
	if last := jobs[4]; last.Id != jobs[0].Id || len(last.Tasks) != 1 || last.Tasks[0].Index != 1 {
		t.Errorf("without the stored task: %v", last)
	}
}
