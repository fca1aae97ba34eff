package view

import (
	"math/rand/v2"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
)

const (
	// forgetAfter is the age from which on a matrix says nothing.
	forgetAfter = 30 * time.Second
	// avoidWait is how long a task of one slot must be expected to wait at a worker without room before the worker
	// counts as held by long tasks, and heldFor how long that is believed at most without another word of it: the
	// share that is closed to long tasks may have become free.
	avoidWait = 50 * time.Millisecond
	avoidFor  = 2 * time.Second
)

// NoteLoad takes what a worker said of its load. It reports whether it told its matrix.
func (v *View) NoteLoad(w *Worker, load probe.Load, at time.Time) (hasMatrix bool) {
	w.load, w.heardAt = load, at.UnixNano()
	v.updateIdle(w)
	if load.Matrix == nil && w.avoidUntil.IsZero() {
		return false
	}
	w.load.Matrix = nil
	if probe.Slot.Fits(w.load.Free) {
		v.stopAvoiding(w)
	}
	if load.Matrix == nil {
		return false
	}
	if row := v.fleet.Get(int32(w.Key)); row != nil {
		v.putRow(w, *row, load.Matrix, at, at)
	}
	return true
}

// NotePace takes what a worker says of its pace.
func (v *View) NotePace(w *Worker, pace float64) { w.pace = pace }

// Rumour is what gossip tells of a worker that is linked. Of one run of a worker a newer Seq counts, of another run than that of the
// link nothing.
type Rumour struct {
	Worker      Key
	Incarnation uint64
	Seq         uint64
	Age         time.Duration     // since the worker said so
	Matrix      *probe.WaitMatrix // nil: not told. The view keeps it; nobody may write to it
	Load        *probe.Load       // nil: not told
	Speed       float64           // how much faster than the average worker it runs tasks; 0: not known
	Draining    bool
	Maintenance time.Duration     // until it is away, from when it said so
	Lasts       time.Duration     // how long; 0: it has not announced that it will be
	Files       []estimate.FileID // in its cache, ascending, each once. The view keeps it
}

// NoteRumour takes what gossip tells of a worker.
func (v *View) NoteRumour(w *Worker, r *Rumour, now time.Time) {
	if !w.Linked() || r.Incarnation != w.welcome.Incarnation || r.Seq <= w.heardSeq {
		return
	}
	w.heardSeq = r.Seq
	if r.Draining {
		v.Drain(w)
	}
	row := v.fleet.Get(int32(w.Key))
	if row == nil || w.state != Up {
		return
	}
	at := now.Add(-max(r.Age, 0))
	if r.Load != nil && at.UnixNano() > w.heardAt {
		load := *r.Load
		load.Matrix = nil
		v.NoteLoad(w, load, at)
	}
	s := *row
	s.Speed = r.Speed
	s.Files = r.Files
	s.Maintenance = time.Time{}
	if r.Lasts > 0 {
		s.Maintenance = at.Add(r.Maintenance)
	}
	v.putRow(w, s, r.Matrix, at, now)
}

// putRow is for what is known of a worker beyond its welcome, as gossip or the worker told it at some time.
func (v *View) putRow(w *Worker, s estimate.Server, m *probe.WaitMatrix, at, now time.Time) {
	if m != nil && (s.Matrix == nil || !at.Before(s.Heard)) {
		matrix := *m
		for _, p := range w.uncounted { // it did not know of these yet
			matrix = estimate.Occupied(matrix, p.Demand, p.Short, p.Run)
		}
		s.Matrix, s.Heard = &matrix, at
		v.updateAvoided(w, m, at, now)
	}
	v.fleet.Put(s)
}

// OccupyMatrix notes in the matrix of w that a task, short or long, was placed there by it.
func (v *View) OccupyMatrix(w *Worker, d probe.Demand, short bool, run time.Duration) {
	row := *v.fleet.Get(int32(w.Key))
	occupied := estimate.Occupied(*row.Matrix, d, short, run)
	row.Matrix = &occupied
	v.fleet.Put(row)
}

// ForgetMatrix forgets the matrix of a worker.
func (v *View) ForgetMatrix(w *Worker) {
	if row := v.fleet.Get(int32(w.Key)); row != nil {
		s := *row
		s.Matrix = nil
		v.fleet.Put(s)
	}
}

// Sweep forgets matrices that are so old that they say nothing.
func (v *View) Sweep(now time.Time) {
	if now.Sub(v.sweptAt) < forgetAfter {
		return
	}
	v.sweptAt = now
	for w := range v.Workers() {
		if row := v.fleet.Get(int32(w.Key)); row != nil && row.Matrix != nil && now.Sub(row.Heard) > forgetAfter {
			v.ForgetMatrix(w)
		}
	}
}

// updateIdle keeps the list of idle workers in step with what is believed of w.
func (v *View) updateIdle(w *Worker) {
	idle := w.state == Up && w.load.Queued == 0 && probe.Slot.Fits(w.load.Free)
	switch {
	case idle && w.idleAt == 0:
		v.idle = append(v.idle, w)
		w.idleAt = len(v.idle)
	case !idle && w.idleAt > 0:
		last := v.idle[len(v.idle)-1]
		v.idle[w.idleAt-1] = last
		last.idleAt = w.idleAt
		v.idle = v.idle[:len(v.idle)-1]
		w.idleAt = 0
	}
}

// Idle are the workers that are believed to have room and an empty queue, in no order; nobody may write to it.
func (v *View) Idle() []*Worker { return v.idle }

// DrawIdle moves a random one of the idle from i on to position i and returns it: so k calls sample k distinct ones.
func (v *View) DrawIdle(i int) *Worker {
	w := drawWorker(v.idle, i, v.rand)
	v.idle[w.idleAt-1].idleAt = w.idleAt // where w was
	w.idleAt = i + 1
	return w
}

// drawWorker is a step of a Fisher-Yates shuffle: k calls sample k distinct workers whatever the size of the fleet.
func drawWorker(ws []*Worker, i int, rng *rand.Rand) *Worker {
	k := i + rng.IntN(len(ws)-i)
	ws[i], ws[k] = ws[k], ws[i]
	return ws[i]
}

// Occupy notes that room at w was given away to n tasks, until w is heard of again.
func (v *View) Occupy(w *Worker, d probe.Demand, n int) {
	w.load.Free = probe.Demand{CPU: w.load.Free.CPU - d.CPU*probe.Millicores(n), Mem: w.load.Free.Mem - d.Mem*probe.MiB(n)}
	v.updateIdle(w)
}

// Take notes that an attempt of this frontend is at w, and Return that it no longer is.
func (v *View) Take(w *Worker, d probe.Demand)   { w.taken = w.taken.Add(d) }
func (v *View) Return(w *Worker, d probe.Demand) { w.taken = w.taken.Sub(d) }

// updateAvoided notes whether short tasks had better keep away from w, by the matrix that it had at a time.
func (v *View) updateAvoided(w *Worker, m *probe.WaitMatrix, at, now time.Time) {
	slot := probe.Demand{CPU: min(probe.Slot.CPU, m.Capacity.CPU), Mem: min(probe.Slot.Mem, m.Capacity.Mem)}
	wait := m.ShortWait(slot).Duration()
	until := at.Add(min(wait, avoidFor))
	avoid := w.state == Up && wait >= avoidWait && now.Before(until) && !probe.Slot.Fits(w.load.Free) && now.UnixNano()-w.heardAt < int64(avoidFor)
	switch {
	case !avoid:
		v.stopAvoiding(w)
	default:
		if w.avoidUntil.IsZero() {
			v.avoided++
		}
		w.avoidUntil = until
	}
}

// stopAvoiding notes that short tasks need not keep away from w.
func (v *View) stopAvoiding(w *Worker) {
	if !w.avoidUntil.IsZero() {
		w.avoidUntil = time.Time{}
		v.avoided--
	}
}

// Avoided is how many workers counted as held by long tasks when they were looked at last.
func (v *View) Avoided() int { return v.avoided }

// IsAvoided reports whether short tasks had better keep away from w.
func (v *View) IsAvoided(w *Worker, now time.Time) bool {
	if !w.avoidUntil.IsZero() && !now.Before(w.avoidUntil) {
		v.stopAvoiding(w)
	}
	return !w.avoidUntil.IsZero()
}
