package place

import (
	"fmt"
	"slices"
	"strings"
)

// Binding says when a task is given to a worker.
type Binding uint8

const (
	Late         Binding = iota // when a reserved place's turn has come
	EarlyRandom                 // at once, each to another random worker
	EarlyPerTask                // to the shortest of each task's own d sampled queues
	EarlyBatch                  // to the m shortest of the job's d*m sampled queues
)

// Policy is how a job's tasks are placed. The fields after Binding concern late binding only.
type Policy struct {
	Name    string
	Binding Binding

	Cancel    bool // withdraw the places that are left when no task waits any more
	RideAlong bool
	Informed  bool
	Sticky    bool
	Overlap   bool // with an estimate, or where the function's tasks have all taken nearly the same
	Share     bool // a turn that its own job needs no more goes to another job that waits
	Bundle    bool // several tasks to one turn, if they are so short that asking for each would take longer
	Resample  bool
	Seniority bool // tasks of later stages wait where they would if they had come with their job
	Near      bool // tasks go where their inputs are, if that is worth the wait
	Route     bool // in mode auto, tasks that are long or care where they run are placed by estimation
}

// Policies are those that a job can name. The first is the default.
var Policies = []Policy{
	{Name: "phoebe", Cancel: true, RideAlong: true, Informed: true, Sticky: true, Overlap: true, Share: true, Bundle: true, Resample: true, Seniority: true, Near: true, Route: true},
	{Name: "late-binding", Cancel: true},
	{Name: "batch", Binding: EarlyBatch},
	{Name: "per-task", Binding: EarlyPerTask},
	{Name: "random", Binding: EarlyRandom},
}

// ParsePolicy finds a policy by name. Behind the name of one that binds late, parts of it may be turned off and on:
// phoebe-overlap-sticky, late-binding+ridealong.
func ParsePolicy(text string) (Policy, error) {
	for _, p := range Policies {
		if text == p.Name {
			return p, nil
		}
	}
	names := make([]string, 0, len(Policies))
	for _, p := range Policies {
		if parts, ok := strings.CutPrefix(text, p.Name); ok && p.Binding == Late && strings.ContainsAny(parts[:1], "+-") {
			return p.With(parts)
		}
		names = append(names, p.Name)
	}
	return Policy{}, fmt.Errorf("policy %q is unknown: use one of %q", text, names)
}

// With is a policy that differs from p, which binds late, in some parts: -overlap+resample has one less, and one more.
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
			return Policy{}, fmt.Errorf("policy %q: %s has no part %q: its parts are %s", q.Name, p.Name, name, strings.Join(Parts, ", "))
		}
		*part = rest[0] == '+'
		rest = rest[1+len(name):]
	}
	return q, nil
}

// Parts are the names of what With turns off and on.
var Parts = []string{"cancel", "ridealong", "informed", "sticky", "overlap", "share", "bundle", "resample", "seniority", "near", "route"}

// Part is whether p has a part, to be read or changed; nil: there is none of that name.
func (p *Policy) Part(name string) *bool {
	all := [...]*bool{&p.Cancel, &p.RideAlong, &p.Informed, &p.Sticky, &p.Overlap, &p.Share, &p.Bundle, &p.Resample, &p.Seniority, &p.Near, &p.Route}
	if i := slices.Index(Parts, name); i >= 0 {
		return all[i]
	}
	return nil
}
