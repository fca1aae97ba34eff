package frontend

import (
	"fmt"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/probe"
)

// Decision is one about a task: which path it goes and why, and, on the path of estimation, where it was placed
// or why it was not.
type Decision struct {
	Job     probe.JobID
	Task    probe.TaskIndex
	Path    estimate.Path
	Why     estimate.Reason   // of the path
	Choice  estimate.Decision // candidates and terms; zero for a sampled task
	At      time.Duration     // of the choice, since the job was submitted
	Tries   int               // how often it was tried since it was placed last
	Attempt probe.AttemptID   // zero: it is at no worker
	Worker  string            // of the attempt
	Outcome string            // of the attempt, so far
	Waited  time.Duration     // until it started there; 0 if that is not known
	Ran     time.Duration
	Usage   probe.Usage
}

func (d *Decision) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "task %d goes by %s: %s", d.Task, d.Path, d.Why)
	if d.Path == estimate.Estimation {
		fmt.Fprintf(&b, "\nafter %v", d.At.Round(time.Microsecond))
		if d.Tries > 1 {
			fmt.Fprintf(&b, ", at try %d", d.Tries)
		}
		fmt.Fprintf(&b, ": %s", &d.Choice)
	}
	if d.Worker != "" {
		fmt.Fprintf(&b, "\nattempt %s at %s: %s", d.Attempt, d.Worker, d.Outcome)
	}
	if d.Ran > 0 {
		fmt.Fprintf(&b, ", waited %v, ran %v", d.Waited.Round(time.Microsecond), d.Ran.Round(time.Microsecond))
	}
	if u := d.Usage; u != (probe.Usage{}) {
		fmt.Fprintf(&b, ", used %v of CPU and %d MiB, fetched %d bytes in %v", u.CPU.Round(time.Microsecond), u.Memory, u.Fetched, u.Fetch.Round(time.Microsecond))
	}
	return b.String()
}

const (
	maxDecisions = 2048 // on tasks placed by estimation that are remembered
	maxSampled   = 1024 // jobs with sampled tasks that are remembered
)

// decisions remembers the last ones, in rings.
type decisions struct {
	ring    []Decision // number n is at n%maxDecisions
	n       uint64     // ever; numbers count from 1
	sampled []sampled
	jobs    uint64 // ever in sampled
}

// sampled is a job with tasks that were sampled.
type sampled struct {
	job probe.JobID
	why estimate.Reason // of its first group
}

// get is the decision of a number, nil if it is forgotten.
func (ds *decisions) get(n uint64) *Decision {
	if n == 0 || n+maxDecisions <= ds.n {
		return nil
	}
	return &ds.ring[n%maxDecisions]
}

// sample remembers a job with sampled tasks.
func (ds *decisions) sample(job probe.JobID, why estimate.Reason) {
	if len(ds.sampled) < maxSampled {
		ds.sampled = append(ds.sampled, sampled{job, why})
	} else {
		ds.sampled[ds.jobs%maxSampled] = sampled{job, why}
	}
	ds.jobs++
}

// decided remembers a decision on x: that it goes to w, or nowhere. One that found no place again takes the place
// of the one before.
func (c *Core) decided(x *longTask, choice *estimate.Decision, w *worker, now time.Time) {
	ds, j := &c.long.log, x.task.group.job
	d := ds.get(x.decision)
	if d == nil || d.Worker != "" {
		if ds.n++; len(ds.ring) < maxDecisions {
			ds.ring = append(ds.ring, make([]Decision, min(max(2*len(ds.ring), 64), maxDecisions)-len(ds.ring))...)
		}
		x.decision = ds.n
		d = &ds.ring[ds.n%maxDecisions]
		*d = Decision{Job: j.ID, Task: x.task.spec.Index, Path: estimate.Estimation, Why: x.why}
	}
	d.Choice, d.At = *choice, now.Sub(j.submitted)
	d.Tries++
	if w != nil {
		d.Attempt, d.Worker, d.Outcome = x.task.attempt.id, w.welcome.Worker, "sent"
	}
}

// note remembers what became of an attempt of t.
func (c *Core) note(t *task, outcome string) *Decision {
	if t.long == nil {
		return nil
	}
	d := c.long.log.get(t.long.decision)
	if d != nil {
		d.Outcome = outcome
	}
	return d
}

// Explain returns what was decided on a task, or on all tasks of a job if task is negative, in the order in which
// it was: of estimated tasks all placings that are remembered, for a time after the end of the job, too. Of a
// sampled task there is one Decision, which says why it was, and where its attempt is; of a job that has ended, or
// all of whose tasks are asked for, one for all of them.
func (c *Core) Explain(job probe.JobID, task int) []Decision {
	var found []Decision
	ds := &c.long.log
	is := func(index probe.TaskIndex) bool { return task < 0 || index == probe.TaskIndex(task) }
	for n := uint64(1); n <= ds.n; n++ {
		if n+maxDecisions <= ds.n {
			n = ds.n - maxDecisions + 1
		}
		if d := ds.get(n); d.Job == job && is(d.Task) {
			found = append(found, *d)
		}
	}
	if j := c.jobs[job]; j != nil {
		for _, g := range j.groups {
			if g.path == estimate.Sampling {
				found = append(found, g.explain(task)...)
			}
		}
		return found
	}
	if len(found) > 0 && task >= 0 {
		return found
	}
	for i := range ds.sampled {
		if s := &ds.sampled[i]; s.job == job {
			return append(found, Decision{Job: job, Task: probe.TaskIndex(max(task, 0)), Why: s.why})
		}
	}
	return found
}

// explain is the Decision on a sampled task of the group, or on its first one.
func (g *group) explain(task int) []Decision {
	for i := range g.job.tasks {
		t := &g.job.tasks[i]
		if t.group != g || task >= 0 && t.spec.Index != probe.TaskIndex(task) {
			continue
		}
		d := Decision{Job: g.job.ID, Task: t.spec.Index, Why: g.why}
		if a := t.attempt; a != nil && task >= 0 {
			d.Attempt, d.Worker, d.Outcome = a.id, a.w.welcome.Worker, stateText[t.state]
		}
		return []Decision{d}
	}
	return nil
}

var stateText = [...]string{
	waiting: "waits", matching: "waits to be placed", blocked: "waits for other stages", probing: "waits for queue lengths", riding: "sent along with a reservation",
	enqueued: "sent", bound: "runs", adrift: "its link is broken", claiming: "is being claimed", done: "has ended",
}
