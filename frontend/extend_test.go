package frontend

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// A client that was at another frontend with a job may have added to the job before the client comes back.
func TestKnows(t *testing.T) {
	c := New(Config{ID: 1}, rand.New(rand.NewPCG(1, 2)))
	id := probe.JobID{1}
	c.Step(time.Unix(0, 0), Submit{&Job{ID: id, Open: true}}, nil)
	for _, test := range []struct {
		job   Job
		knows bool
	}{
		{Job{ID: id, Open: true}, true}, {Job{ID: id, Open: true, Had: 1}, false}, {Job{ID: id}, false},
		{Job{ID: probe.JobID{2}, Had: 9}, true},
	} {
		if knows := c.IsUpToDate(&test.job); knows != test.knows {
			t.Errorf("a job with %d tasks, open %t: known %t", test.job.Had, test.job.Open, knows)
		}
	}
}
