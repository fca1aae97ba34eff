package probe

import (
	"math"
	"time"
)

// Msg is a message of the probe protocol: one of the structs in this file. A Finished comes by pointer, because
// Finished is frequent and its memory may be lent; all other messages come by value. Slices and strings belong to
// the message: nobody writes to them afterwards. Durations are never negative.
type Msg interface{ wireKind() kind }

// kind is the first byte of an encoded message. Numbers are never reused.
type kind byte

// Frontend to worker.
const (
	kindHello kind = iota + 1
	kindReserve
	kindBind
	kindDecline
	kindEnqueue
	kindCancel
	kindKill
	kindClaim
	kindAck
	kindSync
	kindPing
	kindProbe
	kindCommon
	kindForget
	kindRestamp
	kindAway
)

// Worker to frontend.
const (
	kindWelcome kind = iota + 64
	kindRejected
	kindQueued
	kindStarted
	kindReady
	kindFinished
	kindRefused
	kindEvicted
	kindGone
	kindLoad
	kindDrain
	kindPong
	kindClaimed
	kindCache
)

// Hello is the first message on a connection.
type Hello struct {
	Speaks   Dialect
	Secret   string // "" if none
	Frontend FrontendID
	Name     string // for logs
	Epoch    Epoch
	Lease    time.Duration // each end takes the connection for broken after this silence
}

// Launch is a task handed to a worker: one attempt.
type Launch struct {
	Attempt  AttemptID
	Task     TaskIndex
	Function string
	Payload  []byte
	Estimate time.Duration // expected run time; 0: unknown
	Timeout  time.Duration // longest run time; 0: none
	Deadline time.Duration // from the moment of sending until the job must be done; 0: none
	Files    []File        // needed on the worker's disk; only a task bound early may need files
	Context  *Context      // nobody writes to it; nil: no context
}

// Context tells a task its place in the job, and carries data between tasks of different stages. A peer without
// [Passing] runs the task without a Context.
type Context struct {
	Stage     string
	Partition uint32 // number of the task in its stage
	Attempt   uint32 // number of the attempt at the task, from 1
	Trace     string // the job's traceparent in W3C format; "": none
	Common    uint32 // number of the Common for this payload; 0: none
	Inline    uint32 // bytes: a longer output becomes a file, a shorter output travels with the result
	Large     bool   // a result too large to travel becomes a file, too: an output in ResultPartition
	Inputs    []Passed
}

// Class says what a queue entry, or its running attempt, may block.
type Class uint8

const (
	Regular Class = iota
	Yielded       // starts only where no regular entry can start; keeps running
	Spare         // starts like Yielded; stops if regular work needs its room
)

var classNames = [...]string{"regular", "yielded", "spare"}

func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return "unknown_class"
}

// Standing ranks an entry among the entries of a queue.
type Standing struct {
	Class Class
	Due   time.Duration // from the moment of sending until the entry becomes regular by itself; 0: never
	Left  time.Duration // unfinished work of the entry's job: least goes first; 0: not known
	Age   time.Duration // age of the job, for entries of later stages: the entry queues as if it had come with its job
}

// ResultPartition is the partition of a result that is too large to travel.
const ResultPartition = MaxPassed - 1

// Passed is an output of another task, passed to this task.
type Passed struct {
	Stage string
	Task  TaskIndex
	Output
	Peers []string // host:port of Welcome.Cache, of workers said to have the file: at most MaxPeers
}

// Output holds a task's output for one partition: the data itself, or the digest of a file in its worker's cache.
type Output struct {
	Partition uint32
	Bytes     uint64
	File      bool
	Digest    [32]byte // of a file
	Data      []byte   // instead of a file
}

// Common is a payload shared by tasks of a job. Launches name a Common by its number. The worker keeps a Common
// until Forget, or until the link breaks.
type Common struct {
	Job     JobID
	Number  uint32
	Payload []byte
}

// Forget ends the job's Commons: no later launch names them.
type Forget struct{ Job JobID }

// Away tells the worker to drain, or announces a future absence of the worker. Only a worker with [Departing] gets
// an Away.
type Away struct {
	Drain bool          // finish running tasks, take nothing new, then exit
	In    time.Duration // without Drain: time from now until the absence
	Lasts time.Duration // length of the absence; 0 withdraws an announcement
}

// File is an input file, needed on the worker's disk. The digest defines the content, wherever the bytes come from.
type File struct {
	Digest [32]byte // SHA-256
	URL    string
	Bytes  uint64   // 0: unknown
	Peers  []string // host:port of Welcome.Cache, of workers said to have the file: at most MaxPeers
}

// Reserve asks for Count places with the ids First, First+1, ... Launches ride along, at most Count of them: the
// worker starts a launch at once if there is room and no waiting place is delayed. A started launch uses up the
// place at the same position. If nothing waits, the worker stages up to Bundle of the remaining launches behind the
// started launches, as with Bind. The worker forgets all other launches; their places stay in the queue.
type Reserve struct {
	First      ResID
	Count      uint32
	Job        JobID
	Generation Generation
	Tenant     string
	Priority   int32
	Demand     Demand        // of each place
	Estimate   time.Duration // expected run time; 0: the tasks give none
	Typical    time.Duration // without Estimate: median of recent run times of the function; 0: not known
	Early      bool          // the worker may ask one round trip before it expects a free slot
	Bundle     uint32        // maximum number of launches that wait for the slots of started launches
	Launches   []Launch
	Weights    []uint32 // of the parts of the tenant's path, topmost first; a missing weight is not known
	Standing   Standing // launches ride along only if their class is Regular; otherwise only their places are queued
	Guarded    bool     // only a Claim that names the tenant takes the job
}

// Bind gives a task to a place whose turn has come. With Keep, the place goes back to its position in the queue,
// for further tasks of its job. With a Job, the tasks come from another job of the same frontend, because the
// place's own job does not need the turn. The worker stages the tasks of Bundle: they start ahead of the queue as
// slots fall free, and go back to the frontend if no slot falls free soon. Bundle holds short tasks only, expected
// to end within the round trip of asking for them.
type Bind struct {
	Res        ResID
	Turn       Turn
	Keep       bool
	Job        JobID      // zero: the job of the place
	Generation Generation // of Job, if Job is set
	Launch     Launch
	Bundle     []Launch
}

// Decline answers a Ready without a task: the place is gone.
type Decline struct {
	Res  ResID
	Turn Turn
}

// Enqueue queues a task bound early, at the place Res.
type Enqueue struct {
	Res        ResID
	Job        JobID
	Generation Generation
	Tenant     string
	Priority   int32
	Demand     Demand
	Long       bool // the task may not use the part of the worker closed to long tasks
	Matrix     bool // the Load of the answer must carry the wait matrix
	Launch     Launch
	Weights    []uint32 // as in Reserve
	Standing   Standing
	Guarded    bool // as in Reserve
}

// Restamp changes the standing of place Res, if its turn has not come yet. If Attempt runs already, the worker no
// longer stops the attempt for regular work, unless the new class is Spare. Restamp has no answer of its own: the
// usual messages tell about a missing place. Only a worker with [Classes] gets a Restamp.
type Restamp struct {
	Res      ResID // 0: none, because Attempt was claimed
	Standing Standing
	Attempt  AttemptID // bound early to Res; zero: none
}

// Cancel takes back Count places from First on. If the worker has not heard of a place yet, the worker drops the
// place on arrival. Cancel leaves running tasks alone, and withdraws tasks bound early that still wait.
type Cancel struct {
	First ResID
	Count uint32
	// Answer asks for an Evicted, with reason Withdrawn, for each place that the worker had. A task that has started
	// stays, and its Started is the answer. Only a worker with [Withdrawing] answers.
	Answer bool
}

// Kill stops an attempt, wherever the attempt is. If the attempt's Bind is still on its way to Res and Turn, Kill
// ends the place as well.
type Kill struct {
	Attempt AttemptID
	Res     ResID
	Turn    Turn
}

// Claim adopts an attempt launched over another connection: the frontend's own connection before a reconnect, or
// the link of another frontend whose client has left. With a zero Attempt, Claim adopts every attempt of Job, and
// takes the job's places away from all other links; Claimed then ends the answer. From then on the worker refuses,
// as Moved, messages about the job from an earlier generation, or from another frontend of the same generation.
//
// Clients choose the ids of jobs, so two tenants may use the same id. A Claim concerns the job of its Tenant only. A
// Claim of an older frontend names no tenant, and concerns the jobs of all tenants that are not Guarded.
type Claim struct {
	Job        JobID
	Attempt    AttemptID
	Generation Generation
	Tenant     string
	HasTenant  bool // false: an older frontend, which names no tenant
}

// Ack lets the worker forget the results of these attempts: clients have the results, or the tasks run again.
// Disowned results have no known client, and the frontend does not keep them either. The worker keeps disowned
// results for some time, for a frontend that claims the job.
type Ack struct {
	Attempts []AttemptID
	Disowned bool
}

// Range is Count ids, from First on.
type Range struct {
	First ResID
	Count uint32
}

// SyncAge is the minimum age of a belief that a Sync or a Gone may correct. If a Sync does not name a place or an
// attempt of this age, the worker drops the entry. If a Gone names an attempt of this age, the frontend drops it.
// The message about a younger entry may still have been on its way when the peer sent its list.
const SyncAge = time.Second

// Sync tells the worker all that the frontend believes about the link. Live lists the queued places below Next,
// Attempts the attempts without a known end. The worker drops unnamed places below Next and unnamed attempts, if
// they are at least SyncAge old. For named entries that the worker does not have, the worker answers with Gone.
type Sync struct {
	Next     ResID
	Live     []Range
	Attempts []AttemptID
}

// Ping asks for a Pong with the same Seq.
type Ping struct {
	Seq    uint64
	Matrix bool // the Load of the answer must carry the wait matrix
}

// Probe asks for a Load with the same Seq. The early-binding baselines ask for queue lengths, and placement by
// estimation asks for fresh wait matrices.
type Probe struct {
	Seq    uint64
	Matrix bool // the Load must carry the wait matrix
	// Asker, with Matrix, is the task to be placed. The worker answers with the exact share of the task's tenant. A
	// worker of an older version ignores Asker.
	Asker *Asker
}

// Asker describes a task that a frontend may bind early, as far as the task's wait depends on the task.
type Asker struct {
	Tenant   string
	Priority int32
	Demand   Demand
	Long     bool // as in Enqueue
	Standing Standing
}

// Welcome answers a good Hello.
type Welcome struct {
	Speaks      Dialect
	Epoch       Epoch // of the answered Hello
	Worker      string
	Incarnation uint64 // of two runs of a worker, the later run has the higher number
	Host        string
	Rack        string // "" if the worker does not know
	Capacity    Demand
	Open        Demand   // the part of Capacity open to long tasks
	Labels      []string // "key=value"
	Functions   []string
	MaxPayload  uint32 // bytes
	MaxResult   uint32 // bytes
	Speed       uint32 // thousandths of the reference speed: 2000 runs tasks twice as fast; 0: not known
	Cache       string // host:port where other workers find cached files; "": takes no task with files
	Draining    bool
}

// Rejected answers a bad Hello; the worker then closes the connection.
type Rejected struct{ Reason string }

// Load is a worker's state at the moment of the message that carries it.
type Load struct {
	Seq     uint64 // of the answered Probe; 0 in other messages
	Free    Demand // free room; places at their turn take room, stoppable spare tasks do not
	Queued  uint32 // regular places in the queue, of all frontends
	Running uint32 // attempts that run
	// Matrix is the expected wait of long tasks, if an Enqueue (for its Queued and Started), a Ping or a Probe
	// asked for the matrix. Otherwise nil.
	Matrix *WaitMatrix
}

// Queued answers a Reserve with ride-along launches that did not all start: Count places, from First on, are in the
// queue behind Ahead earlier places, and the worker has forgotten their launches. Queued also answers every Enqueue
// whose task waits.
type Queued struct {
	First ResID
	Count uint32
	Ahead uint32
	Load  Load
	Wait  time.Duration // expected wait of the task, if its Enqueue asked for the matrix; 0: not known
}

// Started reports a running attempt that was bound early or claimed. Launches of Reserve and Bind start without a
// message.
type Started struct {
	Attempt AttemptID
	Res     ResID
	Job     JobID
	Task    TaskIndex
	Ran     time.Duration // run time so far
	Load    Load
}

// Claimed ends the answer to a Claim of a whole job. The worker adopted Count attempts, and has sent a Started or a
// Finished for each attempt. The worker remembers every unacknowledged attempt that the job started here within the
// last Knows. Moved means that the claim came too late and nothing was adopted: a later generation has claimed the
// job.
type Claimed struct {
	Job        JobID
	Generation Generation // of the Claim
	Count      uint32
	Knows      time.Duration
	Moved      bool
}

// Ready says that a place's turn has come. The worker holds a slot until Expiry has passed since the message was
// sent, or longer while bytes come that may be the answer. If the worker asks one round trip ahead, Early is the time
// until a slot is expected to fall free.
type Ready struct {
	Res    ResID
	Turn   Turn
	Waited time.Duration // since the place joined the queue
	Expiry time.Duration
	Early  time.Duration
	Load   Load
}

// Status says how an attempt ended.
type Status uint8

const (
	Succeeded Status = iota + 1
	Failed           // the function returned an error, or the process a non-zero exit code
	Panicked         // the function panicked, or a signal ended the process
	Killed           // by Kill, by a drain, or because the owner was away for too long
	TimedOut
	TooLarge  // the result is over the worker's limit
	NoInput   // the task never ran: an input file could not be fetched, or does not match its digest
	Preempted // a spare attempt was stopped for regular work; only sent to peers with [Classes]
)

var statusNames = [...]string{"none", "succeeded", "failed", "panicked", "killed", "timed_out", "too_large",
	"no_input", "preempted"}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "unknown_status"
}

// Usage is the consumption of an attempt, as far as the worker can measure. 0 is nothing, or not known.
type Usage struct {
	CPU     time.Duration // CPU time, over all cores
	Memory  MiB           // peak
	Fetched uint64        // bytes of input files that the worker did not have
	Fetch   time.Duration // time until all input files were there, in parallel with the wait
}

// Demand returns the room that the attempt really used over its run time run: cores on average, and peak memory.
func (u *Usage) Demand(run time.Duration) (d Demand) {
	if run > 0 {
		d.CPU = Millicores(min(1000*u.CPU.Seconds()/run.Seconds(), math.MaxInt32))
	}
	d.Mem = u.Memory
	return d
}

// Finished carries an attempt's end and result. The worker keeps a Finished until the Ack. If this frontend is lost
// before the client has the result, the next frontend of the job can claim it.
type Finished struct {
	Attempt AttemptID
	Job     JobID
	Task    TaskIndex
	Status  Status
	Result  []byte
	Error   string
	Waited  time.Duration // in the queue, until Ready or the start
	Held    time.Duration // from Ready to the arrival of Bind; 0 without a Ready
	Launch  time.Duration // from the arrival of the task to the start of its run; bound early: Waited is a part
	Run     time.Duration // measured by the executor
	Kept    time.Duration // from the end of the run to this message
	Usage   Usage
	Load    Load
	Code    string // of the function's own error; "": none given
	Detail  []byte // details of the function's own error
	Retry   Retry
	Outputs []Output // of a success; with NoInput: the input files found nowhere
	Waits   Waits
	// DiskFailed means: this worker's disk failed, not the task. Retry is Elsewhere then.
	DiskFailed bool
}

// Waits divides the wait in the queue by its cause: the parts add up to the wait. All parts are 0 without a wait,
// and if the worker does not report causes.
type Waits struct {
	Own    time.Duration // behind short tasks of the task's own tenant
	Others time.Duration // behind short tasks of foreign tenants
	Long   time.Duration // behind long tasks
	Closed time.Duration // with free room, but only in the part closed to long tasks
	Idle   time.Duration // with free room, held while a frontend chose a task
}

// Retry says where a task may run again after its function failed.
type Retry uint8

const (
	Anywhere  Retry = iota
	Elsewhere       // not at this worker, unless there is no second worker
	Never
)

// Reason says why a worker refused, evicted or does not know a place or an attempt.
type Reason uint8

const (
	QueueFull  Reason = iota + 1
	Leaving           // the worker drains
	TooBig            // the demand never fits this worker
	NoFunction        // the worker has no such function
	Expired           // the turn's expiry passed without an answer
	Unknown           // the worker never heard of the attempt, or forgot it
	Oversized         // the payload is over the worker's limit
	Moved             // the job was claimed since: its client has moved the whole job to another frontend
	Late              // bound ahead of a slot that did not fall free when expected; bind the task elsewhere
	NeedsFiles        // a task with files must be bound early, so that its files are fetched while the task waits
	NoCommon          // the launch names a Common that has not come
	Withdrawn         // the frontend has taken the place back, by a Cancel with Answer
)

var reasonNames = [...]string{"none", "queue_full", "leaving", "too_big", "no_function", "expired", "unknown",
	"oversized", "moved", "late", "needs_files", "no_common", "withdrawn"}

func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown_reason"
}

// Refused answers a Reserve, a Bind, an Enqueue or a Claim that the worker did not accept. The Count places from
// First on, and the Attempt, if set, are not at this worker and never will be. With Count 0 no place is refused.
type Refused struct {
	First      ResID
	Count      uint32
	Attempt    AttemptID
	Reason     Reason
	RetryAfter time.Duration // when to try again, if Reason is QueueFull; else frontends ignore it
	Load       Load
	// Knows is set if Reason is Unknown: an attempt sent less than Knows ago never started and never will; 0: not
	// known.
	Knows time.Duration
}

// Evicted reports places dropped from the queue after the worker had accepted them.
type Evicted struct {
	First  ResID
	Count  uint32
	Reason Reason
}

// Gone answers a Sync. Gone lists the named places and attempts that the worker does not have and never will.
type Gone struct {
	Places   []Range
	Attempts []AttemptID
}

// Drain says that the worker leaves: the worker takes nothing new and finishes running tasks.
type Drain struct{}

// Cache says why the worker's file cache takes no new files, or with no Problem, that the cache takes files again. A
// new link starts without a problem. Each Cache replaces the last, so links must keep their order.
type Cache struct{ Problem string }

// Pong answers a Ping, and reports the state of the frontend's attempts.
type Pong struct {
	Seq      uint64
	Load     Load
	Expect   []Expect   // for queued attempts that were bound early; a part of the attempts if there are many
	Progress []Progress // for running attempts that report their progress
	Pace     uint32     // recent run time of long tasks over their expected run time, in thousandths; 0: not known
	Uses     []Use      // of running attempts that are processes
}

// Expect is the expected wait of a queued attempt, from now.
type Expect struct {
	Attempt AttemptID
	Wait    time.Duration
}

// Progress is the progress of a running attempt.
type Progress struct {
	Attempt AttemptID
	Done    uint32        // share of the work done, in millionths
	Left    time.Duration // expected time to the end, at the recent speed
}

// Use is the consumption of a running process with its children, so far. Go functions share the worker's process, so
// their consumption is not known.
type Use struct {
	Attempt AttemptID
	Ran     time.Duration // run time when the consumption was sampled
	CPU     time.Duration // over all cores
	Memory  MiB           // in use when sampled
}

func (Hello) wireKind() kind     { return kindHello }
func (Reserve) wireKind() kind   { return kindReserve }
func (Bind) wireKind() kind      { return kindBind }
func (Decline) wireKind() kind   { return kindDecline }
func (Enqueue) wireKind() kind   { return kindEnqueue }
func (Cancel) wireKind() kind    { return kindCancel }
func (Kill) wireKind() kind      { return kindKill }
func (Claim) wireKind() kind     { return kindClaim }
func (Ack) wireKind() kind       { return kindAck }
func (Sync) wireKind() kind      { return kindSync }
func (Ping) wireKind() kind      { return kindPing }
func (Probe) wireKind() kind     { return kindProbe }
func (Common) wireKind() kind    { return kindCommon }
func (Forget) wireKind() kind    { return kindForget }
func (Restamp) wireKind() kind   { return kindRestamp }
func (Away) wireKind() kind      { return kindAway }
func (Welcome) wireKind() kind   { return kindWelcome }
func (Rejected) wireKind() kind  { return kindRejected }
func (Queued) wireKind() kind    { return kindQueued }
func (Started) wireKind() kind   { return kindStarted }
func (Ready) wireKind() kind     { return kindReady }
func (*Finished) wireKind() kind { return kindFinished }
func (Refused) wireKind() kind   { return kindRefused }
func (Evicted) wireKind() kind   { return kindEvicted }
func (Gone) wireKind() kind      { return kindGone }
func (Load) wireKind() kind      { return kindLoad }
func (Drain) wireKind() kind     { return kindDrain }
func (Cache) wireKind() kind     { return kindCache }
func (Pong) wireKind() kind      { return kindPong }
func (Claimed) wireKind() kind   { return kindClaimed }
