package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Phase is a span of a task's life, named after the stamp that ends it: PhaseSampled is from submitted to sampled.
type Phase int

// The phases in their order. PhaseReady is the wait in a worker's queue, PhaseFinished the run itself; the
// others are what scheduling costs.
const (
	PhaseSampled Phase = iota
	PhaseQueued
	PhaseReady
	PhaseBound
	PhaseStarted
	PhaseFinished
	PhaseDelivered
	numPhases
)

var phaseNames = [numPhases]string{"sampled", "queued", "ready", "bound", "started", "finished", "delivered"}

func (p Phase) String() string { return phaseNames[p] }

// PhaseTimes is how long one task spent in each phase; negative in one that it skipped.
type PhaseTimes [numPhases]time.Duration

// PhaseTimesOf turns the moments at which a task reached the end of each phase, from when its job was
// received, into the time it spent in each. 0 is a moment that never came: who rides along with its probe is
// never asked for. The wait in a worker's queue is PhaseReady for every task, so that it compares: one that
// was bound early, and so never said ready, was so when it started. A moment before the one ahead of it, which
// comes of two clocks, adds no time.
func PhaseTimesOf(reached PhaseTimes) PhaseTimes {
	if reached[PhaseReady] == 0 {
		reached[PhaseReady], reached[PhaseStarted] = reached[PhaseStarted], 0
	}
	var times PhaseTimes
	var last time.Duration
	for p, at := range reached {
		if at == 0 {
			times[p] = -1
			continue
		}
		times[p] = max(0, at-last)
		last = max(last, at)
	}
	return times
}

// Document is all that a benchmark found. The package's documentation has its JSON form, in which fields are only ever
// added.
type Document struct {
	Meta     Meta      `json:"meta"`
	CutShort string    `json:"cut_short,omitempty"` // why there is less than was asked for
	Runs     []Run     `json:"runs"`
	NoopRuns []NoopRun `json:"noop_runs,omitempty"`

	Comparisons []Comparison `json:"comparisons,omitempty"`
}

// Meta says where the numbers come from.
type Meta struct {
	Command  string    `json:"command"`
	Version  string    `json:"version"` // of this program
	Commit   string    `json:"commit"`  // that it was built from
	Machine  Machine   `json:"machine"`
	Go       string    `json:"go"`
	Date     time.Time `json:"date"`
	Seed     uint64    `json:"seed"`               // of the first repeat
	Settings []string  `json:"settings,omitempty"` // what the harness chose, a line each

	LoadBefore float64 `json:"load_average_before"` // see LoadAverage
	LoadAfter  float64 `json:"load_average_after"`
	CPUBefore  CPUUse  `json:"cpu_before"` // shortly before the first run
}

// NewMeta describes this machine and a command line. Values of flags that hold secrets are left out.
func NewMeta(args []string, seed uint64, date time.Time) Meta {
	version, commit := buildStamp()
	return Meta{
		Command: commandLine(args), Version: version, Commit: commit, Machine: thisMachine(), Go: runtime.Version(),
		Date: date.UTC().Truncate(time.Second), Seed: seed, LoadBefore: LoadAverage(),
	}
}

// Watch sees for half a second what others do to this machine, unless ctx ends before.
func (m *Meta) Watch(ctx context.Context) {
	meter := NewCPUMeter()
	select {
	case <-time.After(500 * time.Millisecond):
		m.CPUBefore = meter.Use()
	case <-ctx.Done():
	}
}

func commandLine(args []string) string {
	words := make([]string, len(args))
	hideNext := false
	for i, arg := range args {
		flag, _, hasValue := strings.Cut(arg, "=")
		secret := strings.HasPrefix(flag, "-") && (strings.Contains(flag, "secret") || strings.Contains(flag, "token"))
		switch {
		case hideNext:
			words[i] = "***"
		case secret && hasValue:
			words[i] = flag + "=***"
		case arg == "" || strings.ContainsAny(arg, " \t\n\"'$*?;&|<>()"):
			words[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		default:
			words[i] = arg
		}
		hideNext = secret && !hasValue
	}
	return strings.Join(words, " ")
}

// The clusters that a benchmark drives: within its own process, of processes that it starts, or of somebody else.
const (
	Embedded  = "embedded"
	Processes = "processes"
	Running   = "running"

	ByTLS = " by TLS" // behind one of the first two
)

// Run is one workload at one load under one policy, once. Jobs count by their intended send time: those of the
// warm-up and those after the measured time load the cluster and are not counted.
type Run struct {
	Cluster  string  `json:"cluster"` // Embedded or Processes, with ByTLS or without, Running, FleetA or FleetB
	Policy   string  `json:"policy"`
	Workload string  `json:"workload"`
	Load     float64 `json:"load"` // share of the slots that is asked for
	Slots    int     `json:"slots"`
	Repeat   int     `json:"repeat"`    // from 1
	Seed     uint64  `json:"seed"`      // of arrivals and durations
	StartedS float64 `json:"started_s"` // from when the first run began
	Jobs     int     `json:"jobs"`      // answered in full
	Tasks    int     `json:"tasks"`     // of these jobs
	Errors   int     `json:"errors"`    // jobs that were not
	Figures
	Refused   map[string]int `json:"refused"` // refusals by reason, of jobs that were retried too
	Retries   int            `json:"retries"`
	OverTime  []Moment       `json:"over_time"`
	CutShortS float64        `json:"cut_short_s,omitempty"` // of a run that was cut short: the seconds that counted

	responseCDF, omniscientCDF []cdfPoint // for the report
}

// Figures are what is measured in a run.
type Figures struct {
	OfferedTasksPerS  float64               `json:"offered_tasks_per_s"`
	AchievedTasksPerS float64               `json:"achieved_tasks_per_s"` // of jobs answered during the measured time, whenever sent
	ResponseMS        Stats                 `json:"response_ms"`          // from the intended send time to the last result
	IdealMS           Stats                 `json:"ideal_ms"`             // the job's longest task, as the executor measured it
	OmniscientMS      Stats                 `json:"omniscient_ms"`        // see Omniscient
	Ratio             Stats                 `json:"ratio"`                // response_ms / ideal_ms, statistic by statistic
	RatioOmniscient   Stats                 `json:"ratio_omniscient"`     // response_ms / omniscient_ms, likewise
	PhasesUS          map[string]PhaseStats `json:"phases_us"`
	CPU               CPUUse                `json:"cpu"` // warm-up included
	Simulated         *Simulated            `json:"simulated,omitempty"`
}

// Moment is the jobs that were sent within a part of a run's measured time.
type Moment struct {
	AtS             float64 `json:"at_s"` // its middle, from the start of the run
	Jobs            int     `json:"jobs"` // answered in full
	P50MS           float64 `json:"p50_ms"`
	P99MS           float64 `json:"p99_ms"`
	OmniscientP50MS float64 `json:"omniscient_p50_ms"`
	OmniscientP99MS float64 `json:"omniscient_p99_ms"`
}

// Summary is what the repeats of a run give together. Counts are those of all of them.
type Summary struct {
	Cluster  string   `json:"cluster"`
	Policy   string   `json:"policy"`
	Workload string   `json:"workload"`
	Load     float64  `json:"load"`
	Slots    int      `json:"slots"`
	Seeds    []uint64 `json:"seeds"`
	Jobs     int      `json:"jobs"`
	Tasks    int      `json:"tasks"`
	Errors   int      `json:"errors"`
	Spread[Figures]
	Refused map[string]int `json:"refused"`
	Retries int            `json:"retries"`

	label string // policy, and which cluster if there are several
	runs  []Run
}

// summarizeRuns puts the repeats of each run together, in the order of their first, without one that was cut short after
// others.
func summarizeRuns(runs []Run) []Summary {
	var all []Summary
	for _, r := range runs {
		i := slices.IndexFunc(all, func(s Summary) bool {
			return s.Cluster == r.Cluster && s.Policy == r.Policy && s.Workload == r.Workload && s.Load == r.Load && s.Slots == r.Slots
		})
		if i < 0 {
			i = len(all)
			all = append(all, Summary{
				Cluster: r.Cluster, Policy: r.Policy, Workload: r.Workload, Load: r.Load, Slots: r.Slots, Refused: map[string]int{}, label: r.Policy,
			})
			if slices.ContainsFunc(runs, func(o Run) bool { return o.Cluster != r.Cluster }) {
				all[i].label += ", " + r.Cluster
			}
		}
		s := &all[i]
		if r.CutShortS > 0 && len(s.runs) > 0 {
			continue
		}
		s.runs = append(s.runs, r)
		s.Seeds = append(s.Seeds, r.Seed)
		s.Jobs, s.Tasks, s.Errors, s.Retries = s.Jobs+r.Jobs, s.Tasks+r.Tasks, s.Errors+r.Errors, s.Retries+r.Retries
		for reason, n := range r.Refused {
			s.Refused[reason] += n
		}
	}
	for i := range all {
		var figures []Figures
		for _, r := range all[i].runs {
			figures = append(figures, r.Figures)
		}
		all[i].Spread = spreadOf(figures)
	}
	return all
}

// CPU is who used the machine's CPUs during the runs.
func (d *Document) CPU() CPUUse {
	var sum CPUUse
	for _, r := range d.Runs {
		sum.addMean(r.CPU)
	}
	for _, r := range d.NoopRuns {
		sum.addMean(r.CPU)
	}
	return sum
}

// Warnings say what may have spoilt the figures. What a cluster that was there before uses on this machine cannot be
// told from what others do.
func (d *Document) Warnings() []string {
	running := false
	busy, total := 0, 0
	var worst CPUUse
	noteUse := func(cluster string, use CPUUse) {
		total++
		running = running || cluster == Running || cluster == FleetA
		if use.Busy(d.Meta.Machine.CPUs) == "" {
			return
		}
		busy++
		if use.Others+use.Stolen > worst.Others+worst.Stolen {
			worst = use
		}
	}
	for _, r := range d.Runs {
		noteUse(r.Cluster, r.CPU)
	}
	for _, r := range d.NoopRuns {
		noteUse(r.Cluster, r.CPU)
	}
	if running {
		return nil
	}
	var warnings []string
	if w := d.Meta.CPUBefore.Busy(d.Meta.Machine.CPUs); w != "" {
		warnings = append(warnings, "before the first run "+w+".")
	}
	if busy > 0 {
		warnings = append(warnings, fmt.Sprintf("the machine was busy with others during %d of %d runs: in the worst, %s. Times are longer for it, and scatter.",
			busy, total, worst.Busy(d.Meta.Machine.CPUs)))
	}
	return warnings
}

// Simulated is what the simulator says of the jobs of a run.
type Simulated struct {
	Jobs       int     `json:"jobs"`     // that count
	DelayUS    float64 `json:"delay_us"` // of each message one way, as the run had it
	ResponseMS Stats   `json:"response_ms"`
	Ratio      Stats   `json:"ratio"` // the run's response_ms / these, statistic by statistic
}

// Delay is how long a message took one way over a link on average; 0 if that was not measured.
func (r *Run) Delay() time.Duration {
	return time.Duration(r.PhasesUS[PhaseQueued.String()].Mean * float64(time.Microsecond))
}

// Simulate notes what the response to so many jobs was in a simulation of the run, and how long messages took in it.
func (r *Run) Simulate(jobs int, delay time.Duration, response Stats) {
	r.Simulated = &Simulated{Jobs: jobs, DelayUS: float64(delay) / float64(time.Microsecond), ResponseMS: response, Ratio: r.ResponseMS.dividedBy(response)}
}

// Stats sum up a distribution. Mean and max are exact, percentiles within 0.1 % and never above max.
type Stats struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// dividedBy divides statistic by statistic; what has no divisor is 0.
func (s Stats) dividedBy(t Stats) Stats {
	div := func(a, b float64) float64 {
		if b == 0 {
			return 0
		}
		return a / b
	}
	return Stats{
		Mean: div(s.Mean, t.Mean), P50: div(s.P50, t.P50), P90: div(s.P90, t.P90), P95: div(s.P95, t.P95),
		P99: div(s.P99, t.P99), P999: div(s.P999, t.P999), Max: div(s.Max, t.Max),
	}
}

// Quantiles are the two that short tables keep.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// PhaseStats is the time that tasks spent in one phase. Percentiles are over the tasks that went through it,
// the mean over all (a phase that was skipped took no time), so that means add up over the phases.
type PhaseStats struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	Mean float64 `json:"mean"`
}

// Noop is what a job costs that does nothing.
type Noop struct {
	RTTUS        Quantiles `json:"rtt_us"`          // a one-task job, one after the other
	FloorUS      Quantiles `json:"floor_us"`        // see Floor; taken in turns with the jobs
	OverFloor    Quantiles `json:"over_floor"`      // rtt_us / floor_us
	TasksPerS1   float64   `json:"tasks_per_s_1"`   // jobs of 100, one in flight
	TasksPerS16  float64   `json:"tasks_per_s_16"`  // the same, 16 in flight
	CPUUSPerTask float64   `json:"cpu_us_per_task"` // user and system time of the load generator and of the cluster it started, 16 in flight
}

// NoopRun is Noop, measured once.
type NoopRun struct {
	Cluster string `json:"cluster"`
	Repeat  int    `json:"repeat"` // from 1
	Noop
	CPU CPUUse `json:"cpu"` // of round trips and throughput
}

// NoopSummary is what the repeats of a NoopRun give together.
type NoopSummary struct {
	Cluster string `json:"cluster"`
	Spread[Noop]
}

func summarizeNoop(runs []NoopRun) []NoopSummary {
	var all []NoopSummary
	repeats := map[string][]Noop{}
	for _, r := range runs {
		if repeats[r.Cluster] == nil {
			all = append(all, NoopSummary{Cluster: r.Cluster})
		}
		repeats[r.Cluster] = append(repeats[r.Cluster], r.Noop)
	}
	for i := range all {
		all[i].Spread = spreadOf(repeats[all[i].Cluster])
	}
	return all
}

// WriteJSON writes the document for programs to read, indented so that people can.
func WriteJSON(w io.Writer, doc *Document) error {
	full := struct {
		*Document
		CPU           CPUUse        `json:"cpu"`
		Warnings      []string      `json:"warnings"`
		Summaries     []Summary     `json:"summaries,omitempty"`
		Noop          *Noop         `json:"noop,omitempty"`
		NoopSummaries []NoopSummary `json:"noop_summaries,omitempty"`
	}{Document: doc, CPU: doc.CPU(), Warnings: doc.Warnings(), Summaries: summarizeRuns(doc.Runs), NoopSummaries: summarizeNoop(doc.NoopRuns)}
	if len(full.NoopSummaries) > 0 {
		full.Noop = &full.NoopSummaries[0].Median
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(full)
}

// Histogram counts durations from 0 to 1 h, to 3 digits; longer ones count as 1 h in percentiles. Not for
// concurrent use.
type Histogram struct {
	counts *hdrhistogram.Histogram // ns
	sum    float64                 // ns
	max    time.Duration
}

// NewHistogram returns an empty histogram, of about a quarter MB.
func NewHistogram() *Histogram {
	return &Histogram{counts: hdrhistogram.New(1, int64(maxDuration), 3)}
}

// Record counts d; a negative d, which is two clocks that disagree, counts as 0.
func (h *Histogram) Record(d time.Duration) {
	d = max(0, d)
	h.sum += float64(d)
	h.max = max(h.max, d)
	if err := h.counts.RecordValue(int64(min(d, maxDuration))); err != nil {
		panic("bench: histogram refuses a value inside its range: " + err.Error())
	}
}

// quantileAt returns the value below or at which a share q of all lies.
func (h *Histogram) quantileAt(q float64) time.Duration {
	// The library answers with the top of a bucket, which may lie above all that was recorded.
	return min(time.Duration(h.counts.ValueAtQuantile(100*q)), h.max)
}

func (h *Histogram) meanNanos() float64 {
	if n := h.counts.TotalCount(); n > 0 {
		return h.sum / float64(n)
	}
	return 0
}

// Stats sums up what was recorded, in the given unit; all zero if nothing was.
func (h *Histogram) Stats(unit time.Duration) Stats {
	in := func(d time.Duration) float64 { return float64(d) / float64(unit) }
	return Stats{
		Mean: h.meanNanos() / float64(unit),
		P50:  in(h.quantileAt(0.5)), P90: in(h.quantileAt(0.9)), P95: in(h.quantileAt(0.95)),
		P99: in(h.quantileAt(0.99)), P999: in(h.quantileAt(0.999)), Max: in(h.max),
	}
}

// Quantiles returns the median and the 99th percentile in the given unit.
func (h *Histogram) Quantiles(unit time.Duration) Quantiles {
	s := h.Stats(unit)
	return Quantiles{s.P50, s.P99}
}

// cdfPoint says that a share of the jobs was answered within ms.
type cdfPoint struct{ ms, share float64 }

// cdfInNines samples the distribution evenly in nines (50 %, 90 %, 99 %, …): ten steps each, no finer than there
// are jobs to tell.
func (h *Histogram) cdfInNines() []cdfPoint {
	n := float64(h.counts.TotalCount())
	if n == 0 {
		return nil
	}
	const perNine = 40
	var points []cdfPoint
	for i := 0; ; i++ {
		share := 1 - math.Pow(10, -float64(i)/perNine)
		if i > 0 && 1-share < 1/n {
			return points
		}
		points = append(points, cdfPoint{float64(h.quantileAt(share)) / 1e6, share})
	}
}

// RunOptions name a run and the part of it that counts.
type RunOptions struct {
	Cluster, Policy, Workload string
	Load                      float64
	Slots, Repeat             int
	Seed                      uint64
	Started                   time.Duration // from when the first run began
	Warmup                    time.Duration // jobs sent before are not counted
	For                       time.Duration // nor are those sent this long after the warm-up, or later
}

// JobOutcome is what became of one job.
type JobOutcome struct {
	Index    int
	At       time.Duration // intended send time, from the start of the run
	Tasks    int           // how many it had
	Response time.Duration // from At to its last result
	Failed   bool          // not answered in full: refused for good, failed tasks, cut off

	// Durations is how long each task ran, by the executor's own clock, in the order of the job's tasks; of a
	// failed job, those that ran. The recorder owns it from now on.
	Durations []time.Duration
}

// Recorder collects one run. All methods may be called from many goroutines.
type Recorder struct {
	opts RunOptions

	mu       sync.Mutex
	jobs     []JobOutcome
	tasks    int // that phases were recorded of
	phases   [numPhases]*Histogram
	refused  map[string]int
	retries  int
	cutAfter time.Duration // see Cut; 0: it was not
}

// NewRecorder returns a recorder for one run.
func NewRecorder(opts RunOptions) *Recorder {
	return &Recorder{opts: opts, refused: make(map[string]int)}
}

// Job records the end of a job; every job of the workload is to be recorded once, those of the warm-up too.
func (r *Recorder) Job(o JobOutcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs = append(r.jobs, o)
}

// Task records the phases of a task of a job with intended send time at.
func (r *Recorder) Task(at time.Duration, times PhaseTimes) {
	if !r.isCounted(at) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks++
	for p, d := range times {
		if d < 0 {
			continue
		}
		if r.phases[p] == nil {
			r.phases[p] = NewHistogram()
		}
		r.phases[p].Record(d)
	}
}

// Refused counts one refusal of a job with intended send time at.
func (r *Recorder) Refused(at time.Duration, reason string) {
	if r.isCounted(at) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.refused[reason]++
	}
}

// Retried counts one repetition of a job, or of a task of it, with intended send time at.
func (r *Recorder) Retried(at time.Duration) {
	if r.isCounted(at) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.retries++
	}
}

// Cut says that the run was cut short so long after its start. Jobs under way then are to be left out.
func (r *Recorder) Cut(after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cutAfter = max(after, 1)
}

func (r *Recorder) isCounted(at time.Duration) bool {
	return at >= r.opts.Warmup && at < r.opts.Warmup+r.opts.For
}

// Run sums up what was recorded so far. The omniscient queue serves every recorded job, counted or not, with
// the tasks that really ran: what was refused is no load to it either.
func (r *Recorder) Run() Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.jobs, func(a, b JobOutcome) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Index, b.Index))
	})
	arrivals := make([]time.Duration, len(r.jobs))
	durations := make([][]time.Duration, len(r.jobs))
	for i, j := range r.jobs {
		arrivals[i], durations[i] = j.At, j.Durations
	}
	best := Omniscient(arrivals, durations, r.opts.Slots)

	run := Run{
		Cluster: r.opts.Cluster, Policy: r.opts.Policy, Workload: r.opts.Workload, Load: r.opts.Load, Slots: r.opts.Slots,
		Repeat: r.opts.Repeat, Seed: r.opts.Seed, StartedS: r.opts.Started.Seconds(),
		Figures: Figures{PhasesUS: make(map[string]PhaseStats)}, Refused: make(map[string]int), Retries: r.retries,
	}
	response, ideal, omniscient := NewHistogram(), NewHistogram(), NewHistogram()
	offered, achieved := 0, 0
	for i, j := range r.jobs {
		if !j.Failed && r.isCounted(j.At+j.Response) {
			achieved += j.Tasks
		}
		if !r.isCounted(j.At) {
			continue
		}
		offered += j.Tasks
		if j.Failed {
			run.Errors++
			continue
		}
		run.Jobs++
		run.Tasks += j.Tasks
		response.Record(j.Response)
		ideal.Record(Ideal(j.Durations))
		omniscient.Record(best[i])
	}
	counted := r.opts.For
	if r.cutAfter > 0 {
		counted = min(counted, max(0, r.cutAfter-r.opts.Warmup))
		run.CutShortS = counted.Seconds()
	}
	if seconds := counted.Seconds(); seconds > 0 {
		run.OfferedTasksPerS = float64(offered) / seconds
		run.AchievedTasksPerS = float64(achieved) / seconds
	}
	run.ResponseMS = response.Stats(time.Millisecond)
	run.IdealMS = ideal.Stats(time.Millisecond)
	run.OmniscientMS = omniscient.Stats(time.Millisecond)
	run.Ratio = run.ResponseMS.dividedBy(run.IdealMS)
	run.RatioOmniscient = run.ResponseMS.dividedBy(run.OmniscientMS)
	run.OverTime = r.overTime(run.Jobs, best)
	run.responseCDF, run.omniscientCDF = response.cdfInNines(), omniscient.cdfInNines()
	for p, h := range r.phases {
		if h != nil {
			q := h.Quantiles(time.Microsecond)
			run.PhasesUS[Phase(p).String()] = PhaseStats{P50: q.P50, P99: q.P99, Mean: h.sum / 1e3 / float64(r.tasks)}
		}
	}
	for reason, n := range r.refused {
		run.Refused[reason] = n
	}
	return run
}

// overTime divides the measured time into parts of about 100 jobs, so that each has a p99 to speak of, but into 2 at
// least and 40 at most. The recorder's jobs are sorted; best[i] is the omniscient response to the i-th.
func (r *Recorder) overTime(jobs int, best []time.Duration) []Moment {
	parts := min(max(jobs/100, 2), 40)
	response, omniscient := make([][]time.Duration, parts), make([][]time.Duration, parts)
	for i, j := range r.jobs {
		if !j.Failed && r.isCounted(j.At) {
			part := int(int64(parts) * int64(j.At-r.opts.Warmup) / int64(r.opts.For))
			response[part], omniscient[part] = append(response[part], j.Response), append(omniscient[part], best[i])
		}
	}
	var moments []Moment
	for i := range parts {
		if len(response[i]) == 0 {
			continue
		}
		at := r.opts.Warmup.Seconds() + (float64(i)+0.5)*r.opts.For.Seconds()/float64(parts)
		got, ideal := sampleStats(response[i]), sampleStats(omniscient[i])
		moments = append(moments, Moment{at, len(response[i]), got.P50, got.P99, ideal.P50, ideal.P99})
	}
	return moments
}
