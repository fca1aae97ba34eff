// Package client is the Go SDK: it runs jobs on a phoebe cluster.
//
// # Jobs
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
// # For the author of an engine
//
// An engine has two programs: workers that embed package worker/serve and register their functions, and whoever takes
// queries, plans them and has this package run the fragments. Here is what such an author needs, in that order. The names in
// parentheses are of runnable examples, in this package unless they say where.
//
//   - Functions (worker/exec: Register, Registry.Use, Task). exec.Registry names what workers run, exec.Register takes functions of Go
//     values, Registry.Use puts around all of them what they have in common. exec.Task tells a function of its task.
//   - Workers (worker/serve). serve.New and Server.Start make a worker of any program. Package client/local runs a whole cluster, with the
//     same functions, in tests.
//   - A job ([Client.Run], [Client.Submit]) is tasks that call functions. Its Tenant says for whom it is, its Deadline how long
//     anybody waits for it.
//   - Stages (Stage; worker/exec: Common). A [Stage] starts when those in its After have results. What all its tasks need, such as the
//     plan, is its Common: it reaches each worker once for the job, and functions by exec.Common.
//     Along says where a task need not wait for a whole stage, but for the tasks of its own partition there (Stage, along).
//   - What stages pass on (Input; worker/exec: Output). A function writes by exec.Output into a partition, and the tasks of later stages that
//     name stage and partition in an [Input] read it by exec.Inputs: inline if it is small, else as files that workers fetch from each
//     other. If a worker dies with such a file, the task that made it runs again, unless it is Once: a function that cannot open an
//     input returns that error, and is tried again when there is one.
//   - Where tasks run (Client.Locate). A task that names its [Input]s with their Copies goes near them, as long as waiting for that costs
//     less than reading from elsewhere, and a short one is still sampled. [Constraint] says where it must run, [File] what must
//     be on the worker's disk before, and [Client.Locate] which workers have such files.
//   - How long tasks run (Task, class). [Task].Estimate says what is known. What is not is learnt, for all tasks of a function, or, where
//     one function runs everything, for each of its classes: [Task].Class is a query's fingerprint with its stage.
//   - What may wait (Class). A job that is [Spare] starts only where nothing regular can, and is stopped and tried again where it
//     stands in the way. Tasks that are late get a copy elsewhere without being asked for (phoebe frontend --copies), and the first one
//     to be done counts. What may not run twice is Once: it is neither stopped nor copied.
//   - Results (Running.Next). [Running.Next] takes them one by one under a context; with [Job].Window, no more of them come to the
//     client than it has room for. What it does not take stays at the frontend, and where that is too much, no more tasks of the job
//     start until it has: a result of any number of rows may be read slowly, and none is lost.
//   - Large results (Client.Open). Where [Job].LargeResults says so, a task's result may be of any size: exec.ResultWriter writes it, it
//     becomes a file in its worker's cache, and [Client.Open] reads it part by part, in little memory.
//   - Plans that are made while they run (Running.Extend). To a [Job] that is Open, [Running.Extend] adds stages and tasks when what
//     they depend on is known; after [Running.Seal] it ends with its tasks.
//   - Enough (Running.CancelTasks, Running.Satisfied). [Running.CancelTasks] ends what is not wanted any more, and [Running.Satisfied] the
//     whole job without an error, such as when a LIMIT is reached.
//   - Failures (TaskError; worker/exec: Error). exec.Error tells code, detail and where to try again, exec.Permanent that it is of no
//     use; [Task].Retries is how often, Backoff how long before. All of it comes back in [TaskError].
//   - Why it took so long (WithTracer, Client.Trace). [WithTracer] and exec.Traced in the workers make spans of jobs and functions, which belong
//     to the trace of the caller's context: its traceparent travels with the job, and exec.Task has it for those who trace
//     otherwise. Without any tracer, [Client.Trace] tells what each task has been through, [Client.Explain] what was decided for it and
//     why, and Job.Phases when each outcome's attempt was where.
//
// # Errors
//
// Errors are of these types, for errors.As: [*RefusedError] (nothing was started), [*TaskError] (a task
// ended without a result), [*UnfinishedError] (the client gave up: what became of the named tasks is not
// known). [ErrClosed] is for errors.Is. The examples of [Client.Run] and [RefusedError] tell them apart.
package client
