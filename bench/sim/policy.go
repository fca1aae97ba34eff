package sim

import (
	"fmt"
	"strings"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
)

// Policy says who places the tasks of a run: a policy of the frontends, or a rival.
type Policy struct {
	Name           string
	frontend       frontend.Policy
	mode           estimate.Mode
	strictLocality bool   // tasks with inputs run only on hosts of their inputs
	rival          *rival // nil: the frontends place tasks
}

// withoutCancel is late binding without cancellation: surplus places stay in the queues, and are declined at
// their turns.
var withoutCancel = frontend.Policy{Name: "late-binding-no-cancel"}

// Policies returns the policies known to ParsePolicy by name. The policy estimation places all tasks by
// estimation. The policy strict-locality does the same, but only on hosts of the task's inputs.
func Policies() []Policy {
	var all []Policy
	for _, p := range frontend.Policies {
		all = append(all, Policy{Name: p.Name, frontend: p})
		if p.Name == "late-binding" {
			all = append(all, Policy{Name: withoutCancel.Name, frontend: withoutCancel})
		}
	}
	for _, name := range []string{"estimation", "strict-locality"} {
		p := Policy{Name: name, frontend: frontend.Policies[0], mode: estimate.Estimate,
			strictLocality: name == "strict-locality"}
		p.frontend.Name = name
		all = append(all, p)
	}
	for i := range rivals {
		all = append(all, Policy{Name: rivals[i].name, rival: &rivals[i]})
	}
	return all
}

// PolicyNames returns the names of Policies.
func PolicyNames() []string {
	var names []string
	for _, p := range Policies() {
		names = append(names, p.Name)
	}
	return names
}

// ParsePolicy finds a policy by name. After the name of a policy that binds late, parts of the policy may be
// turned off and on: phoebe-overlap-sticky, late-binding+ridealong.
func ParsePolicy(text string) (Policy, error) {
	var policy Policy
	for _, p := range Policies() {
		if text == p.Name {
			return p, nil
		}
		if rest, ok := strings.CutPrefix(text, p.Name); ok && strings.ContainsAny(rest[:1], "+-") &&
			len(p.Name) > len(policy.Name) {
			policy = p
		}
	}
	if policy.Name == "" || policy.rival != nil || policy.frontend.Binding != frontend.Late {
		return Policy{}, fmt.Errorf("policy %q is unknown: use one of %q", text, PolicyNames())
	}
	var err error
	if policy.frontend, err = policy.frontend.With(text[len(policy.Name):]); err != nil {
		return Policy{}, err
	}
	policy.Name = text
	return policy, nil
}

// mayEstimate reports whether any task may be placed by estimation.
func (p *Policy) mayEstimate() bool {
	return p.rival == nil && (p.mode == estimate.Estimate || p.frontend.Route)
}

// usesProbeRatio reports whether the probe ratio changes anything for p.
func (p *Policy) usesProbeRatio() bool {
	return p.rival == nil && p.frontend.Binding != frontend.EarlyRandom
}
