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

	"github.com/phoebe-sched/phoebe/probe/histogram"
)

// Phase is a span of a task's life, named after the stamp at its end: PhaseSampled is from submitted to sampled.
type Phase int

// The phases in order. PhaseReady is the wait in a worker's queue, PhaseFinished the run itself. All other phases
// are the cost of scheduling.
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

// PhaseTimes is the time of a task in each phase; negative in a skipped phase.
type PhaseTimes [numPhases]time.Duration

// PhaseTimesOf computes a task's time in each phase from the moments at which the phases ended. Moments count from
// the arrival of the job. A moment of 0 never came: for instance, a worker never asks for a task that rode along
// with its probe. PhaseReady is the wait in a worker's queue for every task, so that tasks compare. A task bound
// early never said ready, and counts as ready when it started. A moment before its predecessor adds no time: two
// clocks disagree.
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

// Document holds all results of a benchmark. The package documentation describes its JSON form. Fields of the JSON
// form are only ever added.
type Document struct {
	Meta     Meta      `json:"meta"`
	CutShort string    `json:"cut_short,omitempty"` // why the document has less than was asked for
	Runs     []Run     `json:"runs"`
	NoopRuns []NoopRun `json:"noop_runs,omitempty"`

	Comparisons []Comparison `json:"comparisons,omitempty"`

	Checks []string `json:"checks,omitempty"` // what the benchmark checked after its runs, with figures, a line each
}

// Meta describes the origin of the numbers.
type Meta struct {
	Command  string    `json:"command"`
	Version  string    `json:"version"` // of this program
	Commit   string    `json:"commit"`  // of this program's sources
	Machine  Machine   `json:"machine"`
	Go       string    `json:"go"`
	Date     time.Time `json:"date"`
	Seed     uint64    `json:"seed"`               // of the first repeat
	Settings []string  `json:"settings,omitempty"` // chosen by the harness, a line each

	LoadBefore float64 `json:"load_average_before"` // see LoadAverage
	LoadAfter  float64 `json:"load_average_after"`
	CPUBefore  CPUUse  `json:"cpu_before"` // shortly before the first run
}

// nameCommit returns the commit of the program's sources for people.
func (m *Meta) nameCommit() string { return cmp.Or(m.Commit, "commit not stamped") }

// NewMeta describes this machine and a command line, without the values of flags that hold secrets.
func NewMeta(args []string, seed uint64, date time.Time) Meta {
	version, commit := buildStamp()
	return Meta{
		Command: commandLine(args), Version: version, Commit: commit, Machine: thisMachine(), Go: runtime.Version(),
		Date: date.UTC().Truncate(time.Second), Seed: seed, LoadBefore: LoadAverage(),
	}
}

// Watch measures the use of this machine for half a second, or until ctx ends.
func (m *Meta) Watch(ctx context.Context) {
	meter := NewCPUMeter()
	select {
	case <-time.After(500 * time.Millisecond):
		m.CPUBefore = meter.Use()
	case <-ctx.Done():
	}
}

// commandLine quotes the arguments for a shell, and hides secrets and tokens.
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

// The kinds of clusters in a benchmark: within the benchmark's process, of processes started by the benchmark, or
// running before.
const (
	Embedded  = "embedded"
	Processes = "processes"
	Running   = "running"

	ByTLS = " by TLS" // suffix of the first two kinds
)

// Run is a workload at a load under a policy, once. Jobs count by their intended send time: jobs of the warm-up and
// jobs after the measured time load the cluster, but do not count.
type Run struct {
	Cluster  string  `json:"cluster"` // Embedded or Processes, with or without ByTLS; Running, FleetA or FleetB
	Policy   string  `json:"policy"`
	Workload string  `json:"workload"`
	Load     float64 `json:"load"` // share of the slots in use, as asked for
	Slots    int     `json:"slots"`
	Repeat   int     `json:"repeat"`    // from 1
	Seed     uint64  `json:"seed"`      // of arrivals and durations
	StartedS float64 `json:"started_s"` // since the start of the first run
	Jobs     int     `json:"jobs"`      // answered in full
	Tasks    int     `json:"tasks"`     // of these jobs
	Errors   int     `json:"errors"`    // jobs not answered in full
	Figures
	Refused   map[string]int `json:"refused"` // refusals by reason, also of retried jobs
	Retries   int            `json:"retries"` // of tasks; copies of late attempts are no retries
	Retried   map[string]int `json:"retried"` // retries by how the attempt before ended
	Copies    int            `json:"copies"`  // second attempts, because the first was late
	OverTime  []Moment       `json:"over_time"`
	CutShortS float64        `json:"cut_short_s,omitempty"` // seconds that counted, if the run was cut short

	responseCDF, omniscientCDF []cdfPoint // for the report
}

// Figures are the measurements of a run.
type Figures struct {
	OfferedTasksPerS float64 `json:"offered_tasks_per_s"`
	// AchievedTasksPerS counts tasks of jobs answered during the measured time, whenever sent.
	AchievedTasksPerS float64 `json:"achieved_tasks_per_s"`
	// ResponseMS is the time from the intended send time to the last result.
	ResponseMS Stats `json:"response_ms"`
	// IdealMS is the job's longest task, as the executor measured it.
	IdealMS      Stats `json:"ideal_ms"`
	OmniscientMS Stats `json:"omniscient_ms"` // see Omniscient
	// Ratio is response_ms / ideal_ms, statistic by statistic.
	Ratio           Stats                 `json:"ratio"`
	RatioOmniscient Stats                 `json:"ratio_omniscient"` // response_ms / omniscient_ms, likewise
	PhasesUS        map[string]PhaseStats `json:"phases_us"`
	CPU             CPUUse                `json:"cpu"` // warm-up included
	Simulated       *Simulated            `json:"simulated,omitempty"`
}

// Moment is a part of a run's measured time: the jobs sent within the part.
type Moment struct {
	AtS             float64 `json:"at_s"` // middle of the part, from the start of the run
	Jobs            int     `json:"jobs"` // answered in full
	P50MS           float64 `json:"p50_ms"`
	P99MS           float64 `json:"p99_ms"`
	OmniscientP50MS float64 `json:"omniscient_p50_ms"`
	OmniscientP99MS float64 `json:"omniscient_p99_ms"`
}

// Summary combines the repeats of a run. Counts are sums over all repeats.
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
	Retried map[string]int `json:"retried"`
	Copies  int            `json:"copies"`

	label string // policy, and the cluster if there are several
	runs  []Run
}

// summarizeRuns combines the repeats of each run, in the order of their first. A run cut short after complete
// repeats does not count.
func summarizeRuns(runs []Run) []Summary {
	var all []Summary
	for _, r := range runs {
		i := slices.IndexFunc(all, func(s Summary) bool {
			return s.Cluster == r.Cluster && s.Policy == r.Policy && s.Workload == r.Workload && s.Load == r.Load &&
				s.Slots == r.Slots
		})
		if i < 0 {
			i = len(all)
			all = append(all, Summary{
				Cluster: r.Cluster, Policy: r.Policy, Workload: r.Workload, Load: r.Load, Slots: r.Slots,
				Refused: map[string]int{}, Retried: map[string]int{}, label: r.Policy,
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
		s.Copies += r.Copies
		for cause, n := range r.Retried {
			s.Retried[cause] += n
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

// CPU returns the use of the machine's CPUs during the runs.
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

// Warnings returns the possible disturbances of the figures. With a cluster that was running before, Warnings
// returns nil: its processes cannot be told from disturbing processes.
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
		warnings = append(warnings,
			fmt.Sprintf("others disturbed %d of %d runs: in the worst, %s. Times are longer for it, and scatter.",
				busy, total, worst.Busy(d.Meta.Machine.CPUs)))
	}
	return warnings
}

// Simulated is the simulator's answer to the jobs of a run.
type Simulated struct {
	Jobs       int     `json:"jobs"`     // counted jobs
	DelayUS    float64 `json:"delay_us"` // of each message one way, as in the run
	ResponseMS Stats   `json:"response_ms"`
	Ratio      Stats   `json:"ratio"` // the run's response_ms / these, statistic by statistic
}

// Delay returns the average time of a message one way over a link; 0 if not measured.
func (r *Run) Delay() time.Duration {
	return time.Duration(r.PhasesUS[PhaseQueued.String()].Mean * float64(time.Microsecond))
}

// Simulate notes the result of a simulation of the run: the counted jobs, the delay of messages, and the response.
func (r *Run) Simulate(jobs int, delay time.Duration, response Stats) {
	r.Simulated = &Simulated{Jobs: jobs, DelayUS: float64(delay) / float64(time.Microsecond),
		ResponseMS: response, Ratio: r.ResponseMS.dividedBy(response)}
}

// Stats sum up a distribution. Mean and max are exact. Percentiles are within 0.1 % and never above max.
type Stats struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// dividedBy divides each statistic. A statistic without a divisor becomes 0.
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

// Quantiles are the two quantiles kept in short tables.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// PhaseStats is the time that tasks spent in a phase. Percentiles are over the tasks that went through the phase.
// The mean is over all tasks: a skipped phase took no time, so means add up over the phases.
type PhaseStats struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	Mean float64 `json:"mean"`
}

// Noop is the cost of a job that does nothing.
type Noop struct {
	RTTUS       Quantiles `json:"rtt_us"`         // of jobs with one task, in sequence
	FloorUS     Quantiles `json:"floor_us"`       // see Floor; measured in turns with the jobs
	OverFloor   Quantiles `json:"over_floor"`     // rtt_us / floor_us
	TasksPerS1  float64   `json:"tasks_per_s_1"`  // jobs of 100, one in flight
	TasksPerS16 float64   `json:"tasks_per_s_16"` // the same, 16 in flight
	// CPUUSPerTask is user and system time of the load generator and of the started cluster, with 16 jobs in
	// flight.
	CPUUSPerTask float64 `json:"cpu_us_per_task"`
}

// NoopRun is a single measurement of Noop.
type NoopRun struct {
	Cluster string `json:"cluster"`
	Repeat  int    `json:"repeat"` // from 1
	Noop
	CPU CPUUse `json:"cpu"` // of round trips and throughput
}

// NoopSummary combines the repeats of a NoopRun.
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

// WriteJSON writes the document for programs, indented for people.
func WriteJSON(w io.Writer, doc *Document) error {
	full := struct {
		*Document
		CPU           CPUUse        `json:"cpu"`
		Warnings      []string      `json:"warnings"`
		Summaries     []Summary     `json:"summaries,omitempty"`
		Noop          *Noop         `json:"noop,omitempty"`
		NoopSummaries []NoopSummary `json:"noop_summaries,omitempty"`
	}{Document: doc, CPU: doc.CPU(), Warnings: doc.Warnings(), Summaries: summarizeRuns(doc.Runs),
		NoopSummaries: summarizeNoop(doc.NoopRuns)}
	if len(full.NoopSummaries) > 0 {
		full.Noop = &full.NoopSummaries[0].Median
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(full)
}

// Histogram counts durations from 0 to 1 h, to 3 digits. Longer durations count as 1 h in percentiles. A Histogram
// is not for concurrent use.
type Histogram struct {
	counts *hdrhistogram.Histogram // ns
	sum    float64                 // ns
	max    time.Duration
}

// NewHistogram returns an empty histogram of about a quarter MB.
func NewHistogram() *Histogram {
	return &Histogram{counts: hdrhistogram.New(1, int64(maxDuration), 3)}
}

// Record counts d. A negative d counts as 0: two clocks disagree.
func (h *Histogram) Record(d time.Duration) {
	d = max(0, d)
	h.sum += float64(d)
	h.max = max(h.max, d)
	if err := h.counts.RecordValue(int64(min(d, maxDuration))); err != nil {
		panic("bench: histogram refuses a value inside its range: " + err.Error())
	}
}

// quantileAt returns the value that a share q of all values does not exceed, or 0 without values.
func (h *Histogram) quantileAt(q float64) time.Duration {
	n := h.counts.TotalCount()
	if n == 0 {
		return 0
	}
	// The library rounds the rank, so it gets a share with a whole rank. It returns the top of a bucket, and the top
	// may lie above all recorded values.
	share := float64(histogram.QuantileRank(q, int(n))) / float64(n)
	return min(time.Duration(h.counts.ValueAtQuantile(100*share)), h.max)
}

func (h *Histogram) meanNanos() float64 {
	if n := h.counts.TotalCount(); n > 0 {
		return h.sum / float64(n)
	}
	return 0
}

// Stats sums up the recorded durations in the given unit; all zero without any.
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

// cdfInNines samples the distribution evenly in nines (50 %, 90 %, 99 %, …): forty steps for each nine, and no
// finer than a single job.
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

// RunOptions name a run and its measured time.
type RunOptions struct {
	Cluster, Policy, Workload string
	Load                      float64
	Slots, Repeat             int
	Seed                      uint64
	Started                   time.Duration // since the start of the first run
	Warmup                    time.Duration // jobs sent before do not count
	For                       time.Duration // measured time after the warm-up; jobs sent later do not count
}

// JobOutcome is the outcome of a job.
type JobOutcome struct {
	Index    int
	At       time.Duration // intended send time, from the start of the run
	Tasks    int           // number of tasks
	Response time.Duration // from At to its last result
	Failed   bool          // not answered in full: refused for good, failed tasks, cut off

	// Durations are the run times by the executor's own clock, in the order of the job's tasks. A failed job lists
	// only tasks that ran. The recorder owns the slice.
	Durations []time.Duration
}

// Recorder collects a run. Any goroutine may call its methods.
type Recorder struct {
	opts RunOptions

	mu       sync.Mutex
	jobs     []JobOutcome
	tasks    int // tasks with recorded phases
	phases   [numPhases]*Histogram
	refused  map[string]int
	retried  map[string]int
	copies   int
	cutAfter time.Duration // see Cut; 0: not cut short
}

// NewRecorder returns a recorder for a run.
func NewRecorder(opts RunOptions) *Recorder {
	return &Recorder{opts: opts, refused: make(map[string]int), retried: make(map[string]int)}
}

// Job records the end of a job. Record every job of the workload once, also jobs of the warm-up.
func (r *Recorder) Job(o JobOutcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs = append(r.jobs, o)
}

// Task records the phases of a task. at is the intended send time of its job.
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

// Refused counts a refusal of a job. at is its intended send time.
func (r *Recorder) Refused(at time.Duration, reason string) {
	if r.isCounted(at) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.refused[reason]++
	}
}

// Retried counts a retry of a task. at is the intended send time of the job, cause how the attempt before ended.
func (r *Recorder) Retried(at time.Duration, cause string) {
	if r.isCounted(at) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.retried[cause]++
	}
}

// Copied counts copies of a task's late attempts. at is the intended send time of the job.
func (r *Recorder) Copied(at time.Duration, copies int) {
	if r.isCounted(at) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.copies += copies
	}
}

// Cut says that the run was cut short at the time after, from its start. Leave out the jobs under way at that
// moment.
func (r *Recorder) Cut(after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cutAfter = max(after, 1)
}

// isCounted reports whether at lies in the measured time.
func (r *Recorder) isCounted(at time.Duration) bool {
	return at >= r.opts.Warmup && at < r.opts.Warmup+r.opts.For
}

// Run sums up the recorded jobs. The omniscient queue serves every recorded job, counted or not, with the tasks
// that really ran: refused jobs are no load to the omniscient queue either.
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
		Cluster: r.opts.Cluster, Policy: r.opts.Policy, Workload: r.opts.Workload, Load: r.opts.Load,
		Slots:  r.opts.Slots,
		Repeat: r.opts.Repeat, Seed: r.opts.Seed, StartedS: r.opts.Started.Seconds(),
		Figures: Figures{PhasesUS: make(map[string]PhaseStats)}, Refused: make(map[string]int),
		Retried: make(map[string]int), Copies: r.copies,
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
	for cause, n := range r.retried {
		run.Retried[cause], run.Retries = n, run.Retries+n
	}
	return run
}

// overTime divides the measured time into parts of about 100 jobs, so that each part has a meaningful p99: at least
// 2 and at most 40 parts. The recorder's jobs are sorted; best[i] is the omniscient response to job i.
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
		got, ideal := SampleStats(response[i]), SampleStats(omniscient[i])
		moments = append(moments, Moment{at, len(response[i]), got.P50, got.P99, ideal.P50, ideal.P99})
	}
	return moments
}
