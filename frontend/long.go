package frontend

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// Tasks that are long, or care where they run, are bound early, each where it is expected to be done first
// (package estimate). The ones that are to be placed are collected, the workers whose wait matrices are missing or
// old are asked for them, and as soon as they have answered a batch is matched with workers and enqueued there.

const (
	// The next batch follows after breath, with the tasks that were left over; those that are again and again wait for
	// twice as long each time, up to maxLeft times, and let others pass.
	breath  = time.Millisecond
	maxLeft = 5
	// blindAgain is when a task is tried again of which no worker is known that has told its matrix, at first; then
	// twice as long each time. After maxBlind times, it goes to a random worker.
	blindAgain = 20 * time.Millisecond
	maxBlind   = 5
	// askedEach is how many are asked for each task of those believed idle, and of all, besides its candidates.
	askedEach = 2
	// maxAsked bounds the workers that are asked for their matrices before a batch, askWait how long their answers
	// are waited for. Who does not answer is not asked again for askAgain.
	maxAsked = 256
	askWait  = 20 * time.Millisecond
	askAgain = time.Second
	// worthSleep is how long a task whose job can wait for it must have to wait, to be placed later.
	worthSleep = 100 * time.Millisecond
	// maxSleep is when it looks again at the latest: where tasks run shorter than estimated, there is room much sooner
	// than workers say.
	maxSleep = 5 * time.Second
)

// nextLong is when a batch is due, and a task that sleeps; zero: none.
func (c *planner) nextLong() (batch, task time.Time) {
	if c.due.Len() > 0 {
		if batch = c.batch.until; batch.IsZero() {
			batch = c.batch.at
		}
	}
	if c.later.Len() > 0 {
		task = c.later.Min().at
	}
	return batch, task
}

// placeLong places a batch of the tasks that are due, if it is time.
func (c *planner) placeLong(now time.Time, acts []Action) []Action {
	l := &c.batch
	switch {
	case c.due.Len() == 0: // the tasks are gone for which matrices were asked for
		c.askedEnough()
		return acts
	case now.Before(l.at):
		return acts
	case !l.until.IsZero():
		if c.unanswered() && now.Before(l.until) {
			return acts
		}
	default:
		if acts = c.ask(now, acts); len(l.also) > 0 {
			l.until = now.Add(askWait)
			return acts
		}
	}
	acts = c.match(now, acts)
	c.askedEnough()
	l.at = time.Time{}
	if c.due.Len() > 0 {
		l.at = now.Add(breath)
	}
	return acts
}

// unanswered reports whether the batch waits for a matrix.
func (c *planner) unanswered() bool {
	return slices.ContainsFunc(c.batch.also, func(key int32) bool { return c.workers[key].asked })
}

// askedEnough notes that no batch waits for matrices.
func (c *planner) askedEnough() {
	l := &c.batch
	for _, key := range l.also {
		c.workers[key].awaitNone()
	}
	l.until, l.also = time.Time{}, l.also[:0]
}

// ask asks workers for their matrices which the tasks that are due may be placed on, and some at random, where what
// is known of them is missing or old.
func (c *planner) ask(now time.Time, acts []Action) []Action {
	l := &c.batch
	c.view.Sweep(now)
	due := c.due.All()
	due = due[:min(len(due), estimate.MaxBatch)]
	for _, x := range due {
		c.gauge(x)
		for _, key := range c.doubtful(x, len(due), now) {
			if w := c.workers[key]; len(l.also) < maxAsked && w.mayAsk(now) {
				w.await()
				l.also = append(l.also, key)
				acts = c.askMatrix(w, now, acts)
			}
		}
	}
	return acts
}

// doubtful is the workers that a task, one of so many, may be placed on, and some at random, where what is known of their matrices
// is missing or old.
func (c *planner) doubtful(x *longTask, tasks int, now time.Time) []int32 {
	workers := x.task.group.Set.Workers()
	if len(workers) == 0 {
		return nil
	}
	sure := c.cfg.SureFor
	if sure < 0 {
		sure = math.MaxInt64
	}
	keys := c.view.Fleet().Doubtful(&x.spec, tasks, sure, now, c.rand, c.batch.keys[:0])
	for i := range 2 * askedEach {
		from := workers
		if i%2 == 0 && len(c.view.Idle()) > 0 {
			from = c.view.Idle()
		}
		w := from[c.rand.IntN(len(from))]
		row := c.view.Fleet().Get(int32(w.Key))
		if x.task.group.Set.Contains(w) && (row.Matrix == nil || now.Sub(row.Heard) > sure) {
			keys = append(keys, row.Key)
		}
	}
	c.batch.keys = keys
	return keys
}

// mayAsk reports whether a worker may be asked for its matrix.
func (w *worker) mayAsk(now time.Time) bool { return w.Up() && !now.Before(w.askFrom) }

func (c *planner) askMatrix(w *worker, now time.Time, acts []Action) []Action {
	w.ask(now.Add(askAgain))
	c.Stats.Asked++
	return append(acts, Send{Worker: w.Key, Msg: probe.Probe{Matrix: true}})
}

// match places a batch of the tasks that are due, of the same priority. What it cannot place sleeps for a while.
func (c *planner) match(now time.Time, acts []Action) []Action {
	l := &c.batch
	var batch []*longTask
	var specs []estimate.Task
	sets := map[*group]int{} // numbers, from 1
	picked, about := map[*group]int{}, map[*tenant]int64{}
	for crowded := 0; c.due.Len() > 0 && len(batch) < estimate.MaxBatch && crowded < maxEarly; {
		x := c.due.Min()
		if len(batch) > 0 && !x.like(batch[len(batch)-1]) {
			break
		}
		g := x.task.group
		lone := g.Set.Len() == 0
		if lone == g.job.stranded.IsZero() {
			c.settle(g.job, now)
		}
		if lone {
			c.delay(x, now.Add(blindAgain<<maxBlind))
			continue
		}
		if of := g.job.tenant; g.isFull(picked[g]) || c.overdrawn(g, about[of]) {
			c.wait(x)
			crowded++
			continue
		} else if g.class == probe.Regular {
			about[of] += g.takes()
		}
		picked[g]++
		c.takeDue(x)
		x.spec.ExtraCandidates = l.also
		if sets[g] == 0 {
			sets[g] = len(sets) + 1
		}
		x.spec.Set, x.spec.SetEnd = sets[g], max(g.ends.Sub(now), 0)
		batch = append(batch, x)
		specs = append(specs, x.spec)
	}
	if len(batch) == 0 {
		return acts
	}
	c.Stats.Batches++
	choices, order := c.view.Fleet().Batch(specs, c.cfg.Matcher, now, c.rand)
	for _, i := range order {
		if !c.postpone(batch[i], &choices[i], now) {
			acts = c.commitLong(batch[i], c.workers[choices[i].Choice().Worker], &choices[i], now, acts)
		}
	}
	for i, x := range batch {
		choice := &choices[i]
		switch {
		case choice.Chosen >= 0:
		case len(choice.Candidates) > 0:
			c.Stats.Leftovers++
			c.putBack(x, choice, now.Add(breath<<x.left), now)
			x.left = min(x.left+1, maxLeft)
		case x.blind == maxBlind:
			choice.Reason = fmt.Sprintf("%s: a random worker, after %d times", choice.Reason, maxBlind)
			acts = c.commitLong(x, c.anyWorker(x), choice, now, acts)
		case x.whole || c.fitsNoOpen(x):
			x.whole = true
			choice.Reason = "needs more than is open to long tasks anywhere: at a random worker, it may use all"
			acts = c.commitLong(x, c.anyWorker(x), choice, now, acts)
		default:
			c.putBack(x, choice, now.Add(blindAgain<<x.blind), now)
			x.blind++
		}
	}
	for _, x := range batch {
		if j := x.task.group.job; j.matching == 0 {
			c.settle(j, now)
		}
	}
	return acts
}

// postpone lets a task sleep that would have to wait for room, and whose job would not be done earlier if it did not:
// who cannot wait goes ahead of it meanwhile, and later more is known of where there is room. It reports whether it did.
// However long workers say that one waits, that goes on no longer than the longest task of the job runs longer than it.
func (c *planner) postpone(x *longTask, choice *estimate.Decision, now time.Time) bool {
	at := choice.Choice()
	if x.latest.IsZero() {
		x.latest = now.Add(x.task.group.longest - x.spec.Work.Mean)
	}
	sleep := min(at.W, choice.Due-at.C, x.latest.Sub(now), maxSleep)
	if sleep < worthSleep {
		return false
	}
	choice.Reason = fmt.Sprintf("later: its job needs it only after %.3fs, and there is room nowhere yet", choice.Due.Seconds())
	c.putBack(x, choice, now.Add(sleep-max(sleep/8, worthSleep/2)), now)
	return true
}

// fitsNoOpen reports whether a task is larger than the part of each worker that long tasks may use.
func (c *planner) fitsNoOpen(x *longTask) bool {
	return !slices.ContainsFunc(x.task.group.Set.Workers(), func(w *view.Worker) bool { return x.spec.Demand.Fits(w.Open()) })
}

// anyWorker is a random worker for a task: none of those that may run it says how long it would wait.
func (c *planner) anyWorker(x *longTask) *worker {
	workers := x.task.group.Set.Workers()
	return c.at(workers[c.rand.IntN(len(workers))])
}
