package estimate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// Task is a task to be placed.
type Task struct {
	Demand probe.Demand
	Work   Work
	Inputs []Input
	Files  []File
	Pool   Pool // workers that may run the task; nil: all
	// Tenant is the tenant whose waits count; 0: the task comes after all others.
	Tenant probe.TenantCode
	// SpareWait returns the wait at a worker beyond the wait of its matrix, for a task that is spare; nil: none.
	SpareWait func(key int32) time.Duration
	// LongFrom is the run time from which workers treat the task as long. A long task may use only the part of a
	// worker that is open to long tasks. 0: the task is long.
	LongFrom time.Duration
	// Set, if not 0, names the task's set, for instance its stage: no task of a set is useful before the last is
	// done. SetEnd is the earliest end of the set, from now, given the tasks placed before. If several tasks want
	// the same worker, the worker goes to the task whose set would lose most.
	Set    int
	SetEnd time.Duration
	// ExtraCandidates are further candidates: workers known better than others.
	ExtraCandidates []int32
	// Avoided are the workers where the task failed and would fail again. If the pool has no others, they are
	// candidates, too.
	Avoided []int32
}

// IsShort reports whether workers treat t as short, apart from reading inputs.
func (t *Task) IsShort() bool { return t.Work.Run < t.LongFrom }

// MustWait reports whether a task would have to wait at a worker, by the worker's matrix. A worker that is not in the
// fleet has no room. If the fleet has no matrix of the worker, the task need not wait.
func (f *Fleet) MustWait(t *Task, key int32) bool {
	row := f.Get(key)
	return row == nil || row.Matrix != nil && tenantWait(row.Matrix, t.Demand, t.IsShort(), t.Tenant) > 0
}

// Input is data read by a task. Without copies, the task reads it across racks wherever the task runs.
type Input struct {
	Bytes  int64
	Copies []Copy
}

// Copy is a place of an input.
type Copy struct {
	At     string // a host, or a worker's name
	Rack   string // rack of At, for use if no worker at At has a rack; "": unknown
	Memory bool   // in memory, not on disk
}

// File is a file that the worker needs before the task starts.
type File struct {
	ID    FileID
	Bytes int64
}

// Pool is a set of workers.
type Pool interface {
	Has(key int32) bool
	Len() int
	At(i int) int32 // key of the i-th worker, in any order
}

// Tier is the distance of data from its reader.
type Tier uint8

const (
	Memory Tier = iota
	Disk
	Rack
	Across
	numTiers
)

var tierNames = [numTiers]string{"memory", "disk", "rack", "across"}

func (t Tier) String() string { return tierNames[t] }

// Kind is the reason why a worker is a candidate (Apollo, section 3.3, names HasInput, SameRack and Light).
type Kind uint8

const (
	HasInput Kind = iota
	HasFile
	SameRack // in the rack of an input
	Light
	InPool // in the small pool of workers that may run the task
	Named  // named by Task.ExtraCandidates
)

var kindNames = [...]string{"has input", "has file", "same rack", "light", "in pool", "asked"}

func (k Kind) String() string { return kindNames[k] }

// Candidate is a worker that could run the task, with all terms of its estimate.
type Candidate struct {
	Worker   int32
	Name     string
	Kind     Kind
	I        time.Duration // time to fetch files missing in the cache
	W        time.Duration // time to wait for room
	R        time.Duration // run time, including Read
	Read     time.Duration
	Psucc    float64 // chance of a run without a crash, and of an end before announced maintenance
	E        time.Duration
	C        time.Duration
	Noise    time.Duration   // random term added to C in the choice
	tieBreak uint32          // random, decides if C and Noise are equal
	Age      time.Duration   // age of the wait matrix
	Steps    int             // eighths of the worker added to the demand, because of Age
	Bytes    [numTiers]int64 // bytes of inputs read from each tier
	Fetch    int64           // bytes of files missing in the cache
	From     []Tier          // tier of each input
}

// tierTexts names the tiers for people.
var tierTexts = [numTiers]string{"memory", "disk", "its rack", "other racks"}

func (c *Candidate) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s): C %s, E %s = fetch I %s + wait W %s + run R %s", c.Name, c.Kind, formatSeconds(c.C),
		formatSeconds(c.E), formatSeconds(c.I), formatSeconds(c.W), formatSeconds(c.R))
	if c.Read > 0 {
		fmt.Fprintf(&b, ", of which reading %s", formatSeconds(c.Read))
		sep := " ("
		for tier, n := range c.Bytes {
			if n > 0 {
				fmt.Fprintf(&b, "%s%d bytes from %s", sep, n, tierTexts[tier])
				sep = ", "
			}
		}
		b.WriteByte(')')
	}
	fmt.Fprintf(&b, "; Psucc %.4f; W reported %s ago", c.Psucc, formatSeconds(c.Age))
	if c.Steps > 0 {
		fmt.Fprintf(&b, ", so W is for a task that is larger by %d/8 of the worker", c.Steps)
	}
	return b.String()
}

func formatSeconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }

// formatTime writes d with three digits, or, from 1 s on, to the millisecond.
func formatTime(d time.Duration) string {
	unit := time.Nanosecond
	for 1000*unit <= d && unit < time.Millisecond {
		unit *= 10
	}
	return d.Round(unit).String()
}

// Decision is the choice of a worker for a task, with the reason.
type Decision struct {
	Work       Work
	Candidates []Candidate   // at most MaxKept, best first
	Seen       int           // number of all candidates
	Chosen     int           // index in Candidates; -1: the task stays unplaced
	Due        time.Duration // time, from now, until which the set loses nothing; 0: no set
	Reason     string
}

// Choice returns the chosen candidate, or nil.
func (d *Decision) Choice() *Candidate {
	if d.Chosen < 0 {
		return nil
	}
	return &d.Candidates[d.Chosen]
}

func (d *Decision) String() string {
	var b strings.Builder
	if c := d.Choice(); c != nil {
		fmt.Fprintf(&b, "%s was chosen: %s", c.Name, d.Reason)
	} else {
		fmt.Fprintf(&b, "no candidate was chosen: %s", d.Reason)
	}
	fmt.Fprintf(&b, "; the task is %s", d.Work)
	if len(d.Candidates) > 0 {
		fmt.Fprintf(&b, "\n%d of %d candidates, best first; C is E plus the expected cost of a failure:",
			len(d.Candidates), d.Seen)
	}
	for i := range d.Candidates {
		mark := " "
		if i == d.Chosen {
			mark = "*"
		}
		fmt.Fprintf(&b, "\n%s %s", mark, &d.Candidates[i])
	}
	return b.String()
}

const (
	MaxKept    = 16 // best candidates kept for a decision and a matching
	maxLights  = 16
	maxHolders = 32 // candidates with the same input, or the same file
	maxRacks   = 8  // racks of inputs with candidates
	maxNear    = 96 // candidates in the racks of inputs, all racks together
	maxPool    = 16 // largest pool to consider as a whole
	// maxTerm bounds each term: a lying worker or client must not make sums overflow.
	maxTerm = 10 * 365 * 24 * time.Hour
	// Speeds outside these bounds are clamped.
	minSpeed, maxSpeed = 1.0 / 16, 16.0
)

// foundWorker is a candidate found by collectCandidates.
type foundWorker struct {
	row  *serverRow
	kind Kind
}

// inputSite is a Copy, looked up in the fleet.
type inputSite struct {
	input  int
	key    int32        // worker named by Copy.At; -1: no such worker
	host   *siteWorkers // nil: the host has no worker
	rack   *siteWorkers // nil: unknown, or a rack without workers
	memory bool
}

// Decide places a single task on the candidate with the least C plus Noise. Decide changes nothing in the fleet. If
// the next decision must know of the task, Put the worker with the matrix made by Occupied.
func (f *Fleet) Decide(t *Task, now time.Time, rng *rand.Rand) Decision {
	d := f.estimateTask(t, 1, now, rng)
	if len(d.Candidates) > 0 {
		d.Chosen = 0
		d.Reason = fmt.Sprintf("it has the least C of %d", d.Seen)
	}
	return d
}

// estimateTask returns a decision on t with its best candidates, and no choice yet. The batch parameter is the
// number of tasks placed together: each needs a light worker.
func (f *Fleet) estimateTask(t *Task, batch int, now time.Time, rng *rand.Rand) Decision {
	f.collectCandidates(t, batch, rng)
	d := Decision{Work: t.Work, Seen: len(f.candidates), Chosen: -1}
	f.best = f.best[:0]
	for _, at := range f.candidates {
		c := f.estimateAt(t, at.row, now)
		c.Kind = at.kind
		if f.cfg.Jitter > 0 {
			c.tieBreak = rng.Uint32()
			c.Noise = min(time.Duration(float64(c.C)*f.cfg.Jitter), c.Age)
			c.Noise = time.Duration(float64(c.Noise) * rng.Float64())
		}
		f.keepBest(&c)
	}
	if len(f.best) == 0 {
		d.Reason = fmt.Sprintf("none of the %d workers may run the task and has room for %s", f.count, t.Demand)
		return d
	}
	d.Candidates = slices.Clone(f.best)
	f.fillInputTiers(t, d.Candidates)
	return d
}

// isBetter orders candidates by C plus Noise. Equal candidates are in random order: frontends that decide at the same
// time see the same idle workers, and must not all choose the first. The key decides last, so that a seed has a
// single outcome.
func isBetter(a, b *Candidate) bool {
	return cmp.Or(cmp.Compare(a.C+a.Noise, b.C+b.Noise), cmp.Compare(a.tieBreak, b.tieBreak),
		cmp.Compare(a.Worker, b.Worker)) < 0
}

// keepBest inserts c into f.best, if c is among the best MaxKept.
func (f *Fleet) keepBest(c *Candidate) {
	if len(f.best) == MaxKept {
		if !isBetter(c, &f.best[MaxKept-1]) {
			return
		}
		f.best = f.best[:MaxKept-1]
	}
	i := len(f.best)
	for i > 0 && isBetter(c, &f.best[i-1]) {
		i--
	}
	f.best = slices.Insert(f.best, i, *c)
}

// locateInputs looks up the copies of all inputs, and stores the sites in f.inputSites.
func (f *Fleet) locateInputs(ins []Input) {
	f.inputSites = f.inputSites[:0]
	for i, in := range ins {
		for _, c := range in.Copies {
			at := inputSite{input: i, key: -1, rack: f.racks[c.Rack], memory: c.Memory}
			if key, ok := f.names[c.At]; ok {
				at.key = key
				at.host = f.servers[key].host
			} else {
				at.host = f.hosts[c.At]
			}
			if at.host != nil {
				at.rack = cmp.Or(f.servers[at.host.members[0]].rack, at.rack)
			}
			f.inputSites = append(f.inputSites, at)
		}
	}
}

// readTier returns the tier from which a worker reads the copy p. A copy in memory is in the memory of a host,
// shared by all workers of the host.
func (p *inputSite) readTier(row *serverRow) Tier {
	switch {
	case p.host == row.host && p.host != nil:
		if p.memory {
			return Memory
		}
		return Disk
	case p.rack == row.rack && p.rack != nil:
		return Rack
	}
	return Across
}

// estimateAt estimates t at a worker with room for t. Call collectCandidates first.
func (f *Fleet) estimateAt(t *Task, row *serverRow, now time.Time) Candidate {
	c := Candidate{Worker: row.Key, Name: row.Name}
	f.estimateWork(&c, t, row)

	c.Age = max(now.Sub(row.Heard), 0)
	c.Steps = ageSteps(c.Age, f.cfg.Fresh)
	c.W = row.Matrix.Shares.For(t.Tenant).PartOf(
		pessimisticWait(row.Matrix, t.Demand, c.R < t.LongFrom, c.Steps)).Duration()
	if t.SpareWait != nil {
		c.W = addTerms(c.W, t.SpareWait(row.Key))
	}

	c.E = addTerms(addTerms(c.I, c.W), c.R)
	c.Psucc = f.survivalChance(row, now, c.R, c.E, t.Work.Dev)
	// C is Psucc*E + KFail*(1-Psucc)*E (Apollo, section 3.3), in a form that is exactly E if Psucc is 1.
	c.C = c.E + time.Duration(float64(c.E)*(1-c.Psucc)*(f.cfg.KFail-1))
	return c
}

// estimateWork fills in the terms that do not depend on other tasks at the worker: I and R, with their parts. Call
// locateInputs first.
func (f *Fleet) estimateWork(c *Candidate, t *Task, row *serverRow) {
	for _, file := range t.Files {
		if _, ok := slices.BinarySearch(row.Files, file.ID); !ok {
			c.Fetch += max(file.Bytes, 0)
			rate := f.rates.Origin
			if len(f.files[file.ID]) > 0 {
				rate = f.rates.peer
			}
			c.I = addTerms(c.I, transferTime(file.Bytes, rate))
		}
	}
	c.Bytes, c.Read = f.readFromTiers(t.Inputs, row)
	c.R = addTerms(c.Read, min(time.Duration(float64(min(t.Work.Run, maxTerm))/believedSpeed(row.Speed)), maxTerm))
}

// WorkAt returns how long t fetches files, and then runs, at a worker of the fleet. The run counts the reading of
// inputs.
func (f *Fleet) WorkAt(t *Task, key int32) (fetch, run time.Duration) {
	var c Candidate
	f.locateInputs(t.Inputs)
	f.estimateWork(&c, t, f.rowOf(key))
	return c.I, c.R
}

// addTerms adds two terms, bounded by maxTerm.
func addTerms(a, b time.Duration) time.Duration { return min(a+b, maxTerm) }

// transferTime returns the time to read bytes at a rate in bytes per second.
func transferTime(bytes int64, rate float64) time.Duration {
	if bytes <= 0 {
		return 0
	}
	return time.Duration(min(float64(bytes)/rate, maxTerm.Seconds()) * 1e9)
}

// believedSpeed returns a worker's claimed speed within minSpeed and maxSpeed, or 1 if it claims none.
func believedSpeed(s float64) float64 {
	if !(s > 0) || math.IsInf(s, 0) {
		return 1
	}
	return min(max(s, minSpeed), maxSpeed)
}

// fillInputTiers sets Candidate.From: the tier of each input at each candidate.
func (f *Fleet) fillInputTiers(t *Task, cs []Candidate) {
	n := len(t.Inputs)
	if n == 0 {
		return
	}
	all := make([]Tier, n*len(cs))
	for i := range cs {
		from := all[i*n : (i+1)*n : (i+1)*n]
		for j := range from {
			from[j] = Across
		}
		for j := range f.inputSites {
			p := &f.inputSites[j]
			from[p.input] = min(from[p.input], p.readTier(f.servers[cs[i].Worker]))
		}
		cs[i].From = from
	}
}

// Doubtful appends to keys the candidates of t whose matrices are missing or older than sure: the workers to ask
// first. Candidates are the workers that Batch would consider, with t as one of batch tasks, if all matrices were
// known.
func (f *Fleet) Doubtful(t *Task, batch int, sure time.Duration, now time.Time, rng *rand.Rand, keys []int32) []int32 {
	f.allowUnheard = true
	f.collectCandidates(t, batch, rng)
	f.allowUnheard = false
	for _, at := range f.candidates {
		if at.row.Matrix == nil || now.Sub(at.row.Heard) > sure {
			keys = append(keys, at.row.Key)
		}
	}
	return keys
}

// collectCandidates finds the candidates of t (Apollo, section 3.3, stable matching): workers with significant
// files or inputs, workers in the racks of the inputs, and lightly loaded workers. A small pool is taken as a
// whole.
func (f *Fleet) collectCandidates(t *Task, batch int, rng *rand.Rand) {
	f.locateInputs(t.Inputs)
	f.candidates = f.candidates[:0]
	f.nearbyRacks = f.nearbyRacks[:0]
	f.epoch++

	if t.Pool != nil && t.Pool.Len() <= maxPool {
		for i := range t.Pool.Len() {
			f.considerWorker(t, t.Pool.At(i), InPool)
		}
		return
	}

	total := 0.0
	for _, in := range t.Inputs {
		total += float64(max(in.Bytes, 0))
	}
	for _, file := range t.Files {
		total += float64(max(file.Bytes, 0))
	}
	significant := func(bytes int64) bool { return bytes > 0 && float64(bytes) >= f.cfg.Significant*total }

	for i := range f.inputSites {
		if p := &f.inputSites[i]; significant(t.Inputs[p.input].Bytes) {
			if p.key >= 0 {
				f.considerWorker(t, p.key, HasInput)
			}
			if p.host != nil {
				f.considerSome(t, p.host.members, maxHolders, HasInput, rng)
			}
			if rack := p.rack; rack != nil && rack.epoch != f.epoch && len(f.nearbyRacks) < maxRacks {
				rack.epoch = f.epoch
				f.nearbyRacks = append(f.nearbyRacks, rack)
			}
		}
	}
	for _, file := range t.Files {
		if significant(file.Bytes) {
			f.considerSome(t, f.files[file.ID], maxHolders, HasFile, rng)
		}
	}
	for _, rack := range f.nearbyRacks {
		f.considerSome(t, rack.members, maxNear/len(f.nearbyRacks), SameRack, rng)
	}
	for _, key := range t.ExtraCandidates {
		f.considerWorker(t, key, Named)
	}
	f.considerLight(t, batch, rng)
}

// considerSome considers at most limit of keys, starting at a random key.
func (f *Fleet) considerSome(t *Task, keys []int32, limit int, kind Kind, rng *rand.Rand) {
	start := 0
	if len(keys) > limit {
		start = rng.IntN(len(keys))
	}
	for i := range min(len(keys), limit) {
		f.considerWorker(t, keys[(start+i)%len(keys)], kind)
	}
}

const (
	// lightWidth is the number of lightest workers among which the workers for a task are drawn. It is large, so
	// frontends that draw at the same time seldom meet.
	lightWidth = 64
	// lightTries bounds the draws of workers, because a draw may hit a worker that cannot run the task.
	lightTries = 32
)

// considerLight draws light workers until it has Config.Lights workers that may run t. If too few of the light
// workers may, it draws workers of t's pool. If t still has no candidate at all, it considers all workers, lightest
// first.
func (f *Fleet) considerLight(t *Task, batch int, rng *rand.Rand) {
	l := &f.lights[lightListOf(t.Demand, t.IsShort())]
	missing := f.cfg.Lights
	width := max(lightWidth, 2*f.cfg.Lights*batch)
	for try := 0; missing > 0 && try < lightTries && l.size > 0; try++ {
		if f.considerWorker(t, l.drawWorker(width, rng), Light) {
			missing--
		}
	}
	if t.Pool != nil {
		for try := 0; missing > 0 && try < lightTries; try++ {
			if f.considerWorker(t, t.Pool.At(rng.IntN(t.Pool.Len())), InPool) {
				missing--
			}
		}
	}
	if len(f.candidates) > 0 {
		return
	}
	for _, bucket := range l.buckets {
		for _, key := range bucket {
			f.considerWorker(t, key, Light)
		}
		if len(f.candidates) >= f.cfg.Lights {
			return
		}
	}
}

// considerWorker makes a worker a candidate. It returns false if the worker is a candidate already or may not run
// t.
func (f *Fleet) considerWorker(t *Task, key int32, kind Kind) bool {
	row := f.rowOf(key)
	if row == nil || row.epoch == f.epoch || row.Draining || row.Matrix == nil && !f.allowUnheard {
		return false
	}
	row.epoch = f.epoch
	if row.Matrix != nil && waitOf(row.Matrix, t.Demand, t.IsShort()) == probe.NeverFits || t.Pool != nil &&
		(!t.Pool.Has(key) || slices.Contains(t.Avoided, key) && t.Pool.Len() > len(t.Avoided)) {
		return false
	}
	f.candidates = append(f.candidates, foundWorker{row, kind})
	return true
}
