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
	n   int
	now time.Duration // of the step, since the first one

	holders int                // tenants with places in the queue, or bills
	known   map[string]*tenant // those, and some that were
	recent  *tenant            // that a place was pushed of

	changes uint64         // how often a place came or went, or the order changed
	kinds   map[room]*kind // of the places, by what they need; the last one may be of none
	last    *kind          // that a place was pushed of
	backlog backlog
}

func newQueue() queue { return queue{known: map[string]*tenant{}, kinds: map[room]*kind{}} }

// kind counts places that need the same.
type kind struct {
	needs room
	n     int
}

// tenant is what a queue knows of one tenant.
type tenant struct {
	name  string
	n     int   // places in the queue
	taken taken // by its short tasks
	account
}

func (q *queue) len() int { return q.n }

// push adds p.
func (q *queue) push(p *place) {
	q.n++
	q.changes++
	q.count(p)
	t := q.tenant(p.tenant)
	if p.of = t; t.idle() {
		q.holders++
	}
	t.n++
	q.policy.push(p)
}

// remove takes p out, if it is in.
func (q *queue) remove(p *place) {
	if p.pos == 0 {
		return
	}
	q.n--
	q.changes++
	if q.discount(p); q.n == 0 {
		q.backlog = backlog{} // of sums, small errors remain
	}
	t := p.of
	if t.n--; t.idle() {
		q.holders--
	}
	q.policy.remove(p)
}

// take is remove for a place whose turn has come, for which its tenant pays.
func (q *queue) take(p *place) {
	q.charge(p)
	q.remove(p)
}

func (q *queue) tenant(name string) *tenant {
	if q.recent != nil && q.recent.name == name {
		return q.recent
	}
	if t := q.known[name]; t != nil {
		q.recent = t
		return t
	}
	if len(q.known) > 2*q.holders+1000 {
		q.forget()
	}
	t := &tenant{name: name}
	q.open(t)
	q.known[name], q.recent = t, t
	return t
}

func (t *tenant) idle() bool { return t.n == 0 && t.bills == 0 }

// forget lets go of half of the tenants that are idle, under Fair those that owe least.
func (q *queue) forget() {
	var idle []*tenant
	for _, t := range q.known {
		if t.idle() {
			idle = append(idle, t)
		}
	}
	slices.SortFunc(idle, func(t, u *tenant) int { return cmp.Or(cmp.Compare(t.owes(), u.owes()), cmp.Compare(t.name, u.name)) })
	for _, t := range idle[:(len(idle)+1)/2] {
		q.close(t)
		delete(q.known, t.name)
	}
}

// maxHold is how many times more places a tenant may hold than it leaves room for: whoever comes later, however greedy
// the others are, finds some.
const maxHold = 3

// takes reports whether a queue with room for so many more takes a place of a tenant.
func (q *queue) takes(name string, free int) bool {
	return free > 0 && q.tenant(name).n <= maxHold*free
}

// unknownCost is what a task without an estimate is taken to need, where one must be compared with others.
const unknownCost = 10 * time.Millisecond

// count takes p's needs into account; mostly they are those of the place before.
func (q *queue) count(p *place) {
	if k := q.last; k == nil || k.needs != p.needs() {
		if k != nil && k.n == 0 {
			delete(q.kinds, k.needs)
		}
		if q.last = q.kinds[p.needs()]; q.last == nil {
			q.last = &kind{needs: p.needs()}
			q.kinds[p.needs()] = q.last
		}
	}
	p.kind = q.last
	p.kind.n++
	q.backlog.add(p, 1)
}

func (q *queue) discount(p *place) {
	if p.kind.n--; p.kind.n == 0 && p.kind != q.last {
		delete(q.kinds, p.kind.needs)
	}
	q.backlog.add(p, -1)
}

// fitsAny reports whether there is a place whose needs fit.
func (q *queue) fitsAny(free room) bool {
	if len(q.kinds) == 1 {
		return q.last.n > 0 && q.last.needs.fits(free)
	}
	for needs, k := range q.kinds {
		if k.n > 0 && needs.fits(free) {
			return true
		}
	}
	return false
}

// hasShort reports whether there is a place of a task that is not long.
func (q *queue) hasShort() bool {
	for needs, k := range q.kinds {
		if k.n > 0 && needs.open == (probe.Demand{}) {
			return true
		}
	}
	return false
}

// backlog is the work of all places in a queue: of those of which something is expected, of the others as if each took 1 ns,
// and both for places that have their task and for reservations.
type backlog [4]work

func (b *backlog) add(p *place, n int) {
	i, expected := 0, p.expected
	if expected <= 0 {
		i, expected = 1, 1
	}
	if p.launch == nil {
		i += 2
	}
	b[i].add(p.demand, expected, n)
}

// expected is the work that is expected of the places, if one that is not known takes so long, and reservations turn
// into tasks by this chance.
func (b *backlog) expected(unknown time.Duration, chance float64) (w work) {
	for i, factor := range [...]float64{1, float64(unknown), chance, chance * float64(unknown)} {
		w.cpu += b[i].cpu * factor
		w.mem += b[i].mem * factor
	}
	return w
}

// place is one ResID on one link: queued, or asked about, or gone.
type place struct {
	// First what the heaps compare and move, so that it is in one line of the processor's cache.
	key             float64
	came            time.Duration // since the core began: when it did, or its job
	seq             uint64        // order of arrival
	pos, arrivalPos int

	link     *link
	res      probe.ResID
	kind     *kind
	estimate time.Duration
	expected time.Duration // the estimate, or what is typical; 0: not known
	demand   probe.Demand
	priority int32
	turn     probe.Turn
	state    placeState

	long        bool
	tellMatrix  bool
	mayAskEarly bool
	clears      bool // it was asked early, and spare work is stopped for what it gets

	class    probe.Class
	agingPos int
	due      time.Duration // since the core began: from when on it is regular, if it is not; 0: never
	left     time.Duration // work that its job has left
	linedAt  time.Duration // since the core began: when it came, or came back, to the queue as what it is

	job        probe.JobID
	generation probe.Generation // of the job
	tenant     string
	of         *tenant       // once it was in the queue
	launch     *probe.Launch // of a task bound early
	common     []byte        // that it names
	files      *files        // nil: its task needs none
	bill       bill          // while its turn is on

	queuedAt time.Time
	toldAt   time.Time // since when its frontend may believe in it: it was reserved, or came back
	askedAt  time.Time
	waits    probe.Waits       // until then
	since    sums              // when it was queued
	startIn  time.Duration     // since it was queued: its start as it was planned for the first time; 0: it never was
	node     list.Node[*place] // in the list of those asked
}

func (p *place) needs() room { return needs(p.demand, p.long) }

type placeState uint8

const (
	queued placeState = iota
	parked            // queued, but its frontend was silent when last asked
	held              // Ready is out and a slot is held
	early             // Ready is out, ahead of a slot that is expected to fall free
)

func (p *place) Before(q *place) bool {
	if p.key != q.key {
		return p.key < q.key
	}
	if p.came != q.came {
		return p.came < q.came
	}
	return p.seq < q.seq
}

func (p *place) Pos() *int { return &p.pos }

// Links makes it an item of lists.
func (p *place) Links() *list.Node[*place] { return &p.node }
