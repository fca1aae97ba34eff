package worker

import (
	"cmp"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// queue holds the places before their turn, in the order of its policy.
type queue struct {
	policy
	placeCount int
	now        time.Duration // of the present step, since the first step

	busyTenants  int                // tenants with queued places or open bills
	tenants      map[string]*tenant // the busy tenants, and some idle tenants
	recentTenant *tenant            // the last result of ensureTenant

	changes  uint64         // counts places that came or went, and changes of the order
	kinds    map[room]*kind // by needed room; a kind is dropped with its last place, but lastKind stays
	lastKind *kind          // the kind of the last added place
	backlog  backlog
}

func newQueue() queue { return queue{tenants: map[string]*tenant{}, kinds: map[room]*kind{}} }

// kind counts places that need the same room.
type kind struct {
	needs room
	count int
}

// tenant is a tenant's part of a queue.
type tenant struct {
	name       string
	placeCount int // in the queue
	planned    planned
	cpuUse     cpuUse // of its running short tasks
	account
}

func (q *queue) len() int { return q.placeCount }

// addPlace adds p, and counts p for its tenant and its kind. The policy gives p its position.
func (q *queue) addPlace(p *place) {
	q.placeCount++
	q.changes++
	q.countPlace(p)
	t := q.ensureTenant(p.tenant)
	if p.queueTenant = t; t.isIdle() {
		q.busyTenants++
	}
	t.placeCount++
	q.policy.addPlace(p)
}

// removePlace takes p out, if p is in the queue.
func (q *queue) removePlace(p *place) {
	if p.pos == 0 {
		return
	}
	q.placeCount--
	q.changes++
	if q.uncountPlace(p); q.placeCount == 0 {
		q.backlog = backlog{} // drops the rounding errors of the sums
	}
	t := p.queueTenant
	if t.placeCount--; t.isIdle() {
		q.busyTenants--
	}
	q.policy.removePlace(p)
}

// takeForTurn removes a place whose turn has come, and charges its tenant for the turn.
func (q *queue) takeForTurn(p *place) {
	q.chargeTurn(p)
	q.removePlace(p)
}

// rememberedTenants is the number of idle tenants up to which a queue forgets no tenant. The number was chosen, and not
// measured. A tenant takes some 300 bytes. If a forgotten tenant comes back, Fair no longer knows the tenant's
// debt.
const rememberedTenants = 1000

// ensureTenant returns the tenant with this name, and makes the tenant if there is none. If too many tenants are idle,
// ensureTenant first forgets half of the idle tenants. The bound also grows with the number of busy tenants, so that
// forgetIdleTenants, which sorts the idle tenants, is rarely called.
func (q *queue) ensureTenant(name string) *tenant {
	if q.recentTenant != nil && q.recentTenant.name == name {
		return q.recentTenant
	}
	if t := q.tenants[name]; t != nil {
		q.recentTenant = t
		return t
	}
	if len(q.tenants) > 2*q.busyTenants+rememberedTenants {
		q.forgetIdleTenants()
	}
	t := &tenant{name: name}
	q.openAccount(t)
	q.tenants[name], q.recentTenant = t, t
	return t
}

// isIdle reports whether a tenant has neither queued places nor open bills. A bill is open until the cost of its turn
// is known.
func (t *tenant) isIdle() bool { return t.placeCount == 0 && !t.HasBills() }

// forgetIdleTenants forgets half of the idle tenants. Under Fair, the tenants with the least debt go.
func (q *queue) forgetIdleTenants() {
	var idlers []*tenant
	for _, t := range q.tenants {
		if t.isIdle() {
			idlers = append(idlers, t)
		}
	}
	slices.SortFunc(idlers, func(t, u *tenant) int {
		return cmp.Or(cmp.Compare(t.AmountOwed(), u.AmountOwed()), cmp.Compare(t.name, u.name))
	})
	for _, t := range idlers[:(len(idlers)+1)/2] {
		q.closeAccount(t)
		delete(q.tenants, t.name)
	}
}

// maxPlacesPerFree bounds the queued places of a tenant: at most this many for each free place of the queue. So a
// greedy tenant alone fills three quarters of the queue, and later tenants find free places. The number was chosen.
const maxPlacesPerFree = 3

// mayAddPlace reports whether a tenant may add a place to a queue with this number of free places.
func (q *queue) mayAddPlace(name string, free int) bool {
	return free > 0 && q.ensureTenant(name).placeCount <= maxPlacesPerFree*free
}

// countPlace counts p for its kind and for the backlog. lastKind saves most look-ups, because the place that came
// before p mostly needs the same room.
func (q *queue) countPlace(p *place) {
	if k := q.lastKind; k == nil || k.needs != p.neededRoom() {
		if k != nil && k.count == 0 {
			delete(q.kinds, k.needs)
		}
		if q.lastKind = q.kinds[p.neededRoom()]; q.lastKind == nil {
			q.lastKind = &kind{needs: p.neededRoom()}
			q.kinds[p.neededRoom()] = q.lastKind
		}
	}
	p.kind = q.lastKind
	p.kind.count++
	q.backlog.countPlace(p, 1)
}

// uncountPlace takes a place out of the counts of its kind and of the backlog, and forgets an empty kind.
func (q *queue) uncountPlace(p *place) {
	if p.kind.count--; p.kind.count == 0 && p.kind != q.lastKind {
		delete(q.kinds, p.kind.needs)
	}
	q.backlog.countPlace(p, -1)
}

// fitsAny reports whether any place of the queue fits into the free room.
func (q *queue) fitsAny(free room) bool {
	if len(q.kinds) == 1 { // lastKind is always in kinds
		return q.lastKind.count > 0 && q.lastKind.needs.fitsIn(free)
	}
	for needs, k := range q.kinds {
		if k.count > 0 && needs.fitsIn(free) {
			return true
		}
	}
	return false
}

// hasShort reports whether the queue has a place of a short task: a short task needs no room of the open part.
func (q *queue) hasShort() bool {
	for needs, k := range q.kinds {
		if k.count > 0 && needs.open == (probe.Demand{}) {
			return true
		}
	}
	return false
}

// backlog is the work of all places in a queue, in four sums: of places with a task and of reservations, each with and
// without an expected run time (in the order of expectedWork's factors). Where the run time is not known, a place
// counts as 1 ns, so that expectedWork can multiply the sum by a run time assumed later.
type backlog [4]work

// countPlace adds the work of p to its sum n times: 1 when p comes, and -1 when p goes.
func (b *backlog) countPlace(p *place, n int) {
	i, expected := 0, p.expectedRun
	if expected <= 0 {
		i, expected = 1, 1
	}
	if p.launch == nil {
		i += 2
	}
	b[i].addEntry(p.demand, expected, n)
}

// expectedWork returns the expected work of the places. A task without an expected run time is taken to run for the
// assumed time. chance is the chance that a reservation gets a task.
func (b *backlog) expectedWork(assumed time.Duration, chance float64) (w work) {
	for i, factor := range [...]float64{1, float64(assumed), chance, chance * float64(assumed)} {
		w.cpu += b[i].cpu * factor
		w.mem += b[i].mem * factor
	}
	return w
}

// place is an entry of the worker's queue that a frontend asked for, with the id res on the link of the frontend. While
// a place asks its frontend, or is parked, the place is out of the queue (placeState).
type place struct {
	// The heaps compare and move the first fields, so the first fields share a line of the processor's cache.
	sortKey         float64
	cameAt          time.Duration // since the core began: the arrival of the place, or of its job
	seq             uint64        // order of arrival
	pos, arrivalPos int           // in heaps of the policy; 0: not in the heap

	link        *link
	res         probe.ResID
	kind        *kind
	estimate    time.Duration
	expectedRun time.Duration // the estimate, or the typical run time; 0: unknown
	demand      probe.Demand
	priority    int32
	turn        probe.Turn
	state       placeState

	long        bool
	wantsMatrix bool
	mayAskAhead bool // the frontend allows Ready before the slot is free
	stopsSpare  bool // the place asked ahead; if a task comes, spare work stops for the task
	guarded     bool // the job is guarded: only a claim that names the tenant takes the place

	class        probe.Class
	agingPos     int           // in Core.aging
	due          time.Duration // since the core began: due time, when the place becomes regular; 0: never
	workLeft     time.Duration // of the job
	inQueueSince time.Duration // since the core began: the last time it entered the queue

	job           probe.JobID
	generation    probe.Generation // of the job
	tenant        string
	queueTenant   *tenant       // set once the place was in the queue
	launch        *probe.Launch // of a task bound early
	commonPayload []byte        // common data that the launch names
	files         *fileFetch    // nil: the task needs no files
	bill          bill          // during its turn

	queuedAt         time.Time // when the place came, or last went to the end of the queue as a kept place
	believedSince    time.Time // when the frontend was told; a Sync drops the place from SyncAge later on
	askedAt          time.Time
	expiryBegan      time.Time         // start of ReadyExpiry: askedAt, or later because bytes came
	arrivedBefore    uint64            // link.arrived at expiryBegan
	waitParts        probe.Waits       // parts of the wait until askedAt, by cause
	sumsWhenQueued   sums              // sums of the queue's CPU use, by cause, when the place was queued
	firstPlannedWait time.Duration     // from queuedAt until the first planned start; 0: never planned
	node             list.Node[*place] // in the list Core.asked
}

func (p *place) neededRoom() room { return roomFor(p.demand, p.long) }

type placeState uint8

const (
	queued      placeState = iota
	parked                 // taken out of the queue: the frontend did not answer its last turn
	asking                 // Ready is out, and the place holds a slot
	askingAhead            // Ready is out, before the expected slot has fallen free
)

func (p *place) Before(q *place) bool {
	if p.sortKey != q.sortKey {
		return p.sortKey < q.sortKey
	}
	if p.cameAt != q.cameAt {
		return p.cameAt < q.cameAt
	}
	return p.seq < q.seq
}

func (p *place) Pos() *int { return &p.pos }

// Links makes a place an item of lists.
func (p *place) Links() *list.Node[*place] { return &p.node }
