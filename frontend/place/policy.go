package place

import "fmt"

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

// ParsePolicy finds a policy by name.
func ParsePolicy(name string) (Policy, error) {
	names := make([]string, 0, len(Policies))
	for _, p := range Policies {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Policy{}, fmt.Errorf("policy %q is unknown: use one of %q", name, names)
}
