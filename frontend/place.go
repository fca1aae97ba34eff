package frontend

import (
	"math"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
)

// place finds workers for the waiting tasks of a group that has no places yet.
func (c *Core) place(g *group, now time.Time, acts []Action) []Action {
	if g.queue.Len() == 0 || g.eligible.Len() == 0 {
		return acts
	}
	p := &g.job.Policy
	if p.Binding != Late {
		return c.placeEarly(g, now, acts)
	}
	m := g.queue.Len()
	g.budget = probes(g, m)
	rides := 0
	if p.RideAlong {
		rides = c.planRides(g, now)
	}
	if rides < m {
		c.planPlaces(g, g.budget-rides, now)
	}
	return c.reserve(g, now, acts)
}

// probes is how many places n tasks of the group are worth.
func probes(g *group, n int) int { return int(math.Ceil(g.job.ProbeRatio * float64(n))) }

// coverGroup gives a group that lost places, or got tasks back, as many places as its waiting tasks are worth.
func (c *Core) coverGroup(g *group, now time.Time, acts []Action) []Action {
	switch {
	case g.queue.Len() == 0 || g.eligible.Len() == 0:
		return acts
	case g.live == 0:
		return c.place(g, now, acts)
	}
	if missing := max(probes(g, g.queue.Len())-g.probed(), g.budget); missing > 0 {
		c.planPlaces(g, missing, now)
		return c.reserve(g, now, acts)
	}
	return acts
}

// resample adds places for a job whose turns do not come: those it has may be at slow workers, or stuck
// behind long tasks. Each time it waits twice as long.
func (c *Core) resample(j *job, now time.Time, acts []Action) []Action {
	j.lag = min(2*j.lag, maxLag)
	j.lagAt = time.Time{}
	for _, g := range j.groups {
		if n := g.queue.Len(); n > 0 && j.Policy.Resample && g.probed() >= probes(g, n) && g.probed() < 4*probes(g, n) {
			c.Stats.Resamples++
			c.planPlaces(g, n, now)
			acts = c.reserve(g, now, acts)
		}
	}
	c.want(j)
	return acts
}

// offer brings waiting tasks to a worker that is believed to have room.
func (c *Core) offer(w *worker, now time.Time, acts []Action) []Action {
	if !w.Idle() {
		return acts
	}
	var room [mostLooked]*job
	for _, j := range c.hungry.first(&room) {
		if j.Policy.Informed && j.Policy.Binding == Late {
			for _, g := range j.groups {
				if !w.Idle() || !g.eligible.Contains(w.Worker) {
					continue
				}
				n := g.riders().upTo(min(g.startable(w, 1), g.mostRides()))
				if n == 0 {
					continue
				}
				if j.Policy.RideAlong && !g.large() {
					c.pick(w, n, 0)
				} else {
					c.pick(w, 0, n)
				}
				c.Stats.Offers++
				acts = c.reserve(g, now, acts)
				c.hungry.served(j.tenant)
			}
			c.settle(j, now)
		}
	}
	return acts
}

// largeJob is how many tasks make a job large: some of its rides would find their worker taken, and the whole job
// waits for them, a round trip longer than if they had been reservations. Its tasks ride only where there is plenty
// of room, and once. Tasks worth bundling are not worth the care.
const largeJob = 20

func (g *group) large() bool { return len(g.job.tasks) > largeJob && g.bundle(bundleBytes) == 1 }

// riders counts waiting tasks, from the front, that are small enough to ride along. It looks only as far as it is asked
// to: a job may have 100,000.
type riders struct {
	of   *group
	next *task
	n    int
}

func (g *group) riders() *riders { return &riders{of: g, next: g.queue.First()} }

// upTo is how many there are, but no more than most.
func (r *riders) upTo(most int) int {
	for r.n < most && r.next != nil && len(r.next.spec.Payload) <= maxRide {
		r.next = r.of.queue.Next(r.next)
		r.n++
	}
	return min(r.n, most)
}

// mostRides is how many may ride with one message.
func (g *group) mostRides() int {
	return min(maxRideBytes/max(g.largestRide, 1), probe.MaxPlaces/2)
}

// pick notes what is to be reserved at w.
func (c *Core) pick(w *worker, rides, extra int) {
	if w.rides+w.extra == 0 {
		c.picked = append(c.picked, w)
	}
	w.rides += rides
	w.extra += extra
}

// startable is how many tasks of the group w could start at once, each slot so many one after the other: by what it said
// last, and by what is known to be there, though it may not have heard of that when it said so.
func (g *group) startable(w *worker, bundle int) int {
	return bundle * w.Room(g.demand)
}

// planRides sends tasks along to workers believed to have room, and what is left of short ones to a random sample; where
// the view is not to be used, all of them. It returns how many tasks ride.
func (c *Core) planRides(g *group, now time.Time) int {
	all := g.riders()
	rides := 0
	if g.job.Policy.Informed {
		if plenty := len(c.view.Idle()) / 2; g.large() && all.upTo(plenty+1) > plenty {
			return 0
		}
		rides = c.rideToIdle(g, all)
		if g.large() || !c.short(g) {
			return rides
		}
	}
	for i := 0; i < g.eligible.Len() && all.upTo(rides+1) > rides; i++ {
		if w := c.at(g.eligible.Draw(i, c.rand)); w.rides == 0 && !c.view.IsHeld(w.Worker, now) {
			c.pick(w, 1, 0)
			rides++
		}
	}
	return rides
}

// rideToIdle sends tasks along to workers believed to have room, one each, then one more each while room
// is left. Tasks worth bundling fill one worker after the other instead: each message costs more than they do.
func (c *Core) rideToIdle(g *group, all *riders) (rides int) {
	bundle := g.bundle(bundleBytes)
	most := g.mostRides()
	more := func() bool { return all.upTo(rides+1) > rides }
	take := func(w *worker) {
		n := min(most, g.startable(w, bundle))
		if bundle == 1 {
			n = min(n, 1)
		}
		if n = all.upTo(rides+n) - rides; n > 0 {
			c.pick(w, n, 0)
			rides += n
		}
	}
	if g.eligible.Len() < len(c.view.Idle()) {
		for i := 0; i < g.eligible.Len() && more(); i++ {
			if w := c.at(g.eligible.Draw(i, c.rand)); w.Idle() {
				take(w)
			}
		}
	} else {
		for i := 0; i < len(c.view.Idle()) && more(); i++ {
			w := c.at(c.view.DrawIdle(i))
			if g.eligible.Contains(w.Worker) {
				take(w)
			}
		}
	}
	for before := -1; before < rides; {
		before = rides
		for _, w := range c.picked {
			if more() && w.rides < min(most, g.startable(w, bundle)) {
				w.rides++
				rides++
			}
		}
	}
	return rides
}

// maxSticky bounds the places of a group at one worker: on wide workers more of them only cost messages.
const maxSticky = 8

// briefRun is how long tasks run that are over before a worker which asks for one in vain has had its answer
// several times. Of a group of such tasks, one place at each worker must do.
const briefRun = 3 * time.Millisecond

func (g *group) brief() bool {
	run := g.run()
	return run > 0 && run < briefRun
}

// run is near the longest that a task of the group is believed to run; 0 if nothing is known. Of tasks with an estimate
// it goes by that, of those without one by the function's history.
func (g *group) run() time.Duration {
	if g.unhinted {
		return max(g.atMost, g.history.Longest())
	}
	return g.atMost
}

// hint takes the estimate of a task of the group into account, as far as its function's history lets it stand.
func (g *group) hint(d time.Duration) {
	if d == 0 {
		g.unhinted = true
		return
	}
	d = g.history.Correct(d)
	g.estimate += d
	g.hinted++
	g.atMost = max(g.atMost, d)
}

// shortRun is how many round trips tasks run of which it is true that a slot waiting for a place to be answered costs
// more than the messages that it saves.
const shortRun = 30

// short reports whether the group's tasks run for so few round trips, though they are not brief. They ride to any
// workers where no idle one is known, their places are not kept, for of those many ask in vain, and their turns are not
// shared. For brief ones it is the other way round: what they wait for is CPU, of which messages take most.
func (c *Core) short(g *group) bool {
	run := g.run()
	return run >= briefRun && run < shortRun*c.view.Trip()
}

// planPlaces probes n workers of a random sample: first those where the group has no place and none is
// planned, then any. A sticky place comes round again and again, but only in one slot at a time, so there it
// asks for one in each slot; without that, a job could not have all the slots that fall free together at a
// worker, and later ones would overtake it. Workers that are held by long tasks come last.
func (c *Core) planPlaces(g *group, n int, now time.Time) {
	holds := map[*worker]bool{}
	for r := range g.places.All() {
		if r.live > 0 {
			holds[r.w] = true
		}
	}
	each := func(w *worker) int {
		if g.sticky && !g.brief() {
			return max(1, min(g.demand.Times(w.Welcome().Capacity), g.queue.Len(), maxSticky))
		}
		return 1
	}
	spared := 0 // how many held ones may be passed over
	if c.view.Held() > 0 {
		spared = 64 + 8*n
	}
	for i := 0; i < g.eligible.Len() && n > 0; i++ {
		w := c.at(g.eligible.Draw(i, c.rand))
		if spared > 0 && c.view.IsHeld(w.Worker, now) {
			spared--
			continue
		}
		if !holds[w] && w.rides+w.extra == 0 {
			c.pick(w, 0, each(w))
			n--
		}
	}
	for more := true; more && n > 0; {
		more = false
		for _, row := range g.eligible.Workers() {
			w := c.at(row)
			if n == 0 {
				break
			}
			if g.sticky && (holds[w] || w.extra > 0) || w.rides+w.extra == probe.MaxPlaces {
				continue
			}
			c.pick(w, 0, each(w))
			n--
			more = true
		}
	}
}

// probed is how many probes the live places of the group are worth: a sticky one asked for several places.
func (g *group) probed() int {
	if !g.sticky {
		return g.live
	}
	return g.probing
}

// reserve carries out what was planned for a group.
func (c *Core) reserve(g *group, now time.Time, acts []Action) []Action {
	j := g.job
	for _, w := range c.picked {
		r := &reservation{w: w, group: g, first: w.nextRes, count: uint32(w.rides + w.extra), riding: w.rides}
		m := probe.Reserve{
			First: r.first, Count: r.count, Job: j.ID, Tenant: j.Tenant, Priority: j.Priority,
			Demand: g.demand, Estimate: g.estimate, Early: j.Policy.Overlap, Generation: j.Generation,
		}
		if w.rides > 0 {
			m.Bundle = uint32((g.bundle(bundleBytes) - 1) * w.Slots())
		}
		w.nextRes += probe.ResID(r.count)
		for i := range w.rides {
			t := g.queue.First()
			a := c.launch(t, w, r.first+probe.ResID(i), riding, now)
			t.readyAt, t.boundAt = now, now
			r.rides = append(r.rides, a)
			m.Launches = append(m.Launches, t.launch(a.id))
		}
		for i := range r.count {
			w.places[r.first+probe.ResID(i)] = r
		}
		g.places.Push(r)
		r.queue(w.extra)
		c.Stats.Places += uint64(r.count)
		c.Stats.Rides += uint64(w.rides)
		c.view.Occupy(w.Worker, g.demand, w.rides)
		if g.sticky {
			g.budget -= max(1, w.rides)
		} else {
			g.budget -= int(r.count)
		}
		// At a worker where others queue, the place's turn is far enough off.
		acts = append(acts, Send{Worker: w.Key, Msg: m, MayWait: g.brief() && w.rides == 0 && int(w.Load().Queued) >= w.Slots()})
		w.rides, w.extra = 0, 0
	}
	if g.sampledAt.IsZero() {
		g.sampledAt = now
	}
	g.budget = max(g.budget, 0)
	c.picked = c.picked[:0]
	if j.waiting == 0 && j.Policy.Cancel && slices.ContainsFunc(j.groups, func(g *group) bool { return g.live > 0 }) {
		acts = c.cancelPlaces(j, now, acts) // all ride now; one that comes back finds its place kept
	}
	return acts
}

// launch makes an attempt of t at w, in the given state.
func (c *Core) launch(t *task, w *worker, res probe.ResID, state taskState, now time.Time) *attempt {
	c.attempts++
	a := &attempt{
		id: probe.AttemptID{Frontend: c.cfg.ID, Seq: c.attempts}, job: t.group.job, task: t, w: w, res: res,
		sent: now, ran: state != enqueued,
	}
	t.move(state)
	t.attempt = a
	t.attempts++
	if t.sampledAt.IsZero() {
		t.sampledAt = t.group.sampledAt
	}
	if t.sampledAt.IsZero() {
		t.sampledAt = now
	}
	c.put(a)
	return a
}

func (t *task) launch(id probe.AttemptID) probe.Launch {
	s := t.spec
	expected := t.group.history.Correct(s.Estimate)
	switch {
	case t.long != nil:
		expected = t.long.run
	case expected == 0 && t.group.job.Policy.Overlap:
		expected = t.group.history.Steady(briefRun)
	}
	l := probe.Launch{Attempt: id, Task: s.Index, Function: s.Function, Payload: s.Payload, Estimate: expected, Timeout: s.Timeout, Files: s.Files}
	if deadline := t.group.job.deadline; !deadline.IsZero() {
		l.Deadline = max(deadline.Sub(t.attempt.sent), 1)
	}
	return l
}

// ride is the attempt that was sent along with place id and of which nothing is known yet, or nil.
func (r *reservation) ride(id probe.ResID) *attempt {
	if i := int(id - r.first); i < len(r.rides) {
		return r.rides[i]
	}
	return nil
}

// dropPlace forgets a place that no longer exists at w.
func (c *Core) dropPlace(w *worker, id probe.ResID, r *reservation) {
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

// queue notes that n more of the places are in the queue, or so many fewer.
func (r *reservation) queue(n int) {
	before := r.live > 0
	r.live += n
	if r.spare {
		return
	}
	g := r.group
	g.live += n
	switch after := r.live > 0; {
	case after && !before:
		g.probing++
	case before && !after:
		g.probing--
	}
}

// release lets go of a reservation of which nothing is left.
func (r *reservation) release() {
	if r.live == 0 && r.riding == 0 {
		r.group.places.Remove(r)
	}
}

// ready gives a place whose turn has come a waiting task of its job, or declines.
func (c *Core) ready(w *worker, m *probe.Ready, now time.Time, acts []Action) []Action {
	r := w.places[m.Res]
	if r == nil && w.cancelled(m.Res) {
		return acts // the Cancel is on its way
	}
	if r == nil {
		c.Stats.Declines++
		return append(acts, Send{Worker: w.Key, Msg: probe.Decline{Res: m.Res, Turn: m.Turn}})
	}
	if a := r.ride(m.Res); a != nil {
		c.unride(a, r) // its Queued was overtaken
	}
	g := c.choose(r.group, w)
	shared := g == nil
	if shared {
		g = c.share(r.group, w)
	}
	if g == nil {
		c.dropPlace(w, m.Res, r)
		c.Stats.Declines++
		return append(acts, Send{Worker: w.Key, Msg: probe.Decline{Res: m.Res, Turn: m.Turn}})
	}
	j := g.job
	j.served = true
	bind := probe.Bind{Res: m.Res, Turn: m.Turn, Launch: c.bindNext(g, w, m, now)}
	if shared {
		bind.Job, bind.Generation = j.ID, j.Generation
		c.Stats.Shared++
	}
	for n := g.turn(w, bundleBytes-len(bind.Launch.Payload)); n > 1 && g.queue.Len() > 0; n-- {
		bind.Bundle = append(bind.Bundle, c.bindNext(g, w, m, now))
	}
	keep := !shared && r.group.sticky && c.choose(r.group, w) != nil
	if keep {
		c.Stats.Kept++
	} else {
		c.dropPlace(w, m.Res, r)
		w.attempts[bind.Launch.Attempt].spent = !shared
	}
	c.Stats.Binds++
	bind.Keep = keep
	acts = append(acts, Send{Worker: w.Key, Msg: bind})
	if j.waiting == 0 && j.Policy.Cancel {
		acts = c.cancelPlaces(j, now, acts)
	}
	if own := r.group; own.live == 0 && own.job.waiting > 0 { // used up: a Reserve asks for MaxPlaces at most
		c.want(own.job)
	}
	c.settle(j, now)
	return acts
}

// bindNext launches the group's next task at the place whose turn has come.
func (c *Core) bindNext(g *group, w *worker, m *probe.Ready, now time.Time) probe.Launch {
	t := g.queue.First()
	a := c.launch(t, w, m.Res, bound, now)
	a.turn = m.Turn
	t.readyAt, t.boundAt = now, now
	return t.launch(a.id)
}

const (
	// bundleTime is how long the tasks of a bundle should take together, at most: less than a round trip.
	bundleTime  = 40 * time.Microsecond
	maxBundle   = 32
	bundleBytes = 64 << 10
)

// bundle is how many of the waiting tasks one message gets, if their payloads are to fit into so many bytes.
func (g *group) bundle(bytes int) int {
	if !g.job.Policy.Bundle || !g.history.Any() {
		return 1
	}
	return g.fitting(int(bundleTime/g.history.Longest()), bytes) // none of it may be held up by one that takes longer
}

// turn is how many a turn at w gets. Of brief tasks it gets more where so many others queue that what waits behind
// the slots of w until one falls free loses nothing by it.
func (g *group) turn(w *worker, bytes int) int {
	if g.job.Policy.Bundle && g.brief() && w.Slots() > 0 {
		if n := min(w.Slots(), 1+int(w.Load().Queued)/(2*w.Slots())); n > 1 {
			return g.fitting(n, bytes)
		}
	}
	return g.bundle(bytes)
}

// fitting is n, or as many of the waiting tasks as fit into so many bytes.
func (g *group) fitting(n, bytes int) int {
	n = max(min(n, maxBundle), 1)
	fit := 1
	for t := range g.queue.All() {
		if fit == n {
			break
		}
		if bytes -= len(t.spec.Payload); bytes < 0 {
			return fit
		}
		fit++
	}
	return n
}

// choose is the group whose first waiting task a place of group g at w gets: its own, or any other of the
// job that w satisfies and the place has room for (Sparrow, section 4.1). Nil if none waits.
func (c *Core) choose(g *group, w *worker) *group {
	if g.queue.Len() > 0 {
		return g
	}
	if g.job.waiting == 0 {
		return nil
	}
	for _, other := range g.job.groups {
		if other.queue.Len() > 0 && other.eligible.Contains(w.Worker) && other.demand.Fits(g.demand) {
			return other
		}
	}
	return nil
}

// share is the group of another job of the tenant, the oldest one first, whose next task a turn at w gets that place group g
// does not need: one for which the worker would have put the place where it was. Nil if none waits.
func (c *Core) share(g *group, w *worker) *group {
	j := g.job
	t := c.tenants[j.Tenant] // j.tenant, unless j has ended
	if !j.Policy.Share || c.short(g) || t == nil {
		return nil
	}
	looked := 0
	for k := range t.hungry.All() {
		if looked++; looked > mostLooked {
			break
		}
		if !k.Policy.Share || k.Priority != j.Priority {
			continue
		}
		for _, other := range k.groups {
			if other.queue.Len() > 0 && other.eligible.Contains(w.Worker) && other.demand.Fits(g.demand) &&
				(g.estimate == 0 || other.estimate > 0 && other.estimate <= g.estimate) {
				return other
			}
		}
	}
	return nil
}

// unride takes back a task that rode along and was not started; its place is in the queue.
func (c *Core) unride(a *attempt, r *reservation) {
	r.rides[a.res-r.first] = nil
	r.riding--
	r.queue(1)
	c.takeBack(a)
}

// takeBack puts the task of an attempt that never started at the front of those that wait.
func (c *Core) takeBack(a *attempt) {
	c.dropAttempt(a)
	a.task.attempts--
	c.await(a.task)
}

// await lets a task wait for what it needs next: the stages before its own, a batch to be matched, or a place's turn.
func (c *Core) await(t *task) {
	switch {
	case t.group.job.blocks(t.group): // also if it was claimed, and of a stage before its own not all is known to have ended
		t.move(blocked)
	case t.group.path == estimate.Estimation:
		c.estimated(t)
	default:
		t.move(waiting)
	}
}

// put notes that an attempt is at its worker.
func (c *Core) put(a *attempt) {
	a.w.attempts[a.id] = a
	c.view.Take(a.w.Worker, a.task.spec.Demand)
	c.running++
}

func (c *Core) dropAttempt(a *attempt) {
	delete(a.w.attempts, a.id)
	c.view.Return(a.w.Worker, a.task.spec.Demand)
	if a.w.enqueued[a.res] == a {
		delete(a.w.enqueued, a.res)
	}
	a.task.attempt = nil
	c.running--
	c.view.Counted(a.w.Worker, a.id)
}

// queued takes back the rides that did not start.
func (c *Core) queued(w *worker, m *probe.Queued) {
	for i := m.Count; i > 0; i-- { // the first one goes to the front last
		id := m.First + probe.ResID(i-1)
		if r := w.places[id]; r != nil {
			if a := r.ride(id); a != nil {
				c.unride(a, r)
				c.want(r.group.job)
			}
		}
	}
}

// cancelPlaces withdraws all places of a job but those whose rides may have started. Where turns are shared and
// another job of the tenant waits, they are spare for a while first.
func (c *Core) cancelPlaces(j *job, now time.Time, acts []Action) []Action {
	keep := j.Policy.Share && !slices.ContainsFunc(j.groups, c.short)
	if first := j.tenant.hungry.First(); first == nil || first == j && j.tenant.hungry.Len() == 1 {
		keep = false
		if first := c.hungry.all.First(); first == nil || first == j.tenant && c.hungry.all.Len() == 1 {
			acts = c.cancelSpare(acts)
		}
	}
	for _, g := range j.groups {
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
	}
	return acts
}

// split takes the places of r that are in the queue out of it, and returns them as a reservation of no group.
func (r *reservation) split() *reservation {
	queued := &reservation{w: r.w, group: r.group, first: r.first, count: r.count, live: r.live}
	for i := range r.count {
		if id := r.first + probe.ResID(i); r.w.places[id] == r && r.ride(id) == nil {
			r.w.places[id] = queued
		}
	}
	r.queue(-r.live)
	return queued
}

func (c *Core) keepSpare(r *reservation, now time.Time) {
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
func (c *Core) cancelSpare(acts []Action) []Action {
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
func (c *Core) cancel(r *reservation, acts []Action) []Action {
	var run probe.Cancel
	for i := range r.count {
		id := r.first + probe.ResID(i)
		if r.w.places[id] != r || r.ride(id) != nil {
			continue
		}
		c.dropPlace(r.w, id, r)
		if run.Count > 0 && run.First+probe.ResID(run.Count) != id {
			acts = c.sendCancel(r.w, run, r.group.brief(), acts)
			run = probe.Cancel{}
		}
		if run.Count == 0 {
			run.First = id
		}
		run.Count++
	}
	if run.Count > 0 {
		acts = c.sendCancel(r.w, run, r.group.brief(), acts)
	}
	return acts
}

func (c *Core) sendCancel(w *worker, m probe.Cancel, brief bool, acts []Action) []Action {
	c.Stats.Cancels++
	w.cancels[w.nextCancel%len(w.cancels)] = m
	w.nextCancel++
	return append(acts, Send{Worker: w.Key, Msg: m, MayWait: brief})
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
