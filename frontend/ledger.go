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
	workers            []*worker // by Worker; nil where there never was one
	byTimer            pq.Heap[*worker]
	attemptsMade       uint64    // ever
	attemptsAtWorkers  int       // attempts at workers
	workersWithSurplus []*worker // those with spare places
	withdrawAt         time.Time // when these are cancelled; zero if there are none

	lent struct { // with the actions of this step
		done     lent.Of[Done]
		launches lent.Of[probe.Launch] // of Reserve and Bind
	}
}

// workerOf is the worker of a row.
func (c *ledger) workerOf(row *view.Worker) *worker { return c.workers[row.Key] }

func (c *ledger) workerByKey(key Worker) *worker {
	if int(key) < len(c.workers) {
		return c.workers[key]
	}
	return nil
}

// ensureWorker is the worker of a key, which it now has if it did not.
func (c *ledger) ensureWorker(key Worker) *worker {
	for int(key) >= len(c.workers) {
		c.workers = append(c.workers, nil)
	}
	if c.workers[key] == nil {
		c.workers[key] = &worker{Worker: c.view.EnsureWorker(key), nextRes: 1, places: map[probe.ResID]*reservation{}, attempts: map[probe.AttemptID]*attempt{}, enqueued: map[probe.ResID]*attempt{}}
	}
	return c.workers[key]
}

// noteLoad takes what a worker said of its load into the view.
func (c *ledger) noteLoad(w *worker, load probe.Load, now time.Time) {
	if c.view.NoteLoad(w.Worker, load, now) {
		w.noteMatrix()
	}
}

// noteExpectedStarts notes when w expects attempts that wait in its queue to start.
func (w *worker) noteExpectedStarts(list []probe.Expect, now time.Time) {
	for i := range list {
		if a := w.attempts[list[i].Attempt]; a != nil && !a.hasStarted {
			a.expectedStart = now.Add(list[i].Wait)
		}
	}
}

// noteProgress notes how far attempts at w are.
func (w *worker) noteProgress(list []probe.Progress, now time.Time) {
	for i := range list {
		if a := w.attempts[list[i].Attempt]; a != nil {
			a.progress = progress{float64(list[i].Done) / 1e6, list[i].Left, now}
		}
	}
}

// askNotBefore notes that the matrix of w is not asked for again before a time; told that w has told it; await that the next batch waits
// for it, and awaitNone that none does any more.
func (w *worker) askNotBefore(again time.Time) { w.askMatrixFrom = again }
func (w *worker) noteMatrix()                  { w.askMatrixFrom, w.matrixAwaited = time.Time{}, false }
func (w *worker) awaitMatrix()                 { w.matrixAwaited = true }
func (w *worker) awaitNoMatrix()               { w.matrixAwaited = false }

// noteNotUp notes that a worker is not up.
func (c *ledger) noteNotUp(w *worker) {
	c.updateStranded()
	c.reshelveGone(w)
	w.awaitNoMatrix()
}

// noteDraining stops sending anything new to w.
func (c *ledger) noteDraining(w *worker) {
	c.view.Drain(w.Worker)
	c.noteNotUp(w)
}

// noteQueueFull places nothing at a worker by estimation whose queue is full, until it tells its matrix again, and does not
// ask for that before its time.
func (c *ledger) noteQueueFull(w *worker, retry time.Duration, now time.Time) {
	c.view.ForgetMatrix(w.Worker)
	w.askMatrixFrom = now.Add(retry)
	w.fullUntil = w.askMatrixFrom
}

// allQueuesFull reports whether all workers that may run tasks of a group have just said that their queues are full, the last one now.
func (c *ledger) allQueuesFull(g *group, last *worker, now time.Time) bool {
	return !slices.ContainsFunc(g.Set.Workers(), func(w *view.Worker) bool { return w != last.Worker && now.After(c.workerOf(w).fullUntil) })
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

// ackResult tells w that a result arrived: soon, or at once if this frontend leaves.
func (c *ledger) ackResult(w *worker, id probe.AttemptID, now time.Time, acts []Action) []Action {
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

// disownResult has a worker keep a result for no longer than whoever may claim it has time to.
func disownResult(w *worker, id probe.AttemptID, acts []Action) []Action {
	return append(acts, Send{Worker: w.Key, Msg: probe.Ack{Attempts: []probe.AttemptID{id}, Disowned: true}})
}

// issueReceipt is for the result of a task's last attempt. A worker that leaves is not kept waiting for the client.
func (c *ledger) issueReceipt(t *task, w *worker, id probe.AttemptID, now time.Time, acts []Action) (Receipt, []Action) {
	t.lastEnded = id
	if w.State() == view.Draining {
		return Receipt{}, c.ackResult(w, id, now, acts)
	}
	return Receipt{w.Key, id}, acts
}

func (c *ledger) ackDelivered(list []Receipt, now time.Time, acts []Action) []Action {
	for _, r := range list {
		if w := c.workerByKey(r.Worker); r != (Receipt{}) && w != nil && w.Linked() { // else it keeps the result for a time
			acts = c.ackResult(w, r.Attempt, now, acts)
		}
	}
	return acts
}

func (c *ledger) disownDropped(list []Receipt, acts []Action) []Action {
	list = slices.DeleteFunc(slices.Clone(list), func(r Receipt) bool { return r == Receipt{} })
	slices.SortStableFunc(list, func(a, b Receipt) int { return cmp.Compare(a.Worker, b.Worker) })
	for len(list) > 0 {
		m := probe.Ack{Disowned: true}
		key := list[0].Worker
		for len(list) > 0 && list[0].Worker == key && len(m.Attempts) < ackBatch {
			m.Attempts = append(m.Attempts, list[0].Attempt)
			list = list[1:]
		}
		if w := c.workerByKey(key); w != nil && w.Linked() {
			acts = append(acts, Send{Worker: key, Msg: m})
		}
	}
	return acts
}

// startLeaving takes no new jobs from here on, and lets no result wait to be acknowledged: whoever was to do it later would be
// gone, and the worker keep it until it is sure of that.
func (c *ledger) startLeaving(acts []Action) []Action {
	c.leaving = true
	for _, w := range c.workers {
		if w != nil && len(w.acks) > 0 {
			acts = c.flushAcks(w, acts)
		}
	}
	return acts
}

// sendAcksAndSync tells w what it is time to: results that arrived, and what is believed of the link.
func (c *ledger) sendAcksAndSync(w *worker, now time.Time, acts []Action) []Action {
	if w.Linked() {
		if len(w.acks) > 0 && !now.Before(w.ackAt) {
			acts = c.flushAcks(w, acts)
		}
		if !now.Before(w.syncAt) {
			w.syncAt = now.Add(c.cfg.SyncEvery)
			acts = append(acts, Send{Worker: w.Key, Msg: w.syncMessage()})
		}
	}
	c.setTimer(w)
	return acts
}

// syncMessage is all that the frontend believes of the link.
func (w *worker) syncMessage() probe.Sync {
	m := probe.Sync{Next: w.nextRes}
	ids := make([]probe.ResID, 0, len(w.places))
	for id, r := range w.places {
		if r.rideAt(id) == nil { // of a place whose task rides along we know only that it was sent
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
