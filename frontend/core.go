package frontend

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/place"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/fair"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// Core is a frontend's state. A Core is not safe for concurrent use. The same history of events with the same seed
// has the same outcome.
//
// The state is built in floors: jobs, ledger, planner, Core. Each floor stands on the floor below. Core tells events
// to the lower floors, plans the work that an event left to be done, and runs the timers. Between two steps a caller
// may read Stats. A caller may then also read Waits and Runs, which hold how accurate the estimates were.
type Core struct{ planner }

// New makes a core without workers. The core owns rng.
func New(cfg Config, rng *rand.Rand) *Core {
	cfg = cfg.Defaults()
	v := view.New(cfg.Estimate, rng)
	all := map[string]*tenant{}
	return &Core{planner{
		ledger: ledger{jobs: jobs{
			cfg:     cfg,
			view:    v,
			byID:    map[probe.JobID]*job{},
			tenants: all,

			batchQueue:   newTaskLine(all, func(t *tenant) *fair.Account[*longTask] { return &t.accounts.due }),
			roomSleepers: newTaskLine(all, func(t *tenant) *fair.Account[roomSleeper] { return &t.accounts.room }),

			refusals:   refusals{byTenant: map[string]*tenantRefusals{}},
			rateClocks: map[string]time.Time{},
			quotas:     tenants.NewQuotas(),
			setUsers:   map[*view.Set]list.List[*group]{},
			moversOf:   map[*view.Set]int{},
			unserved:   map[waitKey]*unserved{},
		}},
		rand:    rng,
		sampler: place.NewSampler(v, rng),
		rounds:  rounds{bySeq: map[uint64]*round{}},
	}}
}

// Step applies ev at now, and appends the actions that the shell must carry out, in order, to acts. Step never
// blocks and reads no clock. The time now must not go back. The actions use memory of the core, and are valid until
// the next Step.
func (c *Core) Step(now time.Time, ev Event, acts []Action) []Action {
	c.lent.done.TakeBack()
	c.lent.launches.TakeBack()
	c.view.ForgetOldLessons(now)
	switch ev := ev.(type) {
	case Frame:
		acts = c.receiveMsgs(ev.Worker, ev.Msgs, now, acts)
	case Submit:
		acts = c.submitJob(ev.Job, now, acts)
	case Extend:
		acts = c.extendJob(&ev, now, acts)
	case Outdated:
		if j := c.byID[ev.Job]; j != nil {
			acts = c.dropMovedJob(j, now, acts)
		}
	case Cancel:
		if j := c.byID[ev.Job]; j != nil {
			acts = c.endAllTasks(j, Outcome{Kind: Cancelled, Message: ev.Reason}, now, acts)
		}
	case CancelTasks:
		for _, index := range ev.Tasks {
			if t := c.findTask(ev.Job, index); t != nil && t.state != done {
				acts = c.stopTask(t, Outcome{Kind: Cancelled, Message: ev.Reason, Unwanted: true}, now, acts)
				c.wantAllPlaces(t.group.job) // the plan also refreshes the job, which may be at its tail now
			}
		}
	case Unread:
		if j := c.byID[ev.Job]; j != nil && j.paused != ev.Full {
			if c.setPaused(j, ev.Full, now); ev.Full && j.Policy.Cancel {
				acts = c.cancelPlaces(j, now, acts)
			}
		}
	case Heard:
		if w := c.workerByKey(ev.Worker); w != nil {
			c.view.NoteRumour(w.Worker, (*view.Rumour)(&ev), now)
			if !w.Up() {
				c.noteNotUp(w)
			}
			acts = c.useRoom(w, now, acts)
			c.planMoveAsk(w, now)
		}
	case WorkerUp:
		acts = c.bringWorkerUp(ev, now, acts)
	case LinkLost:
		if w := c.workerByKey(ev.Worker); w != nil {
			acts = c.loseLink(w, now, acts)
		}
	case Listed:
		c.view.NoteListed(c.ensureWorker(ev.Worker).Worker, ev.Address)
	case WorkerGone:
		if w := c.workerByKey(ev.Worker); w != nil {
			acts = c.loseWorker(w, now, acts)
			if ev.Off {
				c.view.NoteUnlisted(w.Worker, now)
			}
		}
	case Delivered:
		acts = c.ackDelivered(ev.Receipts, now, acts)
	case Dropped:
		acts = c.disownDropped(ev.Receipts, acts)
	case Leave:
		acts = c.startLeaving(acts)
	case Busy:
		c.view.NoteMessageCost(ev.Message, ev.Share)
	case Terms:
		c.setTerms(ev.File)
	case Others:
		c.updateQuotas(&ev, now)
	case Lessons:
		c.view.TakeLessons(ev.List, now)
	case Wake:
		acts = c.runTimers(now, acts)
	default:
		panic(fmt.Sprintf("frontend: unknown event %T", ev))
	}
	acts = c.planWants(now, acts)
	if len(c.jobsToAdvance)+len(c.freedTasks) > 0 {
		acts = c.planWants(now, c.advanceStages(now, acts))
	}
	if c.batchQueue.Len() > 0 || !c.batch.answersUntil.IsZero() {
		acts = c.placeLong(now, acts)
	} else {
		c.batch.notBefore = time.Time{} // the tasks left over by the last batch were cancelled: no task need wait
	}
	return acts
}

// receiveMsgs takes in all messages of a frame, and plans afterwards. If a frame brings ten results, only the last
// says how much room the worker has now.
func (c *Core) receiveMsgs(from Worker, msgs []probe.Msg, now time.Time, acts []Action) []Action {
	w := c.workerByKey(from)
	if len(msgs) == 0 || w == nil || !w.Linked() {
		return acts
	}
	for _, m := range msgs {
		switch m.(type) {
		case probe.Refused, probe.Evicted:
			// The handler takes the jobs with wants for the refused jobs, and puts off or drops them all. So the
			// wants of earlier messages are planned first.
			acts = c.planWants(now, acts)
		}
		acts = c.handleMsg(w, m, now, acts)
	}
	acts = c.offerTasks(w, now, c.planWants(now, acts))
	return c.moveToRoom(w, now, c.useRoom(w, now, acts))
}

// handleMsg tells a worker's message to the lower floors. Nothing is planned yet, with two exceptions: a turn is
// answered at once, and the last answer to a round binds the tasks of the round.
func (c *Core) handleMsg(w *worker, msg probe.Msg, now time.Time, acts []Action) []Action {
	switch m := msg.(type) {
	case probe.Ready:
		c.noteLoad(w, &m.Load, now)
		acts = c.handleReady(w, &m, now, acts)
	case *probe.Finished:
		c.noteLoad(w, &m.Load, now)
		acts = c.handleFinished(w, m, now, acts)
	case probe.Queued:
		c.view.DropPromises(w.Worker, m.First, m.Count)
		c.noteLoad(w, &m.Load, now)
		acts = c.handleQueued(w, &m, now, acts)
		c.recheckSoon(w, &m, now)
		c.seekRoom(w, &m, now)
	case probe.Started:
		c.view.DropPromise(w.Worker, m.Attempt)
		c.noteLoad(w, &m.Load, now)
		acts = c.handleStarted(w, &m, now, acts)
	case probe.Refused:
		c.noteLoad(w, &m.Load, now)
		acts = c.handleRefused(w, &m, now, acts)
	case probe.Evicted:
		acts = c.handleEvicted(w, &m, now, acts)
	case probe.Gone:
		acts = c.handleGone(w, &m, now, acts)
	case probe.Claimed:
		acts = c.handleClaimed(w, &m, now, acts)
	case probe.Load:
		c.noteLoad(w, &m, now)
		acts = c.handleQueueLength(w, m, now, acts)
	case probe.Pong:
		c.noteLoad(w, &m.Load, now)
		c.noteExpectedStarts(w, m.Expect, now)
		w.noteProgress(m.Progress, now)
		c.noteUses(w, m.Uses)
		c.view.NotePace(w.Worker, float64(m.Pace)/1000)
	case probe.Cache:
		c.noteCache(w, m.Problem)
	case probe.Drain:
		c.noteDraining(w)
		acts = append(acts, Collect{w.Key})
	default:
		// Welcome and Rejected are for the shell. Workers send no other messages.
	}
	return acts
}

// NextWake returns the time of the next Wake, or zero if no timer is set.
func (c *Core) NextWake() time.Time {
	var at time.Time
	soonest := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if c.jobTimers.Len() > 0 {
		soonest(c.jobTimers.Min().wakeAt)
	}
	if c.workerTimers.Len() > 0 {
		soonest(c.workerTimers.Min().wakeAt)
	}
	soonest(c.rounds.nextDeadline())
	soonest(c.withdrawAt)
	if c.ripeningShelves.Len() > 0 {
		soonest(c.ripeningShelves.Min().green.Min().ripeAt)
	}
	if c.restingTasks.Len() > 0 {
		soonest(c.restingTasks.Min().restUntil)
	}
	batch, task := c.nextLongWakes()
	soonest(batch)
	soonest(task)
	return at
}

// runTimers runs all timers that are due.
func (c *Core) runTimers(now time.Time, acts []Action) []Action {
	for c.jobTimers.Len() > 0 && !now.Before(c.jobTimers.Min().wakeAt) {
		acts = c.planWants(now, c.wakeJob(c.jobTimers.Min(), now, acts))
	}
	for c.workerTimers.Len() > 0 && !now.Before(c.workerTimers.Min().wakeAt) {
		acts = c.wakeWorker(c.workerTimers.Min(), now, acts)
	}
	if !c.withdrawAt.IsZero() && !now.Before(c.withdrawAt) {
		acts = c.withdrawSurplus(acts)
	}
	c.wakeRested(now)
	c.wakeLong(now)
	c.ripenShelves(now)
	return c.expireRounds(now, acts)
}

// submitJob admits a job and lets its tasks be placed, or refuses the job.
func (c *Core) submitJob(spec *Job, now time.Time, acts []Action) []Action {
	j, err := c.admitJob(spec, now)
	if err != nil {
		c.Stats.Refusals++
		c.refusals.addRefusal(spec.Tenant)
		return append(acts, Refused{spec.ID, err})
	}
	c.Stats.Jobs++
	c.Stats.Tasks += uint64(j.unfinished)
	acts = append(acts, Accepted{j.ID})
	if j.Generation > 0 { // the job was at another frontend, so workers may have attempts
		acts = c.claimJob(j, now, acts)
	} else {
		c.beginGroups(j.groups, now)
	}
	c.wantAllPlaces(j)
	return acts
}

// beginGroups puts the tasks of new groups into their first states.
func (c *Core) beginGroups(groups []*group, now time.Time) {
	for _, g := range groups {
		if g.path == estimate.Estimation {
			c.Stats.Estimated += uint64(g.queue.Len())
		}
		if c.blockGroup(g) {
			continue
		}
		c.addUnserved(g, now)
		c.holdGroup(g, now)
		if g.path == estimate.Estimation {
			c.startMatchingAll(g)
		}
	}
}

// extendJob adds new stages and tasks to a job under way. A repeated Extend adds nothing.
func (c *Core) extendJob(ev *Extend, now time.Time, acts []Action) []Action {
	j := c.byID[ev.Job]
	if j == nil {
		return acts
	}
	n, before := len(ev.Tasks), j.totalTasks
	if repeated := ev.From < before && ev.From+n <= before; !repeated && n+len(ev.Stages) > 0 {
		x, err := c.makeAddition(j, ev)
		if err != nil {
			return append(acts, Extended{Job: j.ID, Tasks: j.totalTasks, Err: err})
		}
		c.Stats.Tasks += uint64(n)
		c.applyAddition(j, x, now)
		c.beginGroups(x.groups, now) // no claim: no worker can have attempts at new tasks
		c.wantAllPlaces(j)
	}
	acts = append(acts, Extended{Job: j.ID, Tasks: j.totalTasks, Added: j.totalTasks - before})
	if ev.Last {
		if j.endAdditions(); j.unfinished == 0 {
			acts = c.endJob(j, now, acts)
		}
	}
	return acts
}

// wakeJob runs the job's timers that are due. Of retryAt, resampleAt and tailAt only one timer runs. If another is due,
// the next Wake follows at once.
func (c *Core) wakeJob(j *job, now time.Time, acts []Action) []Action {
	if !j.deadline.IsZero() && !now.Before(j.deadline) {
		return c.endOverdue(j, now, acts)
	}
	if !j.claimUntil.IsZero() && !now.Before(j.claimUntil) {
		acts = c.planWants(now, c.settleUnclaimed(j, now, acts))
	}
	if len(j.confirmers) > 0 && !now.Before(j.confirmUntil) {
		j.endConfirming(now)
		acts = c.planWants(now, acts)
	}
	if !j.strandedSince.IsZero() && now.Sub(j.strandedSince) >= c.cfg.StrandedFor {
		acts = c.endStranded(j, now, acts)
	}
	switch {
	case j.ended:
	case !j.retryAt.IsZero() && !now.Before(j.retryAt):
		c.retryJob(j)
	case !j.resampleAt.IsZero() && !now.Before(j.resampleAt):
		acts = c.resampleJob(j, now, acts)
	case !j.tailAt.IsZero() && !now.Before(j.tailAt):
		acts = c.lookAtTail(j, now, acts)
	}
	c.refreshJob(j, now)
	return acts
}

// Pending counts the tasks without an outcome, and the attempts that run, as far as the frontend knows. Attempts in
// queues of workers do not count as running.
func (c *Core) Pending() (pending, running int) { return c.pending, c.runningAttempts }

// Oldest returns the submission time of the oldest job without a started task at now, or zero if each job has one. If
// MaxWait is negative, the core does not keep track, and Oldest returns zero. Oldest writes to the core: it first
// counts jobs as served whose rides did not come back within a round trip.
func (c *Core) Oldest(now time.Time) (since time.Time) {
	c.presumeStarted(now)
	for key := range c.unserved {
		if u := c.forgetServed(key); u != nil && (since.IsZero() || u.jobs[0].submitted.Before(since)) {
			since = u.jobs[0].submitted
		}
	}
	return since
}

// Load returns the state of a worker's link, and the capacity and the load that the worker reported last. Callers
// must not write to load.
func (c *Core) Load(key Worker) (state string, capacity probe.Demand, load *probe.Load) {
	w := c.workerByKey(key)
	if w == nil {
		return view.Down.String(), probe.Demand{}, &probe.Load{}
	}
	return w.State().String(), w.Welcome().Capacity, w.Load()
}

// Waiting counts the tasks of a job that wait for a place's turn.
func (c *Core) Waiting(id probe.JobID) int {
	if j := c.byID[id]; j != nil {
		return j.waiting
	}
	return 0
}

// IsUpToDate reports whether this frontend knows all tasks of a job that is submitted again. A job under way here is
// not up to date if the client has added tasks, or the end of the job, at another frontend. Then the caller must drop
// the job by an Outdated event. A job that is not under way counts as up to date.
func (c *Core) IsUpToDate(spec *Job) bool {
	j := c.byID[spec.ID]
	return j == nil || j.totalTasks >= spec.Had && (spec.Open || !j.Open)
}

// Stages returns the stages of a job under way, or nil. Callers must not write to them.
func (c *Core) Stages(id probe.JobID) []Stage {
	if j := c.byID[id]; j != nil {
		return j.Stages
	}
	return nil
}

// Jobs counts the jobs under way.
func (c *Core) Jobs() int { return len(c.byID) }

// bringWorkerUp notes a new link to a worker. If the worker's process is new, the attempts of the old process are
// lost.
func (c *Core) bringWorkerUp(ev WorkerUp, now time.Time, acts []Action) []Action {
	w := c.ensureWorker(ev.Worker)
	if w.Linked() {
		acts = c.planWants(now, c.loseLink(w, now, acts)) // the shell linked again before it saw the old link break
	}
	if w.State() == view.Adrift && w.Welcome().Incarnation != ev.Welcome.Incarnation {
		acts = c.loseWorker(w, now, acts)
	}

	syncAt := now.Add(time.Duration(c.rand.Int64N(int64(c.cfg.SyncEvery)))) // spread over the fleet
	acts = c.useRoom(w, now, c.linkWorker(w, ev.Welcome, syncAt, now, acts))
	c.planMoveAsk(w, now)
	return acts
}

// loseLink notes that the link to a worker broke. The worker's attempts may still be claimed.
func (c *Core) loseLink(w *worker, now time.Time, acts []Action) []Action {
	if !w.Linked() {
		return acts
	}
	c.unlinkWorker(w, now)
	return c.forgetAnswers(w, now, acts)
}

// loseWorker counts every attempt at w as lost.
func (c *Core) loseWorker(w *worker, now time.Time, acts []Action) []Action {
	acts = c.planWants(now, c.loseLink(w, now, acts))
	c.view.NoteGone(w.Worker, now)
	for _, a := range slices.Backward(w.attemptsInOrder()) { // backward: each task goes to the front of its queue
		if w.attempts[a.id] != a {
			continue // the task ended when an earlier attempt of the loop was lost
		}
		acts = c.loseAttempt(a, true, fmt.Sprintf("worker %s went away", w.Welcome().Worker), now, acts)
	}
	acts = c.planWants(now, acts)
	for _, j := range c.jobsWhere(func(j *job) bool { return j.claimsDue[w] }) {
		acts = c.planWants(now, c.noteAnswer(j, w, now, acts))
	}
	c.setTimer(w)
	return acts
}

// wakeWorker runs w's timer: w is given up, or gets acknowledgements, a Sync, and the question for its room.
func (c *Core) wakeWorker(w *worker, now time.Time, acts []Action) []Action {
	if w.State() == view.Adrift && now.Sub(w.LostAt()) >= c.cfg.AdriftFor {
		return c.loseWorker(w, now, acts)
	}
	return c.sendAcksAndSync(w, now, c.askForMoves(w, now, acts))
}

// WorkerStatus is a frontend's view of a worker, for people.
type WorkerStatus struct {
	State        string // up, adrift, draining or down
	Welcome      probe.Welcome
	Load         probe.Load
	Reservations int          // places at the worker, without places of tasks that ride
	Attempts     int          // attempts at the worker: on the way, queued or running
	Spare        probe.Demand // used by spare attempts of this frontend that run: the worker reports this room as free
	CacheProblem string       // why the worker's cache takes no new files; "": no problem, or no cache
	// View is the worker's row for placing by estimation. A worker that was idle when last heard of shows no wait.
	// If the worker is down, View is zero.
	View estimate.Server
}

// Status returns the frontend's view of a worker, or false if no link to the worker was ever made.
func (c *Core) Status(key Worker) (WorkerStatus, bool) {
	w := c.workerByKey(key)
	if w == nil || w.Welcome().Worker == "" { // listed, never linked
		return WorkerStatus{}, false
	}
	s := WorkerStatus{
		State: w.State().String(), Welcome: *w.Welcome(), Load: *w.Load(),
		Reservations: len(w.places), Attempts: len(w.attempts), CacheProblem: w.CacheProblem(),
	}
	for _, a := range w.attempts {
		if a.isRiding {
			s.Reservations-- // if the task started at once, no message says so, and the place is gone
		}
		if a.isStoppable() {
			s.Spare = s.Spare.Add(a.task.group.demandAt(w.Worker, a.task.long != nil))
		}
	}
	s.View = c.view.Server(w.Worker, s.Reservations+s.Attempts)
	return s, true
}

// TenantStatus is a tenant's use of a frontend, for people. Amounts are in thousandths of slots, and count the
// tenant's own jobs, without the tenants below.
type TenantStatus struct {
	Path             string
	Use, Spare, Want int64         // slots of tasks at workers, of the spare tasks among them, and of all tasks that could run
	Quota            tenants.Quota // given since the last report
	Waiting          int64         // the part of Want that is not at a worker
	Held             int           // tasks that wait because the tenant's maximum is used
	Pending          int           // tasks without an outcome, the tenants below included
	Refused          int           // jobs refused since the frontend counts the tenant
}

// Tenants returns the status of tenants with jobs, of the tenants above, of the tenants with the most refusals, and of
// the given others. The tenant that wants most comes first. The parameter most bounds the list. Tasks of a spare job
// are regular if the job was due by now before the tasks started.
func (c *Core) Tenants(most int, now time.Time, others ...string) []TenantStatus {
	list := make([]TenantStatus, 0, len(c.tenants))
	due := c.dueUse(now)
	for name, r := range c.refusals.byTenant {
		if c.tenants[name] == nil {
			list = append(list, TenantStatus{Path: name, Refused: r.n})
		}
	}
	for _, name := range others {
		if c.tenants[name] == nil && c.refusals.byTenant[name] == nil {
			list = append(list, TenantStatus{Path: name})
		}
	}
	for name, t := range c.tenants {
		u := &t.used
		list = append(list, TenantStatus{
			Path: name, Use: u.atLevel[levelAtWorker], Spare: u.spareUse - due[t],
			Want: u.atLevel[levelWanted], Waiting: u.atLevel[levelWanted] - u.atLevel[levelAtWorker],
			Held: t.held.Len(), Pending: t.pending, Refused: c.refusals.countFor(name),
		})
	}
	slices.SortFunc(list, func(a, b TenantStatus) int {
		return cmp.Or(cmp.Compare(b.Want, a.Want), cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.Path, b.Path))
	})
	list = list[:min(len(list), most)]
	for i := range list {
		list[i].Quota = c.quotas.GivenQuota(list[i].Path)
	}
	return list
}

// EachTenantUse calls do with the slots that the tasks of each tenant take at workers, in thousandths, in no order. The
// tasks of the tenants below are left out.
func (c *Core) EachTenantUse(do func(tenant string, slots int64)) {
	for name, t := range c.tenants {
		do(name, t.used.atLevel[levelAtWorker])
	}
}

// AddFunctionUse adds to use the slots that tasks take at a worker, in thousandths, by function. A copy of a task adds
// nothing, because its tenant pays for the task once.
func (c *Core) AddFunctionUse(key Worker, use map[string]int64) {
	w := c.workerByKey(key)
	if w == nil {
		return
	}
	for _, a := range w.attempts {
		if t := a.task; t.attempt == a && t.state.isAtWorker() {
			use[t.spec.Function] += t.tokenCost()
		}
	}
}

// Spare returns what spare tasks take at workers, in thousandths of slots. A task is spare by the class of its job,
// or because the tokens of its tenant do not cover the task. Tasks that started after their job was due are left out.
func (c *Core) Spare(now time.Time) (all int64) {
	for _, t := range c.tenants {
		all += t.used.spareUse
	}
	for _, use := range c.dueUse(now) {
		all -= use
	}
	return all
}

// dueUse returns what tasks of spare jobs take at workers, by tenant and in thousandths of slots, if the tasks had not
// started when their job was due. Workers take these tasks for regular. The budget counts the tasks as spare, because
// the tasks need no tokens.
func (c *Core) dueUse(now time.Time) map[*tenant]int64 {
	use := map[*tenant]int64{}
	for _, j := range c.byID {
		if j.Class != Spare || j.due.IsZero() || now.Before(j.due) {
			continue
		}
		for _, t := range j.tasks {
			if a := t.attempt; t.state.isAtWorker() && a != nil && !a.startedBefore(j.due) {
				use[j.tenant] += t.tokenCost()
			}
		}
	}
	return use
}

// isStoppable reports whether a runs, and its worker stops it if a regular task needs the room. Work that started after
// its job was due is regular.
func (a *attempt) isStoppable() bool {
	due := a.job.due
	return a.hasStarted && a.class == probe.Spare && (due.IsZero() || a.startedBefore(due))
}

// startedBefore reports whether a started before the time at, as far as is known. A bound task starts when sent.
func (a *attempt) startedBefore(at time.Time) bool {
	if !a.runsSince.IsZero() {
		return a.runsSince.Before(at)
	}
	return a.hasStarted && a.sentAt.Before(at)
}

// Quota returns this frontend's part of a tenant's tokens and maximum, and gives a new tenant this part. Status uses
// Tenants instead.
func (c *Core) Quota(tenant string) tenants.Quota { return c.quotas.QuotaOf(tenant) }

// Lessons returns lessons on run times for other frontends, in no order. Nobody may write to the lessons.
func (c *Core) Lessons(now time.Time) []*view.Lesson { return c.view.Lessons(c.nearlyLong(), now) }

// Needs returns the needs to tell to other frontends, computed by the last Others.
func (c *Core) Needs() []tenants.Need { return c.needs }
