package record

import (
	"math/rand/v2"
	"strings"
	"time"
)

// maxSeries bounds the series counted at a time. Series of named tenants take three quarters at most, so that there
// is room for the rest.
const maxSeries = 64

// maxFunctions bounds the functions with series of their own. The series of functions come on top of maxSeries.
const maxFunctions = maxTenants

// maxName bounds a name, in bytes. Longer names are cut.
const maxName = 128

// electEvery is the period in which the named tenants are elected.
const electEvery = 5 * time.Minute

// Of the tasks of a key between two Takes, the phases of the first countedExactly are counted, one task for one. Then
// countedExactly tasks are counted that stand for two tasks each, then as many that stand for four, and so on. Tasks
// without a result are left out. Counting every task would cost a frontend 1 % of its time if its tasks do nothing,
// and would tell little more. At any number of tasks, the rank of the 0.99-quantile of a second is off by at most 0.006
// in nineteen of twenty seconds.
const (
	countedExactly = 1 << 9
	maxDoublings   = 16 // more doublings would need more tasks than ever end between two Takes
)

// allRemembered is the largest number of tasks submitted between two Takes for which all attempts are remembered. The
// number is an average over averagedTakes Takes. If more tasks come, all attempts are remembered only for some jobs,
// chosen by lot at their arrival. So the memory reaches back about 64 s, longer than a recording.
const (
	allRemembered = maxAttempts / 64
	averagedTakes = 16
)

// Intake counts events.
type Intake struct {
	rand            *rand.Rand
	batch           *Batch         // counts since the last Take
	samplers        []phaseSampler // by slot
	waitingPhases   []taskPhases   // to be added to the batch
	waitingJobs     []jobTimes     // to be added to the batch
	slots           map[Key]uint16
	epoch           uint32 // of the slots
	recentKey       Key    // the latest key asked for by Slot
	recentSlot      Slot   // slot of recentKey
	tenants         heavyNames
	functions       heavyNames
	functionSeries  int     // series of functions in batch
	recentFunction  string  // the latest function that was counted
	functionSlot    Slot    // slot of recentFunction
	submitted       uint64  // tasks since the last Take
	submitRate      float64 // average of submitted tasks between two Takes
	rememberedShare float64 // share of jobs with all attempts remembered
	electedAt       time.Time
}

// Slot is the place where a key is counted, valid as long as its epoch lasts.
type Slot struct {
	index uint16
	epoch uint32
}

// phaseSampler chooses the tasks of a key whose phases are counted: one task of each block. The lot decides, because
// a fixed choice could fall in step with a rhythm of the tasks.
type phaseSampler struct {
	counted   uint32 // tasks since the last Take
	standsFor uint32 // number of tasks represented by the next counted task: all since the last counted task
	untilNext uint32 // tasks until the next counted task, that task included
	blockRest uint32 // tasks of the block behind the counted task
	stoodFor  uint32 // number of tasks represented by the counted tasks since the last Take
	carried   uint32 // pending at the last Take
	failed    uint32 // all tasks without a result since the last Take
}

// pending returns the number of tasks with a result since the last counted task.
func (p *phaseSampler) pending() uint32 { return p.standsFor - p.untilNext }

// taskPhases are a task's phases, to be counted.
type taskPhases struct {
	took     [Phases]time.Duration
	whole    time.Duration
	times    uint32
	slot     uint16 // index of the key
	function uint16 // index of the function's key
}

// jobTimes are a job's times, to be counted.
type jobTimes struct {
	response, slowdown time.Duration // 0: not known
	slot               uint16        // index of the key
}

// maxWaiting bounds the tasks, and the jobs, that wait to be counted. They are then counted measure by measure. The
// histograms of all measures together would not fit into the processor's nearest cache beside the other data for a
// task.
const maxWaiting = 256

// Batch holds the counts between two moments.
type Batch struct {
	Tally         // filled in by the caller of Take
	Uses     Uses // filled in by the caller of Take
	from, to time.Time
	keys     []Key
	series   []series // by key
	counts   []Counts // by key
}

// Counts holds numbers of ended tasks: all, and the tasks without a result.
type Counts struct{ Tasks, Failed uint64 }

// Tally holds a window's plain counts, beside the measured times.
type Tally struct {
	Accepted, Tasks, Failed uint64        // jobs; tasks with an outcome; tasks with an outcome but no result
	Refused                 [8]uint64     // jobs, by number of the reason
	Age                     time.Duration // longest present wait of a job for the start of its first task
	Pending, Running        int           // tasks
}

// Add adds another window to t. Counts add up. Of Age, Pending and Running the larger value stays.
func (t *Tally) Add(o *Tally) {
	t.Accepted, t.Tasks, t.Failed = t.Accepted+o.Accepted, t.Tasks+o.Tasks, t.Failed+o.Failed
	for i, n := range o.Refused {
		t.Refused[i] += n
	}
	t.Age, t.Pending, t.Running = max(t.Age, o.Age), max(t.Pending, o.Pending), max(t.Running, o.Running)
}

// NewIntake makes an intake without counts. It owns rng.
func NewIntake(now time.Time, rng *rand.Rand) *Intake {
	return &Intake{
		rand: rng, batch: &Batch{from: now}, slots: map[Key]uint16{}, epoch: 1, electedAt: now, rememberedShare: 1,
		waitingPhases: make([]taskPhases, 0, maxWaiting), waitingJobs: make([]jobTimes, 0, maxWaiting),
	}
}

// NoteSubmitted notes that a tenant has submitted a job with a number of tasks. If whole is false, the caller should
// remember only the job's failed attempts.
func (in *Intake) NoteSubmitted(tenant string, tasks int) (whole bool) {
	in.tenants.addTasks(cutName(tenant), uint64(tasks))
	in.submitted += uint64(tasks)
	return in.rememberedShare == 1 || in.rand.Float64() < in.rememberedShare
}

// IsCurrent reports whether a slot returned by Slot is still valid.
func (in *Intake) IsCurrent(s Slot) bool { return s.epoch == in.epoch }

// Slot returns the slot of key, valid as long as IsCurrent says so.
func (in *Intake) Slot(key Key) Slot {
	if key != in.recentKey || !in.IsCurrent(in.recentSlot) {
		in.recentKey, in.recentSlot = key, in.findSlot(key)
	}
	return in.recentSlot
}

// findSlot returns the slot of a key, and makes a slot if there is room. Without room, the key is counted as Other.
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
		if len(in.batch.keys)-in.functionSeries < room {
			return in.addSlot(key)
		}
		if key.Tenant != Other {
			key.Tenant = Other
		} else {
			key = Key{Other, Other, Other}
		}
	}
}

// addSlot makes a slot for a key.
func (in *Intake) addSlot(key Key) Slot {
	at := uint16(len(in.batch.keys))
	in.slots[key] = at
	in.batch.keys, in.batch.series = append(in.batch.keys, key), append(in.batch.series, series{})
	in.samplers = append(in.samplers, phaseSampler{standsFor: 1, untilNext: 1})
	return Slot{at, in.epoch}
}

// findFunction returns the slot of a function, or of Other.
func (in *Intake) findFunction(name string) Slot {
	if name == in.recentFunction && in.IsCurrent(in.functionSlot) {
		return in.functionSlot
	}
	in.recentFunction = name
	if name = cutName(name); !in.functions.hasName(name) {
		name = Other
	}
	key := FunctionKey(name)
	at, known := in.slots[key]
	if in.functionSlot = (Slot{at, in.epoch}); !known {
		in.functionSlot = in.addSlot(key)
		in.functionSeries++
	}
	return in.functionSlot
}

// AddTask counts an attempt's phases for as many tasks as times says, under a key and under a function.
func (in *Intake) AddTask(s Slot, function string, a *Attempt, times uint32) {
	in.functions.addTasks(cutName(function), uint64(times))
	x := taskPhases{a.Phases(), a.Ends[Delivery] - a.Released, times, s.index, in.findFunction(function).index}
	if in.waitingPhases = append(in.waitingPhases, x); len(in.waitingPhases) == maxWaiting {
		in.flushPhases()
	}
}

// AddFailure counts a task of a function without a result.
func (in *Intake) AddFailure(name string, a *Attempt) {
	in.functions.addTasks(cutName(name), 1)
	in.batch.series[in.findFunction(name).index].addTime(Failure, a.Ends[Delivery]-a.Released, 1)
}

// cutName cuts a name to maxName bytes.
func cutName(name string) string {
	if len(name) <= maxName {
		return name
	}
	return strings.ToValidUTF8(name[:maxName], "")
}

// AddJob counts a job that has ended. A slowdown of 0 is not known.
func (in *Intake) AddJob(s Slot, response, slowdown time.Duration) {
	if in.waitingJobs = append(in.waitingJobs,
		jobTimes{response, slowdown, s.index}); len(in.waitingJobs) == maxWaiting {
		in.flushJobs()
	}
}

// flushJobs adds the waiting jobs to the batch.
func (in *Intake) flushJobs() {
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

// SampleTask decides whether the phases of an ended task are counted. The result is the number of tasks represented
// by the phases; 0: a later task represents this task. Call it once for each ended task with a result.
func (in *Intake) SampleTask(s Slot) uint32 {
	p := &in.samplers[s.index]
	if p.untilNext--; p.untilNext > 0 {
		return 0
	}
	return in.drawNext(p)
}

// NoteFailed counts a task that has ended without a result.
func (in *Intake) NoteFailed(s Slot) { in.samplers[s.index].failed++ }

// drawNext notes that a task is counted, and draws the next counted task.
func (in *Intake) drawNext(p *phaseSampler) uint32 {
	n := p.standsFor
	p.stoodFor += n
	p.standsFor = p.blockRest + 1
	if p.counted++; p.counted >= countedExactly {
		block := uint32(1) << min(p.counted/countedExactly, maxDoublings)
		before := in.rand.Uint32N(block)
		p.standsFor, p.blockRest = p.standsFor+before, block-1-before
	}
	p.untilNext = p.standsFor
	return n
}

// flushPhases adds the waiting phases to the batch.
func (in *Intake) flushPhases() {
	for m := range Measure(Phases) {
		for i := range in.waitingPhases {
			x := &in.waitingPhases[i]
			in.batch.series[x.slot].addTime(m, x.took[m], uint64(x.times))
			in.batch.series[x.function].addTime(m, x.took[m], uint64(x.times))
		}
	}
	for i := range in.waitingPhases {
		x := &in.waitingPhases[i]
		in.batch.series[x.function].addTime(Whole, x.whole, uint64(x.times))
	}
	in.waitingPhases = in.waitingPhases[:0]
}

// Take hands out the counts since the last Take. Later counts go into empty, a batch that History.Add has emptied, or
// nil. now may lie before the last Take, because clocks are set.
func (in *Intake) Take(now time.Time, empty *Batch) *Batch {
	in.flushPhases()
	in.flushJobs()
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
	full.counts = full.counts[:0]
	for i := range in.samplers {
		p := &in.samplers[i]
		pending := p.pending()
		// p.stoodFor includes the tasks pending at the last Take, and lacks the tasks pending now.
		results := uint64(p.stoodFor) + uint64(pending) - uint64(p.carried)
		full.counts = append(full.counts, Counts{results + uint64(p.failed), uint64(p.failed)})
		// The next task is counted, and stands for the tasks since the last counted task, too.
		*p = phaseSampler{standsFor: pending + 1, untilNext: 1, carried: pending}
	}
	in.submitRate, in.submitted = in.submitRate+(float64(in.submitted)-in.submitRate)/averagedTakes, 0
	in.rememberedShare = min(1, allRemembered/max(in.submitRate, 1))
	if now.Sub(in.electedAt).Abs() >= electEvery {
		in.electedAt = now
		tenantsChange, functionsChange := in.tenants.electNames(), in.functions.electNames()
		if tenantsChange || functionsChange {
			in.reassignSlots()
		}
	}
	return full
}

// reassignSlots frees the slots of tenants and functions that have lost their name.
func (in *Intake) reassignSlots() {
	in.epoch++
	clear(in.slots)
	b := in.batch
	keys := b.keys
	b.keys, in.functionSeries = b.keys[:0], 0
	for i, key := range keys {
		names := &in.tenants
		name, ofFunction := key.Function()
		if ofFunction {
			names = &in.functions
		} else {
			name = key.Tenant
		}
		if name == Other || names.hasName(name) {
			if ofFunction {
				in.functionSeries++
			}
			in.slots[key] = uint16(len(b.keys))
			in.samplers[len(b.keys)] = in.samplers[i]
			b.keys = append(b.keys, key)
		}
	}
	b.series, in.samplers = b.series[:len(b.keys)], in.samplers[:len(b.keys)] // these series have no counts yet
}
