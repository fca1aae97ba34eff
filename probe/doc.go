// Package probe holds what frontends and workers share: ids, units, the messages between them and
// their encoding. It does no I/O.
//
// One connection between a frontend and a worker, the link, carries everything between the two. A
// frame on it is a batch of messages under the link's [Epoch]; see [AppendFrame]. Nothing depends on
// the order of two messages, and any message may be lost with its connection: ids are never reused,
// a Cancel may come before its Reserve, and a periodic [Sync] repairs the rest.
//
// Words: a reservation is a place in a worker's queue held by a job, not yet by a task (Sparrow,
// section 3.3); its turn comes when a slot is free for it, which the worker tells with [Ready], and the
// frontend binds a task to it with [Bind], or declines with [Decline].
package probe
