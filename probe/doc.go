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
//
// # Versions
//
// Hello and Welcome tell the [Dialect] that each end speaks, and both go on with what they have in common. So each
// release works with the one before it, and a fleet is upgraded one process after the other. What is written is thus only
// ever added to, and how much of it there is says which fields are there:
//
//   - A new field of a message is written after all others, and read only if there is more. What a Launch, a File or a
//     Load gets is written there, too, after the last field of the message that holds it: in its middle, an older peer
//     would take it for what follows. Without it, a message must mean what it meant before. What has other fields
//     in old places is a new message.
//   - A new message gets a new kind. A peer that does not know it skips and counts it.
//   - A new value of a [Status], a [Reason], or whatever else is refused if it is not known, is only sent to a peer with the
//     feature: so is a message or a field without which the peer would do something wrong. Define a bit of [Features],
//     set it in [Spoken], and keep what the peers have in common where it is needed.
//   - Then raise [Version], and have the tests write the corpus of the new one (go test -update, here and in gossip/view):
//     examples of what it writes, which all later releases are held against. A version that no release speaks yet
//     needs none of that: remove its corpus and write it again.
//   - Raise [MinVersion], and drop what only served the versions below it, when no release that speaks one of those
//     need be upgraded from any more.
//
// The same holds for heartbeats and gossip, and `make upgrade` tries all of it.
package probe
