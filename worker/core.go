package worker

import (
	"fmt"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/lent"
	"github.com/phoebe-sched/phoebe/probe/list"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// Config holds the settings of a Core. A zero field takes its default (see Defaults).
type Config struct {
	Capacity  probe.Demand
	Functions []string

	Order           Order
	StarvationBound time.Duration      // Shortest: after this wait a place goes first
	Weights         map[string]float64 // Fair: by tenant, 1 where absent

	// PreemptAfter is the least wait of a regular place before the worker stops spare work in its way. The worker
	// stops only spare work that would run on for longer than PreemptAfter. Negative: spare work is never
	// stopped.
	PreemptAfter time.Duration

	// ShortShare is the fraction of CPU and of memory closed to long tasks, as long as short tasks would have to
	// wait for long tasks. The closed part is a whole number of slots, rounded down. At least 1 slot stays open
	// to long tasks. Negative: all slots stay open.
	ShortShare float64

	// MaxQueue bounds the places in the queue, over all links. A tenant may hold three times as many places as
	// are still free. Yielded and spare places may take half of what the regular places leave.
	MaxQueue   int
	MaxPayload int // bytes
	// MaxRetained bounds the bytes of results that wait to be acknowledged, plus 512 bytes a result. Beyond the
	// bound the worker forgets the oldest results, and first the results that no frontend claims.
	MaxRetained int
	// MaxUnsent bounds the bytes of results that wait to be sent to a frontend, plus 512 bytes a result. Beyond the
	// bound no task of the frontend starts, until half has left. Running tasks may add a result each.
	MaxUnsent int
	// ReadyExpiry is the time that the worker holds a slot for a frontend without an answer to Ready. While bytes come
	// from the frontend, ReadyExpiry begins again, because the answer may be a large payload on a slow link.
	ReadyExpiry time.Duration
	// Grace is the time that attempts of a broken link run on, waiting for a claim.
	Grace time.Duration
	// Retain is the time that a result waits for a claim after the loss of its frontend. While the frontend is
	// up, the result is kept. A leaving worker waits for Grace at most. Retain is also the time that common data
	// is kept after the last use.
	Retain time.Duration
}

// Defaults fills the zero fields of c. Capacity and policy: one slot, order fair, 1 s starvation bound, 10 ms
// until spare work is stopped, and an eighth of the worker closed to long tasks. Sizes: 16384 places, payloads of
// 1 MiB, 256 MiB of retained results, and 64 MiB of unsent results. Times: 500 ms ready expiry,
// 10 s grace, and 30 s to claim a result.
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
	if c.Capacity == (probe.Demand{}) {
		c.Capacity = probe.Slot
	}
	def(&c.StarvationBound, time.Second)
	def(&c.PreemptAfter, 10*time.Millisecond)
	def(&c.ReadyExpiry, 500*time.Millisecond)
	def(&c.Grace, 10*time.Second)
	def(&c.Retain, 30*time.Second)
	defInt(&c.MaxQueue, 1<<14)
	defInt(&c.MaxPayload, 1<<20)
	defInt(&c.MaxRetained, 256<<20)
	defInt(&c.MaxUnsent, 64<<20)
	if c.ShortShare == 0 {
		c.ShortShare = 1.0 / 8
	}
	return c
}

// AlwaysOpen returns the part of the capacity that long tasks may use at any time: all but the part that ShortShare
// may close.
func (c Config) AlwaysOpen() probe.Demand {
	c = c.Defaults()
	open := func(all, slot int32) int32 {
		closed := int32(float64(all)*min(max(c.ShortShare, 0), 1)) / slot * slot
		return min(max(all-closed, slot), all)
	}
	return probe.Demand{
		CPU: probe.Millicores(open(int32(c.Capacity.CPU), int32(probe.Slot.CPU))),
		Mem: probe.MiB(open(int32(c.Capacity.Mem), int32(probe.Slot.Mem))),
	}
}

// LinkID names a connection at this worker. The shell never uses a LinkID twice.
type LinkID uint64

// Event is an input of a Core: LinkUp, LinkDown, Received, Arrived, Sent, Exited, Fetched, CacheChanged,
// Progressed, Leave or Wake.
type Event interface{ isEvent() }

// LinkUp reports that a frontend said a good Hello on a new connection. The core drops an older connection of the
// same frontend.
type LinkUp struct {
	Link     LinkID
	Frontend probe.FrontendID
	Features probe.Features // features of both ends
}

// LinkDown reports that a connection has ended, or has been silent for its lease.
type LinkDown struct{ Link LinkID }

// Received reports a message on a link. The core keeps parts of the message.
type Received struct {
	Link LinkID
	Msg  probe.Msg
}

// Arrived reports Bytes that came on a link, whether the messages are complete or not. The shell need not report each
// byte at once.
type Arrived struct {
	Link  LinkID
	Bytes int
}

// Sent reports that a message with Report has left: the kernel has the message and all messages before. If several
// messages with Report are under way on a link, each Sent is for the oldest.
type Sent struct{ Link LinkID }

// Exited reports the end of an attempt. Every Start is followed by exactly one Exited. Exited is passed by
// pointer because the struct is large and frequent. The core does not keep the pointer, but may change Status.
type Exited struct {
	Attempt probe.AttemptID
	Status  probe.Status
	Memory  probe.MiB // peak; 0: unknown
	Result  []byte
	Error   string
	Run     time.Duration // measured by the executor
	CPU     time.Duration // of all cores together; 0: unknown
	Code    string        // of the function's own error
	Detail  []byte
	Retry   probe.Retry
	// Outputs holds the outputs of a successful attempt. If an attempt lacked input, Outputs names the missing
	// files.
	Outputs []probe.Output
	// DiskFailed means that the disk of this worker failed, not the task. Retry is Elsewhere then.
	DiskFailed bool
}

// Fetched reports the end of a Fetch: all files have arrived, or a file cannot be had. In the second case Err
// names the file and the reason, for people. A Fetched follows every Fetch, unless Release comes first. After a
// Release, Fetched may still come and changes nothing.
type Fetched struct {
	Attempt probe.AttemptID
	Took    time.Duration
	Bytes   uint64 // of files not in the cache before
	Err     string
	// DiskFailed comes with Err: the disk of this worker failed, and another worker may have the files.
	DiskFailed bool
}

// CacheChanged reports that the worker's file cache takes no new files, for a Problem, or takes files again. The core
// tells the frontends.
type CacheChanged struct{ Problem string }

// Progressed reports how far running attempts have come, and what running processes have used.
type Progressed struct {
	Attempts []Progress
	Uses     []probe.Use
}

// Progress is the last report of an attempt.
type Progress struct {
	Attempt probe.AttemptID
	Done    float64       // fraction of the work
	Ago     time.Duration // age of the report
}

// Leave asks the worker to take no new work, to finish running attempts, and to go when Idle reports true.
type Leave struct{}

// Wake reports that the time from NextWake has come.
type Wake struct{}

// Action is an order to the shell: Send, Start, Stop, Drop, Fetch or Release. A shell whose frontends launch no
// task with Files never sees Fetch and Release. Send and Start, the most frequent actions, are passed by pointer.
// At its next step the core takes back the memory of each Send and Start, and of each Finished in a Send.
type Action interface{ isAction() }

// Send orders a message on a link. The message may be lost if the link breaks. Messages of a link leave in order.
type Send struct {
	Link   LinkID
	Msg    probe.Msg
	Report bool // the shell reports when the message has left
}

// Start orders the start of an attempt. The Deadline of its Launch counts from now on.
type Start struct {
	Job    probe.JobID
	Tenant string
	Demand probe.Demand
	Launch probe.Launch
	Common []byte // common data that the launch names
}

// Stop orders a running attempt to stop; Exited still follows.
type Stop struct{ Attempt probe.AttemptID }

// Drop closes a connection; the shell need not report LinkDown for it.
type Drop struct{ Link LinkID }

// Fetch orders files onto the worker's disk. The shell keeps the files there for the attempt until Release, and
// reports the outcome by Fetched. The task waits meanwhile, and other tasks start. If the task starts, Start
// follows Fetched, and Release follows Exited.
type Fetch struct {
	Attempt probe.AttemptID
	Tenant  string
	Files   []probe.File
}

// Release gives up the files of an attempt, whether the fetch has ended or not. A Release follows each Fetch,
// whatever becomes of the attempt.
type Release struct{ Attempt probe.AttemptID }

func (LinkUp) isEvent()       {}
func (LinkDown) isEvent()     {}
func (Received) isEvent()     {}
func (Arrived) isEvent()      {}
func (Sent) isEvent()         {}
func (*Exited) isEvent()      {}
func (Fetched) isEvent()      {}
func (CacheChanged) isEvent() {}
func (Progressed) isEvent()   {}
func (Leave) isEvent()        {}
func (Wake) isEvent()         {}

func (*Send) isAction()  {}
func (*Start) isAction() {}
func (Stop) isAction()   {}
func (Drop) isAction()   {}

func (Fetch) isAction()   {}
func (Release) isAction() {}

// Stats counts what a core has done since New. Reserved counts all places that were queued, with or without a task.
// Bound counts late bindings, and Expired the turns without an answer. RidesStarted counts ride-along tasks that
// started or were staged. EarlyAsks counts turns that began ahead of a slot, and Late the staged attempts that were
// handed back. Orphaned counts running attempts whose link broke, and Abandoned the orphans that no frontend claimed
// within Grace. Forgotten counts results dropped without an acknowledgement.
type Stats struct {
	Reserved, Bound, Declined, Expired, RidesStarted, EarlyAsks, Late, Started, Finished uint64
	Refused, Cancelled, Orphaned, Claimed, Abandoned, Forgotten                          uint64
	// Backfilled counts places in gaps: their turns came before the turns of places ahead in the queue.
	Backfilled uint64
	// SpareStarted and Preempted count attempts. Promoted counts places that became regular when due.
	SpareStarted, Preempted, Promoted uint64
	// SpareRan is the run time of all spare work, and SpareLost the run time of spare work that was stopped.
	SpareRan, SpareLost time.Duration
}

// Core is a worker's state. A Core is not safe for concurrent use. The same history of events always has the same
// outcome.
type Core struct {
	cfg       Config
	functions map[string]bool
	leaving   bool

	cacheProblem string // why the file cache takes no new files; "": it takes files
	// staysUntil is set while the worker leaves. Until then the worker answers frontends that may not have
	// received Drain yet. Zero: the worker need not wait for them.
	staysUntil time.Time

	links           map[LinkID]*link
	linksByFrontend map[probe.FrontendID]*link
	attempts        map[probe.AttemptID]*attempt
	freeAttempts    freeList[attempt]
	freeActiveParts freeList[activePart] // memory of attempts that have ended

	capacity       room         // capacity.open changes
	alwaysOpen     probe.Demand // open to long tasks at any time
	lastShortAt    time.Time    // when the last short task came
	free           room         // free.open is below zero if long tasks use more than is now open
	changes        uint64       // counts changes of what a forecast depends on, except of the queue (queue.changes)
	runs           []*attempt
	preemptible    probe.Demand        // room of the spare attempts in runs that are stoppable or told to stop
	stopping       list.List[stopping] // spare attempts told to stop less than obeysFor ago, longest ago first
	preemptAt      time.Time           // when there may be spare work to stop; zero: no place waits for it
	queue          queue               // regular places
	spareQueue     queue               // places of class yielded or spare
	aging          pq.Heap[aging]      // places of spareQueue that become regular later, by due time
	parkedCount    int
	seq            uint64              // the highest place.seq so far
	asked          list.List[*place]   // places whose Ready is out, by expiryBegan
	askedAhead     []*place            // places of asked without a slot yet
	staged         list.List[*attempt] // attempts bound ahead of a slot and waiting for it, in order of arrival
	promised       probe.Demand        // room of askedAhead and staged together
	expectedEnds   pq.Heap[*attempt]
	endingSoon     []*attempt          // running attempts expected to end within a round trip
	endingSoonRoom probe.Demand        // room of endingSoon
	retained       list.List[*attempt] // attempts that have ended, sent and to be acknowledged
	unclaimed      list.List[*attempt] // ended attempts without a link, by when the link broke or the attempt ended
	retainedBytes  int                 // size of all results
	heldBytes      int                 // size of the results that wait to be sent
	fullLinks      int                 // links with too many results that wait
	commons        list.List[*common]  // common data of all links, by last use
	orphans        list.List[*attempt] // running attempts without a link, by when the link broke

	memories      map[jobKey]*jobMemory
	memoriesByAge list.List[*jobMemory] // all memories, by changedAt
	memoryNames   int                   // bytes of the tenants' names in memories
	guardsJobs    bool                  // a guarded job came
	beganAt       time.Time             // the first step
	// knownSince is the start of complete knowledge. An attempt started later is in attempts, or is acknowledged, or
	// its job has a memory with forgotAttempts.
	knownSince time.Time

	occupants      occupants
	averages       averages
	paces          paces
	forecast       forecast
	shares         shares
	gaps           []*place   // scratch of findGaps
	victims        []*attempt // scratch of preemptSpare
	shortPartOnly  bool       // the gap of seekGap is for short tasks in the short part only
	settledChanges uint64     // changes + queue.changes after the last backfill: with this sum there is no gap left
	filesLateAt    time.Time  // when late files may change the result of backfill; zero: never

	lent struct { // lent holds the memory of this step's actions.
		sends   lent.Of[Send]
		starts  lent.Of[Start]
		results lent.Of[probe.Finished]
	}

	fetches        map[probe.AttemptID]*place // queued places whose files were asked for
	filesToRelease []probe.AttemptID          // of this step

	// Stats may be read between steps.
	Stats Stats
}

// link is a connection of a frontend.
type link struct {
	id              LinkID
	frontend        probe.FrontendID
	features        probe.Features
	seenPlaces      probe.Window // ids of places that came
	boundAttempts   probe.Window // attempts whose Bind came, by Seq
	topSeq          uint64       // highest Seq of the frontend's attempts
	places          map[probe.ResID]*place
	commons         map[commonKey]*common
	silent          bool   // the last turn expired, and no message came since
	arrived         uint64 // bytes that came
	taskCount       int    // waiting places that have a task
	parked          []*place
	answerTime      time.Duration // time to answer a Ready, smoothed
	answerDeviation time.Duration // mean deviation of answerTime
	lead            time.Duration // how long to ask ahead of a slot
	unsent
}

// attempt is a try at a task, from arrival to acknowledgement. Very many ended attempts may wait for
// acknowledgement. So fields that only live attempts need are in activePart.
type attempt struct {
	*activePart // nil: the attempt has ended

	id         probe.AttemptID
	task       probe.TaskIndex
	state      attemptState
	unwanted   bool // no frontend wants the result
	guarded    bool // of the job: only a claim that names the tenant takes the attempt
	isHeldBack bool // ended, and the result is in held of the owner
	job        probe.JobID
	tenant     string
	generation probe.Generation // of the job when the attempt was launched or claimed
	owner      *link            // nil: an orphan, or an unclaimed result
	files      *fileFetch       // nil: the task needs no files

	waitParts       probe.Waits
	waited, heldFor time.Duration // from queueing to Ready (or to the start), and from Ready to Bind
	launchTime      time.Duration // set at the end: time from arrival to start
	stateSince      time.Time     // when the attempt was staged, or got or lost its owner
	endedAt         time.Duration // since the core began
	end             ending

	node list.Node[*attempt]
}

// activePart is the part of an attempt that matters only until the end of the attempt.
type activePart struct {
	launch        probe.Launch
	commonPayload []byte // common data that the launch names
	long          bool
	class         probe.Class
	stopState     stopState // of a running spare attempt
	stopsSpare    bool      // spare work is being stopped for this attempt
	demand        probe.Demand
	expectedRun   time.Duration // run time; 0: unknown
	progress      progress
	use           probe.Use // of a process, as last reported; zero: not known
	runIndex      int32     // index in Core.runs
	// returnPlace is set while the attempt is staged. The place got the task, and goes back to the queue if the
	// attempt is handed back.
	returnPlace *place
	bill        bill
	queueTenant *tenant

	arrivedAt     time.Time
	startedAt     time.Time
	askAt         time.Time // when the worker may ask for a successor
	endsSoon      bool
	stopNode      list.Node[stopping]
	stopOrderedAt time.Time // when the attempt was told to stop; zero: never

	pos int // in Core.expectedEnds
}

// ending is the outcome of an attempt.
type ending struct {
	status   probe.Status
	memory   probe.MiB
	result   []byte
	run, cpu time.Duration
	details  *Exited // nil: status, result and usage say all
}

// freeList holds values to use again. The value put back last comes first, because the processor's cache still
// holds its memory.
type freeList[T any] []*T

const maxFree = 1024

// getZeroed returns a zero value.
func (r *freeList[T]) getZeroed() *T {
	n := len(*r)
	if n == 0 {
		return new(T)
	}
	v := (*r)[n-1]
	*r = (*r)[:n-1]
	return v
}

func (r *freeList[T]) putBack(v *T) {
	var zero T
	*v = zero // otherwise its pointers would keep memory alive
	if len(*r) < maxFree {
		*r = append(*r, v)
	}
}

type attemptState uint8

const (
	staged attemptState = iota
	running
	ended
)

// Before orders attempts in expectedEnds.
func (a *attempt) Before(b *attempt) bool {
	if !a.askAt.Equal(b.askAt) {
		return a.askAt.Before(b.askAt)
	}
	return a.startedAt.Before(b.startedAt)
}

func (a *attempt) Pos() *int { return &a.pos }

// Links makes an attempt an item of lists.
func (a *attempt) Links() *list.Node[*attempt] { return &a.node }

// The values were chosen, and not measured one by one.
const (
	// initialLead is the lead of a link without an answer yet, and maxLead bounds all leads.
	initialLead = 200 * time.Microsecond
	maxLead     = 10 * time.Millisecond
	// lateAfter is the number of leads that a staged attempt waits for its slot. Then the worker hands the
	// attempt back.
	lateAfter = 3
	// maxStaged bounds the attempts that may already be staged when a ride-along launch is staged, too.
	maxStaged = 256
	// maxSync bounds the places to look up for one Sync. The default of MaxQueue is much smaller.
	maxSync = 1 << 18
	// retainedCost is the memory of a kept result, in bytes, besides the result itself.
	retainedCost = 512
	detailsCost  = 160 // if there is an error, a code, a detail or an output
	outputCost   = 64  // for each output
	// fullRetry is the RetryAfter of a full queue.
	fullRetry = 50 * time.Millisecond
	// minAnswerRate is the least rate of a link, in bytes a second, at which an answer to Ready may be on its way. A
	// frontend that sends less has ReadyExpiry for its answer.
	minAnswerRate = 32 << 10
)

// New returns the core of an idle worker.
func New(cfg Config) *Core {
	cfg = cfg.Defaults()
	c := &Core{
		cfg:             cfg,
		functions:       map[string]bool{},
		links:           map[LinkID]*link{},
		linksByFrontend: map[probe.FrontendID]*link{},
		attempts:        map[probe.AttemptID]*attempt{},
		memories:        map[jobKey]*jobMemory{},
		fetches:         map[probe.AttemptID]*place{},
		capacity:        room{cfg.Capacity, cfg.Capacity},
		alwaysOpen:      cfg.AlwaysOpen(),
		averages:        averages{runTime: initialRun, bindChance: initialBindChance, fetchRate: initialFetchRate},
		queue:           newQueue(),
		spareQueue:      newQueue(),
	}
	c.queue.policy = cfg.Order.newPolicy(&c.cfg, &c.queue)
	spare := newFair(&c.spareQueue, cfg.Weights)
	spare.byWorkLeft = true
	c.spareQueue.policy = spare
	c.free = c.capacity
	for _, f := range cfg.Functions {
		c.functions[f] = true
	}
	return c
}

// Step applies ev at time now and appends the orders for the shell to acts, in sequence. Step never blocks and
// reads no clock. now must not go back.
func (c *Core) Step(now time.Time, ev Event, acts []Action) []Action {
	if c.knownSince.IsZero() {
		c.knownSince, c.beganAt = now, now
	}
	c.queue.now = now.Sub(c.beganAt)
	c.spareQueue.now = c.queue.now
	c.lent.sends.TakeBack()
	c.lent.starts.TakeBack()
	c.lent.results.TakeBack()
	switch ev := ev.(type) {
	case Received:
		if l := c.links[ev.Link]; l != nil { // otherwise the connection was dropped
			c.noteHeard(l)
			acts = c.receiveMsg(l, ev.Msg, now, acts)
		}
	case Arrived:
		if l := c.links[ev.Link]; l != nil {
			l.arrived += uint64(ev.Bytes)
		}
	case Sent:
		if l := c.links[ev.Link]; l != nil {
			acts = c.releaseHeld(l, now, acts)
		}
	case *Exited:
		acts = c.endAttempt(ev, now, acts)
	case Fetched:
		acts = c.finishFetch(&ev, now, acts)
	case CacheChanged:
		c.cacheProblem = ev.Problem
		for _, l := range c.linksInOrder() {
			acts = c.sendMsg(l, probe.Cache(ev), acts)
		}
	case Progressed:
		c.noteProgress(&ev, now)
	case Wake:
	case LinkUp:
		acts = c.linkUp(ev, now, acts)
	case LinkDown:
		if l := c.links[ev.Link]; l != nil {
			c.linkDown(l, now)
		}
	case Leave:
		acts = c.startLeaving(now, acts)
	default:
		panic(fmt.Sprintf("worker: unknown event %T", ev))
	}
	acts = c.expireOverdue(now, acts)
	acts = c.assignRoom(now, acts)
	for c.lateStaged(now) != nil { // an attempt with a longer limit stood ahead, and has started
		acts = c.expireOverdue(now, acts)
		acts = c.assignRoom(now, acts)
	}
	for _, id := range c.filesToRelease {
		acts = append(acts, Release{id})
	}
	c.filesToRelease = c.filesToRelease[:0]
	return acts
}

func (c *Core) receiveMsg(l *link, msg probe.Msg, now time.Time, acts []Action) []Action {
	switch m := msg.(type) {
	case probe.Reserve:
		return c.reservePlaces(l, &m, now, acts)
	case probe.Bind:
		return c.bindTask(l, &m, now, acts)
	case probe.Decline:
		if p := c.askedPlace(l, m.Res, m.Turn); p != nil {
			c.Stats.Declined++
			c.averages.noteTurn(false)
			l.noteAnswerTime(now.Sub(p.askedAt))
			c.dropPlace(p)
		}
	case probe.Enqueue:
		return c.enqueueTask(l, &m, now, acts)
	case probe.Cancel:
		for i := range m.Count {
			id := m.First + probe.ResID(i)
			l.seenPlaces.Mark(id)
			if p := l.places[id]; p != nil {
				if p.launch == nil {
					c.averages.noteTurn(false)
				}
				c.dropPlace(p)
				c.Stats.Cancelled++
				if m.Answer {
					acts = c.sendMsg(l, probe.Evicted{First: id, Count: 1, Reason: probe.Withdrawn}, acts)
				}
			}
		}
	case probe.Restamp:
		c.restampPlace(l, &m)
	case probe.Kill:
		return c.killAttempt(l, &m, now, acts)
	case probe.Claim:
		return c.grantClaim(l, &m, now, acts)
	case probe.Ack:
		for _, id := range m.Attempts {
			c.acknowledgeResult(l, id, m.Disowned, now)
		}
	case probe.Sync:
		return c.syncLink(l, &m, now, acts)
	case probe.Ping:
		return c.sendMsg(l, probe.Pong{
			Seq: m.Seq, Load: c.loadWithMatrix(m.Matrix, nil, now), Expect: c.expectedWaits(l, now),
			Progress: c.linkProgress(l, now),
			Pace:     uint32(1000 * c.currentPace(now)),
			Uses:     c.linkUses(l),
		}, acts)
	case probe.Probe:
		load := c.loadWithMatrix(m.Matrix, m.Asker, now)
		load.Seq = m.Seq
		return c.sendMsg(l, load, acts)
	case probe.Common:
		c.storeCommon(l, &m, now)
	case probe.Forget:
		c.forgetCommon(l, m.Job)
	case probe.Hello:
		// The shell has handled the first Hello; a second Hello changes nothing.
	default:
		// Only a worker sends such a message. The core ignores the message, and the link stays up.
	}
	return acts
}

// sendMsg appends a Send of m on l.
func (c *Core) sendMsg(l *link, m probe.Msg, acts []Action) []Action {
	return append(acts, c.lent.sends.Lend(Send{Link: l.id, Msg: m}))
}

// Load returns the load that most messages carry. Room of stoppable spare work counts as free. Yielded and spare
// places do not count as queued, because no regular place waits for such places.
func (c *Core) Load() probe.Load {
	return probe.Load{
		Free:    c.free.all.Add(c.preemptible),
		Queued:  uint32(c.queue.len() + c.parkedCount + c.staged.Len()),
		Running: uint32(len(c.runs)),
	}
}

// loadWithMatrix returns Load, with the wait matrix if matrix is set. The matrix has the exact share of the asker's
// tenant, if asker is not nil.
func (c *Core) loadWithMatrix(matrix bool, asker *probe.Asker, now time.Time) probe.Load {
	load := c.Load()
	if matrix {
		m := c.matrixFor(asker, probe.MaxTenantShares, now)
		load.Matrix = &m
	}
	return load
}

// takeRoom and freeRoom change the free room. Each change makes earlier forecasts stale.
func (c *Core) takeRoom(needs room) {
	c.free = c.free.sub(needs)
	c.changes++
}

func (c *Core) freeRoom(needs room) {
	c.free = c.free.add(needs)
	c.changes++
}

// NextWake returns when Wake is due, or zero if the core waits for no moment in time.
func (c *Core) NextWake() time.Time {
	var at time.Time
	addWake := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if p := c.asked.First(); p != nil {
		addWake(p.expiryBegan.Add(c.cfg.ReadyExpiry))
	}
	if a := c.staged.First(); a != nil {
		addWake(a.stateSince.Add(c.patienceFor(a)))
	}
	if a := c.unclaimed.First(); a != nil {
		addWake(a.stateSince.Add(c.claimableFor()))
	}
	if a := c.orphans.First(); a != nil {
		addWake(a.stateSince.Add(c.cfg.Grace))
	}
	if m := c.commons.First(); m != nil {
		addWake(m.usedAt.Add(c.cfg.Retain))
	}
	if !c.staysUntil.IsZero() {
		addWake(c.staysUntil)
	}
	if c.expectedEnds.Len() > 0 && c.queue.len() > 0 {
		addWake(c.expectedEnds.Min().askAt)
	}
	if !c.filesLateAt.IsZero() && c.queue.len() > 0 {
		addWake(c.filesLateAt)
	}
	c.addSpareWakes(addWake)
	if c.capacity.open != c.capacity.all && c.queue.len() > 0 && !c.hasShortWaiting() { // see reopenIfQuiet
		addWake(c.quietAt())
	}
	return at
}

// Idle reports whether the worker may go: no attempt runs, no turn awaits its answer, no result waits to be
// acknowledged, and a leaving worker has answered all messages sent before Drain arrived. A task without an answer
// would count as lost, not as refused, and a task that may start only once would fail.
func (c *Core) Idle() bool {
	return len(c.attempts)+c.asked.Len() == 0 && (c.staysUntil.IsZero() || len(c.links) == 0)
}
