package estimate

import (
	"fmt"
	"time"
)

// Mode says how a job's tasks are placed.
type Mode uint8

const (
	Auto     Mode = iota // each task by the way suited to it
	Sample               // all by sampling and late binding
	Estimate             // all by estimated completion time
)

var modeNames = [...]string{"auto", "sample", "estimate"}

func (m Mode) String() string { return modeNames[m] }

// ParseMode parses the text of String.
func ParseMode(s string) (Mode, error) {
	for m, name := range modeNames {
		if name == s {
			return Mode(m), nil
		}
	}
	return Auto, fmt.Errorf("mode %q is unknown: use one of %q", s, modeNames)
}

// Path is the way a task is placed.
type Path uint8

const (
	Sampling Path = iota
	Estimation
)

var pathNames = [...]string{"sampling", "estimation"}

func (p Path) String() string { return pathNames[p] }

// Needs are the reasons for a task to prefer some workers. Labels and hosts are not among the reasons: a task with
// labels or hosts is sampled among the matching workers.
type Needs struct {
	Reads time.Duration // time to read its inputs, if the inputs are in another rack
	Files bool          // the task needs files
}

// Stray bounds the run time of a task that is sampled although it is long: Stray times the threshold, if the tasks
// of its job are short on average. The job waits for a stray as for its other tasks. Tasks queued behind a stray
// wait no longer than behind several of the job's other tasks.
const Stray = 4

// Cause is the reason for a task's path.
type Cause uint8

const (
	ByMode Cause = iota // the job's mode
	ByPolicy
	ByInputs
	ByFiles
	ByIgnorance
	ByLength
	ByBrevity
	ByClass // the job is spare and needs no files
)

// Reason is a Cause with the values behind it.
type Reason struct {
	Cause     Cause
	Work      Work
	Reads     time.Duration // longest time to read its inputs
	Threshold time.Duration // a task of this run time or longer is long
	Usual     time.Duration // mean hint of its job's tasks; 0: no hints
}

func (r Reason) String() string {
	switch r.Cause {
	case ByMode:
		return "the job's mode asks for it"
	case ByPolicy:
		return "the job's policy samples every task"
	case ByClass:
		return "its job is spare, and no frontend knows how long spare work waits"
	case ByInputs:
		return fmt.Sprintf("its inputs may take %s to read, and it is %s; %s or more in all is long",
			formatTime(r.Reads), r.Work, formatTime(r.Threshold))
	case ByFiles:
		return "it needs files"
	case ByIgnorance:
		return "its run time is unknown: it has no estimate, and no task like it has finished"
	case ByLength:
		return fmt.Sprintf("it is long: %s; %s or more is long", r.Work, formatTime(r.Threshold))
	}
	if r.Work.Run >= r.Threshold {
		return fmt.Sprintf("its job is short on the whole: it is %s, and the tasks of its job run for %s on average; "+
			"%s or more is long", r.Work, formatTime(r.Usual), formatTime(r.Threshold))
	}
	return fmt.Sprintf("it is short: %s; %s or more is long", r.Work, formatTime(r.Threshold))
}

// Route chooses the path of a task and gives the reason. In mode Auto, short tasks are sampled. Tasks without a known
// run time are sampled too, because late binding does not depend on run times (Sparrow, section 3.5). A task is
// estimated if the task needs files, or if the run and the reading of inputs together take threshold or longer. Stray
// has the exception.
func Route(m Mode, n Needs, w Work, usual, threshold time.Duration) (Path, Reason) {
	r := Reason{Work: w, Reads: n.Reads, Threshold: threshold, Usual: usual}
	switch {
	case m == Sample:
		r.Cause = ByMode
		return Sampling, r
	case m == Estimate:
		r.Cause = ByMode
	case n.Files:
		r.Cause = ByFiles
	case n.Reads >= threshold, n.Reads > 0 && w.Source != FromNothing && w.Run < threshold &&
		w.Run+n.Reads >= threshold:
		r.Cause = ByInputs
	case w.Source == FromNothing:
		r.Cause = ByIgnorance
		return Sampling, r
	case w.Run >= threshold && (usual == 0 || usual >= threshold || w.Run >= Stray*threshold):
		r.Cause = ByLength
	default:
		r.Cause = ByBrevity
		return Sampling, r
	}
	return Estimation, r
}
