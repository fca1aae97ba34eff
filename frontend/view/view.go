package view

import (
	"cmp"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
)

// View holds a frontend's beliefs about its workers.
type View struct {
	rand *rand.Rand

	workers       []*Worker // by Key; nil: no worker ever
	slots         int       // slots of all workers that are up
	idle          []*Worker // workers believed to have room and an empty queue, in no order
	avoided       int       // number of workers with an avoidUntil
	fleet         *estimate.Fleet
	sweptAt       time.Time // last look for matrices that are too old
	lastDeparture Departure // the worker taken off the list last

	sets        map[string]*Set
	sweepSetsAt int    // number of sets at which unused sets are looked for next
	changedSets []*Set // sets changed since the last TakeChangedSets

	runs  runsTable
	trip  time.Duration
	price time.Duration
}

// New returns a view without workers. It shares rng with the caller.
func New(cfg estimate.Config, rng *rand.Rand) *View {
	return &View{rand: rng, fleet: estimate.NewFleet(cfg), sets: map[string]*Set{}, runs: newRunsTable()}
}

// Worker returns the row of a key, or nil.
func (v *View) Worker(key Key) *Worker {
	if int(key) < len(v.workers) {
		return v.workers[key]
	}
	return nil
}

// Workers yields the rows of all workers ever known, by key.
func (v *View) Workers() iter.Seq[*Worker] {
	return func(yield func(*Worker) bool) {
		for _, w := range v.workers {
			if w != nil && !yield(w) {
				return
			}
		}
	}
}

// Slots returns the number of slots of all workers that are up.
func (v *View) Slots() int { return v.slots }

// Fleet returns the fleet for placing by estimation. Read-only.
func (v *View) Fleet() *estimate.Fleet { return v.fleet }

// EnsureWorker returns the row of a key, and creates it if missing.
func (v *View) EnsureWorker(key Key) *Worker {
	for int(key) >= len(v.workers) {
		v.workers = append(v.workers, nil)
	}
	if v.workers[key] == nil {
		v.workers[key] = &Worker{Key: key}
	}
	return v.workers[key]
}

// Departure is a worker taken off the list. The zero Departure means: no worker.
type Departure struct {
	Name string
	At   time.Time
}

// LastDeparture returns the last departure.
func (v *View) LastDeparture() Departure { return v.lastDeparture }

// NoteListed notes that there is a worker at an address, and that the shell is to make a link.
func (v *View) NoteListed(w *Worker, address string) {
	w.listed, w.address, w.awaited = true, address, w.state == Down
}

// NoteUnlisted notes that a worker that is down was taken off the list.
func (v *View) NoteUnlisted(w *Worker, now time.Time) {
	v.lastDeparture = Departure{w.Name(), now}
	w.listed, w.address, w.welcome = false, "", probe.Welcome{}
}

// NoteLinked notes a new link to w. w must be down or adrift.
func (v *View) NoteLinked(w *Worker, m probe.Welcome, now time.Time) {
	if w.welcome.Incarnation != m.Incarnation {
		w.heardSeq = 0
	}
	w.welcome, w.listed, w.awaited, w.cacheProblem = m, true, false, ""
	w.state, w.leaving = Up, m.Draining
	if m.Draining {
		w.state = Draining
	}
	w.functions = make(map[string]bool, len(m.Functions))
	for _, f := range m.Functions {
		w.functions[f] = true
	}
	w.load, w.heardAt, w.pace = probe.Load{Free: m.Capacity}, now.UnixNano(), 0
	w.slots = probe.Slot.Times(m.Capacity)
	v.addToFleet(w)
	if w.state == Up {
		v.slots += w.slots
		v.addToSets(w)
		v.updateIdle(w)
	}
}

// addToSets adds w to all sets with needs met by w. w must be up.
func (v *View) addToSets(w *Worker) {
	for _, s := range v.sets {
		if s.addWorker(w) {
			v.changedSets = append(v.changedSets, s)
		}
	}
}

// NoteCache notes why the cache of w takes no new files. An empty problem means: the cache takes files again. Meanwhile
// w gets no tasks with files.
func (v *View) NoteCache(w *Worker, problem string) {
	w.cacheProblem = problem
	if problem == "" && w.state == Up {
		v.addToSets(w)
		return
	}
	for _, s := range v.sets {
		if s.need.Files && s.removeWorker(w) {
			v.changedSets = append(v.changedSets, s)
		}
	}
}

// NoteDraining notes that a worker leaves: it is no longer sampled, and no candidate any more.
func (v *View) NoteDraining(w *Worker) {
	if w.state == Up {
		v.stopPlacing(w)
		w.state = Draining
	}
	w.leaving = true
}

// NoteLinkLost notes that the link of a worker broke.
func (v *View) NoteLinkLost(w *Worker, now time.Time) {
	v.stopPlacing(w)
	w.state, w.lostAt = Adrift, now
}

// NoteGone notes that a worker with a broken link does not come back. Unless the worker had announced its leave, the
// loss counts as a failure of the worker. A leave for announced maintenance counts, too.
func (v *View) NoteGone(w *Worker, now time.Time) {
	if w.state != Down && (!w.leaving || v.fleet.IsDueAway(int32(w.Key), now)) {
		v.fleet.NoteLost(int32(w.Key), now)
	}
	v.fleet.Remove(int32(w.Key))
	w.state, w.awaited = Down, false
}

// stopPlacing removes w from the sets, from the idle workers and from the candidates of the fleet.
func (v *View) stopPlacing(w *Worker) {
	if w.state == Up {
		v.slots -= w.slots
	}
	for _, s := range v.sets {
		if s.removeWorker(w) {
			v.changedSets = append(v.changedSets, s)
		}
	}
	w.load = probe.Load{}
	v.updateIdle(w)
	v.stopAvoiding(w)
	w.uncounted = nil
	if row := v.fleet.Get(int32(w.Key)); row != nil {
		s := *row
		s.Draining, s.Matrix = true, nil
		v.fleet.Put(s)
	}
}

// addToFleet adds a linked worker to the fleet, without a matrix. The rack comes from the Welcome, or else from the
// label rack=NAME. If the fleet has the worker already, the known files, maintenance and speed stay.
func (v *View) addToFleet(w *Worker) {
	m := &w.welcome
	s := estimate.Server{Key: int32(w.Key), Name: m.Worker, Host: m.Host, Rack: m.Rack,
		Speed: float64(m.Speed) / 1000, Draining: w.state != Up}
	if s.Rack == "" {
		for _, l := range m.Labels {
			if rack, ok := strings.CutPrefix(l, "rack="); ok {
				s.Rack = rack
			}
		}
	}
	if old := v.fleet.Get(s.Key); old != nil && old.Name == s.Name {
		s.Speed, s.Files, s.Maintenance = cmp.Or(s.Speed, old.Speed), old.Files, old.Maintenance
	}
	v.fleet.Put(s)
}

// maxHolders bounds the workers considered per file.
const maxHolders = 32

// Peers returns the cache addresses of workers other than w with a file: at random, but workers of w's rack first.
// At most probe.MaxPeers.
func (v *View) Peers(id estimate.FileID, w *Worker) (near []string) {
	holders := v.fleet.Holders(id)
	if len(holders) == 0 {
		return nil
	}
	rack := ""
	if row := v.fleet.Get(int32(w.Key)); row != nil {
		rack = row.Rack
	}
	var far []string
	start := v.rand.IntN(len(holders))
	for i := range min(len(holders), maxHolders) {
		key := holders[(start+i)%len(holders)]
		x := v.Worker(Key(key))
		if x == nil || x == w || x.welcome.Cache == "" || !x.Linked() {
			continue
		}
		if rack == "" || v.fleet.Get(key).Rack != rack {
			far = append(far, x.welcome.Cache)
			continue
		}
		if near = append(near, x.welcome.Cache); len(near) == probe.MaxPeers {
			return near
		}
	}
	return append(near, far[:min(len(far), probe.MaxPeers-len(near))]...)
}

// NoteEnded passes the end of an attempt at w to the failure model, if the attempt ended by itself. Only the first
// success after a failure is passed on: the model does not need the others.
func (v *View) NoteEnded(w *Worker, function string, status probe.Status, now time.Time) {
	switch status {
	case probe.Succeeded:
		if !w.failing {
			return
		}
		w.failing = false
	case probe.Failed, probe.Panicked, probe.TimedOut, probe.NoInput:
		w.failing = true
	default:
		return
	}
	v.fleet.NoteEnded(int32(w.Key), function, !w.failing, now)
}

// NoteRead notes the run of a task at w with these inputs. r are the runs of the task's function.
func (v *View) NoteRead(r *Runs, ins []estimate.Input, w *Worker, run time.Duration) {
	v.fleet.NoteRead(&r.own.reads, ins, int32(w.Key), run)
}

// NoteFetch notes what w reports of the files of a task. fromPeers says that w was told of other workers with the files.
func (v *View) NoteFetch(w *Worker, fromPeers bool, u *probe.Usage) {
	v.fleet.NoteFetch(int32(w.Key), fromPeers, int64(min(u.Fetched, math.MaxInt64)), u.Fetch)
}

// NotePromise notes a task placed at w. The worker's matrix does not count the task until w has answered.
func (v *View) NotePromise(w *Worker, p Promise) { w.uncounted = append(w.uncounted, p) }

// DropPromise forgets the promise of an attempt: reports of w count the attempt from now on, or the attempt has ended.
func (v *View) DropPromise(w *Worker, id probe.AttemptID) {
	if len(w.uncounted) > 0 {
		w.uncounted = slices.DeleteFunc(w.uncounted, func(p Promise) bool { return p.Attempt == id })
	}
}

// DropPromises is DropPromise for the attempts of count places, starting with place first.
func (v *View) DropPromises(w *Worker, first probe.ResID, count uint32) {
	if len(w.uncounted) > 0 {
		w.uncounted = slices.DeleteFunc(w.uncounted,
			func(p Promise) bool { return p.Res >= first && p.Res-first < probe.ResID(count) })
	}
}
