package worker

import (
	"fmt"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/lent"
	"github.com/phoebe-sched/phoebe/probe/list"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// Config is what a Core is told once. Zero fields take the defaults that Defaults documents.
type Config struct {
	Capacity  probe.Demand
	Functions []string

	Order           Order
	StarvationBound time.Duration      // Shortest: a place that waited this long goes ahead
	Weights         map[string]float64 // Fair: by tenant, 1 where absent

	// PreemptAfter is how long a regular place waits at least before spare work is stopped that stands in its way, and would go on
	// for longer than that. Negative: it never is.
	PreemptAfter time.Duration

	// ShortShare is the part of CPU and of memory that long tasks may not use, in whole slots, rounded down, while there
	// are short ones that would have to wait for them. At least one slot stays open to them. Negative: none.
	ShortShare float64

	MaxQueue    int           // places in the queue, over all links; of a tenant at most three times what is left; half of it may be taken by what is not regular
	MaxPayload  int           // bytes
	MaxRetained int           // bytes of results kept for acknowledgement, 512 more for each; the oldest go beyond it, those nobody claims first
	ReadyExpiry time.Duration // how long a slot is held for a frontend that does not answer
	Grace       time.Duration // how long attempts of a broken link run on, waiting to be claimed
	Retain      time.Duration // how long a result waits to be claimed when its frontend is lost; until then it is kept. Who leaves waits for Grace at most
}

// Defaults fills the zero fields of c: one slot, fifo, 1 s starvation bound, 10 ms until spare work is stopped, 16384 places, payloads of 1
// MiB, 256 MiB of retained results, 30 s for them to be claimed, 500 ms ready expiry, 10 s grace, an eighth closed to long tasks.
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
	if c.ShortShare == 0 {
		c.ShortShare = 1.0 / 8
	}
	return c
}

// Open is the part of the capacity that long tasks may use at any time.
func (c Config) Open() probe.Demand {
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

// LinkID names a connection at this worker; the shell never uses one twice.
type LinkID uint64

// Event is what a Core is told: one of LinkUp, LinkDown, Received, Exited, Fetched, Progressed, Leave and Wake.
type Event interface{ isEvent() }

// LinkUp: a frontend said a good Hello on a new connection. An older connection of the same frontend
// is dropped.
type LinkUp struct {
	Link     LinkID
	Frontend probe.FrontendID
	Features probe.Features // that both have
}

// LinkDown: the connection is gone, or silent for its lease.
type LinkDown struct{ Link LinkID }

// Received: a message came on a link. The core keeps what it needs of it.
type Received struct {
	Link LinkID
	Msg  probe.Msg
}

// Exited: an attempt that Start started has ended. Every Start is followed by exactly one Exited. It is told by its address, as
// no other event comes as often; the core does not keep that.
type Exited struct {
	Attempt probe.AttemptID
	Status  probe.Status
	Memory  probe.MiB // at its peak; 0: not known
	Result  []byte
	Error   string
	Run     time.Duration // measured by the executor
	CPU     time.Duration // used by all its cores; 0: not known
	Code    string        // of the function's own error
	Detail  []byte
	Retry   probe.Retry
	Outputs []probe.Output // of one that succeeded; of one without all its input, the files that are nowhere
}

// Fetched: the files that Fetch asked for are there, or one of them will never be: Err, for people, then names it
// and says why. Every Fetch is followed by one Fetched, unless its Release comes first; then by none, or by one that
// changes nothing.
type Fetched struct {
	Attempt probe.AttemptID
	Took    time.Duration
	Bytes   uint64 // of files that were not there
	Err     string
}

// Progressed: running attempts have said how far they are.
type Progressed struct{ Attempts []Progress }

// Progress is what one has said last.
type Progress struct {
	Attempt probe.AttemptID
	Done    float64 // the share of its work
	Ago     time.Duration
}

// Leave: take nothing new, finish what runs, and go when Idle says so.
type Leave struct{}

// Wake: the time that NextWake named has come.
type Wake struct{}

// Action is what the shell must do: one of Send, Start, Stop, Drop, Fetch and Release. A shell whose frontends launch
// no task with Files never sees the last two. What comes by its address, as nothing comes as often, is the core's again with its
// next step, and so are the Finished of its messages.
type Action interface{ isAction() }

// Send a message on a link; it may be lost if the link breaks.
type Send struct {
	Link LinkID
	Msg  probe.Msg
}

// Start an attempt. The Deadline of its Launch is from now on.
type Start struct {
	Job    probe.JobID
	Tenant string
	Demand probe.Demand
	Launch probe.Launch
	Common []byte // that the launch names
}

// Stop an attempt that runs; Exited still follows.
type Stop struct{ Attempt probe.AttemptID }

// Drop a connection; no LinkDown is needed for it.
type Drop struct{ Link LinkID }

// Fetch files to the worker's disk, and keep them there for the attempt until Release. Fetched tells how that went.
// Tasks wait meanwhile, and others start. Start, if it comes to that, follows Fetched, and Release follows Exited.
type Fetch struct {
	Attempt probe.AttemptID
	Files   []probe.File
}

// Release the files that were fetched, or are being fetched, for an attempt: each Fetch ends in one Release, whatever
// becomes of the attempt.
type Release struct{ Attempt probe.AttemptID }

func (LinkUp) isEvent()     {}
func (LinkDown) isEvent()   {}
func (Received) isEvent()   {}
func (*Exited) isEvent()    {}
func (Fetched) isEvent()    {}
func (Progressed) isEvent() {}
func (Leave) isEvent()      {}
func (Wake) isEvent()       {}

func (*Send) isAction()  {}
func (*Start) isAction() {}
func (Stop) isAction()   {}
func (Drop) isAction()   {}

func (Fetch) isAction()   {}
func (Release) isAction() {}

// Stats counts what a core has done since it was made.
type Stats struct {
	Reserved, Bound, Declined, Expired, RidesStarted, EarlyAsks, Late, Started, Finished uint64
	Refused, Cancelled, Orphaned, Claimed, Abandoned, Forgotten                          uint64
	Backfilled                                                                           uint64        // started, or asked, ahead of others
	SpareStarted, Preempted, Promoted                                                    uint64        // attempts
	SpareRan, SpareLost                                                                  time.Duration // for which spare work ran, and that of it which was stopped
}

// Core is a worker's state. It is not safe for concurrent use; one history of events has one outcome.
type Core struct {
	cfg        Config
	functions  map[string]bool
	leaving    bool
	staysUntil time.Time // it leaves, but until then answers those who may not have heard of it; zero: for none

	links           map[LinkID]*link
	linksByFrontend map[probe.FrontendID]*link
	attempts        map[probe.AttemptID]*attempt
	freeAttempts    freeList[attempt]
	freeActiveParts freeList[activePart] // of attempts that have ended

	capacity       room         // what is open of it changes
	alwaysOpen     probe.Demand // what stays open of it once a short task had to wait for long ones
	lastShortAt    time.Time    // when the last short one came
	free           room         // more than what is open may be in use, when it is less than it was
	changes        uint64       // how often something changed that a forecast depends on, other than the queue
	runs           []*attempt
	preemptible    probe.Demand        // of those, what spare ones take that are there to be stopped, or stop
	stopping       list.List[stopping] // of those, the ones that were told to, lately; by when
	preemptAt      time.Time           // when there may be something to stop; zero: nothing waits for it
	queue          queue               // of what is regular
	spareQueue     queue               // of all else
	aging          pq.Heap[aging]      // those of spare that are regular after a time
	parkedCount    int
	seq            uint64
	asked          list.List[*place]   // Ready is out; by askedAt
	askedAhead     []*place            // of those, the ones that hold no slot
	staged         list.List[*attempt] // bound ahead of a slot, waiting for it; by when they came
	promised       probe.Demand        // of early and staged together
	expectedEnds   pq.Heap[*attempt]
	endingSoon     []*attempt          // running, and expected to end within one round trip
	endingSoonRoom probe.Demand        // of those
	retained       list.List[*attempt] // ended, to be acknowledged
	unclaimed      list.List[*attempt] // ended, without a link; by when they lost it, or ended
	retainedBytes  int                 // bytes that both cost
	commons        list.List[*common]  // of all links; by when they were last used
	orphans        list.List[*attempt] // running without a link; by when they lost it

	memories      map[probe.JobID]*jobMemory
	memoriesByAge list.List[*jobMemory] // those, by when they were last added to
	beganAt       time.Time             // the first step
	knownSince    time.Time             // what started from then on is known, acknowledged, or remembered as forgotten

	occupants      occupants
	averages       averages
	paces          paces
	forecast       forecast
	gaps           []*place   // scratch of findGaps
	victims        []*attempt // scratch of preempt
	shortPartOnly  bool       // what hasGap found is for short tasks in the share that is closed to long ones
	settledChanges uint64     // the changes up to which backfill found all that may start
	fetchWake      time.Time  // when what backfill found may change because files are late; zero: never

	lent struct { // with the actions of this step
		sends   lent.Of[Send]
		starts  lent.Of[Start]
		results lent.Of[probe.Finished]
	}

	fetches        map[probe.AttemptID]*place // in the queue, whose files were asked for
	filesToRelease []probe.AttemptID          // in this step

	// Stats may be read between steps.
	Stats Stats
}

// link is one connection of a frontend.
type link struct {
	id              LinkID
	frontend        probe.FrontendID
	features        probe.Features
	seenPlaces      probe.Window // places
	boundAttempts   probe.Window // attempts, by Seq, whose Bind came
	topSeq          uint64       // no attempt that is here has a higher Seq of its frontend
	places          map[probe.ResID]*place
	commons         map[commonKey]*common
	silent          bool // its last turn expired and nothing was heard since
	taskCount       int  // of places, those that have a task, and wait
	parked          []*place
	answerTime      time.Duration // how long it takes to answer a Ready, smoothed
	answerDeviation time.Duration // its mean deviation
	lead            time.Duration // how long ahead to ask
}

// attempt is one try at a task, from its arrival to its acknowledgement. Of those that have ended there may be very many.
type attempt struct {
	*activePart // nil: it has ended

	id         probe.AttemptID
	task       probe.TaskIndex
	state      attemptState
	unwanted   bool // its end interests nobody
	job        probe.JobID
	generation probe.Generation // of the job when it was launched, or claimed
	owner      *link            // nil: orphan
	files      *fileFetch       // nil: it needs none

	waitParts       probe.Waits
	waited, heldFor time.Duration
	launchTime      time.Duration // once it has ended: from its arrival to its start
	stateSince      time.Time     // it is staged, its owner's, or nobody's
	endedAt         time.Duration // since the core began
	end             ending

	node list.Node[*attempt]
}

// activePart is what of an attempt matters only until it has ended.
type activePart struct {
	launch        probe.Launch
	tenant        string
	commonPayload []byte // that its launch names
	long          bool
	class         probe.Class
	standing      standing // running, of a spare one
	clearsSpare   bool     // spare work is stopped for it
	demand        probe.Demand
	expectedRun   time.Duration // run time; 0: not known
	progress      progress
	runIndex      int32  // its index in Core.runs
	returnPlace   *place // staged only: the place it was bound to, to be queued again if it is handed back
	bill          bill
	queueTenant   *tenant

	arrivedAt  time.Time
	startedAt  time.Time
	askAt      time.Time // when a successor may be asked for
	endsSoon   bool
	stopNode   list.Node[stopping]
	stopToldAt time.Time // when it was told to stop; zero: it was not

	pos int
}

// ending is how an attempt ended.
type ending struct {
	status   probe.Status
	memory   probe.MiB
	result   []byte
	run, cpu time.Duration
	details  *Exited // nil: that is all there is to it
}

// freeList is values to be used again, the last one first: it is in the processor's cache.
type freeList[T any] []*T

const maxFree = 1024

// getZeroed is a value that is zero.
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
	*v = zero // what came with it may last
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

func (a *attempt) Before(b *attempt) bool {
	if !a.askAt.Equal(b.askAt) {
		return a.askAt.Before(b.askAt)
	}
	return a.startedAt.Before(b.startedAt)
}

func (a *attempt) Pos() *int { return &a.pos }

// Links makes it an item of lists.
func (a *attempt) Links() *list.Node[*attempt] { return &a.node }

const (
	firstLead = 200 * time.Microsecond
	maxLead   = 10 * time.Millisecond
	// lateAfter is how many leads a staged attempt waits for its slot before it is handed back.
	lateAfter = 3
	// maxStaged bounds the ride-along launches that wait for slots.
	maxStaged = 256
	// maxSync bounds the places that are looked up for one Sync.
	maxSync = 1 << 18
	// retainedCost is what keeping a result takes besides its bytes.
	retainedCost = 512
	detailsCost  = 160 // if it is told how, and why
	outputCost   = 64  // each of its outputs
	// fullRetry is the retry-after of a full queue.
	fullRetry = 50 * time.Millisecond
)

// New makes a core of an idle worker.
func New(cfg Config) *Core {
	cfg = cfg.Defaults()
	c := &Core{
		cfg:             cfg,
		functions:       map[string]bool{},
		links:           map[LinkID]*link{},
		linksByFrontend: map[probe.FrontendID]*link{},
		attempts:        map[probe.AttemptID]*attempt{},
		memories:        map[probe.JobID]*jobMemory{},
		fetches:         map[probe.AttemptID]*place{},
		capacity:        room{cfg.Capacity, cfg.Capacity},
		alwaysOpen:      cfg.Open(),
		averages:        averages{runTime: firstRun, bindChance: firstChance, fetchRate: firstFetch},
		queue:           newQueue(),
		spareQueue:      newQueue(),
	}
	c.queue.policy = cfg.Order.newPolicy(&c.cfg, &c.queue)
	c.spareQueue.policy = &fair{queue: &c.spareQueue, weights: cfg.Weights, innerAccounts: map[string]*account{}, byWorkLeft: true}
	c.free = c.capacity
	for _, f := range cfg.Functions {
		c.functions[f] = true
	}
	return c
}

// Step applies ev at now and appends what the shell must do, in order, to acts. It never blocks and reads
// no clock. now must not go back.
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
		if l := c.links[ev.Link]; l != nil { // else of a connection that was dropped
			c.unparkLink(l)
			acts = c.receiveMsg(l, ev.Msg, now, acts)
		}
	case *Exited:
		acts = c.endAttempt(ev, now, acts)
	case Fetched:
		acts = c.finishFetch(&ev, now, acts)
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
	for c.lateStaged(now) != nil { // behind one with more patience, which has started
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
			l.learnAnswer(now.Sub(p.askedAt))
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
		return c.sendMsg(l, probe.Pong{Seq: m.Seq, Load: c.loadWithMatrix(m.Matrix, now), Expect: c.expectedWaits(l, now), Progress: c.linkProgress(l, now), Pace: uint32(1000 * c.currentPace(now))}, acts)
	case probe.Probe:
		load := c.loadWithMatrix(m.Matrix, now)
		load.Seq = m.Seq
		return c.sendMsg(l, load, acts)
	case probe.Common:
		c.storeCommon(l, &m, now)
	case probe.Forget:
		c.forgetCommon(l, m.Job)
	case probe.Hello:
		// The shell has seen to it; a second one changes nothing.
	default:
		// A message only a worker sends: the peer is confused, and its lease is all we owe it.
	}
	return acts
}

// sendMsg has a message sent on a link.
func (c *Core) sendMsg(l *link, m probe.Msg, acts []Action) []Action {
	return append(acts, c.lent.sends.Lend(Send{l.id, m}))
}

// Load is what the core tells of itself with most messages. What spare work takes counts as free, and places that are not regular do
// not: nothing regular waits for them.
func (c *Core) Load() probe.Load {
	return probe.Load{Free: c.free.all.Add(c.preemptible), Queued: uint32(c.queue.len() + c.parkedCount + c.staged.Len()), Running: uint32(len(c.runs))}
}

// loadWithMatrix is Load, with the wait matrix if it was asked for.
func (c *Core) loadWithMatrix(matrix bool, now time.Time) probe.Load {
	load := c.Load()
	if matrix {
		m := c.Matrix(now)
		load.Matrix = &m
	}
	return load
}

// takeRoom and give change what is free.
func (c *Core) takeRoom(needs room) {
	c.free = c.free.sub(needs)
	c.changes++
}

func (c *Core) freeRoom(needs room) {
	c.free = c.free.add(needs)
	c.changes++
}

// NextWake is when Wake is due, or zero if nothing waits for the time to pass.
func (c *Core) NextWake() time.Time {
	var at time.Time
	soonest := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if p := c.asked.First(); p != nil {
		soonest(p.askedAt.Add(c.cfg.ReadyExpiry))
	}
	if a := c.staged.First(); a != nil {
		soonest(a.stateSince.Add(c.patienceFor(a)))
	}
	if a := c.unclaimed.First(); a != nil {
		soonest(a.stateSince.Add(c.claimableFor()))
	}
	if a := c.orphans.First(); a != nil {
		soonest(a.stateSince.Add(c.cfg.Grace))
	}
	if m := c.commons.First(); m != nil {
		soonest(m.usedAt.Add(c.cfg.Retain))
	}
	if !c.staysUntil.IsZero() {
		soonest(c.staysUntil)
	}
	if c.expectedEnds.Len() > 0 && c.queue.len() > 0 {
		soonest(c.expectedEnds.Min().askAt)
	}
	if !c.fetchWake.IsZero() && c.queue.len() > 0 {
		soonest(c.fetchWake)
	}
	c.addSpareWakes(soonest)
	if c.capacity.open != c.capacity.all && c.queue.len() > 0 && !c.hasShortWaiting() {
		soonest(c.quietAt())
	}
	return at
}

// Idle reports whether nothing runs and no result waits to be acknowledged, and a worker that leaves has answered what
// was on its way to it when it said so: it may go. What a frontend sent and got no answer to would count as lost, not
// as refused, and a task that may start only once would fail.
func (c *Core) Idle() bool {
	return len(c.attempts) == 0 && (c.staysUntil.IsZero() || len(c.links) == 0)
}
