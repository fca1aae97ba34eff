package frontend

import (
	"cmp"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/place"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// commit carries out what was decided for a group, or for a shelf of it.
func (c *ledger) commit(g *group, s *shelf, ds []place.Decision, now time.Time, acts []Action) []Action {
	sample := uint64(0)
	if len(ds) > 0 {
		q, near := place.Queue(g), ""
		if s != nil {
			q, near = s, s.name
		}
		t := g.Tactic(q, c.view.Trip())
		t.Near, t.MessagesWait = near, c.dear(g)
		sample = c.log.chose(g, q.Len(), ds, t, now)
	}
	for i := range ds {
		if d, w := &ds[i], c.at(ds[i].Worker); d.Bound {
			acts = c.enqueue(g.queue.First(), w, now, acts)
		} else {
			acts = c.reserve(g, s, w, d, sample, int32(i), now, acts)
		}
	}
	g.budget = max(g.budget, 0)
	j := g.job
	if j.waiting == 0 && j.Policy.Cancel && len(j.placed) > 0 {
		acts = c.cancelPlaces(j, now, acts) // all ride now; one that comes back finds its place kept
	}
	return acts
}

// reserve asks for places at w, as was decided in a Sample, where it was chosen as that one.
func (c *ledger) reserve(g *group, s *shelf, w *worker, d *place.Decision, sample uint64, chosen int32, now time.Time, acts []Action) []Action {
	j := g.job
	r := &reservation{w: w, group: g, first: w.nextRes, count: uint32(d.Rides + d.Places), shelf: s, sample: sample, chosen: chosen}
	m := probe.Reserve{
		First: r.first, Count: r.count, Job: j.ID, Tenant: j.Tenant, Priority: j.Priority,
		Demand: g.demandAt(w.Worker, false), Estimate: g.estimate, Early: j.Policy.Overlap, Generation: j.Generation,
	}
	m.Standing = g.standing(g.class, now)
	if m.Weights = j.tenant.weights; g.estimate == 0 {
		m.Typical = g.Runs.Stats().Typical()
	}
	if d.Rides > 0 {
		m.Bundle = uint32((g.Bundle(g, place.BundleBytes) - 1) * w.Slots())
	}
	w.nextRes += probe.ResID(r.count)
	attempts := make([]attempt, d.Rides) // of one job: none outlives it
	r.rides, m.Launches = make([]*attempt, 0, d.Rides), c.lent.launches.Take(d.Rides)[:0]
	for i := range d.Rides {
		var t *task
		if s != nil {
			t = s.first(w)
		} else {
			t = c.first(g, w, now)
		}
		if t == nil { // those that are left shun w
			break
		}
		a := &attempts[i]
		c.launch(a, t, w, r.first+probe.ResID(i), riding, now)
		t.way = WayRide
		t.readyAt, t.boundAt = now, now
		r.rides = append(r.rides, a)
		l := t.launch(a, c.view.Trip())
		acts = c.equip(t, w, &l, acts)
		m.Launches = append(m.Launches, l)
	}
	for i := range r.count {
		w.places[r.first+probe.ResID(i)] = r
	}
	g.places.Push(r)
	r.riding = len(r.rides)
	r.queue(int(r.count) - r.riding)
	c.Stats.Places += uint64(r.count)
	c.Stats.Rides += uint64(r.riding)
	if r.riding > 0 {
		c.noteRide(r, now)
	}
	c.view.Occupy(w.Worker, g.Demand, r.riding)
	if g.Policy.Sticky {
		g.budget -= max(1, d.Rides)
	} else {
		g.budget -= int(r.count)
	}
	if g.sampledAt.IsZero() {
		g.sampledAt = now
	}
	// At a worker where others queue, the place's turn is far enough off.
	return append(acts, Send{Worker: w.Key, Msg: m, MayWait: c.dear(g) && d.Rides == 0 && int(w.Load().Queued) >= w.Slots()})
}

// commitLong binds a task to the worker where it was decided to go by estimation, and notes the room that it takes there, if
// that is known.
func (c *ledger) commitLong(x *longTask, w *worker, choice *estimate.Decision, now time.Time, acts []Action) []Action {
	x.blind, x.left, x.latest = 0, 0, time.Time{}
	x.wait, x.run, x.read = 0, x.spec.Work.Mean, 0
	known := choice.Chosen >= 0
	if known {
		at := choice.Choice()
		x.wait, x.run, x.read = max(at.I, at.W), at.R, at.Read // files are fetched while it waits
		if end := now.Add(x.wait + x.run); end.After(x.task.group.ends) {
			x.task.group.ends = end
		}
	}
	c.Stats.Enqueued++
	budget := c.cover(x.task)
	acts = c.enqueue(x.task, w, now, acts)
	a, short := x.task.attempt, x.run < x.spec.LongFrom
	if x.task.isBeyond() {
		c.Stats.Beyond++
		c.owe(x.task.group.job.tenant)
	}
	if a.class == probe.Regular { // what is not stands in nobody's way
		c.view.NotePromise(w.Worker, view.Promise{Attempt: a.id, Res: a.res, Demand: x.spec.Demand, Short: short, Run: x.run})
		if known {
			c.view.OccupyMatrix(w.Worker, x.spec.Demand, short, x.run)
		}
	}
	c.decided(x, choice, w, now).Budget = budget
	return acts
}

// launch makes of a an attempt of t at w, in the given state.
func (c *ledger) launch(a *attempt, t *task, w *worker, res probe.ResID, state taskState, now time.Time) {
	c.make(a, t, w, res, now)
	if state != enqueued {
		a.ran, a.since = true, now
	}
	t.move(state)
	t.attempt, t.copied = a, 0
	if t.near != nil {
		c.wentNear(t, w, now)
	}
	if t.sampledAt.IsZero() {
		t.sampledAt = t.group.sampledAt
	}
	if t.sampledAt.IsZero() {
		t.sampledAt = now
	}
	c.put(a)
}

// make makes of a an attempt of t at w.
func (c *ledger) make(a *attempt, t *task, w *worker, res probe.ResID, now time.Time) {
	c.attempts++
	*a = attempt{id: probe.AttemptID{Frontend: c.cfg.ID, Seq: c.attempts}, job: t.group.job, task: t, w: w, res: res, sent: now, class: t.class()}
	t.attempts++
}

// adopt makes an attempt that was found to run at w one of t.
func (c *ledger) adopt(t *task, w *worker, id probe.AttemptID, ran time.Duration, now time.Time) *attempt {
	a := &attempt{id: id, job: t.group.job, task: t, w: w, ran: true, since: now.Add(-ran), class: t.class()}
	t.attempts++
	a.job.serve()
	c.put(a)
	return a
}

// launch is what the worker of an attempt is told to run, and notes for how long it is expected to.
func (t *task) launch(a *attempt, trip time.Duration) probe.Launch {
	t.expected = t.expect(trip)
	return t.launchAs(a, t.expected)
}

// expect is how long the worker of the task is told that it will run.
func (t *task) expect(trip time.Duration) time.Duration {
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

func (t *task) launchAs(a *attempt, expected time.Duration) probe.Launch {
	s := t.spec
	l := probe.Launch{Attempt: a.id, Task: s.Index, Function: s.Function, Payload: s.Payload, Estimate: expected, Timeout: s.Timeout, Files: s.Files}
	if deadline := t.group.job.deadline; !deadline.IsZero() {
		l.Deadline = max(deadline.Sub(a.sent), 1)
	}
	return l
}

// bind gives the next tasks of a group to the turn of a place, which another job shares if the place is not its own.
func (c *ledger) bind(r *reservation, g *group, m *probe.Ready, now time.Time, acts []Action) []Action {
	w, own, j := r.w, r.group, g.job
	j.serve()
	shared, way := own.job != j, WayLate
	switch {
	case shared:
		way = WayShared
	case m.Early > 0:
		way = WayAhead
	}
	first := new(attempt)
	bind := probe.Bind{Res: m.Res, Turn: m.Turn}
	bind.Launch, acts = c.bindNext(first, g, w, m, way, now, acts)
	if shared {
		bind.Job, bind.Generation = j.ID, j.Generation
		c.Stats.Shared++
		c.log.fates(r).Add(place.Lent, 1)
	} else {
		c.log.fates(r).Add(place.Bound, 1)
	}
	if more := min(g.Bundle(g, place.BundleBytes-first.task.weight())-1, g.Len()); more > 0 {
		attempts := make([]attempt, more) // of one job: none outlives it
		bind.Bundle = c.lent.launches.Take(more)[:0]
		for i := 0; i < more && c.first(g, w, now) != nil; i++ {
			var l probe.Launch
			l, acts = c.bindNext(&attempts[i], g, w, m, WayBundle, now, acts)
			bind.Bundle = append(bind.Bundle, l)
		}
	}
	if bind.Keep = own.Policy.Sticky && c.choose(own, w, now) != nil; bind.Keep {
		c.Stats.Kept++
	} else {
		c.dropPlace(w, m.Res, r, place.Used)
		first.spent = !shared
	}
	c.Stats.Binds++
	acts = append(acts, Send{Worker: w.Key, Msg: bind})
	if j.waiting == 0 && j.Policy.Cancel {
		acts = c.cancelPlaces(j, now, acts)
	}
	if own.live == 0 && own.job.waiting > 0 || own.uneasy() { // used up: a Reserve asks for MaxPlaces at most
		c.want(own)
	}
	c.settle(j, now)
	return acts
}

// bindNext launches the group's next task at the place whose turn has come.
func (c *ledger) bindNext(a *attempt, g *group, w *worker, m *probe.Ready, way Way, now time.Time, acts []Action) (probe.Launch, []Action) {
	t := c.first(g, w, now)
	c.launch(a, t, w, m.Res, bound, now)
	a.turn = m.Turn
	t.readyAt, t.boundAt, t.way = now, now, way
	l := t.launch(a, c.view.Trip())
	return l, c.equip(t, w, &l, acts)
}

// decline gives a turn nothing.
func (c *ledger) decline(w *worker, m *probe.Ready, acts []Action) []Action {
	c.Stats.Declines++
	return append(acts, Send{Worker: w.Key, Msg: probe.Decline{Res: m.Res, Turn: m.Turn}})
}

// enqueue binds t to w, now.
func (c *ledger) enqueue(t *task, w *worker, now time.Time, acts []Action) []Action {
	a := new(attempt)
	c.launch(a, t, w, w.nextRes, enqueued, now)
	t.way = WayEarly
	t.readyAt, t.boundAt = now, now
	return c.sendEarly(a, t.launch(a, c.view.Trip()), now, acts)
}

// sendEarly sends an attempt that is bound early to its worker.
func (c *ledger) sendEarly(a *attempt, launch probe.Launch, now time.Time, acts []Action) []Action {
	t, w, j := a.task, a.w, a.job
	w.nextRes++
	w.enqueued[a.res] = a
	if len(launch.Files) > 0 {
		launch.Files = c.withPeers(launch.Files, w)
	}
	acts = c.equip(t, w, &launch, acts)
	long := t.long != nil && launch.Estimate >= c.cfg.LongTask && !t.long.whole
	return append(acts, Send{Worker: w.Key, Msg: probe.Enqueue{
		Res: a.res, Job: j.ID, Generation: j.Generation, Tenant: j.Tenant, Priority: j.Priority, Demand: t.group.demandAt(w.Worker, long), Launch: launch,
		Long: long, Matrix: t.long != nil, Weights: j.tenant.weights, Standing: t.group.standing(a.class, now),
	}})
}

// withPeers is files, each with the addresses of some workers that are said to have it, for w to ask.
func (c *ledger) withPeers(files []probe.File, w *worker) []probe.File {
	files = slices.Clone(files)
	for i := range files {
		files[i].Peers = c.view.Peers(FileID(files[i].Digest), w.Worker)
	}
	return files
}

// dropPlace forgets a place that no longer exists at w, and notes what became of it.
func (c *ledger) dropPlace(w *worker, id probe.ResID, r *reservation, fate place.Fate) {
	c.log.fates(r).Add(fate, 1)
	switch {
	case r.ride(id) != nil:
		r.rides[id-r.first] = nil
		r.riding--
	default:
		r.queue(-1)
	}
	r.release()
	delete(w.places, id)
}

// settleRide notes what became of a ride: its place is used up.
func (c *ledger) settleRide(a *attempt, fate place.Fate) {
	if r := a.w.places[a.res]; r != nil && r.ride(a.res) == a {
		c.dropPlace(a.w, a.res, r, fate)
	}
}

// queue notes that n more of the places are in the queue, or so many fewer.
func (r *reservation) queue(n int) {
	before := r.live > 0
	r.live += n
	if r.spare {
		return
	}
	g := r.group
	if g.live += n; g.live > 0 && !g.placed {
		g.placed = true
		g.job.placed = append(g.job.placed, g)
	}
	switch after := r.live > 0; {
	case after && !before:
		g.probing++
	case before && !after:
		g.probing--
	}
	if g.near != nil {
		g.near.queued(r, n)
	}
}

// probed is how many probes the live places of the group are worth: a sticky one asked for several places.
func (g *group) probed() int {
	if !g.Policy.Sticky {
		return g.live
	}
	return g.probing
}

// missing is how many probes the waiting tasks of a group are worth that it has not. One without places starts anew.
func (g *group) missing() int {
	worth := g.Probes(g.queue.Len())
	if g.live == 0 {
		g.budget = worth
	}
	return max(worth-g.probed(), g.budget)
}

// release lets go of a reservation of which nothing is left.
func (r *reservation) release() {
	if r.live == 0 && r.riding == 0 {
		r.group.places.Remove(r)
	}
}

// restore believes again in the place that an attempt had used up: with the task, the worker has put it back
// to where it was in the queue.
func (c *ledger) restore(a *attempt) {
	g := a.task.group
	r := &reservation{w: a.w, group: g, first: a.res, count: 1}
	a.w.places[a.res] = r
	g.places.Push(r)
	r.queue(1)
}

// unride takes back a task that rode along and was not started; its place is in the queue.
func (c *ledger) unride(a *attempt, r *reservation) {
	r.rides[a.res-r.first] = nil
	r.riding--
	r.queue(1)
	c.log.fates(r).Add(place.Returned, 1)
	c.note(a, "came back: there was no room")
	c.takeBack(a)
}

// takeBack puts the task of an attempt that never started at the front of those that wait, if there is no other attempt.
func (c *ledger) takeBack(a *attempt) {
	c.dropAttempt(a)
	a.task.attempts--
	if !c.goesOn(a.task) {
		c.await(a.task)
	}
}

// goesOn reports whether a task of which an attempt is gone has another one, which is the only one from now on.
func (c *ledger) goesOn(t *task) bool {
	if t.copy != nil {
		t.promote()
	}
	return t.attempt != nil
}

// promote makes the copy of a task its attempt, in the place of one that is gone.
func (t *task) promote() {
	a := t.copy
	t.attempt, t.copy = a, nil
	t.copied, t.way, t.expected = a.as.decision, WayCopy, a.as.expected
	t.readyAt, t.boundAt = a.sent, a.sent
	if x := t.long; x != nil {
		x.wait, x.run, x.read = a.as.wait, a.as.run, a.as.read
	}
	if x := t.near; x != nil {
		x.read = a.as.read
	}
	to := bound
	switch {
	case a.w.State() == view.Adrift:
		to = adrift
	case !a.ran:
		to = enqueued
	}
	if to != t.state {
		t.move(to)
	}
}

// put notes that an attempt is at its worker.
func (c *ledger) put(a *attempt) {
	a.w.attempts[a.id] = a
	if a.class != probe.Spare {
		c.view.Take(a.w.Worker, a.task.spec.Demand)
	}
	c.running++
}

func (c *ledger) dropAttempt(a *attempt) {
	delete(a.w.attempts, a.id)
	if a.class != probe.Spare {
		c.view.Return(a.w.Worker, a.task.spec.Demand)
	}
	if a.w.enqueued[a.res] == a {
		delete(a.w.enqueued, a.res)
	}
	if a == a.task.copy {
		a.task.copy = nil
	} else {
		a.task.attempt = nil
	}
	c.running--
	c.view.NoteCounted(a.w.Worker, a.id)
	c.checkPresumed(a.job)
}

// dropPlaces forgets the places at w.
func (c *ledger) dropPlaces(w *worker) {
	for id, r := range w.places {
		c.want(r.group)
		c.dropPlace(w, id, r, place.Gone)
	}
}

// spareFor is how long a place that its job needs no more is kept for other jobs: longer than a round trip, so
// that a worker which asks meanwhile does not ask in vain, and so long that one message cancels several.
const spareFor = time.Millisecond

// cancelPlaces withdraws all places of a job but those whose rides may have started. Where turns are shared and
// another job of the tenant waits, they are spare for a while first.
func (c *ledger) cancelPlaces(j *job, now time.Time, acts []Action) []Action {
	keep := j.Policy.Share
	if first := j.tenant.hungry.First(); first == nil || first == j && j.tenant.hungry.Len() == 1 {
		keep = false
		if first := c.hungry.all.First(); first == nil || first == j.tenant && c.hungry.all.Len() == 1 {
			acts = c.cancelSpare(acts)
		}
	}
	slices.SortFunc(j.placed, func(a, b *group) int { return cmp.Compare(a.index, b.index) })
	for _, g := range j.placed {
		for r := range g.places.All() {
			switch {
			case r.live == 0:
			case !keep:
				acts = c.cancel(r, acts)
			case r.riding > 0:
				c.keepSpare(r.split(), now)
			default:
				live := r.live
				r.queue(-live)
				r.release()
				r.live = live
				c.keepSpare(r, now)
			}
		}
		g.placed = false
	}
	j.placed = j.placed[:0]
	return acts
}

// split takes the places of r that are in the queue out of it, and returns them as a reservation of no group.
func (r *reservation) split() *reservation {
	queued := &reservation{w: r.w, group: r.group, first: r.first, count: r.count, live: r.live, sample: r.sample, chosen: r.chosen}
	for i := range r.count {
		if id := r.first + probe.ResID(i); r.w.places[id] == r && r.ride(id) == nil {
			r.w.places[id] = queued
		}
	}
	r.queue(-r.live)
	return queued
}

func (c *ledger) keepSpare(r *reservation, now time.Time) {
	r.spare = true
	if len(r.w.spare) == 0 {
		c.sparing = append(c.sparing, r.w)
	}
	r.w.spare = append(r.w.spare, r)
	if c.spareAt.IsZero() {
		c.spareAt = now.Add(spareFor)
	}
}

// cancelSpare withdraws all spare places.
func (c *ledger) cancelSpare(acts []Action) []Action {
	for i, w := range c.sparing {
		for _, r := range w.spare {
			acts = c.cancel(r, acts)
		}
		clear(w.spare)
		w.spare, c.sparing[i] = w.spare[:0], nil
	}
	c.sparing, c.spareAt = c.sparing[:0], time.Time{}
	return acts
}

// cancel withdraws the places of a reservation that are believed to be in the queue.
func (c *ledger) cancel(r *reservation, acts []Action) []Action {
	var run probe.Cancel
	all := r.live == int(r.count) // none is gone, or rides
	for i := range r.count {
		id := r.first + probe.ResID(i)
		if !all && (r.w.places[id] != r || r.ride(id) != nil) {
			continue
		}
		delete(r.w.places, id)
		if run.Count > 0 && run.First+probe.ResID(run.Count) != id {
			acts = c.sendCancel(r, run, acts)
			run = probe.Cancel{}
		}
		if run.Count == 0 {
			run.First = id
		}
		run.Count++
	}
	if run.Count > 0 {
		acts = c.sendCancel(r, run, acts)
	}
	c.log.fates(r).Add(place.Withdrawn, r.live)
	r.queue(-r.live)
	r.release()
	return acts
}

// dear reports whether messages for a group cost so much that those which may wait for others do: ten that leave by themselves as
// much as the wait. Of tasks that are not short there are too few to save by that what slots lose which ask in vain meanwhile.
func (c *ledger) dear(g *group) bool {
	return 10*c.view.Price() > LingerFor && g.Short(c.view.Trip())
}

func (c *ledger) sendCancel(r *reservation, m probe.Cancel, acts []Action) []Action {
	w := r.w
	c.Stats.Cancels++
	w.cancels[w.nextCancel%len(w.cancels)] = m
	w.nextCancel++
	return append(acts, Send{Worker: w.Key, Msg: m, MayWait: c.dear(r.group)})
}

// cancelled reports whether a Cancel of the place was among the last that w was sent.
func (w *worker) cancelled(id probe.ResID) bool {
	for _, m := range w.cancels {
		if id >= m.First && id < m.First+probe.ResID(m.Count) {
			return true
		}
	}
	return false
}
