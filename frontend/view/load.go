package view

import (
	"math/rand/v2"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
)

const (
	// forgetAfter is the age from which a matrix says nothing.
	forgetAfter = 30 * time.Second
	// Short tasks avoid a worker without room, if the expected wait of a one-slot task is avoidWait or longer.
	// Without news of the worker, short tasks avoid the worker for avoidFor at most: the part closed to long tasks
	// may have become free.
	avoidWait = 50 * time.Millisecond
	avoidFor  = 2 * time.Second
)

// NoteLoad notes a worker's load, as reported at time at. It reports whether the load came with a wait matrix.
func (v *View) NoteLoad(w *Worker, load *probe.Load, at time.Time) (hasMatrix bool) {
	w.load, w.heardAt, w.loadIsLater = *load, at.UnixNano(), load.Matrix == nil
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

// NoteRoom corrects the matrix of w, if w has room now and the matrix shows a wait: work at w has ended earlier than w
// expected. A part of w may be closed to long tasks. So NoteRoom takes room for long tasks only beyond that part.
func (v *View) NoteRoom(w *Worker) {
	row := v.fleet.Get(int32(w.Key))
	if !w.Idle() || row == nil || row.Matrix == nil || !w.hasLoadAfter(row) {
		return
	}
	slot, room := probe.Slot, w.unusedRoom()
	closed := w.welcome.Capacity.Sub(w.AlwaysOpen())
	open := room.Sub(closed)
	if slot.Fits(room) && row.Matrix.ShortWait(slot) > 0 || slot.Fits(open) && row.Matrix.Wait(slot) > 0 {
		s := *row
		s.Matrix, s.Heard = row.Matrix.WithRoom(room, open), time.Unix(0, w.heardAt)
		w.loadIsLater = false // the matrix counts the load
		v.fleet.Put(s)
	}
}

// NotePace notes a worker's pace: how many times as long as expected long tasks take there.
func (v *View) NotePace(w *Worker, pace float64) { w.pace = pace }

// Rumour is gossip about a linked worker. Within a run (incarnation) of the worker a newer Seq counts. A rumour
// about a run other than the link's is ignored.
type Rumour struct {
	Worker      Key
	Incarnation uint64
	Seq         uint64
	Age         time.Duration     // time since the worker sent the news
	Matrix      *probe.WaitMatrix // nil: not in the rumour. The view keeps the matrix; read-only
	Load        *probe.Load       // nil: not in the rumour
	Speed       float64           // speed relative to the average worker; 0: unknown
	Draining    bool
	Maintenance time.Duration     // time from the news to the start of its maintenance
	Lasts       time.Duration     // duration of the maintenance; 0: none announced
	Files       []estimate.FileID // files in its cache, ascending, no duplicates. The view keeps the slice
}

// NoteRumour notes gossip about a worker, if the rumour is newer than the last.
func (v *View) NoteRumour(w *Worker, r *Rumour, now time.Time) {
	if !w.Linked() || r.Incarnation != w.welcome.Incarnation || r.Seq <= w.heardSeq {
		return
	}
	w.heardSeq = r.Seq
	if r.Draining {
		v.NoteDraining(w)
	}
	row := v.fleet.Get(int32(w.Key))
	if row == nil || w.state != Up {
		return
	}
	at := now.Add(-max(r.Age, 0))
	if r.Load != nil && at.UnixNano() > w.heardAt {
		load := *r.Load
		load.Matrix = nil
		v.NoteLoad(w, &load, at)
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

// putRow stores s, the knowledge about w beyond its welcome, in the fleet. m is a matrix of time at, from gossip or
// from w; nil: none. An m that is no older than the matrix in s replaces that matrix, and decides whether short tasks
// avoid w.
func (v *View) putRow(w *Worker, s estimate.Server, m *probe.WaitMatrix, at, now time.Time) {
	if m != nil && (s.Matrix == nil || !at.Before(s.Heard)) {
		w.loadIsLater = false
		matrix := *m
		for _, p := range w.uncounted { // the worker did not count these attempts yet
			matrix = estimate.Occupied(matrix, p.Demand, p.Short, p.Run, p.Tenant)
		}
		s.Matrix, s.Heard = &matrix, at
		v.updateAvoided(w, m, at, now)
	}
	v.fleet.Put(s)
}

// OccupyMatrix notes in w's matrix that the task of p was placed at w by the matrix.
func (v *View) OccupyMatrix(w *Worker, p Promise) {
	row := *v.fleet.Get(int32(w.Key))
	occupied := estimate.Occupied(*row.Matrix, p.Demand, p.Short, p.Run, p.Tenant)
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

// ForgetOldMatrices forgets matrices older than forgetAfter (30 s). It looks at most once in forgetAfter.
func (v *View) ForgetOldMatrices(now time.Time) {
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

// updateIdle adds w to the list of idle workers, or removes it, after a change of w's load or state.
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

// Idle returns the workers believed to have room and an empty queue, in no order. Read-only.
func (v *View) Idle() []*Worker { return v.idle }

// DrawIdle moves a random idle worker from position i or later to position i, and returns it. So k calls sample k
// distinct workers.
func (v *View) DrawIdle(i int) *Worker {
	w := drawWorker(v.idle, i, v.rand)
	v.idle[w.idleAt-1].idleAt = w.idleAt // the worker that stood at i now stands where w was
	w.idleAt = i + 1
	return w
}

// drawWorker is a step of a Fisher-Yates shuffle: k calls sample k distinct workers, as cheaply in a large fleet as
// in a small.
func drawWorker(ws []*Worker, i int, rng *rand.Rand) *Worker {
	k := i + rng.IntN(len(ws)-i)
	ws[i], ws[k] = ws[k], ws[i]
	return ws[i]
}

// Occupy takes the room given to n tasks off the believed load of w, until the next news of that load. w may leave the
// list of idle workers.
func (v *View) Occupy(w *Worker, d probe.Demand, n int) {
	w.load.Free = probe.Demand{CPU: w.load.Free.CPU - d.CPU*probe.Millicores(n),
		Mem: w.load.Free.Mem - d.Mem*probe.MiB(n)}
	v.updateIdle(w)
}

// Take adds an attempt of this frontend at w to w.Taken. Return takes it off, when the attempt is gone. Neither changes
// the believed load.
func (v *View) Take(w *Worker, d probe.Demand)   { w.taken = w.taken.Add(d) }
func (v *View) Return(w *Worker, d probe.Demand) { w.taken = w.taken.Sub(d) }

// updateAvoided notes whether short tasks should avoid w, by w's matrix m of time at. Short tasks avoid w if w has no
// free slot, and m shows a wait of avoidWait or more for a slot.
func (v *View) updateAvoided(w *Worker, m *probe.WaitMatrix, at, now time.Time) {
	slot := probe.Demand{CPU: min(probe.Slot.CPU, m.Capacity.CPU), Mem: min(probe.Slot.Mem, m.Capacity.Mem)}
	wait := m.ShortWait(slot).Duration()
	until := at.Add(min(wait, avoidFor))
	avoid := w.state == Up && wait >= avoidWait && now.Before(until) && !probe.Slot.Fits(w.load.Free) &&
		now.UnixNano()-w.heardAt < int64(avoidFor)
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

// stopAvoiding notes that short tasks need not avoid w.
func (v *View) stopAvoiding(w *Worker) {
	if !w.avoidUntil.IsZero() {
		w.avoidUntil = time.Time{}
		v.avoided--
	}
}

// Avoided returns the number of workers that short tasks avoid because long tasks occupy them, as of the last look at
// each.
func (v *View) Avoided() int { return v.avoided }

// IsAvoided reports whether short tasks should avoid w, because long tasks occupy w. If the time to avoid w has passed,
// w no longer counts as avoided.
func (v *View) IsAvoided(w *Worker, now time.Time) bool {
	if !w.avoidUntil.IsZero() && !now.Before(w.avoidUntil) {
		v.stopAvoiding(w)
	}
	return !w.avoidUntil.IsZero()
}
