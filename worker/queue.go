package worker

import (
	"cmp"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// queue holds the places whose turn has not come, in the order of its policy.
type queue struct {
	policy
	placeCount int
	now        time.Duration // of the step, since the first one

	busyTenants  int                // tenants with places in the queue, or bills
	tenants      map[string]*tenant // those, and some that were
	recentTenant *tenant            // that a place was pushed of

	changes  uint64         // how often a place came or went, or the order changed
	kinds    map[room]*kind // of the places, by what they need; the last one may be of none
	lastKind *kind          // that a place was pushed of
	backlog  backlog
}

func newQueue() queue { return queue{tenants: map[string]*tenant{}, kinds: map[room]*kind{}} }

// kind counts places that need the same.
type kind struct {
	needs room
	count int
}

// tenant is what a queue knows of one tenant.
type tenant struct {
	name       string
	placeCount int    // places in the queue
	cpuUse     cpuUse // by its short tasks
	account
}

func (q *queue) len() int { return q.placeCount }

// addPlace adds p.
func (q *queue) addPlace(p *place) {
	q.placeCount++
	q.changes++
	q.countPlace(p)
	t := q.tenantNamed(p.tenant)
	if p.queueTenant = t; t.isIdle() {
		q.busyTenants++
	}
	t.placeCount++
	q.policy.addPlace(p)
}

// removePlace takes p out, if it is in.
func (q *queue) removePlace(p *place) {
	if p.pos == 0 {
		return
	}
	q.placeCount--
	q.changes++
	if q.uncountPlace(p); q.placeCount == 0 {
		q.backlog = backlog{} // of sums, small errors remain
	}
	t := p.queueTenant
	if t.placeCount--; t.isIdle() {
		q.busyTenants--
	}
	q.policy.removePlace(p)
}

// takePlace is remove for a place whose turn has come, for which its tenant pays.
func (q *queue) takePlace(p *place) {
	q.chargeTurn(p)
	q.removePlace(p)
}

func (q *queue) tenantNamed(name string) *tenant {
	if q.recentTenant != nil && q.recentTenant.name == name {
		return q.recentTenant
	}
	if t := q.tenants[name]; t != nil {
		q.recentTenant = t
		return t
	}
	if len(q.tenants) > 2*q.busyTenants+1000 {
		q.forgetIdleTenants()
	}
	t := &tenant{name: name}
	q.openAccount(t)
	q.tenants[name], q.recentTenant = t, t
	return t
}

func (t *tenant) isIdle() bool { return t.placeCount == 0 && t.openBills == 0 }

// forgetIdleTenants lets go of half of the tenants that are idle, under Fair those that owe least.
func (q *queue) forgetIdleTenants() {
	var idlers []*tenant
	for _, t := range q.tenants {
		if t.isIdle() {
			idlers = append(idlers, t)
		}
	}
	slices.SortFunc(idlers, func(t, u *tenant) int {
		return cmp.Or(cmp.Compare(t.amountOwed(), u.amountOwed()), cmp.Compare(t.name, u.name))
	})
	for _, t := range idlers[:(len(idlers)+1)/2] {
		q.closeAccount(t)
		delete(q.tenants, t.name)
	}
}

// maxPlacesPerFree is how many times more places a tenant may hold than it leaves room for: whoever comes later, however greedy
// the others are, finds some.
const maxPlacesPerFree = 3

// mayAddPlace reports whether a queue with room for so many more takes a place of a tenant.
func (q *queue) mayAddPlace(name string, free int) bool {
	return free > 0 && q.tenantNamed(name).placeCount <= maxPlacesPerFree*free
}

// unknownCost is what a task without an estimate is taken to need, where one must be compared with others.
const unknownCost = 10 * time.Millisecond

// countPlace takes p's needs into account; mostly they are those of the place before.
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
	q.backlog.addPlace(p, 1)
}

func (q *queue) uncountPlace(p *place) {
	if p.kind.count--; p.kind.count == 0 && p.kind != q.lastKind {
		delete(q.kinds, p.kind.needs)
	}
	q.backlog.addPlace(p, -1)
}

// fitsAny reports whether there is a place whose needs fit.
func (q *queue) fitsAny(free room) bool {
	if len(q.kinds) == 1 {
		return q.lastKind.count > 0 && q.lastKind.needs.fitsIn(free)
	}
	for needs, k := range q.kinds {
		if k.count > 0 && needs.fitsIn(free) {
			return true
		}
	}
	return false
}

// hasShort reports whether there is a place of a task that is not long.
func (q *queue) hasShort() bool {
	for needs, k := range q.kinds {
		if k.count > 0 && needs.open == (probe.Demand{}) {
			return true
		}
	}
	return false
}

// backlog is the work of all places in a queue: of those of which something is expected, of the others as if each took 1 ns,
// and both for places that have their task and for reservations.
type backlog [4]work

func (b *backlog) addPlace(p *place, n int) {
	i, expected := 0, p.expectedRun
	if expected <= 0 {
		i, expected = 1, 1
	}
	if p.launch == nil {
		i += 2
	}
	b[i].addEntry(p.demand, expected, n)
}

// expectedWork is the work that is expected of the places, if one that is not known takes so long, and reservations turn
// into tasks by this chance.
func (b *backlog) expectedWork(unknown time.Duration, chance float64) (w work) {
	for i, factor := range [...]float64{1, float64(unknown), chance, chance * float64(unknown)} {
		w.cpu += b[i].cpu * factor
		w.mem += b[i].mem * factor
	}
	return w
}

// place is one ResID on one link: queued, or asked about, or gone.
type place struct {
	// First what the heaps compare and move, so that it is in one line of the processor's cache.
	sortKey         float64
	cameAt          time.Duration // since the core began: when it did, or its job
	seq             uint64        // order of arrival
	pos, arrivalPos int

	link        *link
	res         probe.ResID
	kind        *kind
	estimate    time.Duration
	expectedRun time.Duration // the estimate, or what is typical; 0: not known
	demand      probe.Demand
	priority    int32
	turn        probe.Turn
	state       placeState

	long        bool
	wantsMatrix bool
	mayAskAhead bool
	clearsSpare bool // it was asked early, and spare work is stopped for what it gets

	class        probe.Class
	agingPos     int
	due          time.Duration // since the core began: from when on it is regular, if it is not; 0: never
	workLeft     time.Duration // work that its job has left
	inQueueSince time.Duration // since the core began: when it came, or came back, to the queue as what it is

	job           probe.JobID
	generation    probe.Generation // of the job
	tenant        string
	queueTenant   *tenant       // once it was in the queue
	launch        *probe.Launch // of a task bound early
	commonPayload []byte        // that it names
	files         *fileFetch    // nil: its task needs none
	bill          bill          // while its turn is on

	queuedAt       time.Time
	believedSince  time.Time // since when its frontend may believe in it: it was reserved, or came back
	askedAt        time.Time
	waitParts      probe.Waits       // until then
	sumsWhenQueued sums              // when it was queued
	startIn        time.Duration     // since it was queued: its start as it was planned for the first time; 0: it never was
	node           list.Node[*place] // in the list of those asked
}

func (p *place) neededRoom() room { return roomFor(p.demand, p.long) }

type placeState uint8

const (
	queued      placeState = iota
	parked                 // queued, but its frontend was silent when last asked
	asking                 // Ready is out and a slot is held
	askingAhead            // Ready is out, ahead of a slot that is expected to fall free
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

// Links makes it an item of lists.
func (p *place) Links() *list.Node[*place] { return &p.node }
