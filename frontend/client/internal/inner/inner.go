// Package inner holds what packages client and admin share, and programs do not see.
package inner

import (
	"context"
	"math"

	v1 "github.com/phoebe-sched/phoebe/idl/gen/phoebe/v1"
)

// Package client sets the variables at its start. Their arguments and results of type any are values of package
// client, which inner cannot import.
var (
	// Ask makes a call with rpc at the frontends of a *client.Client, one by one, until a frontend answers or refuses.
	// An rpc returns false if the answer is empty.
	Ask func(ctx context.Context, client any, rpc func(context.Context, v1.Phoebe, *v1.Caller) (bool, error)) error
	// Summary converts a job to a client.JobSummary.
	Summary func(*v1.JobSummary) any
	// Worker converts a worker to a client.Worker.
	Worker func(*v1.WorkerStatus) any
	// Trace converts the answer to a question about the tasks from a position on, to a *client.Trace.
	Trace func(resp *v1.TraceResponse, from int) (any, error)
)

// ClampInt32 limits n to the numbers from 0 to the largest int32.
func ClampInt32(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }
