package frontend

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// A client that has been elsewhere with its job may know more of it than the frontend to which it comes back.
func TestKnows(t *testing.T) {
	c := New(Config{ID: 1}, rand.New(rand.NewPCG(1, 2)))
	id := probe.JobID{1}
	c.Step(time.Unix(0, 0), Submit{&Job{ID: id, Open: true}}, nil)
	for _, test := range []struct {
		job   Job
		knows bool
	}{{Job{ID: id, Open: true}, true}, {Job{ID: id, Open: true, Had: 1}, false}, {Job{ID: id}, false}, {Job{ID: probe.JobID{2}, Had: 9}, true}} {
		if knows := c.Knows(&test.job); knows != test.knows {
			t.Errorf("of one that has had %d tasks, open %t, all is known: %t", test.job.Had, test.job.Open, knows)
		}
	}
}
