package place

import (
	"fmt"
	"math"
	"strings"
)

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
