// Package client runs jobs on a phoebe cluster from a Go program.
//
// A job is a set of tasks. Each task calls a function that the cluster's workers have registered under a name:
//
//	c, err := client.New([]string{"127.0.0.1:7410"}) // any frontend, for instance of phoebe dev
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer c.Close()
//	ctx := context.Background()
//	if err := c.Ping(ctx); err != nil { // a wrong address, secret or certificate is known at once
//		log.Fatal(err)
//	}
//	outcomes, err := c.Run(ctx, client.Job{Tasks: []client.Task{
//		{Function: "echo", Payload: []byte("hello")},
//		{Function: "echo", Payload: []byte("again")},
//	}})
//	if err != nil {
//		log.Fatal(err) // the type of the error says what happened
//	}
//	for _, o := range outcomes {
//		fmt.Println(o.Task, string(o.Result))
//	}
//
// Application developers need only this page down to the author of an engine. Operators' calls are in package
// client/admin.
//
// # Usage
//
// A program needs one [Client]. [Client.Run] waits for the job and returns one [Outcome] for each [Task], in the order
// of Job.Tasks.
//
// If you want each result as soon as its task ends, call [Client.Submit], and read the results from the [Running]
// job:
//
//	running, err := c.Submit(ctx, job)
//	if err != nil {
//		return err
//	}
//	for outcome, err := range running.Results() {
//		if err != nil {
//			return err
//		}
//		fmt.Printf("task %d: %s\n", outcome.Task, outcome.Result)
//	}
//
// Next look at the error. Its type says what happened (use errors.As):
//
//   - [*TaskError]: a task ended without a result. Reason says why.
//   - [*RefusedError]: a frontend refused the job, and nothing was started. Reason says what to do.
//   - [*UnfinishedError]: the client gave up. The named tasks may or may not have run. If a frontend refused the job
//     after its start, Err is a [*LateRefusalError].
//
// [ErrClosed] (use errors.Is) says that the client was closed. The examples of [Client.Run] and [RefusedError] tell
// the errors apart.
//
// To cancel a job, end the context that you gave to Run or Submit, or call [Running.Cancel].
//
// # Functions of Go values
//
// A program that also owns the functions declares each function once, with Go types, in a package that workers and
// clients import (package idl/typed):
//
//	var Area = typed.Func[Resize, Size]{Name: "area"}
//
// The worker registers Area by exec.Register. Clients use [Call] for one call, [Map] for many calls with results in
// order, and [Stream] for results as they come:
//
//	size, err := client.Call(ctx, c, Area, Resize{Width: 3, Height: 4})
//
// Values travel as JSON, as raw bytes, or in a codec of your choice. Errors of declared types come back with their
// types.
//
// # When a frontend fails
//
// You need no code for the failure of a frontend. A frontend keeps a job only in memory, so the client keeps the job,
// too, with the results that have arrived. If the frontend dies, hangs or leaves, the client takes the unfinished
// tasks to another frontend, under the same job id. The new frontend claims the attempts that still run, so they do
// not run again. You see only the delay. Each task's outcome reaches you once.
//
// # Jobs of several processes
//
// A job ends with its client, unless other processes have the job, too. If two processes submit a job with the same
// [Job].Key, they share one job, and nothing runs twice. [Running.Leave] hands a job over without cancelling it, and
// [Client.Attach] follows the job in another process. In between, the job goes on for [Job].Grace.
// The example of [Client.Attach] has all four.
//
// A program that may be killed stores each outcome by [WithStore], before the cluster may forget the outcome. The next
// run of the program submits the job again with the same Key, and with the stored tasks in [Job].Stored. The example of
// [WithStore] is such a program, with a file. The program in bench/sqlite has a SQLite file.
//
// # For the author of an engine
//
// An engine has two programs. The workers embed package worker/serve and register the engine's functions. The planner
// takes queries, plans them, and runs the fragments with this package. The list follows the order in which an author
// meets the questions. The names in parentheses are runnable examples, in this package unless a package is named.
//
//   - Functions (worker/exec: Register, Registry.Use, Task). An exec.Registry holds the functions that a worker
//     runs. exec.Register adds a function of Go values, and [NewTask] makes a task of such a function. Registry.Use
//     wraps every function in shared code, such as logging. In a function, exec.Task describes the running task.
//   - Workers (worker/serve). serve.New and Server.Start turn a program into a worker. In tests, localtest.New
//     (client/local/localtest) runs a whole cluster with the same functions in one process.
//   - Jobs ([Client.Run], [Client.Submit]). Job.Tenant names the tenant that the job runs for. Job.Deadline bounds
//     the job's time.
//   - Stages (Stage; worker/exec: Common). A [Stage] starts when all stages in its After have results. Put data that
//     all tasks of the stage need, such as the plan, into Common. Common reaches each worker once for the job, and
//     functions read it with exec.Common. With Along, a task waits only for the tasks of its own partition in the
//     earlier stage (Stage, along).
//   - Data between stages (Input; worker/exec: Output). A function writes into a partition with exec.Output. A task
//     of a later stage names stage and partition in an [Input], and reads the data with exec.Inputs. Small data
//     travels inline. Workers fetch larger data from each other as files. If a worker dies with a file, the task that
//     wrote the file runs again, unless it is Once. So if a function cannot open an input, let it return the error:
//     phoebe tries the task again when the input is back.
//   - Where tasks run (Client.Locate). If an [Input] names its Copies, phoebe runs the task near them, as long as
//     waiting there costs less than reading from elsewhere. Short tasks are still placed by sampling. A [Constraint]
//     says where a task must run. A [File] must be on the worker's disk before the task starts. [Client.Locate] tells
//     which workers already have a file.
//   - How many tasks (Client.Workers). [Client.Workers] lists the workers, so that the engine counts slots.
//   - How long tasks run (Task, class). Set [Task].Estimate if you know the run time. Otherwise phoebe learns run
//     times for each function. If one function runs all fragments, set [Task].Class, for instance to a query's
//     fingerprint with its stage: phoebe then learns run times for each class.
//   - Work that may wait (Class). A [Spare] job's tasks start only where no regular task can. If a regular task needs
//     the room, the spare task is stopped and tried again. Against stragglers you need do nothing: a late task gets
//     a copy on another worker, and the first attempt to end counts (phoebe frontend --copies). A Once task may
//     not run twice, so phoebe neither stops nor copies Once tasks.
//   - Results (Running.Next). [Running.Next] returns one result at a time, under a context. [Job].Window limits how
//     many bytes of unread results the client holds. The rest stays at the frontend. If too much stays there, the
//     frontend starts no more of the job's tasks until you read. So you may read a huge result slowly, and no row is
//     lost.
//   - Large results (Client.Open). With [Job].LargeResults, a task's result may have any size. The function writes
//     with exec.ResultWriter, the result becomes a file in the worker's cache, and [Client.Open] reads the file part
//     by part, in little memory.
//   - Plans that grow (Running.Extend). If a [Job] is Open, [Running.Extend] adds stages and tasks while the job
//     runs, as soon as you know what they depend on. After [Running.Seal] the job ends with its tasks.
//   - Early ends (Running.CancelTasks, Running.Satisfied). [Running.CancelTasks] ends tasks that you no longer want.
//     [Running.Satisfied] ends the whole job without an error, for instance when a LIMIT is reached.
//   - Failures (TaskError; worker/exec: Error). A function fails with an exec.Error to report a code, a detail, and
//     where to try again. With exec.Permanent the function forbids further tries. [Task].Retries says how often phoebe
//     tries again, and Backoff how long phoebe waits first. Code, detail and retry come back in the [TaskError].
//   - Where the time went (WithTracer, Client.Trace). [WithTracer] makes a span of each job, and exec.Traced in the
//     workers makes a span of each function call. All belong to the trace of the caller's context, because the job
//     carries the context's traceparent. For other tracing code, exec.Task has the traceparent, too. You need no
//     tracer for the rest: [Client.Trace] shows the history of each task, [Client.Explain] shows each decision with
//     its reason, and Job.Phases adds to each outcome the times of its attempt's phases.
package client
