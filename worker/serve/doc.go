// Package serve is a worker: frontends connect to the worker, and the worker runs their tasks. The command phoebe
// worker consists of this package and flags. A program with functions of its own embeds this package.
//
// # A worker in a program of one's own
//
//   - Functions. Make a registry by exec.NewRegistry. Give Registry.Use the wrappers of all functions, and then
//     register the functions by exec.Register or Registry.Register. The registry must be complete before [New].
//     Package exec describes what functions may ask for, and how functions fail.
//   - Configuration. [Config] needs the Registry and an address in Listen. Join names the heartbeat addresses of
//     some frontends, and all frontends then find the worker. Without Join, the list of each frontend must name
//     the worker. Beyond loopback the worker needs a Secret, or Keys. Tasks with files need CacheDir, and so do
//     outputs and results too large for a message. Core.Capacity is the CPU and memory that all tasks together
//     may take. The rest must be enough for the program itself: Go functions share its process, and only the
//     demands of tasks bound them. Set Goroutines unless thousands of frontends connect.
//     Config.Validate reports all errors at once, and so does New.
//   - [New], then [Server.Start]. Start returns when the worker listens. Jobs find the worker's functions as soon
//     as a frontend has connected; [Server.Ready] does not wait for frontends. A process may run many workers,
//     each with a Name and a CacheDir of its own.
//   - While the worker runs, [Server.Done] tells when it serves no more, and [Server.Err] tells the reason.
//     Logger and Metrics tell what the worker does.
//   - The end. [Server.Drain] refuses new work, and returns when all tasks have ended and all results have
//     arrived. Then call [Server.Close]. Without Drain, Close kills running tasks, and frontends run the tasks
//     elsewhere. Close is always needed, even after an error of Start. To test that an engine survives the loss
//     of a worker, close a worker in the middle of a task.
//
// For tests, package client/local starts workers with a registry, and frontends, in a single call.
//
// # How it is made
//
// Package serve is the shell around [worker.Core].
//
// A mutex guards the core. An event comes from an event loop with messages of a frontend, from an executor at the
// end of a task, or from the alarm. The goroutine with the event locks the mutex, steps the core, carries out the
// actions, and unlocks. No action blocks. After the unlock, the same goroutine encodes and writes the messages of
// the core, in as few frames and writes as possible. A connection has a single writer at a time. Messages of
// other goroutines meanwhile wait in the outbox for the writer's next round. If a socket does not take all bytes
// at once, the event loop writes the rest.
//
// After the core's Fetch, goroutines fetch the files of tasks, a bounded number at a time. The tasks hold the
// files in the cache until the core's Release. A second listener serves the cache to other workers. A worker
// without a cache says so in its Welcome, and gets no task with files.
//
// In the files: server.go owns the core, and parse.go cuts the bytes of a connection into frames. The state of a
// connection, on any transport, is in conn.go. The transport of gnet is in engine.go. The transport with a
// goroutine for each connection is in streams.go. The shell's part in the transfer of files is in files.go.
package serve
