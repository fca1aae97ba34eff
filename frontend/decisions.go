package frontend

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
	"github.com/phoebe-sched/phoebe/frontend/place"
	"github.com/phoebe-sched/phoebe/probe"
)

// Decision is a decision about a task: the path of the task and why, and, for estimation, the chosen worker or
// the reason for a delay.
type Decision struct {
	Job     probe.JobID
	Task    probe.TaskIndex
	Alike   int // number of further tasks with the same decision
	Path    estimate.Path
	Why     estimate.Reason   // of the path
	Class   ClassReason       // of the task's places
	Demand  DemandReason      // of the task for a worker's CPU and memory
	Choice  estimate.Decision // candidates and terms; zero for a sampled task
	At      time.Duration     // of the choice, since the job was submitted
	Tries   int               // tries since the task was placed last; 0: not tried yet, or sampled
	Attempt probe.AttemptID   // zero: the task is at no worker
	Worker  string            // of the attempt
	Outcome string            // of the attempt, so far; without an attempt: the state of the task
	Unbegun bool              // the task ended while it waited for other stages, so it has no path
	Waited  time.Duration     // until the task started at Worker; 0: not known
	Ran     time.Duration
	Usage   probe.Usage
	Budget  string          // the tenant's tokens or maximum, as far as the task depends on them; "": no limits
	CopyOf  probe.AttemptID // of a copy: the late attempt; zero: no copy, or made by an earlier frontend
	Copies  string          // of a task under way: the worker of the copy, or why there is no copy
	Samples []Sample        // of a sampled task's whole group, as far as remembered

	Near  []Site        // of a sampled task with inputs: the sites of the inputs, nearest first, and at last anywhere
	Read  time.Duration // how long reading the inputs takes at Worker
	Delay time.Duration // from the start of the wait until the task was given to Worker
	Far   Far           // why the inputs are not read at the nearest site

	group int // of a sampled task
}

// Site is where a task may read its inputs: at a host, in a rack, or anywhere.
type Site struct {
	estimate.Site
	Workers []string // some workers up there; empty for the site anywhere
}

func (s *Site) String() string {
	text := fmt.Sprintf("%v %s", s.Read.Round(time.Microsecond), s.Where())
	if len(s.Workers) > 0 {
		text += " (" + strings.Join(s.Workers, ", ") + ")"
	}
	return text
}

// Far says why a task does not read its inputs at the nearest site.
type Far uint8

const (
	Nearest Far = iota // the task reads there
	Waited             // the task waited near the inputs for the extra time that reading elsewhere takes
	Crowded            // reading elsewhere was quicker than waiting near the inputs
	Nowhere            // no worker is up near the inputs
)

var farText = [...]string{
	Nearest: "",
	Waited:  "no worker near its inputs took the task within the extra reading time at this worker",
	Crowded: "a wait for a worker near its inputs would have taken longer than the extra reading time at this worker",
	Nowhere: "no worker near its inputs is up",
}

func (f Far) String() string { return farText[f] }

// Sample is the decisions made at a time for the waiting tasks of a group.
type Sample struct {
	At     time.Duration // since the job was submitted
	Tasks  int           // waiting then
	Tactic place.Tactic
	Chosen []Sampled
	More   int // further chosen workers, not remembered
}

// Sampled is a chosen worker, and the fates of the places there so far.
type Sampled struct {
	Worker        string
	Why           place.Why
	Rides, Places int  // tasks sent along with reservations, and reservations without a task
	Bound         bool // instead of rides and places, a task was bound at once
	Fates         place.Fates
}

func (s *Sample) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v after the job came, %s waited; %s:",
		s.At.Round(time.Microsecond), countNoun(s.Tasks, "task"), s.Tactic)
	for i := range s.Chosen {
		d := &s.Chosen[i]
		fmt.Fprintf(&b, "\n  %s (%s): ", d.Worker, d.Why)
		switch {
		case d.Bound:
			b.WriteString("got 1 task, bound at once")
		case d.Rides == 0:
			fmt.Fprintf(&b, "got %s in its queue", countNoun(d.Places, "place"))
		case d.Places == 0:
			fmt.Fprintf(&b, "got %s", countNoun(d.Rides, "task"))
		default:
			fmt.Fprintf(&b, "got %s, and %s in its queue", countNoun(d.Rides, "task"), countNoun(d.Places, "place"))
		}
		if text := d.Fates.String(); text != "" {
			fmt.Fprintf(&b, "; %s", text)
		}
	}
	if s.More > 0 {
		fmt.Fprintf(&b, "\n  and %s more, not remembered", countNoun(s.More, "worker"))
	}
	return b.String()
}

// countNoun writes a number and a noun, in the plural unless n is 1.
func countNoun(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

func (d *Decision) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "task %d", d.Task)
	if d.Alike > 0 {
		fmt.Fprintf(&b, " (and %d more like it)", d.Alike)
	}
	if d.Unbegun {
		b.WriteString(" never began, because it ended before the stages that it waited for")
	} else {
		fmt.Fprintf(&b, " is placed by %s, because %s", d.Path, d.Why)
	}
	if d.Tries > 0 {
		fmt.Fprintf(&b, "\n%v after the job came", d.At.Round(time.Microsecond))
		if d.Tries > 1 {
			fmt.Fprintf(&b, ", at try number %d", d.Tries)
		}
		fmt.Fprintf(&b, ", %s", &d.Choice)
	}
	if d.Budget != "" {
		fmt.Fprintf(&b, "\n%s", d.Budget)
	}
	for i := range d.Near {
		fmt.Fprintf(&b, "%s%s", [...]string{"\nreading its inputs takes ", ", "}[min(i, 1)], &d.Near[i])
	}
	if len(d.Near) > 0 && d.Worker != "" {
		fmt.Fprintf(&b, "\n%v after the job came, it went to %s, where reading takes %v; "+
			"it waited %v for a worker near its inputs",
			d.At.Round(time.Microsecond), d.Worker, d.Read.Round(time.Microsecond),
			d.Delay.Round(time.Microsecond))
		if d.Far != Nearest {
			fmt.Fprintf(&b, ": %s", d.Far)
		}
	}
	if d.Worker != "" {
		fmt.Fprintf(&b, "\nattempt %s at %s: %s", d.Attempt, d.Worker, d.Outcome)
	} else if d.Outcome != "" {
		fmt.Fprintf(&b, "\nit %s", d.Outcome)
	}
	if d.Ran > 0 {
		fmt.Fprintf(&b, ", waited %v, ran %v", d.Waited.Round(time.Microsecond), d.Ran.Round(time.Microsecond))
	}
	if u := d.Usage; u != (probe.Usage{}) {
		fmt.Fprintf(&b, ", used %v of CPU and %d MiB, fetched %d bytes in %v",
			u.CPU.Round(time.Microsecond), u.Memory, u.Fetched, u.Fetch.Round(time.Microsecond))
	}
	fmt.Fprintf(&b, "\n%s\n%s", d.Demand, d.Class)
	if d.Copies != "" {
		fmt.Fprintf(&b, "\n%s", d.Copies)
	}
	for i := range d.Samples {
		fmt.Fprintf(&b, "\n%s", &d.Samples[i])
	}
	return b.String()
}

// These numbers bound the memory of explanations. They were chosen, and not measured.
const (
	maxSamples   = 1024 // samples remembered
	maxChosen    = 32   // workers remembered of each sample
	maxDecisions = 2048 // decisions remembered in each ring: on long tasks, on tasks near inputs, and on copies
	maxSampled   = 1024 // jobs with sampled tasks remembered
)

// decisions remembers the last decisions, in rings.
type decisions struct {
	long            ring // on tasks placed by estimation
	near            ring // on tasks sampled near their inputs
	copies          ring // to copy attempts
	sampledJobs     []sampledJob
	sampledJobsEver uint64 // ever added to the sampled jobs
	samples         []storedSample
	samplesEver     uint64      // samples ever taken; numbers count from 1
	forgotten       place.Fates // fates of forgotten samples, never read
}

// ring is the last decisions of a kind.
type ring struct {
	list []Decision // number n is at n%maxDecisions
	n    uint64     // decisions ever made; numbers count from 1
}

// add returns room for a new decision with the number n. The oldest decision may be overwritten.
func (r *ring) add() *Decision {
	if r.n++; len(r.list) < maxDecisions {
		r.list = append(r.list, make([]Decision, min(max(2*len(r.list), 64), maxDecisions)-len(r.list))...)
	}
	return &r.list[r.n%maxDecisions]
}

// get returns the decision with number n, or nil if the ring has forgotten n.
func (r *ring) get(n uint64) *Decision {
	if n == 0 || n+maxDecisions <= r.n {
		return nil
	}
	return &r.list[n%maxDecisions]
}

// ofJob returns the decisions on matching tasks of a job, oldest first.
func (r *ring) ofJob(job probe.JobID, matches func(probe.TaskIndex) bool) []Decision {
	var found []Decision
	for n := max(r.n, maxDecisions) - maxDecisions + 1; n <= r.n; n++ {
		if d := r.get(n); d.Job == job && matches(d.Task) {
			found = append(found, *d)
		}
	}
	return found
}

// storedSample is a Sample in the smallest form: each job has a sample, and many are kept.
type storedSample struct {
	job    probe.JobID
	group  int // of the job
	at     time.Duration
	tasks  int
	tactic place.Tactic
	chosen []storedChoice
	more   int
}

// storedChoice is a Sampled in the smallest form.
type storedChoice struct {
	worker        Worker
	incarnation   uint32 // the low 32 bits of the worker's incarnation
	rides, places uint16
	why           place.Why
	bound         bool
	fates         place.Fates
}

// recordSample remembers decisions for a number of tasks of a group, and returns the number of the sample.
func (ds *decisions) recordSample(g *group, tasks int, decided []place.Decision, t place.Tactic, now time.Time) uint64 {
	ds.samplesEver++
	if len(ds.samples) < maxSamples {
		ds.samples = append(ds.samples, storedSample{})
	}
	s := &ds.samples[(ds.samplesEver-1)%maxSamples]
	*s = storedSample{
		at: now.Sub(g.job.submitted), tasks: tasks, tactic: t, chosen: s.chosen[:0], job: g.job.ID, group: g.index,
	}
	n := min(len(decided), maxChosen)
	s.more, s.chosen = len(decided)-n, slices.Grow(s.chosen, n)
	for i := range n {
		d := &decided[i]
		s.chosen = append(s.chosen, storedChoice{
			worker: d.Worker.Key, incarnation: uint32(d.Worker.Welcome().Incarnation), why: d.Why,
			rides: uint16(d.Rides), places: uint16(d.Places), bound: d.Bound,
		})
	}
	return ds.samplesEver
}

// fatesOf returns the fates of the places of r. For a forgotten sample the result is written and never read.
func (ds *decisions) fatesOf(r *reservation) *place.Fates {
	if r.sampleNumber == 0 || r.sampleNumber+maxSamples <= ds.samplesEver || r.sampleIndex >= maxChosen {
		return &ds.forgotten
	}
	return &ds.samples[(r.sampleNumber-1)%maxSamples].chosen[r.sampleIndex].fates
}

// sampledJob is a job with sampled tasks.
type sampledJob struct {
	job         probe.JobID
	first, last probe.TaskIndex // the range of the tasks' indices
	tasks       int
	why         estimate.Reason // of the first task
	class       ClassReason     // likewise
	demand      DemandReason    // likewise
	budget      string          // on the wait for the tenant's maximum, once the job has ended; "": no task waited
	unbegun     []taskRange     // likewise: the tasks that ended while they waited for other stages
}

// maxUnbegun bounds the ranges of unbegun tasks that are remembered of a job. The number was chosen.
const maxUnbegun = 64

// noteUnbegun notes that a task ended while it waited for other stages. Jobs end their tasks by ascending index as a
// rule, so a stage is one range.
func (j *job) noteUnbegun(t *task) {
	index, n := t.spec.Index, len(j.unbegun)
	switch {
	case n > 0 && j.unbegun[n-1].last+1 == index:
		j.unbegun[n-1].last = index
	case n < maxUnbegun:
		j.unbegun = append(j.unbegun, taskRange{first: index, last: index})
	default:
		return
	}
	if t.group.path == estimate.Sampling {
		j.unbegun[len(j.unbegun)-1].sampled++
	}
}

// hasBegun reports whether the task with the given index did not end while it waited for other stages.
func (s *sampledJob) hasBegun(index probe.TaskIndex) bool {
	return !slices.ContainsFunc(s.unbegun, func(r taskRange) bool { return r.first <= index && index <= r.last })
}

// explain returns a Decision on a task, or, if task is negative, on the tasks that began and on the others. Samples are
// left out.
func (s *sampledJob) explain(task int) (found []Decision) {
	d := Decision{
		Job: s.job, Task: probe.TaskIndex(task), Why: s.why, Class: s.class, Demand: s.demand, Budget: s.budget,
	}
	if task >= 0 {
		d.Unbegun = !s.hasBegun(d.Task)
		return append(found, d)
	}
	began, unbegun := s.tasks, 0
	for _, r := range s.unbegun {
		if s.first <= r.last && r.first <= s.last {
			began, unbegun = began-r.sampled, unbegun+int(r.last-r.first)+1
		}
	}
	if began > 0 {
		for d.Task = s.first; !s.hasBegun(d.Task); {
			d.Task++
		}
		d.Alike = began - 1
		found = append(found, d)
	}
	if unbegun > 0 {
		d.Task, d.Alike, d.Unbegun = s.unbegun[0].first, unbegun-1, true
		found = append(found, d)
	}
	return found
}

// addGroup adds the sampled tasks of a group. The range goes by the first and the last task of the queue, because jobs
// list their tasks by ascending index as a rule.
func (s *sampledJob) addGroup(g *group) {
	first, last := g.queue.First().spec.Index, g.queue.Last().spec.Index
	if s.tasks == 0 || first < s.first {
		s.first, s.why, s.class, s.demand = first, g.pathReason, g.explainClass(), g.explainDemand()
	}
	s.last = max(s.last, last)
	s.tasks += g.queue.Len()
}

// noteEndedJob notes, at the end of a job, that tasks waited for the maximum of their tenant, and which tasks never
// began.
func (ds *decisions) noteEndedJob(j *job) {
	if j.longestHeld == 0 && len(j.unbegun) == 0 {
		return
	}
	for i := range ds.sampledJobs {
		if s := &ds.sampledJobs[i]; s.job == j.ID {
			if s.unbegun = j.unbegun; j.longestHeld > 0 {
				s.budget = explainHeld(j.tenant.name, j.longestHeld)
			}
		}
	}
}

// explainHeld explains to people that tasks waited for the maximum of their tenant.
func explainHeld(tenant string, longest time.Duration) string {
	return fmt.Sprintf("tenant %q used its maximum: held for up to %v", tenant, longest.Round(time.Microsecond))
}

// recordSampledJob remembers a job with sampled tasks. The oldest may be overwritten.
func (ds *decisions) recordSampledJob(s sampledJob) {
	if len(ds.sampledJobs) < maxSampled {
		ds.sampledJobs = append(ds.sampledJobs, s)
	} else {
		ds.sampledJobs[ds.sampledJobsEver%maxSampled] = s
	}
	ds.sampledJobsEver++
}

var stateText = [...]string{
	waiting: "waits for a turn in a worker's queue", matching: "waits to be placed", blocked: "waits for other stages",
	held: "waits until its tenant uses less", probing: "waits for queue lengths",
	riding: "sent along with a reservation", enqueued: "sent", bound: "runs", adrift: "its link is broken",
	claiming: "is being claimed", resting: "rests before it is tried again", done: "has ended",
}
