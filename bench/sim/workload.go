package sim

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
)

// Workload is the source of the jobs of a run: [Poisson], [Mixed], [Kinds], [File], [Listed] or [Trace]. Every run of
// a sweep asks for the jobs anew, and gets the same jobs.
type Workload interface {
	newArrivals(seed uint64, load, slots float64) (*arrivals, error)
}

// arrivals describes the jobs of a run.
type arrivals struct {
	jobs           iter.Seq[arrival]
	grouped        bool     // each arrival says whether its job is long
	jobCount       int      // number of jobs; 0: endless
	load           float64  // of the slots
	tasksPerSecond float64  // tasks that arrive in a second
	settings       []string // for people to read
	listed         bool     // each arrival says its stages; false: Config.Stages and Config.Input do
	staged         bool     // an arrival of a list has stages or inputs
}

// arrival is a job, and the mean duration of its tasks: as stated by a file, or computed.
type arrival struct {
	bench.Job
	mean   time.Duration
	long   bool
	tenant string
	stages []arrivalStage // nil: a single stage without inputs
	own    *ownTerms      // nil: the run's terms
}

// ownTerms are the terms of a job that the other jobs of its run do not share. All such jobs go to one frontend, and
// each of their stages is a class of tasks, so phoebe learns how long the tasks of a stage run.
type ownTerms struct {
	policy    Policy
	estimates Estimates
	slots     int // the job's tenant may use at most this number of slots
}

// Poisson is an endless workload of jobs that arrive as a Poisson process.
type Poisson struct {
	TasksPerJob bench.Counts
	Durations   bench.Spec
}

func (p Poisson) newArrivals(seed uint64, load, slots float64) (*arrivals, error) {
	if p.TasksPerJob == nil || p.Durations == nil {
		return nil, errors.New("the workload lacks a law of tasks per job, or of task durations")
	}
	jobs, err := bench.PoissonJobs(seed, load, slots, p.TasksPerJob, p.Durations, math.MaxInt64/4)
	if err != nil {
		return nil, err
	}
	return &arrivals{
		jobs: withMeans(jobs), load: load, tasksPerSecond: load * slots / p.Durations.Mean().Seconds(),
		settings: []string{fmt.Sprintf("jobs: Poisson arrivals, %s tasks per job, task durations %s", p.TasksPerJob,
			p.Durations)},
	}, nil
}

// withMeans adds the mean duration of the tasks to each job.
func withMeans(jobs iter.Seq[bench.Job]) iter.Seq[arrival] {
	return func(yield func(arrival) bool) {
		for job := range jobs {
			if !yield(arrival{Job: job, mean: job.Work() / time.Duration(max(len(job.Tasks), 1))}) {
				return
			}
		}
	}
}

// Mixed is a workload of short and long jobs, arriving as two Poisson processes. The results are reported by
// kind.
type Mixed struct {
	Short, Long Poisson
	LongJobs    float64 // share of long jobs, above 0 and below 1
}

func (m Mixed) newArrivals(seed uint64, load, slots float64) (*arrivals, error) {
	if !(m.LongJobs > 0 && m.LongJobs < 1) {
		return nil, fmt.Errorf("%g of the jobs are long: use a share above 0 and below 1", m.LongJobs)
	}
	var kinds [2]*arrivals
	var work [2]float64 // of the mean job of each kind, weighted by the share of the kind
	for i, p := range []Poisson{m.Short, m.Long} {
		if p.TasksPerJob == nil || p.Durations == nil {
			return nil, errors.New("the workload lacks a law of tasks per job, or of task durations")
		}
		work[i] = []float64{1 - m.LongJobs, m.LongJobs}[i] * p.TasksPerJob.Mean() * p.Durations.Mean().Seconds()
	}
	a := &arrivals{grouped: true, load: load}
	for i, p := range []Poisson{m.Short, m.Long} {
		var err error
		if kinds[i], err = p.newArrivals(seed^uint64(i)<<40, load*work[i]/(work[0]+work[1]), slots); err != nil {
			return nil, err
		}
		a.tasksPerSecond += kinds[i].tasksPerSecond
	}
	a.jobs = mergeJobs(kinds[0].jobs, kinds[1].jobs, func(job *arrival, kind int) { job.long = kind == 1 })
	a.settings = []string{fmt.Sprintf("jobs: Poisson arrivals; %.4g %% short, %s tasks per job, task durations %s; "+
		"%.4g %% long, %s tasks per job, task durations %s: %.1f %% of the work",
		100*(1-m.LongJobs), m.Short.TasksPerJob, m.Short.Durations, 100*m.LongJobs, m.Long.TasksPerJob,
		m.Long.Durations, 100*work[1]/(work[0]+work[1]))}
	return a, nil
}

// Kinds is an endless workload of several kinds of jobs, such as batch and service jobs. Each kind arrives as a
// Poisson process. The tenant of a job is its kind. At load 0 the kinds arrive at their own rates; at another load,
// all rates are multiplied.
type Kinds []Kind

// Kind is a kind of jobs. A job arrives every Every, on average.
type Kind struct {
	Name  string
	Every time.Duration
	Poisson
}

// ParseKind reads NAME EVERY TASKS DURATION, such as batch 10s geometric:100 job-exp:100s.
func ParseKind(text string) (k Kind, err error) {
	fields := strings.Fields(text)
	if len(fields) != 4 {
		return k, fmt.Errorf("%q has %d words: use the name, the time between two jobs, tasks per job and task "+
			"duration, such as batch 10s geometric:100 job-exp:100s", text, len(fields))
	}
	k.Name = fields[0]
	if k.Every, err = time.ParseDuration(fields[1]); err == nil && k.Every <= 0 {
		err = fmt.Errorf("%s between two jobs: use a duration above 0", k.Every)
	}
	var errs [2]error
	k.TasksPerJob, errs[0] = bench.ParseCounts(fields[2])
	k.Durations, errs[1] = bench.ParseDurations(fields[3])
	return k, errors.Join(err, errs[0], errs[1])
}

// taskWork returns the work of the tasks that arrive in a second.
func (k *Kind) taskWork() float64 {
	return k.TasksPerJob.Mean() * k.Durations.Mean().Seconds() / k.Every.Seconds()
}

func (k Kinds) newArrivals(seed uint64, load, slots float64) (*arrivals, error) {
	own := 0.0
	for i := range k {
		own += k[i].taskWork() / slots
	}
	if load == 0 {
		load = own
	}
	a := &arrivals{load: load}
	for i := range k {
		one, err := k[i].Poisson.newArrivals(seed^uint64(i)<<40, load*k[i].taskWork()/slots/own, slots)
		if err != nil {
			return nil, err
		}
		setKind := func(job *arrival, source int) {
			if source == 1 {
				job.tenant = k[i].Name
			}
		}
		a.jobs = mergeJobs(a.jobs, one.jobs, setKind)
		a.tasksPerSecond += one.tasksPerSecond
		a.settings = append(a.settings, fmt.Sprintf("%s jobs: every %v, %s tasks per job, task durations %s",
			k[i].Name, time.Duration(float64(k[i].Every)*own/load).Round(time.Microsecond), k[i].TasksPerJob,
			k[i].Durations))
	}
	a.settings = []string{strings.Join(a.settings, "; ")}
	return a, nil
}

// mergeJobs merges two sources in the order of arrivals, and marks each job with its source, 0 or 1. The first may be
// nil. The second must be endless.
func mergeJobs(first, second iter.Seq[arrival], mark func(job *arrival, source int)) iter.Seq[arrival] {
	return func(yield func(arrival) bool) {
		n := 0
		pass := func(job arrival, source int) bool {
			job.Index = n
			mark(&job, source)
			n++
			return yield(job)
		}
		if first == nil {
			for b := range second {
				if !pass(b, 1) {
					return
				}
			}
			return
		}
		next, stop := iter.Pull(second)
		defer stop()
		b, _ := next()
		for a := range first {
			for ; b.At < a.At; b, _ = next() {
				if !pass(b, 1) {
					return
				}
			}
			if !pass(a, 0) {
				return
			}
		}
	}
}

// File is a workload listed in a file. At load 0, jobs arrive when the file says. At another load, the times
// between the jobs are stretched or squeezed to reach the load.
type File struct {
	*bench.JobsFile
	Name string
}

func (f File) newArrivals(_ uint64, load, slots float64) (*arrivals, error) {
	first, span := f.Jobs[0].At, f.Jobs[len(f.Jobs)-1].At-f.Jobs[0].At
	if span == 0 && load > 0 {
		return nil, fmt.Errorf("%s: all jobs are submitted at the same time, which no load can stretch: use load 0",
			f.Name)
	}
	if !(load >= 0) || math.IsInf(load, 0) {
		return nil, fmt.Errorf("load %g: use a number above 0, where 1 keeps all slots busy, or 0 for the file's own",
			load)
	}
	a := &arrivals{jobCount: len(f.Jobs)}
	stretch := 1.0
	if span > 0 {
		a.load = bench.Offered(f.Jobs, 1, span) / slots
	}
	if load > 0 {
		stretch, a.load = a.load/load, load
	}
	if seconds := span.Seconds() * stretch; seconds > 0 {
		a.tasksPerSecond = float64(countTasks(f.Jobs)) / seconds
	}
	a.settings = []string{fmt.Sprintf("jobs: %d of %s, submit times multiplied by %.4g", a.jobCount, f.Name, stretch)}
	a.jobs = func(yield func(arrival) bool) {
		for i, job := range f.Jobs {
			job.At = time.Duration(float64(job.At-first) * stretch)
			if !yield(arrival{Job: job, mean: f.Means[i]}) {
				return
			}
		}
	}
	return a, nil
}

// Trace is a workload of jobs derived from a trace by bench.LoadTrace. Its Slots and Load are set by the run.
type Trace bench.TraceOptions

func (t Trace) newArrivals(_ uint64, load, slots float64) (*arrivals, error) {
	o := bench.TraceOptions(t)
	o.Load, o.Slots = load, max(1, int(math.Round(slots)))
	trace, err := bench.LoadTrace(o)
	if err != nil {
		return nil, err
	}
	return &arrivals{
		jobs: withMeans(slices.Values(trace.Jobs)), jobCount: len(trace.Jobs), load: trace.Load,
		tasksPerSecond: float64(countTasks(trace.Jobs)) / trace.Span.Seconds(), settings: trace.Settings,
	}, nil
}

func countTasks(jobs []bench.Job) int {
	n := 0
	for i := range jobs {
		n += len(jobs[i].Tasks)
	}
	return n
}

// Estimates says how well jobs estimate the run times of their tasks. The zero value is exact.
type Estimates struct {
	Absent bool
	Mean   bool          // each task's estimate is the mean of its job, as stated by a file or computed
	Fixed  time.Duration // the estimate of every task; 0: none
	// all estimates of a job are off by one factor between 1/Noise and Noise, with a uniform logarithm; 0: exact
	Noise float64
}

// ParseEstimates reads exact, none, mean or noisy:FACTOR.
func ParseEstimates(text string) (Estimates, error) {
	name, arg, _ := strings.Cut(text, ":")
	switch {
	case text == "exact":
		return Estimates{}, nil
	case text == "none":
		return Estimates{Absent: true}, nil
	case text == "mean":
		return Estimates{Mean: true}, nil
	case name == "noisy":
		if f, err := strconv.ParseFloat(arg, 64); err == nil && f > 1 && f <= 1000 {
			return Estimates{Noise: f}, nil
		}
		return Estimates{}, fmt.Errorf("estimates %q: the factor must be above 1 and up to 1000, such as noisy:2", text)
	}
	return Estimates{}, fmt.Errorf("estimates %q: use exact, none, mean or noisy:2", text)
}

func (e Estimates) String() string {
	switch {
	case e.Absent:
		return "none"
	case e.Mean:
		return "mean"
	case e.Fixed > 0:
		return fmt.Sprintf("%v for each task", e.Fixed)
	case e.Noise > 0:
		return fmt.Sprintf("noisy:%g", e.Noise)
	}
	return "exact"
}

// drawFactor draws the factor of a job's estimates; 0: the job has no estimates.
func (e Estimates) drawFactor(rng *rand.Rand) float64 {
	switch {
	case e.Absent:
		return 0
	case e.Noise > 0:
		return math.Pow(e.Noise, 2*rng.Float64()-1)
	}
	return 1
}

// Speeds are the speeds of workers; 1 is nominal. In the zero value all workers are nominal.
type Speeds struct {
	text  string
	sigma float64 // log-normal, of mean 1
	kinds []speedKind
}

// speedKind is a share of the workers, in %, and their speed.
type speedKind struct{ share, speed float64 }

// ParseSpeeds reads fixed:S, lognormal:SIGMA (of mean 1) or mix:P%S,P%S,… (shares of the workers, with a sum of
// 100%).
func ParseSpeeds(text string) (Speeds, error) {
	fail := func(format string, args ...any) (Speeds, error) {
		return Speeds{}, fmt.Errorf("speeds %q: %w; use fixed:1, lognormal:0.3 or mix:90%%1,10%%0.5", text,
			fmt.Errorf(format, args...))
	}
	speed := func(s string) (float64, error) {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || !(v >= 0.001 && v <= 1000) {
			return 0, fmt.Errorf("%q is no speed from 0.001 to 1000", s)
		}
		return v, nil
	}
	name, arg, _ := strings.Cut(text, ":")
	s := Speeds{text: text}
	switch name {
	case "fixed":
		v, err := speed(arg)
		if err != nil {
			return fail("%w", err)
		}
		s.kinds = []speedKind{{100, v}}
	case "lognormal":
		var err error
		if s.sigma, err = strconv.ParseFloat(arg, 64); err != nil || !(s.sigma > 0 && s.sigma <= 3) {
			return fail("sigma %q is not above 0 and up to 3", arg)
		}
	case "mix":
		sum := 0.0
		for part := range strings.SplitSeq(arg, ",") {
			percent, number, ok := strings.Cut(part, "%")
			share, err := strconv.ParseFloat(percent, 64)
			if !ok || err != nil || !(share > 0 && share <= 100) {
				return fail("part %q has no share in %%", part)
			}
			v, err := speed(number)
			if err != nil {
				return fail("%w", err)
			}
			s.kinds = append(s.kinds, speedKind{share, v})
			sum += share
		}
		if math.Abs(sum-100) > 1e-6 {
			return fail("the shares sum to %g%%", sum)
		}
	default:
		return fail("unknown kind %q", name)
	}
	return s, nil
}

func (s Speeds) String() string {
	if s.text == "" {
		return "fixed:1"
	}
	return s.text
}

// allNominal reports whether all workers have the speed 1.
func (s Speeds) allNominal() bool {
	return s.sigma == 0 && !slices.ContainsFunc(s.kinds, func(k speedKind) bool { return k.speed != 1 })
}

// drawSpeeds draws the speeds of n workers.
func (s Speeds) drawSpeeds(n int, rng *rand.Rand) []float64 {
	speeds := make([]float64, n)
	i := 0
	share := 0.0
	for _, k := range s.kinds { // shares are exact as far as n allows: with few workers, chance would miss the shares
		share += k.share
		for ; i < n && float64(i)+0.5 < share/100*float64(n); i++ {
			speeds[i] = k.speed
		}
	}
	for ; i < n; i++ {
		speeds[i] = 1
		if s.sigma > 0 {
			speeds[i] = max(0.001, math.Exp(s.sigma*rng.NormFloat64()-s.sigma*s.sigma/2))
		}
	}
	rng.Shuffle(n, func(i, j int) { speeds[i], speeds[j] = speeds[j], speeds[i] })
	return speeds
}
