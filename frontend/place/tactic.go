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
	Large        bool            // tasks ride only where there is plenty of room
	Bundle       int             // tasks per message
	MessagesWait bool            // messages that may wait go out together with later messages
	Near         string          // host or rack with the inputs, where workers are drawn; "": anywhere
	Only         view.Constraint // constraint of the tasks themselves
}

// shortRun is the run time, in round trips, below which a group reserves a single place per worker. Several places
// let a job use slots that become free together. For short tasks the gain is small, because the next slot is free
// soon. And after the last task is bound, the other places at the worker ask in vain.
const shortRun = 20

// Short reports whether the tasks run for less than shortRun round trips.
func (k *Kind) Short(trip time.Duration) bool {
	run := k.Run()
	return run > 0 && run < shortRun*trip
}

// Tactic returns the tactic for the tasks of q, of this Kind, if a message and its answer take trip.
func (k *Kind) Tactic(q Queue, trip time.Duration) Tactic {
	return Tactic{
		Only: k.Set.TaskConstraint(), Run: k.Run(), Single: k.Short(trip),
		Large: k.Policy.RideAlong && k.isLarge(q), Bundle: k.Bundle(q, BundleBytes),
	}
}

func (t Tactic) String() string {
	words := []string{"it is not known how long they run"}
	if t.Run > 0 {
		words[0] = fmt.Sprintf("they run for up to %v", t.Run.Round(time.Microsecond))
	}
	for _, w := range []struct {
		holds bool
		text  string
	}{
		{t.Single, "so few round trips that one place at a worker must do"},
		{t.Large, "so many that they ride only where there is plenty of room"},
		{t.MessagesWait, "messages cost so much CPU that they wait for later messages"},
	} {
		if w.holds {
			words = append(words, w.text)
		}
	}
	if text := t.Only.String(); text != "" {
		words = append(words, "they may run only at "+text)
	}
	if t.Near != "" {
		words = append(words, fmt.Sprintf("what they read is at %s", t.Near))
	}
	if t.Bundle > 1 {
		words = append(words, fmt.Sprintf("%d go with each message", t.Bundle))
	}
	return strings.Join(words, ", ")
}
