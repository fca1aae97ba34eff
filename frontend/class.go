package frontend

import (
	"fmt"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/estimate"
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
	switch {
	case j.Job.Due > 0:
		j.due = now.Add(j.Job.Due)
	case !j.deadline.IsZero():
		j.due = now.Add(j.Deadline / 2)
	}
}

// mode is that by which a task is placed.
func (j *Job) mode(t *Task) estimate.Mode {
	if j.Class == Spare && j.Mode == estimate.Auto && len(t.Files) == 0 {
		return estimate.Sample
	}
	return j.Mode
}

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

// told says of what class the task is, and why.
func (t *task) told() string {
	if t.isBeyond() {
		return fmt.Sprintf("class %v: its job names none, and its tenant's tokens do not cover it", t.class()) + t.group.job.ages()
	}
	return t.group.told()
}

// told says of what class the group's places are, and why.
func (g *group) told() string {
	switch j := g.job; {
	case j.Class == Auto:
		return "class regular: its job names none"
	case j.Class == Regular:
		return "class regular: its job names it"
	case g.class == probe.Yielded:
		return "class yielded: its job is spare, and it may start only once" + j.ages()
	}
	return "class spare: its job names it" + g.job.ages()
}

// ages says from when on a spare job is regular.
func (j *job) ages() string {
	if j.due.IsZero() {
		return ""
	}
	return fmt.Sprintf("; regular from %v after it came", j.due.Sub(j.submitted))
}

// age is how long ago the job was submitted for the first time; less by the time that the submission was under way.
func (j *job) age(now time.Time) time.Duration { return j.Age + now.Sub(j.submitted) }

// standing is that of the group's places, or attempts, of a class from now on.
func (g *group) standing(class probe.Class, now time.Time) (s probe.Standing) {
	j := g.job
	if j.Policy.Seniority && len(j.stages) > 0 && len(j.stages[g.number].after) > 0 {
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
