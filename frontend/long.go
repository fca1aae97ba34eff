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

// Tasks that are long, or that need files or much data, are bound early to the worker with the earliest expected end
// (package estimate). First the due tasks are collected, and workers are asked for missing or old wait matrices.
// After their answers a batch of tasks is matched with workers, and each task is enqueued at its worker.

// The values bound work and waits. They were chosen, and not measured one by one.
const (
	// batchPause is the pause between two batches. A task left over by a batch goes into a later batch. If the task is
	// left over again and again, its pause doubles each time, and other tasks go first. After maxOutbid times the pause
	// stops growing. Of each tenant, the first task left over by a batch has no pause: otherwise the pauses, and not
	// the tenants' tokens, would say who goes first.
	batchPause = time.Millisecond
	maxOutbid  = 5
	// blindRetry is the first pause of a task for which no worker with a known matrix was found. Each further
	// pause is twice as long. After maxBlind pauses the task goes to a random worker.
	blindRetry = 20 * time.Millisecond
	maxBlind   = 5
	// For each task, drawsPerKind idle workers and drawsPerKind workers of the whole set are drawn. Like the candidates
	// of the task, they are asked for their matrices if these are missing or old.
	drawsPerKind = 2
	// maxAsked bounds the workers asked for their matrices before a batch. The batch waits for answers for
	// answerWait. A worker without an answer is not asked again for askAgain.
	maxAsked   = 256
	answerWait = 20 * time.Millisecond
	askAgain   = time.Second
	// minSleep is the shortest sleep of a postponed task (tryPostpone). A shorter wait is spent in a worker's queue.
	minSleep = 100 * time.Millisecond
	// After maxVainWakes a task is not woken for room any more until it is placed: it does not want the room.
	maxVainWakes = 8
	// maxSleep bounds one sleep. If tasks run shorter than estimated, workers have room much sooner than their
	// matrices say.
	maxSleep = 5 * time.Second
)

// nextLongWakes returns when the next batch is due and when the first sleeping task wakes; zero: never.
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

// placeLong places a batch of the due tasks, if the time has come and the matrices asked for have arrived.
func (c *planner) placeLong(now time.Time, acts []Action) []Action {
	b := &c.batch
	switch {
	case c.batchQueue.Len() == 0: // the tasks were cancelled while the matrices were on their way
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

// awaitsMatrix reports whether the batch still waits for a matrix.
func (c *planner) awaitsMatrix() bool {
	return slices.ContainsFunc(c.batch.asked, func(key int32) bool { return c.workers[key].matrixAwaited })
}

// endAsking notes that no batch waits for matrices.
func (c *planner) endAsking() {
	b := &c.batch
	for _, key := range b.asked {
		c.workers[key].stopAwaitingMatrix()
	}
	b.answersUntil, b.asked = time.Time{}, b.asked[:0]
}

// askMatrices asks workers for missing or old matrices: the candidates of the due tasks, and some random workers.
// The asked workers are noted in the batch.
func (c *planner) askMatrices(now time.Time, acts []Action) []Action {
	b := &c.batch
	c.view.ForgetOldMatrices(now)
	due := b.tasks[:0]
	note := func(x *longTask) bool {
		c.updateWork(x)
		due = append(due, x)
		return len(due) < estimate.MaxBatch
	}
	if c.batchQueue.Len() <= estimate.MaxBatch { // all come, and their order does not matter
		c.batchQueue.All(note)
	} else {
		c.batchQueue.InOrder(estimate.MaxBatch, note)
	}
	for _, x := range due {
		for _, key := range c.doubtfulWorkers(x, len(due), now) {
			if w := c.workers[key]; len(b.asked) < maxAsked && w.mayAskMatrix(now) {
				w.awaitMatrix()
				b.asked = append(b.asked, key)
				acts = c.askMatrix(w, x.task, now, acts)
			}
		}
	}
	clear(due)
	b.tasks = due[:0]
	return acts
}

// doubtfulWorkers returns the keys of workers with a missing or old matrix: candidates for x, and random workers
// of x's set. A larger batch has more candidates. The result is valid until the next call.
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
	for i := range 2 * drawsPerKind {
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

// mayAskMatrix reports whether w may be asked for its matrix now.
func (w *worker) mayAskMatrix(now time.Time) bool { return w.Up() && !now.Before(w.earliestMatrixAsk) }

// askMatrix asks w for its matrix, to place t. If t is nil, the matrix is for no task in particular.
func (c *planner) askMatrix(w *worker, t *task, now time.Time, acts []Action) []Action {
	w.askNotBefore(now.Add(askAgain))
	w.noteMatrixAsked()
	c.Stats.Asked++
	return append(acts, Send{Worker: w.Key, Msg: probe.Probe{Matrix: true, Asker: t.describeAsker(w, now)}})
}

// describeAsker describes t, so that w can answer with the exact wait of t. If t is nil, or would come after all other
// tasks at w, the result is nil.
func (t *task) describeAsker(w *worker, now time.Time) *probe.Asker {
	if t == nil {
		return nil
	}
	j, spec := t.group.job, &t.long.spec
	if spec.Tenant == 0 {
		return nil
	}
	long := !spec.IsShort()
	return &probe.Asker{
		Tenant: j.Tenant, Priority: j.Priority, Demand: t.group.demandAt(w.Worker, long), Long: long,
		Standing: t.group.standingFor(t.group.class, now),
	}
}

// matchBatch places a batch of due tasks. Tenants take turns, and the tasks of a tenant in a batch have the same
// priority. A task without a worker sleeps for a while, or goes to a random worker after maxBlind tries. A task beyond
// the window of its group or the tokens of its tenant joins the crowd. The wait of a task that would be spare counts
// the spare tasks, see spareLoad. A tenant pays for placed tasks only.
func (c *planner) matchBatch(now time.Time, acts []Action) []Action {
	b := &c.batch
	batch, specs, turns := b.tasks[:0], b.specs[:0], b.turns[:0]
	defer func() {
		clear(batch)
		clear(specs)
		clear(turns)
		b.tasks, b.specs, b.turns = batch[:0], specs[:0], turns[:0]
	}()
	sets := map[*group]int{} // numbers of the groups in this batch, from 1
	picked, pickedDemand := map[*group]int{}, map[*tenant]int64{}
	spareLoads := map[int32]spareLoad{} // by key of the worker
	lastPicked, hasLeftover := map[*tenant]*longTask{}, map[*tenant]bool{}
	// At most maxEarly tasks join the crowd in a step, so that the step does not take long.
	for crowded := 0; c.batchQueue.Len() > 0 && len(batch) < estimate.MaxBatch && crowded < maxEarly; {
		x := c.batchQueue.Min()
		g := x.task.group
		last := lastPicked[g.job.tenant]
		if last != nil && !x.mayMatchWith(last) {
			break
		}
		// A batch gives each worker one task. With more tasks than workers, the matcher and not the line would choose
		// the tenant to be served.
		if manyTenants := len(lastPicked) > 1 || len(batch) > 0 && last == nil; manyTenants &&
			len(batch) >= c.view.Fleet().Len() {
			break
		}
		stranded := g.Set.Len() == 0
		if stranded == g.job.strandedSince.IsZero() { // refreshJob starts or clears the time limit for stranded tasks
			c.refreshJob(g.job, now)
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
		lastPicked[g.job.tenant] = x
		turns = append(turns, c.takeDue(x))
		x.spec.ExtraCandidates = b.asked
		if x.move != nil {
			x.spec.ExtraCandidates = append(slices.Clone(b.asked), int32(x.move.to.Key))
		}
		if sets[g] == 0 {
			sets[g] = len(sets) + 1
		}
		x.spec.Set, x.spec.SetEnd = sets[g], max(g.lastEnd.Sub(now), 0)
		batch = append(batch, x)
		specs = append(specs, x.spec)
		if !c.isRegularBeside(g, pickedDemand[g.job.tenant]-g.tokenCost()) {
			specs[len(specs)-1].SpareWait = func(key int32) time.Duration {
				load, known := spareLoads[key]
				if !known {
					load = c.workers[key].spareLoadAt(now)
					spareLoads[key] = load
				}
				return load.waitFor(x.spec.Demand)
			}
		}
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
			if tenant := x.task.group.job.tenant; !hasLeftover[tenant] {
				hasLeftover[tenant] = true
				c.recordDecision(x, choice, nil, now)
				c.makeDue(x)
				continue
			}
			c.recordAndSleep(x, choice, now.Add(batchPause<<x.outbid), now)
			c.awaitRoom(x)
			x.outbid = min(x.outbid+1, maxOutbid)
		case x.blindTries == maxBlind:
			choice.Reason = fmt.Sprintf("%s; after %d such tries it went to a random worker", choice.Reason, maxBlind)
			acts = c.commitLong(x, c.drawWorker(x), choice, now, acts)
		case x.mayUseAll || c.fitsNowhereOpen(x):
			x.mayUseAll = true
			choice.Reason = "the task needs more than any worker leaves open to long tasks, so it went " +
				"to a random worker and may use all of it"
			acts = c.commitLong(x, c.drawWorker(x), choice, now, acts)
		default:
			c.recordAndSleep(x, choice, now.Add(blindRetry<<x.blindTries), now)
			x.blindTries++
		}
	}
	for i, x := range batch {
		settleTurn(x, turns[i])
		if j := x.task.group.job; j.matching == 0 { // the job may be at its tail from now on
			c.refreshJob(j, now)
		}
	}
	return acts
}

// tryPostpone puts x to sleep if x would have to wait for room and its job would end no earlier without the sleep.
// Meanwhile urgent tasks go first, and later the frontend knows better where there is room. A worker may report a
// long wait again and again, and the sleeps of x need a bound. The longest task of the group runs longer than x, and
// all sleeps of x together last no longer than this difference. A sleep ends a little early, before the room is there.
// How early is random, because tasks of several frontends may sleep for the same room. If the frontends woke
// the tasks at the same moment, all would take the room, and only one would start then (figure waits).
//
// A sleeping task counts against the tenant's maximum. So x does not begin to sleep while the maximum holds other
// tasks. A task that sleeps already when the first task is held sleeps on, for maxSleep at most. The result says
// whether x sleeps.
func (c *planner) tryPostpone(x *longTask, choice *estimate.Decision, now time.Time) bool {
	if x.task.group.job.tenant.held.Len() > 0 {
		return false
	}
	candidate := choice.Choice()
	if x.postponeUntil.IsZero() {
		x.postponeUntil = now.Add(x.task.group.longestRun - x.spec.Work.Run)
	}
	sleep := min(candidate.W, choice.Due-candidate.C, x.postponeUntil.Sub(now), maxSleep)
	if sleep < minSleep {
		return false
	}
	choice.Reason = fmt.Sprintf(
		"the task can wait, because no worker has room yet, and its job needs the result only in %.3fs",
		choice.Due.Seconds())
	early := max(sleep/8, minSleep/2)
	early += time.Duration((c.rand.Float64() - 0.5) * float64(early))
	c.recordAndSleep(x, choice, now.Add(sleep-early), now)
	if w := x.wokenBy; w != nil && !c.view.Fleet().MustWait(&x.spec, int32(w.Key)) {
		x.vainWakes++ // the room is still there, and x had rather wait for another worker
	}
	if x.vainWakes < maxVainWakes {
		c.awaitRoom(x)
	}
	return true
}

// useRoom lets sleeping tasks use the room at w, if there is any. If w held a slot in vain, the slot is free when w
// gets the next message, and w would not say so. If long tasks wait, useRoom asks.
func (c *planner) useRoom(w *worker, now time.Time, acts []Action) []Action {
	if w.takeVainTurn() && w.Up() && c.batchQueue.Len()+c.roomSleepers.Len() > 0 {
		acts = c.askMatrix(w, nil, now, acts)
	}
	if !w.Idle() {
		return acts
	}
	c.view.NoteRoom(w.Worker)
	if c.roomSleepers.Len() > 0 {
		c.wakeForRoom(w.Worker)
	}
	return acts
}

// fitsNowhereOpen reports whether x is larger than the part of each worker that is open to long tasks.
func (c *planner) fitsNowhereOpen(x *longTask) bool {
	return !slices.ContainsFunc(x.task.group.Set.Workers(), func(w *view.Worker) bool {
		return x.spec.Demand.Fits(w.AlwaysOpen())
	})
}

// drawWorker returns a random worker of x's set, for a task without candidates. If there is a choice, the task avoids
// the worker where it failed.
func (c *planner) drawWorker(x *longTask) *worker {
	workers := x.task.group.Set.Workers()
	i := c.rand.IntN(len(workers))
	if workers[i] == x.task.shunned {
		i = (i + 1) % len(workers)
	}
	return c.workerOf(workers[i])
}
