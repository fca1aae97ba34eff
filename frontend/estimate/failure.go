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
	// strangers is how many functions must fail in a row at a worker before the worker is taken for the cause.
	strangers = 3
	// rackOutage and fleetOutage are how many workers are lost together before it is one event: of one rack
	// (or the whole rack, if it has fewer, but at least two), and of the fleet (or 1 % of it, if that is more).
	rackOutage  = 3
	fleetOutage = 10
	// remembered is how many failures of a worker are kept; older ones are as good as faded.
	remembered = 8
	// maxRecords bounds the workers, by name, whose failures are kept beyond those of the fleet.
	maxRecords = 65536
)

// outage is workers lost within Config.Outage of the first of them.
type outage struct {
	since time.Time
	size  int // workers
	rack  int // of how many, when the last was lost; 0: of the whole fleet
	fleet int
}

// one reports whether an outage is one event rather than several.
func (o *outage) one() bool {
	if o.rack > 0 {
		return o.size >= rackOutage || o.size >= 2 && o.size >= o.rack
	}
	return o.size >= max(fleetOutage, (o.fleet+99)/100)
}

// charge is a failure of a worker.
type charge struct {
	at          time.Time
	rack, fleet *outage // what it may be a part of; nil: of nothing
}

// weight is the part of a failure that the worker is charged with.
func (c *charge) weight() float64 {
	w := 1.0
	for _, o := range [...]*outage{c.rack, c.fleet} {
		if o != nil && o.one() {
			w = min(w, 1/float64(o.size))
		}
	}
	return w
}

// record is how a worker did, over all its incarnations.
type record struct {
	charges [remembered]charge
	n       int // ever; charges[i%remembered] is the i-th
	blamed  [strangers]string
	failing int // different functions that failed since the last success
}

func (r *record) charge(c charge) {
	r.charges[r.n%remembered] = c
	r.n++
}

// failures are the failures of all workers.
type failures struct {
	cfg    Config
	byName map[string]*record
	racks  map[string]*outage // the last of each rack
	fleet  *outage
}

func newFailures(cfg Config) failures {
	return failures{cfg: cfg, byName: map[string]*record{}, racks: map[string]*outage{}}
}

// of is the record of a worker, made if there is none.
func (fs *failures) of(row *server) *record {
	if row.record == nil {
		row.record = &record{}
		fs.byName[row.Name] = row.record
	}
	return row.record
}

// forget bounds what is kept: it drops the records of workers that are no longer in the fleet, those whose
// failures have faded first, and the racks' outages that are over.
func (fs *failures) forget(now time.Time, inFleet map[string]int32) {
	for _, least := range [...]float64{0.01, math.Inf(1)} {
		if len(fs.byName) <= maxRecords+len(inFleet) {
			break
		}
		maps.DeleteFunc(fs.byName, func(name string, r *record) bool {
			_, ok := inFleet[name]
			return !ok && fs.rate(r, now)*fs.cfg.Grudge.Seconds() < least
		})
	}
	if len(fs.racks) > maxRecords {
		maps.DeleteFunc(fs.racks, func(_ string, o *outage) bool { return now.Sub(o.since) > fs.cfg.Outage })
	}
}

// rate is the failures to expect of a worker, per second; r is nil if it never failed.
func (fs *failures) rate(r *record, now time.Time) float64 {
	rate := 1 / fs.cfg.Lifetime.Seconds()
	if r == nil {
		return rate
	}
	for i := range min(r.n, remembered) {
		c := &r.charges[i]
		age := max(now.Sub(c.at), 0)
		rate += c.weight() * math.Exp(-age.Seconds()/fs.cfg.Grudge.Seconds()) / fs.cfg.Grudge.Seconds()
	}
	return rate
}

// join adds a lost worker to an outage, a new one if that is over.
func (fs *failures) join(o *outage, now time.Time) *outage {
	if o == nil || now.Sub(o.since) > fs.cfg.Outage {
		o = &outage{since: now}
	}
	o.size++
	return o
}

// Lost notes that a worker crashed, vanished or came back as another incarnation. Call it before Remove, once
// for each loss, not for one that drained.
func (f *Fleet) Lost(key int32, now time.Time) {
	row := f.at(key)
	if row == nil {
		return
	}
	fs, r := &f.failures, f.failures.of(row)
	c := charge{at: now}
	if !r.lostSince(now.Add(-fs.cfg.Outage)) { // twice in one outage: the second time is its own failure
		fs.fleet = fs.join(fs.fleet, now)
		fs.fleet.fleet = max(f.count, fs.fleet.fleet)
		c.fleet = fs.fleet
		if row.rack != nil {
			o := fs.join(fs.racks[row.Rack], now)
			o.rack = max(len(row.rack.members), o.rack)
			c.rack, fs.racks[row.Rack] = o, o
		}
	}
	r.charge(c)
	fs.forget(now, f.names)
}

// lostSince reports whether the worker took part in what may be an outage since then.
func (r *record) lostSince(then time.Time) bool {
	for i := range min(r.n, remembered) {
		if c := &r.charges[i]; c.fleet != nil && !c.at.Before(then) {
			return true
		}
	}
	return false
}

// Ended notes how a task ended by itself at a worker.
func (f *Fleet) Ended(key int32, function string, ok bool, now time.Time) {
	row := f.at(key)
	if row == nil {
		return
	}
	if ok {
		if row.record != nil {
			row.record.failing = 0
		}
		return
	}
	r := f.failures.of(row)
	if slices.Contains(r.blamed[:r.failing], function) {
		return
	}
	r.blamed[r.failing] = function
	if r.failing++; r.failing == strangers {
		r.failing = 0
		r.charge(charge{at: now})
	}
	f.failures.forget(now, f.names)
}

// survives is the chance that a worker is there until a task is over, which takes about run from now, give or
// take spread (a standard deviation). Nobody knows a run exactly: a spread below a quarter of it counts as that.
func (f *Fleet) survives(row *server, now time.Time, run, spread time.Duration) float64 {
	expected := f.failures.rate(row.record, now) * run.Seconds()
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
	row := f.at(key)
	if row == nil {
		return 0
	}
	return f.failures.rate(row.record, now) * 3600
}
