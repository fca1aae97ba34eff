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
	if !slices.Contains(moves[from], to) {
		panic(fmt.Sprintf("frontend: task %d of job %v cannot go from state %d to %d", t.spec.Index, j.ID, from, to))
	}
	switch from {
	case waiting:
		if g.queue.Remove(t); g.queue.Len() == 0 {
			g.rise()
		}
		j.waiting--
		if g.lone {
			j.lone--
		}
		if g.near != nil {
			g.near.left(t)
		}
	case matching:
		g.matching--
		j.matching--
		if g.lone {
			j.lone--
		}
	case held:
		j.tenant.held.Remove(t)
	case probing:
		g.measured--
	case done:
		j.left++
	}
	if from.out() && t.isBeyond() {
		j.tenant.ends(t)
	}
	if a, b := levelOf[from], levelOf[to]; a != b {
		j.tenant.used.moved(t, a, b)
	}
	if from.out() {
		g.out--
	}
	if to.out() {
		g.out++
	}
	switch t.state = to; to {
	case waiting:
		if from == blocked || from == held || from == claiming {
			g.queue.Push(t)
		} else {
			g.queue.PushFront(t)
		}
		if g.queue.Len() == 1 {
			g.sit()
		}
		j.waiting++
		if g.lone {
			j.lone++
		}
		if g.near != nil {
			g.near.came(t)
		}
	case matching:
		g.matching++
		j.matching++
		if g.lone {
			j.lone++
		}
	case held:
		j.tenant.held.Push(t)
	case probing:
		g.measured++
	case done:
		j.left--
	}
	if to.out() && t.isBeyond() {
		j.tenant.begins(t)
	}
}

// begins notes that a task is in its state at a worker beyond tokens, and ends that it is not any more.
func (of *tenant) begins(t *task) {
	of.beyond.Push(debt{t.long})
	if t.state == enqueued {
		of.queued += t.takes()
	}
}

func (of *tenant) ends(t *task) {
	of.beyond.Remove(debt{t.long})
	if t.state == enqueued {
		of.queued -= t.takes()
	}
}

// owe notes that a tenant has tasks beyond its tokens, or some that wait for those.
func (c *jobs) owe(of *tenant) {
	if !of.debtor {
		of.debtor = true
		c.debtors = append(c.debtors, of)
	}
}

// await lets a task wait for what it needs next: the stages before its own, room for its result, a batch to be matched, or a place's turn.
func (c *jobs) await(t *task) {
	j := t.group.job
	if j.blocks(t) { // also if it was claimed, and of a stage before its own not all is known to have ended
		t.move(blocked)
		return
	}
	if len(j.stages) > 0 && j.stages[t.group.number].passes {
		t.weigh()
	}
	if c.holds(t) {
		c.keep(t)
		return
	}
	c.run(t)
}

// run lets a task wait for a batch to be matched, or for a place's turn.
func (c *jobs) run(t *task) {
	if t.group.path == estimate.Estimation {
		c.estimated(t)
	} else {
		t.move(waiting)
	}
}

// hold lets all tasks of a group that has just come wait for what its tenant may use, if there is any limit to that.
func (c *jobs) hold(g *group) {
	if c.shares.Of(g.job.tenant.name).All == tenants.Unlimited {
		return
	}
	for g.queue.Len() > 0 {
		c.keep(g.queue.First())
	}
}

// keep lets a task wait until its tenant may use what it takes.
func (c *jobs) keep(t *task) {
	t.move(held)
	of := t.group.job.tenant
	if of.held.Len() == 1 {
		of.starved = 0
	}
	if !of.holding {
		of.holding = true
		c.holding = append(c.holding, of)
	}
}

// holdOn forgets the tenants of which nothing is held any more.
func (c *jobs) holdOn() {
	c.holding = slices.DeleteFunc(c.holding, func(of *tenant) bool {
		of.holding = of.held.Len() > 0
		return !of.holding
	})
}

// probe lets a task wait for the queue lengths that it is to be bound by.
func (t *task) probe(now time.Time) {
	t.move(probing)
	t.sampledAt = now
}

// block lets those tasks of a group wait that must not start yet. It reports whether all have to.
func (c *jobs) block(g *group) bool {
	j := g.job
	if !j.full && (len(j.stages) == 0 || j.stages[g.number].ready && len(j.stages[g.number].along) == 0) {
		return false
	}
	for _, t := range slices.Collect(g.queue.All()) {
		if j.blocks(t) {
			t.move(blocked)
		}
	}
	return g.queue.Len() == 0
}

// fill notes whether a job is full. As long as it is, none of its tasks that no worker has goes to one.
func (c *jobs) fill(j *job, full bool) {
	j.full = full
	for _, t := range j.tasks {
		switch {
		case t.state == blocked && !j.blocks(t):
			c.await(t)
		case full && (t.state == waiting || t.state == matching || t.state == held):
			c.unwait(t)
			t.move(blocked)
		}
	}
	c.wantAllOf(j)
}

// startStages starts the stages of a job that wait no more.
func (c *jobs) startStages(j *job, now time.Time) {
	for again := true; again; { // a stage of which nothing is left ends as soon as those before it
		again = false
		for i := range j.stages {
			s := &j.stages[i]
			if s.blocking == 0 {
				continue
			}
			was := s.ready
			if j.count(s); s.ready && !was {
				s.readyAt = now
			}
			again = again || s.blocking == 0
		}
	}
	for _, t := range j.tasks {
		if t.state == blocked && !j.blocks(t) {
			c.await(t)
		}
	}
	c.wantAllOf(j)
}

// free lets tasks go on that have waited for the last of their partitions.
func (c *jobs) free(now time.Time) {
	for _, t := range c.freed {
		if t.freedAt = now; t.state == blocked && !t.group.job.blocks(t) {
			c.await(t)
			c.want(t.group)
		}
	}
	clear(c.freed)
	c.freed = c.freed[:0]
}

// maxBackoff bounds how long a task rests that does not ask for more.
const maxBackoff = time.Minute

// backoff is how long a task rests after its last failure.
func (t *task) backoff() time.Duration {
	rests := t.spec.Backoff
	for failed := 1; failed < t.failures && 0 < rests && rests < maxBackoff; failed++ {
		rests = min(2*rests, maxBackoff)
	}
	return rests
}

// rest lets a task wait for a time before it is tried again.
func (c *jobs) rest(t *task, until time.Time) {
	t.move(resting)
	t.rested = until
	c.resting.Push(rester{t})
}

// wakeRested lets tasks wait for what they need next that have rested enough.
func (c *jobs) wakeRested(now time.Time) {
	for c.resting.Len() > 0 && !now.Before(c.resting.Min().rested) {
		t := c.resting.Pop().task
		c.await(t)
		c.want(t.group)
	}
}

// unwait takes a task from those that wait for a time or a batch.
func (c *jobs) unwait(t *task) {
	switch t.state {
	case matching:
		c.unmatch(t)
	case resting:
		c.resting.Remove(rester{t})
	}
}

// estimated lets a task that is to be placed by estimation wait for the next batch, or for a later one.
func (c *jobs) estimated(t *task) {
	t.move(matching)
	x := t.long
	if x == nil {
		s := t.spec
		x = &longTask{task: t, bytes: s.inputBytes()}
		_, x.why = c.route(&t.group.job.Job, s)
		x.spec = estimate.Task{Demand: s.Demand, Inputs: t.located(), Pool: t.group.Set}
		for i := range s.Files {
			x.spec.Files = append(x.spec.Files, estimate.File{ID: FileID(s.Files[i].Digest), Bytes: int64(s.Files[i].Bytes)})
		}
		t.long = x
	}
	c.due.Push(x)
}

// estimateAll lets all tasks of a group that has just been submitted wait for the next batch.
func (c *jobs) estimateAll(g *group) {
	for g.queue.Len() > 0 {
		c.estimated(g.queue.First())
	}
}

// gauge tells how long a task will run, by what is known now, and whether that is long.
func (c *jobs) gauge(x *longTask) {
	g := x.task.group
	x.spec.Work = estimate.Expect(x.task.spec.Estimate, x.bytes, g.stage, g.Runs.Stats(), c.cfg.Estimate.Unknown)
	if !x.whole {
		x.spec.LongFrom = c.cfg.LongTask
	}
}

// takeDue takes a task that is due, to be placed now.
func (c *jobs) takeDue(x *longTask) {
	c.due.Remove(x)
	c.gauge(x)
	x.task.group.longest = max(x.task.group.longest, x.spec.Work.Mean)
}

// unmatch takes a task out of those to be placed.
func (c *jobs) unmatch(t *task) {
	switch x := t.long; {
	case x.crowded:
		x.crowded = false
		t.group.crowd.Remove(x)
	case x.at.IsZero():
		c.due.Remove(x)
	default:
		c.later.Remove(sleeper{x})
		x.at = time.Time{}
	}
}

// isFull reports whether as many tasks of a group are at workers, or about to be, as have found room.
func (g *group) isFull(about int) bool { return g.window > 0 && g.out+about >= g.window }

// wait lets a task that is due wait until others of its group, or of its tenant, have started or ended: to estimate for each of
// those that found no room again and again would cost more the more there are.
func (c *jobs) wait(x *longTask) {
	c.due.Remove(x)
	x.crowded = true
	g := x.task.group
	g.crowd.Push(x)
	if of := g.job.tenant; g.crowd.Len() == 1 && !slices.Contains(of.crowds, g) {
		of.crowds = append(of.crowds, g)
		c.owe(of)
	}
}

// admitCrowd makes as many tasks of a group due again as may have found room.
func (c *jobs) admitCrowd(g *group) {
	for g.crowd.Len() > 0 {
		about := g.matching - g.crowd.Len()
		if g.isFull(about) || c.overdrawn(g, int64(about)*g.takes()) {
			break
		}
		x := g.crowd.First()
		g.crowd.Remove(x)
		x.crowded = false
		c.due.Push(x)
	}
}

// delay lets a task that is or was due sleep.
func (c *jobs) delay(x *longTask, until time.Time) {
	c.due.Remove(x)
	x.at = until
	c.later.Push(sleeper{x})
}

// putBack lets a task sleep that was decided to go nowhere yet.
func (c *jobs) putBack(x *longTask, choice *estimate.Decision, until, now time.Time) {
	c.decided(x, choice, nil, now)
	c.delay(x, until)
}

// wakeLong makes tasks due that have slept enough.
func (c *jobs) wakeLong(now time.Time) {
	for c.later.Len() > 0 && !now.Before(c.later.Min().at) {
		x := c.later.Pop().longTask
		x.at = time.Time{}
		c.due.Push(x)
	}
}

// Len, Riders and Fit make a group the queue of those of its tasks that wait.
func (g *group) Len() int { return g.queue.Len() }

func (g *group) Riders(most int) int {
	n := 0
	for t := range g.queue.All() {
		if n >= most || t.weight() > place.MaxRide {
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
		if bytes -= t.weight(); bytes < 0 {
			return fit
		}
		fit++
	}
	return n
}

// maxEarly is how many tasks of a group are bound early in one step, or are about to be as soon as workers have said how
// long their queues are. With all tasks of the largest job at once a frontend could do nothing else for too long.
const maxEarly = 1024

// room is how many of the waiting tasks of a group may be bound early now.
func (g *group) room() int {
	n := min(g.queue.Len(), maxEarly-g.measured)
	if g.window > 0 {
		n = min(n, g.window-g.out-g.measured)
	}
	return max(n, 0)
}

// narrow lets workers have no more tasks of a group than they have now, as one of them had no room for another. To send
// those that are left again and again would cost more the more there are.
func (g *group) narrow() { g.window, g.ended = max(g.out, 1), 0 }

// widenBy lets that many more tasks be at workers that a worker may run which has just come.
func (c *jobs) widenBy(w *view.Worker) {
	for set, groups := range c.users {
		if !set.Contains(w) {
			continue
		}
		for g := range groups.All() {
			if g.window > 0 {
				g.window += w.Slots()
				c.want(g)
			}
		}
	}
}

// widen lets another task of a group take the place of one that has ended, and one more after some of them: queues may
// have become shorter.
func (c *jobs) widen(g *group) {
	if g.ended++; g.ended%8 == 0 {
		g.window++
	}
	c.want(g)
}

// choose is the group whose first waiting task a place of group g at w gets: its own, or any other of the
// job that w satisfies and the place has room for (Sparrow, section 4.1). Nil if none waits.
func (c *jobs) choose(g *group, w *worker, now time.Time) *group {
	if c.first(g, w, now) != nil {
		return g
	}
	if g.job.waiting == 0 {
		return nil
	}
	for other := range g.job.hungryAt(w) {
		if other.class == g.class && other.Demand.Fits(g.Demand) && c.first(other, w, now) != nil {
			return other
		}
	}
	return nil
}

// note remembers what became of an attempt.
func (c *jobs) note(a *attempt, outcome string) *Decision {
	d := c.remembered(a.task)
	if a == a.task.copy {
		d = c.log.copies.get(a.as.decision)
	}
	if d != nil {
		d.Outcome = outcome
	}
	return d
}

// remembered is the last decision on t, if it is one of those that are remembered.
func (c *jobs) remembered(t *task) *Decision {
	switch {
	case t.copied != 0:
		return c.log.copies.get(t.copied)
	case t.long != nil:
		return c.log.long.get(t.long.decision)
	case t.near != nil:
		return c.log.near.get(t.near.decision)
	}
	return nil
}

// decided remembers a decision on x: that it goes to w, or nowhere. One that found no place again takes the place
// of the one before. It returns what is remembered.
func (c *jobs) decided(x *longTask, choice *estimate.Decision, w *worker, now time.Time) *Decision {
	ds, j := &c.log.long, x.task.group.job
	d := ds.get(x.decision)
	if d == nil || d.Worker != "" {
		d = ds.add()
		x.decision = ds.n
		*d = Decision{Job: j.ID, Task: x.task.spec.Index, Path: estimate.Estimation, Why: x.why, Demand: x.task.group.takesWhy()}
	}
	d.Class, d.Choice, d.At = x.task.told(), *choice, now.Sub(j.submitted)
	d.Tries++
	if w != nil {
		d.Attempt, d.Worker, d.Outcome = x.task.attempt.id, w.Welcome().Worker, "sent"
	}
	return d
}
