package live

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
	"github.com/phoebe-sched/phoebe/frontend/client"
)

func options(t testing.TB, policies []string, durations string, load float64) Options {
	spec, err := bench.ParseDurations(durations)
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Embedded: true, Repeat: 1, Frontends: 2, Workers: 3, Slots: 2, Policies: policies, Loads: []float64{load},
		ProbeRatio: 2, TasksPerJob: 4,
		Durations: spec, Warmup: 100 * time.Millisecond, For: 500 * time.Millisecond, Seed: 1,
	}
}

func TestRunAccountsForEveryJob(t *testing.T) {
	o := options(t, []string{"phoebe", "late-binding", "batch", "per-task", "random"}, "fixed:5ms", 0.4)
	doc, err := Run(context.Background(), o, bench.NewProgress(os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	if len(doc.Checks) != 1 || !strings.Contains(doc.Checks[0], "beside a task of 2s, on 6 slots") {
		t.Errorf("checks: %q", doc.Checks)
	}
	if len(doc.Runs) != len(o.Policies) {
		t.Fatalf("%d runs for %d policies", len(doc.Runs), len(o.Policies))
	}
	for i, r := range doc.Runs {
		if r.Policy != o.Policies[i] || r.Jobs == 0 || r.Jobs != doc.Runs[0].Jobs || r.Errors != 0 ||
			r.Tasks != 4*r.Jobs {
			t.Errorf("run %d: %+v", i, r)
		}
		// No task is faster than its sleep, and no job beats omniscience: the bounds come from this very run.
		if r.IdealMS.P50 < 5 || r.ResponseMS.P50 < r.IdealMS.P50 || r.ResponseMS.Mean < r.OmniscientMS.Mean {
			t.Errorf("%s: response %v, ideal %v, omniscient %v", r.Policy, r.ResponseMS, r.IdealMS, r.OmniscientMS)
		}
		if r.PhasesUS["finished"].P50 < 5000 {
			t.Errorf("%s: phases %v", r.Policy, r.PhasesUS)
		}
	}
}

// A copy of a late attempt is no retry. A retry goes by the end of the attempt before. An attempt that the frontend
// does not explain, because it forgot the attempt or is older, still counts.
func TestCopiesAreNoRetries(t *testing.T) {
	rec := bench.NewRecorder(bench.RunOptions{For: time.Second})
	for _, out := range []client.Outcome{
		{Attempts: 1}, {Attempts: 2, Copies: 1}, {Attempts: 1, Copies: 1}, {},
		{Attempts: 4, Copies: 1, Retried: []string{"lost", "preempted"}}, {Attempts: 2, Retried: []string{"lost"}},
		{Attempts: 3},
	} {
		recordAttempts(rec, 0, &out)
	}
	r := rec.Run()
	want := map[string]int{"lost": 2, "preempted": 1, "not told": 2}
	if r.Copies != 3 || r.Retries != 5 || !maps.Equal(r.Retried, want) {
		t.Errorf("%d copies, %d retries: %v", r.Copies, r.Retries, r.Retried)
	}
}

// With Again, refused jobs come again until all are answered, and the run tells of each refusal.
func TestAgainTellsRefusals(t *testing.T) {
	o := options(t, []string{"phoebe"}, "fixed:20ms", 4)
	o.Again, o.Frontends, o.Workers, o.Slots, o.TasksPerJob = true, 1, 1, 1, 1
	o.Warmup, o.For = 0, 1500*time.Millisecond
	doc, err := Run(context.Background(), o, bench.NewProgress(os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	r := doc.Runs[0]
	if r.Errors != 0 || r.Refused["overloaded"] == 0 || r.ResponseMS.Max < 1000 {
		t.Errorf("%d errors, refused %v, at most %v ms", r.Errors, r.Refused, r.ResponseMS.Max)
	}
}

// A trace that ends within the warm-up gives no figures, so the benchmark fails.
func TestWarmupOutlastsTrace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.csv")
	text := "trace,job,submit_ms,input_bytes,shuffle_bytes,output_bytes,input_path\nx,1,0,1,0,1,a\nx,2,1000,1,0,1,a\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := options(t, []string{"phoebe"}, "fixed:5ms", 0)
	setting, err := bench.ParseTraceSetting("hadoop")
	if err != nil {
		t.Fatal(err)
	}
	o.Trace = &bench.TraceOptions{Path: file, Name: "x", Setting: setting, Span: time.Minute, Speedup: 600,
		MaxTasks: 1}
	for _, load := range []float64{0, 0.5} {
		o.Loads, o.Warmup = []float64{load}, time.Hour
		doc, err := Run(context.Background(), o, bench.NewProgress(os.Stderr))
		if err == nil || !strings.Contains(err.Error(), "warm-up") || len(doc.Runs) > 0 {
			t.Errorf("load %g: %v", load, err)
		}
	}
}

// Each repeat has a seed of its own, and a different policy comes first.
func TestRepeats(t *testing.T) {
	o := options(t, []string{"phoebe", "random"}, "task-exp:5ms", 0.4)
	o.Repeat, o.Seed, o.For = 3, 7, 200*time.Millisecond
	doc, err := Run(context.Background(), o, bench.NewProgress(os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, r := range doc.Runs {
		got = append(got, fmt.Sprintf("%d %s %d", r.Repeat, r.Policy, r.Seed))
		if same := doc.Runs[i^1]; r.Jobs+r.Errors != same.Jobs+same.Errors || r.Cluster != bench.Embedded ||
			r.CPU.Own <= 0 || len(r.OverTime) == 0 {
			t.Errorf("run %d: %+v", i, r)
		}
		if i > 0 && r.StartedS <= doc.Runs[i-1].StartedS {
			t.Errorf("run %d began %g s after the first, the one before %g s", i, r.StartedS, doc.Runs[i-1].StartedS)
		}
	}
	if want := []string{"1 phoebe 7", "1 random 7", "2 random 8", "2 phoebe 8", "3 phoebe 9",
		"3 random 9"}; !slices.Equal(got, want) {
		t.Errorf("ran %q, want %q", got, want)
	}
}

func TestNoop(t *testing.T) {
	o := options(t, []string{"phoebe"}, "fixed:5ms", 0.4)
	o.Repeat, o.Warmup, o.For = 2, 10*time.Millisecond, 100*time.Millisecond
	doc, err := Noop(context.Background(), o, bench.NewProgress(os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	if len(doc.NoopRuns) != 2 {
		t.Fatalf("%d runs", len(doc.NoopRuns))
	}
	for i, n := range doc.NoopRuns {
		if n.Repeat != i+1 || n.FloorUS.P50 <= 0 || n.RTTUS.P50 <= n.FloorUS.P50 || n.OverFloor.P50 <= 1 ||
			n.TasksPerS1 <= 0 || n.TasksPerS16 <= 0 || n.CPUUSPerTask <= 0 {
			t.Errorf("%+v", n)
		}
	}
}

// A program that is not phoebe makes no cluster, and the error says why.
func TestProcessesThatCannotStart(t *testing.T) {
	for program, says := range map[string]string{"/nonexistent/phoebe": "/nonexistent/phoebe",
		"/bin/false": "did not tell its address: exit status 1"} {
		o := options(t, []string{"phoebe"}, "fixed:5ms", 0.4)
		o.Processes, o.Embedded = program, false
		if _, err := Run(context.Background(), o, bench.NewProgress(os.Stderr)); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error that says %q", program, err, says)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	o := options(t, []string{"sparrow"}, "fixed:5ms", 0.4)
	o.ProbeRatio = 0.5
	o.For, o.Repeat, o.Embedded = 0, 0, false
	if err := o.Validate(); err == nil || len(err.(interface{ Unwrap() []error }).Unwrap()) != 5 {
		t.Errorf("want five problems: %v", err)
	}
}
