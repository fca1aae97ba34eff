package sim

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/probe"
)

// Listed is a workload of given jobs, with their stages, and with the workers that have copies of inputs: drawn by
// [DrawJobs], or read by [LoadJobs] from a file of JSON lines. Jobs arrive when the list says.
type Listed struct {
	name string
	jobs []arrival
}

// Len returns the number of jobs.
func (l *Listed) Len() int { return len(l.jobs) }

func (l *Listed) newArrivals(_ uint64, load, slots float64) (*arrivals, error) {
	if load != 0 {
		return nil, fmt.Errorf("load %g: the jobs of %s arrive when the file says; use load 0", load, l.name)
	}
	a := &arrivals{jobCount: len(l.jobs), jobs: slices.Values(l.jobs), listed: true,
		settings: []string{fmt.Sprintf("jobs: %d of %s, at the stated times", len(l.jobs), l.name)}}
	work, tasks := 0.0, 0
	for i := range l.jobs {
		a.grouped = a.grouped || l.jobs[i].long
		a.staged = a.staged || l.jobs[i].stages != nil
		work += float64(l.jobs[i].Work())
		tasks += len(l.jobs[i].Tasks)
	}
	if span := l.jobs[len(l.jobs)-1].At - l.jobs[0].At; span > 0 {
		a.load = work / slots / float64(span)
		a.tasksPerSecond = float64(tasks) / span.Seconds()
	}
	return a, nil
}

// checkList returns an error if cfg has no place for the jobs of a list.
func (c *Config) checkList(l *Listed) error {
	if c.Stages > 1 {
		return fmt.Errorf("%d stages: the jobs of %s have their own stages; leave the stages out", c.Stages, l.name)
	}
	for i := range l.jobs {
		for _, s := range l.jobs[i].stages {
			switch {
			case c.Policy.rival != nil && (len(l.jobs[i].stages) > 1 || !c.Policy.rival.reads):
				return fmt.Errorf("policy %s knows nothing of stages and inputs: leave the policy out", c.Policy.Name)
			case s.at != nil && c.Input == 0:
				return fmt.Errorf("the jobs of %s have inputs: give the size of an input", l.name)
			}
			for _, at := range s.at {
				if worst := slices.Max(at); worst >= c.Workers {
					return fmt.Errorf("the jobs of %s have an input at worker %d: use %d workers or more", l.name,
						worst, worst+1)
				}
			}
		}
	}
	return nil
}

// DrawJobs draws the first jobs of a run of cfg at a load: cfg.Jobs, or all jobs of a workload that ends. The list
// has the name.
func DrawJobs(cfg *Config, load float64, name string) (*Listed, error) {
	_, slots := cfg.drawSpeeds()
	from, err := cfg.Workload.newArrivals(cfg.Seed, load, slots)
	if err != nil {
		return nil, err
	}
	if cfg.Jobs == 0 && from.jobCount == 0 {
		return nil, errors.New("the workload has no end: say how many jobs to draw")
	}
	l, rng := &Listed{name: name}, newInputRng(cfg.Seed)
	for job := range from.jobs {
		if (cfg.Stages > 1 || cfg.Input > 0) && (cfg.isLong(&job) || !from.grouped && cfg.Cutoff == 0) {
			job.stages = cfg.drawStages(len(job.Tasks), rng)
		}
		if l.jobs = append(l.jobs, job); len(l.jobs) == cfg.Jobs {
			break
		}
	}
	return l, nil
}

// newInputRng draws the places of inputs in a run.
func newInputRng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 'i')) }

// jobLine is a job in a file of JSON lines.
type jobLine struct {
	At     seconds     `json:"at"`
	Tenant string      `json:"tenant,omitempty"`
	Long   bool        `json:"long,omitempty"`
	Stages []stageLine `json:"stages"`
}

// stageLine is a stage of a jobLine.
type stageLine struct {
	Tasks  []seconds `json:"tasks"`
	CPU    int       `json:"cpu,omitempty"`    // of each task, in thousandths
	Mem    int       `json:"mem,omitempty"`    // of each task, in MiB
	After  []int     `json:"after,omitempty"`  // earlier stages that must end first
	Inputs [][]int   `json:"inputs,omitempty"` // by task: the workers with a copy of its input
}

// seconds is a duration as a decimal number of seconds, exact to the nanosecond.
type seconds time.Duration

// MarshalJSON implements json.Marshaler.
func (s seconds) MarshalJSON() ([]byte, error) {
	text := fmt.Appendf(nil, "%d.%09d", int64(s)/1e9, int64(s)%1e9)
	return bytes.TrimSuffix(bytes.TrimRight(text, "0"), []byte(".")), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *seconds) UnmarshalJSON(text []byte) error {
	d, err := time.ParseDuration(string(text) + "s")
	if err != nil { // a number with an exponent
		v, parsing := strconv.ParseFloat(string(text), 64)
		d, err = time.Duration(math.Round(v*1e9)), parsing
	}
	if err != nil || d < 0 || d > maxTime {
		return fmt.Errorf("%s is not a number of seconds from 0 to %.0f", text, maxTime.Seconds())
	}
	*s = seconds(d)
	return nil
}

// maxTime bounds times in a file of JSON lines: a hundred years.
const maxTime = 100 * 365 * 24 * time.Hour

// WriteJobs writes a list of jobs as JSON lines, one for each job.
func WriteJobs(w io.Writer, l *Listed) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	for i := range l.jobs {
		job := &l.jobs[i]
		line := jobLine{At: seconds(job.At), Tenant: job.tenant, Long: job.long}
		stages := job.stages
		if stages == nil {
			stages = []arrivalStage{{tasks: len(job.Tasks)}}
		}
		first := 0
		for _, s := range stages {
			stage := stageLine{CPU: int(probe.Slot.CPU), Mem: int(probe.Slot.Mem), After: s.after, Inputs: s.at}
			for _, d := range job.Tasks[first : first+s.tasks] {
				stage.Tasks = append(stage.Tasks, seconds(d))
			}
			first += s.tasks
			line.Stages = append(line.Stages, stage)
		}
		if err := enc.Encode(line); err != nil {
			return err
		}
	}
	return out.Flush()
}

// LoadJobs reads a file of jobs, plain or gzipped: JSON lines as WriteJobs writes them, or the lines of
// bench.LoadJobs.
func LoadJobs(path string, wholeSeconds bool) (Workload, error) {
	name := filepath.Base(path)
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("jobs file: %w", err)
	}
	defer f.Close()
	in := bufio.NewReader(f)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("jobs file %s: %w", path, err)
		}
		in = bufio.NewReader(z)
	}
	if first, _ := in.Peek(1); !bytes.Equal(first, []byte("{")) {
		jobs, err := bench.LoadJobs(path, wholeSeconds)
		return File{JobsFile: jobs, Name: name}, err
	}
	if wholeSeconds {
		return nil, fmt.Errorf("jobs file %s: only files of numbers can be cut to whole seconds", path)
	}
	l, err := readJobLines(in)
	if err != nil {
		return nil, fmt.Errorf("jobs file %s: %w", path, err)
	}
	l.name = name
	return l, nil
}

// readJobLines reads JSON lines, and sorts the jobs by their times.
func readJobLines(in *bufio.Reader) (*Listed, error) {
	l := &Listed{}
	for n := 1; ; n++ {
		text, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if len(bytes.TrimSpace(text)) > 0 {
			job, err := parseJobLine(text)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
			l.jobs = append(l.jobs, job)
		}
		if err == io.EOF {
			break
		}
	}
	slices.SortStableFunc(l.jobs, func(a, b arrival) int { return cmp.Compare(a.At, b.At) })
	for i := range l.jobs {
		l.jobs[i].Index = i
	}
	return l, nil
}

// parseJobLine reads a job.
func parseJobLine(text []byte) (job arrival, err error) {
	var line jobLine
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&line); err != nil {
		return job, fmt.Errorf(`%w; a line is {"at":1.5,"tenant":"batch","stages":[{"tasks":[1.2,0.9]}]}`, err)
	}
	job = arrival{Job: bench.Job{At: time.Duration(line.At)}, tenant: line.Tenant, long: line.Long}
	for i, s := range line.Stages {
		switch {
		case len(s.Tasks) == 0:
			return job, fmt.Errorf("stage %d has no tasks: give each task a number of seconds", i)
		case s.CPU != 0 && s.CPU != int(probe.Slot.CPU) || s.Mem != 0 && s.Mem != int(probe.Slot.Mem):
			return job, fmt.Errorf("stage %d has tasks of cpu %d and mem %d: a task takes a slot, cpu %d and mem %d", i,
				s.CPU, s.Mem, probe.Slot.CPU, probe.Slot.Mem)
		case s.Inputs != nil && len(s.Inputs) != len(s.Tasks):
			return job, fmt.Errorf("stage %d has %d inputs for %d tasks: give each task one list", i, len(s.Inputs),
				len(s.Tasks))
		}
		for _, before := range s.After {
			if before < 0 || before >= i {
				return job, fmt.Errorf("stage %d is after stage %d: name earlier stages only", i, before)
			}
		}
		for _, at := range s.Inputs {
			if len(at) == 0 || slices.Min(at) < 0 {
				return job, fmt.Errorf("stage %d has an input at %v: list the numbers of workers, from 0", i, at)
			}
		}
		for _, d := range s.Tasks {
			job.Tasks = append(job.Tasks, time.Duration(d))
		}
		job.stages = append(job.stages, arrivalStage{len(s.Tasks), s.After, s.Inputs})
	}
	if len(job.Tasks) == 0 {
		return job, errors.New("the job has no stages: give it one")
	}
	if len(job.stages) == 1 && job.stages[0].at == nil {
		job.stages = nil
	}
	job.mean = job.Work() / time.Duration(len(job.Tasks))
	return job, nil
}
