package frontend

import (
	"cmp"
	"fmt"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// limitPolicy turns off the parts of the policy that a spare job must not use. A spare job is sampled and bound
// late, because no worker can say how long spare work will wait. Idle workers and rides are for regular tasks, so a
// spare job has no rides and does not look for idle workers. The job shares no turns, because a turn has the class
// of its place.
func (j *job) limitPolicy() {
	p := &j.Policy
	p.RideAlong, p.Informed, p.Overlap, p.Share, p.Bundle = false, false, false, false, false
}

// setDue sets the time from which spare work of the job counts as regular, if the job has such a time.
func (j *job) setDue(now time.Time) {
	if after := j.DueAfter(); after > 0 {
		j.due = now.Add(after)
	}
}

// DueAfter returns the time from submission until spare work of the job counts as regular, or 0 for never. If the job
// does not say, this is half of the deadline, which leaves the other half for regular work.
func (j *Job) DueAfter() time.Duration { return cmp.Or(j.Due, j.Deadline/2) }

// classOf returns the class of the task's places. A task of a spare job is yielded instead of spare if it may start
// only once: a started yielded task is not stopped.
func (j *Job) classOf(t *Task) probe.Class {
	switch {
	case j.Class != Spare:
		return probe.Regular
	case !t.Retryable:
		return probe.Yielded
	}
	return probe.Spare
}

// isBeyond reports whether a task is at a worker, or about to be, beyond the tenant's tokens.
func (t *task) isBeyond() bool { return t.spare && t.group.class == probe.Regular }

// attemptClass returns the class of the task's next attempt.
func (t *task) attemptClass() probe.Class {
	switch {
	case !t.isBeyond():
		return t.group.class
	case !t.spec.Retryable:
		return probe.Yielded
	}
	return probe.Spare
}

// ClassReason is the class of a task's places, with the reason.
type ClassReason struct {
	Class probe.Class
	Why   string
	Due   time.Duration // time from the job's submission until the places count as regular; 0: from the start, or never
}

func (r ClassReason) String() string {
	if r.Due == 0 {
		return fmt.Sprintf("class %v: %s", r.Class, r.Why)
	}
	return fmt.Sprintf("class %v: %s; regular from %v after the job came", r.Class, r.Why, r.Due)
}

// explainClass returns the class of the task, with the reason.
func (t *task) explainClass() ClassReason {
	if t.isBeyond() {
		return ClassReason{
			t.attemptClass(), "its job asks for none, and its tenant's tokens do not cover the task", t.group.job.DueAfter(),
		}
	}
	return t.group.explainClass()
}

// explainClass returns the class of the group's places, with the reason.
func (g *group) explainClass() ClassReason {
	r := ClassReason{Class: g.class, Why: "its job asks for it"}
	switch j := g.job; {
	case j.Class == Auto:
		r.Why = "the default, because its job asks for none"
	case j.Class == Spare:
		if r.Due = j.DueAfter(); g.class == probe.Yielded {
			r.Why = "its job is spare, and the task may start only once"
		}
	}
	return r
}

// ageAt returns the time since the job's first submission. The time that the submission to this frontend was under way
// is missing.
func (j *job) ageAt(now time.Time) time.Duration { return j.Age + now.Sub(j.submitted) }

// isLaterStage reports whether the group's stage comes after another stage.
func (g *group) isLaterStage() bool {
	j := g.job
	return len(j.stages) > 0 && len(j.stages[g.stageIndex].predecessors) > 0
}

// standingFor returns the standing, from now on, of the group's places or attempts of a class: age, class, time
// until due, and the work left in the job.
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
