package worker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/phoebe-sched/phoebe/probe"
	fairness "github.com/phoebe-sched/phoebe/probe/fair"
)

// slowWorker is a simple model of a worker's queue: a list, searched anew for every turn. The model has no
// expiry, no turns ahead of room and no broken links.
type slowWorker struct {
	order        Order
	bound        time.Duration
	weights      map[string]float64
	capacity     room
	alwaysOpen   probe.Demand // open to long tasks while short tasks come
	lastShortAt  time.Time    // when the last short task came
	free         room
	waiting      []*slowPlace
	turns        map[string]*slowPlace    // by link, place and turn; a slot is held
	running      map[uint64]slowRun       // by attempt
	seen         map[string]bool          // places, by link and id
	startTags    map[string]float64       // Fair: start of the next turn of each path, among its siblings
	meanRuns     map[string]time.Duration // Fair: run time of a tenant's tasks without an estimate
	bills        []*slowBill              // Fair: open bills
	lastPayers   map[string]string        // Fair: child that paid last, by parent path
	virtualTimes map[string]float64       // Fair: by parent path
	log          []string                 // of the current step
	core         *Core                    // for its averages, and for nothing else
	changed      bool                     // since the last search for gaps
	overtook     int
	arrivals     int // of places, and of places that go to the back
}

type slowRun struct {
	needs     room
	expected  time.Duration
	startedAt time.Time
	bill      *slowBill
}

// slowBill is the bill of a turn that is on, or of an attempt.
type slowBill struct {
	tenant    string
	paid      float64
	cpu       float64
	usedSince time.Time
	guessed   bool
	hasTurn   bool // the turn is on: no task yet
}

func (s *slowWorker) turnCost(tenant string, d probe.Demand, estimate time.Duration) float64 {
	return float64(cmp.Or(estimate, s.meanRuns[tenant], fairness.AssumedRun)) * float64(d.CPU)
}

// parentPath returns the parent of a path. A tenant with children has its own path with a / as parent.
func parentPath(path string) string {
	return path[:strings.LastIndexByte(strings.TrimSuffix(path, "/"), '/')+1]
}

// pathsOf returns the path of a tenant, and its parents. All parents end with a /. In the model, tenants have
// children from the start or never.
func pathsOf(tenant string) (all []string) {
	for path := tenant; path != ""; path = parentPath(path) {
		all = append(all, path)
	}
	return all
}

// payInAdvance makes a tenant and its parents pay in advance.
func (s *slowWorker) payInAdvance(tenant string, d probe.Demand, expected time.Duration, now time.Time) *slowBill {
	for _, path := range pathsOf(tenant) {
		s.advanceVirtual(parentPath(path), now)
	}
	b := &slowBill{tenant, s.turnCost(tenant, d, expected), float64(d.CPU), now, expected == 0, false}
	for _, path := range pathsOf(tenant) {
		s.startTags[path] += b.paid / s.weight(path)
		s.lastPayers[parentPath(path)] = path
	}
	s.bills = append(s.bills, b)
	return b
}

func (s *slowWorker) weight(path string) float64 { return cmp.Or(s.weights[path], 1) }

// settle corrects a bill to the real use.
func (s *slowWorker) settle(b *slowBill, ran bool, now time.Time) {
	s.bills = slices.DeleteFunc(s.bills, func(o *slowBill) bool { return b == o })
	used := now.Sub(b.usedSince)
	if mean := cmp.Or(s.meanRuns[b.tenant], fairness.AssumedRun); ran && b.guessed {
		s.meanRuns[b.tenant] = mean + (used-mean)/8
	}
	for _, path := range pathsOf(b.tenant) {
		s.startTags[path] += (float64(used)*b.cpu - b.paid) / s.weight(path)
	}
}

// childPath returns the path of tenant right below path; "" if tenant is not below path.
func childPath(tenant, path string) string {
	for _, c := range pathsOf(tenant) {
		if parentPath(c) == path {
			return c
		}
	}
	return ""
}

// nextBelow returns the place with the next turn under Fair, of the places below path, or nil.
func (s *slowWorker) nextBelow(path string) *slowPlace {
	best := map[string]*slowPlace{} // by child
	for _, p := range s.waiting {
		switch c := childPath(p.tenant, path); {
		case c == "":
		case c != p.tenant:
			best[c] = s.nextBelow(c)
		case best[c] == nil || compareTurns(p, best[c]) < 0:
			best[c] = p
		}
	}
	if len(best) == 0 {
		return nil
	}
	return best[slices.MinFunc(slices.Collect(maps.Keys(best)), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.startTags[a], s.startTags[b]), compareTurns(best[a], best[b]))
	})]
}

func compareTurns(p, q *slowPlace) int {
	return cmp.Or(cmp.Compare(q.priority, p.priority), p.arrival-q.arrival)
}

// advanceVirtual brings the virtual time of a path to the use of its next child. If no child waits, the child
// that paid last counts.
func (s *slowWorker) advanceVirtual(path string, now time.Time) {
	payer := s.lastPayers[path]
	if p := s.nextBelow(path); p != nil {
		payer = childPath(p.tenant, path)
	}
	ahead := 0.0
	for _, b := range s.bills {
		if slices.Contains(pathsOf(b.tenant), payer) {
			ahead += b.paid - b.cpu*float64(now.Sub(b.usedSince))
		}
	}
	s.virtualTimes[path] = max(s.virtualTimes[path], s.startTags[payer]-max(ahead, 0)/s.weight(payer))
}

// raiseStart lets a tenant and its parents take turns again, with no start in the past.
func (s *slowWorker) raiseStart(tenant string, now time.Time) {
	for _, path := range pathsOf(tenant) {
		isBelow := func(tenant string) bool { return slices.Contains(pathsOf(tenant), path) }
		waits := slices.ContainsFunc(s.waiting, func(q *slowPlace) bool { return isBelow(q.tenant) })
		if waits || slices.ContainsFunc(s.bills, func(b *slowBill) bool { return isBelow(b.tenant) && b.hasTurn }) {
			return
		}
		if !slices.ContainsFunc(s.bills, func(b *slowBill) bool { return isBelow(b.tenant) }) {
			s.advanceVirtual(parentPath(path), now)
		}
		s.startTags[path] = max(s.startTags[path], s.virtualTimes[parentPath(path)])
	}
}

type slowPlace struct {
	link, res, turn int
	arrival         int
	queuedAt        time.Time
	priority        int32
	tenant          string
	estimate        time.Duration
	expectedRun     time.Duration
	demand          probe.Demand
	attempt         uint64 // bound early
	long            bool
	askedAt         time.Time
	startBy         time.Time
	bill            *slowBill
}

func (p *slowPlace) neededRoom() room { return roomFor(p.demand, p.long) }

func (p *slowPlace) id() string  { return fmt.Sprint(p.link, "/", p.res) }
func (p *slowPlace) key() string { return fmt.Sprint(p.id(), ".", p.turn) }

// nextPlace returns the place with the next turn.
func (s *slowWorker) nextPlace(now time.Time) *slowPlace {
	oldest := slices.MinFunc(s.waiting, func(p, q *slowPlace) int { return p.arrival - q.arrival })
	if s.order == Shortest && now.Sub(oldest.queuedAt) >= s.bound {
		return oldest
	}
	if s.order == Fair {
		return s.nextBelow("")
	}
	return slices.MinFunc(s.waiting, func(p, q *slowPlace) int {
		byPolicy := 0
		switch s.order {
		case Priority:
			byPolicy = cmp.Compare(q.priority, p.priority)
		case Shortest:
			byPolicy = cmp.Compare(s.sortTime(p), s.sortTime(q))
		}
		return cmp.Or(byPolicy, p.arrival-q.arrival)
	})
}

func (s *slowWorker) sortTime(p *slowPlace) time.Duration {
	if p.estimate == 0 {
		return s.bound
	}
	return p.estimate
}

// addPlace queues p.
func (s *slowWorker) addPlace(p *slowPlace, now time.Time) {
	s.raiseStart(p.tenant, now)
	s.waiting = append(s.waiting, p)
	s.changed = true
}

func (s *slowWorker) assignRoom(now time.Time) {
	for {
		if long := s.core.averages.longRunTime; long > 0 && now.Sub(s.lastShortAt) >= long &&
			!slices.ContainsFunc(s.waiting, func(p *slowPlace) bool { return !p.long }) {
			s.setOpenPart(s.capacity.all)
		}
		if len(s.waiting) == 0 {
			return
		}
		if p := s.nextPlace(now); p.neededRoom().fitsIn(s.free) {
			s.giveTurn(p, now)
			continue
		}
		if !s.changed || !slices.ContainsFunc(s.waiting,
			func(p *slowPlace) bool { return p.neededRoom().fitsIn(s.free) }) {
			return
		}
		gaps, _, _ := s.findGaps(now, s.waiting)
		for _, p := range gaps {
			s.overtook++
			s.giveTurn(p, now)
		}
		if s.changed = false; len(gaps) == 0 {
			return
		}
	}
}

// giveTurn gives room to a waiting place.
func (s *slowWorker) giveTurn(p *slowPlace, now time.Time) {
	p.bill = s.payInAdvance(p.tenant, p.demand, p.expectedRun, now)
	s.removeWaiting(func(q *slowPlace) bool { return p == q })
	if p.attempt != 0 {
		s.startRun(p.attempt, p.neededRoom(), p.expectedRun, p.bill, now)
		return
	}
	s.free = s.free.sub(p.neededRoom())
	p.askedAt, p.bill.hasTurn = now, true
	s.turns[p.key()] = p
	s.log = append(s.log, "ready "+p.key())
}

func (s *slowWorker) removeWaiting(match func(*slowPlace) bool) {
	n := len(s.waiting)
	s.waiting = slices.DeleteFunc(s.waiting, match)
	s.changed = s.changed || len(s.waiting) < n
}

func (s *slowWorker) freeRoom(needs room) {
	s.free = s.free.add(needs)
	s.changed = true
}

// inOrder returns all waiting places in the order of their turns.
func (s *slowWorker) inOrder(now time.Time) (all []*slowPlace) {
	q := *s // a copy, to play the turns
	q.waiting, q.startTags = slices.Clone(s.waiting), maps.Clone(s.startTags)
	for len(q.waiting) > 0 {
		p := q.nextPlace(now)
		q.waiting = slices.DeleteFunc(q.waiting, func(o *slowPlace) bool { return p == o })
		for _, path := range pathsOf(p.tenant) {
			q.startTags[path] += s.turnCost(p.tenant, p.demand, p.expectedRun) / s.weight(path)
		}
		all = append(all, p)
	}
	return all
}

// findGaps plans the waiting places in a ledger, while some place of sought has room now. It returns the places
// to start now, the ledger, and which places behind may still find a gap: "any", "none", or "short" for short tasks
// in the short part.
func (s *slowWorker) findGaps(now time.Time, sought []*slowPlace) (gaps []*slowPlace, l *ledger, extraGap string) {
	know := s.core.averages
	l = &ledger{capacity: s.capacity}
	for _, r := range s.running {
		l.book(r.needs, 0, remainingTime(expectedCost(r.expected, know.runTime, 1), now.Sub(r.startedAt)))
	}
	for _, p := range s.turns {
		answer := s.core.links[LinkID(p.link)].answerTime
		l.book(p.neededRoom(), 0,
			remainingTime(answer+expectedCost(p.expectedRun, know.runTime, know.bindChance), now.Sub(p.askedAt)))
	}
	extraGap = "any"
	for _, p := range s.inOrder(now) {
		if !slices.ContainsFunc(sought, func(q *slowPlace) bool { return l.hasRoom(q.neededRoom(), 0, 1) }) {
			return gaps, l, "none"
		}
		cost, longest := expectedCost(p.expectedRun, know.runTime, 1), p.estimate
		if p.attempt == 0 {
			cost = expectedCost(p.expectedRun, know.runTime, know.bindChance)
			longest += s.core.links[LinkID(p.link)].answerTime
		}
		if p.estimate == 0 {
			longest = horizon
		}
		if l.firstStart(p.neededRoom(), 0, boundedTime(longest)) == 0 &&
			(extraGap == "any" || s.fitsShortPart(p.neededRoom(), gaps)) {
			gaps = append(gaps, p)
			l.book(p.neededRoom(), 0, boundedTime(expectedCost(p.expectedRun, know.runTime, 1)))
			continue
		}
		start := l.firstStart(p.neededRoom(), l.nextChange(), boundedTime(cost)) // not now
		l.book(p.neededRoom(), start, boundedTime(cost))
		switch {
		case p.startBy.IsZero():
			p.startBy = now.Add(max(start, 1))
		case !now.After(p.startBy):
		case !p.long:
			return gaps, l, "none"
		default:
			extraGap = "short"
		}
	}
	return gaps, l, extraGap
}

// fitsShortPart reports whether a short task fits into the short part, beside all short tasks.
func (s *slowWorker) fitsShortPart(n room, gaps []*slowPlace) bool {
	all := n.all
	for _, r := range s.running {
		if r.needs.open == (probe.Demand{}) {
			all = all.Add(r.needs.all)
		}
	}
	for _, p := range s.turns {
		all = all.Add(p.demand)
	}
	for _, p := range gaps {
		if !p.long {
			all = all.Add(p.demand)
		}
	}
	return n.open == (probe.Demand{}) && all.Fits(s.capacity.all.Sub(s.alwaysOpen))
}

// setOpenPart sets the part that is open to long tasks.
func (s *slowWorker) setOpenPart(d probe.Demand) {
	s.changed = s.changed || s.capacity.open != d
	s.free.open = s.free.open.Add(d).Sub(s.capacity.open)
	s.capacity.open = d
}

func (s *slowWorker) noteShort(d probe.Demand, now time.Time) {
	s.lastShortAt = now
	if !d.Fits(s.free.all) && s.free.open != s.capacity.open {
		s.setOpenPart(s.alwaysOpen)
	}
}

func (s *slowWorker) startRun(attempt uint64, needs room, expected time.Duration, b *slowBill, now time.Time) {
	s.free = s.free.sub(needs)
	s.running[attempt] = slowRun{needs, expected, now, b}
	s.log = append(s.log, fmt.Sprint("start ", attempt))
	s.changed = true
}

func (s *slowWorker) bindTask(key string, b probe.Bind, now time.Time) {
	p := s.turns[key]
	delete(s.turns, key)
	s.freeRoom(p.neededRoom())
	expected := b.Launch.Estimate
	if b.Job == (probe.JobID{}) { // otherwise the task may be of another function
		expected = cmp.Or(expected, p.expectedRun)
	}
	s.startRun(b.Launch.Attempt.Seq, p.neededRoom(), expected, p.bill, now)
	if b.Keep {
		p.turn++
		p.startBy = time.Time{}
		if p.turn%maxTurns == 0 {
			s.arrivals++
			p.arrival, p.queuedAt = s.arrivals, now
		}
		s.addPlace(p, now)
	}
	p.bill.hasTurn = false
}

// declineTurn ends a turn without a task.
func (s *slowWorker) declineTurn(p *slowPlace, now time.Time) {
	delete(s.turns, p.key())
	s.freeRoom(p.neededRoom())
	s.settle(p.bill, false, now)
}

// cancelPlaces cancels places: queued, during their turn, or still under way.
func (s *slowWorker) cancelPlaces(link, first, count int, now time.Time) {
	for res := first; res < first+count; res++ {
		id := fmt.Sprint(link, "/", res)
		s.seen[id] = true
		s.removeWaiting(func(p *slowPlace) bool { return p.id() == id })
		for _, p := range s.turns {
			if p.id() == id {
				s.declineTurn(p, now)
			}
		}
	}
}

// Each message tells the weights along the tenant's path.
var (
	modelTenants = []string{"t", "u/x", "u/y", "v"}
	modelWeights = map[string][]uint32{"t": {4}, "u/x": {2, 3}, "u/y": {2}}
)

// TestModel runs a core beside the slow model. Each event must lead to the same turns and starts.
func TestModel(t *testing.T) {
	overtook := 0
	rapid.Check(t, func(t *rapid.T) { overtook += testModel(t) })
	if overtook == 0 {
		t.Error("no place ever overtook another")
	}
}

func testModel(t *rapid.T) int {
	w := &world{t: t} // for its draws
	order := Order(w.draw("order", len(orderNames)))
	cfg := Config{
		Capacity: size(1 + w.draw("slots", 4)), Functions: []string{"f"}, Order: order,
		StarvationBound: 50 * time.Millisecond,
		ReadyExpiry:     time.Hour,
		MaxRetained:     1, // the core forgets a result at once
		ShortShare:      pick(w, "share", -1, 0.3, 0.5),
	}
	c, now := New(cfg), time.Unix(1_000_000, 0)
	m := &slowWorker{
		order: order, bound: cfg.StarvationBound, weights: map[string]float64{"t": 4, "u/": 2, "u/x": 3},
		capacity: c.capacity, alwaysOpen: cfg.AlwaysOpen(), free: c.capacity, core: c, turns: map[string]*slowPlace{},
		running: map[uint64]slowRun{}, seen: map[string]bool{}, startTags: map[string]float64{},
		meanRuns:   map[string]time.Duration{},
		lastPayers: map[string]string{}, virtualTimes: map[string]float64{},
	}
	for link := range 2 {
		c.Step(now, LinkUp{Link: LinkID(link), Frontend: probe.FrontendID(link)}, nil)
	}
	nextRes, attempts := [2]int{1, 1}, uint64(0)
	launch := func() probe.Launch {
		attempts++
		return probe.Launch{
			Attempt: probe.AttemptID{Seq: attempts}, Function: "f",
			Estimate: time.Duration(w.draw("estimate", 4)) * 10 * time.Millisecond,
		}
	}

	step := func(t *rapid.T) {
		w.t, m.log = t, nil
		link := w.draw("link", 2)
		var ev Event
		do := w.draw("do", 12)
		if do < 3 && len(m.waiting) > 15 {
			return // the model plans slowly
		}
		switch do {
		case 0, 1: // reserve; some skipped ids come later, or never
			r := probe.Reserve{
				First: probe.ResID(nextRes[link] + w.draw("skip", 2)), Count: uint32(1 + w.draw("count", 4)),
				Tenant:   pick(w, "tenant", modelTenants...),
				Priority: int32(w.draw("priority", 3)), Demand: size(pick(w, "size", 1, 1, 2)),
				Estimate: time.Duration(w.draw("estimate", 4)) * 10 * time.Millisecond,
				Typical:  time.Duration(w.draw("typical", 3)) * 15 * time.Millisecond,
			}
			r.Weights = modelWeights[r.Tenant]
			if !r.Demand.Fits(cfg.Capacity) {
				return
			}
			nextRes[link] = int(r.First) + int(r.Count)
			m.noteShort(r.Demand, now)
			for range w.draw("rides", int(r.Count)+1) {
				r.Launches = append(r.Launches, launch())
			}
			var l *ledger
			extraGap := ""
			for i := range int(r.Count) {
				m.arrivals++
				p := &slowPlace{
					link: link, res: int(r.First) + i, arrival: m.arrivals, queuedAt: now, priority: r.Priority,
					tenant:   r.Tenant,
					estimate: r.Estimate, expectedRun: cmp.Or(r.Estimate, r.Typical), demand: r.Demand,
				}
				if m.seen[p.id()] {
					continue
				}
				m.seen[p.id()] = true
				if i < len(r.Launches) && p.neededRoom().fitsIn(m.free) {
					runTime := r.Launches[i].Estimate
					if runTime == 0 {
						runTime = horizon
					}
					if len(m.waiting) > 0 && extraGap == "" {
						var gaps []*slowPlace
						m.changed = true
						if gaps, l, extraGap = m.findGaps(now, []*slowPlace{p}); len(gaps) > 0 {
							extraGap = "none"
						}
					}
					if len(m.waiting) > 0 && extraGap != "none" {
						if l.firstStart(p.neededRoom(), 0, runTime) == 0 &&
							(extraGap == "any" || m.fitsShortPart(p.neededRoom(), nil)) {
							m.overtook++
							l.book(p.neededRoom(), 0, runTime)
						} else {
							extraGap = "none"
						}
					}
					if len(m.waiting) == 0 || extraGap != "none" {
						m.raiseStart(p.tenant, now)
						runTime := r.Launches[i].Estimate
						runTime = cmp.Or(runTime, p.expectedRun)
						m.startRun(r.Launches[i].Attempt.Seq, p.neededRoom(), runTime,
							m.payInAdvance(p.tenant, p.demand, runTime, now),
							now)
						continue
					}
				}
				m.addPlace(p, now)
			}
			ev = Received{LinkID(link), r}
		case 2: // enqueue
			m.arrivals++
			e := probe.Enqueue{Res: probe.ResID(nextRes[link]), Tenant: pick(w, "tenant", modelTenants...),
				Demand: size(pick(w, "size", 1, 1, 2)), Long: w.draw("long", 2) > 0, Launch: launch()}
			e.Weights = modelWeights[e.Tenant]
			if !roomFor(e.Demand, e.Long).fitsIn(room{cfg.Capacity, cfg.AlwaysOpen()}) {
				return
			}
			nextRes[link]++
			p := &slowPlace{
				link: link, res: int(e.Res), arrival: m.arrivals, queuedAt: now, tenant: e.Tenant,
				estimate: e.Launch.Estimate, expectedRun: e.Launch.Estimate,
				demand: e.Demand, attempt: e.Launch.Attempt.Seq, long: e.Long,
			}
			if !m.seen[p.id()] && !p.long {
				m.noteShort(p.demand, now)
			}
			if !m.seen[p.id()] {
				m.addPlace(p, now)
			}
			m.seen[p.id()] = true
			ev = Received{LinkID(link), e}
		case 3, 4, 5, 6, 7: // answer
			if len(m.turns) == 0 {
				return
			}
			keys := slices.Sorted(maps.Keys(m.turns))
			p := m.turns[keys[w.draw("turn", len(keys))]]
			res, turn := probe.ResID(p.res), probe.Turn(p.turn)
			if w.draw("decline", 3) == 0 {
				m.declineTurn(p, now)
				ev = Received{LinkID(p.link), probe.Decline{Res: res, Turn: turn}}
				break
			}
			b := probe.Bind{Res: res, Turn: turn, Keep: w.draw("keep", 2) == 0, Launch: launch()}
			if w.draw("for another job", 3) == 0 {
				b.Job = probe.JobID{15: byte(1 + w.draw("other job", 3))}
			}
			m.bindTask(p.key(), b, now)
			ev = Received{LinkID(p.link), b}
		case 8: // cancel present or future places
			first, count := 1+w.draw("first", nextRes[link]+2), 1+w.draw("count", 4)
			m.cancelPlaces(link, first, count, now)
			ev = Received{LinkID(link), probe.Cancel{First: probe.ResID(first), Count: uint32(count)}}
		case 9:
			now = now.Add(time.Duration(w.draw("ms", 30)) * time.Millisecond)
			ev = Wake{}
		default: // exit
			ids := slices.Sorted(maps.Keys(m.running))
			if len(ids) == 0 {
				return
			}
			id := ids[w.draw("run", len(ids))]
			m.freeRoom(m.running[id].needs)
			m.settle(m.running[id].bill, now.After(m.running[id].startedAt), now)
			ev = &Exited{Attempt: probe.AttemptID{Seq: id}, Run: now.Sub(m.running[id].startedAt)}
			delete(m.running, id)
		}
		acts := c.Step(now, ev, nil)
		m.assignRoom(now)

		var log []string
		for _, a := range acts {
			switch a := a.(type) {
			case *Start:
				log = append(log, fmt.Sprint("start ", a.Launch.Attempt.Seq))
			case *Send:
				if r, ok := a.Msg.(probe.Ready); ok {
					log = append(log, fmt.Sprintf("ready %d/%d.%d", a.Link, r.Res, r.Turn))
				}
			}
		}
		if !slices.Equal(log, m.log) {
			t.Fatalf("after %T %+v:\ncore  %q\nmodel %q", ev, ev, log, m.log)
		}
		if c.free != m.free {
			t.Fatalf("after %T %+v: core has %v free, model %v", ev, ev, c.free, m.free)
		}
	}
	t.Repeat(map[string]func(*rapid.T){
		"": func(t *rapid.T) {
			if err := c.Check(); err != nil {
				t.Fatal(err)
			}
		},
		"step": step,
	})
	return m.overtook
}
