package frontend

import (
	"cmp"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/place"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/list"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// What is known of jobs, and of what was promised to them, points at each other in circles, and stands here for that
// reason. The floor of jobs and the ledger change jobs, groups and tasks, and nobody else does; reservations, attempts and
// workers only the ledger.

// taskState is where a task stands between its submission and its outcome.
type taskState uint8

const (
	waiting  taskState = iota // for a place's turn
	matching                  // for a worker to be matched with (estimation)
	blocked                   // for the stages before its own, or as its job is full
	held                      // for what its tenant may use
	probing                   // for the queue lengths it was sampled by (early binding)
	riding                    // with a reservation, to be started if there is room
	enqueued                  // at a worker, bound early
	bound                     // at a worker, running as far as we know
	adrift                    // riding, enqueued or bound where the link is broken
	claiming                  // the job was resubmitted; an attempt may still run somewhere
	resting                   // after its own failure, before it is tried again
	done
)

// isAtWorker reports whether a worker has the task.
func (s taskState) isAtWorker() bool {
	return s == riding || s == enqueued || s == bound || s == adrift
}

// legalMoves is every legal change of a task. A pair missing here is our bug, not bad input.
var legalMoves = [...][]taskState{
	waiting:  {matching, blocked, held, probing, riding, enqueued, bound, claiming, done},
	matching: {blocked, enqueued, done},
	blocked:  {waiting, matching, held, done},
	held:     {waiting, matching, blocked, done},
	probing:  {waiting, blocked, enqueued, done},
	riding:   {waiting, blocked, enqueued, bound, adrift, resting, done}, // enqueued: a copy takes its place, here and below
	enqueued: {waiting, matching, blocked, bound, adrift, resting, done},
	bound:    {waiting, matching, blocked, enqueued, adrift, resting, done},
	adrift:   {waiting, matching, blocked, enqueued, bound, resting, done},
	claiming: {waiting, matching, blocked, held, bound, done},
	resting:  {waiting, matching, blocked, held, done},
	done:     {waiting, matching, blocked, held}, // it runs again, for what it has left
}

// job is a Job under way.
type job struct {
	Job
	submitted     time.Time
	deadline      time.Time // zero: none
	tasks         []*task
	totalTasks    int // so many tasks, with those that a resubmission has left out
	groups        []*group
	seats         map[string]*list.List[*seat] // by name; nil: it has one group
	placedGroups  []*group                     // those with places believed to be in queues, and some that no longer have any
	unfinished    int                          // tasks without an outcome
	payloadBytes  int                          // bytes, of those, and of what stages have in common and leave
	stageBytes    int                          // the second part of it
	waiting       int                          // tasks in state waiting
	matching      int                          // tasks in state matching
	strandedTasks int                          // tasks that wait, or are to be matched, and that no worker is up for
	served        bool                         // a task of it has started, or is taken to have, or all are over
	presumed      bool                         // served, because a ride has not come back within a round trip
	rides         []sentRide                   // oldest first, while no task is known to have started; empty: the job's wait does not count
	waitLists     []*unserved                  // until then, if it is asked how long it waits
	ended         bool
	ending        bool     // all its tasks are being ended
	paused        bool     // its client has so many results to fetch that no more tasks start
	isWanting     bool     // it is among the wants
	allWanting    bool     // so are all its groups
	wantingGroups []*group // those that are

	due        time.Time              // from when on it is regular; zero: never, or it is
	stages     []stage                // none: the job has none
	cause      string                 // of its failure, as a task of a stage has failed
	commonSent map[stageAtWorker]bool // false: it may not have heard it

	byIndex        map[probe.TaskIndex]*task // nil: each task is at its index
	claimUntil     time.Time                 // tasks of it are claiming until then; zero: none is
	failedAttempts map[probe.AttemptID]bool  // that were claimed, and had failed
	claimsDue      map[*worker]bool          // those whose answers to a claim of the whole job are waited for
	uninformed     map[*worker]bool          // those that have not answered it, and may not know yet whose the job is
	doubts         []string                  // those that answered, and may have forgotten attempts that started
	confirmedAt    time.Time                 // when a worker last showed that it takes the job for one of this frontend
	answersDue     int                       // those whose answers are waited for whether they still do
	confirmUntil   time.Time                 // for how long

	tailAt time.Time // when it is looked which of its last tasks are late; zero: it is not

	lag           time.Duration // Resample: how long it waits for a turn before it samples again
	resampleAt    time.Time     // when it does; zero: it does not wait, or for retryAt
	retryAt       time.Time     // before which it is of no use to look for places: queues are full, or nobody answered; zero: at once
	strandedSince time.Time     // since when no worker could run a waiting task
	wakeAt        time.Time
	pos           int

	tenant *tenant
	node   list.Node[*job] // among those of the tenant with waiting tasks
}

func (j *job) Before(k *job) bool { return j.wakeAt.Before(k.wakeAt) }
func (j *job) Pos() *int          { return &j.pos }

// Links makes it an item of lists.
func (j *job) Links() *list.Node[*job] { return &j.node }

func compareJobs(a, b *job) int {
	return cmp.Or(a.submitted.Compare(b.submitted), slices.Compare(a.ID[:], b.ID[:]))
}

// task is a Task under way.
type task struct {
	spec           *Task
	group          *group
	state          taskState
	spare          bool // it is at a worker, or about to be, and spare: by its job, or as tokens do not cover it
	way            Way  // of its last attempt
	attempt        *attempt
	copy           *attempt        // a second one, while both are under way; nil: there is none
	copyDecision   uint64          // the decision to make its last attempt, which was a copy; 0: it was none
	lastEnded      probe.AttemptID // the last one of which it has the end
	attempts       int
	earlier        []Earlier    // attempts that ended in vain
	failures       int          // its own
	losses         int          // workers that went away while it ran
	failedLaunches int          // attempts that could not be launched
	passedBytes    int          // bytes of what is passed with it
	awaitedInputs  int          // partitions that have not ended, of stages along which its own goes, and tasks that run again for it
	readers        []*task      // that wait for it to run again
	remakes        int          // how often it has, or does
	misses         int          // how often it did not find what is passed to it, where it should have been
	freedAt        time.Time    // when the last of them did; zero: from the start
	shunned        *view.Worker // where it failed, and would again; nil: none
	long           *longTask    // once it was to be placed by estimation
	near           *nearTask    // once it was to be sampled near its inputs
	restUntil      time.Time    // when it may be tried again, if it is resting
	node           list.Node[*task]
	pos            int // among those that are resting, or those of its tenant that are held

	sampledAt, readyAt, boundAt time.Time
	attemptRun                  time.Duration // run of its attempt; 0: not known
}

// Links makes it an item of lists.
func (t *task) Links() *list.Node[*task] { return &t.node }

// Before orders tasks that are held: by priority, then by job.
func (t *task) Before(u *task) bool {
	i, j := t.group.job, u.group.job
	return cmp.Or(cmp.Compare(j.Priority, i.Priority), compareJobs(i, j), cmp.Compare(t.spec.Index, u.spec.Index)) < 0
}

func (t *task) Pos() *int { return &t.pos }

// rester is a task that is resting: it is ordered by when it may be tried again.
type rester struct{ *task }

func (x rester) Before(y rester) bool {
	return cmp.Or(x.restUntil.Compare(y.restUntil), compareJobs(x.group.job, y.group.job), cmp.Compare(x.spec.Index, y.spec.Index)) < 0
}

// group is the tasks of a job that demand the same of a worker.
type group struct {
	job *job
	place.Kind
	estimate         time.Duration // mean of those of its tasks that have one; 0: none has
	path             estimate.Path
	addedAt          time.Time // zero: with its job
	stageIndex       int       // of its stage
	index            int       // among those of its job
	seats            []seat    // none: its job has no other group
	stranded         bool      // no worker is up for it
	isPlaced         bool      // it is among those of its job
	isWanting        bool      // likewise
	class            probe.Class
	statedDemand     probe.Demand // what its job says that each of its tasks demands; 0: nothing
	demandSamples    int          // finished tasks by which that is refined; 0: it is not
	queue            line[*task]  // those that wait
	places           list.List[*reservation]
	livePlaces       int       // places believed to be in queues
	liveReservations int       // reservations that have some of those
	sampledAt        time.Time // when its first places were reserved; zero: not yet
	probeBudget      int       // probes that the tasks were worth and that were not needed yet

	pathReason   estimate.Reason      // of the path of its first task
	stageStats   *estimate.Stats      // of its finished tasks, if they are placed by estimation
	matching     int                  // tasks in state matching
	probingTasks int                  // tasks in state probing
	atWorkers    int                  // tasks that workers have
	window       int                  // that many may be out or measured, or to be placed by estimation, since queues were full; 0: any number
	crowd        list.List[*longTask] // of those that are to be matched, the ones beyond that
	endedTasks   int                  // tasks since then
	lastEnd      time.Time            // when the last of those is expected to end that were placed by estimation
	longestRun   time.Duration        // that any of them is expected to run

	near *nearGroup        // nil: none of its tasks cares where it runs
	node list.Node[*group] // among those of its eligible set
}

// Links makes it an item of lists.
func (g *group) Links() *list.Node[*group] { return &g.node }

// seat is a group's among those with waiting tasks that name one host or worker, or none.
type seat struct {
	group *group
	name  string // "": none
	node  list.Node[*seat]
}

// Links makes it an item of lists.
func (s *seat) Links() *list.Node[*seat] { return &s.node }

// tenant is one for whom jobs are under way. Tenants are kept apart in all that one of them could use up: admission,
// the tasks that may be pending, and the room that workers are believed to have.
type tenant struct {
	name          string
	parent        *tenant         // whose path is one part shorter; nil: there is none
	weights       []uint32        // of the parts of its path, the topmost first; nil: not known
	jobs          int             // under way, of it and of those below it
	pending       int             // tasks without an outcome, of these
	payloadBytes  int             // bytes, of these
	hungry        list.List[*job] // its jobs with waiting tasks, in order of submission
	used          usage           // by its own jobs
	held          pq.Heap[*task]  // of these
	isHolding     bool            // it is among those with such tasks
	debts         pq.Heap[debt]   // of its tasks at workers, those that tokens do not cover
	queuedDebt    int64           // of what these take, the part that has not started
	crowdedGroups []*group        // with tasks that wait for tokens, or for those to start
	isDebtor      bool            // it is among those with either
	starvedRounds int             // how often it was told what others need since the first one is held and no task of it may go

	node list.Node[*tenant] // among those with hungry jobs
}

// Links makes it an item of lists.
func (t *tenant) Links() *list.Node[*tenant] { return &t.node }

// waitKey are the jobs of a tenant whose tasks may run at the same workers.
type waitKey struct {
	set    *view.Set
	tenant *tenant
}

// unserved is those of them that wait for their first task.
type unserved struct {
	of          waitKey
	jobs        []*job // oldest first, and some that no longer wait
	waitingJobs int    // that do

	rate         float64   // so many were served in a second, by the last count; 0: none, or it is not known
	countedSince time.Time // of the next count
	servedJobs   int
	comeAgainAt  time.Time // when the next job that is refused may come again, at the earliest
}

// sentRide is a reservation with tasks that rode along, and the time when it was sent.
type sentRide struct {
	res *reservation
	at  time.Time
}

// sentJob is a job that has a sentRide of that time.
type sentJob struct {
	job *job
	at  time.Time
}

// level is how far a task has come in what its tenant may use.
type level uint8

const (
	levelIdle     level = iota // it can not run yet, or it is over
	levelWanted                // it could run
	levelAllowed               // it may
	levelAtWorker              // it is at a worker
	levelCount
)

// usage is what tasks of a tenant's own jobs take, in thousandths of slots.
type usage struct {
	atLevel     [levelCount]int64 // by level, with those above; at[idle] is 0
	spareUse    int64             // of those placed, by tasks that are spare
	spareWanted int64             // of those wanted, by tasks of spare jobs
	largestTask int64             // by the largest of its tasks so far
}

// stage is a Stage under way.
type stage struct {
	predecessors, successors []int          // stages that it depends on, and that depend on it
	along                    []int          // of after, those of which a task waits only for its partitions
	openPredecessors         int            // of after, those that have not ended
	unfinished               int            // tasks without an outcome
	ready                    bool           // all that have not ended are among along
	readyAt                  time.Time      // zero: from the start
	longestRun               time.Duration  // expected run of its tasks
	criticalPath             time.Duration  // the longest chain of these from its start to the end of the job
	successes                map[string]int // how many of its tasks ended well, by worker
	successTotal             int            // how many that are: what ranAt has counted
	workersRanked            []string       // these workers, the one with most first; nil: ranAt has to sort and count them

	unfinishedIn map[int32]int     // of one that others go along: tasks without an outcome, by partition
	waitersFor   map[int32][]*task // who waits for these

	needsPassing bool                    // its tasks run only at workers that pass what stages have in common and leave
	inlineBytes  int                     // bytes up to which an output travels with the result
	outputs      map[int32][]stageOutput // what its tasks have left, by partition, in the order of tasks
}

// stageOutput is an output of a task.
type stageOutput struct {
	task        probe.TaskIndex
	partition   int32 // of the task
	worker      string
	incarnation uint64 // its incarnation; 0: not known
	output      *probe.Output
	reportedAt  time.Time // when it was told; zero: to another frontend
}

// stageAtWorker is a worker that was told what tasks of a stage have in common.
type stageAtWorker struct {
	w     *worker
	stage int
}

// longTask is a task that is placed by estimation.
type longTask struct {
	task          *task
	pathReason    estimate.Reason
	spec          estimate.Task // Work, LongFrom and Also are filled in for each batch
	inputBytes    int64         // of its inputs
	sleepUntil    time.Time     // when it is due; zero: it does not sleep
	pos           int           // in due or later, or among those beyond its tenant's tokens
	inCrowd       bool          // it is to be placed, and in neither, but in the crowd of its group
	node          list.Node[*longTask]
	postponeUntil time.Time // until which it may be postponed; zero: it was not, since it was placed last
	blindTries    int       // how often in a row there was no candidate
	outbid        int       // how often in a row all candidates went to others
	mayUseAll     bool      // it is larger than what workers have open to long tasks, and may use all

	decision        uint64        // number of the last one
	wait, run, read time.Duration // expected by it: of the wait at the worker, and of the run, of which read is for inputs
}

// Before orders tasks that are due: by priority, then by job; in a job by the critical path of their stages, then the
// larger inputs first.
func (x *longTask) Before(y *longTask) bool {
	i, j := x.task.group.job, y.task.group.job
	if i == j {
		return cmp.Or(cmp.Compare(y.criticalPath(), x.criticalPath()), cmp.Compare(y.inputBytes, x.inputBytes), cmp.Compare(x.task.spec.Index, y.task.spec.Index)) < 0
	}
	return cmp.Or(cmp.Compare(j.Priority, i.Priority), compareJobs(i, j)) < 0
}

// criticalPath is the critical path of the task's stage; 0: its job has no stages.
func (x *longTask) criticalPath() time.Duration {
	j := x.task.group.job
	if len(j.stages) == 0 {
		return 0
	}
	return j.stages[x.task.group.stageIndex].criticalPath
}

// mayMatchWith reports whether two tasks may be matched together: neither is to be placed before the other.
func (x *longTask) mayMatchWith(y *longTask) bool {
	i, j := x.task.group.job, y.task.group.job
	return i.Priority == j.Priority && (i != j || x.criticalPath() == y.criticalPath())
}

func (x *longTask) Pos() *int { return &x.pos }

// Links makes it an item of lists.
func (x *longTask) Links() *list.Node[*longTask] { return &x.node }

// sleeper is a longTask that waits for its time.
type sleeper struct{ *longTask }

func (x sleeper) Before(y sleeper) bool {
	if !x.sleepUntil.Equal(y.sleepUntil) {
		return x.sleepUntil.Before(y.sleepUntil)
	}
	return x.longTask.Before(y.longTask)
}

// debt is a longTask that goes beyond its tenant's tokens. What runs comes first: what waits may be where it has to wait for long, and
// would keep its token from others meanwhile.
type debt struct{ *longTask }

func (x debt) Before(y debt) bool {
	if a, b := x.task.state == bound, y.task.state == bound; a != b {
		return a
	}
	return x.longTask.Before(y.longTask)
}

// nearGroup is what a group has whose tasks read inputs that are somewhere.
type nearGroup struct {
	group          *group
	unshelved      []*task // that came to wait, and are on no shelf yet, and some that are
	shelves        map[shelfKey]*shelf
	wantingShelves []*shelf        // that have had tasks since they were looked at, or lost places
	placesAt       map[*worker]int // live places by worker
	siteless       map[*task]bool  // on shelves, and none of whose hosts and racks has a worker
	timers         *pq.Heap[*shelf]
	node           list.Node[*nearGroup]
}

// Links makes it an item of lists.
func (n *nearGroup) Links() *list.Node[*nearGroup] { return &n.node }

// shelfKey names the workers at a host (Disk), those of a rack, or all (Across, "").
type shelfKey struct {
	tier estimate.Tier
	name string
}

// shelf is the tasks of a group that had better be run by some workers.
type shelf struct {
	shelfKey
	near             *nearGroup
	green            pq.Heap[*spot] // those for which it is too early
	ripe             line[*spot]    // those that any of these workers may take
	isWanting        bool           // it is listed
	livePlaces       int            // places believed to be in queues of those that were reserved for it
	liveReservations int            // reservations that have some of those
	pos              int            // among those with green ones
}

// Before orders shelves by when the first of what is green will be ripe.
func (s *shelf) Before(t *shelf) bool { return s.green.Min().ripeAt.Before(t.green.Min().ripeAt) }
func (s *shelf) Pos() *int            { return &s.pos }

// spot is a task's on a shelf.
type spot struct {
	task   *task
	shelf  *shelf
	ripeAt time.Time // when it may be taken there
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

// Links makes it an item of lists.
func (x *spot) Links() *list.Node[*spot] { return &x.node }

// nearTask is a task of such a group.
type nearTask struct {
	inputs         []estimate.Input
	sites          []estimate.Site // nearest first, the last one is anywhere
	spots          []*spot         // nil: it is on no shelf
	waitsSince     time.Time       // when it came to wait, for this attempt
	attemptsBefore int             // when it did
	read           time.Duration   // its inputs, at the worker that it went to last
	sitesBusy      bool            // it was to go anywhere at once, when it came to wait
	decision       uint64          // number of the last one
}

// reservation is one Reserve: count places at a worker, of which some live.
type reservation struct {
	w            *worker
	group        *group
	firstID      probe.ResID
	count        uint32
	sampleIndex  int32 // its position in the sample
	livePlaces   int
	rides        []*attempt // by place; nil once it is known what became of it
	openRides    int        // of those, how many are not known
	shelf        *shelf     // nil: it was not reserved for one
	sampleNumber uint64     // the Sample that it was decided with; 0: none
	// spare: its job needs it no more. It is among those of its worker, and no longer among those of its group.
	surplus bool
	node    list.Node[*reservation]
}

// Links makes it an item of lists.
func (r *reservation) Links() *list.Node[*reservation] { return &r.node }

// rideAt is the attempt that was sent along with place id and of which nothing is known yet, or nil.
func (r *reservation) rideAt(id probe.ResID) *attempt {
	if i := int(id - r.firstID); i < len(r.rides) {
		return r.rides[i]
	}
	return nil
}

// attempt is one try at a task, at a worker.
type attempt struct {
	id         probe.AttemptID
	job        *job
	task       *task
	w          *worker
	res        probe.ResID
	turn       probe.Turn
	sentAt     time.Time
	hasStarted bool // known to have started, or bound to a slot

	class probe.Class // as which it was sent, or stands since

	runsSince     time.Time  // it runs, as far as we know; zero: it does not
	expectedStart time.Time  // else: when its worker expects it to; zero: it has not said
	asCopy        *copyTerms // nil: it was not made as a copy
	progress      progress

	placeSpent bool // its place was used up for it, and comes back if the worker hands it back
}

// progress is how far a running attempt is, as its worker has said.
type progress struct {
	doneShare  float64       // share of its work; 0: it says nothing of that
	timeLeft   time.Duration // that it was to go on then
	reportedAt time.Time
}

// copyTerms is what is known of an attempt that was made as a copy, until it takes the place of the other one: of that, the
// task knows as much.
type copyTerms struct {
	decision        uint64
	attemptRun      time.Duration
	wait, run, read time.Duration // as of a longTask
}

// worker is what the frontend gave a worker and has not had back, and what passes between them.
type worker struct {
	*view.Worker

	nextRes     probe.ResID
	places      map[probe.ResID]*reservation
	attempts    map[probe.AttemptID]*attempt
	enqueued    map[probe.ResID]*attempt // those that were bound early
	acks        []probe.AttemptID
	surplus     []*reservation // to be cancelled soon
	firstLinkAt time.Time      // when the first link was made to this run of it

	lastCancels [8]probe.Cancel // the last ones that were sent
	nextCancel  int

	ackAt         time.Time
	syncAt        time.Time
	askMatrixFrom time.Time // when its matrix may be asked for again; zero: at once
	fullUntil     time.Time // until when it is believed to have no room in its queue
	matrixAwaited bool      // the next batch waits for its matrix
	wakeAt        time.Time
	pos           int
}

func (w *worker) Before(v *worker) bool {
	if !w.wakeAt.Equal(v.wakeAt) {
		return w.wakeAt.Before(v.wakeAt)
	}
	return w.Key < v.Key
}
func (w *worker) Pos() *int { return &w.pos }
