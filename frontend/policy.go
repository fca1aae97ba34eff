package frontend

import "github.com/phoebe-sched/phoebe/frontend/place"

// Policy says how the tasks of a job are placed: see package place.
type Policy = place.Policy

// The bindings that other packages compare with; see [place.Binding].
const (
	Late        = place.Late
	EarlyRandom = place.EarlyRandom
)

// Policies are the policies that a job can name. The first is the default.
var Policies = place.Policies

// PolicyParts are the names of the parts that can be turned off and on in a policy with late binding.
var PolicyParts = place.Parts

// ParsePolicy finds a policy by name, perhaps with parts turned off and on.
func ParsePolicy(name string) (Policy, error) { return place.ParsePolicy(name) }
