package frontend

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/list"
)

// workerState is how a worker's link stands.
type workerState uint8

const (
	down workerState = iota
	up
	lost     // the link broke; it may come back in time
	draining // the worker leaves
)

// worker is what the frontend believes of a worker: a hint, except for what it itself sent there.
type worker struct {
	key       Worker
	state     workerState
	listed    bool   // a link to it is up, or is to be made
	awaited   bool   // it is listed, and nothing has come of the link to it yet
	address   string // as the list has it
	welcome   probe.Welcome
	functions map[string]bool
	load      probe.Load // as last heard, less what was sent there since
	heardAt   int64      // when that was, as Unix time in nanoseconds
	slots     int
	idleAt    int // position in Core.idle plus one

	nextRes  probe.ResID
	places   map[probe.ResID]*reservation
	attempts map[probe.AttemptID]*attempt
	enqueued map[probe.ResID]*attempt // those that were bound early
	taken    probe.Demand             // by all attempts
	acks     []probe.AttemptID
	spare    []*reservation // to be cancelled soon

	cancels    [8]probe.Cancel // the last ones that were sent
	nextCancel int

	lostAt time.Time
	ackAt  time.Time
	syncAt time.Time
	wakeAt time.Time
	pos    int

	rides, extra int // scratch of place: what is planned for it

	untold    []*attempt // placed by estimation, and not yet counted in what it says
	askedAt   time.Time  // when its matrix was asked for; zero: it answered
	heldUntil time.Time  // short tasks keep away, as long tasks hold it; zero: they need not
	heardSeq  uint64     // of the last Heard that counted
	leaves    bool       // it said that it will
	failing   bool       // the last task that ended there by itself failed
}

func (w *worker) Before(v *worker) bool {
	if !w.wakeAt.Equal(v.wakeAt) {
		return w.wakeAt.Before(v.wakeAt)
	}
	return w.key < v.key
}
func (w *worker) Pos() *int { return &w.pos }

// open is the part of it that long tasks may use.
func (w *worker) open() probe.Demand {
	if w.welcome.Open == (probe.Demand{}) {
		return w.welcome.Capacity
	}
	return w.welcome.Open
}

// eligible is the workers that are up and may run a kind of task.
type eligible struct {
	matches func(*worker) bool
	workers []*worker // in no order: sampling shuffles it
	few     bool      // they are looked for among workers: a job may name many sets
	member  []bool    // by Worker, of others

	groups   list.List[*group]  // of the jobs under way
	unserved map[*tenant][]*job // those that wait for their first task, oldest first, and some that no longer do
}

func (e *eligible) has(w *worker) bool { return e.Has(int32(w.key)) }

// Has, Len and At make it a pool of package estimate.
func (e *eligible) Has(key int32) bool {
	if e.few {
		return slices.ContainsFunc(e.workers, func(w *worker) bool { return int32(w.key) == key })
	}
	return int(key) < len(e.member) && e.member[key]
}
func (e *eligible) Len() int       { return len(e.workers) }
func (e *eligible) At(i int) int32 { return int32(e.workers[i].key) }

func (e *eligible) add(w *worker) {
	if e.has(w) || !e.matches(w) {
		return
	}
	if !e.few {
		for int(w.key) >= len(e.member) {
			e.member = append(e.member, false)
		}
		e.member[w.key] = true
	}
	if e.workers = append(e.workers, w); len(e.workers) == 1 {
		for g := range e.groups.All() {
			g.job.lone = slices.DeleteFunc(g.job.lone, func(h *group) bool { return h == g })
		}
	}
}

func (e *eligible) remove(w *worker) {
	if e.has(w) {
		if !e.few {
			e.member[w.key] = false
		}
		i := slices.Index(e.workers, w)
		e.workers[i] = e.workers[len(e.workers)-1]
		if e.workers = e.workers[:len(e.workers)-1]; len(e.workers) == 0 {
			for g := range e.groups.All() {
				g.job.lone = append(g.job.lone, g)
			}
		}
	}
}

// maxSets is from how many eligible sets on those are looked for that no job uses, each time there are twice as many as
// were left the last time.
const maxSets = 256

func eligibleKey(t *Task, of *Constraint) string {
	if len(of.Labels)+len(of.Hosts)+len(t.Constraint.Labels)+len(t.Constraint.Hosts)+len(t.Files) == 0 && t.Demand == probe.Slot {
		return t.Function
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\x00%d\x00%d\x00%t", t.Function, t.Demand.CPU, t.Demand.Mem, len(t.Files) > 0)
	for _, part := range [][]string{of.Labels, of.Hosts, t.Constraint.Labels, t.Constraint.Hosts} {
		b.WriteByte(0)
		for _, s := range part {
			b.WriteByte(1)
			b.WriteString(s)
		}
	}
	return b.String()
}

// eligibleFor finds or makes the set of workers that may run t, of job j, which is being admitted.
func (c *Core) eligibleFor(key string, t *Task, j *job) *eligible {
	if e := c.sets[key]; e != nil {
		return e
	}
	if len(c.sets) >= max(maxSets, c.sweepSets) {
		used := map[*eligible]bool{} // by j, which is not under way yet
		for _, g := range j.groups {
			used[g.eligible] = true
		}
		maps.DeleteFunc(c.sets, func(_ string, e *eligible) bool { return e.groups.Len() == 0 && !used[e] })
		c.sweepSets = 2 * len(c.sets)
	}
	function, demand, of, own, files := t.Function, t.Demand, j.Constraint, t.Constraint, len(t.Files) > 0
	e := &eligible{unserved: map[*tenant][]*job{}, matches: func(w *worker) bool {
		m := &w.welcome
		return w.functions[function] && demand.Fits(m.Capacity) && (!files || m.Cache != "") &&
			of.Matches(m.Labels, m.Host, m.Worker) && own.Matches(m.Labels, m.Host, m.Worker)
	}}
	if hosts := slices.Concat(of.Hosts, own.Hosts); len(hosts) > 0 {
		e.few = len(hosts) <= 4
		for _, at := range hosts {
			for _, key := range c.long.fleet.At(at) {
				if w := c.workers[key]; w.state == up {
					e.add(w)
				}
			}
		}
	} else {
		for _, w := range c.workers {
			if w != nil && w.state == up {
				e.add(w)
			}
		}
	}
	if len(e.workers) > 0 {
		c.sets[key] = e
	}
	return e
}

// maxHistories bounds the functions that are remembered; only those that a worker has are ever learnt.
const maxHistories = 4096

func (c *Core) historyOf(function string) *history {
	h := c.learnt[function]
	if h == nil {
		if len(c.learnt) >= maxHistories {
			clear(c.learnt)
		}
		h = &history{}
		c.learnt[function] = h
	}
	return h
}

func (c *Core) worker(key Worker) *worker {
	if int(key) < len(c.workers) {
		return c.workers[key]
	}
	return nil
}

// heard takes what a worker said of its load into the view.
func (c *Core) heard(w *worker, load probe.Load, at time.Time) {
	w.load, w.heardAt = load, at.UnixNano()
	c.believe(w)
	if load.Matrix != nil || !w.heldUntil.IsZero() {
		c.heardMore(w, at)
	}
}

// heardMore takes into the view what concerns long tasks.
func (c *Core) heardMore(w *worker, at time.Time) {
	m := w.load.Matrix
	w.load.Matrix = nil
	if probe.Slot.Fits(w.load.Free) {
		c.release(w)
	}
	if m != nil {
		c.told(w, m, at)
	}
}

// believe keeps the list of idle workers in step with what is believed of w.
func (c *Core) believe(w *worker) {
	idle := w.state == up && w.load.Queued == 0 && probe.Slot.Fits(w.load.Free)
	switch {
	case idle && w.idleAt == 0:
		c.idle = append(c.idle, w)
		w.idleAt = len(c.idle)
	case !idle && w.idleAt > 0:
		last := c.idle[len(c.idle)-1]
		c.idle[w.idleAt-1] = last
		last.idleAt = w.idleAt
		c.idle = c.idle[:len(c.idle)-1]
		w.idleAt = 0
	}
}

// occupy notes that room at w was given away, until w is heard of again.
func (c *Core) occupy(w *worker, d probe.Demand, n int) {
	w.load.Free = probe.Demand{CPU: w.load.Free.CPU - d.CPU*probe.Millicores(n), Mem: w.load.Free.Mem - d.Mem*probe.MiB(n)}
	c.believe(w)
}

func (c *Core) workerUp(ev WorkerUp, now time.Time, acts []Action) []Action {
	w := c.known(ev.Worker)
	switch w.state {
	case up, draining:
		acts = c.plan(now, c.linkLost(w, now, acts)) // the shell made a new link before it saw the old one break
	}
	if w.state == lost && w.welcome.Incarnation != ev.Welcome.Incarnation {
		acts = c.workerGone(w, now, acts)
	}

	fresh := w.welcome.Incarnation != ev.Welcome.Incarnation
	if fresh {
		w.heardSeq = 0
	}
	w.welcome, w.listed, w.awaited = ev.Welcome, true, false
	w.state = up
	if ev.Welcome.Draining {
		w.state = draining
	}
	w.functions = make(map[string]bool, len(ev.Welcome.Functions))
	for _, f := range ev.Welcome.Functions {
		w.functions[f] = true
	}
	w.leaves, w.askedAt = ev.Welcome.Draining, time.Time{}
	w.load, w.heardAt = probe.Load{Free: ev.Welcome.Capacity}, now.UnixNano()
	c.enlist(w)
	w.slots = probe.Slot.Times(ev.Welcome.Capacity)
	w.syncAt = now.Add(time.Duration(c.rand.Int64N(int64(c.cfg.SyncEvery)))) // spread over the fleet
	for _, a := range w.attemptsInOrder() {
		c.Stats.Claims++
		acts = append(acts, Send{Worker: w.key, Msg: probe.Claim{Job: a.job.ID, Attempt: a.id, Generation: a.job.Generation}})
	}
	for _, j := range c.jobsWhere(func(j *job) bool { return j.asked[w] || fresh && j.Generation > 0 }) {
		acts = c.askFor(j, w, acts)
	}
	if w.state == up {
		c.slots += w.slots
		for _, e := range c.sets {
			e.add(w)
		}
		c.believe(w)
		c.wantAll = true
	}
	c.setTimer(w)
	return acts
}

// drain stops sending anything new to w.
func (c *Core) drain(w *worker) {
	if w.state == up {
		c.withdraw(w)
		w.state = draining
	}
	w.leaves = true
}

// withdraw takes a worker that was up out of everything that is sampled.
func (c *Core) withdraw(w *worker) {
	if w.state == up {
		c.slots -= w.slots
	}
	for _, e := range c.sets {
		e.remove(w)
	}
	w.load = probe.Load{}
	c.believe(w)
	c.strike(w)
}

// linkLost forgets the places at w, which it has dropped or will, and leaves its attempts adrift.
func (c *Core) linkLost(w *worker, now time.Time, acts []Action) []Action {
	if w.state != up && w.state != draining {
		return acts
	}
	c.withdraw(w)
	w.state, w.lostAt = lost, now
	w.acks = w.acks[:0]
	c.dropPlaces(w)
	for _, a := range w.attemptsInOrder() {
		if a.task.state != adrift { // else it was being claimed when the link broke again
			a.task.move(adrift)
		}
	}
	acts = c.forgetRounds(w, now, acts)
	c.setTimer(w)
	return acts
}

// workerGone counts every attempt at w as lost.
func (c *Core) workerGone(w *worker, now time.Time, acts []Action) []Action {
	acts = c.plan(now, c.linkLost(w, now, acts))
	if w.state != down && !w.leaves {
		c.long.fleet.Lost(int32(w.key), now)
	}
	c.long.fleet.Remove(int32(w.key))
	w.state, w.awaited = down, false
	for _, a := range slices.Backward(w.attemptsInOrder()) { // the task of the first one goes to the front last
		acts = c.lose(a, true, fmt.Sprintf("worker %s went away", w.welcome.Worker), now, acts)
	}
	acts = c.plan(now, acts)
	for _, j := range c.jobsWhere(func(j *job) bool { return j.asked[w] }) {
		acts = c.plan(now, c.answered(j, w, now, acts))
	}
	c.setTimer(w)
	return acts
}

// dropPlaces forgets the places at w.
func (c *Core) dropPlaces(w *worker) {
	for id, r := range w.places {
		c.want(r.group.job)
		c.dropPlace(w, id, r)
	}
}

// wakeWorker acts on what w's timer was set for.
func (c *Core) wakeWorker(w *worker, now time.Time, acts []Action) []Action {
	if w.state == lost && now.Sub(w.lostAt) >= c.cfg.AdriftFor {
		return c.workerGone(w, now, acts)
	}
	if w.state == up || w.state == draining {
		if len(w.acks) > 0 && !now.Before(w.ackAt) {
			acts = c.flushAcks(w, acts)
		}
		if !now.Before(w.syncAt) {
			w.syncAt = now.Add(c.cfg.SyncEvery)
			acts = append(acts, Send{Worker: w.key, Msg: w.sync()})
		}
	}
	c.setTimer(w)
	return acts
}

func (c *Core) setTimer(w *worker) {
	c.byTimer.Remove(w)
	switch w.state {
	case down:
		return
	case lost:
		w.wakeAt = w.lostAt.Add(c.cfg.AdriftFor)
	default:
		w.wakeAt = w.syncAt
		if len(w.acks) > 0 && w.ackAt.Before(w.syncAt) {
			w.wakeAt = w.ackAt
		}
	}
	c.byTimer.Push(w)
}

// ack tells w that a result arrived: soon, or at once if this frontend leaves.
func (c *Core) ack(w *worker, id probe.AttemptID, now time.Time, acts []Action) []Action {
	w.acks = append(w.acks, id)
	switch {
	case len(w.acks) == ackBatch || c.leaving:
		acts = c.flushAcks(w, acts)
	case len(w.acks) == 1:
		w.ackAt = now.Add(ackDelay)
		c.setTimer(w)
	}
	return acts
}

// leave takes no new jobs from here on, and lets no result wait to be acknowledged: whoever was to do it later would be
// gone, and the worker keep it until it is sure of that.
func (c *Core) leave(acts []Action) []Action {
	c.leaving = true
	for _, w := range c.workers {
		if w != nil && len(w.acks) > 0 {
			acts = c.flushAcks(w, acts)
		}
	}
	return acts
}

func (c *Core) flushAcks(w *worker, acts []Action) []Action {
	acts = append(acts, Send{Worker: w.key, Msg: probe.Ack{Attempts: slices.Clone(w.acks)}})
	w.acks = w.acks[:0]
	return acts
}

// sync is all that the frontend believes of the link.
func (w *worker) sync() probe.Sync {
	m := probe.Sync{Next: w.nextRes}
	ids := make([]probe.ResID, 0, len(w.places))
	for id, r := range w.places {
		if r.ride(id) == nil { // of a place whose task rides along we know only that it was sent
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		if n := len(m.Live); n > 0 && m.Live[n-1].First+probe.ResID(m.Live[n-1].Count) == id && m.Live[n-1].Count < probe.MaxPlaces {
			m.Live[n-1].Count++
		} else {
			m.Live = append(m.Live, probe.Range{First: id, Count: 1})
		}
	}
	for _, a := range w.attemptsInOrder() {
		m.Attempts = append(m.Attempts, a.id)
	}
	return m
}

func (w *worker) attemptsInOrder() []*attempt {
	as := make([]*attempt, 0, len(w.attempts))
	for _, a := range w.attempts {
		as = append(as, a)
	}
	slices.SortFunc(as, func(a, b *attempt) int {
		return cmp.Or(cmp.Compare(a.id.Frontend, b.id.Frontend), cmp.Compare(a.id.Seq, b.id.Seq))
	})
	return as
}

func compareJobs(a, b *job) int {
	return cmp.Or(a.submitted.Compare(b.submitted), slices.Compare(a.ID[:], b.ID[:]))
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

func join(a, b Constraint) string {
	switch {
	case a.String() == "":
		return b.String()
	case b.String() == "":
		return a.String()
	}
	return a.String() + " and " + b.String()
}

// WorkerStatus is what a frontend believes of a worker, for people.
type WorkerStatus struct {
	State        string // up, adrift, draining or down
	Welcome      probe.Welcome
	Load         probe.Load
	Reservations int
	Attempts     int
	// View is what placing by estimation goes by, but that nobody is said to wait at a worker which was idle when it was
	// last heard of; zero if the worker is down.
	View estimate.Server
}

var stateNames = [...]string{down: "down", up: "up", lost: "adrift", draining: "draining"}

// Status is what is believed of a worker.
func (c *Core) Status(key Worker) (WorkerStatus, bool) {
	w := c.worker(key)
	if w == nil || w.welcome.Worker == "" { // it is only listed
		return WorkerStatus{}, false
	}
	s := WorkerStatus{State: stateNames[w.state], Welcome: w.welcome, Load: w.load, Reservations: len(w.places), Attempts: len(w.attempts)}
	if row := c.long.fleet.Get(int32(key)); row != nil {
		s.View = *row
		if at := time.Unix(0, w.heardAt); row.Matrix != nil && row.Heard.Before(at) && s.Reservations+s.Attempts == 0 && w.load.Queued+w.load.Running == 0 {
			s.View.Matrix, s.View.Heard = row.Matrix.Idle(), at
		}
	}
	return s, true
}
