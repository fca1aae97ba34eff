package frontend

import (
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/place"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// Job is what a client submits. The core keeps the payloads until their tasks end.
type Job struct {
	ID         probe.JobID
	Tenant     string
	Priority   int32
	Deadline   time.Duration // from now; 0: none
	Policy     Policy
	Mode       estimate.Mode // auto lets the policy decide whether each task is routed or sampled
	ProbeRatio float64       // reservations per task; 0: the frontend's default
	Constraint Constraint
	Stages     []Stage // none: all tasks are of one
	Tasks      []Task
	// Generation counts the frontends to which the client has turned with the job before. If there were any, the attempts
	// of the earlier owner are claimed first, and a task that may start only once is started only if it is certain
	// that it never was.
	Generation probe.Generation
	Age        time.Duration // since its first submission, if this is not it; 0: not known

	usual time.Duration // mean of its tasks' estimates, of those that have one; 0: none has
}

// average is the mean of the estimates of tasks, of those that have one, as far as their functions' histories let them
// stand; 0 if none has.
func (c *Core) average(tasks []Task) time.Duration {
	sum, n := 0.0, 0
	var known *view.Runs
	for i := range tasks {
		if i == 0 || tasks[i].Function != tasks[i-1].Function {
			known = c.view.KnownRuns(tasks[i].Function)
		}
		if d := tasks[i].Estimate; d > 0 {
			if known != nil {
				d = known.Correct(d)
			}
			sum += float64(d)
			n++
		}
	}
	return time.Duration(sum / float64(max(n, 1)))
}

// Task is one unit of a job.
type Task struct {
	Index      probe.TaskIndex
	Stage      int32 // its position in the job's Stages
	Function   string
	Payload    []byte
	Demand     probe.Demand // a zero field takes that of probe.Slot
	Estimate   time.Duration
	Constraint Constraint
	Inputs     []Input
	Files      []probe.File // that must be at the worker before it starts
	Retryable  bool
	Timeout    time.Duration
	Retries    int // of the task's own failures
}

// Input is data that a task reads: of so many bytes, and where copies of it are, or the output of a stage before
// its own, which is where the tasks of that one have run.
type Input struct {
	Bytes  int64
	Copies []estimate.Copy
	Stage  string
}

// Constraint says where a task may run.
type Constraint = view.Constraint

// OutcomeKind is how a task ended.
type OutcomeKind uint8

const (
	Result OutcomeKind = iota + 1
	Failed
	Cancelled
	DeadlineExceeded
)

// Failure says why a task failed.
type Failure uint8

const (
	TaskError Failure = iota + 1
	Timeout
	Lost     // may start only once, and was lost: it may or may not have run
	Poison   // several workers died while they ran it
	NoWorker // every worker that could run it went away, and none came back in time
	TooLarge // the result is over the worker's limit
	Panic
	Infrastructure // it could not be launched, however often it was tried
	NoInput        // a file that it needs could not be fetched, or is not what its digest says
	StageFailed    // another task of its job, which has stages, has failed
)

// Outcome is the one end of a task.
type Outcome struct {
	Task     probe.TaskIndex
	Kind     OutcomeKind
	Result   []byte
	Failure  Failure
	Message  string
	Worker   string // of the attempt that counted
	Attempts int
	Run      time.Duration // of that attempt, measured by its executor
	Usage    probe.Usage   // of that attempt
	Phases   Phases
	Receipt  Receipt // of the worker's result; zero: there is none
}

// Receipt is for a result that its worker keeps until the client has it: see [Delivered].
type Receipt struct {
	Worker  Worker
	Attempt probe.AttemptID
}

// Phases are the moments of the attempt that counted, since the job was submitted. Moments at the worker
// are reckoned from the durations it reports, as if both directions of the link were equally slow. Those
// that were skipped (a task that rode along was never ready) repeat the one before.
type Phases struct {
	Sampled, Queued, Ready, Bound, Started, Finished time.Duration
}

// RefusedReason says why a job was not accepted.
type RefusedReason uint8

const (
	Invalid RefusedReason = iota + 1
	TooBigJob
	NoSuchWorker
	Overloaded
	Leaving
)

// RefusedError is a job's refusal; clients act on Reason and RetryAfter, never on text.
type RefusedError struct {
	Reason     RefusedReason
	Message    string
	RetryAfter time.Duration // 0: do not try again unchanged
}

func (e *RefusedError) Error() string { return e.Message }

// taskState is where a task stands between its submission and its outcome.
type taskState uint8

const (
	waiting  taskState = iota // for a place's turn
	matching                  // for a worker to be matched with (estimation)
	blocked                   // for the stages before its own
	probing                   // for the queue lengths it was sampled by (early binding)
	riding                    // with a reservation, to be started if there is room
	enqueued                  // at a worker, bound early
	bound                     // at a worker, running as far as we know
	adrift                    // riding, enqueued or bound where the link is broken
	claiming                  // the job was resubmitted; an attempt may still run somewhere
	done
)

// moves is every legal change of a task. A pair missing here is our bug, not bad input.
var moves = [...][]taskState{
	waiting:  {matching, blocked, probing, riding, enqueued, bound, claiming, done},
	matching: {enqueued, done},
	blocked:  {waiting, matching, done},
	probing:  {waiting, enqueued, done},
	riding:   {waiting, bound, adrift, done},
	enqueued: {waiting, matching, bound, adrift, done},
	bound:    {waiting, matching, blocked, adrift, done},
	adrift:   {waiting, matching, blocked, bound, done},
	claiming: {waiting, matching, blocked, bound, done},
	done:     {},
}

// job is a Job under way.
type job struct {
	Job
	submitted time.Time
	deadline  time.Time // zero: none
	tasks     []task
	groups    []*group
	lone      []*group // those no worker is up for
	left      int      // tasks without an outcome
	payloads  int      // bytes, of those
	waiting   int      // tasks in state waiting
	served    bool     // a task of it has started, or all are over
	ended     bool
	ending    bool // all its tasks are being ended
	wants     bool // it is among the wants

	stages []stage // none: the job has none
	cause  string  // of its failure, as a task of a stage has failed

	byIndex    map[probe.TaskIndex]*task // nil: each task is at its index
	claimUntil time.Time                 // tasks of it are claiming until then; zero: none is
	failed     map[probe.AttemptID]bool  // that were claimed, and had failed
	asked      map[*worker]bool          // those whose answers to a claim of the whole job are waited for
	untold     map[*worker]bool          // those that have not answered it, and may not know yet whose the job is
	unsure     []string                  // those that answered, and may have forgotten attempts that started

	lag      time.Duration // Resample: how long it waits for a turn before it samples again
	lagAt    time.Time     // when it does; zero: it does not wait, or for retryAt
	retryAt  time.Time     // before which it is of no use to look for places: queues are full, or nobody answered; zero: at once
	stranded time.Time     // since when no worker could run a waiting task
	wakeAt   time.Time
	pos      int

	tenant *tenant
	node   list.Node[*job] // among those of the tenant with waiting tasks
}

func (j *job) Before(k *job) bool { return j.wakeAt.Before(k.wakeAt) }
func (j *job) Pos() *int          { return &j.pos }

// Links makes it an item of lists.
func (j *job) Links() *list.Node[*job] { return &j.node }

// task is a Task under way.
type task struct {
	spec     *Task
	group    *group
	state    taskState
	attempt  *attempt
	last     probe.AttemptID // the last one of which it has the end
	attempts int
	failures int       // its own
	losses   int       // workers that went away while it ran
	hitches  int       // attempts that could not be launched
	long     *longTask // once it was to be placed by estimation
	near     *nearTask // once it was to be sampled near its inputs
	node     list.Node[*task]

	sampledAt, readyAt, boundAt time.Time
}

// Links makes it an item of lists.
func (t *task) Links() *list.Node[*task] { return &t.node }

// group is the tasks of a job that demand the same of a worker.
type group struct {
	job *job
	place.Kind
	estimate  time.Duration // mean of those of its tasks that have one; 0: none has
	path      estimate.Path
	number    int              // of its stage
	index     int              // among those of its job, as they were made
	queue     list.List[*task] // those that wait, first to be bound at the front
	places    list.List[*reservation]
	live      int       // places believed to be in queues
	probing   int       // reservations that have some of those
	sampledAt time.Time // when its first places were reserved; zero: not yet
	budget    int       // probes that the tasks were worth and that were not needed yet

	why      estimate.Reason // of the path of its first task
	stage    *estimate.Stats // of its finished tasks, if they are placed by estimation
	matching int             // tasks in state matching
	ends     time.Time       // when the last of those is expected to end that were placed by estimation
	longest  time.Duration   // that any of them is expected to run

	near *near             // nil: none of its tasks cares where it runs
	node list.Node[*group] // among those of its eligible set
}

// Links makes it an item of lists.
func (g *group) Links() *list.Node[*group] { return &g.node }

// reservation is one Reserve: count places at a worker, of which some live.
type reservation struct {
	w      *worker
	group  *group
	first  probe.ResID
	count  uint32
	chosen int32 // its position in the Sample of round
	live   int
	rides  []*attempt // by place; nil once it is known what became of it
	riding int        // of those, how many are not known
	shelf  *shelf     // nil: it was not reserved for one
	round  uint64     // the Sample that it was decided with; 0: none
	// spare: its job needs it no more. It is among those of its worker, and no longer among those of its group.
	spare bool
	node  list.Node[*reservation]
}

// Links makes it an item of lists.
func (r *reservation) Links() *list.Node[*reservation] { return &r.node }

// attempt is one try at a task, at a worker.
type attempt struct {
	id   probe.AttemptID
	job  *job
	task *task
	w    *worker
	res  probe.ResID
	turn probe.Turn
	sent time.Time
	ran  bool // known to have started, or bound to a slot

	spent bool // its place was used up for it, and comes back if the worker hands it back
}
