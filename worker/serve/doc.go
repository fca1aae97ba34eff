// Package serve is a worker: frontends connect to it, and it runs the tasks that they send. The command phoebe worker is this
// package and flags. A program that has functions of its own to run embeds it.
//
// # A worker in a program of one's own
//
//   - Functions. Make a registry by exec.NewRegistry, and register them by exec.Register or Registry.Register, after what is to be around
//     all of them was given to Registry.Use. It must be complete before [New]. What functions may ask for and how they fail is in package exec.
//   - Configuration. [Config] needs the Registry and where to Listen. Join names the heartbeat addresses of some frontends, which
//     then find the worker by themselves; without it, it must be in the list of each frontend. Beyond loopback it takes a
//     Secret, or Keys. CacheDir is needed by tasks with files, and by outputs and results that are too large to travel.
//     Core.Capacity is how many CPUs and how much memory tasks may take together, which is to leave room for the program itself: Go
//     functions share its process, and nothing but the demands of tasks bounds them. Goroutines suits a worker that has not thousands of
//     frontends. Config.Validate says all that is wrong at once, as New does.
//   - [New], then [Server.Start], which returns when the worker listens. Jobs that call its functions find it as soon as a frontend
//     has connected, which [Server.Ready] does not wait for. Many workers may run in a process, each with a Name and a CacheDir of
//     its own.
//   - While it runs, [Server.Done] tells that it serves no more, and [Server.Err] why. Logger and Metrics say what it does.
//   - The end. [Server.Drain] takes nothing new, and returns when what runs has ended and its results have arrived; then
//     [Server.Close]. Without Drain, Close kills what runs, and frontends have it run elsewhere. Close is needed in any case, after an
//     error of Start, too. Closing it in the middle of a task is how to test that an engine survives the loss of a worker.
//
// For tests, package client/local starts workers with a registry, and frontends, in one call.
//
// # How it is made
//
// This is the shell around [worker.Core].
//
// One mutex guards the core. Whoever has an event (an event loop with messages of a frontend, an executor
// with the end of a task, the alarm) locks it, steps the core, carries out the actions, none of which
// blocks, and unlocks. Only then does the same goroutine encode and write what the core said, in as few
// frames and writes as possible: a connection has one writer at a time, and what others say meanwhile
// waits in its outbox for that writer's next round. What a socket does not take at once is left to the
// event loop.
//
// Files that tasks need are fetched by goroutines of their own, a bounded number at a time, from when the core says Fetch;
// the tasks hold them in the cache until it says Release. Another listener serves the cache to other workers. A worker
// without a cache says so in its Welcome, and frontends send it no task that needs files.
//
// In the files: server.go owns the core, parse.go cuts a connection's bytes into frames, conn.go is the state of a
// connection on any transport, engine.go is gnet as a transport, streams.go one with a goroutine for each connection,
// files.go is what the shell does about files.
package serve
