package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/phoebe-sched/phoebe/frontend/client"
)

type explainCmd struct {
	Handle string `arg:"" name:"job" help:"The job: JOB@OWNER, as phoebe run prints it, or JOB alone, which asks every frontend in --connect, and these ask others."`
	Task   *int   `arg:"" optional:"" help:"Number of one of its tasks. Default: all."`
	JSON   bool   `name:"json" help:"Print the decisions as JSON. Default: text."`

	clientFlags
}

// Help explains the terms.
func (c *explainCmd) Help() string {
	return `Tells which path each task of a job went, and why; of a task that was placed by estimation also which workers were
candidates, what was expected of each, where it went and what became of it there; of one that was sampled which workers were
chosen, and, if it has inputs, where these are, where it went, after which wait, and why far from them. Of each it tells the class
(regular, yielded or spare) and from when on it is regular, how it stands to its tenant's tokens, and where its copy is or why it has
none; the latter while it is at a worker. A frontend remembers that for a time after the job has ended. Of a candidate, C is when the task would be done, Psucc the chance that the worker is there until
then, and E = I + W + R: fetching files, waiting for room and running. The chosen one is marked with *.

Exit codes: 0 explained, 1 the job is not known, or no longer, 2 wrong usage, 3 refused or unreachable.`
}

// Run explains a job.
func (c *explainCmd) Run(ctx context.Context, out *streams, log *slog.Logger) error {
	task := -1
	if c.Task != nil {
		if task = *c.Task; task < 0 || task >= maxTasks {
			return usage(fmt.Errorf("task %d: tasks are numbered from 0", task))
		}
	}
	h, x, err := ask(ctx, &c.clientFlags, log, "explain", c.Handle, func(ctx context.Context, cl *client.Client, h client.Handle) (*client.Explanation, error) {
		return cl.Explain(ctx, h, task)
	})
	if err != nil {
		return err
	}
	if c.JSON {
		e := json.NewEncoder(out.out)
		e.SetIndent("", "  ")
		return e.Encode(explanationOf(h.Job, x))
	}
	fmt.Fprintf(out.out, "job %s, placed by %s\n", h.Job, x.Frontend)
	for i := range x.Decisions {
		if _, err := fmt.Fprintf(out.out, "\n%s\n", x.Decisions[i].Text); err != nil {
			return err
		}
	}
	return nil
}

// explanationJSON is what `phoebe explain --json` prints.
type explanationJSON struct {
	Job       string         `json:"job"`
	Frontend  string         `json:"frontend"`
	Decisions []decisionJSON `json:"decisions"`
}

type decisionJSON struct {
	Task            int             `json:"task"`
	Alike           int             `json:"alike"` // other tasks of which it tells as well
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
	ReadMicros      int64           `json:"read_us"`        // at the worker
	DelayMicros     int64           `json:"delay_us"`       // for which it had waited near them
	Far             string          `json:"far,omitempty"`  // why it reads from far
	CPUMillicores   int32           `json:"cpu_millicores"` // that it takes of its worker
	MemoryMiB       int32           `json:"memory_mib"`     // likewise
	DemandWhy       string          `json:"demand_why,omitempty"`
	Class           string          `json:"class,omitempty"`
	ClassWhy        string          `json:"class_why,omitempty"`
	DueMicros       int64           `json:"due_us"`
	Tokens          string          `json:"tokens,omitempty"`
	CopyOf          string          `json:"copy_of,omitempty"`
	Copies          string          `json:"copies,omitempty"`
}

type siteJSON struct {
	At         string   `json:"at"`
	ReadMicros int64    `json:"read_us"`
	Workers    []string `json:"workers,omitempty"`
}

type sampleJSON struct {
	AtMicros int64         `json:"at_us"`
	Tasks    int           `json:"tasks"`
	Tactic   string        `json:"tactic"`
	Chosen   []sampledJSON `json:"chosen"`
	More     int           `json:"more"`
}

type sampledJSON struct {
	Worker string     `json:"worker"`
	Why    string     `json:"why"`
	Rides  int        `json:"rides"`
	Places int        `json:"places"`
	Bound  bool       `json:"bound"`
	Fates  []fateJSON `json:"fates,omitempty"`
}

type fateJSON struct {
	What  string `json:"what"`
	Times int    `json:"times"`
}

type workJSON struct {
	MeanMicros int64  `json:"mean_us"`
	DevMicros  int64  `json:"deviation_us"`
	Source     string `json:"source,omitempty"`
	Samples    int    `json:"samples"`
}

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

func explanationOf(job string, x *client.Explanation) explanationJSON {
	j := explanationJSON{Job: job, Frontend: x.Frontend, Decisions: make([]decisionJSON, len(x.Decisions))}
	for i := range x.Decisions {
		d := &x.Decisions[i]
		to := &j.Decisions[i]
		*to = decisionJSON{
			Task: d.Task, Alike: d.Alike, Path: d.Path, Cause: d.Cause, Why: d.Why, ThresholdMicros: d.Threshold.Microseconds(),
			Work:     workJSON{d.Work.Mean.Microseconds(), d.Work.Dev.Microseconds(), d.Work.Source, d.Work.Samples},
			AtMicros: d.At.Microseconds(), Tries: d.Tries, Attempt: d.Attempt, Worker: d.Worker, Outcome: d.Outcome,
			WaitedMicros: d.Waited.Microseconds(), RanMicros: d.Ran.Microseconds(), Usage: usageOf(d.Usage),
			Candidates: make([]candidateJSON, len(d.Candidates)), Seen: d.Seen, Chosen: d.Chosen, Reason: d.Reason,
			ReadMicros: d.Read.Microseconds(), DelayMicros: d.Delay.Microseconds(), Far: d.Far,
			CPUMillicores: d.Demand.CPU, MemoryMiB: d.Demand.Memory, DemandWhy: d.DemandWhy, Class: d.Class, ClassWhy: d.ClassWhy, DueMicros: d.Due.Microseconds(), Tokens: d.Tokens, CopyOf: d.CopyOf, Copies: d.Copies,
		}
		for _, s := range d.Near {
			to.Near = append(to.Near, siteJSON{s.At, s.Read.Microseconds(), s.Workers})
		}
		for k := range d.Candidates {
			c := &d.Candidates[k]
			to.Candidates[k] = candidateJSON{
				Worker: c.Worker, Kind: c.Kind, IMicros: c.I.Microseconds(), WMicros: c.W.Microseconds(), RMicros: c.R.Microseconds(),
				ReadMicros: c.Read.Microseconds(), Success: c.Success, EMicros: c.E.Microseconds(), CMicros: c.C.Microseconds(),
				NoiseMicros: c.Noise.Microseconds(), AgeMicros: c.Age.Microseconds(), Steps: c.Steps, FetchBytes: c.FetchBytes,
				Memory: c.Memory, Disk: c.Disk, Rack: c.Rack, Across: c.Across,
			}
		}
		for _, s := range d.Samples {
			sample := sampleJSON{AtMicros: s.At.Microseconds(), Tasks: s.Tasks, Tactic: s.Tactic, Chosen: make([]sampledJSON, len(s.Chosen)), More: s.More}
			for k := range s.Chosen {
				w := &s.Chosen[k]
				sample.Chosen[k] = sampledJSON{Worker: w.Worker, Why: w.Why, Rides: w.Rides, Places: w.Places, Bound: w.Bound}
				for _, f := range w.Fates {
					sample.Chosen[k].Fates = append(sample.Chosen[k].Fates, fateJSON(f))
				}
			}
			to.Samples = append(to.Samples, sample)
		}
	}
	return j
}
