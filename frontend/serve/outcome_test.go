package serve

import (
	"slices"
	"testing"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"

	"github.com/phoebe-sched/phoebe/frontend"
	"github.com/phoebe-sched/phoebe/frontend/estimate"
)

// In a job with phases, an outcome tells copies of late attempts and retries apart.
func TestOutcomeTellsCopiesAndRetries(t *testing.T) {
	o := frontend.Outcome{Attempts: 3, Earlier: []frontend.Earlier{
		{Way: frontend.WayLate, End: frontend.EndPreempted}, {Way: frontend.WayCopy, End: frontend.EndBeaten}}}
	var out v1.Outcome
	(&clientJob{wantsPhases: true}).fillOutcome(&out, nil, &o)
	if out.Copies != 1 || !slices.Equal(out.Retried, []v1.AttemptEnd{v1.AttemptEnd_PREEMPTED}) {
		t.Errorf("%d copies, retried after %v", out.Copies, out.Retried)
	}
}

// A decision on a task that never began tells so, and gives no reason for a path.
func TestDecisionTellsThatTaskNeverBegan(t *testing.T) {
	d := frontend.Decision{Why: estimate.Reason{Cause: estimate.ByBrevity}, Unbegun: true}
	if out := decisionToAPI(&d); out.Why != "" || out.Outcome != "never began" {
		t.Errorf("outcome %q, why %q", out.Outcome, out.Why)
	}
}
