package frontend

import (
	"cmp"
	"fmt"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// A job that is spare is sampled, and bound late: how long spare work waits is known nowhere, and no worker is idle to it. It looks for no idle
// workers and lets nothing ride, as these are for what is regular, and shares no turns, which have a class.
func (j *job) limitPolicy() {
	p := &j.Policy
	p.RideAlong, p.Informed, p.Overlap, p.Share, p.Bundle = false, false, false, false, false
}

// setDue sets when what is spare of a job is regular by itself.
func (j *job) setDue(now time.Time) {
	if after := j.DueAfter(); after > 0 {
		j.due = now.Add(after)
	}
}

// DueAfter is from when on what is spare of the job is regular by itself, since it was submitted; 0: never.
func (j *Job) DueAfter() time.Duration { return cmp.Or(j.Due, j.Deadline/2) }

// classOf is that of a task's places. One that may start only once is not stopped when it has started.
func (j *Job) classOf(t *Task) probe.Class {
	switch {
	case j.Class != Spare:
		return probe.Regular
	case !t.Retryable:
		return probe.Yielded
	}
	return probe.Spare
}

// isBeyond reports whether a task is at a worker, or about to be, beyond its tenant's tokens.
func (t *task) isBeyond() bool { return t.spare && t.group.class == probe.Regular }

// attemptClass is that of the next attempt at a task.
func (t *task) attemptClass() probe.Class {
	switch {
	case !t.isBeyond():
		return t.group.class
	case !t.spec.Retryable:
		return probe.Yielded
	}
	return probe.Spare
}

// ClassReason is of what class the places of a task are, and why.
type ClassReason struct {
	Class probe.Class
	Why   string
	Due   time.Duration // from when on they are regular, since the job was submitted; 0: from the start, or never
}

func (r ClassReason) String() string {
	if r.Due == 0 {
		return fmt.Sprintf("class %v: %s", r.Class, r.Why)
	}
	return fmt.Sprintf("class %v: %s; regular from %v after it came", r.Class, r.Why, r.Due)
}

// explainClass says of what class the task is, and why.
func (t *task) explainClass() ClassReason {
	if t.isBeyond() {
		return ClassReason{t.attemptClass(), "its job names none, and its tenant's tokens do not cover it", t.group.job.DueAfter()}
	}
	return t.group.explainClass()
}

// explainClass says of what class the group's places are, and why.
func (g *group) explainClass() ClassReason {
	r := ClassReason{Class: g.class, Why: "its job names it"}
	switch j := g.job; {
	case j.Class == Auto:
		r.Why = "its job names none"
	case j.Class == Spare:
		if r.Due = j.DueAfter(); g.class == probe.Yielded {
			r.Why = "its job is spare, and it may start only once"
		}
	}
	return r
}

// ageAt is how long ago the job was submitted for the first time; less by the time that the submission was under way.
func (j *job) ageAt(now time.Time) time.Duration { return j.Age + now.Sub(j.submitted) }

// isLaterStage reports whether the group is of a stage that waited for others.
func (g *group) isLaterStage() bool {
	j := g.job
	return len(j.stages) > 0 && len(j.stages[g.stageIndex].predecessors) > 0
}

// standingFor is that of the group's places, or attempts, of a class from now on.
func (g *group) standingFor(class probe.Class, now time.Time) (s probe.Standing) {
	j := g.job
	if j.Policy.Seniority && g.isLaterStage() {
		s.Age = j.ageAt(now)
	}
	if class == probe.Regular || !j.due.IsZero() && !now.Before(j.due) {
		return s
	}
	s.Class = class
	if !j.due.IsZero() {
		s.Due = j.due.Sub(now)
	}
	run := g.estimate
	if run == 0 {
		run = g.Runs.Stats().Typical()
	}
	s.Left = run * time.Duration(j.unfinished)
	return s
}
