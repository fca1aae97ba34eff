package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/phoebe-sched/phoebe/frontend"
	workers "github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe/gossip/rows"
)

// Gossip says how frontends learn the wait matrices of workers without asking. The zero value is no gossip.
type Gossip struct {
	Period time.Duration // the time between two heartbeats of a worker to its two home frontends, or AsPing
	Delay  time.Duration // of each message, one way
	Loss   float64       // share of lost datagrams between frontends
}

// AsPing is a Gossip.Period: as often as frontends ping workers.
const AsPing time.Duration = -1

// gossip does the work of probe/gossip, worker/serve and frontend/serve around the cores of package
// probe/gossip/rows.
type gossip struct {
	*cluster
	Gossip
	rng        *rand.Rand
	flushEvery time.Duration
	frame      []byte
	views      []*frontendView
}

// frontendView is the gossip core of a frontend.
type frontendView struct {
	f           *frontendNode
	core        *rows.Core
	sentVersion uint64 // version of the view already told to the frontend's core
	out         []rows.Send
	lessonsAt   time.Duration // when the lessons for other frontends are renewed next
}

// startGossip lets all present frontends and workers take part. They must stay up.
func (c *cluster) startGossip(cfg Gossip, rng *rand.Rand) error {
	limits := rows.DefaultConfig
	if cfg.Period > limits.Heartbeat { // in proportion, so no worker is taken for lost
		limits.Expire = time.Duration(float64(limits.Expire) * cfg.Period.Seconds() / limits.Heartbeat.Seconds())
		limits.Forget = time.Duration(float64(limits.Forget) * cfg.Period.Seconds() / limits.Heartbeat.Seconds())
	}
	limits.Heartbeat = cfg.Period
	if err := limits.Validate(); err != nil {
		return err
	}
	g := &gossip{cluster: c, Gossip: cfg, rng: rng, flushEvery: max(rows.FlushEvery, cfg.Period/20)}
	members := make([]rows.Member, len(c.frontends))
	for i := range c.frontends {
		name := fmt.Sprint("f", i)
		members[i] = rows.Member{Name: name, Run: 1, Gossip: name, API: name, Heartbeat: name}
	}
	for i, f := range c.frontends {
		v := &frontendView{f: f, core: rows.New(limits, members[i], c.timeNow(),
			rand.New(rand.NewPCG(rng.Uint64(), 'g')))}
		v.core.SetMembers(members)
		g.views = append(g.views, v)
		g.runAfter(time.Duration(rng.Int64N(int64(g.flushEvery))), func() error { return g.tickView(v) })
	}
	seeds := make([]string, len(members))
	for i := range members {
		seeds[i] = members[i].Heartbeat
	}
	for _, w := range c.workers {
		m := &w.welcome
		rng.Shuffle(len(seeds), func(i, j int) { seeds[i], seeds[j] = seeds[j], seeds[i] })
		a, err := rows.NewAnnouncer(append([]string(nil), seeds...),
			rows.Profile{Name: m.Worker, Addr: m.Worker, Host: m.Host, Rack: m.Rack, Capacity: m.Capacity,
				Labels: m.Labels}, m.Incarnation)
		if err != nil {
			return err
		}
		var beat func() error
		beat = func() error {
			g.sendHeartbeat(w, a)
			g.runAfter(cfg.Period, beat)
			return nil
		}
		g.runAfter(time.Duration(rng.Int64N(int64(cfg.Period))), beat)
	}
	return nil
}

// runAfter lets fn happen after d.
func (g *gossip) runAfter(d time.Duration, fn func() error) {
	g.callAt(g.now+d, func() {
		if err := fn(); err != nil && g.callErr == nil {
			g.callErr = err
		}
	})
}

// sendHeartbeat sends a worker's heartbeat to its home frontends.
func (g *gossip) sendHeartbeat(w *workerNode, a *rows.Announcer) {
	for _, b := range a.Beats(rows.Row{Matrix: w.core.Matrix(g.timeNow())}, "") {
		v, h := g.views[numberOf(b.Addr)], b.Heartbeat
		if g.net.codec {
			g.frame = rows.AppendHeartbeat(g.frame[:0], &b.Heartbeat)
			h = rows.Heartbeat{}
			if err := rows.ReadHeartbeat(append([]byte(nil), g.frame...), &h); err != nil {
				panic(fmt.Sprintf("sim: %+v came back as %v", b.Heartbeat, err))
			}
		}
		g.runAfter(g.Delay, func() error {
			answer := v.core.Heartbeat(g.timeNow(), &h)
			g.runAfter(g.Delay, func() error {
				if a.Answered(&b, &answer) {
					g.sendHeartbeat(w, a)
				}
				return nil
			})
			return nil
		})
	}
}

// tickView is the regular tick of a frontend's view.
func (g *gossip) tickView(v *frontendView) error {
	if err := g.shareLessons(v); err != nil {
		return err
	}
	v.out = v.core.Tick(g.timeNow(), v.out[:0])
	g.sendMsgs(v, v.out)
	g.runAfter(g.flushEvery, func() error { return g.tickView(v) })
	return g.tellCore(v)
}

// shareLessons renews the lessons of a frontend once a second, and passes lessons of others to its core.
func (g *gossip) shareLessons(v *frontendView) error {
	core, ok := v.f.core.(*frontend.Core)
	if !ok {
		return nil
	}
	if g.now >= v.lessonsAt {
		v.lessonsAt = g.now + time.Second
		v.core.SetLessons(workers.EncodeLessons(core.Lessons(g.timeNow()), rows.MaxLessons))
	}
	for _, encoded := range v.core.TakeHeardLessons() {
		if err := g.passLessons(v.f, encoded); err != nil {
			return err
		}
	}
	return nil
}

// tellCore tells the frontend's core the news of its view.
func (g *gossip) tellCore(v *frontendView) error {
	changed := v.core.Since(g.timeNow(), v.sentVersion)
	v.sentVersion = v.core.Version()
	for _, r := range changed {
		if r.State != rows.Up {
			continue
		}
		matrix := r.Matrix // a copy, because the core keeps the matrix
		err := g.stepFrontend(v.f, frontend.Heard{
			Worker: frontend.Worker(numberOf(r.Name())), Incarnation: r.Incarnation, Seq: r.Seq, Age: r.Age,
			Matrix: &matrix, Speed: r.Speed,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sendMsgs sends messages to other frontends.
func (g *gossip) sendMsgs(from *frontendView, out []rows.Send) {
	for _, m := range out {
		for i, to := range g.views {
			if to == from || m.To != "" && m.To != fmt.Sprint("f", i) || !m.Stream && g.Loss > 0 &&
				g.rng.Float64() < g.Loss {
				continue
			}
			g.runAfter(g.Delay, func() error {
				answers, err := to.core.Receive(g.timeNow(), m.Msg, nil)
				g.sendMsgs(to, answers)
				return err
			})
		}
	}
}
