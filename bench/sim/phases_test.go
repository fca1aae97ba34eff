package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/worker"
)

// taps reckons the phases of tasks from messages at both ends of each link, and from the start and the end of each run.
// The tasks of a stage are alike, so each task waits for the places of the stage.
type taps struct {
	cluster
	t          *testing.T
	failsFirst bool // the first run of each task fails
	fetchTime  time.Duration
	jobs       map[probe.JobID]*tappedJob // at the frontend where the job came last
	attempts   map[probe.AttemptID]*tappedAttempt
	places     map[tappedPlace]*tappedGroup // the group that reserved the place
	asked      map[tappedTurn]time.Duration // when the turn of a place came
	seen       tappedCounts
}

// tappedCounts counts checked tasks.
type tappedCounts struct {
	ways    map[frontend.Way]int // by the way of the attempt that counted
	ends    map[frontend.End]int // attempts in vain, by their end
	all     int
	inVain  int // tasks with an attempt in vain
	held    int // tasks with a wait for a maximum
	adopted int // tasks with a result of another frontend's attempt
	staged  int // tasks with a wait for an earlier stage
	fetched int // tasks with files to be fetched
}

type tappedPlace struct {
	frontend, worker int
	res              probe.ResID
}

type tappedTurn struct {
	tappedPlace
	turn probe.Turn
}

type tappedJob struct {
	submitted time.Duration
	frontend  int
	spec      frontend.Job
	groups    []*tappedGroup // by stage
	tasks     map[probe.TaskIndex]*tappedTask
	claims    int  // answers due to claims
	isPaused  bool // until the client has read results
}

// tappedGroup is the tasks of a stage.
type tappedGroup struct {
	job     *tappedJob
	stage   int
	live    map[tappedPlace]bool // as far as the frontend can know
	sampled time.Duration        // when the frontend asked for the live places; -1: there are none, and no task waits
}

type tappedTask struct {
	index      probe.TaskIndex
	group      *tappedGroup
	partition  int32
	released   time.Duration // when the last awaited task ended; -1: not yet
	again      time.Duration // when the task could go to a worker again; 0: no attempt was in vain
	asked      time.Duration // when the group's places were asked for; -1: the task was not sent yet
	resumed    time.Duration // when the job went on after a pause; 0: no pause
	isClaiming bool
	isDone     bool
	runs       int
	live       []*tappedAttempt
	ended      []*tappedAttempt // attempts in vain
	counted    *tappedAttempt   // the attempt that ended well first
	movedFrom  *tappedAttempt   // the attempt in whose queue the wait began, if the task moved from there; else nil
}

type tappedAttempt struct {
	id                     probe.AttemptID
	worker                 int
	early, rides           bool
	isCopy, isAdopted      bool
	place                  tappedPlace // of a ride, or bound early
	task                   *tappedTask
	sent                   time.Duration
	asked                  time.Duration // of a task bound late, or riding
	arrived, turn          time.Duration // at the worker
	fetchBegan, fetchEnded time.Duration
	started, ended         time.Duration // by the task's own clock
	stopped                time.Duration // when the frontend gave the attempt up, or heard of its end
	status                 probe.Status  // of the run
}

// tapsConfig says what a tapped cluster has. The zero Config has a frontend, and two workers with two slots each.
type tapsConfig struct {
	frontends int
	workers   []float64 // the speed of each
	caches    bool      // workers fetch files
	copies    float64
	tenants   []tenants.Entry
}

func newTaps(t *testing.T, cfg tapsConfig) *taps {
	c := &taps{t: t, jobs: map[probe.JobID]*tappedJob{}, attempts: map[probe.AttemptID]*tappedAttempt{},
		places: map[tappedPlace]*tappedGroup{}, asked: map[tappedTurn]time.Duration{},
		seen: tappedCounts{ways: map[frontend.Way]int{}, ends: map[frontend.End]int{}}}
	c.rng = rand.New(rand.NewPCG(1, 'n'))
	c.net = network{delay: time.Millisecond, codec: true, lease: 3 * time.Second, ping: time.Second}
	c.checkEvery = 1
	c.onAnswer = func(*frontendNode, frontend.Action) {} // tapFrontend sees all actions
	c.onEnd, c.afterFrontend, c.afterWorker, c.onFetch = c.noteEnd, c.tapFrontend, c.tapWorker, c.fetchFiles
	c.onRelease = func(*workerNode, worker.Release) {}
	if len(cfg.tenants) > 0 {
		c.tenantsFile = tenants.New(1, nil, cfg.tenants)
	}
	if cfg.workers == nil {
		cfg.workers = []float64{1, 1}
	}
	for i, speed := range cfg.workers {
		w := c.addWorker(worker.Config{Capacity: slotsOf(2), Functions: []string{sleepFunction}}, speed)
		if cfg.caches {
			w.welcome.Cache = fmt.Sprintf("h%d:7430", i)
		}
	}
	for range max(cfg.frontends, 1) {
		c.addFrontend(frontend.Config{Copies: cfg.copies}, 1)
	}
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

// submit submits a job of n tasks like task, each with a run of the given time, to frontend 0.
func (c *taps) submit(job frontend.Job, n int, run time.Duration, task frontend.Task) {
	c.t.Helper()
	for range n {
		job.Tasks = append(job.Tasks, task)
	}
	c.submitTasks(job, run)
}

// submitTasks submits a job whose tasks run for the given time, to frontend 0.
func (c *taps) submitTasks(job frontend.Job, run time.Duration) { c.submitTasksAt(0, job, run) }

func (c *taps) submitTasksAt(f int, job frontend.Job, run time.Duration) {
	c.t.Helper()
	job.ID = jobID(len(c.jobs) + 1)
	for i := range job.Tasks {
		t := &job.Tasks[i]
		t.Index, t.Function, t.Payload = probe.TaskIndex(i), sleepFunction, payloadOf(run)
	}
	c.submitAt(f, job)
}

// submitAt submits a job to a frontend. In a job with stages, the estimates of the tasks tell the stages apart.
func (c *taps) submitAt(f int, job frontend.Job) {
	c.t.Helper()
	j := &tappedJob{submitted: c.now, frontend: f, spec: job, tasks: map[probe.TaskIndex]*tappedTask{}}
	for i := range max(len(job.Stages), 1) {
		j.groups = append(j.groups, &tappedGroup{job: j, stage: i, live: map[tappedPlace]bool{}, sampled: -1})
	}
	if job.Generation > 0 {
		j.claims = len(c.workers)
	}
	for i := range job.Tasks {
		spec := &job.Tasks[i]
		t := &tappedTask{index: spec.Index, group: j.groups[spec.Stage], partition: spec.Partition, asked: -1,
			released: -1, isClaiming: job.Generation > 0}
		if len(job.Stages) == 0 || len(job.Stages[spec.Stage].After) == 0 {
			t.released = c.now
		}
		j.tasks[spec.Index] = t
	}
	c.jobs[job.ID] = j
	submitted := job
	submitted.Tasks, submitted.Stages = slices.Clone(job.Tasks), slices.Clone(job.Stages)
	if err := c.stepFrontend(c.frontends[f], frontend.Submit{Job: &submitted}); err != nil {
		c.t.Fatal(err)
	}
}

// moveJobs submits the unfinished tasks of all jobs to another frontend, as clients do after the loss of the first.
func (c *taps) moveJobs(to int) {
	c.t.Helper()
	for n := range len(c.jobs) {
		j := c.jobs[jobID(n+1)]
		job := j.spec
		job.Generation, job.Age, job.Had = job.Generation+1, c.now-j.submitted, len(job.Tasks)
		job.Tasks = slices.DeleteFunc(slices.Clone(job.Tasks),
			func(t frontend.Task) bool { return j.tasks[t.Index].isDone })
		if len(job.Tasks) > 0 {
			c.submitAt(to, job)
		}
	}
}

// setUnread tells the frontend that the client has too many results of a job to read, or has read enough.
func (c *taps) setUnread(n int, full bool) {
	c.t.Helper()
	j := c.jobs[jobID(n)]
	j.isPaused = full
	for _, t := range j.tasks {
		if !full && t.isWaiting() {
			t.resumed = c.now
		}
	}
	if err := c.stepFrontend(c.frontends[j.frontend], frontend.Unread{Job: j.spec.ID, Full: full}); err != nil {
		c.t.Fatal(err)
	}
}

// awaits reports whether t waits for before to end.
func (j *tappedJob) awaits(t, before *tappedTask) bool {
	if len(j.spec.Stages) == 0 {
		return false
	}
	s, name := &j.spec.Stages[t.group.stage], j.spec.Stages[before.group.stage].Name
	return slices.Contains(s.After, name) && (!slices.Contains(s.Along, name) || before.partition == t.partition)
}

// isWaiting reports whether t waits for a place.
func (t *tappedTask) isWaiting() bool {
	return t.released >= 0 && !t.isDone && !t.isClaiming && len(t.live) == 0 && !t.group.job.isPaused
}

// eachTask calls do for the tasks of the jobs at a frontend.
func (c *taps) eachTask(f int, do func(j *tappedJob, t *tappedTask)) {
	for n := range len(c.jobs) {
		if j := c.jobs[jobID(n+1)]; j.frontend == f {
			for i := range j.spec.Tasks {
				if t := j.tasks[j.spec.Tasks[i].Index]; t != nil {
					do(j, t)
				}
			}
		}
	}
}

// tapFrontend sees the messages to and from a frontend.
func (c *taps) tapFrontend(f *frontendNode, ev frontend.Event) {
	switch ev := ev.(type) {
	case frontend.Frame:
		for _, msg := range ev.Msgs {
			c.tapArrival(f, int(ev.Worker), msg)
		}
	case frontend.WorkerGone: // attempts there are lost
		c.eachTask(f.index, func(_ *tappedJob, t *tappedTask) {
			for _, x := range slices.Clone(t.live) {
				if x.worker == int(ev.Worker) {
					c.endInVain(x)
				}
			}
		})
	}
	for _, a := range f.acts {
		switch a := a.(type) {
		case frontend.Send:
			c.tapDeparture(f, int(a.Worker), a.Msg)
		case *frontend.Done:
			c.checkDone(f, a)
		}
	}
	c.dropNeedless(f)
}

// tapArrival sees a message to a frontend.
func (c *taps) tapArrival(f *frontendNode, w int, msg probe.Msg) {
	switch m := msg.(type) {
	case probe.Queued:
		for i := range m.Count {
			at := tappedPlace{f.index, w, m.First + probe.ResID(i)}
			if g := c.places[at]; g != nil {
				g.live[at] = true
			}
			c.eachTask(f.index, func(_ *tappedJob, t *tappedTask) { // the ride comes back
				t.live = slices.DeleteFunc(t.live, func(x *tappedAttempt) bool { return x.rides && x.place == at })
			})
		}
	case probe.Evicted:
		c.eachTask(f.index, func(_ *tappedJob, t *tappedTask) {
			for _, x := range slices.Clone(t.live) {
				if m.Reason == probe.Withdrawn && x.early && x.place == (tappedPlace{f.index, w, m.First}) {
					c.endByMove(x)
				}
			}
		})
	case probe.Started:
		if j := c.jobs[m.Job]; j != nil && j.frontend == f.index && j.tasks[m.Task].isClaiming {
			c.adopt(j.tasks[m.Task], c.attempts[m.Attempt])
		}
	case *probe.Finished:
		j := c.jobs[m.Job]
		if j == nil || j.frontend != f.index {
			return
		}
		t, x := j.tasks[m.Task], c.attempts[m.Attempt]
		if t == nil || t.isDone {
			return
		}
		if t.isClaiming {
			c.adopt(t, x)
		}
		switch m.Status {
		case probe.Failed, probe.Preempted:
			c.endInVain(x)
		case probe.Succeeded:
			t.live = slices.DeleteFunc(t.live, func(other *tappedAttempt) bool { return other == x })
			t.counted = x
		}
	case probe.Claimed:
		if j := c.jobs[m.Job]; j != nil && j.frontend == f.index && j.claims > 0 {
			if j.claims--; j.claims == 0 { // nobody has the other tasks
				for _, t := range j.tasks {
					if t.isClaiming {
						t.isClaiming, t.again = false, c.now
					}
				}
			}
		}
	}
}

// adopt lets a task go on with an attempt of another frontend.
func (c *taps) adopt(t *tappedTask, x *tappedAttempt) {
	x.task, x.isAdopted, t.isClaiming = t, true, false
	t.live = append(t.live, x)
}

// endInVain notes the end of an attempt without the outcome of the task.
func (c *taps) endInVain(x *tappedAttempt) {
	t := x.task
	x.stopped = c.now
	t.live = slices.DeleteFunc(t.live, func(other *tappedAttempt) bool { return other == x })
	t.ended = append(t.ended, x)
	t.movedFrom = nil
	if t.again = c.now; len(t.live) > 0 { // the task goes on with the copy
		t.again = t.live[0].sent
	}
	t.asked = -1
}

// endByMove is endInVain for an attempt withdrawn from a queue. If the task has no copy, it still waits, and its time in
// queues goes on.
func (c *taps) endByMove(x *tappedAttempt) {
	t, again, asked, movedFrom := x.task, x.task.again, x.task.asked, x.task.movedFrom
	if c.endInVain(x); len(t.live) > 0 {
		return
	}
	if t.again, t.asked, t.movedFrom = again, asked, movedFrom; movedFrom == nil {
		t.movedFrom = x
	}
}

// tapDeparture sees a message of a frontend.
func (c *taps) tapDeparture(f *frontendNode, w int, msg probe.Msg) {
	switch m := msg.(type) {
	case probe.Reserve:
		j := c.jobs[m.Job]
		g := j.groups[0]
		for i := range j.spec.Tasks {
			if t := &j.spec.Tasks[i]; len(j.groups) > 1 && t.Estimate == m.Estimate {
				g = j.groups[t.Stage]
			}
		}
		if g.sampled < 0 {
			g.sampled = c.now
		}
		for i := range m.Count {
			at := tappedPlace{f.index, w, m.First + probe.ResID(i)}
			c.places[at] = g
			g.live[at] = int(i) >= len(m.Launches)
		}
		for i := range m.Launches {
			x := c.noteSent(j, w, &m.Launches[i])
			x.rides, x.place = true, tappedPlace{f.index, w, m.First + probe.ResID(i)}
		}
	case probe.Enqueue:
		x := c.noteSent(c.jobs[m.Job], w, &m.Launch)
		x.early, x.place = true, tappedPlace{f.index, w, m.Res}
	case probe.Bind:
		at := tappedPlace{f.index, w, m.Res}
		g := c.places[at]
		j := g.job
		if m.Job != (probe.JobID{}) { // a shared turn
			j = c.jobs[m.Job]
		}
		for _, l := range append([]probe.Launch{m.Launch}, m.Bundle...) {
			c.noteSent(j, w, &l).turn = c.asked[tappedTurn{at, m.Turn}]
		}
		g.live[at] = m.Keep
	case probe.Cancel:
		for i := range m.Count {
			at := tappedPlace{f.index, w, m.First + probe.ResID(i)}
			if g := c.places[at]; g != nil {
				g.live[at] = false
			}
		}
	case probe.Kill:
		if x := c.attempts[m.Attempt]; x != nil && slices.Contains(x.task.live, x) {
			t, again, asked := x.task, x.task.again, x.task.asked
			if c.endInVain(x); x.isCopy || t.counted != nil {
				t.again, t.asked = again, asked
			}
		}
	}
}

// dropNeedless forgets the places of jobs without a waiting task. The frontend withdraws these places, or keeps the
// places for a moment for the turns of other jobs.
func (c *taps) dropNeedless(f *frontendNode) {
	waiting := map[*tappedGroup]int{}
	ofJob := map[*tappedJob]int{}
	c.eachTask(f.index, func(j *tappedJob, t *tappedTask) {
		if t.isWaiting() && c.tenantsFile == nil { // with a maximum, the tasks are held
			waiting[t.group]++
			ofJob[j]++
		}
	})
	for _, j := range c.jobs {
		if j.frontend != f.index {
			continue
		}
		for _, g := range j.groups {
			if ofJob[j] == 0 && j.spec.Policy.Cancel && c.tenantsFile == nil {
				clear(g.live)
			}
			if waiting[g] == 0 && !g.anyLive() {
				g.sampled = -1
			}
		}
	}
}

func (g *tappedGroup) anyLive() bool {
	for _, live := range g.live {
		if live {
			return true
		}
	}
	return false
}

// noteSent notes the departure of an attempt. The task has waited for places since the frontend asked for the first
// places of the group.
func (c *taps) noteSent(j *tappedJob, w int, l *probe.Launch) *tappedAttempt {
	t := j.tasks[l.Task]
	x := &tappedAttempt{id: l.Attempt, worker: w, task: t, sent: c.now, isCopy: len(t.live) > 0, status: probe.Killed}
	if t.asked < 0 {
		if t.asked = t.group.sampled; t.asked < 0 {
			t.asked = c.now
		}
	}
	x.asked = t.asked
	t.live = append(t.live, x)
	c.attempts[l.Attempt] = x
	return x
}

// tapWorker sees the messages to and from a worker, and the starts of tasks.
func (c *taps) tapWorker(w *workerNode, ev worker.Event) {
	switch ev := ev.(type) {
	case worker.Received:
		var launches []probe.Launch
		switch m := ev.Msg.(type) {
		case probe.Reserve:
			launches = m.Launches
		case probe.Enqueue:
			launches = []probe.Launch{m.Launch}
		}
		for i := range launches {
			c.attempts[launches[i].Attempt].arrived = c.now
		}
	case worker.Fetched:
		c.attempts[ev.Attempt].fetchEnded = c.now
	}
	for _, a := range w.acts {
		switch a := a.(type) {
		case *worker.Send:
			if m, ok := a.Msg.(probe.Ready); ok {
				at := tappedPlace{c.conns[a.Link-1].f.index, w.index, m.Res}
				c.asked[tappedTurn{at, m.Turn}] = c.now
			}
		case *worker.Start:
			c.attempts[a.Launch.Attempt].started = c.now
		}
	}
}

// fetchFiles brings files to a worker after a time.
func (c *taps) fetchFiles(w *workerNode, a worker.Fetch) {
	began := c.now
	c.attempts[a.Attempt].fetchBegan = began
	c.callAt(c.now+c.fetchTime, func() {
		if err := c.stepWorker(w, worker.Fetched{Attempt: a.Attempt, Bytes: 1, Took: c.now - began}); err != nil {
			c.t.Error(err)
		}
	})
}

// noteEnd is the end of a run.
func (c *taps) noteEnd(s *worker.Start, ev *worker.Exited) {
	x := c.attempts[s.Launch.Attempt]
	x.ended = c.now
	if x.task.runs++; c.failsFirst && x.task.runs == 1 {
		ev.Status = probe.Failed
	}
	x.status = ev.Status
}

// checkDone compares the phases of a task with the taps.
func (c *taps) checkDone(f *frontendNode, done *frontend.Done) {
	o := &done.Outcome
	j := c.jobs[done.Job]
	t := j.tasks[o.Task]
	x := t.counted
	if o.Kind != frontend.Result || x == nil {
		c.t.Fatalf("task %d: %+v", o.Task, o)
	}
	since := func(at time.Duration) time.Duration {
		if at <= 0 {
			return 0
		}
		return at - j.submitted
	}
	want := frontend.Phases{Released: since(t.released), Started: x.started - j.submitted,
		Finished: x.ended - j.submitted}
	again := t.again
	if x.isCopy && !x.isAdopted {
		again = x.sent
	}
	if again > t.released {
		want.Again = since(again)
	}
	placeable := max(t.released, again, t.resumed)
	switch {
	case x.isAdopted: // the frontend that knew more is lost
		want.Ready = max(want.Started, want.Released)
		want.Sampled, want.Queued, want.Bound = want.Ready, want.Ready, want.Ready
	case x.early:
		first := x
		if t.movedFrom != nil && !x.isCopy {
			first = t.movedFrom
		}
		want.Sampled, want.Queued = since(first.sent), since(first.arrived)
		want.Ready, want.Bound = since(x.started), since(x.started)
	case x.rides:
		want.Sampled = since(max(x.asked, placeable))
		want.Queued, want.Ready, want.Bound = since(x.asked+c.net.delay), since(x.arrived), since(x.arrived)
	default: // a shared turn may come before the task's own places
		want.Sampled, want.Bound = since(max(x.asked, placeable)), since(x.sent)
		want.Queued, want.Ready = since(min(x.asked+c.net.delay, x.sent)), since(x.turn)
	}
	want.Queued = max(want.Queued, want.Sampled)
	want.Ready = max(want.Ready, want.Queued)
	if c.tenantsFile != nil && !x.early { // while a task is held, nothing else keeps it from a worker
		want.Held = want.Sampled - max(want.Again, want.Released)
	}
	if o.Phases != want {
		c.t.Errorf("%v, job %v, task %d, sent in way %d:\n%+v by the frontend,\n%+v by the taps", c.now, done.Job,
			o.Task, o.Way, o.Phases, want)
	}
	if x.early && o.Waited != x.started-x.arrived {
		c.t.Errorf("job %v, task %d waited for %v in the queue, by the frontend for %v", done.Job, o.Task,
			x.started-x.arrived, o.Waited)
	}
	if fetch := x.fetchEnded - x.fetchBegan; o.Usage.Fetch != fetch {
		c.t.Errorf("job %v, task %d: files came within %v, by the frontend within %v", done.Job, o.Task, fetch,
			o.Usage.Fetch)
	} else if fetch > 0 {
		c.seen.fetched++
	}
	c.checkEarlier(j, t, o)
	t.isDone = true
	for _, other := range j.tasks { // other tasks may wait for this task
		mustWait := func(before *tappedTask) bool { return !before.isDone && j.awaits(other, before) }
		if other.released < 0 && !slices.ContainsFunc(slices.Collect(maps.Values(j.tasks)), mustWait) {
			other.released = c.now
		}
	}
	c.seen.count(j, x, o, want)
}

// count counts a checked task.
func (n *tappedCounts) count(j *tappedJob, x *tappedAttempt, o *frontend.Outcome, want frontend.Phases) {
	n.all++
	n.ways[o.Way]++
	for i := range o.Earlier {
		n.ends[o.Earlier[i].End]++
	}
	if want.Again > 0 {
		n.inVain++
	}
	if want.Held > 0 {
		n.held++
	}
	if want.Released > 0 {
		n.staged++
	}
	if x.isAdopted {
		n.adopted++
	}
}

// checkEarlier compares the attempts in vain with the taps. If the frontend stopped an attempt, only the worker's
// Started tells the start. Without Started, the moment of sending counts as the start.
func (c *taps) checkEarlier(j *tappedJob, t *tappedTask, o *frontend.Outcome) {
	if len(o.Earlier) != len(t.ended) {
		c.t.Errorf("task %d: %d attempts in vain by the taps, %+v by the frontend", o.Task, len(t.ended), o.Earlier)
		return
	}
	for i, x := range t.ended {
		e := &o.Earlier[i]
		sent, started, ended := max(x.sent-j.submitted, 1), x.started-j.submitted, x.ended-j.submitted
		isExact := e.End == frontend.EndFailed || e.End == frontend.EndPreempted
		if int(e.Worker) != x.worker || e.Sent != sent ||
			isExact && (e.Started != started || e.Ended != ended) ||
			!isExact && (e.Started > 0 && e.Started < sent || e.Ended != x.stopped-j.submitted) {
			c.t.Errorf("task %d, attempt in vain at w%d: sent %v, started %v, ended %v, given up %v by the taps,\n%+v",
				o.Task, x.worker, sent, started, ended, x.stopped-j.submitted, *e)
		}
	}
}

// The phases of each task are the times that messages and runs show, for each policy, mode, class and fate.
func TestPhasesAreTheTimesOfTheTaps(t *testing.T) {
	seen := tappedCounts{ways: map[frontend.Way]int{}, ends: map[frontend.End]int{}}
	run := func(name string, tasks int, play func(t *testing.T) *taps) {
		t.Run(name, func(t *testing.T) {
			c := play(t)
			if c.seen.all != tasks {
				t.Errorf("%d tasks ended, want %d", c.seen.all, tasks)
			}
			for way, n := range c.seen.ways {
				seen.ways[way] += n
			}
			for end, n := range c.seen.ends {
				seen.ends[end] += n
			}
			seen.held, seen.adopted = seen.held+c.seen.held, seen.adopted+c.seen.adopted
			seen.staged, seen.fetched = seen.staged+c.seen.staged, seen.fetched+c.seen.fetched
		})
	}
	best := frontend.Policies[0]
	for _, p := range frontend.Policies {
		for _, takes := range []time.Duration{500 * time.Microsecond, 20 * time.Millisecond, 2 * time.Second} {
			for _, fails := range []bool{false, true} {
				name := p.Name + "/" + takes.String()
				if fails {
					name += "/fails"
				}
				run(name, 20, func(t *testing.T) *taps {
					c := newTaps(t, tapsConfig{})
					c.failsFirst = fails
					for _, hint := range []time.Duration{0, takes} { // with a hint, workers ask ahead
						task := frontend.Task{Retryable: true, Retries: 1, Estimate: hint}
						c.submit(frontend.Job{Policy: p}, 10, takes, task)
						c.playFor(time.Minute)
					}
					if fails && c.seen.inVain != 20 {
						t.Errorf("%d tasks with an attempt in vain", c.seen.inVain)
					}
					return c
				})
			}
		}
		run(p.Name+"/stages", 18, func(t *testing.T) *taps {
			c := newTaps(t, tapsConfig{})
			c.submitTasks(stagedJob(p), 20*time.Millisecond)
			c.playFor(time.Minute)
			if c.seen.staged != 12 {
				t.Errorf("%d tasks waited for a stage", c.seen.staged)
			}
			return c
		})
	}
	for _, mode := range []estimate.Mode{estimate.Auto, estimate.Sample, estimate.Estimate} {
		run(fmt.Sprint("mode ", mode), 10, func(t *testing.T) *taps {
			c := newTaps(t, tapsConfig{})
			c.submit(frontend.Job{Policy: best, Mode: mode}, 10, time.Second, frontend.Task{Estimate: time.Second})
			c.playFor(time.Minute)
			return c
		})
	}
	run("preempted", 8, func(t *testing.T) *taps {
		c := newTaps(t, tapsConfig{})
		c.submit(frontend.Job{Policy: best, Class: frontend.Spare}, 4, time.Second,
			frontend.Task{Retryable: true, Estimate: time.Second})
		c.playFor(300 * time.Millisecond)
		c.submit(frontend.Job{Policy: best}, 4, 500*time.Millisecond, frontend.Task{Estimate: 500 * time.Millisecond})
		c.playFor(time.Minute)
		return c
	})
	run("maximum", 6, func(t *testing.T) *taps {
		c := newTaps(t, tapsConfig{tenants: []tenants.Entry{{Path: "a", Tokens: 1, Max: 1}}})
		c.submit(frontend.Job{Policy: best, Tenant: "a"}, 6, 300*time.Millisecond, frontend.Task{})
		c.playFor(time.Minute)
		if c.seen.held != 5 {
			t.Errorf("%d tasks were held", c.seen.held)
		}
		return c
	})
	for _, retryable := range []bool{false, true} { // beyond the tokens, tasks are yielded or spare
		run(fmt.Sprint("beyond tokens, retryable ", retryable), 6, func(t *testing.T) *taps {
			c := newTaps(t, tapsConfig{tenants: []tenants.Entry{{Path: "a", Tokens: 1}}})
			c.submit(frontend.Job{Policy: best, Tenant: "a", Mode: estimate.Estimate}, 6, time.Second,
				frontend.Task{Estimate: time.Second, Retryable: retryable})
			c.playFor(time.Minute)
			return c
		})
	}
	for _, mode := range []estimate.Mode{estimate.Sample, estimate.Estimate} { // worker 0 is slow
		run(fmt.Sprint("copies, mode ", mode), 8, func(t *testing.T) *taps {
			c := newTaps(t, tapsConfig{workers: []float64{0.01, 1}, copies: 1})
			for range 2 {
				c.submit(frontend.Job{Policy: best, Mode: mode}, 4, time.Second,
					frontend.Task{Retryable: true, Estimate: time.Second})
				c.playFor(10 * time.Minute)
			}
			return c
		})
	}
	run("a worker is lost", 12, func(t *testing.T) *taps {
		c := newTaps(t, tapsConfig{workers: []float64{1, 1, 1}})
		c.submit(frontend.Job{Policy: best}, 12, 300*time.Millisecond, frontend.Task{Retryable: true})
		c.playFor(450 * time.Millisecond)
		c.crashWorker(c.workers[2], true)
		c.playFor(time.Minute)
		return c
	})
	for _, mode := range []estimate.Mode{estimate.Sample, estimate.Estimate} { // nobody takes places for a time
		run(fmt.Sprint("all workers are lost, mode ", mode), 8, func(t *testing.T) *taps {
			c := newTaps(t, tapsConfig{})
			c.submit(frontend.Job{Policy: best, Mode: mode}, 8, 300*time.Millisecond,
				frontend.Task{Retryable: true, Estimate: 300 * time.Millisecond})
			c.playFor(450 * time.Millisecond)
			for _, w := range c.workers {
				c.crashWorker(w, true)
			}
			c.playFor(500 * time.Millisecond)
			for _, w := range c.workers {
				c.startWorker(w)
			}
			c.playFor(time.Minute)
			return c
		})
	}
	for _, n := range []int{1, 2} {
		run(fmt.Sprint("workers join, frontends ", n), 40*n, func(t *testing.T) *taps {
			c := newTaps(t, tapsConfig{workers: []float64{1}, frontends: n})
			for i := range n {
				job := frontend.Job{Policy: best, Mode: estimate.Estimate}
				for range 40 {
					job.Tasks = append(job.Tasks, frontend.Task{Estimate: time.Second})
				}
				c.submitTasksAt(i, job, time.Second)
			}
			c.playFor(3 * time.Second)
			for range 2 {
				c.joinWorker(worker.Config{Capacity: slotsOf(2), Functions: []string{sleepFunction}})
			}
			// At 3 s, six tasks have started; from then on there are six slots.
			ideal := (40*n - 6 + 5) / 6 * int(time.Second)
			c.playFor(time.Duration(ideal) + time.Second)
			return c
		})
	}
	run("results wait for the client", 12, func(t *testing.T) *taps {
		c := newTaps(t, tapsConfig{})
		c.submit(frontend.Job{Policy: best}, 12, 300*time.Millisecond, frontend.Task{})
		c.playFor(100 * time.Millisecond)
		c.setUnread(1, true)
		c.playFor(450 * time.Millisecond)
		c.setUnread(1, false)
		c.playFor(time.Minute)
		return c
	})
	run("a frontend is lost", 13, func(t *testing.T) *taps {
		c := newTaps(t, tapsConfig{frontends: 2})
		job := frontend.Job{Policy: best}
		one := job
		one.Tasks = []frontend.Task{{}}
		c.submitTasksAt(1, one, time.Millisecond) // from then on frontend 1 knows the round trip
		c.playFor(time.Second)
		c.submit(job, 12, 300*time.Millisecond, frontend.Task{Retryable: true})
		c.playFor(450 * time.Millisecond)
		c.crashFrontend(c.frontends[0], true)
		c.playFor(160 * time.Millisecond) // meanwhile some tasks end
		c.moveJobs(1)
		c.playFor(time.Minute)
		return c
	})
	run("shared turns", 180, func(t *testing.T) *taps {
		c := newTaps(t, tapsConfig{})
		for i := range 60 {
			c.submit(frontend.Job{Policy: best}, 3, time.Duration(1+i%7)*3*time.Millisecond, frontend.Task{})
			c.playFor(3 * time.Millisecond)
		}
		c.playFor(time.Minute)
		return c
	})
	run("bundles", 400, func(t *testing.T) *taps {
		c := newTaps(t, tapsConfig{})
		for range 2 {
			c.submit(frontend.Job{Policy: best}, 200, 5*time.Microsecond, frontend.Task{})
			c.playFor(time.Minute)
		}
		return c
	})
	run("inputs", 12, func(t *testing.T) *taps {
		c := newTaps(t, tapsConfig{workers: []float64{1, 1, 1}})
		job := frontend.Job{Policy: best}
		for i := range 12 {
			job.Tasks = append(job.Tasks, frontend.Task{Estimate: 50 * time.Millisecond, Inputs: []frontend.Input{
				{Bytes: 1e6, Copies: []estimate.Copy{{At: fmt.Sprint("h", i%2)}}}}})
		}
		c.submitTasks(job, 50*time.Millisecond)
		c.playFor(time.Minute)
		return c
	})
	run("files", 6, func(t *testing.T) *taps {
		c := newTaps(t, tapsConfig{caches: true})
		c.fetchTime = 300 * time.Millisecond
		c.submit(frontend.Job{Policy: best}, 6, 100*time.Millisecond, frontend.Task{
			Files: []probe.File{{Digest: [32]byte{1}, URL: "http://origin/1", Bytes: 1 << 20}}})
		c.playFor(time.Minute)
		return c
	})
	for way := frontend.WayLate; way <= frontend.WayCopy; way++ {
		if seen.ways[way] == 0 {
			t.Errorf("no task went in way %d: %v", way, seen.ways)
		}
	}
	for _, end := range []frontend.End{
		frontend.EndFailed, frontend.EndPreempted, frontend.EndLost, frontend.EndBeaten, frontend.EndMoved,
	} {
		if seen.ends[end] == 0 {
			t.Errorf("no attempt in vain ended in way %d: %v", end, seen.ends)
		}
	}
	if seen.adopted == 0 || seen.fetched == 0 || seen.held == 0 {
		t.Errorf("%+v", seen)
	}
}

// stagedJob returns a job of three stages with six tasks each. The second stage goes along the first, and the third
// awaits both. The estimates tell the stages apart.
func stagedJob(p frontend.Policy) frontend.Job {
	job := frontend.Job{Policy: p, Stages: []frontend.Stage{{Name: "a"}, {Name: "b", After: []string{"a"},
		Along: []string{"a"}}, {Name: "c", After: []string{"a", "b"}}}}
	for stage := range int32(3) {
		for i := range int32(6) {
			job.Tasks = append(job.Tasks, frontend.Task{Stage: stage, Partition: i / 2,
				Estimate: 20*time.Millisecond + time.Duration(stage)*time.Microsecond})
		}
	}
	return job
}
