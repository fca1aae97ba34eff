package place

import (
	"fmt"
	"slices"
	"strings"
)

// Binding says when a task is given to a worker.
type Binding uint8

const (
	Late         Binding = iota // at the turn of a reserved place (Sparrow, section 3.5)
	EarlyRandom                 // at once, each to a different random worker
	EarlyPerTask                // to the shortest of each task's own d sampled queues (section 3.2)
	EarlyBatch                  // to the m shortest of the job's d*m sampled queues (section 3.3)
)

// Policy says how a job's tasks are placed. The fields after Binding are the parts of late binding, described in
// package frontend.
type Policy struct {
	Name    string
	Binding Binding

	Cancel    bool // withdraw the remaining places when no task waits any more (section 3.6)
	RideAlong bool
	Informed  bool
	Sticky    bool
	Overlap   bool // for tasks with an estimate, or of a function with steady run times
	Share     bool // a turn that its own job no longer needs goes to another waiting job
	Bundle    bool // several tasks per turn, if asking for each would take longer than the tasks
	Resample  bool
	Seniority bool // tasks of later stages queue as if submitted with their job
	Near      bool // tasks go to their inputs, if worth the wait
	Route     bool // in mode auto, long tasks and tasks that need files or much data are placed by estimation
}

// Policies are the policies that a frontend knows by name. The first is the default. The API has names of its own for
// policies, in idl/phoebe.thrift.
var Policies = []Policy{
	{Name: "phoebe", Cancel: true, RideAlong: true, Informed: true, Sticky: true, Overlap: true, Share: true,
		Bundle: true, Resample: true, Seniority: true, Near: true, Route: true},
	{Name: "late-binding", Cancel: true},
	{Name: "batch", Binding: EarlyBatch},
	{Name: "per-task", Binding: EarlyPerTask},
	{Name: "random", Binding: EarlyRandom},
}

// ParsePolicy returns the policy of this name. The name of a late-binding policy may be followed by parts to turn
// off or on: phoebe-overlap-sticky, late-binding+ridealong.
func ParsePolicy(text string) (Policy, error) {
	for _, p := range Policies {
		if text == p.Name {
			return p, nil
		}
	}
	names := make([]string, 0, len(Policies))
	for _, p := range Policies {
		if parts, ok := strings.CutPrefix(text, p.Name); ok && p.Binding == Late &&
			strings.ContainsAny(parts[:1], "+-") {
			return p.With(parts)
		}
		names = append(names, p.Name)
	}
	return Policy{}, fmt.Errorf("policy %q is unknown: use one of %q", text, names)
}

// With returns p, a late-binding policy, with some parts changed: -overlap+resample turns overlap off and resample
// on.
func (p Policy) With(parts string) (Policy, error) {
	q := p
	q.Name += parts
	for rest := parts; rest != ""; {
		name := rest[1:]
		if end := strings.IndexAny(name, "+-"); end >= 0 {
			name = name[:end]
		}
		part := q.Part(name)
		if part == nil {
			return Policy{}, fmt.Errorf("policy %q: %s has no part %q: its parts are %s", q.Name, p.Name, name,
				strings.Join(Parts, ", "))
		}
		*part = rest[0] == '+'
		rest = rest[1+len(name):]
	}
	return q, nil
}

// Parts are the names of the parts that With turns off and on.
var Parts = []string{"cancel", "ridealong", "informed", "sticky", "overlap", "share", "bundle", "resample",
	"seniority", "near", "route"}

// Part returns a pointer to the part of this name, to be read or changed; nil: no part has the name.
func (p *Policy) Part(name string) *bool {
	all := [...]*bool{&p.Cancel, &p.RideAlong, &p.Informed, &p.Sticky, &p.Overlap, &p.Share, &p.Bundle, &p.Resample,
		&p.Seniority, &p.Near, &p.Route}
	if i := slices.Index(Parts, name); i >= 0 {
		return all[i]
	}
	return nil
}
