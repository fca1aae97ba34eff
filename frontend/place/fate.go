package place

import (
	"fmt"
	"math"
	"strings"
)

// Fate is the outcome of a reserved place, or of a turn of the place.
type Fate uint8

const (
	Started   Fate = iota // started at once, with the task that rode along
	Returned              // the task came back, and the place waits for a turn
	Bound                 // the turn came, and got a task
	Shared                // the turn came, and went to another job
	Declined              // the turn came in vain
	Withdrawn             // the job needs it no more
	Gone                  // refused, evicted, or the link broke
	Used                  // its last turn has ended
	fates
)

// fateNames are words for one place of a fate, and for more places.
var fateNames = [...][2]string{
	Started:   {"task started at once", "tasks started at once"},
	Returned:  {"task came back", "tasks came back"},
	Bound:     {"turn got a task", "turns got a task"},
	Shared:    {"turn went to another job", "turns went to another job"},
	Declined:  {"turn got no task", "turns got no task"},
	Withdrawn: {"place withdrawn", "places withdrawn"},
	Gone:      {"place lost", "places lost"},
	Used:      {"place used up", "places used up"},
}

// Fates counts the places of a Decision by fate. Each counter stops at 65535.
type Fates [fates]uint16

// Add counts n more places of a fate.
func (f *Fates) Add(fate Fate, n int) {
	f[fate] = uint16(min(int(f[fate])+n, math.MaxUint16))
}

// Count is the number of places of a fate.
type Count struct {
	What  string
	Times int
}

// Counts returns the counts that are not 0, except Used.
func (f Fates) Counts() []Count {
	var counts []Count
	for fate, n := range f {
		if n > 0 && Fate(fate) != Used {
			counts = append(counts, Count{fateNames[fate][min(n-1, 1)], int(n)})
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
