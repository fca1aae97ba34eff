package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/admin"
)

type explainCmd struct {
	Handle string   `arg:"" name:"job" help:"The job: JOB@OWNER, as phoebe run prints, or JOB alone to ask every frontend in --connect, and all frontends known there."`
	Task   *int     `arg:"" optional:"" help:"Number of a task, from 0. Default: all."`
	JSON   jsonFile `name:"json" placeholder:"FILE" help:"Write the decisions as JSON to this file. ${jsonFile}"`

	clientFlags
}

// Help returns the text below the usage line.
func (c *explainCmd) Help() string {
	return `Shows how each task of a job was placed, and why:
  by estimation    the candidate workers, the estimate for each, the chosen worker (marked *), and the outcome there
  by sampling      the sampled workers; for a task with inputs also where the inputs are, where the task went, after
                   which wait, and why it reads from far
  for each task    its class (regular, spare, or yielded: like spare, but not stopped once started), when it
                   becomes regular, whether its tenant's tokens cover it, and, while it is at a worker, where
                   its copy is or why it has no copy

Terms of a candidate: E = I + W + R is the time to fetch files (I), to wait for room (W), and to run
(R). Psucc is the chance that the worker stays up until then. C is E plus the expected cost of a
failure.

A frontend remembers decisions for a time after the job has ended.

Exit codes: 0 explained, 1 the job is unknown or forgotten, 2 wrong usage, 3 refused or unreachable.`
}

// Run explains a job.
func (c *explainCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	task := -1
	if c.Task != nil {
		if task = *c.Task; task < 0 || task >= maxTasks {
			return usageError(fmt.Errorf("task %d: tasks are numbered from 0", task))
		}
	}
	write, text, err := createReports(out.out, jsonReport(c.JSON, writeDocument[explanationJSON]))
	if err != nil {
		return err
	}
	h, x, err := askOwner(ctx, &c.clientFlags, log, "explain", c.Handle,
		func(ctx context.Context, cl *admin.Client, h client.Handle) (*client.Explanation, error) {
			return cl.Explain(ctx, h, task)
		})
	if err != nil {
		return err
	}
	fmt.Fprintf(text, "job %s, placed by %s\n", h.Job, quoteUnprintable([]byte(x.Frontend)))
	for i := range x.Decisions {
		if _, err := fmt.Fprintf(text, "\n%s\n", decisionText(&x.Decisions[i])); err != nil {
			return err
		}
	}
	return write(explanationOf(h.Job, x))
}

// decisionText returns the text of a decision. Names of workers with unprintable characters are quoted, because a name
// with a newline would add a line.
func decisionText(d *client.Decision) string {
	names := []string{d.Worker}
	for _, c := range d.Candidates {
		names = append(names, c.Worker)
	}
	for _, s := range d.Samples {
		for _, w := range s.Chosen {
			names = append(names, w.Worker)
		}
	}
	for _, s := range d.Near {
		names = append(append(names, s.At), s.Workers...)
	}
	text := d.Text
	for _, name := range names {
		if quoted := quoteUnprintable([]byte(name)); quoted != name {
			text = strings.ReplaceAll(text, name, quoted)
		}
	}
	return text
}

// explanationJSON is the output of `phoebe explain --json`.
type explanationJSON struct {
	Job       string         `json:"job"`
	Frontend  string         `json:"frontend"`
	Decisions []decisionJSON `json:"decisions"`
}

// decisionJSON is a decision about a task. The fields are those of client.Decision.
type decisionJSON struct {
	Task            int             `json:"task"`
	Alike           int             `json:"alike"` // other tasks with the same decision
	Path            string          `json:"path"`
	Cause           string          `json:"cause"`
	Why             string          `json:"why"`
	ThresholdMicros int64           `json:"threshold_us"`
	Work            workJSON        `json:"work"`
	AtMicros        int64           `json:"at_us"`
	Tries           int             `json:"tries"`
	Attempt         string          `json:"attempt,omitempty"`
	Worker          string          `json:"worker,omitempty"`
	Outcome         string          `json:"outcome,omitempty"`
	WaitedMicros    int64           `json:"waited_us"`
	RanMicros       int64           `json:"ran_us"`
	Usage           *usageJSON      `json:"usage,omitempty"`
	Candidates      []candidateJSON `json:"candidates"`
	Seen            int             `json:"seen"`
	Chosen          int             `json:"chosen"`
	Reason          string          `json:"reason,omitempty"`
	Samples         []sampleJSON    `json:"samples,omitempty"`
	Near            []siteJSON      `json:"near,omitempty"` // where its inputs are
	ReadMicros      int64           `json:"read_us"`        // reading inputs, at the worker
	DelayMicros     int64           `json:"delay_us"`       // how long the task waited for a worker near its inputs
	Far             string          `json:"far,omitempty"`  // why the task reads from far
	CPUMillicores   int32           `json:"cpu_millicores"` // taken of the worker
	MemoryMiB       int32           `json:"memory_mib"`     // taken of the worker
	DemandWhy       string          `json:"demand_why,omitempty"`
	Class           string          `json:"class,omitempty"`
	ClassWhy        string          `json:"class_why,omitempty"`
	DueMicros       int64           `json:"due_us"`
	Tokens          string          `json:"tokens,omitempty"`
	CopyOf          string          `json:"copy_of,omitempty"`
	Copies          string          `json:"copies,omitempty"`
}

// siteJSON is a place near a task's inputs, with the time to read the inputs there.
type siteJSON struct {
	At         string   `json:"at"`
	ReadMicros int64    `json:"read_us"`
	Workers    []string `json:"workers,omitempty"`
}

// sampleJSON is the decisions made at one time for a group of tasks.
type sampleJSON struct {
	AtMicros int64         `json:"at_us"`
	Tasks    int           `json:"tasks"`
	Tactic   string        `json:"tactic"`
	Chosen   []sampledJSON `json:"chosen"`
	More     int           `json:"more"`
}

// sampledJSON is a sampled worker, and what it got.
type sampledJSON struct {
	Worker string     `json:"worker"`
	Why    string     `json:"why"`
	Rides  int        `json:"rides"`
	Places int        `json:"places"`
	Bound  bool       `json:"bound"`
	Fates  []fateJSON `json:"fates,omitempty"`
}

// fateJSON counts the places and rides of a sampled worker with the same end.
type fateJSON struct {
	What  string `json:"what"`
	Times int    `json:"times"`
}

// workJSON is the expected run time of a task, and the source of the estimate.
type workJSON struct {
	MeanMicros int64  `json:"mean_us"`
	DevMicros  int64  `json:"deviation_us"`
	Source     string `json:"source,omitempty"`
	Samples    int    `json:"samples"`
}

// candidateJSON is a candidate worker, with the terms of its estimate.
type candidateJSON struct {
	Worker      string  `json:"worker"`
	Kind        string  `json:"kind"`
	IMicros     int64   `json:"i_us"`
	WMicros     int64   `json:"w_us"`
	RMicros     int64   `json:"r_us"`
	ReadMicros  int64   `json:"read_us"`
	Success     float64 `json:"success"`
	EMicros     int64   `json:"e_us"`
	CMicros     int64   `json:"c_us"`
	NoiseMicros int64   `json:"noise_us"`
	AgeMicros   int64   `json:"age_us"`
	Steps       int     `json:"steps"`
	FetchBytes  int64   `json:"fetch_bytes"`
	Memory      int64   `json:"memory_bytes"`
	Disk        int64   `json:"disk_bytes"`
	Rack        int64   `json:"rack_bytes"`
	Across      int64   `json:"across_bytes"`
}

// explanationOf converts an explanation to JSON.
func explanationOf(job string, x *client.Explanation) explanationJSON {
	j := explanationJSON{Job: job, Frontend: x.Frontend, Decisions: make([]decisionJSON, len(x.Decisions))}
	for i := range x.Decisions {
		d := &x.Decisions[i]
		to := &j.Decisions[i]
		*to = decisionJSON{
			Task: d.Task, Alike: d.Alike, Path: d.Path, Cause: d.Cause, Why: d.Why,
			ThresholdMicros: d.Threshold.Microseconds(),
			Work: workJSON{d.Work.Run.Microseconds(), d.Work.Dev.Microseconds(), d.Work.Source,
				d.Work.Samples},
			AtMicros: d.At.Microseconds(), Tries: d.Tries, Attempt: d.Attempt, Worker: d.Worker,
			Outcome:      d.Outcome,
			WaitedMicros: d.Waited.Microseconds(), RanMicros: d.Ran.Microseconds(), Usage: usageOf(d.Usage),
			Candidates: make([]candidateJSON, len(d.Candidates)), Seen: d.Seen, Chosen: d.Chosen, Reason: d.Reason,
			ReadMicros: d.Read.Microseconds(), DelayMicros: d.Delay.Microseconds(), Far: d.Far,
			CPUMillicores: d.Demand.CPU, MemoryMiB: d.Demand.Memory, DemandWhy: d.DemandWhy, Class: d.Class,
			ClassWhy: d.ClassWhy, DueMicros: d.Due.Microseconds(), Tokens: d.Tokens, CopyOf: d.CopyOf,
			Copies: d.Copies,
		}
		for _, s := range d.Near {
			to.Near = append(to.Near, siteJSON{s.At, s.Read.Microseconds(), s.Workers})
		}
		for k := range d.Candidates {
			c := &d.Candidates[k]
			to.Candidates[k] = candidateJSON{
				Worker: c.Worker, Kind: c.Kind, IMicros: c.I.Microseconds(), WMicros: c.W.Microseconds(),
				RMicros:    c.R.Microseconds(),
				ReadMicros: c.Read.Microseconds(), Success: c.Success, EMicros: c.E.Microseconds(),
				CMicros:     c.C.Microseconds(),
				NoiseMicros: c.Noise.Microseconds(), AgeMicros: c.Age.Microseconds(), Steps: c.Steps,
				FetchBytes: c.FetchBytes,
				Memory:     c.Memory, Disk: c.Disk, Rack: c.Rack, Across: c.Across,
			}
		}
		for _, s := range d.Samples {
			sample := sampleJSON{AtMicros: s.At.Microseconds(), Tasks: s.Tasks, Tactic: s.Tactic,
				Chosen: make([]sampledJSON, len(s.Chosen)), More: s.More}
			for k := range s.Chosen {
				w := &s.Chosen[k]
				sample.Chosen[k] = sampledJSON{Worker: w.Worker, Why: w.Why, Rides: w.Rides, Places: w.Places,
					Bound: w.Bound}
				for _, f := range w.Fates {
					sample.Chosen[k].Fates = append(sample.Chosen[k].Fates, fateJSON(f))
				}
			}
			to.Samples = append(to.Samples, sample)
		}
	}
	return j
}
