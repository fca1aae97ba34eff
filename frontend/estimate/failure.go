package estimate

import (
	"maps"
	"math"
	"slices"
	"time"
)

// The failure model charges workers with failures:
//
//   - A task's own error charges no worker. Exception: the tasks of several functions fail at a worker in a row.
//     Then the worker is the cause, and is charged with one failure.
//   - A worker lost alone is charged with one failure.
//   - Workers lost together, by the rack or by a share of the fleet, had one failure together. Each is charged with
//     its part.
//
// A worker that went away for announced maintenance is charged, too: the machine may not be well yet.
//
// After a failure, a worker is on probation: the longer it has survived, the longer it is expected to go on. A worker
// that has survived for s survives a run of R with a chance of (s+probation)/(s+probation+R), for each failure. So a
// worker that crashes again and again gets few long tasks, and a sound worker gets its share back. A failure fades,
// too: after Config.Grudge it counts for 1/e.

const (
	// probation is the time within which a worker that has just failed fails again with a chance of one half. The
	// time was chosen, and not measured: a worker that cannot run fails within seconds.
	probation = 30 * time.Second
	// blameAfter is the number of functions that must fail in a row at a worker to blame the worker.
	blameAfter = 3
	// rackOutage and fleetOutage are the numbers of workers lost together that make one event. In a rack, a smaller
	// rack is one event if all its workers are lost, at least two. In the fleet, the number is 1 % of the fleet, if
	// that is more.
	rackOutage  = 3
	fleetOutage = 10
	// keptCharges is the number of failures kept per worker; older failures have practically faded.
	keptCharges = 8
	// maxHistories bounds the failure histories, by worker name, beyond the workers of the fleet.
	maxHistories = 65536
)

// outage is a set of workers lost within Config.Outage of the first loss.
type outage struct {
	since     time.Time
	size      int // workers
	rackSize  int // workers of the rack at the last loss; 0: an outage of the whole fleet
	fleetSize int
}

// isOneEvent reports whether an outage is a single event, not several independent failures.
func (o *outage) isOneEvent() bool {
	if o.rackSize > 0 {
		return o.size >= rackOutage || o.size >= 2 && o.size >= o.rackSize
	}
	return o.size >= max(fleetOutage, (o.fleetSize+99)/100)
}

// failureCharge is a failure of a worker.
type failureCharge struct {
	at          time.Time
	rack, fleet *outage // outages that the failure may belong to; nil: none
}

// chargedPart returns the part of the failure charged to the worker: 1, or 1/size of its outage.
func (c *failureCharge) chargedPart() float64 {
	w := 1.0
	for _, o := range [...]*outage{c.rack, c.fleet} {
		if o != nil && o.isOneEvent() {
			w = min(w, 1/float64(o.size))
		}
	}
	return w
}

// failureHistory is the history of a worker's failures, over all its incarnations.
type failureHistory struct {
	charges         [keptCharges]failureCharge
	n               int // charges ever; charges[i%keptCharges] is the i-th
	failedFunctions [blameAfter]string
	failedCount     int // number of different functions that failed since the last success
}

func (r *failureHistory) addCharge(c failureCharge) {
	r.charges[r.n%keptCharges] = c
	r.n++
}

// failures holds the failure histories of all workers, and the running outages.
type failures struct {
	cfg    Config
	byName map[string]*failureHistory
	racks  map[string]*outage // last outage of each rack
	fleet  *outage
}

func newFailures(cfg Config) failures {
	return failures{cfg: cfg, byName: map[string]*failureHistory{}, racks: map[string]*outage{}}
}

// historyOf returns the history of a worker, and creates it if missing.
func (fs *failures) historyOf(row *serverRow) *failureHistory {
	if row.history == nil {
		row.history = &failureHistory{}
		fs.byName[row.Name] = row.history
	}
	return row.history
}

// forgetFaded bounds the memory. If there are too many histories, it drops histories of workers outside the fleet,
// faded histories first. It also drops ended outages of racks.
func (fs *failures) forgetFaded(now time.Time, inFleet map[string]int32) {
	for _, least := range [...]float64{0.01, math.Inf(1)} {
		if len(fs.byName) <= maxHistories+len(inFleet) {
			break
		}
		maps.DeleteFunc(fs.byName, func(name string, r *failureHistory) bool {
			_, ok := inFleet[name]
			return !ok && fs.countFailures(r, now) < least
		})
	}
	if len(fs.racks) > maxHistories {
		maps.DeleteFunc(fs.racks, func(_ string, o *outage) bool { return now.Sub(o.since) > fs.cfg.Outage })
	}
}

// eachFailure calls yield with the failures charged to a worker, faded, and with their ages. r is nil if the worker
// never failed.
func (fs *failures) eachFailure(r *failureHistory, now time.Time, yield func(weight float64, age time.Duration)) {
	if r == nil {
		return
	}
	for i := range min(r.n, keptCharges) {
		c := &r.charges[i]
		age := max(now.Sub(c.at), 0)
		yield(c.chargedPart()*math.Exp(-age.Seconds()/fs.cfg.Grudge.Seconds()), age)
	}
}

// countFailures returns the number of failures charged to a worker, faded.
func (fs *failures) countFailures(r *failureHistory, now time.Time) (sum float64) {
	fs.eachFailure(r, now, func(weight float64, _ time.Duration) { sum += weight })
	return sum
}

// joinOutage adds a lost worker to outage o, or to a new outage if o is over or nil.
func (fs *failures) joinOutage(o *outage, now time.Time) *outage {
	if o == nil || now.Sub(o.since) > fs.cfg.Outage {
		o = &outage{since: now}
	}
	o.size++
	return o
}

// NoteLost notes that a worker crashed, vanished, came back as another incarnation, or left for announced maintenance.
// Call NoteLost before Remove, once per loss. Do not call it for another drained worker.
func (f *Fleet) NoteLost(key int32, now time.Time) {
	row := f.rowOf(key)
	if row == nil {
		return
	}
	fs, r := &f.failures, f.failures.historyOf(row)
	c := failureCharge{at: now}
	if !r.wasLostSince(now.Add(-fs.cfg.Outage)) { // a second loss within an outage is the worker's own failure
		fs.fleet = fs.joinOutage(fs.fleet, now)
		fs.fleet.fleetSize = max(f.count, fs.fleet.fleetSize)
		c.fleet = fs.fleet
		if row.rack != nil {
			o := fs.joinOutage(fs.racks[row.Rack], now)
			o.rackSize = max(len(row.rack.members), o.rackSize)
			c.rack, fs.racks[row.Rack] = o, o
		}
	}
	r.addCharge(c)
	fs.forgetFaded(now, f.names)
}

// wasLostSince reports whether the worker joined an outage at or after since.
func (r *failureHistory) wasLostSince(since time.Time) bool {
	for i := range min(r.n, keptCharges) {
		if c := &r.charges[i]; c.fleet != nil && !c.at.Before(since) {
			return true
		}
	}
	return false
}

// NoteEnded notes that a task of function ended by itself at a worker; ok: with success.
func (f *Fleet) NoteEnded(key int32, function string, ok bool, now time.Time) {
	row := f.rowOf(key)
	if row == nil {
		return
	}
	if ok {
		if row.history != nil {
			row.history.failedCount = 0
		}
		return
	}
	r := f.failures.historyOf(row)
	if slices.Contains(r.failedFunctions[:r.failedCount], function) {
		return
	}
	r.failedFunctions[r.failedCount] = function
	if r.failedCount++; r.failedCount == blameAfter {
		r.failedCount = 0
		r.addCharge(failureCharge{at: now})
	}
	f.failures.forgetFaded(now, f.names)
}

// survivalChance returns the chance that a worker stays up while a task runs for run, and that the task ends, about end
// from now, before announced maintenance. The standard deviation of end is spread. No end is known exactly, so a spread
// below end/4 counts as end/4.
func (f *Fleet) survivalChance(row *serverRow, now time.Time, run, end, spread time.Duration) float64 {
	expected := run.Seconds() / f.cfg.Lifetime.Seconds()
	f.failures.eachFailure(row.history, now, func(weight float64, age time.Duration) {
		expected += weight * math.Log1p(run.Seconds()/(age+probation).Seconds())
	})
	p := 1 - expected
	if expected > 1e-4 { // otherwise exp(-x) is 1-x to eight digits; math.Exp would run for hundreds of candidates
		p = math.Exp(-expected)
	}
	if row.Maintenance.IsZero() {
		return p
	}
	untilAway := row.Maintenance.Sub(now).Seconds()
	if untilAway <= 0 {
		return 0
	}
	sigma := max(spread.Seconds(), end.Seconds()/4)
	if sigma == 0 {
		return p
	}
	return p * 0.5 * math.Erfc((end.Seconds()-untilAway)/(sigma*math.Sqrt2))
}

// Failures returns the number of failures charged to a worker, without announced maintenance. A failure fades, and
// counts in part if other workers failed at the same time. The result is 0 if the worker is unknown.
func (f *Fleet) Failures(key int32, now time.Time) float64 {
	row := f.rowOf(key)
	if row == nil {
		return 0
	}
	return f.failures.countFailures(row.history, now)
}

// IsDueAway reports whether a worker is about to go away for announced maintenance, or should be away.
func (f *Fleet) IsDueAway(key int32, now time.Time) bool {
	row := f.rowOf(key)
	return row != nil && !row.Maintenance.IsZero() && row.Maintenance.Sub(now) <= f.cfg.Outage
}
