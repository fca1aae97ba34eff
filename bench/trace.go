package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// TraceSetting turns the byte counts of a MapReduce trace into tasks. The trace has neither task counts nor
// durations, so a setting is an assumption, not data.
type TraceSetting struct {
	Name        string
	MapBytes    int64         // input bytes per map task (B)
	ReduceBytes int64         // shuffle and output bytes per reduce task (Q)
	BytesPerMS  float64       // speed of a slot (r)
	Fixed       time.Duration // time of a task whatever its bytes (c)
}

// TraceSettings are the settings that a run may name.
var TraceSettings = []TraceSetting{
	{Name: "hadoop", MapBytes: 128 << 20, ReduceBytes: 1 << 30, BytesPerMS: 20_000, Fixed: time.Second},
	{Name: "in-memory", MapBytes: 128 << 20, ReduceBytes: 1 << 30, BytesPerMS: 1_000_000, Fixed: 20 * time.Millisecond},
}

// ParseTraceSetting finds a setting by name.
func ParseTraceSetting(name string) (TraceSetting, error) {
	var names []string
	for _, s := range TraceSettings {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return TraceSetting{}, fmt.Errorf("trace setting %q: unknown; use %s", name, strings.Join(names, " or "))
}

// TraceOptions choose the part of a trace to replay.
type TraceOptions struct {
	Path    string       // CSV, plain or gzipped: trace,job,submit_ms,input_bytes,shuffle_bytes,output_bytes,input_path
	Name    string       // rows of the file to take, by the first column: fb2010-0
	Setting TraceSetting // how bytes become tasks

	// From and Span choose the jobs submitted in [From, From+Span) of the trace's own time.
	From, Span time.Duration

	// Speedup compresses time. It divides submit times and task durations alike, so the load stays the same. 60
	// replays an hour in a minute, with tasks a sixtieth as long.
	Speedup float64

	// Slots is the number of slots for the load.
	Slots int

	// Load, unless 0, then stretches or squeezes the submit times until the replay keeps Load*Slots slots busy on
	// average. Durations stay. 0 replays at the trace's own load.
	Load float64

	// MaxTasks caps the maps and the reduces of a job, each, because the largest jobs have more tasks than a small
	// cluster can run. LoadTrace drops the tasks beyond the cap, and Trace.Settings say how much work was dropped.
	MaxTasks int

	// Variation multiplies each task's duration by exp(s*Z - s*s/2), with Z standard normal and s the variation.
	// The mean stays the same. The factor depends on trace, job and task alone. 0 leaves all tasks of a phase
	// equal.
	Variation float64
}

func (o TraceOptions) validate() error {
	var problems []error
	if o.Setting.MapBytes < 1 || o.Setting.ReduceBytes < 1 || o.Setting.BytesPerMS <= 0 || o.Setting.Fixed < 0 {
		problems = append(problems, fmt.Errorf("trace setting %q: bytes per task and speed must be above 0",
			o.Setting.Name))
	}
	if o.From < 0 || o.Span <= 0 {
		problems = append(problems,
			fmt.Errorf("trace window from %s for %s: start at 0 or later, for longer than 0", o.From, o.Span))
	}
	if !(o.Speedup >= 1e-3 && o.Speedup <= 1e6) {
		problems = append(problems,
			fmt.Errorf("trace speedup %g: use 0.001 to 1000000, where 1 is the trace's own pace", o.Speedup))
	}
	if o.Slots < 1 {
		problems = append(problems, fmt.Errorf("%d slots: the load needs at least one", o.Slots))
	}
	if o.Load != 0 && !(o.Load >= 1e-3 && o.Load <= 1e3) {
		problems = append(problems, fmt.Errorf("trace load %g: use 0.001 to 1000, or 0 for the trace's own", o.Load))
	}
	if o.MaxTasks < 1 {
		problems = append(problems, fmt.Errorf("at most %d tasks per job: use at least one", o.MaxTasks))
	}
	if !(o.Variation >= 0 && o.Variation <= 5) {
		problems = append(problems, fmt.Errorf("trace variation %g: use 0 (none) to 5", o.Variation))
	}
	return errors.Join(problems...)
}

// Trace is a replay ready to run.
type Trace struct {
	Jobs     []Job         // by At; a trace job with reduces makes two jobs
	Span     time.Duration // the window in the run's time; reduces may arrive after the window
	Load     float64       // work / (Slots * Span)
	Settings []string      // the choices and their effects, a line each, for printing
}

// LoadTrace reads the jobs of a window of a trace and derives their tasks.
//
// In reality a job's reduces start after all its maps. Jobs have no stages here, so a trace job with reduces
// becomes two jobs. The maps arrive at the submit time. The reduces arrive at the time at which the maps would end
// on an empty cluster, however busy the real cluster is.
func LoadTrace(o TraceOptions) (*Trace, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	rows, err := readTrace(o.Path, o.Name)
	if err != nil {
		return nil, err
	}
	return deriveJobs(rows, o)
}

func deriveJobs(rows []traceRow, o TraceOptions) (*Trace, error) {
	submits := spreadSeconds(rows)
	var jobs []Job
	var delays []time.Duration // of each job, from its submit time to its arrival
	var taken, capped int
	var work, removed float64 // ms, as derived
	for i, row := range rows {
		if row.submit < o.From || row.submit >= o.From+o.Span {
			continue
		}
		taken++
		p := o.Setting.derivePhases(row)
		maps, reduces := min(p.maps, int64(o.MaxTasks)), min(p.reduces, int64(o.MaxTasks))
		if maps < p.maps || reduces < p.reduces {
			capped++
		}
		work += float64(p.maps)*p.mapMS + float64(p.reduces)*p.reduceMS
		removed += float64(p.maps-maps)*p.mapMS + float64(p.reduces-reduces)*p.reduceMS

		vary := newVariation(o.Variation, o.Name, row.job)
		at := time.Duration(float64(submits[i]-o.From) / o.Speedup)
		tasks := vary.drawTasks(0, maps, p.mapMS/o.Speedup)
		jobs, delays = append(jobs, Job{At: at, Tasks: tasks}), append(delays, 0)
		if reduces > 0 {
			jobs = append(jobs, Job{At: at, Tasks: vary.drawTasks(p.maps, reduces, p.reduceMS/o.Speedup)})
			delays = append(delays, Ideal(tasks))
		}
	}
	if taken == 0 {
		last := rows[len(rows)-1].submit
		return nil, fmt.Errorf("trace %s has no job from %s for %s: its jobs are at %s to %s",
			o.Name, o.From, o.Span, rows[0].submit, last)
	}

	t := &Trace{Jobs: jobs, Span: time.Duration(float64(o.Span) / o.Speedup)}
	stretch := 1.0
	t.Load = Offered(jobs, o.Slots, t.Span)
	if o.Load > 0 {
		stretch = t.Load / o.Load
		t.Span = time.Duration(float64(t.Span) * stretch)
		t.Load = Offered(jobs, o.Slots, t.Span)
	}
	tasks := 0
	for i := range jobs {
		j := &jobs[i]
		j.At = time.Duration(float64(j.At)*stretch) + delays[i]
		tasks += len(j.Tasks)
	}
	slices.SortStableFunc(jobs, func(a, b Job) int { return cmp.Compare(a.At, b.At) })
	for i := range jobs {
		jobs[i].Index = i
	}

	s := o.Setting
	t.Settings = []string{
		fmt.Sprintf("trace %s of %s: %d jobs from %s for %s", o.Name, filepath.Base(o.Path), taken, o.From, o.Span),
		fmt.Sprintf("setting %s (assumed, the trace has no tasks): %d MiB per map, %d MiB per reduce, %g MB/s per slot, %s fixed per task; run times vary by s = %g",
			s.Name, s.MapBytes>>20, s.ReduceBytes>>20, s.BytesPerMS/1e3, s.Fixed, o.Variation),
		"stages: maps and reduces are two jobs, the reduces arriving when the maps would end on an empty cluster",
		fmt.Sprintf("cap of %d maps and as many reduces per job: %d jobs cut, %.2f %% of the work removed",
			o.MaxTasks, capped, 100*removed/work),
		fmt.Sprintf("time: submit times and durations divided by %g, then submit times multiplied by %.4g",
			o.Speedup, stretch),
		fmt.Sprintf("offered: %d jobs, %d tasks over %s, %.1f of %d slots busy on average, load %.3f",
			len(jobs), tasks, t.Span.Round(time.Millisecond), t.Load*float64(o.Slots), o.Slots, t.Load),
	}
	return t, nil
}

// jobPhases are the inputs of the formulae for a job.
type jobPhases struct {
	maps, reduces   int64
	mapMS, reduceMS float64 // per task
}

func (s TraceSetting) derivePhases(row traceRow) jobPhases {
	input := row.input
	if row.shuffle == 0 {
		input = max(row.input, row.output)
	}
	c := float64(s.Fixed) / float64(time.Millisecond)
	p := jobPhases{maps: max(1, ceilDiv(input, s.MapBytes))}
	p.mapMS = c + float64(row.input)/float64(p.maps)/s.BytesPerMS
	if row.shuffle == 0 {
		p.mapMS += float64(row.output) / float64(p.maps) / s.BytesPerMS
		return p
	}
	p.reduces = max(1, ceilDiv(row.shuffle+row.output, s.ReduceBytes))
	p.reduceMS = c + float64(row.shuffle+row.output)/float64(p.reduces)/s.BytesPerMS
	return p
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// spreadSeconds places the n jobs of second k at k+(i+0.5)/n s, in the order of the rows. The trace has whole
// seconds, and bursts of up to 14 arrivals would be an artefact.
func spreadSeconds(rows []traceRow) []time.Duration {
	count := make(map[time.Duration]int)
	for _, row := range rows {
		count[row.submit.Truncate(time.Second)]++
	}
	submits := make([]time.Duration, len(rows))
	seen := make(map[time.Duration]int)
	for i, row := range rows {
		second := row.submit.Truncate(time.Second)
		submits[i] = second + time.Duration((float64(seen[second])+0.5)/float64(count[second])*float64(time.Second))
		seen[second]++
	}
	return submits
}

// variation draws the run times of a job.
type variation struct {
	sigma float64
	seed  uint64 // of trace and job
}

func newVariation(s float64, trace string, job int64) variation {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d", trace, job)
	return variation{s, h.Sum64()}
}

// drawTasks returns n durations of the given mean, for tasks numbered from first.
func (v variation) drawTasks(first, n int64, meanMS float64) []time.Duration {
	tasks := make([]time.Duration, n)
	var pcg rand.PCG
	rng := rand.New(&pcg)
	for i := range tasks {
		ns := meanMS * 1e6
		if v.sigma > 0 {
			pcg.Seed(v.seed, scrambleBits(uint64(first)+uint64(i)))
			ns *= math.Exp(v.sigma*rng.NormFloat64() - v.sigma*v.sigma/2)
		}
		tasks[i] = toMicros(ns)
	}
	return tasks
}

// scrambleBits is splitmix64's finaliser: neighbouring tasks must not get neighbouring generators.
func scrambleBits(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// traceRow is a job of the file.
type traceRow struct {
	job                    int64
	submit                 time.Duration // whole seconds in the known traces
	input, shuffle, output int64         // bytes
}

var traceColumns = []string{"trace", "job", "submit_ms", "input_bytes", "shuffle_bytes", "output_bytes", "input_path"}

// readTrace returns the rows of the named trace in the order of the file, at least one row.
func readTrace(path, name string) ([]traceRow, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trace file: %w", err)
	}
	defer f.Close()
	rows, others, err := parseTrace(f, name)
	if err != nil {
		return nil, fmt.Errorf("trace file %s: %w", path, err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("trace file %s has no trace %q: it has %s", path, name, strings.Join(others, ", "))
	}
	return rows, nil
}

// parseTrace returns the rows of the named trace, and the names of all other traces.
func parseTrace(r io.Reader, name string) (rows []traceRow, others []string, err error) {
	buffered := bufio.NewReader(r)
	r = buffered
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		if r, err = gzip.NewReader(buffered); err != nil {
			return nil, nil, err
		}
	}
	lines := csv.NewReader(r)
	lines.ReuseRecord = true
	header, err := lines.Read()
	if err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	if !slices.Equal(header, traceColumns) {
		return nil, nil, fmt.Errorf("header is %q: it must be %s", header, strings.Join(traceColumns, ","))
	}
	names := make(map[string]bool)
	for {
		record, err := lines.Read()
		if err == io.EOF {
			return rows, sortedKeys(names), nil
		}
		if err != nil {
			return nil, nil, err
		}
		if record[0] != name {
			if !names[record[0]] {
				names[strings.Clone(record[0])] = true
			}
			continue
		}
		var values [5]int64
		for i := range values {
			// Up to 2^53: sums cannot overflow, and floats hold every value.
			v, err := strconv.ParseInt(record[i+1], 10, 64)
			if err != nil || v < 0 || v > 1<<53 {
				line, _ := lines.FieldPos(i + 1)
				return nil, nil, fmt.Errorf("line %d: %s is %q: it must be a whole number from 0 to 2^53", line,
					traceColumns[i+1], record[i+1])
			}
			values[i] = v
		}
		if last := len(rows) - 1; values[1] > maxSubmitMS || last >= 0 && msDuration(values[1]) < rows[last].submit {
			line, _ := lines.FieldPos(2)
			return nil, nil, fmt.Errorf("line %d: submit_ms %d: it must not fall from row to row, nor pass %d",
				line, values[1], maxSubmitMS)
		}
		rows = append(rows, traceRow{values[0], msDuration(values[1]), values[2], values[3], values[4]})
	}
}

// maxSubmitMS is a hundred years, which fits into a time.Duration.
const maxSubmitMS = int64(100 * 365 * 24 * 3600 * 1000)

func msDuration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
