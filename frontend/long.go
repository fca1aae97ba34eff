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
	batchPause = time.Millisecond
	maxOutbid  = 5
	// blindRetry is when a task is tried again of which no worker is known that has told its matrix, at first; then
	// twice as long each time. After maxBlind times, it goes to a random worker.
	blindRetry = 20 * time.Millisecond
	maxBlind   = 5
	// drawnEach is how many are asked for each task of those believed idle, and of all, besides its candidates.
	drawnEach = 2
	// maxAsked bounds the workers that are asked for their matrices before a batch, askWait how long their answers
	// are waited for. Who does not answer is not asked again for askAgain.
	maxAsked   = 256
	answerWait = 20 * time.Millisecond
	askAgain   = time.Second
	// minSleep is how long a task whose job can wait for it must have to wait, to be placed later.
	minSleep = 100 * time.Millisecond
	// maxSleep is when it looks again at the latest: where tasks run shorter than estimated, there is room much sooner
	// than workers say.
	maxSleep = 5 * time.Second
)

// nextLongWakes is when a batch is due, and a task that sleeps; zero: none.
func (c *planner) nextLongWakes() (batch, task time.Time) {
	if c.batchQueue.Len() > 0 {
		if batch = c.batch.answersUntil; batch.IsZero() {
			batch = c.batch.notBefore
		}
	}
	if c.sleepers.Len() > 0 {
		task = c.sleepers.Min().sleepUntil
	}
	return batch, task
}

// placeLong places a batch of the tasks that are due, if it is time.
func (c *planner) placeLong(now time.Time, acts []Action) []Action {
	b := &c.batch
	switch {
	case c.batchQueue.Len() == 0: // the tasks are gone for which matrices were asked for
		c.endAsking()
		return acts
	case now.Before(b.notBefore):
		return acts
	case !b.answersUntil.IsZero():
		if c.awaitsMatrix() && now.Before(b.answersUntil) {
			return acts
		}
	default:
		if acts = c.askMatrices(now, acts); len(b.asked) > 0 {
			b.answersUntil = now.Add(answerWait)
			return acts
		}
	}
	acts = c.matchBatch(now, acts)
	c.endAsking()
	b.notBefore = time.Time{}
	if c.batchQueue.Len() > 0 {
		b.notBefore = now.Add(batchPause)
	}
	return acts
}

// awaitsMatrix reports whether the batch waits for a matrix.
func (c *planner) awaitsMatrix() bool {
	return slices.ContainsFunc(c.batch.asked, func(key int32) bool { return c.workers[key].matrixAwaited })
}

// endAsking notes that no batch waits for matrices.
func (c *planner) endAsking() {
	b := &c.batch
	for _, key := range b.asked {
		c.workers[key].awaitNoMatrix()
	}
	b.answersUntil, b.asked = time.Time{}, b.asked[:0]
}

// askMatrices asks workers for their matrices which the tasks that are due may be placed on, and some at random, where what
// is known of them is missing or old.
func (c *planner) askMatrices(now time.Time, acts []Action) []Action {
	b := &c.batch
	c.view.Sweep(now)
	due := c.batchQueue.All()
	due = due[:min(len(due), estimate.MaxBatch)]
	for _, x := range due {
		c.updateWork(x)
		for _, key := range c.doubtfulWorkers(x, len(due), now) {
			if w := c.workers[key]; len(b.asked) < maxAsked && w.mayAskMatrix(now) {
				w.awaitMatrix()
				b.asked = append(b.asked, key)
				acts = c.askMatrix(w, now, acts)
			}
		}
	}
	return acts
}

// doubtfulWorkers is the workers that a task, one of so many, may be placed on, and some at random, where what is known of their matrices
// is missing or old.
func (c *planner) doubtfulWorkers(x *longTask, tasks int, now time.Time) []int32 {
	workers := x.task.group.Set.Workers()
	if len(workers) == 0 {
		return nil
	}
	sure := c.cfg.SureFor
	if sure < 0 {
		sure = math.MaxInt64
	}
	keys := c.view.Fleet().Doubtful(&x.spec, tasks, sure, now, c.rand, c.batch.keys[:0])
	for i := range 2 * drawnEach {
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

// mayAskMatrix reports whether a worker may be asked for its matrix.
func (w *worker) mayAskMatrix(now time.Time) bool { return w.Up() && !now.Before(w.askMatrixFrom) }

func (c *planner) askMatrix(w *worker, now time.Time, acts []Action) []Action {
	w.askNotBefore(now.Add(askAgain))
	c.Stats.Asked++
	return append(acts, Send{Worker: w.Key, Msg: probe.Probe{Matrix: true}})
}

// matchBatch places a batch of the tasks that are due, of the same priority. What it cannot place sleeps for a while.
func (c *planner) matchBatch(now time.Time, acts []Action) []Action {
	b := &c.batch
	var batch []*longTask
	var specs []estimate.Task
	sets := map[*group]int{} // numbers, from 1
	picked, pickedDemand := map[*group]int{}, map[*tenant]int64{}
	for crowded := 0; c.batchQueue.Len() > 0 && len(batch) < estimate.MaxBatch && crowded < maxEarly; {
		x := c.batchQueue.Min()
		if len(batch) > 0 && !x.mayMatchWith(batch[len(batch)-1]) {
			break
		}
		g := x.task.group
		stranded := g.Set.Len() == 0
		if stranded == g.job.strandedSince.IsZero() {
			c.setJobTimer(g.job, now)
		}
		if stranded {
			c.sleepUntil(x, now.Add(blindRetry<<maxBlind))
			continue
		}
		if tenant := g.job.tenant; g.isWindowFull(picked[g]) || c.wouldOverdraw(g, pickedDemand[tenant]) {
			c.crowdTask(x)
			crowded++
			continue
		} else if g.class == probe.Regular {
			pickedDemand[tenant] += g.tokenCost()
		}
		picked[g]++
		c.takeDue(x)
		x.spec.ExtraCandidates = b.asked
		if sets[g] == 0 {
			sets[g] = len(sets) + 1
		}
		x.spec.Set, x.spec.SetEnd = sets[g], max(g.lastEnd.Sub(now), 0)
		batch = append(batch, x)
		specs = append(specs, x.spec)
	}
	if len(batch) == 0 {
		return acts
	}
	c.Stats.Batches++
	choices, order := c.view.Fleet().Batch(specs, c.cfg.Matcher, now, c.rand)
	for _, i := range order {
		if !c.tryPostpone(batch[i], &choices[i], now) {
			acts = c.commitLong(batch[i], c.workers[choices[i].Choice().Worker], &choices[i], now, acts)
		}
	}
	for i, x := range batch {
		choice := &choices[i]
		switch {
		case choice.Chosen >= 0:
		case len(choice.Candidates) > 0:
			c.Stats.Leftovers++
			c.recordAndSleep(x, choice, now.Add(batchPause<<x.outbid), now)
			x.outbid = min(x.outbid+1, maxOutbid)
		case x.blindTries == maxBlind:
			choice.Reason = fmt.Sprintf("%s: a random worker, after %d times", choice.Reason, maxBlind)
			acts = c.commitLong(x, c.drawWorker(x), choice, now, acts)
		case x.mayUseAll || c.fitsNowhereOpen(x):
			x.mayUseAll = true
			choice.Reason = "needs more than is open to long tasks anywhere: at a random worker, it may use all"
			acts = c.commitLong(x, c.drawWorker(x), choice, now, acts)
		default:
			c.recordAndSleep(x, choice, now.Add(blindRetry<<x.blindTries), now)
			x.blindTries++
		}
	}
	for _, x := range batch {
		if j := x.task.group.job; j.matching == 0 {
			c.setJobTimer(j, now)
		}
	}
	return acts
}

// tryPostpone lets a task sleep that would have to wait for room, and whose job would not be done earlier if it did not:
// who cannot wait goes ahead of it meanwhile, and later more is known of where there is room. It reports whether it did.
// However long workers say that one waits, that goes on no longer than the longest task of the job runs longer than it.
func (c *planner) tryPostpone(x *longTask, choice *estimate.Decision, now time.Time) bool {
	candidate := choice.Choice()
	if x.postponeUntil.IsZero() {
		x.postponeUntil = now.Add(x.task.group.longestRun - x.spec.Work.Mean)
	}
	sleep := min(candidate.W, choice.Due-candidate.C, x.postponeUntil.Sub(now), maxSleep)
	if sleep < minSleep {
		return false
	}
	choice.Reason = fmt.Sprintf("later: its job needs it only after %.3fs, and there is room nowhere yet", choice.Due.Seconds())
	c.recordAndSleep(x, choice, now.Add(sleep-max(sleep/8, minSleep/2)), now)
	return true
}

// fitsNowhereOpen reports whether a task is larger than the part of each worker that long tasks may use.
func (c *planner) fitsNowhereOpen(x *longTask) bool {
	return !slices.ContainsFunc(x.task.group.Set.Workers(), func(w *view.Worker) bool { return x.spec.Demand.Fits(w.Open()) })
}

// drawWorker is a random worker for a task: none of those that may run it says how long it would wait.
func (c *planner) drawWorker(x *longTask) *worker {
	workers := x.task.group.Set.Workers()
	return c.workerOf(workers[c.rand.IntN(len(workers))])
}
