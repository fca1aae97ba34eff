package worker

import (
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// cycle is the life of a task at a core with a single link, from its reservation to its acknowledgement.
type cycle struct {
	core *Core
	now  time.Time
	acts []Action
	res  probe.ResID
	seq  uint64
	acks [1]probe.AttemptID
}

// newCycle makes a core of four slots. If waiting is not 0, places with turns hold all slots, and waiting more
// places are queued.
func newCycle(order Order, waiting int) *cycle {
	c := &cycle{
		core: New(Config{Capacity: size(4), Functions: []string{"f"}, Order: order}),
		now:  time.Unix(1_000_000, 0), res: 1, seq: 1,
	}
	c.step(LinkUp{Link: 1, Frontend: 1})
	if waiting > 0 {
		c.step(Received{1, probe.Reserve{First: c.res, Count: 4, Demand: probe.Slot}}) // 4 turns are on
		c.step(Received{1, probe.Reserve{First: c.res + 4, Count: uint32(waiting), Demand: probe.Slot}})
		c.res += probe.ResID(waiting) + 4
	}
	return c
}

func (c *cycle) step(ev Event) {
	c.now = c.now.Add(time.Microsecond)
	c.acts = c.core.Step(c.now, ev, c.acts[:0])
	for _, a := range c.acts {
		if s, ok := a.(*Send); ok && s.Report {
			c.step(Sent{s.Link})
			return
		}
	}
}

func (c *cycle) launch() probe.Launch {
	c.seq++
	return probe.Launch{Attempt: probe.AttemptID{Frontend: 1, Seq: c.seq}, Function: "f",
		Estimate: 10 * time.Millisecond}
}

func (c *cycle) endTask(id probe.AttemptID) {
	c.step(&Exited{Attempt: id, Status: probe.Succeeded})
	c.acks[0] = id
	c.step(Received{1, probe.Ack{Attempts: c.acks[:]}})
}

// bindOne: reserve, ready, bind, exit, ack.
func (c *cycle) bindOne() {
	c.step(Received{1, probe.Reserve{First: c.res, Count: 1, Demand: probe.Slot, Estimate: 10 * time.Millisecond,
		Early: true}})
	c.res++
	p := c.core.asked.First() // if places wait, an earlier place has its turn
	launch := c.launch()
	c.step(Received{1, probe.Bind{Res: p.res, Turn: p.turn, Launch: launch}})
	c.endTask(launch.Attempt)
}

// rideOne: reserve with a task that starts at once, exit, ack.
func (c *cycle) rideOne() {
	launch := c.launch()
	c.step(Received{1, probe.Reserve{First: c.res, Count: 1, Demand: probe.Slot, Launches: []probe.Launch{launch}}})
	c.res++
	c.endTask(launch.Attempt)
}

// bundleSize is the number of tasks that BenchmarkTask binds in a turn. unackedCount is the number of results
// that wait for acknowledgement.
const bundleSize, unackedCount = 25, 4000

// bindBundle: reserve, ready, bind of a bundle, exits, and acknowledgement of as many old results.
func (c *cycle) bindBundle() {
	c.step(Received{1, probe.Reserve{First: c.res, Count: 1, Demand: probe.Slot, Early: true}})
	m := probe.Bind{Res: c.res, Launch: c.launch(), Bundle: make([]probe.Launch, bundleSize-1)}
	c.res++
	for i := range m.Bundle {
		m.Bundle[i] = c.launch()
	}
	c.step(Received{1, m})
	first := m.Launch.Attempt
	for i := range uint64(bundleSize) {
		c.step(&Exited{Attempt: probe.AttemptID{Frontend: 1, Seq: first.Seq + i}, Status: probe.Succeeded})
	}
	if first.Seq < unackedCount {
		return
	}
	acks := make([]probe.AttemptID, bundleSize)
	for i := range acks {
		acks[i] = probe.AttemptID{Frontend: 1, Seq: first.Seq + uint64(i) - unackedCount}
	}
	c.step(Received{1, probe.Ack{Attempts: acks}})
}

func BenchmarkTask(b *testing.B) {
	run := func(name string, c *cycle, f func(*cycle)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f(c)
			}
		})
	}
	run("ride", newCycle(FIFO, 0), (*cycle).rideOne)
	run("bound", newCycle(FIFO, 0), (*cycle).bindOne)
	run("bundled", newCycle(FIFO, 0), (*cycle).bindBundle)
	for order := range Order(len(orderNames)) {
		run("bound/"+order.String()+"/1000-wait", newCycle(order, 1000), (*cycle).bindOne)
	}
}

// BenchmarkSync measures a Sync about a thousand places.
func BenchmarkSync(b *testing.B) {
	c := newCycle(FIFO, 1000)
	m := probe.Sync{Next: c.res, Live: []probe.Range{{First: 1, Count: 1004}}}
	b.ReportAllocs()
	for b.Loop() {
		c.step(Received{1, m})
	}
}
