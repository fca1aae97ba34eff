package view

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/phoebe-sched/phoebe/probe"
)

// Need is the demand of a kind of task on its worker.
type Need struct {
	Function                      string
	Demand                        probe.Demand
	Files                         bool // the task needs files, so the worker needs a cache
	Features                      probe.Features
	JobConstraint, TaskConstraint Constraint // constraints of the task's job, and of the task itself
}

// Key returns a text that is equal for equal needs only.
func (n *Need) Key() string {
	if len(n.JobConstraint.Labels)+len(n.JobConstraint.Hosts)+len(n.TaskConstraint.Labels)+len(
		n.TaskConstraint.Hosts) == 0 && !n.Files && n.Features == 0 &&
		n.Demand == probe.Slot {
		return n.Function
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\x00%d\x00%d\x00%t\x00%x", n.Function, n.Demand.CPU, n.Demand.Mem, n.Files, n.Features)
	for _, part := range [][]string{n.JobConstraint.Labels, n.JobConstraint.Hosts, n.TaskConstraint.Labels,
		n.TaskConstraint.Hosts} {
		b.WriteByte(0)
		for _, s := range part {
			b.WriteByte(1)
			b.WriteString(s)
		}
	}
	return b.String()
}

// isMetBy reports whether w has the function, capacity, cache, features and labels for n.
func (n *Need) isMetBy(w *Worker) bool {
	m := &w.welcome
	return w.functions[n.Function] && n.Demand.Fits(m.Capacity) && (!n.Files || w.HasCache()) && w.Has(n.Features) &&
		n.JobConstraint.Matches(m.Labels, m.Host, m.Worker) && n.TaskConstraint.Matches(m.Labels, m.Host, m.Worker)
}

// Set is the set of workers that are up and may run a kind of task.
type Set struct {
	need      Need
	workers   []*Worker    // in no order: sampling shuffles the slice
	leastOpen probe.Demand // least demand open to long tasks, over all workers ever in the set
	isSmall   bool         // Has searches workers, and member stays empty: a job may name many small sets
	member    []bool       // by Key; empty if isSmall
}

// MaxSets is the number of sets from which the view looks for unused sets. It looks again when the number has
// doubled since the last time.
const MaxSets = 256

// Set returns the set of the workers that meet the need with this key, or nil if there is no set yet.
func (v *View) Set(key string) *Set { return v.sets[key] }

// MakeSet makes the set of the workers that meet need n with this key. If there are too many sets, the view drops
// the sets for which used returns false. The view does not keep an empty set.
func (v *View) MakeSet(key string, n Need, used func(*Set) bool) *Set {
	if len(v.sets) >= max(MaxSets, v.sweepSetsAt) {
		maps.DeleteFunc(v.sets, func(_ string, s *Set) bool { return !used(s) })
		v.sweepSetsAt = 2 * len(v.sets)
	}
	s := &Set{need: n}
	if hosts := slices.Concat(n.JobConstraint.Hosts, n.TaskConstraint.Hosts); len(hosts) > 0 {
		s.isSmall = len(hosts) <= 4
		for _, at := range hosts {
			for _, key := range v.fleet.WorkersNamed(at) {
				if w := v.workers[key]; w.state == Up {
					s.addWorker(w)
				}
			}
		}
	} else {
		for _, w := range v.workers {
			if w != nil && w.state == Up {
				s.addWorker(w)
			}
		}
	}
	if len(s.workers) > 0 {
		v.sets[key] = s
	}
	return s
}

// TakeChangedSets returns the sets that became empty, or got their first worker, since the last call. The slice is
// valid until the next link is made or broken.
func (v *View) TakeChangedSets() []*Set {
	changed := v.changedSets
	v.changedSets = v.changedSets[:0]
	return changed
}

// Has, Len and At make a Set a Pool of package estimate.
func (s *Set) Has(key int32) bool {
	if s.isSmall {
		return slices.ContainsFunc(s.workers, func(w *Worker) bool { return int32(w.Key) == key })
	}
	return int(key) < len(s.member) && s.member[key]
}
func (s *Set) Len() int       { return len(s.workers) }
func (s *Set) At(i int) int32 { return int32(s.workers[i].Key) }

// LeastOpen returns a demand that is open to long tasks at each of the workers: the least of all workers ever in
// the set.
func (s *Set) LeastOpen() probe.Demand { return s.leastOpen }

// TaskConstraint returns the constraint of the tasks themselves, without their job's. Read-only.
func (s *Set) TaskConstraint() Constraint { return s.need.TaskConstraint }

// Contains reports whether w is in the set.
func (s *Set) Contains(w *Worker) bool { return s.Has(int32(w.Key)) }

// Among returns the workers of s with one of the keys, as a new set that the view does not keep up to date.
func (v *View) Among(s *Set, keys []int32) *Set {
	some := &Set{isSmall: true}
	for _, key := range keys {
		if s.Has(key) {
			some.workers = append(some.workers, v.workers[key])
		}
	}
	return some
}

// Workers returns the workers of the set, in no order. Read-only. Draw changes the order.
func (s *Set) Workers() []*Worker { return s.workers }

// Draw moves a random worker from position i or later to position i, and returns it. So k calls sample k distinct
// workers.
func (s *Set) Draw(i int, rng *rand.Rand) *Worker { return drawWorker(s.workers, i, rng) }

// addWorker adds w if w meets the need. It reports whether w is now the only worker.
func (s *Set) addWorker(w *Worker) (first bool) {
	if s.Contains(w) || !s.need.isMetBy(w) {
		return false
	}
	if !s.isSmall {
		for int(w.Key) >= len(s.member) {
			s.member = append(s.member, false)
		}
		s.member[w.Key] = true
	}
	open := w.AlwaysOpen()
	if s.leastOpen == (probe.Demand{}) {
		s.leastOpen = open
	}
	s.leastOpen = probe.Demand{CPU: min(s.leastOpen.CPU, open.CPU), Mem: min(s.leastOpen.Mem, open.Mem)}
	s.workers = append(s.workers, w)
	return len(s.workers) == 1
}

// removeWorker removes w. It reports whether w was the last worker.
func (s *Set) removeWorker(w *Worker) (last bool) {
	if !s.Contains(w) {
		return false
	}
	if !s.isSmall {
		s.member[w.Key] = false
	}
	i := slices.Index(s.workers, w)
	s.workers[i] = s.workers[len(s.workers)-1]
	s.workers = s.workers[:len(s.workers)-1]
	return len(s.workers) == 0
}
