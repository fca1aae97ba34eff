package frontend

import (
	"slices"
	"time"

	"github.com/phoebe-sched/phoebe/probe"
)

// endForStatus returns the End for an attempt with status s. The task is tried again, so s is not Succeeded.
func endForStatus(s probe.Status) End {
	switch s {
	case probe.TimedOut:
		return EndTimedOut
	case probe.Panicked:
		return EndPanicked
	case probe.NoInput:
		return EndNoInput
	case probe.Killed:
		return EndKilled
	case probe.Preempted:
		return EndPreempted
	}
	return EndFailed
}

// CountCopies returns how many of the task's remembered attempts were copies of a late attempt.
func (o *Outcome) CountCopies() (copies int) {
	if o.Way == WayCopy {
		copies = 1
	}
	for i := range o.Earlier {
		if o.Earlier[i].Way == WayCopy {
			copies++
		}
	}
	return copies
}

// RetriedAfter returns how remembered attempts ended before the task went on with another attempt. Copies are left out,
// and so are first attempts beaten by a copy, and attempts that moved from a queue.
func (o *Outcome) RetriedAfter() (ends []End) {
	for i := range o.Earlier {
		if e := &o.Earlier[i]; e.Way != WayCopy && e.End != EndBeaten && e.End != EndStopped && e.End != EndMoved {
			ends = append(ends, e.End)
		}
	}
	return ends[:min(len(ends), max(0, o.Attempts-1))] // a lost attempt may be the last
}

// noteEarlier remembers an attempt that has ended without the task's outcome. Zero times are not known.
func (c *ledger) noteEarlier(a *attempt, end End, started, ended time.Time) {
	t := a.task
	since := func(at time.Time) time.Duration {
		if at.IsZero() {
			return 0
		}
		return max(at.Sub(a.job.submitted), 1) // 0 would mean not known
	}
	e := Earlier{
		Worker: a.w.Key, Name: a.w.Welcome().Worker, Way: t.way, End: end,
		Sent: since(a.sentAt), Started: since(started), Ended: since(ended),
	}
	if a.asCopy != nil {
		e.Way = WayCopy
	}
	if len(t.earlier) == MaxEarlier {
		t.earlier = slices.Delete(t.earlier, 0, 1)
	}
	t.earlier = append(t.earlier, e)
}

// noteEarlierStopped is noteEarlier for an attempt that is stopped now.
func (c *ledger) noteEarlierStopped(a *attempt, end End, now time.Time) {
	c.noteEarlier(a, end, a.runsSince, now)
}
