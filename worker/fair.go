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
	queue         *queue
	byWorkLeft    bool               // each its own by the work that their jobs have left, not by priority
	weights       map[string]float64 // of tenants whose frontends tell none
	root          account
	innerAccounts map[string]*account // by path: of those with others below

	walk        walk[*account] // scratch of inOrder
	cursors     []*cursor
	cursorsUsed int
}

// account is a tenant's, or a path's with others below. A turn costs CPU time over the weight, and the next one begins no
// earlier than that later in virtual time: what is expected is paid when the turn begins, so that tenants take turns
// while tasks run, and the difference to what was used when it ends (see bill). The turn is what costs: a place that was
// cancelled cost nothing, one that comes round again pays again. What a tenant pays, those above it pay too, each among its
// own siblings.
type account struct {
	fair       *fair
	path       string
	parent     *account // nil: it is the root
	childCount int      // accounts right below
	weight     float64
	startTag   float64 // of the next turn, in the virtual time of the one above
	pos        int

	places pq.Heap[*place] // of a tenant: in the queue

	waiting     pq.Heap[*account] // of those below, the ones with places in the queue
	virtualTime float64           // what those have been served at least, over their weights; it never goes back
	lastPayer   *account          // the last one below that was charged

	// meanRun is how long its tasks of which nothing was told took lately. With one constant instead, the bills would still add
	// up, but only when tasks end: one whose tasks take minutes would have taken all slots until then, and none
	// afterwards for as long. What was told goes first, even if it is often wrong: only that tells a tenant's long
	// tasks from its short ones.
	meanRun time.Duration

	openTurns int     // that are on
	openBills int     // that are open: of those, and of attempts
	paidAhead float64 // for them in advance
	useRate   float64 // of them, the CPU in use
	begunSum  float64 // the sum of CPU times when its use began
}

// bill is what a turn, or an attempt that started without one, has cost its tenant so far. It is on the place until
// that has a task, then on the attempt. Costs are in millicores times nanoseconds.
type bill struct {
	account   *account // nil: nobody pays
	paid      float64  // in advance
	usedSince time.Duration
	cpu       probe.Millicores
	inUse     bool // the room, since from
	guessed   bool // paid is by account.run
}

func (a *account) Before(b *account) bool {
	if a.startTag != b.startTag {
		return a.startTag < b.startTag
	}
	return a.firstPlace().Before(b.firstPlace())
}

func (a *account) Pos() *int { return &a.pos }

// firstPlace is the place whose turn is next of those at or below a, which there must be.
func (a *account) firstPlace() *place {
	for a.waiting.Len() > 0 {
		a = a.waiting.Min()
	}
	return a.places.Min()
}

func (a *account) hasPlaces() bool { return a.places.Len()+a.waiting.Len() > 0 }

// updatePosition puts a, whose places or start have changed, where it belongs among its siblings, and likewise those above it.
func (a *account) updatePosition() {
	for ; a.parent != nil; a = a.parent {
		switch siblings := &a.parent.waiting; {
		case !a.hasPlaces():
			siblings.Remove(a)
		case a.pos > 0:
			siblings.Fix(a)
		default:
			siblings.Push(a)
		}
	}
}

func (f *fair) openAccount(t *tenant) {
	parent := &f.root
	for path := range probe.TenantPaths(t.name) {
		if path != t.name {
			parent = f.innerAccount(path, parent)
		}
	}
	weight := f.weights[t.name]
	if own := f.innerAccounts[t.name]; own != nil { // others are below it already
		parent, weight = own, 1
	}
	if weight <= 0 {
		weight = 1
	}
	t.account = account{fair: f, path: t.name, parent: parent, weight: weight, meanRun: unknownCost}
	parent.childCount++
}

// innerAccount is the account of a path with others below. A tenant of that very path, which had none below it so far, is from
// now on one of those.
func (f *fair) innerAccount(path string, parent *account) *account {
	if a := f.innerAccounts[path]; a != nil {
		return a
	}
	a := &account{fair: f, path: path, parent: parent, weight: 1}
	f.innerAccounts[path] = a
	parent.childCount++
	if t := f.queue.tenants[path]; t != nil {
		own := &t.account
		parent.childCount--
		parent.waiting.Remove(own)
		if parent.lastPayer == own {
			parent.lastPayer = a
		}
		a.weight, a.startTag, a.virtualTime = own.weight, own.startTag, own.startTag
		a.openTurns, a.openBills, a.paidAhead, a.useRate, a.begunSum = own.openTurns, own.openBills, own.paidAhead, own.useRate, own.begunSum
		a.childCount, a.lastPayer = 1, own
		own.parent, own.weight = a, 1
		own.updatePosition()
	}
	return a
}

func (f *fair) closeAccount(t *tenant) {
	for a := &t.account; a.parent != nil; a = a.parent {
		if a.parent.lastPayer == a {
			a.parent.lastPayer = nil
		}
		if a != &t.account {
			delete(f.innerAccounts, a.path)
		}
		if a.parent.childCount--; a.parent.childCount > 0 {
			return
		}
	}
}

// setWeights notes what the parts of a tenant's path weigh, the topmost first.
func (f *fair) setWeights(t *tenant, weights []uint32) {
	a, parts := &t.account, strings.Count(t.name, "/")+1
	if f.innerAccounts[t.name] != nil {
		a = a.parent
	}
	for i := min(parts, probe.MaxParts) - 1; i >= 0; i, a = i-1, a.parent {
		if i < len(weights) && weights[i] > 0 {
			a.weight = float64(weights[i])
		}
	}
}

func (f *fair) addPlace(p *place) {
	a := &p.queueTenant.account
	if p.sortKey = -float64(p.priority); f.byWorkLeft {
		p.sortKey = float64(p.workLeft)
	}
	f.raiseStart(a)
	a.places.Push(p)
	a.updatePosition()
}

func (f *fair) removePlace(p *place) {
	a := &p.queueTenant.account
	a.places.Remove(p)
	a.updatePosition()
}

func (f *fair) nextPlace(time.Time) *place { return f.root.firstPlace() }

func (f *fair) chargeTurn(p *place) {
	p.bill = p.queueTenant.account.payInAdvance(p.demand, p.expectedRun)
	for a := &p.queueTenant.account; a != nil; a = a.parent {
		a.openTurns++
	}
}

func (f *fair) chargeAttempt(t *tenant, d probe.Demand, expected time.Duration) bill {
	f.raiseStart(&t.account)
	if t.isIdle() {
		f.queue.busyTenants++
	}
	b := t.payInAdvance(d, expected)
	t.updatePosition()
	return b
}

// raiseStart lets a tenant take part that did not wait: it has saved nothing up. One whose tasks run keeps what it was behind
// others when one of them was charged last, or it would lose that between one place and the next.
func (f *fair) raiseStart(a *account) {
	for ; a.parent != nil && !a.hasPlaces() && a.openTurns == 0; a = a.parent {
		if a.openBills == 0 {
			a.parent.advanceVirtual()
		}
		a.startTag = max(a.startTag, a.parent.virtualTime)
	}
}

// advanceVirtual brings virtual time forward. It follows what those below have been served, not what they have paid: someone who
// came after others paid for an hour would else come after that hour, though they get it back as their tasks end. If
// nobody waits, it follows the one that was charged last: what is used while nobody wants it is soon owed to nobody.
func (parent *account) advanceVirtual() {
	child := parent.lastPayer
	if parent.waiting.Len() > 0 {
		child = parent.waiting.Min()
	}
	if child == nil {
		return
	}
	served := child.startTag - (child.paidAhead-(child.useRate*float64(child.fair.queue.now)-child.begunSum))/child.weight
	parent.virtualTime = max(parent.virtualTime, min(child.startTag, served))
}

// turnCost is what a turn of this demand and expected run time is expected to cost.
func (a *account) turnCost(d probe.Demand, expected time.Duration) float64 {
	if expected <= 0 {
		expected = a.meanRun
	}
	return float64(expected) * float64(max(d.CPU, 1))
}

// payInAdvance makes the tenant, and those above it, pay in advance. To move them is left to the caller.
func (a *account) payInAdvance(d probe.Demand, expected time.Duration) bill {
	b := bill{account: a, paid: a.turnCost(d, expected), cpu: max(d.CPU, 1), guessed: expected <= 0}
	for payer := a; payer.parent != nil; payer = payer.parent {
		payer.parent.advanceVirtual()
	}
	for ; a.parent != nil; a = a.parent {
		a.parent.lastPayer = a
		a.openBills++
		a.paidAhead += b.paid
		a.startTag += b.paid / a.weight
	}
	return b
}

// startUse notes that the bill's room is occupied from now on, if it was not yet.
func (b *bill) startUse() {
	if b.account == nil || b.inUse {
		return
	}
	b.inUse, b.usedSince = true, b.account.fair.queue.now
	for a := b.account; a.parent != nil; a = a.parent {
		a.useRate += float64(b.cpu)
		a.begunSum += float64(b.cpu) * float64(b.usedSince)
	}
}

// settle corrects what was paid to what was used: the time for which the room was occupied, or, if that is more, for
// which a task ran, 0 if none did.
func (b bill) settle(ran time.Duration) {
	if b.account == nil {
		return
	}
	q := b.account.fair.queue
	used := time.Duration(0)
	if b.inUse {
		used = max(ran, q.now-b.usedSince)
	}
	if b.guessed && ran > 0 {
		b.account.meanRun += (used - b.account.meanRun) / 8
	}
	for a := b.account; a.parent != nil; a = a.parent {
		if b.inUse {
			a.useRate -= float64(b.cpu)
			a.begunSum -= float64(b.cpu) * float64(b.usedSince)
		}
		a.paidAhead -= b.paid
		a.startTag += (float64(used)*float64(b.cpu) - b.paid) / a.weight
		if a.openBills--; a.openBills == 0 {
			a.paidAhead, a.useRate, a.begunSum = 0, 0, 0 // of sums, small errors remain
		}
	}
	if q.placeCount > 0 {
		q.changes++
		b.account.updatePosition()
	}
	if b.account.openBills == 0 && b.account.places.Len() == 0 {
		q.busyTenants--
	}
}

// endTurn hands out the bill of the place's turn, if one is on.
func (p *place) endTurn() bill {
	b := p.bill
	for a := b.account; a != nil; a = a.parent {
		a.openTurns--
	}
	p.bill = bill{}
	return b
}

// amountOwed is how much more was served to a tenant, or to a path above it, than to its siblings that wait.
func (a *account) amountOwed() (cost float64) {
	for ; a.parent != nil; a = a.parent {
		cost = max(cost, (a.startTag-a.parent.virtualTime)*a.weight)
	}
	return cost
}

// cursor is an account's part of a walk through the queue.
type cursor struct {
	account     *account
	parent      *cursor
	startTag    float64 // of its next turn, in virtual time
	places      walk[*place]
	children    pq.Heap[*cursor]
	hasChildren bool // below is filled
	pos         int
}

func (c *cursor) Before(d *cursor) bool {
	if c.startTag != d.startTag {
		return c.startTag < d.startTag
	}
	return c.firstPlace().Before(d.firstPlace())
}

func (c *cursor) Pos() *int { return &c.pos }

// firstPlace is the next place, which there must be.
func (c *cursor) firstPlace() *place {
	for c.hasChildren {
		c = c.children.Min()
	}
	if c.account.waiting.Len() > 0 {
		return c.account.firstPlace()
	}
	p, _ := c.places.peek()
	return p
}

// inOrder lets the tenants take their turns as head would.
func (f *fair) inOrder(time.Time) iter.Seq[*place] { return f.foreseeOrder }

func (f *fair) foreseeOrder(yield func(*place) bool) {
	defer f.releaseCursors()
	root := f.newCursor(&f.root, nil)
	for f.root.hasPlaces() {
		c := root
		for c.account.waiting.Len() > 0 {
			if !c.hasChildren {
				f.fillCursor(c)
			}
			if c.children.Len() == 0 {
				return
			}
			c = c.children.Min()
		}
		p, _ := c.places.peek()
		if !yield(p) {
			return
		}
		cost := c.account.turnCost(p.demand, p.expectedRun)
		c.places.skip()
		_, more := c.places.peek()
		for ; c.parent != nil; c = c.parent {
			c.startTag += cost / c.account.weight
			if more {
				c.parent.children.Fix(c)
			} else {
				c.parent.children.Remove(c)
			}
			more = c.parent.children.Len() > 0
		}
	}
}

// fillCursor makes cursors for those below c that wait.
func (f *fair) fillCursor(c *cursor) {
	c.hasChildren = true
	for f.walk.startWalk(&c.account.waiting); c.children.Len() < planDepth; f.walk.skip() { // others come after all that is planned
		a, ok := f.walk.peek()
		if !ok {
			break
		}
		c.children.Push(f.newCursor(a, c))
	}
	f.walk.endWalk()
}

func (f *fair) newCursor(a *account, parent *cursor) *cursor {
	if f.cursorsUsed == len(f.cursors) {
		f.cursors = append(f.cursors, &cursor{})
	}
	c := f.cursors[f.cursorsUsed] // with the slices of an earlier walk
	f.cursorsUsed++
	c.account, c.parent, c.startTag = a, parent, a.startTag
	c.places.startWalk(&a.places)
	return c
}

func (f *fair) releaseCursors() {
	for _, c := range f.cursors[:f.cursorsUsed] {
		for c.children.Len() > 0 {
			c.children.Remove(c.children.All()[c.children.Len()-1])
		}
		c.account, c.parent, c.hasChildren = nil, nil, false
		c.places.endWalk()
	}
	f.cursorsUsed = 0
}

func (f *fair) allPlaces() iter.Seq[*place] {
	return func(yield func(*place) bool) { f.root.yieldPlaces(yield) }
}

func (a *account) yieldPlaces(yield func(*place) bool) bool {
	for _, p := range a.places.All() {
		if !yield(p) {
			return false
		}
	}
	for _, b := range a.waiting.All() {
		if !b.yieldPlaces(yield) {
			return false
		}
	}
	return true
}
