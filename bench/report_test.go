package bench

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestWriteTable(t *testing.T) {
	doc := &Document{
		Meta: Meta{Settings: []string{"trace fb2010-0"}},
		Runs: []Run{
			{Policy: "phoebe", Workload: "fixed:10ms", Load: 0.8, Seed: 1, Slots: 40, Jobs: 9600, Tasks: 96000,
				Figures: Figures{OfferedTasksPerS: 3200, AchievedTasksPerS: 3199,
					ResponseMS:   Stats{12.3, 11.5, 15, 18.2, 33.3, 40.1, 55.52},
					IdealMS:      Stats{10, 10, 10, 10, 10, 10, 10.1},
					OmniscientMS: Stats{12, 11.4, 14.8, 18, 32, 39, 50}, Ratio: Stats{P50: 1.15, P99: 3.33},
					RatioOmniscient: Stats{P50: 1.009, P99: 1.04},
					PhasesUS: map[string]PhaseStats{"queued": {P50: 60, P99: 1234},
						"finished": {P50: 10003, P99: 10050}}}},
			{Policy: "random", Workload: "fixed:10ms", Load: 0.8, Seed: 1, Slots: 40, Jobs: 9000, Errors: 600,
				Figures: Figures{PhasesUS: map[string]PhaseStats{"queued": {P50: 61, P99: 99.5}}},
				Refused: map[string]int{"queue-full": 700, "leaving": 1}, Retries: 101,
				Retried: map[string]int{"preempted": 100, "lost": 1}, Copies: 48},
			{Policy: "phoebe", Workload: "fixed:10ms", Load: 0.5, Slots: 40, Seed: 1},
		},
		NoopRuns: []NoopRun{{Cluster: Embedded, Noop: Noop{Quantiles{60, 150}, Quantiles{40, 50}, Quantiles{1.5, 3},
			50000, 160000, 9.75}}},
	}
	var b bytes.Buffer
	if err := WriteTable(&b, doc); err != nil {
		t.Fatal(err)
	}
	want := `seeds     1
settings  trace fb2010-0

fixed:10ms, load 0.8, 40 slots, response in ms
policy      jobs  errors  tasks/s  mean   p50   p90   p95   p99  p99.9   max  p50/ideal  p99/ideal  p50/omni  p99/omni
phoebe      9600       0     3199  12.3  11.5  15.0  18.2  33.3   40.1  55.5       1.15       3.33      1.01      1.04
random      9000     600        0     0     0     0     0     0      0     0          0          0         0         0
omniscient                   3200  12.0  11.4  14.8  18.0  32.0   39.0  50.0       1.14       3.20
ideal                              10.0  10.0  10.0  10.0  10.0   10.0  10.1

phases of a task, us: p50 / p99
policy       queued       finished
phoebe  60.0 / 1234  10003 / 10050
random  61.0 / 99.5              -
random: 1 refused (leaving), 700 refused (queue-full), 1 retried (lost), 100 retried (preempted), 48 copies

fixed:10ms, load 0.5, 40 slots, response in ms
policy      jobs  errors  tasks/s  mean  p50  p90  p95  p99  p99.9  max  p50/ideal  p99/ideal  p50/omni  p99/omni
phoebe         0       0        0     0    0    0    0    0      0    0          0          0         0         0
omniscient                      0     0    0    0    0    0      0    0          0          0
ideal                                 0    0    0    0    0      0    0

no-op                           embedded
round trip, one task, us: p50       60.0
  p99                                150
floor, a relayed echo, us: p50      40.0
  p99                               50.0
times the floor: p50                1.50
  p99                               3.00
tasks/s, 1 job in flight           50000
tasks/s, 16 jobs in flight        160000
CPU per task, us                    9.75
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// Three repeats on two clusters, on a machine with other users.
func TestWriteTableOfRepeats(t *testing.T) {
	doc := &Document{Meta: Meta{
		Version: "v1.2.3", Commit: "0123abc", Go: "go1.26", LoadBefore: 1.5, LoadAfter: 2,
		CPUBefore: CPUUse{Seconds: 0.5, Others: 0.5},
		Machine:   Machine{OS: "linux", Kernel: "6.1", Arch: "amd64", CPU: "some CPU", CPUs: 2, GOMAXPROCS: 2},
	}}
	for repeat := range 3 {
		v := float64(repeat)
		for _, cluster := range []string{Embedded, Processes} {
			doc.Runs = append(doc.Runs, Run{
				Cluster: cluster, Policy: "phoebe", Workload: "fixed:10ms", Load: 0.8, Slots: 40, Jobs: 10,
				Tasks: 100, Repeat: repeat + 1, Seed: 7 + uint64(repeat),
				Figures: Figures{
					ResponseMS: Stats{P50: 11 + v, P99: 30 - v}, IdealMS: Stats{P50: 10, P99: 10},
					OmniscientMS:    Stats{P50: 10, P99: 20},
					RatioOmniscient: Stats{P50: 1.1 + v/10, P99: 1.5}, AchievedTasksPerS: 3200,
					CPU: CPUUse{Seconds: 1, Own: 1.5, Others: 0.1 * v},
				},
				Refused: map[string]int{"leaving": repeat},
			})
			doc.NoopRuns = append(doc.NoopRuns, NoopRun{Cluster: cluster, Repeat: repeat + 1,
				Noop: Noop{TasksPerS1: 1000 * (v + 1)}, CPU: CPUUse{Seconds: 1}})
		}
	}
	var b bytes.Buffer
	if err := WriteTable(&b, doc); err != nil {
		t.Fatal(err)
	}
	want := `phoebe    v1.2.3, 0123abc, go1.26
machine   2 x some CPU, linux/amd64, kernel 6.1, GOMAXPROCS 2
CPUs      of 2, this benchmark used 0.75, others 0.05 (0.50 before it), the host 0.00
          pressure: 0.0 % of the time something waited for a CPU; load average 1.50 before, 2.00 after
seeds     7, 8, 9

fixed:10ms, load 0.8, 40 slots, response in ms
medians of 3 repeats; from/to: the lowest and the highest, with 75 % confidence around the true median
policy             jobs  errors  tasks/s  mean   p50  p90  p95   p99  p99.9  max  p50/ideal  p99/ideal  p50/omni  p99/omni
phoebe, embedded     30       0     3200     0  12.0    0    0  29.0      0    0          0          0      1.20      1.50
  from                              3200     0  11.0    0    0  28.0      0    0          0          0      1.10      1.50
  to                                3200     0  13.0    0    0  30.0      0    0          0          0      1.30      1.50
phoebe, processes    30       0     3200     0  12.0    0    0  29.0      0    0          0          0      1.20      1.50
  from                              3200     0  11.0    0    0  28.0      0    0          0          0      1.10      1.50
  to                                3200     0  13.0    0    0  30.0      0    0          0          0      1.30      1.50
omniscient                             0     0  10.0    0    0  20.0      0    0       1.00       2.00
ideal                                        0  10.0    0    0  10.0      0    0
phoebe, embedded: 3 refused (leaving)
phoebe, processes: 3 refused (leaving)

medians of 3 repeats; from/to: the lowest and the highest, with 75 % confidence around the true median
no-op                           embedded  from    to  processes  from    to
round trip, one task, us: p50          0     0     0          0     0     0
  p99                                  0     0     0          0     0     0
floor, a relayed echo, us: p50         0     0     0          0     0     0
  p99                                  0     0     0          0     0     0
times the floor: p50                   0     0     0          0     0     0
  p99                                  0     0     0          0     0     0
tasks/s, 1 job in flight            2000  1000  3000       2000  1000  3000
tasks/s, 16 jobs in flight             0     0     0          0     0     0
CPU per task, us                       0     0     0          0     0     0

warning: before the first run others used 0.50 of 2 CPUs.
warning: others disturbed 2 of 12 runs: in the worst, others used 0.20 of 2 CPUs. Times are longer for it, and scatter.
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	doc.NoopRuns = append(doc.NoopRuns, NoopRun{Cluster: Running})
	if w := doc.Warnings(); w != nil {
		t.Errorf("a running cluster may be the others: %q", w)
	}
}

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	p := &Progress{out: &b, width: func() int { return 10 }}
	p.Set("%d of %s", 7, "päivää ja öitä")
	p.Clear()
	if got, want := b.String(), "\r7 of päiv\x1b[K\r\x1b[K"; got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
	f, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p = NewProgress(f)
	p.Set("nobody watches")
	if info, err := f.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("a file got %d bytes of progress (%v)", info.Size(), err)
	}
}

func TestWriteHTML(t *testing.T) {
	doc := sampleDocument(t)
	var b bytes.Buffer
	if err := WriteHTML(&b, doc); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if bad := regexp.MustCompile(`https?:|//[a-z]|\ssrc=|\shref=|url\(|@import|NaN|Inf|%!`).FindString(
		text); bad != "" {
		t.Errorf("the page contains %q", bad)
	}
	if got := strings.Count(text, "Response by share of jobs,"); got != 4 {
		t.Errorf("%d plots of responses, want one per workload and load: 4", got)
	}
	if got := strings.Count(text, "by load, fixed:10ms"); got != 3 {
		t.Errorf("%d plots by load, want 3 for the workload that had several", got)
	}
	for _, want := range []string{"sample CPU", "phoebe bench --load", "omniscient",
		"random: 2 refused (queue-full), 2 retried (lost)", "floor, a relayed echo",
		"Median over time, fixed:10ms, load 0.5", "99th percentile over time", "GOMAXPROCS", "medians of 2 repeats",
		"<b>Warning</b>: others disturbed"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestWriteHTMLOfLittle(t *testing.T) {
	for name, doc := range map[string]*Document{
		"nothing": {},
		"noop":    {NoopRuns: make([]NoopRun, 1)},
		"no jobs": {Runs: []Run{NewRecorder(RunOptions{Policy: "p", Slots: 1}).Run()}},
		"reread": {Runs: []Run{{Policy: "p", Load: 1, Figures: Figures{ResponseMS: Stats{P50: 5}}},
			{Policy: "p", Load: 2}}},
		"one load": {Runs: []Run{{Policy: "p", Load: 1, Figures: Figures{ResponseMS: Stats{P50: 5},
			PhasesUS: map[string]PhaseStats{"queued": {}}}}}},
	} {
		var b bytes.Buffer
		if err := WriteHTML(&b, doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if bad := regexp.MustCompile(`NaN|Inf|%!`).FindString(b.String()); bad != "" {
			t.Errorf("%s: the page contains %q", name, bad)
		}
	}
}

func TestWriteHTMLEscapes(t *testing.T) {
	doc := sampleDocument(t)
	for i := range doc.Runs {
		doc.Runs[i].Policy = `<b>"'&`
		doc.Runs[i].Workload = `<script>alert(1)</script>`
	}
	doc.Meta.Settings = []string{"<img>"}
	var b bytes.Buffer
	if err := WriteHTML(&b, doc); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script", "<b>\"", "<img>"} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
}

func TestScales(t *testing.T) {
	for _, s := range []scale{
		linearScale("", 0, 0), linearScale("", 0, 7), linearScale("", 0.4, 1.5), linearScale("", 0, 1e6),
		linearScale("", 0.475, 0.925),
		logScale("", 1, 1), logScale("", 9.9, 11), logScale("", 10, 35), logScale("", 0.001, 3.6e6),
		logScale("", 3, 300),
		ninesScale("", 0.9), ninesScale("", 0.99999),
	} {
		if n := len(s.ticks); n < 2 || n > 12 {
			t.Errorf("%d ticks on %+v", n, s)
		}
		last := -1.0
		for _, tick := range s.ticks {
			if at := s.positionOf(tick.at); at < -1e-9 || at > 1+1e-9 || at <= last {
				t.Errorf("tick %s lies at %g, after %g", tick.text, at, last)
			} else {
				last = at
			}
		}
	}
}
