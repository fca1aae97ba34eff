package client_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
	fserve "github.com/phoebe-sched/phoebe/frontend/serve"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker/exec"
)

// stamp is a run of a task, by the clock of the task.
type stamp struct {
	task       int
	begin, end time.Time
}

// tappedLaunch is an attempt by the taps. A zero time: there was no such message.
type tappedLaunch struct {
	early, rides bool
	ahead        bool      // the worker asked for the task before its slot was free
	sent         time.Time // the message with the task
	ready        time.Time // the worker's question for the task
	queued       time.Time // the worker's answer to a task without room
	finished     time.Time // the result
}

// tappedRun is a job by the taps.
type tappedRun struct {
	first    time.Time // the first message of the job: the frontend has had the job before
	launches map[int][]*tappedLaunch
}

// readTaps sorts the messages on a link, and returns those of a job. The link also has messages of earlier jobs: a result
// sent again may pass the tap after its job has ended.
func readTaps(job probe.JobID, all []tapped) tappedRun {
	type turn struct {
		res  probe.ResID
		turn probe.Turn
	}
	r := tappedRun{launches: map[int][]*tappedLaunch{}}
	asked, jobs := map[turn]tapped{}, map[probe.ResID]probe.JobID{}
	attempts, places := map[probe.AttemptID]*tappedLaunch{}, map[probe.ResID]*tappedLaunch{}
	takeBack := func(x *tappedLaunch) {
		for task, list := range r.launches {
			r.launches[task] = slices.DeleteFunc(list, func(y *tappedLaunch) bool { return y == x })
		}
	}
	add := func(l *probe.Launch, taskJob probe.JobID, at time.Time) *tappedLaunch {
		x := &tappedLaunch{sent: at}
		if attempts[l.Attempt] = x; taskJob == job {
			r.launches[int(l.Task)] = append(r.launches[int(l.Task)], x)
		}
		return x
	}
	notePlace := func(res probe.ResID, placeJob probe.JobID, at time.Time) {
		if jobs[res] = placeJob; placeJob == job && r.first.IsZero() {
			r.first = at
		}
	}
	for _, m := range all {
		switch msg := m.msg.(type) {
		case probe.Reserve:
			for i := range msg.Count {
				notePlace(msg.First+probe.ResID(i), msg.Job, m.at)
			}
			for i := range msg.Launches {
				x := add(&msg.Launches[i], msg.Job, m.at)
				x.rides, places[msg.First+probe.ResID(i)] = true, x
			}
		case probe.Enqueue:
			notePlace(msg.Res, msg.Job, m.at)
			x := add(&msg.Launch, msg.Job, m.at)
			x.early, places[msg.Res] = true, x
		case probe.Bind:
			question := asked[turn{msg.Res, msg.Turn}]
			for _, l := range append([]probe.Launch{msg.Launch}, msg.Bundle...) {
				x := add(&l, cmp.Or(msg.Job, jobs[msg.Res]), m.at)
				x.ready, x.ahead = question.at, question.msg.(probe.Ready).Early > 0
			}
		case probe.Ready:
			asked[turn{msg.Res, msg.Turn}] = m
		case probe.Queued:
			for i := range msg.Count {
				x := places[msg.First+probe.ResID(i)]
				if x == nil {
					continue
				}
				if x.queued = m.at; x.rides { // the task came back
					takeBack(x)
				}
			}
		case probe.Refused:
			takeBack(attempts[msg.Attempt])
		case *probe.Finished:
			// If a frontend has not taken a result in for SyncAge, the worker sends the result again.
			if x := attempts[msg.Attempt]; x.finished.IsZero() {
				x.finished = m.at
			}
		}
	}
	return r
}

// The phases of tasks agree with the tasks' own clocks, and with taps on the link. Each message passes the tap between
// departure and arrival. One slot runs the tasks one after another. So a task has a turn after the end of the run
// before, and starts before its own run. The test compares only the order of moments, and holds on a slow machine. The
// frontend received the job after the submission, and before the first message about the job.
func TestPhasesAgreeWithTheTasksClocks(t *testing.T) {
	const tasks, rounding = 6, 2 * time.Microsecond // the API rounds each end of a phase down to a microsecond
	var mu sync.Mutex
	var runs []stamp
	fails := map[int]bool{} // tasks whose next run fails
	registry := exec.NewRegistry()
	if err := registry.Register("stamp", func(_ context.Context, payload []byte) ([]byte, error) {
		s := stamp{begin: time.Now()}
		s.task, _ = strconv.Atoi(string(payload))
		for time.Since(s.begin) < 5*time.Millisecond { // a run far longer than the launch of a task
		}
		s.end = time.Now()
		mu.Lock()
		defer mu.Unlock()
		runs = append(runs, s)
		if fails[s.task] {
			fails[s.task] = false
			return nil, errors.New("as planned")
		}
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	var tap *linkTap
	cluster := startCluster(t, local.Config{Frontends: 1, Workers: 1, Slots: 1, Registry: registry,
		Frontend: func(_ int, c *fserve.Config) {
			tap = tapLink(t, c.Workers.(fserve.Static)[0])
			c.Workers = fserve.Static{tap.addr}
		}})
	c := connectClient(t, cluster.Frontends())
	for _, test := range []struct {
		policy client.Policy
		mode   client.Mode
		class  client.Class
		fails  bool
	}{
		{policy: client.LateBinding}, {policy: client.Random}, {policy: client.PerTask}, {policy: client.Batch},
		{mode: client.EstimateMode}, {mode: client.SampleMode}, {mode: client.SampleMode, class: client.Spare},
		{policy: client.LateBinding, fails: true}, {mode: client.EstimateMode, fails: true},
		{mode: client.SampleMode, fails: true},
	} {
		job := client.Job{ID: client.NewJobID(), Policy: test.policy, Mode: test.mode, Class: test.class, Phases: true}
		id, err := probe.ParseJobID(job.ID)
		if err != nil {
			t.Fatal(err)
		}
		for i := range tasks {
			fails[i] = test.fails
			job.Tasks = append(job.Tasks, client.Task{
				Function: "stamp", Payload: strconv.AppendInt(nil, int64(i), 10), Retries: 1,
			})
		}
		runs = nil
		submitted := time.Now()
		outs, err := c.Run(t.Context(), job)
		returned := time.Now()
		if err != nil {
			t.Fatal(err)
		}
		taps := readTaps(id, tap.listTaken())
		mu.Lock()
		slices.SortFunc(runs, func(a, b stamp) int { return a.begin.Compare(b.begin) })
		mu.Unlock()
		for k, r := range runs {
			p, launches := outs[r.task].Phases, taps.launches[r.task]
			if len(launches) != outs[r.task].Attempts {
				t.Fatalf("%v: task %d: %d attempts, %d on the link", test, r.task, outs[r.task].Attempts,
					len(launches))
			}
			if slices.ContainsFunc(runs[k+1:], func(later stamp) bool { return later.task == r.task }) {
				continue // an attempt that failed
			}
			x := launches[len(launches)-1]
			wrong := func(what string, phase, limit time.Duration) {
				t.Errorf("%v: task %d: %s: %v, and the taps allow %v: %+v", test, r.task, what, phase, limit, *p)
			}
			notMore := func(what string, phase, most time.Duration) {
				if phase > most+rounding {
					wrong(what, phase, most)
				}
			}
			notLess := func(what string, phase, least time.Duration) {
				if phase < least-rounding {
					wrong(what, phase, least)
				}
			}
			// a moment of the frontend, before or after a moment of the taps
			before := func(what string, phase time.Duration, at time.Time) { notMore(what, phase, at.Sub(submitted)) }
			after := func(what string, phase time.Duration, at time.Time) { notLess(what, phase, at.Sub(taps.first)) }

			moments := []time.Duration{p.Sampled, p.Queued, p.Ready, p.Bound, p.Started, p.Finished, p.Delivered}
			if !slices.IsSortedFunc(moments, cmp.Compare) || p.Sampled < 0 {
				t.Errorf("%v: task %d: phases out of order: %+v", test, r.task, *p)
			}
			if r.begin.Before(x.sent) || x.finished.Before(r.end) {
				t.Fatalf("%v: task %d ran from %v to %v, outside of %+v", test, r.task, r.begin, r.end, x)
			}
			before("delivered after the call", p.Delivered, returned)
			after("delivered before its result", p.Delivered, x.finished)
			notLess("the run", p.Finished-p.Started, r.end.Sub(r.begin))
			before("places asked for after the task was sent", p.Sampled, x.sent)
			if n := len(launches); n > 1 {
				after("places asked for before the attempt in vain ended", p.Sampled, launches[n-2].finished)
			} else if !x.early {
				before("places asked for after the first message", p.Sampled, taps.first)
			}
			notMore("the link is slower than the way of the result", p.Queued-p.Sampled, p.Delivered-p.Finished)
			switch {
			case x.early:
				notMore("the queue", p.Ready-p.Queued, r.begin.Sub(x.sent))
				notMore("the launch", p.Started-p.Bound, r.begin.Sub(x.sent))
			case x.rides:
				notMore("the launch", p.Started-p.Ready, r.begin.Sub(x.sent))
			default:
				before("bound after the answer to the turn", p.Bound, x.sent)
				after("bound before the turn", p.Bound, x.ready)
			}
			// A question ahead may pass the tap after the slot fell free. The tasks of a bundle share a question.
			if k == 0 || x.ahead || !x.ready.IsZero() && x.ready.Before(runs[k-1].end) {
				continue
			}
			gap := r.begin.Sub(runs[k-1].end) // the turn came within the gap
			switch {
			case x.early:
				notMore("the launch", p.Started-p.Ready, gap)
				if !x.queued.IsZero() {
					notLess("the queue", p.Ready-p.Queued, runs[k-1].end.Sub(x.queued))
				}
			case x.rides:
			default:
				notMore("binding", p.Bound-p.Ready, gap)
				notMore("the launch", p.Started-p.Bound, gap+r.begin.Sub(x.sent))
				notLess("the queue", p.Ready-p.Queued, p.Bound-p.Sampled-2*gap)
			}
		}
	}
}
