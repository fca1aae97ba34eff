// Package serve is the shell around frontend.Core: the Thrift API by Kitex, a link to each worker by
// fastrpc, timers and metrics. It takes no scheduling decision.
//
// One mutex guards the core. Whoever has an event, be it an API call, a frame from a worker or a timer, locks,
// steps, carries out the actions and unlocks: nothing is handed from goroutine to goroutine on the way. What
// is to be sent is appended to the links' outboxes, which fastrpc's writers flush, so that a loaded
// connection batches by itself.
//
// Which workers and frontends there are comes from lists, or from gossip, or both: fleet is this frontend's part in
// package gossip, takes workers' heartbeats, and is a list of workers like the others.
package serve
