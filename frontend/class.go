package frontend

import (
	"cmp"
	"fmt"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// A job that is spare is sampled, and bound late: how long spare work waits is known nowhere, and no worker is idle to it. It looks for no idle
// workers and lets nothing ride, as these are for what is regular, and shares no turns, which have a class.
func (j *job) spare() {
	p := &j.Policy
	p.RideAlong, p.Informed, p.Overlap, p.Share, p.Bundle = false, false, false, false, false
}

// ageFrom sets when what is spare of a job is regular by itself.
func (j *job) ageFrom(now time.Time) {
	if in := j.Ages(); in > 0 {
		j.due = now.Add(in)
	}
}

// Ages is from when on what is spare of the job is regular by itself, since it was submitted; 0: never.
func (j *Job) Ages() time.Duration { return cmp.Or(j.Due, j.Deadline/2) }

// class is that of a task's places. One that may start only once is not stopped when it has started.
func (j *Job) class(t *Task) probe.Class {
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

// class is that of the next attempt at a task.
func (t *task) class() probe.Class {
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

// told says of what class the task is, and why.
func (t *task) told() ClassReason {
	if t.isBeyond() {
		return ClassReason{t.class(), "its job names none, and its tenant's tokens do not cover it", t.group.job.Ages()}
	}
	return t.group.told()
}

// told says of what class the group's places are, and why.
func (g *group) told() ClassReason {
	r := ClassReason{Class: g.class, Why: "its job names it"}
	switch j := g.job; {
	case j.Class == Auto:
		r.Why = "its job names none"
	case j.Class == Spare:
		if r.Due = j.Ages(); g.class == probe.Yielded {
			r.Why = "its job is spare, and it may start only once"
		}
	}
	return r
}

// age is how long ago the job was submitted for the first time; less by the time that the submission was under way.
func (j *job) age(now time.Time) time.Duration { return j.Age + now.Sub(j.submitted) }

// later reports whether the group is of a stage that waited for others.
func (g *group) later() bool {
	j := g.job
	return len(j.stages) > 0 && len(j.stages[g.number].after) > 0
}

// standing is that of the group's places, or attempts, of a class from now on.
func (g *group) standing(class probe.Class, now time.Time) (s probe.Standing) {
	j := g.job
	if j.Policy.Seniority && g.later() {
		s.Age = j.age(now)
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
	s.Left = run * time.Duration(j.left)
	return s
}
