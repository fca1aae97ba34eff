package worker

import (
	"iter"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// fair is the policy of Fair: start-time fair queueing over the tree of tenants' paths. Those that share a path up to the
// last part take turns by weight, and what a path gets is shared by those below it. With one tenant it is by priority, then
// by arrival.
type fair struct {
	queue   *queue
	byLeft  bool               // each its own by the work that their jobs have left, not by priority
	weights map[string]float64 // of tenants whose frontends tell none
	root    account
	inner   map[string]*account // by path: of those with others below

	walk    walk[*account] // scratch of inOrder
	cursors []*cursor
	used    int
}

// account is a tenant's, or a path's with others below. A turn costs CPU time over the weight, and the next one begins no
// earlier than that later in virtual time: what is expected is paid when the turn begins, so that tenants take turns
// while tasks run, and the difference to what was used when it ends (see bill). The turn is what costs: a place that was
// cancelled cost nothing, one that comes round again pays again. What a tenant pays, those above it pay too, each among its
// own siblings.
type account struct {
	fair   *fair
	path   string
	above  *account // nil: it is the root
	below  int      // accounts right below
	weight float64
	start  float64 // of the next turn, in the virtual time of the one above
	pos    int

	places pq.Heap[*place] // of a tenant: in the queue

	waiting pq.Heap[*account] // of those below, the ones with places in the queue
	virtual float64           // what those have been served at least, over their weights; it never goes back
	payer   *account          // the last one below that was charged

	// run is how long its tasks of which nothing was told took lately. With one constant instead, the bills would still add
	// up, but only when tasks end: one whose tasks take minutes would have taken all slots until then, and none
	// afterwards for as long. What was told goes first, even if it is often wrong: only that tells a tenant's long
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
	of      *account // nil: nobody pays
	paid    float64  // in advance
	from    time.Duration
	cpu     probe.Millicores
	using   bool // the room, since from
	guessed bool // paid is by account.run
}

func (a *account) Before(b *account) bool {
	if a.start != b.start {
		return a.start < b.start
	}
	return a.first().Before(b.first())
}

func (a *account) Pos() *int { return &a.pos }

// first is the place whose turn is next of those at or below a, which there must be.
func (a *account) first() *place {
	for a.waiting.Len() > 0 {
		a = a.waiting.Min()
	}
	return a.places.Min()
}

func (a *account) waits() bool { return a.places.Len()+a.waiting.Len() > 0 }

// move puts a, whose places or start have changed, where it belongs among its siblings, and likewise those above it.
func (a *account) move() {
	for ; a.above != nil; a = a.above {
		switch siblings := &a.above.waiting; {
		case !a.waits():
			siblings.Remove(a)
		case a.pos > 0:
			siblings.Fix(a)
		default:
			siblings.Push(a)
		}
	}
}

func (f *fair) open(t *tenant) {
	above := &f.root
	for path := range probe.TenantPaths(t.name) {
		if path != t.name {
			above = f.between(path, above)
		}
	}
	weight := f.weights[t.name]
	if own := f.inner[t.name]; own != nil { // others are below it already
		above, weight = own, 1
	}
	if weight <= 0 {
		weight = 1
	}
	t.account = account{fair: f, path: t.name, above: above, weight: weight, run: unknownCost}
	above.below++
}

// between is the account of a path with others below. A tenant of that very path, which had none below it so far, is from
// now on one of those.
func (f *fair) between(path string, above *account) *account {
	if a := f.inner[path]; a != nil {
		return a
	}
	a := &account{fair: f, path: path, above: above, weight: 1}
	f.inner[path] = a
	above.below++
	if t := f.queue.known[path]; t != nil {
		own := &t.account
		above.below--
		above.waiting.Remove(own)
		if above.payer == own {
			above.payer = a
		}
		a.weight, a.start, a.virtual = own.weight, own.start, own.start
		a.turns, a.bills, a.paid, a.rate, a.begun = own.turns, own.bills, own.paid, own.rate, own.begun
		a.below, a.payer = 1, own
		own.above, own.weight = a, 1
		own.move()
	}
	return a
}

func (f *fair) close(t *tenant) {
	for a := &t.account; a.above != nil; a = a.above {
		if a.above.payer == a {
			a.above.payer = nil
		}
		if a != &t.account {
			delete(f.inner, a.path)
		}
		if a.above.below--; a.above.below > 0 {
			return
		}
	}
}

// weigh notes what the parts of a tenant's path weigh, the topmost first.
func (f *fair) weigh(t *tenant, weights []uint32) {
	a, parts := &t.account, strings.Count(t.name, "/")+1
	if f.inner[t.name] != nil {
		a = a.above
	}
	for i := min(parts, probe.MaxParts) - 1; i >= 0; i, a = i-1, a.above {
		if i < len(weights) && weights[i] > 0 {
			a.weight = float64(weights[i])
		}
	}
}

func (f *fair) push(p *place) {
	a := &p.of.account
	if p.key = -float64(p.priority); f.byLeft {
		p.key = float64(p.left)
	}
	f.join(a)
	a.places.Push(p)
	a.move()
}

func (f *fair) remove(p *place) {
	a := &p.of.account
	a.places.Remove(p)
	a.move()
}

func (f *fair) head(time.Time) *place { return f.root.first() }

func (f *fair) charge(p *place) {
	p.bill = p.of.account.charge(p.demand, p.expected)
	for a := &p.of.account; a != nil; a = a.above {
		a.turns++
	}
}

func (f *fair) chargeMore(t *tenant, d probe.Demand, expected time.Duration) bill {
	f.join(&t.account)
	if t.idle() {
		f.queue.holders++
	}
	b := t.charge(d, expected)
	t.move()
	return b
}

// join lets a tenant take part that did not wait: it has saved nothing up. One whose tasks run keeps what it was behind
// others when one of them was charged last, or it would lose that between one place and the next.
func (f *fair) join(a *account) {
	for ; a.above != nil && !a.waits() && a.turns == 0; a = a.above {
		if a.bills == 0 {
			a.above.advance()
		}
		a.start = max(a.start, a.above.virtual)
	}
}

// advance brings virtual time forward. It follows what those below have been served, not what they have paid: someone who
// came after others paid for an hour would else come after that hour, though they get it back as their tasks end. If
// nobody waits, it follows the one that was charged last: what is used while nobody wants it is soon owed to nobody.
func (above *account) advance() {
	a := above.payer
	if above.waiting.Len() > 0 {
		a = above.waiting.Min()
	}
	if a == nil {
		return
	}
	served := a.start - (a.paid-(a.rate*float64(a.fair.queue.now)-a.begun))/a.weight
	above.virtual = max(above.virtual, min(a.start, served))
}

// toll is what a turn of this demand and expected run time is expected to cost.
func (a *account) toll(d probe.Demand, expected time.Duration) float64 {
	if expected <= 0 {
		expected = a.run
	}
	return float64(expected) * float64(max(d.CPU, 1))
}

// charge makes the tenant, and those above it, pay in advance. To move them is left to the caller.
func (a *account) charge(d probe.Demand, expected time.Duration) bill {
	b := bill{of: a, paid: a.toll(d, expected), cpu: max(d.CPU, 1), guessed: expected <= 0}
	for one := a; one.above != nil; one = one.above {
		one.above.advance()
	}
	for ; a.above != nil; a = a.above {
		a.above.payer = a
		a.bills++
		a.paid += b.paid
		a.start += b.paid / a.weight
	}
	return b
}

// use notes that the bill's room is occupied from now on, if it was not yet.
func (b *bill) use() {
	if b.of == nil || b.using {
		return
	}
	b.using, b.from = true, b.of.fair.queue.now
	for a := b.of; a.above != nil; a = a.above {
		a.rate += float64(b.cpu)
		a.begun += float64(b.cpu) * float64(b.from)
	}
}

// settle corrects what was paid to what was used: the time for which the room was occupied, or, if that is more, for
// which a task ran, 0 if none did.
func (b bill) settle(ran time.Duration) {
	if b.of == nil {
		return
	}
	q := b.of.fair.queue
	used := time.Duration(0)
	if b.using {
		used = max(ran, q.now-b.from)
	}
	if b.guessed && ran > 0 {
		b.of.run += (used - b.of.run) / 8
	}
	for a := b.of; a.above != nil; a = a.above {
		if b.using {
			a.rate -= float64(b.cpu)
			a.begun -= float64(b.cpu) * float64(b.from)
		}
		a.paid -= b.paid
		a.start += (float64(used)*float64(b.cpu) - b.paid) / a.weight
		if a.bills--; a.bills == 0 {
			a.paid, a.rate, a.begun = 0, 0, 0 // of sums, small errors remain
		}
	}
	if q.n > 0 {
		q.changes++
		b.of.move()
	}
	if b.of.bills == 0 && b.of.places.Len() == 0 {
		q.holders--
	}
}

// endTurn hands out the bill of the place's turn, if one is on.
func (p *place) endTurn() bill {
	b := p.bill
	for a := b.of; a != nil; a = a.above {
		a.turns--
	}
	p.bill = bill{}
	return b
}

// owes is how much more was served to a tenant, or to a path above it, than to its siblings that wait.
func (a *account) owes() (cost float64) {
	for ; a.above != nil; a = a.above {
		cost = max(cost, (a.start-a.above.virtual)*a.weight)
	}
	return cost
}

// cursor is an account's part of a walk through the queue.
type cursor struct {
	account *account
	above   *cursor
	start   float64 // of its next turn, in virtual time
	places  walk[*place]
	below   pq.Heap[*cursor]
	opened  bool // below is filled
	pos     int
}

func (c *cursor) Before(d *cursor) bool {
	if c.start != d.start {
		return c.start < d.start
	}
	return c.first().Before(d.first())
}

func (c *cursor) Pos() *int { return &c.pos }

// first is the next place, which there must be.
func (c *cursor) first() *place {
	for c.opened {
		c = c.below.Min()
	}
	if c.account.waiting.Len() > 0 {
		return c.account.first()
	}
	p, _ := c.places.peek()
	return p
}

// inOrder lets the tenants take their turns as head would.
func (f *fair) inOrder(time.Time) iter.Seq[*place] { return f.foresee }

func (f *fair) foresee(yield func(*place) bool) {
	defer f.letGo()
	root := f.cursor(&f.root, nil)
	for f.root.waits() {
		c := root
		for c.account.waiting.Len() > 0 {
			if !c.opened {
				f.fill(c)
			}
			if c.below.Len() == 0 {
				return
			}
			c = c.below.Min()
		}
		p, _ := c.places.peek()
		if !yield(p) {
			return
		}
		toll := c.account.toll(p.demand, p.expected)
		c.places.skip()
		_, more := c.places.peek()
		for ; c.above != nil; c = c.above {
			c.start += toll / c.account.weight
			if more {
				c.above.below.Fix(c)
			} else {
				c.above.below.Remove(c)
			}
			more = c.above.below.Len() > 0
		}
	}
}

// fill makes cursors for those below c that wait.
func (f *fair) fill(c *cursor) {
	c.opened = true
	for f.walk.begin(&c.account.waiting); c.below.Len() < planDepth; f.walk.skip() { // others come after all that is planned
		a, ok := f.walk.peek()
		if !ok {
			break
		}
		c.below.Push(f.cursor(a, c))
	}
	f.walk.end()
}

func (f *fair) cursor(a *account, above *cursor) *cursor {
	if f.used == len(f.cursors) {
		f.cursors = append(f.cursors, &cursor{})
	}
	c := f.cursors[f.used] // with the slices of an earlier walk
	f.used++
	c.account, c.above, c.start = a, above, a.start
	c.places.begin(&a.places)
	return c
}

func (f *fair) letGo() {
	for _, c := range f.cursors[:f.used] {
		for c.below.Len() > 0 {
			c.below.Remove(c.below.All()[c.below.Len()-1])
		}
		c.account, c.above, c.opened = nil, nil, false
		c.places.end()
	}
	f.used = 0
}

func (f *fair) all() iter.Seq[*place] {
	return func(yield func(*place) bool) { f.root.all(yield) }
}

func (a *account) all(yield func(*place) bool) bool {
	for _, p := range a.places.All() {
		if !yield(p) {
			return false
		}
	}
	for _, b := range a.waiting.All() {
		if !b.all(yield) {
			return false
		}
	}
	return true
}
