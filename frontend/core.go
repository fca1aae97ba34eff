package frontend

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/place"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/list"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// Config is what a Core is told once. Zero fields take the defaults that Defaults documents.
type Config struct {
	ID         probe.FrontendID
	ProbeRatio float64 // reservations per task where the job names none, at least 1

	MaxTasksPerJob int
	MaxPayload     int           // bytes of one task
	MaxPending     int           // tasks without an outcome, over all jobs; of a tenant at most three times what is left
	MaxPayloads    int           // bytes of their payloads; of a tenant likewise
	MaxWait        time.Duration // while a job has waited for its first task for longer than this, and than 20 of its tasks run, further ones of its tenant are refused; negative: no limit

	PoisonAfter  int           // workers that died with a task before it is taken for the cause
	AdriftFor    time.Duration // how long a broken link's attempts wait for it to come back
	ClaimFor     time.Duration // how long workers may take to answer a claim
	StrandedFor  time.Duration // how long a task waits for a worker that could run it to appear
	SyncEvery    time.Duration
	ProbeTimeout time.Duration // early binding: how long a queue length is waited for

	LongTask time.Duration    // from which run time on a task is long, and placed by estimation
	SureFor  time.Duration    // age up to which a wait matrix need not be asked for before something is placed by it; negative: any
	Matcher  estimate.Matcher // of tasks with workers, where they are placed by estimation
	Estimate estimate.Config
}

// Defaults fills the zero fields of c: probe ratio 2, 100,000 tasks in a job, payloads of 1 MiB, 200,000
// pending tasks, 512 MiB of payloads, 1 s of wait, poison after 3 workers, 1 s adrift, 3 s to claim, 10 s stranded, sync every 2 s,
// 100 ms for a queue length, long from 1 s on, sure for 50 ms, stable matching, and those of estimate.Config.
func (c Config) Defaults() Config {
	def := func(p *time.Duration, d time.Duration) {
		if *p == 0 {
			*p = d
		}
	}
	defInt := func(p *int, n int) {
		if *p == 0 {
			*p = n
		}
	}
	if c.ProbeRatio == 0 {
		c.ProbeRatio = 2
	}
	defInt(&c.MaxTasksPerJob, 100_000)
	defInt(&c.MaxPayload, 1<<20)
	defInt(&c.MaxPending, 200_000)
	defInt(&c.MaxPayloads, 512<<20)
	defInt(&c.PoisonAfter, 3)
	def(&c.MaxWait, time.Second)
	def(&c.AdriftFor, time.Second)
	def(&c.ClaimFor, 3*time.Second)
	def(&c.StrandedFor, 10*time.Second)
	def(&c.SyncEvery, 2*time.Second)
	def(&c.ProbeTimeout, 100*time.Millisecond)
	def(&c.LongTask, time.Second)
	def(&c.SureFor, sureFor)
	c.Estimate = c.Estimate.Defaults()
	return c
}

// MaxProbeRatio is the most reservations per task that a job or a frontend may ask for.
const MaxProbeRatio = 10

const (
	// maxHitches is how often a task's launch may come to nothing before it fails.
	maxHitches = 100
	// ackBatch and ackDelay bound how long a result is kept at its worker after it arrived.
	ackBatch = 64
	ackDelay = 50 * time.Millisecond
	// maxWaitRuns is how many times as long as its tasks lately ran a job may have to wait, if that is more than
	// MaxWait: a second is much for tasks of milliseconds, and little for those of a second.
	maxWaitRuns = 20
	// firstLag is how long a job waits for a turn before it samples again, at first; then twice as long each time.
	firstLag = 50 * time.Millisecond
	maxLag   = 10 * time.Second
	// spareFor is how long a place that its job needs no more is kept for other jobs: longer than a round trip, so
	// that a worker which asks meanwhile does not ask in vain, and so long that one message cancels several.
	spareFor = time.Millisecond
	// startRetry is the retry-after while no worker is linked yet.
	startRetry = 100 * time.Millisecond
)

// Worker names a worker's link.
type Worker = view.Key

// Event is what a Core is told: one of Listed, WorkerUp, LinkLost, WorkerGone, Received, Frame, Heard, Submit, Cancel,
// Delivered, Dropped, Leave, Wake.
type Event interface{ event() }

// WorkerUp: a link was made, for the first time or again.
type WorkerUp struct {
	Worker  Worker
	Welcome probe.Welcome
}

// LinkLost: a link broke, and is being made again.
type LinkLost struct{ Worker Worker }

// Listed: there is a worker at this address, to which a link is to be made.
type Listed struct {
	Worker  Worker
	Address string
}

// WorkerGone: the worker refuses connections, is silent for its lease, or was taken off the list.
type WorkerGone struct {
	Worker Worker
	Off    bool // the list
}

// Received: a message came from a worker.
type Received struct {
	Worker Worker
	Msg    probe.Msg
}

// Frame: these messages came from a worker at once, in this order. The core does not keep the slice.
type Frame struct {
	Worker Worker
	Msgs   []probe.Msg
}

// Heard: gossip tells of a worker.
type Heard view.Rumour

// Submit a job, whose id is not under way. The core owns it from here on.
type Submit struct{ Job *Job }

// Cancel a job.
type Cancel struct {
	Job    probe.JobID
	Reason string
}

// Delivered: clients have the outcomes that these receipts came with, or do without; the workers may forget the results.
// Until then they keep them for whoever claims the job, should this frontend be lost.
type Delivered struct{ Receipts []Receipt }

// Dropped: it is not known whether clients have the outcomes that these receipts came with, and nothing is kept of them
// here any more.
type Dropped struct{ Receipts []Receipt }

// Leave: accept nothing new.
type Leave struct{}

// Wake: the time that NextWake named has come.
type Wake struct{}

func (WorkerUp) event()   {}
func (LinkLost) event()   {}
func (WorkerGone) event() {}
func (Listed) event()     {}
func (Delivered) event()  {}
func (Dropped) event()    {}
func (Received) event()   {}
func (Frame) event()      {}
func (Heard) event()      {}
func (Submit) event()     {}
func (Cancel) event()     {}
func (Leave) event()      {}
func (Wake) event()       {}

// Action is what the shell must do: one of Send, Accepted, Refused, Done, Ended, Moved and Collect.
type Action interface{ action() }

// Send a message to a worker; it may be lost if the link breaks.
type Send struct {
	Worker  Worker
	Msg     probe.Msg
	MayWait bool // up to LingerFor, for others to travel with: sending costs more than what is sent
}

// LingerFor is how long a message that may wait does, if no other one leaves on its connection before.
const LingerFor = 500 * time.Microsecond

// Accepted answers a Submit. Outcomes of the job may follow in the same step.
type Accepted struct{ Job probe.JobID }

// Refused answers a Submit.
type Refused struct {
	Job probe.JobID
	Err *RefusedError
}

// Done reports a task's outcome; there is one for each task of an accepted job that does not move.
type Done struct {
	Job     probe.JobID
	Outcome Outcome
}

// Ended: every task of the job has its outcome, and the core has forgotten it.
type Ended struct{ Job probe.JobID }

// Moved: the job's client has gone to another frontend, which has claimed it. The core has forgotten it.
type Moved struct{ Job probe.JobID }

// Collect: the worker leaves, and waits for all of its results to be acknowledged. The receipts that there are of it
// are to be told as Delivered.
type Collect struct{ Worker Worker }

func (Send) action()     {}
func (Accepted) action() {}
func (Refused) action()  {}
func (Done) action()     {}
func (Ended) action()    {}
func (Moved) action()    {}
func (Collect) action()  {}

// Stats counts what a core has done since it was made.
type Stats struct {
	Jobs, Tasks, Refusals                                               uint64
	Places, Rides, RidesStarted, Binds, Kept, Shared, Declines, Cancels uint64
	Offers, Resamples, Retries, Losses, Claims, Adopted, Lost, Poisons  uint64
	NeverStarted                                                        uint64 // tasks that may start only once, of a job that was claimed
	Outcomes                                                            [DeadlineExceeded + 1]uint64

	Estimated, Batches, Enqueued, Leftovers, Asked uint64 // tasks placed by estimation
}

// Core is a frontend's state. It is not safe for concurrent use; one history of events and one seed have
// one outcome.
type Core struct {
	cfg     Config
	rand    *rand.Rand
	leaving bool

	view    *view.View
	workers []*worker // by Worker; nil where there never was one
	sampler *place.Sampler
	scratch place.Want
	wants   []*job // what this step has left to be planned
	wantAll bool   // so it has for all jobs with waiting tasks: there is room that there was not

	spareAt time.Time // when the spare places are cancelled; zero if there are none
	sparing []*worker // those with spare places

	jobs     map[probe.JobID]*job
	byWake   pq.Heap[*job]
	byTimer  pq.Heap[*worker]
	tenants  map[string]*tenant
	users    map[*view.Set]list.List[*group] // groups of jobs under way
	unserved map[waiters][]*job              // those that wait for their first task, oldest first, and some that no longer do
	hungry   hungry
	rounds   rounds
	long     long
	nears    list.List[*near] // of the jobs under way
	ripening pq.Heap[*shelf]  // of those, the ones with tasks that are to be taken only later
	staging  []*job           // jobs with stages of which one has ended or failed in this step
	pending  int              // tasks without an outcome
	payloads int              // bytes, of those
	running  int              // of those, at a worker
	attempts uint64

	// Stats may be read between steps, as may how good the estimates of the tasks were that were placed by them: of
	// the wait at the worker, and of the run.
	Stats       Stats
	Waits, Runs estimate.Accuracy
}

// New makes a core that knows no worker. It owns rng.
func New(cfg Config, rng *rand.Rand) *Core {
	cfg = cfg.Defaults()
	c := &Core{
		cfg:      cfg,
		rand:     rng,
		view:     view.New(cfg.Estimate, rng),
		tenants:  map[string]*tenant{},
		users:    map[*view.Set]list.List[*group]{},
		unserved: map[waiters][]*job{},
		jobs:     map[probe.JobID]*job{},
		rounds:   rounds{bySeq: map[uint64]*round{}},
		long:     long{asked: map[*worker]bool{}},
	}
	c.sampler = place.NewSampler(c.view, rng)
	return c
}

// Step applies ev at now and appends what the shell must do, in order, to acts. It never blocks and reads
// no clock. now must not go back.
func (c *Core) Step(now time.Time, ev Event, acts []Action) []Action {
	switch ev := ev.(type) {
	case Received:
		acts = c.receive(ev.Worker, []probe.Msg{ev.Msg}, now, acts)
	case Frame:
		acts = c.receive(ev.Worker, ev.Msgs, now, acts)
	case Submit:
		acts = c.submit(ev.Job, now, acts)
	case Cancel:
		if j := c.jobs[ev.Job]; j != nil {
			acts = c.endAll(j, Outcome{Kind: Cancelled, Message: ev.Reason}, now, acts)
		}
	case Heard:
		if w := c.worker(ev.Worker); w != nil {
			c.view.Rumoured(w.Worker, (*view.Rumour)(&ev), now)
			if !w.Up() {
				c.turn()
				c.nearGone(w)
				delete(c.long.asked, w)
			}
		}
	case WorkerUp:
		acts = c.workerUp(ev, now, acts)
	case LinkLost:
		if w := c.worker(ev.Worker); w != nil {
			acts = c.linkLost(w, now, acts)
		}
	case Listed:
		c.view.List(c.known(ev.Worker).Worker, ev.Address)
	case WorkerGone:
		if w := c.worker(ev.Worker); w != nil {
			acts = c.workerGone(w, now, acts)
			if ev.Off {
				c.view.Unlist(w.Worker, now)
			}
		}
	case Delivered:
		acts = c.delivered(ev.Receipts, now, acts)
	case Dropped:
		acts = c.dropped(ev.Receipts, acts)
	case Leave:
		acts = c.leave(acts)
	case Wake:
		acts = c.wake(now, acts)
	default:
		panic(fmt.Sprintf("frontend: unknown event %T", ev))
	}
	acts = c.plan(now, acts)
	if len(c.staging) > 0 {
		acts = c.advance(now, acts)
	}
	if c.long.due.Len() > 0 {
		acts = c.placeLong(now, acts)
	}
	return acts
}

// receive takes in what a worker says at once. Only then is it planned what follows: of ten results the last one tells how
// much room there is.
func (c *Core) receive(from Worker, msgs []probe.Msg, now time.Time, acts []Action) []Action {
	w := c.worker(from)
	if len(msgs) == 0 || w == nil || !w.Linked() {
		return acts
	}
	for _, m := range msgs {
		switch m.(type) {
		case probe.Refused, probe.Evicted: // whose reason is true of the jobs that want something because of it, of no others
			acts = c.plan(now, acts)
		}
		acts = c.take(w, m, now, acts)
	}
	return c.offer(w, now, c.plan(now, acts))
}

func (c *Core) take(w *worker, msg probe.Msg, now time.Time, acts []Action) []Action {
	switch m := msg.(type) {
	case probe.Ready:
		c.heard(w, m.Load, now)
		acts = c.ready(w, &m, now, acts)
	case probe.Finished:
		c.heard(w, m.Load, now)
		acts = c.finished(w, &m, now, acts)
	case probe.Queued:
		c.view.CountedPlaces(w.Worker, m.First, m.Count)
		c.heard(w, m.Load, now)
		c.queued(w, &m)
	case probe.Started:
		c.view.Counted(w.Worker, m.Attempt)
		c.heard(w, m.Load, now)
		acts = c.started(w, &m, acts)
	case probe.Refused:
		c.heard(w, m.Load, now)
		acts = c.refused(w, &m, now, acts)
	case probe.Evicted:
		acts = c.evicted(w, &m, now, acts)
	case probe.Gone:
		acts = c.gone(w, &m, now, acts)
	case probe.Claimed:
		acts = c.claimed(w, &m, now, acts)
	case probe.Load:
		c.heard(w, m, now)
		acts = c.measured(w, m, now, acts)
	case probe.Pong:
		c.heard(w, m.Load, now)
	case probe.Drain:
		c.drain(w)
		acts = append(acts, Collect{w.Key})
	default:
		// Welcome and Rejected are the shell's; anything else a worker does not say.
	}
	return acts
}

// NextWake is when Wake is due, or zero if nothing waits for the time to pass.
func (c *Core) NextWake() time.Time {
	var at time.Time
	soonest := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if c.byWake.Len() > 0 {
		soonest(c.byWake.Min().wakeAt)
	}
	if c.byTimer.Len() > 0 {
		soonest(c.byTimer.Min().wakeAt)
	}
	soonest(c.rounds.deadline())
	soonest(c.spareAt)
	if c.ripening.Len() > 0 {
		soonest(c.ripening.Min().green.Min().from)
	}
	batch, task := c.long.next()
	soonest(batch)
	soonest(task)
	return at
}

func (c *Core) wake(now time.Time, acts []Action) []Action {
	for c.byWake.Len() > 0 && !now.Before(c.byWake.Min().wakeAt) {
		acts = c.plan(now, c.wakeJob(c.byWake.Min(), now, acts))
	}
	for c.byTimer.Len() > 0 && !now.Before(c.byTimer.Min().wakeAt) {
		acts = c.wakeWorker(c.byTimer.Min(), now, acts)
	}
	if !c.spareAt.IsZero() && !now.Before(c.spareAt) {
		acts = c.cancelSpare(acts)
	}
	c.wakeLong(now)
	c.ripenAll(now)
	return c.expireRounds(now, acts)
}

// submit admits a job and places its tasks.
func (c *Core) submit(spec *Job, now time.Time, acts []Action) []Action {
	j, err := c.admit(spec, now)
	if err != nil {
		c.Stats.Refusals++
		return append(acts, Refused{spec.ID, err})
	}
	c.jobs[j.ID] = j
	for _, g := range j.groups {
		c.use(g)
		if g.near != nil {
			c.nears.Push(g.near)
		}
	}
	c.Stats.Jobs++
	c.Stats.Tasks += uint64(j.left)
	acts = append(acts, Accepted{j.ID})
	if j.Generation > 0 {
		acts = c.claim(j, now, acts)
	} else {
		for _, g := range j.groups {
			if g.path == estimate.Estimation {
				c.Stats.Estimated += uint64(g.queue.Len())
			}
			if c.block(g) {
				continue
			}
			if g.path == estimate.Estimation {
				c.estimateAll(g)
			}
		}
	}
	c.want(j)
	return acts
}

// maxSampledGroups bounds the groups of a job that are sampled, besides one for each stage: messages of the job look at
// all of them.
const maxSampledGroups = 256

// group checks the tasks and sorts them by what they demand of a worker.
func (c *Core) group(j *job) *RefusedError {
	invalid := func(i int, format string, args ...any) *RefusedError {
		return &RefusedError{Reason: Invalid, Message: fmt.Sprintf("task %d: ", j.Tasks[i].Index) + fmt.Sprintf(format, args...)}
	}
	if err := j.Constraint.Validate(); err != nil {
		return &RefusedError{Reason: Invalid, Message: "job constraint: " + err.Error()}
	}
	var last *group
	var lastSpec *Task
	type kind struct {
		set   string
		path  estimate.Path
		stage int32
		near  bool
	}
	groups, sampled := map[kind]*group{}, 0
	for i := range j.Tasks {
		t := &j.Tasks[i]
		if t.Demand.CPU == 0 {
			t.Demand.CPU = probe.Slot.CPU
		}
		if t.Demand.Mem == 0 {
			t.Demand.Mem = probe.Slot.Mem
		}
		if j.byIndex == nil && t.Index != probe.TaskIndex(i) {
			j.byIndex = make(map[probe.TaskIndex]*task, len(j.Tasks))
			for k := range i {
				j.byIndex[j.Tasks[k].Index] = &j.tasks[k]
			}
		}
		switch {
		case j.byIndex[t.Index] != nil:
			return invalid(i, "two tasks have this index: give each its own")
		case t.Function == "":
			return invalid(i, "no function is named")
		case len(t.Payload) > c.cfg.MaxPayload:
			return &RefusedError{Reason: TooBigJob, Message: fmt.Sprintf("task %d: payload of %d bytes, the limit is %d: pass a reference to the data instead", t.Index, len(t.Payload), c.cfg.MaxPayload)}
		case t.Demand.CPU < 0 || t.Demand.Mem < 0:
			return invalid(i, "demand of %v: give positive numbers", t.Demand)
		case t.Estimate < 0 || t.Timeout < 0:
			return invalid(i, "estimate %v, timeout %v: neither may be negative", t.Estimate, t.Timeout)
		case t.Retries < 0:
			return invalid(i, "%d retries: give 0 or more", t.Retries)
		}
		j.payloads += len(t.Payload)
		if len(t.Inputs)+len(t.Files) > 0 {
			if err := t.checkNeeds(); err != nil {
				return invalid(i, "%v", err)
			}
		}
		same := last != nil && t.Stage == lastSpec.Stage && t.Function == lastSpec.Function && t.Demand == lastSpec.Demand && !t.needy() && !lastSpec.needy() &&
			c.class(last.Runs.Correct(t.Estimate)) == c.class(last.Runs.Correct(lastSpec.Estimate))
		if j.byIndex != nil {
			j.byIndex[t.Index] = &j.tasks[i]
		}
		if !same {
			if err := t.Constraint.Validate(); err != nil {
				return invalid(i, "%v", err)
			}
			path, why := c.route(&j.Job, t)
			if path == estimate.Sampling && len(t.Files) > 0 && j.Policy.Binding == Late {
				return invalid(i, "it needs files, which are fetched only for tasks that are bound early: leave out mode sample and policy %s", j.Policy.Name)
			}
			need := view.Need{Function: t.Function, Demand: t.Demand, Files: len(t.Files) > 0, Of: j.Constraint, Own: t.Constraint}
			key := need.Key()
			near := path == estimate.Sampling && c.cares(&j.Job, t)
			last = groups[kind{key, path, t.Stage, near}]
			if last == nil && path == estimate.Sampling {
				if sampled++; sampled > maxSampledGroups+len(j.stages) {
					if j.Mode != estimate.Auto || !j.Policy.Route {
						return &RefusedError{Reason: TooBigJob, Message: fmt.Sprintf("the tasks of the job demand workers of more than %d kinds, too many to sample those of each: leave out mode sample and policy %s, or split the job", maxSampledGroups, j.Policy.Name)}
					}
					path, near, why.Cause = estimate.Estimation, false, estimate.ByKinds
					last = groups[kind{key, path, t.Stage, near}]
				}
			}
			if last == nil {
				set := c.view.Set(key)
				if set == nil {
					set = c.view.MakeSet(key, need, c.inUse(j))
				}
				if set.Len() == 0 {
					return c.noWorker(t, j.Constraint)
				}
				last = &group{job: j, index: len(j.groups), path: path, number: int(t.Stage), why: why, Kind: place.Kind{
					Policy: &j.Policy, Set: set, Demand: t.Demand, Runs: c.view.Runs(t.Function), Ratio: j.ProbeRatio, Of: len(j.Tasks),
				}}
				if path == estimate.Estimation {
					last.stage = &estimate.Stats{}
				}
				if near {
					c.makeNear(last)
				}
				groups[kind{key, path, t.Stage, near}] = last
				j.groups = append(j.groups, last)
			}
			lastSpec = t
		}
		if last.near == nil {
			last.Add(t.Estimate, 0, len(t.Payload))
		} else {
			last.Add(t.Estimate, c.farReads(t), len(t.Payload))
			last.near.came(&j.tasks[i])
		}
		j.tasks[i] = task{spec: t, group: last}
		last.queue.Push(&j.tasks[i])
		j.waiting++
	}
	for _, g := range j.groups {
		g.estimate = g.Estimate()
		g.Sticky = j.Policy.Sticky && !g.Short(c.view.Trip())
	}
	if len(j.stages) > 0 {
		j.sortGroups()
	}
	return nil
}

// wakeJob acts on what a job waited for.
func (c *Core) wakeJob(j *job, now time.Time, acts []Action) []Action {
	if !j.deadline.IsZero() && !now.Before(j.deadline) {
		return c.overdue(j, now, acts)
	}
	if !j.claimUntil.IsZero() && !now.Before(j.claimUntil) {
		acts = c.plan(now, c.unclaimed(j, now, acts))
	}
	if !j.stranded.IsZero() && now.Sub(j.stranded) >= c.cfg.StrandedFor {
		j.stranded = time.Time{}
		for i := range j.tasks {
			t := &j.tasks[i]
			if (t.state == waiting || t.state == matching) && t.group.Set.Len() == 0 {
				acts = c.end(t, Outcome{Kind: Failed, Failure: NoWorker, Message: fmt.Sprintf("every worker that could run it has been away for %v", c.cfg.StrandedFor)}, now, acts)
			}
		}
	}
	switch {
	case j.ended:
	case !j.retryAt.IsZero() && !now.Before(j.retryAt):
		j.retryAt = time.Time{}
		c.want(j)
	case !j.lagAt.IsZero() && !now.Before(j.lagAt):
		acts = c.resample(j, now, acts)
	}
	c.settle(j, now)
	return acts
}

// overdue ends a job at its deadline.
func (c *Core) overdue(j *job, now time.Time, acts []Action) []Action {
	why := fmt.Sprintf("not finished within %v", j.Deadline)
	if !j.stranded.IsZero() {
		why += fmt.Sprintf(", as every worker that could run it has been away for %v", now.Sub(j.stranded).Round(time.Millisecond))
	}
	return c.endAll(j, Outcome{Kind: DeadlineExceeded, Message: why}, now, acts)
}

// settle makes the job's timer fit its state: called at the end of every step that changed it. A job that wants something
// is settled when that is planned.
func (c *Core) settle(j *job, now time.Time) {
	if j.wants {
		return
	}
	var at time.Time
	soonest := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	c.hungry.update(j)
	if !j.ended {
		if !j.deadline.IsZero() {
			soonest(j.deadline)
		}
		if !j.claimUntil.IsZero() {
			soonest(j.claimUntil)
		}
		switch {
		case j.waiting == 0:
			j.lagAt, j.retryAt = time.Time{}, time.Time{}
		case !j.retryAt.IsZero():
			j.lagAt = time.Time{}
			soonest(j.retryAt)
		case j.Policy.Resample:
			if j.lagAt.IsZero() {
				j.lagAt = now.Add(j.lag)
			}
			soonest(j.lagAt)
		}
		if !c.strandedJob(j) {
			j.stranded = time.Time{}
		} else if j.stranded.IsZero() {
			j.stranded = now
		}
		if !j.stranded.IsZero() {
			soonest(j.stranded.Add(c.cfg.StrandedFor))
		}
	}
	switch {
	case at.IsZero():
		c.byWake.Remove(j)
	case j.pos == 0:
		j.wakeAt = at
		c.byWake.Push(j)
	case !at.Equal(j.wakeAt):
		j.wakeAt = at
		c.byWake.Fix(j)
	}
}

func (c *Core) strandedJob(j *job) bool {
	return slices.ContainsFunc(j.lone, func(g *group) bool { return g.queue.Len()+g.matching > 0 })
}

// Pending is how many tasks have no outcome yet, and how many of those are at a worker.
func (c *Core) Pending() (pending, running int) { return c.pending, c.running }

// Waiting is how many tasks of a job wait for a place's turn.
func (c *Core) Waiting(id probe.JobID) int {
	if j := c.jobs[id]; j != nil {
		return j.waiting
	}
	return 0
}

// Jobs is how many jobs are under way.
func (c *Core) Jobs() int { return len(c.jobs) }
