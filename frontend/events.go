package frontend

import (
	"time"

	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// Event is an input of [Core.Step]. Of links and workers: Listed, WorkerUp, LinkLost, WorkerGone, Frame, Heard. Of
// clients: Submit, Extend, Outdated, Cancel, CancelTasks, Unread, Delivered, Dropped. Of the frontend: Leave, Busy,
// Terms, Others, Lessons, Wake.
type Event interface{ isEvent() }

// WorkerUp: a link was made, for the first time or again.
type WorkerUp struct {
	Worker  Worker
	Welcome probe.Welcome
}

// LinkLost: a link broke, and the shell makes it again.
type LinkLost struct{ Worker Worker }

// Listed: a worker is listed at Address, and the shell will link to the worker.
type Listed struct {
	Worker  Worker
	Address string
}

// WorkerGone: the worker refuses connections, is silent for its lease, or was taken off the list.
type WorkerGone struct {
	Worker Worker
	Off    bool // the worker was taken off the list
}

// Frame: Msgs came from a worker at once, in order. The core does not keep the slice.
type Frame struct {
	Worker Worker
	Msgs   []probe.Msg
}

// Heard: gossip brought a row about a worker.
type Heard view.Rumour

// Submit a job. Its id must not be under way. The core owns the job from here on.
type Submit struct{ Job *Job }

// Extend adds stages and tasks to a job under way. If the same Extend comes again, nothing more is added. The core owns
// Stages and Tasks from here on.
type Extend struct {
	Job    probe.JobID
	From   int     // index of the first new task: the number of tasks that the job has had so far
	Stages []Stage // appended to the job's stages
	Tasks  []Task
	Last   bool // nothing more will be added: the job ends with its last task
}

// Outdated: the client of a job under way comes back with more tasks than the job has here. The core forgets the
// job, and the shell submits it again.
type Outdated struct{ Job probe.JobID }

// Cancel a job.
type Cancel struct {
	Job    probe.JobID
	Reason string
}

// CancelTasks ends some tasks of a job. The job goes on without the tasks.
type CancelTasks struct {
	Job    probe.JobID
	Tasks  []probe.TaskIndex
	Reason string
}

// Unread, if Full: the client of a job has too many results to fetch, so no more tasks of the job start. If not
// Full: the client has fetched enough, and the job goes on.
type Unread struct {
	Job  probe.JobID
	Full bool
}

// Delivered: the clients have the outcomes with Receipts, or do without, so workers may forget the results. Until
// then the workers keep the results for another frontend, which may claim the job if this frontend is lost.
type Delivered struct{ Receipts []Receipt }

// Dropped: the shell keeps the outcomes with Receipts no longer, and does not know whether the clients have them.
type Dropped struct{ Receipts []Receipt }

// Leave: the frontend leaves, and accepts no new jobs.
type Leave struct{}

// Busy tells what a message costs this process at present.
type Busy struct {
	Message time.Duration // CPU time to send or take in a message
	Share   float64       // share of the machine's CPUs in use
}

// Terms: the tenants file that holds from now on.
type Terms struct{ *tenants.File }

// Others lists the frontends of the fleet and the frontends silent by now or lost without a goodbye, and brings the
// needs of tenants by frontend. The event comes once a second, also in a fleet of a single frontend. After the event
// [Core.Needs] returns the needs to tell to the fleet. Nobody may write to the maps and slices.
type Others struct {
	Self    string
	Members []string
	Silent  []string
	Needs   map[string][]tenants.Need // by frontend
}

// Lessons: lessons of another frontend on run times. After the event, [Core.Lessons] has the best of both frontends.
type Lessons struct{ List []*view.Lesson }

// Wake: the time of NextWake has come.
type Wake struct{}

func (WorkerUp) isEvent()    {}
func (LinkLost) isEvent()    {}
func (WorkerGone) isEvent()  {}
func (Listed) isEvent()      {}
func (Delivered) isEvent()   {}
func (Dropped) isEvent()     {}
func (Frame) isEvent()       {}
func (Heard) isEvent()       {}
func (Submit) isEvent()      {}
func (Extend) isEvent()      {}
func (Outdated) isEvent()    {}
func (Cancel) isEvent()      {}
func (Leave) isEvent()       {}
func (Busy) isEvent()        {}
func (Terms) isEvent()       {}
func (Others) isEvent()      {}
func (Lessons) isEvent()     {}
func (Wake) isEvent()        {}
func (CancelTasks) isEvent() {}
func (Unread) isEvent()      {}

// Action is an order to the shell: Send, Accepted, Refused, Extended, Done, Ended, Moved or Collect. At the next step
// the core takes back actions passed by address, and the launches of messages.
type Action interface{ isAction() }

// Send a message to a worker. If the link breaks, the message may be lost.
type Send struct {
	Worker  Worker
	Msg     probe.Msg
	MayWait bool // up to LingerFor, to share a frame with later messages: each frame costs CPU
}

// LingerFor is the longest wait of a message with MayWait. The next message on the connection ends the wait earlier.
const LingerFor = 500 * time.Microsecond

// Accepted answers a Submit. Outcomes of the job may follow in the same step.
type Accepted struct{ Job probe.JobID }

// Refused answers a Submit.
type Refused struct {
	Job probe.JobID
	Err *RefusedError
}

// Extended answers an Extend.
type Extended struct {
	Job   probe.JobID
	Tasks int           // that the job has had so far, the new tasks included
	Added int           // new tasks
	Err   *RefusedError // why nothing was added; nil: the job has all tasks
}

// Done reports a task's outcome. Each task of an accepted job gets a Done, unless the job moves. Done is passed by
// address, because no other action comes as often. The core takes the Done back at the next step.
type Done struct {
	Job     probe.JobID
	Outcome Outcome
}

// Ended: every task of the job has an outcome, and the core has forgotten the job.
type Ended struct{ Job probe.JobID }

// Moved: the job's client has gone to another frontend, which has claimed the job. The core has forgotten the job.
type Moved struct{ Job probe.JobID }

// Collect: the worker leaves, and waits until all its results are acknowledged. The shell tells all receipts of the
// worker as Delivered.
type Collect struct{ Worker Worker }

func (Send) isAction()     {}
func (Accepted) isAction() {}
func (Refused) isAction()  {}
func (Extended) isAction() {}
func (*Done) isAction()    {}
func (Ended) isAction()    {}
func (Moved) isAction()    {}
func (Collect) isAction()  {}

// Stats counts what a core has done since New.
type Stats struct {
	Jobs, Tasks, Refusals                                               uint64
	Places, Rides, RidesStarted, Binds, Kept, Shared, Declines, Cancels uint64
	Offers, Resamples, Retries, Losses, Claims, Adopted, Lost, Poisons  uint64
	// Of these, Kept counts turns with a sticky place that stays, Shared turns given to another job, and Offers
	// waiting tasks brought to a worker with room. Losses counts lost attempts. Lost counts tasks that failed because
	// their attempt was lost, and they may start only once. Poisons counts tasks that failed as the suspected cause of
	// lost workers. Adopted counts attempts found at workers that another frontend had launched.

	// Attempts stopped for regular work.
	Preempted uint64
	// Tasks that ran again because of lost outputs.
	Remade uint64
	// Attempts at tasks beyond their tenants' tokens, and Restamps sent when tokens covered such an attempt later.
	Beyond, Restamps uint64
	// Of claimed jobs: tasks that may start only once, and that certainly had not started before.
	NeverStarted uint64
	// Copies of late tasks. A copy has won if it finished first, or started while the first attempt was queued.
	Copies, CopiesWon uint64
	// Tasks withdrawn from the queue of a worker, because another worker could start them sooner.
	Moves uint64
	// Nanoseconds run by stopped attempts at tasks with a copy.
	InVain   uint64
	Outcomes [DeadlineExceeded + 1]uint64

	// Of tasks placed by estimation. Leftovers counts tries in which other tasks of the batch took all candidates.
	// Asked counts matrices asked for.
	Estimated, Batches, Enqueued, Leftovers, Asked uint64
}
