package frontend

import (
	"fmt"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/place"
	"github.com/phoebe-sched/phoebe/frontend/tenants"
	"github.com/phoebe-sched/phoebe/frontend/view"
)

// move changes a task's state, which must be legal, and with it the queue and the counts that tell of it. Of tasks that
// come to wait, those that were given out before go first.
func (t *task) move(to taskState) {
	g, j, from := t.group, t.group.job, t.state
	if !slices.Contains(legalMoves[from], to) {
		panic(fmt.Sprintf("frontend: task %d of job %v cannot go from state %d to %d", t.spec.Index, j.ID, from, to))
	}
	switch from {
	case waiting:
		if g.queue.Remove(t); g.queue.Len() == 0 {
			g.leaveSeats()
		}
		j.waiting--
		if g.stranded {
			j.strandedTasks--
		}
		if g.near != nil {
			g.near.unshelve(t)
		}
	case matching:
		g.matching--
		j.matching--
		if g.stranded {
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
		if g.stranded {
			j.strandedTasks++
		}
		if g.near != nil {
			g.near.addUnshelved(t)
		}
	case matching:
		g.matching++
		j.matching++
		if g.stranded {
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

// addBeyond notes that a task is in its state at a worker beyond tokens, and ends that it is not any more.
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

// noteDebtor notes that a tenant has tasks beyond its tokens, or some that wait for those.
func (c *jobs) noteDebtor(tenant *tenant) {
	if !tenant.isDebtor {
		tenant.isDebtor = true
		c.debtors = append(c.debtors, tenant)
	}
}

// awaitNext lets a task wait for what it needs next: the stages before its own, room for its result, a batch to be matched, or a place's turn.
func (c *jobs) awaitNext(t *task) {
	j := t.group.job
	if j.mustBlock(t) { // also if it was claimed, and of a stage before its own not all is known to have ended
		t.move(blocked)
		return
	}
	if len(j.stages) > 0 && j.stages[t.group.stageIndex].needsPassing {
		t.updatePassedBytes()
	}
	if c.mustHold(t) {
		c.holdTask(t)
		return
	}
	c.startPlacing(t)
}

// startPlacing lets a task wait for a batch to be matched, or for a place's turn.
func (c *jobs) startPlacing(t *task) {
	if t.group.path == estimate.Estimation {
		c.startMatching(t)
	} else {
		t.move(waiting)
	}
}

// holdGroup lets all tasks of a group that has just come wait for what its tenant may use, if there is any limit to that.
func (c *jobs) holdGroup(g *group) {
	if c.quotas.Of(g.job.tenant.name).All == tenants.Unlimited {
		return
	}
	for g.queue.Len() > 0 {
		c.holdTask(g.queue.First())
	}
}

// holdTask lets a task wait until its tenant may use what it takes.
func (c *jobs) holdTask(t *task) {
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

// dropTenantsHoldingNone forgets the tenants of which nothing is held any more.
func (c *jobs) dropTenantsHoldingNone() {
	c.tenantsHolding = slices.DeleteFunc(c.tenantsHolding, func(tenant *tenant) bool {
		tenant.isHolding = tenant.held.Len() > 0
		return !tenant.isHolding
	})
}

// startProbing lets a task wait for the queue lengths that it is to be bound by.
func (t *task) startProbing(now time.Time) {
	t.move(probing)
	t.sampledAt = now
}

// blockGroup lets those tasks of a group wait that must not start yet. It reports whether all have to.
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

// pauseJob notes whether a job is full. As long as it is, none of its tasks that no worker has goes to one.
func (c *jobs) pauseJob(j *job, paused bool) {
	j.paused = paused
	for _, t := range j.tasks {
		switch {
		case t.state == blocked && !j.mustBlock(t):
			c.awaitNext(t)
		case paused && (t.state == waiting || t.state == matching || t.state == held):
			c.stopWaiting(t)
			t.move(blocked)
		}
	}
	c.wantAllPlaces(j)
}

// startStages starts the stages of a job that wait no more.
func (c *jobs) startStages(j *job, now time.Time) {
	for changed := true; changed; { // a stage of which nothing is left ends as soon as those before it
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
			c.awaitNext(t)
		}
	}
	c.wantAllPlaces(j)
}

// resumeFreed lets tasks go on that have waited for the last of their partitions.
func (c *jobs) resumeFreed(now time.Time) {
	for _, t := range c.freedTasks {
		if t.freedAt = now; t.state == blocked && !t.group.job.mustBlock(t) {
			c.awaitNext(t)
			c.wantPlaces(t.group)
		}
	}
	clear(c.freedTasks)
	c.freedTasks = c.freedTasks[:0]
}

// maxBackoff bounds how long a task rests that does not ask for more.
const maxBackoff = time.Minute

// backoffTime is how long a task rests after its last failure.
func (t *task) backoffTime() time.Duration {
	rest := t.spec.Backoff
	for failed := 1; failed < t.failures && 0 < rest && rest < maxBackoff; failed++ {
		rest = min(2*rest, maxBackoff)
	}
	return rest
}

// restTask lets a task wait for a time before it is tried again.
func (c *jobs) restTask(t *task, until time.Time) {
	t.move(resting)
	t.restUntil = until
	c.restingTasks.Push(rester{t})
}

// wakeRested lets tasks wait for what they need next that have rested enough.
func (c *jobs) wakeRested(now time.Time) {
	for c.restingTasks.Len() > 0 && !now.Before(c.restingTasks.Min().restUntil) {
		t := c.restingTasks.Pop().task
		c.awaitNext(t)
		c.wantPlaces(t.group)
	}
}

// stopWaiting takes a task from those that wait for a time or a batch.
func (c *jobs) stopWaiting(t *task) {
	switch t.state {
	case matching:
		c.stopMatching(t)
	case resting:
		c.restingTasks.Remove(rester{t})
	}
}

// startMatching lets a task that is to be placed by estimation wait for the next batch, or for a later one.
func (c *jobs) startMatching(t *task) {
	t.move(matching)
	x := t.long
	if x == nil {
		s := t.spec
		x = &longTask{task: t, inputBytes: s.inputBytes()}
		_, x.pathReason = c.choosePath(&t.group.job.Job, s)
		x.spec = estimate.Task{Demand: s.Demand, Inputs: t.locateInputs(), Pool: t.group.Set}
		for i := range s.Files {
			x.spec.Files = append(x.spec.Files, estimate.File{ID: FileID(s.Files[i].Digest), Bytes: int64(s.Files[i].Bytes)})
		}
		t.long = x
	}
	c.batchQueue.Push(x)
}

// startMatchingAll lets all tasks of a group that has just been submitted wait for the next batch.
func (c *jobs) startMatchingAll(g *group) {
	for g.queue.Len() > 0 {
		c.startMatching(g.queue.First())
	}
}

// updateWork tells how long a task will run, by what is known now, and whether that is long.
func (c *jobs) updateWork(x *longTask) {
	g := x.task.group
	x.spec.Work = estimate.Expect(x.task.spec.Estimate, x.inputBytes, g.stageStats, g.Runs.Stats(), c.cfg.Estimate.Unknown)
	if !x.mayUseAll {
		x.spec.LongFrom = c.cfg.LongTask
	}
}

// takeDue takes a task that is due, to be placed now.
func (c *jobs) takeDue(x *longTask) {
	c.batchQueue.Remove(x)
	c.updateWork(x)
	x.task.group.longestRun = max(x.task.group.longestRun, x.spec.Work.Mean)
}

// stopMatching takes a task out of those to be placed.
func (c *jobs) stopMatching(t *task) {
	switch x := t.long; {
	case x.inCrowd:
		x.inCrowd = false
		t.group.crowd.Remove(x)
	case x.sleepUntil.IsZero():
		c.batchQueue.Remove(x)
	default:
		c.sleepers.Remove(sleeper{x})
		x.sleepUntil = time.Time{}
	}
}

// isWindowFull reports whether as many tasks of a group are at workers, or about to be, as have found room.
func (g *group) isWindowFull(picked int) bool { return g.window > 0 && g.atWorkers+picked >= g.window }

// crowdTask lets a task that is due wait until others of its group, or of its tenant, have started or ended: to estimate for each of
// those that found no room again and again would cost more the more there are.
func (c *jobs) crowdTask(x *longTask) {
	c.batchQueue.Remove(x)
	x.inCrowd = true
	g := x.task.group
	g.crowd.Push(x)
	if tenant := g.job.tenant; g.crowd.Len() == 1 && !slices.Contains(tenant.crowdedGroups, g) {
		tenant.crowdedGroups = append(tenant.crowdedGroups, g)
		c.noteDebtor(tenant)
	}
}

// admitCrowd makes as many tasks of a group due again as may have found room.
func (c *jobs) admitCrowd(g *group) {
	for g.crowd.Len() > 0 {
		picked := g.matching - g.crowd.Len()
		if g.isWindowFull(picked) || c.wouldOverdraw(g, int64(picked)*g.tokenCost()) {
			break
		}
		x := g.crowd.First()
		g.crowd.Remove(x)
		x.inCrowd = false
		c.batchQueue.Push(x)
	}
}

// sleepUntil lets a task that is or was due sleep.
func (c *jobs) sleepUntil(x *longTask, until time.Time) {
	c.batchQueue.Remove(x)
	x.sleepUntil = until
	c.sleepers.Push(sleeper{x})
}

// recordAndSleep lets a task sleep that was decided to go nowhere yet.
func (c *jobs) recordAndSleep(x *longTask, choice *estimate.Decision, until, now time.Time) {
	c.recordDecision(x, choice, nil, now)
	c.sleepUntil(x, until)
}

// wakeLong makes tasks due that have slept enough.
func (c *jobs) wakeLong(now time.Time) {
	for c.sleepers.Len() > 0 && !now.Before(c.sleepers.Min().sleepUntil) {
		x := c.sleepers.Pop().longTask
		x.sleepUntil = time.Time{}
		c.batchQueue.Push(x)
	}
}

// Len, Riders and Fit make a group the queue of those of its tasks that wait.
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
	if g.near != nil { // which tasks a worker gets depends on it
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

// maxEarly is how many tasks of a group are bound early in one step, or are about to be as soon as workers have said how
// long their queues are. With all tasks of the largest job at once a frontend could do nothing else for too long.
const maxEarly = 1024

// earlyRoom is how many of the waiting tasks of a group may be bound early now.
func (g *group) earlyRoom() int {
	n := min(g.queue.Len(), maxEarly-g.probingTasks)
	if g.window > 0 {
		n = min(n, g.window-g.atWorkers-g.probingTasks)
	}
	return max(n, 0)
}

// narrowWindow lets workers have no more tasks of a group than they have now, as one of them had no room for another. To send
// those that are left again and again would cost more the more there are.
func (g *group) narrowWindow() { g.window, g.endedTasks = max(g.atWorkers, 1), 0 }

// widenWindows lets that many more tasks be at workers that a worker may run which has just come.
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

// widenWindow lets another task of a group take the place of one that has ended, and one more after some of them: queues may
// have become shorter.
func (c *jobs) widenWindow(g *group) {
	if g.endedTasks++; g.endedTasks%8 == 0 {
		g.window++
	}
	c.wantPlaces(g)
}

// chooseGroup is the group whose first waiting task a place of group g at w gets: its own, or any other of the
// job that w satisfies and the place has room for (Sparrow, section 4.1). Nil if none waits.
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

// noteOutcome remembers what became of an attempt.
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

// lastDecision is the last decision on t, if it is one of those that are remembered.
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

// recordDecision remembers a decision on x: that it goes to w, or nowhere. One that found no place again takes the place
// of the one before. It returns what is remembered.
func (c *jobs) recordDecision(x *longTask, choice *estimate.Decision, w *worker, now time.Time) *Decision {
	ds, j := &c.log.long, x.task.group.job
	d := ds.get(x.decision)
	if d == nil || d.Worker != "" {
		d = ds.add()
		x.decision = ds.n
		*d = Decision{Job: j.ID, Task: x.task.spec.Index, Path: estimate.Estimation, Why: x.pathReason, Demand: x.task.group.explainDemand()}
	}
	d.Class, d.Choice, d.At = x.task.explainClass(), *choice, now.Sub(j.submitted)
	d.Tries++
	if w != nil {
		d.Attempt, d.Worker, d.Outcome = x.task.attempt.id, w.Welcome().Worker, "sent"
	}
	return d
}
