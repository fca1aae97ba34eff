package client_test

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// stamp is a run of a task, by the clock of the task.
type stamp struct {
	task       int
	begin, end time.Time
}

// The phases of tasks agree with the tasks' own clocks. One slot runs the tasks one after another. So a task has its
// turn after the end of the run before, and starts before its own run. The test compares only the order of moments,
// and holds on a slow machine.
func TestPhasesAgreeWithTheTasksClocks(t *testing.T) {
	const tasks, rounding = 6, 2 * time.Microsecond // the API rounds each end of a phase down to a microsecond
	stamps := make(chan stamp, tasks)
	registry := exec.NewRegistry()
	if err := registry.Register("stamp", func(_ context.Context, payload []byte) ([]byte, error) {
		s := stamp{begin: time.Now()}
		s.task, _ = strconv.Atoi(string(payload))
		for time.Since(s.begin) < 5*time.Millisecond { // a run far longer than the launch of a task
		}
		s.end = time.Now()
		stamps <- s
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	cluster := startCluster(t, local.Config{Frontends: 1, Workers: 1, Slots: 1, Registry: registry})
	c := connectClient(t, cluster.Frontends())
	for _, test := range []struct {
		policy client.Policy
		mode   client.Mode
	}{{client.LateBinding, client.AutoMode}, {client.Random, client.AutoMode}, {client.PerTask, client.AutoMode},
		{client.Batch, client.AutoMode}, {"", client.EstimateMode}, {"", client.SampleMode}} {
		job := client.Job{Policy: test.policy, Mode: test.mode, Phases: true}
		for i := range tasks {
			job.Tasks = append(job.Tasks, client.Task{Function: "stamp", Payload: strconv.AppendInt(nil, int64(i), 10)})
		}
		submitted := time.Now()
		outs, err := c.Run(t.Context(), job)
		returned := time.Now()
		if err != nil {
			t.Fatal(err)
		}
		runs := make([]stamp, tasks)
		for i := range runs {
			runs[i] = <-stamps
		}
		slices.SortFunc(runs, func(a, b stamp) int { return a.begin.Compare(b.begin) })
		for k, r := range runs {
			p := outs[r.task].Phases
			moments := []time.Duration{p.Sampled, p.Queued, p.Ready, p.Bound, p.Started, p.Finished, p.Delivered}
			if !slices.IsSortedFunc(moments, cmp.Compare) || p.Sampled < 0 || p.Delivered > returned.Sub(submitted) {
				t.Errorf("%v: task %d: phases out of order, of %v: %+v", test, r.task, returned.Sub(submitted), *p)
			}
			if run := p.Finished - p.Started; run < r.end.Sub(r.begin)-rounding {
				t.Errorf("%v: task %d ran for %v, and its phases say %v", test, r.task, r.end.Sub(r.begin), run)
			}
			if k == 0 {
				continue
			}
			// Workers ask ahead of a slot only under the policy phoebe, which has this path without estimates.
			since := r.begin.Sub(runs[k-1].end)
			if launch := p.Started - p.Ready; test.mode != client.SampleMode && launch > since+rounding {
				t.Errorf("%v: task %d began %v after the run before, and its turn was %v before its start: %+v", test,
					r.task, since, launch, *p)
			}
			if least := runs[k-1].end.Sub(runs[0].begin); p.Delivered < least {
				t.Errorf("%v: task %d was delivered %v after the job came, and %v had passed", test, r.task,
					p.Delivered, least)
			}
		}
	}
}
