package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// decisions holds the output of `phoebe explain --json`.
type decisions struct {
	Job, Frontend string
	Decisions     []struct {
		Task                                 int
		Path, Cause, Worker, Outcome, Reason string
		Class, Tokens, Copies, Attempt       string
		ClassWhy                             string `json:"class_why"`
		CopyOf                               string `json:"copy_of"`
		Due                                  int64  `json:"due_us"`
		Work                                 struct {
			Mean   int64 `json:"mean_us"`
			Source string
		}
		Candidates []struct {
			Worker  string
			I       int64 `json:"i_us"`
			W       int64 `json:"w_us"`
			R       int64 `json:"r_us"`
			Read    int64 `json:"read_us"`
			E       int64 `json:"e_us"`
			C       int64 `json:"c_us"`
			Success float64
		}
		Chosen int
		Near   []struct {
			At      string
			Read    int64 `json:"read_us"`
			Workers []string
		}
		Read int64 `json:"read_us"`
		Far  string
	}
}

// explainJob runs phoebe explain --json.
func explainJob(t *testing.T, args ...string) (d decisions) {
	t.Helper()
	s := runPhoebe(t, append([]string{"explain", "--json", "-"}, args...)...).wantExit(t, 0)
	if err := json.Unmarshal([]byte(s.out), &d); err != nil {
		t.Fatalf("%v in %q", err, s.out)
	}
	return d
}

// Two workers and two frontends run as processes. The stages of a job run in order. Any frontend can tell why each
// task went to its worker.
func TestStagesAndExplain(t *testing.T) {
	t.Parallel()
	var workers []string
	for i := range 2 {
		w := startPhoebe(t, "worker", "--listen", "127.0.0.1:0", "--slots", "2", "--name", fmt.Sprint("w", i))
		workers = append(workers, w.awaitLines("worker", 1)[0])
	}
	list := strings.Join(workers, ",")
	a := startPhoebe(t, "frontend", "--listen", "127.0.0.1:0", "--workers", list, "--name", "a", "--matching", "greedy",
		"--disk-rate", "100000000").awaitLines("frontend", 1)[0]
	b := startPhoebe(t, "frontend", "--listen", "127.0.0.1:0", "--workers", list, "--name", "b", "--peers",
		a).awaitLines("frontend", 1)[0]
	awaitLinked(t, a, 2)
	awaitLinked(t, b, 2)
	// a frontend gets waits only when it asks, and does not wait for late answers
	waitUntil(t, func() error {
		runPhoebe(t, "run", "--function", "echo", "--mode", "estimate", "--connect", a).wantExit(t, 0)
		s := runPhoebe(t, "status", "--matrices", "--connect", a)
		if strings.Contains(s.out, "its waits are not known") {
			return errors.New(s.out)
		}
		return nil
	})

	job := writeFile(t, `
phases: true
stages:
  - name: map
  - {name: reduce, after: [map]}
tasks:
  - {stage: reduce, function: echo, payload: reduced, inputs: [{stage: map, bytes: 300000000}]}
  - {stage: map, function: sleep, payload: 100ms, estimate: 2s, count: 2}
  - {stage: map, function: sleep, payload: 1ms}
`)
	s := runPhoebe(t, "run", "--json", "--job", job, "--connect", a).wantExit(t, 0, "4 of 4 tasks have results")
	all := s.outcomesByTask(t)
	for i := 1; i < 4; i++ {
		if ended, began := all[i].Phases["finished"], all[0].Phases["started"]; all[i].Outcome != "result" ||
			began < ended {
			t.Errorf("task 0 began after %d us, task %d, which it comes after, ended after %d us", began, i, ended)
		}
	}
	handle := regexp.MustCompile(`[0-9A-Z]{26}@\S+`).FindString(s.err)
	id, _, _ := strings.Cut(handle, "@")

	runPhoebe(t, "explain", id, "--connect", b).wantExit(t, 0, "job "+id+", placed by a",
		"task 1 is placed by estimation, because it is long: expected to run for 2s (its estimate)",
		"task 3 is placed by sampling, because its run time is unknown", "matcher greedy)", "* w", "Psucc", "of which reading",
		"succeeded, waited")
	d := explainJob(t, handle, "2", "--connect", b)
	if len(d.Decisions) != 1 || d.Frontend != "a" || d.Job != id {
		t.Fatalf("%+v", d)
	}
	at := d.Decisions[0]
	if at.Task != 2 || at.Path != "estimation" || at.Cause != "length" || at.Work.Mean != 2e6 ||
		at.Work.Source != "hint" || at.Worker != all[2].Worker ||
		at.Outcome != "succeeded" || len(at.Candidates) != 2 || at.Candidates[at.Chosen].Worker != at.Worker {
		t.Errorf("%+v", at)
	}
	for _, c := range at.Candidates {
		if c.R != 2e6 || c.E != c.I+c.W+c.R || c.C < c.E || c.Success <= 0.9 {
			t.Errorf("%+v", c)
		}
	}
	// Two or three of the map's tasks ran at one worker. There the reduce reads from the disk, at 100 MB/s. The
	// other worker is on the same host, so the disk is equally near.
	if d = explainJob(t, id, "0", "--connect", a); d.Decisions[0].Cause != "inputs" ||
		d.Decisions[0].Candidates[0].Read != 3e6 {
		t.Errorf("%+v", d)
	}

	runPhoebe(t, "explain", id, "9", "--connect", b).wantExit(t, 2, "task 9")
	runPhoebe(t, "explain", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "--connect", b).wantExit(t, 1, "01ARZ3NDEKTSV4RRFFQ69G5FAV",
		"unknown job", "known neither here nor at 1 other")
	runPhoebe(t, "status", "--matrices", "--connect", a).wantExit(t, 0, "WAIT", "AGE", "worker w1, as a sees it",
		"2000m",
		"512MiB")

	for _, test := range []struct{ name, job, says string }{
		{"cycle", "stages: [{name: x, after: [y]}, {name: y, after: [x]}]\ntasks: [{stage: x, function: echo}, {stage: y, function: echo}]", "wait for each other: x after y after x"},
		{"unknown stage", "stages: [{name: x}]\ntasks: [{stage: z, function: echo}]", `task 0 names stage "z"`},
		{"after an unknown stage", "stages: [{name: x, after: [z]}]\ntasks: [{stage: x, function: echo}]",
			`stage "x" comes after "z"`},
		{"duplicate", "stages: [{name: x}, {name: x}]\ntasks: [{stage: x, function: echo}]",
			`two stages are called "x"`},
		{"input nowhere", "tasks: [{function: echo, inputs: [{bytes: 5}]}]", "input 0 is nowhere to be found"},
		{"digest", "tasks: [{function: echo, files: [{url: 'http://h/f', sha256: abc}]}]",
			`files[0]: sha256 "abc" of http://h/f`},
		{"mode", "mode: best\ntasks: [{function: echo}]", `job.mode "best"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			runPhoebe(t, "run", "--job", writeFile(t, test.job), "--connect", a).wantExit(t, 2, test.says)
		})
	}
	runPhoebe(t, "run", "--function", "echo", "--file", "http://h/f#sha256=12", "--connect", a).wantExit(t, 2,
		"64 hexadecimal")
	runPhoebe(t, "run", "--function", "fail", "--payload", "boom", "--mode", "estimate", "--connect", a).wantExit(t,
		1, "boom")
}

// The frontend's --long-task decides which tasks are long.
func TestLongTask(t *testing.T) {
	t.Parallel()
	c := startDev(t, "--long-task", "10ms")
	for estimate, path := range map[string]string{"5ms": "sampling", "20ms": "estimation"} {
		s := runPhoebe(t, "run", "--function", "echo", "--estimate", estimate, "--connect", c.connect).wantExit(t, 0)
		handle := regexp.MustCompile(`[0-9A-Z]{26}@\S+`).FindString(s.err)
		if d := explainJob(t, handle, "--connect", c.connect); d.Decisions[0].Path != path {
			t.Errorf("%s: %+v", estimate, d)
		}
	}
}

// The explanation of a short task says where its inputs are, also after the job has ended, and why the task read
// from far. All workers run on this machine; no worker runs on the host "elsewhere".
func TestExplainNear(t *testing.T) {
	t.Parallel()
	c := startDev(t)
	job := writeFile(t, `
tasks:
  - {function: echo, estimate: 1ms, inputs: [{bytes: 1000000, copies: [{at: worker-1}]}]}
  - {function: echo, estimate: 1ms, inputs: [{bytes: 1000000, copies: [{at: elsewhere}]}]}
  - {function: echo, estimate: 1ms, hosts: [worker-2]}
`)
	s := runPhoebe(t, "run", "--job", job, "--connect", c.connect).wantExit(t, 0)
	handle := regexp.MustCompile(`[0-9A-Z]{26}@\S+`).FindString(s.err)
	runPhoebe(t, "explain", handle, "0", "--connect", c.connect).wantExit(t, 0,
		"task 0 is placed by sampling, because it is short",
		"reading its inputs takes 6.25ms at ",
		"(worker-0, worker-1, worker-2), 12.5ms anywhere", "where reading takes 6.25ms", "their inputs are at",
		"succeeded, waited")
	runPhoebe(t, "explain", handle, "1", "--connect", c.connect).wantExit(t, 0, "takes 12.5ms anywhere",
		"where reading takes 12.5ms; it waited 0s for a worker near its inputs: no worker near its inputs is up")
	runPhoebe(t, "explain", handle, "--connect", c.connect).wantExit(t, 0,
		`they may run only at workers with hosts ["worker-2"]`)
	d := explainJob(t, handle, "0", "--connect", c.connect)
	if at := d.Decisions[0]; len(at.Near) != 2 || at.Near[0].Read != 6250 || len(at.Near[0].Workers) != 3 ||
		at.Near[1].At != "anywhere" || at.Read != 6250 || at.Far != "" {
		t.Errorf("%+v", at)
	}
}
