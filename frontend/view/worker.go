package view

import (
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
)

// Key names a worker's link at this frontend. The shell numbers them densely from 0 and may use a number again for
// another worker after the first is gone.
type Key uint32

// State is how a worker's link stands.
type State uint8

const (
	Down State = iota
	Up
	Adrift   // the link broke; it may come back in time
	Draining // the worker leaves
)

var stateNames = [...]string{Down: "down", Up: "up", Adrift: "adrift", Draining: "draining"}

func (s State) String() string { return stateNames[s] }

// Worker is the row of a worker.
type Worker struct {
	Key       Key
	state     State
	listed    bool   // a link to it is up, or is to be made
	awaited   bool   // it is listed, and nothing has come of the link to it yet
	leaving   bool   // it said that it will
	failing   bool   // the last task that ended there by itself failed
	address   string // as the list has it
	welcome   probe.Welcome
	functions map[string]bool
	slots     int

	pace     float64      // how many times as long as expected long tasks take there; 0: not known
	load     probe.Load   // as last heard, less what was sent there since
	taken    probe.Demand // by attempts of this frontend
	heardAt  int64        // when load was heard, as Unix time in nanoseconds
	heardSeq uint64       // of the last rumour that counted
	lostAt   time.Time    // when its link broke

	idleAt     int       // position among the idle plus one
	avoidUntil time.Time // short tasks keep away, as long tasks hold it; zero: they need not
	uncounted  []Promise // what its matrix does not count yet
}

// Promise is a task that was placed at a worker by the matrix that it told, and that takes room there.
type Promise struct {
	Attempt probe.AttemptID
	Res     probe.ResID
	Demand  probe.Demand
	Short   bool          // it may use all of the worker
	Run     time.Duration // expected
}

// State is how the link stands.
func (w *Worker) State() State { return w.state }

// Up reports whether there is a link and the worker takes work.
func (w *Worker) Up() bool { return w.state == Up }

// Linked reports whether there is a link.
func (w *Worker) Linked() bool { return w.state == Up || w.state == Draining }

// Listed reports whether there is a link, or one is to be made.
func (w *Worker) Listed() bool { return w.listed }

// Awaited reports whether it is not known yet what becomes of the first link.
func (w *Worker) Awaited() bool { return w.awaited }

// LostAt is when the link broke, of one that is adrift.
func (w *Worker) LostAt() time.Time { return w.lostAt }

// Welcome is what the worker said of itself when it was linked last; nobody may write to it.
func (w *Worker) Welcome() *probe.Welcome { return &w.welcome }

// Knows reports whether the worker has a function.
func (w *Worker) Knows(function string) bool { return w.functions[function] }

// Has reports whether the worker has features that this release has, too.
func (w *Worker) Has(features probe.Features) bool {
	return w.welcome.Speaks.Features&probe.Spoken.Features&features == features
}

// Load is what it last said of its load, less what was sent there since; nobody may write to it.
func (w *Worker) Load() *probe.Load { return &w.load }

// Slots is how many slots its capacity makes.
func (w *Worker) Slots() int { return w.slots }

// Idle reports whether the worker is believed to have room and an empty queue.
func (w *Worker) Idle() bool { return w.idleAt > 0 }

// Room is how many tasks of a demand could start there at once: by what the worker said last, and by what is known to
// be there, though it may not have heard of that when it said so.
func (w *Worker) Room(d probe.Demand) int {
	return min(d.Times(w.load.Free), d.Times(w.welcome.Capacity.Sub(w.taken)))
}

// Taken is what this frontend's attempts take there.
func (w *Worker) Taken() probe.Demand { return w.taken }

// Uncounted is what was promised there and is not in its matrix yet; nobody may write to it.
func (w *Worker) Uncounted() []Promise { return w.uncounted }

// IsAvoided reports whether the worker counts as held by long tasks, or did when it was looked at last.
func (w *Worker) IsAvoided() bool { return !w.avoidUntil.IsZero() }

// Open is the part of it that long tasks may use.
func (w *Worker) Open() probe.Demand {
	if w.welcome.Open == (probe.Demand{}) {
		return w.welcome.Capacity
	}
	return w.welcome.Open
}

// Pace is how many times as long as was expected long tasks take there lately; 0: it is not known.
func (w *Worker) Pace() float64 { return w.pace }

// Name is what people call the worker.
func (w *Worker) Name() string {
	if w.welcome.Worker == "" {
		return "the worker at " + w.address
	}
	return "worker " + w.welcome.Worker
}

// Server is what placing by estimation goes by, but that nobody is said to wait at a worker which was idle when it was
// last heard of, and has nothing of this frontend's; the zero Server if it is down.
func (v *View) Server(w *Worker, ours int) estimate.Server {
	row := v.fleet.Get(int32(w.Key))
	if row == nil {
		return estimate.Server{}
	}
	s := *row
	if at := time.Unix(0, w.heardAt); row.Matrix != nil && row.Heard.Before(at) && ours+int(w.load.Queued+w.load.Running) == 0 {
		s.Matrix, s.Heard = row.Matrix.Idle(), at
	}
	return s
}
