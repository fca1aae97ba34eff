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
	countedExactly = 1 << 9
	maxDoublings   = 16 // of how many one stands for: there are never as many tasks
)

// allRemembered is how many tasks may be submitted between two Takes, on the average of as many Takes as those count for, so that all attempts
// of all jobs are remembered. Of more, those of a part of the jobs are, chosen by lot as they come: what is remembered then reaches back for
// as long as a recording does, and longer.
const (
	allRemembered = maxAttempts / 64
	averagedTakes = 16
)

// Intake counts what happens.
type Intake struct {
	rand            *rand.Rand
	batch           *Batch         // what was counted since it was taken last
	samplers        []phaseSampler // of its keys
	waitingPhases   []taskPhases   // that are not in the batch yet
	waitingJobs     []jobTimes     // likewise
	slots           map[Key]uint16
	epoch           uint32 // of the slots
	recentKey       Key    // that Slot was last asked for
	recentSlot      Slot   // of that
	tenants         heavyTenants
	submitted       uint64  // tasks, since the last Take
	submitRate      float64 // of these, between two Takes
	rememberedShare float64 // of jobs, of which all attempts are to be remembered
	electedAt       time.Time
}

// Slot is where a key is counted, as long as its epoch lasts.
type Slot struct {
	index uint16
	epoch uint32
}

// phaseSampler tells which of the tasks of a key have their phases counted: of each few that follow each other one, by lot, so that no rhythm of
// the tasks agrees with it.
type phaseSampler struct {
	counted   uint32 // since the last Take
	standsFor uint32 // for how many the next one stands that is
	untilNext uint32 // and how many of these have not ended
	blockRest uint32 // of its few, behind it
}

// taskPhases are those of a task that are to be counted.
type taskPhases struct {
	took  [Phases]time.Duration
	times uint32
	slot  uint16 // of its key
}

// jobTimes is what is to be counted of one.
type jobTimes struct {
	response, slowdown time.Duration // 0: it has none
	slot               uint16        // of its key
}

// maxWaiting is of how many tasks, and jobs, all is counted at once, one thing after the other: the histograms of all things do not fit into
// the cache that is next to the processor beside what else there is to do for a task.
const maxWaiting = 256

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
		rand: rng, batch: &Batch{from: now}, slots: map[Key]uint16{}, epoch: 1, electedAt: now, rememberedShare: 1,
		waitingPhases: make([]taskPhases, 0, maxWaiting), waitingJobs: make([]jobTimes, 0, maxWaiting),
	}
}

// Submitted notes that a tenant has submitted a job of so many tasks. Those that have most are told apart. It reports whether all
// attempts of the job are to be remembered, or only those that failed.
func (in *Intake) Submitted(tenant string, tasks int) (whole bool) {
	in.tenants.addTasks(cutName(tenant), uint64(tasks))
	in.submitted += uint64(tasks)
	return in.rememberedShare == 1 || in.rand.Float64() < in.rememberedShare
}

// Holds reports whether what Slot has answered holds still.
func (in *Intake) Holds(s Slot) bool { return s.epoch == in.epoch }

// Slot is where key is counted as long as that Holds.
func (in *Intake) Slot(key Key) Slot {
	if key != in.recentKey || !in.Holds(in.recentSlot) {
		in.recentKey, in.recentSlot = key, in.findSlot(key)
	}
	return in.recentSlot
}

func (in *Intake) findSlot(key Key) Slot {
	key.Policy, key.Tenant = cutName(key.Policy), cutName(key.Tenant)
	if !in.tenants.hasName(key.Tenant) {
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
			in.samplers = append(in.samplers, phaseSampler{standsFor: 1, untilNext: 1})
			continue
		}
		if key.Tenant != Other {
			key.Tenant = Other
		} else {
			key = Key{Other, Other, Other}
		}
	}
}

func cutName(name string) string {
	if len(name) <= maxName {
		return name
	}
	return strings.ToValidUTF8(name[:maxName], "")
}

// AddJob counts one that has ended; a slowdown of 0 is not known.
func (in *Intake) AddJob(s Slot, response, slowdown time.Duration) {
	if in.waitingJobs = append(in.waitingJobs, jobTimes{response, slowdown, s.index}); len(in.waitingJobs) == maxWaiting {
		in.countJobs()
	}
}

func (in *Intake) countJobs() {
	for i := range in.waitingJobs {
		in.batch.series[in.waitingJobs[i].slot].addTime(Response, in.waitingJobs[i].response, 1)
	}
	for i := range in.waitingJobs {
		if d := in.waitingJobs[i].slowdown; d > 0 {
			in.batch.series[in.waitingJobs[i].slot].addTime(Slowdown, d, 1)
		}
	}
	in.waitingJobs = in.waitingJobs[:0]
}

// StandsFor is for how many tasks the phases of one that has ended are to be counted; 0: a later one stands for it.
func (in *Intake) StandsFor(s Slot) uint32 {
	p := &in.samplers[s.index]
	if p.untilNext--; p.untilNext > 0 {
		return 0
	}
	return in.drawNext(p)
}

// drawNext notes that a task is counted, and draws which the next one is.
func (in *Intake) drawNext(p *phaseSampler) uint32 {
	n := p.standsFor
	p.standsFor = p.blockRest + 1
	if p.counted++; p.counted >= countedExactly {
		block := uint32(1) << min(p.counted/countedExactly, maxDoublings)
		before := in.rand.Uint32N(block)
		p.standsFor, p.blockRest = p.standsFor+before, block-1-before
	}
	p.untilNext = p.standsFor
	return n
}

// AddPhases counts those of an attempt, for so many.
func (in *Intake) AddPhases(s Slot, a *Attempt, times uint32) {
	if in.waitingPhases = append(in.waitingPhases, taskPhases{a.Phases(), times, s.index}); len(in.waitingPhases) == maxWaiting {
		in.countPhases()
	}
}

func (in *Intake) countPhases() {
	for m := range Measure(Phases) {
		for i := range in.waitingPhases {
			x := &in.waitingPhases[i]
			in.batch.series[x.slot].addTime(m, x.took[m], uint64(x.times))
		}
	}
	in.waitingPhases = in.waitingPhases[:0]
}

// Take hands out what was counted since the last time. From then on it is counted in empty, which History.Add is done with, or
// nil. now may be before the last time: clocks are set.
func (in *Intake) Take(now time.Time, empty *Batch) *Batch {
	in.countPhases()
	in.countJobs()
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
	for i := range in.samplers {
		p := &in.samplers[i]
		*p = phaseSampler{standsFor: p.standsFor - p.untilNext + 1, untilNext: 1} // the next one is counted
	}
	in.submitRate, in.submitted = in.submitRate+(float64(in.submitted)-in.submitRate)/averagedTakes, 0
	in.rememberedShare = min(1, allRemembered/max(in.submitRate, 1))
	if now.Sub(in.electedAt).Abs() >= electEvery {
		in.electedAt = now
		if in.tenants.electNames() {
			in.reassignSlots()
		}
	}
	return full
}

// reassignSlots gives away the slots of tenants that are not told apart any more.
func (in *Intake) reassignSlots() {
	in.epoch++
	clear(in.slots)
	b := in.batch
	keys := b.keys
	b.keys = b.keys[:0]
	for i, key := range keys {
		if key.Tenant == Other || in.tenants.hasName(key.Tenant) {
			in.slots[key] = uint16(len(b.keys))
			in.samplers[len(b.keys)] = in.samplers[i]
			b.keys = append(b.keys, key)
		}
	}
	b.series, in.samplers = b.series[:len(b.keys)], in.samplers[:len(b.keys)] // nothing is counted there yet
}
