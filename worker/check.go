package worker

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	fairness "github.com/phoebe-sched/phoebe/probe/fair"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// Check returns an error if the core's state between two steps is inconsistent. It takes time in proportion to
// the state, and is for tests and the simulator.
func (c *Core) Check() error {
	for _, check := range []func() error{
		c.checkLinks, c.checkPlaces, c.checkQueue, c.checkFetches, c.checkAttempts, c.checkRoom,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkLinks checks the maps from ids and from frontends to links.
func (c *Core) checkLinks() error {
	if len(c.links) != len(c.linksByFrontend) {
		return fmt.Errorf("%d links of %d frontends", len(c.links), len(c.linksByFrontend))
	}
	for id, l := range c.links {
		if l.id != id || c.linksByFrontend[l.frontend] != l {
			return fmt.Errorf("link %d is under id %d, or is not the link of its frontend", l.id, id)
		}
		tasks := 0
		for _, p := range l.places {
			if p.launch != nil {
				tasks++
			}
		}
		if tasks != l.taskCount {
			return fmt.Errorf("link %d has %d places with a task, %d counted", id, tasks, l.taskCount)
		}
		if !l.isParked() && len(l.parked) > 0 {
			return fmt.Errorf("link %d is neither silent nor full and has %d parked places", id, len(l.parked))
		}
	}
	if err := c.checkUnsent(); err != nil {
		return err
	}
	for id := range c.attempts {
		if l := c.linksByFrontend[id.Frontend]; l != nil && l.topSeq < id.Seq {
			return fmt.Errorf("link %d has a highest Seq of %d, but %s is here", l.id, l.topSeq, id)
		}
	}
	return nil
}

// checkUnsent checks the sums over the results that wait to be sent.
func (c *Core) checkUnsent() error {
	heldBytes, fullLinks := 0, 0
	for id, l := range c.links {
		held, sent := 0, l.unmarked
		for a := range l.held.All() {
			if held += a.retainedSize(); !a.isHeldBack || a.owner != l {
				return fmt.Errorf("attempt %s is in the held results of link %d, and of another owner", a.id, id)
			}
		}
		for _, n := range l.reports {
			sent += n
		}
		if held != l.heldBytes || sent != l.sentBytes {
			return fmt.Errorf("%d bytes are held and %d sent on link %d, %d and %d counted",
				held, sent, id, l.heldBytes, l.sentBytes)
		}
		if held > 0 && len(l.reports) == 0 {
			return fmt.Errorf("%d bytes are held on link %d for ever", held, id)
		}
		if total := l.total(); l.isFull && total <= c.cfg.MaxUnsent/2 || !l.isFull && total > c.cfg.MaxUnsent {
			return fmt.Errorf("%d bytes wait on link %d, which is full: %t", total, id, l.isFull)
		}
		heldBytes += held
		if l.isFull {
			fullLinks++
		}
	}
	if heldBytes != c.heldBytes || fullLinks != c.fullLinks {
		return fmt.Errorf("%d bytes are held and %d links full, %d and %d counted",
			heldBytes, fullLinks, c.heldBytes, c.fullLinks)
	}
	return nil
}

// checkPlaces checks that each place has a link, and is in the container of its state and in no second container.
func (c *Core) checkPlaces() error {
	found := map[*place]int{} // how often each place is in a container
	count := map[placeState]int{}
	checkAt := func(p *place, state placeState) error {
		if p.state != state || p.link.places[p.res] != p {
			return fmt.Errorf("place %d of link %d is in the container of state %d, but has state %d",
				p.res, p.link.id, state, p.state)
		}
		found[p]++
		count[state]++
		return nil
	}
	aged := 0
	for _, q := range [...]*queue{&c.queue, &c.spareQueue} {
		for p := range q.allPlaces() {
			if err := checkAt(p, queued); err != nil {
				return err
			}
			if p.link.isParked() {
				return fmt.Errorf("place %d waits for link %d, which is silent or full", p.res, p.link.id)
			}
			if ages := p.class != probe.Regular && p.due > 0; c.queueOf(p.class) != q ||
				ages != (p.agingPos > 0) || ages && p.due <= q.now {
				return fmt.Errorf("place %d of link %d is %v and due at %v: it is in a wrong queue at %v",
					p.res, p.link.id, p.class, p.due, q.now)
			}
			if p.agingPos > 0 {
				aged++
			}
		}
	}
	if aged != c.aging.Len() {
		return fmt.Errorf("%d places will become regular, %d counted", aged, c.aging.Len())
	}
	for _, l := range c.links {
		for _, p := range l.parked {
			if err := checkAt(p, parked); err != nil {
				return err
			}
		}
	}
	for _, p := range c.askedAhead {
		if err := checkAt(p, askingAhead); err != nil {
			return err
		}
	}
	asked := 0
	var previous *place
	for p := range c.asked.All() {
		switch {
		case p.state == askingAhead: // counted above
		case p.state != asking || p.link.places[p.res] != p:
			return fmt.Errorf("place %d of link %d is in the list asked: its state is %d", p.res, p.link.id, p.state)
		default:
			found[p]++
			count[asking]++
		}
		if p.launch != nil {
			return fmt.Errorf("place %d of link %d was asked though it has a task", p.res, p.link.id)
		}
		if previous != nil && p.expiryBegan.Before(previous.expiryBegan) {
			return fmt.Errorf("place %d of link %d was asked before the place ahead", p.res, p.link.id)
		}
		previous = p
		asked++
	}
	if asked != c.asked.Len() || asked != count[asking]+count[askingAhead] {
		return fmt.Errorf("%d places are in the list asked, %d ask with a slot, %d ask ahead, %d counted",
			asked, count[asking], count[askingAhead], c.asked.Len())
	}
	if count[queued] != c.queue.len()+c.spareQueue.len() || count[parked] != c.parkedCount {
		return fmt.Errorf("%d places queued and %d parked, %d and %d counted",
			count[queued], count[parked], c.queue.len()+c.spareQueue.len(), c.parkedCount)
	}
	// Asking places come back to the queue, even into a full queue.
	if n, back := c.queue.len()+c.spareQueue.len()+c.parkedCount,
		2*probe.Slot.Times(c.cfg.Capacity); n > c.cfg.MaxQueue+back {
		return fmt.Errorf("%d places queued and parked, the bound is %d", n, c.cfg.MaxQueue)
	}
	if c.leaving && count[queued]+count[parked] > 0 {
		return fmt.Errorf("%d places queued, %d parked while leaving", count[queued], count[parked])
	}
	if c.leaving && c.Idle() && asked > 0 {
		return fmt.Errorf("%d places asked, and the worker may go", asked)
	}
	places := 0
	for _, l := range c.links {
		for id, p := range l.places {
			if p.link != l || p.res != id || found[p] != 1 || !l.seenPlaces.Seen(id) {
				return fmt.Errorf("place %d of link %d is in %d containers, and under id %d of link %d",
					p.res, p.link.id, found[p], id, l.id)
			}
			places++
		}
	}
	if places != len(found) {
		return fmt.Errorf("%d places are in containers, %d on links", len(found), places)
	}
	return nil
}

// checkQueue checks the sums of each queue: the needs and the work of its places, and the bills of turns and
// attempts.
func (c *Core) checkQueue() error {
	return cmp.Or(c.checkQueueOf(&c.queue, c.cfg.Order == Fair), c.checkQueueOf(&c.spareQueue, true))
}

// checkQueueOf checks one queue. hasAccounts says whether the policy of the queue keeps accounts.
func (c *Core) checkQueueOf(q *queue, hasAccounts bool) error {
	counts := map[room]int{}
	places := map[*account]int{}
	var sum backlog
	for p := range q.allPlaces() {
		counts[p.neededRoom()]++
		places[&p.queueTenant.account]++
		if p.queueTenant != q.tenants[p.tenant] {
			return fmt.Errorf("place %d of link %d is counted for a wrong tenant", p.res, p.link.id)
		}
		sum.countPlace(p, 1)
		if p.kind != q.kinds[p.neededRoom()] {
			return fmt.Errorf("place %d of link %d is counted for wrong needs", p.res, p.link.id)
		}
	}
	for needs, k := range q.kinds {
		if k.count != counts[needs] || k.count == 0 && k != q.lastKind {
			return fmt.Errorf("%d places need %v, %d counted", counts[needs], needs, k.count)
		}
	}
	for name, t := range q.tenants {
		if t.name != name || t.placeCount != places[&t.account] {
			return fmt.Errorf("tenant %q has %d places, %d counted", name, places[&t.account], t.placeCount)
		}
	}
	var turns, uses []fairness.Bill[*place] // open bills: of turns that are on, and of attempts
	addBill := func(list *[]fairness.Bill[*place], b bill) {
		if b.queue != nil {
			places[b.Account()] += 0 // so the account counts as busy
			*list = append(*list, b.Bill)
		}
	}
	for _, l := range c.links {
		for _, p := range l.places {
			if c.queueOf(p.class) != q {
				continue
			}
			if hasTurn := p.state == asking || p.state == askingAhead; (hasTurn && hasAccounts) !=
				(p.bill.queue != nil) {
				return fmt.Errorf("place %d of link %d is in state %d: bill %v", p.res, l.id, p.state, p.bill)
			}
			addBill(&turns, p.bill)
		}
	}
	for id, a := range c.attempts {
		if a.state == ended || c.queueOf(a.class) != q {
			continue
		}
		if hasAccounts != (a.bill.queue != nil) {
			return fmt.Errorf("attempt %s is in state %d: bill %v", id, a.state, a.bill)
		}
		addBill(&uses, a.bill)
	}
	if f, ok := q.policy.(*fair); ok {
		leaves := map[string]*account{}
		for _, t := range q.tenants {
			leaves[t.name] = &t.account
		}
		if err := f.Check(leaves, turns, uses); err != nil {
			return err
		}
	}
	if q.busyTenants != len(places) || q.recentTenant != nil && q.recentTenant != q.tenants[q.recentTenant.name] {
		return fmt.Errorf("%d tenants with places or bills, %d counted", len(places), q.busyTenants)
	}
	for i, w := range sum {
		differ := 1.0 // an estimate of days that came and went leaves more: up to 1 us of a slot's work
		if i%2 == 0 {
			differ = 1e6
		}
		if math.Abs(w.cpu-q.backlog[i].cpu) > differ+w.cpu/1e6 || math.Abs(w.mem-q.backlog[i].mem) > differ+w.mem/1e6 {
			return fmt.Errorf("the queue has work %v, summed up %v", sum, q.backlog)
		}
	}
	return nil
}

// checkFetches checks that fetches holds exactly the queued places in need of files.
func (c *Core) checkFetches() error {
	for id, p := range c.fetches {
		if p.launch == nil || p.launch.Attempt != id || p.files == nil || p.link.places[p.res] != p {
			return fmt.Errorf("attempt %s fetches files for place %d of link %d: the place is gone or needs no files",
				id, p.res, p.link.id)
		}
	}
	n := 0
	for _, l := range c.links {
		for _, p := range l.places {
			if p.launch != nil && len(p.launch.Files) > 0 {
				n++
			}
		}
	}
	if n != len(c.fetches) || len(c.filesToRelease) > 0 {
		return fmt.Errorf("%d places need files, %d fetches, %d unsent releases", n, len(c.fetches),
			len(c.filesToRelease))
	}
	return nil
}

// checkAttempts checks that each attempt is in the list of its state. The link of an owner must be up.
func (c *Core) checkAttempts() error {
	listCount := map[*attempt]int{}
	checkList := func(name string, l *list.List[*attempt], state attemptState) error {
		n := 0
		for a := range l.All() {
			if a.state != state {
				return fmt.Errorf("attempt %s is %s: state %d", a.id, name, a.state)
			}
			listCount[a]++
			n++
		}
		if n != l.Len() {
			return fmt.Errorf("%d attempts %s, %d counted", n, name, l.Len())
		}
		return nil
	}
	for _, err := range []error{
		checkList("staged", &c.staged, staged), checkList("an orphan", &c.orphans, running),
		checkList("retained", &c.retained, ended), checkList("unclaimed", &c.unclaimed, ended),
	} {
		if err != nil {
			return err
		}
	}
	for _, l := range c.links {
		if err := checkList("held", &l.held, ended); err != nil {
			return err
		}
	}
	started, kept, idle := 0, 0, map[*activePart]bool{}
	for _, x := range c.freeActiveParts {
		idle[x] = true
	}
	for id, a := range c.attempts {
		if (a.state == ended) != (a.activePart == nil) || idle[a.activePart] {
			return fmt.Errorf("attempt %s in state %d has a wrong activePart: missing, left over or free", id, a.state)
		}
		if a.id != id {
			return fmt.Errorf("attempt %s is filed under %s", a.id, id)
		}
		if a.owner != nil && c.links[a.owner.id] != a.owner {
			return fmt.Errorf("attempt %s belongs to link %d, which is gone", id, a.owner.id)
		}
		listed := 1
		switch a.state {
		case staged:
			if a.owner == nil || a.returnPlace != nil &&
				(a.returnPlace.link != a.owner || a.owner.places[a.returnPlace.res] != nil) {
				return fmt.Errorf("staged attempt %s has no owner, or another owner than its place", id)
			}
		case running:
			started++
			if int(a.runIndex) >= len(c.runs) || c.runs[a.runIndex] != a {
				return fmt.Errorf("attempt %s runs, but is not in runs at its index", id)
			}
			if a.owner != nil || a.unwanted {
				listed = 0
			}
		case ended:
			kept += a.retainedSize()
			if a.unwanted {
				return fmt.Errorf("attempt %s is unwanted, and retained", id)
			}
			if a.isHeldBack && a.owner == nil {
				return fmt.Errorf("attempt %s is held for nobody", id)
			}
		}
		if listCount[a] != listed {
			return fmt.Errorf("attempt %s in state %d is in %d lists, not %d", id, a.state, listCount[a], listed)
		}
		delete(listCount, a)
	}
	for a := range c.retained.All() {
		if a.owner == nil {
			return fmt.Errorf("attempt %s is retained without an owner", a.id)
		}
	}
	if len(listCount) > 0 {
		return fmt.Errorf("%d attempts are listed, but forgotten", len(listCount))
	}
	if started != len(c.runs) || kept != c.retainedBytes {
		return fmt.Errorf("%d attempts run and %d bytes are kept, %d and %d counted",
			started, kept, len(c.runs), c.retainedBytes)
	}
	for _, a := range c.expectedEnds.All() {
		if a.state != running || a.endsSoon || c.attempts[a.id] != a {
			return fmt.Errorf("attempt %s is in expectedEnds: state %d, ends soon %t", a.id, a.state, a.endsSoon)
		}
	}
	return nil
}

// checkRoom checks that all capacity is free, held for a place, or used by an attempt. The promised room must be
// the sum of the promises. The place at the head of the queue must have no room.
func (c *Core) checkRoom() error {
	sum, promised, endingRoom, askingRoom := c.free, probe.Demand{}, probe.Demand{}, probe.Demand{}
	for _, l := range c.links {
		for _, p := range l.places {
			switch p.state {
			case asking:
				sum, askingRoom = sum.add(p.neededRoom()), askingRoom.Add(p.demand)
			case askingAhead:
				promised = promised.Add(p.demand)
			}
		}
	}
	for _, a := range c.freeAttempts {
		if c.attempts[a.id] == a || a.owner != nil || a.state != staged {
			return fmt.Errorf("attempt %s is in use and on the free list", a.id)
		}
	}
	for _, a := range c.attempts {
		switch a.state {
		case running:
			sum = sum.add(roomFor(a.demand, a.long))
		case staged:
			promised = promised.Add(a.demand)
		}
	}
	for _, a := range c.endingSoon {
		if a.state != running || !a.endsSoon || c.attempts[a.id] != a {
			return fmt.Errorf("attempt %s is in endingSoon: state %d", a.id, a.state)
		}
		endingRoom = endingRoom.Add(a.demand)
	}
	if o := &c.occupants; o.short.cpu+o.long.cpu+o.asking.cpu+c.free.all.CPU != c.capacity.all.CPU ||
		o.asking.cpu != askingRoom.CPU {
		return fmt.Errorf("short tasks take %v, long tasks %v, and asking places %v; %v of %v is free",
			o.short.cpu, o.long.cpu, o.asking.cpu, c.free.all, c.capacity.all)
	}
	switch {
	case !(probe.Demand{}).Fits(c.free.all) || !c.capacity.open.Fits(c.free.open.Add(c.capacity.all)) ||
		sum != c.capacity:
		return fmt.Errorf("free %v, with held and used room %v of %v", c.free, sum, c.capacity)
	case promised != c.promised:
		return fmt.Errorf("promised %v, counted %v", promised, c.promised)
	case endingRoom != c.endingSoonRoom:
		return fmt.Errorf("ending soon %v, counted %v", endingRoom, c.endingSoonRoom)
	}
	if err := c.checkSpare(); err != nil {
		return err
	}
	switch a := c.staged.First(); {
	case a != nil && roomFor(a.demand, a.long).fitsIn(c.free):
		return fmt.Errorf("attempt %s is staged, though %v is free", a.id, c.free)
	case a != nil || c.queue.len() == 0:
	case len(c.askedAhead) > 0 && c.askedAhead[0].neededRoom().fitsIn(c.free):
		return fmt.Errorf("place %d was asked ahead, though %v is free", c.askedAhead[0].res, c.free)
	case len(c.askedAhead) == 0 && c.cfg.Order != Shortest:
		if p := c.queue.nextPlace(time.Time{}); !p.waitsForFiles() && p.neededRoom().fitsIn(c.free) {
			return fmt.Errorf("a place waits, though %v is free", c.free)
		}
	}
	return nil
}

// checkSpare checks the room of stoppable and stopping spare work. No yielded or spare place may have free room,
// unless regular places are to get the room.
func (c *Core) checkSpare() error {
	room, stopOrderedCount := probe.Demand{}, 0
	for _, a := range c.runs {
		if a.stopState != unstoppable {
			room = room.Add(a.demand)
		}
		if a.stopState == stopOrdered {
			stopOrderedCount++
		}
		if a.stopState != unstoppable && a.class != probe.Spare ||
			(a.stopState == stopOrdered) != list.Has(stopping{a}) ||
			a.stopState == stopOrdered && a.stopOrderedAt.IsZero() {
			return fmt.Errorf("attempt %s is %v, and its stop state is %d", a.id, a.class, a.stopState)
		}
	}
	if room != c.preemptible || stopOrderedCount != c.stopping.Len() {
		return fmt.Errorf("spare work has %v, and %d attempts stop: counted %v and %d",
			room, stopOrderedCount, c.preemptible, c.stopping.Len())
	}
	if c.stopping.Len() > 0 && c.hasRegularWaiting() {
		return nil
	}
	n := 0
	for p := range c.spareQueue.inOrder(time.Time{}) {
		if n++; n > planDepth {
			break
		}
		if !p.waitsForFiles() && p.neededRoom().fitsIn(c.free) {
			return fmt.Errorf("place %d of link %d waits as %v, though %v is free", p.res, p.link.id, p.class, c.free)
		}
	}
	return nil
}
