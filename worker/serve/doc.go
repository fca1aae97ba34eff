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
// In the files: server.go owns the core, parse.go cuts a connection's bytes into frames, conn.go is the
// state of a connection on any transport, engine.go is gnet as a transport.
package serve
