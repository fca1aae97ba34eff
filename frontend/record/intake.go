package record

import (
	"math/rand/v2"
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

// Of the tasks of a key that give results between two Takes, so many have all their phases counted; of those that follow, as many again
// each stand for two, then for four, and so on. To count all costs a frontend whose tasks do nothing 1 % of its time, and tells little
// more: however many there are, the rank of the 0.99-quantile of a second is off by 0.006 at most in nineteen of twenty.
const (
	exactly      = 1 << 9
	maxDoublings = 16 // of how many one stands for: there are never as many tasks
)

// perSecond is how many tasks may be submitted between two Takes, on the average of as many Takes as those count for, so that all attempts
// of all jobs are remembered. Of more, those of a part of the jobs are, chosen by lot as they come: what is remembered then reaches back for
// as long as a recording does, and longer.
const (
	perSecond = maxAttempts / 64
	average   = 16
)

// Intake counts what happens.
type Intake struct {
	rand      *rand.Rand
	batch     *Batch   // what was counted since it was taken last
	paces     []pace   // of its keys
	phases    []phases // that are not in the batch yet
	jobs      []job    // likewise
	slots     map[Key]uint16
	epoch     uint32 // of the slots
	recent    Key    // that Slot was last asked for
	settled   Slot   // of that
	tenants   tenants
	submitted uint64  // tasks, since the last Take
	rate      float64 // of these, between two Takes
	share     float64 // of jobs, of which all attempts are to be remembered
	electedAt time.Time
}

// Slot is where a key is counted, as long as its epoch lasts.
type Slot struct {
	at    uint16
	epoch uint32
}

// pace tells which of the tasks of a key have their phases counted: of each few that follow each other one, by lot, so that no rhythm of
// the tasks agrees with it.
type pace struct {
	counted uint32 // since the last Take
	of      uint32 // for how many the next one stands that is
	until   uint32 // and how many of these have not ended
	left    uint32 // of its few, behind it
}

// phases are those of a task that are to be counted.
type phases struct {
	took  [Phases]time.Duration
	times uint32
	at    uint16 // of its key
}

// job is what is to be counted of one.
type job struct {
	response, slowdown time.Duration // 0: it has none
	at                 uint16        // of its key
}

// atOnce is of how many tasks, and jobs, all is counted at once, one thing after the other: the histograms of all things do not fit into
// the cache that is next to the processor beside what else there is to do for a task.
const atOnce = 256

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

// NewIntake makes an intake that has counted nothing. It owns rng.
func NewIntake(now time.Time, rng *rand.Rand) *Intake {
	return &Intake{
		rand: rng, batch: &Batch{from: now}, slots: map[Key]uint16{}, epoch: 1, electedAt: now, share: 1,
		phases: make([]phases, 0, atOnce), jobs: make([]job, 0, atOnce),
	}
}

// Submitted notes that a tenant has submitted a job of so many tasks. Those that have most are told apart. It reports whether all
// attempts of the job are to be remembered, or only those that failed.
func (in *Intake) Submitted(tenant string, tasks int) (whole bool) {
	in.tenants.add(cut(tenant), uint64(tasks))
	in.submitted += uint64(tasks)
	return in.share == 1 || in.rand.Float64() < in.share
}

// Holds reports whether what Slot has answered holds still.
func (in *Intake) Holds(s Slot) bool { return s.epoch == in.epoch }

// Slot is where key is counted as long as that Holds.
func (in *Intake) Slot(key Key) Slot {
	if key != in.recent || !in.Holds(in.settled) {
		in.recent, in.settled = key, in.settle(key)
	}
	return in.settled
}

func (in *Intake) settle(key Key) Slot {
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
			in.paces = append(in.paces, pace{of: 1, until: 1})
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

// AddJob counts one that has ended; a slowdown of 0 is not known.
func (in *Intake) AddJob(s Slot, response, slowdown time.Duration) {
	if in.jobs = append(in.jobs, job{response, slowdown, s.at}); len(in.jobs) == atOnce {
		in.settleJobs()
	}
}

func (in *Intake) settleJobs() {
	for i := range in.jobs {
		in.batch.series[in.jobs[i].at].add(Response, in.jobs[i].response, 1)
	}
	for i := range in.jobs {
		if d := in.jobs[i].slowdown; d > 0 {
			in.batch.series[in.jobs[i].at].add(Slowdown, d, 1)
		}
	}
	in.jobs = in.jobs[:0]
}

// StandsFor is for how many tasks the phases of one that has ended are to be counted; 0: a later one stands for it.
func (in *Intake) StandsFor(s Slot) uint32 {
	p := &in.paces[s.at]
	if p.until--; p.until > 0 {
		return 0
	}
	return in.draw(p)
}

// draw notes that a task is counted, and draws which the next one is.
func (in *Intake) draw(p *pace) uint32 {
	n := p.of
	p.of = p.left + 1
	if p.counted++; p.counted >= exactly {
		few := uint32(1) << min(p.counted/exactly, maxDoublings)
		before := in.rand.Uint32N(few)
		p.of, p.left = p.of+before, few-1-before
	}
	p.until = p.of
	return n
}

// AddPhases counts those of an attempt, for so many.
func (in *Intake) AddPhases(s Slot, a *Attempt, times uint32) {
	if in.phases = append(in.phases, phases{a.Phases(), times, s.at}); len(in.phases) == atOnce {
		in.settlePhases()
	}
}

func (in *Intake) settlePhases() {
	for m := range Measure(Phases) {
		for i := range in.phases {
			x := &in.phases[i]
			in.batch.series[x.at].add(m, x.took[m], uint64(x.times))
		}
	}
	in.phases = in.phases[:0]
}

// Take hands out what was counted since the last time. From then on it is counted in empty, which History.Add is done with, or
// nil. now may be before the last time: clocks are set.
func (in *Intake) Take(now time.Time, empty *Batch) *Batch {
	in.settlePhases()
	in.settleJobs()
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
	for i := range in.paces {
		p := &in.paces[i]
		*p = pace{of: p.of - p.until + 1, until: 1} // the next one is counted
	}
	in.rate, in.submitted = in.rate+(float64(in.submitted)-in.rate)/average, 0
	in.share = min(1, perSecond/max(in.rate, 1))
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
	for i, key := range keys {
		if key.Tenant == Other || in.tenants.has(key.Tenant) {
			in.slots[key] = uint16(len(b.keys))
			in.paces[len(b.keys)] = in.paces[i]
			b.keys = append(b.keys, key)
		}
	}
	b.series, in.paces = b.series[:len(b.keys)], in.paces[:len(b.keys)] // nothing is counted there yet
}
