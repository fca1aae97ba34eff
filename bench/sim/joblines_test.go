package sim

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
)

// A run of drawn jobs equals the run of the jobs read back from a file. Jobs keep their kinds, stages and inputs.
func TestJobLinesAreExact(t *testing.T) {
	staged := smallConfig(t)
	staged.Stages, staged.Input, staged.Racks, staged.Copies = 3, 32e6, 2, 3
	mixed := smallConfig(t)
	mixed.Workload = Mixed{mustPoisson(t, "5", "task-exp:10ms"), mustPoisson(t, "3", "task-exp:2s"), 0.1}
	kinds := smallConfig(t)
	kinds.Workload = Kinds{must(ParseKind("batch 100ms 10 task-exp:100ms")),
		must(ParseKind("service 200ms 5 task-exp:400ms"))}
	kinds.Load, kinds.Policy = 0, mustPolicy(t, "shared-state")
	kinds.Think = []Think{{"batch", time.Millisecond, time.Millisecond, 2}, {"service", 20 * time.Millisecond, 0, 1}}
	delayed := smallConfig(t)
	delayed.Policy, delayed.Input, delayed.Copies, delayed.LocalityWait = mustPolicy(t, "delay-fair"), 1e6, 3,
		time.Millisecond
	for _, cfg := range []Config{smallConfig(t), staged, mixed, kinds, delayed} {
		cfg.Jobs, cfg.WarmupJobs = 300, 60
		drawn, err := DrawJobs(&cfg, cfg.Load, "jobs")
		if err != nil {
			t.Fatal(err)
		}
		direct := mustRun(t, cfg)
		cfg.Workload, cfg.Load, cfg.Stages = drawn, 0, 1
		first := mustRun(t, cfg)
		name := filepath.Join(t.TempDir(), "jobs")
		var file bytes.Buffer
		if err := WriteJobs(&file, drawn); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, file.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if cfg.Workload, err = LoadJobs(name, false); err != nil {
			t.Fatal(err)
		}
		second := mustRun(t, cfg)
		first.WallS, second.WallS = 0, 0
		if !reflect.DeepEqual(first, second) {
			t.Errorf("%+v\nfrom the file %+v", first.SimRun, second.SimRun)
		}
		if first.Tasks != direct.Tasks || first.IdealMS != direct.IdealMS || first.Read != nil != (direct.Read != nil) ||
			first.Short != nil != (direct.Short != nil) || len(first.Kinds) != len(direct.Kinds) {
			t.Errorf("%+v\nwithout a list %+v", first.SimRun, direct.SimRun)
		}
	}
}

// The example of FIGURES.md is read as FIGURES.md says.
func TestJobLinesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../FIGURES.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^    (\{"at":.*)$`).FindSubmatch(text)
	if line == nil {
		t.Fatal("FIGURES.md has no example")
	}
	l, err := readJobLines(bufio.NewReader(bytes.NewReader(line[1])))
	if err != nil {
		t.Fatal(err)
	}
	job := l.jobs[0]
	want := []arrivalStage{{2, nil, [][]int{{3, 7}, {0}}}, {1, []int{0}, nil}}
	if job.At != 1500*time.Millisecond || job.tenant != "batch" || len(job.Tasks) != 3 ||
		job.Tasks[1] != 900*time.Millisecond || !reflect.DeepEqual(job.stages, want) {
		t.Errorf("%+v", job)
	}
}

// Lines are sorted, and numbers are exact with and without an exponent.
func TestReadJobLines(t *testing.T) {
	l, err := readJobLines(bufio.NewReader(strings.NewReader(
		`{"at":2e-9,"stages":[{"tasks":[8640000.000000001]}]}` + "\n\n" + `{"at":0,"long":true,"stages":[{"tasks":[1e3]}]}`)))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := l.jobs[0], l.jobs[1]; l.Len() != 2 || !a.long || a.mean != 1000*time.Second || a.stages != nil ||
		b.At != 2 || b.Index != 1 || b.Tasks[0] != 8640000*time.Second+1 {
		t.Errorf("%+v", l.jobs)
	}
	for text, want := range map[string]string{
		`{"at":1,"stages":[]}`:                               "line 1: the job has no stages",
		"{\"at\":1,\"stages\":[{\"tasks\":[1]}]}\n{":         "line 2: unexpected EOF; a line is {",
		`{"at":1,"stages":[{"tasks":[]}]}`:                   "stage 0 has no tasks",
		`{"at":-1,"stages":[{"tasks":[1]}]}`:                 "-1 is not a number of seconds",
		`{"at":1,"when":2,"stages":[{"tasks":[1]}]}`:         `unknown field "when"`,
		`{"at":1,"stages":[{"tasks":[1],"cpu":2000}]}`:       "a task takes a slot, cpu 1000 and mem 256",
		`{"at":1,"stages":[{"tasks":[1],"after":[0]}]}`:      "name earlier stages only",
		`{"at":1,"stages":[{"tasks":[1,2],"inputs":[[1]]}]}`: "1 inputs for 2 tasks",
		`{"at":1,"stages":[{"tasks":[1],"inputs":[[-1]]}]}`:  "list the numbers of workers",
		`{"at":1,"stages":[{"tasks":[1],"inputs":[[]]}]}`:    "list the numbers of workers",
		`{"at":1e300,"stages":[{"tasks":[1]}]}`:              "is not a number of seconds",
	} {
		if _, err := readJobLines(bufio.NewReader(strings.NewReader(text))); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want it to say %q", text, err, want)
		}
	}
}

// A run refuses a list that does not fit.
func TestListedJobsAreChecked(t *testing.T) {
	l, err := readJobLines(bufio.NewReader(strings.NewReader(`{"at":0,"stages":[{"tasks":[1],"inputs":[[3,57]]}]}`)))
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(c *Config){
		"use load 0":                      func(c *Config) { c.Load = 0.5 },
		"leave the stages out":            func(c *Config) { c.Stages = 2 },
		"give the size of an input":       func(c *Config) { c.Input = 0 },
		"use 58 workers or more":          func(c *Config) { c.Workers = 57 },
		"policy omniscient knows nothing": func(c *Config) { c.Policy, c.Input = mustPolicy(t, "omniscient"), 0 },
	} {
		cfg := smallConfig(t)
		cfg.Workload, cfg.Load, cfg.Jobs, cfg.WarmupJobs, cfg.Workers, cfg.Input = l, 0, 0, 0, 100, 1e6
		change(&cfg)
		if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
	// The only task reads from a disk, at a worker with a copy.
	cfg := smallConfig(t)
	cfg.Workload, cfg.Load, cfg.Jobs, cfg.WarmupJobs, cfg.Workers, cfg.Input = l, 0, 0, 0, 58, 160e6
	cfg.Policy.mode = estimate.Estimate
	if r := mustRun(t, cfg); r.Read == nil || r.Read.Host != 160e6 {
		t.Errorf("%+v", r.Read)
	}
}
