package probe

import (
	"math"
	"time"
)

// Msg is a message of the probe protocol: one of the structs of this file, by value, but for Finished: there are so many of
// these that they come by their address, and may be lent. Slices and strings in it belong to the message; nobody writes to
// them afterwards. Durations are never negative.
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
)

// Hello is the first message on a connection.
type Hello struct {
	Speaks   Dialect
	Secret   string // "" if none
	Frontend FrontendID
	Name     string // for logs
	Epoch    Epoch
	Lease    time.Duration // silence after which either side takes the connection for broken
}

// Launch is a task handed to a worker: one attempt.
type Launch struct {
	Attempt  AttemptID
	Task     TaskIndex
	Function string
	Payload  []byte
	Estimate time.Duration // expected run time; 0: unknown
	Timeout  time.Duration // longest run time; 0: none
	Deadline time.Duration // from when this is sent until the job must be done; 0: none
	Files    []File        // it needs on the worker's disk; only a task bound early may need any
	Context  *Context      // nil: there is nothing to tell. Nobody writes to it
}

// Context is what a task may know of itself, and what passes between it and tasks of other stages. A peer without
// [Passing] runs the task as if there were none.
type Context struct {
	Stage     string
	Partition uint32 // its number in the stage
	Attempt   uint32 // its number among those of the task, from 1
	Trace     string // the job's traceparent, as W3C has it; "": none
	Common    uint32 // number of the Common that goes with the payload; 0: none does
	Inline    uint32 // bytes up to which an output travels with the result; larger ones become files
	Large     bool   // so does a result that is too large to travel, as an output in ResultPartition
	Inputs    []Passed
}

// Class says what an entry in a worker's queue, or what runs of it, may stand in the way of.
type Class uint8

const (
	Regular Class = iota
	Yielded       // it starts only where nothing regular can, and what has started stays
	Spare         // likewise, and what has started is stopped where it stands in the way of what is regular
)

var classNames = [...]string{"regular", "yielded", "spare"}

func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return "unknown_class"
}

// Standing is how an entry stands among those of a queue.
type Standing struct {
	Class Class
	Due   time.Duration // from when this is sent until it is regular by itself; 0: never
	Left  time.Duration // work that its job has left, of which the least goes first; 0: not known
	Age   time.Duration // of its job, if it is of a later stage: it stands where it would if it had come then
}

// ResultPartition is where the result of a task is that is too large to travel.
const ResultPartition = MaxPassed - 1

// Passed is an output of another task that is passed to this one.
type Passed struct {
	Stage string
	Task  TaskIndex
	Output
	Peers []string // host:port of Welcome.Cache, of workers that are said to have the file: at most MaxPeers
}

// Output is what a task leaves for others in one partition: the data itself, or a file of that digest in its worker's cache.
type Output struct {
	Partition uint32
	Bytes     uint64
	File      bool
	Digest    [32]byte // of a file
	Data      []byte   // else
}

// Common is a payload that tasks of a job have in common. Their launches name it by its number. The worker keeps it until
// Forget, or until the link breaks.
type Common struct {
	Job     JobID
	Number  uint32
	Payload []byte
}

// Forget says that no more launches will name what the job has in common.
type Forget struct{ Job JobID }

// Away has the worker leave: it drains, or it announces that it will be away. It is for peers that know Departing.
type Away struct {
	Drain bool          // end what runs, take nothing new, and end
	In    time.Duration // else: from now on, for how long; Lasts 0 takes an announcement back
	Lasts time.Duration
}

// File is one that a task needs on the worker's disk. Its content is what its digest says, wherever it is from.
type File struct {
	Digest [32]byte // SHA-256
	URL    string
	Bytes  uint64   // 0: unknown
	Peers  []string // host:port of Welcome.Cache, of workers that are said to have it: at most MaxPeers
}

// Reserve asks for Count places with the ids First, First+1, ... Each of the ride-along Launches (at
// most Count of them) is started at once if the worker has room for it and that delays nothing that waits:
// it then uses up the place with the same position. Up to Bundle of those for which there is no room are
// staged behind them, as with Bind, if nothing waits. The others leave only their places behind.
type Reserve struct {
	First      ResID
	Count      uint32
	Job        JobID
	Generation Generation
	Tenant     string
	Priority   int32
	Demand     Demand        // of each place
	Estimate   time.Duration // 0: the tasks tell none
	Typical    time.Duration // then: the median of what those of their function ran lately; 0: not known
	Early      bool          // the worker may ask one round trip before it expects a slot to fall free
	Bundle     uint32        // how many launches may wait for the slots of those that start
	Launches   []Launch
	Weights    []uint32 // of the parts of the tenant's path, the topmost first; those that are missing: not known
	Standing   Standing // launches of what is not regular do not ride: only their places are queued
}

// Bind gives a task to a place whose turn has come. With Keep, the place goes back into the queue where
// it was, for further tasks of its job. With a Job, the tasks are of that one, which waits at the same
// frontend, as the place's own needs the turn no more. The tasks of Bundle, all so short that they are expected to end
// within the round trip that asking for them would take, are staged: they start, ahead of the queue, when
// slots fall free, and are handed back if that takes too long.
type Bind struct {
	Res        ResID
	Turn       Turn
	Keep       bool
	Job        JobID      // zero: the place's
	Generation Generation // of Job, if that is not the place's
	Launch     Launch
	Bundle     []Launch
}

// Decline answers a Ready with nothing: the place is gone.
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
	Long       bool // it may not use the share of the worker that is closed to long tasks
	Matrix     bool // the answer's Load is to tell the wait matrix
	Launch     Launch
	Weights    []uint32 // as of Reserve
	Standing   Standing
}

// Restamp changes how the place Res stands, if its turn is yet to come. If its Attempt runs already, it is not stopped for others any
// more, unless it stays spare. Nothing answers it: a place that is not there is told of as ever. Only for a worker with [Classes].
type Restamp struct {
	Res      ResID // 0: none, as its Attempt was claimed
	Standing Standing
	Attempt  AttemptID // bound early to Res; zero: none
}

// Cancel takes back Count places from First on. A place the worker has not heard of yet is dropped when
// it comes. Tasks that run are not affected, tasks bound early that wait are.
type Cancel struct {
	First ResID
	Count uint32
}

// Kill stops an attempt, wherever it is; its place too, if its Bind is still on the way to Res and Turn.
type Kill struct {
	Attempt AttemptID
	Res     ResID
	Turn    Turn
}

// Claim adopts an attempt that another connection launched: its own after a reconnect, or one of another
// frontend, which the job's client left. With a zero Attempt it adopts every attempt of Job, and takes
// that job's places from whoever holds them; Claimed then ends the answer. From then on the worker refuses, as Moved,
// what comes of the job from an earlier generation, or of the same one from another frontend.
type Claim struct {
	Job        JobID
	Attempt    AttemptID
	Generation Generation
}

// Ack says that the worker may forget the results of these attempts: clients have them, or their tasks are tried again.
// If they are Disowned, no client is known to have them, and the frontend keeps nothing of them either: the worker keeps
// them for some time, for whoever claims them.
type Ack struct {
	Attempts []AttemptID
	Disowned bool
}

// Range is Count ids from First on.
type Range struct {
	First ResID
	Count uint32
}

// SyncAge is how long something must have been believed before a Sync that does not name it, or a Gone that does, is believed
// instead: its message may still have been on the way when the other was sent.
const SyncAge = time.Second

// Sync tells the worker all that the frontend believes of the link: Live are the places below Next that
// it believes queued, Attempts all whose end it awaits. The worker drops places below Next and attempts
// of some age that are not named, and answers with Gone for what is named and it does not have.
type Sync struct {
	Next     ResID
	Live     []Range
	Attempts []AttemptID
}

// Ping asks for a Pong with the same Seq.
type Ping struct {
	Seq    uint64
	Matrix bool // its Load is to tell the wait matrix
}

// Probe asks for a Load with the same Seq (early-binding baselines).
type Probe struct {
	Seq    uint64
	Matrix bool // to be told as well
}

// Welcome answers a good Hello.
type Welcome struct {
	Speaks      Dialect
	Epoch       Epoch // of the Hello it answers
	Worker      string
	Incarnation uint64 // of two runs of a worker, the later one has the higher
	Host        string
	Rack        string // "" if the worker was not told
	Capacity    Demand
	Open        Demand   // of it, to long tasks
	Labels      []string // "key=value"
	Functions   []string
	MaxPayload  uint32 // bytes
	MaxResult   uint32 // bytes
	Speed       uint32 // how fast it runs tasks, in thousandths of the reference: 2000 is twice as fast; 0: not known
	Cache       string // host:port where other workers find the files of its cache; "": it takes no task that needs files
	Draining    bool
}

// Rejected answers a bad Hello; the worker then closes the connection.
type Rejected struct{ Reason string }

// Load is a worker's state at the moment of the message that carries it.
type Load struct {
	Seq     uint64 // of the Probe it answers; 0 otherwise
	Free    Demand // not occupied by running tasks or places whose turn is on
	Queued  uint32 // places in the queue, of all frontends
	Running uint32 // attempts
	// Matrix is the expected wait of long tasks, where an Enqueue (for its Queued and Started), a Ping or a Probe asked
	// for it, else nil.
	Matrix *WaitMatrix
}

// Queued answers a Reserve whose ride-along launches did not all start: the places from First on, Count of
// them, are in the queue behind Ahead others, and their launches were forgotten. It answers every Enqueue
// that waits.
type Queued struct {
	First ResID
	Count uint32
	Ahead uint32
	Load  Load
	Wait  time.Duration // of an Enqueue that asked for the matrix, how long its task is expected to wait; 0: not known
}

// Started tells that an attempt runs which was bound early or claimed. Launches of Reserve and Bind start
// without a message.
type Started struct {
	Attempt AttemptID
	Res     ResID
	Job     JobID
	Task    TaskIndex
	Ran     time.Duration // how long it has been running
	Load    Load
}

// Claimed ends the answer to a Claim of a whole job: Count attempts were adopted, each of which was
// told by Started or Finished before. Of what the job started here within the last Knows it knows all that was not
// acknowledged. Moved: the claim came too late, as a later generation has claimed the job; nothing was adopted.
type Claimed struct {
	Job        JobID
	Generation Generation // of the Claim
	Count      uint32
	Knows      time.Duration
	Moved      bool
}

// Ready says that a place's turn has come: a slot is held for it until Expiry has passed since the
// message was sent. Early is how long before that a slot is expected to fall free, when the worker asks
// one round trip ahead.
type Ready struct {
	Res    ResID
	Turn   Turn
	Waited time.Duration // since the place was queued
	Expiry time.Duration
	Early  time.Duration
	Load   Load
}

// Status says how an attempt ended.
type Status uint8

const (
	Succeeded Status = iota + 1
	Failed           // the function said so, or the process had a non-zero exit code
	Panicked         // or the process died from a signal
	Killed           // by Kill, by drain or because its owner was gone for too long
	TimedOut
	TooLarge  // the result was over the worker's limit
	NoInput   // it never ran: a file that it needs could not be fetched, or is not what its digest says
	Preempted // it was spare, and stood in the way of what is regular; told to none without [Classes]
)

var statusNames = [...]string{"none", "succeeded", "failed", "panicked", "killed", "timed_out", "too_large", "no_input", "preempted"}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "unknown_status"
}

// Usage is what an attempt used, as far as the worker can tell: 0 is nothing, or not known.
type Usage struct {
	CPU     time.Duration // of all its cores
	Memory  MiB           // at its peak
	Fetched uint64        // bytes of files that were not at the worker
	Fetch   time.Duration // that it took to have all its files there, in parallel with the wait
}

// Demand is what an attempt would have had to demand that ran for so long: cores on average, and memory at its peak.
func (u *Usage) Demand(run time.Duration) (d Demand) {
	if run > 0 {
		d.CPU = Millicores(min(1000*u.CPU.Seconds()/run.Seconds(), math.MaxInt32))
	}
	d.Mem = u.Memory
	return d
}

// Finished carries an attempt's end and result. The worker keeps it until it is acknowledged, for the one who claims
// the job if this frontend is lost before the client has it.
type Finished struct {
	Attempt AttemptID
	Job     JobID
	Task    TaskIndex
	Status  Status
	Result  []byte
	Error   string
	Waited  time.Duration // in the queue, until Ready or the start
	Held    time.Duration // from Ready to the arrival of Bind; 0 where there was no Ready
	Launch  time.Duration // from the arrival of the task to its start
	Run     time.Duration // measured by the executor
	Kept    time.Duration // from its end to this message
	Usage   Usage
	Load    Load
	Code    string // of the function's own error; "": it gave none
	Detail  []byte // likewise
	Retry   Retry
	Outputs []Output // of one that succeeded; of one without all its input, the files that are nowhere
	Waits   Waits
}

// Waits is what the wait in the queue was for: its parts add up to it. All are 0 where there was none, or the worker does not tell.
type Waits struct {
	Own    time.Duration // behind short tasks of its own tenant
	Others time.Duration // behind those of others
	Long   time.Duration // behind long tasks
	Closed time.Duration // while there was room, but closed to it
	Idle   time.Duration // while room was held for a frontend to say what to run
}

// Retry is where a task whose function failed may be tried again.
type Retry uint8

const (
	Anywhere  Retry = iota
	Elsewhere       // not at this worker, if there is another one
	Never
)

// Reason says why a worker refused, evicted or knows nothing of something.
type Reason uint8

const (
	QueueFull  Reason = iota + 1
	Leaving           // the worker drains
	TooBig            // it never fits this worker
	NoFunction        // the worker has no such function
	Expired           // the turn's expiry passed without an answer
	Unknown           // never heard of it, or forgotten
	Oversized         // a payload over the worker's limit
	Moved             // it is of a job that was claimed since: the client has gone elsewhere with the whole of it
	Late              // bound ahead of a slot that did not fall free when expected; bind it elsewhere
	NeedsFiles        // a task that needs files is to be bound early, so that they are fetched while it waits
	NoCommon          // the launch names a Common that has not come
)

var reasonNames = [...]string{"none", "queue_full", "leaving", "too_big", "no_function", "expired", "unknown", "oversized", "moved", "late", "needs_files", "no_common"}

func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown_reason"
}

// Refused answers a Reserve, a Bind, an Enqueue or a Claim that was not accepted: the places from First
// on (none if Count is 0) and the Attempt, if any, are not and will not be at this worker.
type Refused struct {
	First      ResID
	Count      uint32
	Attempt    AttemptID
	Reason     Reason
	RetryAfter time.Duration // 0: not this worker again for this job
	Load       Load
	Knows      time.Duration // of an attempt that is Unknown: sent within so long, it never started, and never will. 0: that is not known
}

// Evicted tells that places were dropped from the queue after they had been accepted.
type Evicted struct {
	First  ResID
	Count  uint32
	Reason Reason
}

// Gone answers a Sync: what the frontend named and the worker does not have, nor ever will.
type Gone struct {
	Places   []Range
	Attempts []AttemptID
}

// Drain tells that the worker leaves: it takes nothing new and finishes what runs.
type Drain struct{}

// Pong answers a Ping, and tells how the frontend's attempts stand.
type Pong struct {
	Seq      uint64
	Load     Load
	Expect   []Expect   // of those that were bound early and wait; some, if they are many
	Progress []Progress // of those that run, and say how far they are
	Pace     uint32     // how many times as long as expected long tasks take at the worker now, in thousandths; 0: not known
}

// Expect is how long from now an attempt is expected to wait in the queue.
type Expect struct {
	Attempt AttemptID
	Wait    time.Duration
}

// Progress is how far a running attempt has come.
type Progress struct {
	Attempt AttemptID
	Done    uint32        // of its work, in millionths
	Left    time.Duration // that it will go on, as fast as it went lately
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
func (Pong) wireKind() kind      { return kindPong }
func (Claimed) wireKind() kind   { return kindClaimed }
