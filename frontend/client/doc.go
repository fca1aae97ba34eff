// Package client is the Go SDK: it runs jobs on a phoebe cluster.
//
// A [Client] knows the addresses of several frontends, any of which takes any job. A frontend keeps a job
// only in memory, so the client holds the job and the results it has: if the frontend dies, hangs or
// leaves, the client brings what is unfinished to another one under the same job id, and attempts that
// still run are claimed there, not run again. Callers see none of this but the delay; each task's outcome
// reaches them once.
//
// [Client.Run] is for jobs whose results are wanted together, [Client.Submit] for those whose results are
// wanted as they come. Ending the context cancels the job.
//
// A job may have stages, whose tasks wait for those of others, and tasks may name inputs and files: phoebe then places
// them where they are expected to be done first. [Client.Explain] tells what was decided, and why.
//
// Errors are of these types, for errors.As: [*RefusedError] (nothing was started), [*TaskError] (a task
// ended without a result), [*UnfinishedError] (the client gave up: what became of the named tasks is not
// known). [ErrClosed] is for errors.Is.
package client
