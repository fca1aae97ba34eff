package bench

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
)

// maxDuration is the longest task in a workload, and the top of the harness's histograms.
const maxDuration = time.Hour

// Job is an arrival of a workload. The receiver owns Tasks.
type Job struct {
	Index int             // position in the workload, from 0
	At    time.Duration   // intended send time, from the start of the run
	Tasks []time.Duration // run time of each task, in whole microseconds unless a file says otherwise
}

// Work returns the sum of the job's task durations.
func (j Job) Work() time.Duration {
	var sum time.Duration
	for _, d := range j.Tasks {
		sum += d
	}
	return sum
}

// Spec is a law of task durations. To be named on a command line, a new law needs a row in laws. Implementations
// are immutable, and goroutines may share them.
type Spec interface {
	// Draw fills tasks with the durations of a job, each at least a microsecond and in whole microseconds.
	Draw(rng *rand.Rand, tasks []time.Duration)
	// Mean returns the expected duration of a task.
	Mean() time.Duration
	// String returns the specification of the law, as read by ParseDurations.
	String() string
}

// laws holds the known laws in the order of messages. parse gets the text behind the colon.
var laws = []struct {
	name, form string
	parse      func(arg string) (Spec, error)
}{
	{"fixed", "fixed:10ms", func(arg string) (Spec, error) { d, err := parseDuration(arg); return fixed(d), err }},
	{"job-exp", "job-exp:10ms", func(arg string) (Spec, error) { d, err := parseDuration(arg); return jobExp(d), err }},
	{"task-exp", "task-exp:10ms", func(arg string) (Spec, error) {
		d, err := parseDuration(arg)
		return taskExp(d),
			err
	}},
	{"mix", "mix:90%5ms,10%200ms", parseMix},
	{"pareto", "pareto:1.5,10ms", parsePareto},
	{"lognormal", "lognormal:1,10ms", parseLogNormal},
}

// ParseDurations reads a law of task durations:
//
//   - fixed:D: all durations are equal.
//   - job-exp:D: one exponential draw of mean D per job, for all its tasks.
//   - task-exp:D: an exponential draw of mean D per task.
//   - mix:P%D,P%D,…: each task has duration D with probability P. The shares sum to 100%.
//   - pareto:ALPHA,D: a draw per task of mean D, with a tail that falls as the power ALPHA.
//   - lognormal:SIGMA,D: a draw per task of mean D. Its logarithm has the standard deviation SIGMA.
func ParseDurations(text string) (Spec, error) {
	name, arg, _ := strings.Cut(text, ":")
	forms := make([]string, 0, len(laws))
	for _, law := range laws {
		if law.name != name {
			forms = append(forms, law.form)
			continue
		}
		spec, err := law.parse(arg)
		if err != nil {
			return nil, fmt.Errorf("task duration %q: %w (such as %s)", text, err, law.form)
		}
		return spec, nil
	}
	return nil, fmt.Errorf("task duration %q: unknown kind %q; use one of %s", text, name, strings.Join(forms, ", "))
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration; write a number with its unit", text)
	case d < time.Microsecond || d > maxDuration:
		return 0, fmt.Errorf("%s is outside 1us to %s; choose one inside", text, maxDuration)
	case d%time.Microsecond != 0:
		return 0, fmt.Errorf("%s is not a whole number of microseconds; round it", text)
	}
	return d, nil
}

// longestDraw bounds the draw of a law with a heavy tail. The sum of a million draws still fits into a duration.
const longestDraw = 1000 * time.Hour

// toMicros rounds a drawn duration to a duration that a task can ask for.
func toMicros(ns float64) time.Duration {
	return max(time.Microsecond, time.Duration(math.Round(min(ns, float64(longestDraw))/1e3))*time.Microsecond)
}

type fixed time.Duration

func (f fixed) Draw(_ *rand.Rand, tasks []time.Duration) {
	for i := range tasks {
		tasks[i] = time.Duration(f)
	}
}
func (f fixed) Mean() time.Duration { return time.Duration(f) }
func (f fixed) String() string      { return "fixed:" + time.Duration(f).String() }

type jobExp time.Duration

func (e jobExp) Draw(rng *rand.Rand, tasks []time.Duration) {
	d := toMicros(rng.ExpFloat64() * float64(e))
	for i := range tasks {
		tasks[i] = d
	}
}
func (e jobExp) Mean() time.Duration { return time.Duration(e) }
func (e jobExp) String() string      { return "job-exp:" + time.Duration(e).String() }

type taskExp time.Duration

func (e taskExp) Draw(rng *rand.Rand, tasks []time.Duration) {
	for i := range tasks {
		tasks[i] = toMicros(rng.ExpFloat64() * float64(e))
	}
}
func (e taskExp) Mean() time.Duration { return time.Duration(e) }
func (e taskExp) String() string      { return "task-exp:" + time.Duration(e).String() }

// mix draws each task from a few kinds. Shares are positive percentages, and sum to 100.
type mix []mixPart

type mixPart struct {
	share float64
	d     time.Duration
}

func parseMix(arg string) (Spec, error) {
	var m mix
	var sum float64
	for part := range strings.SplitSeq(arg, ",") {
		percent, length, ok := strings.Cut(part, "%")
		if !ok {
			return nil, fmt.Errorf("part %q has no %%; write its share, %%, its duration", part)
		}
		share, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(share > 0 && share <= 100) {
			return nil, fmt.Errorf("share %q is not a percentage above 0 and up to 100", percent)
		}
		d, err := parseDuration(length)
		if err != nil {
			return nil, err
		}
		m = append(m, mixPart{share, d})
		sum += share
	}
	if math.Abs(sum-100) > 1e-6 {
		return nil, fmt.Errorf("the shares sum to %g%%; make it 100%%", sum)
	}
	return m, nil
}

func (m mix) Draw(rng *rand.Rand, tasks []time.Duration) {
	for i := range tasks {
		u := rng.Float64() * 100
		tasks[i] = m[len(m)-1].d // the last kind gets the rounding error of the 100%
		for _, k := range m {
			if u < k.share {
				tasks[i] = k.d
				break
			}
			u -= k.share
		}
	}
}

func (m mix) Mean() time.Duration {
	var ns float64
	for _, k := range m {
		ns += k.share / 100 * float64(k.d)
	}
	return time.Duration(math.Round(ns))
}

func (m mix) String() string {
	parts := make([]string, len(m))
	for i, k := range m {
		parts[i] = strconv.FormatFloat(k.share, 'g', -1, 64) + "%" + k.d.String()
	}
	return "mix:" + strings.Join(parts, ",")
}

// pareto draws each task from a Pareto distribution: P(task > x) = (least/x)^alpha. Its variance is infinite up to
// an alpha of 2, its mean up to 1.
type pareto struct {
	alpha float64
	mean  time.Duration
}

func parsePareto(arg string) (Spec, error) {
	alpha, mean, err := shapeAndMean(arg, "alpha")
	if err == nil && !(alpha >= 1.01 && alpha <= 100) {
		err = fmt.Errorf("alpha %g is outside 1.01 to 100; the smaller, the heavier the tail", alpha)
	}
	return pareto{alpha, mean}, err
}

func (p pareto) Draw(rng *rand.Rand, tasks []time.Duration) {
	least := float64(p.mean) * (p.alpha - 1) / p.alpha
	for i := range tasks {
		tasks[i] = toMicros(least * math.Exp(rng.ExpFloat64()/p.alpha))
	}
}
func (p pareto) Mean() time.Duration { return p.mean }
func (p pareto) String() string      { return fmt.Sprintf("pareto:%g,%s", p.alpha, p.mean) }

// logNormal draws each task as mean*exp(sigma*Z - sigma^2/2), Z standard normal.
type logNormal struct {
	sigma float64
	mean  time.Duration
}

func parseLogNormal(arg string) (Spec, error) {
	sigma, mean, err := shapeAndMean(arg, "sigma")
	if err == nil && !(sigma > 0 && sigma <= 5) {
		err = fmt.Errorf("sigma %g is not above 0 and up to 5; the larger, the heavier the tail", sigma)
	}
	return logNormal{sigma, mean}, err
}

func (l logNormal) Draw(rng *rand.Rand, tasks []time.Duration) {
	for i := range tasks {
		tasks[i] = toMicros(float64(l.mean) * math.Exp(l.sigma*rng.NormFloat64()-l.sigma*l.sigma/2))
	}
}
func (l logNormal) Mean() time.Duration { return l.mean }
func (l logNormal) String() string      { return fmt.Sprintf("lognormal:%g,%s", l.sigma, l.mean) }

// shapeAndMean reads a number and a duration with a comma in between.
func shapeAndMean(arg, shape string) (float64, time.Duration, error) {
	number, length, ok := strings.Cut(arg, ",")
	if !ok {
		return 0, 0, fmt.Errorf("%q has no comma; write %s, a comma, the mean", arg, shape)
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("%s %q is not a number", shape, number)
	}
	mean, err := parseDuration(length)
	return v, mean, err
}

// Counts is a law of the number of tasks in a job. Implementations are immutable, and goroutines may share them.
type Counts interface {
	// Draw returns the number of tasks of a job, at least 1.
	Draw(rng *rand.Rand) int
	// Mean returns the expected number.
	Mean() float64
	// String returns the specification of the law, as read by ParseCounts.
	String() string
}

// maxCount bounds the tasks of a job in a law.
const maxCount = 100_000

// ParseCounts reads a law of tasks per job: N (always N), uniform:LOW-HIGH (all numbers equally likely) or
// geometric:MEAN (1 and more, each number less likely than the number before by the same factor).
func ParseCounts(text string) (Counts, error) {
	fail := func(format string, args ...any) (Counts, error) {
		return nil, fmt.Errorf("tasks per job %q: %w; use a number from 1 to %d, uniform:1-20 or geometric:10",
			text, fmt.Errorf(format, args...), maxCount)
	}
	number := func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > maxCount {
			return 0, fmt.Errorf("%q is not a number of tasks", s)
		}
		return n, nil
	}
	name, arg, hasKind := strings.Cut(text, ":")
	switch {
	case !hasKind:
		n, err := number(text)
		if err != nil {
			return fail("%w", err)
		}
		return TasksPerJob(n), nil
	case name == "uniform":
		low, high, _ := strings.Cut(arg, "-")
		a, errLow := number(low)
		b, errHigh := number(high)
		if err := errors.Join(errLow, errHigh); err != nil {
			return fail("%w", err)
		}
		if a > b {
			return fail("%d is above %d", a, b)
		}
		return uniform{a, b}, nil
	case name == "geometric":
		mean, err := strconv.ParseFloat(arg, 64)
		if err != nil || !(mean >= 1 && mean <= 10_000) {
			return fail("%q is not a mean from 1 to 10000", arg)
		}
		return geometric(mean), nil
	}
	return fail("unknown kind %q", name)
}

// TasksPerJob is the law of a fixed number of tasks, at least 1.
type TasksPerJob int

// Draw implements Counts.
func (n TasksPerJob) Draw(*rand.Rand) int { return int(n) }

// Mean implements Counts.
func (n TasksPerJob) Mean() float64 { return float64(n) }

func (n TasksPerJob) String() string { return strconv.Itoa(int(n)) }

type uniform struct{ low, high int }

func (u uniform) Draw(rng *rand.Rand) int { return u.low + rng.IntN(u.high-u.low+1) }
func (u uniform) Mean() float64           { return float64(u.low+u.high) / 2 }
func (u uniform) String() string          { return fmt.Sprintf("uniform:%d-%d", u.low, u.high) }

// geometric is a law given by its mean.
type geometric float64

func (g geometric) Draw(rng *rand.Rand) int {
	if g == 1 {
		return 1
	}
	// An exponential draw, rounded up, with the rate that makes P(1) = 1/mean.
	return max(1, int(math.Ceil(rng.ExpFloat64()/-math.Log1p(-1/float64(g)))))
}
func (g geometric) Mean() float64  { return float64(g) }
func (g geometric) String() string { return fmt.Sprintf("geometric:%g", float64(g)) }

// Poisson returns the open-loop workload that keeps a share load of slots busy on average. Jobs of tasksPerJob
// tasks arrive from 0 up to span, at rate load*slots/(tasksPerJob*mean task) per second. Every iteration over the
// sequence yields the same jobs. Arrivals and durations come from separate streams of seed: another load moves the
// arrivals, but the n-th job keeps its tasks.
func Poisson(seed uint64, load float64, slots, tasksPerJob int, spec Spec, span time.Duration) (iter.Seq[Job], error) {
	return PoissonJobs(seed, load, float64(slots), TasksPerJob(tasksPerJob), spec, span)
}

// PoissonJobs is Poisson with jobs of several sizes. slots counts slots of nominal speed: a slot of half the speed
// is half a slot.
func PoissonJobs(seed uint64, load, slots float64, counts Counts, spec Spec, span time.Duration) (iter.Seq[Job],
	error) {
	var problems []error
	if !(load > 0) || math.IsInf(load, 0) {
		problems = append(problems, fmt.Errorf("load %g: use a number above 0, where 1 keeps all slots busy", load))
	}
	if !(slots > 0) {
		problems = append(problems, fmt.Errorf("%g slots: the load needs at least one", slots))
	}
	if !(counts.Mean() >= 1) {
		problems = append(problems, fmt.Errorf("%s tasks per job: use at least one", counts))
	}
	if span <= 0 {
		problems = append(problems, fmt.Errorf("span %s: use a duration above 0", span))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	gap := counts.Mean() * float64(spec.Mean()) / (load * slots) // mean, in ns
	return func(yield func(Job) bool) {
		arrivals := rand.New(rand.NewPCG(seed, 'a'))
		durations := rand.New(rand.NewPCG(seed, 'd'))
		sizes := rand.New(rand.NewPCG(seed, 's'))
		at := 0.0
		for i := 0; ; i++ {
			at += arrivals.ExpFloat64() * gap
			if at >= float64(span) {
				return
			}
			tasks := make([]time.Duration, counts.Draw(sizes))
			spec.Draw(durations, tasks)
			if !yield(Job{Index: i, At: time.Duration(at), Tasks: tasks}) {
				return
			}
		}
	}, nil
}

// Offered returns the load that jobs put on slots over span: the share of busy slots on average, if nothing is
// lost.
func Offered(jobs []Job, slots int, span time.Duration) float64 {
	var work float64
	for _, j := range jobs {
		work += float64(j.Work())
	}
	return work / (float64(slots) * float64(span))
}

// Ideal returns the response of a job on an empty cluster without delay: the longest task.
func Ideal(tasks []time.Duration) time.Duration {
	if len(tasks) == 0 {
		return 0
	}
	return slices.Max(tasks)
}
