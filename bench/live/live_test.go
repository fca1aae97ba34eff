package live

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/bench"
)

func options(t testing.TB, policies []string, durations string, load float64) Options {
	spec, err := bench.ParseDurations(durations)
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Frontends: 2, Workers: 3, Slots: 2, Policies: policies, Loads: []float64{load}, ProbeRatio: 2, TasksPerJob: 4,
		Durations: spec, Warmup: 100 * time.Millisecond, For: 500 * time.Millisecond, Seed: 1,
	}
}

func TestRunAccountsForEveryJob(t *testing.T) {
	o := options(t, []string{"phoebe", "late-binding", "batch", "per-task", "random"}, "fixed:5ms", 0.4)
	doc, err := Run(context.Background(), o, bench.NewProgress(os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	if len(doc.Runs) != len(o.Policies) {
		t.Fatalf("%d runs for %d policies", len(doc.Runs), len(o.Policies))
	}
	for i, r := range doc.Runs {
		if r.Policy != o.Policies[i] || r.Jobs == 0 || r.Jobs != doc.Runs[0].Jobs || r.Errors != 0 || r.Tasks != 4*r.Jobs {
			t.Errorf("run %d: %+v", i, r)
		}
		// No task can be quicker than it sleeps, nor a job than omniscience: both are measured on this very run.
		if r.IdealMS.P50 < 5 || r.ResponseMS.P50 < r.IdealMS.P50 || r.ResponseMS.Mean < r.OmniscientMS.Mean {
			t.Errorf("%s: response %v, ideal %v, omniscient %v", r.Policy, r.ResponseMS, r.IdealMS, r.OmniscientMS)
		}
		if r.PhasesUS["finished"].P50 < 5000 {
			t.Errorf("%s: phases %v", r.Policy, r.PhasesUS)
		}
	}
}

func TestNoop(t *testing.T) {
	doc, err := Noop(context.Background(), options(t, []string{"phoebe"}, "fixed:5ms", 0.4), bench.NewProgress(os.Stderr))
	if err != nil {
		t.Fatal(err)
	}
	if n := doc.Noop; n.FloorUS.P50 <= 0 || n.RTTUS.P50 <= n.FloorUS.P50 || n.TasksPerS1 <= 0 || n.TasksPerS16 <= 0 || n.CPUUSPerTask <= 0 {
		t.Errorf("%+v", *n)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	o := options(t, []string{"sparrow"}, "fixed:5ms", 0.4)
	o.ProbeRatio = 0.5
	o.For = 0
	if err := o.Validate(); err == nil || len(err.(interface{ Unwrap() []error }).Unwrap()) != 3 {
		t.Errorf("want three problems: %v", err)
	}
}
