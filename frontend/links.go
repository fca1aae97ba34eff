package frontend

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/place"
	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// worker is what the frontend gave a worker and has not had back, and what passes between them.
type worker struct {
	*view.Worker

	nextRes  probe.ResID
	places   map[probe.ResID]*reservation
	attempts map[probe.AttemptID]*attempt
	enqueued map[probe.ResID]*attempt // those that were bound early
	acks     []probe.AttemptID
	spare    []*reservation // to be cancelled soon

	cancels    [8]probe.Cancel // the last ones that were sent
	nextCancel int

	ackAt   time.Time
	syncAt  time.Time
	askedAt time.Time // when its matrix was asked for; zero: it answered
	wakeAt  time.Time
	pos     int
}

func (w *worker) Before(v *worker) bool {
	if !w.wakeAt.Equal(v.wakeAt) {
		return w.wakeAt.Before(v.wakeAt)
	}
	return w.Key < v.Key
}
func (w *worker) Pos() *int { return &w.pos }

// heard takes what a worker said of its load into the view.
func (c *Core) heard(w *worker, load probe.Load, now time.Time) {
	if c.view.Heard(w.Worker, load, now) {
		w.askedAt = time.Time{}
		delete(c.long.asked, w)
	}
}

// at is the worker of a row.
func (c *Core) at(row *view.Worker) *worker { return c.workers[row.Key] }

func (c *Core) worker(key Worker) *worker {
	if int(key) < len(c.workers) {
		return c.workers[key]
	}
	return nil
}

func (c *Core) workerUp(ev WorkerUp, now time.Time, acts []Action) []Action {
	w := c.known(ev.Worker)
	if w.Linked() {
		acts = c.plan(now, c.linkLost(w, now, acts)) // the shell made a new link before it saw the old one break
	}
	if w.State() == view.Adrift && w.Welcome().Incarnation != ev.Welcome.Incarnation {
		acts = c.workerGone(w, now, acts)
	}

	fresh := w.Welcome().Incarnation != ev.Welcome.Incarnation
	c.view.Linked(w.Worker, ev.Welcome, now)
	c.turn()
	w.askedAt = time.Time{}
	w.syncAt = now.Add(time.Duration(c.rand.Int64N(int64(c.cfg.SyncEvery)))) // spread over the fleet
	for _, a := range w.attemptsInOrder() {
		c.Stats.Claims++
		acts = append(acts, Send{Worker: w.Key, Msg: probe.Claim{Job: a.job.ID, Attempt: a.id, Generation: a.job.Generation}})
	}
	for _, j := range c.jobsWhere(func(j *job) bool { return j.untold[w] || fresh && j.Generation > 0 }) {
		acts = c.askFor(j, w, acts)
	}
	if w.Up() {
		c.nearUp()
		c.wantAll = true
	}
	c.setTimer(w)
	return acts
}

// drain stops sending anything new to w.
func (c *Core) drain(w *worker) {
	c.view.Drain(w.Worker)
	c.turn()
	c.nearGone(w)
	delete(c.long.asked, w)
}

// linkLost forgets the places at w, which it has dropped or will, and leaves its attempts adrift.
func (c *Core) linkLost(w *worker, now time.Time, acts []Action) []Action {
	if !w.Linked() {
		return acts
	}
	c.view.LinkLost(w.Worker, now)
	c.turn()
	c.nearGone(w)
	delete(c.long.asked, w)
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
	c.view.Gone(w.Worker, now)
	for _, a := range slices.Backward(w.attemptsInOrder()) { // the task of the first one goes to the front last
		acts = c.lose(a, true, fmt.Sprintf("worker %s went away", w.Welcome().Worker), now, acts)
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
		c.dropPlace(w, id, r, place.Gone)
	}
}

// wakeWorker acts on what w's timer was set for.
func (c *Core) wakeWorker(w *worker, now time.Time, acts []Action) []Action {
	if w.State() == view.Adrift && now.Sub(w.LostAt()) >= c.cfg.AdriftFor {
		return c.workerGone(w, now, acts)
	}
	if w.Linked() {
		if len(w.acks) > 0 && !now.Before(w.ackAt) {
			acts = c.flushAcks(w, acts)
		}
		if !now.Before(w.syncAt) {
			w.syncAt = now.Add(c.cfg.SyncEvery)
			acts = append(acts, Send{Worker: w.Key, Msg: w.sync()})
		}
	}
	c.setTimer(w)
	return acts
}

func (c *Core) setTimer(w *worker) {
	c.byTimer.Remove(w)
	switch w.State() {
	case view.Down:
		return
	case view.Adrift:
		w.wakeAt = w.LostAt().Add(c.cfg.AdriftFor)
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
	acts = append(acts, Send{Worker: w.Key, Msg: probe.Ack{Attempts: slices.Clone(w.acks)}})
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

// Status is what is believed of a worker.
func (c *Core) Status(key Worker) (WorkerStatus, bool) {
	w := c.worker(key)
	if w == nil || w.Welcome().Worker == "" { // it is only listed
		return WorkerStatus{}, false
	}
	s := WorkerStatus{State: w.State().String(), Welcome: *w.Welcome(), Load: *w.Load(), Reservations: len(w.places), Attempts: len(w.attempts)}
	s.View = c.view.Server(w.Worker, s.Reservations+s.Attempts)
	return s, true
}
