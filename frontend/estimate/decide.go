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

// Task is what is placed.
type Task struct {
	Demand probe.Demand
	Work   Work
	Inputs []Input
	Files  []File
	Pool   Pool // of the workers that may run it; nil: all
	// LongFrom is from which run time on workers take it for long, so that it may use only what is open to long ones; 0: it
	// is long anyhow.
	LongFrom time.Duration
	// Set, if not 0, says which tasks are of use only when the last of them is done, as those of a stage are; Until is
	// when that will be at the earliest, from now, because of others that were placed before. Between tasks that want
	// the same worker, what counts is what the set loses.
	Set    int
	SetEnd time.Duration
	// ExtraCandidates are candidates besides those that are found: workers of which more is known than of others.
	ExtraCandidates []int32
}

// isShort reports whether workers take it for short where it has nothing to read.
func (t *Task) isShort() bool { return t.Work.Mean < t.LongFrom }

// Input is data that a task reads. Without copies it is read across racks, wherever the task runs.
type Input struct {
	Bytes  int64
	Copies []Copy
}

// Copy is where an input is.
type Copy struct {
	At     string // host, or a worker's name
	Rack   string // of At, if no worker is there that would tell; ""; not known
	Memory bool   // in memory rather than on disk
}

// File is a file that must be at the worker before the task starts.
type File struct {
	ID    FileID
	Bytes int64
}

// Pool is a set of workers.
type Pool interface {
	Has(key int32) bool
	Len() int
	At(i int) int32 // the i-th, in any order
}

// Tier is from where data is read.
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

// Kind is why a worker is a candidate.
type Kind uint8

const (
	HasInput Kind = iota
	HasFile
	SameRack // as one that has an input
	Light
	InPool // of the few that may run the task at all
	Named  // by Task.Also
)

var kindNames = [...]string{"has input", "has file", "same rack", "light", "in pool", "asked"}

func (k Kind) String() string { return kindNames[k] }

// Candidate is a worker that a task could run on, with every term of its estimate.
type Candidate struct {
	Worker   int32
	Name     string
	Kind     Kind
	I        time.Duration // fetching what is not cached
	W        time.Duration // waiting for room
	R        time.Duration // running, of which Read is for reading inputs
	Read     time.Duration
	Psucc    float64 // the chance that the worker is there until the end
	E        time.Duration
	C        time.Duration
	Noise    time.Duration   // what chance added to C in the choice
	tieBreak uint32          // chance, where C and Noise are equal
	Age      time.Duration   // of the wait matrix
	Steps    int             // eighths of the worker by which the matrix was read for a larger task
	Bytes    [numTiers]int64 // read from each tier
	Fetch    int64           // bytes of files that are not cached
	From     []Tier          // of each input
}

func (c *Candidate) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s): C %s = E %s at Psucc %.4f; E = I %s + W %s + R %s", c.Name, c.Kind, formatSeconds(c.C), formatSeconds(c.E), c.Psucc, formatSeconds(c.I), formatSeconds(c.W), formatSeconds(c.R))
	if c.Read > 0 {
		fmt.Fprintf(&b, " of which reading %s", formatSeconds(c.Read))
		sep := " ("
		for tier, n := range c.Bytes {
			if n > 0 {
				fmt.Fprintf(&b, "%s%d bytes from %s", sep, n, Tier(tier))
				sep = ", "
			}
		}
		b.WriteByte(')')
	}
	fmt.Fprintf(&b, "; matrix %s old", formatSeconds(c.Age))
	if c.Steps > 0 {
		fmt.Fprintf(&b, ", read %d steps up", c.Steps)
	}
	return b.String()
}

func formatSeconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }

// Decision is where a task is placed, and why.
type Decision struct {
	Work       Work
	Candidates []Candidate   // at most MaxKept, best first
	Seen       int           // candidates, with those that were not kept
	Chosen     int           // in Candidates; -1: the task stays unplaced
	Due        time.Duration // its set loses nothing if it is done only then, from now; 0: it is in none
	Reason     string
}

// Choice is the chosen candidate, nil if there is none.
func (d *Decision) Choice() *Candidate {
	if d.Chosen < 0 {
		return nil
	}
	return &d.Candidates[d.Chosen]
}

func (d *Decision) String() string {
	var b strings.Builder
	if c := d.Choice(); c != nil {
		fmt.Fprintf(&b, "%s: %s; ", c.Name, d.Reason)
	} else {
		fmt.Fprintf(&b, "unplaced: %s; ", d.Reason)
	}
	fmt.Fprintf(&b, "%s; %d of %d candidates:", d.Work, len(d.Candidates), d.Seen)
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
	MaxKept    = 16 // candidates of a task that a decision and a matching consider
	maxLights  = 16
	maxHolders = 32 // candidates because they have one input, or one file
	maxRacks   = 8  // whose workers are candidates
	maxNear    = 96 // candidates because they are in the rack of an input, of all such racks together
	maxPool    = 16 // a pool that is no larger is looked at whole
	// maxTerm bounds each term: sums of what a lying worker or client says must not overflow.
	maxTerm = 10 * 365 * 24 * time.Hour
	// speeds beyond these are not believed.
	minSpeed, maxSpeed = 1.0 / 16, 16.0
)

// foundWorker is a worker that is a candidate.
type foundWorker struct {
	row  *serverRow
	kind Kind
}

// inputSite is a Copy, looked up.
type inputSite struct {
	input  int
	key    int32        // of the worker it names; -1: none
	host   *siteWorkers // nil: no worker is there
	rack   *siteWorkers // nil: not known, or no worker is there
	memory bool
}

// Decide places one task: on the candidate with the least C plus chance. Nothing is noted of it in the fleet:
// Put the worker with the matrix that Occupied makes, if the next decision is to know.
func (f *Fleet) Decide(t *Task, now time.Time, rng *rand.Rand) Decision {
	d := f.estimateTask(t, 1, now, rng)
	if len(d.Candidates) > 0 {
		d.Chosen = 0
		d.Reason = fmt.Sprintf("the least C of %d", d.Seen)
	}
	return d
}

// estimateTask is the decision on t with its best candidates, none of them chosen yet. batch is how many tasks are
// placed at once, all of which need a light worker of their own.
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
		d.Reason = fmt.Sprintf("none of %d workers may run it and has room for %s", f.count, t.Demand)
		return d
	}
	d.Candidates = slices.Clone(f.best)
	f.fillInputTiers(t, d.Candidates)
	return d
}

// isBetter orders candidates by C and chance. Equal ones are in random order: frontends that decide at the same time see
// the same idle workers, and are not all to choose the first. A seed has one outcome.
func isBetter(a, b *Candidate) bool {
	return cmp.Or(cmp.Compare(a.C+a.Noise, b.C+b.Noise), cmp.Compare(a.tieBreak, b.tieBreak), cmp.Compare(a.Worker, b.Worker)) < 0
}

// keepBest puts c into kept, if it is among the best.
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

// locateInputs looks up where inputs are.
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

// readTier is from where a worker reads a copy. What is in memory is in that of its host, which may run several
// workers: they share it.
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

// estimateAt estimates t at a worker that has room for it. collect went before.
func (f *Fleet) estimateAt(t *Task, row *serverRow, now time.Time) Candidate {
	c := Candidate{Worker: row.Key, Name: row.Name}

	for _, file := range t.Files {
		if _, ok := slices.BinarySearch(row.Files, file.ID); !ok {
			c.Fetch += max(file.Bytes, 0)
			rate := f.cfg.Rates.Origin
			if len(f.files[file.ID]) > 0 {
				rate = f.cfg.Rates.Across
			}
			c.I = addTerms(c.I, transferTime(file.Bytes, rate))
		}
	}

	c.Bytes, c.Read = f.readFromTiers(t.Inputs, row)
	c.R = addTerms(c.Read, min(time.Duration(float64(min(t.Work.Mean, maxTerm))/believedSpeed(row.Speed)), maxTerm))

	c.Age = max(now.Sub(row.Heard), 0)
	c.Steps = ageSteps(c.Age, f.cfg.Fresh)
	c.W = pessimisticWait(row.Matrix, t.Demand, c.R < t.LongFrom, c.Steps).Duration()

	c.E = addTerms(addTerms(c.I, c.W), c.R)
	c.Psucc = f.survivalChance(row, now, c.E, t.Work.Dev)
	// That is Psucc*E + KFail*(1-Psucc)*E, in a form that is exactly E where Psucc is 1.
	c.C = c.E + time.Duration(float64(c.E)*(1-c.Psucc)*(f.cfg.KFail-1))
	return c
}

// addTerms sums two terms.
func addTerms(a, b time.Duration) time.Duration { return min(a+b, maxTerm) }

// transferTime is how long bytes take at a rate in bytes per second.
func transferTime(bytes int64, rate float64) time.Duration {
	if bytes <= 0 {
		return 0
	}
	return time.Duration(min(float64(bytes)/rate, maxTerm.Seconds()) * 1e9)
}

// believedSpeed is a worker's speed as far as it is believed.
func believedSpeed(s float64) float64 {
	if !(s > 0) || math.IsInf(s, 0) {
		return 1
	}
	return min(max(s, minSpeed), maxSpeed)
}

// fillInputTiers fills in from where each candidate reads each input.
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

// Doubtful appends to keys the workers that Batch would consider for t, one of batch tasks, if their matrices
// were known, and that have none or one older than sure: those to be asked first.
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

// collectCandidates finds the candidates of t: workers that have inputs of significant size or files, workers in the
// racks of such inputs, and lightly loaded ones (Apollo, section 3.4).
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

// considerSome considers at most limit of keys, from a random one on.
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
	// lightWidth is among how many of the lightest workers those for one task are drawn: many enough that
	// frontends which draw at the same time seldom meet.
	lightWidth = 64
	// lightTries is how many draws may hit workers that cannot run the task.
	lightTries = 32
)

// considerLight draws light workers until enough of them may run t; then, where few of the light ones may,
// workers of its pool; and if t would have no candidate at all, it looks at every worker, lightest first.
func (f *Fleet) considerLight(t *Task, batch int, rng *rand.Rand) {
	l := &f.lights[lightListOf(t.Demand, t.isShort())]
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

// considerWorker makes a worker a candidate, if it may run t and is not one already.
func (f *Fleet) considerWorker(t *Task, key int32, kind Kind) bool {
	row := f.rowOf(key)
	if row == nil || row.epoch == f.epoch || row.Draining || row.Matrix == nil && !f.allowUnheard {
		return false
	}
	row.epoch = f.epoch
	if row.Matrix != nil && waitOf(row.Matrix, t.Demand, t.isShort()) == probe.NeverFits || t.Pool != nil && !t.Pool.Has(key) {
		return false
	}
	f.candidates = append(f.candidates, foundWorker{row, kind})
	return true
}
