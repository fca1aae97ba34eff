package view

import (
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
)

// Key names a worker's link at this frontend. The shell numbers the keys densely from 0. After a worker is gone,
// the shell may reuse its key for another worker.
type Key uint32

// State is the state of a worker's link.
type State uint8

const (
	Down State = iota
	Up
	Adrift   // the link broke, and may come back in time
	Draining // the worker leaves
)

var stateNames = [...]string{Down: "down", Up: "up", Adrift: "adrift", Draining: "draining"}

func (s State) String() string { return stateNames[s] }

// Worker is the row of a worker.
type Worker struct {
	Key       Key
	state     State
	listed    bool   // a link is up, or is to be made
	awaited   bool   // listed, and the first link has neither come up nor been given up
	leaving   bool   // the worker announced its leave
	failing   bool   // the last task that ended by itself failed
	address   string // address in the list
	welcome   probe.Welcome
	functions map[string]bool
	slots     int
	// cacheProblem is why the worker's cache takes no new files; "": no problem, or no cache.
	cacheProblem string

	pace    float64      // how many times as long as expected long tasks take; 0: unknown
	load    probe.Load   // last reported load, less the work sent since
	taken   probe.Demand // demand of this frontend's attempts
	heardAt int64        // when load was heard, as Unix time in nanoseconds
	// loadIsLater: since the matrix was heard, a load without a matrix was heard, perhaps at the same time.
	loadIsLater bool
	heardSeq    uint64    // Seq of the last rumour used
	lostAt      time.Time // time when the link broke

	idleAt     int       // position in View.idle plus one; 0: not idle
	avoidUntil time.Time // until then short tasks avoid the worker, because long tasks occupy it; zero: not avoided
	uncounted  []Promise // promises that its matrix does not count yet
}

// Promise is a task placed at a worker by the worker's matrix. The task takes room at the worker.
type Promise struct {
	Attempt probe.AttemptID
	Res     probe.ResID
	Demand  probe.Demand
	Short   bool          // a short task: it may use all of the worker
	Run     time.Duration // expected run time
	Tenant  probe.TenantCode
}

// State returns the state of the link.
func (w *Worker) State() State { return w.state }

// Up reports whether there is a link and the worker takes work.
func (w *Worker) Up() bool { return w.state == Up }

// Linked reports whether there is a link.
func (w *Worker) Linked() bool { return w.state == Up || w.state == Draining }

// Listed reports whether there is a link, or one is to be made.
func (w *Worker) Listed() bool { return w.listed }

// Awaited reports whether the first link to a listed worker has neither come up nor been given up.
func (w *Worker) Awaited() bool { return w.awaited }

// LostAt returns when the link of an adrift worker broke.
func (w *Worker) LostAt() time.Time { return w.lostAt }

// Welcome returns the worker's last Welcome, its description of itself. Read-only.
func (w *Worker) Welcome() *probe.Welcome { return &w.welcome }

// Knows reports whether the worker has a function.
func (w *Worker) Knows(function string) bool { return w.functions[function] }

// HasCache reports whether the worker has a cache that takes files.
func (w *Worker) HasCache() bool { return w.welcome.Cache != "" && w.cacheProblem == "" }

// CacheProblem returns why the worker's cache takes no new files, or "".
func (w *Worker) CacheProblem() string { return w.cacheProblem }

// Has reports whether both the worker and this release have all the features.
func (w *Worker) Has(features probe.Features) bool {
	return w.welcome.Speaks.Features&probe.Spoken.Features&features == features
}

// Load returns the worker's last reported load, less the work sent since. Read-only.
func (w *Worker) Load() *probe.Load { return &w.load }

// Slots returns the worker's capacity in slots.
func (w *Worker) Slots() int { return w.slots }

// Idle reports whether the worker is believed to have room and an empty queue.
func (w *Worker) Idle() bool { return w.idleAt > 0 }

// Room returns how many tasks of a demand could start at the worker at once. It is the lesser of two numbers: by
// the last reported load, and by the attempts of this frontend. The report may not include the newest attempts.
func (w *Worker) Room(d probe.Demand) int { return d.Times(w.unusedRoom()) }

// unusedRoom returns the lesser of the reported free room and the room without the attempts of this frontend.
func (w *Worker) unusedRoom() probe.Demand {
	unused := w.welcome.Capacity.Sub(w.taken)
	return probe.Demand{CPU: min(w.load.Free.CPU, unused.CPU), Mem: min(w.load.Free.Mem, unused.Mem)}
}

// Taken returns the demand of this frontend's attempts at the worker.
func (w *Worker) Taken() probe.Demand { return w.taken }

// Uncounted returns the promises that the worker's matrix does not count yet. Read-only.
func (w *Worker) Uncounted() []Promise { return w.uncounted }

// IsAvoided reports whether short tasks avoid the worker, as of the last look.
func (w *Worker) IsAvoided() bool { return !w.avoidUntil.IsZero() }

// AlwaysOpen returns the part of the worker that long tasks may use at any time.
func (w *Worker) AlwaysOpen() probe.Demand {
	if w.welcome.Open == (probe.Demand{}) {
		return w.welcome.Capacity
	}
	return w.welcome.Open
}

// Pace returns how many times as long as expected long tasks took recently at the worker; 0: unknown.
func (w *Worker) Pace() float64 { return w.pace }

// Name returns the worker's name for people.
func (w *Worker) Name() string {
	if w.welcome.Worker == "" {
		return "the worker at " + w.address
	}
	return "worker " + w.welcome.Worker
}

// Server returns w's row for placing by estimation, with one correction. If w has no work of this frontend, and a
// load newer than the matrix shows no work, the matrix in the result shows no wait. The parameter ours is the number
// of this frontend's reservations and attempts at w. If w is down, Server returns the zero Server.
func (v *View) Server(w *Worker, ours int) estimate.Server {
	row := v.fleet.Get(int32(w.Key))
	if row == nil {
		return estimate.Server{}
	}
	s := *row
	if row.Matrix != nil && w.hasLoadAfter(row) && ours+int(w.load.Queued+w.load.Running) == 0 {
		s.Matrix, s.Heard = row.Matrix.Idle(), time.Unix(0, w.heardAt)
	}
	return s
}

// hasLoadAfter reports whether the load is newer than the matrix in row. Messages of a frame have one time, so the
// load of a later message may have the same time as the matrix.
func (w *Worker) hasLoadAfter(row *estimate.Server) bool {
	matrixAt := row.Heard.UnixNano()
	return matrixAt < w.heardAt || matrixAt == w.heardAt && w.loadIsLater
}
