package frontend

import (
	"time"

	"github.com/phoebe-sched/phoebe/frontend/view"
	"github.com/phoebe-sched/phoebe/probe"
)

// AttemptState is the state of an attempt that has not ended, as far as the frontend knows.
type AttemptState uint8

const (
	AttemptSent   AttemptState = iota + 1 // on the way to the worker
	AttemptQueued                         // in the queue of the worker
	AttemptRuns
	AttemptCutOff // the link to the worker is broken: the attempt may run, or may have ended
)

// UnderWay is an attempt that has not ended. Moments are since the submission of the job.
type UnderWay struct {
	Task    probe.TaskIndex
	Stage   int32
	Tries   int // attempts at the task so far, copies included
	Worker  Worker
	Name    string // of the worker
	Way     Way
	State   AttemptState
	Sent    time.Duration // 0: not known, because another frontend sent the attempt
	Started time.Duration // about the start of the run; 0: has not started, or not known
	Use     probe.Use     // of a process, as last reported; Ran is 0 if not known
}

// stateOf returns the state of an attempt. A worker sends no message when a task that rode along starts at once, but
// sends the task back if there is no room. So a ride that has not come back within a round trip runs.
func (c *ledger) stateOf(a *attempt, now time.Time) AttemptState {
	switch {
	case a.w.State() == view.Adrift:
		return AttemptCutOff
	case !a.hasStarted:
		return AttemptQueued
	case a.isRiding && now.Sub(a.sentAt) <= c.view.Trip():
		return AttemptSent
	}
	return AttemptRuns
}

// AppendUnderWay appends the attempts that have not ended, of at most count tasks of a job, to list. The tasks are in
// the order in which they were submitted, from position from on. The result next is the position to go on with, or 0 if
// there are no more tasks.
func (c *Core) AppendUnderWay(
	list []UnderWay, id probe.JobID, from, count int, now time.Time,
) (_ []UnderWay, next int) {
	j := c.byID[id]
	if j == nil || from >= len(j.tasks) {
		return list, 0
	}
	since := func(at time.Time) time.Duration {
		if at.IsZero() {
			return 0
		}
		return max(at.Sub(j.submitted), 1) // 0 would mean not known
	}
	until := min(from+count, len(j.tasks))
	for _, t := range j.tasks[from:until] {
		for _, a := range t.liveAttempts() {
			x := UnderWay{
				Task: t.spec.Index, Stage: t.spec.Stage, Tries: t.attempts, Worker: a.w.Key, Name: a.w.Welcome().Worker,
				Way: t.way, State: c.stateOf(a, now), Sent: since(a.sentAt), Started: since(a.runsSince),
				Use: a.use(),
			}
			if a.asCopy != nil {
				x.Way = WayCopy
			}
			if x.State == AttemptSent {
				x.Started = 0
			}
			list = append(list, x)
		}
	}
	if until == len(j.tasks) {
		until = 0
	}
	return list, until
}
