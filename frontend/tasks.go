package frontend

import (
	"fmt"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/place"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/fair"
)

// move changes the state of a task to a legal next state, with the queue and the counts of the state. If a task was
// given out before and waits again, it goes to the front of the queue. A task that waits for the first time goes to
// the back.
func (t *task) move(to taskState) {
	g, j, from := t.group, t.group.job, t.state
	if !slices.Contains(legalMoves[from], to) {
		panic(fmt.Sprintf("frontend: task %d of job %v cannot go from state %d to %d", t.spec.Index, j.ID, from, to))
	}
	switch from {
	case waiting:
		if g.queue.Remove(t); g.queue.Len() == 0 {
			g.leaveSeats()
			g.forgetSampleIfDone()
		}
		j.waiting--
		if g.isStranded {
			j.strandedTasks--
		}
		if g.near != nil {
			g.near.unshelve(t)
		}
	case matching:
		g.matching--
		j.matching--
		if g.isStranded {
			j.strandedTasks--
		}
	case held:
		j.tenant.held.Remove(t)
	case probing:
		g.probingTasks--
	case done:
		j.unfinished++
	}
	if from.isAtWorker() && t.isBeyond() {
		j.tenant.removeBeyond(t)
	}
	if a, b := levelOf[from], levelOf[to]; a != b {
		j.tenant.used.moveTask(t, a, b)
	}
	if from.isAtWorker() {
		g.atWorkers--
	}
	if to.isAtWorker() {
		g.atWorkers++
	}
	switch t.state = to; to {
	case waiting:
		if from == blocked || from == held || from == claiming {
			g.queue.Push(t)
		} else {
			g.queue.PushFront(t)
		}
		if g.queue.Len() == 1 {
			g.takeSeats()
		}
		j.waiting++
		if g.isStranded {
			j.strandedTasks++
		}
		if g.near != nil {
			g.near.addUnshelved(t)
		}
	case matching:
		g.matching++
		j.matching++
		if g.isStranded {
			j.strandedTasks++
		}
	case held:
		j.tenant.held.Push(t)
	case probing:
		g.probingTasks++
	case done:
		j.unfinished--
	}
	if to.isAtWorker() && t.isBeyond() {
		j.tenant.addBeyond(t)
	}
}

// forgetSampleIfDone forgets when the group first asked for its places, if no task waits and no place is live.
func (g *group) forgetSampleIfDone() {
	if g.livePlaces == 0 && g.queue.Len() == 0 {
		g.sampledAt = time.Time{}
	}
}

// addBeyond notes that t is at a worker, in the present state, beyond the tokens of the tenant. removeBeyond
// notes the opposite, before the state changes.
func (tenant *tenant) addBeyond(t *task) {
	tenant.debts.Push(debt{t.long})
	if t.state == enqueued {
		tenant.queuedDebt += t.tokenCost()
	}
}

func (tenant *tenant) removeBeyond(t *task) {
	tenant.debts.Remove(debt{t.long})
	if t.state == enqueued {
		tenant.queuedDebt -= t.tokenCost()
	}
}

// noteDebtor notes a tenant with tasks beyond tokens, or with tasks waiting for tokens.
func (c *jobs) noteDebtor(tenant *tenant) {
	if !tenant.isDebtor {
		tenant.isDebtor = true
		c.debtors = append(c.debtors, tenant)
	}
}

// awaitNext lets t wait for the first condition that is not met: the end of earlier stages, room in the tenant's
// maximum, and then a batch or a place's turn. In a paused job t is blocked.
func (c *jobs) awaitNext(t *task, now time.Time) {
	j := t.group.job
	if j.mustBlock(t) { // also after a claim: not all predecessors may be known to have ended
		t.move(blocked)
		return
	}
	if len(j.stages) > 0 && j.stages[t.group.stageIndex].needsPassing {
		t.updatePassedBytes()
	}
	c.addUnserved(t.group, now)
	if c.mustHold(t) {
		c.holdTask(t, now)
		return
	}
	c.startPlacing(t, now)
}

// awaitNextAgain is awaitNext after an attempt in vain.
func (c *jobs) awaitNextAgain(t *task, now time.Time) {
	t.againAt, t.sampledAt, t.heldFor = now, time.Time{}, 0
	if t.long != nil {
		t.long.movedSince = time.Time{}
	}
	c.awaitNext(t, now)
}

// startPlacing lets a task wait for a batch, or for a place's turn.
func (c *jobs) startPlacing(t *task, now time.Time) {
	if t.state == held {
		t.heldFor += now.Sub(t.placeableSince)
		t.group.job.longestHeld = max(t.group.job.longestHeld, t.heldFor)
	}
	t.placeableSince = now
	if t.group.path == estimate.Estimation {
		c.startMatching(t)
	} else {
		t.move(waiting)
	}
}

// holdGroup holds all tasks of a new group if the tenant has a maximum. Tasks within the maximum are released
// later in the step.
func (c *jobs) holdGroup(g *group, now time.Time) {
	if !c.hasMaximum(g.job) {
		return
	}
	for g.queue.Len() > 0 {
		c.holdTask(g.queue.First(), now)
	}
}

// holdTask holds a task until the tenant's maximum has room for the task.
func (c *jobs) holdTask(t *task, now time.Time) {
	t.placeableSince = now
	t.move(held)
	tenant := t.group.job.tenant
	if tenant.held.Len() == 1 {
		tenant.starvedRounds = 0
	}
	if !tenant.isHolding {
		tenant.isHolding = true
		c.tenantsHolding = append(c.tenantsHolding, tenant)
	}
}

// dropTenantsHoldingNone forgets tenants without held tasks.
func (c *jobs) dropTenantsHoldingNone() {
	c.tenantsHolding = slices.DeleteFunc(c.tenantsHolding, func(tenant *tenant) bool {
		tenant.isHolding = tenant.held.Len() > 0
		return !tenant.isHolding
	})
}

// startProbing lets a task wait for the queue lengths of a round.
func (t *task) startProbing() { t.move(probing) }

// blockGroup blocks tasks of a new group that must not start yet. The result is true if no task may start.
func (c *jobs) blockGroup(g *group) bool {
	j := g.job
	if !j.paused && (len(j.stages) == 0 || j.stages[g.stageIndex].ready && len(j.stages[g.stageIndex].along) == 0) {
		return false
	}
	for _, t := range slices.Collect(g.queue.All()) {
		if j.mustBlock(t) {
			t.move(blocked)
		}
	}
	return g.queue.Len() == 0
}

// setPaused pauses a job, because the client has many results to fetch, or lets the job go on. While the job is
// paused, no task goes to a worker.
func (c *jobs) setPaused(j *job, paused bool, now time.Time) {
	if j.paused = paused; paused {
		j.removeUnserved()
	}
	for _, t := range j.tasks {
		switch {
		case t.state == blocked && !j.mustBlock(t):
			c.awaitNext(t, now)
		case paused && (t.state == waiting || t.state == matching || t.state == held):
			c.stopWaiting(t)
			t.move(blocked)
		}
	}
	c.wantAllPlaces(j)
}

// startStages starts the stages of a job after the end of all predecessors.
func (c *jobs) startStages(j *job, now time.Time) {
	for changed := true; changed; { // a stage without tasks ends with the stages before
		changed = false
		for i := range j.stages {
			s := &j.stages[i]
			if s.openPredecessors == 0 {
				continue
			}
			wasReady := s.ready
			if j.updateBlocking(s); s.ready && !wasReady {
				s.readyAt = now
			}
			changed = changed || s.openPredecessors == 0
		}
	}
	for _, t := range j.tasks {
		if t.state == blocked && !j.mustBlock(t) {
			c.awaitNext(t, now)
		}
	}
	c.wantAllPlaces(j)
}

// resumeFreed lets tasks go on after the last awaited input came: a partition has ended, or lost inputs are made again.
func (c *jobs) resumeFreed(now time.Time) {
	for _, t := range c.freedTasks {
		if t.state.isAtWorker() { // a copy of t runs on, with the inputs that the copy has
			continue
		}
		// If the stage has started in this step, t is not blocked any more.
		if t.freedAt = now; t.state == blocked && !t.group.job.mustBlock(t) {
			c.awaitNext(t, now)
			c.wantPlaces(t.group)
		}
	}
	clear(c.freedTasks)
	c.freedTasks = c.freedTasks[:0]
}

// maxBackoff bounds the rest of a task, unless the task asks for more.
const maxBackoff = time.Minute

// backoffTime returns how long a task rests after the last failure: twice as long after each further failure.
func (t *task) backoffTime() time.Duration {
	rest := t.spec.Backoff
	for failed := 1; failed < t.failures && 0 < rest && rest < maxBackoff; failed++ {
		rest = min(2*rest, maxBackoff)
	}
	return rest
}

// restTask lets a task rest until the given time. Then the task is tried again.
func (c *jobs) restTask(t *task, until time.Time) {
	t.move(resting)
	t.restUntil = until
	c.restingTasks.Push(rester{t})
}

// wakeRested lets rested tasks wait for the next condition.
func (c *jobs) wakeRested(now time.Time) {
	for c.restingTasks.Len() > 0 && !now.Before(c.restingTasks.Min().restUntil) {
		t := c.restingTasks.Pop().task
		c.awaitNextAgain(t, now)
		c.wantPlaces(t.group)
	}
}

// stopWaiting takes a task from the tasks that wait for a batch, or for the end of a rest. The caller then changes the
// state.
func (c *jobs) stopWaiting(t *task) {
	switch t.state {
	case matching:
		c.stopMatching(t)
	case resting:
		c.restingTasks.Remove(rester{t})
	}
}

// startMatching lets a task on the path of estimation wait for the next batch.
func (c *jobs) startMatching(t *task) {
	t.move(matching)
	x := t.long
	if x == nil {
		s := t.spec
		x = &longTask{task: t, inputBytes: s.inputBytes()}
		_, x.pathReason = c.choosePath(&t.group.job.Job, s)
		x.spec = estimate.Task{Demand: s.Demand, Inputs: t.locateInputs(), Pool: t.group.Set}
		for i := range s.Files {
			x.spec.Files = append(x.spec.Files, estimate.File{
				ID: FileID(s.Files[i].Digest), Bytes: int64(s.Files[i].Bytes),
			})
		}
		t.long = x
	}
	x.spec.Avoided = nil
	if t.shunned != nil {
		x.spec.Avoided = []int32{int32(t.shunned.Key)}
	}
	c.makeDue(x)
}

// makeDue makes x a task for the next batch.
func (c *jobs) makeDue(x *longTask) { c.batchQueue.pushTask(x) }

// awaitRoom lets x, which sleeps, wake as soon as a worker has room.
func (c *jobs) awaitRoom(x *longTask) { c.roomSleepers.pushTask(roomSleeper{x}) }

// startMatchingAll lets all tasks of a new group wait for the next batch.
func (c *jobs) startMatchingAll(g *group) {
	for g.queue.Len() > 0 {
		c.startMatching(g.queue.First())
	}
}

// updateWork estimates anew how long a task will run, as far as known now, and sets the run time from which on
// the task counts as long.
func (c *jobs) updateWork(x *longTask) {
	g := x.task.group
	x.spec.Work = estimate.Expect(x.task.spec.Estimate, x.inputBytes, g.stageStats, g.Runs.Stats(),
		c.cfg.Estimate.Unknown)
	if !x.mayUseAll {
		x.spec.LongFrom = c.cfg.LongTask
	}
	x.spec.Tenant = 0
	if c.isRegularNext(g) {
		x.spec.Tenant = g.job.tenant.code
	}
}

// takeDue takes a due task, to be placed now. The tenant is charged for the turn. The caller settles the bill in the
// same step, with settleTurn.
func (c *jobs) takeDue(x *longTask) fair.Bill[*longTask] {
	c.updateWork(x)
	x.task.group.longestRun = max(x.task.group.longestRun, x.spec.Work.Run)
	turn := c.batchQueue.chargeTask(x)
	c.batchQueue.removeTask(x)
	return turn
}

// settleTurn settles the bill of a task's turn: a task that was not placed costs nothing.
func settleTurn(x *longTask, turn fair.Bill[*longTask]) {
	if x.task.state.isAtWorker() {
		turn.StartUse()
	}
	turn.EndTurn()
	turn.Settle(x.spec.Work.Run)
}

// stopMatching takes a task from the tasks to be placed by estimation: due, asleep, or in a crowd.
func (c *jobs) stopMatching(t *task) {
	switch x := t.long; {
	case x.inCrowd:
		x.inCrowd = false
		t.group.crowd.Remove(x)
	case x.sleepUntil.IsZero():
		c.batchQueue.removeTask(x)
	default:
		c.endSleep(x)
	}
}

// isWindowFull reports whether the window of a group is full: no further task would find room at workers. Tasks about
// to be placed count, too: their number is picked.
func (g *group) isWindowFull(picked int) bool { return g.window > 0 && g.atWorkers+picked >= g.window }

// crowdTask moves a due task to the crowd of the group, until tasks of the group, or of the tenant, have started
// or ended. Otherwise each batch would estimate all tasks without room again.
func (c *jobs) crowdTask(x *longTask) {
	c.batchQueue.removeTask(x)
	x.inCrowd = true
	g := x.task.group
	g.crowd.Push(x)
	if tenant := g.job.tenant; g.crowd.Len() == 1 && !slices.Contains(tenant.crowdedGroups, g) {
		tenant.crowdedGroups = append(tenant.crowdedGroups, g)
		c.noteDebtor(tenant)
	}
}

// reorderTasks puts the tasks of a tenant in order again after the critical paths of a job's stages have changed. Each
// heap whose order counts critical paths is put in order.
func (c *jobs) reorderTasks(tenant *tenant) {
	tenant.held.Reorder()
	tenant.debts.Reorder()
	c.batchQueue.reorderTasks(tenant)
	c.roomSleepers.reorderTasks(tenant)
	c.sleepers.Reorder()
}

// releaseCrowd makes tasks of a crowd due, as many as may find room now.
func (c *jobs) releaseCrowd(g *group) {
	for g.crowd.Len() > 0 {
		picked := g.matching - g.crowd.Len()
		if g.isWindowFull(picked) || c.wouldOverdraw(g, int64(picked)*g.tokenCost()) {
			break
		}
		x := g.crowd.First()
		g.crowd.Remove(x)
		x.inCrowd = false
		c.makeDue(x)
	}
}

// sleepUntil puts a task to sleep, whether the task was still in batchQueue or already taken out.
func (c *jobs) sleepUntil(x *longTask, until time.Time) {
	c.batchQueue.removeTask(x)
	x.sleepUntil = until
	c.sleepers.Push(sleeper{x})
}

// recordAndSleep records a decision for no worker yet, and lets x sleep.
func (c *jobs) recordAndSleep(x *longTask, choice *estimate.Decision, until, now time.Time) {
	c.recordDecision(x, choice, nil, now)
	c.sleepUntil(x, until)
}

// endSleep takes x from the sleeping tasks. The caller then makes x due, or ends the wait for a batch.
func (c *jobs) endSleep(x *longTask) {
	c.sleepers.Remove(sleeper{x})
	c.roomSleepers.removeTask(roomSleeper{x})
	x.sleepUntil = time.Time{}
}

// wakeLong makes tasks due after their sleep.
func (c *jobs) wakeLong(now time.Time) {
	for c.sleepers.Len() > 0 && !now.Before(c.sleepers.Min().sleepUntil) {
		x := c.sleepers.Min().longTask
		c.endSleep(x)
		x.wokenBy = nil
		c.makeDue(x)
	}
}

// wakeForRoom makes sleeping tasks due, because w has room for them earlier than expected: a task for each free slot,
// by the turns of tenants. A task that cannot run at w sleeps on, and so may tasks behind maxLooked of such tasks.
func (c *jobs) wakeForRoom(w *view.Worker) {
	free, passedOver := w.Room(probe.Slot), 0
	if free <= 0 {
		return
	}
	var fitting []roomSleeper
	c.roomSleepers.InOrder(free+maxLooked, func(x roomSleeper) bool {
		if x.task.group.Set.Contains(w) && !c.view.Fleet().MustWait(&x.spec, int32(w.Key)) {
			fitting = append(fitting, x)
		} else {
			passedOver++
		}
		return len(fitting) < free && passedOver < maxLooked
	})
	for _, x := range fitting {
		turn := c.roomSleepers.chargeTask(x)
		turn.StartUse()
		c.endSleep(x.longTask)
		turn.EndTurn()
		turn.Settle(x.spec.Work.Run)
		x.wokenBy = w
		c.makeDue(x.longTask)
	}
}

// Len, Riders and Fit make a group the place.Queue of the waiting tasks.
func (g *group) Len() int { return g.queue.Len() }

func (g *group) Riders(most int) int {
	n := 0
	for t := range g.queue.All() {
		if n >= most || t.bytesToSend() > place.MaxRide {
			break
		}
		n++
	}
	return n
}

func (g *group) Fit(n, bytes int) int {
	if g.near != nil { // the tasks for a worker depend on the inputs
		return 1
	}
	fit := 1
	for t := range g.queue.All() {
		if fit == n {
			break
		}
		if bytes -= t.bytesToSend(); bytes < 0 {
			return fit
		}
		fit++
	}
	return n
}

// maxEarly bounds the tasks of a group bound early in a step, or waiting for queue lengths. If the frontend bound all
// tasks of the largest job at once, it could do nothing else for too long. The number was chosen, and not measured.
const maxEarly = 1024

// earlyRoom returns how many waiting tasks of the group may be bound early now.
func (g *group) earlyRoom() int {
	n := min(g.queue.Len(), maxEarly-g.probingTasks)
	if g.window > 0 {
		n = min(n, g.window-g.atWorkers-g.probingTasks)
	}
	return max(n, 0)
}

// narrowWindow lets workers have no more tasks of the group than now, because a worker had no room. Otherwise the
// frontend would send all remaining tasks again and again.
func (g *group) narrowWindow() { g.window, g.endedTasks = max(g.atWorkers, 1), 0 }

// widenWindows adds the slots of w, a worker with a new link, to the windows of all groups for w. Groups without a
// window have no limit.
func (c *jobs) widenWindows(w *view.Worker) {
	for set, groups := range c.setUsers {
		if !set.Contains(w) {
			continue
		}
		for g := range groups.All() {
			if g.window > 0 {
				g.window += w.Slots()
				c.wantPlaces(g)
			}
		}
	}
}

// widenWindow lets a task of the group take the place of an ended task. After each eighth ended task (chosen) the
// window grows by a further task, as queues may have become shorter.
func (c *jobs) widenWindow(g *group) {
	if g.endedTasks++; g.endedTasks%8 == 0 {
		g.window++
	}
	c.wantPlaces(g)
}

// chooseGroup returns the group to be served by a place of g at w: g, or else another group of the same job and
// class with a task for w. The place must have room for the demand (Sparrow, section 4.1). If no task waits for
// w, nil is returned.
func (c *jobs) chooseGroup(g *group, w *worker, now time.Time) *group {
	if c.nextTask(g, w, now) != nil {
		return g
	}
	if g.job.waiting == 0 {
		return nil
	}
	for other := range g.job.hungryGroupsAt(w) {
		if other.class == g.class && other.Demand.Fits(g.Demand) && c.nextTask(other, w, now) != nil {
			return other
		}
	}
	return nil
}

// noteOutcome records the outcome of an attempt in the decision for it, and returns the decision, or nil if
// forgotten.
func (c *jobs) noteOutcome(a *attempt, outcome string) *Decision {
	d := c.lastDecision(a.task)
	if a == a.task.copy {
		d = c.log.copies.get(a.asCopy.decision)
	}
	if d != nil {
		d.Outcome = outcome
	}
	return d
}

// lastDecision returns the last decision on t, or nil if the decision is forgotten, or if t was sampled without
// regard to inputs.
func (c *jobs) lastDecision(t *task) *Decision {
	switch {
	case t.copyDecision != 0:
		return c.log.copies.get(t.copyDecision)
	case t.long != nil:
		return c.log.long.get(t.long.decision)
	case t.near != nil:
		return c.log.near.get(t.near.decision)
	}
	return nil
}

// recordDecision records a decision on x: x goes to w, or to no worker if w is nil. A decision for no worker is
// overwritten by the next decision on x. The record is returned.
func (c *jobs) recordDecision(x *longTask, choice *estimate.Decision, w *worker, now time.Time) *Decision {
	ds, j := &c.log.long, x.task.group.job
	d := ds.get(x.decision)
	if d == nil || d.Worker != "" {
		d = ds.add()
		x.decision = ds.n
		*d = Decision{
			Job: j.ID, Task: x.task.spec.Index, Path: estimate.Estimation, Why: x.pathReason,
			Demand: x.task.group.explainDemand(),
		}
	}
	d.Class, d.Choice, d.At = x.task.explainClass(), *choice, now.Sub(j.submitted)
	d.Tries++
	if w != nil {
		d.Attempt, d.Worker, d.Outcome = x.task.attempt.id, w.Welcome().Worker, "sent"
	}
	return d
}
