package bench

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const traceHeader = "trace,job,submit_ms,input_bytes,shuffle_bytes,output_bytes,input_path\n"

// smallTrace has one job of every kind. M and R are for the hadoop setting.
const smallTrace = traceHeader +
	"other,0,1000,1,1,1,\n" +
	"small,0,10000,0,0,0,\n" + // nothing to read: M 1, 1,000 ms
	"small,1,10000,40000000,0,20000000,7\n" + // map-only, M 1: 1,000 + 40e6/20e3 + 20e6/20e3 = 4,000 ms
	"small,2,10000,0,0,134217729,\n" + // map-only, sized by its output: M 2, 1,000 + 134217729/2/20e3 = 4,355.443225 ms
	// M 2: 7,710.8864 ms; R ceil(2147483648/2^30) = 2: 1,000 + 2^30/20e3 = 54,687.0912 ms
	"small,3,20000,268435456,2000000000,147483648,\n" +
	"small,4,3600000,134217728,20000,0,\n" // M 1: 7,710.8864 ms; R 1: 1,001 ms

func writeTrace(t *testing.T, text string, zipped bool) string {
	t.Helper()
	var b bytes.Buffer
	if zipped {
		w := gzip.NewWriter(&b)
		w.Write([]byte(text))
		w.Close()
	} else {
		b.WriteString(text)
	}
	path := filepath.Join(t.TempDir(), "jobs.csv")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func hadoopSetting(t *testing.T) TraceSetting {
	t.Helper()
	s, err := ParseTraceSetting("hadoop")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func smallOptions(t *testing.T, path string) TraceOptions {
	return TraceOptions{
		Path: path, Name: "small", Setting: hadoopSetting(t), Span: time.Hour, Speedup: 1, Slots: 4, MaxTasks: 10_000,
	}
}

func us(n float64) time.Duration { return time.Duration(math.Round(n)) * time.Microsecond }

func TestLoadTrace(t *testing.T) {
	sec := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	third := sec(10).Round(time.Second)
	want := []Job{
		{0, third + sec(0.5/3), []time.Duration{us(1e6)}},
		{1, third + sec(1.5/3), []time.Duration{us(4e6)}},
		{2, third + sec(2.5/3), []time.Duration{us(4355443), us(4355443)}},
		{3, sec(20.5), []time.Duration{us(7710886), us(7710886)}},
		{4, sec(20.5) + us(7710886), []time.Duration{us(54687091), us(54687091)}},
	}
	for _, zipped := range []bool{true, false} {
		trace, err := LoadTrace(smallOptions(t, writeTrace(t, smallTrace, zipped)))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(trace.Jobs, want) {
			t.Errorf("zipped %v: jobs\n%v\nwant\n%v", zipped, trace.Jobs, want)
		}
		if busy := Offered(trace.Jobs, 4, time.Hour); trace.Load != busy || trace.Span != time.Hour {
			t.Errorf("load %g over %s, want %g over 1h", trace.Load, trace.Span, busy)
		}
	}
}

func TestLoadTraceWindowSpeedupAndLoad(t *testing.T) {
	path := writeTrace(t, smallTrace, true)
	o := smallOptions(t, path)
	base, err := LoadTrace(o)
	if err != nil {
		t.Fatal(err)
	}

	fast := o
	fast.Speedup = 60
	squeezed, err := LoadTrace(fast)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(squeezed.Load/base.Load-1) > 1e-5 || squeezed.Span != time.Minute {
		t.Errorf("speedup 60: load %g over %s, want the same %g over a minute", squeezed.Load, squeezed.Span, base.Load)
	}
	for i, j := range squeezed.Jobs {
		if d := j.At - base.Jobs[i].At/60; d < -time.Microsecond || d > time.Microsecond {
			t.Errorf("job %d at %s, want a sixtieth of %s", i, j.At, base.Jobs[i].At)
		}
		if d := j.Tasks[0] - base.Jobs[i].Tasks[0]/60; d < -time.Microsecond || d > time.Microsecond {
			t.Errorf("job %d takes %s, want a sixtieth of %s", i, j.Tasks[0], base.Jobs[i].Tasks[0])
		}
	}

	loaded := o
	loaded.Load = 0.8
	full, err := LoadTrace(loaded)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(full.Load-0.8) > 1e-6 || math.Abs(Offered(full.Jobs, 4, full.Span)-0.8) > 1e-6 {
		t.Errorf("load 0.8: it says %g and makes %g", full.Load, Offered(full.Jobs, 4, full.Span))
	}
	if !slices.Equal(full.Jobs[3].Tasks, base.Jobs[3].Tasks) {
		t.Error("load 0.8: durations changed")
	}
	// The reduces' distance from their maps is a duration, and a load leaves durations alone.
	at := slices.IndexFunc(full.Jobs, func(j Job) bool { return len(j.Tasks) == 2 && j.Tasks[0] == us(54687091) })
	maps := slices.IndexFunc(full.Jobs, func(j Job) bool { return len(j.Tasks) == 2 && j.Tasks[0] == us(7710886) })
	if d := full.Jobs[at].At - full.Jobs[maps].At; d != us(7710886) {
		t.Errorf("load 0.8: reduces arrive %s after their maps, want %s", d, us(7710886))
	}

	window := o
	window.From, window.Span = 15*time.Second, 3585*time.Second // up to 3600 s, exclusive
	part, err := LoadTrace(window)
	if err != nil {
		t.Fatal(err)
	}
	if len(part.Jobs) != 2 || part.Jobs[0].At != 5500*time.Millisecond {
		t.Errorf("window: %v", part.Jobs)
	}
}

func TestLoadTraceCap(t *testing.T) {
	o := smallOptions(t, writeTrace(t, smallTrace, true))
	o.MaxTasks = 1
	trace, err := LoadTrace(o)
	if err != nil {
		t.Fatal(err)
	}
	var rest float64
	for _, j := range trace.Jobs {
		if len(j.Tasks) != 1 {
			t.Errorf("job %d has %d tasks", j.Index, len(j.Tasks))
		}
		rest += j.Work().Seconds()
	}
	// The first hour has 1 + 4 + 2*4.355 + 2*7.711 + 2*54.687 s of work. The cap removes half of the last three terms.
	removed := 4.355443 + 7.710886 + 54.687091
	want := fmt.Sprintf("2 jobs cut, %.2f %% of the work removed", 100*removed/(rest+removed))
	if text := strings.Join(trace.Settings, "\n"); !strings.Contains(text, want) {
		t.Errorf("settings\n%s\nwant %q", text, want)
	}
}

func TestLoadTraceVariation(t *testing.T) {
	path := writeTrace(t, traceHeader+"a,1,0,1342177280000,1,0,\na,2,0,1342177280000,1,0,\n", true)
	o := smallOptions(t, path)
	o.Name, o.Variation = "a", 0.5
	trace, err := LoadTrace(o)
	if err != nil {
		t.Fatal(err)
	}
	again, err := LoadTrace(o)
	if err != nil || !reflect.DeepEqual(trace, again) {
		t.Fatalf("not a function of the options (%v)", err)
	}
	first, second := trace.Jobs[0].Tasks, trace.Jobs[1].Tasks
	if len(first) != 10_000 || slices.Equal(first, second) {
		t.Fatalf("%d and %d tasks, equal %v", len(first), len(second), slices.Equal(first, second))
	}
	var sum, squares float64
	for _, d := range first {
		x := math.Log(float64(d) / (7710.8864 * 1e6))
		sum, squares = sum+x, squares+x*x
	}
	n := float64(len(first))
	mean, dev := sum/n, math.Sqrt(squares/n-sum/n*sum/n)
	if math.Abs(mean+0.125) > 0.02 || math.Abs(dev-0.5) > 0.02 { // -s*s/2 and s
		t.Errorf("log of the run times: mean %.3f, deviation %.3f, want -0.125 and 0.5", mean, dev)
	}
	for _, j := range trace.Jobs[2:] {
		if maps := Ideal(first); j.At != maps+250*time.Millisecond && j.At != Ideal(second)+750*time.Millisecond {
			t.Errorf("reduces at %s: not when the longest map ends", j.At)
		}
	}
}

func TestLoadTraceRefuses(t *testing.T) {
	good := smallOptions(t, writeTrace(t, smallTrace, true))
	row := func(fields string) string { return traceHeader + "small," + fields + "\n" }
	for name, c := range map[string]struct {
		change func(*TraceOptions)
		want   string
	}{
		"no file":       {func(o *TraceOptions) { o.Path = filepath.Join(t.TempDir(), "gone") }, "no such file"},
		"unknown trace": {func(o *TraceOptions) { o.Name = "fb1999" }, `no trace "fb1999": it has other, small`},
		"empty window": {func(o *TraceOptions) { o.From = 2 * time.Hour },
			"no job from 2h0m0s for 1h0m0s: its jobs are at 10s to 1h0m0s"},
		"options": {func(o *TraceOptions) {
			o.Speedup, o.Slots, o.MaxTasks, o.Span, o.Load, o.Variation = 0, 0, 0, 0, -1, math.NaN()
		},
			"trace window from 0s for 0s"},
		"header": {func(o *TraceOptions) { o.Path = writeTrace(t, "a,b\n", false) },
			"it must be trace,job,submit_ms"},
		"empty": {func(o *TraceOptions) { o.Path = writeTrace(t, "", false) }, "header: EOF"},
		"short row": {func(o *TraceOptions) { o.Path = writeTrace(t, row("1,2"), true) },
			"line 2: wrong number of fields"},
		"no number": {func(o *TraceOptions) { o.Path = writeTrace(t, row("1,0,x,0,0,"), true) },
			`line 2: input_bytes is "x"`},
		"negative": {func(o *TraceOptions) { o.Path = writeTrace(t, row("1,0,0,-5,0,"), true) },
			`line 2: shuffle_bytes is "-5"`},
		"huge": {func(o *TraceOptions) { o.Path = writeTrace(t, row("1,0,0,0,9223372036854775807,"), true) },
			"line 2: output_bytes"},
		"far": {func(o *TraceOptions) { o.Path = writeTrace(t, row("1,9007199254740992,0,0,0,"), true) },
			"line 2: submit_ms"},
		"falling": {func(o *TraceOptions) {
			o.Path = writeTrace(t, row("1,5000,0,0,0,\nsmall,2,4000,0,0,0,"),
				true)
		}, "line 3: submit_ms 4000"},
		"broken gzip": {func(o *TraceOptions) { o.Path = writeTrace(t, "\x1f\x8bnonsense", false) }, "gzip"},
	} {
		o := good
		c.change(&o)
		if _, err := LoadTrace(o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	if _, err := ParseTraceSetting("spark"); err == nil || !strings.Contains(err.Error(), "hadoop or in-memory") {
		t.Errorf("setting: %v", err)
	}
}

// The facts come from the traces' description, for checking a reader.
func TestRealTrace(t *testing.T) {
	path := os.Getenv("PHOEBE_TRACES")
	if path == "" {
		t.Skip("PHOEBE_TRACES does not name the file of the Facebook traces (jobs.csv.gz)")
	}
	type facts struct {
		jobs                                int
		input, shuffle, output              int64
		mapOnly, zeroInput, mostInOneSecond int
		maps, reduces                       int64
		tasksPerJob                         string // p50/p90/p99/max
		oneTask                             string // %
		taskMS                              string // p50/p99
		meanTaskMS                          string // p50/p90/p99 of the jobs' means
		taskHours, busy                     int
		inTop1, inTop10                     int // % of the task time in the largest 1 % and 10 % of jobs
	}
	want := map[string]facts{
		"fb2009-0": {5894, 26886497357605, 22216712306762, 6852686303142, 4448, 86, 3, 243250, 23015,
			"2/32/698/56310", "46.4", "7710/54682", "1189/7708/25373", 851, 35, 64, 95},
		"fb2009-1": {6638, 33568168368654, 14096041626028, 9160571513661, 4833, 149, 3, 310857, 15805,
			"2/45/850/12595", "43.5", "7710/54656", "1731/7920/26240", 880, 37, 56, 93},
		"fb2010-0": {24442, 1082621755403831, 437891230970678, 339413094842194, 8324, 418, 13, 8431508, 595797,
			"2/252/8856/91517", "23.4", "7711/54687", "2081/12323/40025", 28340, 1181, 61, 98},
		"fb2010-p": {25428, 1205910635046222, 413132647980993, 370679567759162, 8489, 1020, 14, 9457923, 558409,
			"2/275/8251/158500", "23.6", "7711/54684", "1960/11889/40993", 30417, 1267, 57, 97},
	}
	for name, want := range want {
		t.Run(name, func(t *testing.T) {
			rows, err := readTrace(path, name)
			if err != nil {
				t.Fatal(err)
			}
			got := facts{jobs: len(rows)}
			perSecond := make(map[time.Duration]int)
			var counts, means, works []float64
			type bunch struct{ ms, n float64 }
			var tasks []bunch
			var work float64
			one := 0
			for _, r := range rows {
				got.input, got.shuffle, got.output = got.input+r.input, got.shuffle+r.shuffle, got.output+r.output
				if r.shuffle == 0 {
					got.mapOnly++
				}
				if r.input == 0 {
					got.zeroInput++
				}
				perSecond[r.submit]++
				got.mostInOneSecond = max(got.mostInOneSecond, perSecond[r.submit])
				p := hadoopSetting(t).derivePhases(r)
				got.maps, got.reduces = got.maps+p.maps, got.reduces+p.reduces
				n := float64(p.maps + p.reduces)
				if n == 1 {
					one++
				}
				ms := float64(p.maps)*p.mapMS + float64(p.reduces)*p.reduceMS
				counts, means, works = append(counts, n), append(means, ms/n), append(works, ms)
				tasks = append(tasks, bunch{p.mapMS, float64(p.maps)}, bunch{p.reduceMS, float64(p.reduces)})
				work += ms
			}
			at := func(sorted []float64, q float64) float64 {
				return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
			}
			slices.Sort(counts)
			slices.Sort(means)
			got.tasksPerJob = fmt.Sprintf("%.0f/%.0f/%.0f/%.0f", at(counts, 0.5), at(counts, 0.9), at(counts, 0.99),
				at(counts, 1))
			got.meanTaskMS = fmt.Sprintf("%.0f/%.0f/%.0f", at(means, 0.5), at(means, 0.9), at(means, 0.99))
			got.oneTask = fmt.Sprintf("%.1f", 100*float64(one)/float64(len(rows)))
			slices.SortFunc(tasks, func(a, b bunch) int { return int(math.Copysign(1, a.ms-b.ms)) })
			taskAt := func(q float64) float64 {
				rank := q * float64(got.maps+got.reduces)
				for _, b := range tasks {
					if rank -= b.n; rank <= 0 {
						return b.ms
					}
				}
				return math.NaN()
			}
			got.taskMS = fmt.Sprintf("%.0f/%.0f", taskAt(0.5), taskAt(0.99))
			got.taskHours = int(math.Round(work / 3.6e6))
			got.busy = int(math.Round(work / 86.4e6))
			slices.Sort(works)
			share := func(q float64) int {
				var sum float64
				for _, w := range works[len(works)-int(q*float64(len(works))):] {
					sum += w
				}
				return int(math.Round(100 * sum / work))
			}
			got.inTop1, got.inTop10 = share(0.01), share(0.10)
			if got != want {
				t.Errorf("facts\n%+v\nwant\n%+v", got, want)
			}
		})
	}
}
