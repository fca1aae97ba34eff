package frontend

import (
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/place"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// commitPlaces carries out decisions for the tasks of group g, or only for those on shelf s if s is not nil. Each
// decision reserves places, or binds a task at once. If no task waits afterwards, commitPlaces cancels the remaining
// places.
func (c *ledger) commitPlaces(g *group, s *shelf, ds []place.Decision, now time.Time, acts []Action) []Action {
	sample := uint64(0)
	if len(ds) > 0 {
		q, near := place.Queue(g), ""
		if s != nil {
			q, near = s, s.name
		}
		t := g.Tactic(q, c.view.Trip())
		t.Near, t.MessagesWait = near, c.messagesMayWait(g)
		sample = c.log.recordSample(g, q.Len(), ds, t, now)
	}
	reservations := makeReservations(ds)
	for i := range ds {
		d, w := &ds[i], c.workerOf(ds[i].Worker)
		if d.Bound {
			acts = c.bindEarly(g.queue.First(), w, now, acts)
			continue
		}
		r := &reservations[i]
		r.w, r.group, r.shelf, r.sampleNumber, r.sampleIndex = w, g, s, sample, int32(i)
		acts = c.reservePlaces(r, d, now, acts)
	}
	g.probeBudget = max(g.probeBudget, 0) // rides may cost more probes than were left
	j := g.job
	if j.waiting == 0 && j.Policy.Cancel && len(j.placedGroups) > 0 {
		// The tasks ride or are bound, so the other places are not needed. If a ride finds no room, the place of the
		// ride itself waits in the queue.
		acts = c.cancelPlaces(j, now, acts)
	}
	return acts
}

// makeReservations returns a reservation for each decision, with room for the attempts that ride along. All take two
// allocations together, to save time. So the memory is free again after the end of the last.
func makeReservations(ds []place.Decision) []reservation {
	riders := 0
	for i := range ds {
		if ds[i].Bound { // all are: they need no reservations
			return nil
		}
		riders += ds[i].Rides
	}
	reservations, attempts := make([]reservation, len(ds)), make([]attempt, riders)
	for i := range ds {
		n := ds[i].Rides
		reservations[i].rides, attempts = attempts[:0:n], attempts[n:]
	}
	return reservations
}

// reservePlaces asks for the places of r, as decided by d. Up to d.Rides tasks ride along; tasks that shun the worker
// do not.
func (c *ledger) reservePlaces(r *reservation, d *place.Decision, now time.Time, acts []Action) []Action {
	w, g, j := r.w, r.group, r.group.job
	r.firstID, r.count = w.nextRes, uint32(d.Rides+d.Places)
	m := probe.Reserve{
		First: r.firstID, Count: r.count, Job: j.ID, Tenant: j.Tenant, Priority: j.Priority,
		Demand: g.demandAt(w.Worker, false), Estimate: g.estimate, Early: j.Policy.Overlap, Generation: j.Generation,
	}
	m.Standing, m.Guarded = g.standingFor(g.class, now), j.Guarded
	if m.Weights = j.tenant.weights; g.estimate == 0 {
		m.Typical = g.Runs.Stats().Typical()
	}
	if d.Rides > 0 { // each slot may keep the rides of a bundle that come after the first ride
		m.Bundle = uint32((g.Bundle(g, place.BundleBytes) - 1) * w.Slots())
	}
	w.nextRes += probe.ResID(r.count)
	if g.sampledAt.IsZero() {
		g.sampledAt = now
	}
	m.Launches = c.lent.launches.Take(d.Rides)[:0]
	for i := range d.Rides {
		var t *task
		if r.shelf != nil {
			t = r.shelf.nextTask(w)
		} else {
			t = c.nextTask(g, w, now)
		}
		if t == nil { // the remaining tasks shun w, and the remaining places have no ride
			break
		}
		r.rides = r.rides[:i+1]
		a := &r.rides[i]
		c.launchAttempt(a, t, w, r.firstID+probe.ResID(i), riding, now)
		t.way, a.isRiding = WayRide, true
		l := t.makeLaunch(a, c.view.Trip())
		acts = c.addContext(t, w, &l, acts)
		m.Launches = append(m.Launches, l)
	}
	for i := range r.count {
		w.places[r.firstID+probe.ResID(i)] = r
	}
	g.places.Push(r)
	r.openRides = len(r.rides)
	if r.addLive(int(r.count) - r.openRides); g.sampledAt.IsZero() && g.livePlaces > 0 {
		g.sampledAt = now // the last waiting task rides, and its move reset the time
	}
	c.Stats.Places += uint64(r.count)
	c.Stats.Rides += uint64(r.openRides)
	if r.openRides > 0 {
		c.noteRide(r, now)
		w.noteUncountedRides(&m, r.openRides, g.job.tenant.code)
	}
	c.view.Occupy(w.Worker, g.Demand, r.openRides)
	if g.Policy.Sticky { // each ride counts as a probe; without rides, all places together count as one
		g.probeBudget -= max(1, d.Rides)
	} else {
		g.probeBudget -= int(r.count)
	}
	// At a worker with a queue, the turn of the place comes late anyway, so the message may wait.
	return append(acts, Send{
		Worker: w.Key, Msg: m, MayWait: d.Rides == 0 && int(w.Load().Queued) >= w.Slots() && c.messagesMayWait(g),
	})
}

// commitLong binds a long task to w. If estimation chose w, the wait at w is known, and commitLong counts the task
// in the view's matrix of w. If w was drawn at random, no wait is known.
func (c *ledger) commitLong(x *longTask, w *worker, choice *estimate.Decision, now time.Time, acts []Action) []Action {
	if x.move != nil {
		choice.Reason += x.move.explain()
		x.move = nil
	}
	x.blindTries, x.outbid, x.vainWakes, x.postponeUntil = 0, 0, 0, time.Time{}
	x.wait, x.run, x.read = 0, x.spec.Work.Run, 0
	known := choice.Chosen >= 0
	if known {
		candidate := choice.Choice()
		// Files are fetched during the wait for room, so the longer of the two times counts.
		x.wait, x.run, x.read = max(candidate.I, candidate.W), candidate.R, candidate.Read
		if end := now.Add(x.wait + x.run); end.After(x.task.group.lastEnd) {
			x.task.group.lastEnd = end
		}
	}
	c.Stats.Enqueued++
	budgetText := c.coverByTokens(x.task)
	acts = c.bindEarly(x.task, w, now, acts)
	a, short := x.task.attempt, x.run < x.spec.LongFrom
	if x.task.isBeyond() {
		c.Stats.Beyond++
		c.noteDebtor(x.task.group.job.tenant)
	}
	if a.class == probe.Regular { // spare and yielded work does not delay regular work
		p := view.Promise{
			Attempt: a.id, Res: a.res, Demand: x.spec.Demand, Short: short, Run: x.run,
			Tenant: x.task.group.job.tenant.code,
		}
		if c.view.NotePromise(w.Worker, p); known {
			c.view.OccupyMatrix(w.Worker, p)
		}
	}
	if x.task.heldFor > 0 {
		if budgetText != "" {
			budgetText += "; "
		}
		budgetText += explainHeld(x.task.group.job.tenant.name, x.task.heldFor)
	}
	c.recordDecision(x, choice, w, now).Budget = budgetText
	return acts
}

// launchAttempt fills a as an attempt of t at w, files the attempt, and moves t to the given state. An attempt bound
// early may wait at w. Any other attempt counts as started: w starts it at once, or gives it back.
func (c *ledger) launchAttempt(a *attempt, t *task, w *worker, res probe.ResID, state taskState, now time.Time) {
	c.makeAttempt(a, t, w, res, now)
	if state != enqueued {
		a.hasStarted, a.runsSince = true, now
	}
	t.noteSampled(now) // before the move: the move of the last waiting task may reset the group's sampledAt
	t.move(state)
	t.attempt, t.copyDecision, t.caughtUp = a, 0, false
	if t.near != nil {
		c.noteNearChoice(t, w, now)
	}
	c.addAttempt(a)
}

// noteSampled sets sampledAt as t goes to a worker: the time when the group asked for places. If t could not be placed
// yet at that time, or came back later, sampledAt is the time from which t could be placed.
func (t *task) noteSampled(now time.Time) {
	if t.sampledAt.IsZero() { // otherwise a worker has handed t back, which does not count as an attempt
		if t.placesAskedAt = t.group.sampledAt; t.placesAskedAt.IsZero() {
			t.placesAskedAt = now
		}
		if t.sampledAt = t.placesAskedAt; t.placeableSince.After(t.sampledAt) {
			t.sampledAt = t.placeableSince
		}
	}
	if t.againAt.After(t.sampledAt) {
		t.sampledAt = t.againAt
	}
}

// makeAttempt fills a as an attempt of t at w, with the next id. The caller files the attempt.
func (c *ledger) makeAttempt(a *attempt, t *task, w *worker, res probe.ResID, now time.Time) {
	c.attemptsMade++
	*a = attempt{
		id: probe.AttemptID{Frontend: c.cfg.ID, Seq: c.attemptsMade}, job: t.group.job, task: t, w: w, res: res,
		sentAt: now, class: t.attemptClass(),
	}
	t.attempts++
}

// adoptAttempt makes and files an attempt of t that another frontend launched. The attempt has run at w for ran.
func (c *ledger) adoptAttempt(t *task, w *worker, id probe.AttemptID, ran time.Duration, now time.Time) *attempt {
	a := &attempt{id: id, job: t.group.job, task: t, w: w, hasStarted: true, runsSince: now.Add(-ran),
		class: t.attemptClass()}
	t.attempts++
	a.job.noteServed()
	c.addAttempt(a)
	return a
}

// makeLaunch returns the launch to be sent for a, and notes the expected run time in t.
func (t *task) makeLaunch(a *attempt, trip time.Duration) probe.Launch {
	t.attemptRun = t.expectedRun(trip)
	return t.launchExpecting(a, t.attemptRun)
}

// expectedRun returns how long t will run, as told to the worker; 0: not known. Reading inputs counts. Without an
// estimate, the run times of the function count only if they are steady, and only for overlap: the worker asks for the
// next task before the expected end.
func (t *task) expectedRun(trip time.Duration) time.Duration {
	expected := t.group.Runs.Correct(t.spec.Estimate)
	switch {
	case t.near != nil && expected > 0:
		expected += t.near.read
	case t.long != nil:
		expected = t.long.run
	case expected == 0 && t.group.job.Policy.Overlap:
		expected = t.group.Runs.Steady(trip)
	}
	return expected
}

// launchExpecting returns the launch to be sent for a, with the given expected run time; 0: not known.
func (t *task) launchExpecting(a *attempt, expected time.Duration) probe.Launch {
	s := t.spec
	l := probe.Launch{
		Attempt: a.id, Task: s.Index, Function: s.Function, Payload: s.Payload, Estimate: expected, Timeout: s.Timeout,
		Files: s.Files,
	}
	if deadline := t.group.job.deadline; !deadline.IsZero() {
		l.Deadline = max(deadline.Sub(a.sentAt), 1) // 0 would mean: no deadline
	}
	return l
}

// bindTurn answers the turn of a place of r with the next task of g. If g belongs to another job than r, the turn is
// shared. If the tasks are short, several go together. A sticky place stays while its group has a task for w.
func (c *ledger) bindTurn(r *reservation, g *group, m *probe.Ready, now time.Time, acts []Action) []Action {
	w, placeGroup, j := r.w, r.group, g.job
	j.noteServed()
	shared, way := placeGroup.job != j, WayLate
	switch {
	case shared:
		way = WayShared
	case m.Early > 0:
		way = WayAhead
	}
	first := new(attempt)
	bind := probe.Bind{Res: m.Res, Turn: m.Turn}
	bind.Launch, acts = c.bindNextTask(first, g, w, m, way, now, acts)
	if shared {
		bind.Job, bind.Generation = j.ID, j.Generation
		c.Stats.Shared++
		c.log.fatesOf(r).Add(place.Shared, 1)
	} else {
		c.log.fatesOf(r).Add(place.Bound, 1)
	}
	if more := min(g.Bundle(g, place.BundleBytes-first.task.bytesToSend())-1, g.Len()); more > 0 {
		attempts := make([]attempt, more) // one allocation saves time; all attempts end with the job, at the latest
		bind.Bundle = c.lent.launches.Take(more)[:0]
		for i := 0; i < more && c.nextTask(g, w, now) != nil; i++ {
			var l probe.Launch
			l, acts = c.bindNextTask(&attempts[i], g, w, m, WayBundle, now, acts)
			bind.Bundle = append(bind.Bundle, l)
		}
	}
	if bind.Keep = placeGroup.Policy.Sticky && c.chooseGroup(placeGroup, w, now) != nil; bind.Keep {
		c.Stats.Kept++
	} else {
		c.dropPlace(w, m.Res, r, place.Used)
		first.placeSpent = !shared // if shared: after a failure, the place would go back to the other job's group
	}
	c.Stats.Binds++
	acts = append(acts, Send{Worker: w.Key, Msg: bind})
	if j.waiting == 0 && j.Policy.Cancel {
		acts = c.cancelPlaces(j, now, acts)
	}
	// A large group may run out of places, because a Reserve asks for at most MaxPlaces.
	if placeGroup.livePlaces == 0 && placeGroup.job.waiting > 0 || placeGroup.shelvesWantPlaces() {
		c.wantPlaces(placeGroup)
	}
	c.refreshJob(j, now)
	return acts
}

// bindNextTask launches the next task of g at the place in turn.
func (c *ledger) bindNextTask(
	a *attempt, g *group, w *worker, m *probe.Ready, way Way, now time.Time, acts []Action,
) (probe.Launch, []Action) {
	t := c.nextTask(g, w, now)
	c.launchAttempt(a, t, w, m.Res, bound, now)
	a.turn = m.Turn
	t.way = way
	l := t.makeLaunch(a, c.view.Trip())
	return l, c.addContext(t, w, &l, acts)
}

// declineTurn answers a turn with no task.
func (c *ledger) declineTurn(w *worker, m *probe.Ready, acts []Action) []Action {
	c.Stats.Declines++
	w.noteVainTurn()
	return append(acts, Send{Worker: w.Key, Msg: probe.Decline{Res: m.Res, Turn: m.Turn}})
}

// bindEarly binds t to w now, without a turn.
func (c *ledger) bindEarly(t *task, w *worker, now time.Time, acts []Action) []Action {
	a := new(attempt)
	c.launchAttempt(a, t, w, w.nextRes, enqueued, now)
	t.way = WayEarly
	return c.sendEnqueue(a, t.makeLaunch(a, c.view.Trip()), now, acts)
}

// fetchSource tells where a worker fetches files, at least one, with their peers.
func fetchSource(files []probe.File) fetchFrom {
	fromPeers := func(f *probe.File) bool { return len(f.Peers) > 0 }
	for i := range files {
		if fromPeers(&files[i]) != fromPeers(&files[0]) {
			return fetchUnknown
		}
	}
	if fromPeers(&files[0]) {
		return fetchPeers
	}
	return fetchSources
}

// sendEnqueue sends an early-bound attempt to its worker, and files the attempt by its place in the queue there. The
// caller makes the launch, because a copy has another expected run time than the first attempt.
func (c *ledger) sendEnqueue(a *attempt, launch probe.Launch, now time.Time, acts []Action) []Action {
	t, w, j := a.task, a.w, a.job
	w.nextRes++
	w.enqueued[a.res] = a
	if len(launch.Files) > 0 {
		launch.Files = c.withPeers(launch.Files, w)
		a.fetch = fetchSource(launch.Files)
	}
	acts = c.addContext(t, w, &launch, acts)
	// Long keeps a task out of the short part of the worker. Tasks below LongTask may use that part, and so may tasks
	// too large for the rest of a worker.
	long := t.long != nil && launch.Estimate >= c.cfg.LongTask && !t.long.mayUseAll
	return append(acts, Send{Worker: w.Key, Msg: probe.Enqueue{
		Res: a.res, Job: j.ID, Generation: j.Generation, Tenant: j.Tenant, Priority: j.Priority,
		Demand: t.group.demandAt(w.Worker, long), Launch: launch,
		Long: long, Matrix: t.long != nil, Weights: j.tenant.weights, Standing: t.group.standingFor(a.class, now),
		Guarded: j.Guarded,
	}})
}

// withPeers returns a copy of files, each with addresses of workers said to have the file, for w to ask.
func (c *ledger) withPeers(files []probe.File, w *worker) []probe.File {
	files = slices.Clone(files)
	for i := range files {
		files[i].Peers = c.view.Peers(FileID(files[i].Digest), w.Worker)
	}
	return files
}

// dropPlace forgets a place that is gone from w, and notes the fate of the place.
func (c *ledger) dropPlace(w *worker, id probe.ResID, r *reservation, fate place.Fate) {
	c.log.fatesOf(r).Add(fate, 1)
	if a := r.rideAt(id); a != nil {
		r.settleRide(a)
	} else {
		r.addLive(-1)
	}
	r.removeIfEmpty()
	delete(w.places, id)
}

// endRide notes the fate of the ride a, and drops its place. If a does not ride any more, endRide does nothing.
func (c *ledger) endRide(a *attempt, fate place.Fate) {
	if a.isRiding {
		c.dropPlace(a.w, a.res, a.w.places[a.res], fate)
	}
}

// settleRide notes that the fate of the ride a is known.
func (r *reservation) settleRide(a *attempt) {
	a.isRiding = false
	r.openRides--
}

// addLive adds n to the live places of r, of its group and of its shelf; n may be negative. Surplus places count for
// no group.
func (r *reservation) addLive(n int) {
	before := r.livePlaces > 0
	r.livePlaces += n
	if r.isSurplus {
		return
	}
	g := r.group
	if g.livePlaces += n; g.livePlaces > 0 && !g.isPlaced {
		g.isPlaced = true
		g.job.placedGroups = append(g.job.placedGroups, g)
	}
	g.forgetSampleIfDone()
	switch after := r.livePlaces > 0; {
	case after && !before:
		g.liveReservations++
	case before && !after:
		g.liveReservations--
	}
	if g.near != nil {
		g.near.addLivePlaces(r, n)
	}
}

// liveProbes returns how many probes the live places of the group count for. A sticky reservation counts as a
// single probe, however many places it has.
func (g *group) liveProbes() int {
	if !g.Policy.Sticky {
		return g.livePlaces
	}
	return g.liveReservations
}

// renewProbeBudget returns how many probes the group may still send. m waiting tasks are to get d*m probes, even if
// some of them go to workers before the last probes are sent. So a group without places gets a new budget of d*m. A
// group with places may send the rest of its budget, or the probes that its waiting tasks still lack, whichever is
// more.
func (g *group) renewProbeBudget() int {
	wanted := g.Probes(g.queue.Len())
	if g.livePlaces == 0 {
		g.probeBudget = wanted
	}
	return max(wanted-g.liveProbes(), g.probeBudget)
}

// removeIfEmpty removes r from its group if r has no live place and no ride.
func (r *reservation) removeIfEmpty() {
	if r.livePlaces == 0 && r.openRides == 0 {
		r.group.places.Remove(r)
	}
}

// restorePlace files a used place again. The worker has handed the task back, and has put the place back into the queue
// at its old position.
func (c *ledger) restorePlace(a *attempt) {
	g := a.task.group
	r := &reservation{w: a.w, group: g, firstID: a.res, count: 1}
	a.w.places[a.res] = r
	g.places.Push(r)
	r.addLive(1)
}

// takeBackRide takes back a riding task, because the worker had no room. The place of the ride is now in the queue. Its
// turn may go to another job, and then the task wants another place.
func (c *ledger) takeBackRide(a *attempt, r *reservation, now time.Time) {
	r.settleRide(a)
	r.addLive(1)
	c.log.fatesOf(r).Add(place.Returned, 1)
	c.noteOutcome(a, "came back: there was no room")
	c.takeBackTask(a, now)
	c.wantPlaces(r.group)
}

// takeBackTask takes back the task of an attempt that never started. The attempt does not count. If the task has no
// other attempt, it goes to the front of the queue.
func (c *ledger) takeBackTask(a *attempt, now time.Time) {
	c.dropAttempt(a)
	t := a.task
	t.attempts--
	if c.continueWithOther(t) {
		return
	}
	if c.awaitNext(t, now); t.state == waiting && t.group.sampledAt.IsZero() {
		t.group.sampledAt = t.placesAskedAt // the group forgot the time, because t was its last waiting task
	}
}

// continueWithOther reports whether t has another attempt, after the caller has dropped an attempt. If only the copy is
// left, the copy becomes the attempt.
func (c *ledger) continueWithOther(t *task) bool {
	if t.copy != nil {
		t.promoteCopy()
	}
	return t.attempt != nil
}

// promoteCopy puts the copy of a task in the place of the attempt that is gone.
func (t *task) promoteCopy() {
	a := t.copy
	t.attempt, t.copy = a, nil
	t.copyDecision, t.way, t.attemptRun = a.asCopy.decision, WayCopy, a.asCopy.attemptRun
	t.againAt = a.sentAt
	if x := t.long; x != nil {
		x.wait, x.run, x.read = a.asCopy.wait, a.asCopy.run, a.asCopy.read
	}
	if x := t.near; x != nil {
		x.read = a.asCopy.read
	}
	state := bound
	switch {
	case a.w.State() == view.Adrift:
		state = adrift
	case !a.hasStarted:
		state = enqueued
	}
	if state != t.state {
		t.move(state)
	}
}

// addAttempt files an attempt at the worker.
func (c *ledger) addAttempt(a *attempt) {
	a.w.attempts[a.id] = a
	if a.class != probe.Spare {
		c.view.Take(a.w.Worker, a.task.spec.Demand)
	}
	c.attemptsAtWorkers++
	if a.hasStarted {
		c.runningAttempts++
	}
}

// dropAttempt forgets an attempt. In the view, the room at the worker is free again.
func (c *ledger) dropAttempt(a *attempt) {
	delete(a.w.attempts, a.id)
	if a.class != probe.Spare {
		c.view.Return(a.w.Worker, a.task.spec.Demand)
	}
	if a.w.enqueued[a.res] == a {
		delete(a.w.enqueued, a.res)
	}
	c.endMove(a)
	if a == a.task.copy {
		a.task.copy = nil
	} else {
		a.task.attempt = nil
	}
	c.attemptsAtWorkers--
	if a.hasStarted {
		c.runningAttempts--
	}
	c.view.DropPromise(a.w.Worker, a.id)
	c.revokePresumed(a.job) // if a was the last ride, the job may no longer count as served
}

// dropPlaces forgets all places at w. The groups want new places.
func (c *ledger) dropPlaces(w *worker) {
	for id, r := range w.places {
		c.wantPlaces(r.group)
		c.dropPlace(w, id, r, place.Gone)
	}
}

// surplusFor bounds the time that surplus places stay in their queues, for turns of other jobs. The time starts with
// the first surplus place. When the time has passed, all surplus places are withdrawn. The time was chosen longer than
// a round trip, so that a worker that asks meanwhile gets a task. Also, the Cancels of the places at one worker go out
// together.
const surplusFor = time.Millisecond

// cancelPlaces withdraws all places of a job; rides go on. If turns are shared and another job of the tenant
// waits, the places are surplus for a while first. If no other job waits at all, the surplus places of all jobs
// are withdrawn.
func (c *ledger) cancelPlaces(j *job, now time.Time, acts []Action) []Action {
	share := j.Policy.Share
	// j may still be listed as hungry, because refreshJob takes j off the list only later.
	if next := j.tenant.hungry.First(); next == nil || next == j && j.tenant.hungry.Len() == 1 {
		share = false
		if next := c.hungry.tenants.First(); next == nil || next == j.tenant && c.hungry.tenants.Len() == 1 {
			acts = c.withdrawSurplus(acts)
		}
	}
	for _, g := range j.placedGroups {
		for r := range g.places.All() {
			switch {
			case r.livePlaces == 0:
			case !share:
				acts = c.cancelReservation(r, acts)
			case r.openRides > 0:
				c.keepSurplus(r.splitQueued(), now)
			default:
				live := r.livePlaces // the group no longer counts or lists r, but r keeps its places
				r.addLive(-live)
				r.removeIfEmpty()
				r.livePlaces = live
				c.keepSurplus(r, now)
			}
		}
		g.isPlaced = false
	}
	j.placedGroups = j.placedGroups[:0]
	return acts
}

// splitQueued moves the queued places of r to a new reservation. The rides stay with r. The group does not list the new
// reservation, because its places become surplus.
func (r *reservation) splitQueued() *reservation {
	queued := &reservation{
		w: r.w, group: r.group, firstID: r.firstID, count: r.count, livePlaces: r.livePlaces,
		sampleNumber: r.sampleNumber, sampleIndex: r.sampleIndex,
	}
	for i := range r.count {
		if id := r.firstID + probe.ResID(i); r.w.places[id] == r && r.rideAt(id) == nil {
			r.w.places[id] = queued
		}
	}
	r.addLive(-r.livePlaces)
	return queued
}

// keepSurplus keeps the places of r as surplus, until all surplus places are withdrawn.
func (c *ledger) keepSurplus(r *reservation, now time.Time) {
	r.isSurplus = true
	if len(r.w.surplus) == 0 {
		c.workersWithSurplus = append(c.workersWithSurplus, r.w)
	}
	r.w.surplus = append(r.w.surplus, r)
	if c.withdrawAt.IsZero() {
		c.withdrawAt = now.Add(surplusFor)
	}
}

// withdrawSurplus sends a Cancel for the surplus places of each worker, once surplusFor has passed.
func (c *ledger) withdrawSurplus(acts []Action) []Action {
	for i, w := range c.workersWithSurplus {
		for _, r := range w.surplus {
			acts = c.cancelReservation(r, acts)
		}
		clear(w.surplus)
		w.surplus, c.workersWithSurplus[i] = w.surplus[:0], nil
	}
	c.workersWithSurplus, c.withdrawAt = c.workersWithSurplus[:0], time.Time{}
	return acts
}

// cancelReservation withdraws the places of r believed to be in the queue.
func (c *ledger) cancelReservation(r *reservation, acts []Action) []Action {
	var cancel probe.Cancel             // of consecutive ids
	all := r.livePlaces == int(r.count) // every place is in the queue
	for i := range r.count {
		id := r.firstID + probe.ResID(i)
		if !all && (r.w.places[id] != r || r.rideAt(id) != nil) {
			continue
		}
		delete(r.w.places, id)
		if cancel.Count > 0 && cancel.First+probe.ResID(cancel.Count) != id {
			acts = c.sendCancel(r, cancel, acts)
			cancel = probe.Cancel{}
		}
		if cancel.Count == 0 {
			cancel.First = id
		}
		cancel.Count++
	}
	if cancel.Count > 0 {
		acts = c.sendCancel(r, cancel, acts)
	}
	c.log.fatesOf(r).Add(place.Withdrawn, r.livePlaces)
	r.addLive(-r.livePlaces)
	r.removeIfEmpty()
	return acts
}

// messagesMayWait reports whether less urgent messages for g wait up to LingerFor for the next message to the same
// worker. The wait pays if messages are costly: if ten separate messages take more CPU time than LingerFor. The ten was
// chosen, and not measured. Also, the tasks must be short. Longer tasks need few messages. And while a Cancel waits, a
// slot may ask its frontend in vain, which costs more than a message.
func (c *ledger) messagesMayWait(g *group) bool {
	return 10*c.view.Price() > LingerFor && g.IsShort(c.view.Trip())
}

// sendCancel sends a Cancel, and remembers the Cancel. If a Ready crosses the Cancel, wasCancelled tells, and the Ready
// needs no answer.
func (c *ledger) sendCancel(r *reservation, m probe.Cancel, acts []Action) []Action {
	w := r.w
	c.Stats.Cancels++
	w.lastCancels[w.nextCancel%len(w.lastCancels)] = m
	w.nextCancel++
	return append(acts, Send{Worker: w.Key, Msg: m, MayWait: c.messagesMayWait(r.group)})
}

// wasCancelled reports whether one of the last Cancels sent to w names the place.
func (w *worker) wasCancelled(id probe.ResID) bool {
	for _, m := range w.lastCancels {
		if id >= m.First && id < m.First+probe.ResID(m.Count) {
			return true
		}
	}
	return false
}
