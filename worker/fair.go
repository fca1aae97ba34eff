package worker

import (
	"iter"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// fair is the policy of Fair: start-time fair queueing over the tree of tenants' paths. Paths with the same
// parent take turns by weight, and share the turns of the parent. With a single tenant, the order is by priority,
// then by arrival.
type fair struct {
	queue         *queue
	byWorkLeft    bool               // orders a tenant's places by the work left of their jobs, not by priority
	weights       map[string]float64 // of tenants whose frontends send no weights
	root          account
	innerAccounts map[string]*account // by path: accounts with children

	walk        walk[*account] // scratch of inOrder
	cursors     []*cursor
	cursorsUsed int
}

// account is the account of a tenant, or of a path with children. A turn costs CPU time divided by the weight,
// and moves the start of the next turn by that cost in virtual time. The account pays the expected cost when the
// turn begins, so tenants take turns while tasks run. At the end of the use, the account pays the difference to
// the real cost (see bill). A turn costs, a place does not: a cancelled place costs nothing, and a place with
// another turn pays again. The parents of a tenant pay the same cost, each among its own siblings.
type account struct {
	fair       *fair
	path       string
	parent     *account // nil: the root
	childCount int      // number of children
	weight     float64
	startTag   float64 // of the next turn, in the virtual time of the parent
	pos        int

	places pq.Heap[*place] // of a tenant: places in the queue

	waiting     pq.Heap[*account] // children with places in the queue
	virtualTime float64           // of the children: the least service over weight; never goes back
	lastPayer   *account          // the child that was charged last

	// meanRun is the recent run time of the tenant's tasks without an expected run time. With a constant instead,
	// the bills would still add up, but only at the end of tasks. Until then a tenant with tasks of minutes would
	// take all slots, and for as long afterwards no slots. An expected run time goes first, even if often wrong,
	// because nothing else tells a tenant's long tasks from short tasks.
	meanRun time.Duration

	openTurns int     // turns that are on
	openBills int     // bills of turns and of attempts
	paidAhead float64 // paid for openBills in advance
	useRate   float64 // CPU in use by openBills
	begunSum  float64 // over openBills in use: sum of CPU multiplied by usedSince; the use is useRate*now - begunSum
}

// bill is the cost so far of a turn, or of an attempt that started without a turn. The bill is on the place until
// the place has a task, and then on the attempt. Costs are in millicores times nanoseconds.
type bill struct {
	account   *account // nil: no account pays
	paid      float64  // in advance
	usedSince time.Duration
	cpu       probe.Millicores
	inUse     bool // room is in use, since usedSince
	guessed   bool // paid was computed from account.meanRun
}

func (a *account) Before(b *account) bool {
	if a.startTag != b.startTag {
		return a.startTag < b.startTag
	}
	return a.firstPlace().Before(b.firstPlace())
}

func (a *account) Pos() *int { return &a.pos }

// firstPlace returns the place at or below a with the next turn. There must be such a place.
func (a *account) firstPlace() *place {
	for a.waiting.Len() > 0 {
		a = a.waiting.Min()
	}
	return a.places.Min()
}

// hasPlaces reports whether a place at or below a is in the queue.
func (a *account) hasPlaces() bool { return a.places.Len()+a.waiting.Len() > 0 }

// updatePosition moves a to its position among its siblings, after a change of its places or of its startTag. Then
// each parent of a is moved likewise.
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

// openAccount makes the account of t, and the accounts of its parents.
func (f *fair) openAccount(t *tenant) {
	parent := &f.root
	for path := range probe.TenantPaths(t.name) {
		if path != t.name {
			parent = f.ensureInnerAccount(path, parent)
		}
	}
	weight := f.weights[t.name]
	if own := f.innerAccounts[t.name]; own != nil { // the path has children already
		parent, weight = own, 1
	}
	if weight <= 0 {
		weight = 1
	}
	t.account = account{fair: f, path: t.name, parent: parent, weight: weight, meanRun: assumedRun}
	parent.childCount++
}

// ensureInnerAccount returns the account of a path with children, and makes the account if there is none. If the path
// was a tenant without children so far, the tenant becomes a child of its own path.
func (f *fair) ensureInnerAccount(path string, parent *account) *account {
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
		a.weight, a.startTag, a.virtualTime = own.weight, own.startTag, own.startTag // own is the only child
		a.openTurns, a.openBills, a.paidAhead, a.useRate, a.begunSum =
			own.openTurns, own.openBills, own.paidAhead, own.useRate, own.begunSum
		a.childCount, a.lastPayer = 1, own
		own.parent, own.weight = a, 1
		own.updatePosition()
	}
	return a
}

// closeAccount drops the account of t, and parents without a child left.
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

// setWeights sets the weights along the path of a tenant, topmost part first.
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
	f.catchUpStart(a)
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

// chargeAttempt charges t for an attempt without a place in the queue.
func (f *fair) chargeAttempt(t *tenant, d probe.Demand, expected time.Duration) bill {
	f.catchUpStart(&t.account)
	if t.isIdle() {
		f.queue.busyTenants++
	}
	b := t.payInAdvance(d, expected)
	t.updatePosition()
	return b
}

// catchUpStart prepares a tenant for its next turns if the tenant has no place in the queue and no turn is on,
// and likewise each such parent. An idle tenant saves nothing up: its start moves up to virtual time. If the tenant has
// no open bills, virtual time is first brought forward (advanceVirtual). A tenant with open bills keeps the lag behind
// its siblings that it had at the last charge. Otherwise a tenant that has one place after another would lose the lag
// between two places.
func (f *fair) catchUpStart(a *account) {
	for ; a.parent != nil && !a.hasPlaces() && a.openTurns == 0; a = a.parent {
		if a.openBills == 0 {
			a.parent.advanceVirtual()
		}
		a.startTag = max(a.startTag, a.parent.virtualTime)
	}
}

// advanceVirtual brings virtual time forward to the service that the first waiting child has had. Payments in advance
// for use still to come do not count as service. Otherwise, if the siblings of a newcomer had just paid for an hour,
// the newcomer would wait for an hour. But the siblings get most of the hour back if their tasks end early. If no
// child waits, virtual time follows the last payer, so use that no sibling wanted creates no debt.
func (parent *account) advanceVirtual() {
	child := parent.lastPayer
	if parent.waiting.Len() > 0 {
		child = parent.waiting.Min()
	}
	if child == nil {
		return
	}
	// The child's start, less the payments in advance, plus the use so far.
	served := child.startTag -
		(child.paidAhead-(child.useRate*float64(child.fair.queue.now)-child.begunSum))/child.weight
	parent.virtualTime = max(parent.virtualTime, min(child.startTag, served))
}

// turnCost returns the expected cost of a turn, in millicores times nanoseconds. An expected run time of 0 or less
// is unknown, and meanRun counts.
func (a *account) turnCost(d probe.Demand, expected time.Duration) float64 {
	if expected <= 0 {
		expected = a.meanRun
	}
	return float64(expected) * float64(max(d.CPU, 1))
}

// payInAdvance charges a and its parents for a turn. The caller updates their positions.
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

// startUse notes that the room of the bill is in use from now on.
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

// settle closes the bill, and corrects the payment to the real use: the time that the room was in use, or the run time
// of the task if longer. The argument ran is 0 if no task ran. A bill is settled once.
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
			a.paidAhead, a.useRate, a.begunSum = 0, 0, 0 // the sums keep small rounding errors
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

// takeBill takes the bill off p, and closes the turn in the accounts if the turn has begun. The caller settles the
// bill, or passes it to an attempt. Without a turn or without accounts the bill is empty.
func (p *place) takeBill() bill {
	b := p.bill
	for a := b.account; a != nil; a = a.parent {
		a.openTurns--
	}
	p.bill = bill{}
	return b
}

// amountOwed returns by how much a tenant, or a parent, is ahead of its waiting siblings in service: the largest such
// amount, in millicores times nanoseconds.
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
	hasChildren bool // children is filled
	pos         int
}

func (c *cursor) Before(d *cursor) bool {
	if c.startTag != d.startTag {
		return c.startTag < d.startTag
	}
	return c.firstPlace().Before(d.firstPlace())
}

func (c *cursor) Pos() *int { return &c.pos }

// firstPlace returns the next place of the walk. There must be such a place.
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

// inOrder lets the tenants take turns in the same order as nextPlace.
func (f *fair) inOrder(time.Time) iter.Seq[*place] { return f.foreseeOrder }

// foreseeOrder yields the places in the order of their turns. It charges the cursors, not the accounts.
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

// fillCursor makes cursors for the waiting children of c.
func (f *fair) fillCursor(c *cursor) {
	c.hasChildren = true
	// Children beyond planDepth come after the planned part.
	for f.walk.startWalk(&c.account.waiting); c.children.Len() < planDepth; f.walk.skip() {
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
	c := f.cursors[f.cursorsUsed] // reuses the slices of an earlier walk
	f.cursorsUsed++
	c.account, c.parent, c.startTag = a, parent, a.startTag
	c.places.startWalk(&a.places)
	return c
}

// releaseCursors ends a walk, and drops all pointers to places and accounts.
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

// yieldPlaces yields the places at and below a until yield returns false.
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
