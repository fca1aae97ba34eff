package place

import (
	"fmt"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/view"
)

// Tactic is what the messages for a Kind are spent on, and why.
type Tactic struct {
	Run          time.Duration   // near the longest that a task is believed to run; 0: nothing is known
	Single       bool            // one place at each worker, for it comes round again soon enough
	Large        bool            // tasks ride only where there is plenty of room
	Bundle       int             // tasks with each message
	MessagesWait bool            // messages that may wait for others do
	Near         string          // the host or rack at which workers are drawn, as inputs are there; empty: anywhere
	Only         view.Constraint // of the tasks themselves: others could not run them
}

// shortRun is how many round trips tasks run of which one place at each worker must do. With several of them a job gets slots
// that fall free together, which is worth the less the sooner the next one does, and all but the first of its last tasks
// ask in vain.
const shortRun = 20

// Short reports whether the tasks run for so few round trips.
func (k *Kind) Short(trip time.Duration) bool {
	run := k.Run()
	return run > 0 && run < shortRun*trip
}

// Tactic is the one of the tasks of q, of this Kind, while messages take so long there and back.
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
		{t.MessagesWait, "messages are so dear that they wait for others"},
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
