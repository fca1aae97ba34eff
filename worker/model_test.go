package worker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/phoebe-sched/phoebe/probe"
)

// slow is a worker's queue written for obviousness: one list, searched anew for every turn. It knows no
// expiry, no early turns and no links that break.
type slow struct {
	order   Order
	bound   time.Duration
	weights map[string]float64
	free    probe.Demand
	waiting []*slowPlace
	turns   map[string]*slowPlace    // by link, place and turn; the slot is held
	running map[uint64]probe.Demand  // by attempt
	seen    map[string]bool          // places, by link and id
	start   map[string]float64       // Fair: of each tenant's next turn
	virtual float64                  // Fair
	log     []string                 // of the current step
	cost    func(*slowPlace) float64 // Fair
}

type slowPlace struct {
	link, res, turn int
	arrived         int
	at              time.Time
	priority        int32
	tenant          string
	estimate        time.Duration
	demand          probe.Demand
	attempt         uint64 // bound early
}

func (p *slowPlace) id() string  { return fmt.Sprint(p.link, "/", p.res) }
func (p *slowPlace) key() string { return fmt.Sprint(p.id(), ".", p.turn) }

// best is the place whose turn is next.
func (s *slow) best(now time.Time) *slowPlace {
	oldest := slices.MinFunc(s.waiting, func(p, q *slowPlace) int { return p.arrived - q.arrived })
	if s.order == Shortest && now.Sub(oldest.at) >= s.bound {
		return oldest
	}
	return slices.MinFunc(s.waiting, func(p, q *slowPlace) int {
		by := 0
		switch s.order {
		case Priority:
			by = cmp.Compare(q.priority, p.priority)
		case Shortest:
			by = cmp.Compare(s.length(p), s.length(q))
		case Fair:
			by = cmp.Compare(s.start[p.tenant], s.start[q.tenant])
		}
		return cmp.Or(by, p.arrived-q.arrived)
	})
}

func (s *slow) length(p *slowPlace) time.Duration {
	if p.estimate == 0 {
		return s.bound
	}
	return p.estimate
}

// wait queues p. Under Fair, a tenant that has nothing else there cannot start in the past.
func (s *slow) wait(p *slowPlace) {
	if !slices.ContainsFunc(s.waiting, func(q *slowPlace) bool { return q.tenant == p.tenant }) {
		s.start[p.tenant] = max(s.start[p.tenant], s.virtual)
	}
	s.waiting = append(s.waiting, p)
}

func (s *slow) fill(now time.Time) {
	for len(s.waiting) > 0 {
		p := s.best(now)
		if !p.demand.Fits(s.free) {
			return
		}
		s.waiting = slices.DeleteFunc(s.waiting, func(q *slowPlace) bool { return p == q })
		s.virtual = max(s.virtual, s.start[p.tenant])
		s.start[p.tenant] += s.cost(p)
		if p.attempt != 0 {
			s.run(p.attempt, p.demand)
			continue
		}
		s.free = s.free.Sub(p.demand)
		s.turns[p.key()] = p
		s.log = append(s.log, "ready "+p.key())
	}
}

func (s *slow) run(attempt uint64, d probe.Demand) {
	s.free = s.free.Sub(d)
	s.running[attempt] = d
	s.log = append(s.log, fmt.Sprint("start ", attempt))
}

func (s *slow) bind(key string, attempt uint64, keep bool) {
	p := s.turns[key]
	delete(s.turns, key)
	s.free = s.free.Add(p.demand)
	s.run(attempt, p.demand)
	if keep {
		p.turn++
		s.wait(p)
	}
}

// cancel is for places that wait, whose turn is on, or that did not come yet.
func (s *slow) cancel(link, first, count int) {
	for res := first; res < first+count; res++ {
		id := fmt.Sprint(link, "/", res)
		s.seen[id] = true
		s.waiting = slices.DeleteFunc(s.waiting, func(p *slowPlace) bool { return p.id() == id })
		for key, p := range s.turns {
			if p.id() == id {
				delete(s.turns, key)
				s.free = s.free.Add(p.demand)
			}
		}
	}
}

// TestModel runs a core beside the slow model: the same turns and starts must follow from each event.
func TestModel(t *testing.T) { rapid.Check(t, testModel) }

func testModel(t *rapid.T) {
	w := &world{t: t} // for its draws
	order := Order(w.draw("order", len(orderNames)))
	cfg := Config{
		Capacity: size(1 + w.draw("slots", 4)), Functions: []string{"f"}, Order: order, StarvationBound: 50 * time.Millisecond,
		Weights: map[string]float64{"t": 3, "u": 1, "v": 0.5}, ReadyExpiry: time.Hour,
		MaxRetained: 1, // a result goes at once
	}
	c, now := New(cfg), time.Unix(1_000_000, 0)
	m := &slow{
		order: order, bound: cfg.StarvationBound, weights: cfg.Weights, free: cfg.Capacity, turns: map[string]*slowPlace{},
		running: map[uint64]probe.Demand{}, seen: map[string]bool{}, start: map[string]float64{},
	}
	m.cost = func(p *slowPlace) float64 {
		return cmp.Or(p.estimate, 10*time.Millisecond).Seconds() * float64(p.demand.CPU) / cfg.Weights[p.tenant]
	}
	for link := range 2 {
		c.Step(now, LinkUp{Link: LinkID(link), Frontend: probe.FrontendID(link)}, nil)
	}
	nextRes, attempts, arrivals := [2]int{1, 1}, uint64(0), 0
	launch := func() probe.Launch {
		attempts++
		return probe.Launch{Attempt: probe.AttemptID{Seq: attempts}, Function: "f"}
	}

	step := func(t *rapid.T) {
		w.t, m.log = t, nil
		link := w.draw("link", 2)
		var ev Event
		switch w.draw("do", 12) {
		case 0, 1: // reserve; some ids are left out, and may come later or never
			r := probe.Reserve{
				First: probe.ResID(nextRes[link] + w.draw("skip", 2)), Count: uint32(1 + w.draw("count", 4)), Tenant: pick(w, "tenant", "t", "u", "v"),
				Priority: int32(w.draw("priority", 3)), Demand: size(pick(w, "size", 1, 1, 2)),
				Estimate: time.Duration(w.draw("estimate", 4)) * 10 * time.Millisecond,
			}
			if !r.Demand.Fits(cfg.Capacity) {
				return
			}
			nextRes[link] = int(r.First) + int(r.Count)
			for range w.draw("rides", int(r.Count)+1) {
				r.Launches = append(r.Launches, launch())
			}
			for i := range int(r.Count) {
				arrivals++
				p := &slowPlace{
					link: link, res: int(r.First) + i, arrived: arrivals, at: now, priority: r.Priority, tenant: r.Tenant,
					estimate: r.Estimate, demand: r.Demand,
				}
				switch {
				case m.seen[p.id()]:
				case i < len(r.Launches) && len(m.waiting) == 0 && r.Demand.Fits(m.free):
					m.run(r.Launches[i].Attempt.Seq, r.Demand)
				default:
					m.wait(p)
				}
				m.seen[p.id()] = true
			}
			ev = Received{LinkID(link), r}
		case 2: // enqueue
			arrivals++
			e := probe.Enqueue{Res: probe.ResID(nextRes[link]), Tenant: pick(w, "tenant", "t", "u", "v"), Demand: size(1), Launch: launch()}
			e.Launch.Estimate = time.Duration(w.draw("estimate", 4)) * 10 * time.Millisecond
			nextRes[link]++
			p := &slowPlace{
				link: link, res: int(e.Res), arrived: arrivals, at: now, tenant: e.Tenant, estimate: e.Launch.Estimate,
				demand: e.Demand, attempt: e.Launch.Attempt.Seq,
			}
			if !m.seen[p.id()] {
				m.wait(p)
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
				delete(m.turns, p.key())
				m.free = m.free.Add(p.demand)
				ev = Received{LinkID(p.link), probe.Decline{Res: res, Turn: turn}}
				break
			}
			b := probe.Bind{Res: res, Turn: turn, Keep: w.draw("keep", 2) == 0, Launch: launch()}
			if w.draw("for another job", 3) == 0 {
				b.Job = probe.JobID{15: byte(1 + w.draw("other job", 3))}
			}
			m.bind(p.key(), b.Launch.Attempt.Seq, b.Keep)
			ev = Received{LinkID(p.link), b}
		case 8: // cancel, what is there or will be
			first, count := 1+w.draw("first", nextRes[link]+2), 1+w.draw("count", 4)
			m.cancel(link, first, count)
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
			m.free = m.free.Add(m.running[id])
			delete(m.running, id)
			ev = Exited{Attempt: probe.AttemptID{Seq: id}}
		}
		m.fill(now)

		var log []string
		for _, a := range c.Step(now, ev, nil) {
			switch a := a.(type) {
			case Start:
				log = append(log, fmt.Sprint("start ", a.Launch.Attempt.Seq))
			case Send:
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
}
