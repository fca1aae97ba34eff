package worker

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/list"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// Order is the policy by which queued places take their turns.
type Order uint8

const (
	FIFO     Order = iota // by arrival
	Priority              // higher priority first, then by arrival
	Fair                  // tenants take turns by weight (start-time fair queueing), each its own by arrival
	Shortest              // smallest estimate first, but whoever waited for StarvationBound goes ahead
)

var orderNames = []string{"fifo", "priority", "fair", "shortest"}

func (o Order) String() string { return orderNames[o] }

// ParseOrder reads an Order's name.
func ParseOrder(s string) (Order, error) {
	for i, name := range orderNames {
		if s == name {
			return Order(i), nil
		}
	}
	return 0, fmt.Errorf("queue order %q is unknown: use one of %q", s, orderNames)
}

// queue holds the places whose turn has not come, in the order of the policy.
type queue struct {
	order   Order
	bound   time.Duration      // Shortest only
	weights map[string]float64 // Fair only; a tenant that is not named weighs 1

	n       int
	heap    pq.Heap[*place]    // all but Fair
	oldest  pq.Heap[arrival]   // Shortest only: the same places by arrival
	tenants pq.Heap[*tenant]   // Fair only: those with places in the queue
	virtual float64            // Fair only: what those who wait have been served at least, over their weights; it never goes back
	now     time.Duration      // Fair only: of the step, since the first one
	payer   *tenant            // Fair only: the last one that was charged
	holders int                // tenants with places in the queue, or bills
	known   map[string]*tenant // those, and some that were
	recent  *tenant            // that a place was pushed of

	changes uint64         // how often a place came or went
	kinds   map[room]*kind // of the places, by what they need; the last one may be of none
	last    *kind          // that a place was pushed of
	backlog backlog

	byTurn    walk[*place] // scratch of inOrder
	byArrival walk[arrival]
	byTenant  walk[*tenant]
	turns     []turns
}

// kind counts places that need the same.
type kind struct {
	needs room
	n     int
}

// tenant is one tenant's part of the queue, under Fair in order of arrival. A turn costs CPU time over the tenant's
// weight, and the tenant's next one begins no earlier than that later in virtual time: what is expected is paid when
// the turn begins, so that tenants take turns while tasks run, and the difference to what was used when it ends (see
// bill). The turn is what costs: a place that was cancelled cost nothing, one that comes round again pays again.
type tenant struct {
	name   string
	n      int // places in the queue
	weight float64
	places pq.Heap[*place] // Fair only: those
	start  float64         // of the next turn, in virtual time
	pos    int

	// run is how long its tasks without an estimate took lately. With one constant instead, the bills would still add
	// up, but only when tasks end: one whose tasks take minutes would have taken all slots until then, and none
	// afterwards for as long. An estimate goes first, even one that is often wrong: only it tells a tenant's long
	// tasks from its short ones.
	run time.Duration

	turns int     // that are on
	bills int     // that are open: of those, and of attempts
	paid  float64 // for them in advance
	rate  float64 // of them, the CPU in use
	begun float64 // the sum of CPU times when its use began
}

// bill is what a turn, or an attempt that started without one, has cost its tenant so far. It is on the place until
// that has a task, then on the attempt. Costs are in millicores times nanoseconds.
type bill struct {
	of      *tenant // nil: nobody pays
	paid    float64 // in advance
	from    time.Duration
	cpu     probe.Millicores
	using   bool // the room, since from
	guessed bool // paid is by tenant.run
}

func (t *tenant) Before(u *tenant) bool {
	if t.start != u.start {
		return t.start < u.start
	}
	return t.places.Min().seq < u.places.Min().seq
}

func (t *tenant) Pos() *int { return &t.pos }

// arrival orders places by when they came.
type arrival struct{ *place }

func (a arrival) Before(b arrival) bool { return a.seq < b.seq }
func (a arrival) Pos() *int             { return &a.arrivalPos }

func (q *queue) len() int { return q.n }

// push adds p. A place that was in the queue before keeps its position among those of its key, and under
// Fair among those of its tenant.
func (q *queue) push(p *place) {
	q.n++
	q.changes++
	q.count(p)
	t := q.tenant(p.tenant)
	if p.of = t; t.idle() {
		q.holders++
	}
	t.n++
	switch q.order {
	case Fair:
		if t.places.Len() > 0 {
			t.places.Push(p)
			q.tenants.Fix(t) // p may be its oldest
			return
		}
		q.join(t)
		t.places.Push(p)
		q.tenants.Push(t)
		return
	case Priority:
		p.key = -float64(p.priority)
	case Shortest:
		p.key = float64(p.estimate)
		if p.estimate == 0 {
			p.key = float64(q.bound) // unknown: behind what is known to be short
		}
		q.oldest.Push(arrival{p})
	}
	q.heap.Push(p)
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
	t := &tenant{name: name, weight: q.weights[name], run: unknownCost}
	if t.weight <= 0 {
		t.weight = 1
	}
	q.known[name], q.recent = t, t
	return t
}

func (t *tenant) idle() bool { return t.n == 0 && t.bills == 0 }

// forget lets go of half of the tenants that are idle, those that owe least.
func (q *queue) forget() {
	var idle []*tenant
	for _, t := range q.known {
		if t.idle() {
			idle = append(idle, t)
		}
	}
	slices.SortFunc(idle, func(t, u *tenant) int { return cmp.Or(cmp.Compare(t.start, u.start), cmp.Compare(t.name, u.name)) })
	for _, t := range idle[:(len(idle)+1)/2] {
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

// head is the place whose turn is next; the queue must not be empty.
func (q *queue) head(now time.Time) *place {
	switch q.order {
	case Fair:
		return q.tenants.Min().places.Min()
	case Shortest:
		if first := q.oldest.Min(); now.Sub(first.queuedAt) >= q.bound {
			return first.place
		}
	}
	return q.heap.Min()
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
	switch q.order {
	case Fair:
		t.places.Remove(p)
		if t.places.Len() > 0 {
			q.tenants.Fix(t)
			return
		}
		q.tenants.Remove(t)
		return
	case Shortest:
		q.oldest.Remove(arrival{p})
	}
	q.heap.Remove(p)
}

// take is remove for a place whose turn has come: under Fair its tenant pays for it.
func (q *queue) take(p *place) {
	if q.order == Fair {
		p.bill = q.charge(p.of, p.demand, p.estimate)
		p.of.turns++
	}
	q.remove(p)
}

// endTurn hands out the bill of the place's turn, if one is on.
func (p *place) endTurn() bill {
	b := p.bill
	if b.of != nil {
		b.of.turns--
	}
	p.bill = bill{}
	return b
}

// chargeMore is take for an attempt without a place in the queue.
func (q *queue) chargeMore(tenant string, d probe.Demand, estimate time.Duration) bill {
	if q.order != Fair {
		return bill{}
	}
	t := q.tenant(tenant)
	q.join(t)
	if t.idle() {
		q.holders++
	}
	b := q.charge(t, d, estimate)
	if t.n > 0 {
		q.tenants.Fix(t)
	}
	return b
}

// join lets a tenant take part that did not wait: it has saved nothing up. One whose tasks run keeps what it was behind
// others when one of them was charged last, or it would lose that between one place and the next.
func (q *queue) join(t *tenant) {
	if t.places.Len() > 0 || t.turns > 0 {
		return
	}
	if t.bills == 0 {
		q.advance()
	}
	t.start = max(t.start, q.virtual)
}

// advance brings virtual time forward. It follows what tenants have been served, not what they have paid: someone who
// came after others paid for an hour would else come after that hour, though they get it back as their tasks end. If
// nobody waits, it follows the one that was charged last: what is used while nobody wants it is soon owed to nobody.
func (q *queue) advance() {
	t := q.payer
	if q.tenants.Len() > 0 {
		t = q.tenants.Min()
	}
	if t == nil {
		return
	}
	served := t.start - (t.paid-(t.rate*float64(q.now)-t.begun))/t.weight
	q.virtual = max(q.virtual, min(t.start, served))
}

// charge makes a tenant pay in advance. Its place in the heap of tenants is left to the caller.
func (q *queue) charge(t *tenant, d probe.Demand, estimate time.Duration) bill {
	q.advance()
	q.payer = t
	b := bill{of: t, paid: t.toll(d, estimate), cpu: max(d.CPU, 1), guessed: estimate <= 0}
	t.bills++
	t.paid += b.paid
	t.start += b.paid / t.weight
	return b
}

// use notes that the bill's room is occupied from now on, if it was not yet.
func (q *queue) use(b *bill) {
	if b.of == nil || b.using {
		return
	}
	b.using, b.from = true, q.now
	b.of.rate += float64(b.cpu)
	b.of.begun += float64(b.cpu) * float64(b.from)
}

// settle corrects what was paid to what was used: the time for which the room was occupied, or, if that is more, for
// which a task ran, 0 if none did.
func (q *queue) settle(b bill, ran time.Duration) {
	t := b.of
	if t == nil {
		return
	}
	used := time.Duration(0)
	if b.using {
		used = max(ran, q.now-b.from)
		t.rate -= float64(b.cpu)
		t.begun -= float64(b.cpu) * float64(b.from)
	}
	if b.guessed && ran > 0 {
		t.run += (used - t.run) / 8
	}
	t.paid -= b.paid
	t.start += (float64(used)*float64(b.cpu) - b.paid) / t.weight
	if t.bills--; t.bills == 0 {
		t.paid, t.rate, t.begun = 0, 0, 0 // of sums, small errors remain
	}
	switch {
	case t.n > 0:
		q.changes++
		q.tenants.Fix(t)
	case t.bills == 0:
		q.holders--
	}
}

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

// toll is what a turn of this demand and estimate is expected to cost its tenant.
func (t *tenant) toll(d probe.Demand, estimate time.Duration) float64 {
	if estimate <= 0 {
		estimate = t.run
	}
	return float64(estimate) * float64(max(d.CPU, 1))
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

// backlog is the work of all places in a queue: of those with an estimate, of those without one as if each took 1 ns,
// and both for places that have their task and for reservations.
type backlog [4]work

func (b *backlog) add(p *place, n int) {
	i, estimate := 0, p.estimate
	if estimate <= 0 {
		i, estimate = 1, 1
	}
	if p.launch == nil {
		i += 2
	}
	b[i].add(p.demand, estimate, n)
}

// expected is the work that is expected of the places, if one without an estimate takes so long, and reservations turn
// into tasks by this chance.
func (b *backlog) expected(unknown time.Duration, chance float64) (w work) {
	for i, factor := range [...]float64{1, float64(unknown), chance, chance * float64(unknown)} {
		w.cpu += b[i].cpu * factor
		w.mem += b[i].mem * factor
	}
	return w
}

// all yields the places in no particular order.
func (q *queue) all() iter.Seq[*place] {
	return func(yield func(*place) bool) {
		for _, p := range q.heap.All() {
			if !yield(p) {
				return
			}
		}
		for _, t := range q.tenants.All() {
			for _, p := range t.places.All() {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// place is one ResID on one link: queued, or asked about, or gone.
type place struct {
	// First what the heaps compare and move, so that it is in one line of the processor's cache.
	key             float64
	seq             uint64 // order of arrival
	pos, arrivalPos int

	link     *link
	res      probe.ResID
	kind     *kind
	estimate time.Duration
	demand   probe.Demand
	priority int32
	turn     probe.Turn
	state    placeState

	long        bool
	tellMatrix  bool
	mayAskEarly bool

	job        probe.JobID
	generation probe.Generation // of the job
	tenant     string
	of         *tenant       // while it is in the queue
	launch     *probe.Launch // of a task bound early
	files      *files        // nil: its task needs none
	bill       bill          // while its turn is on

	queuedAt time.Time
	toldAt   time.Time // since when its frontend may believe in it: it was reserved, or came back
	askedAt  time.Time
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
	return p.seq < q.seq
}

func (p *place) Pos() *int { return &p.pos }

// Links makes it an item of lists.
func (p *place) Links() *list.Node[*place] { return &p.node }
