package serve

import (
	"context"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// A client adds tasks to its job elsewhere. Meanwhile the job ends here, by cancellation or deadline. When the
// client comes back, the added tasks end with the job.
func TestAddedTooLate(t *testing.T) {
	for _, deadline := range []time.Duration{0, time.Millisecond} {
		c := startCluster(t, 1, 1)
		ctx := context.Background()
		in := newJob("sleep", "1h")
		in.Open, in.DeadlineUs = true, deadline.Microseconds()
		res, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: in})
		if err != nil {
			t.Fatal(err)
		}
		want := v1.OutcomeKind_DEADLINE_EXCEEDED
		if deadline == 0 {
			want = v1.OutcomeKind_CANCELLED
			if _, err := c.client.Cancel(ctx, &v1.CancelRequest{Handle: res.Handle}); err != nil {
				t.Fatal(err)
			}
		}
		if n := c.fetchAll(t, res.Handle); n != 1 {
			t.Errorf("%d outcomes of one task", n)
		}
		again := newJob("sleep", "1h", "1h", "1h")
		again.Id, again.Resubmission = in.Id, &v1.Resubmission{PreviousOwner: res.Handle.Owner, Count: 1, Tasks: 3}
		for i, task := range again.Tasks {
			task.Index = int32(i)
		}
		if _, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: again}); err != nil {
			t.Fatal(err)
		}
		// a repeated Submit changes nothing
		if _, err := c.client.Submit(ctx, &v1.SubmitRequest{Job: again}); err != nil {
			t.Fatal(err)
		}
		events, err := c.client.Events(ctx,
			&v1.EventsRequest{Handle: res.Handle, MaxWaitUs: time.Minute.Microseconds()})
		if err != nil || !events.Done || len(events.Events) != 2 {
			t.Fatalf("%+v, %v", events, err)
		}
		for i, e := range events.Events {
			if o := e.Outcome; o.Kind != want || o.Task != int32(i+1) || o.Failure == nil {
				t.Errorf("%+v", o)
			}
		}
	}
}
