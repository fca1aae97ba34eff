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
			{Policy: "phoebe", Workload: "fixed:10ms", Load: 0.8, Slots: 40, Jobs: 9600, Tasks: 96000, OfferedTasksPerS: 3200, AchievedTasksPerS: 3199,
				ResponseMS: Stats{12.3, 11.5, 15, 18.2, 33.3, 40.1, 55.52}, IdealMS: Stats{10, 10, 10, 10, 10, 10, 10.1},
				OmniscientMS: Stats{12, 11.4, 14.8, 18, 32, 39, 50}, Ratio: Stats{P50: 1.15, P99: 3.33}, RatioOmniscient: Stats{P50: 1.009, P99: 1.04},
				PhasesUS: map[string]PhaseStats{"queued": {P50: 60, P99: 1234}, "finished": {P50: 10003, P99: 10050}}},
			{Policy: "random", Workload: "fixed:10ms", Load: 0.8, Slots: 40, Jobs: 9000, Errors: 600,
				PhasesUS: map[string]PhaseStats{"queued": {P50: 61, P99: 99.5}}, Refused: map[string]int{"queue-full": 700, "leaving": 1}, Retries: 101},
			{Policy: "phoebe", Workload: "fixed:10ms", Load: 0.5, Slots: 40},
		},
		Noop: &Noop{RTTUS: Quantiles{60, 150}, FloorUS: Quantiles{40, 50}, TasksPerS1: 50000, TasksPerS16: 160000, CPUUSPerTask: 9.75},
	}
	var b bytes.Buffer
	if err := WriteTable(&b, doc); err != nil {
		t.Fatal(err)
	}
	want := `trace fb2010-0

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
random: 1 refused (leaving), 700 refused (queue-full), 101 retries

fixed:10ms, load 0.5, 40 slots, response in ms
policy      jobs  errors  tasks/s  mean  p50  p90  p95  p99  p99.9  max  p50/ideal  p99/ideal  p50/omni  p99/omni
phoebe         0       0        0     0    0    0    0    0      0    0          0          0         0         0
omniscient                      0     0    0    0    0    0      0    0          0          0
ideal                                 0    0    0    0    0      0    0

no-op                                p50   p99
round trip of a one-task job, us    60.0   150
floor: relayed echo, us             40.0  50.0
times the floor                     1.50  3.00
tasks/s, 1 job in flight           50000
tasks/s, 16 jobs in flight        160000
CPU per task, us                    9.75
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
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
	if bad := regexp.MustCompile(`https?:|//[a-z]|\ssrc=|\shref=|url\(|@import|NaN|Inf|%!`).FindString(text); bad != "" {
		t.Errorf("the page contains %q", bad)
	}
	if got := strings.Count(text, "Response by share of jobs,"); got != 4 {
		t.Errorf("%d plots of responses, want one per workload and load: 4", got)
	}
	if got := strings.Count(text, "by load, fixed:10ms"); got != 3 {
		t.Errorf("%d plots by load, want 3 for the workload that had several", got)
	}
	for _, want := range []string{"sample CPU", "phoebe bench --load", "omniscient", "random: 2 refused (queue-full), 2 retries", "floor: relayed echo"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestWriteHTMLOfLittle(t *testing.T) {
	for name, doc := range map[string]*Document{
		"nothing":  {},
		"noop":     {Noop: &Noop{}},
		"no jobs":  {Runs: []Run{NewRecorder(RunOptions{Policy: "p", Slots: 1}).Run()}},
		"reread":   {Runs: []Run{{Policy: "p", Load: 1, ResponseMS: Stats{P50: 5}}, {Policy: "p", Load: 2}}},
		"one load": {Runs: []Run{{Policy: "p", Load: 1, ResponseMS: Stats{P50: 5}, PhasesUS: map[string]PhaseStats{"queued": {}}}}},
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
		linearScale("", 0, 0), linearScale("", 0, 7), linearScale("", 0.4, 1.5), linearScale("", 0, 1e6), linearScale("", 0.475, 0.925),
		logScale("", 1, 1), logScale("", 9.9, 11), logScale("", 10, 35), logScale("", 0.001, 3.6e6), logScale("", 3, 300),
		ninesScale("", 0.9), ninesScale("", 0.99999),
	} {
		if n := len(s.ticks); n < 2 || n > 12 {
			t.Errorf("%d ticks on %+v", n, s)
		}
		last := -1.0
		for _, tick := range s.ticks {
			if at := s.pos(tick.at); at < -1e-9 || at > 1+1e-9 || at <= last {
				t.Errorf("tick %s lies at %g, after %g", tick.text, at, last)
			} else {
				last = at
			}
		}
	}
}
