package estimate

import (
	"maps"
	"math"
	"slices"
	"time"
)

// What failed, and what that says of the worker:
//
//   - a task's own error says nothing of it, unless the tasks of several functions fail there in a row: then
//     the worker is the cause and is charged with one failure;
//   - a worker that is lost alone is charged with one failure;
//   - workers that are lost together, by the rack or by a share of the fleet, had one failure among them all,
//     and each is charged with its part of it.
//
// A failure fades: after Config.Grudge it counts for 1/e.

const (
	// blameAfter is how many functions must fail in a row at a worker before the worker is taken for the cause.
	blameAfter = 3
	// rackOutage and fleetOutage are how many workers are lost together before it is one event: of one rack
	// (or the whole rack, if it has fewer, but at least two), and of the fleet (or 1 % of it, if that is more).
	rackOutage  = 3
	fleetOutage = 10
	// keptCharges is how many failures of a worker are kept; older ones are as good as faded.
	keptCharges = 8
	// maxHistories bounds the workers, by name, whose failures are kept beyond those of the fleet.
	maxHistories = 65536
)

// outage is workers lost within Config.Outage of the first of them.
type outage struct {
	since     time.Time
	size      int // workers
	rackSize  int // of how many, when the last was lost; 0: of the whole fleet
	fleetSize int
}

// isOneEvent reports whether an outage is one event rather than several.
func (o *outage) isOneEvent() bool {
	if o.rackSize > 0 {
		return o.size >= rackOutage || o.size >= 2 && o.size >= o.rackSize
	}
	return o.size >= max(fleetOutage, (o.fleetSize+99)/100)
}

// failureCharge is a failure of a worker.
type failureCharge struct {
	at          time.Time
	rack, fleet *outage // what it may be a part of; nil: of nothing
}

// chargedPart is the part of a failure that the worker is charged with.
func (c *failureCharge) chargedPart() float64 {
	w := 1.0
	for _, o := range [...]*outage{c.rack, c.fleet} {
		if o != nil && o.isOneEvent() {
			w = min(w, 1/float64(o.size))
		}
	}
	return w
}

// failureHistory is how a worker did, over all its incarnations.
type failureHistory struct {
	charges         [keptCharges]failureCharge
	n               int // ever; charges[i%remembered] is the i-th
	failedFunctions [blameAfter]string
	failedCount     int // different functions that failed since the last success
}

func (r *failureHistory) addCharge(c failureCharge) {
	r.charges[r.n%keptCharges] = c
	r.n++
}

// failures are the failures of all workers.
type failures struct {
	cfg    Config
	byName map[string]*failureHistory
	racks  map[string]*outage // the last of each rack
	fleet  *outage
}

func newFailures(cfg Config) failures {
	return failures{cfg: cfg, byName: map[string]*failureHistory{}, racks: map[string]*outage{}}
}

// historyOf is the record of a worker, made if there is none.
func (fs *failures) historyOf(row *serverRow) *failureHistory {
	if row.history == nil {
		row.history = &failureHistory{}
		fs.byName[row.Name] = row.history
	}
	return row.history
}

// forgetFaded bounds what is kept: it drops the records of workers that are no longer in the fleet, those whose
// failures have faded first, and the racks' outages that are over.
func (fs *failures) forgetFaded(now time.Time, inFleet map[string]int32) {
	for _, least := range [...]float64{0.01, math.Inf(1)} {
		if len(fs.byName) <= maxHistories+len(inFleet) {
			break
		}
		maps.DeleteFunc(fs.byName, func(name string, r *failureHistory) bool {
			_, ok := inFleet[name]
			return !ok && fs.failureRate(r, now)*fs.cfg.Grudge.Seconds() < least
		})
	}
	if len(fs.racks) > maxHistories {
		maps.DeleteFunc(fs.racks, func(_ string, o *outage) bool { return now.Sub(o.since) > fs.cfg.Outage })
	}
}

// failureRate is the failures to expect of a worker, per second; r is nil if it never failed.
func (fs *failures) failureRate(r *failureHistory, now time.Time) float64 {
	rate := 1 / fs.cfg.Lifetime.Seconds()
	if r == nil {
		return rate
	}
	for i := range min(r.n, keptCharges) {
		c := &r.charges[i]
		age := max(now.Sub(c.at), 0)
		rate += c.chargedPart() * math.Exp(-age.Seconds()/fs.cfg.Grudge.Seconds()) / fs.cfg.Grudge.Seconds()
	}
	return rate
}

// joinOutage adds a lost worker to an outage, a new one if that is over.
func (fs *failures) joinOutage(o *outage, now time.Time) *outage {
	if o == nil || now.Sub(o.since) > fs.cfg.Outage {
		o = &outage{since: now}
	}
	o.size++
	return o
}

// NoteLost notes that a worker crashed, vanished or came back as another incarnation. Call it before Remove, once
// for each loss, not for one that drained.
func (f *Fleet) NoteLost(key int32, now time.Time) {
	row := f.rowOf(key)
	if row == nil {
		return
	}
	fs, r := &f.failures, f.failures.historyOf(row)
	c := failureCharge{at: now}
	if !r.wasLostSince(now.Add(-fs.cfg.Outage)) { // twice in one outage: the second time is its own failure
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

// wasLostSince reports whether the worker took part in what may be an outage since then.
func (r *failureHistory) wasLostSince(since time.Time) bool {
	for i := range min(r.n, keptCharges) {
		if c := &r.charges[i]; c.fleet != nil && !c.at.Before(since) {
			return true
		}
	}
	return false
}

// NoteEnded notes how a task ended by itself at a worker.
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

// survivalChance is the chance that a worker is there until a task is over, which takes about run from now, give or
// take spread (a standard deviation). Nobody knows a run exactly: a spread below a quarter of it counts as that.
func (f *Fleet) survivalChance(row *serverRow, now time.Time, run, spread time.Duration) float64 {
	expected := f.failures.failureRate(row.history, now) * run.Seconds()
	p := 1 - expected
	if expected > 1e-4 { // else exp(-x) is 1-x to eight digits, and this runs for each of hundreds of candidates
		p = math.Exp(-expected)
	}
	if row.Maintenance.IsZero() {
		return p
	}
	left := row.Maintenance.Sub(now).Seconds()
	if left <= 0 {
		return 0
	}
	sigma := max(spread.Seconds(), run.Seconds()/4)
	if sigma == 0 {
		return p
	}
	return p * 0.5 * math.Erfc((run.Seconds()-left)/(sigma*math.Sqrt2))
}

// FailureRate is the failures expected of a worker per hour, announced maintenance apart; 0 if it is not known.
func (f *Fleet) FailureRate(key int32, now time.Time) float64 {
	row := f.rowOf(key)
	if row == nil {
		return 0
	}
	return f.failures.failureRate(row.history, now) * 3600
}
