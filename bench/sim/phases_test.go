package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// taps reckons the phases of tasks from clocks of its own: from the messages at both ends of each link, and from the
// start and the end of each run. The tasks of a job are alike, so all of them wait for the job's places.
type taps struct {
	cluster
	t          *testing.T
	failsFirst bool // the first run of each task fails
	jobs       map[probe.JobID]*tappedJob
	attempts   map[probe.AttemptID]*tappedAttempt
	asked      map[tappedTurn]time.Duration // when the turn of a place came
	checked    map[frontend.Way]int         // tasks, by the way of the attempt that counted
	inVain     int                          // checked tasks with an attempt in vain
	held       int                          // checked tasks that waited for a maximum
}

type tappedPlace struct {
	worker int
	res    probe.ResID
}

type tappedTurn struct {
	tappedPlace
	turn probe.Turn
}

type tappedJob struct {
	submitted time.Duration
	places    map[tappedPlace]bool // live, as far as the frontend can know
	sampled   time.Duration        // when the frontend asked for the live places
	again     map[probe.TaskIndex]time.Duration
	runs      map[probe.TaskIndex]int
	counted   map[probe.TaskIndex]*tappedAttempt // the attempt that ended well
	hasMax    bool
}

type tappedAttempt struct {
	early, rides    bool
	sent            time.Duration
	sampled, queued time.Duration // of a task bound late, or riding
	arrived, turn   time.Duration // at the worker
	started, ended  time.Duration // by the task's own clock
}

func newTaps(t *testing.T, entries ...tenants.Entry) *taps {
	c := &taps{t: t, jobs: map[probe.JobID]*tappedJob{}, attempts: map[probe.AttemptID]*tappedAttempt{},
		asked: map[tappedTurn]time.Duration{}, checked: map[frontend.Way]int{}}
	c.rng = rand.New(rand.NewPCG(1, 'n'))
	c.net = network{delay: time.Millisecond, codec: true, lease: 3 * time.Second, ping: time.Second}
	c.checkEvery = 1
	c.onAnswer, c.onEnd, c.afterFrontend, c.afterWorker = c.checkDone, c.noteEnd, c.tapFrontend, c.tapWorker
	if len(entries) > 0 {
		c.tenantsFile = tenants.New(1, nil, entries)
	}
	for range 2 {
		c.addWorker(worker.Config{Capacity: slotsOf(2), Functions: []string{sleepFunction}}, 1)
	}
	c.addFrontend(frontend.Config{}, 1)
	c.playFor(20 * time.Millisecond)
	return c
}

// playFor plays the events of a time.
func (c *taps) playFor(d time.Duration) {
	c.t.Helper()
	for end := c.now + d; ; {
		at, ok := c.nextTime()
		if !ok || at > end {
			c.now = end
			return
		}
		if err := c.stepEvent(); err != nil {
			c.t.Fatal(err)
		}
	}
}

// submit submits a job of n tasks like task, each with a run of the given time.
func (c *taps) submit(job frontend.Job, n int, run time.Duration, task frontend.Task) {
	c.t.Helper()
	job.ID = jobID(len(c.jobs) + 1)
	task.Function, task.Payload = sleepFunction, payloadOf(run)
	for i := range n {
		task.Index = probe.TaskIndex(i)
		job.Tasks = append(job.Tasks, task)
	}
	c.jobs[job.ID] = &tappedJob{submitted: c.now, places: map[tappedPlace]bool{},
		again: map[probe.TaskIndex]time.Duration{}, runs: map[probe.TaskIndex]int{},
		counted: map[probe.TaskIndex]*tappedAttempt{}, hasMax: c.tenantsFile != nil}
	if err := c.stepFrontend(c.frontends[0], frontend.Submit{Job: &job}); err != nil {
		c.t.Fatal(err)
	}
}

// tapFrontend sees the messages that have come to a frontend, and the messages that leave.
func (c *taps) tapFrontend(f *frontendNode, ev frontend.Event) {
	if frame, ok := ev.(frontend.Frame); ok {
		for _, msg := range frame.Msgs {
			switch m := msg.(type) {
			case probe.Queued:
				for _, j := range c.jobs { // a place belongs to one job, which has reserved it
					for i := range m.Count {
						at := tappedPlace{int(frame.Worker), m.First + probe.ResID(i)}
						if _, reserved := j.places[at]; reserved {
							j.places[at] = true
						}
					}
				}
			case *probe.Finished:
				if m.Status == probe.Failed || m.Status == probe.Preempted {
					c.jobs[m.Job].again[m.Task] = c.now
				}
			}
		}
	}
	for _, a := range f.acts {
		s, ok := a.(frontend.Send)
		if !ok {
			continue
		}
		switch m := s.Msg.(type) {
		case probe.Reserve:
			j := c.jobs[m.Job]
			if !j.anyLive() {
				j.sampled = c.now
			}
			for i := range m.Count {
				j.places[tappedPlace{int(s.Worker), m.First + probe.ResID(i)}] = int(i) >= len(m.Launches)
			}
			for i := range m.Launches {
				c.noteSent(j, &m.Launches[i]).rides = true
			}
		case probe.Enqueue:
			c.noteSent(c.jobs[m.Job], &m.Launch).early = true
		case probe.Bind:
			for _, j := range c.jobs {
				at := tappedPlace{int(s.Worker), m.Res}
				if _, reserved := j.places[at]; !reserved {
					continue
				}
				for _, l := range append([]probe.Launch{m.Launch}, m.Bundle...) {
					c.noteSent(j, &l).turn = c.asked[tappedTurn{at, m.Turn}]
				}
				j.places[at] = m.Keep
			}
		case probe.Cancel:
			for _, j := range c.jobs {
				for i := range m.Count {
					delete(j.places, tappedPlace{int(s.Worker), m.First + probe.ResID(i)})
				}
			}
		}
	}
}

func (j *tappedJob) anyLive() bool {
	for _, live := range j.places {
		if live {
			return true
		}
	}
	return false
}

// noteSent notes that an attempt leaves the frontend. Its task waits for places since the first places that the
// frontend asked for, but not since a time before the task could go to a worker.
func (c *taps) noteSent(j *tappedJob, l *probe.Launch) *tappedAttempt {
	x := &tappedAttempt{sent: c.now, sampled: j.sampled}
	x.queued = x.sampled + c.net.delay
	if again := j.again[l.Task]; again > x.sampled {
		x.sampled, x.queued = again, max(again, x.queued)
	}
	c.attempts[l.Attempt] = x
	return x
}

// tapWorker sees the messages that have come to a worker, and the messages and tasks that leave its core.
func (c *taps) tapWorker(w *workerNode, ev worker.Event) {
	if m, ok := ev.(worker.Received); ok {
		var launches []probe.Launch
		switch m := m.Msg.(type) {
		case probe.Reserve:
			launches = m.Launches
		case probe.Enqueue:
			launches = []probe.Launch{m.Launch}
		}
		for i := range launches {
			c.attempts[launches[i].Attempt].arrived = c.now
		}
	}
	for _, a := range w.acts {
		switch a := a.(type) {
		case *worker.Send:
			if m, ok := a.Msg.(probe.Ready); ok {
				c.asked[tappedTurn{tappedPlace{w.index, m.Res}, m.Turn}] = c.now
			}
		case *worker.Start:
			c.attempts[a.Launch.Attempt].started = c.now
		}
	}
}

// noteEnd is the end of a run.
func (c *taps) noteEnd(s *worker.Start, ev *worker.Exited) {
	j, x := c.jobs[s.Job], c.attempts[s.Launch.Attempt]
	x.ended = c.now
	if j.runs[s.Launch.Task]++; c.failsFirst && j.runs[s.Launch.Task] == 1 {
		ev.Status = probe.Failed
	}
	if ev.Status == probe.Succeeded {
		j.counted[s.Launch.Task] = x
	}
}

// checkDone compares the phases of a task with the taps.
func (c *taps) checkDone(_ *frontendNode, a frontend.Action) {
	done, ok := a.(*frontend.Done)
	if !ok {
		return
	}
	o := &done.Outcome
	j := c.jobs[done.Job]
	x := j.counted[o.Task]
	if o.Kind != frontend.Result || x == nil {
		c.t.Fatalf("task %d: %+v", o.Task, o)
	}
	want := frontend.Phases{Again: j.again[o.Task], Started: x.started, Finished: x.ended}
	switch {
	case x.early:
		want.Sampled, want.Queued, want.Ready, want.Bound = x.sent, x.arrived, x.started, x.started
	case x.rides:
		want.Sampled, want.Queued, want.Ready, want.Bound = x.sampled, x.queued, x.arrived, x.arrived
	default:
		want.Sampled, want.Queued, want.Ready, want.Bound = x.sampled, x.queued, x.turn, x.sent
	}
	for _, at := range []*time.Duration{&want.Again, &want.Sampled, &want.Queued, &want.Ready, &want.Bound,
		&want.Started, &want.Finished} {
		if *at > 0 {
			*at -= j.submitted
		}
	}
	if j.hasMax { // while a task is held, nothing else keeps it from a worker
		want.Held = want.Sampled - want.Again
	}
	if o.Phases != want {
		c.t.Errorf("%v, job %v, task %d, sent in way %d:\n%+v by the frontend,\n%+v by the taps", c.now, done.Job,
			o.Task, o.Way, o.Phases, want)
	}
	c.checked[o.Way]++
	if want.Again > 0 {
		c.inVain++
	}
	if want.Held > 0 {
		c.held++
	}
}

// The phases of each task are the times that messages and runs show, for each policy, mode, class and fate.
func TestPhasesAreTheTimesOfTheTaps(t *testing.T) {
	seen := map[frontend.Way]int{}
	run := func(name string, play func(t *testing.T) *taps) {
		t.Run(name, func(t *testing.T) {
			c := play(t)
			for way, n := range c.checked {
				seen[way] += n
			}
		})
	}
	for _, p := range frontend.Policies {
		for _, takes := range []time.Duration{500 * time.Microsecond, 20 * time.Millisecond, 2 * time.Second} {
			for _, fails := range []bool{false, true} {
				name := p.Name + "/" + takes.String()
				if fails {
					name += "/fails"
				}
				run(name, func(t *testing.T) *taps {
					c := newTaps(t)
					c.failsFirst = fails
					for _, hint := range []time.Duration{0, takes} { // with a hint, workers ask ahead
						task := frontend.Task{Retryable: true, Retries: 1, Estimate: hint}
						c.submit(frontend.Job{Policy: p}, 10, takes, task)
						c.playFor(time.Minute)
					}
					if n := sumOf(c.checked); n != 20 || fails && c.inVain != 20 {
						t.Errorf("%d tasks ended, %d of them after an attempt in vain", n, c.inVain)
					}
					return c
				})
			}
		}
	}
	run("estimate", func(t *testing.T) *taps {
		c := newTaps(t)
		c.submit(frontend.Job{Policy: frontend.Policies[0], Mode: estimate.Estimate}, 10, time.Second,
			frontend.Task{Estimate: time.Second})
		c.playFor(time.Minute)
		if c.checked[frontend.WayEarly] != 10 {
			t.Errorf("%v tasks ended, by way", c.checked)
		}
		return c
	})
	run("preempted", func(t *testing.T) *taps {
		c := newTaps(t)
		c.submit(frontend.Job{Policy: frontend.Policies[0], Class: frontend.Spare}, 4, time.Second,
			frontend.Task{Retryable: true, Estimate: time.Second})
		c.playFor(300 * time.Millisecond)
		c.submit(frontend.Job{Policy: frontend.Policies[0]}, 4, 500*time.Millisecond,
			frontend.Task{Estimate: 500 * time.Millisecond})
		c.playFor(time.Minute)
		if n := sumOf(c.checked); n != 8 || c.inVain == 0 {
			t.Errorf("%d tasks ended, %d of them after an attempt in vain", n, c.inVain)
		}
		return c
	})
	run("maximum", func(t *testing.T) *taps {
		c := newTaps(t, tenants.Entry{Path: "a", Tokens: 1, Max: 1})
		c.submit(frontend.Job{Policy: frontend.Policies[0], Tenant: "a"}, 6, 300*time.Millisecond, frontend.Task{})
		c.playFor(time.Minute)
		if n := sumOf(c.checked); n != 6 || c.held != 5 {
			t.Errorf("%d tasks ended, %d of them were held", n, c.held)
		}
		return c
	})
	for _, way := range []frontend.Way{frontend.WayLate, frontend.WayRide, frontend.WayAhead, frontend.WayEarly} {
		if seen[way] == 0 {
			t.Errorf("no task went in way %d: %v", way, seen)
		}
	}
}

func sumOf(counts map[frontend.Way]int) (n int) {
	for _, k := range counts {
		n += k
	}
	return n
}
