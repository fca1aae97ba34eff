package frontend

import (
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// round is one sampling of queue lengths, for tasks that are bound early by them.
type round struct {
	group   *group
	tasks   []*task
	asked   map[*worker]uint64 // the sequence numbers of the probes without an answer
	answers []answer
	until   time.Time
	over    bool
}

type answer struct {
	w     *worker
	ahead float64 // tasks at the worker per slot
}

// rounds are those under way; all wait equally long, so they end in order.
type rounds struct {
	seq   uint64
	bySeq map[uint64]*round
	queue []*round
}

func (r *rounds) deadline() time.Time {
	for len(r.queue) > 0 && r.queue[0].over {
		r.queue = r.queue[1:]
	}
	if len(r.queue) == 0 {
		return time.Time{}
	}
	return r.queue[0].until
}

// placeEarly binds all waiting tasks of a group at once, or after one round of probes.
func (c *Core) placeEarly(g *group, now time.Time, acts []Action) []Action {
	switch g.job.Policy.Binding {
	case EarlyRandom:
		for len(g.queue) > 0 {
			t := c.take(g)
			acts = c.enqueue(t, c.draw(g.eligible.workers, 0), now, acts)
		}
	case EarlyPerTask:
		for len(g.queue) > 0 {
			acts = c.sample(g, []*task{c.take(g)}, now, acts)
		}
	case EarlyBatch:
		tasks := slices.Clone(g.queue)
		for range tasks {
			c.take(g)
		}
		acts = c.sample(g, tasks, now, acts)
	}
	return acts
}

// sample asks d workers for each task how long their queues are.
func (c *Core) sample(g *group, tasks []*task, now time.Time, acts []Action) []Action {
	r := &round{group: g, tasks: tasks, asked: map[*worker]uint64{}, until: now.Add(c.cfg.ProbeTimeout)}
	for _, t := range tasks {
		c.move(t, probing)
		t.sampledAt = now
	}
	n := min(probes(g, len(tasks)), len(g.eligible.workers))
	for i := range n {
		w := c.draw(g.eligible.workers, i)
		c.rounds.seq++
		c.rounds.bySeq[c.rounds.seq] = r
		r.asked[w] = c.rounds.seq
		acts = append(acts, Send{Worker: w.key, Msg: probe.Probe{Seq: c.rounds.seq}})
	}
	c.rounds.queue = append(c.rounds.queue, r)
	return acts
}

// measured takes a queue length into the round that asked for it.
func (c *Core) measured(w *worker, m probe.Load, now time.Time, acts []Action) []Action {
	r := c.rounds.bySeq[m.Seq]
	if r == nil || r.asked[w] != m.Seq {
		return acts
	}
	delete(c.rounds.bySeq, m.Seq)
	delete(r.asked, w)
	r.answers = append(r.answers, answer{w, float64(m.Queued+m.Running) / float64(max(w.slots, 1))})
	if len(r.asked) == 0 {
		acts = c.finishRound(r, now, acts)
	}
	return acts
}

func (c *Core) expireRounds(now time.Time, acts []Action) []Action {
	for {
		at := c.rounds.deadline()
		if at.IsZero() || now.Before(at) {
			return acts
		}
		r := c.rounds.queue[0]
		for _, seq := range r.asked {
			delete(c.rounds.bySeq, seq)
		}
		clear(r.asked)
		acts = c.finishRound(r, now, acts)
	}
}

// forgetRounds stops waiting for the answers of a worker whose link broke.
func (c *Core) forgetRounds(w *worker, now time.Time, acts []Action) []Action {
	for _, r := range slices.Clone(c.rounds.queue) {
		r.answers = slices.DeleteFunc(r.answers, func(a answer) bool { return a.w == w })
		if seq, asked := r.asked[w]; asked {
			delete(c.rounds.bySeq, seq)
			if delete(r.asked, w); len(r.asked) == 0 {
				acts = c.finishRound(r, now, acts)
			}
		}
	}
	return acts
}

// finishRound binds each task to the shortest queue, counting those it has just bound.
func (c *Core) finishRound(r *round, now time.Time, acts []Action) []Action {
	r.over = true
	for _, t := range r.tasks {
		if t.state != probing {
			continue // cancelled in the meantime
		}
		if len(r.answers) == 0 {
			c.wait(t)
			continue
		}
		best := &r.answers[0]
		for i := range r.answers {
			if a := &r.answers[i]; a.ahead < best.ahead {
				best = a
			}
		}
		best.ahead += 1 / float64(max(best.w.slots, 1))
		acts = c.enqueue(t, best.w, now, acts)
	}
	if j := r.group.job; !j.ended {
		if j.waiting > 0 {
			j.lagAt = now.Add(c.cfg.ProbeTimeout) // nobody answered: try again, not at once
		}
		c.settle(j, now)
	}
	return acts
}

// enqueue binds t to w, now.
func (c *Core) enqueue(t *task, w *worker, now time.Time, acts []Action) []Action {
	res := w.nextRes
	w.nextRes++
	a := c.launch(t, w, res, enqueued, now)
	t.readyAt, t.boundAt = now, now
	j := t.group.job
	launch := t.launch(a.id)
	if len(launch.Files) > 0 {
		launch.Files = c.withPeers(launch.Files, w)
	}
	return append(acts, Send{Worker: w.key, Msg: probe.Enqueue{
		Res: res, Job: j.ID, Tenant: j.Tenant, Priority: j.Priority, Demand: t.spec.Demand, Launch: launch,
		Long:   t.long != nil && t.long.run >= c.cfg.LongTask && !t.long.whole,
		Matrix: t.long != nil,
	}})
}
