package record

import (
	"cmp"
	"time"

	"github.com/phoebe-sched/phoebe/probe/histogram"
)

// Measure is one thing that is measured.
type Measure uint8

// The phases of a task follow each other from the moment at which it could start, and end with its outcome here.
const (
	Sampling Measure = iota // until its first places were asked for, or it was decided where it goes
	Link                    // until the worker had that
	Queue                   // until its turn came at the worker
	Binding                 // until the frontend's answer to that was on its way
	Launch                  // until it started
	Run
	Delivery // until the frontend had the outcome
	Response // of a job
	Slowdown // of a job: its response over the longest chain of runs of its tasks, in units of One
	Measures = iota
)

// Phases is how many of the measures are phases of a task: the first ones.
const Phases = int(Delivery) + 1

// One is a slowdown of 1.
const One = time.Millisecond

var measureNames = [Measures]string{"sampling", "link", "queue", "binding", "launch", "run", "delivery", "response", "slowdown"}

func (m Measure) String() string { return measureNames[m] }

// Key tells whose measures are counted together.
type Key struct{ Path, Policy, Tenant string }

// Other stands for all tenants, and for all policies, that have no series of their own.
const Other = "other"

// series are the histograms of a key; those that have counted nothing are nil.
type series [Measures]*histogram.Histogram

func (s *series) addTime(m Measure, d time.Duration, times uint64) {
	if s[m] == nil {
		s[m] = new(histogram.Histogram)
	}
	s[m].AddTimes(d, times)
}

func (s *series) countAll() (n uint64) {
	for _, h := range s {
		if h != nil {
			n += h.Count
		}
	}
	return n
}

func (s *series) mergeFrom(o *series) {
	for m, h := range o {
		if h == nil || h.Count == 0 {
			continue
		}
		if s[m] == nil {
			s[m] = new(histogram.Histogram)
		}
		s[m].Merge(h)
	}
}

// appendPacked appends the histograms, one behind the other.
func (s *series) appendPacked(b []byte) []byte {
	for _, h := range s {
		b = h.Append(b)
	}
	return b
}

// mergePacked adds what was packed, and reports whether it was.
func (s *series) mergePacked(b []byte) (ok bool) {
	for m := range s {
		if s[m] == nil {
			s[m] = new(histogram.Histogram)
		}
		if b, ok = s[m].MergeFrom(b); !ok {
			return false
		}
	}
	return true
}

func (s *series) clearAll() {
	for _, h := range s {
		if h != nil && h.Count > 0 {
			*h = histogram.Histogram{}
		}
	}
}

func (s *series) eachMeasure(key Key, do func(Key, Measure, *histogram.Histogram)) {
	for m, h := range s {
		if h != nil && h.Count > 0 {
			do(key, Measure(m), h)
		}
	}
}

func (k Key) compareTo(o Key) int {
	return cmp.Or(cmp.Compare(k.Path, o.Path), cmp.Compare(k.Policy, o.Policy), cmp.Compare(k.Tenant, o.Tenant))
}
