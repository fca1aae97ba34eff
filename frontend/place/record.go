package place

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/phoebe-sched/phoebe/frontend/view"
)

// Tactic is what the messages of a Kind are spent on, and why: how many tasks a turn gets, whether a place is kept after
// its turn, and where tasks ride.
type Tactic struct {
	Run    time.Duration   // near the longest that a task is believed to run; 0: nothing is known
	Brief  bool            // one place at each worker, and turns are shared
	Short  bool            // tasks ride to any workers, places are not kept
	Large  bool            // tasks ride only where there is plenty of room
	Sticky bool            // places are kept while tasks wait
	Bundle int             // tasks with each message
	Near   string          // the host or rack at which workers are drawn, as inputs are there; empty: anywhere
	Only   view.Constraint // of the tasks themselves: others could not run them
}

// Tactic is the one of the tasks of q, of this Kind, while messages take so long there and back.
func (k *Kind) Tactic(q Queue, trip time.Duration) Tactic {
	return Tactic{
		Only: k.Set.Own(), Run: k.Run(), Brief: k.Brief(), Short: k.Short(trip), Large: k.Policy.RideAlong && k.large(q), Sticky: k.Sticky, Bundle: k.Bundle(q, BundleBytes),
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
		{t.Brief, "so briefly that one place at a worker must do"},
		{t.Short, "so few round trips that they ride to any workers"},
		{t.Large, "so many that they ride only where there is plenty of room"},
		{t.Sticky, "places are kept"},
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

// Fate is what can become of a place.
type Fate uint8

const (
	Started   Fate = iota // with the task that rode along
	Returned              // its task came back, and it waits for its turn
	Bound                 // its turn came, and it got a task
	Lent                  // its turn came, and went to another job
	Declined              // its turn came in vain
	Withdrawn             // nothing waits for it any more
	Gone                  // refused, evicted, or the link broke
	Used                  // its turn was its last one
	fates
)

var fateNames = [...]string{
	Started: "started at once", Returned: "came back", Bound: "turns got a task", Lent: "turns went to another job", Declined: "turns came in vain",
	Withdrawn: "withdrawn", Gone: "gone", Used: "used up",
}

// Fates counts what became of the places of a Decision, up to what it can hold.
type Fates [fates]uint16

// Add counts n more.
func (f *Fates) Add(fate Fate, n int) {
	f[fate] = uint16(min(int(f[fate])+n, math.MaxUint16))
}

// Count is how often something became of a place.
type Count struct {
	What  string
	Times int
}

// Counts are those that are not 0.
func (f Fates) Counts() []Count {
	var counts []Count
	for fate, n := range f {
		if n > 0 && Fate(fate) != Used {
			counts = append(counts, Count{fateNames[fate], int(n)})
		}
	}
	return counts
}

func (f Fates) String() string {
	var words []string
	for _, c := range f.Counts() {
		words = append(words, fmt.Sprintf("%d %s", c.Times, c.What))
	}
	return strings.Join(words, ", ")
}
