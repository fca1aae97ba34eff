package frontend

import (
	"cmp"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/lent"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// ledger is the floor of what was promised over links: places and attempts, and what workers are yet to be told. It alone
// commits what was decided.
type ledger struct {
	jobs
	workers  []*worker // by Worker; nil where there never was one
	byTimer  pq.Heap[*worker]
	attempts uint64    // ever
	running  int       // attempts at workers
	sparing  []*worker // those with spare places
	spareAt  time.Time // when these are cancelled; zero if there are none

	lent struct { // with the actions of this step
		done     lent.Of[Done]
		launches lent.Of[probe.Launch] // of Reserve and Bind
	}
}

// at is the worker of a row.
func (c *ledger) at(row *view.Worker) *worker { return c.workers[row.Key] }

func (c *ledger) worker(key Worker) *worker {
	if int(key) < len(c.workers) {
		return c.workers[key]
	}
	return nil
}

// known is the worker of a key, which it now has if it did not.
func (c *ledger) known(key Worker) *worker {
	for int(key) >= len(c.workers) {
		c.workers = append(c.workers, nil)
	}
	if c.workers[key] == nil {
		c.workers[key] = &worker{Worker: c.view.EnsureWorker(key), nextRes: 1, places: map[probe.ResID]*reservation{}, attempts: map[probe.AttemptID]*attempt{}, enqueued: map[probe.ResID]*attempt{}}
	}
	return c.workers[key]
}

// heard takes what a worker said of its load into the view.
func (c *ledger) heard(w *worker, load probe.Load, now time.Time) {
	if c.view.NoteLoad(w.Worker, load, now) {
		w.told()
	}
}

// expects notes when w expects attempts that wait in its queue to start.
func (w *worker) expects(list []probe.Expect, now time.Time) {
	for i := range list {
		if a := w.attempts[list[i].Attempt]; a != nil && !a.ran {
			a.starts = now.Add(list[i].Wait)
		}
	}
}

// progressed notes how far attempts at w are.
func (w *worker) progressed(list []probe.Progress, now time.Time) {
	for i := range list {
		if a := w.attempts[list[i].Attempt]; a != nil {
			a.progress = progress{float64(list[i].Done) / 1e6, list[i].Left, now}
		}
	}
}

// ask notes that the matrix of w is not asked for again before a time; told that w has told it; await that the next batch waits
// for it, and awaitNone that none does any more.
func (w *worker) ask(again time.Time) { w.askFrom = again }
func (w *worker) told()               { w.askFrom, w.asked = time.Time{}, false }
func (w *worker) await()              { w.asked = true }
func (w *worker) awaitNone()          { w.asked = false }

// away notes that a worker is not up.
func (c *ledger) away(w *worker) {
	c.turn()
	c.nearGone(w)
	w.awaitNone()
}

// drain stops sending anything new to w.
func (c *ledger) drain(w *worker) {
	c.view.Drain(w.Worker)
	c.away(w)
}

// full places nothing at a worker by estimation whose queue is full, until it tells its matrix again, and does not
// ask for that before its time.
func (c *ledger) full(w *worker, retry time.Duration, now time.Time) {
	c.view.ForgetMatrix(w.Worker)
	w.askFrom = now.Add(retry)
	w.fullUntil = w.askFrom
}

// allFull reports whether all workers that may run tasks of a group have just said that their queues are full, the last one now.
func (c *ledger) allFull(g *group, last *worker, now time.Time) bool {
	return !slices.ContainsFunc(g.Set.Workers(), func(w *view.Worker) bool { return w != last.Worker && now.After(c.at(w).fullUntil) })
}

func (c *ledger) setTimer(w *worker) {
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

const (
	// ackBatch and ackDelay bound how long a result is kept at its worker after it arrived.
	ackBatch = 64
	ackDelay = 50 * time.Millisecond
)

// ack tells w that a result arrived: soon, or at once if this frontend leaves.
func (c *ledger) ack(w *worker, id probe.AttemptID, now time.Time, acts []Action) []Action {
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

func (c *ledger) flushAcks(w *worker, acts []Action) []Action {
	acts = append(acts, Send{Worker: w.Key, Msg: probe.Ack{Attempts: slices.Clone(w.acks)}})
	w.acks = w.acks[:0]
	return acts
}

// disown has a worker keep a result for no longer than whoever may claim it has time to.
func disown(w *worker, id probe.AttemptID, acts []Action) []Action {
	return append(acts, Send{Worker: w.Key, Msg: probe.Ack{Attempts: []probe.AttemptID{id}, Disowned: true}})
}

// receipt is for the result of a task's last attempt. A worker that leaves is not kept waiting for the client.
func (c *ledger) receipt(t *task, w *worker, id probe.AttemptID, now time.Time, acts []Action) (Receipt, []Action) {
	t.last = id
	if w.State() == view.Draining {
		return Receipt{}, c.ack(w, id, now, acts)
	}
	return Receipt{w.Key, id}, acts
}

func (c *ledger) delivered(list []Receipt, now time.Time, acts []Action) []Action {
	for _, r := range list {
		if w := c.worker(r.Worker); r != (Receipt{}) && w != nil && w.Linked() { // else it keeps the result for a time
			acts = c.ack(w, r.Attempt, now, acts)
		}
	}
	return acts
}

func (c *ledger) dropped(list []Receipt, acts []Action) []Action {
	list = slices.DeleteFunc(slices.Clone(list), func(r Receipt) bool { return r == Receipt{} })
	slices.SortStableFunc(list, func(a, b Receipt) int { return cmp.Compare(a.Worker, b.Worker) })
	for len(list) > 0 {
		m := probe.Ack{Disowned: true}
		at := list[0].Worker
		for len(list) > 0 && list[0].Worker == at && len(m.Attempts) < ackBatch {
			m.Attempts = append(m.Attempts, list[0].Attempt)
			list = list[1:]
		}
		if w := c.worker(at); w != nil && w.Linked() {
			acts = append(acts, Send{Worker: at, Msg: m})
		}
	}
	return acts
}

// leave takes no new jobs from here on, and lets no result wait to be acknowledged: whoever was to do it later would be
// gone, and the worker keep it until it is sure of that.
func (c *ledger) leave(acts []Action) []Action {
	c.leaving = true
	for _, w := range c.workers {
		if w != nil && len(w.acks) > 0 {
			acts = c.flushAcks(w, acts)
		}
	}
	return acts
}

// keepUp tells w what it is time to: results that arrived, and what is believed of the link.
func (c *ledger) keepUp(w *worker, now time.Time, acts []Action) []Action {
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
