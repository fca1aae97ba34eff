package frontend

import (
	"bytes"
	"cmp"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/place"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/fair"
	"github.com/phoebe-sched/phoebe/probe/list"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// Jobs, tasks, places and attempts point at each other in circles, so all the types stand in one file. Only the
// floor of jobs and the ledger change jobs, groups and tasks. Only the ledger changes reservations, attempts and
// workers (TestOwners).

// taskState is a task's position between submission and outcome.
type taskState uint8

const (
	waiting  taskState = iota // for a place's turn
	matching                  // for a worker to be matched with (estimation)
	blocked                   // for earlier stages, or because the job is paused
	held                      // because the tenant's maximum is used
	probing                   // for queue lengths (early binding)
	riding                    // sent with a reservation, to start if the worker has room
	enqueued                  // at a worker, bound early
	bound                     // at a worker, running as far as the frontend knows
	adrift                    // riding, enqueued or bound at a worker with a broken link
	claiming                  // the job was resubmitted; an attempt may still run somewhere
	resting                   // after the task's own failure, before the next attempt
	done
)

// isAtWorker reports whether a worker has the task.
func (s taskState) isAtWorker() bool {
	return s == riding || s == enqueued || s == bound || s == adrift
}

// legalMoves lists the legal changes of a task's state: to which states from each. A change outside of the table is
// a bug of the package, not bad input, and move panics.
var legalMoves = [...][]taskState{
	waiting:  {matching, blocked, held, probing, riding, enqueued, bound, claiming, done},
	matching: {blocked, enqueued, done},
	blocked:  {waiting, matching, held, done},
	held:     {waiting, matching, blocked, done},
	probing:  {waiting, blocked, enqueued, done},
	riding:   {waiting, blocked, enqueued, bound, adrift, resting, done}, // to enqueued: the task goes on with its copy
	enqueued: {waiting, matching, blocked, bound, adrift, resting, done},
	bound:    {waiting, matching, blocked, enqueued, adrift, resting, done},
	adrift:   {waiting, matching, blocked, enqueued, bound, resting, done},
	claiming: {waiting, matching, blocked, held, bound, done},
	resting:  {waiting, matching, blocked, held, done},
	done:     {waiting, matching, blocked, held}, // the task runs again, because outputs are lost
}

// job is a Job under way.
type job struct {
	Job
	submitted     time.Time
	deadline      time.Time // zero: none
	tasks         []*task
	totalTasks    int // tasks so far, with the tasks left out by a resubmission
	groups        []*group
	seats         map[string]*list.List[*seat] // by name; nil: the job has one group
	placedGroups  []*group                     // groups with places believed to be in queues, or that had some
	unfinished    int                          // tasks without an outcome
	payloadBytes  int                          // bytes: payloads of unfinished tasks, plus stageBytes
	stageBytes    int                          // bytes: stages' common payloads, inline outputs, payloads of Made.Spec
	waiting       int                          // tasks in state waiting
	matching      int                          // tasks in state matching
	strandedTasks int                          // tasks in state waiting or matching, without any worker up for them
	served        bool                         // a task has started, or is presumed to have, or the job has ended
	presumed      bool                         // served only because no ride came back within a round trip
	longestHeld   time.Duration                // of a task, for the tenant's maximum
	rides         []*reservation               // with rides sent before any task is known to have started, oldest first
	unservedSince time.Time                    // since when the job is in waitLists
	waitLists     []*unserved                  // lists of unserved jobs with this job; nil once known to be served
	ended         bool
	ending        bool     // all tasks are being ended
	paused        bool     // no more tasks start: the client has too many results to fetch
	isWanting     bool     // listed in jobs.wantingJobs
	allWanting    bool     // all groups want places
	wantingGroups []*group // groups that want places

	due        time.Time              // from then on spare work of the job is regular; zero: never, or from the start
	stages     []stage                // empty: no stages
	unbegun    []taskRange            // tasks that ended while they waited for other stages
	cause      string                 // why the job fails, after a task of a stage has failed; "": no failure
	commonSent map[stageAtWorker]bool // workers sent a stage's common payload; false: send again

	byIndex        map[probe.TaskIndex]*task // nil: tasks[i] has index i
	claimUntil     time.Time                 // end of the wait for answers to claims; zero: no task is claiming
	attemptsBefore uint64                    // attempts that the frontend had made when it claimed the job
	failedAttempts map[probe.AttemptID]bool  // failed attempts that a worker may report again, if asked again
	claimsDue      map[*worker]bool          // workers with an answer due to a claim of the whole job
	uninformed     map[*worker]bool          // workers without an answer, who may not know the job's new owner
	doubts         []string                  // reasons why a worker may have forgotten a started attempt
	confirmedAt    time.Time                 // when a worker last confirmed that the job is still here
	confirmers     []*worker                 // workers asked to confirm the job, without an answer yet
	confirmUntil   time.Time                 // end of the wait for confirmations

	tailAt time.Time // when to look for late tasks among the last; zero: not at the tail

	lag           time.Duration // Resample: how long the job waits for a turn before the next sample
	resampleAt    time.Time     // when the job samples again; zero: not waiting for a turn, or waiting for retryAt
	retryAt       time.Time     // no search for places before: queues were full, or no worker answered; zero: at once
	strandedSince time.Time     // since when no worker is up for a waiting or matching task; zero: each has a worker
	wakeAt        time.Time
	pos           int

	tenant *tenant
	node   list.Node[*job] // among the tenant's jobs with waiting tasks
}

func (j *job) Before(k *job) bool { return j.wakeAt.Before(k.wakeAt) }
func (j *job) Pos() *int          { return &j.pos }

// Links makes a job an item of lists.
func (j *job) Links() *list.Node[*job] { return &j.node }

// compareJobs orders jobs by submission, the oldest first, then by id.
func compareJobs(a, b *job) int {
	if order := a.submitted.Compare(b.submitted); order != 0 {
		return order
	}
	return bytes.Compare(a.ID[:], b.ID[:])
}

// task is a Task under way.
type task struct {
	spec           *Task
	group          *group
	state          taskState
	spare          bool // at a worker, or about to be, and spare: by class, or beyond the tenant's tokens
	way            Way  // of the last attempt
	caughtUp       bool // the attempt caught up with a copy, which was stopped
	attempt        *attempt
	copy           *attempt        // the second attempt, if two are under way; nil: no copy
	copyDecision   uint64          // if attempt was made as a copy: number of the decision; 0: not made as a copy
	lastEnded      probe.AttemptID // the last attempt with a receipt issued for the result
	attempts       int
	earlier        []Earlier // attempts that gave no outcome
	failures       int       // of the task itself
	losses         int       // workers lost while the task ran
	failedLaunches int       // attempts refused at launch
	passedBytes    int       // bytes of earlier stages' outputs sent with the task
	// awaitedInputs counts unfinished partitions of stages along which the task's stage goes, and tasks that run
	// again for the task's inputs.
	awaitedInputs int
	readers       []*task      // tasks that wait for this task's next run
	remakes       int          // how often the task ran again for lost outputs, the present run included
	diskFailures  int          // how often the disk of a worker failed under the task
	misses        int          // how often a passed output was not at the expected worker
	freedAt       time.Time    // when the last awaited input came; zero: nothing was awaited
	shunned       *view.Worker // where the task failed, and would fail again; nil: nowhere
	long          *longTask    // set once the task was to be placed by estimation
	near          *nearTask    // set once the task was to be sampled near inputs
	restUntil     time.Time    // end of the rest, in state resting
	node          list.Node[*task]
	pos           int // in the heap of resting tasks, or of the tenant's held tasks

	againAt        time.Time     // when the task could go to a worker again, after an attempt in vain; zero: none
	placeableSince time.Time     // since when the task may be placed, or is held; zero: since its release
	heldFor        time.Duration // how long the task was held since its release, or since againAt
	sampledAt      time.Time     // since when places were asked for the task; zero: not yet
	placesAskedAt  time.Time     // when the group asked for those places, perhaps for other tasks
	attemptRun     time.Duration // expected run of the attempt; 0: not known
}

// Links makes a task an item of lists.
func (t *task) Links() *list.Node[*task] { return &t.node }

// Before orders held tasks: by priority, then by job. In a job the task of the stage with the longer critical path
// comes first, then the task added earlier, then the task with the longer hint. Without hints the stage might end by
// waiting for one long task. If the hint decided before the time of the addition, a task of an open job might wait for
// as long as the client adds longer tasks.
func (t *task) Before(u *task) bool {
	i, j := t.group.job, u.group.job
	if i == j {
		return cmp.Or(
			cmp.Compare(u.criticalPath(), t.criticalPath()), t.group.addedAt.Compare(u.group.addedAt),
			cmp.Compare(u.spec.Estimate, t.spec.Estimate), cmp.Compare(t.spec.Index, u.spec.Index),
		) < 0
	}
	return cmp.Or(cmp.Compare(j.Priority, i.Priority), compareJobs(i, j)) < 0
}

// criticalPath returns the critical path of the task's stage, or 0 if the job has no stages.
func (t *task) criticalPath() time.Duration {
	j := t.group.job
	if len(j.stages) == 0 {
		return 0
	}
	return j.stages[t.group.stageIndex].criticalPath
}

func (t *task) Pos() *int { return &t.pos }

// rester is a resting task, ordered by the end of the rest.
type rester struct{ *task }

func (x rester) Before(y rester) bool {
	return cmp.Or(
		x.restUntil.Compare(y.restUntil), compareJobs(x.group.job, y.group.job),
		cmp.Compare(x.spec.Index, y.spec.Index),
	) < 0
}

// group is the tasks of a job with the same demands of a worker.
type group struct {
	job *job
	place.Kind
	estimate         time.Duration // mean of the tasks' estimates; 0: no task has an estimate
	path             estimate.Path
	addedAt          time.Time // when the group was added to its job; zero: submitted with the job
	stageIndex       int       // index of the stage
	index            int       // among the groups of the job
	seats            []seat    // empty: the only group of the job
	isStranded       bool      // no worker is up for the group
	isPlaced         bool      // listed in job.placedGroups
	isWanting        bool      // listed in job.wantingGroups
	class            probe.Class
	statedDemand     probe.Demand // demand of each task by the job; a zero field: not said
	demandSamples    int          // number of finished tasks when Demand was refined; 0: not refined
	queue            line[*task]  // tasks in state waiting
	places           list.List[*reservation]
	livePlaces       int       // places believed to be in queues
	liveReservations int       // reservations with live places
	sampledAt        time.Time // when the places were first asked for; zero: no task waits, and no place is live
	probeBudget      int       // probes worth when the group last had no places, less the probes placed since

	pathReason   estimate.Reason // of the first task's path
	stageStats   *estimate.Stats // of finished tasks; nil: placed by sampling
	matching     int             // tasks in state matching
	probingTasks int             // tasks in state probing
	atWorkers    int             // tasks at workers
	// window bounds the tasks at workers, in state probing, or about to be placed by estimation. Set when
	// queues are full; 0: no bound.
	window     int
	crowd      list.List[*longTask] // tasks to be matched, kept waiting by the window or the tenant's tokens
	endedTasks int                  // tasks ended since the window was set
	lastEnd    time.Time            // when the last task placed by estimation is expected to end
	longestRun time.Duration        // longest run expected of a task placed by estimation

	near *nearGroup        // nil: no task cares where it runs
	node list.Node[*group] // among the groups of the set
}

// Links makes a group an item of lists.
func (g *group) Links() *list.Node[*group] { return &g.node }

// seat is a group's entry in the job's list for a host or worker that the group names. The lists hold the groups
// with waiting tasks.
type seat struct {
	group *group
	name  string // of the host or worker; "": the group names no host
	node  list.Node[*seat]
}

// Links makes a seat an item of lists.
func (s *seat) Links() *list.Node[*seat] { return &s.node }

// tenant is a tenant with jobs under way, or with such a tenant below. Tenants are kept apart wherever a tenant
// could use up what others need: at admission, in pending tasks, and in the room that workers are believed to have.
type tenant struct {
	name          string
	code          probe.TenantCode
	parent        *tenant         // the tenant with a path one part shorter; nil: a topmost tenant
	weights       []uint32        // of the parts of the path, the topmost first; nil: not known
	jobs          int             // under way, of the tenant and of the tenants below
	pending       int             // the jobs' tasks without an outcome
	payloadBytes  int             // bytes of the jobs' payloads
	hungry        list.List[*job] // the tenant's own jobs with waiting tasks, in order of submission
	used          usage           // by the tenant's own jobs
	held          pq.Heap[*task]  // tasks of own jobs in state held
	isHolding     bool            // listed in jobs.tenantsHolding
	debts         pq.Heap[debt]   // tasks at workers not covered by tokens
	queuedDebt    int64           // thousandths of slots taken by debts in state enqueued
	crowdedGroups []*group        // groups with tasks waiting for tokens, for room, or for debts to start
	isDebtor      bool            // listed in jobs.debtors
	starvedRounds int             // Others events since the first task was held, while no task may run

	accounts *lineAccounts // nil: no long task of the tenant has waited in a line

	node list.Node[*tenant] // among the tenants with hungry jobs
}

// lineAccounts holds the accounts of a tenant in the lines of long tasks. Most jobs are short, and a tenant with a job
// now and then is forgotten in between. So tenants without long tasks have no such accounts.
type lineAccounts struct {
	due  fair.Account[*longTask]   // in jobs.batchQueue
	room fair.Account[roomSleeper] // in jobs.roomSleepers
}

// Links makes a tenant an item of lists.
func (t *tenant) Links() *list.Node[*tenant] { return &t.node }

// waitKey stands for the jobs of a tenant with tasks for the same workers.
type waitKey struct {
	set    *view.Set
	tenant *tenant
}

// unserved lists the jobs of a waitKey that wait for their first task to start.
type unserved struct {
	key         waitKey
	jobs        []*job // that wait longest first; some no longer wait
	waitingJobs int    // number of jobs that still wait

	rate         float64   // jobs served in a second, by the last count; 0: no job was, or not known
	countedSince time.Time // when the present count began
	servedJobs   int       // jobs served since then
	comeAgainAt  time.Time // earliest time for the next refused job to come again
}

// sentJob is a job with a task that rode to a worker, and the time of the ride.
type sentJob struct {
	job *job
	at  time.Time
}

// level grades task states by what a task uses of the tenant's maximum.
type level uint8

const (
	levelIdle     level = iota // the task cannot run yet, or has ended
	levelWanted                // the task could run, if the maximum allows
	levelAllowed               // the tenant's maximum lets the task run
	levelAtWorker              // the task is at a worker
	levelCount
)

// usage counts what the tasks of a tenant's own jobs take, in thousandths of slots.
type usage struct {
	atLevel     [levelCount]int64 // by tasks of each level and of the levels above; atLevel[levelIdle] is 0
	spareUse    int64             // by spare tasks at workers
	spareWanted int64             // by tasks of spare jobs, from levelWanted on
	largestTask int64             // by the largest of the tenant's tasks so far
}

// stage is a Stage under way.
type stage struct {
	predecessors, successors []int          // indices of the stages directly before this stage, and directly after
	along                    []int          // predecessors along which the stage goes: tasks await single partitions
	openPredecessors         int            // unfinished predecessors
	unfinished               int            // tasks without an outcome
	ready                    bool           // each predecessor has ended, or is among along
	readyAt                  time.Time      // zero: from the start
	longestRun               time.Duration  // longest expected run of a task
	criticalPath             time.Duration  // longest chain of expected runs from the stage's start to the job's end
	successes                map[string]int // number of tasks ended well, by worker
	successTotal             int            // sum of successes, counted by rankWorkers
	workersRanked            []string       // workers with successes, the most first; nil: to be sorted

	unfinishedIn map[int32]int     // number of unfinished tasks by partition; nil: no stage goes along
	waitersFor   map[int32][]*task // later stages' tasks that await a partition, by partition

	needsPassing bool                    // tasks run only at workers able to pass common payloads and outputs
	inlineBytes  int                     // largest output, in bytes, sent with the result
	outputs      map[int32][]stageOutput // outputs of tasks, by partition, in the order of tasks
}

// stageOutput is an output of a task.
type stageOutput struct {
	task        probe.TaskIndex
	partition   int32 // of the task
	worker      string
	incarnation uint64 // the worker's incarnation; 0: not known
	output      *probe.Output
	reportedAt  time.Time // when this frontend heard of the output; zero: another frontend heard
}

// stageAtWorker is a pair of a worker and a stage, for the common payload sent to the worker.
type stageAtWorker struct {
	w     *worker
	stage int
}

// longTask is a task placed by estimation.
type longTask struct {
	task          *task
	pathReason    estimate.Reason // of the task's path
	spec          estimate.Task   // each batch fills in Work, LongFrom, Set, SetEnd and ExtraCandidates
	inputBytes    int64           // of all inputs
	sleepUntil    time.Time       // when the task is due for a batch; zero: not asleep
	pos           int             // in jobs.batchQueue, jobs.sleepers or tenant.debts
	roomPos       int             // in jobs.roomSleepers
	wokenBy       *view.Worker    // the worker with room that ended the last sleep; nil: the sleep ended in time
	vainWakes     int             // how often the task was woken for room and did not use it, since the last placing
	inCrowd       bool            // waits in group.crowd, not in batchQueue or sleepers
	node          list.Node[*longTask]
	postponeUntil time.Time // limit for postponing; zero: not postponed since the last placing
	blindTries    int       // how often in a row no worker was a candidate
	outbid        int       // how often in a row other tasks took all candidates
	mayUseAll     bool      // too large for the part of workers open to long tasks; may use all of a worker
	movePos       int       // in jobs.movers
	moveRound     uint64    // orders jobs.movers: the round of looks that comes to the task next
	moves         int       // how often the task was withdrawn from a queue, to start sooner elsewhere
	move          *move     // the task was withdrawn, and is not placed anew yet; nil: otherwise
	movedSince    time.Time // when the attempt was sent whose queue the task left by its first move; zero: no move

	decision uint64 // number of the last decision
	// By the last decision: the expected wait at the worker, the expected run, and its part for reading inputs.
	wait, run, read time.Duration
}

// Before orders the long tasks of a tenant for a batch: by priority, then by job. In a job the task with the longer
// critical path comes first, then the task with more input bytes. Tenants take turns (jobs.batchQueue), and Before
// decides between tenants only if their turns are due at the same time.
func (x *longTask) Before(y *longTask) bool {
	i, j := x.task.group.job, y.task.group.job
	if i == j {
		if a, b := x.task.criticalPath(), y.task.criticalPath(); a != b {
			return a > b
		}
		if x.inputBytes != y.inputBytes {
			return x.inputBytes > y.inputBytes
		}
		return x.task.spec.Index < y.task.spec.Index
	}
	return cmp.Or(cmp.Compare(j.Priority, i.Priority), compareJobs(i, j)) < 0
}

// mayMatchWith reports whether x and y, tasks of one tenant, may be matched in one batch. Their jobs must be equally
// urgent, or their stages if the tasks have the same job.
func (x *longTask) mayMatchWith(y *longTask) bool {
	i, j := x.task.group.job, y.task.group.job
	return i.Priority == j.Priority && (i != j || x.task.criticalPath() == y.task.criticalPath())
}

func (x *longTask) Pos() *int { return &x.pos }

// TurnCost implements fair.Item: a task costs its tenant the expected run.
func (x *longTask) TurnCost() (probe.Demand, time.Duration) { return x.spec.Demand, x.spec.Work.Run }

// tenantOf returns the tenant of the task's job.
func (x *longTask) tenantOf() *tenant { return x.task.group.job.tenant }

// Links makes a longTask an item of lists.
func (x *longTask) Links() *list.Node[*longTask] { return &x.node }

// sleeper is a longTask in jobs.sleepers, ordered by the end of the sleep.
type sleeper struct{ *longTask }

func (x sleeper) Before(y sleeper) bool {
	if !x.sleepUntil.Equal(y.sleepUntil) {
		return x.sleepUntil.Before(y.sleepUntil)
	}
	return x.longTask.Before(y.longTask)
}

// roomSleeper is a longTask in jobs.roomSleepers, in the order of batches.
type roomSleeper struct{ *longTask }

func (x roomSleeper) Before(y roomSleeper) bool { return x.longTask.Before(y.longTask) }
func (x roomSleeper) Pos() *int                 { return &x.roomPos }

// mover is a longTask in a worker's queue that may move to another worker. The task that starts last comes first,
// because it gains most. Priorities and the turns of tenants have decided already when the tasks start.
type mover struct{ *longTask }

// Before orders movers by round, see planner.findMovers, and in a round by the expected start, the latest first. The
// rare comparisons come last, because each comparison in a large heap waits for memory.
func (x mover) Before(y mover) bool {
	t, u := x.task, y.task
	if x.moveRound != y.moveRound {
		return x.moveRound < y.moveRound
	}
	if order := u.attempt.expectedStart.Compare(t.attempt.expectedStart); order != 0 {
		return order < 0
	}
	return cmp.Or(compareJobs(t.group.job, u.group.job), cmp.Compare(t.spec.Index, u.spec.Index)) < 0
}
func (x mover) Pos() *int { return &x.movePos }

// move is the way of a task from the queue of a worker to another worker.
type move struct {
	from, to *worker       // to had room when the frontend asked from to give the task back
	wait     time.Duration // rest of the wait in the queue of from, expected at that time
	askedAt  time.Time
}

// debt is a longTask at a worker beyond the tenant's tokens. Running tasks come first and get the next free token. A
// queued task may have to wait for long, and would keep the token from other tasks meanwhile.
type debt struct{ *longTask }

func (x debt) Before(y debt) bool {
	if a, b := x.task.state == bound, y.task.state == bound; a != b {
		return a
	}
	return x.longTask.Before(y.longTask)
}

// nearGroup belongs to a group with tasks to be placed near inputs. It holds the shelves of the group's waiting
// tasks.
type nearGroup struct {
	group          *group
	unshelved      []*task // tasks that began to wait since the last shelveNew; some are on shelves already
	shelves        map[shelfKey]*shelf
	wantingShelves []*shelf         // shelves with tasks gained or places lost since the last plan
	placesAt       map[*worker]int  // live places by worker
	siteless       map[*task]bool   // tasks on shelves, without a worker at any of the hosts and racks
	timers         *pq.Heap[*shelf] // jobs.ripeningShelves
	node           list.Node[*nearGroup]
}

// Links makes a nearGroup an item of lists.
func (n *nearGroup) Links() *list.Node[*nearGroup] { return &n.node }

// shelfKey names the workers at a host (Disk), in a rack (Rack), or anywhere (Across, "").
type shelfKey struct {
	tier estimate.Tier
	name string
}

// shelf holds the tasks of a group that had better run at the shelfKey's workers.
type shelf struct {
	shelfKey
	near             *nearGroup
	green            pq.Heap[*spot] // spots of tasks that may not run at the shelf's workers yet
	ripe             line[*spot]    // spots of tasks for any of the shelf's workers
	isWanting        bool           // listed in nearGroup.wantingShelves
	livePlaces       int            // places reserved for the shelf and believed to be in queues
	liveReservations int            // reservations with live places
	pos              int            // among the shelves with green spots
}

// Before orders shelves by the time when the first green spot is ripe.
func (s *shelf) Before(t *shelf) bool { return s.green.Min().ripeAt.Before(t.green.Min().ripeAt) }
func (s *shelf) Pos() *int            { return &s.pos }

// spot is a task's entry on a shelf.
type spot struct {
	task   *task
	shelf  *shelf
	ripeAt time.Time // from when on the shelf's workers may take the task
	pos    int
	node   list.Node[*spot]
}

func (x *spot) Before(y *spot) bool {
	if !x.ripeAt.Equal(y.ripeAt) {
		return x.ripeAt.Before(y.ripeAt)
	}
	return x.task.spec.Index < y.task.spec.Index
}

func (x *spot) Pos() *int { return &x.pos }

// Links makes a spot an item of lists.
func (x *spot) Links() *list.Node[*spot] { return &x.node }

// nearTask is a task sampled near inputs.
type nearTask struct {
	inputs         []estimate.Input
	sites          []estimate.Site // nearest first; the last site is anywhere
	spots          []*spot         // nil: on no shelf
	waitsSince     time.Time       // when the task began to wait for the present attempt
	attemptsBefore int             // number of attempts by then; -1: not shelved yet
	read           time.Duration   // time to read the inputs at the task's last worker
	sitesBusy      bool            // near sites were busy when the wait began, so any worker could take the task
	decision       uint64          // number of the last decision
}

// reservation holds the places that a Reserve asked for at one worker. The frontend believes that livePlaces of the
// count places are in the queue.
type reservation struct {
	w            *worker
	group        *group
	firstID      probe.ResID
	count        uint32
	sampleIndex  int32 // position in the sample
	livePlaces   int
	rides        []attempt // by place
	openRides    int       // rides with a fate not known yet
	shelf        *shelf    // nil: not reserved for a shelf
	sampleNumber uint64    // number of the Sample behind the reservation; 0: no Sample
	// The job needs the places no more. The worker lists the reservation, and the group does not.
	isSurplus bool
	node      list.Node[*reservation]
}

// Links makes a reservation an item of lists.
func (r *reservation) Links() *list.Node[*reservation] { return &r.node }

// rideAt returns the attempt that rode with place id, or nil: none rode, or the fate of the ride is known by now.
func (r *reservation) rideAt(id probe.ResID) *attempt {
	if i := int(id - r.firstID); i < len(r.rides) && r.rides[i].isRiding {
		return &r.rides[i]
	}
	return nil
}

// attempt is a try at a task, at a worker.
type attempt struct {
	id         probe.AttemptID
	job        *job
	task       *task
	w          *worker
	res        probe.ResID
	turn       probe.Turn
	sentAt     time.Time
	hasStarted bool        // known to have started, or presumed to: a bound task, and a ride until it comes back
	isRiding   bool        // came with a reservation, and has neither come back nor is known to have started
	placeSpent bool        // the attempt used up place res; a worker that hands the attempt back restores the place
	class      probe.Class // sent with the attempt, or given by a Restamp since
	fetch      fetchFrom   // of the task's files, if this frontend bound the attempt early

	runsSince     time.Time   // start of the run, as far as the frontend knows; zero: does not run
	expectedStart time.Time   // when the worker expects a queued attempt to start; zero: not said
	asCopy        *copyTerms  // nil: not made as a copy
	move          *move       // the frontend has asked the worker to give the task back; nil: it has not
	reports       *runReports // nil: the worker has sent none
}

// fetchFrom says where the worker fetches the files of an attempt.
type fetchFrom uint8

const (
	fetchUnknown fetchFrom = iota // some files from other workers and some not, or no files, or not known
	fetchPeers                    // all files from other workers
	fetchSources                  // no file from another worker
)

// runReports holds a worker's reports about a running attempt. Short attempts end before the first report.
type runReports struct {
	progress progress
	use      probe.Use // of a process, as last reported; zero: not known
	lastBusy probe.Use // the last use up to which the process used CPU time like its stage; zero: the start
}

// progress is the progress of a running attempt, as reported by the worker.
type progress struct {
	doneShare  float64       // share of the work done; 0: the attempt reports no progress
	timeLeft   time.Duration // rest of the run, expected at the time of the report
	reportedAt time.Time     // of the report
	standsFor  time.Duration // not 0: a process stands still, and has hardly used CPU time for this time
}

// progress returns the progress of the attempt. Without reports the progress is zero.
func (a *attempt) progress() progress {
	if a.reports == nil {
		return progress{}
	}
	return a.reports.progress
}

// use returns what a process has used, as last reported, or zero.
func (a *attempt) use() probe.Use {
	if a.reports == nil {
		return probe.Use{}
	}
	return a.reports.use
}

// copyTerms holds the terms of an attempt made as a copy. The task holds the same terms of the first attempt. If the
// copy takes the place of the first attempt, promoteCopy moves the copy's terms to the task.
type copyTerms struct {
	decision        uint64
	attemptRun      time.Duration // run, as the worker was told
	wait, run, read time.Duration // see longTask
}

// worker holds the ledger's knowledge of a worker: the places and attempts there, messages still to be sent, and the
// timers of the link.
type worker struct {
	*view.Worker

	nextRes     probe.ResID
	places      map[probe.ResID]*reservation
	attempts    map[probe.AttemptID]*attempt
	enqueued    map[probe.ResID]*attempt // attempts bound early
	acks        []probe.AttemptID        // results to acknowledge at ackAt
	surplus     []*reservation           // reservations to be withdrawn soon
	firstLinkAt time.Time                // when the worker's present process was linked first

	lastCancels [8]probe.Cancel // the last Cancels sent
	nextCancel  int

	ackAt             time.Time
	syncAt            time.Time
	earliestMatrixAsk time.Time // when the frontend may ask for the worker's matrix again; zero: at once
	fullUntil         time.Time // until when the worker's queue is believed to be full
	matrixAwaited     bool      // the next batch waits for the worker's matrix
	matrixAsked       bool      // the answer may be under way
	// Tasks that rode to the worker after the frontend asked for the matrix. The worker may answer before such a task
	// arrives, and then the answer does not count the task.
	uncountedRides []view.Promise
	hasVainTurn    bool // since the last takeVainTurn

	comingMoves  int       // tasks asked back from other workers, to start at this worker
	moveAskAt    time.Time // when to ask the worker for its room, for tasks in other queues; zero: no need
	moveNotUntil time.Time // no task moves to the worker before, because the last look was in vain

	wakeAt time.Time
	pos    int
}

func (w *worker) Before(v *worker) bool {
	if !w.wakeAt.Equal(v.wakeAt) {
		return w.wakeAt.Before(v.wakeAt)
	}
	return w.Key < v.Key
}
func (w *worker) Pos() *int { return &w.pos }

// taskRange is the tasks from first to last.
type taskRange struct {
	first, last probe.TaskIndex
	sampled     int // number of sampled tasks in the range
}
