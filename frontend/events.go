package frontend

import (
	"time"

	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// Event is what a Core is told: one of Listed, WorkerUp, LinkLost, WorkerGone, Received, Frame, Heard, Submit, Extend,
// Outdated, Cancel, CancelTasks, Unread, Delivered, Dropped, Leave, Busy, Terms, Others, Wake.
type Event interface{ isEvent() }

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

// Extend adds stages and tasks to a job under way. What was added before is not added again. The core owns them from here on.
type Extend struct {
	Job    probe.JobID
	From   int     // how many tasks the job has had so far, in all: the index of the first new one
	Stages []Stage // after those that it has
	Tasks  []Task
	Last   bool // no more are added: a job that is open ends with its tasks
}

// Outdated: the client of a job under way comes back with more of it than is known here. What is here is forgotten, for the job
// to be submitted again.
type Outdated struct{ Job probe.JobID }

// Cancel a job.
type Cancel struct {
	Job    probe.JobID
	Reason string
}

// CancelTasks ends some tasks of a job. The job goes on without them.
type CancelTasks struct {
	Job    probe.JobID
	Tasks  []probe.TaskIndex
	Reason string
}

// Unread: the client of a job has so many results to fetch that no more of its tasks are to start, or it has fetched enough.
type Unread struct {
	Job  probe.JobID
	Full bool
}

// Delivered: clients have the outcomes that these receipts came with, or do without; the workers may forget the results.
// Until then they keep them for whoever claims the job, should this frontend be lost.
type Delivered struct{ Receipts []Receipt }

// Dropped: it is not known whether clients have the outcomes that these receipts came with, and nothing is kept of them
// here any more.
type Dropped struct{ Receipts []Receipt }

// Leave: accept nothing new.
type Leave struct{}

// Busy says what messages cost this process at present.
type Busy struct {
	Message time.Duration // CPU for one, sent or taken in
	Share   float64       // of the machine's CPUs that is in use
}

// Terms: what tenants may have from now on.
type Terms struct{ *tenants.File }

// Others: which frontends there are, which of them are silent by now, and what the others have told that they need of tenants. It comes
// once a second, also if there are none, and Needs is what they are to be told then. What it has is not to be written to.
type Others struct {
	Self    string
	Members []string
	Silent  []string
	Needs   map[string][]tenants.Need // by frontend
}

// Wake: the time that NextWake named has come.
type Wake struct{}

func (WorkerUp) isEvent()    {}
func (LinkLost) isEvent()    {}
func (WorkerGone) isEvent()  {}
func (Listed) isEvent()      {}
func (Delivered) isEvent()   {}
func (Dropped) isEvent()     {}
func (Received) isEvent()    {}
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
func (Wake) isEvent()        {}
func (CancelTasks) isEvent() {}
func (Unread) isEvent()      {}

// Action is what the shell must do: one of Send, Accepted, Refused, Extended, Done, Ended, Moved and Collect. What comes by its
// address is the core's again with its next step, and so are the launches of its messages.
type Action interface{ isAction() }

// Send a message to a worker; it may be lost if the link breaks.
type Send struct {
	Worker  Worker
	Msg     probe.Msg
	MayWait bool // up to LingerFor, for others to travel with: messages are dear
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

// Extended answers an Extend.
type Extended struct {
	Job   probe.JobID
	Tasks int           // that it has had so far, in all
	Added int           // of these, now
	Err   *RefusedError // why nothing was added; nil: all is there
}

// Done reports a task's outcome; there is one for each task of an accepted job that does not move. It comes by its address,
// as no other action comes as often, and is the core's again with its next step.
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

func (Send) isAction()     {}
func (Accepted) isAction() {}
func (Refused) isAction()  {}
func (Extended) isAction() {}
func (*Done) isAction()    {}
func (Ended) isAction()    {}
func (Moved) isAction()    {}
func (Collect) isAction()  {}

// Stats counts what a core has done since it was made.
type Stats struct {
	Jobs, Tasks, Refusals                                               uint64
	Places, Rides, RidesStarted, Binds, Kept, Shared, Declines, Cancels uint64
	Offers, Resamples, Retries, Losses, Claims, Adopted, Lost, Poisons  uint64
	Preempted                                                           uint64 // attempts, for what is regular
	Remade                                                              uint64 // tasks that ran again for what they had left
	Beyond, Restamps                                                    uint64 // attempts at tasks that tokens did not cover, and how often one was told that they do now
	NeverStarted                                                        uint64 // tasks that may start only once, of a job that was claimed
	Copies, CopiesWon                                                   uint64 // second attempts of late tasks, and those that finished first, or started first of two that waited
	InVain                                                              uint64 // nanoseconds that the other attempts of such tasks ran
	Outcomes                                                            [DeadlineExceeded + 1]uint64

	Estimated, Batches, Enqueued, Leftovers, Asked uint64 // tasks placed by estimation
}
