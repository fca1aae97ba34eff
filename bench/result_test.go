package bench

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/phoebe-sched/phoebe/probe/histogram"
)

const ms = time.Millisecond

func TestHistogramAgainstSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, int64(maxDuration)), 1, 300).Draw(t, "values")
		h := NewHistogram()
		var sum float64
		for _, v := range values {
			h.Record(time.Duration(v))
			sum += float64(v)
		}
		slices.Sort(values)
		s := h.Stats(time.Nanosecond)
		near := func(name string, got, want float64) {
			if math.Abs(got-want) > want*1e-3 {
				t.Fatalf("%s of %v is %g, want %g within 0.1 %%", name, values, got, want)
			}
		}
		at := func(q float64) float64 { return float64(values[histogram.QuantileRank(q, len(values))-1]) }
		near("mean", s.Mean, sum/float64(len(values)))
		near("p50", s.P50, at(0.5))
		near("p90", s.P90, at(0.9))
		near("p99", s.P99, at(0.99))
		near("p999", s.P999, at(0.999))
		if s.Max != float64(values[len(values)-1]) || s.P999 > s.Max {
			t.Fatalf("max %g, p999 %g of %v", s.Max, s.P999, values)
		}
	})
}

func TestHistogramEdges(t *testing.T) {
	h := NewHistogram()
	if s := h.Stats(ms); s != (Stats{}) || h.cdfInNines() != nil {
		t.Errorf("empty: %+v", s)
	}
	h.Record(-time.Second)
	if s := h.Stats(ms); s != (Stats{}) {
		t.Errorf("negative: %+v", s)
	}
	h.Record(3 * time.Hour)
	if s := h.Stats(time.Hour); s.Max != 3 || math.Abs(s.P999-1) > 1e-3 || math.Abs(s.Mean-1.5) > 1e-9 {
		t.Errorf("over the top: %+v", s)
	}
}

func TestRecorder(t *testing.T) {
	r := NewRecorder(RunOptions{Policy: "phoebe", Workload: "fixed:10ms", Load: 0.5, Slots: 1, Warmup: 100 * ms,
		For: time.Second})
	job := func(i int, at, response time.Duration, durations ...time.Duration) {
		r.Job(JobOutcome{Index: i, At: at, Tasks: max(1, len(durations)), Response: response, Durations: durations,
			Failed: response == 0})
	}
	// One slot. The warm-up job is not counted, but job 1 waits for it: omniscient 60 + 20 - 10.
	job(2, 500*ms, 50*ms, 10*ms, 30*ms)
	job(0, 90*ms, 65*ms, 60*ms)
	job(1, 140*ms, 35*ms, 20*ms)
	job(3, 700*ms, 0)              // refused for good
	job(4, 800*ms, 0, 5*ms)        // a single task ran, and takes its place in the omniscient queue
	job(5, 801*ms, 10*ms, 10*ms)   // omniscient 4 + 10
	job(6, 1050*ms, 100*ms, 10*ms) // answered after the measured time: counted, but no throughput
	job(7, 1100*ms, 10*ms, 10*ms)  // sent after the measured time
	for i := range 4 {
		times := PhaseTimes{us(100), us(200), -1, -1, us(10), us(10000), us(50)}
		if i == 0 {
			times[PhaseReady] = us(400)
		}
		r.Task(500*ms, times)
	}
	r.Task(0, PhaseTimes{time.Hour})
	r.Refused(500*ms, "queue full")
	r.Refused(500*ms, "queue full")
	r.Refused(500*ms, "leaving")
	r.Refused(0, "leaving")
	r.Retried(600*ms, "lost")
	r.Retried(0, "lost")
	r.Copied(600*ms, 2)
	r.Copied(0, 1)

	got := r.Run()
	if again := r.Run(); !reflect.DeepEqual(got, again) {
		t.Error("summing up twice gives two answers")
	}
	want := Run{
		Policy: "phoebe", Workload: "fixed:10ms", Load: 0.5, Slots: 1,
		Jobs: 4, Tasks: 5, Errors: 2,
		Figures: Figures{
			OfferedTasksPerS:  7,
			AchievedTasksPerS: 5, // the warm-up's job was answered in time, job 6 was not
		},
		Refused: map[string]int{"queue full": 2, "leaving": 1},
		Retries: 1, Retried: map[string]int{"lost": 1}, Copies: 2,
	}
	if got.Jobs != want.Jobs || got.Tasks != want.Tasks || got.Errors != want.Errors ||
		got.OfferedTasksPerS != want.OfferedTasksPerS || got.AchievedTasksPerS != want.AchievedTasksPerS ||
		!reflect.DeepEqual(got.Refused, want.Refused) || got.Retries != want.Retries ||
		!reflect.DeepEqual(got.Retried, want.Retried) || got.Copies != want.Copies {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	for name, c := range map[string]struct{ got, want float64 }{
		"response mean":   {got.ResponseMS.Mean, (35 + 50 + 10 + 100) / 4.},
		"response max":    {got.ResponseMS.Max, 100},
		"ideal mean":      {got.IdealMS.Mean, (20 + 30 + 10 + 10) / 4.},
		"ideal max":       {got.IdealMS.Max, 30},
		"omniscient mean": {got.OmniscientMS.Mean, (30 + 40 + 14 + 10) / 4.},
		"omniscient max":  {got.OmniscientMS.Max, 40},
		"ratio max":       {got.Ratio.Max, 100. / 30},
		"ratio omni max":  {got.RatioOmniscient.Max, 2.5},
		"queued p50":      {got.PhasesUS["queued"].P50, 200},
		"queued mean":     {got.PhasesUS["queued"].Mean, 200},
		"ready p99":       {got.PhasesUS["ready"].P99, 400},
		"ready mean":      {got.PhasesUS["ready"].Mean, 100}, // over all tasks
	} {
		if math.Abs(c.got-c.want) > 1e-3*c.want {
			t.Errorf("%s is %g, want %g", name, c.got, c.want)
		}
	}
	if _, ok := got.PhasesUS["bound"]; ok {
		t.Error("a phase that nobody went through is reported")
	}
}

func TestPhaseTimesOf(t *testing.T) {
	for name, c := range map[string]struct{ reached, want PhaseTimes }{
		"late bound":  {PhaseTimes{1, 3, 10, 14, 15, 115, 120}, PhaseTimes{1, 2, 7, 4, 1, 100, 5}},
		"ride-along":  {PhaseTimes{1, 3, 0, 0, 4, 104, 106}, PhaseTimes{1, 2, 1, -1, -1, 100, 2}},
		"bound early": {PhaseTimes{9, 12, 0, 9, 40, 140, 141}, PhaseTimes{9, 3, 28, 0, -1, 100, 1}},
		"clocks":      {PhaseTimes{5, 4, 6, 7, 8, 9, 3}, PhaseTimes{5, 0, 1, 1, 1, 1, 0}},
	} {
		if got := PhaseTimesOf(c.reached); got != c.want {
			t.Errorf("%s: %v gives %v, want %v", name, c.reached, got, c.want)
		}
	}
}

func TestRecorderFromManyGoroutines(t *testing.T) {
	r := NewRecorder(RunOptions{Slots: 4, For: time.Second})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				at := time.Duration(i) * ms
				r.Job(JobOutcome{Index: 100*g + i, At: at, Tasks: 1, Response: ms, Durations: []time.Duration{ms}})
				r.Task(at, PhaseTimes{})
				r.Refused(at, "queue full")
				r.Retried(at, "lost")
			}
		})
	}
	wg.Wait()
	if run := r.Run(); run.Jobs != 800 || run.Refused["queue full"] != 800 || run.Retries != 800 {
		t.Errorf("got %+v", run)
	}
}

// sampleDocument makes a benchmark from a queueing model: each policy is the omniscient queue with a share of its
// slots gone, and with an additional delay.
func sampleDocument(t rapid.TB) *Document {
	doc := &Document{Meta: NewMeta([]string{"phoebe", "bench", "--load", "0.5,0.8,0.9", "--secret", "hunter2"}, 1,
		time.Unix(1.8e9, 0))}
	doc.Meta.Machine.CPU = "sample CPU"
	doc.Meta.Machine.CPUs = 2
	for repeat := range 2 {
		doc.NoopRuns = append(doc.NoopRuns, NoopRun{
			Cluster: Embedded, Repeat: repeat + 1, CPU: CPUUse{Seconds: 3, Own: 1.6, Others: 0.3 * float64(repeat),
				Pressure: 0.1},
			Noop: Noop{Quantiles{61.2, 140}, Quantiles{38.4, 71}, Quantiles{1.59, 1.97},
				48211 + 1000*float64(repeat), 163400, 9.8},
		})
	}
	const slots, span = 40, 8 * time.Second
	for _, durations := range []string{"fixed:10ms", "mix:90%5ms,10%200ms"} {
		for _, load := range []float64{0.5, 0.8, 0.9} {
			if strings.HasPrefix(durations, "mix") && load != 0.8 {
				continue
			}
			jobs := mustPoisson(t, 1, load, slots, 10, mustParse(t, durations), span)
			arrivals, tasks := make([]time.Duration, len(jobs)), make([][]time.Duration, len(jobs))
			for i, j := range jobs {
				arrivals[i], tasks[i] = j.At, j.Tasks
			}
			for p, policy := range []string{"phoebe", "late-binding", "batch", "per-task", "random"} {
				rng := rand.New(rand.NewPCG(1, uint64(p)))
				r := NewRecorder(RunOptions{Policy: policy, Workload: durations, Load: load, Slots: slots,
					Warmup: 2 * time.Second, For: 6 * time.Second})
				for i, response := range Omniscient(arrivals, tasks, slots-p) {
					delay := time.Duration(rng.ExpFloat64()*float64(p*p)*float64(ms)) + 300*time.Microsecond
					r.Job(JobOutcome{Index: i, At: arrivals[i], Tasks: 10, Response: response + delay,
						Durations: tasks[i]})
					for _, d := range tasks[i] {
						r.Task(arrivals[i], PhaseTimes{us(20), us(60), max(0, response-Ideal(tasks[i])) + delay,
							us(90), us(12), d, us(70)})
					}
					if policy == "random" && i%1000 == 0 {
						r.Refused(arrivals[i], "queue-full")
						r.Retried(arrivals[i], "lost")
					}
				}
				doc.Runs = append(doc.Runs, r.Run())
			}
		}
	}
	return doc
}

func TestJSONFields(t *testing.T) {
	sample := sampleDocument(t)
	var b bytes.Buffer
	if err := WriteJSON(&b, sample); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "hunter2") {
		t.Error("a secret of the command line is in the document")
	}
	var doc map[string]any
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	fields := func(path string, v any, want ...string) map[string]any {
		t.Helper()
		m, ok := v.(map[string]any)
		if !ok {
			t.Fatalf("%s is %T", path, v)
		}
		slices.Sort(want)
		if got := sortedKeys(m); !slices.Equal(got, want) {
			t.Errorf("%s has %v, want %v", path, got, want)
		}
		return m
	}
	// Programs read these names, so every name must stay.
	fields("document", doc, "meta", "runs", "summaries", "noop", "noop_runs", "noop_summaries", "cpu", "warnings")
	meta := fields("meta", doc["meta"], "command", "version", "commit", "machine", "go", "date", "seed",
		"load_average_before", "load_average_after", "cpu_before")
	fields("machine", meta["machine"], "os", "kernel", "arch", "cpu", "cpus", "gomaxprocs")
	fields("cpu", doc["cpu"], "seconds", "own_cpus", "others_cpus", "stolen_cpus", "pressure_share")
	noop := fields("noop", doc["noop"], "rtt_us", "floor_us", "over_floor", "tasks_per_s_1", "tasks_per_s_16",
		"cpu_us_per_task")
	fields("rtt_us", noop["rtt_us"], "p50", "p99")
	fields("floor_us", noop["floor_us"], "p50", "p99")
	fields("noop run", doc["noop_runs"].([]any)[0], "cluster", "repeat", "rtt_us", "floor_us", "over_floor",
		"tasks_per_s_1", "tasks_per_s_16", "cpu_us_per_task", "cpu")
	fields("noop summary", doc["noop_summaries"].([]any)[0], "cluster", "repeats", "confidence", "median", "low",
		"high")
	figures := []string{"offered_tasks_per_s", "achieved_tasks_per_s", "response_ms", "ideal_ms", "omniscient_ms",
		"ratio", "ratio_omniscient", "phases_us", "cpu"}
	run := fields("run", doc["runs"].([]any)[0], append(figures, "cluster", "policy", "workload", "load", "slots",
		"repeat", "seed", "started_s",
		"jobs", "tasks", "errors", "refused", "retries", "retried", "copies", "over_time")...)
	for _, name := range []string{"response_ms", "ideal_ms", "omniscient_ms", "ratio", "ratio_omniscient"} {
		fields(name, run[name], "mean", "p50", "p90", "p95", "p99", "p999", "max")
	}
	phases := fields("phases_us", run["phases_us"], "sampled", "queued", "ready", "bound", "started", "finished",
		"delivered")
	fields("phase", phases["queued"], "p50", "p99", "mean")
	fields("moment", run["over_time"].([]any)[0], "at_s", "jobs", "p50_ms", "p99_ms", "omniscient_p50_ms",
		"omniscient_p99_ms")
	summary := fields("summary", doc["summaries"].([]any)[0], "cluster", "policy", "workload", "load", "slots",
		"seeds", "jobs", "tasks", "errors",
		"refused", "retries", "retried", "copies", "repeats", "confidence", "median", "low", "high")
	fields("median", summary["median"], figures...)

	// The package documentation explains each name in the JSON.
	documented, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	words := make(map[string]bool)
	for _, word := range regexp.MustCompile(`\w+`).FindAllString(string(documented), -1) {
		words[word] = true
	}
	sample.Meta.Settings, sample.CutShort, sample.Runs[0].CutShortS = []string{"a"}, "interrupted", 1
	sample.Runs[0].Simulate(1, ms, Stats{})
	sample.Checks = []string{"a"}
	b.Reset()
	if err := WriteJSON(&b, sample); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"([a-z0-9_]+)":`).FindAllSubmatch(b.Bytes(), -1) {
		if name := string(m[1]); !words[name] {
			t.Errorf("doc.go does not tell what %s is", name)
			words[name] = true // report a name once
		}
	}
}

func TestSummarize(t *testing.T) {
	run := func(policy string, seed uint64, p50, cut float64) Run {
		return Run{Cluster: Embedded, Policy: policy, Seed: seed, Jobs: 10, Errors: 1, Retries: 2,
			Refused: map[string]int{"leaving": 3}, Retried: map[string]int{"lost": 2}, Copies: 5,
			Figures: Figures{ResponseMS: Stats{P50: p50}}, CutShortS: cut}
	}
	all := summarizeRuns([]Run{run("a", 1, 10, 0), run("b", 1, 20, 0), run("b", 2, 30, 0), run("a", 2, 15, 0),
		run("b", 3, 1000, 0.1), run("c", 3, 5, 0.1)})
	if len(all) != 3 {
		t.Fatalf("%+v", all)
	}
	for i, want := range []Summary{
		{Policy: "a", Seeds: []uint64{1, 2}, Jobs: 20, Errors: 2, Retries: 4, Refused: map[string]int{"leaving": 6},
			Spread: Spread[Figures]{Median: Figures{ResponseMS: Stats{P50: 12.5}}}},
		{Policy: "b", Seeds: []uint64{1, 2}, Jobs: 20, Errors: 2, Retries: 4, Refused: map[string]int{"leaving": 6},
			Spread: Spread[Figures]{Median: Figures{ResponseMS: Stats{P50: 25}}}},
		{Policy: "c", Seeds: []uint64{3}, Jobs: 10, Errors: 1, Retries: 2, Refused: map[string]int{"leaving": 3},
			Spread: Spread[Figures]{Median: Figures{ResponseMS: Stats{P50: 5}}}},
	} {
		got := all[i]
		if got.Policy != want.Policy || !slices.Equal(got.Seeds, want.Seeds) || got.Jobs != want.Jobs ||
			got.Errors != want.Errors || got.Retries != want.Retries ||
			!reflect.DeepEqual(got.Refused, want.Refused) || got.Retried["lost"] != want.Retries ||
			got.Copies != 5*len(want.Seeds) || got.Median.ResponseMS != want.Median.ResponseMS {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
}

func TestOverTime(t *testing.T) {
	r := NewRecorder(RunOptions{Slots: 100, Warmup: time.Second, For: 4 * time.Second})
	for i := range 500 { // the responses grow from 0 to 500 ms
		at := time.Duration(i) * 10 * ms
		r.Job(JobOutcome{Index: i, At: at, Tasks: 1, Response: time.Duration(i) * ms,
			Durations: []time.Duration{5 * ms}, Failed: i == 300})
	}
	got := r.Run().OverTime
	if len(got) != 3 { // for 399 jobs that count
		t.Fatalf("%+v", got)
	}
	total := 0
	for i, m := range got {
		total += m.Jobs
		middle := 1 + (float64(i)+0.5)*4/3
		if math.Abs(m.AtS-middle) > 1e-9 || math.Abs(m.P50MS-100*middle) > 2 || m.P99MS < 100*middle+60 ||
			m.OmniscientP50MS != 5 || m.OmniscientP99MS != 5 {
			t.Errorf("part %d: %+v, want one around %g s", i, m, middle)
		}
	}
	if total != 399 {
		t.Errorf("%d jobs, want 399", total)
	}
}

func TestCommandLine(t *testing.T) {
	got := commandLine([]string{"phoebe", "bench", "--secret=a", "--secret", "b", "--auth-token", "c",
		"--task-duration", "fixed:1ms", "it's", ""})
	if want := `phoebe bench --secret=*** --secret *** --auth-token *** --task-duration fixed:1ms 'it'\''s' ''`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
