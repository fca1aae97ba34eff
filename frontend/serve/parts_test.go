package serve

import (
	"context"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// Parts of a job come one after the other, and take no more room than payloads may. Without the next part, the frontend
// forgets the parts before.
func TestJobInParts(t *testing.T) {
	const limit = 64 << 10
	c := startCluster(t, 1, 1, func(cfg *Config) { cfg.Core.MaxPayloads, cfg.Core.MaxTasksPerJob = limit, 10 })
	whole := newJob("echo", "a", "b")
	part := func(i int32, payloads int, tasks ...*v1.Task) error {
		job := &v1.Job{Id: whole.Id, Tasks: append([]*v1.Task{}, tasks...), Resubmission: &v1.Resubmission{
			PreviousOwner: c.Addr(), Count: 1, Tasks: 2, Part: i, Parts: 3,
		}}
		for range payloads {
			job.Tasks = append(job.Tasks, &v1.Task{FunctionName: "echo", Payload: make([]byte, 2*limit)})
		}
		_, err := c.client.Submit(context.Background(), &v1.SubmitRequest{Job: job})
		return err
	}
	for i, task := range whole.Tasks {
		task.Index = int32(i)
	}
	wantRefused(t, part(1, 0), v1.RefusedReason_OWNER_LOST, "begin again")
	for _, step := range []func() error{
		func() error { return part(0, 0) },
		func() error { return part(1, 0, whole.Tasks[0]) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	c.mu.Lock()
	parts := c.jobParts[whole.Id]
	c.mu.Unlock()
	c.expireParts(whole.Id, parts)
	wantRefused(t, part(2, 0, whole.Tasks[1]), v1.RefusedReason_OWNER_LOST, "begin again")

	if err := part(0, 0); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, part(1, 1), v1.RefusedReason_OVERLOADED, "the limit is")
	c.mu.Lock()
	if c.partsBytes != 0 || len(c.jobParts) != 0 {
		t.Errorf("%d bytes of %d jobs are left", c.partsBytes, len(c.jobParts))
	}
	c.mu.Unlock()
	for _, step := range []func() error{
		func() error { return part(0, 0) },
		func() error { return part(1, 0, whole.Tasks[0]) },
		func() error { return part(2, 0, whole.Tasks[1]) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	res, err := c.client.Events(context.Background(), &v1.EventsRequest{
		Handle: &v1.Handle{Job: whole.Id}, MaxWaitUs: time.Minute.Microseconds(),
	})
	if err != nil || len(res.Events) == 0 {
		t.Fatal(res, err)
	}
}

// Parts of many small tasks count with the memory of their tasks, which is far more than their bytes.
func TestPartsOfSmallTasks(t *testing.T) {
	const limit = 1 << 20
	c := startCluster(t, 1, 1, func(cfg *Config) { cfg.Core.MaxPayloads, cfg.Core.MaxTasksPerJob = limit, 1000 })
	submitPart := func() error {
		j := newJob("echo")
		for range 5000 {
			j.Tasks = append(j.Tasks, &v1.Task{Payload: []byte{}})
		}
		j.Resubmission = &v1.Resubmission{PreviousOwner: c.Addr(), Count: 1, Part: 0, Parts: 2}
		_, err := c.client.Submit(t.Context(), &v1.SubmitRequest{Job: j})
		return err
	}
	wantRefused(t, submitPart(), v1.RefusedReason_OVERLOADED, "jobs in parts")
	for range 2 * limit / partBytes { // without any task
		j := newJob("echo")
		j.Tasks = []*v1.Task{}
		j.Resubmission = &v1.Resubmission{PreviousOwner: c.Addr(), Count: 1, Part: 0, Parts: 2}
		if _, err := c.client.Submit(t.Context(), &v1.SubmitRequest{Job: j}); err != nil {
			wantRefused(t, err, v1.RefusedReason_OVERLOADED, "jobs in parts")
			return
		}
	}
	t.Errorf("%d jobs in parts are kept", len(c.jobParts))
}
