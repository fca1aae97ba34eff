// Package serve is the shell around [worker.Core]: frontends connect to it, and it runs the tasks that the
// core starts.
//
// One mutex guards the core. Whoever has an event (an event loop with messages of a frontend, an executor
// with the end of a task, the alarm) locks it, steps the core, carries out the actions, none of which
// blocks, and unlocks; only then are the messages encoded and written, each connection's by its own event
// loop, as few frames and writes as possible.
//
// The files: server.go owns the core, parse.go cuts a connection's bytes into frames, conn.go is what a
// connection is told and says, engine.go ties both to gnet.
package serve
