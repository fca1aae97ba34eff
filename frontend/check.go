package frontend

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// Check returns an error if the core's own state is inconsistent between two steps. Check is for tests and the
// simulator, and takes time in proportion to the state.
func (c *Core) Check() error {
	for _, check := range []func() error{
		c.view.Check, c.checkTimers, c.checkJobs, c.checkPlaces, c.checkAttempts, c.checkUses, c.checkRounds,
		c.checkLong, c.checkNear,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkTimers: each worker that is not down has a timer, and all wants of a step are planned.
func (c *Core) checkTimers() error {
	timers := 0
	for key, w := range c.workers {
		if w == nil {
			continue
		}
		if w.pos > 0 {
			timers++
		}
		if (w.State() != view.Down) != (w.pos > 0) {
			return fmt.Errorf("worker %d is %s, has a timer: %t", key, w.State(), w.pos > 0)
		}
		if (!w.Linked() || c.leaving) && len(w.acks) > 0 {
			return fmt.Errorf("worker %d is %s, leaving is %t, and %d results wait to be acknowledged",
				key, w.State(), c.leaving, len(w.acks))
		}
	}
	switch {
	case timers != c.workerTimers.Len():
		return fmt.Errorf("%d workers with timers, %d timers", timers, c.workerTimers.Len())
	case len(c.wantingJobs) > 0 || c.allWanting:
		return fmt.Errorf("%d jobs have wants between steps", len(c.wantingJobs))
	}
	return nil
}

// checkJobs: counts agree with the tasks' states, a waiting task is in the group's queue, and a place or a timer
// will bring every job forward.
func (c *Core) checkJobs() error {
	pending, payloads, hungry, timers, restingCount := 0, 0, 0, 0, 0
	jobsOf, pendingOf, payloadsOf, heldOf := map[*tenant]int{}, map[*tenant]int{}, map[*tenant]int{}, map[*tenant]int{}
	used, plannedOf := map[*tenant]usage{}, map[*tenant]int64{}
	for id, j := range c.byID {
		if j.ID != id || j.ended {
			return fmt.Errorf("job %v is filed under %v, ended: %t", j.ID, id, j.ended)
		}
		unfinished, waits, matches, claims := 0, 0, 0, 0
		if err := j.checkStages(); err != nil {
			return fmt.Errorf("job %v: %w", id, err)
		}
		matched, probingTasks, atWorkers := map[*group]int{}, map[*group]int{}, map[*group]int{}
		for _, t := range j.tasks {
			switch t.state {
			case waiting:
				waits++
			case matching:
				matched[t.group]++
				matches++
			case probing:
				probingTasks[t.group]++
			case claiming:
				claims++
			case resting:
				restingCount++
			}
			if (t.pos > 0) != (t.state == resting || t.state == held) {
				return fmt.Errorf("job %v, task %d: state %d, at position %d of the resting or held tasks",
					id, t.spec.Index, t.state, t.pos)
			}
			if t.state != done {
				unfinished++
			}
			if levelOf[t.state] > levelIdle {
				use := used[j.tenant]
				use.addTask(t)
				used[j.tenant] = use
			}
			if t.state == held {
				heldOf[j.tenant]++
			}
			if t.state.isAtWorker() {
				atWorkers[t.group]++
			}
			if (t.attempt != nil) != t.state.isAtWorker() {
				return fmt.Errorf("job %v, task %d: state %d, with an attempt: %t",
					id, t.spec.Index, t.state, t.attempt != nil)
			}
			if b := t.copy; b != nil && (t.attempt == nil || b == t.attempt || b.asCopy == nil || !t.spec.Retryable) {
				return fmt.Errorf(
					"job %v, task %d: attempt %v is a copy, of a first attempt: %t, of a retryable task: %t",
					id, t.spec.Index, b.id, t.attempt != nil, t.spec.Retryable)
			}
		}
		if unfinished != j.unfinished || waits != j.waiting || matches != j.matching || unfinished == 0 && !j.Open {
			return fmt.Errorf("job %v: %d tasks unfinished, %d waiting and %d matching; %d, %d and %d counted",
				id, unfinished, waits, matches, j.unfinished, j.waiting, j.matching)
		}
		if tail := c.isAtTail(j); tail == j.tailAt.IsZero() {
			return fmt.Errorf("job %v: at the tail: %t; looks for late tasks at %v", id, tail, j.tailAt)
		}
		if claims > 0 && j.claimUntil.IsZero() {
			return fmt.Errorf("job %v: %d tasks wait for claims without a time limit", id, claims)
		}
		queued, stranded := 0, 0
		for _, g := range j.groups {
			if g.class == probe.Regular {
				plannedOf[j.tenant] += int64(g.matching-g.crowd.Len()) * g.tokenCost()
			}
			if matched[g] != g.matching || g.path == estimate.Estimation && g.queue.Len()+g.places.Len() > 0 {
				return fmt.Errorf(
					"job %v: %d tasks of a group are matching, %d counted; %d are queued, at %d places, by %s",
					id, matched[g], g.matching, g.queue.Len(), g.places.Len(), g.path)
			}
			if atWorkers[g] != g.atWorkers || probingTasks[g] != g.probingTasks {
				return fmt.Errorf("job %v: %d tasks of a group at workers, %d in state probing; %d and %d counted",
					id, atWorkers[g], probingTasks[g], g.atWorkers, g.probingTasks)
			}
			for t := range g.queue.All() {
				if t.state != waiting || t.group != g {
					return fmt.Errorf("job %v, task %d is in a queue: state %d", id, t.spec.Index, t.state)
				}
			}
			if g.isStranded {
				stranded += g.queue.Len() + g.matching
			}
			if seated := len(g.seats) > 0 && list.Has(&g.seats[0]); len(j.groups) > 1 &&
				seated != (g.queue.Len() > 0) || g.livePlaces > 0 && !g.isPlaced ||
				g.isPlaced != slices.Contains(j.placedGroups, g) {
				return fmt.Errorf(
					"job %v: a group with %d waiting tasks and %d places has a seat: %t, is listed as placed: %t",
					id, g.queue.Len(), g.livePlaces, seated, g.isPlaced)
			}
			if stranded := g.Set.Len() == 0; !list.Has(g) || stranded != g.isStranded {
				return fmt.Errorf("job %v: a group is listed for its set: %t; without any worker up: %t",
					id, list.Has(g), stranded)
			}
			queued += g.queue.Len()
			if err := c.checkProspects(g); err != nil {
				return fmt.Errorf("job %v: %w", id, err)
			}
		}
		if queued != waits || stranded != j.strandedTasks {
			return fmt.Errorf("job %v: %d tasks wait, %d are queued; %d are stranded, %d counted",
				id, waits, queued, stranded, j.strandedTasks)
		}
		if list.Has(j) != (waits > 0) {
			return fmt.Errorf("job %v: %d tasks wait, hungry: %t", id, waits, list.Has(j))
		}
		if j.pos > 0 {
			timers++
		}
		if waits > 0 {
			hungry++
		}
		pending += unfinished
		jobBytes := j.stageBytes
		for _, t := range j.tasks {
			jobBytes += len(t.spec.Payload)
		}
		payloads += jobBytes
		for t := j.tenant; t != nil; t = t.parent {
			jobsOf[t]++
			pendingOf[t] += unfinished
			payloadsOf[t] += jobBytes
		}
	}
	listed := 0
	for t := range c.hungry.tenants.All() {
		if c.tenants[t.name] != t || t.hungry.Len() == 0 {
			return fmt.Errorf("tenant %q is out of place among the hungry", t.name)
		}
		for j := range t.hungry.All() {
			if next := t.hungry.Next(j); c.byID[j.ID] != j || j.tenant != t || next != nil && compareJobs(j, next) > 0 {
				return fmt.Errorf("job %v is out of place among the hungry", j.ID)
			}
			listed++
		}
	}
	for id, j := range c.byID {
		for _, g := range j.groups {
			if n := g.crowd.Len(); n > 0 && (!slices.Contains(j.tenant.crowdedGroups, g) ||
				!g.isWindowFull(g.matching-n) && !c.wouldOverdraw(g, plannedOf[j.tenant]) &&
					j.tenant.used.atLevel[levelAtWorker] == 0) {
				return fmt.Errorf("job %v: %d tasks in a crowd, %d at workers or in the batch, window of %d",
					id, n, g.atWorkers+g.matching-n, g.window)
			}
		}
	}
	for name, t := range c.tenants {
		if err := c.checkBeyond(t); err != nil {
			return fmt.Errorf("tenant %q: %w", name, err)
		}
		use := used[t]
		if use.largestTask = t.used.largestTask; use != t.used {
			return fmt.Errorf("tenant %q uses %+v, %+v counted", name, use, t.used)
		}
		if n := t.held.Len(); n != heldOf[t] || n > 0 && (!slices.Contains(c.tenantsHolding, t) ||
			c.fitsMaximum(t.held.Min()) && len(t.held.Min().group.job.confirmers) == 0) {
			return fmt.Errorf("tenant %q: %d tasks are held, %d counted; the first may go on: %t",
				name, heldOf[t], n, n > 0 && c.fitsMaximum(t.held.Min()))
		}
		if !t.held.IsInOrder() || !t.debts.IsInOrder() {
			return fmt.Errorf("held tasks or debts of tenant %q are out of order", name)
		}
		if t.name != name || t.jobs != jobsOf[t] || t.pending != pendingOf[t] || t.payloadBytes != payloadsOf[t] ||
			t.jobs == 0 {
			return fmt.Errorf("tenant %q has %d jobs, %d tasks pending and %d bytes of payloads; %d, %d and %d counted",
				name, jobsOf[t], pendingOf[t], payloadsOf[t], t.jobs, t.pending, t.payloadBytes)
		}
	}
	switch {
	case pending != c.pending:
		return fmt.Errorf("%d tasks pending, %d counted", pending, c.pending)
	case payloads != c.payloadBytes:
		return fmt.Errorf("%d bytes of payloads, %d counted", payloads, c.payloadBytes)
	case hungry != listed:
		return fmt.Errorf("%d hungry jobs, %d listed", hungry, listed)
	case restingCount != c.restingTasks.Len():
		return fmt.Errorf("%d tasks rest, %d counted", restingCount, c.restingTasks.Len())
	case timers != c.jobTimers.Len():
		return fmt.Errorf("%d jobs with timers, %d timers", timers, c.jobTimers.Len())
	}
	return nil
}

// checkBeyond: each task beyond the tenant's tokens is at a worker and among the debts, and tokens would not cover
// the first of the debts.
func (c *Core) checkBeyond(tenant *tenant) error {
	n, queued := 0, int64(0)
	for _, j := range c.byID {
		for _, t := range j.tasks {
			if j.tenant != tenant || !t.isBeyond() {
				continue
			}
			if n++; t.state == enqueued {
				queued += t.tokenCost()
			}
			if !t.state.isAtWorker() || !slices.Contains(tenant.debts.All(), debt{t.long}) {
				return fmt.Errorf("job %v, task %d is beyond tokens, and in state %d, or not among the debts",
					j.ID, t.spec.Index, t.state)
			}
		}
	}
	debts := n > 0 || len(tenant.crowdedGroups) > 0
	if n != tenant.debts.Len() || queued != tenant.queuedDebt || c.canCoverNext(tenant) ||
		debts && (!tenant.isDebtor || !slices.Contains(c.debtors, tenant)) {
		return fmt.Errorf("%d tasks beyond tokens, %d listed; queued with %d, %d counted; tokens cover the first: %t",
			n, tenant.debts.Len(), queued, tenant.queuedDebt, c.canCoverNext(tenant))
	}
	return nil
}

// checkProspects: waiting tasks have a place somewhere, or a timer. If the window of the group is full, or enough tasks
// wait for queue lengths, the end of one of these tasks brings the waiting tasks forward.
func (c *Core) checkProspects(g *group) error {
	j := g.job
	switch {
	case g.queue.Len() == 0, g.livePlaces > 0, g.earlyRoom() == 0,
		!j.resampleAt.IsZero(), !j.retryAt.IsZero(), !j.claimUntil.IsZero():
		return nil
	case g.near != nil && g.near.anywhereShelf().Len() == 0 && len(g.near.unshelved) == 0: // each has a timer
		return nil
	case g.Set.Len() == 0:
		if j.strandedSince.IsZero() {
			return fmt.Errorf("%d stranded tasks wait without a time limit", g.queue.Len())
		}
		return nil
	}
	for _, other := range j.groups { // a place of another group may serve g
		if other.livePlaces > 0 {
			return nil
		}
	}
	return fmt.Errorf("%d waiting tasks have no place and no timer", g.queue.Len())
}

// checkPlaces: a place is at a linked worker and belongs to a job under way. Counts agree, and a ride under way has
// an attempt.
func (c *Core) checkPlaces() error {
	live := map[*reservation]int{}
	known := map[*reservation]bool{}
	for _, j := range c.byID {
		for _, g := range j.groups {
			for r := range g.places.All() {
				known[r] = true
			}
		}
	}
	withSurplus := 0
	for _, w := range c.workers {
		if w == nil {
			continue
		}
		for _, r := range w.surplus {
			if known[r] || !r.isSurplus || r.w != w {
				return fmt.Errorf(
					"the surplus places from %d at worker %d are also listed by job %v, or are at worker %d",
					r.firstID, w.Key, r.group.job.ID, r.w.Key)
			}
			known[r] = true
		}
		if len(w.surplus) > 0 {
			withSurplus++
		}
		if !w.Linked() && len(w.places) > 0 {
			return fmt.Errorf("worker %d is %s and has %d places", w.Key, w.State(), len(w.places))
		}
		for id, r := range w.places {
			if r.w != w || id < r.firstID || id >= r.firstID+probe.ResID(r.count) || id >= w.nextRes {
				return fmt.Errorf("place %d of worker %d is outside of %d+%d at worker %d",
					id, w.Key, r.firstID, r.count, r.w.Key)
			}
			if !known[r] {
				return fmt.Errorf("place %d of worker %d is not listed by job %v, or the job has ended",
					id, w.Key, r.group.job.ID)
			}
			a := r.rideAt(id)
			if a == nil {
				live[r]++
				continue
			}
			if a.res != id || a.w != w || w.attempts[a.id] != a || a.task.state != riding {
				return fmt.Errorf("place %d of worker %d: the task of ride %v is in state %d",
					id, w.Key, a.id, a.task.state)
			}
		}
	}
	if withSurplus != len(c.workersWithSurplus) || (withSurplus > 0) == c.withdrawAt.IsZero() {
		return fmt.Errorf("%d workers have surplus places, %d listed, to be withdrawn at %v",
			withSurplus, len(c.workersWithSurplus), c.withdrawAt)
	}
	for _, w := range c.workersWithSurplus {
		for _, r := range w.surplus {
			if r.livePlaces != live[r] {
				return fmt.Errorf("worker %d: %d surplus places from %d, %d counted",
					w.Key, live[r], r.firstID, r.livePlaces)
			}
		}
	}
	for _, j := range c.byID {
		for _, g := range j.groups {
			sum, probing := 0, 0
			for r := range g.places.All() {
				if r.livePlaces != live[r] || r.group != g {
					return fmt.Errorf("job %v at worker %d: %d live places from %d, %d counted",
						j.ID, r.w.Key, live[r], r.firstID, r.livePlaces)
				}
				sum += r.livePlaces
				if r.livePlaces > 0 {
					probing++
				}
				riding := 0
				for i := range r.rides {
					a := &r.rides[i]
					if a.isRiding {
						riding++
					}
					if a.isRiding && r.w.places[r.firstID+probe.ResID(i)] != r {
						return fmt.Errorf("job %v at worker %d: ride %v has lost its place", j.ID, r.w.Key, a.id)
					}
				}
				if riding != r.openRides || r.livePlaces+riding == 0 {
					return fmt.Errorf("job %v at worker %d: %d rides and %d live places from %d, %d rides counted",
						j.ID, r.w.Key, riding, r.livePlaces, r.firstID, r.openRides)
				}
			}
			if sum != g.livePlaces || probing != g.liveReservations {
				return fmt.Errorf("job %v: %d live places of %d reservations, %d and %d counted",
					j.ID, sum, probing, g.livePlaces, g.liveReservations)
			}
			if j.Policy.Cancel && j.waiting == 0 && sum > 0 {
				return fmt.Errorf("job %v has %d places and no waiting task", j.ID, sum)
			}
		}
	}
	return nil
}

// checkAttempts: attempts and tasks point at each other, and attempts at a worker with a broken link are adrift.
func (c *Core) checkAttempts() error {
	n, running := 0, 0
	for _, w := range c.workers {
		if w == nil {
			continue
		}
		var taken probe.Demand
		for _, a := range w.attempts {
			if a.class != probe.Spare {
				taken = taken.Add(a.task.spec.Demand)
			}
		}
		if taken != w.Taken() {
			return fmt.Errorf("worker %d: attempts take %v, %v counted", w.Key, taken, w.Taken())
		}
		for res, a := range w.enqueued {
			if w.attempts[a.id] != a || a.res != res {
				return fmt.Errorf("worker %d: attempt %v, bound early to place %d, is not listed", w.Key, a.id, res)
			}
		}
		for id, a := range w.attempts {
			if n++; a.hasStarted {
				running++
			}
			t := a.task
			if a.id != id || a.w != w || t.attempt != a && t.copy != a || t.group.job != a.job ||
				c.byID[a.job.ID] != a.job {
				return fmt.Errorf("attempt %v at worker %d is not listed by the task, or the job has ended", id, w.Key)
			}
			if t.attempt == a && t.state == bound && !a.hasStarted {
				return fmt.Errorf("attempt %v is bound, and has not started at worker %d", id, w.Key)
			}
			if w.State() == view.Adrift && t.state != adrift && t.copy != a || w.State() == view.Down ||
				a.id.Seq > c.attemptsMade && a.id.Frontend == c.cfg.ID {
				return fmt.Errorf("attempt %v: state %d, worker %d is %s", id, t.state, w.Key, w.State())
			}
			if r := w.places[a.res]; t.state == riding && t.copy != a && (r == nil || r.rideAt(a.res) != a) {
				return fmt.Errorf("attempt %v rides without a place", id)
			}
		}
	}
	if n != c.attemptsAtWorkers || running != c.runningAttempts {
		return fmt.Errorf("%d attempts, %d of them run; %d and %d counted", n, running, c.attemptsAtWorkers,
			c.runningAttempts)
	}
	for _, j := range c.byID {
		for _, t := range j.tasks {
			for _, a := range t.liveAttempts() {
				if a.w.attempts[a.id] != a {
					return fmt.Errorf("job %v, task %d: attempt %v is not listed by the worker",
						j.ID, t.spec.Index, a.id)
				}
			}
		}
	}
	return nil
}

// checkUses checks that the slots of tasks at workers have the same sum by tenant and by function.
func (c *Core) checkUses() error {
	byTenant, byFunction, functions := int64(0), int64(0), map[string]int64{}
	c.EachTenantUse(func(_ string, slots int64) { byTenant += slots })
	for key := range c.workers {
		c.AddFunctionUse(Worker(key), functions)
	}
	for _, slots := range functions {
		byFunction += slots
	}
	if byTenant != byFunction {
		return fmt.Errorf("tasks at workers take %d by tenant, and %d by function", byTenant, byFunction)
	}
	return nil
}

// checkRounds: a task in state probing is in exactly one open round, and each open round will end.
func (c *Core) checkRounds() error {
	roundsOf := map[*task]int{}
	asked := 0
	for _, r := range c.rounds.queue {
		if r.closed {
			continue
		}
		asked += len(r.asked)
		if len(r.asked) == 0 {
			return fmt.Errorf("a round of job %v is open and awaits no answer", r.group.job.ID)
		}
		for _, t := range r.tasks {
			if t.state == probing {
				roundsOf[t]++
			}
		}
	}
	for _, r := range c.rounds.bySeq {
		if r.closed {
			return fmt.Errorf("a round of job %v is closed and awaits answers", r.group.job.ID)
		}
	}
	if asked != len(c.rounds.bySeq) {
		return fmt.Errorf("%d workers are asked, %d answers awaited", asked, len(c.rounds.bySeq))
	}
	for _, j := range c.byID {
		for _, t := range j.tasks {
			if t.state == probing && roundsOf[t] != 1 {
				return fmt.Errorf("job %v, task %d is in %d rounds", j.ID, t.spec.Index, roundsOf[t])
			}
		}
	}
	return nil
}

// checkLong: a task in state matching is in the next batch, or sleeps with a time to wake, or is in the group's
// crowd. If the matrix of a worker does not count an attempt yet, the attempt waits in the worker's queue.
func (c *Core) checkLong() error {
	l := &c.batch
	err := cmp.Or(c.batchQueue.checkAccounts(c.tenants), c.roomSleepers.checkAccounts(c.tenants))
	if err != nil {
		return fmt.Errorf("the lines of long tasks: %w", err)
	}
	if err := c.checkMovers(); err != nil {
		return err
	}
	if !c.sleepers.IsInOrder() {
		return errors.New("sleeping tasks are out of order")
	}
	entries := map[*task]int{}
	for x := range c.batchQueue.All {
		if entries[x.task]++; !x.sleepUntil.IsZero() {
			return fmt.Errorf("job %v, task %d is in the next batch and sleeps until %v",
				x.task.group.job.ID, x.task.spec.Index, x.sleepUntil)
		}
	}
	for _, x := range c.sleepers.All() {
		if entries[x.task]++; x.sleepUntil.IsZero() {
			return fmt.Errorf("job %v, task %d sleeps without a time to wake", x.task.group.job.ID, x.task.spec.Index)
		}
	}
	for _, j := range c.byID {
		for _, g := range j.groups {
			for x := range g.crowd.All() {
				if entries[x.task]++; !x.inCrowd || !x.sleepUntil.IsZero() {
					return fmt.Errorf("job %v, task %d is in a crowd: %t, and sleeps until %v",
						j.ID, x.task.spec.Index, x.inCrowd, x.sleepUntil)
				}
			}
		}
	}
	for x, n := range entries {
		if x.state != matching || n != 1 || c.byID[x.group.job.ID] != x.group.job {
			return fmt.Errorf("job %v, task %d is listed %d times for matching: state %d",
				x.group.job.ID, x.spec.Index, n, x.state)
		}
	}
	tasks := 0
	for _, j := range c.byID {
		for _, g := range j.groups {
			tasks += g.matching
		}
	}
	if tasks != len(entries) {
		return fmt.Errorf("%d tasks are matching; %d in the batch, asleep or in a crowd", tasks, len(entries))
	}
	if c.batchQueue.Len() > 0 && l.answersUntil.IsZero() && l.notBefore.IsZero() {
		return fmt.Errorf("%d tasks are in the next batch, without a timer", c.batchQueue.Len())
	}
	if l.answersUntil.IsZero() != (len(l.asked) == 0) || len(l.asked) > 0 && c.batchQueue.Len() == 0 {
		return fmt.Errorf("%d workers were asked for matrices for a batch of %d tasks, to answer until %v",
			len(l.asked), c.batchQueue.Len(), l.answersUntil)
	}
	coming := map[*worker]int{}
	for _, j := range c.byID {
		for _, t := range j.tasks {
			if err := t.checkMove(coming); err != nil {
				return fmt.Errorf("job %v, task %d: %w", j.ID, t.spec.Index, err)
			}
		}
	}
	for _, w := range c.workers {
		if w == nil {
			continue
		}
		if w.comingMoves != coming[w] {
			return fmt.Errorf("%d tasks are asked back for worker %d, %d counted", coming[w], w.Key, w.comingMoves)
		}
		if w.matrixAwaited && (!w.Up() || !slices.Contains(l.asked, int32(w.Key))) {
			return fmt.Errorf("worker %d is %s, and a batch awaits the matrix", w.Key, w.State())
		}
		for _, p := range w.Uncounted() {
			if a := w.attempts[p.Attempt]; a == nil || a.task.long == nil || a.hasStarted {
				return fmt.Errorf("worker %d does not count attempt %v yet, but the attempt is not enqueued",
					w.Key, p.Attempt)
			}
		}
	}
	return nil
}

// checkMovers: the movers are a heap in their present order, and no round comes after the latest round.
func (c *Core) checkMovers() error {
	bySet := map[*view.Set]int{}
	for _, x := range c.movers.All() {
		bySet[x.task.group.Set]++
		t := x.task
		if t.attempt == nil || t.attempt.expectedStart.IsZero() || x.moveRound > c.latestRound {
			return fmt.Errorf("job %v, task %d may move: in round %d of %d",
				t.group.job.ID, t.spec.Index, x.moveRound, c.latestRound)
		}
	}
	if !c.movers.IsInOrder() {
		return errors.New("the tasks that may move are out of order")
	}
	if !maps.Equal(bySet, c.moversOf) {
		return fmt.Errorf("the tasks that may move, by %d sets of workers, are not counted so, by %d",
			len(bySet), len(c.moversOf))
	}
	return nil
}

// checkMove: a task that may move, or is asked back, waits in the queue of a worker, and has not moved too often. The
// tasks asked back are counted in coming, by the worker with room.
func (t *task) checkMove(coming map[*worker]int) error {
	x := t.long
	for _, a := range t.liveAttempts() {
		if a.move != nil {
			coming[a.move.to]++
		}
	}
	if x == nil {
		return nil
	}
	isAsked := t.attempt != nil && t.attempt.move != nil
	if (x.movePos > 0 || isAsked) && (t.state != enqueued || x.moves >= maxMoves) || x.movePos > 0 && isAsked ||
		x.moves > maxMoves || x.move != nil && t.attempt != nil {
		return fmt.Errorf("in state %d, moved %d times; may move: %t, is asked back: %t, to be placed after a move: %t",
			t.state, x.moves, x.movePos > 0, isAsked, x.move != nil)
	}
	return nil
}

// checkStages: a stage is ready once all stages before have ended, except the stages along which the stage goes.
// Until then the stage's tasks are blocked, or being claimed.
func (j *job) checkStages() error {
	unfinished := make([]int, len(j.stages))
	for _, t := range j.tasks {
		blocks := j.mustBlock(t)
		if t.state == blocked && !blocks ||
			(t.state == waiting || t.state == matching || t.state == held ||
				t.state == probing && !j.paused) && blocks {
			return fmt.Errorf("task %d is in state %d, has to wait: %t", t.spec.Index, t.state, blocks)
		}
		if len(j.stages) == 0 {
			continue
		}
		n := t.group.stageIndex
		if t.state != done && t.remakes == 0 {
			unfinished[n]++
			if p := j.stages[n].unfinishedIn; p != nil && p[t.spec.Partition] == 0 {
				return fmt.Errorf("task %d of stage %q has not ended, but the partition has",
					t.spec.Index, j.Stages[n].Name)
			}
		}
	}
	for i := range j.stages {
		s := &j.stages[i]
		blocking, ready := j.countBlocking(s)
		if unfinished[i] != s.unfinished || blocking != s.openPredecessors || s.ready != ready {
			return fmt.Errorf("stage %q has %d tasks unfinished and %d stages before; %d and %d counted, ready: %t",
				j.Stages[i].Name, unfinished[i], blocking, s.unfinished, s.openPredecessors, s.ready)
		}
	}
	return nil
}
