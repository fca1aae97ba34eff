package place

import (
	"fmt"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/view"
)

// Tactic says how a group spends messages on tasks of a Kind, and why.
type Tactic struct {
	Run          time.Duration   // about the longest run time expected; 0: unknown
	Single       bool            // one place per worker, because it comes round soon
	Large        bool            // the job is large: tasks ride only if twice as many workers look idle
	Bundle       int             // tasks per message
	MessagesWait bool            // messages that may wait go out together with later messages
	Near         string          // host or rack with the inputs, where workers are drawn; "": anywhere
	Only         view.Constraint // constraint of the tasks themselves
}

// shortRun is the run time, in round trips, below which a group reserves a single place per worker. Several places
// let a job use slots that become free together. For short tasks the gain is small, because the next slot is free
// soon. And after the last task is bound, the other places at the worker ask in vain.
const shortRun = 20

// IsShort reports whether the tasks run for less than shortRun round trips.
func (k *Kind) IsShort(trip time.Duration) bool {
	run := k.Run()
	return run > 0 && run < shortRun*trip
}

// Tactic returns the tactic for the tasks of q, of this Kind, if a message and its answer take trip.
func (k *Kind) Tactic(q Queue, trip time.Duration) Tactic {
	return Tactic{
		Only: k.Set.TaskConstraint(), Run: k.Run(), Single: k.IsShort(trip),
		Large: k.Policy.RideAlong && k.isLarge(q), Bundle: k.Bundle(q, BundleBytes),
	}
}

func (t Tactic) String() string {
	words := []string{"their run time is unknown"}
	if t.Run > 0 {
		words[0] = fmt.Sprintf("each runs for up to %v", max(t.Run.Round(time.Microsecond), time.Microsecond))
	}
	for _, w := range []struct {
		holds bool
		text  string
	}{
		{t.Single, "such short tasks reserve one place at a worker"},
		{t.Large, "so many tasks are sent along only if twice as many workers look idle"},
		{t.MessagesWait, "to save CPU, some messages wait to go out with later messages"},
	} {
		if w.holds {
			words = append(words, w.text)
		}
	}
	if text := t.Only.String(); text != "" {
		words = append(words, "they may run only at workers with "+text)
	}
	if t.Near != "" {
		words = append(words, fmt.Sprintf("their inputs are at %s", t.Near))
	}
	if t.Bundle > 1 {
		words = append(words, fmt.Sprintf("up to %d tasks share a message", t.Bundle))
	}
	return strings.Join(words, "; ")
}
