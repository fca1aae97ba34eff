package frontend

import (
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/place"
	"github.com/phoebe-sched/phoebe/probe"
)

// nextDeadline returns the end of the oldest open round, or zero if no round is open. It drops the closed rounds at the
// front, so an open round is first in the queue afterwards.
func (r *rounds) nextDeadline() time.Time {
	for len(r.queue) > 0 && r.queue[0].closed {
		r.queue = r.queue[1:]
	}
	if len(r.queue) == 0 {
		return time.Time{}
	}
	return r.queue[0].until
}

// measureQueues asks workers for the lengths of their queues, to bind n waiting tasks of a group by the answers.
// Under EarlyPerTask each task asks workers of its own, as long as there are workers that no task of the call has
// asked.
func (c *planner) measureQueues(g *group, n int, now time.Time, acts []Action) []Action {
	workers := g.Set.Len()
	switch g.job.Policy.Binding {
	case place.EarlyPerTask:
		perTask, skip := min(g.Probes(1), workers), 0
		for ; n > 0; n-- {
			if skip+perTask > workers {
				skip = 0
			}
			acts = c.openRound(g, []*task{g.queue.First()}, skip, perTask, now, acts)
			skip += perTask
		}
	case place.EarlyBatch:
		tasks := make([]*task, 0, n)
		for t := range g.queue.All() {
			if len(tasks) == n {
				break
			}
			tasks = append(tasks, t)
		}
		if n > 0 {
			acts = c.openRound(g, tasks, 0, min(g.Probes(n), workers), now, acts)
		}
	}
	return acts
}

// openRound opens a round for tasks, and asks n workers drawn from the set for queue lengths. The first skip workers
// of the draw are left out, because earlier rounds have drawn them.
func (c *planner) openRound(g *group, tasks []*task, skip, n int, now time.Time, acts []Action) []Action {
	r := &round{group: g, tasks: tasks, asked: map[*worker]uint64{}, until: now.Add(c.cfg.ProbeTimeout)}
	for _, t := range tasks {
		t.startProbing()
	}
	for i := range n {
		w := c.workerOf(g.Set.Draw(skip+i, c.rand))
		c.rounds.seq++
		c.rounds.bySeq[c.rounds.seq] = r
		r.asked[w] = c.rounds.seq
		acts = append(acts, Send{Worker: w.Key, Msg: probe.Probe{Seq: c.rounds.seq}})
	}
	c.rounds.queue = append(c.rounds.queue, r)
	return acts
}

// handleQueueLength adds a worker's answer to the round that asked, and closes the round after the last answer.
func (c *planner) handleQueueLength(w *worker, m probe.Load, now time.Time, acts []Action) []Action {
	r := c.rounds.bySeq[m.Seq]
	if r == nil || r.asked[w] != m.Seq {
		return acts
	}
	delete(c.rounds.bySeq, m.Seq)
	delete(r.asked, w)
	r.answers = append(r.answers, place.Answer{
		Worker: w.Worker, Ahead: float64(m.Queued+m.Running) / float64(max(w.Slots(), 1)),
	})
	if len(r.asked) == 0 {
		acts = c.finishRound(r, now, acts)
	}
	return acts
}

// expireRounds closes the rounds whose time is over, and binds by the answers so far.
func (c *planner) expireRounds(now time.Time, acts []Action) []Action {
	for {
		at := c.rounds.nextDeadline()
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

// forgetAnswers drops the answers of a worker with a broken link, and waits for no more answers of the worker. The
// rounds go on with the other workers.
func (c *planner) forgetAnswers(w *worker, now time.Time, acts []Action) []Action {
	for _, r := range slices.Clone(c.rounds.queue) {
		r.answers = slices.DeleteFunc(r.answers, func(a place.Answer) bool { return a.Worker == w.Worker })
		if seq, asked := r.asked[w]; asked {
			delete(c.rounds.bySeq, seq)
			if delete(r.asked, w); len(r.asked) == 0 {
				acts = c.finishRound(r, now, acts)
			}
		}
	}
	return acts
}

// finishRound closes a round, and binds its tasks to the shortest queues known. Without any answer, the job tries
// again after ProbeTimeout.
func (c *planner) finishRound(r *round, now time.Time, acts []Action) []Action {
	r.closed = true
	// A worker may have begun to drain, or its cache may have failed, since the question.
	r.answers = slices.DeleteFunc(r.answers, func(a place.Answer) bool { return !r.group.Set.Contains(a.Worker) })
	toBind := 0
	for _, t := range slices.Backward(r.tasks) { // backward, because each task goes to the front of the queue
		if t.state == probing { // else the task was cancelled meanwhile
			if c.awaitNext(t, now); t.state == waiting { // else the job is paused
				toBind++
			}
		}
	}
	if toBind > 0 && len(r.answers) == 0 {
		c.putOffJob(r.group.job, now.Add(c.cfg.ProbeTimeout), now)
		return acts
	}
	c.wantPlaces(r.group) // more tasks of the group may wait to be measured
	return c.commitPlaces(r.group, nil, c.sampler.BindShortest(r.answers, toBind, r.group.Probes(len(r.tasks))), now, acts)
}
