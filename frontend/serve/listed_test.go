package serve

import (
	"context"
	"testing"
	"time"

	rec "github.com/phoebe-sched/phoebe/frontend/record"
	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
	"github.com/phoebe-sched/phoebe/probe"
)

// A job listed while under way can be opened after its end, though the frontend would not keep the job.
func TestListedJobCanBeOpened(t *testing.T) {
	c := startCluster(t, 1, 4)
	ctx := context.Background()
	var submitted []*v1.Handle
	for range 2 {
		res, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: newJob("sleep", "1h")})
		if err != nil {
			t.Fatal(err)
		}
		submitted = append(submitted, res.Handle)
	}
	list := func() map[string]*v1.JobSummary {
		res, err := c.client.Jobs(ctx, &v1.JobsRequest{Filter: &v1.JobFilter{Id: submitted[0].Job}})
		if err != nil {
			t.Fatal(err)
		}
		byID := map[string]*v1.JobSummary{}
		for _, j := range res.Jobs {
			byID[j.Job] = j
		}
		return byID
	}
	if j := list()[submitted[0].Job]; j == nil || j.Fleeting {
		t.Fatalf("listed %v", j)
	}
	c.mu.Lock()
	for _, r := range c.jobs { // neither job would be kept: as if many jobs came
		r.timing.remembersAll = false
		r.timing.failedTasks = -1 // the cancelled task makes 0
	}
	c.mu.Unlock()
	for _, h := range submitted {
		if _, err := c.client.Cancel(ctx, &v1.CancelRequest{Handle: h}); err != nil {
			t.Fatal(err)
		}
	}
	res, err := c.client.Trace(ctx, &v1.TraceRequest{Job: submitted[0].Job})
	if err != nil || res.Job.Job != submitted[0].Job || res.Job.Running {
		t.Errorf("%v, %v", res, err)
	}
	_, err = c.client.Trace(ctx, &v1.TraceRequest{Job: submitted[1].Job})
	wantRefused(t, err, v1.RefusedReason_UNKNOWN_JOB, "was not kept")

	// Where the room for listed jobs is used, the list says so.
	id := probe.NewJobID(1, 1, 1)
	c.recorder.mu.Lock()
	fits := c.recorder.keptJobs.NoteListedOpen(time.Now(), id, rec.MaxListedBytes-2048)
	c.recorder.mu.Unlock()
	third, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: newJob("sleep", "1h", "1h", "1h", "1h", "1h")})
	if err != nil || !fits {
		t.Fatal(err, fits)
	}
	submitted[0] = third.Handle
	if j := list()[third.Handle.Job]; j == nil || !j.Fleeting {
		t.Errorf("listed %v", j)
	}
}

// A job that ends between its summary and the answer is listed as ended if kept, and else left out.
func TestJobsEndedMeanwhileAreNotListedAsRunning(t *testing.T) {
	c := startCluster(t, 1, 1)
	kept := newJob("echo", "")
	if _, err := c.client.Run(context.Background(), &v1.RunRequest{Job: kept}); err != nil {
		t.Fatal(err)
	}
	var list []listing
	for _, text := range []string{newID(), kept.Id} {
		id, err := probe.ParseJobID(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, listing{JobSummary: &v1.JobSummary{Job: text, Running: true}, id: id})
	}
	got := (&handler{c.Server}).noteListed(list, time.Now())
	if len(got) != 1 || got[0].Job != kept.Id || got[0].Running || got[0].Fleeting {
		t.Errorf("listed %v", got)
	}
}
