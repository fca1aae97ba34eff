package frontend

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
	"github.com/phoebe-sched/phoebe/probe/fair"
	"github.com/phoebe-sched/phoebe/probe/lent"
	"github.com/phoebe-sched/phoebe/probe/pq"
)

// ledger is the floor that keeps the places and attempts at workers. It also keeps messages that go out later, such as
// acknowledgements. Only the ledger carries out decisions.
type ledger struct {
	jobs
	workers            []*worker // by Worker; nil where there was never a worker
	workerTimers       pq.Heap[*worker]
	attemptsMade       uint64    // attempts ever; the Seq of the last attempt's id
	attemptsAtWorkers  int       // attempts at workers now
	runningAttempts    int       // attempts at workers now with hasStarted
	workersWithSurplus []*worker // workers with surplus places
	withdrawAt         time.Time // when the surplus places are withdrawn; zero: there are none

	lent struct { // memory of the actions of this step; the next step takes it back
		done     lent.Of[Done]
		launches lent.Of[probe.Launch] // of Reserve and Bind
	}
}

// workerOf returns the worker of a row of the view. Each row has a worker.
func (c *ledger) workerOf(row *view.Worker) *worker { return c.workers[row.Key] }

// workerByKey returns the worker of a key, or nil if the ledger does not know the worker.
func (c *ledger) workerByKey(key Worker) *worker {
	if int(key) < len(c.workers) {
		return c.workers[key]
	}
	return nil
}

// ensureWorker returns the worker of a key, and makes the worker if the ledger does not know the key yet.
func (c *ledger) ensureWorker(key Worker) *worker {
	for int(key) >= len(c.workers) {
		c.workers = append(c.workers, nil)
	}
	if c.workers[key] == nil {
		c.workers[key] = &worker{
			Worker: c.view.EnsureWorker(key), nextRes: 1, places: map[probe.ResID]*reservation{},
			attempts: map[probe.AttemptID]*attempt{}, enqueued: map[probe.ResID]*attempt{},
		}
	}
	return c.workers[key]
}

// noteLoad writes the load that w reports into the view. If the load has the wait matrix of w, noteLoad notes that the
// matrix came.
func (c *ledger) noteLoad(w *worker, load *probe.Load, now time.Time) {
	if hasMatrix := c.view.NoteLoad(w.Worker, load, now); hasMatrix {
		w.noteMatrix()
		for _, r := range w.uncountedRides {
			c.view.OccupyMatrix(w.Worker, r)
		}
		w.matrixAsked, w.uncountedRides = false, nil
	}
}

// noteUncountedRides notes that n tasks of a tenant ride to w with the reservation m, if the frontend has asked w for
// its matrix and has no answer yet. The answer may not count these tasks.
func (w *worker) noteUncountedRides(m *probe.Reserve, n int, tenant probe.TenantCode) {
	ride := view.Promise{
		Demand: m.Demand, Short: true, Run: cmp.Or(m.Estimate, m.Typical, fair.AssumedRun), Tenant: tenant,
	}
	for i := 0; w.matrixAsked && i < n; i++ {
		w.uncountedRides = append(w.uncountedRides, ride)
	}
}

// ensureReports returns the attempt's record of reports, and makes the record at the first report.
func (a *attempt) ensureReports() *runReports {
	if a.reports == nil {
		a.reports = new(runReports)
	}
	return a.reports
}

// noteProgress notes the progress that w reports of its running attempts.
func (w *worker) noteProgress(list []probe.Progress, now time.Time) {
	for i := range list {
		if a := w.attempts[list[i].Attempt]; a != nil {
			a.ensureReports().progress = progress{
				doneShare: float64(list[i].Done) / 1e6, timeLeft: list[i].Left, reportedAt: now,
			}
		}
	}
}

const (
	// standsFrom is the least time over which the CPU time of a process tells that the process stands still: three
	// samples. The number was chosen.
	standsFrom = 3 * time.Second
	// standsShare bounds the CPU time of a process that stands still, as a share of the CPU time that the tasks of the
	// stage use. The number was chosen.
	standsShare = 0.1
	// leastStageCPU is the least use of CPU by the tasks of a stage from which CPU time tells anything. Tasks that
	// wait for other machines use less. The number was chosen.
	leastStageCPU = 100 * probe.Millicores(1)
)

// noteUses notes what running processes at w have used.
func (c *ledger) noteUses(w *worker, list []probe.Use) {
	for i := range list {
		if a := w.attempts[list[i].Attempt]; a != nil && list[i].Ran > a.use().Ran {
			a.ensureReports().use = list[i]
			c.noteStanding(a)
		}
	}
}

// noteStanding notes whether a process that reports no progress stands still, after a report of its use. Such a process
// has hardly used CPU time for standsFrom, while three quarters of the ended tasks of its stage used CPU time. And the
// process has run for as long as tasks of the stage run, without the reading of inputs: any task may read or wait for a
// while, and use no CPU time meanwhile.
func (c *ledger) noteStanding(a *attempt) {
	t, x := a.task, a.reports
	if t.long == nil || t.group.stageStats == nil || x.progress.doneShare > 0 {
		return
	}
	usual := t.group.stageStats.LeastCPU()
	run, _, known := t.group.stageStats.TimeLeft(0, t.spec.Estimate, t.long.inputBytes, int32(a.w.Key))
	if usual < leastStageCPU || !known {
		return
	}
	standsFor := x.use.Ran - x.lastBusy.Ran
	rate := (x.use.CPU - x.lastBusy.CPU).Seconds() / standsFor.Seconds() / (float64(usual) / 1000)
	x.progress = progress{}
	switch {
	case rate >= standsShare, rate < 0: // the sum falls if nobody counts some children any more
		x.lastBusy = x.use
	case standsFor >= standsFrom && scaleTime(c.speedOf(a.w), x.use.Ran-t.long.read) >= run:
		x.progress.standsFor = standsFor
	}
}

// speedOf returns the speed of a worker, or 1 if the speed is not known.
func (c *ledger) speedOf(w *worker) float64 {
	if row := c.view.Fleet().Get(int32(w.Key)); row != nil && row.Speed > 0 {
		return row.Speed
	}
	return 1
}

// scaleTime multiplies a time. The result is capped, so that sums do not overflow.
func scaleTime(factor float64, d time.Duration) time.Duration {
	return time.Duration(min(factor*float64(d), float64(math.MaxInt64/2)))
}

// askNotBefore notes the earliest time to ask w for its matrix again. When the matrix arrives, noteMatrix forgets that
// time. awaitMatrix makes the next batch of long tasks wait for the matrix. noteMatrix and stopAwaitingMatrix end the
// wait.
func (w *worker) askNotBefore(earliest time.Time) { w.earliestMatrixAsk = earliest }
func (w *worker) noteMatrix()                     { w.earliestMatrixAsk, w.matrixAwaited = time.Time{}, false }
func (w *worker) awaitMatrix()                    { w.matrixAwaited = true }
func (w *worker) stopAwaitingMatrix()             { w.matrixAwaited = false }

// noteMatrixAsked notes that the frontend asks w for its matrix. The answer counts all rides that w has got before.
func (w *worker) noteMatrixAsked() { w.matrixAsked, w.uncountedRides = true, nil }

// noteVainTurn notes that w holds a slot for a turn that the frontend cancels or declines. takeVainTurn reports whether
// noteVainTurn was called since the last takeVainTurn.
func (w *worker) noteVainTurn() { w.hasVainTurn = true }

func (w *worker) takeVainTurn() bool {
	had := w.hasVainTurn
	w.hasVainTurn = false
	return had
}

// noteNotUp notes that w is not up. Groups without a worker are stranded from now on. Tasks with inputs only at w
// are shelved elsewhere. No batch waits for the matrix of w.
func (c *ledger) noteNotUp(w *worker) {
	c.updateStranded()
	c.reshelveGone(w)
	w.stopAwaitingMatrix()
	w.matrixAsked, w.uncountedRides = false, nil
}

// noteDraining notes that w drains. Nothing new is sent to w.
func (c *ledger) noteDraining(w *worker) {
	c.view.NoteDraining(w.Worker)
	c.noteNotUp(w)
}

// noteCache notes whether the cache of w takes new files: problem says why not, or is "". While there is a problem,
// tasks with files go to other workers.
func (c *ledger) noteCache(w *worker, problem string) {
	c.view.NoteCache(w.Worker, problem)
	c.updateStranded()
	if problem != "" {
		c.reshelveGone(w)
	} else if w.Up() {
		c.reshelveSiteless()
		c.allWanting = true // w is new room for tasks with files
	}
}

// noteQueueFull notes that the queue of w is full. Until w reports its matrix again, estimation places nothing at
// w. The frontend asks for the matrix only after the time retry.
func (c *ledger) noteQueueFull(w *worker, retry time.Duration, now time.Time) {
	c.view.ForgetMatrix(w.Worker)
	w.earliestMatrixAsk = now.Add(retry)
	w.fullUntil = w.earliestMatrixAsk
}

// allQueuesFull reports whether the queues of all workers of g's set are full. The worker last has just refused a task.
// The queue of another worker counts as full after a refusal, for the retry time that the worker gave.
func (c *ledger) allQueuesFull(g *group, last *worker, now time.Time) bool {
	return !slices.ContainsFunc(g.Set.Workers(), func(w *view.Worker) bool {
		return w != last.Worker && now.After(c.workerOf(w).fullUntil)
	})
}

// setTimer sets the timer of w. A linked worker needs the timer for the next acknowledgement or Sync. An adrift
// worker needs the timer for the end of AdriftFor. A worker that is down has no timer.
func (c *ledger) setTimer(w *worker) {
	c.workerTimers.Remove(w)
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
		if !w.moveAskAt.IsZero() && w.moveAskAt.Before(w.wakeAt) {
			w.wakeAt = w.moveAskAt
		}
	}
	c.workerTimers.Push(w)
}

const (
	// An acknowledgement waits for others to the same worker, until there are ackBatch of them, or for ackDelay.
	// Meanwhile the worker still keeps the result, although the client has it. Both numbers were chosen: higher
	// numbers save messages, and lower numbers save memory at workers.
	ackBatch = 64
	ackDelay = 50 * time.Millisecond
)

// ackResult acknowledges a result to w: within ackDelay, or at once if the batch is full or this frontend leaves.
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

// flushAcks sends the acknowledgements collected for w.
func (c *ledger) flushAcks(w *worker, acts []Action) []Action {
	acts = append(acts, Send{Worker: w.Key, Msg: probe.Ack{Attempts: slices.Clone(w.acks)}})
	w.acks = w.acks[:0]
	return acts
}

// disownResult tells w that this frontend does not need the result of an attempt. Another frontend may claim the
// result, so the worker keeps the result for the time Retain.
func disownResult(w *worker, id probe.AttemptID, acts []Action) []Action {
	return append(acts, Send{Worker: w.Key, Msg: probe.Ack{Attempts: []probe.AttemptID{id}, Disowned: true}})
}

// issueReceipt returns a receipt for the result of t's last attempt. With the receipt, the result is acknowledged when
// the client has it (ackDelivered), and w keeps the result until then. If w drains, the result is acknowledged now, and
// the receipt is zero, because w leaves only when all results are acknowledged.
func (c *ledger) issueReceipt(t *task, w *worker, id probe.AttemptID, now time.Time, acts []Action) (Receipt,
	[]Action) {
	t.lastEnded = id // the worker may send the result again: handleFinishedElsewhere
	if w.State() == view.Draining {
		return Receipt{}, c.ackResult(w, id, now, acts)
	}
	return Receipt{w.Key, id}, acts
}

// ackDelivered acknowledges results that have reached their clients.
func (c *ledger) ackDelivered(list []Receipt, now time.Time, acts []Action) []Action {
	for _, r := range list {
		// If w has no link, w forgets the result by itself after a time.
		if w := c.workerByKey(r.Worker); r != (Receipt{}) && w != nil && w.Linked() {
			acts = c.ackResult(w, r.Attempt, now, acts)
		}
	}
	return acts
}

// disownDropped disowns the results in list: nobody knows whether clients have these results. A message disowns at most
// ackBatch results of a worker.
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

// startLeaving refuses new jobs from now on, and sends all acknowledgements at once. After the frontend has left, no
// acknowledgement could be sent, and workers would keep the results until Retain has passed.
func (c *ledger) startLeaving(acts []Action) []Action {
	c.leaving = true
	for _, w := range c.workers {
		if w != nil && len(w.acks) > 0 {
			acts = c.flushAcks(w, acts)
		}
	}
	return acts
}

// sendAcksAndSync sends w the acknowledgements and the Sync that are due.
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

// syncMessage returns what the frontend believes to be at w: the live places and the attempts.
func (w *worker) syncMessage() probe.Sync {
	m := probe.Sync{Next: w.nextRes}
	ids := make([]probe.ResID, 0, len(w.places))
	for id, r := range w.places {
		if r.rideAt(id) == nil { // m.Attempts lists rides: once a ride has started, its place is gone
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		if n := len(m.Live); n > 0 && m.Live[n-1].First+probe.ResID(m.Live[n-1].Count) == id &&
			m.Live[n-1].Count < probe.MaxPlaces {
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

// attemptsInOrder returns the attempts at w in the order of their ids.
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
