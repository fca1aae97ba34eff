package record

import (
	"strings"
	"time"
)

// maxSeries bounds the series that are counted at a time. Those of tenants that are told apart take three quarters at most, so
// that there is room for the others.
const maxSeries = 64

// maxName bounds a name, in bytes: what is longer is cut.
const maxName = 128

// electEvery is how often it is looked which tenants are to be told apart.
const electEvery = 5 * time.Minute

// Intake counts what happens.
type Intake struct {
	batch     *Batch // what was counted since it was taken last
	slots     map[Key]uint16
	epoch     uint32 // of the slots
	tenants   tenants
	electedAt time.Time
}

// Slot is where a key is counted, as long as its epoch lasts.
type Slot struct {
	at    uint16
	epoch uint32
}

// Batch is what was counted between two moments.
type Batch struct {
	Tally    // of what took it
	from, to time.Time
	keys     []Key
	series   []series // of these
}

// Tally is what is told of a window beside what was timed.
type Tally struct {
	Accepted, Tasks, Failed uint64        // jobs; tasks with an outcome; of these, without a result
	Refused                 [8]uint64     // jobs, by a number for the reason
	Age                     time.Duration // for which the job that has waited longest for its first task to start has waited
	Pending, Running        int           // tasks
}

// Add makes t one of two windows: counts add up, of what comes and goes the most is told.
func (t *Tally) Add(o *Tally) {
	t.Accepted, t.Tasks, t.Failed = t.Accepted+o.Accepted, t.Tasks+o.Tasks, t.Failed+o.Failed
	for i, n := range o.Refused {
		t.Refused[i] += n
	}
	t.Age, t.Pending, t.Running = max(t.Age, o.Age), max(t.Pending, o.Pending), max(t.Running, o.Running)
}

// NewIntake makes an intake that has counted nothing.
func NewIntake(now time.Time) *Intake {
	return &Intake{batch: &Batch{from: now}, slots: map[Key]uint16{}, epoch: 1, electedAt: now}
}

// Tenant notes that a tenant has submitted so many tasks. Those that have most are told apart.
func (in *Intake) Tenant(name string, tasks int) { in.tenants.add(cut(name), uint64(tasks)) }

// Slot is where key is counted until the next Take. Given its last answer for the same key, it most often returns that.
func (in *Intake) Slot(key Key, last Slot) Slot {
	if last.epoch == in.epoch {
		return last
	}
	key.Policy, key.Tenant = cut(key.Policy), cut(key.Tenant)
	if !in.tenants.has(key.Tenant) {
		key.Tenant = Other
	}
	for {
		room := maxSeries * 3 / 4
		if key.Tenant == Other {
			room = maxSeries - 1
		}
		if key.Policy == Other {
			room = maxSeries
		}
		if at, ok := in.slots[key]; ok {
			return Slot{at, in.epoch}
		}
		if n := len(in.batch.keys); n < room {
			in.slots[key] = uint16(n)
			in.batch.keys, in.batch.series = append(in.batch.keys, key), append(in.batch.series, series{})
			continue
		}
		if key.Tenant != Other {
			key.Tenant = Other
		} else {
			key = Key{Other, Other, Other}
		}
	}
}

func cut(name string) string {
	if len(name) <= maxName {
		return name
	}
	return strings.ToValidUTF8(name[:maxName], "")
}

// Add counts one.
func (in *Intake) Add(s Slot, m Measure, d time.Duration) { in.batch.series[s.at].add(m, d) }

// AddPhases counts those of an attempt.
func (in *Intake) AddPhases(s Slot, a *Attempt) {
	of := &in.batch.series[s.at]
	for i, d := range a.Phases() {
		of.add(Measure(i), d)
	}
}

// Take hands out what was counted since the last time. From then on it is counted in empty, which History.Add is done with, or
// nil. now may be before the last time: clocks are set.
func (in *Intake) Take(now time.Time, empty *Batch) *Batch {
	full := in.batch
	if full.to = now; now.Before(full.from) {
		full.from = now
	}
	if empty == nil {
		empty = &Batch{}
	}
	empty.from, empty.keys, empty.series = now, append(empty.keys[:0], full.keys...), empty.series[:cap(empty.series)]
	for len(empty.series) < len(empty.keys) {
		empty.series = append(empty.series, series{})
	}
	empty.series = empty.series[:len(empty.keys)]
	in.batch = empty
	if now.Sub(in.electedAt).Abs() >= electEvery {
		in.electedAt = now
		if in.tenants.elect() {
			in.resettle()
		}
	}
	return full
}

// resettle gives away the slots of tenants that are not told apart any more.
func (in *Intake) resettle() {
	in.epoch++
	clear(in.slots)
	b := in.batch
	keys := b.keys
	b.keys = b.keys[:0]
	for _, key := range keys {
		if key.Tenant == Other || in.tenants.has(key.Tenant) {
			in.slots[key] = uint16(len(b.keys))
			b.keys = append(b.keys, key)
		}
	}
	b.series = b.series[:len(b.keys)] // nothing is counted there yet
}
