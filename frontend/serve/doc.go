// Package serve is the shell around frontend.Core: the Thrift API by Kitex, a link to each worker by fastrpc,
// timers and metrics. The shell takes no scheduling decision.
//
// One mutex guards the core. An API call, a frame from a worker or a timer is an event. The goroutine with the
// event locks, steps the core, carries out the actions and unlocks. No goroutine hands work to another on the way.
// Messages are appended to the links' outboxes, and fastrpc's writers flush the outboxes, so a loaded connection
// batches by itself.
//
// The shell learns workers and frontends from lists, from gossip, or from lists and gossip. The type fleet is this
// frontend's part in package gossip. The fleet takes workers' heartbeats, and serves as a list of workers like the
// other lists.
package serve
