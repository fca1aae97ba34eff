package worker

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// greedyTenant is a tenant that always has more to do. Its frontend answers in 50 us.
type greedyTenant struct {
	weight       float64
	run          time.Duration // mean run time of its tasks
	hint         time.Duration
	declines     float64 // fraction of turns without a task
	reservesOnce bool    // reserves a place for each task, and keeps no place
	rides        bool    // a ride-along task at a time for each slot, besides waiting tasks
	bundle       int     // further tasks with each task
	arrivesAfter time.Duration

	cpuGot     time.Duration // CPU time used
	lateCPU    time.Duration // CPU time used in the second half
	lastStart  time.Duration // start of the last task
	longestGap time.Duration // longest time between two starts
}

// timedEvent is an event in a simulated fleet of a single worker.
type timedEvent struct {
	at  time.Time
	seq int
	do  func()
	pos int
}

func (l *timedEvent) Before(m *timedEvent) bool {
	if !l.at.Equal(m.at) {
		return l.at.Before(m.at)
	}
	return l.seq < m.seq
}

func (l *timedEvent) Pos() *int { return &l.pos }

// compete lets the tenants compete for a worker.
func compete(t *testing.T, slots int, lasts time.Duration, tenants ...*greedyTenant) {
	weights := map[string]float64{}
	for i, s := range tenants {
		weights[fmt.Sprint(i)] = max(s.weight, 1)
	}
	c := New(Config{Capacity: size(slots), Functions: []string{"f"}, Order: Fair, Weights: weights, ShortShare: -1,
		MaxRetained: 1})
	draws := rand.New(rand.NewPCG(1, uint64(slots)))
	now, seq, attempts := time.Unix(1_000_000, 0), 0, uint64(0)
	start := now
	var todo pq.Heap[*timedEvent]
	after := func(d time.Duration, do func()) {
		seq++
		todo.Push(&timedEvent{at: now.Add(d), seq: seq, do: do})
	}
	tenantOf := map[probe.AttemptID]*greedyTenant{}
	next := make([]probe.ResID, len(tenants))
	var step func(Event)
	launch := func(s *greedyTenant) probe.Launch {
		attempts++
		id := probe.AttemptID{Frontend: 1, Seq: attempts}
		tenantOf[id] = s
		return probe.Launch{Attempt: id, Function: "f", Estimate: s.hint}
	}
	reserve := func(i int, count uint32, launches ...probe.Launch) {
		s := tenants[i]
		step(Received{LinkID(i), probe.Reserve{
			First: next[i] + 1, Count: count, Tenant: fmt.Sprint(i), Demand: probe.Slot, Estimate: s.hint,
			Early: true, Launches: launches,
		}})
		next[i] += probe.ResID(count)
	}
	step = func(ev Event) {
		for _, a := range c.Step(now, ev, nil) {
			switch a := a.(type) {
			case *Start:
				s, id := tenantOf[a.Launch.Attempt], a.Launch.Attempt
				run := time.Duration((0.5 + draws.Float64()) * float64(s.run))
				s.longestGap = max(s.longestGap, now.Sub(start)-max(s.lastStart, s.arrivesAfter))
				s.lastStart = now.Sub(start)
				after(run, func() {
					if s.cpuGot += run; now.Sub(start) > lasts/2 {
						s.lateCPU += run
					}
					step(&Exited{Attempt: id, Run: run})
				})
			case *Send:
				link, i := a.Link, int(a.Link)
				s := tenants[i]
				switch m := a.Msg.(type) {
				case probe.Ready:
					after(50*time.Microsecond, func() {
						if draws.Float64() < s.declines {
							step(Received{link, probe.Decline{Res: m.Res, Turn: m.Turn}})
							reserve(i, 1)
							return
						}
						b := probe.Bind{Res: m.Res, Turn: m.Turn, Keep: !s.reservesOnce, Launch: launch(s)}
						for range s.bundle {
							b.Bundle = append(b.Bundle, launch(s))
						}
						step(Received{link, b})
						if s.reservesOnce {
							reserve(i, 1)
						}
					})
				case probe.Evicted:
					t.Fatalf("%+v", m)
				}
			}
		}
	}
	for i, s := range tenants {
		step(LinkUp{Link: LinkID(i), Frontend: probe.FrontendID(i)})
		after(s.arrivesAfter, func() { reserve(i, uint32(2*slots)) })
		if s.rides {
			var ride func()
			ride = func() {
				reserve(i, 1, launch(s))
				step(Received{LinkID(i), probe.Cancel{First: next[i], Count: 1}}) // if the task did not start
				after(s.run/4, ride)
			}
			after(s.arrivesAfter, ride)
		}
	}
	for now.Sub(start) < lasts {
		wake := c.NextWake()
		if !wake.IsZero() && wake.Before(todo.Min().at) {
			now = wake
			step(Wake{})
			continue
		}
		e := todo.Pop()
		now = e.at
		e.do()
		if seq%1000 == 0 {
			if err := c.Check(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Under Fair, tenants that always have more to do get CPU by weight. Run times and hints do not matter: a tenant
// pays for the CPU used.
func TestFairShares(t *testing.T) {
	const ms = time.Millisecond
	for _, slots := range []int{1, 4} {
		for name, tenants := range map[string][]*greedyTenant{
			"without hints":           {{run: 60 * ms}, {run: 6 * ms}},
			"by weight":               {{run: 60 * ms}, {run: 6 * ms, weight: 3}},
			"hints that promise less": {{run: 60 * ms, hint: 6 * ms}, {run: 6 * ms, hint: 6 * ms}},
			"hints that promise more": {{run: 6 * ms, hint: 300 * ms}, {run: 6 * ms, hint: 6 * ms}},
			"a hint, and none":        {{run: 60 * ms}, {run: 6 * ms, hint: ms}},
			"turns that are declined": {{run: 60 * ms}, {run: 6 * ms, declines: 0.5}},
			"places that are not kept": {{run: 60 * ms, reservesOnce: true},
				{run: 6 * ms, hint: 60 * ms, reservesOnce: true}},
			"tasks that ride along":     {{run: 60 * ms, hint: 60 * ms}, {run: 6 * ms, hint: 6 * ms, rides: true}},
			"tasks that come in groups": {{run: 20 * ms, hint: 20 * ms}, {run: ms, hint: ms, bundle: 5}},
		} {
			compete(t, slots, 20*time.Second, tenants...)
			a, b := tenants[0], tenants[1]
			if got, want := float64(b.cpuGot)/float64(a.cpuGot), max(b.weight, 1); math.Abs(got/want-1) > 0.03 {
				t.Errorf("%d slots, %s: %v and %v of CPU, 1 to %.2f", slots, name, a.cpuGot, b.cpuGot, got)
			}
		}
	}
}

// A newcomer gets an equal share from its arrival on, as does a tenant that had the worker alone. A newcomer does
// not wait for the tenant's payments in advance, and has saved nothing up.
func TestFairNewcomers(t *testing.T) {
	for name, first := range map[string]*greedyTenant{
		"true hints":              {run: 4 * time.Second, hint: 4 * time.Second},
		"no hints":                {run: 4 * time.Second},
		"hints of far too little": {run: 4 * time.Second, hint: time.Millisecond},
		"hints of too much":       {run: 20 * time.Millisecond, hint: 4 * time.Second},
	} {
		const came = 2 * time.Minute
		second := &greedyTenant{run: 20 * time.Millisecond, hint: 20 * time.Millisecond, arrivesAfter: came}
		compete(t, 4, 2*came, first, second)
		if got := float64(second.lateCPU) / float64(first.lateCPU); math.Abs(got-1) > 0.1 {
			t.Errorf("%s: after its arrival, the second tenant got %.2f times the CPU of the first", name, got)
		}
		if bound := 4 * max(first.run, second.run); max(first.longestGap, second.longestGap) > bound {
			t.Errorf("%s: the first had to wait for %v, the second for %v", name, first.longestGap, second.longestGap)
		}
	}
}
