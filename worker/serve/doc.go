// Package serve is the shell around [worker.Core]: frontends connect to it, and it runs the tasks that the
// core starts.
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
