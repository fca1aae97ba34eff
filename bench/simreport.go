package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/probe/histogram"
)

// SimDocument holds the results of a simulation, without machine or date. Except for wall times, the same settings
// and seed give the same document.
type SimDocument struct {
	Seed     uint64   `json:"seed"`
	Settings []string `json:"settings"`
	CutShort string   `json:"cut_short,omitempty"` // why the document has less than was asked for
	Runs     []SimRun `json:"runs"`
}

// SimRun is a simulated run.
type SimRun struct {
	Policy     string  `json:"policy"`
	Load       float64 `json:"load"`
	ProbeRatio float64 `json:"probe_ratio"`
	Workers    int     `json:"workers"`
	Slots      int     `json:"slots"` // of each worker
	Frontends  int     `json:"frontends"`

	SimGroup           // of all counted jobs
	Short    *SimGroup `json:"short,omitempty"` // of the short jobs, if a cutoff or the workload divides jobs
	Long     *SimGroup `json:"long,omitempty"`

	Kinds    map[string]*SimGroup  `json:"kinds,omitempty"`    // by kind, if jobs have kinds
	Deciders map[string]SimDecider `json:"deciders,omitempty"` // by kind of their jobs, if decisions take time

	// WorkerWaitMS is over workers: the mean wait_ms of the counted tasks that started at the worker.
	WorkerWaitMS Stats          `json:"worker_wait_ms"`
	WorkerSpread float64        `json:"worker_spread_ms"`     // standard deviation of the means
	Estimates    *SimEstimates  `json:"estimates,omitempty"`  // if tasks were placed by estimation
	Promises     *SimPromises   `json:"promises,omitempty"`   // if promised waits are judged
	Oracle       *SimOracle     `json:"oracle,omitempty"`     // if oracles plan some of the jobs
	Read         *SimRead       `json:"read,omitempty"`       // if tasks have inputs
	Completion   *SimMatching   `json:"completion,omitempty"` // of a figure that matches tasks with workers once
	Copies       SimCopies      `json:"copies"`
	Stragglers   *SimStragglers `json:"stragglers,omitempty"` // if some tasks take much longer than normal
	Sharing      *SimSharing    `json:"sharing,omitempty"`    // if tenants share the slots
	Elastic      *SimElastic    `json:"elastic,omitempty"`    // if the fleet changes under a backlog

	MessagesPerTask float64 `json:"messages_per_task"`      // including pings, syncs and acknowledgements
	CPU             *SimCPU `json:"cpu,omitempty"`          // if messages cost CPU
	Utilisation     float64 `json:"utilisation"`            // of the slots, from the first counted arrival to the last
	CutShortOf      int     `json:"cut_short_of,omitempty"` // jobs that should count, if the run was cut short
	Events          uint64  `json:"events"`
	WallS           float64 `json:"wall_s"`
}

// SimDecider is the work of the schedulers that decide about a kind of jobs. The times are from the first arrival to
// the end of the run.
type SimDecider struct {
	Busy    float64 `json:"busy"`    // share of the time, on average over the schedulers
	Redone  float64 `json:"redone"`  // of the decision time: for jobs decided before, but not for all tasks
	Clashes float64 `json:"clashes"` // for each job that was decided to its end
	WaitS   float64 `json:"wait_s"`  // mean time that a job waits for its decision to begin, each time
}

// SimEstimates is the quality of the estimates used for placement, over all frontends.
type SimEstimates struct {
	Tasks      int     `json:"tasks"`       // placed by estimation
	WaitWithin float64 `json:"wait_within"` // share of the waits at the worker within 10 % or 1 s of the estimate
	WaitOffS   float64 `json:"wait_off_s"`  // average error of the estimated waits
	RunWithin  float64 `json:"run_within"`  // likewise for run times
	RunOffS    float64 `json:"run_off_s"`
	Asked      float64 `json:"asked"` // workers asked for a wait matrix, for each task
}

// SimPromises is the quality of promised waits. A promise is kept if it is within 10 % or 1 s of the wait. Shares are
// of all tasks, if nothing else is said.
type SimPromises struct {
	Tasks      int     `json:"tasks"`
	Queued     float64 `json:"queued"`      // share of tasks that waited in a queue
	Kept       float64 `json:"kept"`        // share of kept promises
	KeptQueued float64 `json:"kept_queued"` // the same, of the tasks that waited, or were promised a wait
	KeptAlone  float64 `json:"kept_alone"`  // share of promises that would be kept if nothing had come later
	Foreseen   float64 `json:"foreseen"`    // share that is kept by promises that know all but later arrivals
	BestBlind  float64 `json:"best_blind"`  // largest share for a promise that knows no run time, only the mean
	OffS       float64 `json:"off_s"`       // average error of the promises
}

// SimOracle holds the responses to some jobs, in ms, if oracles place their tasks. The oracles need no time, and
// read inputs from a disk of the host. No task of another job is in their way.
type SimOracle struct {
	Same  Stats `json:"same"`  // with as many slots as the job may use, the longest way to the job's end first
	Blind Stats `json:"blind"` // the same, if only the mean run time of each stage is known
	Free  Stats `json:"free"`  // with a slot for each task
}

// SimCPU is the CPU spent on messages by all processes, from the first arrival to the end of the last job.
type SimCPU struct {
	MessageUS      float64 `json:"message_us"`      // of a message, at either end
	PerTaskUS      float64 `json:"per_task_us"`     // sum over all processes
	FrontendsShare float64 `json:"frontends_share"` // of a core per frontend
	WorkersShare   float64 `json:"workers_share"`   // of a core per worker
	BusiestShare   float64 `json:"busiest_share"`   // of the busiest process
}

// SimRead is the mean number of input bytes read by a task, by distance.
type SimRead struct {
	Host   float64 `json:"host"` // in memory or on the disk of the task's host
	Rack   float64 `json:"rack"`
	Across float64 `json:"across"`
	Near   float64 `json:"near"` // share of the tasks that read all on their host
}

// SimCopies describes the second attempts of tasks, including copies withdrawn before their start.
type SimCopies struct {
	Share float64 `json:"share"` // share of all tasks with a copy
	Won   float64 `json:"won"`   // share of all tasks with a copy whose copy gave the outcome; 1 without any copy
}

// SimStragglers counts second attempts at tasks that took much longer than normal.
type SimStragglers struct {
	Machine int `json:"machine"` // first attempts slow only because of the machine
	Caught  int `json:"caught"`  // of Machine: tasks with a copy
	// Spared counts tasks of Machine without a copy and with a later sibling, so a copy would gain nothing.
	Spared int     `json:"spared"`
	Data   int     `json:"data"`    // tasks slow only because of their inputs
	InVain int     `json:"in_vain"` // of Data: tasks with a copy
	Copies int     `json:"copies"`  // of all tasks
	Work   float64 `json:"work"`    // share of all slot time in use that copies took
}

// SimSharing is the division of the slots between tenants.
type SimSharing struct {
	Got  map[string]float64 `json:"got"`  // share of all slots, by tenant
	Lost float64            `json:"lost"` // share of the slot time of spare tasks, taken by tasks that were stopped
	Over float64            `json:"over"` // slots of regular tasks beyond their tenants' tokens, over all tokens
	Idle float64            `json:"idle"` // share of all tokens that covered no task although their tenant had tasks
}

// SimElastic describes a backlog on a fleet that changes. The time is from the change to the end of the last task.
type SimElastic struct {
	OverLongest float64 `json:"over_longest"`  // time over that of a central queue that begins the longest tasks first
	OverInOrder float64 `json:"over_in_order"` // time over that of a central queue in order of submission
	Moves       float64 `json:"moves"`         // of a task, from queue to queue
	MostMoves   int     `json:"most_moves"`    // of one task
}

// SimMatching is the completion time of a set of tasks, in units of their mean run time.
type SimMatching struct {
	Mean float64 `json:"mean"`
	Last float64 `json:"last"`
}

// SimGroup holds the measurements of some jobs.
type SimGroup struct {
	Jobs  int `json:"jobs"`
	Tasks int `json:"tasks"`
	// ResponseMS is the time of jobs from arrival at a frontend until the frontend has the last result.
	ResponseMS      Stats  `json:"response_ms"`
	IdealMS         Stats  `json:"ideal_ms"`      // of jobs: their longest task, at nominal speed
	WaitMS          Stats  `json:"wait_ms"`       // of tasks: from the arrival of their job to their start
	LastStartMS     Stats  `json:"last_start_ms"` // of jobs: from arrival to the start of their last task
	Ratio           Stats  `json:"ratio"`         // response_ms / ideal_ms, statistic by statistic
	OmniscientMS    *Stats `json:"omniscient_ms,omitempty"`
	RatioOmniscient *Stats `json:"ratio_omniscient,omitempty"` // response_ms / omniscient_ms, likewise

	responseCDF, idealCDF []cdfPoint
}

// SimSample holds all recordings of some jobs.
type SimSample struct {
	Tasks                       int
	Response, Ideal, Omniscient []time.Duration // by job; Omniscient may be empty
	LastStart                   []time.Duration // by job
	Wait                        []time.Duration // by task
}

// Add adds the recordings of another sample.
func (s *SimSample) Add(o *SimSample) {
	s.Tasks += o.Tasks
	s.Response = append(s.Response, o.Response...)
	s.Ideal = append(s.Ideal, o.Ideal...)
	s.Omniscient = append(s.Omniscient, o.Omniscient...)
	s.LastStart = append(s.LastStart, o.LastStart...)
	s.Wait = append(s.Wait, o.Wait...)
}

// Group sums the sample up, and sorts its contents.
func (s *SimSample) Group() *SimGroup {
	g := &SimGroup{
		Jobs: len(s.Response), Tasks: s.Tasks,
		ResponseMS: SampleStats(s.Response), IdealMS: SampleStats(s.Ideal), WaitMS: SampleStats(s.Wait),
		LastStartMS: SampleStats(s.LastStart),
		responseCDF: sampleCDF(s.Response), idealCDF: sampleCDF(s.Ideal),
	}
	g.Ratio = g.ResponseMS.dividedBy(g.IdealMS)
	if len(s.Omniscient) > 0 {
		best := SampleStats(s.Omniscient)
		ratio := g.ResponseMS.dividedBy(best)
		g.OmniscientMS, g.RatioOmniscient = &best, &ratio
	}
	return g
}

// SampleStats sorts a sample and sums it up exactly, in ms. Percentiles are by nearest rank.
func SampleStats(sample []time.Duration) Stats {
	if len(sample) == 0 {
		return Stats{}
	}
	slices.Sort(sample)
	sum := 0.0
	for _, d := range sample {
		sum += float64(d)
	}
	at := func(q float64) float64 { return float64(quantileOf(sample, q)) / 1e6 }
	return Stats{
		Mean: sum / float64(len(sample)) / 1e6,
		P50:  at(0.5), P90: at(0.9), P95: at(0.95), P99: at(0.99), P999: at(0.999), Max: at(1),
	}
}

// SimSpread sums up the means of a quantity at each worker, and returns their standard deviation, in ms. SimSpread
// sorts means.
func SimSpread(means []time.Duration) (s Stats, deviation float64) {
	s = SampleStats(means)
	for _, d := range means {
		deviation += math.Pow(float64(d)/1e6-s.Mean, 2)
	}
	return s, math.Sqrt(deviation / float64(max(len(means), 1)))
}

func quantileOf(sorted []time.Duration, q float64) time.Duration {
	return sorted[histogram.QuantileRank(q, len(sorted))-1]
}

// sampleCDF is Histogram.cdfInNines for a sorted sample.
func sampleCDF(sorted []time.Duration) []cdfPoint {
	const perNine = 40
	var points []cdfPoint
	for i := 0; len(sorted) > 0; i++ {
		share := 1 - math.Pow(10, -float64(i)/perNine)
		if i > 0 && (1-share)*float64(len(sorted)) < 1 {
			break
		}
		points = append(points, cdfPoint{float64(quantileOf(sorted, share)) / 1e6, share})
	}
	return points
}

// WriteSimJSON writes the document for programs, indented for people.
func WriteSimJSON(w io.Writer, doc *SimDocument) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(doc)
}

// WriteSimTable writes the document for a terminal: a row for each policy, for each load and probe ratio.
func WriteSimTable(w io.Writer, doc *SimDocument) error {
	var b strings.Builder
	for _, line := range doc.Settings {
		fmt.Fprintln(&b, line)
	}
	for _, group := range groupSimRuns(doc.Runs) {
		fmt.Fprintf(&b, "\n%s, times in ms\n", simTitle(&group[0]))
		simGrid(group).writeText(&b)
		for i := range group {
			if line := group[i].describeCut(); line != "" {
				fmt.Fprintln(&b, line)
			}
			if e := group[i].Estimates; e != nil {
				fmt.Fprintf(&b, "%s: %d tasks placed by estimation; of their waits %.1f %% within 10 %% or 1 s of the estimate (off by %.3f s on average), of their run times %.1f %% (%.3f s); %.1f workers asked for each\n",
					group[i].Policy, e.Tasks, 100*e.WaitWithin, e.WaitOffS, 100*e.RunWithin, e.RunOffS, e.Asked)
			}
			for _, kind := range slices.Sorted(maps.Keys(group[i].Kinds)) {
				k := group[i].Kinds[kind]
				fmt.Fprintf(&b, "%s: %s jobs: response mean %s, p90 %s; last task started after mean %s, p90 %s\n",
					group[i].Policy, kind, formatNumber(k.ResponseMS.Mean), formatNumber(k.ResponseMS.P90),
					formatNumber(k.LastStartMS.Mean), formatNumber(k.LastStartMS.P90))
			}
			for _, kind := range slices.Sorted(maps.Keys(group[i].Deciders)) {
				d := group[i].Deciders[kind]
				fmt.Fprintf(&b, "%s: deciders of %s jobs busy for %.1f %% of the time, %.2f %% of it anew; "+
					"%.3f clashes for each job\n",
					group[i].Policy, cmp.Or(kind, "all"), 100*d.Busy, 100*d.Redone, d.Clashes)
			}
			if read := group[i].Read; read != nil {
				fmt.Fprintf(&b, "%s: a task reads %.4g MB on its host, %.4g MB within its rack, %.4g MB across racks; "+
					"%.1f %% of the tasks read all on their host\n", group[i].Policy, read.Host/1e6, read.Rack/1e6,
					read.Across/1e6, 100*read.Near)
			}
		}
	}
	writeCut(&b, doc.CutShort)
	_, err := io.WriteString(w, b.String())
	return err
}

// describeCut says how much of a cut run there is; "" for a whole run.
func (r *SimRun) describeCut() string {
	if r.CutShortOf == 0 {
		return ""
	}
	return fmt.Sprintf("%s: cut short after %d of %d jobs", r.Policy, r.Jobs, r.CutShortOf)
}

func simTitle(r *SimRun) string {
	return fmt.Sprintf("load %.4g, probe ratio %.4g, %d workers of %d slots, %d jobs of %d tasks", r.Load,
		r.ProbeRatio, r.Workers, r.Slots, r.Jobs, r.Tasks)
}

// groupSimRuns groups runs by load and probe ratio, in the order of their first.
func groupSimRuns(runs []SimRun) [][]SimRun {
	var groups [][]SimRun
	for _, run := range runs {
		i := slices.IndexFunc(groups, func(g []SimRun) bool {
			return g[0].Load == run.Load &&
				g[0].ProbeRatio == run.ProbeRatio
		})
		if i < 0 {
			groups = append(groups, []SimRun{run})
		} else {
			groups[i] = append(groups[i], run)
		}
	}
	return groups
}

// simGrid has a row for each run of a group, and a row for the ideal of the first run.
func simGrid(group []SimRun) grid {
	cells := func(s Stats) []string {
		return []string{formatNumber(s.Mean), formatNumber(s.P50), formatNumber(s.P90), formatNumber(s.P99)}
	}
	g := grid{
		{"", "response", "", "", "", "slowdown", "", "", "", "wait", "", "", "", "msgs", ""},
		{"policy", "mean", "p50", "p90", "p99", "mean", "p50", "p90", "p99", "mean", "p50", "p90", "p99", "each",
			"used"},
	}
	row := func(name string, s *SimGroup) []string {
		return slices.Concat([]string{name}, cells(s.ResponseMS), cells(s.Ratio), cells(s.WaitMS))
	}
	ideal := func(name string, s *SimGroup) []string { return append([]string{name}, cells(s.IdealMS)...) }
	for i := range group {
		r := &group[i]
		g = append(g, append(row(r.Policy, &r.SimGroup), formatNumber(r.MessagesPerTask),
			strconv.FormatFloat(r.Utilisation, 'f', 3, 64)))
		if r.Short != nil {
			g = append(g, row("  short", r.Short), row("  long", r.Long))
		}
	}
	first := &group[0]
	g = append(g, ideal("ideal", &first.SimGroup))
	if first.Short != nil {
		g = append(g, ideal("  short", first.Short), ideal("  long", first.Long))
	}
	return g
}
