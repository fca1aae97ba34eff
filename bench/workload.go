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

// maxDuration is the longest task a workload may name, and the top of the harness's histograms.
const maxDuration = time.Hour

// Job is one arrival of a workload. The receiver owns Tasks.
type Job struct {
	Index int             // position in the workload, from 0
	At    time.Duration   // intended send time, from the start of the run
	Tasks []time.Duration // how long each task runs, in whole microseconds
}

// Work is the sum of the job's task durations.
func (j Job) Work() time.Duration {
	var sum time.Duration
	for _, d := range j.Tasks {
		sum += d
	}
	return sum
}

// Spec is a law of task durations. A new law needs these methods and, to be named on a command line, a row
// in laws. Implementations are immutable and may be shared by goroutines.
type Spec interface {
	// Draw fills tasks with the durations of one job, in whole microseconds and at least one of them.
	Draw(rng *rand.Rand, tasks []time.Duration)
	// Mean is the expected duration of a task.
	Mean() time.Duration
	// String is the specification that ParseDurations turns into this law again.
	String() string
}

// laws holds the known laws in the order in which messages list them. parse gets what follows the colon.
var laws = []struct {
	name, form string
	parse      func(arg string) (Spec, error)
}{
	{"fixed", "fixed:10ms", func(arg string) (Spec, error) { d, err := parseDuration(arg); return fixed(d), err }},
	{"job-exp", "job-exp:10ms", func(arg string) (Spec, error) { d, err := parseDuration(arg); return jobExp(d), err }},
	{"task-exp", "task-exp:10ms", func(arg string) (Spec, error) { d, err := parseDuration(arg); return taskExp(d), err }},
	{"mix", "mix:90%5ms,10%200ms", parseMix},
}

// ParseDurations reads a law of task durations: fixed:D (all equal), job-exp:D (one exponential draw of mean
// D per job, shared by its tasks), task-exp:D (one draw per task), mix:P%D,P%D,… (each task is of one kind,
// with probability P; the shares sum to 100%).
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
		return 0, fmt.Errorf("%q is no duration; write a number with its unit", text)
	case d < time.Microsecond || d > maxDuration:
		return 0, fmt.Errorf("%s is outside 1us to %s; choose one inside", text, maxDuration)
	case d%time.Microsecond != 0:
		return 0, fmt.Errorf("%s is not a whole number of microseconds; round it", text)
	}
	return d, nil
}

// micros rounds a drawn duration to what a task can ask for.
func micros(ns float64) time.Duration {
	return max(time.Microsecond, time.Duration(math.Round(ns/1e3))*time.Microsecond)
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
	d := micros(rng.ExpFloat64() * float64(e))
	for i := range tasks {
		tasks[i] = d
	}
}
func (e jobExp) Mean() time.Duration { return time.Duration(e) }
func (e jobExp) String() string      { return "job-exp:" + time.Duration(e).String() }

type taskExp time.Duration

func (e taskExp) Draw(rng *rand.Rand, tasks []time.Duration) {
	for i := range tasks {
		tasks[i] = micros(rng.ExpFloat64() * float64(e))
	}
}
func (e taskExp) Mean() time.Duration { return time.Duration(e) }
func (e taskExp) String() string      { return "task-exp:" + time.Duration(e).String() }

// mix draws each task from a few kinds. Shares are percentages, positive, and sum to 100.
type mix []kind

type kind struct {
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
		m = append(m, kind{share, d})
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
		tasks[i] = m[len(m)-1].d // what rounding leaves of the 100% goes to the last
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

// Poisson returns the open-loop workload that keeps a share load of slots busy on average: jobs of
// tasksPerJob tasks arrive at rate load*slots/(tasksPerJob*mean task) per second from 0 up to span. The
// sequence may be ranged over again and yields the same jobs. Arrivals and durations come from separate
// streams of seed: another load moves the arrivals and leaves the n-th job's tasks as they were.
func Poisson(seed uint64, load float64, slots, tasksPerJob int, spec Spec, span time.Duration) (iter.Seq[Job], error) {
	var problems []error
	if !(load > 0) || math.IsInf(load, 0) {
		problems = append(problems, fmt.Errorf("load %g: use a number above 0, where 1 keeps all slots busy", load))
	}
	if slots < 1 {
		problems = append(problems, fmt.Errorf("%d slots: the load needs at least one", slots))
	}
	if tasksPerJob < 1 {
		problems = append(problems, fmt.Errorf("%d tasks per job: use at least one", tasksPerJob))
	}
	if span <= 0 {
		problems = append(problems, fmt.Errorf("span %s: use a duration above 0", span))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	gap := float64(tasksPerJob) * float64(spec.Mean()) / (load * float64(slots)) // mean, in ns
	return func(yield func(Job) bool) {
		arrivals := rand.New(rand.NewPCG(seed, 'a'))
		durations := rand.New(rand.NewPCG(seed, 'd'))
		at := 0.0
		for i := 0; ; i++ {
			at += arrivals.ExpFloat64() * gap
			if at >= float64(span) {
				return
			}
			tasks := make([]time.Duration, tasksPerJob)
			spec.Draw(durations, tasks)
			if !yield(Job{Index: i, At: time.Duration(at), Tasks: tasks}) {
				return
			}
		}
	}, nil
}

// Offered is the load that jobs put on slots over span: the share of the slots that they keep busy on
// average if nothing is lost.
func Offered(jobs []Job, slots int, span time.Duration) float64 {
	var work float64
	for _, j := range jobs {
		work += float64(j.Work())
	}
	return work / (float64(slots) * float64(span))
}

// Ideal is the response of a job on an empty cluster with no delay: its longest task.
func Ideal(tasks []time.Duration) time.Duration {
	if len(tasks) == 0 {
		return 0
	}
	return slices.Max(tasks)
}
