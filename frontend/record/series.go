package record

import (
	"cmp"
	"time"

	"github.com/phoebe-sched/phoebe/probe/histogram"
)

// Measure is a measured time.
type Measure uint8

// The phases of a task follow each other. The first begins when the task could start, and the last ends with the
// outcome at the frontend.
const (
	Sampling Measure = iota // until its first places were asked for, or a worker was chosen
	Link                    // until the worker had the request
	Queue                   // until the place's turn at the worker
	Binding                 // until the frontend's answer was on its way
	Launch                  // until the task started
	Run
	Delivery // until the frontend had the outcome
	Response // of a job
	Slowdown // of a job: the response over the longest chain of runs, in units of One
	Measures = iota
)

// Phases is the number of phases of a task. They are the first measures.
const Phases = int(Delivery) + 1

// One is a slowdown of 1.
const One = time.Millisecond

var measureNames = [Measures]string{"sampling", "link", "queue", "binding", "launch", "run", "delivery", "response",
	"slowdown"}

func (m Measure) String() string { return measureNames[m] }

// Key names the path, policy and tenant of a series; or the function of a series, see FunctionKey.
type Key struct{ Path, Policy, Tenant string }

// byFunction is the path in the keys of functions.
const byFunction = "function"

// FunctionKey is the key of a function's series. The series counts the phases of tasks, and the measures Whole and
// Failure.
func FunctionKey(name string) Key { return Key{Path: byFunction, Tenant: name} }

// Function returns the function that a key names. If the key names a path, policy and tenant, ok is false.
func (k Key) Function() (name string, ok bool) { return k.Tenant, k.Path == byFunction }

// The measures of functions beside the phases. Whole is the time of a task from its release to its result. Failure is
// the time of a task without a result.
const (
	Whole   = Response
	Failure = Slowdown
)

// Other stands for all tenants, policies and functions without series of their own.
const Other = "other"

// series holds the histograms of a key, by measure; nil: no counts.
type series [Measures]*histogram.Histogram

// addTime counts d as often as times says.
func (s *series) addTime(m Measure, d time.Duration, times uint64) {
	if s[m] == nil {
		s[m] = new(histogram.Histogram)
	}
	s[m].AddTimes(d, times)
}

// countAll returns the number of counts of all measures.
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

// appendPacked appends the packed histograms.
func (s *series) appendPacked(b []byte) []byte {
	for _, h := range s {
		b = h.Append(b)
	}
	return b
}

// mergePacked adds packed histograms. ok is false if b holds anything else.
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

// eachMeasure calls do with each histogram that has counts.
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
