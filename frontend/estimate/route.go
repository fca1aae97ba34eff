package estimate

import (
	"fmt"
	"time"
)

// Mode is how a job's tasks are placed.
type Mode uint8

const (
	Auto     Mode = iota // each task by whichever way suits it
	Sample               // all by sampling and late binding
	Estimate             // all by estimated completion time
)

var modeNames = [...]string{"auto", "sample", "estimate"}

func (m Mode) String() string { return modeNames[m] }

// ParseMode reads what String writes.
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

// Needs are what makes a task care where it runs. Labels and hosts of its own are none: it is sampled among the
// workers that have them.
type Needs struct {
	Reads time.Duration // its inputs, if they are in another rack
	Files bool          // it needs files fetched
}

// Stray is how many times the threshold a task may run and still not be long, if the tasks of its job are short on
// average: the job waits for it as for the others, and those that wait behind it do so for no longer than behind
// several of these.
const Stray = 4

// Cause is why a task goes its path.
type Cause uint8

const (
	ByMode Cause = iota // the job says so
	ByPolicy
	ByInputs
	ByFiles
	ByIgnorance
	ByLength
	ByBrevity
	ByClass // the job is spare, and needs no files
)

// Reason is the choice of a path, with what it was made from.
type Reason struct {
	Cause     Cause
	Work      Work
	Reads     time.Duration // its inputs, at most
	Threshold time.Duration // from which on a task is long
	Usual     time.Duration // mean of what the hints of its job's tasks say; 0: there are none
}

func (r Reason) String() string {
	switch r.Cause {
	case ByMode:
		return "the job's mode says so"
	case ByPolicy:
		return "the job's policy samples only"
	case ByClass:
		return "its job is spare: how long such work waits is known nowhere"
	case ByInputs:
		return fmt.Sprintf("its inputs may take %s to read: %s, threshold %s", formatSeconds(r.Reads), r.Work, formatSeconds(r.Threshold))
	case ByFiles:
		return "needs files"
	case ByIgnorance:
		return "nothing is known of its run time"
	case ByLength:
		return fmt.Sprintf("long: %s, threshold %s", r.Work, formatSeconds(r.Threshold))
	}
	if r.Work.Mean >= r.Threshold {
		return fmt.Sprintf("short on the whole: %s, the tasks of its job %s on average, threshold %s", r.Work, formatSeconds(r.Usual), formatSeconds(r.Threshold))
	}
	return fmt.Sprintf("short: %s, threshold %s", r.Work, formatSeconds(r.Threshold))
}

// Route chooses the path of a task and says why. In mode auto, tasks that are short are sampled; so are those of which nothing is known, because late binding does not depend on
// knowing. Tasks whose work, with reading their inputs, takes threshold or longer, and those that need files, are estimated;
// but see Stray.
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
	case n.Reads >= threshold, n.Reads > 0 && w.Source != FromNothing && w.Mean < threshold && w.Mean+n.Reads >= threshold:
		r.Cause = ByInputs
	case w.Source == FromNothing:
		r.Cause = ByIgnorance
		return Sampling, r
	case w.Mean >= threshold && (usual == 0 || usual >= threshold || w.Mean >= Stray*threshold):
		r.Cause = ByLength
	default:
		r.Cause = ByBrevity
		return Sampling, r
	}
	return Estimation, r
}
