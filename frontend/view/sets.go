package view

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/phoebe-sched/phoebe/probe"
)

// Need is what a kind of task asks of the worker that runs it.
type Need struct {
	Function                      string
	Demand                        probe.Demand
	Files                         bool // it needs some, which a cache is for
	Features                      probe.Features
	JobConstraint, TaskConstraint Constraint // of its job, and its own
}

// Key is equal for equal needs, and only for those.
func (n *Need) Key() string {
	if len(n.JobConstraint.Labels)+len(n.JobConstraint.Hosts)+len(n.TaskConstraint.Labels)+len(n.TaskConstraint.Hosts) == 0 && !n.Files && n.Features == 0 && n.Demand == probe.Slot {
		return n.Function
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\x00%d\x00%d\x00%t\x00%x", n.Function, n.Demand.CPU, n.Demand.Mem, n.Files, n.Features)
	for _, part := range [][]string{n.JobConstraint.Labels, n.JobConstraint.Hosts, n.TaskConstraint.Labels, n.TaskConstraint.Hosts} {
		b.WriteByte(0)
		for _, s := range part {
			b.WriteByte(1)
			b.WriteString(s)
		}
	}
	return b.String()
}

func (n *Need) isMetBy(w *Worker) bool {
	m := &w.welcome
	return w.functions[n.Function] && n.Demand.Fits(m.Capacity) && (!n.Files || m.Cache != "") && w.Has(n.Features) &&
		n.JobConstraint.Matches(m.Labels, m.Host, m.Worker) && n.TaskConstraint.Matches(m.Labels, m.Host, m.Worker)
}

// Set is the workers that are up and may run a kind of task.
type Set struct {
	need      Need
	workers   []*Worker    // in no order: sampling shuffles it
	leastOpen probe.Demand // that is open to long tasks at any worker that was ever in it
	isSmall   bool         // they are looked for among workers: a job may name many sets
	member    []bool       // by Key, of others
}

// MaxSets is from how many sets on those are looked for that nobody uses, each time there are twice as many as were left
// the last time.
const MaxSets = 256

// Set is the set of the workers that meet a need of that key, or nil if there is none yet.
func (v *View) Set(key string) *Set { return v.sets[key] }

// MakeSet makes the set of the workers that meet a need, whose key it is. If there are too many sets, those go that are
// not used.
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

// TakeChangedSets are the sets that have become empty, or have their first worker again, since it was asked last. It is good until
// the next link is made or broken.
func (v *View) TakeChangedSets() []*Set {
	turned := v.changedSets
	v.changedSets = v.changedSets[:0]
	return turned
}

// Has, Len and At make it a pool of package estimate.
func (s *Set) Has(key int32) bool {
	if s.isSmall {
		return slices.ContainsFunc(s.workers, func(w *Worker) bool { return int32(w.Key) == key })
	}
	return int(key) < len(s.member) && s.member[key]
}
func (s *Set) Len() int       { return len(s.workers) }
func (s *Set) At(i int) int32 { return int32(s.workers[i].Key) }

// LeastOpen is no more than what is open to long tasks at each of the workers.
func (s *Set) LeastOpen() probe.Demand { return s.leastOpen }

// TaskConstraint is what the tasks demand for themselves, besides what their job does. Nobody may write to it.
func (s *Set) TaskConstraint() Constraint { return s.need.TaskConstraint }

// Contains reports whether w is in the set.
func (s *Set) Contains(w *Worker) bool { return s.Has(int32(w.Key)) }

// Among is those of a set that have one of some keys, as a set of their own that is not kept up to date.
func (v *View) Among(s *Set, keys []int32) *Set {
	some := &Set{isSmall: true}
	for _, key := range keys {
		if s.Has(key) {
			some.workers = append(some.workers, v.workers[key])
		}
	}
	return some
}

// Workers are those of the set, in no order; nobody may write to it. Draw changes it.
func (s *Set) Workers() []*Worker { return s.workers }

// Draw moves a random one of the workers from i on to position i and returns it: so k calls sample k distinct ones.
func (s *Set) Draw(i int, rng *rand.Rand) *Worker { return drawWorker(s.workers, i, rng) }

// addWorker adds w if it may run such tasks. It reports whether it is the first that does.
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
	open := w.Open()
	if s.leastOpen == (probe.Demand{}) {
		s.leastOpen = open
	}
	s.leastOpen = probe.Demand{CPU: min(s.leastOpen.CPU, open.CPU), Mem: min(s.leastOpen.Mem, open.Mem)}
	s.workers = append(s.workers, w)
	return len(s.workers) == 1
}

// removeWorker takes w out. It reports whether it was the last one.
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
